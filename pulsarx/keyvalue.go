package pulsarx

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
)

// KeyValue is the value of Pulsar's KEY_VALUE schema. A null key or value is nil, for which K or V is a pointer, slice, map or
// interface; where it is not, a null is an error of its message.
type KeyValue[K, V any] struct {
	Key   K
	Value V
}

// KeyValueCodec is Pulsar's KEY_VALUE schema over two codecs; see KeyValueInline and KeyValueSeparated.
type KeyValueCodec[K, V any] struct {
	key       Codec[K]
	value     Codec[V]
	separated bool
	writers   *writerCache[*keyValueSchema]
}

// KeyValueInline is the codec of KEY_VALUE in which key and value both stand in the payload. The message's own key, by which it is
// routed and compacted, is set as for all others, by ProducerOptions.Key.
func KeyValueInline[K, V any](key Codec[K], value Codec[V]) KeyValueCodec[K, V] {
	return KeyValueCodec[K, V]{key, value, false, &writerCache[*keyValueSchema]{}}
}

// KeyValueSeparated is the codec of KEY_VALUE in which the key is the message's own key, in base64 as Java writes it, so that it is
// routed and compacted by it, and the payload is the value. ProducerOptions.Key has no effect. A nil value is a tombstone: this codec alone
// gets tombstones to decode, for their key.
//
// A message without a key has a null one, or, where K cannot be nil, an empty one, since an empty key is none to Pulsar.
//
// Java marks such a key as base64, which pulsar-client-go cannot: Java consumers read the key of a message sent from here as its
// base64 text. A key that is no base64 is taken as it is.
func KeyValueSeparated[K, V any](key Codec[K], value Codec[V]) KeyValueCodec[K, V] {
	return KeyValueCodec[K, V]{key, value, true, &writerCache[*keyValueSchema]{}}
}

var (
	errNoKeyValue     = errors.New("pulsarx: a KeyValueCodec is made by KeyValueInline or KeyValueSeparated")
	errNestedKeyValue = errors.New("pulsarx: a KEY_VALUE inside a KEY_VALUE")
)

// Schema returns Pulsar's KEY_VALUE. Its definition is JSON that names the encoding and holds both schemas: what the registry keeps
// in bytes and properties, which producers and look-ups turn into each other.
func (c KeyValueCodec[K, V]) Schema() (Schema, error) {
	if c.key == nil || c.value == nil {
		return Schema{}, errNoKeyValue
	}
	key, err := c.key.Schema()
	if err != nil {
		return Schema{}, fmt.Errorf("key: %w", err)
	}
	value, err := c.value.Schema()
	if err != nil {
		return Schema{}, fmt.Errorf("value: %w", err)
	}
	if key.Type == "KEY_VALUE" || value.Type == "KEY_VALUE" {
		return Schema{}, errNestedKeyValue
	}
	encoding := "INLINE"
	if c.separated {
		encoding = "SEPARATED"
	}
	definition, err := json.Marshal(keyValueSchema{encoding, partOf(key), partOf(value)})
	return Schema{Type: "KEY_VALUE", Definition: definition}, err
}

// Encode appends both parts inline, or the value alone.
func (c KeyValueCodec[K, V]) Encode(dst []byte, v KeyValue[K, V]) ([]byte, error) {
	if c.key == nil || c.value == nil {
		return nil, errNoKeyValue
	}
	if c.separated {
		if isNil(&v.Value) {
			return nil, nil
		}
		return c.value.Encode(dst, v.Value)
	}
	dst, err := appendPart(dst, c.key, &v.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if dst, err = appendPart(dst, c.value, &v.Value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return dst, nil
}

// appendPart appends a length of four bytes, -1 for null, and the part.
func appendPart[T any](dst []byte, codec Codec[T], v *T) ([]byte, error) {
	if isNil(v) {
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	}
	part, err := codec.Encode(nil, *v)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(part))), part...), nil
}

