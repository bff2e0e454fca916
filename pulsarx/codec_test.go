package pulsarx_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-go/tidemark/pulsarx"
)

func encode[T any](tb testing.TB, codec pulsarx.Codec[T], v T) pulsarx.Raw {
	tb.Helper()
	payload, err := codec.Encode(nil, v)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := codec.Schema()
	if err != nil {
		tb.Fatal(err)
	}
	return pulsarx.Raw{Value: payload, SchemaType: s.Type, Schema: s.Definition}
}

// TestNumbers: the bytes are those of Java's schemas, big-endian.
func TestNumbers(t *testing.T) {
	number(t, pulsarx.Bool(), true, "BOOLEAN", "\x01")
	number(t, pulsarx.Bool(), false, "BOOLEAN", "\x00")
	number(t, pulsarx.Int8(), -2, "INT8", "\xfe")
	number(t, pulsarx.Int16(), -2, "INT16", "\xff\xfe")
	number(t, pulsarx.Int32(), 1<<24|5, "INT32", "\x01\x00\x00\x05")
	number(t, pulsarx.Int64(), math.MinInt64, "INT64", "\x80\x00\x00\x00\x00\x00\x00\x00")
	number(t, pulsarx.Float(), 1.5, "FLOAT", "\x3f\xc0\x00\x00")
	number(t, pulsarx.Double(), -2, "DOUBLE", "\xc0\x00\x00\x00\x00\x00\x00\x00")
	if _, err := pulsarx.Bool().Decode(pulsarx.Raw{Value: []byte{2}}); err == nil {
		t.Error("a boolean of 2 is read")
	}
}

func number[T pulsarx.Number](t *testing.T, codec pulsarx.NumberCodec[T], v T, name, want string) {
	t.Helper()
	raw := encode(t, codec, v)
	if raw.SchemaType != name || string(raw.Value) != want || len(raw.Schema) != 0 {
		t.Errorf("%v is %q of %s", v, raw.Value, raw.SchemaType)
	}
	if back, err := codec.Decode(raw); err != nil || back != v {
		t.Errorf("%v became %v %v", v, back, err)
	}
	for _, bad := range []pulsarx.Raw{{Value: append(raw.Value, 0)}, {Value: []byte{}}, {Value: raw.Value, SchemaType: "STRING"}} {
		if _, err := codec.Decode(bad); err == nil {
			t.Errorf("%s reads %q of %q", name, bad.Value, bad.SchemaType)
		}
	}
}

func newOrder() *OrderV2 {
	note := "gift"
	return &OrderV2{
		Id: "o1", Total: math.MaxInt64, State: State_STATE_PAID, Labels: map[string]int64{"b": 2, "a": 1}, Note: &note,
		Items:   []*Item{{Sku: "x", Count: math.MaxUint32, Parts: []*Item{{Sku: "y"}}}},
		Created: timestamppb.New(time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC)), Payment: &OrderV2_Cash{math.MaxUint64}, Ratio: 0.5,
	}
}

