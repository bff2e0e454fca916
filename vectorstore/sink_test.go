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

// watched is a store that counts its calls, and fails on demand.
type watched struct {
	*memory.Store
	mu      sync.Mutex
	gets    int
	applied [][]vectorstore.Mutation
	fail    func(m []vectorstore.Mutation) error // before anything is written
	lose    func(m []vectorstore.Mutation) error // after all is written
	failGet error
	clears  []error // what Clear answers, in turn
}

func (s *watched) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	s.mu.Lock()
	s.gets++
	err := s.failGet
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, r)
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
	err := s.Store.Apply(ctx, m)
	if err == nil && lose != nil {
		err = lose(m)
	}
	return err
}

func (s *watched) Clear(ctx context.Context, tenant string) error {
	if len(s.clears) > 0 {
		err := s.clears[0]
		s.clears = s.clears[1:]
		if err != nil {
			return err
		}
	}
	return s.Store.Clear(ctx, tenant)
}

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
	f := &fixture{t: t, store: &watched{Store: memory.New()}, texts: embedtest.New(8), pictures: embedtest.NewImages(4)}
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
	got, err := f.store.Store.Get(f.t.Context(), []vectorstore.Ref{refOf(f.t, id)})
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
	if !maps.EqualFunc(o.Vectors, vectors, slices.Equal) {
		f.t.Errorf("row %d: vectors are %v, want %v", p.ID, o.Vectors, vectors)
	}
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

func TestSinkLifeOfARow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := product{ID: 1, Title: "red shoes", Price: 10, Picture: []byte("png")}

	f.handle(insert(10, row))
	f.wantKinds("created+text+image")
	f.wantRow(row)
	if got := f.get(1).Version; got != (cdc.Position{LSN: 10, Offset: "0000000a"}).String() {
		t.Errorf("Version is %q", got)
	}

	row.Price = 12
	f.handle(update(11, row))
	f.wantKinds("updated")
	f.wantRow(row)
	if f.texts.Calls() != 1 || f.pictures.Calls() != 1 {
		t.Errorf("a change of the price was embedded: %q", f.texts.Inputs())
	}

	row.Title = "blue shoes"
	f.handle(update(12, row))
	f.wantKinds("updated+text")
	f.wantRow(row)

	f.handle(update(12, row), update(11, row))
	f.wantKinds("unchanged stale")
	f.wantRow(row)

	f.handle(remove(20, 1), tombstone(21, 1))
	f.wantKinds("deleted unchanged")
	f.wantDeleted(1)
	f.restart()
	f.handle(tombstone(21, 1))
	f.handle(update(15, row))
	f.wantKinds("unchanged stale")
	f.wantDeleted(1)

	f.handle(insert(30, row))
	f.wantKinds("created+text+image")
	f.wantRow(row)
	f.handle(remove(20, 1), tombstone(21, 1))
	f.wantKinds("stale stale")
	f.wantRow(row)
}

func TestSinkOneCallEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "kept"}), insert(2, product{ID: 2, Title: "two"}))
	f.texts.Reset()
	f.store.applied, f.store.gets, f.outcomes = nil, 0, nil
	f.handle(
		update(10, product{ID: 1, Title: "never seen"}),
		insert(11, product{ID: 3, Title: "three"}),
		update(12, product{ID: 1, Title: "kept", Price: 5}),
		insert(13, product{ID: 4, Title: "four"}),
		remove(14, 2),
		remove(15, 4),
		update(16, product{ID: 3, Title: "three again"}),
		insert(17, product{ID: 5, Title: "five", Picture: []byte("jpg")}),
		insert(18, product{ID: 2, Title: "two is back"}),
	)
	f.wantKinds("collapsed collapsed updated collapsed collapsed deleted created+text created+text+image updated+text")
	if got, want := f.texts.Inputs(), []string{"three again", "two is back", "five"}; f.texts.Calls() != 1 || !equalSets(got, want) {
		t.Errorf("%d calls for %q, want one for %q", f.texts.Calls(), got, want)
	}
	if f.pictures.Calls() != 1 || f.store.gets != 1 || len(f.store.applied) != 1 || len(f.store.applied[0]) != 5 {
		t.Errorf("%d picture calls, %d Gets, writes %v", f.pictures.Calls(), f.store.gets, f.store.applied)
	}
	f.wantRow(product{ID: 1, Title: "kept", Price: 5})
	f.wantRow(product{ID: 2, Title: "two is back"})
	f.wantRow(product{ID: 3, Title: "three again"})
	f.wantDeleted(4)
	f.wantRow(product{ID: 5, Title: "five", Picture: []byte("jpg")})
	f.handle()
}

