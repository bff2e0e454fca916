package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what a server is waited for: it is longer than a busy machine stands still.
const patience = time.Minute

// serverOptions are options for the real server and a collection of the test's own, which is dropped at its end.
func serverOptions(tb testing.TB) Options {
	tb.Helper()
	o := Options{
		HTTP: servicetest.Env(tb, "WEAVIATE_HTTP"), GRPC: servicetest.Env(tb, "WEAVIATE_GRPC"),
		Collection: fmt.Sprintf("Test_%x", rand.Uint64()), ConnectTimeout: patience, ReadTimeout: patience,
	}
	tb.Cleanup(func() {
		c := testConn(tb, o)
		for _, name := range []string{o.Collection, o.Collection + tombstones} {
			if err := c.rest(context.Background(), http.MethodDelete, "/v1/schema/"+name, nil, nil); err != nil {
				tb.Errorf("dropping %s: %v", name, err)
			}
		}
	})
	return o
}

// testConn returns a connection for what a test does behind the store's back.
func testConn(tb testing.TB, o Options) *conn {
	tb.Helper()
	o = o.withDefaults()
	rest, rpc, err := o.endpoints()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := newConn(o, rest, rpc)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// open returns a store that is closed at the end of the test.
func open(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := New(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// suiteOptions are those of a collection for the suite of all stores. Where its properties are not declared, the store adds them as
// they come.
func suiteOptions(tb testing.TB, declared bool) Options {
	tb.Helper()
	types := map[string]DataType{"bool": Boolean}
	o := serverOptions(tb)
	o.NullIndex = true
	for name := range storetest.Vectors() {
		o.Vectors = append(o.Vectors, Vector{Name: name})
	}
	for name := range storetest.MultiVectors() {
		o.Vectors = append(o.Vectors, Vector{Name: name, Multi: true})
	}
	for _, p := range storetest.Properties() {
		if declared {
			o.Properties = append(o.Properties, Property{Name: p.Name, DataType: cmp.Or(types[p.Type], DataType(p.Type))})
		}
	}
	return o
}

func TestStore(t *testing.T) {
	for _, declared := range []bool{true, false} {
		t.Run(fmt.Sprintf("declared=%v", declared), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) vectorstore.Store {
				t.Helper()
				return open(t, suiteOptions(t, declared))
			})
		})
	}
}

func TestStoreTenants(t *testing.T) {
	storetest.RunTenants(t, func(t *testing.T) vectorstore.Store {
		t.Helper()
		o := suiteOptions(t, true)
		o.Tenants = true
		return open(t, o)
	})
}

func TestStoreRestart(t *testing.T) {
	storetest.RunRestart(t, func(t *testing.T) func(t *testing.T) vectorstore.Store {
		t.Helper()
		o := suiteOptions(t, false)
		return func(t *testing.T) vectorstore.Store {
			t.Helper()
			return open(t, o)
		}
	})
}

// apply fails the test unless the store takes all mutations.
func apply(t *testing.T, s *Store, m ...vectorstore.Mutation) {
	t.Helper()
	if err := s.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, n int) *vectorstore.Object {
	t.Helper()
	got, err := s.Get(t.Context(), []vectorstore.Ref{{ID: idOf(n)}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// count asks the server, not the Store, how many objects a collection has.
func count(t *testing.T, s *Store, collection string) int {
	t.Helper()
	var answer struct {
		Data struct {
			Aggregate map[string][]struct{ Meta struct{ Count int } }
		}
		Errors []any
	}
	query := map[string]string{"query": "{Aggregate{" + collection + "{meta{count}}}}"}
	err := context.DeadlineExceeded
	for errors.Is(err, context.DeadlineExceeded) && t.Context().Err() == nil {
		err = s.conn.rest(t.Context(), http.MethodPost, "/v1/graphql", query, &answer)
	}
	if err != nil || answer.Errors != nil {
		t.Fatal(err, answer.Errors)
	}
	return answer.Data.Aggregate[collection][0].Meta.Count
}

// shapes returns an object with a property of every type.
func shapes() vectorstore.Object {
	when := time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC)
	long := time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC)
	nested := map[string]any{
		"text": "a", "int": int64(7), "number": 0.1, "bool": false, "date": when, "texts": []string{"x", ""}, "ints": []int64{1 << 53},
		"deep": map[string]any{"deeper": map[string]any{"leaf": "z"}},
	}
	properties := map[string]any{
		"text": "quoted \" and \\ and \x00 and 日本", "int": int64(-1 << 53), "number": 5e-324, "bool": true, "date": when,
		"texts": []string{"a", "", "b"}, "ints": []int64{-1 << 53, 0, 1 << 53}, "numbers": []float64{0.1, -1e300}, "bools": []bool{true, false},
		"dates": []time.Time{when, long}, "uuid": "abcdef01-0000-5000-8000-abcdefabcdef", "blob": []byte{0, 1, 254, 255},
		"uuids": []string{"abcdef01-0000-5000-8000-abcdefabcdef"}, "object": nested, "objects": []map[string]any{nested, {"text": "b"}, {}},
		"no_texts": []string{}, "no_ints": []int64{}, "no_numbers": []float64{}, "no_bools": []bool{}, "no_dates": []time.Time{},
	}
	return vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(7)}, Properties: properties, Vectors: map[string][]float32{"text_vector": {0.1, 3e-9}}}
}