// TestProtobuf: fields come and go between writer and reader, in both of Pulsar's schemas.
func TestProtobuf(t *testing.T) {
	for name, codecs := range map[string]struct {
		before pulsarx.ProtobufCodec[*OrderV1]
		after  pulsarx.ProtobufCodec[*OrderV2]
	}{
		"PROTOBUF_NATIVE": {pulsarx.ProtobufNative[*OrderV1](), pulsarx.ProtobufNative[*OrderV2]()},
		"PROTOBUF":        {pulsarx.Protobuf[*OrderV1](), pulsarx.Protobuf[*OrderV2]()},
	} {
		old, recent := encode(t, codecs.before, &OrderV1{Id: "o0", Total: 7, Coupon: "c"}), encode(t, codecs.after, newOrder())
		if old.SchemaType != name || recent.SchemaType != name {
			t.Error(old.SchemaType, recent.SchemaType)
		}
		if same, err := codecs.after.Decode(recent); err != nil || !proto.Equal(same, newOrder()) {
			t.Errorf("%s: %v %v", name, same, err)
		}
		if up, err := codecs.after.Decode(old); err != nil || up.Id != "o0" || up.Total != 7 || up.Items != nil {
			t.Errorf("%s: v1 as v2: %v %v", name, up, err)
		}
		down, err := codecs.before.Decode(recent)
		if err != nil || down.Id != "o1" || down.Total != math.MaxInt64 || down.Coupon != "" {
			t.Errorf("%s: v2 as v1: %v %v", name, down, err)
		}
		if on := encode(t, codecs.before, down); len(on.Value) != len(recent.Value) {
			t.Errorf("%s: what v1 does not know is lost on its way", name)
		}
		if _, err := codecs.after.Decode(pulsarx.Raw{Value: []byte{0xff}}); err == nil {
			t.Error("rubbish is read")
		}
		if _, err := codecs.after.Decode(pulsarx.Raw{SchemaType: "AVRO"}); err == nil {
			t.Error("AVRO is read")
		}
		if _, err := codecs.after.Encode(nil, nil); err == nil {
			t.Error("nil is written")
		}
	}
	if _, err := pulsarx.ProtobufNative[proto.Message]().Schema(); err == nil {
		t.Error("an interface has a schema")
	}
}

type kvKey struct {
	Tenant string `avro:"tenant"`
	ID     int64  `avro:"id"`
}

func TestKeyValue(t *testing.T) {
	inline := pulsarx.KeyValueInline(pulsarx.Avro[kvKey](), pulsarx.Avro[*v2]())
	in := pulsarx.KeyValue[kvKey, *v2]{kvKey{"a", 1}, &v2{1, "bob", 2}}
	raw := encode(t, inline, in)
	if raw.SchemaType != "KEY_VALUE" || string(raw.Value[:4]) != "\x00\x00\x00\x03" {
		t.Errorf("%q", raw.Value)
	}
	if out, err := inline.Decode(raw); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%+v %v", out, err)
	}
	null, err := inline.Encode(nil, pulsarx.KeyValue[kvKey, *v2]{Key: in.Key})
	if err != nil || !strings.HasSuffix(string(null), "\xff\xff\xff\xff") {
		t.Errorf("%q %v", null, err)
	}
	if out, err := inline.Decode(pulsarx.Raw{Value: null}); err != nil || out.Key != in.Key || out.Value != nil {
		t.Errorf("%+v %v", out, err)
	}
	strict := pulsarx.KeyValueInline(pulsarx.Avro[kvKey](), pulsarx.Avro[v2]())
	if _, err := strict.Decode(pulsarx.Raw{Value: null}); err == nil || !strings.Contains(err.Error(), "pointer") {
		t.Errorf("null as a struct: %v", err)
	}
	for _, bad := range []string{"", "\x00\x00\x00\x05a", "\xff\xff\xff\xfe", "\xff\xff\xff\xff\xff\xff\xff\xff!", "\x7f\xff\xff\xff"} {
		if _, err := inline.Decode(pulsarx.Raw{Value: []byte(bad)}); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	// An older value, a key of another type, and what is no schema.
	older := encode(t, pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Avro[renamed]()),
		pulsarx.KeyValue[string, renamed]{"k", renamed{3, "eve"}})
	codec := pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Avro[v2]())
	if out, err := codec.Decode(older); err != nil || out.Key != "k" || out.Value != (v2{3, "eve", 7}) {
		t.Errorf("%+v %v", out, err)
	}
	for _, schema := range []string{"", "{}", `{"encoding":"BOTH"}`} {
		if _, err := codec.Decode(pulsarx.Raw{Value: older.Value, SchemaType: "KEY_VALUE", Schema: []byte(schema)}); err == nil {
			t.Errorf("the schema %q is taken", schema)
		}
	}
	if _, err := (pulsarx.KeyValueCodec[int, int]{}).Schema(); err == nil {
		t.Error("the zero codec has a schema")
	}
	pairs := pulsarx.KeyValueSeparated(pulsarx.String(), pulsarx.String())
	for _, err := range []error{
		schemaError(pulsarx.KeyValueInline(pairs, pulsarx.String())), schemaError(pulsarx.KeyValueSeparated(pulsarx.String(), pairs)),
	} {
		if err == nil || !strings.Contains(err.Error(), "inside") {
			t.Errorf("a KEY_VALUE in another: %v", err)
		}
	}
}

