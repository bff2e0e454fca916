package pulsarx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Schema is what Pulsar's registry keeps for a topic. Type is Pulsar's name: AVRO, JSON, STRING, BYTES and so on. Definition is
// an Avro schema for AVRO, JSON and PROTOBUF, JSON with the file descriptors for PROTOBUF_NATIVE, JSON with the encoding and both
// schemas for KEY_VALUE ({"encoding":"INLINE","key":{"type":"STRING","schema":""},"value":{...}}), and empty for the others.
type Schema struct {
	Type       string
	Definition []byte
}

// Decoder makes a value from a message. It is called from several goroutines at once, must be a pure function of its argument,
// and must not write to or keep the argument's Value: every error is permanent, and takes the message to the dead-letter topic.
type Decoder[T any] interface {
	Decode(r Raw) (T, error)
}

// Codec decodes and encodes. Encode appends to dst, and does not keep it. Schema is asked once, by NewProducer, which registers it with
// the topic, and by NewConsumer, so that a bad one fails there and not message by message. A tombstone, whose Raw.Value is nil, never
// reaches a codec of this package: its message has the zero Value and Tombstone set.
//
// A consumer sends no schema of its own to the broker: it takes the messages as bytes, and asks for the schema of each message's writer
// over the broker's own protocol, without the admin interface. While the registry does not answer, the keys concerned wait. Avro is
// compiled, from the writer's schema, the reader's and the Go type, once for each writer: a message of an older schema is decoded as fast
// as one of the same. JSON and Protobuf resolve by their own rules: by names, and by field numbers.
type Codec[T any] interface {
	Decoder[T]
	Encode(dst []byte, v T) ([]byte, error)
	Schema() (Schema, error)
}

// DecodeFunc makes a Decoder of a function. It sees tombstones too.
func DecodeFunc[T any](f func(Raw) (T, error)) Decoder[T] { return decodeFunc[T](f) }

type decodeFunc[T any] func(Raw) (T, error)

func (f decodeFunc[T]) Decode(r Raw) (T, error) { return f(r) }

// StringCodec is UTF-8 text; see String.
type StringCodec struct{}

// isText says why the writer's schema is none of text: by accident what it wrote may look like some.
func isText(r Raw, want string) error {
	switch r.SchemaType {
	case "", "NONE", "BYTES", "STRING", "JSON":
		return nil
	}
	return fmt.Errorf("pulsarx: the message was written with a schema of type %s, not %s", r.SchemaType, want)
}

// String is the codec of Pulsar's STRING schema: UTF-8 text. What is not UTF-8 is an error both ways.
func String() StringCodec { return StringCodec{} }

// Decode returns the payload as text. What was written with a schema of binary form is an error.
func (StringCodec) Decode(r Raw) (string, error) {
	if err := isText(r, "STRING"); err != nil {
		return "", err
	}
	if !utf8.Valid(r.Value) {
		return "", errors.New("pulsarx: payload is not UTF-8")
	}
	return string(r.Value), nil
}

// Encode appends v.
func (StringCodec) Encode(dst []byte, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return nil, errors.New("pulsarx: string is not UTF-8")
	}
	return append(dst, v...), nil
}

// Schema returns Pulsar's STRING.
func (StringCodec) Schema() (Schema, error) { return Schema{Type: "STRING"}, nil }

// BytesCodec is the payload as it is; see Bytes.
type BytesCodec struct{}

// Bytes is the codec without a schema: the payload as it is. Producers with it register nothing with the topic.
func Bytes() BytesCodec { return BytesCodec{} }

// Decode returns a copy of the payload.
func (BytesCodec) Decode(r Raw) ([]byte, error) { return bytes.Clone(r.Value), nil }

// Encode appends v.
func (BytesCodec) Encode(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }

// Schema returns Pulsar's BYTES.
func (BytesCodec) Schema() (Schema, error) { return Schema{Type: "BYTES"}, nil }

// JSONCodec is encoding/json with a schema; see JSON.
type JSONCodec[T any] struct{ text func() ([]byte, error) }

// JSON is the codec of Pulsar's JSON schema: encoding/json, with a schema reflected from T as for Avro, except that fields are
// named by their json tags, that fields with omitempty or omitzero and all pointers, slices and maps are nullable, that arrays are
// arrays and maps have all the keys of encoding/json, and that json.Number is a double. T must have a schema: interfaces and
// json.RawMessage have none, and are read with DecodeFunc instead. A type with a MarshalJSON of its own, and no MarshalText, has that
// of its Go type, whatever it writes.
//
// A payload names its fields, so that decoding takes no writer's schema: what T does not declare is ignored, and what the message lacks
// is zero. Pulsar's JSON has no aliases and applies no defaults, as in Java: a field that was renamed, or whose zero is another value,
// is for T's own UnmarshalJSON. The broker compares these schemas as Avro's: under FULL, a field that comes or goes is nullable. Bytes
// after the value are an error.
func JSON[T any]() JSONCodec[T] {
	return JSONCodec[T]{text: schemaText[T](jsonTags)}
}

// Decode unmarshals the payload. What was written with a schema of binary form is an error.
func (JSONCodec[T]) Decode(r Raw) (T, error) {
	var v T
	if err := isText(r, "JSON"); err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return v, fmt.Errorf("pulsarx: JSON: %w", err)
	}
	return v, nil
}

// Encode appends v.
func (JSONCodec[T]) Encode(dst []byte, v T) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: JSON: %w", err)
	}
	return append(dst, text...), nil
}

// Schema returns Pulsar's JSON with the reflected definition.
func (c JSONCodec[T]) Schema() (Schema, error) {
	if c.text == nil {
		return Schema{}, errors.New("pulsarx: a JSONCodec is made by JSON")
	}
	text, err := c.text()
	return Schema{Type: "JSON", Definition: text}, err
}
