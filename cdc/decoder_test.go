package cdc

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// event wraps a row after into an envelope.
func event(after string) Record {
	return Record{Topic: "shop.public.t", Value: []byte(`{"op":"c","before":null,"after":` + after + `,"source":{"schema":"public","table":"t"}}`)}
}

// typed does the same with the Connect schema of the row's fields.
func typed(fields, after string) Record {
	r := event(after)
	r.Value = []byte(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[` + fields + `],"field":"after"}]},"payload":` + string(r.Value) + `}`)
	return r
}

func decodeOne[T any](t *testing.T, r Record) Event[T] {
	t.Helper()
	e, err := newDecoder[T](t, Options{}).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// upper reads itself from text.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	if string(text) == "secret" {
		return errUpper
	}
	*u = upper(strings.ToUpper(string(text)))
	return nil
}

var errUpper = errors.New("refused: secret")

// both reads itself from text and from JSON.
type both string

func (b *both) UnmarshalText(text []byte) error {
	*b = "text " + both(text)
	return nil
}

func (b *both) UnmarshalJSON(raw []byte) error {
	*b = "json " + both(raw)
	return nil
}

// rawJSON reads itself from JSON.
type rawJSON string

func (r *rawJSON) UnmarshalJSON(raw []byte) error {
	*r = rawJSON(raw)
	return nil
}

// TestValues has one wire value a case, for a field of type V, with a tag and with or without a schema.
func TestValues(t *testing.T) {
	type check struct {
		name string
		run  func(t *testing.T)
	}
	const decimal2 = `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}`
	named := func(typ, name string) string { return fmt.Sprintf(`"type":%q,"name":%q`, typ, name) }
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	for _, c := range []check{
		{"int8", good("", "", `-128`, int8(-128))},
		{"int8 range", bad[int8]("", "", `128`, "out of range")},
		{"int16 range", bad[int16]("", "", `-32769`, "out of range")},
		{"int64 beyond 2^53", good("", "", `9007199254740993`, int64(9007199254740993))},
		{"int64 least", good("", "", `-9223372036854775808`, int64(math.MinInt64))},
		{"int64 range", bad[int64]("", "", `9223372036854775808`, "out of range")},
		{"int of a fraction", bad[int]("", "", `1.0`, "not whole")},
		{"int of an exponent", bad[int]("", "", `1e3`, "not whole")},
		{"int of a boolean", bad[int]("", "", `true`, "boolean is no number")},
		{"uint64 greatest", good("", "", `18446744073709551615`, uint64(math.MaxUint64))},
		{"uint of a negative", bad[uint]("", "", `-1`, "out of range")},
		{"uint8 range", bad[uint8]("", "", `256`, "out of range")},
		{"int of whole decimal", good("", decimal2, `"ASw="`, int64(3))},
		{"int of decimal with fraction", bad[int]("", decimal2, `"ASs="`, "not whole")},
		{"int of decimal text", good("", `"type":"string"`, `"1234"`, 1234)},

		{"float64", good("", "", `1.5e3`, 1500.0)},
		{"float64 range", bad[float64]("", "", `1e999`, "out of range")},
		{"float64 of a whole number", good("", "", `-7`, -7.0)},
		{"float64 of 2^53+1", bad[float64]("", "", `9007199254740993`, "lose digits")},
		{"float32 of 2^24+1", bad[float32]("", "", `16777217`, "lose digits")},
		{"float64 Infinity", good("", "", `"-Infinity"`, math.Inf(-1))},
		{"float64 POSITIVE_INFINITY", good("", "", `"POSITIVE_INFINITY"`, math.Inf(1))},
		{"float64 of decimal text", good("", "", `"12.50"`, 12.5)},
		{"float64 of text that could be base64", bad[float64]("", "", `"1234"`, "declare scale=N")},
		{"float64 of base64 without a scale", bad[float64]("", "", `"BOI="`, "declare scale=N")},
		{"float64 of declared text", good("encoding=text", "", `"1234"`, 1234.0)},
		{"float64 of declared scale", good("scale=2", "", `"BOI="`, 12.5)},
		{"float64 of decimal", good("", decimal2, `"BOI="`, 12.5)},
		{"schema beats tag", good("scale=1", decimal2, `"BOI="`, 12.5)},
		{"float64 of negative decimal", good("", decimal2, `"nA=="`, -1.0)},
		{"float64 of variable decimal", good("", "", `{"scale":4,"value":"AYr3"}`, 10.1111)},
		{"float64 of stripped zeros", good("", "", `{"scale":-3,"value":"AQ=="}`, 1000.0)},
		{"decimal of hostile scale", bad[Decimal]("", "", `{"scale":2000000000,"value":"AQ=="}`, "out of bounds")},
		{"decimal of hostile exponent", bad[Decimal]("", "", `1e1000000000`, "out of bounds")},
		{"string of decimal", good("", decimal2, `"BOI="`, "12.50")},
		{"string of cents", good("", decimal2, `"BQ=="`, "0.05")},
		{"string of base64 without schema is text", good("", "", `"BOI="`, "BOI=")},
		{"string of variable decimal", good("", named("struct", "io.debezium.data.VariableScaleDecimal"), `{"scale":4,"value":"AYr3"}`, "10.1111")},
		{"big.Int", good("", "", `123456789012345678901234567890`, *bigText("123456789012345678901234567890"))},
		{"json.Number", good("", "", `0.10000000000000000000000001`, json.Number("0.10000000000000000000000001"))},
		{"json.Number of decimal", good("", decimal2, `"BOI="`, json.Number("12.50"))},
		{"float64 of a tiny decimal", good("encoding=text", "", `"1E-16383"`, 0.0)},
		{"string of a long decimal", good("", "", `{"scale":-5,"value":"AQ=="}`, "100000")},
		{"hostile elements", bad[[]string]("", "", `[{"scale":16000,"value":"AQ=="}]`, "out of bounds inside")},
		{"long elements", bad[[]Decimal]("", "", `[`+strings.Repeat("1", 5000)+`]`, "so many digits")},
		{"any of very many digits", good[any]("", "", strings.Repeat("1", 5000), json.Number(strings.Repeat("1", 5000)))},
		{"hostile members", bad[[]struct{ A string }]("", "", `[{"a":{"scale":16000,"value":"AQ=="}}]`, "out of bounds inside")},
		{"broken decimal", bad[float64]("", decimal2, `"!"`, "not a base64 decimal")},
		{"empty decimal", bad[Decimal]("", decimal2, `""`, "not a base64 decimal")},

		{"string", good("", "", `"a\u00e9\ud83d\ude00\n"`, "aé😀\n")},
		{"lone surrogate", good("", "", `"\ud800x"`, "\ufffdx")},
		{"string of a number", bad[string]("", "", `1`, "number is no string")},
		{"bool", good("", "", `true`, true)},
		{"bool of a number", bad[bool]("", "", `1`, "number is no boolean")},
		{"bytes", good("", "", `"3q2+7w=="`, []byte{0xde, 0xad, 0xbe, 0xef})},
		{"bytes, empty", good("", "", `""`, []byte{})},
		{"bytes, hex", good("encoding=hex", "", `"deadbeef"`, []byte{0xde, 0xad, 0xbe, 0xef})},
		{"bytes, url", good("encoding=base64url", "", `"3q2-7w=="`, []byte{0xde, 0xad, 0xbe, 0xef})},
		{"bytes, text", good("encoding=text", "", `"é"`, []byte("é"))},
		{"bytes, schema beats tag", good("encoding=hex", `"type":"bytes"`, `"3q2+7w=="`, []byte{0xde, 0xad, 0xbe, 0xef})},
		{"bytes, broken", bad[[]byte]("", "", `"#"`, "not base64")},

		{"time of bare number", bad[time.Time]("", "", `63072000000000`, "declare unit=")},
		{"time of declared unit", good("unit=us", "", `63072000000000`, day(1972, 1, 1))},
		{"time of MicroTimestamp", good("", named("int64", "io.debezium.time.MicroTimestamp"), `63072000000000`, day(1972, 1, 1))},
		{"time, schema beats tag", good("unit=s", named("int64", "io.debezium.time.NanoTimestamp"), `63072000000000000`, day(1972, 1, 1))},
		{"time of declared int64", good("unit=s", `"type":"int64"`, `63072000`, day(1972, 1, 1))},
		{"time of Date", good("", named("int32", "io.debezium.time.Date"), `-1`, day(1969, 12, 31))},
		{"time of Connect Timestamp", good("", named("int64", "org.apache.kafka.connect.data.Timestamp"), `-1`, day(1970, 1, 1).Add(-time.Millisecond))},
		{"infinite µs", good("unit=us", "", `9223372036825200000`, Infinity)},
		{"infinite ms", good("unit=ms", "", `-9223372036832400`, NegativeInfinity)},
		{"infinite ns", good("unit=ns", "", `9223372036854775807`, Infinity)},
		{"infinite text", good("", "", `"infinity"`, Infinity)},
		{"infinite days", good("unit=days", "", `-2147472691`, NegativeInfinity)},
		{"infinite days, streamed", good("unit=days", "", `-2147472692`, Infinity)},
		{"infinite days of a snapshot", good("unit=days", "", `2147483647`, Infinity)},
		{"zoned", good("", "", `"2026-02-28T07:00:00.123456Z"`, day(2026, 2, 28).Add(7*time.Hour+123456*time.Microsecond))},
		{"zoned, far", good("", "", `"+21016-11-04T06:51:30.123456Z"`, time.Date(21016, 11, 4, 6, 51, 30, 123456000, time.UTC))},
		{"zoned, BC", good("", "", `"-4713-12-31T00:00:00Z"`, day(-4713, 12, 31))},
		{"zoned, offset", good("", "", `"2026-02-28T07:00:00+02:30"`, day(2026, 2, 28).Add(4*time.Hour+30*time.Minute))},
		{"iso date", good("", "", `"2017-09-15Z"`, day(2017, 9, 15))},
		{"no date", bad[time.Time]("", "", `"2017-02-30"`, "no ISO 8601")},
		{"text", bad[time.Time]("", "", `"yesterday"`, "no ISO 8601")},
		{"24:00", good("", named("int64", "io.debezium.time.MicroTime"), `86400000000`, 24*time.Hour)},
		{"zoned time", good("", "", `"11:51:30.123789Z"`, 11*time.Hour+51*time.Minute+30123789*time.Microsecond)},
		{"duration of bare number", bad[time.Duration]("", "", `1`, "declare unit=")},
		{"duration overflow", bad[time.Duration]("unit=days", "", `9223372036854775807`, "out of range")},
		{"interval", good("", "", `"P0Y0M3DT4H5M6.78S"`, 76*time.Hour+5*time.Minute+6780*time.Millisecond)},
		{"interval, negative", good("", "", `"P0Y0M0DT0H0M-1.5S"`, -1500*time.Millisecond)},
		{"interval with months", bad[time.Duration]("", "", `"P1Y2M3DT4H5M6.78S"`, "without years and months")},

		{"null into a value", good("", "", `null`, 0)},
		{"null into a pointer", good("", "", `null`, (*int)(nil))},
		{"pointer", good("", "", `7`, ptr(7))},
		{"sql.Null", good("", "", `7`, sql.Null[int16]{V: 7, Valid: true})},
		{"sql.NullString", good("", "", `""`, sql.NullString{Valid: true})},
		{"sql.Null of null", good("", "", `null`, sql.NullInt64{})},
		{"raw", good("", "", `"{\"b\": [1]}"`, json.RawMessage(`{"b": [1]}`))},
		{"raw of text", bad[json.RawMessage]("", "", `"no json"`, "not JSON")},
		{"raw of known text", good("", `"type":"string"`, `"no json"`, json.RawMessage(`"no json"`))},
		{"raw of json null", good("", named("string", "io.debezium.data.Json"), `"null"`, json.RawMessage(`null`))},
		{"raw of SQL null", good("", named("string", "io.debezium.data.Json"), `null`, json.RawMessage(nil))},
		{"raw of a number", good("", "", `1.50`, json.RawMessage(`1.50`))},
		{"map of JSON text", good("", "", `"{\"k\":9007199254740993}"`, map[string]any{"k": int64(9007199254740993)})},
		{"map of an object", good("", "", `{"a":1}`, map[string]int{"a": 1})},
		{"map of null text", good("", "", `"null"`, map[string]int(nil))},
		{"struct of broken JSON text", bad[struct{ A int }]("", "", `"{\"A\":"`, "not JSON")},
		{"vector", good("", "", `[0.5,-1]`, []float32{0.5, -1})},
		{"vector, empty", good("", "", `[]`, []float32{})},
		{"vector as an array", good("", "", `[0.5,-1]`, [2]float32{0.5, -1})},
		{"array of another length", bad[[3]float32]("", "", `[0.5,-1]`, "2 elements")},
		{"bad element", bad[[]int]("", "", `[1,"x"]`, "element 1")},
		{"sparse vector", good("", "", `{"dimensions":5,"vector":[]}`, sparse{5, [][2]float64{}})},
		{"sparse vector with values", good("", "", `{"dimensions":3000,"vector":[[1,201.0],[9,209.0]]}`, sparse{3000, [][2]float64{{1, 201}, {9, 209}}})},
		{"any", good[any]("", "", `[1,2.5,"x",null,{"k":123456789012345678901}]`, []any{
			int64(1), 2.5, "x", nil, map[string]any{"k": bigText("123456789012345678901")},
		})},
		{"any of exact digits", good[any]("", "", `0.1234567890123456789`, json.Number("0.1234567890123456789"))},
		{"any below float64", good[any]("", "", `1e-400`, json.Number("1e-400"))},
		{"any of a denormal number", good[any]("", "", `1.23456789e-320`, json.Number("1.23456789e-320"))},
		{"any of zero", good[any]("", "", `0.000e5`, 0.0)},
		{"any of 17 digits", good[any]("", "", `0.30000000000000004`, 0.30000000000000004)},
		{"any, declared json", good[any]("json", "", `"{\"k\":1}"`, map[string]any{"k": int64(1)})},
		{"text unmarshaler", good("", "", `"abc"`, upper("ABC"))},
		{"text unmarshaler of decimal", good("", decimal2, `"BOI="`, upper("12.50"))},
		{"text unmarshaler refuses", bad[upper]("", "", `"secret"`, "UnmarshalText refused")},
		{"json unmarshaler", good("", "", `{"a": 1}`, rawJSON(`{"a": 1}`))},
		{"json unmarshaler of JSON column", good("", named("string", "io.debezium.data.Json"), `"{\"a\": 1}"`, rawJSON(`{"a": 1}`))},
		{"bytes of a JSON column", good("", named("string", "io.debezium.data.Json"), `"{\"a\": 1}"`, []byte(`{"a": 1}`))},
		{"bytes of a number", bad[[]byte]("", "", `12`, "number is no string")},
		{"text unmarshaler of a number", good("", "", `-1.50`, upper("-1.50"))},
		{"text unmarshaler of a boolean", good("", "", `true`, upper("TRUE"))},
		{"text unmarshaler of variable decimal", good("", "", `{"scale":4,"value":"AYr3"}`, upper("10.1111"))},
		{"text unmarshaler of an object", bad[upper]("", "", `{"a":1}`, "object is no text")},
		{"both unmarshalers, text", good("", "", `"x"`, both("text x"))},
		{"both unmarshalers, object", good("", "", `{"a":1}`, both(`json {"a":1}`))},
		{"json unmarshaler of decimal", good("", decimal2, `"BOI="`, rawJSON("12.50"))},
		{"json unmarshaler, declared json", good("json", "", `" [1] "`, rawJSON("[1]"))},
		{"json unmarshaler of text", good("", "", `"x"`, rawJSON(`"x"`))},
		{"row of JSON text", good("", "", `"{\"b\":1,\"a\":[true]}"`, Row{{"b", int64(1)}, {"a", []any{true}}})},
		{"row of an array", bad[Row]("", "", `[1]`, "array is no object")},
		{"decimal", good("", "", `-0.050`, *decimal("-0.050"))},
		{"big.Rat", good("", "", `-0.050`, *big.NewRat(-5, 100))},
		{"big.Rat of an array", bad[big.Rat]("", "", `[1]`, "array is no number")},
		{"seconds before 1970", good("unit=s", "", `-1`, time.Unix(-1, 0).UTC())},
		{"escapes", good("", "", `"\"\\\/\b\f\n\r\t\u0041\ud83d\u0041"`, "\"\\/\b\f\n\r\tA\ufffdA")},
		{"named type", good("", "", `"x"`, name("x"))},
		{"recursive", good("", "", `{"value":1,"next":{"value":2,"next":null}}`, list{1, &list{2, nil}})},
		{"duplicate member", good("", "", `{"a":1,"a":2}`, map[string]int{"a": 2})},
	} {
		t.Run(c.name, c.run)
	}
}

type (
	name   string
	sparse struct {
		Dimensions int
		Vector     [][2]float64
	}
	list struct {
		Value int
		Next  *list
	}
)

func bigText(s string) *big.Int {
	n, _ := new(big.Int).SetString(s, 10)
	return n
}

// structOf is struct{ V <type> `cdc:"v,<tag>"` } through Decoder, since T must be known at compile time: the tag is tried through the
// compiler itself.
func decodeColumn[V any](t *testing.T, tag, schema, wire string) (V, error) {
	t.Helper()
	type row struct{ V V }
	d := newDecoder[row](t, Options{})
	if tag != "" {
		form, _, err := parseTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		c := compiler{codecs: map[codecKey]*codec{}, plans: map[reflect.Type]*plan{}}
		if d.plan.fields[0].codec, err = c.compile(reflect.TypeFor[V](), form); err != nil {
			t.Fatal(err)
		}
	}
	r := event(`{"v":` + wire + `}`)
	if schema != "" {
		r = typed(`{`+schema+`,"optional":true,"field":"v"}`, `{"v":`+wire+`}`)
	}
	e, err := d.Decode(r)
	if err != nil {
		var zero V
		return zero, err
	}
	if len(e.UnavailableColumns()) != 0 {
		t.Errorf("unavailable: %v", e.UnavailableColumns())
	}
	return e.After.V, nil
}

func good[V any](tag, schema, wire string, want V) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		got, err := decodeColumn[V](t, tag, schema, wire)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, %v, want %#v", got, err, want)
		}
	}
}

func bad[V any](tag, schema, wire, reason string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		got, err := decodeColumn[V](t, tag, schema, wire)
		var de *DecodeError
		if !errors.As(err, &de) {
			t.Fatalf("got %v, %v", got, err)
		}
		if !strings.Contains(de.Reason, reason) || de.Table != "public.t" || de.Column != "v" || de.Topic != "shop.public.t" ||
			de.Go != reflect.TypeFor[V]().String() || de.Wire == "" || !de.Permanent() {
			t.Errorf("got %+v, want the reason %q", de, reason)
		}
		if content := strings.Trim(wire, `"[]{}`); len(content) > 3 && strings.Contains(err.Error(), content) {
			t.Errorf("the error has the value: %v", err)
		}
	}
}