type renamed struct {
	ID   int32  `avro:"id"`
	Name string `avro:"name"`
}

func decodeAny(t *testing.T, r pulsarx.Raw) any {
	t.Helper()
	v, err := pulsarx.Any().Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAny(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	avro := encode(t, pulsarx.AvroSchema[map[string]any](richSchema), map[string]any{
		"id": int64(1<<62 + 1), "price": json.Number("12345678901234567890.10"), "at": at, "day": at, "took": 90 * time.Second,
		"uuid": "123e4567-e89b-12d3-a456-426614174000", "color": "GREEN", "either": "text", "tags": []any{"a"}, "none": nil,
		"more": map[string]any{"k": int64(5)}, "raw": []byte{1}, "sum": []byte{1, 2},
	})
	want := map[string]any{
		"id": int64(1<<62 + 1), "price": json.Number("12345678901234567890.10"), "at": at,
		"day": time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC), "took": 90 * time.Second, "uuid": "123e4567-e89b-12d3-a456-426614174000",
		"color": "GREEN", "either": "text", "tags": []any{"a"}, "none": nil, "more": map[string]any{"k": int64(5)}, "raw": []byte{1},
		"sum": []byte{1, 2},
	}
	for name, c := range map[string]struct {
		raw  pulsarx.Raw
		want any
	}{
		"AVRO":            {avro, want},
		"JSON":            {pulsarx.Raw{SchemaType: "JSON", Value: []byte(`{"n":9007199254740993,"f":0.1,"big":1e400,"l":[1,"x",null,true]}`)}, map[string]any{"n": int64(9007199254740993), "f": json.Number("0.1"), "big": json.Number("1e400"), "l": []any{int64(1), "x", nil, true}}},
		"STRING":          {pulsarx.Raw{SchemaType: "STRING", Value: []byte("ä")}, "ä"},
		"none":            {pulsarx.Raw{Value: []byte{1, 2}}, []byte{1, 2}},
		"INT16":           {encode(t, pulsarx.Int16(), -5), int64(-5)},
		"FLOAT":           {encode(t, pulsarx.Float(), 0.25), 0.25},
		"BOOLEAN":         {encode(t, pulsarx.Bool(), true), true},
		"TIMESTAMP":       {pulsarx.Raw{SchemaType: "TIMESTAMP", Value: []byte{0, 0, 0, 0, 0, 0, 3, 232}}, time.Unix(1, 0).UTC()},
		"TIME":            {pulsarx.Raw{SchemaType: "TIME", Value: []byte{0, 0, 0, 0, 0, 0, 3, 232}}, time.Second},
		"INSTANT":         {pulsarx.Raw{SchemaType: "INSTANT", Value: []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5}}, time.Unix(1, 5).UTC()},
		"LOCAL_DATE_TIME": {pulsarx.Raw{SchemaType: "LOCAL_DATE_TIME", Value: []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9}}, time.Unix(86400, 9).UTC()},
		"tombstone":       {pulsarx.Raw{SchemaType: "AVRO", Schema: avro.Schema}, nil},
		"KEY_VALUE":       {encode(t, pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Int32()), pulsarx.KeyValue[string, int32]{"k", 7}), pulsarx.KeyValue[any, any]{Key: "k", Value: int64(7)}},
		"PROTOBUF_NATIVE": {encode(t, pulsarx.ProtobufNative[*OrderV2](), newOrder()), map[string]any{
			"id": "o1", "total": int64(math.MaxInt64), "state": "STATE_PAID", "labels": map[string]any{"a": int64(1), "b": int64(2)}, "note": "gift",
			"items":   []any{map[string]any{"sku": "x", "count": int64(math.MaxUint32), "parts": []any{map[string]any{"sku": "y", "count": int64(0), "parts": []any{}}}}},
			"created": time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC), "cash": uint64(math.MaxUint64), "ratio": 0.5,
		}},
	} {
		if got := decodeAny(t, c.raw); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v\nwant %#v", name, got, c.want)
		}
	}
	for name, raw := range map[string]pulsarx.Raw{
		"PROTOBUF":             encode(t, pulsarx.Protobuf[*OrderV1](), &OrderV1{Id: "x"}),
		"unknown type":         {SchemaType: "99", Value: []byte{}},
		"no Avro schema":       {SchemaType: "AVRO", Schema: []byte("{"), Value: []byte{}},
		"rest":                 {SchemaType: "JSON", Value: []byte("{}{}")},
		"no file descriptors":  {SchemaType: "PROTOBUF_NATIVE", Schema: []byte(`{"fileDescriptorSet":"AAAA","rootMessageTypeName":"X"}`), Value: []byte{}},
		"root is no message":   {SchemaType: "PROTOBUF_NATIVE", Schema: []byte(`{"fileDescriptorSet":"","rootMessageTypeName":"X"}`), Value: []byte{}},
		"length of an instant": {SchemaType: "INSTANT", Value: []byte{1}},
	} {
		if v, err := pulsarx.Any().Decode(raw); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	if _, err := (pulsarx.AnyDecoder{}).Decode(pulsarx.Raw{}); err == nil {
		t.Error("the zero decoder decodes")
	}
}

