package vectorstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

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

// guard reads what is stored, finishes the events that are older, and orders the others.
func (b *batch[T]) guard(ctx context.Context, rows []*row[T]) {
	refs := make([]Ref, len(rows), len(rows)+1)
	for i, r := range rows {
		refs[i] = r.ref
	}
	if _, ok := b.store.(VersionedClearer); ok {
		refs = append(refs, b.mapping.truncated())
	}
	stored, err := b.get(ctx, refs)
	var cleared cdc.Position
	if err == nil && len(refs) > len(rows) {
		cleared = clearing(versionOf(stored[len(rows)]))
	}
	for i, r := range rows {
		if err != nil {
			b.fail(r, 0, err)
			continue
		}
		r.stored = stored[i]
		changes := r.pending
		r.pending = make([]change[T], 0, len(changes))
		for _, c := range changes {
			if !r.admit(c, cleared) {
				b.finish(r, c, Stale)
			}
		}
		r.history = r.pending
	}
}

// get reads objects, aligned with refs.
func (s *Sink[T]) get(ctx context.Context, refs []Ref) (stored []*Object, err error) {
	err = s.telemetry.read(ctx, len(refs), func(ctx context.Context) (err error) {
		stored, err = s.store.Get(ctx, refs)
		if err == nil && len(stored) != len(refs) {
			err = fmt.Errorf("vectorstore: the store returned %d objects for %d", len(stored), len(refs))
		}
		return err
	})
	return stored, err
}

// versionOf returns the position that an object shows, the zero Position, which comes after nothing, where it is unknown.
func versionOf(o *Object) cdc.Position {
	if o == nil {
		return cdc.Position{}
	}
	p, _ := cdc.ParsePosition(o.Version) // what is no position is unknown
	return p
}

// admit puts a change in its place among the pending ones, and returns false when the store has a later one, or was
// cleared later.
//
// A position without an LSN, such as that of a tombstone or of a row of an incremental snapshot, takes over the one
// that it is known to come after. Otherwise an old change that the source repeats, with its old LSN in a new message,
// would pass for newer.
func (r *row[T]) admit(c change[T], cleared cdc.Position) bool {
	before := versionOf(r.stored)
	order, known := c.position.Compare(before)
	c.repeat = known && order == 0
	if known && order < 0 {
		return false
	}
	if order, known = c.position.Compare(cleared); known && order < 0 {
		return false
	}
	at := len(r.pending)
	for at > 0 && c.before(&r.pending[at-1]) {
		at--
	}
	c.late = at < len(r.pending)
	switch {
	case at > 0:
		before = r.pending[at-1].position
	case before.LSN == 0:
		before = cleared
	}
	if c.position.LSN == 0 && c.position.Epoch == before.Epoch {
		c.position.LSN = before.LSN
	}
	r.pending = slices.Insert(r.pending, at, c)
	return true
}

func (c *change[T]) before(d *change[T]) bool {
	order, known := c.position.Compare(d.position)
	return known && order < 0
}

