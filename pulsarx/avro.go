package pulsarx

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hamba/avro/v2"
)

// maxWriterSchemas bounds how many writer schemas a codec keeps resolved; a topic has a handful. Beyond it they are resolved anew.
const maxWriterSchemas = 1000

// AvroCodec is Avro with schema resolution; see Avro and AvroSchema. It is safe for concurrent use.
type AvroCodec[T any] struct{ reader *avroReader }

// Avro is the codec of Pulsar's AVRO schema, with the schema reflected from T, always the same text for the same type:
//
//   - bool, integers, floats, string and []byte are Avro's; uint and uint64 have no Avro type. Avro's int and long are wider than
//     Go's small integers: what another writer has put there and does not fit is cut to its low bits;
//   - time.Time is a timestamp-micros, time.Duration a long of nanoseconds, and [N]byte a fixed;
//   - a pointer is a nullable union, null by default; slices are arrays, maps with string keys are maps;
//   - a struct is a record named after its type, embedded structs give their fields to the outer one;
//   - a type with MarshalText and UnmarshalText is a string.
//
// A field is named by its tag, or as in Go: `avro:"full_name,alias=name,default=7"`. An alias (several may stand there) is an
// older name of the field, the default is what a message of an older writer reads as; it comes last and may hold commas. "-"
// leaves a field out.
//
// Messages are decoded with their writer's schema, resolved against this one as the Avro specification says, except that the
// names of records, enums and fixed are not compared, so that ProductV1 reads as ProductV2 where their fields agree, and that a
// timestamp is read in its writer's unit. A field may become nullable or cease to be: a null that the reader has no place for is
// an error of its message. A message without a schema version is taken as written with this schema.
func Avro[T any]() AvroCodec[T] {
	return AvroCodec[T]{&avroReader{text: schemaText[T](avroTags)}}
}

// AvroSchema is Avro with the schema given as text, which is registered as it stands. T's fields are matched by name.
func AvroSchema[T any](text string) AvroCodec[T] {
	return AvroCodec[T]{&avroReader{text: func() ([]byte, error) { return []byte(text), nil }}}
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
	payload, err := own.api.Marshal(own.schema, &v)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	if len(dst) == 0 {
		return payload, nil
	}
	return append(dst, payload...), nil
}

// Decode reads the payload with the writer's schema, and returns what the reader's schema makes of it. A payload that ends early,
// has bytes left over or is not of its schema is an error.
func (c AvroCodec[T]) Decode(r Raw) (v T, err error) {
	if c.reader == nil {
		return v, errNoAvroSchema
	}
	s, err := c.reader.resolved(r)
	if err != nil {
		return v, err
	}
	defer recovered(&err)
	payload, err := checkAvro(s.writer, s.leveled, r.Value)
	if err != nil {
		return v, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	if err := s.api.Unmarshal(s.schema, payload, &v); err != nil {
		return v, fmt.Errorf("pulsarx: Avro: %w", err)
	}
	return v, nil
}

var errNoAvroSchema = errors.New("pulsarx: an AvroCodec is made by Avro or AvroSchema")

func (c AvroCodec[T]) own() (*avroResolved, error) {
	if c.reader == nil {
		return nil, errNoAvroSchema
	}
	return c.reader.own()
}

// recovered turns a panic of the Avro library into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("pulsarx: Avro: %w", panicError{p})
	}
}

// avroReader is a reader's schema, and the writer's schemas that were resolved against it.
type avroReader struct {
	text func() ([]byte, error)

	once  sync.Once
	self  *avroResolved
	err   error
	cache sync.Map // writer's schema text -> func() (*avroResolved, error)
	count atomic.Int64
}

// avroResolved decodes what one writer's schema wrote. The api is its own, since its cache of decoders does not tell schemas apart
// that differ in defaults alone.
type avroResolved struct {
	text    []byte
	writer  avro.Schema
	leveled avro.Schema // writer, with null where the reader has it; writer itself where that makes no difference
	schema  avro.Schema
	api     avro.API
}

func newAvroResolved(text []byte, writer, leveled, schema avro.Schema) *avroResolved {
	// checkAvro has bounded every length by the payload's before the library reads it.
	return &avroResolved{text, writer, leveled, schema, avro.Config{MaxByteSliceSize: -1}.Freeze()}
}

func (a *avroReader) own() (*avroResolved, error) {
	a.once.Do(func() {
		var text []byte
		if text, a.err = a.text(); a.err != nil {
			return
		}
		schema, err := parseAvro(text)
		if err != nil {
			a.err = fmt.Errorf("pulsarx: Avro schema: %w", err)
			return
		}
		a.self = newAvroResolved(text, schema, schema, schema)
	})
	return a.self, a.err
}

// resolved returns how to read a message that was written with r's schema.
func (a *avroReader) resolved(r Raw) (*avroResolved, error) {
	own, err := a.own()
	switch {
	case err != nil || len(r.Schema) == 0 && r.SchemaType == "":
		return own, err
	case r.SchemaType != "AVRO":
		return nil, fmt.Errorf("pulsarx: the message was written with a schema of type %s, not AVRO", r.SchemaType)
	case string(r.Schema) == string(own.text):
		return own, nil
	}
	return a.resolve(own, r.Schema)
}

// resolve resolves a writer's schema, once.
func (a *avroReader) resolve(own *avroResolved, writer []byte) (*avroResolved, error) {
	if f, ok := a.cache.Load(string(writer)); ok {
		return f.(func() (*avroResolved, error))()
	}
	f := sync.OnceValues(func() (*avroResolved, error) { return resolveAvro(own, writer) })
	if a.count.Load() < maxWriterSchemas {
		if _, loaded := a.cache.LoadOrStore(string(writer), f); !loaded {
			a.count.Add(1)
		}
	}
	return f()
}

// parseAvro parses with a cache of its own: the library's shared one lets a schema refer to names that another one defined.
func parseAvro(text []byte) (s avro.Schema, err error) {
	defer recovered(&err)
	return avro.ParseBytesWithCache(text, "", &avro.SchemaCache{})
}