// TestAnyProtobuf: fields without a value, extensions and numbers that an enum does not name, in proto2 and editions, and the library's own
// types.
func TestAnyProtobuf(t *testing.T) {
	const fields = `
		dependency: "google/protobuf/duration.proto" dependency: "google/protobuf/wrappers.proto"
		enum_type { name: "E" value { name: "ZERO" number: 0 } value { name: "LESS" number: -1 } }
		message_type {
			name: "M"
			field { name: "e" number: 1 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".x.E" }
			field { name: "u" number: 2 label: LABEL_OPTIONAL type: TYPE_FIXED64 }
			field { name: "f" number: 3 label: LABEL_OPTIONAL type: TYPE_FLOAT }
			field { name: "d" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Duration" }
			field { name: "w" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.UInt64Value" }
			field { name: "def" number: 6 label: LABEL_OPTIONAL type: TYPE_INT32 %s }
			extension_range { start: 100 end: 200 }
		}
		extension { name: "more" extendee: ".x.M" number: 100 label: LABEL_OPTIONAL type: TYPE_STRING }`
	value := append([]byte("\x08\x00\x08\x07\x08"), binary.AppendUvarint(nil, math.MaxUint64)...)
	value = append(value, "\x11\xff\xff\xff\xff\xff\xff\xff\xff\x1d\x00\x00\x80\x7f\x22\x02\x08\x05\x2a\x02\x08\x07\xa2\x06\x01!"...)
	want := map[string]any{
		"e": []any{"ZERO", int64(7), "LESS"}, "u": uint64(math.MaxUint64), "f": math.Inf(1), "d": 5 * time.Second,
		"w": map[string]any{"value": int64(7)}, "[x.more]": "!",
	}
	for syntax, def := range map[string]string{
		`syntax: "proto2"`: `default_value: "42"`, `syntax: "editions" edition: EDITION_2023`: "", `syntax: "editions" edition: EDITION_2024`: "",
	} {
		file := &descriptorpb.FileDescriptorProto{}
		if err := prototext.Unmarshal([]byte(`name: "x.proto" package: "x" `+syntax+fmt.Sprintf(fields, def)), file); err != nil {
			t.Fatal(err)
		}
		set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
			protodesc.ToFileDescriptorProto(durationpb.File_google_protobuf_duration_proto),
			protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto), file,
		}})
		if err != nil {
			t.Fatal(err)
		}
		native, err := json.Marshal(map[string]any{"fileDescriptorSet": set, "rootMessageTypeName": "x.M"})
		if err != nil {
			t.Fatal(err)
		}
		if got := decodeAny(t, pulsarx.Raw{SchemaType: "PROTOBUF_NATIVE", Schema: native, Value: value}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v\nwant %#v", syntax, got, want)
		}
	}
}

