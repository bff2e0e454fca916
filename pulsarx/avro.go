package pulsarx

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// AvroCodec is Avro with schema resolution; see Avro and AvroSchema. It is safe for concurrent use.
type AvroCodec[T any] struct{ reader *avroReader }

// OneOf is embedded in a struct that stands for an Avro union: each of its other fields is a pointer to the Go type of one branch,
// and at most one of them is set; with none set it is null.
//
//	type Payment struct {
//		pulsarx.OneOf
//		Card *Card
//		Cash *int64
//	}
type OneOf = avro.OneOf

// Avro is the codec of Pulsar's AVRO schema, with the schema reflected from T, always the same text for the same type:
//
//   - bool, integers, floats, string and []byte are Avro's; uint and uint64 have no Avro type;
//   - time.Time is a timestamp-micros, time.Duration a long of nanoseconds, and [N]byte a fixed;
//   - a pointer is a nullable union, null by default; slices are arrays, maps with string keys are maps;
//   - a struct is a record named after its type, embedded structs give their fields to the outer one unless a tag names them or a
//     field that is embedded less deep has their name; one that embeds OneOf is the union of what its fields point to, with null;
//   - a type with MarshalText and UnmarshalText is a string, and no more than that where it has them from what it embeds.
//
// A field is named by its tag, or as in Go: `avro:"full_name,alias=name,default=7"`. An alias (several may stand there) is an
// older name of the field, the default is what a message of an older writer reads as; it comes last and may hold commas. "-"
// leaves a field out. A tag `doc:"..."` is the field's documentation. A field `_ struct{}` with the tag `avro:"com.example.Order"`
// gives its struct a name. Further options give a field, or the elements of its slice or map, a logical type:
//
//	timestamp-millis, timestamp-micros, timestamp-nanos, local-timestamp-..., date    time.Time, or an int64 (date: int32)
//	time-millis, time-micros    time.Duration, or an int32, int64
//	decimal=12.2                precision and scale, for big.Rat, a string type, or one with MarshalText and UnmarshalText
//	uuid                        a string, [16]byte, or a type with MarshalText and UnmarshalText
//	enum=RED|GREEN              a string type: the record's enum, named after the type, or after the field for string itself
//
// Messages are decoded with their writer's schema, resolved against this one as the Avro specification says, except that the
// names of records, enums and fixed are not compared, so that ProductV1 reads as ProductV2 where their fields agree (but a branch of a
// writer's union is not read as what has the name of another one), and that times are read in their writer's unit and decimals in
// their writer's scale. A field may become nullable or cease to be: a null that the reader has no place for is an error of its
// message, and so are a branch of a union and a symbol of an enum that the reader does not have, and a number that does not fit the Go
// type. A message without a schema version is taken as written with this schema.
func Avro[T any]() AvroCodec[T] {
	return AvroCodec[T]{&avroReader{typ: reflect.TypeFor[T](), text: schemaText[T](avroTags)}}
}

// AvroSchema is Avro with the schema given as text, which is registered as it stands. T's fields are matched by name; what T does
// not have is not read, and written as its default. A field may be of any type that Avro's documentation names for its schema, and of
// type any: it holds bool, int64, float64, string, []byte, time.Time, time.Duration, json.Number (of a decimal), []any or
// map[string]any, which T itself may be. A union reads into any, into a type that all its branches read into, behind a pointer where
// it has null, and into a struct with OneOf. A value is written as the branch that it is by nature, the first of several: text is no
// bytes, a time of day no date, and a map no record that has not all of its entries, unless no other branch takes it.
func AvroSchema[T any](text string) AvroCodec[T] {
	return AvroCodec[T]{&avroReader{typ: reflect.TypeFor[T](), text: func() ([]byte, error) { return []byte(text), nil }}}
}

// Schema returns Pulsar's AVRO with the definition, or why T or the text is not one.
func (c AvroCodec[T]) Schema() (Schema, error) {
	own, err := c.own()
	if err != nil {
		return Schema{}, err
	}
	return Schema{Type: "AVRO", Definition: own.text}, nil
}

// Encode appends v in Avro's binary form.
func (c AvroCodec[T]) Encode(dst []byte, v T) (out []byte, err error) {
	own, err := c.own()
	if err != nil {
		return nil, err
	}
	defer recovered(&err)
	if out, err = avro.Encode(own.encoder, dst, v); err != nil {
		return nil, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	return out, nil
}

// Decode reads the payload with the writer's schema, and returns what the reader's schema makes of it. A payload that ends early,
// has bytes left over or is not of its schema is an error.
func (c AvroCodec[T]) Decode(r Raw) (v T, err error) {
	if c.reader == nil {
		return v, errNoAvroSchema
	}
	decoder, err := c.reader.decoder(r)
	if err != nil {
		return v, err
	}
	defer recovered(&err)
	if err := avro.Decode(decoder, r.Value, &v); err != nil {
		var none T
		return none, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	return v, nil
}

var errNoAvroSchema = errors.New("pulsarx: an AvroCodec is made by Avro or AvroSchema")

func (c AvroCodec[T]) own() (*avroOwn, error) {
	if c.reader == nil {
		return nil, errNoAvroSchema
	}
	return c.reader.own()
}

// recovered turns a panic of a value's own MarshalText or UnmarshalText into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("pulsarx: Avro: %w", panicError{p})
	}
}

