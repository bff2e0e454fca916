package vectorstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

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
	o.MultiVectors = maps.Clone(from.MultiVectors)
	for name, digest := range from.Inputs {
		if _, replaced := o.Inputs[name]; !replaced && (o.Vectors[name] != nil || o.MultiVectors[name] != nil) {
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
	w.merge = w.merge || len(stored.MultiVectors) > 0
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
func (s *Sink[T]) shownBy(stored *Object) bool {
	return stored.Inputs[mappingInput] == s.mapping.Version
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
	if !slices.ContainsFunc(need, func(w *write[T]) bool { return !w.pending[w.change].Source.Snapshot }) {
		ctx = embed.WithPriority(ctx, embed.Backfill) // nobody waits for rows that a snapshot has read
	}
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
