package vectorstore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// rowsOf returns a table as the events that read it.
func rowsOf(products ...product) iter.Seq2[cdc.Event[product], error] {
	return func(yield func(cdc.Event[product], error) bool) {
		for _, p := range products {
			if !yield(cdc.Event[product]{Op: cdc.OpRead, Key: keyOf(p.ID), After: &p, Source: cdc.Source{Snapshot: true}}, nil) {
				return
			}
		}
	}
}

// reconcile returns what was found, as one text a difference, sorted.
func (f *fixture) reconcile(o vectorstore.ReconcileOptions, products ...product) (vectorstore.Reconciliation, []string) {
	f.t.Helper()
	var found []string
	o.Observe = func(d vectorstore.Difference) {
		text := fmt.Sprint(d.Finding)
		for id := int64(0); id < 20; id++ {
			if d.Ref == refOf(f.t, id) {
				text += fmt.Sprint(" ", id)
			}
		}
		if d.Err != nil {
			text += " error"
		}
		found = append(found, strings.TrimSpace(text+" "+strings.Join(d.Fields, ", ")))
	}
	got, err := f.sink.Reconcile(f.t.Context(), rowsOf(products...), o)
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(found)
	return got, found
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) {
		f.mapping.Filter = func(p product) bool { return p.Price >= 0 }
		f.options.Lineage = true
	})
	var table []product
	for id := int64(1); id <= 10; id++ {
		p := product{ID: id, Title: fmt.Sprint("title ", id), Price: float64(id), Picture: []byte{byte(id)}}
		if id == 10 {
			p.Price = -1
		}
		table = append(table, p)
		f.handle(insert(uint64(100+id), p))
	}
	f.handle(insert(200, product{ID: 11, Title: "gone"}), remove(201, 11))
	got, found := f.reconcile(vectorstore.ReconcileOptions{}, table...)
	if want := (vectorstore.Reconciliation{Rows: 10, Objects: 9, Equal: 10}); got != want || len(found) > 0 || !got.Clean() {
		t.Fatalf("equal: %+v, %v", got, found)
	}
	calls := f.texts.Calls()

	// What a lost change, a lost delete, a hand in the store, a resurrected object and another row do.
	table[0].Title = "changed"
	table[1].Price = 99
	table[2].Picture = []byte("other")
	table[8].Price = -1
	table = append(table[:3], table[4:]...) // row 4
	table = append(table, product{ID: 12, Title: "new"})
	change := func(action vectorstore.Action, id int64, o vectorstore.Object) {
		t.Helper()
		o.Ref = refOf(t, id)
		if err := f.store.clearable.Apply(t.Context(), []vectorstore.Mutation{{Action: action, Object: o}}); err != nil {
			t.Fatal(err)
		}
	}
	change(vectorstore.Merge, 5, vectorstore.Object{Properties: map[string]any{"title": "by hand", "more": true}})
	change(vectorstore.Merge, 6, vectorstore.Object{Vectors: map[string][]float32{textVector: nil}})
	change(vectorstore.Delete, 7, vectorstore.Object{Version: cdc.Position{LSN: 150}.String()})
	change(vectorstore.Upsert, 11, vectorstore.Object{Version: cdc.Position{LSN: 150}.String()})
	change(vectorstore.Merge, 8, vectorstore.Object{Version: cdc.Position{LSN: 900}.String(), Properties: map[string]any{"title": "later"}})
	change(vectorstore.Upsert, 13, vectorstore.Object{Version: cdc.Position{LSN: 900}.String()}) // no orphans: their rows may have come since
	change(vectorstore.Upsert, 14, vectorstore.Object{Version: "by hand"})
	want := []string{
		"different 1 vector text_vector, property title", "different 2 property price", "different 3 vector image_vector",
		"different 5 property more, property title", "different 6 vector text_vector", "missing 12", "missing 7", "orphan 11", "orphan 4", "orphan 9",
	}
	asOf := cdc.Position{LSN: 500}
	got, found = f.reconcile(vectorstore.ReconcileOptions{AsOf: asOf}, table...)
	if !slices.Equal(found, want) || got.Later != 3 || got.Clean() || got.Repaired != 0 {
		t.Fatalf("%+v, found\n%s\nwant\n%s", got, strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	if f.texts.Calls() != calls {
		t.Error("comparing has embedded")
	}
	got, found = f.reconcile(vectorstore.ReconcileOptions{AsOf: asOf, Repair: true}, table...)
	if !slices.Equal(found, want) || got.Repaired != len(want) || !got.Clean() {
		t.Fatalf("repair: %+v, found %v", got, found)
	}
	got, found = f.reconcile(vectorstore.ReconcileOptions{AsOf: asOf}, table...)
	if len(found) > 0 || got.Later != 3 || got.Equal != len(table)-1 {
		t.Errorf("after the repair: %+v, found %v", got, found)
	}
	f.kinds()
	f.handle(update(400, product{ID: 4, Title: "late"}), update(450, table[0]), update(600, product{ID: 9, Title: "since"}))
	f.wantKinds("stale stale created+text")
}

func TestReconcileErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := product{ID: 1, Title: "a"}
	f.handle(insert(10, p))
	if _, err := f.sink.Reconcile(t.Context(), rowsOf(p), vectorstore.ReconcileOptions{Repair: true}); err == nil {
		t.Error("Repair without AsOf: no error")
	}
	broken := errors.New("the rows end")
	got, err := f.sink.Reconcile(t.Context(), func(yield func(cdc.Event[product], error) bool) {
		yield(cdc.Event[product]{}, broken)
	}, vectorstore.ReconcileOptions{})
	if !errors.Is(err, broken) || got.Objects != 0 {
		t.Errorf("error %v", err)
	}
	var found []vectorstore.Difference
	events := []cdc.Event[product]{
		{Op: cdc.OpRead, After: &p}, {Op: cdc.OpRead, Key: keyOf(2)}, remove(11, 3), insert(10, p),
	}
	got, err = f.sink.Reconcile(t.Context(), func(yield func(cdc.Event[product], error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}, vectorstore.ReconcileOptions{Observe: func(d vectorstore.Difference) { found = append(found, d) }})
	if err != nil || got.Uncompared != 3 || got.Equal != 1 || len(found) != 3 || !errors.Is(found[0].Err, vectorstore.ErrNoKey) ||
		!errors.Is(found[1].Err, vectorstore.ErrNoRow) || !errors.Is(found[2].Err, vectorstore.ErrNoRow) {
		t.Errorf("%+v, error %v, found %v", got, err, found)
	}
	if s := fmt.Sprint(vectorstore.Orphan, vectorstore.Finding(9)); s != "orphan Finding(9)" {
		t.Errorf("names are %s", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.sink.Reconcile(ctx, rowsOf(p), vectorstore.ReconcileOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
