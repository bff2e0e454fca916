package vectorstore

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// maxValueDepth bounds how deep maps may be nested.
const maxValueDepth = 32

// Value returns v as one of the types that property values have: nil, bool, int64, float64, string, time.Time, slices
// of the last five ([]bool, []int64, []float64, []string, []time.Time), Geo, Phone, map[string]any of all of these, and
// []map[string]any. The result shares no memory with v.
//
//	nil, nil pointers, slices and maps                nil
//	pointers                                          what they point to
//	bool, integers, floats, strings, named or not     bool, int64, float64, string
//	json.Number                                       int64 for whole numbers without point and exponent, else float64
//	Geo, Phone                                        themselves, where they are possible ones
//	time.Time                                         itself; time.Duration is an int64 of nanoseconds
//	cdc.Null, sql.Null                                its V, or nil
//	driver.Valuer, such as sql.NullString             what its Value returns, nil for a null
//	encoding.TextMarshaler: UUIDs, netip.Addr,        its text
//	big.Int, cdc.Decimal
//	json.Marshaler, json.RawMessage                   the JSON value
//	slices and arrays of one of these types, []any    the slice of that type; an empty []any is a []string
//	maps with text keys                               map[string]any
//	structs                                           map[string]any of the exported fields, by the names of their json
//	                                                  tags, else their Go names; as in JSON, the fields of an embedded
//	                                                  struct are the struct's own
//
// Methods count whether the value or a pointer to it has them. Everything else is an error that is [ErrValue]: other types,
// bytes, lists of several types or with nulls, integers beyond int64, NaN and infinities, nesting beyond 32, and strings and
// names that are not valid UTF-8. So nothing is stored that would come back as something else; -0 is 0. A Store may be narrower
// and say so per object: in Weaviate integers beyond 2^53 belong in a text.
func Value(v any) (any, error) { return value(v, 0) }

func value(v any, depth int) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return text(v)
	case bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		return finite(v)
	case time.Time:
		return v, nil
	case json.Number:
		return number(v)
	case Geo:
		return v, v.check()
	case Phone:
		return v, v.check()
	}
	return reflected(reflect.ValueOf(v), depth)
}

func text(s string) (any, error) {
	if !utf8.ValidString(s) {
		return nil, valueError("text is not valid UTF-8")
	}
	return s, nil
}

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, valueError("number is %v", f)
	}
	return f + 0, nil // which is 0 for -0: stores compare them by their bytes, or know no -0
}

func number(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err == nil && !strings.ContainsAny(n.String(), ".eE") {
		return nil, valueError("an integer is beyond int64")
	}
	if err != nil {
		return nil, valueError("a json.Number is not a number")
	}
	return finite(f)
}

func reflected(r reflect.Value, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, valueError("nested more than %d deep", maxValueDepth)
	}
	if r.Kind() == reflect.Pointer && r.IsNil() {
		return nil, nil
	}
	if r.Kind() == reflect.Pointer && (r.Type().Elem() == reflect.TypeFor[time.Time]() || nullable(r.Type().Elem())) {
		r = r.Elem()
	}
	if v, ok, err := ownValue(r, depth); ok {
		return v, err
	}
	return basic(r, depth)
}

// ownValue returns what a type says of its value by itself, and whether it does.
func ownValue(r reflect.Value, depth int) (v any, ok bool, err error) {
	if nullable(r.Type()) {
		if r.Field(1).Bool() {
			v, err = value(r.Field(0).Interface(), depth+1)
		}
		return v, true, err
	}
	if v, ok, err = ownMethod(r, r, depth); !ok && r.Kind() != reflect.Pointer && reflect.PointerTo(r.Type()).NumMethod() > 0 {
		pointer := reflect.New(r.Type())
		pointer.Elem().Set(r)
		v, ok, err = ownMethod(pointer, r, depth)
	}
	return v, ok, err
}

// ownMethod returns what a method of m, which is r or a pointer to it, says.
func ownMethod(m, r reflect.Value, depth int) (v any, ok bool, err error) {
	switch m := m.Interface().(type) {
	case time.Time:
		return m, true, nil
	case encoding.TextMarshaler:
		b, err := m.MarshalText()
		if err != nil {
			return nil, true, Permanent(fmt.Errorf("%w: %T: %w", ErrValue, m, err))
		}
		v, err = text(string(b))
		return v, true, err
	case driver.Valuer:
		if v, err = m.Value(); err != nil {
			return nil, true, Permanent(fmt.Errorf("%w: %T: %w", ErrValue, m, err))
		}
		v, err = value(v, depth+1)
		return v, true, err
	case json.Marshaler:
		if r.Kind() != reflect.Slice || !r.IsNil() {
			v, err = fromJSON(m, depth)
		}
		return v, true, err
	}
	return nil, false, nil
}

