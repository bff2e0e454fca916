package pulsarx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// AnyDecoder decodes messages by their writer's schema alone; see Any.
type AnyDecoder struct {
	avro   *writerCache[*avro.Decoder]
	native *writerCache[*nativeWriter]
	pairs  *writerCache[*keyValueSchema]
}

// Any decodes messages whose schemas are not known beforehand. What it returns depends on the writer's schema:
//
//	AVRO, JSON, PROTOBUF_NATIVE    map[string]any for a record, object or message, and what follows for other values
//	KEY_VALUE                      KeyValue[any, any]
//	STRING                         string
//	BOOLEAN, INT8 ... DOUBLE       bool, int64, float64
//	DATE, TIMESTAMP, INSTANT, LOCAL_DATE, LOCAL_DATE_TIME    time.Time in UTC
//	TIME, LOCAL_TIME               time.Duration since midnight
//	BYTES, or no schema            []byte
//
// Numbers are exact: whole ones are int64 (uint64 and json.Number beyond it), Avro's decimals and JSON's other numbers json.Number,
// binary floating point float64. In records bytes are []byte, arrays []any, enums string (a Protobuf number without a name int64),
// and times as above; a null is nil, and a union what it holds. A Protobuf field without a value is its default, or is not in the map
// where the message can tell; an extension that its schema declares stands under its full name in brackets. A tombstone is nil. PROTOBUF
// has no field numbers in its schema, and is an error, as is what cannot be parsed.
//
// It is a Decoder and no Codec: what is to be sent has a type. It is safe for concurrent use.
func Any() AnyDecoder {
	return AnyDecoder{
		&writerCache[*avro.Decoder]{}, &writerCache[*nativeWriter]{}, &writerCache[*keyValueSchema]{},
	}
}

// Decode returns the message's value.
func (d AnyDecoder) Decode(r Raw) (v any, err error) {
	if d.avro == nil {
		return nil, errors.New("pulsarx: an AnyDecoder is made by Any")
	}
	if r.SchemaType == "KEY_VALUE" {
		return d.keyValue(r)
	}
	if r.Value == nil {
		return nil, nil
	}
	switch r.SchemaType {
	case "", "NONE", "BYTES":
		return bytes.Clone(r.Value), nil
	case "STRING":
		if !utf8.Valid(r.Value) {
			return nil, errors.New("pulsarx: payload is not UTF-8")
		}
		return string(r.Value), nil
	case "AVRO":
		return d.fromAvro(r)
	case "JSON":
		return decodeJSON(r.Value)
	case "PROTOBUF_NATIVE":
		return d.fromNative(r)
	}
	if _, ok := numberTypes[r.SchemaType]; ok {
		v, err = decodeNumber(r.SchemaType, r.Value)
		return wide(v), err
	}
	return decodeMoment(r.SchemaType, r.Value)
}

// wide is a number as Any has it.
func wide(v any) any {
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		return v.Int()
	case v.CanFloat():
		return v.Float()
	case !v.IsValid():
		return nil
	}
	return v
}

func (d AnyDecoder) keyValue(r Raw) (any, error) {
	schema, err := keyValueOf(d.pairs, r)
	if err != nil {
		return nil, err
	}
	separated := schema.Encoding == "SEPARATED"
	if r.Value == nil && !separated {
		return nil, nil
	}
	key, value, err := schema.split(r, separated)
	if err != nil {
		return nil, err
	}
	var kv KeyValue[any, any]
	if key.SchemaType == "KEY_VALUE" || value.SchemaType == "KEY_VALUE" {
		return nil, errNestedKeyValue
	}
	if key.Value != nil {
		if kv.Key, err = d.Decode(key); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	if kv.Value, err = d.Decode(value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return kv, nil
}

func (d AnyDecoder) fromAvro(r Raw) (v any, err error) {
	decoder, err := d.avro.get(r.Schema, anyAvro{})
	if err != nil {
		return nil, err
	}
	if err := avro.Decode(decoder, r.Value, &v); err != nil {
		return nil, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	return v, nil
}

type anyAvro struct{}

func (anyAvro) compiled(schema []byte) (*avro.Decoder, error) {
	s, err := avro.Parse(schema, false)
	if err == nil {
		var decoder *avro.Decoder
		if decoder, err = avro.NewDecoder(s, s, reflect.TypeFor[any]()); err == nil {
			return decoder, nil
		}
	}
	return nil, fmt.Errorf("pulsarx: the writer's Avro schema: %w", err)
}

// decodeJSON reads one JSON value with exact numbers.
func decodeJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("pulsarx: JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("pulsarx: JSON: text after the value")
	}
	return exact(v), nil
}

// exact makes whole numbers int64, where they fit.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

func (d AnyDecoder) fromNative(r Raw) (any, error) {
	writer, err := d.native.get(r.Schema, anyNative{})
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(writer.root)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, Resolver: writer.types}).Unmarshal(r.Value, m); err != nil {
		return nil, fmt.Errorf("pulsarx: Protobuf: %w", err)
	}
	mapper := protoMapper{room: freeFields + len(r.Value)}
	v := mapper.message(m)
	if mapper.room < 0 {
		return nil, errors.New("pulsarx: Protobuf: the message has more fields without a value than its length allows")
	}
	return v, nil
}