// messageKey is the key of a message with the value, and whether the codec has one.
func (c KeyValueCodec[K, V]) messageKey(v any) (key string, has bool, err error) {
	kv, ok := v.(KeyValue[K, V])
	if !ok || !c.separated || isNil(&kv.Key) {
		return "", c.separated, nil
	}
	encoded, err := c.key.Encode(nil, kv.Key)
	if err != nil {
		return "", true, fmt.Errorf("key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(encoded), true, nil
}

// keyedCodec is a codec that gives its messages their keys, and decodes tombstones.
type keyedCodec interface {
	messageKey(v any) (key string, has bool, err error)
}

// encodeValue is the payload, nil for a tombstone, and, where the codec has it, the key. The payload is appended to room, which is not nil,
// so that a codec's nil is one of its own.
func encodeValue[T any](codec Codec[T], room []byte, v T) (payload []byte, key string, keyed bool, err error) {
	if c, ok := codec.(keyedCodec); ok {
		if key, keyed, err = c.messageKey(v); err != nil {
			return nil, "", false, err
		}
	}
	payload, err = codec.Encode(room, v)
	if payload == nil && !keyed {
		payload = []byte{} // nil would be a tombstone
	}
	return payload, key, keyed, err
}

// readsTombstones says whether a codec decodes messages without a value.
func readsTombstones(d any) bool {
	c, ok := d.(interface{ isSeparated() bool })
	return ok && c.isSeparated()
}

func (c KeyValueCodec[K, V]) isSeparated() bool { return c.separated }

// Decode reads both parts with the schemas that their writer had.
func (c KeyValueCodec[K, V]) Decode(r Raw) (kv KeyValue[K, V], err error) {
	if c.key == nil || c.value == nil {
		return kv, errNoKeyValue
	}
	separated, schema := c.separated, &keyValueSchema{}
	if r.SchemaType != "" {
		if schema, err = keyValueOf(c.writers, r); err != nil {
			return kv, err
		}
		separated = schema.Encoding == "SEPARATED"
	}
	key, value, err := schema.split(r, separated)
	if err != nil {
		return kv, err
	}
	if separated && key.Value == nil && !nilable(&kv.Key) {
		key.Value = []byte{} // a message cannot tell an empty key from none
	}
	if err := decodePart(c.key, key, &kv.Key); err != nil {
		return kv, fmt.Errorf("key: %w", err)
	}
	if err := decodePart(c.value, value, &kv.Value); err != nil {
		return KeyValue[K, V]{}, fmt.Errorf("value: %w", err)
	}
	return kv, nil
}

func decodePart[T any](codec Codec[T], r Raw, v *T) (err error) {
	if r.Value == nil {
		if !nilable(v) {
			return fmt.Errorf("pulsarx: null, which a %T cannot be; use a pointer", *v)
		}
		return nil
	}
	*v, err = codec.Decode(r)
	return err
}

func nilable[T any](*T) bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return false
}

func isNil[T any](v *T) bool { return nilable(v) && reflect.ValueOf(v).Elem().IsNil() }

// keyValueSchema is the definition of a KEY_VALUE schema here.
type keyValueSchema struct {
	Encoding string       `json:"encoding"` // INLINE or SEPARATED
	Key      keyValuePart `json:"key"`
	Value    keyValuePart `json:"value"`
}

type keyValuePart struct {
	Type       string `json:"type"`
	Definition []byte `json:"-"`
}

// MarshalJSON writes the definition as text.
func (p keyValuePart) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"type": p.Type, "schema": string(p.Definition)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *keyValuePart) UnmarshalJSON(text []byte) error {
	var part struct{ Type, Schema string }
	err := json.Unmarshal(text, &part)
	p.Type, p.Definition = part.Type, []byte(part.Schema)
	return err
}

func partOf(s Schema) keyValuePart { return keyValuePart(s) }

// keyValueWriter parses the definitions of writers.
type keyValueWriter struct{}

func (keyValueWriter) compiled(definition []byte) (*keyValueSchema, error) {
	s := &keyValueSchema{}
	if err := json.Unmarshal(definition, s); err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's KEY_VALUE schema: %w", err)
	}
	if s.Encoding != "INLINE" && s.Encoding != "SEPARATED" {
		return nil, fmt.Errorf("pulsarx: the writer's KEY_VALUE schema has the encoding %q", s.Encoding)
	}
	return s, nil
}