func equalSets(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func TestSinkBlankInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: " \n\t"}))
	f.wantKinds("created")
	f.wantRow(product{ID: 1, Title: " \n\t"})
	if f.get(1).Inputs[textVector] == "" {
		t.Error("the blank input is not recorded")
	}
	f.handle(update(2, product{ID: 1, Title: "text", Picture: []byte("png")}))
	f.handle(update(3, product{ID: 1, Title: "", Picture: []byte("png")}))
	f.wantKinds("updated+text+image updated")
	f.wantRow(product{ID: 1, Picture: []byte("png")})
	f.handle(update(4, product{ID: 1, Title: "", Price: 3}))
	f.wantRow(product{ID: 1, Price: 3})
	f.handle(update(4, product{ID: 1, Title: "", Price: 3}))
	f.handle(update(5, product{ID: 1, Title: "text", Price: 3}))
	f.wantKinds("updated unchanged updated+text")
	f.wantRow(product{ID: 1, Title: "text", Price: 3})
	if got := f.texts.Inputs(); !slices.Equal(got, []string{"text", "text"}) {
		t.Errorf("embedded %q", got)
	}
}

func TestSinkBadEvents(t *testing.T) {
	t.Parallel()
	noKey, noRow, badOp, badKey := insert(5, product{ID: 5}), insert(6, product{ID: 6}), insert(7, product{ID: 7}), remove(8, 8)
	noKey.Key, noRow.After, badOp.Op, badKey.Key = nil, nil, 'x', cdc.Key{{Name: "id", Value: time.Now()}}
	decoder, err := cdc.NewDecoder[product](cdc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := `{"before":null,"after":{"id":9,"title":"__debezium_unavailable_value","price":2,"picture":null},` +
		`"op":"u","source":{"connector":"postgresql","schema":"public","table":"products","lsn":9}}`
	unavailable, err := decoder.Decode(cdc.Record{Topic: "products", Key: `{"id":9}`, Value: []byte(value), Offset: "09"})
	if err != nil {
		t.Fatal(err)
	}
	lost := tombstone(10, 10)
	lost.Key = nil
	tests := []struct {
		event cdc.Event[product]
		want  error
		says  string
	}{
		{noKey, vectorstore.ErrNoKey, `table "public.products"`},
		{noRow, vectorstore.ErrNoRow, `table "public.products"`},
		{badOp, vectorstore.ErrOp, "'x'"},
		{badKey, vectorstore.ErrKey, `column "id"`},
		{unavailable, vectorstore.ErrUnavailable, "title; let the database log whole rows with ALTER TABLE ... REPLICA IDENTITY FULL"},
		{lost, vectorstore.ErrNoKey, `topic "products"`},
	}
	f := newFixture(t)
	f.handle(insert(1, product{ID: 9, Title: "must stay"}))
	f.kinds()
	var events []cdc.Event[product]
	for _, tt := range tests {
		events = append(events, tt.event)
	}
	events = append(events, insert(20, product{ID: 20, Title: "good"}))
	errs := f.errs(events...)
	for i, tt := range tests {
		if !errors.Is(errs[i], tt.want) || !permanent(errs[i]) || !strings.Contains(errs[i].Error(), tt.says) {
			t.Errorf("event %d: error %v; want %v, with %s", i, errs[i], tt.want, tt.says)
		}
	}
	if errs[len(tests)] != nil {
		t.Errorf("the good event failed: %v", errs[len(tests)])
	}
	f.wantKinds("created+text")
	f.wantRow(product{ID: 20, Title: "good"})
	f.wantRow(product{ID: 9, Title: "must stay"})
}

func TestSinkKeyMapping(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Key = func(k cdc.Key) (cdc.Key, error) {
			if k[0].Value == int64(13) {
				return nil, errors.New("unlucky")
			}
			return cdc.Key{{Name: "product_id", Value: k[0].Value}}, nil
		}
	})
	errs := f.errs(insert(1, product{ID: 7, Title: "seven"}), insert(2, product{ID: 13}))
	if errs[0] != nil || !permanent(errs[1]) || !strings.Contains(errs[1].Error(), "unlucky") {
		t.Errorf("errors are %v", errs)
	}
	const id = "f14461fd-128c-5c6c-aede-8e5e06ef19ff"
	if o := f.outcomes[0]; o.Ref.ID != id || o.Key[0].Name != "id" {
		t.Errorf("outcome is %+v", o)
	}
	f.handle(remove(3, 7))
	if f.store.Len() != 0 {
		t.Error("the delete used another id")
	}
}

