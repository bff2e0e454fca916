package pgvector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// dateLayout has a fixed width, so that texts of dates have the order of the dates.
const dateLayout = "2006-01-02T15:04:05.000000000Z"

// jsonOf returns a value of [vectorstore.Value] as it is stored, and its kind where the JSON does not tell: a text, or for maps the
// kinds by name, or for lists of maps one of these an item.
func jsonOf(v any) (value, kind any, err error) {
	switch v := v.(type) {
	case string:
		return v, nil, checkText(v)
	case bool, int64:
		return v, nil, nil
	case float64:
		return number(v), "number", nil
	case time.Time:
		value, err = dateOf(v)
		return value, "date", err
	case vectorstore.Geo:
		return v, "geo", nil
	case vectorstore.Phone:
		return v, "phone", checkText(v.Input)
	case map[string]any:
		return jsonOfMap(v)
	case []map[string]any:
		values, kinds := make([]any, len(v)), make([]any, len(v))
		for i, item := range v {
			if values[i], kinds[i], err = jsonOfMap(item); err != nil {
				return nil, nil, fmt.Errorf("item %d: %w", i, err)
			}
		}
		return values, kinds, nil
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return nil, nil, valueError("a %T", v)
	}
	values := make([]any, list.Len())
	for i := range values {
		if values[i], _, err = jsonOf(list.Index(i).Interface()); err != nil {
			return nil, nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return values, lists[list.Type()], nil
}

// lists are the kinds of lists.
var lists = map[reflect.Type]string{
	reflect.TypeFor[[]string]():    "text[]",
	reflect.TypeFor[[]bool]():      "bool[]",
	reflect.TypeFor[[]int64]():     "int[]",
	reflect.TypeFor[[]float64]():   "number[]",
	reflect.TypeFor[[]time.Time](): "date[]",
}

func checkText(s string) error {
	if strings.ContainsRune(s, 0) {
		return valueError("a text with a zero byte, which Postgres does not store")
	}
	return nil
}

func number(f float64) json.Number {
	if f == 0 {
		return "0" // of -0 too, which Postgres does not know
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

func dateOf(t time.Time) (string, error) {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return "", valueError("a date whose year is not within 0 to 9999")
	}
	return t.Format(dateLayout), nil
}

func jsonOfMap(m map[string]any) (value, kind any, err error) {
	values, kinds := map[string]any{}, map[string]any{}
	for name, v := range m {
		if v == nil {
			continue
		}
		if err := checkText(name); err != nil {
			return nil, nil, err
		}
		v, kind, err := jsonOf(v)
		if err != nil {
			return nil, nil, fmt.Errorf("%.64q: %w", name, err)
		}
		if values[name] = v; kind != nil {
			kinds[name] = kind
		}
	}
	return values, kinds, nil
}

// valueOf is the inverse of jsonOf, of JSON that was decoded with its numbers as texts.
func valueOf(v, kind any) (any, error) {
	switch v := v.(type) {
	case string:
		if kind == "date" {
			return time.Parse(dateLayout, v)
		}
		return v, nil
	case bool:
		return v, nil
	case json.Number:
		if kind == "number" {
			f, err := v.Float64()
			return f, err
		}
		return v.Int64()
	case map[string]any:
		switch kind {
		case "geo":
			return placeOf(v)
		case "phone":
			input, _ := v["input"].(string)
			country, _ := v["defaultCountry"].(string)
			return vectorstore.Phone{Input: input, Country: country}, nil
		}
		kinds, _ := kind.(map[string]any)
		return valueOfMap(v, kinds)
	case []any:
		return listOf(v, kind)
	}
	return nil, fmt.Errorf("a %T is stored", v)
}

func placeOf(v map[string]any) (any, error) {
	degrees := func(name string) (float32, error) {
		n, _ := v[name].(json.Number)
		f, err := strconv.ParseFloat(string(n), 32)
		return float32(f), err
	}
	lat, err := degrees("latitude")
	long, errLong := degrees("longitude")
	return vectorstore.Geo{Latitude: lat, Longitude: long}, errors.Join(err, errLong)
}

func valueOfMap(m, kinds map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(m))
	for name, v := range m {
		var err error
		if out[name], err = valueOf(v, kinds[name]); err != nil {
			return nil, fmt.Errorf("%.64q: %w", name, err)
		}
	}
	return out, nil
}

func listOf(items []any, kind any) (any, error) {
	switch kind := kind.(type) {
	case []any:
		if len(kind) != len(items) {
			return nil, fmt.Errorf("%d objects have %d kinds", len(items), len(kind))
		}
		return listAs[map[string]any](items, func(i int) any { return kind[i] })
	case string:
		element := func(int) any { return strings.TrimSuffix(kind, "[]") }
		switch kind {
		case "bool[]":
			return listAs[bool](items, element)
		case "int[]":
			return listAs[int64](items, element)
		case "number[]":
			return listAs[float64](items, element)
		case "date[]":
			return listAs[time.Time](items, element)
		}
	}
	return listAs[string](items, func(int) any { return nil })
}

func listAs[T any](items []any, kind func(i int) any) ([]T, error) {
	out := make([]T, len(items))
	for i, item := range items {
		v, err := valueOf(item, kind(i))
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		t, ok := v.(T)
		if !ok {
			return nil, fmt.Errorf("item %d is a %T", i, v)
		}
		out[i] = t
	}
	return out, nil
}

// decode reads JSON into a map, numbers as texts.
func decode(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out map[string]any
	err := decoder.Decode(&out)
	return out, err
}

// operand returns a value as a literal of a JSON path.
func operand(v any) (string, error) {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		v = int64(f) // the shorter form
	}
	value, _, err := jsonOf(v)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// reals is an argument for an array of reals, NULL where it is nil. pgx encodes a []float32 too, but puts every component on the heap.
type reals []float32

// Dimensions makes reals a [pgtype.ArrayGetter].
func (r reals) Dimensions() []pgtype.ArrayDimension {
	if r == nil {
		return nil
	}
	return []pgtype.ArrayDimension{{Length: int32(len(r)), LowerBound: 1}}
}

// Index returns what points into the array.
func (r reals) Index(i int) any { return (*real4)(&r[i]) }

// IndexType returns the type of what Index returns.
func (reals) IndexType() any { return new(real4) }

// real4 is a component as it is encoded: a pointer to it needs no memory of its own.
type real4 float32

// Float64Value makes a component a [pgtype.Float64Valuer].
func (r *real4) Float64Value() (pgtype.Float8, error) {
	return pgtype.Float8{Float64: float64(*r), Valid: true}, nil
}
