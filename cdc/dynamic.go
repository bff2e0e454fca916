package cdc

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
)

// anySetter fills a variable of type any with what Row says its columns hold.
func anySetter(f format) setter {
	return func(dst reflect.Value, v value, w *wireType) *mismatch {
		if f.json && w == nil {
			w = &wireType{class: classJSON}
		}
		dynamic := dynamicValue
		if !f.element {
			dynamic = dynamicColumn
		}
		x, bad := dynamic(v, w)
		if x == nil || bad != nil {
			dst.SetZero()
			return bad
		}
		dst.Set(reflect.ValueOf(x))
		return nil
	}
}

// setRow fills a Row that is a field: an object whose members keep their order.
func setRow(dst reflect.Value, v value, w *wireType) *mismatch {
	return jsonText(format{}, func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindObject {
			return mismatchf("%v is no object", v.kind)
		}
		var row Row
		bad := eachMember(v, func(name string, member value) *mismatch {
			dynamic, bad := dynamicValue(member, w.field(name))
			row = append(row, Column{name, dynamic})
			return bad
		})
		dst.Set(reflect.ValueOf(row))
		return bad
	})(dst, v, w)
}

// dynamicColumn is dynamicValue for a whole column. There an object without a schema that has a scale and octets is a decimal:
// Debezium writes JSON as text, and the values of an hstore are never numbers.
func dynamicColumn(v value, w *wireType) (any, *mismatch) {
	if w == nil {
		if d, ok, bad := variableDecimal(v); ok && bad == nil {
			return d, nil
		}
	}
	return dynamicValue(v, w)
}

// dynamicValue returns a value as the Go type that says most about it: see Row. The schema's type is followed where the value is what
// it says, and ignored where it is not.
func dynamicValue(v value, w *wireType) (any, *mismatch) {
	switch v.kind {
	case kindNumber:
		return dynamicNumber(v, w), nil
	case kindString:
		return dynamicString(v, w)
	}
	if w.isObjectValue() {
		if d, ok, bad := variableDecimal(v); ok && w.class == classVariableDecimal {
			return d, bad
		}
		if structured, ok := dynamicStructured(v, w); ok {
			return structured, nil
		}
		w = nil
	}
	s := scanner{data: v.raw, maxDepth: len(v.raw)}
	return s.dynamic(w)
}

// dynamicStructured reads what the time mode structured writes.
func dynamicStructured(v value, w *wireType) (any, bool) {
	s, isStructured := readStructured(v)
	if !isStructured {
		return nil, false
	}
	switch w.class {
	case classStructuredInstant:
		t, ok := s.time()
		return t, ok
	case classStructuredClock:
		d, ok := s.clock()
		return d, ok
	case classStructuredDuration:
		i, ok := s.interval()
		return i, ok
	}
	return nil, false
}

func dynamicNumber(v value, w *wireType) any {
	switch w.of() {
	case classInstant:
		if n, ok := v.int64(); ok {
			return timeOf(n, w.unit)
		}
	case classClock, classDuration:
		if n, ok := v.int64(); ok {
			if d, ok := durationOf(n, w.unit); ok {
				return d
			}
			if i, ok := intervalOf(n, w.unit); ok {
				return i
			}
		}
	}
	return exactNumber(v)
}

// exactNumber returns int64, *big.Int, float64 or json.Number: the first that loses nothing.
func exactNumber(v value) any {
	if v.integer {
		if n, ok := v.int64(); ok {
			return n
		}
		if len(v.raw) <= maxElementDigits {
			if n, ok := new(big.Int).SetString(string(v.raw), 10); ok {
				return n
			}
		}
		return json.Number(v.raw)
	}
	if f, err := strconv.ParseFloat(string(v.raw), 64); err == nil && isExactFloat(v.raw, f) {
		return f
	}
	return json.Number(v.raw)
}

// isExactFloat says whether the shortest text of f is the number that raw is. Fifteen digits always survive in the range of normal
// numbers; more may.
func isExactFloat(raw []byte, f float64) bool {
	digits := 0
	for _, c := range raw {
		if c-'0' <= 9 {
			digits++ // those of the exponent too: caution
		}
	}
	if digits <= 15 && math.Abs(f) > 1e-300 {
		return true
	}
	x, ok := parseDecimal(raw)
	y, _ := parseDecimal(strconv.AppendFloat(nil, f, 'e', -1, 64))
	return ok && x.equal(y)
}

func dynamicString(v value, w *wireType) (any, *mismatch) {
	switch w.of() {
	case classDecimal:
		return nilIfBad(decimalOf(v.bytes(), w.scale))
	case classBytes, classBits:
		return nilIfBad(decodeBytes(v.bytes(), w, format{}))
	case classFloat:
		if f, ok := specialFloat(v.bytes()); ok {
			return f, nil
		}
	case classISOInstant:
		if t, ok := parseTime(v.text()); ok {
			return t, nil
		}
	case classISOClock:
		if d, ok := parseClock(v.text()); ok {
			return d, nil
		}
	case classJSON:
		s := scanner{data: v.bytes(), maxDepth: maxDepth}
		document, bad := s.dynamic(document)
		if bad != nil || s.end() != nil {
			return nil, mismatchf("the text is not JSON")
		}
		if document == nil {
			return json.RawMessage("null"), nil // nil is NULL
		}
		return document, nil
	}
	return v.text(), nil
}

func nilIfBad[V any](v V, bad *mismatch) (any, *mismatch) {
	if bad != nil {
		return nil, bad
	}
	return v, nil
}

// dynamic reads the next value.
func (s *scanner) dynamic(w *wireType) (any, *mismatch) {
	switch s.peek() {
	case '[':
		return s.dynamicArray(w)
	case '{':
		if !w.isObjectValue() {
			return s.dynamicObject(w)
		}
	}
	v, err := s.value()
	if err != nil {
		return nil, &mismatch{reason: err.Error()}
	}
	switch v.kind {
	case kindTrue, kindFalse:
		return v.kind == kindTrue, nil
	case kindNumber, kindString, kindObject:
		return dynamicValue(v, w)
	}
	return nil, nil
}

func (s *scanner) dynamicArray(w *wireType) (any, *mismatch) {
	list := []any{}
	more, err := s.open('[', ']')
	for more && err == nil {
		element, bad := s.dynamic(w.element())
		if bad != nil {
			return nil, bad
		}
		list = append(list, element)
		more, err = s.more(']')
	}
	if err != nil {
		return nil, &mismatch{reason: err.Error()}
	}
	return list, nil
}

func (s *scanner) dynamicObject(w *wireType) (any, *mismatch) {
	object := map[string]any{}
	more, err := s.open('{', '}')
	for more && err == nil {
		var name value
		if name, err = s.name(); err != nil {
			break
		}
		key := name.text()
		typ := w.element()
		if w.of() == classStruct {
			typ = w.field(key)
		}
		member, bad := s.dynamic(typ)
		if bad != nil {
			return nil, bad
		}
		object[key] = member
		more, err = s.more('}')
	}
	if err != nil {
		return nil, &mismatch{reason: err.Error()}
	}
	return object, nil
}