func keyValueOf(cache *writerCache[*keyValueSchema], r Raw) (*keyValueSchema, error) {
	if r.SchemaType != "KEY_VALUE" {
		return nil, fmt.Errorf("pulsarx: the message was written with a schema of type %s, not KEY_VALUE", r.SchemaType)
	}
	return cache.get(r.Schema, keyValueWriter{})
}

// split returns the parts as messages of their own; a nil Value is null.
func (s *keyValueSchema) split(r Raw, separated bool) (key, value Raw, err error) {
	key, value = r, r
	if separated {
		key.Value = separateKey(r.Key)
	} else if key.Value, value.Value, err = inlineParts(r.Value); err != nil {
		return key, value, err
	}
	key.SchemaType, key.Schema = s.Key.schema()
	value.SchemaType, value.Schema = s.Value.schema()
	return key, value, nil
}

// separateKey is the key of the message, nil where it has none.
func separateKey(text string) []byte {
	if text == "" {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return []byte(text)
	}
	return key
}

func inlineParts(payload []byte) (key, value []byte, err error) {
	key, rest, err := nextPart(payload)
	if err != nil {
		return nil, nil, err
	}
	if value, rest, err = nextPart(rest); err == nil && len(rest) > 0 {
		err = fmt.Errorf("pulsarx: %d bytes after the key and the value", len(rest))
	}
	return key, value, err
}

// schema is the part's as it stands on a message: nothing for plain bytes.
func (p keyValuePart) schema() (string, []byte) {
	if p.Type == "BYTES" || p.Type == "NONE" {
		return "", nil
	}
	return p.Type, p.Definition
}

func nextPart(b []byte) (part, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errors.New("pulsarx: the payload of a KEY_VALUE ends early")
	}
	n := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n == -1 {
		return nil, b, nil
	}
	if n < 0 || int(n) > len(b) {
		return nil, nil, errors.New("pulsarx: the payload of a KEY_VALUE ends early")
	}
	return b[:n:n], b[n:], nil
}

// wire is the schema as the registry has it: both definitions with their lengths, and the rest in properties.
func (s *keyValueSchema) wire() (data []byte, properties map[string]string) {
	for _, part := range [][]byte{s.Key.Definition, s.Value.Definition} {
		data = append(binary.BigEndian.AppendUint32(data, uint32(len(part))), part...)
	}
	return data, map[string]string{
		"kv.encoding.type": s.Encoding,
		"key.schema.name":  s.Key.Type, "key.schema.type": s.Key.Type, "key.schema.properties": "{}",
		"value.schema.name": s.Value.Type, "value.schema.type": s.Value.Type, "value.schema.properties": "{}",
	}
}

// keyValueFromWire is wire's inverse, as a definition.
func keyValueFromWire(data []byte, properties map[string]string) ([]byte, error) {
	s := keyValueSchema{Encoding: properties["kv.encoding.type"]}
	if s.Encoding == "" {
		s.Encoding = "INLINE"
	}
	var err error
	if s.Key.Definition, data, err = nextPart(data); err == nil {
		s.Value.Definition, _, err = nextPart(data)
	}
	if err != nil {
		return nil, fmt.Errorf("pulsarx: a KEY_VALUE schema: %w", err)
	}
	s.Key.Type, s.Value.Type = properties["key.schema.type"], properties["value.schema.type"]
	return json.Marshal(s)
}

// properties reads the pairs of the field 5 of a schema in the protocol.
func schemaProperties(schema []byte) map[string]string {
	properties := map[string]string{}
	for len(schema) > 0 {
		number, kind, n := protowire.ConsumeTag(schema)
		if n < 0 {
			return properties
		}
		size := protowire.ConsumeFieldValue(number, kind, schema[n:])
		if size < 0 {
			return properties
		}
		if number == 5 && kind == protowire.BytesType {
			pair, _ := protowire.ConsumeBytes(schema[n:])
			if all, err := fields(pair); err == nil {
				properties[string(all[1].bytes)] = string(all[2].bytes)
			}
		}
		schema = schema[n+size:]
	}
	return properties
}