func TestSinkSpoiledVectors(t *testing.T) {
	t.Parallel()
	kinds := []embedtest.Kind{
		embedtest.NaN, embedtest.Inf, embedtest.Zero, embedtest.WrongDimension, embedtest.Missing,
	}
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.handle(insert(1, product{ID: 2, Title: "before"}))
			f.kinds()
			f.texts.Inject(embedtest.Fault{Kind: kind, Match: "bad"})
			errs := f.errs(insert(10, product{ID: 1, Title: "good"}), update(11, product{ID: 2, Title: "bad"}), insert(12, product{ID: 3, Title: "too"}))
			if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], vectorstore.ErrVector) || !permanent(errs[1]) ||
				!strings.Contains(errs[1].Error(), string(refOf(t, 2).ID)) || !strings.Contains(errs[1].Error(), textVector) {
				t.Errorf("errors are %v", errs)
			}
			f.wantKinds("created+text created+text")
			f.wantRow(product{ID: 2, Title: "before"})
		})
	}
}

func TestSinkEmbedderBreaksContract(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.texts.Inject(embedtest.Fault{Kind: embedtest.OneTooFew, Times: 1})
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"})) // found out one by one
	f.wantRow(product{ID: 1, Title: "one"})
	f.texts.Inject(embedtest.Fault{Kind: embedtest.OneTooFew})
	if errs := f.errs(insert(3, product{ID: 3, Title: "three"})); !permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
}

func TestSinkPoison(t *testing.T) {
	t.Parallel()
	faults := []embedtest.Fault{
		{Match: "poison", Permanent: true},
		{Match: "poison", Permanent: true, Kind: embedtest.FailCall}, // does not say which input it is
	}
	for _, fault := range faults {
		t.Run(fault.Kind.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.texts.Inject(fault)
			errs := f.errs(
				insert(10, product{ID: 1, Title: "good"}), insert(11, product{ID: 2, Title: "other"}),
				update(12, product{ID: 1, Title: "poison"}), update(13, product{ID: 1, Title: "more poison"}),
				insert(14, product{ID: 3, Title: "poison"}), insert(15, product{ID: 4, Title: "poison"}), update(16, product{ID: 4, Title: "fine"}),
			)
			for i, err := range errs {
				if bad := i == 2 || i == 3 || i == 4; bad != (err != nil) || bad && !permanent(err) {
					t.Errorf("event %d: error %v", i, err)
				}
			}
			f.wantKinds("created+text created+text collapsed created+text")
			f.wantRow(product{ID: 1, Title: "good"}) // the last state that can be shown
			if f.get(3) != nil {
				t.Errorf("object 3 is %+v", f.get(3))
			}
			f.handle(update(20, product{ID: 1, Title: "good again"}), insert(21, product{ID: 3, Title: "good"}))
		})
	}
}