func TestServerRoundTrip(t *testing.T) {
	want := shapes().Properties
	o := serverOptions(t)
	o.Properties = []Property{{Name: "uuids", DataType: UUIDArray}, {Name: "uuid", DataType: UUID}} // the others are added
	s := open(t, o)
	apply(t, s, vectorstore.Mutation{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(1)}, Properties: want}})
	if got := get(t, s, 1).Properties; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	for name, v := range want {
		only := map[string]any{name: v, "absent": nil}
		apply(t, s, vectorstore.Mutation{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(2)}, Properties: only}})
		delete(only, "absent")
		if got := get(t, s, 2).Properties; !reflect.DeepEqual(got, only) {
			t.Errorf("alone: got %#v, want %#v", got, only)
		}
	}
	// A Merge reads everything, blobs too, and writes it back.
	apply(t, s, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1)}, Properties: map[string]any{"text": "merged", "no_ints": nil},
	}})
	want["text"] = "merged"
	delete(want, "no_ints")
	if got := get(t, s, 1).Properties; !reflect.DeepEqual(got, want) {
		t.Errorf("merged: got  %#v\nwant %#v", got, want)
	}
}

func TestServerNestedFieldsGrow(t *testing.T) {
	s := open(t, serverOptions(t))
	for i, want := range []map[string]any{
		{"a": int64(1)}, {"a": int64(2), "b": "new"}, {"a": int64(3), "c": map[string]any{"d": true}, "e": []string{"x"}},
	} {
		object := vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(i)}, Properties: map[string]any{"details": want}}
		apply(t, s, vectorstore.Mutation{Object: object})
		if got := get(t, s, i).Properties["details"]; !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
	err := s.Apply(t.Context(), []vectorstore.Mutation{
		{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(9)}, Properties: map[string]any{"details": map[string]any{"a": "text"}}}},
	})
	if got := failed(t, err); !slices.Equal(got, []int{0}) || !errors.Is(err, vectorstore.ErrValue) {
		t.Errorf("a nested value of another type: %v", err)
	}
}

func TestServerRefusedValues(t *testing.T) {
	o := serverOptions(t)
	o.Properties = []Property{{Name: "day", DataType: Date}, {Name: "n", DataType: Int}}
	s := open(t, o)
	properties := []map[string]any{
		{"day": "2022-04-22 10:00:00"}, {"day": ""}, {"day": time.Date(2022, 4, 22, 10, 0, 0, 0, time.UTC)}, // weaviate#1929, #1916
		{"n": int64(math.MaxInt64)}, {"n": 1 << 53}, // weaviate#11735
		{"id": 7}, {"tidemark_version": "x"}, {"Day": "2022-04-22"}, {"a b": 1}, {"x_temp": 1}, // weaviate#1932
		{"untyped": []any{}}, {"untyped": map[string]any{}},
	}
	m := upserts(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	for i := range m {
		m[i].Object.Properties = properties[i]
	}
	err := s.Apply(t.Context(), m)
	if got, want := failed(t, err), []int{1, 3, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(got, want) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v, want %v: %v", got, want, err)
	}
	for _, i := range []int{0, 2} {
		if got := get(t, s, i).Properties["day"]; got != time.Date(2022, 4, 22, 10, 0, 0, 0, time.UTC) {
			t.Errorf("day %d is %v", i, got)
		}
	}
	if n := count(t, s, s.collection); n != 3 {
		t.Errorf("%d objects are stored, want 3", n)
	}
}

func TestServerFixedProperties(t *testing.T) {
	o := serverOptions(t)
	o.Properties, o.FixedProperties = []Property{{Name: "title", DataType: Text}}, true
	s := open(t, o)
	m := upserts(1, 2)
	m[1].Object.Properties["more"] = 1
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{1}) || !strings.Contains(err.Error(), `"more"`) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
}