// last returns the index of the change that decides: the last one, or the deletion that tombstones at the end follow.
func (r *row[T]) last() int {
	i := len(r.pending) - 1
	for i > 0 && r.pending[i].tombstone() && r.pending[i-1].deletes() {
		i--
	}
	return i
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

// write is what is to be done for one row in one round.
type write[T any] struct {
	*row[T]
	change   int // the index of the pending change that is written
	kind     Kind
	mutation Mutation
	merge    bool  // something of the stored object stays
	inputs   []any // by vector of the mapping, nil where nothing is to be embedded
	embedded []string
	refused  []string
	err      error
}

// round tries the last pending change of each row. A row has pending changes afterwards only when that one has failed
// for good.
func (b *batch[T]) round(ctx context.Context, rows []*row[T]) {
	writes := make([]*write[T], len(rows))
	for i, r := range rows {
		writes[i] = b.plan(r)
	}
	b.embedAll(ctx, writes)
	b.applyAll(ctx, writes)
	now := time.Now()
	for _, w := range writes {
		b.settle(w, now)
	}
}

// plan says what a row's last pending change means for what is stored.
func (b *batch[T]) plan(r *row[T]) *write[T] {
	w := &write[T]{row: r, change: r.last()}
	c := &r.pending[w.change]
	w.mutation.Object = Object{Ref: r.ref}
	if c.position != (cdc.Position{}) {
		w.mutation.Object.Version = c.position.String()
	}
	if !c.deletes() {
		p, err := r.state(w.change, b.columns)
		wanted := false
		if err == nil {
			wanted, err = b.mapping.wanted(p)
		}
		if err == nil && wanted {
			wanted, err = b.put(w, c, p)
		}
		if w.err = err; wanted || err != nil {
			return w
		}
	}
	w.kind, w.mutation.Action = Deleted, Delete
	if r.stored != nil && r.stored.Deleted && (c.repeat || c.tombstone()) {
		w.kind = Unchanged
	}
	return w
}

// put plans the write of a row that is there. It returns false where a blank input says that the row is not wanted.
func (b *batch[T]) put(w *write[T], c *change[T], p *partial[T]) (bool, error) {
	var stored Object // what is live
	w.kind = Created
	switch {
	case p.origin && p.stored != nil:
		stored, w.kind = *p.stored, Moved
	case w.stored != nil && !w.stored.Deleted:
		stored, w.kind = *w.stored, Updated
	}
	o := &w.mutation.Object
	o.Vectors, o.Inputs = map[string][]float32{}, map[string]string{}
	same, err := b.vectors(w, p, &stored)
	switch {
	case errors.Is(err, errUnwanted):
		w.mutation.Object, w.inputs = Object{Ref: o.Ref, Version: o.Version}, nil
		return false, nil
	case err != nil:
		return false, err
	case same && c.repeat && w.kind == Updated && b.shownBy(&stored):
		w.kind = Unchanged
		return true, nil
	}
	properties, kept, err := p.properties(b.mapping.Properties)
	if err != nil {
		return false, err
	}
	for name := range kept {
		w.merge = w.merge || kept[name]
	}
	o.Properties = properties
	b.addLineage(o.Properties, c)
	o.Inputs[columnsInput] = b.columns.digest(reflect.ValueOf(p.row), p.missing, stored.Inputs[columnsInput])
	if o.Inputs[mappingInput] = b.mapping.Version; w.merge { // what stays may be of another version
		o.Inputs[mappingInput] = stored.Inputs[mappingInput]
	}
	if w.kind == Moved {
		w.take(&stored, kept)
		return true, nil
	}
	w.keep(&stored, kept)
	return true, nil
}

// errUnwanted says that a blank input leaves the row out of the index.
var errUnwanted = errors.New("unwanted")

// vectors plans a row's vectors, and reports whether all are as they are stored.
func (b *batch[T]) vectors(w *write[T], p *partial[T], stored *Object) (same bool, err error) {
	o := &w.mutation.Object
	same = true
	for i := range b.mapping.Vectors {
		v := &b.mapping.Vectors[i]
		kept, err := p.keepsVector(v, w.ref)
		if err != nil {
			return false, err
		}
		if kept {
			o.Inputs[v.Name], w.merge = stored.Inputs[v.Name], true
			continue
		}
		in, digest, wanted := v.inputOf(p.row, w.ref)
		if blank := digest != "" && !wanted; blank && v.Blank == BlankDeletes {
			return false, errUnwanted
		} else if blank && v.Blank == BlankRefused {
			return false, Permanent(fmt.Errorf("%w: vector %q", ErrBlank, v.Name))
		}
		have := len(stored.Vectors[v.Name]) > 0
		o.Inputs[v.Name] = digest
		if stored.Inputs[v.Name] != digest || have != wanted {
			same = false
		} else if wanted {
			continue // kept
		}
		o.Vectors[v.Name] = nil
		if wanted {
			w.needs(i, len(b.mapping.Vectors), in)
		}
	}
	return same, nil
}

// take brings along what stays of the object that the row had under another key.
func (w *write[T]) take(from *Object, kept map[string]bool) {
	o := &w.mutation.Object
	for name, vector := range from.Vectors {
		if _, replaced := o.Vectors[name]; !replaced {
			o.Vectors[name] = vector
		}
	}
	for name, digest := range from.Inputs {
		if _, replaced := o.Inputs[name]; !replaced && o.Vectors[name] != nil {
			o.Inputs[name] = digest
		}
	}
	for name := range kept {
		if v, there := from.Properties[name]; there && kept[name] {
			o.Properties[name] = v
		}
	}
}

// inputOf returns what is embedded for a row. The digest is empty when the object must not have the vector.
func (v *Vector[T]) inputOf(row T, r Ref) (in any, digest string, wanted bool) {
	if v.Only != nil && !v.Only(string(r.ID)) {
		return nil, "", false
	}
	in = v.input(row)
	digest, empty := v.digest.sum(in)
	return in, digest, !empty
}

// needs notes the input of the i-th of n vectors.
func (w *write[T]) needs(i, n int, in any) {
	if w.inputs == nil {
		w.inputs = make([]any, n)
	}
	w.inputs[i] = in
}

// keep makes the write a Merge if something stored stays. Then other stored properties that the row does not have any
// more are cleared.
func (w *write[T]) keep(stored *Object, kept map[string]bool) {
	o := &w.mutation.Object
	for name, vector := range stored.Vectors {
		if _, replaced := o.Vectors[name]; !replaced && len(vector) > 0 {
			w.merge = true
		}
	}
	if !w.merge {
		return
	}
	w.mutation.Action = Merge
	for name := range stored.Properties {
		if _, there := o.Properties[name]; !there && !kept[name] {
			o.Properties[name] = nil
		}
	}
}

// mappingInput is the name under which an object's Inputs have the Version of the mapping that made it.
const mappingInput = "tidemark.mapping"

// shownBy reports whether what is stored was made by this version of the mapping.
func (b *batch[T]) shownBy(stored *Object) bool {
	return stored.Inputs[mappingInput] == b.mapping.Version
}

// addLineage adds the Lineage properties.
func (b *batch[T]) addLineage(properties map[string]any, c *change[T]) {
	if b.options.Lineage {
		properties[LineagePosition], properties[LineageMapping] = c.position.String(), b.mapping.Version
		properties[LineageModels], properties[LineageIndexedAt] = slices.Clone(b.lineage), time.Now().UTC()
	}
}

// embedAll makes the vectors that the writes need, in one call a vector of the mapping.
func (b *batch[T]) embedAll(ctx context.Context, writes []*write[T]) {
	start := time.Now()
	for i := range b.mapping.Vectors {
		var need []*write[T]
		var inputs []any
		for _, w := range writes {
			if w.err == nil && w.inputs != nil && w.inputs[i] != nil {
				need, inputs = append(need, w), append(inputs, w.inputs[i])
			}
		}
		if len(inputs) > 0 {
			b.embedOne(ctx, &b.mapping.Vectors[i], need, inputs)
		}
	}
	b.embed = time.Since(start)
}

func (b *batch[T]) embedOne(ctx context.Context, v *Vector[T], need []*write[T], inputs []any) {
	var vectors [][]float32
	var errs []error
	b.telemetry.embed(ctx, v.Name, len(inputs), func(ctx context.Context) error {
		vectors, errs = v.vectors(ctx, inputs)
		return NewBatchError(errs)
	})
	for i, w := range need {
		if errs[i] != nil && v.Optional && itemerror.IsPermanent(errs[i]) {
			w.refused = append(w.refused, v.Name)
			b.telemetry.refused.Add(ctx, 1, metric.WithAttributes(attribute.String("tidemark.vector", v.Name)))
			continue
		}
		if errs[i] != nil {
			w.err = fmt.Errorf("vector %q: %w", v.Name, errs[i])
			continue
		}
		w.mutation.Object.Vectors[v.Name] = vectors[i]
		w.embedded = append(w.embedded, v.Name)
	}
}

// applyAll writes what can be written, in one call.
func (b *batch[T]) applyAll(ctx context.Context, writes []*write[T]) {
	var applied []*write[T]
	var mutations []Mutation
	for _, w := range writes {
		if w.err == nil && w.kind != Unchanged {
			applied, mutations = append(applied, w), append(mutations, w.mutation)
		}
	}
	if len(mutations) == 0 {
		return
	}
	start := time.Now()
	versions := make([]string, len(applied))
	for i, w := range applied {
		if w.stored != nil {
			versions[i] = w.stored.Version
		}
	}
	for i, err := range b.apply(ctx, mutations, versions) {
		applied[i].err = err
	}
	b.write = time.Since(start)
}

// apply returns an error a mutation. One that is refused for good without saying which is looked for one by one.
func (b *batch[T]) apply(ctx context.Context, m []Mutation, versions []string) []error {
	err := b.telemetry.write(ctx, len(m), func(ctx context.Context) error {
		if c, ok := b.store.(Conditional); ok {
			return c.ApplyIf(ctx, m, versions)
		}
		return b.store.Apply(ctx, m)
	})
	if err == nil {
		return make([]error, len(m))
	}
	errs, named := itemerror.Align(err, len(m))
	if named || len(m) == 1 || !itemerror.IsPermanent(err) {
		return errs
	}
	for i := range m {
		errs[i] = b.apply(ctx, m[i:i+1], versions[i:i+1])[0]
	}
	return errs
}

// settle ends a row's round.
func (b *batch[T]) settle(w *write[T], now time.Time) {
	switch {
	case w.err != nil && itemerror.IsPermanent(w.err):
		b.fail(w.row, w.change, w.err)
		return
	case w.err != nil:
		b.fail(w.row, 0, w.err)
		return
	}
	for i, c := range w.pending {
		switch {
		case i > w.change || c.repeat && i < w.change:
			b.finish(w.row, c, Unchanged)
		case i == w.change:
			r := result{outcomeOf(c.Event, w.ref, w.kind), now}
			if r.Embedded, r.Refused = w.embedded, w.refused; w.kind.written() {
				r.Embed, r.Write = b.embed, b.write
			}
			b.results[c.at] = r
		case c.late:
			b.finish(w.row, c, Stale)
		default:
			b.finish(w.row, c, Collapsed)
		}
	}
	w.pending = nil
}
