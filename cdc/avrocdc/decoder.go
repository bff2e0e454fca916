package avrocdc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidemark-go/tidemark/cdc"
)

// offsetProperty says where the Avro begins.
const offsetProperty = "__AVRO_READ_OFFSET__"

// confluentHeader is how long it is.
const confluentHeader = 5

// Decoder turns messages into events of T: see cdc.Decoder. It may be used by many goroutines at once.
type Decoder[T any] struct {
	json    *cdc.Decoder[T]
	most    int
	schemas cache
}

// NewDecoder fails as cdc.NewDecoder does.
func NewDecoder[T any](o cdc.Options) (*Decoder[T], error) {
	most := o.MaxBytes
	if most == 0 {
		most = cdc.DefaultMaxBytes
	}
	if most > 0 {
		o.MaxBytes = -1 // the JSON is longer, and bounded by the Avro
	}
	decoder, err := cdc.NewDecoder[T](o)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{json: decoder, most: most}, nil
}

// Decode reads one message. It is a pure function of the record and the options, and every error is permanent: those of
// cdc.Decoder.Decode. The event's Record is r.
func (d *Decoder[T]) Decode(r cdc.Record) (cdc.Event[T], error) {
	fail := func(wire string, err error) (cdc.Event[T], error) {
		return cdc.Event[T]{}, &cdc.DecodeError{Topic: r.Topic, Wire: wire, Go: reflect.TypeFor[T]().String(), Reason: "message " + err.Error()}
	}
	if d.most > 0 && max(len(r.Value), len(r.Key)) > d.most {
		return fail("", errors.New("is longer than Options.MaxBytes"))
	}
	m, err := d.open(r)
	if err != nil {
		return fail(r.SchemaType, err)
	}
	if m == nil {
		return d.json.Decode(r)
	}
	event, err := d.json.Decode(m.record)
	event.Record = r
	if err != nil {
		return cdc.Event[T]{}, err
	}
	return event, nil
}

// message is a record in JSON.
type message struct{ record cdc.Record }

// open turns the record into JSON. It is nil where no part of it is Avro.
func (d *Decoder[T]) open(r cdc.Record) (*message, error) {
	var keySchema, valueSchema, key []byte
	value := r.Value
	switch r.SchemaType {
	case "AVRO":
		valueSchema = r.Schema
	case "KEY_VALUE":
		var ok bool
		if keySchema, valueSchema, ok = cdc.SplitKeyValue(r.Schema); !ok {
			return nil, errors.New("schema: it is not that of a key and a value")
		}
		if inlineKey, inlineValue, ok := cdc.SplitKeyValue(value); ok {
			key, value = inlineKey, inlineValue
		} else {
			key, _ = base64.StdEncoding.DecodeString(r.Key)
		}
	default:
		return nil, nil
	}
	m := &message{r}
	m.record.SchemaType, m.record.Schema = "", nil
	isAvro := false
	if len(value) > 0 && !isJSON(value) {
		text, err := d.transcode(value, valueSchema, r.Properties)
		if err != nil {
			return nil, errors.New("value: " + err.Error())
		}
		value, isAvro = text, true
	}
	if len(key) > 0 && !isJSON(key) && len(keySchema) > 0 {
		text, err := d.transcode(key, keySchema, r.Properties)
		if err != nil {
			return nil, errors.New("key: " + err.Error())
		}
		key, isAvro = text, true
	}
	if !isAvro {
		return nil, nil
	}
	m.record.Value = value
	if len(key) > 0 {
		m.record.Key = string(key)
	}
	return m, nil
}

// isJSON tells a JSON object from Avro: JSON schemas of Pulsar are written like Avro's.
func isJSON(b []byte) bool { return b[0] == '{' && json.Valid(b) }

// transcode returns {"schema":...,"payload":...}.
func (d *Decoder[T]) transcode(data, schemaText []byte, properties map[string]string) ([]byte, error) {
	c, err := d.schemas.get(schemaText)
	if err != nil {
		return nil, err
	}
	if text, ok := properties[offsetProperty]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(data) {
			return nil, errors.New("the property " + offsetProperty + " is out of bounds")
		}
		return c.transcode(data, n)
	}
	offset := int(c.offset.Load())
	out, err := c.transcode(data, offset)
	if err == nil {
		return out, nil
	}
	if other := confluentHeader - offset; data[0] == 0 && len(data) > confluentHeader || other == 0 {
		if out, otherErr := c.transcode(data, other); otherErr == nil {
			c.offset.Store(int32(other))
			return out, nil
		}
	}
	return nil, err
}

// compiled is a schema with what its messages begin with.
type compiled struct {
	*schema
	head string
	// offset is where the Avro of the last message began.
	offset atomic.Int32
}

func (c *compiled) transcode(data []byte, offset int) ([]byte, error) {
	if offset > len(data) {
		return nil, errShort
	}
	t := transcoder{data: data, pos: offset, out: make([]byte, 0, len(c.head)+2*len(data)+64)}
	t.out = append(t.out, c.head...)
	if err := t.all(c.schema); err != nil {
		return nil, err
	}
	return append(t.out, '}'), nil
}

// cache keeps the schemas by their text. It forgets everything when it is full.
type cache struct {
	mu     sync.Mutex
	byText map[string]*compiled
}

// maxSchemas is how many schemas a decoder keeps.
const maxSchemas = 64

func (c *cache) get(text []byte) (*compiled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byText[string(text)]; known != nil {
		return known, nil
	}
	if len(text) == 0 {
		return nil, errors.New("the topic has no schema to read Avro with")
	}
	s, err := parseSchema(text)
	if err != nil {
		return nil, err
	}
	head, err := s.appendConnect([]byte(`{"schema":`), "", nil)
	if err != nil {
		return nil, err
	}
	made := &compiled{schema: s, head: string(head) + `,"payload":`}
	if c.byText == nil || len(c.byText) >= maxSchemas {
		c.byText = make(map[string]*compiled)
	}
	c.byText[string(text)] = made
	return made, nil
}
