//nolint:thelper // these functions are the tests
package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// applyIf is about stores that compare and write in one step.
func applyIf(t *testing.T, s vectorstore.Store) {
	c, ok := s.(vectorstore.Conditional)
	if !ok {
		t.Log("the store is no Conditional")
		return
	}
	try := func(what, version string, m vectorstore.Mutation, conflict bool) {
		t.Helper()
		err := c.ApplyIf(t.Context(), []vectorstore.Mutation{m, upsert(full(9))}, []string{version, ""})
		if errors.Is(err, vectorstore.ErrConflict) != conflict || err != nil && !conflict {
			t.Errorf("%s: error %v, conflict %v expected", what, err, conflict)
		}
		if err != nil {
			if errs := itemErrors(t, err, 2); errs[1] != nil {
				t.Errorf("%s: the neighbour failed: %v", what, errs[1])
			}
		}
		if err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(vectorstore.Object{Ref: ref(9)})}); err != nil { // of no version
			t.Fatal(err)
		}
	}
	one, two := full(1), full(1)
	one.Version, two.Version = "1", "2"
	try("over nothing, as something", "0", upsert(one), true)
	if got := get(t, s, 1); got != nil {
		t.Errorf("a conflict has written %+v", got)
	}
	try("over nothing", "", upsert(one), false)
	try("over something, as nothing", "", upsert(two), true)
	try("over what was read", "1", upsert(two), false)
	try("over what was there before", "1", merge(vectorstore.Object{Ref: ref(1), Version: "3"}), true)
	try("a late delete", "1", remove(1, "4"), true)
	check(t, s, 1, two)
	try("a delete", "2", remove(1, "4"), false)
	try("over a deletion, as nothing", "", upsert(one), true)
	checkDeleted(t, s, 1, "4")
	try("over a deletion", "4", upsert(two), false)
	check(t, s, 1, two)
	err := c.ApplyIf(t.Context(), []vectorstore.Mutation{upsert(one), merge(vectorstore.Object{Ref: ref(1), Version: "5"})}, []string{"2", "1"})
	one.Version = "5"
	if err != nil {
		t.Errorf("in a row: %v", err)
	}
	check(t, s, 1, one)
}

// row is a row of the table that the suite's sinks follow.
type row struct {
	ID     int64  `cdc:"id,key"`
	Title  string `cdc:"title"`
	Tenant string `cdc:"tenant"`
}

