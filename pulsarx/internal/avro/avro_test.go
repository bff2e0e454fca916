package avro_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// read reads data with the writer's schema as the reader's, into a T.
func read[T any](writer, reader, data string) (v T, err error) {
	w, err := avro.Parse([]byte(writer), false)
	if err != nil {
		return v, err
	}
	r, err := avro.Parse([]byte(reader), true)
	if err != nil {
		return v, err
	}
	decoder, err := avro.NewDecoder(w, r, reflect.TypeFor[T]())
	if err != nil {
		return v, err
	}
	return v, avro.Decode(decoder, []byte(data), &v)
}

// write writes v, and checks that it is read back as it was.
func write[T any](t *testing.T, schema string, v T) string {
	t.Helper()
	s, err := avro.Parse([]byte(schema), true)
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := avro.NewEncoder(s, reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	data, err := avro.Encode(encoder, nil, v)
	if err != nil {
		t.Fatalf("%v as %s: %v", v, schema, err)
	}
	if back, err := read[T](schema, schema, string(data)); err != nil || !same(back, v) {
		t.Errorf("%v as %s is %q and %v %v", v, schema, data, back, err)
	}
	return string(data)
}

func same(a, b any) bool {
	if r, ok := a.(big.Rat); ok {
		s := b.(big.Rat)
		return r.Cmp(&s) == 0
	}
	return reflect.DeepEqual(a, b)
}

func refuses[T any](t *testing.T, schema string, v T, says string) {
	t.Helper()
	s, err := avro.Parse([]byte(schema), true)
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := avro.NewEncoder(s, reflect.TypeFor[T]())
	if err == nil {
		_, err = avro.Encode(encoder, nil, v)
	}
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v as %s: %v, want %q", v, schema, err, says)
	}
}

const (
	decimalSchema = `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`
	fixedDecimal  = `{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":2}`
	uuidSchema    = `{"type":"string","logicalType":"uuid"}`
	fixedUUID     = `{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`
	uuidText      = "123e4567-e89b-12d3-a456-426614174000"
)

func logical(base, name string) string {
	return fmt.Sprintf(`{"type":%q,"logicalType":%q}`, base, name)
}

