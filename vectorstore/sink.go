package vectorstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// Mapping says how a row of T becomes an object.
type Mapping[T any] struct {
	// Version names this mapping. It is stored with each object; an event that the store shows already is written again
	// when it shows it by another version, so that reading the topic again brings a changed mapping to every object.
	Version string
	// Key returns the key that the object's id is made of, [UUID5]. Nil: the event's key as it is. It must answer the
	// same for the same key always, and must not change what it is given. Its every error is permanent.
	Key func(cdc.Key) (cdc.Key, error)
	// Tenant returns the tenant that the row's object is in; see [Ref]. It must answer the same for all events of a key, so it should
	// ask the event's Key, Source or Record. Of a table with REPLICA IDENTITY FULL it may ask a column, of After, or where there is
	// none, of Before: a row that changes it moves. Then the connector must write no tombstones, which have no row. Of other tables,
	// such a row keeps its object in the old tenant, and so it does where an update brings of the row before but the columns of an index:
	// an empty tenant there is one that is not known. Its every error is permanent.
	// A truncate clears all tenants, so that the store must be a [Tenanted]; it is remembered in a tenant "tidemark", which no row
	// may be in. Nil: no tenants.
	Tenant func(*cdc.Event[T]) (string, error)
	// Vectors are the named vectors, of different names. See [Embed].
	Vectors []Vector[T]
	// Properties returns the object's properties, all of them each time: one that is no longer there is removed. See
	// [Value] for what they may be. Nil: objects without properties.
	Properties func(T) map[string]any
	// Filter says which rows are wanted; the objects of others are deleted. So rows that are deleted softly leave the
	// index by a Filter that asks their column, and come back with it. Nil: all. An unwanted row leaves a
	// remembered deletion, so that an older change of it that comes late is not taken for the newest.
	Filter func(T) bool
}

// The properties of SinkOptions.Lineage.
const (
	LineagePosition  = "lineage_position"   // text: the event's cdc.Position
	LineageMapping   = "lineage_mapping"    // text: Mapping.Version
	LineageModels    = "lineage_models"     // text[]: "<vector>=<model's fingerprint>"
	LineageIndexedAt = "lineage_indexed_at" // date: when the sink wrote the object, by this machine's clock
)