// sinkOf returns a sink that puts the rows of a tenant into it, and into none where tenants is false.
func sinkOf(t *testing.T, s vectorstore.Store, tenants bool) *vectorstore.Sink[row] {
	t.Helper()
	m := vectorstore.Mapping[row]{
		Vectors:    []vectorstore.Vector[row]{vectorstore.Embed(TextVector, func(r row) string { return r.Title }, embedtest.New(TextDimensions))},
		Properties: func(r row) map[string]any { return map[string]any{"title": r.Title} },
	}
	if tenants {
		m.Tenant = func(e *cdc.Event[row]) (string, error) { return e.Source.Schema, nil }
	}
	sink, err := vectorstore.NewSink(s, m, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// event is a change of row n of a tenant at a position of the log.
func event(op cdc.Op, tenant string, n int64, lsn uint64, title string) cdc.Event[row] {
	e := cdc.Event[row]{Op: op, Source: cdc.Source{Schema: tenant, Table: "rows", LSN: lsn}, Record: cdc.Record{Topic: "rows"}}
	if op == cdc.OpTruncate {
		return e
	}
	e.Key = cdc.Key{{Name: "id", Value: n}}
	if op != cdc.OpDelete {
		e.After = &row{ID: n, Title: title, Tenant: tenant}
	}
	return e
}

func handle(t *testing.T, sink *vectorstore.Sink[row], events ...cdc.Event[row]) {
	t.Helper()
	if err := sink.Handle(t.Context(), events); err != nil {
		t.Fatalf("Handle: %v", err)
	}
}

// shows fails the test unless the store has exactly these titles for row n of a tenant, "" where there must be no object.
func shows(t *testing.T, s vectorstore.Store, tenant string, titles map[int64]string) {
	t.Helper()
	for n, want := range titles {
		id, err := vectorstore.UUID5(cdc.Key{{Name: "id", Value: n}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), []vectorstore.Ref{{ID: id, Tenant: tenant}})
		if err != nil {
			t.Fatal(err)
		}
		title := ""
		if o := got[0]; o != nil && !o.Deleted {
			title, _ = o.Properties["title"].(string)
		}
		if title != want {
			t.Errorf("tenant %q, row %d: the store has %q, want %q", tenant, n, title, want)
		}
	}
}

// sinkGuards runs a Sink's guard on the store.
func sinkGuards(t *testing.T, s vectorstore.Store) {
	guards(t, func() vectorstore.Store { return s }, false, "")
}

// guards says that what is late never wins, also against deletions and truncates. The store is opened again before what is late
// comes, and what has remembered anything in the process is gone.
func guards(t *testing.T, open func() vectorstore.Store, tenanted bool, tenants ...string) {
	s := open()
	sink := sinkOf(t, s, tenanted)
	for _, tenant := range tenants {
		handle(
			t, sink,
			event(cdc.OpCreate, tenant, 1, 10, "first"), event(cdc.OpUpdate, tenant, 1, 12, "second"),
			event(cdc.OpCreate, tenant, 2, 13, "gone"), event(cdc.OpDelete, tenant, 2, 20, ""),
		)
	}
	s = open()
	sink = sinkOf(t, s, tenanted)
	for _, tenant := range tenants {
		handle(t, sink, event(cdc.OpUpdate, tenant, 1, 11, "late"))
		handle(t, sink, event(cdc.OpUpdate, tenant, 2, 15, "late"))
		shows(t, s, tenant, map[int64]string{1: "second", 2: ""})
	}
	if _, ok := s.(vectorstore.VersionedClearer); !ok {
		t.Log("the store is no VersionedClearer")
		return
	}
	for _, tenant := range tenants {
		handle(t, sink, event(cdc.OpCreate, tenant, 3, 40, "newer"))
	}
	handle(t, sink, event(cdc.OpTruncate, tenants[0], 0, 30, ""))
	s = open()
	sink = sinkOf(t, s, tenanted)
	if tenanted {
		tenants = append(tenants, "of_later")
		handle(t, sink, event(cdc.OpCreate, "of_later", 3, 40, "newer"))
	}
	for _, tenant := range tenants {
		handle(t, sink, event(cdc.OpUpdate, tenant, 1, 25, "late"), event(cdc.OpUpdate, tenant, 4, 29, "late"))
		handle(t, sink, event(cdc.OpCreate, tenant, 2, 31, "back"))
		shows(t, s, tenant, map[int64]string{1: "", 2: "back", 3: "newer", 4: ""})
	}
}

// sinkReconciles says that a store which a sink keeps is found equal to the table, with properties of every type, and what is not so is
// found and repaired.
func sinkReconciles(t *testing.T, s vectorstore.Store) {
	if _, answered := ask(t, s, vectorstore.Query{After: vectorstore.First}); !answered {
		return
	}
	sink, err := vectorstore.NewSink(s, vectorstore.Mapping[row]{
		Vectors:    []vectorstore.Vector[row]{vectorstore.Embed(TextVector, func(r row) string { return r.Title }, embedtest.New(TextDimensions))},
		Properties: func(r row) map[string]any { return full(int(r.ID)).Properties },
	}, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var table []cdc.Event[row]
	for n := range int64(300) { // several pages
		table = append(table, event(cdc.OpRead, "", n, uint64(100+n), fmt.Sprint("row ", n)))
	}
	handle(t, sink, table...)
	reconcile := func(o vectorstore.ReconcileOptions) vectorstore.Reconciliation {
		t.Helper()
		o.AsOf = cdc.Position{LSN: 1000}
		o.Observe = func(d vectorstore.Difference) { t.Logf("%v %s %v, error %v", d.Finding, d.Ref.ID, d.Fields, d.Err) }
		got, err := sink.Reconcile(t.Context(), func(yield func(cdc.Event[row], error) bool) {
			for _, e := range table {
				if !yield(e, nil) {
					return
				}
			}
		}, o)
		if err != nil {
			t.Fatalf("Reconcile: %v", err)
		}
		return got
	}
	if got := reconcile(vectorstore.ReconcileOptions{}); !got.Clean() || got.Equal != 300 || got.Objects != 300 {
		t.Fatalf("equal store and table: %+v", got)
	}
	orphan := full(1)
	id, err := vectorstore.UUID5(cdc.Key{{Name: "id", Value: int64(7)}})
	if err != nil {
		t.Fatal(err)
	}
	version := cdc.Position{LSN: 500}.String()
	orphan.Version = version
	wrong := vectorstore.Object{Ref: vectorstore.Ref{ID: id}, Properties: map[string]any{"qty": 8}, Version: version}
	apply(t, s, upsert(orphan), merge(wrong))
	if got := reconcile(vectorstore.ReconcileOptions{Repair: true}); got.Orphans != 1 || got.Different != 1 || got.Repaired != 2 {
		t.Errorf("an orphan and a wrong property: %+v", got)
	}
	if got := reconcile(vectorstore.ReconcileOptions{}); !got.Clean() || got.Equal != 300 || got.Objects != 300 {
		t.Errorf("after the repair: %+v", got)
	}
}

// RunTenants runs the part of the suite about stores that keep tenants apart. The factory returns an empty store, in which every
// object may be in a tenant, each time.
func RunTenants(t *testing.T, factory func(t *testing.T) vectorstore.Store) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, vectorstore.Store){
		"Apart": tenantsApart, "Keywords": tenantsKeywords, "Sink": tenantsSink,
	} {
		t.Run(name, func(t *testing.T) { run(t, factory(t)) })
	}
}

func in(tenant string, m vectorstore.Mutation) vectorstore.Mutation {
	m.Object.Tenant = tenant
	return m
}

func tenantsApart(t *testing.T, s vectorstore.Store) {
	a, b := full(1), full(1)
	a.Tenant, b.Tenant = "a", "b"
	b.Properties["title"] = "of b"
	apply(t, s, upsert(a), upsert(b), in("a", upsert(full(2))), in("b", remove(2, "x")), in("b", upsert(full(3))))
	got, err := s.Get(t.Context(), []vectorstore.Ref{a.Ref, b.Ref, {ID: ref(2).ID, Tenant: "b"}, {ID: ref(3).ID, Tenant: "a"}, {ID: a.ID, Tenant: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	checkObject(t, got[0], a)
	checkObject(t, got[1], b)
	if got[2] == nil || !got[2].Deleted || got[3] != nil || got[4] != nil {
		t.Errorf("a deletion, and two that are not there: %+v, %+v, %+v", got[2], got[3], got[4])
	}
	near := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0)}
	for tenant, want := range map[string][]int{"a": {1, 2}, "b": {1, 3}, "c": nil} {
		near.Tenant = tenant
		for _, m := range finds(t, s, "tenant "+tenant, near, want...) {
			if m.Object.Tenant != tenant {
				t.Errorf("a match in tenant %q is of %q", tenant, m.Object.Tenant)
			}
		}
		if tenant == "b" {
			finds(t, s, "by a filter", vectorstore.Query{Tenant: tenant, Filter: vectorstore.GreaterOrEqual("qty", 2)}, 3)
		}
		var listed []vectorstore.ID
		for o, err := range vectorstore.All(t.Context(), s, tenant) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, o.ID)
		}
		if !slices.Equal(listed, idsOf(want...)) {
			t.Errorf("tenant %q has %v, want %v", tenant, listed, want)
		}
	}
	if tenanted, ok := s.(vectorstore.Tenanted); ok {
		if names, err := tenanted.Tenants(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("tenants are %q, error %v", names, err)
		}
	}
	clearer, ok := s.(vectorstore.Clearer)
	if !ok {
		return
	}
	if err := clearer.Clear(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Get(t.Context(), []vectorstore.Ref{a.Ref, b.Ref}); err != nil || got[0] != nil {
		t.Fatalf("after Clear: %+v, error %v", got, err)
	}
	checkObject(t, got[1], b)
}

// tenantsKeywords says that a word is as rare, and a text as long, as they are in the tenant alone.
func tenantsKeywords(t *testing.T, s vectorstore.Store) {
	o := func(n int, title string) vectorstore.Mutation {
		return upsert(vectorstore.Object{Ref: ref(n), Properties: map[string]any{"title": title}, Version: "1"})
	}
	apply(t, s, in("a", o(1, "tent")), in("a", o(2, "red tent")), in("a", o(3, "red mug of tin")))
	query := vectorstore.Query{Tenant: "a", Text: "tent mug", Properties: []string{"title"}}
	before, answered := ask(t, s, query)
	if !answered {
		return
	}
	for n := range 9 {
		apply(t, s, in("b", o(n, "a tent with a mug in it and many other things")))
	}
	after, _ := ask(t, s, query)
	if len(before) != 3 || !slices.EqualFunc(before, after, func(a, b vectorstore.Match) bool { return a.Object.ID == b.Object.ID && a.Score == b.Score }) {
		t.Errorf("found %+v, and beside another tenant %+v", before, after)
	}
}

func tenantsSink(t *testing.T, s vectorstore.Store) {
	if _, ok := s.(vectorstore.Tenanted); !ok {
		t.Log("the store is no Tenanted")
		return
	}
	guards(t, func() vectorstore.Store { return s }, true, "a", "b")
}

// RunRestart runs the part of the suite about stores that outlive their process. The factory returns a function that opens the same
// store, empty at first, each time that it is called.
func RunRestart(t *testing.T, factory func(t *testing.T) (open func(t *testing.T) vectorstore.Store)) {
	t.Helper()
	t.Run("Objects", func(t *testing.T) {
		open := factory(t)
		apply(t, open(t), upsert(full(1)), upsert(full(2)), remove(3, "x"))
		s := open(t)
		check(t, s, 1, full(1))
		checkDeleted(t, s, 3, "x")
		apply(t, s, merge(vectorstore.Object{Ref: ref(2), Version: "later"}))
		want := full(2)
		want.Version = "later"
		s = open(t)
		check(t, s, 2, want)
		finds(t, s, "after a restart", vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 2)}, 2, 1)
		bad := full(4)
		bad.Vectors[TextVector] = unit(TextDimensions+1, 0)
		if err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(bad)}); !errors.Is(err, vectorstore.ErrVector) {
			t.Errorf("a vector of another length after a restart: %v", err)
		}
	})
	t.Run("Guard", func(t *testing.T) {
		open := factory(t)
		guards(t, func() vectorstore.Store { return open(t) }, false, "")
	})
}