// TestWire: the bytes of values, as the specification has them.
func TestWire(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	for got, want := range map[string]string{
		write(t, `"long"`, int64(-2)):                                           "\x03",
		write(t, `"long"`, uint32(64)):                                          "\x80\x01",
		write(t, `"int"`, int8(-1)):                                             "\x01",
		writeOnly(t, `"double"`, float32(1.5)) + "!":                            "\x00\x00\x00\x00\x00\x00\xf8\x3f!",
		write(t, `"float"`, 1.5):                                                "\x00\x00\xc0\x3f",
		write(t, `"bytes"`, []byte{}):                                           "\x00",
		write(t, decimalSchema, *big.NewRat(-5, 100)):                           "\x02\xfb",
		write(t, decimalSchema, "12.30"):                                        "\x04\x04\xce",
		write(t, decimalSchema, json.Number("-0.01")):                           "\x02\xff",
		write(t, fixedDecimal, "-0.02"):                                         "\xff\xff\xff\xfe",
		write(t, uuidSchema, [16]byte{15: 1})[:5]:                               "\x480000",
		write(t, fixedUUID, uuidText):                                           "\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x00",
		write(t, logical("int", "date"), at.Truncate(24*time.Hour)):             "\x92\xb6\x02",
		write(t, logical("int", "time-millis"), time.Second):                    "\xd0\x0f",
		write(t, logical("long", "time-micros"), time.Millisecond):              "\xd0\x0f",
		write(t, logical("long", "timestamp-millis"), time.UnixMilli(-1).UTC()): "\x01",
		write(t, `["null","int"]`, (*int)(nil)) + "?":                           "\x00?",
		write(t, `["string","null","int"]`, any(int64(-1))):                     "\x04\x01",
		write(t, `["string",{"type":"map","values":"int"}]`, any("a")):          "\x00\x02a",
		write(t, `{"type":"array","items":"int"}`, []int32{1, 2}):               "\x04\x02\x04\x00",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, unit := range []string{"timestamp-nanos", "local-timestamp-nanos"} {
		write(t, logical("long", unit), at)
	}
	for _, unit := range []string{"timestamp-micros", "local-timestamp-micros"} {
		write(t, logical("long", unit), at.Truncate(time.Microsecond))
	}
	zone := time.FixedZone("x", 3600)
	wall, err := read[time.Time](logical("long", "local-timestamp-millis"), logical("long", "local-timestamp-millis"),
		writeOnly(t, logical("long", "local-timestamp-millis"), time.Date(2024, 1, 2, 3, 4, 5, 0, zone)))
	if err != nil || wall.Hour() != 3 {
		t.Errorf("the clock on the wall says %v %v", wall, err)
	}
}

func writeOnly[T any](t *testing.T, schema string, v T) string {
	t.Helper()
	s, err := avro.Parse([]byte(schema), true)
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := avro.NewEncoder(s, reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	data, err := avro.Encode(encoder, nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEncodeErrors(t *testing.T) {
	refuses(t, `"int"`, int64(1<<31), "does not fit an int")
	refuses(t, `"long"`, uint64(1<<63), "does not fit a long")
	refuses(t, `"float"`, 0.1, "does not fit a float")
	refuses(t, `"string"`, "\xff", "UTF-8")
	refuses(t, decimalSchema, "0.001", "more than 2 digits behind the point")
	refuses(t, decimalSchema, "123456789.00", "more than 10 digits")
	refuses(t, decimalSchema, "1/3", "not a decimal")
	refuses(t, decimalSchema, "1e99999999", "exponent")
	refuses(t, fixedUUID, "x", "UUID")
	refuses(t, `{"type":"fixed","name":"F","size":2}`, []byte{1}, "1 bytes in place of 2")
	refuses(t, `{"type":"enum","name":"E","symbols":["A"]}`, "B", `"B" is no symbol`)
	refuses(t, `["null","int"]`, 5, "cannot be null")
	refuses(t, `["int","string"]`, any(true), "no place")
	refuses(t, `"int"`, any(nil), "nil in place of int")
	refuses(t, logical("long", "timestamp-nanos"), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "out of range")
	refuses(t, logical("long", "timestamp-micros"), time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC), "out of range")
	refuses(t, logical("long", "local-timestamp-micros"), time.Date(-300_000, 1, 1, 0, 0, 0, 0, time.UTC), "out of range")
	refuses(t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, struct{}{}, "no such field")
	refuses(t, `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, map[string]any{}, "a: missing")
	refuses(t, `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"int"}}]}`,
		map[string]any{"a": []any{int64(1), "x"}}, "a.1: ")
}

// TestNarrow: a number that does not fit the Go type is an error, never its low bits.
func TestNarrow(t *testing.T) {
	const longest = "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" // 2^63-1
	for name, err := range map[string]error{
		"int8":   second(read[int8](`"int"`, `"long"`, "\x80\x02")),
		"uint8":  second(read[uint8](`"int"`, `"int"`, "\x01")),
		"int32":  second(read[int32](`"long"`, `"long"`, longest)),
		"uint64": second(read[uint64](`"long"`, `"long"`, "\x01")),
		"int":    second(read[int64](`"int"`, `"long"`, longest)),
		"millis": second(read[int64](logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), longest)),
		"took":   second(read[time.Duration](logical("long", "time-micros"), logical("long", "time-micros"), longest)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if v, err := read[int64](logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "\x02"); err != nil || v != 1000 {
		t.Errorf("a millisecond in microseconds: %d %v", v, err)
	}
	if v, err := read[int64](logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), "\x01"); err != nil || v != -1 {
		t.Errorf("the microsecond before 1970 in milliseconds: %d %v", v, err)
	}
	if v, err := read[string](`{"type":"bytes","logicalType":"decimal","precision":9,"scale":4}`, decimalSchema, "\x02\x05"); err != nil || v != "0.0005" {
		t.Errorf("a decimal of the writer's scale: %s %v", v, err)
	}
	if v, err := read[float32](`"int"`, `"float"`, "\xfe\xff\xff\xff\x0f"); err != nil || v != 1<<31 {
		t.Errorf("an int as float: %v %v", v, err)
	}
	if v, err := read[any](`"string"`, `["bytes","string"]`, "\x02x"); err != nil || v != "x" {
		t.Errorf("the same type goes before a promotion: %v %v", v, err)
	}
}

func second[T any](_ T, err error) error { return err }

type card struct {
	Number string `avro:"number"`
}

type payment struct {
	avro.OneOf
	Card  *card
	Cash  *int64
	Check *string `avro:"string"`
}

// TestOneOf: a struct that stands for a union.
func TestOneOf(t *testing.T) {
	const schema = `["null",{"type":"record","name":"Card","fields":[{"name":"number","type":"string"}]},"string","long"]`
	cash, check := int64(5), "c"
	for want, v := range map[string]payment{
		"\x00":            {},
		"\x02\x044 2"[:4]: {Card: &card{"4 "}},
		"\x04\x02c":       {Check: &check},
		"\x06\x0a":        {Cash: &cash},
	} {
		if got := write(t, schema, v); got != want {
			t.Errorf("%+v is %q, want %q", v, got, want)
		}
	}
	refuses(t, schema, payment{Cash: &cash, Check: &check}, "both")
	refuses(t, `["null","boolean"]`, payment{}, "no pointer for the branch boolean")
	refuses(t, `["string"]`, payment{}, "has no value")
	if v, err := read[payment](`["int","boolean"]`, schema, "\x00\x0a"); err != nil || v.Cash == nil || *v.Cash != 5 {
		t.Errorf("a promoted branch: %+v %v", v, err)
	}
	if _, err := read[payment](`["int","boolean"]`, schema, "\x02\x01"); err == nil || !strings.Contains(err.Error(), "boolean") {
		t.Errorf("a branch that the reader has not: %v", err)
	}
}

// TestParse: what is no schema, for its owner and for others.
func TestParse(t *testing.T) {
	for text, says := range map[string]string{
		`{`: "unexpected", `"int" "int"`: "after", `null`: "not a schema", `"nothing"`: "unknown type", `{"type":"array"}`: "not a schema",
		`["null","null"]`: "twice", `["null",["int"]]`: "inside", `{"type":"record","fields":[]}`: "without a name",
		`{"type":"record","name":"R"}`: "without fields", `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`: "two fields",
		`{"type":"fixed","name":"F","size":-1}`: "size", `{"type":"enum","name":"E","symbols":["A","A"]}`: "symbol",
		`{"type":"enum","name":"E","symbols":["A"],"default":"B"}`:               "no symbol",
		`{"type":"bytes","logicalType":"decimal","precision":2000,"scale":1001}`: "scale",
	} {
		for _, strict := range []bool{true, false} {
			if _, err := avro.Parse([]byte(text), strict); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", text, err, says)
			}
		}
	}
	for _, text := range []string{
		`[{"type":"fixed","name":"F","size":1},{"type":"record","name":"R","fields":[{"name":"f","type":{"type":"fixed","name":"F","size":1}}]}]`,
		`{"type":"record","name":"Outer$Inner","fields":[]}`, `{"type":"record","name":"R","fields":[{"name":"a-b","type":"int"}]}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}`, `{"type":"enum","name":"E","symbols":["a b"]}`,
		`{"type":"record","name":"R","fields":[{"name":"a","type":["null","int"],"default":1.5}]}`,
	} {
		if _, err := avro.Parse([]byte(text), true); err == nil {
			t.Errorf("%s is strict", text)
		}
		if _, err := avro.Parse([]byte(text), false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDefaults: bytes as characters, nested records, and the second branch of a union.
func TestDefaults(t *testing.T) {
	const reader = `{"type":"record","name":"R","fields":[
		{"name":"b","type":"bytes","default":"\u00ff\u0001"},{"name":"f","type":{"type":"fixed","name":"F","size":1},"default":"\u0080"},
		{"name":"u","type":["null","int"],"default":7},{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]},"default":"B"},
		{"name":"r","type":{"type":"record","name":"S","fields":[{"name":"x","type":"long","default":9007199254740993},{"name":"y","type":"int"}]},"default":{"y":1}},
		{"name":"m","type":{"type":"map","values":{"type":"array","items":"double"}},"default":{"k":[1,2.5]}}]}`
	got, err := read[map[string]any](`{"type":"record","name":"R","fields":[]}`, reader, "")
	want := map[string]any{
		"b": []byte{0xff, 1}, "f": []byte{0x80}, "u": int64(7), "e": "B", "r": map[string]any{"x": int64(9007199254740993), "y": int64(1)},
		"m": map[string]any{"k": []any{1.0, 2.5}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

// TestHostile: what a payload or a schema may ask for is bounded by their lengths.
func TestHostile(t *testing.T) {
	nested := func(levels int) string { // each record holds a thousand of the next, and no byte
		text := `{"type":"record","name":"R0","fields":[]}`
		for i := 1; i <= levels; i++ {
			text = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"f","type":%s}%s]}`, i, text, repeated(i-1))
		}
		return text
	}
	const node = `{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}`
	for name, c := range map[string]struct{ schema, data string }{
		"announced items":    {`{"type":"array","items":"long"}`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"least integer":      {`{"type":"array","items":"long"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"},
		"many nulls":         {`{"type":"array","items":"null"}`, strings.Repeat("\xfe\xff\xff\x0f", 1000)},
		"announced string":   {`"string"`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"negative string":    {`"bytes"`, "\x01"},
		"long number":        {`"long"`, strings.Repeat("\xff", 20)},
		"wide int":           {`"int"`, "\x80\x80\x80\x80\x80\x01"},
		"deep":               {node, strings.Repeat("\x02", 1<<20)},
		"nothing, nested":    {nested(8), ""},
		"big fixed":          {`{"type":"fixed","name":"F","size":9007199254740993}`, "x"},
		"decimals of zeroes": {`{"type":"array","items":{"type":"bytes","logicalType":"decimal","precision":1000,"scale":1000}}`, "\xfe\xff\x7f" + strings.Repeat("\x02\x01", 1<<20)},
		"a long decimal":     {decimalSchema, "\x80\x80\x02" + strings.Repeat("x", 1<<14)},
		"bad boolean":        {`"boolean"`, "\x02"},
		"bad branch":         {`["null","int"]`, "\x04"},
		"bad symbol":         {`{"type":"enum","name":"E","symbols":["A"]}`, "\x02"},
		"empty union":        {`[]`, "\x00"},
	} {
		for _, reader := range []string{c.schema, `{"type":"record","name":"X","fields":[]}`} {
			if _, err := decodeAny([]byte(c.schema), []byte(reader), []byte(c.data)); err == nil {
				t.Errorf("%s is read", name)
			}
		}
		// And when it is passed over.
		w := fmt.Sprintf(`{"type":"record","name":"W","fields":[{"name":"x","type":%s}]}`, c.schema)
		if _, err := decodeAny([]byte(w), []byte(`{"type":"record","name":"W","fields":[]}`), []byte(c.data)); err == nil && !strings.Contains(c.schema, "decimal") {
			t.Errorf("%s is passed over", name)
		}
	}
	// Defaults that double at each level.
	text := `{"type":"record","name":"R0","fields":[{"name":"a","type":"string","default":"0123456789"}]}`
	for i := 1; i < 40; i++ {
		text = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s,"default":{}},{"name":"b","type":"R%d","default":{}}]}`, i, text, i-1)
	}
	if _, err := avro.Parse([]byte(text), true); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("defaults that double: %v", err)
	}
}