func TestSinkRetryableEmbedding(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"}))
	f.kinds()
	events := []cdc.Event[product]{
		update(10, product{ID: 1, Title: "fine"}), update(11, product{ID: 2, Title: "two", Price: 9}),
		update(12, product{ID: 1, Title: "flaky"}), insert(13, product{ID: 3, Title: "three"}),
	}
	f.texts.Inject(embedtest.Fault{Match: "flaky", Times: 1})
	errs := f.errs(events...)
	if errs[0] == nil || errs[1] != nil || errs[2] == nil || errs[3] != nil || permanent(errs[0]) || !errors.Is(errs[0], embedtest.ErrInjected) {
		t.Errorf("errors are %v; want the key that fails, its collapsed events included", errs)
	}
	f.wantKinds("updated created+text")
	f.wantRow(product{ID: 1, Title: "one"})

	f.texts.Inject(embedtest.Fault{Kind: embedtest.FailCall, Times: 1})
	errs = f.errs(append(events, update(14, product{ID: 2, Title: "two", Price: 10}))...)
	if errs[0] == nil || errs[1] != nil || errs[2] == nil || errs[3] != nil || errs[4] != nil {
		t.Errorf("errors are %v; want the rows that needed embedding", errs)
	}
	f.wantKinds("unchanged unchanged updated")
	f.handle(events[0], events[2])
	f.wantKinds("collapsed updated+text")
	f.wantRow(product{ID: 1, Title: "flaky"})
}

func TestSinkWriteErrors(t *testing.T) {
	t.Parallel()
	down := errors.New("store is down")
	refused := vectorstore.Permanent(errors.New("too many properties"))
	events := []cdc.Event[product]{
		insert(10, product{ID: 1, Title: "one"}), insert(11, product{ID: 2, Title: "two"}), update(12, product{ID: 1, Title: "uno"}),
	}
	hasRow2 := func(m []vectorstore.Mutation) bool {
		return slices.ContainsFunc(m, func(m vectorstore.Mutation) bool { return m.Object.Ref == refOf(t, 2) })
	}
	only2 := func(err error) func(m []vectorstore.Mutation) error { // an error without items, for row 2
		return func(m []vectorstore.Mutation) error {
			if hasRow2(m) {
				return err
			}
			return nil
		}
	}
	item2 := func(err error) func(m []vectorstore.Mutation) error { // an item error after the write
		return func(m []vectorstore.Mutation) error {
			errs := make([]error, len(m))
			for i := range m {
				if hasRow2(m[i : i+1]) {
					errs[i] = err
				}
			}
			return vectorstore.NewBatchError(errs)
		}
	}
	misaligned := func([]vectorstore.Mutation) error { return &vectorstore.BatchError{Errs: []error{down}} }
	tests := map[string]struct {
		fail, lose func([]vectorstore.Mutation) error
		failGet    error
		want       [3]error
	}{
		"write":           {fail: func([]vectorstore.Mutation) error { return down }, want: [3]error{down, down, down}},
		"reply lost":      {lose: func([]vectorstore.Mutation) error { return down }, want: [3]error{down, down, down}},
		"misaligned":      {fail: misaligned, want: [3]error{down, down, down}},
		"item":            {lose: item2(down), want: [3]error{1: down}},
		"permanent item":  {lose: item2(refused), want: [3]error{1: refused}},
		"permanent whole": {fail: only2(refused), want: [3]error{1: refused}},
		"read":            {failGet: down, want: [3]error{down, down, down}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store.fail, f.store.lose, f.store.failGet = tt.fail, tt.lose, tt.failGet
			for i, err := range f.errs(events...) {
				if !errors.Is(err, tt.want[i]) || permanent(err) != permanent(tt.want[i]) {
					t.Errorf("event %d: error %v, want %v", i, err, tt.want[i])
				}
			}
			done := 0
			for _, want := range tt.want {
				if want == nil {
					done++
				}
			}
			if len(f.outcomes) != done {
				t.Errorf("outcomes of %d events that are done: %+v", done, f.outcomes)
			}
			f.store.fail, f.store.lose, f.store.failGet = nil, nil, nil
			f.handle(events...)
			f.wantRow(product{ID: 1, Title: "uno"})
			f.wantRow(product{ID: 2, Title: "two"})
		})
	}
}

func TestSinkCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := f.sink.Handle(ctx, []cdc.Event[product]{insert(1, product{ID: 1, Title: "one"})})
	if !errors.Is(err, context.Canceled) || permanent(err) || len(f.outcomes) != 0 {
		t.Errorf("error %v, outcomes %v", err, f.outcomes)
	}
}

func TestSinkPanicPassesThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.texts.Inject(embedtest.Fault{Kind: embedtest.Panic, Times: 1})
	defer func() {
		if recover() == nil || len(f.outcomes) != 0 || f.store.Len() != 0 {
			t.Errorf("outcomes %v, %d objects", f.outcomes, f.store.Len())
		}
		f.handle(insert(1, product{ID: 1, Title: "one"}))
	}()
	_ = f.sink.Handle(t.Context(), []cdc.Event[product]{insert(1, product{ID: 1, Title: "one"})})
}

func TestSinkOrder(t *testing.T) {
	t.Parallel()
	row := func(title string) product { return product{ID: 1, Title: title} }
	read := func(offset int, title string) cdc.Event[product] { // an incremental snapshot's rows have no LSN
		p := row(title)
		return at(cdc.OpRead, 0, offset, 1, &p)
	}
	again := func(lsn uint64, offset int, title string) cdc.Event[product] { // the source repeats itself
		p := row(title)
		return at(cdc.OpUpdate, lsn, offset, 1, &p)
	}
	type batches [][]cdc.Event[product]
	tests := map[string]struct {
		batches batches
		kinds   string
		want    string // the title; empty: deleted
	}{
		"late update":    {batches{{insert(10, row("ten"))}, {update(12, row("twelve"))}, {update(11, row("eleven"))}}, "created+text updated+text stale", "twelve"},
		"late in batch":  {batches{{insert(10, row("ten")), update(12, row("twelve")), update(11, row("eleven"))}}, "collapsed created+text stale", "twelve"},
		"after delete":   {batches{{insert(10, row("ten"))}, {remove(20, 1)}, {update(15, row("late"))}}, "created+text deleted stale", ""},
		"delete unknown": {batches{{remove(20, 1)}, {insert(15, row("late"))}}, "deleted stale", ""},
		"tombstone only": {batches{{tombstone(20, 1)}, {again(15, 15, "late")}}, "deleted stale", ""},
		"late delete":    {batches{{insert(30, row("back"))}, {remove(20, 1), tombstone(21, 1)}}, "created+text stale stale", "back"},
		"snapshot":       {batches{{insert(10, row("ten"))}, {read(11, "read")}, {update(12, row("twelve"))}}, "created+text updated+text updated+text", "twelve"},
		"repeated after snapshot": {
			batches{{update(20, row("twenty"))}, {read(21, "read")}, {again(18, 30, "old")}}, "created+text updated+text stale", "read",
		},
		"repeated after tombstone": {
			batches{{insert(10, row("ten"))}, {remove(20, 1), tombstone(21, 1)}, {again(10, 30, "old")}}, "created+text deleted unchanged stale", "",
		},
		"repeated after lone tombstone": {
			batches{{insert(10, row("ten"))}, {tombstone(11, 1)}, {again(9, 30, "old")}}, "created+text deleted stale", "",
		},
		"equal LSN, later message": {batches{{again(10, 1, "one")}, {again(10, 2, "two")}}, "created+text updated+text", "two"},
		"same message twice":       {batches{{again(10, 1, "one"), again(10, 1, "one")}}, "collapsed created+text", "one"},
		"tombstones":               {batches{{insert(10, row("ten"))}, {tombstone(11, 1), tombstone(12, 1)}}, "created+text deleted unchanged", ""},
		"repeats before news": {
			batches{{insert(10, row("ten"))}, {insert(10, row("ten")), update(11, row("eleven"))}}, "created+text unchanged updated+text", "eleven",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for _, batch := range tt.batches {
				f.handle(batch...)
				f.restart()
			}
			f.wantKinds(tt.kinds)
			if tt.want == "" {
				f.wantDeleted(1)
			} else {
				f.wantRow(row(tt.want))
			}
		})
	}
}

func TestSinkUnknownVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "v1", "zzzzzzzz-0000000000000001-"} {
		f := newFixture(t)
		o := vectorstore.Object{Ref: refOf(t, 1), Version: version, Properties: map[string]any{"title": "by hand"}}
		if err := f.store.Apply(t.Context(), []vectorstore.Mutation{{Object: o}}); err != nil {
			t.Fatal(err)
		}
		f.handle(update(1, product{ID: 1, Title: "known"}))
		f.wantRow(product{ID: 1, Title: "known"})
	}
	f := newFixture(t)
	bare := insert(0, product{ID: 1, Title: "nowhere"})
	bare.Record.Offset = ""
	f.handle(bare, bare)
	f.wantKinds("collapsed created+text")
	if v := f.get(1).Version; v != "" {
		t.Errorf("Version of an event without a position is %q", v)
	}
}

func TestSinkTruncate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"}))
	f.kinds()
	f.handle(update(10, product{ID: 1, Title: "uno"}), truncate(11), insert(12, product{ID: 3, Title: "three"}), truncate(13), truncate(14),
		insert(15, product{ID: 4, Title: "four"}))
	f.wantKinds("updated+text cleared created+text cleared cleared created+text")
	if f.store.Len() != 1 {
		t.Errorf("%d objects", f.store.Len())
	}
	f.wantRow(product{ID: 4, Title: "four"})

	down := errors.New("store is down")
	f.store.clears = []error{down}
	errs := f.errs(update(20, product{ID: 4, Title: "quatre"}), truncate(21), insert(22, product{ID: 5, Title: "five"}))
	if errs[0] != nil || !errors.Is(errs[1], down) || !errors.Is(errs[2], down) || permanent(errs[1]) || permanent(errs[2]) {
		t.Errorf("errors are %v; what follows the truncate has to wait", errs)
	}
	f.texts.Inject(embedtest.Fault{Match: "flaky", Times: 1})
	errs = f.errs(insert(20, product{ID: 6, Title: "flaky"}), truncate(21), insert(22, product{ID: 5, Title: "five"}))
	if slices.Contains(errs, nil) || f.store.Len() != 1 {
		t.Errorf("errors are %v; the truncate has to wait for what precedes it", errs)
	}
}

// bare is a Store and nothing else.
type bare struct{ vectorstore.Store }

func TestSinkTruncateWithoutClear(t *testing.T) {
	t.Parallel()
	store := memory.New()
	sink, err := vectorstore.NewSink(bare{store}, newFixture(t).mapping, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = sink.Handle(t.Context(), []cdc.Event[product]{insert(1, product{ID: 1, Title: "one"}), truncate(2), insert(3, product{ID: 2, Title: "two"})})
	var batch *vectorstore.BatchError
	if !errors.As(err, &batch) || batch.Errs[0] != nil || batch.Errs[2] != nil || !errors.Is(batch.Errs[1], vectorstore.ErrTruncate) || !batch.Permanent() {
		t.Errorf("error %v", err)
	}
	if store.Len() != 2 {
		t.Errorf("%d objects", store.Len())
	}
}

func TestSinkMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(cdc.Event[product]{Op: cdc.OpMessage, Message: &cdc.LogicalMessage{Prefix: "x"}}, insert(1, product{ID: 1, Title: "one"}))
	f.wantKinds("skipped created+text")
}

func TestSinkFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.mapping.Filter = func(p product) bool { return p.Price >= 0 } })
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two", Price: -1}))
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}), update(4, product{ID: 2, Title: "two"}))
	f.wantKinds("created+text deleted deleted created+text")
	f.wantDeleted(1)
	f.wantRow(product{ID: 2, Title: "two"})
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two", Price: -1}))
	f.wantKinds("stale stale")
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}))
	f.wantKinds("unchanged")
	f.mapping.Filter = nil // read again with another mapping
	f.restart()
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}))
	f.wantKinds("created+text")
	f.wantRow(product{ID: 1, Title: "one", Price: -1})
}

func TestSinkPrimaryKeyChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "moving"}))
	moved := product{ID: 2, Title: "moving"}
	f.handle(at(cdc.OpDelete, 10, 10, 1, nil), tombstone(11, 1), at(cdc.OpCreate, 10, 12, 2, &moved))
	f.wantKinds("created+text deleted unchanged created+text")
	f.wantDeleted(1)
	f.wantRow(moved)
}

func TestSinkVectorOnly(t *testing.T) {
	t.Parallel()
	chosen := true
	f := newFixture(t, func(f *fixture) {
		next := vectorstore.Embed("next_vector", func(p product) string { return p.Title }, embedtest.NewNamed("next", 3))
		next.Only = func(key string) bool { return chosen && key == string(refOf(t, 2).ID) }
		f.mapping.Vectors = append(f.mapping.Vectors, next)
	})
	one, two := product{ID: 1, Title: "one"}, product{ID: 2, Title: "two"}
	f.handle(insert(1, one), insert(2, two))
	f.wantKinds("created+text created+text+next")
	if v := f.get(2).Vectors["next_vector"]; len(v) != 3 || f.get(1).Vectors["next_vector"] != nil {
		t.Errorf("next_vector is %v", v)
	}
	f.handle(insert(2, two))
	f.wantKinds("unchanged")
	chosen = false
	f.handle(update(3, two))
	f.wantKinds("updated")
	f.wantRow(two)
	if _, noted := f.get(2).Inputs["next_vector"]; noted {
		t.Error("the input of a vector that is not wanted is still noted")
	}
}

func TestSinkOneVectorFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pictures.Inject(embedtest.Fault{Match: "broken", Permanent: true})
	errs := f.errs(insert(1, product{ID: 1, Title: "one", Picture: []byte("broken")}), insert(2, product{ID: 2, Title: "two", Picture: []byte("png")}))
	if !permanent(errs[0]) || !strings.Contains(errs[0].Error(), imageVector) || errs[1] != nil || f.get(1) != nil {
		t.Errorf("errors are %v, object %+v", errs, f.get(1))
	}
}

func TestSinkPropertiesThatGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Properties = func(p product) map[string]any {
			if p.Price == 0 {
				return map[string]any{"title": p.Title}
			}
			return map[string]any{"title": p.Title, "price": p.Price}
		}
	})
	f.handle(insert(1, product{ID: 1, Title: "one", Price: 5}))
	f.handle(update(2, product{ID: 1, Title: "one"}))
	if got := f.get(1).Properties; !reflect.DeepEqual(got, map[string]any{"title": "one"}) {
		t.Errorf("properties are %v", got)
	}
	foreign := vectorstore.Object{Ref: refOf(t, 1), Vectors: map[string][]float32{"theirs": {1, 2}}}
	if err := f.store.Apply(t.Context(), []vectorstore.Mutation{{Action: vectorstore.Merge, Object: foreign}}); err != nil {
		t.Fatal(err)
	}
	f.handle(update(3, product{ID: 1, Title: "uno"}))
	if o := f.get(1); len(o.Vectors["theirs"]) != 2 || len(o.Vectors) != 2 {
		t.Errorf("vectors are %v; want the one that the mapping does not make, too", o.Vectors)
	}
}

func TestSinkAnotherModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := product{ID: 1, Title: "one", Picture: []byte("png")}
	log := []cdc.Event[product]{insert(1, product{ID: 1, Title: "zero"}), update(2, row)}
	f.handle(log...)
	next := embedtest.NewNamed("next", 8)
	f.mapping.Vectors[0] = vectorstore.Embed(textVector, func(p product) string { return p.Title }, next)
	f.restart()
	f.kinds()
	f.handle(log...) // the topic is read again
	f.handle(log...)
	f.wantKinds("stale updated+text stale unchanged")
	want, err := next.Embed(t.Context(), []string{"one"})
	if err != nil || !slices.Equal(f.get(1).Vectors[textVector], want[0]) || len(f.get(1).Vectors[imageVector]) != 4 {
		t.Errorf("vectors are %v, error %v", f.get(1).Vectors, err)
	}
}

