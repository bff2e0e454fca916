package cdc

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
)

// maxDepth is how deeply the arrays and objects of a message, and those inside its JSON columns, may be nested.
const maxDepth = 512

// DefaultMaxBytes is the longest value that is decoded unless Options.MaxBytes says otherwise: 64 MiB.
const DefaultMaxBytes = 64 << 20

// Options are a decoder's settings. The zero value is right for Debezium's defaults.
type Options struct {
	// Placeholder is the connector's unavailable.value.placeholder, "hex:" and octets included. Default: DefaultPlaceholder.
	Placeholder string
	// BinaryMode is the connector's binary.handling.mode, for []byte fields whose tag has no encoding and for the content of logical
	// messages: "bytes" or "base64" (the default), "base64-url-safe" or "hex".
	BinaryMode string
	// Epoch goes into every Position. Raise it when the source's log positions start anew: after a failover to a replica that was
	// promoted on another timeline, or a restore. Default: 0.
	Epoch uint32
	// MaxBytes is the longest value, and the longest key, that is decoded, in bytes; longer ones are errors. Default:
	// DefaultMaxBytes; -1: no bound.
	MaxBytes int
}

func (o Options) withDefaults() Options {
	if o.Placeholder == "" {
		o.Placeholder = DefaultPlaceholder
	}
	if o.BinaryMode == "" {
		o.BinaryMode = "bytes"
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return o
}

// binaryModes are the values of BinaryMode.
var binaryModes = map[string]encoding{
	"bytes": encodingBase64, "base64": encodingBase64, "base64-url-safe": encodingBase64URL, "hex": encodingHex,
}

func (o Options) validate() error {
	var errs []error
	if binaryModes[o.BinaryMode] == "" {
		errs = append(errs, fmt.Errorf("cdc: Options.BinaryMode %q: want bytes, base64, base64-url-safe or hex", o.BinaryMode))
	}
	if o.MaxBytes < -1 {
		errs = append(errs, fmt.Errorf("cdc: Options.MaxBytes is %d: want a number of bytes, or -1 for no bound", o.MaxBytes))
	}
	return errors.Join(errs...)
}

// Decoder turns Debezium's messages into events of T: a struct whose fields are columns (see the package's doc), or Row. It may be used
// by many goroutines at once.
type Decoder[T any] struct {
	options     Options
	plan        *plan // nil for T = Row
	placeholder *placeholder
	schemas     schemaCache
	keySchemas  schemaCache
	// shapes are those of messages without a schema.
	shapes shapeCache
	// source is the last event's: its names are shared rather than copied.
	source atomic.Pointer[origin]
	// key has the names of the last key's columns.
	key     atomic.Pointer[Key]
	buffers sync.Pool // of *buffers
}

// NewDecoder compiles T. It fails, with all reasons joined, if an option is invalid, T is neither a struct with fields nor Row, a field has a type
// that no column can be decoded into, or a tag is wrong.
func NewDecoder[T any](o Options) (*Decoder[T], error) {
	o = o.withDefaults()
	placeholder, err := newPlaceholder(o.Placeholder)
	d := &Decoder[T]{options: o, placeholder: placeholder}
	d.buffers.New = func() any { return new(buffers) }
	d.source.Store(new(origin))
	d.key.Store(new(Key))
	errs := []error{o.validate(), err}
	switch t := reflect.TypeFor[T](); {
	case t == reflect.TypeFor[Row]():
	case t.Kind() == reflect.Struct:
		c := compiler{
			codecs: make(map[codecKey]*codec), plans: make(map[reflect.Type]*plan), binary: binaryModes[o.BinaryMode],
		}
		d.plan = new(plan)
		c.plans[t] = d.plan
		if err := d.plan.fill(&c, t); err != nil {
			errs = append(errs, err)
		} else if len(d.plan.fields) == 0 {
			errs = append(errs, fmt.Errorf("cdc: %v has no fields for columns", t))
		}
	default:
		errs = append(errs, fmt.Errorf("cdc: a decoder's type is a struct or cdc.Row, not %v", t))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return d, nil
}

// Decode reads one message. It is a pure function of the record and the options, and every error is permanent: a *DecodeError, or a
// *NotChangeEventError for records that are no change events.
//
// The event's Record shares its Value and Properties with r. Nothing else in the event does: T, Key and Source stay as they are when
// the buffer behind r.Value is reused.
func (d *Decoder[T]) Decode(r Record) (event Event[T], err error) {
	event.Record, event.columns.epoch = r, d.options.Epoch
	if err = d.decode(&event); err != nil {
		var bad *DecodeError
		if errors.As(err, &bad) && bad.Topic == "" {
			located := *bad // a misfit is kept with its shape
			located.Topic = r.Topic
			err = &located
		}
		return Event[T]{}, err
	}
	return event, nil
}

func (d *Decoder[T]) decode(event *Event[T]) (err error) {
	r := event.Record
	if most := d.options.MaxBytes; most >= 0 && max(len(r.Value), len(r.Key)) > most {
		return &DecodeError{Reason: fmt.Sprintf("the message has %d bytes, more than Options.MaxBytes", max(len(r.Value), len(r.Key)))}
	}
	var env envelope
	kept := d.buffers.Get().(*buffers)
	env.take(kept)
	env.memo = &d.source.Load().memo
	err = d.decodeMessage(event, &env)
	if env.give(kept) {
		d.buffers.Put(kept)
	}
	return err
}

func (d *Decoder[T]) decodeMessage(event *Event[T], env *envelope) error {
	r := &event.Record
	data := r.Value
	if len(data) > 0 && (data[0] == 0 || data[0] == 0xff) { // JSON begins otherwise
		if key, value, ok := SplitKeyValue(data); ok {
			data, env.inlineKey = value, key
		}
	}
	if len(data) == 0 {
		return d.tombstone(event, env)
	}
	s := scanner{data: data, maxDepth: maxDepth}
	if err := env.read(&s, &d.schemas, &d.shapes); err != nil {
		reason := "message value: not JSON: " + err.Error()
		if r.SchemaType == "AVRO" || r.SchemaType == "KEY_VALUE" {
			reason += "; package avrocdc reads Avro"
		}
		return &DecodeError{Wire: r.SchemaType, Go: reflect.TypeFor[T]().String(), Reason: reason}
	}
	switch {
	case env.isNull:
		return d.tombstone(event, env)
	case !env.isEnvelope():
		if err := d.readOther(event, env); err != nil {
			return err
		}
	case isSignal(&env.after) || isSignal(&env.before):
		return &NotChangeEventError{Topic: r.Topic, Kind: KindSignal, Time: bestTime(&env.ms, &env.us, &env.ns)}
	}
	if err := d.decodeEnvelope(event, env); err != nil {
		var bad *DecodeError
		if errors.As(err, &bad) {
			located := *bad
			located.Table = event.Source.table()
			return &located
		}
		return err
	}
	return nil
}

func (d *Decoder[T]) tombstone(event *Event[T], env *envelope) (err error) {
	event.Op = OpTombstone
	event.Key, err = d.parseKey(event.Record.Key, env)
	return err
}

// parseKey reads a message's key, with a buffer to be used again and the names of the last key, which are most likely the same. An
// inline key comes first; a text in base64 is read as what it stands for.
func (d *Decoder[T]) parseKey(text string, env *envelope) (Key, error) {
	last := *d.key.Load()
	var ok bool
	if env.inlineKey != nil {
		env.key = append(env.key[:0], env.inlineKey...)
	} else if env.key, ok = appendUnbase64(env.key[:0], text); !ok {
		env.key = append(env.key[:0], text...)
	}
	key, err := parseKey(env.key, &d.keySchemas, last)
	for i := range key {
		if len(key) != len(last) || key[i].Name != last[i].Name {
			names := make(Key, len(key))
			for j := range key {
				names[j].Name = key[j].Name
			}
			d.key.Store(&names)
			break
		}
	}
	return key, err
}

func (d *Decoder[T]) decodeEnvelope(event *Event[T], env *envelope) (err error) {
	event.Source = d.readSource(&env.source)
	event.ProcessedTime = bestTime(&env.ms, &env.us, &env.ns)
	event.Transaction = readTransaction(env.transaction)
	if event.Op, err = readOp(env.op); err != nil {
		return err
	}
	switch event.Op {
	case OpTruncate:
		return nil
	case OpMessage:
		if event.Key, err = d.parseKey(event.Record.Key, env); err == nil {
			event.Message, err = d.readMessage(env)
		}
		return err
	case OpDelete:
	default:
		if env.after.kind != kindObject {
			return d.noRow(fmt.Sprintf("operation %c without the row after", event.Op), env.after.kind)
		}
	}
	switch env.before.kind {
	case kindNone, kindNull, kindObject:
		return d.decodeRows(event, env)
	}
	return d.noRow("the row before is no object", env.before.kind)
}

func (d *Decoder[T]) noRow(reason string, k kind) error {
	return &DecodeError{Wire: k.String(), Go: reflect.TypeFor[T]().String(), Reason: reason}
}

func readOp(v value) (Op, error) {
	if op, ok := opOf(v); ok {
		return op, nil
	}
	return 0, &DecodeError{Reason: "unknown operation: want c, u, d, r, t or m"}
}

// shared returns the string of v: the one at hand if it is equal.
func shared(at string, v *value) string {
	if v.kind != kindString {
		return ""
	}
	if v.plain && string(v.raw[1:len(v.raw)-1]) == at {
		return at
	}
	return v.text()
}

// origin is what the events of a stream have in common.
type origin struct {
	Source
	memo sourceMemo
}

func (d *Decoder[T]) readSource(f *sourceFields) Source {
	last, v := d.source.Load(), &f.values
	s := Source{
		Connector: shared(last.Connector, &v[sourceConnector]), Database: shared(last.Database, &v[sourceDatabase]),
		Schema: shared(last.Schema, &v[sourceSchema]), Table: shared(last.Table, &v[sourceTable]),
	}
	if s.Connector != last.Connector || s.Database != last.Database || s.Schema != last.Schema || s.Table != last.Table || last.memo.texts[sourceVersion] == "" {
		d.source.Store(&origin{s, *f.remember()})
	}
	s.LSN, s.TxID = wholeNumber(&v[sourceLSN]), wholeNumber(&v[sourceTxID])
	s.CommitTime = bestTime(&v[sourceMillis], &v[sourceMicros], &v[sourceNanos])
	s.Snapshot = isSnapshot(v[sourceSnapshot])
	return s
}

// table returns schema.table, as far as the event names them.
func (s *Source) table() string {
	if s.Schema == "" || s.Table == "" {
		return s.Table
	}
	return s.Schema + "." + s.Table
}

func readTransaction(v value) *Transaction {
	if v.kind != kindObject {
		return nil
	}
	t := new(Transaction)
	_ = members(v, func(name, member value) error {
		switch string(name.bytes()) {
		case "id":
			if member.kind == kindString {
				t.ID = member.text()
			}
		case "total_order":
			t.TotalOrder = int64(wholeNumber(&member))
		case "data_collection_order":
			t.CollectionOrder = int64(wholeNumber(&member))
		}
		return nil
	})
	return t
}

func (d *Decoder[T]) readMessage(env *envelope) (*LogicalMessage, error) {
	prefix, content := member(env.message, "prefix"), member(env.message, "content")
	if prefix.kind != kindString || content.kind != kindString && content.kind != kindNull {
		return nil, &DecodeError{Reason: "a logical message without prefix and content"}
	}
	m := &LogicalMessage{Prefix: prefix.text()}
	if content.kind == kindNull {
		return m, nil
	}
	var typ *wireType
	if env.schema != nil {
		typ = env.schema.root.field("message").field("content")
	}
	var bad *mismatch
	m.Content, bad = decodeBytes(content.bytes(), typ, format{encoding: binaryModes[d.options.BinaryMode]})
	if bad != nil {
		return nil, &DecodeError{Wire: wireName(content, typ), Go: "[]byte", Reason: "the content of a logical message: " + bad.reason}
	}
	return m, nil
}
