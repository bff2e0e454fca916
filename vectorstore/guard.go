package vectorstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// guard reads what is stored, finishes the events that are older, and orders the others.
func (b *batch[T]) guard(ctx context.Context, rows []*row[T]) {
	refs := make([]Ref, len(rows), len(rows)+1)
	for i, r := range rows {
		refs[i] = r.ref
	}
	if _, ok := b.store.(VersionedClearer); ok {
		refs = append(refs, b.mapping.truncated())
	}
	stored, errs := b.read(ctx, refs)
	var cleared cdc.Position
	var failed error // of what concerns all rows
	if len(refs) > len(rows) {
		cleared, failed = clearing(versionOf(stored[len(rows)])), errs[len(rows)]
	}
	for i, r := range rows {
		if err := cmp.Or(errs[i], failed); err != nil {
			b.fail(r, 0, err)
			continue
		}
		r.stored = stored[i]
		changes := r.pending
		r.pending = make([]change[T], 0, len(changes))
		passed := false // the last was a delete after which there is a later change: then so is its tombstone, which has no LSN to tell
		for _, c := range changes {
			if passed && c.tombstone() || !r.admit(c, cleared) {
				b.finish(r, c, Stale)
				passed = c.deletes()
				continue
			}
			passed = c.deletes() && r.pending[len(r.pending)-1].at != c.at
		}
		r.history = r.pending
	}
}

// read returns an object or an error for each of refs. What is refused for good without saying which, such as a tenant that the store
// cannot have, is looked for by halves.
func (s *Sink[T]) read(ctx context.Context, refs []Ref) ([]*Object, []error) {
	stored, err := s.get(ctx, refs)
	switch {
	case err == nil:
		return stored, make([]error, len(refs))
	case len(refs) == 1 || !itemerror.IsPermanent(err):
		return make([]*Object, len(refs)), slices.Repeat([]error{err}, len(refs))
	}
	half := len(refs) / 2
	stored, errs := s.read(ctx, refs[:half])
	more, moreErrs := s.read(ctx, refs[half:])
	return append(stored, more...), append(errs, moreErrs...)
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
