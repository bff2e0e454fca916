package vectorstore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

type label string

func pointer[T any](v T) *T { return &v }

func TestValue(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 2, 29, 12, 0, 0, 1000, time.FixedZone("", 3600))
	var noText *string
	var noTime *time.Time
	tests := []struct{ in, want any }{
		{nil, nil},
		{"é", "é"},
		{label("x"), "x"},
		{true, true},
		{int8(-3), int64(-3)},
		{uint32(4), int64(4)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{float32(0.5), 0.5},
		{time.Second, int64(time.Second)},
		{now, now},
		{&now, now},
		{noTime, nil},
		{noText, nil},
		{pointer(pointer(7)), int64(7)},
		{json.Number("9007199254740993"), int64(9007199254740993)},
		{json.Number("1.5"), 1.5},
		{big.NewInt(12), "12"},
		{netip.MustParseAddr("::1"), "::1"},
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string(nil), nil},
		{[]string{}, []string{}},
		{[]any{}, []string{}},
		{[]float32{}, []float64{}},
		{[]any{"a", label("b")}, []string{"a", "b"}},
		{[]any{1, int64(2), json.Number("3")}, []int64{1, 2, 3}},
		{[]float32{1, 2.5}, []float64{1, 2.5}},
		{[]bool{true}, []bool{true}},
		{[2]int{1, 2}, []int64{1, 2}},
		{[]*int{pointer(1)}, []int64{1}},
		{[]time.Time{now}, []time.Time{now}},
		{[]netip.Addr{netip.MustParseAddr("1.2.3.4")}, []string{"1.2.3.4"}},
		{map[string]any{"a": 1, "b": []any{"x"}, "c": nil}, map[string]any{"a": int64(1), "b": []string{"x"}, "c": nil}},
		{map[label]int{"a": 1}, map[string]any{"a": int64(1)}},
		{map[string]any(nil), nil},
		{json.RawMessage(`{"a":[1,2],"b":null,"c":[{"d":"e"}]}`), map[string]any{
			"a": []int64{1, 2}, "b": nil, "c": []map[string]any{{"d": "e"}},
		}},
		{json.RawMessage(nil), nil},
		{[]map[string]int{{"a": 1}, {}}, []map[string]any{{"a": int64(1)}, {}}},
		{[]any{map[string]any{"a": now}}, []map[string]any{{"a": now}}},
		{struct {
			Lat  float32 `json:"lat,omitempty"`
			At   *time.Time
			Skip func() `json:"-"`
			own  int
		}{0.5, &now, nil, 1}, map[string]any{"lat": 0.5, "At": now}},
		{[]struct{ A int }{{1}}, []map[string]any{{"A": int64(1)}}},
		{struct {
			base
			*Maker
			Last  *Maker `json:"last"`
			Named Maker
			*time.Location
			Name string
		}{base: base{ID: 1}, Maker: &Maker{"inner", 2}, Named: Maker{"x", 3}, Name: "outer"}, map[string]any{
			"id": int64(1), "Name": "outer", "since": int64(2), "last": nil, "Named": map[string]any{"Name": "x", "since": int64(3)},
		}},
		{*big.NewInt(7), "7"},
		{map[string]big.Int{"n": *big.NewInt(8)}, map[string]any{"n": "8"}},
		{sql.NullString{String: "x", Valid: true}, "x"},
		{sql.NullInt32{}, nil},
		{cdc.Null[time.Time]{V: now, Valid: true}, now},
		{cdc.Null[time.Time]{}, nil},
		{&cdc.Null[time.Time]{V: now, Valid: true}, now},
		{sql.Null[float64]{V: 1.5, Valid: true}, 1.5},
		{&sql.NullTime{Time: now, Valid: true}, now},
	}
	for _, tt := range tests {
		got, err := Value(tt.in)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Value(%T %v) = %T %v, error %v; want %T %v", tt.in, tt.in, got, got, err, tt.want, tt.want)
		}
		if again, err := Value(got); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("Value of its own result %v is %v, error %v", got, again, err)
		}
	}
	if zero, err := Value(math.Copysign(0, -1)); err != nil || math.Signbit(zero.(float64)) {
		t.Errorf("-0 is %v, error %v", zero, err)
	}
}

func TestValueRefuses(t *testing.T) {
	t.Parallel()
	deep := any("x")
	for range 100 {
		deep = map[string]any{"a": deep}
	}
	tests := map[string]any{
		"valid UTF-8":                     "secret\xff",
		"valid UTF-8 ":                    label("secret\xff"),
		"beyond int64":                    uint64(math.MaxUint64),
		"NaN":                             math.NaN(),
		"+Inf":                            float32(math.Inf(1)),
		"not a number":                    json.Number("secret"),
		"type func()":                     func() {},
		"type struct {}":                  struct{}{},
		"type chan int":                   make(chan int),
		"give bytes as text":              []byte("secret"),
		"item 1: vectorstore":             []any{"a", func() {}},
		"has a int64 at 1":                []any{"secret", 1},
		"has a <nil> at 1":                []any{"secret", nil},
		"holds <nil>":                     []any{nil},
		"type map[int]string":             map[int]string{},
		"more than 32 deep":               deep,
		`"a": vectorstore`:                map[string]any{"a": func() {}},
		"holds []string":                  [][]string{{"secret"}},
		"a name is not valid":             map[string]any{"secret\xff": 1},
		"textFails: no text":              textFails{},
		"type complex128":                 1i,
		"*vectorstore.textFails: no text": pointer(textFails{}),
		"an integer is beyond int64":      json.Number("9223372036854775808"),
		"type vectorstore.hidden":         hidden{1},
		"is not a number":                 json.Number("1e999"),
	}
	for want, v := range tests {
		got, err := Value(v)
		if got != nil || !errors.Is(err, ErrValue) || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("Value(%T) = %v, error %v; want one about %q", v, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats the value: %v", err)
		}
	}
}

type hidden struct{ a int }

type base struct {
	ID int `json:"id"`
}

type Maker struct {
	Name  string
	Since int `json:"since"`
}

type textFails struct{}

func (*textFails) MarshalText() ([]byte, error) { return nil, errors.New("no text") }
