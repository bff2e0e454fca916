package cdc

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// uuid stands for the UUID types of libraries that have no UnmarshalText.
type uuid [16]byte

// TestPostgresTypes has what TestValues has not: types that a library brings for a type of Postgres.
func TestPostgresTypes(t *testing.T) {
	type check struct {
		name string
		run  func(t *testing.T)
	}
	named := func(typ, name string) string { return `"type":"` + typ + `","name":"` + name + `"` }
	structured := func(name string) string { return named("struct", "io.debezium.time.Structured"+name) + `,"fields":[]` }
	const decimal2 = `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}`
	bits := func(length string) string {
		return `"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"` + length + `"}`
	}
	moment := time.Date(2026, 2, 28, 10, 0, 0, 123456000, time.UTC)
	ewkb := []byte("\x01\x01\x00\x00\x20\xe6\x10\x00\x00\xcd\xcc\xcc\xcc\xcc\xcc\x02\x40\xcd\xcc\xcc\xcc\xcc\x6c\x48\x40")
	wkb := []byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0")
	id := uuid{0x7f, 0x1e, 0x4c, 0x1a, 0x4f, 0x5e, 0x4c, 0x57, 0x9a, 0x57, 0x0d, 0x2f, 0x7a, 0x5b, 0x0c, 0x11}

	for _, c := range []check{
		{"interval text", good("", "", `"P1Y2M3DT4H5M6.78S"`, Interval{14, 3, 14706780000})},
		{"interval text of a schema", good("", named("string", "io.debezium.time.Interval"), `"P0Y-1M0DT0H0M0S"`, Interval{Months: -1})},
		{"interval, negative fraction", good("", "", `"P0Y0M0DT0H0M-0.5S"`, Interval{Microseconds: -500000})},
		{"interval, nine digits", good("", "", `"P0Y0M0DT0H0M5.828540999S"`, Interval{Microseconds: 5828541})},
		{"interval, nine digits below zero", good("", "", `"P0Y0M0DT0H0M-5.828540999S"`, Interval{Microseconds: -5828541})},
		{"interval in microseconds", good("", named("int64", "io.debezium.time.MicroDuration"), `37091106780000`, Interval{Microseconds: 37091106780000})},
		{"interval in nanoseconds", good("", named("int64", "io.debezium.time.NanoDuration"), `1000`, Interval{Microseconds: 1})},
		{"interval, declared", good("unit=ms", "", `5`, Interval{Microseconds: 5000})},
		{"interval of a bare number", bad[Interval]("", "", `5`, "declare unit=")},
		{"interval beyond", bad[Interval]("unit=s", "", `9223372036854775807`, "is no interval")},
		{"interval of nothing", bad[Interval]("", "", `"P"`, "is no interval")},
		{"interval, fraction of an hour", bad[Interval]("", "", `"PT1.5H"`, "is no interval")},
		{"interval, months beyond", bad[Interval]("", "", `"P178956971Y"`, "is no interval")},
		{"intervals", good("", "", `["P1M",null]`, []*Interval{{Months: 1}, nil})},
		{"structured interval", good("", structured("Duration"), `{"years":1,"months":2,"days":3,"hours":4,"minutes":5,"seconds":6,"picoseconds":780000000000}`,
			Interval{14, 3, 14706780000})},
		{"structured interval into a duration", good("", structured("Duration"), `{"days":1,"seconds":-1,"picoseconds":-500000000000}`, 24*time.Hour-1500*time.Millisecond)},
		{"structured months into a duration", bad[time.Duration]("", structured("Duration"), `{"months":1}`, "without years and months")},

		{"structured date", good("", structured("Date"), `{"year":-4712,"month":1,"day":1,"specialValue":null}`, day(-4712, 1, 1))},
		{"structured timestamp", good("", structured("TimestampPrecision6"), `{"year":2026,"month":2,"day":28,"hour":10,"minute":0,"second":0,"picoseconds":123456000000,"precision":6}`, moment)},
		{"structured zoned timestamp", good("", structured("ZonedTimestampSourceColumn6174"),
			`{"year":2026,"month":2,"day":28,"hour":13,"minute":0,"second":0,"picoseconds":123456000000,"offsetSeconds":10800,"zoneId":"+03:00"}`, moment)},
		{"structured timestamp without a schema", good("", "", `{"year":2026,"month":2,"day":28,"hour":10,"minute":0,"second":0,"nanos":123456000}`, moment)},
		{"structured infinity", good("", structured("Timestamp"), `{"year":null,"specialValue":"POSITIVE_INFINITY"}`, Infinity)},
		{"structured -infinity", good("", structured("Date"), `{"specialValue":"NEGATIVE_INFINITY"}`, NegativeInfinity)},
		{"structured time", good("", structured("Time"), `{"hour":24,"minute":0,"second":0,"picoseconds":0}`, 24*time.Hour)},
		{"structured zoned time", good("", structured("ZonedTime"), `{"hour":11,"minute":51,"second":30,"picoseconds":123789000000,"offsetSeconds":7200}`,
			9*time.Hour+51*time.Minute+30123789*time.Microsecond)},
		{"structured zero date", bad[time.Time]("", structured("Date"), `{"year":0,"month":0,"day":0}`, "no structured date")},
		{"structured nothing", bad[time.Time]("", structured("Date"), `{}`, "no structured date")},
		{"structured, other special", bad[time.Time]("", structured("Date"), `{"specialValue":"SECRET"}`, "no structured date")},
		{"any structured", good[any]("", structured("Date"), `{"year":2026,"month":2,"day":28}`, day(2026, 2, 28))},
		{"any structured time", good[any]("", structured("Time"), `{"hour":1,"minute":0,"second":0}`, time.Hour)},
		{"any structured interval", good[any]("", structured("Duration"), `{"months":1}`, Interval{Months: 1})},
		{"any broken structured", good[any]("", structured("Date"), `{"year":0}`, map[string]any{"year": int64(0)})},
		{"any structured array", good[any]("", `"type":"array","items":{`+structured("Date")+`}`, `[{"year":2026,"month":2,"day":28},null]`, []any{day(2026, 2, 28), nil})},
		{"any interval beyond a duration", good[any]("", named("int64", "io.debezium.time.MicroDuration"), `31557600000000000`, Interval{Microseconds: 31557600000000000})},

		{"snapshot's infinite day", good("unit=days", "", `-622191234`, Infinity)},
		{"snapshot's other infinite day", good("unit=days", "", `-625821272`, NegativeInfinity)},
		{"iso infinity", good("", named("string", "io.debezium.time.IsoDate"), `"-5877611-06-21Z"`, Infinity)},
		{"iso -infinity", good("", named("string", "io.debezium.time.IsoDate"), `"-5877611-06-22Z"`, NegativeInfinity)},
		{"iso infinity of a snapshot", good("", named("string", "io.debezium.time.IsoDate"), `"+292278994-08-16Z"`, Infinity)},
		{"iso -infinity of a snapshot", good("", named("string", "io.debezium.time.IsoDate"), `"+292269055-12-02Z"`, NegativeInfinity)},
		{"iso timestamp infinity", good("", named("string", "io.debezium.time.IsoTimestamp"), `"+294247-01-10T04:00:25.2Z"`, Infinity)},
		{"iso timestamp -infinity", good("", named("string", "io.debezium.time.IsoTimestamp"), `"-290308-12-21T19:59:27.6Z"`, NegativeInfinity)},
		{"last date", good("", "", `"+5874897-12-31Z"`, day(5874897, 12, 31))},

		{"numeric NaN", good("", `"type":"string"`, `"NAN"`, Decimal{Form: NaN})},
		{"numeric infinity", good("encoding=text", "", `"Infinity"`, Decimal{Form: PlusInfinity})},
		{"numeric NaN in a string", good("", `"type":"string"`, `"NAN"`, "NAN")},
		{"numeric NaN into json.Number", bad[json.Number]("", `"type":"string"`, `"NAN"`, "cannot hold")},
		{"numeric infinity into int", bad[int]("", `"type":"string"`, `"POSITIVE_INFINITY"`, "cannot hold")},

		{"bits as text", good("", bits("11"), `"BQ=="`, "00000000101")},
		{"no bits as text", good("", bits("3"), `""`, "000")},
		{"bits", good("", bits("11"), `"BQ=="`, []byte{5})},
		{"bits, hostile length", bad[string]("", bits("2000000000"), `"BQ=="`, "more bits")},
		{"any bits", good[any]("", bits("11"), `"BQ=="`, []byte{5})},

		{"geometry", good("", "", `{"wkb":"AQEAACDmEAAAzczMzMzMAkDNzMzMzGxIQA==","srid":4326}`, Geometry{4326, ewkb})},
		{"geometry, srid in the EWKB", good("", "", `{"wkb":"AQEAACDmEAAAzczMzMzMAkDNzMzMzGxIQA==","srid":null}`, Geometry{4326, ewkb})},
		{"point", good("", `"type":"struct","name":"io.debezium.data.geometry.Point","fields":[]`, `{"x":1.5,"y":-2.0,"wkb":"AQEAAAAAAAAAAAD4PwAAAAAAAADA","srid":null}`, Geometry{0, wkb})},
		{"geometry as Postgres writes it", good("", "", `"0101000020E6100000CDCCCCCCCCCC0240CDCCCCCCCC6C4840"`, Geometry{4326, ewkb})},
		{"geometry of something else", bad[Geometry]("", "", `{"x":1}`, "no member wkb")},
		{"geometry of text", bad[Geometry]("", "", `"POINT(1 2)"`, "no well-known binary")},

		{"sparse vector", good("", "", `{"dimensions":3000,"vector":[[1,201.0],[9,209.0]]}`, SparseVector{3000, []int32{1, 9}, []float32{201, 209}})},
		{"sparse vector of an object", good("", "", `{"dimensions":9,"vector":{"1":2}}`, SparseVector{9, []int32{1}, []float32{2}})},
		{"sparse vector of entries", good("", "", `{"dimensions":9,"vector":[{"key":1,"value":0.5}]}`, SparseVector{9, []int32{1}, []float32{0.5}})},
		{"sparse vector as text", good("", "", `"{1:201,9:209}/3000"`, SparseVector{3000, []int32{1, 9}, []float32{201, 209}})},
		{"empty sparse vector as text", good("", "", `"{}/5"`, SparseVector{5, []int32{}, []float32{}})},
		{"sparse vector out of bounds", bad[SparseVector]("", "", `{"dimensions":3,"vector":[[4,1]]}`, "out of bounds")},
		{"sparse vector of triples", bad[SparseVector]("", "", `{"dimensions":3,"vector":[[1,1,1]]}`, "no pair")},
		{"sparse vector of text", bad[SparseVector]("", "", `"1:2"`, "no sparse vector")},
		{"vector as text", good("", "", `"[1,-0.5]"`, []float32{1, -0.5})},
		{"vector beyond float32", bad[[]float32]("", "", `[1e39]`, "element 0")},
		{"half vector", good("", `"type":"array","name":"io.debezium.data.FloatVector","items":{"type":"float"}`, `[0.5]`, []float64{0.5})},

		{"address", good("", "", `"192.168.0.1"`, netip.MustParseAddr("192.168.0.1"))},
		{"address, whole prefix", good("", "", `"::1/128"`, netip.MustParseAddr("::1"))},
		{"address with a prefix", bad[netip.Addr]("", "", `"192.168.0.1/24"`, "netip.Prefix")},
		{"prefix", good("", "", `"192.168.0.1/24"`, netip.MustParsePrefix("192.168.0.1/24"))},
		{"prefix without its length", good("", "", `"192.168.0.1"`, netip.MustParsePrefix("192.168.0.1/32"))},
		{"prefix of text", bad[netip.Prefix]("", "", `"localhost"`, "no address")},
		{"hardware address", good("", "", `"08:00:2b:01:02:03"`, net.HardwareAddr{8, 0, 0x2b, 1, 2, 3})},
		{"hardware address of text", bad[net.HardwareAddr]("", "", `"none"`, "no hardware address")},
		{"uuid", good("", named("string", "io.debezium.data.Uuid"), `"7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11"`, id)},
		{"uuids", good("", "", `["7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11",null]`, []*uuid{&id, nil})},
		{"uuid of text", bad[uuid]("", "", `"7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0cxx"`, "not base64")},
		{"bytes in an array", good("", `"type":"bytes"`, `"3q2+7w=="`, [4]byte{0xde, 0xad, 0xbe, 0xef})},
		{"bytes in an array of another length", bad[[3]byte]("", `"type":"bytes"`, `"3q2+7w=="`, "4 bytes")},
		{"numbers in an array of bytes", good("", "", `[1,2]`, [2]byte{1, 2})},

		{"Null", good("", "", `7`, Null[int32]{7, true})},
		{"Null of null", good("", "", `null`, Null[int32]{})},
		{"Null of a time", good("unit=us", "", `63072000000000`, Null[time.Time]{day(1972, 1, 1), true})},
		{"Null of a decimal", good("", decimal2, `"BOI="`, Null[Decimal]{*decimal("12.50"), true})},
		{"Nulls", good("", "", `["a",null]`, []Null[string]{{"a", true}, {}})},
		{"Null, no fit", bad[Null[bool]]("", "", `7`, "number is no boolean")},
		{"sql.Null of a Decimal", good("", decimal2, `"BOI="`, sql.Null[Decimal]{V: *decimal("12.50"), Valid: true})},
		{"map of Nulls", good("", "", `{"a":"1","b":null}`, map[string]Null[string]{"a": {"1", true}, "b": {}})},

		{"json null in any", good[any]("", named("string", "io.debezium.data.Json"), `"null"`, json.RawMessage("null"))},
		{"sql null in any", good[any]("", named("string", "io.debezium.data.Json"), `null`, nil)},
	} {
		t.Run(c.name, c.run)
	}
}

