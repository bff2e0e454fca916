package vectorstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

func TestSinkBadEvents(t *testing.T) {
	t.Parallel()
	noKey, noRow, badOp, badKey := insert(5, product{ID: 5}), insert(6, product{ID: 6}), insert(7, product{ID: 7}), remove(8, 8)
	noKey.Key, noRow.After, badOp.Op, badKey.Key = nil, nil, 'x', cdc.Key{{Name: "id", Value: time.Now()}}
	decoder, err := cdc.NewDecoder[product](cdc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := `{"before":null,"after":{"id":8,"title":"__debezium_unavailable_value","price":2,"picture":null},` +
		`"op":"u","source":{"connector":"postgresql","schema":"public","table":"products","lsn":9}}`
	unavailable, err := decoder.Decode(cdc.Record{Topic: "products", Key: `{"id":8}`, Value: []byte(value), Offset: "09"})
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
		{unavailable, vectorstore.ErrUnavailable, "title: nothing is stored that has them; let the database log whole rows with ALTER TABLE ... REPLICA IDENTITY FULL"},
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

func TestSinkOneVectorFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pictures.Inject(embedtest.Fault{Match: "broken", Permanent: true})
	errs := f.errs(insert(1, product{ID: 1, Title: "one", Picture: []byte("broken")}), insert(2, product{ID: 2, Title: "two", Picture: []byte("png")}))
	if !permanent(errs[0]) || !strings.Contains(errs[0].Error(), imageVector) || errs[1] != nil || f.get(1) != nil {
		t.Errorf("errors are %v, object %+v", errs, f.get(1))
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