// TestWideSchemas compiles schemas that would take hours, or all memory, if the work grew with the square of their lengths.
func TestWideSchemas(t *testing.T) {
	const n = 50_000
	list := func(format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(all, ",")
	}
	record := `{"type":"record","name":"R","fields":[`
	for name, text := range map[string]string{
		"union":  "[" + list(`{"type":"fixed","name":"F%d","size":1}`) + `,"null"]`,
		"fields": record + list(`{"name":"f%d","type":"int"}`) + "]}",
		"enum": record + `{"name":"e","type":{"type":"enum","name":"E","symbols":[` + list(`"S%d"`) + `]}},` +
			list(`{"name":"f%d","type":"E"}`) + "]}",
	} {
		s, err := avro.Parse([]byte(text), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := avro.NewDecoder(s, s, reflect.TypeFor[any]()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// repeated are 99 more fields of the type R<i>.
func repeated(i int) string {
	var b strings.Builder
	for f := range 99 {
		fmt.Fprintf(&b, `,{"name":"f%d","type":"R%d"}`, f, i)
	}
	return b.String()
}

// TestRoundTrips: random schemas and values come back as they were.
func TestRoundTrips(t *testing.T) {
	for seed := range uint64(300) {
		g := generator{rand.New(rand.NewPCG(seed, 1)), 0}
		tree := g.schema(4)
		text, _ := json.Marshal(tree)
		s, err := avro.Parse(text, true)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		encoder, err := avro.NewEncoder(s, reflect.TypeFor[any]())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		v := g.value(tree)
		data, err := avro.Encode(encoder, []byte("x"), v)
		if err != nil {
			t.Fatalf("seed %d: %v as %s: %v", seed, v, text, err)
		}
		if back, err := decodeAny(text, text, data[1:]); err != nil || !reflect.DeepEqual(back, v) {
			t.Fatalf("seed %d: %v as %s became %v %v", seed, v, text, back, err)
		}
		for cut := range data[1:] { // a prefix is never a value
			if back, err := decodeAny(text, text, data[1:1+cut]); err == nil {
				t.Fatalf("seed %d: %d of %d bytes of %s are %v", seed, cut, len(data)-1, text, back)
			}
		}
	}
}

type generator struct {
	*rand.Rand
	names int
}

func (g *generator) name(prefix string) string {
	g.names++
	return fmt.Sprint(prefix, g.names)
}

func (g *generator) schema(depth int) any {
	simple := []string{"null", "boolean", "long", "double", "bytes", "string"}
	k := g.IntN(len(simple) + 8)
	if depth == 0 && k > len(simple)+3 {
		k = 0
	}
	switch k - len(simple) {
	case 0:
		return map[string]any{"type": "enum", "name": g.name("E"), "symbols": []any{"A", "B"}}
	case 1:
		return map[string]any{"type": "fixed", "name": g.name("F"), "size": g.IntN(4)}
	case 2:
		return map[string]any{"type": "long", "logicalType": "timestamp-micros"}
	case 3:
		return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": 19, "scale": 3}
	case 4:
		return map[string]any{"type": "array", "items": g.schema(depth - 1)}
	case 5:
		return map[string]any{"type": "map", "values": g.schema(depth - 1)}
	case 6:
		branches := []any{"null"}
		for _, b := range []any{"boolean", "string", "double"} {
			if g.IntN(2) == 0 {
				branches = append(branches, b)
			}
		}
		if g.IntN(2) == 0 {
			branches = append(branches, g.record(depth))
		}
		g.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
		return branches
	case 7:
		return g.record(depth)
	}
	return simple[k]
}

func (g *generator) record(depth int) any {
	fields := []any{}
	for i := range g.IntN(4) {
		fields = append(fields, map[string]any{"name": fmt.Sprint("f", i), "type": g.schema(depth - 1)})
	}
	return map[string]any{"type": "record", "name": g.name("R"), "fields": fields}
}

func (g *generator) value(schema any) any {
	switch s := schema.(type) {
	case []any:
		return g.value(s[g.IntN(len(s))])
	case map[string]any:
		return g.complex(s)
	case string:
		switch s {
		case "boolean":
			return g.IntN(2) == 0
		case "long":
			return g.Int64() >> g.IntN(64)
		case "double":
			return math.Float64frombits(g.Uint64() &^ (1 << 62)) // finite
		case "bytes":
			return append([]byte{}, "\x00\xff"[:g.IntN(3)]...)
		case "string":
			return strings.Repeat("ä", g.IntN(100))
		}
	}
	return nil
}

func (g *generator) complex(s map[string]any) any {
	switch {
	case s["logicalType"] == "timestamp-micros":
		return time.UnixMicro(g.Int64N(1 << 52)).UTC()
	case s["logicalType"] == "decimal":
		return json.Number(fmt.Sprintf("%d.%03d", g.IntN(1000), g.IntN(1000)))
	case s["type"] == "enum":
		return s["symbols"].([]any)[g.IntN(2)]
	case s["type"] == "fixed":
		return append([]byte{}, "abcd"[:s["size"].(int)]...)
	case s["type"] == "array":
		items := []any{}
		for range g.IntN(4) {
			items = append(items, g.value(s["items"]))
		}
		return items
	}
	out := map[string]any{}
	if s["type"] == "map" {
		for i := range g.IntN(4) {
			out[fmt.Sprint("k", i)] = g.value(s["values"])
		}
		return out
	}
	for _, f := range s["fields"].([]any) {
		field := f.(map[string]any)
		out[field["name"].(string)] = g.value(field["type"])
	}
	return out
}

type fuzzed struct {
	ID    int32            `avro:"id"`
	Name  *string          `avro:"name"`
	Items []fuzzed         `avro:"items"`
	Map   map[string]uint8 `avro:"map"`
	Any   any              `avro:"any"`
	Rat   big.Rat          `avro:"rat"`
	At    *time.Time       `avro:"at"`
	Pay   payment          `avro:"pay"`
	Sum   [2]byte          `avro:"sum"`
}

const fuzzedSchema = `{"type":"record","name":"fuzzed","fields":[
	{"name":"id","type":"int","default":1},{"name":"name","type":["null","string"],"default":null},
	{"name":"items","type":{"type":"array","items":"fuzzed"},"default":[]},{"name":"map","type":{"type":"map","values":"int"},"default":{"k":5}},
	{"name":"any","type":["null","string","double",{"type":"array","items":"long"}],"default":null},
	{"name":"rat","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2},"default":"\u0001"},
	{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},
	{"name":"pay","type":["null","string","long",{"type":"record","name":"card","fields":[{"name":"number","type":"string"}]}],"default":null},
	{"name":"sum","type":{"type":"fixed","name":"Two","size":2},"default":"ab"}]}`

// FuzzDecode: any schema and any bytes give a value or an error, in a time and memory that their lengths bound.
func FuzzDecode(f *testing.F) {
	f.Add(fuzzedSchema, []byte("\x02\x00\x00\x00\x00\x02\x05\x00\x00ab"))
	f.Add(`{"type":"record","name":"Outer$Inner","fields":[{"name":"id","type":"long"}]}`, []byte("\x0a"))
	f.Add(`{"type":"array","items":"null"}`, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add(`{"type":"record","name":"N","fields":[{"name":"items","type":{"type":"array","items":"N"}},{"name":"any","type":["null","N"]}]}`, []byte("\x02\x00\x00\x00"))
	f.Add(`["null",{"type":"map","values":{"type":"fixed","name":"d","size":3,"logicalType":"decimal","precision":3}}]`, []byte("\x02\x02\x02kabc\x00"))
	reader, err := avro.Parse([]byte(fuzzedSchema), true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, schema string, data []byte) {
		writer, err := avro.Parse([]byte(schema), false)
		if err != nil {
			return
		}
		if decoder, err := avro.NewDecoder(writer, reader, reflect.TypeFor[fuzzed]()); err == nil {
			var v fuzzed
			_ = avro.Decode(decoder, data, &v)
		}
		decoder, err := avro.NewDecoder(writer, writer, reflect.TypeFor[any]())
		if err != nil {
			t.Fatalf("%s does not read itself: %v", schema, err)
		}
		var v any
		if avro.Decode(decoder, data, &v) != nil {
			return
		}
		encoder, err := avro.NewEncoder(writer, reflect.TypeFor[any]())
		if err != nil {
			t.Fatal(err)
		}
		again, err := avro.Encode(encoder, nil, v)
		if err != nil {
			return // a union's value may fit an earlier branch, and decimals their precision
		}
		var w any
		if err := avro.Decode(decoder, again, &w); err != nil {
			t.Fatalf("%q of %s became %v and then %q: %v", data, schema, v, again, err)
		}
	})
}

// TestUnionBranches: a value without a type of its own is written as the branch that it is by nature, not as an earlier one that takes it.
func TestUnionBranches(t *testing.T) {
	const (
		micros  = `{"type":"long","logicalType":"timestamp-micros"}`
		decimal = `{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`
		first   = `{"type":"record","name":"First","fields":[{"name":"a","type":"int","default":7}]}`
		second  = `{"type":"record","name":"Second","fields":[{"name":"a","type":"int","default":0},{"name":"b","type":"int"}]}`
	)
	noon := time.Date(2024, 5, 6, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		union string
		value any
		want  int64
	}{
		{`["bytes","string"]`, "s", 1},
		{`["bytes","string"]`, []byte("s"), 0},
		{`["string","bytes"]`, []byte("s"), 1},
		{`["string",{"type":"enum","name":"E","symbols":["A"]}]`, "A", 0},
		{`["float","double"]`, 1.5, 1},
		{`["int","long"]`, int64(1 << 40), 1},
		{`[{"type":"int","logicalType":"date"},` + micros + `]`, noon, 1},
		{`[{"type":"int","logicalType":"date"},"string"]`, noon, 0},
		{`[{"type":"int","logicalType":"time-millis"},{"type":"long","logicalType":"time-micros"}]`, time.Microsecond, 1},
		{`["string",` + decimal + `]`, json.Number("1.25"), 1},
		{`[` + decimal + `,"string"]`, "1.25", 1},
		{`["null",` + first + `,` + second + `]`, map[string]any{"b": int64(1)}, 2},
		{`[` + second + `,` + first + `]`, map[string]any{"a": int64(1)}, 1},
		{`["null",` + first + `]`, map[string]any{"a": int64(1), "unknown": 1}, 1},
	} {
		s, err := avro.Parse([]byte(c.union), true)
		if err != nil {
			t.Fatal(err)
		}
		x, err := avro.NewEncoder(s, reflect.TypeFor[any]())
		if err != nil {
			t.Fatal(err)
		}
		out, err := avro.Encode(x, nil, c.value)
		if got, _ := binary.Varint(out); err != nil || got != c.want {
			t.Errorf("%v in %s: branch %d, %v", c.value, c.union, got, err)
		}
	}
}
