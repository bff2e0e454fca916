package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Store is a [vectorstore.Store] in memory. It is safe for concurrent use; an Apply is seen whole or not at all. Use
// [New].
type Store struct {
	mu      sync.RWMutex
	objects map[vectorstore.Ref]*entry   // entries are never changed once here, so that readers may keep them
	shapes  map[string]vectorstore.Shape // by vector name, of the first one stored since the last time that all was cleared
	live    int                          // objects that are not Deleted
}

// entry is an object with what a search needs. Its maps and slices are the store's own.
type entry struct {
	vectorstore.Object
	measured map[string][]measured // the vectors by name: one, or all of a multi-vector
}

// measured is a vector with its Euclidean length.
type measured struct {
	v    []float32
	norm float64
}

func measure(vectors ...[]float32) []measured {
	out := make([]measured, len(vectors))
	for i, v := range vectors {
		out[i] = measured{v, math.Sqrt(dot(v, v))}
	}
	return out
}

var (
	_ vectorstore.Store            = (*Store)(nil)
	_ vectorstore.VersionedClearer = (*Store)(nil)
	_ vectorstore.Conditional      = (*Store)(nil)
	_ vectorstore.Tenanted         = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.reset()
	return s
}

func (s *Store) reset() {
	s.objects, s.shapes, s.live = map[vectorstore.Ref]*entry{}, map[string]vectorstore.Shape{}, 0
}

// Apply makes the mutations take effect in order. The items that it refuses, each with a permanent error, are those
// with an id that is no UUID in lower case ([vectorstore.ErrID]), with a vector that is not finite, all zero, or not as
// long as the first one stored under its name or not of its kind ([vectorstore.ErrVector]), and with a property that
// [vectorstore.Value] refuses ([vectorstore.ErrValue]).
func (s *Store) Apply(ctx context.Context, m []vectorstore.Mutation) error {
	return s.applyIf(ctx, m, func(int, *entry) bool { return true })
}

// ApplyIf is Apply for mutations that take effect only where the version is still the given one.
func (s *Store) ApplyIf(ctx context.Context, m []vectorstore.Mutation, versions []string) error {
	if len(versions) != len(m) {
		return vectorstore.Permanent(fmt.Errorf("memory: apply: %d versions for %d mutations", len(versions), len(m)))
	}
	return s.applyIf(ctx, m, func(i int, stored *entry) bool {
		return stored == nil && versions[i] == "" || stored != nil && stored.Version == versions[i]
	})
}

