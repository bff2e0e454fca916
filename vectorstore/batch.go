package vectorstore

import (
	"context"
	"errors"
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
	origins []*row[T]   // from which it takes over
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
	left     int     // and the place of the event that says so there, -1 where it is not in the batch
}

func (c *change[T]) tombstone() bool { return c.Op == cdc.OpTombstone }

func (c *change[T]) deletes() bool { return c.Op == cdc.OpDelete || c.Op == cdc.OpTombstone }

// rows handles events of which none is a truncate.
func (s *Sink[T]) rows(ctx context.Context, events []cdc.Event[T], errs []error) {
	s.truncating.RLock()
	defer s.truncating.RUnlock()
	given := events
	events, halves := s.departures(linked(events))
	b := &batch[T]{Sink: s, events: events, errs: errs, results: make([]result, len(events))}
	if halves != nil {
		b.errs = make([]error, len(events))
	}
	for from := 0; from < len(events); {
		rows, to := b.collect(from, len(events))
		if to < len(events) {
			rows, _ = b.collect(from, to)
		}
		if len(rows) > 0 {
			b.guard(ctx, rows)
		}
		b.rounds(ctx, rows)
		if b.hold(from, to) {
			break
		}
		from = to
	}
	if halves != nil {
		b.join(halves, errs)
	}
	for i := range b.results {
		if r := &b.results[i]; r.Kind != 0 {
			s.report(ctx, &given[i], r.Outcome, r.done)
		}
	}
}

// hold fails all events from an index on, where one of those from another to there has to be tried again, and reports whether it has.
func (b *batch[T]) hold(from, to int) bool {
	i := slices.IndexFunc(b.errs[from:to], func(err error) bool { return err != nil && !itemerror.IsPermanent(err) })
	if i < 0 {
		return false
	}
	for at := to; at < len(b.errs); at++ {
		b.errs[at], b.results[at] = fmt.Errorf("vectorstore: waits for the changes before it: %w", b.errs[from+i]), result{}
	}
	return true
}

// before is an event that says where the row of e was before it: as a delete of it would.
func before[T any](e *cdc.Event[T], key cdc.Key) *cdc.Event[T] {
	out := &cdc.Event[T]{Op: cdc.OpDelete, Key: key, NewKey: e.Key, Before: e.Before, Source: e.Source, Record: e.Record}
	out.Record.Key, out.Record.Value = "", nil // which are of the row as it is now
	return out
}

// departures puts, before each update whose row was in another tenant, a delete there; so that it is like a change of the primary key. An
// empty tenant is one that is not known, since some rows before have the columns of an index alone. It returns the places of the events
// among those, nil where they are as they were.
func (s *Sink[T]) departures(events []cdc.Event[T]) (out []cdc.Event[T], places []int) {
	moved := func(e cdc.Event[T]) bool { return e.Op == cdc.OpUpdate && e.Before != nil && e.After != nil }
	if s.mapping.Tenant == nil || !slices.ContainsFunc(events, moved) {
		return events, nil
	}
	places = make([]int, len(events))
	for i := range events {
		e := events[i]
		if moved(e) {
			was := before(&e, e.Key)
			from, err := s.mapping.Tenant(was)
			if to, errNow := s.mapping.Tenant(&e); err == nil && errNow == nil && from != to && from != "" {
				e.OldKey = e.Key
				out = append(out, *was)
			}
		}
		places[i] = len(out)
		out = append(out, e)
	}
	return out, places
}