func TestDecodeErrorUnwraps(t *testing.T) {
	_, err := decodeColumn[upper](t, "", "", `"secret"`)
	if !errors.Is(err, errUpper) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestMisfitAtFirstEvent: with a schema a field that can never fit is an error even while the column is null.
func TestMisfitAtFirstEvent(t *testing.T) {
	type row struct{ A string }
	d := newDecoder[row](t, Options{})
	for _, fields := range []string{
		`{"type":"int32","optional":true,"field":"a"}`,
		`{"type":"boolean","optional":true,"field":"a"}`,
		`{"type":"int64","name":"io.debezium.time.MicroTimestamp","optional":true,"field":"a"}`,
		`{"type":"array","items":{"type":"string"},"optional":true,"field":"a"}`,
	} {
		_, err := d.Decode(typed(fields, `{"a":null}`))
		var de *DecodeError
		if !errors.As(err, &de) || de.Column != "a" || de.Go != "string" || de.Table != "public.t" || de.Topic != "shop.public.t" {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if _, err := d.Decode(typed(`{"type":"string","field":"a"}`, `{"a":"x"}`)); err != nil {
		t.Error(err)
	}
	type at struct{ A *time.Time }
	_, err := newDecoder[at](t, Options{}).Decode(typed(`{"type":"int64","field":"a"}`, `{"a":null}`))
	if err == nil || !strings.Contains(err.Error(), "unit=") {
		t.Errorf("a bare integer fits a time: %v", err)
	}
	type array struct{ A []string }
	if _, err := newDecoder[array](t, Options{}).Decode(typed(`{"type":"array","items":{"type":"int32"},"field":"a"}`, `{"a":null}`)); err == nil {
		t.Error("an array of integers fits a slice of strings")
	}
}

func TestFieldNames(t *testing.T) {
	type base struct{ CreatedAt string }
	type row struct {
		base
		ProductID   int    // folded
		Description string `json:"body,omitempty"`
		Other       string `cdc:"other_name" json:"ignored"`
		Out         string `cdc:"-"`
		JSONOut     string `json:"-"`
		Tagged      string `cdc:",key" json:"tagged_as"`
		hidden      string
	}
	_ = row{}.hidden
	e := decodeOne[row](t, event(`{"product_id":7,"body":"b","other_name":"o","Out":"x","out":"x","json_out":"x","hidden":"x","tagged_as":"t","createdat":"c","more":{}}`))
	want := row{base: base{"c"}, ProductID: 7, Description: "b", Other: "o", Tagged: "t"}
	if *e.After != want || e.UnavailableColumns() != nil {
		t.Errorf("got %+v, lacks %v", *e.After, e.UnavailableColumns())
	}
	if !reflect.DeepEqual(e.Key, Key{{"tagged_as", "t"}}) {
		t.Errorf("key %v", e.Key)
	}
	// A column that the row lacks is unavailable, not zero.
	e = decodeOne[row](t, event(`{"product_id":7,"tagged_as":"t"}`))
	if got, want := e.UnavailableColumns(), []string{"body", "created_at", "other_name"}; !reflect.DeepEqual(got, want) {
		t.Errorf("lacks %v, want %v", got, want)
	}
	// What T has no field for is unavailable, but T lacks nothing.
	e = decodeOne[row](t, event(`{"product_id":7,"body":"b","other_name":"o","createdat":"c","tagged_as":"t","notes":"__debezium_unavailable_value"}`))
	if got := e.UnavailableColumns(); got != nil || !e.Unavailable("notes") {
		t.Errorf("lacks %v, notes unavailable: %v", got, e.Unavailable("notes"))
	}
}

// TestTwoColumnsOneField: which of two columns a field's Go name means is not guessed.
func TestTwoColumnsOneField(t *testing.T) {
	type folded struct{ UserID int }
	r := event(`{"user_id":1,"userid":2}`)
	_, err := newDecoder[folded](t, Options{}).Decode(r)
	var bad *DecodeError
	if !errors.As(err, &bad) || bad.Column != "userid" || !strings.Contains(err.Error(), `"user_id"`) {
		t.Errorf("error %v", err)
	}
	type tagged struct {
		UserID int `cdc:"user_id"`
	}
	if e := decodeOne[tagged](t, r); e.After.UserID != 1 {
		t.Errorf("got %+v", e.After)
	}
	if e := decodeOne[folded](t, event(`{"user_id":1,"user_id":2}`)); e.After.UserID != 2 {
		t.Errorf("of one column given twice the last counts: got %+v", e.After)
	}
}

func TestNewDecoderErrors(t *testing.T) {
	newErr := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q in it", err, w)
			}
		}
	}
	_, err := NewDecoder[struct {
		A chan int
		B int `cdc:"b,unit=weeks"`
		C int `cdc:"c,primary"`
		D map[int]string
		E string `cdc:"e,encoding=rot13"`
		F int    `cdc:"x"`
		G int    `cdc:"x"`
	}](Options{Placeholder: "hex:zz", BinaryMode: "octal", MaxBytes: -2})
	newErr(err, "field A: cannot decode into chan int", "field B: unit", "field C: unknown tag option", "field D:", "field E: encoding", "two fields",
		"Options.Placeholder", "Options.BinaryMode", "Options.MaxBytes")
	_, err = NewDecoder[int](Options{})
	newErr(err, "struct or cdc.Row, not int")
	_, err = NewDecoder[time.Time](Options{})
	newErr(err, "time.Time has no fields for columns")
	_, err = NewDecoder[*allTypes](Options{})
	newErr(err, "not *cdc.allTypes")
	_, err = NewDecoder[struct{ *sparse }](Options{})
	newErr(err, "embedded pointer")
}

