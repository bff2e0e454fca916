package vectorstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// Finding says how an object and its row disagree.
type Finding int

// The findings.
const (
	// Missing: the row is wanted, and has no object.
	Missing Finding = iota + 1
	// Different: the object does not show the row.
	Different
	// Orphan: no wanted row has the object.
	Orphan
	// Uncompared: the row could not be compared, for the error in Difference.Err.
	Uncompared
)

var findingNames = [...]string{"Finding(0)", "missing", "different", "orphan", "uncompared"}

// String returns the name in lower case.
func (f Finding) String() string {
	if f < 0 || int(f) >= len(findingNames) {
		return fmt.Sprintf("Finding(%d)", int(f))
	}
	return findingNames[f]
}

// Difference is a place where store and table are not equal.
type Difference struct {
	Finding Finding
	// Ref is the object, the zero Ref where the row has none.
	Ref Ref
	// Key is the row's, before Mapping.Key; nil for an orphan.
	Key cdc.Key
	// Fields says what of a Different object is not as the row makes it: "property price", "vector text_vector", "mapping version".
	Fields []string
	// Repaired is true when Repair has put it right. Err says why not, or why the row was not compared.
	Repaired bool
	Err      error
}

// ReconcileOptions are the options of [Sink.Reconcile]. The zero value compares a table that is not changed meanwhile.
type ReconcileOptions struct {
	// AsOf is a position of the source before which the rows were read: an object that shows a later change, or one whose order is
	// unknown, is not compared. Take the end of the log (pg_current_wal_lsn) when the reading begins. Zero: every object is
	// compared.
	AsOf cdc.Position
	// Repair writes what is missing or different, by Handle, and deletes orphans, as of AsOf, which it needs with an LSN: what
	// happened later is left alone.
	Repair bool
	// Observe, when not nil, is told of each difference, one after the other.
	Observe func(Difference)
}

// Reconciliation counts what [Sink.Reconcile] found.
type Reconciliation struct {
	// Rows are the rows that were read, Objects the live objects of the store.
	Rows, Objects int
	// Equal are the rows that their objects show, and the unwanted rows without one. Later are those objects that AsOf left out.
	Equal, Later int
	// Missing, Different, Orphans and Uncompared count the differences, those that were repaired among them; Repaired counts these.
	Missing, Different, Orphans, Uncompared, Repaired int
}

// Clean reports whether no difference was found, or every one repaired.
func (r Reconciliation) Clean() bool {
	return r.Missing+r.Different+r.Orphans+r.Uncompared == r.Repaired
}

// reconciled is how many rows are compared at once.
const reconciled = 256

// Reconcile compares the store with all rows of the table, each as an event that reads it (OpRead, with its Key and all columns), from
// a query of your own or a replay of a compacted topic. An object shows its row when it has the vectors that the row makes, of the
// same inputs and models by their digests, and the same properties, whatever else happened to it; nothing is embedded for that. Then
// it lists the store for objects that no row has. It keeps the id of each row, some 50 bytes. The store must answer queries by After
// and, where the mapping has tenants, be a [Tenanted].
//
// The rows' error, and the store's, end it; what was counted until then is returned beside it. Events may be handled meanwhile; see
// AsOf.
func (s *Sink[T]) Reconcile(ctx context.Context, rows iter.Seq2[cdc.Event[T], error], o ReconcileOptions) (Reconciliation, error) {
	r := &reconciliation[T]{Sink: s, options: o, seen: map[string]map[[16]byte]struct{}{}}
	if o.Repair && o.AsOf.LSN == 0 {
		return r.Reconciliation, errors.New("vectorstore: reconcile: Repair needs AsOf, with an LSN")
	}
	var batch []cdc.Event[T]
	for e, err := range rows {
		if err != nil {
			return r.Reconciliation, fmt.Errorf("vectorstore: reconcile: rows: %w", err)
		}
		if batch = append(batch, e); len(batch) == reconciled {
			if err := r.compare(ctx, batch); err != nil {
				return r.Reconciliation, err
			}
			batch = batch[:0]
		}
	}
	if err := r.compare(ctx, batch); err != nil {
		return r.Reconciliation, err
	}
	return r.Reconciliation, r.orphans(ctx)
}

// reconciliation is one call of Reconcile.
type reconciliation[T any] struct {
	Reconciliation
	*Sink[T]
	options ReconcileOptions
	seen    map[string]map[[16]byte]struct{} // the ids of wanted rows, by tenant
}