func TestMisfitsOfPostgresTypes(t *testing.T) {
	type row struct {
		A Interval     `cdc:"a"`
		B Geometry     `cdc:"b"`
		C SparseVector `cdc:"c"`
		D netip.Addr   `cdc:"d"`
		E uuid         `cdc:"e"`
		F Null[int]    `cdc:"f"`
	}
	for column, field := range map[string]string{
		"a": `{"type":"int64","name":"io.debezium.time.MicroTime","field":"a"}`,
		"b": `{"type":"array","items":{"type":"int32"},"field":"b"}`,
		"c": `{"type":"int32","field":"c"}`,
		"d": `{"type":"int64","field":"d"}`,
		"e": `{"type":"boolean","field":"e"}`,
		"f": `{"type":"boolean","field":"f"}`,
	} {
		_, err := newDecoder[row](t, Options{}).Decode(typed(field, `{"`+column+`":null}`))
		var bad *DecodeError
		if !errors.As(err, &bad) || bad.Column != column || bad.Table != "public.t" {
			t.Errorf("%s: %v", column, err)
		}
	}
}

func TestIntervalText(t *testing.T) {
	for text, want := range map[string]Interval{
		"PT0S": {}, "P1Y2M3DT4H5M6.78S": {14, 3, 14706780000}, "P-1Y-1M": {Months: -13}, "PT-0.000001S": {Microseconds: -1}, "P-3DT4H": {Days: -3, Microseconds: 14400000000},
		"PT-1H-1M-1.5S": {Microseconds: -3661500000}, "PT2562047788H54.775807S": {Microseconds: math.MaxInt64}, "PT-2562047788H-54.775808S": {Microseconds: math.MinInt64},
	} {
		if want.String() != text {
			t.Errorf("%+v is %s, want %s", want, want, text)
		}
		var got Interval
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if b, err := want.MarshalText(); err != nil || string(b) != text {
			t.Errorf("%s is marshaled as %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "P", "PT", "1D", "P1", "PD", "P1H", "PT1D", "P1.5D", "PT1.S", "PT1.1234567891S", "PT.5S", "P1DT", "P99999999999999999999D", "PT9223372036854775807H", "P2147483648D"} {
		if err := new(Interval).UnmarshalText([]byte(text)); err == nil || len(text) > 3 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for want, i := range map[time.Duration]Interval{
		25 * time.Hour: {Days: 1, Microseconds: 3600000000}, -23 * time.Hour: {Days: -1, Microseconds: 3600000000}, 0: {},
	} {
		if got, ok := i.Duration(); !ok || got != want {
			t.Errorf("%v is %v, %v", i, got, ok)
		}
	}
	for _, i := range []Interval{{Months: 1}, {Days: math.MaxInt32}, {Microseconds: math.MaxInt64}, {Days: 106751, Microseconds: 9000000000000000}} {
		if got, ok := i.Duration(); ok {
			t.Errorf("%v is %v", i, got)
		}
	}
}

func TestGeometryPoint(t *testing.T) {
	for text, want := range map[string][2]float64{
		"0101000020E6100000CDCCCCCCCCCC0240CDCCCCCCCC6C4840":               {2.35, 48.85},
		"0101000000000000000000F83F00000000000000C0":                       {1.5, -2},
		"00000000013FF8000000000000C000000000000000":                       {1.5, -2},
		"01E9030000000000000000F83F00000000000000C00000000000000840":       {1.5, -2}, // ISO Z
		"0101000080000000000000F83F00000000000000C00000000000000840":       {1.5, -2}, // EWKB Z
		"01010000A0E6100000000000000000F83F00000000000000C000000000000008": {1.5, -2},
	} {
		var g Geometry
		if err := g.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if x, y, ok := g.Point(); !ok || x != want[0] || y != want[1] || g.String() != text {
			t.Errorf("%s: %v, %v, %v", text, x, y, ok)
		}
	}
	for _, text := range []string{"", "01", "0102000000", "05010000000000", "0101000020E61000", "0101000000000000", "zz"} {
		var g Geometry
		_ = g.UnmarshalText([]byte(text))
		if x, y, ok := g.Point(); ok {
			t.Errorf("%s: %v, %v", text, x, y)
		}
	}
}

func TestNullJSON(t *testing.T) {
	type row struct{ A, B Null[int] }
	want := row{A: Null[int]{7, true}}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"A":7,"B":null}` {
		t.Errorf("%s, %v", text, err)
	}
	got := row{B: Null[int]{1, true}}
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"A":"x"}`), &got); err == nil || got.A.Valid {
		t.Errorf("%+v, %v", got, err)
	}
	if v, ok := want.A.Get(); v != 7 || !ok {
		t.Errorf("%v, %v", v, ok)
	}
	if s := (SparseVector{5, []int32{1, 3}, []float32{1.5, 2}}).String(); s != "{1:1.5,3:2}/5" {
		t.Error(s)
	}
}
