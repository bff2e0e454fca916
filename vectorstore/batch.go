package vectorstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// batch is the work of one Handle call between two truncates. It groups the events by object, leaves out what the store
// has seen, and writes the last state of each object; where that state is refused for good, the one before it, until
// nothing is left.
type batch[T any] struct {
	*Sink[T]
	events  []cdc.Event[T]
	errs    []error
	results []result
	embed   time.Duration // of this round
	write   time.Duration
	moves   bool // some row comes from another key
}

// result is the outcome of an event, with no Kind while there is none, and the time when it was durable.
type result struct {
	Outcome
	done time.Time
}

// row has the events of one object.
type row[T any] struct {
	ref     Ref
	stored  *Object
	pending []change[T] // neither done nor failed, oldest first
	history []change[T] // pending as it was at first
	leaving []int       // the events that put the row under another key
}

// change is an event with its place in the batch.
type change[T any] struct {
	*cdc.Event[T]
	at       int
	position cdc.Position
	repeat   bool    // the store has this very event
	late     bool    // a later change stood before it in the batch
	from     *row[T] // where a primary-key change took the row from
}

func (c *change[T]) tombstone() bool { return c.Op == cdc.OpTombstone }

func (c *change[T]) deletes() bool { return c.Op == cdc.OpDelete || c.Op == cdc.OpTombstone }

// rows handles events of which none is a truncate.
func (s *Sink[T]) rows(ctx context.Context, events []cdc.Event[T], errs []error) {
	s.truncating.RLock()
	defer s.truncating.RUnlock()
	events = linked(events)
	b := &batch[T]{Sink: s, events: events, errs: errs, results: make([]result, len(events))}
	rows := b.collect()
	if len(rows) > 0 {
		b.guard(ctx, rows)
	}
	for {
		rows = slices.DeleteFunc(rows, func(r *row[T]) bool { return len(r.pending) == 0 })
		if len(rows) == 0 {
			break
		}
		b.rounds(ctx, rows)
	}
	for i := range b.results {
		if r := &b.results[i]; r.Kind != 0 {
			s.report(ctx, &events[i], r.Outcome, r.done)
		}
	}
}

// linked returns the events with the keys that link the halves of primary-key changes, where they are next to each other.
func linked[T any](events []cdc.Event[T]) []cdc.Event[T] {
	if !slices.ContainsFunc(events, func(e cdc.Event[T]) bool { return e.Op == cdc.OpDelete && e.NewKey == nil }) {
		return events
	}
	events = slices.Clone(events)
	new(cdc.Linker[T]).Link(events)
	return events
}

// rounds is a round of all rows. Those that are to be deleted come last, since others may take their objects over, and
// wait when one that takes over has to be tried again.
func (b *batch[T]) rounds(ctx context.Context, rows []*row[T]) {
	if !b.moves {
		b.round(ctx, rows)
		return
	}
	var deletes []*row[T]
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *row[T]) bool {
		last := r.pending[r.last()].deletes()
		if last {
			deletes = append(deletes, r)
		}
		return last
	})
	b.round(ctx, rows)
	for _, r := range deletes {
		for _, i := range r.leaving {
			if err := b.errs[i]; err != nil && !itemerror.IsPermanent(err) {
				b.fail(r, 0, fmt.Errorf("waits for the row to be there under its new key: %w", err))
			}
		}
	}
	b.round(ctx, slices.DeleteFunc(deletes, func(r *row[T]) bool { return len(r.pending) == 0 }))
}

// collect groups the events by object, in the order of the first of each. Events that are wrong by themselves fail
// here.
func (b *batch[T]) collect() []*row[T] {
	var rows []*row[T]
	byRef := make(map[Ref]*row[T], len(b.events))
	rowOf := func(ref Ref) *row[T] {
		r := byRef[ref]
		if r == nil {
			r = &row[T]{ref: ref}
			byRef[ref], rows = r, append(rows, r)
		}
		return r
	}
	for i := range b.events {
		e := &b.events[i]
		if e.Op == cdc.OpMessage {
			b.results[i] = result{outcomeOf(e, Ref{}, Skipped), time.Now()}
			continue
		}
		ref, err := b.ref(e, e.Key)
		if err == nil {
			err = checkEvent(e)
		}
		if err != nil {
			b.errs[i] = Permanent(fmt.Errorf("vectorstore: %s: %w", table(e), err))
			continue
		}
		c := change[T]{Event: e, at: i, position: e.Position()}
		if e.Op == cdc.OpCreate && len(e.OldKey) > 0 {
			if old, err := b.ref(e, e.OldKey); err == nil && old != ref {
				c.from, b.moves = rowOf(old), true
				c.from.leaving = append(c.from.leaving, i)
			}
		}
		r := rowOf(ref)
		r.pending = append(r.pending, c)
	}
	return rows
}

func (b *batch[T]) ref(e *cdc.Event[T], key cdc.Key) (Ref, error) {
	if len(key) == 0 {
		return Ref{}, fmt.Errorf("%w: give the table a primary key, or the connector message.key.columns", ErrNoKey)
	}
	if b.mapping.Key != nil {
		var err error
		if key, err = b.mapping.Key(key); err != nil {
			return Ref{}, fmt.Errorf("the mapping of the key: %w", err)
		}
	}
	id, err := UUID5(key)
	if err != nil || b.mapping.Tenant == nil {
		return Ref{ID: id}, err
	}
	tenant, err := b.mapping.Tenant(e)
	if err != nil {
		err = fmt.Errorf("the mapping of the tenant: %w", err)
	}
	return Ref{ID: id, Tenant: tenant}, err
}

// checkEvent returns an error for events that do not say what the row is.
func checkEvent[T any](e *cdc.Event[T]) error {
	switch e.Op {
	case cdc.OpDelete, cdc.OpTombstone:
		return nil
	case cdc.OpCreate, cdc.OpUpdate, cdc.OpRead:
	default:
		return fmt.Errorf("%w: %q", ErrOp, byte(e.Op))
	}
	if e.After == nil {
		return fmt.Errorf("%w: op %q has no row after the change", ErrNoRow, byte(e.Op))
	}
	return nil
}

// finish sets the outcome of an event that wrote nothing.
func (b *batch[T]) finish(r *row[T], c change[T], k Kind) {
	b.results[c.at] = result{outcomeOf(c.Event, r.ref, k), time.Now()}
}

// fail sets the error of the pending events from an index on, which are then no longer pending.
func (b *batch[T]) fail(r *row[T], from int, err error) {
	for _, c := range r.pending[from:] {
		b.errs[c.at] = fmt.Errorf("vectorstore: %s, object %s: %w", table(c.Event), r.ref.ID, err)
	}
	r.pending = r.pending[:from]
}