// later reports whether an object is not to be compared.
func (r *reconciliation[T]) later(o *Object) bool {
	if r.options.AsOf == (cdc.Position{}) || o == nil {
		return false
	}
	at := versionOf(o)
	if at.Epoch == r.options.AsOf.Epoch && at.LSN != 0 && r.options.AsOf.LSN != 0 {
		return at.LSN > r.options.AsOf.LSN
	}
	order, known := at.Compare(r.options.AsOf)
	return !known || order > 0
}

// found counts a difference and tells of it.
func (r *reconciliation[T]) found(d Difference) {
	switch d.Finding {
	case Missing:
		r.Missing++
	case Different:
		r.Different++
	case Orphan:
		r.Orphans++
	case Uncompared:
		r.Uncompared++
	}
	if d.Repaired {
		r.Repaired++
	}
	if r.options.Observe != nil {
		r.options.Observe(d)
	}
}

// compare compares rows with their objects.
func (r *reconciliation[T]) compare(ctx context.Context, events []cdc.Event[T]) error {
	b := &batch[T]{Sink: r.Sink}
	refs := make([]Ref, 0, len(events))
	compared := make([]*cdc.Event[T], 0, len(events))
	r.Rows += len(events)
	for i := range events {
		e := &events[i]
		ref, err := b.ref(e, e.Key)
		if err == nil {
			err = checkEvent(e)
		}
		if missing := e.UnavailableColumns(); err == nil && len(missing) > 0 {
			err = fmt.Errorf("%w: %s", ErrUnavailable, strings.Join(missing, ", "))
		}
		if err == nil && (e.After == nil || e.Op == cdc.OpDelete) {
			err = fmt.Errorf("%w: op %q", ErrNoRow, byte(e.Op))
		}
		if err != nil {
			r.found(Difference{Finding: Uncompared, Ref: ref, Key: e.Key, Err: err})
			continue
		}
		refs, compared = append(refs, ref), append(compared, e)
	}
	if len(refs) == 0 {
		return nil
	}
	stored, err := r.get(ctx, refs)
	if err != nil {
		return fmt.Errorf("vectorstore: reconcile: %w", err)
	}
	for i, e := range compared {
		if err := r.compareOne(ctx, e, refs[i], stored[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reconciliation[T]) compareOne(ctx context.Context, e *cdc.Event[T], ref Ref, stored *Object) error {
	fields, wanted, err := r.fields(*e.After, ref, stored)
	live := stored != nil && !stored.Deleted
	if wanted || err != nil || r.later(stored) {
		r.see(ref)
	}
	d := Difference{Finding: Different, Ref: ref, Key: e.Key, Fields: fields}
	switch {
	case r.later(stored):
		r.Later++
		return nil
	case err != nil:
		d.Finding, d.Err = Uncompared, err
	case wanted && !live:
		d.Finding, d.Fields = Missing, nil
	case !wanted && live:
		return nil // an orphan, as which it is found in the store's list
	case len(fields) == 0:
		r.Equal++
		return nil
	}
	if r.options.Repair && d.Finding != Uncompared {
		again := *e
		again.Source.LSN = cmp.Or(again.Source.LSN, r.options.AsOf.LSN)
		if again.Source.LSN < r.options.AsOf.LSN {
			again.Source.LSN = r.options.AsOf.LSN // the row was so then, whenever it was written
		}
		d.Err = r.Handle(ctx, []cdc.Event[T]{again})
		d.Repaired = d.Err == nil
	}
	r.found(d)
	return ctx.Err()
}

func (r *reconciliation[T]) see(ref Ref) {
	if r.seen[ref.Tenant] == nil {
		r.seen[ref.Tenant] = map[[16]byte]struct{}{}
	}
	r.seen[ref.Tenant][binaryID(ref.ID)] = struct{}{}
}

// binaryID is a checked id in 16 bytes.
func binaryID(id ID) (out [16]byte) {
	_, _ = hex.Decode(out[:], []byte(strings.ReplaceAll(string(id), "-", "")))
	return out
}

// fields returns what of the stored object is not as the row makes it, and whether the row is wanted.
func (r *reconciliation[T]) fields(row T, ref Ref, stored *Object) (out []string, wanted bool, err error) {
	if stored == nil {
		stored = &Object{}
	}
	if r.mapping.Filter != nil && !r.mapping.Filter(row) {
		return nil, false, nil
	}
	for i := range r.mapping.Vectors {
		v := &r.mapping.Vectors[i]
		_, digest, has := v.inputOf(row, ref)
		blank := digest != "" && !has
		switch {
		case blank && v.Blank == BlankDeletes:
			return nil, false, nil
		case blank && v.Blank == BlankRefused:
			return nil, true, Permanent(fmt.Errorf("%w: vector %q", ErrBlank, v.Name))
		}
		there := len(stored.Vectors[v.Name]) > 0
		if stored.Inputs[v.Name] != digest || there != has && (there || !v.Optional) {
			out = append(out, "vector "+v.Name)
		}
	}
	properties, err := r.differing(row, stored)
	if out = append(out, properties...); !r.shownBy(stored) {
		out = append(out, "mapping version")
	}
	return out, true, err
}

// differing returns the properties that are not as the row makes them. Those of SinkOptions.Lineage are not compared.
func (r *reconciliation[T]) differing(row T, stored *Object) (out []string, err error) {
	want := map[string]any{}
	if r.mapping.Properties != nil {
		for name, v := range r.mapping.Properties(row) {
			if want[name], err = Value(v); err != nil {
				return nil, fmt.Errorf("property %q: %w", name, err)
			}
		}
	}
	lineage := []string{LineagePosition, LineageMapping, LineageModels, LineageIndexedAt}
	for name, have := range stored.Properties {
		if _, there := want[name]; !there && have != nil && (!r.Sink.options.Lineage || !slices.Contains(lineage, name)) {
			out = append(out, "property "+name)
		}
	}
	for name, v := range want {
		if !same(v, stored.Properties[name]) {
			out = append(out, "property "+name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// same compares a value with what a store returned for it. A Store with a schema may return another type than it was given: a
// number for an integer, a date for its text. Then numbers are compared as such, and texts with the other's text.
func same(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return have == nil
	case time.Time:
		if at, ok := have.(time.Time); ok {
			return at.Equal(want)
		}
	case int64:
		if f, ok := have.(float64); ok {
			return f == float64(want)
		}
	case float64:
		if i, ok := have.(int64); ok {
			return want == float64(i)
		}
	case string:
		if at, ok := have.(time.Time); ok {
			return sameDate(want, at)
		}
	case map[string]any:
		return sameMap(want, have)
	}
	a, b := reflect.ValueOf(want), reflect.ValueOf(have)
	if a.Kind() != reflect.Slice || b.Kind() != reflect.Slice || a.Len() != b.Len() {
		return reflect.DeepEqual(want, have)
	}
	for i := range a.Len() {
		if !same(a.Index(i).Interface(), b.Index(i).Interface()) {
			return false
		}
	}
	return true
}

func sameDate(text string, at time.Time) bool {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if when, err := time.Parse(layout, text); err == nil {
			return when.Equal(at)
		}
	}
	return false
}

func sameMap(want map[string]any, have any) bool {
	other, ok := have.(map[string]any)
	for name := range other {
		if _, there := want[name]; !there && other[name] != nil {
			return false
		}
	}
	for name, v := range want {
		if !same(v, other[name]) {
			return false
		}
	}
	return ok
}

// orphans lists the store for objects that no row has.
func (r *reconciliation[T]) orphans(ctx context.Context) error {
	tenants := []string{""}
	if r.mapping.Tenant != nil {
		tenanted, ok := r.store.(Tenanted)
		if !ok {
			return Permanent(errors.New("vectorstore: reconcile: the store does not tell its tenants"))
		}
		var err error
		if tenants, err = tenanted.Tenants(ctx); err != nil {
			return fmt.Errorf("vectorstore: reconcile: %w", err)
		}
	}
	for _, tenant := range tenants {
		for o, err := range All(ctx, r.store, tenant) {
			if err != nil {
				return fmt.Errorf("vectorstore: reconcile: %w", err)
			}
			r.Objects++
			if _, seen := r.seen[tenant][binaryID(o.ID)]; seen {
				continue
			}
			if r.later(o) {
				r.Later++
				continue
			}
			d := Difference{Finding: Orphan, Ref: o.Ref}
			if r.options.Repair {
				d.Err = r.remove(ctx, o)
				d.Repaired = d.Err == nil
			}
			r.found(d)
		}
	}
	return nil
}

// remove deletes an orphan as of AsOf, unless it has been written since it was listed.
func (r *reconciliation[T]) remove(ctx context.Context, o *Object) error {
	m := []Mutation{{Action: Delete, Object: Object{Ref: o.Ref, Version: r.options.AsOf.String()}}}
	if c, ok := r.store.(Conditional); ok {
		return c.ApplyIf(ctx, m, []string{o.Version})
	}
	return r.store.Apply(ctx, m)
}
