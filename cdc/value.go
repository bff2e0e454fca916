package cdc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"time"
)

func setBool(dst reflect.Value, v value, _ *wireType) *mismatch {
	if v.kind != kindTrue && v.kind != kindFalse {
		return mismatchf("%v is no boolean", v.kind)
	}
	dst.SetBool(v.kind == kindTrue)
	return nil
}

// readDecimal reads a number in any of its forms: a JSON number, decimal text, an unscaled number in base64 whose scale the schema or
// the tag gives, or VariableScaleDecimal. It never guesses: without a schema, digits alone in a string could be either text or base64.
func readDecimal(v value, w *wireType, f format) (Decimal, *mismatch) {
	if f.element && len(v.raw) > maxElementDigits {
		return Decimal{}, mismatchf("a number of so many digits is out of bounds inside an array or object")
	}
	d, bad := readAnyDecimal(v, w, f)
	if bad == nil && f.element && (d.Scale > maxElementScale || d.Scale < -maxElementScale) {
		bad = mismatchf("a decimal's scale of %d is out of bounds inside an array or object", d.Scale)
	}
	return d, bad
}

// readFinite is for Go types that have no NaN and no infinities.
func readFinite(v value, w *wireType, f format) (Decimal, *mismatch) {
	d, bad := readDecimal(v, w, f)
	if bad == nil && d.Form != Finite {
		bad = mismatchf("the field cannot hold %v", d)
	}
	return d, bad
}

func readAnyDecimal(v value, w *wireType, f format) (Decimal, *mismatch) {
	switch v.kind {
	case kindNumber:
		d, ok := parseDecimal(v.raw)
		if !ok {
			return d, mismatchf("the number is out of bounds")
		}
		return d, nil
	case kindObject:
		if d, ok, bad := variableDecimal(v); ok {
			return d, bad
		}
	case kindString:
		content := v.bytes()
		switch {
		case w.of() == classDecimal:
			return decimalOf(content, w.scale)
		case w == nil && f.scaled && f.encoding != encodingText:
			return decimalOf(content, f.scale)
		}
		d, ok := parseDecimal(content)
		if form, special := specialForm(content); special {
			d, ok = Decimal{Form: form}, true
		}
		if w == nil && f.encoding != encodingText && couldBeBase64(content) {
			return d, mismatchf("without a schema a string may be a base64 decimal or text: declare scale=N or encoding=text in the field's tag")
		}
		if !ok {
			return d, mismatchf("the string is no decimal number")
		}
		return d, nil
	}
	return Decimal{}, mismatchf("%v is no number", v.kind)
}

// couldBeBase64 says whether padded base64 decodes the text.
func couldBeBase64(content []byte) bool {
	if len(content) == 0 || len(content)%4 != 0 {
		return false
	}
	_, err := base64.StdEncoding.AppendDecode(nil, content)
	return err == nil
}

// readInt reads a whole number that is not a plain JSON integer.
func readInt(v value, w *wireType, f format) (*big.Int, *mismatch) {
	if v.kind == kindNumber && !v.integer {
		return nil, mismatchf("the number is not whole")
	}
	d, bad := readFinite(v, w, f)
	if bad != nil {
		return nil, bad
	}
	n, whole := d.Int()
	if !whole {
		return nil, mismatchf("the number is not whole")
	}
	return n, nil
}

func intCodec(f format) codec {
	return codec{fits: fitsInt, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		var n int64
		if v.integer {
			var ok bool
			if n, ok = v.int64(); !ok {
				return mismatchf("the number is out of range")
			}
		} else {
			big, bad := readInt(v, w, f)
			if bad != nil {
				return bad
			}
			if n = big.Int64(); !big.IsInt64() {
				return mismatchf("the number is out of range")
			}
		}
		if dst.OverflowInt(n) {
			return mismatchf("the number is out of range")
		}
		dst.SetInt(n)
		return nil
	}}
}

func uintCodec(f format) codec {
	return codec{fits: fitsInt, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		if n, ok := v.int64(); ok && n >= 0 && !dst.OverflowUint(uint64(n)) {
			dst.SetUint(uint64(n))
			return nil
		}
		n, bad := readInt(v, w, f)
		if bad != nil {
			return bad
		}
		if !n.IsUint64() || dst.OverflowUint(n.Uint64()) {
			return mismatchf("the number is out of range")
		}
		dst.SetUint(n.Uint64())
		return nil
	}}
}