const richSchema = `{"type":"record","name":"Rich","namespace":"com.example","fields":[
	{"name":"id","type":"long"},
	{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":22,"scale":2}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"day","type":{"type":"int","logicalType":"date"}},
	{"name":"took","type":{"type":"int","logicalType":"time-millis"}},
	{"name":"uuid","type":{"type":"string","logicalType":"uuid"}},
	{"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","GREEN"]}},
	{"name":"either","type":["null","long","string",{"type":"array","items":"Rich"}]},
	{"name":"tags","type":{"type":"array","items":"string"}},
	{"name":"none","type":["null","string"]},
	{"name":"more","type":{"type":"map","values":"long"}},
	{"name":"raw","type":"bytes"},
	{"name":"sum","type":{"type":"fixed","name":"Two","size":2}}]}`

// TestAnyWideSchemas: of a schema with many fields that take no bytes, a short payload makes no large value.
func TestAnyWideSchemas(t *testing.T) {
	const fields, items = 2000, 1000
	text := []byte(`{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"b","type":"boolean"}`)
	message := &descriptorpb.DescriptorProto{Name: proto.String("Wide")}
	for i := range int32(fields) {
		text = fmt.Appendf(text, `,{"name":"n%d","type":"null"}`, i)
		message.Field = append(message.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprint("n", i)), Number: proto.Int32(i + 2), Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	message.Field = append(message.Field, &descriptorpb.FieldDescriptorProto{
		Name: proto.String("more"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		TypeName: proto.String(".Wide"), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
	})
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("wide.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{message},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	native, err := json.Marshal(map[string]any{"fileDescriptorSet": set, "rootMessageTypeName": "Wide"})
	if err != nil {
		t.Fatal(err)
	}
	array := append(binary.AppendVarint(nil, items), make([]byte, items+1)...)
	for name, raw := range map[string]pulsarx.Raw{
		"AVRO":            {SchemaType: "AVRO", Schema: append(text, "]}}"...), Value: array},
		"PROTOBUF_NATIVE": {SchemaType: "PROTOBUF_NATIVE", Schema: native, Value: bytes.Repeat([]byte{0x0a, 0}, items)},
	} {
		if _, err := pulsarx.Any().Decode(raw); err == nil || !strings.Contains(err.Error(), "length") {
			t.Errorf("%s: %v", name, err)
		}
		short := raw
		if short.Value = []byte{0x0a, 0}; name == "AVRO" {
			short.Value = []byte{2, 1, 0}
		}
		if _, err := pulsarx.Any().Decode(short); err != nil {
			t.Errorf("%s: one item: %v", name, err)
		}
	}
}

// TestCodecsOnABroker sends with each codec and reads with the same codec and with Any, so that the broker has accepted each schema
// and given it back.
func TestCodecsOnABroker(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			onBroker(t, s, "avro", pulsarx.Avro[everything](), everything{
				Counts: map[string]int64{}, Blob: []byte{}, Tags: []string{}, Past: []address{}, At: time.UnixMicro(5).UTC(),
			})
			onBroker(t, s, "json", pulsarx.JSON[event](), event{1, "x"})
			onBroker(t, s, "string", pulsarx.String(), "ä")
			onBroker(t, s, "bool", pulsarx.Bool(), true)
			onBroker(t, s, "int8", pulsarx.Int8(), -1)
			onBroker(t, s, "int16", pulsarx.Int16(), -300)
			onBroker(t, s, "int32", pulsarx.Int32(), 1<<30)
			onBroker(t, s, "int64", pulsarx.Int64(), 1<<60)
			onBroker(t, s, "float", pulsarx.Float(), 0.5)
			onBroker(t, s, "double", pulsarx.Double(), 0.1)
			onBroker(t, s, "inline", pulsarx.KeyValueInline(pulsarx.Avro[kvKey](), pulsarx.JSON[event]()),
				pulsarx.KeyValue[kvKey, event]{kvKey{"t", 5}, event{1, "x"}})
			onBroker(t, s, "separated", pulsarx.KeyValueSeparated(pulsarx.Avro[kvKey](), pulsarx.Avro[v2]()),
				pulsarx.KeyValue[kvKey, v2]{kvKey{"t", 5}, v2{1, "x", 2}})
			onBroker(t, s, "protobuf", pulsarx.Protobuf[*OrderV1](), &OrderV1{Id: "x", Total: 5})
			onBroker(t, s, "protobufnative", pulsarx.ProtobufNative[*OrderV2](), newOrder())
		})
	}
}