// SinkOptions are the options of a [Sink]. The zero value is ready to use.
type SinkOptions struct {
	// Lineage adds the Lineage properties to every object: where it comes from and what made it. A store with a schema
	// must have them.
	Lineage bool
	// Observe, when not nil, is told of each event that is done, after its effect is durable, in the order of the
	// batch. It is called by Handle, so by several goroutines at once if Handle is, and Handle waits for it. Events
	// that fail are not reported; Handle's error has them.
	Observe func(Outcome)
	// MeterProvider and TracerProvider take the metrics and spans. Nil: OpenTelemetry's global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// Sink turns change events of rows of T into writes of a [Store]. Use [NewSink]. It has no state of its own but what
// the Store remembers.
type Sink[T any] struct {
	store     Store
	mapping   Mapping[T]
	options   SinkOptions
	lineage   []string // the LineageModels of every object
	columns   *columns // of T
	telemetry telemetry
	// truncating is held while the store is cleared, and for reading while rows are handled: a row that was read before
	// must not be written after.
	truncating sync.RWMutex
}

// NewSink returns a sink that writes to s. Its error joins all that is wrong with the mapping.
func NewSink[T any](s Store, m Mapping[T], o SinkOptions) (*Sink[T], error) {
	tel, err := newTelemetry(o)
	if err = errors.Join(m.validate(), err); s == nil {
		err = errors.Join(errors.New("vectorstore: NewSink needs a store"), err)
	}
	if err != nil {
		return nil, err
	}
	sink := &Sink[T]{store: s, mapping: m, options: o, telemetry: tel, columns: columnsOf(reflect.TypeFor[T]())}
	for _, v := range m.Vectors {
		sink.lineage = append(sink.lineage, v.Name+"="+v.model.Fingerprint)
	}
	return sink, nil
}

func (m *Mapping[T]) validate() error {
	var errs []error
	if len(m.Vectors) == 0 && m.Properties == nil {
		errs = append(errs, errors.New("vectorstore: the mapping has neither vectors nor properties"))
	}
	names := map[string]bool{}
	for i, v := range m.Vectors {
		switch {
		case v.Name == "":
			errs = append(errs, fmt.Errorf("vectorstore: vector %d of the mapping has no name", i))
		case names[v.Name]:
			errs = append(errs, fmt.Errorf("vectorstore: the mapping has two vectors %q", v.Name))
		case v.Blank < BlankClears || v.Blank > BlankRefused:
			errs = append(errs, fmt.Errorf("vectorstore: vector %q of the mapping has an unknown Blank rule", v.Name))
		case v.err != nil:
			errs = append(errs, fmt.Errorf("vectorstore: vector %q of the mapping: %w", v.Name, v.err))
		case v.embed == nil:
			errs = append(errs, fmt.Errorf("vectorstore: vector %q of the mapping was not made by Embed", v.Name))
		}
		names[v.Name] = true
	}
	return errors.Join(errs...)
}

// Handle brings the store to the state after the events. It returns nil when all of them are done and their effects
// durable; otherwise an error with ItemErrors() []error, aligned with events: nil means done, and an item error with a
// method Permanent() bool that answers true will come again at every try.
//
// Events of one key must come in the order of their topic, and by one caller at a time; different keys may be handled
// concurrently. What was done before is skipped when it comes again. A panic of the mapping's functions or of an
// embedder passes through; then nothing may be taken as done.
func (s *Sink[T]) Handle(ctx context.Context, events []cdc.Event[T]) error {
	errs := make([]error, len(events))
	ctx, span := s.telemetry.handle(ctx, len(events), func(i int) map[string]string { return events[i].Record.Properties })
	defer span.End()
	for start := 0; start < len(events); {
		end := start
		for end < len(events) && events[end].Op != cdc.OpTruncate {
			end++
		}
		s.rows(ctx, events[start:end], errs[start:end])
		if end == len(events) {
			break
		}
		if err := s.truncate(ctx, &events[end], errs[start:end]); err != nil {
			errs[end] = err
			if !itemerror.IsPermanent(err) { // what comes after it must not be written before it
				for i := range errs[end+1:] {
					errs[end+1+i] = fmt.Errorf("vectorstore: waits for the truncate before it: %w", err)
				}
				break
			}
		}
		start = end + 1
	}
	s.telemetry.failures(ctx, errs)
	return NewBatchError(errs)
}

// truncatedTenant has what is remembered of truncates in a store with tenants.
const truncatedTenant = "tidemark"

// truncated names what a [VersionedClearer] remembers of the last truncate: the deletion of an object that no row has, with the
// truncate's version. It concerns all tenants, those too that come later, so that it is in one of its own.
func (m *Mapping[T]) truncated() Ref {
	id, err := UUID5(cdc.Key{{Name: "tidemark", Value: "truncated"}})
	if err != nil {
		panic(err) // a text has an id
	}
	if m.Tenant == nil {
		return Ref{ID: id}
	}
	return Ref{ID: id, Tenant: truncatedTenant}
}

// clearing is a position as far as it can be compared with those of a table's rows, whatever their partition. A truncate
// locks the table, so that the LSNs of all changes before it are less than its own, and those of all after it greater.
func clearing(p cdc.Position) cdc.Position { return cdc.Position{Epoch: p.Epoch, LSN: p.LSN} }

// truncate clears the store, unless an event before it waits to be tried again, which would then bring back a row.
func (s *Sink[T]) truncate(ctx context.Context, e *cdc.Event[T], before []error) error {
	for _, err := range before {
		if err != nil && !itemerror.IsPermanent(err) {
			return fmt.Errorf("vectorstore: %s: the truncate waits for the changes before it: %w", table(e), err)
		}
	}
	c, ok := s.store.(Clearer)
	tenanted, lists := s.store.(Tenanted)
	if !ok || s.mapping.Tenant != nil && !lists {
		return Permanent(fmt.Errorf("%w: %s: delete its objects, then skip the event", ErrTruncate, table(e)))
	}
	s.truncating.Lock()
	defer s.truncating.Unlock()
	start := time.Now()
	o := outcomeOf(e, Ref{}, Cleared)
	err := s.telemetry.write(ctx, 1, func(ctx context.Context) (err error) {
		tenants := []string{""}
		if s.mapping.Tenant != nil {
			if tenants, err = tenanted.Tenants(ctx); err != nil {
				return err
			}
		}
		if v, ok := c.(VersionedClearer); ok && e.Source.LSN != 0 {
			o.Kind, err = s.clearBefore(ctx, v, tenants, e.Position())
			return err
		}
		for _, tenant := range tenants {
			if err = c.Clear(ctx, tenant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("vectorstore: %s: truncate: %w", table(e), err)
	}
	if o.Kind.written() {
		o.Write = time.Since(start)
	}
	s.report(ctx, e, o, time.Now())
	return nil
}

// clearBefore clears what is older than a truncate. It remembers the truncate first, so that nothing older comes back.
func (s *Sink[T]) clearBefore(ctx context.Context, c VersionedClearer, tenants []string, p cdc.Position) (Kind, error) {
	stored, err := s.get(ctx, []Ref{s.mapping.truncated()})
	if err != nil {
		return 0, err
	}
	if order, known := clearing(p).Compare(versionOf(stored[0])); known && order < 0 {
		return Stale, nil
	}
	last := Mutation{Action: Delete, Object: Object{Ref: s.mapping.truncated(), Version: p.String()}}
	if err := s.store.Apply(ctx, []Mutation{last}); err != nil {
		return 0, err
	}
	for _, tenant := range tenants {
		if err := c.ClearBefore(ctx, tenant, clearing(p).String()); err != nil {
			return 0, err
		}
	}
	return Cleared, nil
}

func outcomeOf[T any](e *cdc.Event[T], r Ref, k Kind) Outcome {
	return Outcome{Ref: r, Key: e.Key, Op: e.Op, Kind: k, Position: e.Position()}
}

// report completes and publishes the outcome of an event whose effect has been durable since done.
func (s *Sink[T]) report(ctx context.Context, e *cdc.Event[T], o Outcome, done time.Time) {
	if o.Kind.written() {
		if commit := e.Source.CommitTime; !commit.IsZero() && !e.Source.Snapshot {
			o.Freshness = max(0, done.Sub(commit))
			s.telemetry.fresh(ctx, o.Freshness)
		}
		if published := e.Record.PublishTime; !published.IsZero() {
			o.Latency = max(0, done.Sub(published))
			s.telemetry.latency.Record(ctx, o.Latency.Seconds())
		}
	}
	s.telemetry.done(ctx, o.Kind)
	if s.options.Observe != nil {
		s.options.Observe(o)
	}
}

// table names the event's table for an error, or its topic where the event does not say.
func table[T any](e *cdc.Event[T]) string {
	if e.Source.Table == "" {
		return fmt.Sprintf("topic %q", e.Record.Topic)
	}
	return fmt.Sprintf("table %q", e.Source.Schema+"."+e.Source.Table)
}