// specialForm reads the names that Debezium, Postgres and Jackson give to what JSON numbers cannot be.
func specialForm(content []byte) (Form, bool) {
	switch string(content) {
	case "NaN", "NAN":
		return NaN, true
	case "Infinity", "POSITIVE_INFINITY":
		return PlusInfinity, true
	case "-Infinity", "NEGATIVE_INFINITY":
		return MinusInfinity, true
	}
	return Finite, false
}

func specialFloat(content []byte) (float64, bool) {
	form, ok := specialForm(content)
	return Decimal{Form: form}.Float64(), ok
}

func floatCodec(f format) codec {
	return codec{fits: fitsNumber, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		bits := dst.Type().Bits()
		text := v.raw
		if v.kind == kindString && w.of() != classDecimal {
			if special, ok := specialFloat(v.bytes()); ok {
				dst.SetFloat(special)
				return nil
			}
		}
		if v.kind != kindNumber {
			d, bad := readDecimal(v, w, f)
			if bad != nil {
				return bad
			}
			text = []byte(d.scientific())
		}
		n, err := strconv.ParseFloat(string(text), bits)
		if err != nil {
			return mismatchf("the number is out of range")
		}
		if v.integer && !isExact(v.raw, n) {
			return mismatchf("the whole number would lose digits")
		}
		dst.SetFloat(n)
		return nil
	}}
}

// isExact says whether the float has the value of the integer's text.
func isExact(integer []byte, f float64) bool {
	if len(integer) < 8 { // below 2^24
		return true
	}
	n, ok := new(big.Int).SetString(string(integer), 10)
	back, _ := new(big.Float).SetFloat64(f).Int(nil)
	return ok && n.Cmp(back) == 0
}

func stringCodec(f format) codec {
	return codec{fits: fitsString, isText: !f.scaled, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		switch {
		case v.kind == kindString && w.of() == classBits:
			octets, bad := decodeBytes(v.bytes(), w, f)
			if bad == nil && w.scale > maxBits {
				bad = mismatchf("more bits than Postgres has")
			}
			if bad == nil {
				dst.SetString(bitText(octets, w.scale))
			}
			return bad
		case v.kind == kindString && w.of() != classDecimal && (w != nil || !f.scaled):
			dst.SetString(v.text())
			return nil
		case v.kind == kindString || v.kind == kindObject && w != document:
			d, bad := readDecimal(v, w, f)
			if bad == nil {
				dst.SetString(d.String())
			}
			return bad
		}
		return mismatchf("%v is no string", v.kind)
	}}
}

// numberUnit says what a number counts: the schema knows, else the tag.
func numberUnit(v value, w *wireType, f format) (int64, unit, *mismatch) {
	u := f.unit
	if w != nil && w.unit != unitNone {
		u = w.unit
	}
	if u == unitNone {
		return 0, u, mismatchf("a number without a schema may count anything: declare unit=ns, us, ms, s or days in the field's tag")
	}
	n, ok := v.int64()
	if !ok {
		return 0, u, mismatchf("the number is not whole or out of range")
	}
	return n, u, nil
}

// fitsUnit lets plain integers in where the tag says what they count.
func fitsUnit(f format, fits func(*wireType) bool) func(*wireType) bool {
	return func(w *wireType) bool { return fits(w) || w.class == classInt && f.unit != unitNone }
}

func timeCodec(f format) codec {
	return codec{fits: fitsUnit(f, fitsInstant), set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		var t time.Time
		switch v.kind {
		case kindNumber:
			n, u, bad := numberUnit(v, w, f)
			if bad != nil {
				return bad
			}
			t = timeOf(n, u)
		case kindString:
			var ok bool
			if t, ok = parseTime(v.text()); !ok {
				return mismatchf("the string is no ISO 8601 date or timestamp")
			}
		case kindObject:
			s, ok := readStructured(v)
			if ok {
				t, ok = s.time()
			}
			if !ok {
				return mismatchf("the object is no structured date or timestamp")
			}
		default:
			return mismatchf("%v is no time", v.kind)
		}
		*dst.Addr().Interface().(*time.Time) = t
		return nil
	}}
}

func durationCodec(f format) codec {
	return codec{fits: fitsUnit(f, fitsDuration), set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		var d time.Duration
		var ok bool
		switch v.kind {
		case kindNumber:
			n, u, bad := numberUnit(v, w, f)
			if bad != nil {
				return bad
			}
			if d, ok = durationOf(n, u); !ok {
				return mismatchf("the number is out of range")
			}
		case kindString:
			text := v.text()
			if d, ok = parseClock(text); !ok {
				var interval Interval
				if interval, ok = parseInterval(text); ok {
					d, ok = interval.Duration()
				}
			}
			if !ok {
				return mismatchf("the string is no ISO 8601 time of day, and no duration without years and months")
			}
		case kindObject:
			s, isStructured := readStructured(v)
			switch {
			case !isStructured || s.special != "":
			case s.has(clockMembers):
				d, ok = s.clock()
			case w.of() == classStructuredDuration || s.has([]string{"seconds"}):
				var interval Interval
				if interval, ok = s.interval(); ok {
					d, ok = interval.Duration()
				}
			}
			if !ok {
				return mismatchf("the object is no structured time of day, and no duration without years and months")
			}
		default:
			return mismatchf("%v is no duration", v.kind)
		}
		dst.SetInt(int64(d))
		return nil
	}}
}