func (s *Store) applyIf(ctx context.Context, m []vectorstore.Mutation, may func(i int, stored *entry) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	errs := make([]error, len(m))
	entries := make([]*entry, len(m))
	for i := range m {
		entries[i], errs[i] = newEntry(&m[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range m {
		switch {
		case errs[i] != nil:
		case !may(i, s.objects[entries[i].Ref]):
			errs[i] = itemError(entries[i].Ref, vectorstore.ErrConflict)
		default:
			errs[i] = s.apply(m[i].Action, entries[i])
		}
	}
	return vectorstore.NewBatchError(errs)
}

// newEntry checks a mutation by itself and copies its object. Nil vectors, properties and empty inputs stay, for Merge.
func newEntry(m *vectorstore.Mutation) (*entry, error) {
	if err := m.Object.ID.Check(); err != nil {
		return nil, err
	}
	o := vectorstore.Object{Ref: m.Object.Ref, Version: m.Object.Version}
	switch m.Action {
	case vectorstore.Upsert, vectorstore.Merge:
	case vectorstore.Delete:
		o.Deleted = true
		return &entry{Object: o}, nil
	default:
		return nil, itemError(o.Ref, vectorstore.Permanent(fmt.Errorf("unknown action %v", m.Action)))
	}
	e := &entry{Object: o, measured: map[string][]measured{}}
	e.Properties = make(map[string]any, len(m.Object.Properties))
	for name, v := range m.Object.Properties {
		value, err := vectorstore.Value(v)
		if err != nil {
			return nil, itemError(o.Ref, fmt.Errorf("property %q: %w", name, err))
		}
		e.Properties[name] = value
	}
	if name, err := e.take(&m.Object); err != nil {
		return nil, itemError(o.Ref, fmt.Errorf("vector %q: %w", name, err))
	}
	e.Inputs = maps.Clone(m.Object.Inputs)
	return e, nil
}

// take copies an object's vectors, or returns the name of one that is invalid.
func (e *entry) take(o *vectorstore.Object) (string, error) {
	e.Vectors = make(map[string][]float32, len(o.Vectors))
	for name, v := range o.Vectors {
		if e.Vectors[name] = nil; len(v) == 0 {
			continue
		}
		if err := vectorstore.CheckVector(v, 0); err != nil {
			return name, err
		}
		e.Vectors[name] = slices.Clone(v)
		e.measured[name] = measure(e.Vectors[name])
	}
	e.MultiVectors = make(map[string][][]float32, len(o.MultiVectors))
	for name, v := range o.MultiVectors {
		if e.MultiVectors[name] = nil; len(v) == 0 {
			continue
		}
		if err := vectorstore.CheckMultiVector(v, 0); err != nil {
			return name, err
		}
		if e.measured[name] != nil {
			return name, vectorstore.Permanent(fmt.Errorf("%w: of both kinds", vectorstore.ErrVector))
		}
		e.MultiVectors[name] = cloneAll(v)
		e.measured[name] = measure(e.MultiVectors[name]...)
	}
	return "", nil
}

func cloneAll(vectors [][]float32) [][]float32 {
	out := make([][]float32, len(vectors))
	for i, v := range vectors {
		out[i] = slices.Clone(v)
	}
	return out
}

func itemError(r vectorstore.Ref, err error) error {
	return fmt.Errorf("memory: object %s: %w", r.ID, err)
}

// apply needs s.mu. It takes e over.
func (s *Store) apply(a vectorstore.Action, e *entry) error {
	shapes := make(map[string]vectorstore.Shape, len(e.measured))
	for name, vectors := range e.measured {
		shapes[name] = vectorstore.Shape{Dimensions: len(vectors[0].v), Multi: e.MultiVectors[name] != nil}
		if err := s.checkShape(name, shapes[name]); err != nil {
			return itemError(e.Ref, err)
		}
	}
	old := s.objects[e.Ref]
	if a == vectorstore.Merge && old != nil && !old.Deleted {
		e.keep(old)
	}
	e.drop()
	maps.Copy(s.shapes, shapes)
	if old == nil || old.Deleted {
		s.live++
	}
	if e.Deleted {
		s.live--
	}
	s.objects[e.Ref] = e
	return nil
}

// checkShape needs s.mu.
func (s *Store) checkShape(name string, is vectorstore.Shape) error {
	switch want, known := s.shapes[name]; {
	case known && is.Multi != want.Multi:
		return vectorstore.Permanent(fmt.Errorf("%w: vector %q: of the other kind than the store's of that name", vectorstore.ErrVector, name))
	case known && is.Dimensions != want.Dimensions:
		return vectorstore.Permanent(fmt.Errorf("%w: vector %q: %d components, want %d", vectorstore.ErrVector, name, is.Dimensions, want.Dimensions))
	}
	return nil
}

// keep takes from old what e lacks.
func (e *entry) keep(old *entry) {
	e.Properties = overlay(old.Properties, e.Properties)
	e.Vectors = overlay(old.Vectors, e.Vectors)
	e.Inputs = overlay(old.Inputs, e.Inputs)
	e.MultiVectors = overlay(old.MultiVectors, e.MultiVectors)
	e.measured = overlay(old.measured, e.measured)
	e.Version = cmp.Or(e.Version, old.Version)
}

func overlay[V any](old, over map[string]V) map[string]V {
	out := make(map[string]V, len(old)+len(over))
	maps.Copy(out, old)
	maps.Copy(out, over)
	return out
}

// drop removes what was there only to clear.
func (e *entry) drop() {
	maps.DeleteFunc(e.Properties, func(_ string, v any) bool { return v == nil })
	maps.DeleteFunc(e.Vectors, func(_ string, v []float32) bool { return v == nil })
	maps.DeleteFunc(e.MultiVectors, func(_ string, v [][]float32) bool { return v == nil })
	maps.DeleteFunc(e.Inputs, func(_ string, v string) bool { return v == "" })
	maps.DeleteFunc(e.measured, func(name string, _ []measured) bool { return e.Vectors[name] == nil && e.MultiVectors[name] == nil })
}

// Get returns copies of objects, aligned with r.
func (s *Store) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries := make([]*entry, len(r))
	s.mu.RLock()
	for i, ref := range r {
		entries[i] = s.objects[ref]
	}
	s.mu.RUnlock()
	out := make([]*vectorstore.Object, len(r))
	for i, e := range entries {
		if e != nil {
			o := clone(e.Object)
			out[i] = &o
		}
	}
	return out, nil
}

// clone copies an object of the store's own.
func clone(o vectorstore.Object) vectorstore.Object {
	o.Inputs = maps.Clone(o.Inputs)
	o.Properties = maps.Clone(o.Properties)
	for name, v := range o.Properties {
		o.Properties[name], _ = vectorstore.Value(v) // a deep copy of what Value made, which it accepts
	}
	o.Vectors = maps.Clone(o.Vectors)
	for name, v := range o.Vectors {
		o.Vectors[name] = slices.Clone(v)
	}
	o.MultiVectors = maps.Clone(o.MultiVectors)
	for name, v := range o.MultiVectors {
		o.MultiVectors[name] = cloneAll(v)
	}
	return o
}

// dot keeps four sums, so that an addition need not wait for the one before it. a and b are of one length.
func dot(a, b []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0 += float64(a[0]) * float64(b[0])
		s1 += float64(a[1]) * float64(b[1])
		s2 += float64(a[2]) * float64(b[2])
		s3 += float64(a[3]) * float64(b[3])
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}

// Clear forgets every object and deletion of a tenant. When nothing is left, vectors of other lengths may be stored.
func (s *Store) Clear(ctx context.Context, tenant string) error {
	return s.forget(ctx, tenant, func(*entry) bool { return true })
}

// ClearBefore forgets the objects and deletions of a tenant whose Version is less, as Clear does.
func (s *Store) ClearBefore(ctx context.Context, tenant, version string) error {
	return s.forget(ctx, tenant, func(e *entry) bool { return e.Version < version })
}

func (s *Store) forget(ctx context.Context, tenant string, old func(*entry) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, e := range s.objects {
		if ref.Tenant != tenant || !old(e) {
			continue
		}
		delete(s.objects, ref)
		if !e.Deleted {
			s.live--
		}
	}
	if len(s.objects) == 0 {
		s.reset()
	}
	return nil
}

// Tenants returns the tenants that have objects or remembered deletions, sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for ref := range s.objects {
		out = append(out, ref.Tenant)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Len returns the number of objects of all tenants, without deleted ones.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live
}
