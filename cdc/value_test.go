package cdc

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

// event wraps a row after into an envelope.
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
	const point = `"type":"struct","name":"io.debezium.data.geometry.Point","fields":[{"type":"double","field":"x"},{"type":"double","field":"y"},` +
		`{"type":"bytes","optional":true,"field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]`
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
		{"map of JSON text in a known string", good("json", `"type":"string"`, `"{\"k\":1}"`, map[string]int{"k": 1})},
		{"map of a known number", bad[map[string]int]("json", `"type":"int32"`, `1`, "no value of the column can be decoded")},
		{"map of an object", good("", "", `{"a":1}`, map[string]int{"a": 1})},
		{"map of a known struct", good("", point, `{"x":1,"y":2.5,"wkb":"AQI=","srid":null}`,
			map[string]any{"x": int64(1), "y": 2.5, "wkb": []byte{1, 2}, "srid": nil})},
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