// TestEnvelopes has what the recordings do not: other versions, orders and bad messages.
func TestEnvelopes(t *testing.T) {
	type row struct {
		ID   int64 `cdc:"id,key"`
		Name string
	}
	d := newDecoder[row](t, Options{Epoch: 3})
	for _, tc := range []struct{ name, key, value, want string }{
		{"no source", "", `{"op":"u","before":null,"after":{"id":7,"name":"mug"}}`, `u [{id 7}] <nil> &{7 mug}`},
		{"other order", "", `{"source":{"lsn":5},"ts_ms":1,"after":{"name":"mug","id":7},"op":"c","x":[{}]}`, `c [{id 7}] <nil> &{7 mug}`},
		{"white space", "", " {\n\"op\" : \"r\",\t\"after\":\r{ \"id\" : 7 , \"name\" : \"mug\" } } ", `r [{id 7}] <nil> &{7 mug}`},
		{"escaped names", "", `{"\u006fp":"c","aft\u0065r":{"\u0069d":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"payload first", "", `{"payload":{"op":"c","after":{"id":7,"name":"mug"}},"schema":{"type":"struct"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"payload alone", "", `{"schema":null,"payload":{"op":"c","after":{"id":7,"name":"mug"}}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"duplicates", "", `{"op":"d","op":"c","after":{"id":1,"x":2},"after":{"id":6,"name":"cup","id":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"later null", "", `{"op":"c","after":{"id":7,"name":"mug","name":null}}`, `c [{id 7}] <nil> &{7 }`},
		{"key wins", `{"k":8}`, `{"op":"c","after":{"id":7,"name":"mug"}}`, `c [{k 8}] <nil> &{7 mug}`},
		{"routing key", `product-7`, `{"op":"c","after":{"id":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"default key", `default`, `{"op":"d","before":{"id":7,"name":"mug"},"after":null}`, `d [{id 7}] &{7 mug} <nil>`},
		{"delete by key", `{"id":7}`, `{"op":"d","before":null,"after":null}`, `d [{id 7}] <nil> <nil>`},
		{"delete with after", `{"id":7}`, `{"op":"d","before":null,"after":{"id":7}}`, `d [{id 7}] <nil> <nil>`},
		{"truncate", `default`, `{"op":"t","before":null,"after":null}`, `t [] <nil> <nil>`},
		{"tombstone", `{"id":9007199254740993}`, ``, "\x00 [{id 9007199254740993}] <nil> <nil>"},
		{"tombstone in JSON", `{"id":7}`, `null`, "\x00 [{id 7}] <nil> <nil>"},
		{"tombstone with a schema", `{"id":7}`, `{"schema":null,"payload":null}`, "\x00 [{id 7}] <nil> <nil>"},
		{"empty", `{"id":7}`, `{}`, "unknown record"},
		{"flattened without op", `{"id":7}`, `{"id":7}`, "unknown record"},
		{"flattened", `{"id":7}`, `{"id":7,"__op":"u","__deleted":"false"}`, "flattened row"},
		{"flattened, column op", `{"id":7}`, `{"id":7,"op":"u","__deleted":"false"}`, "flattened row"},
		{"schema change", ``, `{"source":{},"ddl":"create table t()","tableChanges":[]}`, "schema change"},
		{"scalar", ``, `17`, "unknown record"},
		{"unknown operation", ``, `{"op":"x","after":{"id":7}}`, "unknown operation"},
		{"long operation", ``, `{"op":"create","after":{"id":7}}`, "unknown operation"},
		{"no row after", `{"id":7}`, `{"op":"u","before":{"id":7},"after":null}`, "operation u without the row after"},
		{"after is no row", `{"id":7}`, `{"op":"c","after":[7]}`, "operation c without the row after"},
		{"before is no row", `{"id":7}`, `{"op":"d","before":7}`, "the row before is no object"},
		{"delete of nothing", ``, `{"op":"d","before":null,"source":{}}`, "neither a key nor the row before"},
		{"message without content", ``, `{"op":"m","message":{"prefix":"p"}}`, "without prefix and content"},
		{"broken key", `{"id":`, `{"op":"c","after":{"id":7}}`, "message key: unexpected end of JSON"},
		{"key of an array", `[7]`, ``, "the message key is no JSON object"},
		{"cut off", ``, `{"op":"c","after":{"id":7`, "message value: not JSON: unexpected end of JSON at byte 25"},
		{"trailing", ``, `{"op":"c","after":{"id":7}} x`, "unexpected data after the JSON value at byte 28"},
		{"trailing comma", ``, `{"op":"c",}`, "want a member's name at byte 10"},
		{"leading zero", ``, `{"op":"c","after":{"id":07}}`, "want a comma"},
		{"deep", ``, `{"op":"c","x":` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `}`, "nested too deeply"},
		{"deep key", strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000), ``, "nested too deeply"},
	} {
		e, err := d.Decode(Record{Topic: "shop.public.t", Key: tc.key, Value: []byte(tc.value)})
		got := fmt.Sprintf("%c %v %v %v", e.Op, e.Key, e.Before, e.After)
		if err == nil {
			if got != tc.want || e.Position().Epoch != 3 {
				t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
			}
			continue
		}
		var permanent interface{ Permanent() bool }
		if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "shop.public.t") || !errors.As(err, &permanent) || !permanent.Permanent() {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestSourceVariants(t *testing.T) {
	for _, tc := range []struct {
		source string
		want   Source
	}{
		{`{"snapshot":true,"ts_ms":1500}`, Source{Snapshot: true, CommitTime: time.UnixMilli(1500).UTC()}},
		{`{"snapshot":"true"}`, Source{Snapshot: true}},
		{`{"snapshot":"last_in_data_collection"}`, Source{Snapshot: true}},
		{`{"snapshot":"incremental","lsn":null,"txId":null}`, Source{Snapshot: true}},
		{`{"snapshot":"false"}`, Source{}},
		{`{"snapshot":false}`, Source{}},
		{`{"snapshot":null}`, Source{}},
		{`{"lsn":18446744073709551615,"txId":4294967297}`, Source{LSN: math.MaxUint64, TxID: 4294967297}},
		{`{"ts_ms":1,"ts_us":1500}`, Source{CommitTime: time.UnixMicro(1500).UTC()}},
		{`{"ts_ns":1500,"ts_ms":1,"ts_us":1}`, Source{CommitTime: time.Unix(0, 1500).UTC()}},
		{`{"lsn":"x","ts_ms":"y","table":7,"db":"\u0064b"}`, Source{Database: "db"}},
		{`null`, Source{}},
	} {
		e := decodeOne[Row](t, Record{Value: []byte(`{"op":"c","after":{"id":1},"source":` + tc.source + `}`)})
		if e.Source != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.source, e.Source, tc.want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Key
	}{
		{``, nil},
		{`default`, nil},
		{`null`, nil},
		{`{"schema":null,"payload":null}`, nil},
		{`{}`, Key{}},
		{`{"id":9007199254740993}`, Key{{"id", int64(9007199254740993)}}},
		{`{"b":1,"a":2}`, Key{{"b", int64(1)}, {"a", int64(2)}}},
		{`{"id":123456789012345678901}`, Key{{"id", bigText("123456789012345678901")}}},
		{`{"f":1.5,"t":true,"n":null,"s":"x\u00e9"}`, Key{{"f", 1.5}, {"t", true}, {"n", nil}, {"s", "xé"}}},
		{`{"a":1,"b":2,"a":3}`, Key{{"a", int64(3)}, {"b", int64(2)}}},
		{`{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":7}}`, Key{{"id", int64(7)}}},
		{`{"payload":{"id":7},"schema":{"type":"struct","fields":[]}}`, Key{{"id", int64(7)}}},
		{`{"schema":"public","payload":"x"}`, Key{{"schema", "public"}, {"payload", "x"}}},
		{`{"n":{"scale":2,"value":"BOI="}}`, Key{{"n", "12.50"}}},
		{
			`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"n"}]},"payload":{"n":"BOI="}}`,
			Key{{"n", "12.50"}},
		},
		{`{"a":[1, 2]}`, Key{{"a", "[1, 2]"}}},
	} {
		e := decodeOne[Row](t, Record{Key: tc.text})
		if !reflect.DeepEqual(e.Key, tc.want) {
			t.Errorf("%s: got %#v", tc.text, e.Key)
		}
	}
	if v, ok := (Key{{"a", nil}}).Get("a"); v != nil || !ok {
		t.Error("Get does not find a null")
	}
	d := newDecoder[Row](t, Options{})
	for _, text := range []string{`{"id":1e999}`, `{"id":7}x`, `7`, `"x"`, `abc`, `{"schema":null,"payload":7}`} {
		if e, err := d.Decode(Record{Key: text}); err == nil {
			t.Errorf("%s: got %v", text, e.Key)
		}
	}
}

func TestChanged(t *testing.T) {
	update := func(before, after string) Record {
		return Record{Key: `{"id":7}`, Value: []byte(`{"op":"u","before":` + before + `,"after":` + after + `}`)}
	}
	const placeholder = `"__debezium_unavailable_value"`
	for _, tc := range []struct {
		name, before, after string
		changed             []string
		known               bool
		unavailable         []string
	}{
		{"only stock", `{"id":7,"title":"mug","stock":1}`, `{"id":7,"title":"mug","stock":2}`, []string{"stock"}, true, nil},
		{"nothing", `{"id":7,"title":"mug"}`, `{"id":7,"title":"mug"}`, nil, true, nil},
		{"no before", `null`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"key alone", `{"id":7}`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"key and nulls", `{"id":7,"title":null}`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"identity by another index", `{"id":null,"title":"mug"}`, `{"id":7,"title":"cup"}`, nil, false, nil},
		{"to null", `{"id":7,"a":"x","b":1}`, `{"id":7,"a":null,"b":1}`, []string{"a"}, true, nil},
		{"from null", `{"id":7,"a":null,"b":1}`, `{"id":7,"a":"x","b":1}`, []string{"a"}, true, nil},
		{"only a key", `{"id":7}`, `{"id":7}`, nil, true, nil},
		{"other order", `{"b":1,"id":7,"a":2}`, `{"id":7,"a":2,"b":3}`, []string{"b"}, true, nil},
		{"other escapes", `{"id":7,"a":"\u0061\/"}`, `{"id":7,"a":"a/"}`, nil, true, nil},
		{"other digits", `{"id":7,"a":1.50,"b":1.5}`, `{"id":7,"a":1.5,"b":1.51}`, []string{"b"}, true, nil},
		{"other type", `{"id":7,"a":"1"}`, `{"id":7,"a":1}`, []string{"a"}, true, nil},
		{"unavailable", `null`, `{"id":7,"a":` + placeholder + `}`, nil, false, []string{"a"}},
		{"filled from before", `{"id":7,"a":"long","b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, []string{"b"}, true, nil},
		{"before lacks it too", `{"id":7,"a":` + placeholder + `,"b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, []string{"b"}, true, []string{"a"}},
		{"null before is not the value", `{"id":7,"a":null,"b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, nil, false, []string{"a"}},
	} {
		e := decodeOne[Row](t, update(tc.before, tc.after))
		changed, known := e.Changed()
		if !reflect.DeepEqual(changed, tc.changed) || known != tc.known || !reflect.DeepEqual(e.UnavailableColumns(), tc.unavailable) {
			t.Errorf("%s: changed %v (%v), lacks %v", tc.name, changed, known, e.UnavailableColumns())
		}
	}
	e := decodeOne[Row](t, update(`{"id":7,"a":"long","b":1}`, `{"id":7,"a":`+placeholder+`,"b":2}`))
	if v, _ := e.After.Get("a"); v != "long" {
		t.Errorf("After does not take the value of Before: %v", v)
	}
	e = decodeOne[Row](t, Record{Value: []byte(`{"op":"c","after":{"id":7,"a":null}}`)})
	if changed, known := e.Changed(); !known || !reflect.DeepEqual(changed, []string{"id", "a"}) {
		t.Errorf("create: %v, %v", changed, known)
	}
	e = decodeOne[Row](t, Record{Key: `{"id":7}`, Value: []byte(`{"op":"d","before":{"id":7,"a":` + placeholder + `}}`)})
	if changed, known := e.Changed(); known || changed != nil || !e.Unavailable("a") {
		t.Errorf("delete: %v, %v, lacks %v", changed, known, e.UnavailableColumns())
	}
}

// TestPlaceholders has every disguise, for the default and for custom settings, and what only looks like one.
func TestPlaceholders(t *testing.T) {
	type row struct {
		ID int
		V  any
	}
	for setting, octets := range map[string]string{
		"": DefaultPlaceholder, "gone": "gone", "hex:676f6e65": "gone", `a"b\`: `a"b\`, "hex:fffe": "\xff\xfe", "fehlt: ä": "fehlt: ä",
	} {
		d := newDecoder[row](t, Options{Placeholder: setting})
		quote := func(s string) string {
			out, _ := json.Marshal(s)
			return string(out)
		}
		codes := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", []byte(octets)), " ", ","), "[]")
		b64 := base64.StdEncoding.EncodeToString([]byte(octets))
		unavailable := []string{quote(b64), `[` + quote(b64) + `]`, `[` + codes + `]`, `["` + nameUUID([]byte(octets)) + `"]`}
		if setting != "hex:fffe" { // no text
			hstore := `{` + quote(octets) + `: ` + quote(octets) + `}`
			unavailable = append(unavailable, quote(octets), `[`+quote(octets)+`]`, hstore, quote(`{`+quote(octets)+`:`+quote(octets)+`}`))
		}
		for _, wire := range unavailable {
			e, err := d.Decode(event(`{"id":7,"v":` + wire + `}`))
			if err != nil || !e.Unavailable("v") || e.Unavailable("id") || e.After.V != nil {
				t.Errorf("%q: %s is not unavailable: %v", setting, wire, err)
			}
		}
		for _, wire := range []string{
			quote(octets + "x"), `[` + quote(octets) + `,` + quote(octets) + `]`, `[` + codes + `,95]`, `[]`, `{}`, `""`, `null`,
			`[` + codes[strings.IndexByte(codes, ',')+1:] + `]`, `{` + quote(octets) + `:null}`, `"` + nameUUID([]byte(octets)) + `"`,
		} {
			e, err := d.Decode(event(`{"id":7,"v":` + wire + `}`))
			if err != nil || e.Unavailable("v") {
				t.Errorf("%q: %s is unavailable: %v", setting, wire, err)
			}
		}
	}
	// The target's type does not matter.
	e := decodeOne[struct{ Vec []float32 }](t, event(`{"vec":"__debezium_unavailable_value"}`))
	if !e.Unavailable("vec") || e.After.Vec != nil {
		t.Errorf("a vector: %v", e.UnavailableColumns())
	}
}

func TestBinaryMode(t *testing.T) {
	type row struct{ A []byte }
	for mode, wire := range map[string]string{"hex": "deadbeff", "base64-url-safe": "3q2-_w==", "bytes": "3q2+/w==", "base64": "3q2+/w=="} {
		d := newDecoder[row](t, Options{BinaryMode: mode})
		e, err := d.Decode(event(`{"a":"` + wire + `"}`))
		if err != nil || len(e.After.A) != 4 || e.After.A[0] != 0xde {
			t.Errorf("%s: %v, %v", mode, e.After, err)
		}
		m, err := d.Decode(Record{Value: []byte(`{"op":"m","message":{"prefix":"p","content":"` + wire + `"}}`)})
		if err != nil || len(m.Message.Content) != 4 {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	d := newDecoder[Row](t, Options{MaxBytes: 100})
	if _, err := d.Decode(event(`{"a":"` + strings.Repeat("x", 100) + `"}`)); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("value: %v", err)
	}
	if _, err := d.Decode(Record{Key: `{"a":"` + strings.Repeat("x", 100) + `"}`}); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("key: %v", err)
	}
	if _, err := newDecoder[Row](t, Options{MaxBytes: -1}).Decode(event(`{"a":"` + strings.Repeat("x", 100) + `"}`)); err != nil {
		t.Error(err)
	}
}

// TestReuse: nothing but Record aliases the message.
func TestReuse(t *testing.T) {
	type row struct {
		A string
		B []byte
		C json.RawMessage
		D any
		E map[string]string
		F json.Number
		G upper
		H rawJSON
	}
	r := event(`{"a":"plain","b":"AAAA","c":[1],"d":"dynamic","e":{"k":"v"},"f":17,"g":"text","h":[2]}`)
	r.Key = `{"id":"key"}`
	e := decodeOne[row](t, r)
	before := fmt.Sprintf("%+v %+v %+v", *e.After, e.Key, e.Source)
	clear(r.Value)
	if after := fmt.Sprintf("%+v %+v %+v", *e.After, e.Key, e.Source); before != after {
		t.Errorf("the event changed with the buffer:\n%s\n%s", before, after)
	}
}

// TestConcurrent decodes different tables and schemas with one decoder, for the race detector.
func TestConcurrent(t *testing.T) {
	d := newDecoder[Row](t, Options{})
	records := append(recorded(t, "schema"), recorded(t, "plain")...)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, r := range records {
				if _, err := d.Decode(r); err != nil && !errors.Is(err, ErrNotChangeEvent) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestCaches: schemas and shapes are bounded, and parsed once.
func TestCaches(t *testing.T) {
	d := newDecoder[Row](t, Options{})
	for i := range 3 * maxSchemas {
		r := typed(fmt.Sprintf(`{"type":"int32","field":"c%d"}`, i), `{"c":1}`)
		for range 2 {
			if _, err := d.Decode(r); err != nil {
				t.Fatal(err)
			}
		}
		first := d.schemas.last.Load()
		if _, err := d.Decode(r); err != nil || d.schemas.last.Load() != first {
			t.Fatalf("schema %d is parsed twice: %v", i, err)
		}
		if _, err := d.Decode(event(fmt.Sprintf(`{"c%d":1}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.schemas.byText); n > maxSchemas {
		t.Errorf("%d schemas", n)
	}
	if n := len(d.shapes.byNames); n > maxShapes {
		t.Errorf("%d shapes", n)
	}
	// The same row under another schema is another type.
	type row struct{ A time.Time }
	times := newDecoder[row](t, Options{})
	for range 2 {
		for unit, want := range map[string]int64{"Timestamp": 1_000_000, "MicroTimestamp": 1_000, "NanoTimestamp": 1} {
			e, err := times.Decode(typed(`{"type":"int64","name":"io.debezium.time.`+unit+`","field":"a"}`, `{"a":1}`))
			if err != nil || e.After.A.UnixNano() != want {
				t.Errorf("%s: %v, %v", unit, e.After, err)
			}
		}
	}
}
