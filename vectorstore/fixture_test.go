package vectorstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

type product struct {
	ID      int64   `cdc:"id,key"`
	Title   string  `cdc:"title"`
	Price   float64 `cdc:"price"`
	Picture []byte  `cdc:"picture"`
}

const (
	textVector  = "text_vector"
	imageVector = "image_vector"
)

func keyOf(id int64) cdc.Key { return cdc.Key{{Name: "id", Value: id}} }

func refOf(tb testing.TB, id int64) vectorstore.Ref {
	tb.Helper()
	uuid, err := vectorstore.UUID5(keyOf(id))
	if err != nil {
		tb.Fatal(err)
	}
	return vectorstore.Ref{ID: uuid}
}

// at gives an event its place: an LSN, and the offset of its message.
func at(op cdc.Op, lsn uint64, offset int, id int64, after *product) cdc.Event[product] {
	e := cdc.Event[product]{Op: op, Key: keyOf(id), After: after}
	e.Source = cdc.Source{Schema: "public", Table: "products", LSN: lsn, CommitTime: time.Now().Add(-time.Minute)}
	e.Record = cdc.Record{Topic: "products", Offset: fmt.Sprintf("%08x", offset), PublishTime: time.Now().Add(-time.Second)}
	return e
}

// put and the like make events whose offset follows their LSN.
func put(op cdc.Op, lsn uint64, p product) cdc.Event[product] { return at(op, lsn, int(lsn), p.ID, &p) }

func insert(lsn uint64, p product) cdc.Event[product] { return put(cdc.OpCreate, lsn, p) }

func update(lsn uint64, p product) cdc.Event[product] { return put(cdc.OpUpdate, lsn, p) }

func remove(lsn uint64, id int64) cdc.Event[product] { return at(cdc.OpDelete, lsn, int(lsn), id, nil) }

func tombstone(offset int, id int64) cdc.Event[product] {
	e := at(cdc.OpTombstone, 0, offset, id, nil)
	e.Source = cdc.Source{}
	return e
}

func truncate(lsn uint64) cdc.Event[product] {
	e := at(cdc.OpTruncate, lsn, int(lsn), 0, nil)
	e.Key = nil
	return e
}

// clearable is what the sink can make use of.
type clearable interface {
	vectorstore.Store
	vectorstore.VersionedClearer
}

// watched is a store that counts its calls, and fails on demand.
type watched struct {
	clearable
	mu      sync.Mutex
	gets    int
	applied [][]vectorstore.Mutation
	fail    func(m []vectorstore.Mutation) error // before anything is written
	lose    func(m []vectorstore.Mutation) error // after all is written
	failGet error
	clears  []error // what Clear and ClearBefore answer, in turn
}

func (s *watched) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	s.mu.Lock()
	s.gets++
	err := s.failGet
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.clearable.Get(ctx, r)
}

func (s *watched) Apply(ctx context.Context, m []vectorstore.Mutation) error {
	s.mu.Lock()
	s.applied = append(s.applied, slices.Clone(m))
	fail, lose := s.fail, s.lose
	s.mu.Unlock()
	if fail != nil {
		if err := fail(m); err != nil {
			return err
		}
	}
	err := s.clearable.Apply(ctx, m)
	if err == nil && lose != nil {
		err = lose(m)
	}
	return err
}

func (s *watched) Tenants(ctx context.Context) ([]string, error) {
	return s.clearable.(vectorstore.Tenanted).Tenants(ctx)
}

func (s *watched) Clear(ctx context.Context, tenant string) error {
	if err := s.nextClear(); err != nil {
		return err
	}
	return s.clearable.Clear(ctx, tenant)
}

func (s *watched) ClearBefore(ctx context.Context, tenant, version string) error {
	if err := s.nextClear(); err != nil {
		return err
	}
	return s.clearable.ClearBefore(ctx, tenant, version)
}

func (s *watched) nextClear() (err error) {
	if len(s.clears) > 0 {
		err, s.clears = s.clears[0], s.clears[1:]
	}
	return err
}

// Len needs the store in memory.
func (s *watched) Len() int { return s.clearable.(*memory.Store).Len() }

// fixture is a sink for products, with all that stands around it.
type fixture struct {
	t        *testing.T
	store    *watched
	texts    *embedtest.Embedder[string]
	pictures *embedtest.Embedder[embed.Image]
	mapping  vectorstore.Mapping[product]
	options  vectorstore.SinkOptions
	sink     *vectorstore.Sink[product]
	outcomes []vectorstore.Outcome
}

