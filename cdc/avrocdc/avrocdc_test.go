package avrocdc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hamba/avro/v2"

	"github.com/tidemark-go/tidemark/cdc"
)

// connect is a schema in the JSON of Kafka Connect.
type connect struct {
	Type       string            `json:"type"`
	Optional   bool              `json:"optional"`
	Name       string            `json:"name"`
	Field      string            `json:"field"`
	Parameters map[string]string `json:"parameters"`
	Items      *connect          `json:"items"`
	Values     *connect          `json:"values"`
	Fields     []connect         `json:"fields"`
}

// avroNames are Avro's names of Connect's types.
var avroNames = map[string]string{
	"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double", "boolean": "boolean", "bytes": "bytes", "string": "string",
}

// toAvro is what Confluent's AvroData makes of a Connect schema: optional ones become unions with null, semantic names and parameters
// properties, and a record that comes again a reference.
func (c *connect) toAvro(seen map[string]bool) any {
	var typ any
	props := map[string]any{}
	if c.Name != "" {
		props["connect.name"] = c.Name
	}
	if len(c.Parameters) > 0 {
		props["connect.parameters"] = c.Parameters
	}
	switch c.Type {
	case "struct":
		name := c.Name
		if name == "" {
			name = fmt.Sprintf("ConnectDefault%d", len(seen))
		}
		if seen[name] {
			typ = name
			break
		}
		seen[name] = true
		fields := []any{}
		for i := range c.Fields {
			fields = append(fields, map[string]any{"name": c.Fields[i].Field, "type": c.Fields[i].toAvro(seen)})
		}
		props["type"], props["name"], props["fields"] = "record", name, fields
		typ = props
	case "array":
		props["type"], props["items"] = "array", c.Items.toAvro(seen)
		typ = props
	case "map":
		props["type"], props["values"] = "map", c.Values.toAvro(seen)
		typ = props
	default:
		props["type"] = avroNames[c.Type]
		typ = props
	}
	if c.Optional {
		return []any{"null", typ}
	}
	return typ
}

// encode appends a JSON value in Avro.
func (c *connect) encode(tb testing.TB, b []byte, v any) []byte {
	tb.Helper()
	if c.Optional {
		if v == nil {
			return append(b, 0)
		}
		b = append(b, 2)
	}
	switch c.Type {
	case "struct":
		for i := range c.Fields {
			b = c.Fields[i].encode(tb, b, v.(map[string]any)[c.Fields[i].Field])
		}
	case "array":
		list := v.([]any)
		if len(list) > 0 {
			b = binary.AppendVarint(b, int64(len(list)))
		}
		for _, element := range list {
			b = c.Items.encode(tb, b, element)
		}
		b = append(b, 0)
	case "int8", "int16", "int32", "int64":
		n, err := v.(json.Number).Int64()
		if err != nil {
			tb.Fatal(err)
		}
		b = binary.AppendVarint(b, n)
	case "float":
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(float(tb, v))))
	case "double":
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float(tb, v)))
	case "boolean":
		b = append(b, map[bool]byte{true: 1}[v.(bool)])
	case "string":
		b = append(binary.AppendVarint(b, int64(len(v.(string)))), v.(string)...)
	case "bytes":
		octets, err := base64.StdEncoding.DecodeString(v.(string))
		if err != nil {
			tb.Fatal(err)
		}
		b = append(binary.AppendVarint(b, int64(len(octets))), octets...)
	default:
		tb.Fatalf("no type %q", c.Type)
	}
	return b
}

func float(tb testing.TB, v any) float64 {
	tb.Helper()
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			tb.Fatal(err)
		}
		return f
	case string:
		return map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[v]
	}
	tb.Fatalf("no number: %v", v)
	return 0
}

// side is one side of a recorded message: its schema and its encoding in Avro.
func side(tb testing.TB, text []byte) (schema, message []byte, ok bool) {
	tb.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var wrapped struct {
		Schema  connect `json:"schema"`
		Payload any     `json:"payload"`
	}
	if decoder.Decode(&wrapped) != nil || wrapped.Schema.Type == "" {
		return nil, nil, false
	}
	schema, err := json.Marshal(wrapped.Schema.toAvro(map[string]bool{}))
	if err != nil {
		tb.Fatal(err)
	}
	return schema, wrapped.Schema.encode(tb, nil, wrapped.Payload), true
}

