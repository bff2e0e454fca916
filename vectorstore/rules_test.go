package vectorstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

func TestSinkBlankRules(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.mapping.Vectors[0].Blank = vectorstore.BlankDeletes })
	one, blank := product{ID: 1, Title: "one"}, product{ID: 1, Title: " \t", Picture: []byte("png")}
	f.handle(insert(1, one))
	f.handle(update(2, blank))
	f.wantDeleted(1)
	f.handle(update(3, one))
	f.wantRow(one)
	f.wantKinds("created+text deleted created+text")

	f.mapping.Vectors[0].Blank = vectorstore.BlankRefused
	f.restart()
	if errs := f.errs(update(4, blank), insert(5, product{ID: 2, Title: "two"})); !errors.Is(errs[0], vectorstore.ErrBlank) ||
		!permanent(errs[0]) || errs[1] != nil {
		t.Errorf("errors are %v", errs)
	}
	f.wantRow(one)
	f.mapping.Vectors[0].Blank = 7
	if _, err := vectorstore.NewSink(f.store, f.mapping, f.options); err == nil {
		t.Error("no error for an unknown rule")
	}
}

func TestSinkOptionalVector(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.mapping.Vectors[1].Optional = true })
	bad := product{ID: 1, Title: "one", Picture: []byte("bad")}
	f.handle(insert(1, product{ID: 1, Title: "one", Picture: []byte("png")}))
	f.pictures.Inject(embedtest.Fault{Match: "bad", Permanent: true})
	f.handle(update(2, bad))
	if o := f.outcomes[1]; o.Kind != vectorstore.Updated || !slices.Equal(o.Refused, []string{imageVector}) {
		t.Errorf("outcome is %+v", o)
	}
	if o := f.get(1); o.Vectors[imageVector] != nil || o.Vectors[textVector] == nil {
		t.Errorf("vectors are %v", o.Vectors)
	}
	f.texts.Inject(embedtest.Fault{Match: "uno", Permanent: true}) // this one is not optional
	if errs := f.errs(update(3, product{ID: 1, Title: "uno"})); !permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
	f.pictures.Inject(embedtest.Fault{Match: "gif", Err: errCrash, Times: 1}) // this one may pass
	errs := f.errs(update(4, product{ID: 1, Title: "one", Picture: []byte("gif")}))
	if errs[0] == nil || permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
	f.handle(update(4, product{ID: 1, Title: "one", Picture: []byte("gif")}))
	f.wantRow(product{ID: 1, Title: "one", Picture: []byte("gif")})
}

func TestSinkTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Tenant = func(e *cdc.Event[product]) (string, error) {
			if e.Record.Topic == "" {
				return "", errors.New("no topic")
			}
			return e.Record.Topic, nil
		}
	})
	of := func(topic string, e cdc.Event[product]) cdc.Event[product] {
		e.Record.Topic = topic
		return e
	}
	stored := func(topic string) *vectorstore.Object {
		t.Helper()
		r := refOf(t, 1)
		r.Tenant = topic
		got, err := f.store.clearable.Get(t.Context(), []vectorstore.Ref{r})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	f.handle(of("a", insert(1, product{ID: 1, Title: "one"})), of("b", insert(1, product{ID: 1, Title: "uno"})))
	if a, b := stored("a"), stored("b"); a.Properties["title"] != "one" || b.Properties["title"] != "uno" {
		t.Errorf("objects are %+v and %+v", a, b)
	}
	f.handle(of("b", remove(2, 1)))
	if a, b := stored("a"), stored("b"); a.Deleted || !b.Deleted {
		t.Errorf("objects are %+v and %+v", a, b)
	}
	if errs := f.errs(of("", insert(3, product{ID: 1}))); !permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
	f.handle(of("a", insert(5, product{ID: 1, Title: "kept"})), truncate(4))
	if stored("a") == nil || stored("b") != nil {
		t.Errorf("after the truncate objects are %+v and %+v", stored("a"), stored("b"))
	}
}

// TestSinkTenantLeftForNothing wants a row out of the tenant that it left, though the one it came to refuses it for good.
func TestSinkTenantLeftForNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Tenant = func(e *cdc.Event[product]) (string, error) {
			if e.After == nil {
				return e.Before.Title, nil
			}
			return e.After.Title, nil
		}
	})
	f.texts.Inject(embedtest.Fault{Match: "poison", Permanent: true})
	was := product{ID: 1, Title: "one"}
	f.handle(insert(1, was))
	moved := update(2, product{ID: 1, Title: "poison"})
	moved.Before = &was
	f.store.fail = func([]vectorstore.Mutation) error { return errCrash }
	if errs := f.errs(moved); !errors.Is(errs[0], errCrash) || permanent(errs[0]) {
		t.Errorf("errors are %v; want the one of the departure, which is to be tried again", errs)
	}
	f.store.fail = nil
	if errs := f.errs(moved); !permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
	left := refOf(t, 1)
	left.Tenant = was.Title
	if got, err := f.store.clearable.Get(t.Context(), []vectorstore.Ref{left}); err != nil || got[0] == nil || !got[0].Deleted {
		t.Errorf("object is %+v, error %v; want it deleted", got, err)
	}
	f.wantKinds("created+text")
}

// ofOwner is a mapping's tenant that a column says.
func ofOwner(e *cdc.Event[item]) (string, error) {
	switch {
	case e.After != nil:
		return e.After.Owner, nil
	case e.Before != nil:
		return e.Before.Owner, nil
	}
	return "", errors.New("no row")
}