// onBroker sends v and wants it back.
func onBroker[T any](t *testing.T, s server, name string, codec pulsarx.Codec[T], v T) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		c := s.client(t)
		at := topic(t)
		p := producer(t, c, codec, pulsarx.ProducerOptions[T]{Topic: at})
		if _, err := p.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		want := any(v)
		var got any
		readAll(t, c, codec, at, func(m pulsarx.Message[T]) { got = m.Value })
		if m, ok := want.(proto.Message); ok {
			if !proto.Equal(m, got.(proto.Message)) {
				t.Errorf("%v became %v", want, got)
			}
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%#v became %#v", want, got)
		}
		if name == "protobuf" {
			return // Any cannot
		}
		var some any
		readAll(t, c, pulsarx.Any(), at, func(m pulsarx.Message[any]) { some = m.Value })
		if raw := encode(t, codec, v); name != "separated" && !reflect.DeepEqual(some, decodeAny(t, raw)) {
			t.Errorf("as any: %#v", some)
		}
		if kv, ok := some.(pulsarx.KeyValue[any, any]); ok && !reflect.DeepEqual(kv.Key, map[string]any{"tenant": "t", "id": int64(5)}) {
			t.Errorf("as any: %#v", kv)
		}
	})
}

// readAll hands out what the topic holds.
func readAll[T any](t *testing.T, c *pulsarx.Client, d pulsarx.Decoder[T], topic string, each func(pulsarx.Message[T])) {
	t.Helper()
	err := pulsarx.Replay(t.Context(), c, d, pulsarx.ReplayOptions{Topics: []string{topic}},
		func(_ context.Context, batch []pulsarx.Message[T]) error {
			for _, m := range batch {
				each(m)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEmptyValue: an empty value beside a key is one, and no tombstone; an empty key is one where there can be no null.
func TestEmptyValue(t *testing.T) {
	type kv = pulsarx.KeyValue[string, string]
	codec := pulsarx.KeyValueSeparated(pulsarx.String(), pulsarx.String())
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			for _, v := range []kv{{"k", ""}, {"", "v"}, {"", ""}} {
				c, topic := open(t).client(t), topic(t)
				if _, err := producer(t, c, codec, pulsarx.ProducerOptions[kv]{Topic: topic}).Send(t.Context(), v); err != nil {
					t.Fatal(err)
				}
				readAll(t, c, codec, topic, func(m pulsarx.Message[kv]) {
					if m.Tombstone || m.Value != v {
						t.Errorf("%#v is %#v, tombstone: %v", v, m.Value, m.Tombstone)
					}
				})
			}
		})
	}
}

// TestKeyValuePairs: pairs of all kinds of codecs, in both encodings, with a null key, a null value and neither, by their types and by Any;
// what a producer has registered is what Upload has.
func TestKeyValuePairs(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			pairs(t, s, pulsarx.String(), pulsarx.Int32(), "k", 5)
			pairs(t, s, pulsarx.Bytes(), pulsarx.Bytes(), []byte("k"), []byte("v"))
			pairs(t, s, pulsarx.Bool(), pulsarx.Double(), true, 1.5)
			pairs(t, s, pulsarx.Avro[*kvKey](), pulsarx.JSON[*event](), &kvKey{"a", 1}, &event{1, "x"})
			pairs(t, s, pulsarx.JSON[*event](), pulsarx.Avro[*v2](), &event{1, "x"}, &v2{1, "b", 3})
			pairs(t, s, pulsarx.Int64(), pulsarx.ProtobufNative[*OrderV1](), 7, &OrderV1{Id: "x"})
			pairs(t, s, pulsarx.ProtobufNative[*OrderV1](), pulsarx.String(), &OrderV1{Id: "x"}, "v")
		})
	}
}

