package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) vectorstore.Store {
		t.Helper()
		return memory.New()
	})
}

func TestSuiteOfTenants(t *testing.T) {
	t.Parallel()
	storetest.RunTenants(t, func(t *testing.T) vectorstore.Store {
		t.Helper()
		return memory.New()
	})
}

func ref(tenant string, n int) vectorstore.Ref {
	return vectorstore.Ref{Tenant: tenant, ID: vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", n))}
}

func put(t *testing.T, s *memory.Store, tenant string, n int, v ...float32) {
	t.Helper()
	o := vectorstore.Object{Ref: ref(tenant, n), Vectors: map[string][]float32{"v": v}}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{{Object: o}}); err != nil {
		t.Fatal(err)
	}
}

func all(t *testing.T, s *memory.Store, tenant string) (out []*vectorstore.Object) {
	t.Helper()
	for o, err := range vectorstore.All(t.Context(), s, tenant) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func TestTenants(t *testing.T) {
	t.Parallel()
	s := memory.New()
	put(t, s, "a", 1, 1, 0)
	put(t, s, "b", 1, 0, 1)
	put(t, s, "b", 2, 1, 0)
	put(t, s, "", 1, 1, 1)
	for tenant, want := range map[string]int{"a": 1, "b": 2, "": 1, "c": 0} {
		found, err := s.Search(t.Context(), vectorstore.Query{Tenant: tenant, Vector: "v", Near: []float32{1, 0}})
		if err != nil || len(found) != want {
			t.Errorf("tenant %q: %d found, error %v; want %d", tenant, len(found), err, want)
		}
	}
	if tenants, err := s.Tenants(t.Context()); err != nil || !slices.Equal(tenants, []string{"", "a", "b"}) {
		t.Errorf("tenants are %q, error %v", tenants, err)
	}
	if err := s.Clear(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var left []vectorstore.Ref
	for _, tenant := range []string{"", "a", "b"} {
		for _, o := range all(t, s, tenant) {
			left = append(left, o.Ref)
		}
	}
	if want := []vectorstore.Ref{ref("", 1), ref("a", 1)}; s.Len() != 2 || !slices.Equal(left, want) {
		t.Errorf("Len %d, left %v, want %v", s.Len(), left, want)
	}
}

func TestLenAndAll(t *testing.T) {
	t.Parallel()
	s := memory.New()
	for n := range 5 {
		put(t, s, "", 4-n, 1, float32(n))
	}
	remove := func(n int) vectorstore.Mutation {
		return vectorstore.Mutation{Action: vectorstore.Delete, Object: vectorstore.Object{Ref: ref("", n)}}
	}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{remove(3), remove(3), remove(77)}); err != nil {
		t.Fatal(err)
	}
	var ns []int
	for _, o := range all(t, s, "") {
		o.Vectors["v"][0] = 99 // a copy
		for n := range 5 {
			if o.Ref == ref("", n) {
				ns = append(ns, n)
			}
		}
	}
	if s.Len() != 4 || !slices.Equal(ns, []int{0, 1, 2, 4}) {
		t.Errorf("Len %d, All %v", s.Len(), ns)
	}
	if all(t, s, "")[0].Vectors["v"][0] != 1 {
		t.Error("All shares memory with the store")
	}
	put(t, s, "", 3, 1, 1)
	put(t, s, "", 3, 1, 1)
	if s.Len() != 5 {
		t.Errorf("Len %d after the object is back", s.Len())
	}
}

func TestTiesByID(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := memory.New()
		for _, n := range rand.Perm(30) {
			put(t, s, "", n, 2, 2)
		}
		found, err := s.Search(t.Context(), vectorstore.Query{Vector: "v", Near: []float32{1, 1}, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range found {
			if m.Object.Ref != ref("", i) {
				t.Fatalf("match %d is %s", i, m.Object.ID)
			}
		}
	}
}

// TestSearchIsExact compares with sorting all distances.
func TestSearchIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	s := memory.New()
	for n := range 500 {
		v := make([]float32, 16)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		put(t, s, "", n, v...)
	}
	near := make([]float32, 16)
	for i := range near {
		near[i] = rng.Float32() - 0.5
	}
	all, err := s.Search(t.Context(), vectorstore.Query{Vector: "v", Near: near, Limit: 500})
	if err != nil || len(all) != 500 {
		t.Fatalf("%d found, error %v", len(all), err)
	}
	if !slices.IsSortedFunc(all, func(a, b vectorstore.Match) int { return int(1e9 * (a.Distance - b.Distance)) }) {
		t.Error("not nearest first")
	}
	for _, limit := range []int{1, 2, 10, 499} {
		found, err := s.Search(t.Context(), vectorstore.Query{Vector: "v", Near: near, Limit: limit})
		if err != nil || len(found) != limit {
			t.Fatalf("%d found, error %v", len(found), err)
		}
		for i := range found {
			if found[i].Object.ID != all[i].Object.ID || found[i].Distance != all[i].Distance {
				t.Fatalf("limit %d: match %d differs", limit, i)
			}
		}
	}
}

func TestDimensionsAfterClear(t *testing.T) {
	t.Parallel()
	s := memory.New()
	put(t, s, "", 1, 1, 0)
	put(t, s, "x", 1, 1, 0)
	long := vectorstore.Object{Ref: ref("", 2), Vectors: map[string][]float32{"v": {1, 0, 0}}}
	err := s.Apply(t.Context(), []vectorstore.Mutation{{Object: long}})
	if !errors.Is(err, vectorstore.ErrVector) || !strings.Contains(err.Error(), `vector "v"`) {
		t.Errorf("error %v", err)
	}
	for _, tenant := range []string{"", "x"} {
		if err := s.Clear(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "", 2, 1, 0, 0)
}

func BenchmarkSearch(b *testing.B) {
	const objects, dims = 10_000, 384
	rng := rand.New(rand.NewPCG(1, 2))
	s := memory.New()
	vector := func() []float32 {
		v := make([]float32, dims)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	m := make([]vectorstore.Mutation, objects)
	for n := range m {
		m[n].Object = vectorstore.Object{Ref: ref("", n), Vectors: map[string][]float32{"v": vector()}}
	}
	if err := s.Apply(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	q := vectorstore.Query{Vector: "v", Near: vector()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Search(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(objects*float64(b.N)/b.Elapsed().Seconds(), "vectors/s")
}