// basic converts by the kind of a type.
func basic(r reflect.Value, depth int) (any, error) {
	switch r.Kind() {
	case reflect.Pointer:
		return value(r.Elem().Interface(), depth+1)
	case reflect.Bool:
		return r.Bool(), nil
	case reflect.String:
		return text(r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() > math.MaxInt64 {
			return nil, valueError("an integer is beyond int64")
		}
		return int64(r.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return finite(r.Float())
	case reflect.Slice, reflect.Array:
		return list(r, depth)
	case reflect.Map:
		return object(r, depth)
	case reflect.Struct:
		return fields(r, depth)
	}
	return nil, valueError("type %v", r.Type())
}

// list converts a slice, nil for a nil slice. An empty one whose type does not say what it holds is a []string.
func list(r reflect.Value, depth int) (any, error) {
	if r.Type().Elem().Kind() == reflect.Uint8 {
		return nil, valueError("type %v: give bytes as text, such as base64", r.Type())
	}
	if r.Kind() == reflect.Slice && r.IsNil() {
		return nil, nil
	}
	items := make([]any, r.Len())
	for i := range items {
		item, err := value(r.Index(i).Interface(), depth+1)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items[i] = item
	}
	var first any
	if len(items) > 0 {
		first = items[0]
	} else {
		first, _ = value(reflect.Zero(r.Type().Elem()).Interface(), depth+1)
	}
	switch first.(type) {
	case bool:
		return slice[bool](items)
	case int64:
		return slice[int64](items)
	case float64:
		return slice[float64](items)
	case time.Time:
		return slice[time.Time](items)
	case string:
		return slice[string](items)
	case map[string]any:
		return slice[map[string]any](items)
	}
	if elem := r.Type().Elem(); len(items) == 0 && elem.Kind() == reflect.Map {
		return []map[string]any{}, nil
	} else if len(items) == 0 {
		return []string{}, nil
	}
	return nil, valueError("type %v holds %T", r.Type(), first)
}

func slice[E any](items []any) (any, error) {
	out := make([]E, len(items))
	for i, item := range items {
		e, ok := item.(E)
		if !ok {
			return nil, valueError("a list of %T has a %T at %d", out[0], item, i)
		}
		out[i] = e
	}
	return out, nil
}

// nullable reports whether a type is a struct of a V and whether it is Valid.
func nullable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 2 && t.Field(0).Name == "V" && t.Field(1).Name == "Valid" &&
		t.Field(1).Type.Kind() == reflect.Bool
}

func fromJSON(m json.Marshaler, depth int) (any, error) {
	text, err := m.MarshalJSON()
	if err != nil {
		return nil, Permanent(fmt.Errorf("%w: %T: %w", ErrValue, m, err))
	}
	var v any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil || decoder.More() {
		return nil, valueError("%T is not one JSON value", m)
	}
	return value(v, depth+1)
}

// fields converts a struct.
func fields(r reflect.Value, depth int) (any, error) {
	out := map[string]any{}
	if err := addFields(out, r, depth); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, valueError("type %v has no exported fields", r.Type())
	}
	return out, nil
}

func addFields(out map[string]any, r reflect.Value, depth int) error {
	if depth > maxValueDepth {
		return valueError("nested more than %d deep", maxValueDepth)
	}
	for i := range r.NumField() {
		f, v := r.Type().Field(i), r.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-":
		case Embedded(f):
			if v = reflect.Indirect(v); !v.IsValid() {
				continue
			}
			inner := map[string]any{}
			if err := addFields(inner, v, depth+1); err != nil {
				return err
			}
			for name, item := range inner {
				if _, there := out[name]; !there {
					out[name] = item
				}
			}
		case f.IsExported():
			item, err := value(v.Interface(), depth+1)
			if err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			out[cmp.Or(name, f.Name)] = item
		}
	}
	return nil
}

// Embedded reports whether the fields of f, a struct that another embeds, are that one's own: in JSON it has no name, and it is no value
// by itself, as a time or what has MarshalText is. It is for those who write a [Store].
func Embedded(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.Anonymous || name != "" || t.Kind() != reflect.Struct || nullable(t) || t == reflect.TypeFor[Geo]() || t == reflect.TypeFor[Phone]() {
		return false
	}
	for _, own := range []reflect.Type{
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[driver.Valuer](), reflect.TypeFor[json.Marshaler](),
	} {
		if reflect.PointerTo(t).Implements(own) {
			return false
		}
	}
	return true
}

func object(r reflect.Value, depth int) (any, error) {
	if r.Type().Key().Kind() != reflect.String {
		return nil, valueError("type %v", r.Type())
	}
	if r.IsNil() {
		return nil, nil
	}
	out := make(map[string]any, r.Len())
	for it := r.MapRange(); it.Next(); {
		if !utf8.ValidString(it.Key().String()) {
			return nil, valueError("a name is not valid UTF-8")
		}
		item, err := value(it.Value().Interface(), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", it.Key().String(), err)
		}
		out[it.Key().String()] = item
	}
	return out, nil
}

func valueError(format string, args ...any) error {
	return Permanent(fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...)))
}