// TestServerRefusesDimensions has a store that does not know the length of the vectors that the server has: the server names the
// object, and that alone fails.
func TestServerRefusesDimensions(t *testing.T) {
	o := serverOptions(t)
	s := open(t, o)
	apply(t, s, upserts(1)...)
	m := upserts(2, 3, 4)
	m[1].Object.Vectors["text_vector"] = []float32{1, 2, 3}
	s.dims = map[string]int{}
	m[0].Object.Vectors = nil // so that the wrong length is the first that is seen
	m[2].Object.Vectors = nil
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{1}) || !errors.Is(err, vectorstore.ErrVector) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if !strings.Contains(fmt.Sprint(err), string(idOf(3))) {
		t.Errorf("error does not name the object: %v", err)
	}
	if n := count(t, s, s.collection); n != 3 {
		t.Errorf("%d objects are stored, want 3", n)
	}
	again := open(t, o) // another store learns the length from what is there
	if again.dims["text_vector"] == 0 {
		t.Errorf("dimensions are %v after opening", again.dims)
	}
}

// TestServerReadOnly: the server reports the state of the whole shard on the first object alone.
func TestServerReadOnly(t *testing.T) {
	s := open(t, serverOptions(t))
	apply(t, s, upserts(1)...)
	var shards []struct{ Name string }
	path := "/v1/schema/" + s.collection + "/shards"
	if err := s.conn.rest(t.Context(), http.MethodGet, path, nil, &shards); err != nil || len(shards) == 0 {
		t.Fatal(err, shards)
	}
	set := func(state string) {
		for _, shard := range shards {
			if err := s.conn.rest(t.Context(), http.MethodPut, path+"/"+shard.Name, map[string]string{"status": state}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("READONLY")
	err := s.Apply(t.Context(), upserts(1, 2, 3))
	if got := failed(t, err); !slices.Equal(got, []int{0, 1, 2}) || itemerror.IsPermanent(err) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("failed are %v: %v", got, err)
	}
	if err := s.Apply(t.Context(), deletes(1)); err == nil || itemerror.IsPermanent(err) {
		t.Errorf("delete: %v", err)
	}
	if got := get(t, s, 1); got == nil || got.Deleted {
		t.Errorf("an object whose deletion failed is %+v", got)
	}
	set("READY")
	apply(t, s, slices.Concat(upserts(2, 3), deletes(1))...)
	if got := get(t, s, 1); got == nil || !got.Deleted || get(t, s, 3) == nil {
		t.Errorf("after it is ready again, the deleted object is %+v", got)
	}
}

// TestServerMergeKeepsWhatOthersAdd: a Merge writes the whole object, so it must read properties that another process has added.
func TestServerMergeKeepsWhatOthersAdd(t *testing.T) {
	for _, blob := range []bool{false, true} {
		o := serverOptions(t)
		if blob {
			o.Properties = []Property{{Name: "picture", DataType: Blob}}
		}
		ours, theirs := open(t, o), open(t, o)
		m := upserts(1)
		m[0].Object.Properties["added"] = int64(5)
		apply(t, theirs, m...)
		apply(t, ours, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: idOf(1)}, Properties: map[string]any{"title": "merged"},
		}})
		got := get(t, theirs, 1)
		if got.Properties["added"] != int64(5) || got.Properties["title"] != "merged" || len(got.Vectors["text_vector"]) != 2 {
			t.Errorf("blob %v: stored %+v", blob, got)
		}
	}
}

// TestServerDeletesAllMatches: more objects than the server deletes at once (QUERY_MAXIMUM_RESULTS), by id and by Clear.
func TestServerDeletesAllMatches(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 20,000 objects")
	}
	s := open(t, serverOptions(t))
	const n = 10_001
	var numbers []int
	for i := range n {
		numbers = append(numbers, i)
	}
	m := upserts(numbers...)
	for i := range m {
		m[i].Object.Vectors = nil
	}
	apply(t, s, m...)
	if got := count(t, s, s.collection); got != n {
		t.Fatalf("%d objects are stored", got)
	}
	apply(t, s, deletes(numbers...)...)
	if got, remembered := count(t, s, s.collection), count(t, s, s.tombstones); got != 0 || remembered != n {
		t.Errorf("after deletes, %d objects and %d deletions are stored", got, remembered)
	}
	apply(t, s, m...)
	if err := s.Clear(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got, remembered := count(t, s, s.collection), count(t, s, s.tombstones); got != 0 || remembered != 0 {
		t.Errorf("after Clear, %d objects and %d deletions are stored", got, remembered)
	}
}

// TestServerDeleteLeavesNothing asks the server by another road whether the object is gone.
func TestServerDeleteLeavesNothing(t *testing.T) {
	s := open(t, serverOptions(t))
	apply(t, s, upserts(1, 2)...)
	apply(t, s, deletes(1, 3)...)
	path := "/v1/objects/" + s.collection + "/"
	if err := s.conn.rest(t.Context(), http.MethodGet, path+string(idOf(1)), nil, nil); restCode(err) != http.StatusNotFound {
		t.Errorf("the deleted object: %v", err)
	}
	if err := s.conn.rest(t.Context(), http.MethodGet, path+string(idOf(2)), nil, nil); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
}