// nativeWriter is the message that a PROTOBUF_NATIVE schema is of, and the extensions that it declares.
type nativeWriter struct {
	root  protoreflect.MessageDescriptor
	types *dynamicpb.Types
}

type anyNative struct{}

func (anyNative) compiled(definition []byte) (_ *nativeWriter, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
		}
		if err != nil {
			err = fmt.Errorf("pulsarx: the writer's PROTOBUF_NATIVE schema: %w", err)
		}
	}()
	var schema nativeSchema
	if err := json.Unmarshal(definition, &schema); err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(schema.Files, set); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(schema.Root))
	if err != nil {
		return nil, err
	}
	message, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no message", schema.Root)
	}
	return &nativeWriter{message, dynamicpb.NewTypes(files)}, nil
}

// protoMapper makes maps of messages. A field without a value takes no bytes and stands in the map all the same: a hostile schema may
// have any number of them, in a message that takes two bytes in its list.
type protoMapper struct{ room int }

// freeFields is how many fields may be without a value, beside one for each byte of the payload.
const freeFields = 1 << 20

func (p *protoMapper) message(m protoreflect.Message) any {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		var t timestamppb.Timestamp
		if convert(m, &t) && t.IsValid() {
			return t.AsTime()
		}
	case "google.protobuf.Duration":
		var t durationpb.Duration
		if convert(m, &t) && t.IsValid() && t.AsDuration()/time.Second == time.Duration(t.GetSeconds()) {
			return t.AsDuration()
		}
	}
	fields := m.Descriptor().Fields()
	if p.room -= fields.Len(); p.room < 0 {
		return nil
	}
	out := make(map[string]any, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		out[string(f.Name())] = p.field(f, m.Get(f))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsExtension() {
			out["["+string(f.FullName())+"]"] = p.field(f, v)
		}
		return true
	})
	return out
}

func convert(from protoreflect.Message, to proto.Message) bool {
	b, err := proto.Marshal(from.Interface())
	return err == nil && proto.Unmarshal(b, to) == nil
}

func (p *protoMapper) field(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		entries := make(map[string]any, v.Map().Len())
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			entries[k.String()] = p.value(f.MapValue(), v)
			return true
		})
		return entries
	case f.IsList():
		items := make([]any, v.List().Len())
		for i := range items {
			items[i] = p.value(f, v.List().Get(i))
		}
		return items
	}
	return p.value(f, v)
}

func (p *protoMapper) value(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return p.message(v.Message())
	case protoreflect.EnumKind:
		if named := f.Enum().Values().ByNumber(v.Enum()); named != nil {
			return string(named.Name())
		}
		return int64(v.Enum())
	case protoreflect.BytesKind:
		return append([]byte{}, v.Bytes()...)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return int64(v.Uint())
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n := v.Uint(); n>>63 != 0 {
			return n
		}
		return int64(v.Uint())
	}
	return wide(v.Interface())
}

// decodeMoment reads Pulsar's schemas of dates and times, as Java writes them.
func decodeMoment(name string, b []byte) (any, error) {
	sizes := map[string]int{
		"DATE": 8, "TIME": 8, "TIMESTAMP": 8, "INSTANT": 12, "LOCAL_DATE": 8, "LOCAL_TIME": 8, "LOCAL_DATE_TIME": 16,
	}
	size, ok := sizes[name]
	if !ok {
		return nil, fmt.Errorf("pulsarx: a message with a schema of type %s cannot be decoded by that alone", name)
	}
	if len(b) != size {
		return nil, fmt.Errorf("pulsarx: %d bytes are no %s", len(b), name)
	}
	first := int64(binary.BigEndian.Uint64(b))
	day := func(n int64) time.Time { return time.Unix(n*86400, 0).UTC() }
	switch name {
	case "TIME":
		return time.Duration(first%86_400_000) * time.Millisecond, nil
	case "INSTANT":
		return time.Unix(first, int64(binary.BigEndian.Uint32(b[8:]))).UTC(), nil
	case "LOCAL_DATE":
		return day(first), nil
	case "LOCAL_TIME":
		return time.Duration(first), nil
	case "LOCAL_DATE_TIME":
		return day(first).Add(time.Duration(binary.BigEndian.Uint64(b[8:]))), nil
	}
	return time.UnixMilli(first).UTC(), nil
}