// newFixture makes a sink; changes may change the fixture's mapping and options first.
func newFixture(t *testing.T, changes ...func(f *fixture)) *fixture {
	t.Helper()
	f := &fixture{t: t, store: &watched{clearable: memory.New()}, texts: embedtest.New(8), pictures: embedtest.NewImages(4)}
	f.mapping = vectorstore.Mapping[product]{
		Vectors: []vectorstore.Vector[product]{
			vectorstore.Embed(textVector, func(p product) string { return p.Title }, f.texts),
			vectorstore.Embed(imageVector, func(p product) embed.Image { return p.Picture }, f.pictures),
		},
		Properties: func(p product) map[string]any { return map[string]any{"title": p.Title, "price": p.Price} },
	}
	f.options.Observe = func(o vectorstore.Outcome) { f.outcomes = append(f.outcomes, o) }
	for _, change := range changes {
		change(f)
	}
	f.restart()
	return f
}

// restart makes a new sink on what the store has.
func (f *fixture) restart() {
	f.t.Helper()
	var err error
	if f.sink, err = vectorstore.NewSink(f.store, f.mapping, f.options); err != nil {
		f.t.Fatal(err)
	}
}

// handle passes one batch, from which it wants no error.
func (f *fixture) handle(events ...cdc.Event[product]) {
	f.t.Helper()
	if err := f.sink.Handle(f.t.Context(), events); err != nil {
		f.t.Fatalf("Handle: %v", err)
	}
}

// errs passes one batch and returns its errors by event.
func (f *fixture) errs(events ...cdc.Event[product]) []error {
	f.t.Helper()
	err := f.sink.Handle(f.t.Context(), events)
	if err == nil {
		return make([]error, len(events))
	}
	var items interface{ ItemErrors() []error }
	if !errors.As(err, &items) || len(items.ItemErrors()) != len(events) {
		f.t.Fatalf("error %v has no %d item errors", err, len(events))
	}
	return items.ItemErrors()
}

// kinds returns and forgets the kinds of the outcomes so far, in order.
func (f *fixture) kinds() string {
	var names []string
	for _, o := range f.outcomes {
		name := o.Kind.String()
		if len(o.Embedded) > 0 {
			name += "+" + strings.ReplaceAll(strings.Join(o.Embedded, "+"), "_vector", "")
		}
		names = append(names, name)
	}
	f.outcomes = nil
	return strings.Join(names, " ")
}

func (f *fixture) wantKinds(want string) {
	f.t.Helper()
	if got := f.kinds(); got != want {
		f.t.Errorf("outcomes are %q, want %q", got, want)
	}
}

func (f *fixture) get(id int64) *vectorstore.Object {
	f.t.Helper()
	got, err := f.store.clearable.Get(f.t.Context(), []vectorstore.Ref{refOf(f.t, id)})
	if err != nil {
		f.t.Fatal(err)
	}
	return got[0]
}

// wantRow fails the test unless the object shows the row: properties, and vectors equal to fresh ones.
func (f *fixture) wantRow(p product) {
	f.t.Helper()
	o := f.get(p.ID)
	if o == nil || o.Deleted {
		f.t.Errorf("row %d: object is %+v", p.ID, o)
		return
	}
	properties := map[string]any{"title": p.Title, "price": p.Price}
	if !reflect.DeepEqual(o.Properties, properties) {
		f.t.Errorf("row %d: properties are %v, want %v", p.ID, o.Properties, properties)
	}
	vectors := map[string][]float32{}
	if strings.TrimSpace(p.Title) != "" {
		vectors[textVector] = fresh(f.t, 8, p.Title)
	}
	if len(p.Picture) > 0 {
		vectors[imageVector] = freshPicture(f.t, 4, p.Picture)
	}
	if !maps.EqualFunc(o.Vectors, vectors, near) {
		f.t.Errorf("row %d: vectors are %v, want %v", p.ID, o.Vectors, vectors)
	}
}

// near leaves room for a store that normalizes.
func near(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if d := a[i] - b[i]; d < -1e-6 || d > 1e-6 {
			return false
		}
	}
	return true
}

func (f *fixture) wantDeleted(id int64) {
	f.t.Helper()
	if o := f.get(id); o == nil || !o.Deleted {
		f.t.Errorf("row %d: object is %+v, want a remembered deletion", id, o)
	}
}

func fresh(tb testing.TB, dims int, text string) []float32 {
	tb.Helper()
	v, err := embedtest.New(dims).Embed(tb.Context(), []string{text})
	if err != nil {
		tb.Fatal(err)
	}
	return v[0]
}

func freshPicture(tb testing.TB, dims int, picture []byte) []float32 {
	tb.Helper()
	v, err := embedtest.NewImages(dims).Embed(tb.Context(), []embed.Image{picture})
	if err != nil {
		tb.Fatal(err)
	}
	return v[0]
}

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