// join makes one error and outcome of each event whose departure was a second one: an error with which it has to be tried again goes
// before one for good.
func (b *batch[T]) join(places []int, errs []error) {
	results := make([]result, len(places))
	next := 0
	for i, place := range places {
		results[i] = b.results[place]
		for _, err := range b.errs[next : place+1] {
			if err == nil {
				continue
			}
			if results[i] = (result{}); errs[i] == nil || itemerror.IsPermanent(errs[i]) {
				errs[i] = err
			}
		}
		next = place + 1
	}
	b.results = results
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

// rounds tries all rows until nothing of them is pending. Those whose objects others take over are written after these are done, or
// wait with them when they have to be tried again; but for a circle, which is tried as one.
func (b *batch[T]) rounds(ctx context.Context, rows []*row[T]) {
	for len(rows) > 0 {
		now, later := rows, []*row[T](nil)
		if b.moves {
			now, later = untaken(rows)
			for _, r := range now {
				b.await(r)
			}
		}
		for now = unsettled(now); len(now) > 0; now = unsettled(now) {
			b.round(ctx, now)
		}
		rows = later
	}
}

// unsettled leaves out the rows of which nothing is pending.
func unsettled[T any](rows []*row[T]) []*row[T] {
	return slices.DeleteFunc(rows, func(r *row[T]) bool { return len(r.pending) == 0 })
}

// untaken returns the rows that no other of them takes over, all where there are none, and the others.
func untaken[T any](rows []*row[T]) (now, later []*row[T]) {
	taken := map[*row[T]]bool{}
	for _, r := range rows {
		for i := range r.pending {
			if from := r.pending[i].from; from != nil {
				taken[from] = true
			}
		}
	}
	for _, r := range rows {
		if taken[r] {
			later = append(later, r)
		} else {
			now = append(now, r)
		}
	}
	if len(now) == 0 {
		return later, nil
	}
	return now, later
}

// await fails a row that is to be taken over by one that has to be tried again.
func (b *batch[T]) await(r *row[T]) {
	for _, i := range r.leaving {
		if err := b.errs[i]; err != nil && !itemerror.IsPermanent(err) {
			b.fail(r, 0, fmt.Errorf("waits for the row to be there under its new key: %w", err))
		}
	}
}

// collect groups the events from an index to another by object, in the order of the first of each. Events that are wrong by themselves fail
// here. It stops where rows would move in a circle, and returns where: were all of it written as one, a crash amid that could leave none
// of them as it was.
func (b *batch[T]) collect(from, to int) (rows []*row[T], end int) {
	byRef := make(map[Ref]*row[T], to-from)
	rowOf := func(ref Ref) *row[T] {
		r := byRef[ref]
		if r == nil {
			r = &row[T]{ref: ref}
			byRef[ref], rows = r, append(rows, r)
		}
		return r
	}
	for i := from; i < to; i++ {
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
		r, c := rowOf(ref), change[T]{Event: e, at: i, position: e.Position(), left: -1}
		if len(e.OldKey) > 0 {
			c.left = b.departure(i)
			if old, err := b.origin(e, c.left); err == nil && old != ref {
				c.from, b.moves = rowOf(old), true
				if end = b.parting(from, r, &c); end > from {
					return rows, end
				}
				r.origins, c.from.leaving = append(r.origins, c.from), append(c.from.leaving, i)
			}
		}
		r.pending = append(r.pending, c)
	}
	return rows, to
}

// takes reports whether a row takes over another, or one that does.
func (r *row[T]) takes(other *row[T], seen map[*row[T]]bool) bool {
	if r == other || seen[r] {
		return r == other
	}
	seen[r] = true
	return slices.ContainsFunc(r.origins, func(o *row[T]) bool { return o.takes(other, seen) })
}

// parting returns where the events from an index on are parted before a change that closes a circle: where the row left its old key, or
// before that, so that no row leaves a key before that place and arrives after it, without what it had. It is the index itself where there
// is no circle or no such place.
func (b *batch[T]) parting(from int, r *row[T], c *change[T]) int {
	if c.left > c.at || !c.from.takes(r, map[*row[T]]bool{}) {
		return from
	}
	at := c.left
	for i := len(b.events) - 1; i >= at && at > from; i-- {
		if left := b.departure(i); left >= 0 {
			at = min(at, left)
		}
	}
	return max(at, from)
}

// departure returns the place of the event with which the row of the i-th left its old key, the nearest one before it, else after it; -1
// where there is none.
func (b *batch[T]) departure(i int) int {
	e := &b.events[i]
	if len(e.OldKey) == 0 {
		return -1
	}
	left := func(d cdc.Event[T]) bool {
		return d.Op == cdc.OpDelete && d.Source.LSN == e.Source.LSN && slices.Equal(d.Key, e.OldKey)
	}
	for at := i - 1; at >= 0; at-- {
		if left(b.events[at]) {
			return at
		}
	}
	if after := slices.IndexFunc(b.events[i:], left); after > 0 {
		return i + after
	}
	return -1
}

// origin returns the object of the row under its old key. The tenant of that one the event says with which it left, if it is there.
func (b *batch[T]) origin(e *cdc.Event[T], left int) (Ref, error) {
	if left >= 0 {
		return b.ref(&b.events[left], e.OldKey)
	}
	old, err := b.ref(before(e, e.OldKey), e.OldKey)
	if err == nil && b.mapping.Tenant != nil && old.Tenant == "" {
		err = errNoTenant
	}
	return old, err
}

var errNoTenant = errors.New("vectorstore: the tenant of the old key is not known")

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