func bigIntCodec(f format) codec {
	return codec{fits: fitsInt, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		n, bad := readInt(v, w, f)
		if bad == nil {
			dst.Addr().Interface().(*big.Int).Set(n)
		}
		return bad
	}}
}

func ratCodec(f format) codec {
	return codec{fits: fitsNumber, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		d, bad := readFinite(v, w, f)
		if bad == nil {
			dst.Addr().Interface().(*big.Rat).Set(d.Rat())
		}
		return bad
	}}
}

func decimalCodec(f format) codec {
	return codec{fits: fitsNumber, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		d, bad := readDecimal(v, w, f)
		if bad == nil {
			*dst.Addr().Interface().(*Decimal) = d
		}
		return bad
	}}
}

func jsonNumberCodec(f format) codec {
	return codec{fits: fitsNumber, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind == kindNumber {
			dst.SetString(string(v.raw))
			return nil
		}
		d, bad := readFinite(v, w, f)
		if bad == nil {
			dst.SetString(d.String())
		}
		return bad
	}}
}

// rawCodec gives the JSON of a JSON column, and the wire's own JSON of any other. Without a schema a json.RawMessage declares its
// column to be JSON.
func rawCodec(f format) codec {
	return codec{fits: fitsAll, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind == kindString && (w == nil || f.json || w.class == classJSON) {
			if _, ok := parseText(v); !ok {
				return mismatchf("the text is not JSON")
			}
			dst.SetBytes(bytes.Clone(bytes.TrimSpace(v.bytes())))
			return nil
		}
		dst.SetBytes(bytes.Clone(v.raw))
		return nil
	}}
}

// textCodec is for types that read themselves from text. A decimal arrives as plain text. What is no text goes to UnmarshalJSON, where
// there is one.
func textCodec(f format, alsoJSON bool) codec {
	fits := fitsText
	if alsoJSON {
		fits = fitsAll
	}
	return codec{fits: fits, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		self := dst.Addr().Interface()
		var text []byte
		switch {
		case isDecimal(v, w, f):
			d, bad := readDecimal(v, w, f)
			if bad != nil {
				return bad
			}
			text = []byte(d.String())
		case v.kind == kindString:
			text = bytes.Clone(v.bytes())
		case v.kind == kindNumber, !alsoJSON && (v.kind == kindTrue || v.kind == kindFalse):
			text = bytes.Clone(v.raw)
		case alsoJSON:
			return unmarshalJSON(self, bytes.Clone(v.raw))
		default:
			return mismatchf("%v is no text", v.kind)
		}
		if err := self.(interface{ UnmarshalText(text []byte) error }).UnmarshalText(text); err != nil {
			return &mismatch{"UnmarshalText refused the value", err}
		}
		return nil
	}}
}

// isDecimal says whether a value is known to be a decimal that is not written as a number.
func isDecimal(v value, w *wireType, f format) bool {
	switch w.of() {
	case classDecimal, classVariableDecimal:
		return true
	case classUnknown:
		if v.kind == kindString {
			return f.scaled
		}
		_, ok, _ := variableDecimal(v)
		return ok
	}
	return false
}

// jsonCodec is for types that read themselves from JSON alone: the JSON of a JSON column, a decimal as a number, else the wire's own.
func jsonCodec(f format) codec {
	return codec{fits: fitsAll, set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		raw := v.raw
		switch {
		case isDecimal(v, w, f):
			d, bad := readDecimal(v, w, f)
			if bad != nil {
				return bad
			}
			raw = []byte(d.String())
		case v.kind == kindString && (f.json || w.of() == classJSON):
			inner, ok := parseText(v)
			if !ok {
				return mismatchf("the text is not JSON")
			}
			raw = inner.raw
		}
		return unmarshalJSON(dst.Addr().Interface(), bytes.Clone(raw))
	}}
}

func unmarshalJSON(self any, raw []byte) *mismatch {
	if err := self.(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
		return &mismatch{"UnmarshalJSON refused the value", err}
	}
	return nil
}
