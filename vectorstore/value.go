package vectorstore

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

// maxValueDepth bounds how deep maps may be nested.
const maxValueDepth = 32

// Value returns v as one of the types that property values have: nil, bool, int64, float64, string, time.Time, slices
// of the last five ([]bool, []int64, []float64, []string, []time.Time), and map[string]any of all of these. The result
// shares no memory with v.
//
// Pointers give what they point to, or nil. Named types give their basic type; json.Number gives an int64 where it is
// one, else a float64; a type with MarshalText, such as a UUID or a big.Int, gives its text; []any must hold one type.
// Everything else is an error that is [ErrValue]: other types, integers beyond int64, NaN and infinities, and strings
// that are not valid UTF-8. So nothing is stored that would come back as something else. A Store may be narrower and
// say so per object.
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
	return f, nil
}

func number(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	f, err := n.Float64()
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
	if m, ok := r.Interface().(encoding.TextMarshaler); ok && r.Type() != reflect.TypeFor[*time.Time]() {
		b, err := m.MarshalText()
		if err != nil {
			return nil, Permanent(fmt.Errorf("%w: %T: %w", ErrValue, m, err))
		}
		return text(string(b))
	}
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
	}
	if len(items) == 0 {
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

func object(r reflect.Value, depth int) (any, error) {
	if r.Type().Key().Kind() != reflect.String {
		return nil, valueError("type %v", r.Type())
	}
	if r.IsNil() {
		return nil, nil
	}
	out := make(map[string]any, r.Len())
	for it := r.MapRange(); it.Next(); {
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