func TestSinkLineage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.options.Lineage, f.mapping.Version = true, "m1"
		shared := map[string]any{"title": "always"}
		f.mapping.Properties = func(product) map[string]any { return shared }
	})
	start := time.Now()
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	got := f.get(1).Properties
	indexed, _ := got[vectorstore.LineageIndexedAt].(time.Time)
	models := []string{
		textVector + "=" + f.texts.Model().Fingerprint, imageVector + "=" + f.pictures.Model().Fingerprint,
	}
	if got["title"] != "always" || got[vectorstore.LineageMapping] != "m1" || got[vectorstore.LineagePosition] != f.get(1).Version ||
		!reflect.DeepEqual(got[vectorstore.LineageModels], models) || indexed.Before(start) || len(got) != 5 {
		t.Errorf("properties are %v", got)
	}
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	f.mapping.Version = "m2"
	f.restart()
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	f.wantKinds("created+text unchanged updated")
	if got := f.get(1).Properties[vectorstore.LineageMapping]; got != "m2" {
		t.Errorf("mapping is %v", got)
	}
}

func TestSinkOutcomes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.texts.Inject(embedtest.Fault{Kind: embedtest.Slow, Delay: 5 * time.Millisecond})
	snapshot := put(cdc.OpRead, 2, product{ID: 2, Title: "two"})
	snapshot.Source.Snapshot = true
	unknown := insert(3, product{ID: 3, Title: "three"})
	unknown.Source.CommitTime, unknown.Record.PublishTime = time.Time{}, time.Time{}
	ahead := insert(4, product{ID: 4, Title: "four"})
	ahead.Source.CommitTime = time.Now().Add(time.Hour)
	f.handle(insert(1, product{ID: 1, Title: "one"}), snapshot, unknown, ahead)
	o := f.outcomes
	if o[0].Freshness < time.Minute || o[0].Latency < time.Second || o[0].Freshness > time.Hour || o[0].Embed < 5*time.Millisecond || o[0].Write <= 0 {
		t.Errorf("outcome is %+v", o[0])
	}
	if o[0].Ref != refOf(t, 1) || o[0].Op != cdc.OpCreate || o[0].Position != (cdc.Position{LSN: 1, Offset: "00000001"}) || o[0].Key[0].Value != int64(1) {
		t.Errorf("outcome is %+v", o[0])
	}
	if o[1].Freshness != 0 || o[1].Latency == 0 || o[2].Freshness != 0 || o[2].Latency != 0 || o[3].Freshness != 0 {
		t.Errorf("outcomes are %+v", o[1:])
	}
	f.outcomes = nil
	f.handle(insert(1, product{ID: 1, Title: "one"}))
	if o := f.outcomes[0]; o.Freshness != 0 || o.Latency != 0 || o.Embed != 0 || o.Write != 0 {
		t.Errorf("an event that was not written has times: %+v", o)
	}
}

func TestNewSinkRefuses(t *testing.T) {
	t.Parallel()
	title := func(p product) string { return p.Title }
	e := embedtest.New(2)
	text := vectorstore.Embed("v", title, e)
	tests := map[string]vectorstore.Mapping[product]{
		"neither vectors nor properties": {},
		"has no name":                    {Vectors: []vectorstore.Vector[product]{vectorstore.Embed("", title, e)}},
		`two vectors "v"`:                {Vectors: []vectorstore.Vector[product]{text, text}},
		"not made by Embed":              {Vectors: []vectorstore.Vector[product]{{Name: "v"}}},
		"needs an input function": {
			Vectors: []vectorstore.Vector[product]{vectorstore.Embed[product, string]("v", nil, e)},
		},
		"and an embedder": {Vectors: []vectorstore.Vector[product]{vectorstore.Embed("v", title, embed.Embedder[string](nil))}},
	}
	for want, m := range tests {
		if s, err := vectorstore.NewSink(memory.New(), m, vectorstore.SinkOptions{}); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
	_, err := vectorstore.NewSink(nil, tests[`two vectors "v"`], vectorstore.SinkOptions{})
	if err == nil || !strings.Contains(err.Error(), "needs a store") || !strings.Contains(err.Error(), "two vectors") {
		t.Errorf("error %v does not join all", err)
	}
}