// part is one side of a KeyValue in Pulsar's encoding of such schemas and of inline messages.
func part(b []byte) []byte {
	if b == nil {
		return []byte{0xff, 0xff, 0xff, 0xff}
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func pair(key, value []byte) []byte { return append(part(key), part(value)...) }

// recorded are the messages of package cdc's recording with schemas.
func recorded(tb testing.TB) []cdc.Record {
	tb.Helper()
	file, err := os.Open("../testdata/schema.jsonl.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	var records []cdc.Record
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Topic, Key, Value string
			Properties        map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			tb.Fatal(err)
		}
		records = append(records, cdc.Record{Topic: line.Topic, Key: line.Key, Value: []byte(line.Value), Properties: line.Properties})
	}
	if lines.Err() != nil || len(records) < 100 {
		tb.Fatal(len(records), lines.Err())
	}
	return records
}

func newDecoder[T any](tb testing.TB) *Decoder[T] {
	tb.Helper()
	d, err := NewDecoder[T](cdc.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// TestRecorded encodes every recorded message in Avro, in each of the ways that Pulsar IO has, and wants the events of its JSON.
func TestRecorded(t *testing.T) {
	plain, err := cdc.NewDecoder[cdc.Row](cdc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	header := []byte{0, 0, 0, 0, 9}
	decoders := map[string]*Decoder[cdc.Row]{}
	events, parsed := 0, map[string]bool{}
	for _, r := range recorded(t) {
		want, wantErr := plain.Decode(r)
		keySchema, key, hasKey := side(t, []byte(r.Key))
		valueSchema, value, hasValue := side(t, r.Value)
		if !hasKey || !hasValue {
			continue
		}
		if text := string(valueSchema); !parsed[text] {
			parsed[text] = true
			theirs(t, text, value)
		}
		if wantErr == nil {
			events++
		}
		for name, m := range map[string]cdc.Record{
			"value":                   {Key: r.Key, Value: value, SchemaType: "AVRO", Schema: valueSchema},
			"value, header":           {Key: r.Key, Value: append(header, value...), SchemaType: "AVRO", Schema: valueSchema},
			"separated":               {Key: base64.StdEncoding.EncodeToString(key), Value: value, SchemaType: "KEY_VALUE", Schema: pair(keySchema, valueSchema)},
			"separated, header":       {Key: base64.StdEncoding.EncodeToString(append(header, key...)), Value: append(header, value...), SchemaType: "KEY_VALUE", Schema: pair(keySchema, valueSchema)},
			"inline":                  {Key: "ignored", Value: pair(key, value), SchemaType: "KEY_VALUE", Schema: pair(keySchema, valueSchema)},
			"separated JSON":          {Key: base64.StdEncoding.EncodeToString([]byte(r.Key)), Value: r.Value, SchemaType: "KEY_VALUE", Schema: pair(keySchema, valueSchema)},
			"inline JSON":             {Value: pair([]byte(r.Key), r.Value), SchemaType: "KEY_VALUE", Schema: pair(keySchema, valueSchema)},
			"value, declared offset":  {Key: r.Key, Value: append(header, value...), SchemaType: "AVRO", Schema: valueSchema, Properties: map[string]string{offsetProperty: "5"}},
			"value, declared nothing": {Key: r.Key, Value: value, SchemaType: "AVRO", Schema: valueSchema, Properties: map[string]string{offsetProperty: "0"}},
		} {
			if decoders[name] == nil {
				decoders[name] = newDecoder[cdc.Row](t)
			}
			m.Topic = r.Topic
			got, err := decoders[name].Decode(m)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("%s, %s: %v, want %v", name, r.Topic, err, wantErr)
			}
			if !reflect.DeepEqual(got.Record, m) && err == nil {
				t.Fatalf("%s, %s: the record is another", name, r.Topic)
			}
			want.Record, got.Record = cdc.Record{}, cdc.Record{}
			// NaN differs from itself; the row as text does not.
			if fmt.Sprintf("%+v %v %v", show(&got), got.After, got.Before) != fmt.Sprintf("%+v %v %v", show(&want), want.After, want.Before) {
				t.Fatalf("%s, %s:\ngot  %+v\nwant %+v", name, r.Topic, got, want)
			}
		}
	}
	if events < 40 || len(parsed) < 8 {
		t.Errorf("%d events of %d schemas", events, len(parsed))
	}
}

func show(e *cdc.Event[cdc.Row]) string {
	changed, known := e.Changed()
	return fmt.Sprint(e.Op, e.Key, e.Source, e.ProcessedTime, e.Transaction, changed, known, e.UnavailableColumns())
}

// theirs has another reader of Avro decode what the test encoded, so that ours is not compared with its own mistakes.
func theirs(t *testing.T, schema string, message []byte) {
	t.Helper()
	s, err := avro.ParseWithCache(schema, "", &avro.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := (avro.Config{MaxByteSliceSize: -1}).Freeze().Unmarshal(s, message, &v); err != nil || v == nil {
		t.Fatalf("another reader does not read what the test encodes: %v", err)
	}
}

type product struct {
	ID        int64 `cdc:"id,key"`
	Price     cdc.Decimal
	At        time.Time
	Day       time.Time
	Clock     time.Duration
	Every     cdc.Interval
	UID       [16]byte `cdc:"uid"`
	Kind      string
	Tags      []string
	Extra     map[string]cdc.Null[string]
	Blob      []byte
	Score     float32
	Either    any
	Fixed     [2]byte
	Connect   time.Time
	Recursive any
}

const productSchema = `{"type":"record","name":"Envelope","namespace":"shop","fields":[
	{"name":"op","type":{"type":"enum","name":"Op","symbols":["c","u","d"]}},
	{"name":"after","type":["null",{"type":"record","name":"Value","fields":[
		{"name":"id","type":"long"},
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"day","type":["null",{"type":"int","logicalType":"date"}],"default":null},
		{"name":"clock","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"every","type":{"type":"fixed","name":"Every","size":12,"logicalType":"duration"}},
		{"name":"uid","type":{"type":"string","logicalType":"uuid"}},
		{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["mug","c\u0075p"]}},
		{"name":"tags","type":{"type":"array","items":"string"}},
		{"name":"extra","type":{"type":"map","values":["null","string"]}},
		{"name":"blob","type":"bytes"},
		{"name":"score","type":"float"},
		{"name":"either","type":["int","string","null"]},
		{"name":"fixed","type":{"type":"fixed","name":"Two","size":2}},
		{"name":"connect","type":{"type":"long","connect.version":1,"connect.name":"io.debezium.time.NanoTimestamp"}},
		{"name":"recursive","type":["null",{"type":"record","name":"List","fields":[{"name":"next","type":["null","List"]},{"name":"value","type":"int"}]}]}
	]}]},
	{"name":"before","type":["null","Value"]}]}`

// TestOwnEnvelope is an envelope of a program of its own, with Avro's logical types, encoded by another library.
func TestOwnEnvelope(t *testing.T) {
	value := marshal(t)
	d := newDecoder[product](t)
	e, err := d.Decode(cdc.Record{Topic: "shop", Value: value, SchemaType: "AVRO", Schema: []byte(productSchema)})
	if err != nil {
		t.Fatal(err)
	}
	got := *e.After
	price := got.Price.String()
	got.Price = cdc.Decimal{}
	want := product{
		ID: 9007199254740993, At: time.UnixMicro(63072000000001).UTC(), Day: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), Clock: 86399 * time.Second,
		Every: cdc.Interval{Months: 14, Days: 3, Microseconds: 1000000}, UID: [16]byte{0x7f, 0x1e, 0x4c, 0x1a, 0x4f, 0x5e, 0x4c, 0x57, 0x9a, 0x57, 0x0d, 0x2f, 0x7a, 0x5b, 0x0c, 0x11},
		Kind: "cup", Tags: []string{"a\"\\\n\x01é😀", ""}, Extra: map[string]cdc.Null[string]{"k": {V: "v", Valid: true}, "n": {}}, Blob: []byte{0xde, 0xad}, Score: 0.1,
		Either: "text", Fixed: [2]byte{1, 2}, Connect: time.Unix(0, 1500).UTC(),
		Recursive: map[string]any{"value": int64(1), "next": map[string]any{"value": int64(2), "next": nil}},
	}
	if !reflect.DeepEqual(got, want) || price != "12.50" || !reflect.DeepEqual(e.Key, cdc.Key{{Name: "id", Value: int64(9007199254740993)}}) {
		t.Errorf("got  %+v, %s, %v\nwant %+v", got, price, e.Key, want)
	}
}

// marshal encodes a product with another library. That wants Go types of its own for logical types, so it gets the schema without them.
func marshal(tb testing.TB) []byte {
	tb.Helper()
	plain := strings.NewReplacer(`"logicalType"`, `"x"`, `"precision":9,"scale":2`, `"y":1`).Replace(productSchema)
	schema, err := avro.ParseWithCache(plain, "", &avro.SchemaCache{})
	if err != nil {
		tb.Fatal(err)
	}
	list := func(value int, next any) map[string]any {
		return map[string]any{"shop.List": map[string]any{"next": next, "value": value}}
	}
	value, err := avro.Marshal(schema, map[string]any{
		"op": "c",
		"after": map[string]any{"shop.Value": map[string]any{
			"id": int64(9007199254740993), "price": []byte{0x04, 0xe2}, "at": int64(63072000000001), "day": map[string]any{"int": -1}, "clock": 86399000,
			"every": [12]byte{14, 0, 0, 0, 3, 0, 0, 0, 232, 3, 0, 0}, "uid": "7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11", "kind": "cup", "tags": []string{"a\"\\\n\x01é😀", ""},
			"extra": map[string]any{"k": map[string]any{"string": "v"}, "n": nil}, "blob": []byte{0xde, 0xad}, "score": float32(0.1),
			"either": map[string]any{"string": "text"}, "fixed": [2]byte{1, 2}, "connect": int64(1500), "recursive": list(1, list(2, nil)),
		}},
		"before": nil,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

func TestTombstonesAndOthers(t *testing.T) {
	keySchema := []byte(`{"type":"record","name":"Key","fields":[{"name":"id","type":"long"}]}`)
	d := newDecoder[product](t)
	for name, r := range map[string]cdc.Record{
		"separated": {Key: base64.StdEncoding.EncodeToString([]byte{14}), SchemaType: "KEY_VALUE", Schema: pair(keySchema, []byte(productSchema))},
		"inline":    {Value: pair([]byte{14}, nil), SchemaType: "KEY_VALUE", Schema: pair(keySchema, []byte(productSchema))},
		"AVRO":      {Key: `{"id":7}`, SchemaType: "AVRO", Schema: []byte(productSchema)},
		"STRING":    {Key: `{"id":7}`, SchemaType: "STRING"},
	} {
		e, err := d.Decode(r)
		if err != nil || e.Op != cdc.OpTombstone || !reflect.DeepEqual(e.Key, cdc.Key{{Name: "id", Value: int64(7)}}) {
			t.Errorf("%s: %v, %v", name, e.Key, err)
		}
	}
	if e, err := d.Decode(cdc.Record{Key: `{"id":7}`, Value: []byte(`{"op":"c","after":{"id":7}}`), SchemaType: "STRING"}); err != nil || e.After.ID != 7 {
		t.Errorf("JSON: %v", err)
	}
}

func TestErrors(t *testing.T) {
	d := newDecoder[cdc.Row](t)
	schema := func(typ string) []byte {
		return []byte(`{"type":"record","name":"E","fields":[{"name":"op","type":"string"},{"name":"after","type":{"type":"record","name":"V","fields":[{"name":"a","type":` + typ + `}]}}]}`)
	}
	for _, tc := range []struct{ name, schema, value, want string }{
		{"no schema", "", "\x02c", "no schema"},
		{"broken schema", `{"type":`, "\x02c", "not valid"},
		{"schema of nothing", `{}`, "\x02c", "not valid"},
		{"unknown type", string(schema(`"Money"`)), "\x02c", "does not define"},
		{"negative fixed", string(schema(`{"type":"fixed","name":"F","size":-1}`)), "\x02c", "not valid"},
		{"empty union", string(schema(`[]`)), "\x02c", "not valid"},
		{"deep schema", strings.Repeat(`{"type":"array","items":`, 600) + `"int"` + strings.Repeat(`}`, 600), "\x02c", "nested too deeply"},
		{"short", string(schema(`"int"`)), "\x02c", "ends too early"},
		{"trailing", string(schema(`"int"`)), "\x02c\x02\x02", "goes on behind its end"},
		{"long int", string(schema(`"int"`)), "\x02c\x80\x80\x80\x80\x80\x01", "longer than its type"},
		{"endless number", string(schema(`"long"`)), "\x02c\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "longer than its type"},
		{"negative length", string(schema(`"string"`)), "\x02c\x01", "out of bounds"},
		{"length beyond the end", string(schema(`"bytes"`)), "\x02c\x80\x80\x80\x80\x10", "ends too early"},
		{"no such branch", string(schema(`["null","int"]`)), "\x02c\x04", "no such branch"},
		{"no such symbol", string(schema(`{"type":"enum","name":"X","symbols":["a"]}`)), "\x02c\x02", "no such branch"},
		{"boolean", string(schema(`"boolean"`)), "\x02c\x07", "neither 0 nor 1"},
		{"endless nulls", string(schema(`{"type":"array","items":"null"}`)), "\x02c\xfe\xff\xff\xff\x0f\x00", "out of bounds"},
		{"endless empty records", string(schema(`{"type":"array","items":{"type":"record","name":"R","fields":[]}}`)), "\x02c\xfe\xff\xff\xff\x0f\x00", "out of bounds"},
		{"endless recursion", string(schema(`{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`)), "\x02c", "nested too deeply"},
		{"deep lists", string(schema(`{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"R"}}]}`)), "\x02c" + strings.Repeat("\x02", 2000), "nested too deeply"},
		{"not an envelope", `"string"`, "\x02c", "unknown record"},
	} {
		_, err := d.Decode(cdc.Record{Topic: "shop", Value: []byte(tc.value), SchemaType: "AVRO", Schema: []byte(tc.schema)})
		var permanent interface{ Permanent() bool }
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "shop") || !errors.As(err, &permanent) || !permanent.Permanent() {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	for name, r := range map[string]cdc.Record{
		"offset":   {Value: []byte("\x02c"), SchemaType: "AVRO", Schema: schema(`"int"`), Properties: map[string]string{offsetProperty: "9"}},
		"no pair":  {Value: []byte("\x02c"), SchemaType: "KEY_VALUE", Schema: []byte("{}")},
		"long key": {Key: strings.Repeat("x", 200), Value: []byte("\x02c"), SchemaType: "AVRO"},
	} {
		small, err := NewDecoder[cdc.Row](cdc.Options{MaxBytes: 100})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := small.Decode(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewDecoder[int](cdc.Options{MaxBytes: -2}); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("options: %v", err)
	}
}

// TestManyReferences: a schema whose references double at each step is refused before it fills the memory.
func TestManyReferences(t *testing.T) {
	text := `{"type":"record","name":"R0","fields":[{"name":"a","type":"int"}]}`
	for i := 1; i < 40; i++ {
		text = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i, text, i-1)
	}
	_, err := newDecoder[cdc.Row](t).Decode(cdc.Record{Value: []byte{0}, SchemaType: "AVRO", Schema: []byte(text)})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

func FuzzDecode(f *testing.F) {
	schemas := []string{productSchema, `"string"`, `{"type":"array","items":"null"}`, `{"type":"record","name":"E","fields":[{"name":"op","type":"string"},` +
		`{"name":"after","type":{"type":"record","name":"V","fields":[{"name":"a","type":{"type":"map","values":["null","double","V"]}}]}}]}`}
	f.Add([]byte(schemas[0]), marshal(f))
	for _, s := range schemas {
		f.Add([]byte(s), []byte("\x02c\x02\x02a\x02\x00"))
	}
	for i, r := range recorded(f) {
		if schema, value, ok := side(f, r.Value); ok && i%9 == 0 && len(value) < 4000 {
			f.Add(schema, value)
		}
	}
	rows := newDecoder[cdc.Row](f)
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		_, err := rows.Decode(cdc.Record{Value: value, SchemaType: "AVRO", Schema: schema})
		var permanent interface{ Permanent() bool }
		if err != nil && (!errors.As(err, &permanent) || !permanent.Permanent()) {
			t.Fatalf("an error that is not permanent: %v", err)
		}
		// What is transcoded is JSON, and another reader reads as far as we do.
		s, err := parseSchema(schema)
		if err != nil {
			return
		}
		tr := transcoder{data: value}
		if tr.all(s) == nil && !json.Valid(tr.out) {
			t.Fatalf("transcoded into what is not JSON: %q", tr.out)
		}
	})
}