func pairs[K, V any](t *testing.T, s server, keys pulsarx.Codec[K], values pulsarx.Codec[V], key K, value V) {
	t.Helper()
	type kv = pulsarx.KeyValue[K, V]
	c := s.client(t)
	in := []kv{{Key: key, Value: value}, {Key: key}, {Value: value}, {}}
	for _, codec := range []pulsarx.KeyValueCodec[K, V]{pulsarx.KeyValueInline(keys, values), pulsarx.KeyValueSeparated(keys, values)} {
		topic := topic(t)
		p := producer(t, c, codec, pulsarx.ProducerOptions[kv]{Topic: topic})
		for _, v := range in {
			if _, err := p.Send(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		var got, wanted []string
		text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
		readAll(t, c, codec, topic, func(m pulsarx.Message[kv]) { got = append(got, text(m.Value)) })
		for _, v := range in {
			wanted = append(wanted, text(v))
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%T of %T and %T: %q, want %q", codec, keys, values, got, wanted)
		}
		n := 0
		readAll(t, c, pulsarx.Any(), topic, func(m pulsarx.Message[any]) {
			if v, ok := m.Value.(pulsarx.KeyValue[any, any]); !ok || n == 0 && (v.Key == nil || v.Value == nil) {
				t.Errorf("as any: %#v", m.Value)
			}
			n++
		})
		schema, _ := codec.Schema()
		if version, err := c.Schemas().Upload(t.Context(), topic, schema); n != len(in) || err != nil || version != 0 {
			t.Errorf("%d as any; version %d %v", n, version, err)
		}
	}
}

// TestSeparatedKeys: the key routes and compacts, keeps its order, and comes with a tombstone too; dead letters keep the schema.
func TestSeparatedKeys(t *testing.T) {
	type kv = pulsarx.KeyValue[kvKey, *v2]
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c, at := s.client(t), topic(t)
			codec := pulsarx.KeyValueSeparated(pulsarx.Avro[kvKey](), pulsarx.Avro[*v2]())
			p := producer(t, c, codec, pulsarx.ProducerOptions[kv]{Topic: at})
			for _, v := range []kv{{kvKey{"a", 1}, &v2{1, "x", 2}}, {kvKey{"a", 1}, nil}, {kvKey{"b", 2}, &v2{666, "bad", 2}}} {
				if _, err := p.Send(t.Context(), v); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex
			var seen []string
			r := run(t, c, codec, pulsarx.ConsumerOptions{Topics: []string{at}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[kv]) error {
					errs := make(pulsarx.BatchError, len(batch))
					mu.Lock()
					defer mu.Unlock()
					for i, m := range batch {
						switch {
						case m.Tombstone != (m.Value.Value == nil):
							t.Errorf("%+v", m)
						case !m.Tombstone && m.Value.Value.ID == 666:
							errs[i] = pulsarx.Permanent(context.DeadlineExceeded)
							continue
						}
						text, _ := json.Marshal(m.Value)
						seen = append(seen, string(text)+m.Key)
					}
					return errs.Err()
				})
			dead := letters(t, s, at+"-s-DLQ", 1)
			r.stop()
			want := []string{`{"Key":{"Tenant":"a","ID":1},"Value":{"ID":1,"FullName":"x","Age":2}}AmEC`, `{"Key":{"Tenant":"a","ID":1},"Value":null}AmEC`}
			if seen := slices.Compact(seen); !reflect.DeepEqual(seen, want) {
				t.Errorf("%q", seen)
			}
			if dead[0].Key() != "AmIE" {
				t.Errorf("the letter's key is %q", dead[0].Key())
			}
			// The letter decodes as what it was.
			var letter kv
			readAll(t, c, codec, at+"-s-DLQ", func(m pulsarx.Message[kv]) { letter = m.Value })
			if letter.Key != (kvKey{"b", 2}) || letter.Value == nil || letter.Value.ID != 666 {
				t.Errorf("%+v", letter)
			}
		})
	}
}

