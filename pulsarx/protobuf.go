package pulsarx

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ProtobufCodec is Protobuf with one of Pulsar's two schemas; see ProtobufNative and Protobuf.
type ProtobufCodec[M proto.Message] struct{ schema func() (Schema, error) }

// ProtobufNative is the codec of Pulsar's PROTOBUF_NATIVE: M is a pointer to a generated message, and the schema holds the
// descriptors of its file and of all that it imports, so that Any can decode it.
//
// Protobuf itself resolves what another version of the message has written: by field numbers, where a field that the reader does not
// know is kept in the message and one that the writer did not know has its default. Pulsar compares only the name of the message: keep
// to Protobuf's own rules, and never use a number again for another type.
func ProtobufNative[M proto.Message]() ProtobufCodec[M] {
	return ProtobufCodec[M]{sync.OnceValues(func() (Schema, error) {
		d, err := descriptorOf[M]()
		if err != nil {
			return Schema{}, err
		}
		definition, err := nativeDefinition(d)
		return Schema{Type: "PROTOBUF_NATIVE", Definition: definition}, err
	})}
}

// Protobuf is the codec of Pulsar's PROTOBUF, the older of the two: payloads are the same as with ProtobufNative, while the schema
// is an Avro record that has the message's fields, as Avro's ProtobufData makes it; maps are arrays of records there. Unless the broker
// is configured otherwise it compares nothing of it. New topics are better served by ProtobufNative, which Any can decode.
func Protobuf[M proto.Message]() ProtobufCodec[M] {
	return ProtobufCodec[M]{sync.OnceValues(func() (Schema, error) {
		d, err := descriptorOf[M]()
		if err != nil {
			return Schema{}, err
		}
		definition, err := json.Marshal(protoRecord(d, map[protoreflect.FullName]bool{}))
		return Schema{Type: "PROTOBUF", Definition: definition}, err
	})}
}

func descriptorOf[M proto.Message]() (d protoreflect.MessageDescriptor, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("pulsarx: Protobuf takes a pointer to a generated message")
		}
	}()
	var m M
	return m.ProtoReflect().Descriptor(), nil
}

// Schema returns the schema, or why M has none.
func (c ProtobufCodec[M]) Schema() (Schema, error) {
	if c.schema == nil {
		return Schema{}, errors.New("pulsarx: a ProtobufCodec is made by Protobuf or ProtobufNative")
	}
	return c.schema()
}

// Encode appends the message in Protobuf's binary form, always the same for the same message. A nil message is an error.
func (c ProtobufCodec[M]) Encode(dst []byte, m M) ([]byte, error) {
	if !m.ProtoReflect().IsValid() {
		return nil, errors.New("pulsarx: a nil Protobuf message")
	}
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: Protobuf: %w", err)
	}
	return out, nil
}

// Decode reads the payload. One that is no message of M, or was written with a schema that is not Protobuf's, is an error.
func (c ProtobufCodec[M]) Decode(r Raw) (m M, err error) {
	switch r.SchemaType {
	case "", "PROTOBUF", "PROTOBUF_NATIVE":
	default:
		return m, fmt.Errorf("pulsarx: the message was written with a schema of type %s, not PROTOBUF or PROTOBUF_NATIVE", r.SchemaType)
	}
	decoded := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(r.Value, decoded); err != nil {
		return m, fmt.Errorf("pulsarx: Protobuf: %w", err)
	}
	return decoded, nil
}

// nativeSchema is the definition of a PROTOBUF_NATIVE schema, as Pulsar's ProtobufNativeSchemaData has it.
type nativeSchema struct {
	Files []byte `json:"fileDescriptorSet"`
	Root  string `json:"rootMessageTypeName"`
	File  string `json:"rootFileDescriptorName"`
}

func nativeDefinition(d protoreflect.MessageDescriptor) ([]byte, error) {
	files := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		files.File = append(files.File, protodesc.ToFileDescriptorProto(f))
	}
	add(d.ParentFile())
	set, err := proto.MarshalOptions{Deterministic: true}.Marshal(files)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: Protobuf descriptors: %w", err)
	}
	return json.Marshal(nativeSchema{set, string(d.FullName()), d.ParentFile().Path()})
}

// protoRecord is a message as Avro's ProtobufData has it: the same types, and defaults that let fields come and go.
func protoRecord(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) any {
	name := protoName(d)
	if seen[d.FullName()] {
		return name
	}
	seen[d.FullName()] = true
	record := avroRecord{Type: "record", Name: name, Fields: []avroField{}}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		record.Fields = append(record.Fields, protoField(f, seen))
	}
	return record
}

// protoName is a full name without the dots, which in Avro separate namespaces alone.
func protoName(d protoreflect.Descriptor) string {
	name := []byte(d.FullName())
	for i, c := range name {
		if c == '.' {
			name[i] = '_'
		}
	}
	return string(name)
}

func protoField(f protoreflect.FieldDescriptor, seen map[protoreflect.FullName]bool) avroField {
	typ, def := protoType(f, seen)
	switch {
	case f.Cardinality() == protoreflect.Repeated:
		typ, def = avroArray{"array", typ}, []any{}
	case f.Cardinality() == protoreflect.Required:
		return avroField{Name: string(f.Name()), Type: typ}
	case f.Message() != nil || f.HasPresence() && f.Syntax() == protoreflect.Proto3:
		typ, def = []any{"null", typ}, nil
	}
	text, _ := json.Marshal(def)
	return avroField{Name: string(f.Name()), Type: typ, Default: text}
}

// protoType is the Avro type of a field's value, and its default.
func protoType(f protoreflect.FieldDescriptor, seen map[protoreflect.FullName]bool) (typ, def any) {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "boolean", false
	case protoreflect.FloatKind:
		return "float", 0
	case protoreflect.DoubleKind:
		return "double", 0
	case protoreflect.StringKind:
		return "string", ""
	case protoreflect.BytesKind:
		return "bytes", ""
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return "int", 0
	case protoreflect.EnumKind:
		return protoEnum(f.Enum(), seen)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return protoRecord(f.Message(), seen), nil
	}
	return "long", 0
}

func protoEnum(d protoreflect.EnumDescriptor, seen map[protoreflect.FullName]bool) (typ, def any) {
	first := string(d.Values().Get(0).Name())
	if seen[d.FullName()] {
		return protoName(d), first
	}
	seen[d.FullName()] = true
	enum := avroEnum{Type: "enum", Name: protoName(d), Symbols: []string{}}
	for i := range d.Values().Len() {
		enum.Symbols = append(enum.Symbols, string(d.Values().Get(i).Name()))
	}
	return enum, first
}