// TestSinkTenantsThereAndBack moves a row between tenants within one batch, of a source without positions: it brings its vector along.
func TestSinkTenantsThereAndBack(t *testing.T) {
	t.Parallel()
	h := &itemTable{T: t, whole: true, bare: true}
	var err error
	if h.decoder, err = cdc.NewDecoder[item](cdc.Options{}); err != nil {
		t.Fatal(err)
	}
	store, texts := memory.New(), embedtest.New(8)
	sink, err := vectorstore.NewSink(vectorstore.Store(store), vectorstore.Mapping[item]{
		Tenant: ofOwner, Vectors: []vectorstore.Vector[item]{vectorstore.Embed("v", func(i item) string { return i.Title }, texts)},
	}, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(owner string) *item { return &item{Region: "eu", ID: 1, Owner: owner, Title: "tea"} }
	for _, path := range [][]string{{"ann", "bob", "ann"}, {"ann", "bob", "ann", "bob", "cid"}} {
		var events []cdc.Event[item]
		if len(texts.Inputs()) == 0 {
			events = append(events, h.event(cdc.OpCreate, 0, nil, of("ann"), nil))
		}
		for i := range path[1:] {
			events = append(events, h.event(cdc.OpUpdate, 0, of(path[i]), of(path[i+1]), nil))
		}
		if err := sink.Handle(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		last := path[len(path)-1]
		for _, tenant := range []string{"ann", "bob", "cid"} {
			found, err := store.Search(t.Context(), vectorstore.Query{Tenant: tenant, Vector: "v", Near: fresh(t, 8, "tea")})
			if err != nil || len(found) > 0 != (tenant == last) {
				t.Errorf("the row is %s's; %s has %v, error %v", last, tenant, found, err)
			}
		}
	}
	if n := len(texts.Inputs()); n != 1 {
		t.Errorf("%d texts embedded, want one", n)
	}
}

// TestSinkTenantOfIndexAlone: where an update brings of the row before but the columns of an index, its tenant is not known: the row is
// written where it is now.
func TestSinkTenantOfIndexAlone(t *testing.T) {
	t.Parallel()
	h := &itemTable{T: t, whole: true}
	var err error
	if h.decoder, err = cdc.NewDecoder[item](cdc.Options{}); err != nil {
		t.Fatal(err)
	}
	store := &picky{Store: memory.New()}
	sink, err := vectorstore.NewSink(vectorstore.Store(store), vectorstore.Mapping[item]{
		Tenant: ofOwner, Properties: func(i item) map[string]any { return map[string]any{"title": i.Title} },
	}, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = sink.Handle(t.Context(), []cdc.Event[item]{
		h.event(cdc.OpUpdate, 1, &item{Region: "eu", ID: 1, Title: "old"}, &item{Region: "eu", ID: 1, Owner: "ann", Title: "new"}, nil),
		h.event(cdc.OpCreate, 2, nil, &item{Region: "eu", ID: 2, Title: "nobody's"}, nil),
		h.event(cdc.OpCreate, 3, nil, &item{Region: "eu", ID: 3, Owner: "ann", Title: "neighbour"}, nil),
	})
	var batch *vectorstore.BatchError
	if !errors.As(err, &batch) || batch.Errs[0] != nil || !permanent(batch.Errs[1]) || batch.Errs[2] != nil {
		t.Errorf("error %v, want a permanent one of the row without a tenant alone", err)
	}
	if found, err := store.Search(t.Context(), vectorstore.Query{Tenant: "ann", After: vectorstore.First}); err != nil || len(found) != 2 {
		t.Errorf("found %v, error %v", found, err)
	}
}

// picky is a store that refuses to read and to write without a tenant.
type picky struct{ *memory.Store }

func (s *picky) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	if slices.ContainsFunc(r, func(r vectorstore.Ref) bool { return r.Tenant == "" }) {
		return nil, vectorstore.Permanent(errors.New("a tenant is required"))
	}
	return s.Store.Get(ctx, r)
}

// tenantless hides what the store knows of tenants.
type tenantless struct{ clearable }

func TestSinkTenantsUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Tenant = func(*cdc.Event[product]) (string, error) { return "a", nil }
	})
	sink, err := vectorstore.NewSink(vectorstore.Store(tenantless{f.store.clearable}), f.mapping, f.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Handle(t.Context(), []cdc.Event[product]{truncate(1)}); !errors.Is(err, vectorstore.ErrTruncate) {
		t.Errorf("error is %v", err)
	}
}

func TestSinkMappingVersion(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t, func(f *fixture) { f.mapping.Version = "1" }), newWire[product](t)
	one := product{ID: 1, Title: "one", Price: 2}
	f.handle(insert(1, one))
	f.handle(insert(1, one))
	f.mapping.Version = "2"
	f.mapping.Properties = func(p product) map[string]any { return map[string]any{"name": p.Title} }
	f.restart()
	f.handle(insert(1, one))
	f.handle(insert(1, one))
	f.wantKinds("created+text unchanged updated unchanged")
	if got := f.get(1).Properties; len(got) != 1 || got["name"] != "one" {
		t.Errorf("properties are %v", got)
	}
	// what is kept may be of the old version: reading the topic again must still write it
	f.mapping.Version = "3"
	f.restart()
	f.handle(w.event(cdc.OpUpdate, 2, 2, rowOf(one), "title"))
	f.handle(update(2, one))
	f.handle(update(2, one))
	f.wantKinds("updated updated unchanged")
}

func TestSinkSoftDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.mapping.Filter = func(p product) bool { return p.Price != -1 } })
	one, gone := product{ID: 1, Title: "one"}, product{ID: 1, Title: "one", Price: -1}
	f.handle(insert(1, one))
	f.handle(update(2, gone))
	f.wantDeleted(1)
	f.handle(update(3, one))
	f.wantRow(one)
	f.wantKinds("created+text deleted created+text")
}
