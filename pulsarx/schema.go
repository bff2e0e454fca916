package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// schemaTypes are Pulsar's names by their numbers on the wire.
var schemaTypes = []string{
	"NONE", "STRING", "JSON", "PROTOBUF", "AVRO", "BOOLEAN", "INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME",
	"TIMESTAMP", "KEY_VALUE", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "PROTOBUF_NATIVE",
}

func schemaTypeName(number uint64) string {
	if number < uint64(len(schemaTypes)) {
		return schemaTypes[number]
	}
	return strconv.FormatUint(number, 10)
}

// register returns the schema as the client sends it when a producer is made, nil where there is nothing to register.
func (s Schema) register() (pulsar.Schema, error) {
	if s.Type == "" || s.Type == "NONE" || s.Type == "BYTES" {
		return nil, nil
	}
	data, properties, err := s.wire()
	if err != nil {
		return nil, err
	}
	for number, name := range schemaTypes {
		if name == s.Type {
			return &registeredSchema{pulsar.SchemaInfo{
				Name: s.Type, Schema: string(data), Type: pulsar.SchemaType(number), Properties: properties,
			}}, nil
		}
	}
	return nil, fmt.Errorf("schema of unknown type %q", s.Type)
}

// wire is the schema's data and properties as the registry keeps them.
func (s Schema) wire() (data []byte, properties map[string]string, err error) {
	if s.Type != "KEY_VALUE" {
		return s.Definition, nil, nil
	}
	parts, err := keyValueWriter{}.compiled(s.Definition)
	if err != nil {
		return nil, nil, err
	}
	data, properties = parts.wire()
	return data, properties, nil
}

// registeredSchema tells the client what to register. Payloads are encoded and decoded by codecs alone: the client's own schemas
// end the process on a definition that they cannot parse, and decode without resolution.
type registeredSchema struct{ info pulsar.SchemaInfo }

var errTransport = errors.New("pulsarx: the client transports bytes")

func (s *registeredSchema) GetSchemaInfo() *pulsar.SchemaInfo { return &s.info }
func (s *registeredSchema) Encode(any) ([]byte, error)        { return nil, errTransport }
func (s *registeredSchema) Decode([]byte, any) error          { return errTransport }
func (s *registeredSchema) Validate([]byte) error             { return errTransport }

// errSchemaPending says that a look-up has not been answered yet; the message waits and is tried again.
var errSchemaPending = errors.New("pulsarx: the schema registry has not answered")

const (
	schemaTimeout    = 10 * time.Second
	schemaForget     = time.Minute // how long the answer "there is no such schema" holds
	schemaMaxBackoff = 10 * time.Second
	maxFailedSchemas = 10_000
)

// schemaLookup keeps the schemas of topics by their versions. A version never changes, so that each is asked for once. What failed is
// kept too, so that it is not asked for message by message, but no more than maxFailedSchemas of it: messages may name any version.
type schemaLookup struct {
	fetch   func(ctx context.Context, topic string, version []byte) (Schema, error)
	closing chan struct{}

	mu      sync.Mutex
	closed  bool
	entries map[schemaKey]*schemaEntry
	failed  int // of entries, whose look-up failed or runs
}

type schemaKey struct{ topic, version string }

// schemaEntry is a look-up; the fields below done are set before it is closed.
type schemaEntry struct {
	failures int
	done     chan struct{}

	schema  Schema
	err     error
	retryAt time.Time // of a failed one
}

func newSchemaLookup(o ClientOptions) *schemaLookup {
	r := registry{o}
	return &schemaLookup{fetch: r.schema, closing: make(chan struct{}), entries: map[schemaKey]*schemaEntry{}}
}

func (l *schemaLookup) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
}

// get returns the schema of a version of a topic (without its partition). It waits at most schemaWait for the registry, and answers
// errSchemaPending after that and while a failed look-up rests. A permanent error is the registry's answer that there is none.
func (l *schemaLookup) get(topic string, version []byte) (Schema, error) {
	if len(version) == 0 {
		return Schema{}, nil
	}
	e := l.entry(schemaKey{topic, string(version)})
	select {
	case <-e.done:
	default:
		timer := time.NewTimer(schemaWait)
		defer timer.Stop()
		select {
		case <-e.done:
		case <-timer.C:
			return Schema{}, errSchemaPending
		}
	}
	if e.err != nil && !itemerror.IsPermanent(e.err) {
		return Schema{}, fmt.Errorf("%w: %w", errSchemaPending, e.err)
	}
	return e.schema, e.err
}

// entry returns the look-up of a version, and begins one where there is none or the last has failed long enough ago.
func (l *schemaLookup) entry(key schemaKey) *schemaEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, failures := l.entries[key], 0
	if e != nil {
		select {
		case <-e.done:
			if e.err == nil || !l.closed && time.Now().Before(e.retryAt) {
				return e
			}
			failures = e.failures
		default:
			return e
		}
	}
	e = &schemaEntry{failures: failures, done: make(chan struct{})}
	if l.closed {
		e.err = ErrClosed
		close(e.done)
		return e
	}
	if l.entries[key] == nil {
		if l.failed++; l.failed > maxFailedSchemas {
			l.forget()
		}
	}
	l.entries[key] = e
	go l.ask(key, e)
	return e
}

// forget drops a failed look-up, any: the mutex is held.
func (l *schemaLookup) forget() {
	for key, e := range l.entries {
		select {
		case <-e.done:
			if e.err != nil {
				delete(l.entries, key)
				l.failed--
				return
			}
		default:
		}
	}
}

func (l *schemaLookup) ask(key schemaKey, e *schemaEntry) {
	defer close(e.done)
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	go func() {
		select {
		case <-l.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	e.schema, e.err = l.fetch(ctx, key.topic, []byte(key.version))
	switch {
	case e.err == nil:
		l.mu.Lock()
		l.failed--
		l.mu.Unlock()
	case itemerror.IsPermanent(e.err):
		e.retryAt = time.Now().Add(schemaForget)
	default:
		e.retryAt = time.Now().Add(min(100*time.Millisecond<<min(e.failures, 10), schemaMaxBackoff))
		e.failures++
	}
}