// avroReader is a reader's schema and Go type, and how to read what was written with others.
type avroReader struct {
	typ  reflect.Type
	text func() ([]byte, error)

	once    sync.Once
	self    *avroOwn
	err     error
	writers writerCache[*avro.Decoder]
}

// avroOwn is the reader's own schema, compiled.
type avroOwn struct {
	text    []byte
	schema  *avro.Schema
	encoder *avro.Encoder
	decoder *avro.Decoder
}

func (a *avroReader) own() (*avroOwn, error) {
	a.once.Do(func() { a.self, a.err = a.compile() })
	return a.self, a.err
}

func (a *avroReader) compile() (*avroOwn, error) {
	text, err := a.text()
	if err != nil {
		return nil, err
	}
	own := &avroOwn{text: text}
	if own.schema, err = avro.Parse(text, true); err != nil {
		return nil, fmt.Errorf("pulsarx: Avro schema: %w", err)
	}
	if own.decoder, err = avro.NewDecoder(own.schema, own.schema, a.typ); err != nil {
		return nil, fmt.Errorf("pulsarx: Avro schema for %v: %w", a.typ, err)
	}
	if own.encoder, err = avro.NewEncoder(own.schema, a.typ); err != nil {
		return nil, fmt.Errorf("pulsarx: Avro schema for %v: %w", a.typ, err)
	}
	return own, nil
}

// decoder returns how to read a message that was written with r's schema.
func (a *avroReader) decoder(r Raw) (*avro.Decoder, error) {
	own, err := a.own()
	switch {
	case err != nil:
		return nil, err
	case len(r.Schema) == 0 && r.SchemaType == "":
		return own.decoder, nil
	case r.SchemaType != "AVRO":
		return nil, fmt.Errorf("pulsarx: the message was written with a schema of type %s, not AVRO", r.SchemaType)
	}
	return a.writers.get(r.Schema, a)
}

// compiled is how to read what the writer's schema wrote.
func (a *avroReader) compiled(schema []byte) (*avro.Decoder, error) {
	own := a.self
	if string(schema) == string(own.text) {
		return own.decoder, nil
	}
	writer, err := avro.Parse(schema, false)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's Avro schema: %w", err)
	}
	decoder, err := avro.NewDecoder(writer, own.schema, a.typ)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's Avro schema does not resolve: %w", err)
	}
	return decoder, nil
}

// The limits on the writers' schemas that a codec keeps compiled; a topic has a handful. What is beyond is compiled anew.
const (
	maxWriterSchemas = 1000
	maxWriterBytes   = 64 << 20
)

// writerCache keeps what was made of each writer's schema. The registry gives all messages of a version the same slice, so that the
// slice finds it faster than the text.
type writerCache[V any] struct {
	recent [64]atomic.Pointer[writerEntry[V]] // by the slice's address
	texts  sync.Map                           // text -> func() *writerEntry[V]
	count  atomic.Int64
	bytes  atomic.Int64
}

type writerEntry[V any] struct {
	schema []byte
	value  V
	err    error
}

// compiler makes of a writer's schema what the cache keeps.
type compiler[V any] interface {
	compiled(schema []byte) (V, error)
}

func (c *writerCache[V]) get(schema []byte, by compiler[V]) (V, error) {
	first := unsafe.SliceData(schema)
	slot := &c.recent[uintptr(unsafe.Pointer(first))>>4%64]
	if e := slot.Load(); e != nil && unsafe.SliceData(e.schema) == first && len(e.schema) == len(schema) {
		return e.value, e.err
	}
	made, ok := c.texts.Load(string(schema))
	if !ok {
		made = sync.OnceValue(func() *writerEntry[V] {
			v, err := by.compiled(schema)
			return &writerEntry[V]{schema, v, err}
		})
		if c.count.Load() < maxWriterSchemas && c.bytes.Load() < maxWriterBytes {
			var known bool
			if made, known = c.texts.LoadOrStore(string(schema), made); !known {
				c.count.Add(1)
				c.bytes.Add(int64(len(schema)))
			}
		}
	}
	e := *made.(func() *writerEntry[V])()
	e.schema = schema
	slot.Store(&e)
	return e.value, e.err
}