// TestUnresolvableWriterSchema: a schema that the reader cannot be resolved against is the error of its messages; others go on. (What cannot
// be parsed no broker takes any more: TestAvroResolution and TestAny read such ones.)
func TestUnresolvableWriterSchema(t *testing.T) {
	for name, open := range servers {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c, bad, good := s.client(t), topic(t)+"-bad", topic(t)+"-good"
			p := producer(t, c, pulsarx.Avro[audit](), pulsarx.ProducerOptions[audit]{Topic: bad})
			if _, err := p.Send(t.Context(), audit{"me"}, pulsarx.Key("k")); err != nil {
				t.Fatal(err)
			}
			q := producer(t, c, pulsarx.Avro[renamed](), pulsarx.ProducerOptions[renamed]{Topic: good})
			if _, err := q.Send(t.Context(), renamed{6, "eve"}, pulsarx.Key("k")); err != nil {
				t.Fatal(err)
			}
			var got record
			r := run(t, c, pulsarx.Avro[v2](), pulsarx.ConsumerOptions{Topics: []string{bad, good}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[v2]) error {
					for _, m := range batch {
						got.add(m.Value.FullName)
					}
					return nil
				})
			eventually(t, "the message that can be read", func() bool { return got.len() == 1 })
			dead := letters(t, s, bad+"-s-DLQ", 1)
			r.stop()
			if text := dead[0].Properties()[pulsarx.DeadLetterError]; !strings.Contains(text, "does not resolve: id") {
				t.Errorf("%q", text)
			}
		})
	}
}

// FuzzCodecs: whatever a message and its writer's schema hold, decoders return a value or an error.
func FuzzCodecs(f *testing.F) {
	add := func(r pulsarx.Raw) { f.Add(r.SchemaType, r.Schema, r.Value, r.Key) }
	for _, raw := range []pulsarx.Raw{
		encode(f, pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Avro[v2]()), pulsarx.KeyValue[string, v2]{Key: "k"}),
		encode(f, pulsarx.KeyValueSeparated(pulsarx.Avro[kvKey](), pulsarx.Int64()), pulsarx.KeyValue[kvKey, int64]{Value: 5}),
		encode(f, pulsarx.ProtobufNative[*OrderV2](), newOrder()), encode(f, pulsarx.Avro[v2](), v2{1, "x", 2}),
		encode(f, pulsarx.JSON[event](), event{1, "x"}), encode(f, pulsarx.Double(), 1),
		{SchemaType: "LOCAL_DATE_TIME", Value: make([]byte, 16)},
		{SchemaType: "TIME", Value: []byte("\xff\xff\xff\xff\xff\xff\xff\xff")},
	} {
		add(raw)
	}
	decoders := []func(pulsarx.Raw) error{
		decoding(pulsarx.Any()), decoding(pulsarx.ProtobufNative[*OrderV2]()), decoding(pulsarx.JSON[event]()),
		decoding(pulsarx.KeyValueInline(pulsarx.String(), pulsarx.Avro[*v2]())),
		decoding(pulsarx.KeyValueSeparated(pulsarx.Avro[kvKey](), pulsarx.ProtobufNative[*OrderV1]())), decoding(pulsarx.Int32()),
	}
	f.Fuzz(func(_ *testing.T, schemaType string, schema, value []byte, key string) {
		for _, decode := range decoders {
			_ = decode(pulsarx.Raw{SchemaType: schemaType, Schema: schema, Value: value, Key: key})
			_ = decode(pulsarx.Raw{Value: value, Key: key})
		}
	})
}
