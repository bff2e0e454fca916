package weaviate

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// TestServerMultiVectors: a collection gets the multi-vectors that the options ask for, fits them afterwards, and other wishes are
// differences.
func TestServerMultiVectors(t *testing.T) {
	o := serverOptions(t)
	o.Vectors = []Vector{{Name: "single"}, {Name: "tokens", Multi: true}, {Name: "muvera", Multi: true, Muvera: true}}
	ours := open(t, o)
	for want, change := range map[string]func(*Options){
		"vector single: multi-vector is false; want true":         func(o *Options) { o.Vectors[0].Multi = true },
		"vector tokens: multi-vector is true; want false":         func(o *Options) { o.Vectors[1].Multi = false },
		"vector tokens: multi-vector: MUVERA is false; want true": func(o *Options) { o.Vectors[1].Muvera = true },
		"vector muvera: multi-vector: MUVERA is true; want false": func(o *Options) { o.Vectors[2].Muvera = false },
	} {
		other := o
		other.Vectors = slices.Clone(o.Vectors)
		change(&other)
		_, err := New(t.Context(), other)
		var differs *CollectionError
		if !errors.As(err, &differs) || len(differs.Differences) != 1 || differs.Differences[0].String() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Another process adds one. A Merge of ours, which does not know it, keeps it.
	o.Vectors = append(o.Vectors, Vector{Name: "added", Multi: true})
	theirs := open(t, o)
	object := vectorstore.Object{Ref: vectorstore.Ref{ID: idOf(1)}, MultiVectors: map[string][][]float32{
		"tokens": {{1, 0}, {0, 1}}, "muvera": {{1, 0}}, "added": {{0, 0, 1}, {0, 1, 0}},
	}}
	apply(t, theirs, vectorstore.Mutation{Object: object})
	apply(t, ours, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: object.Ref, Properties: map[string]any{"title": "merged"}, Vectors: map[string][]float32{"single": {1, 2}},
	}})
	got := get(t, theirs, 1)
	if !reflect.DeepEqual(got.MultiVectors, object.MultiVectors) || got.Properties["title"] != "merged" || len(got.Vectors["single"]) != 2 {
		t.Errorf("stored %+v", got)
	}
	again := open(t, o) // another store learns the lengths from what is there
	object.ID, object.MultiVectors = idOf(2), map[string][][]float32{"added": {{1, 2}}}
	if err := again.Apply(t.Context(), []vectorstore.Mutation{{Object: object}}); !errors.Is(err, vectorstore.ErrVector) {
		t.Errorf("a multi-vector of another length: %v", err)
	}
}

// TestServerMuvera compares an approximate index with exact search: what it finds has the exact distances, and is most of what is
// nearest.
func TestServerMuvera(t *testing.T) {
	o := serverOptions(t)
	o.Vectors = []Vector{{Name: "tokens", Multi: true, Muvera: true}}
	s, exact := open(t, o), memory.New()
	random := rand.New(rand.NewPCG(1, 2))
	const dims, objects, queries, limit = 16, 300, 20, 10
	near := func(centre []float32, n int) [][]float32 {
		out := make([][]float32, n)
		for i := range out {
			for _, x := range centre {
				out[i] = append(out[i], x+float32(random.NormFloat64())/2)
			}
		}
		return out
	}
	centres := near(make([]float32, dims), 30)
	var m []vectorstore.Mutation
	for n := range objects {
		m = append(m, vectorstore.Mutation{Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: idOf(n)}, MultiVectors: map[string][][]float32{"tokens": near(centres[n%len(centres)], 1+n%8)},
		}})
	}
	apply(t, s, m...)
	if err := exact.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	hits := 0
	for i := range queries {
		q := vectorstore.Query{Vector: "tokens", NearMulti: near(centres[i], 4), Limit: limit}
		found, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.Limit = objects
		all, err := exact.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			at := slices.IndexFunc(all, func(m vectorstore.Match) bool { return m.Object.ID == f.Object.ID })
			if at < limit {
				hits++
			}
			if d := float64(all[at].Distance - f.Distance); math.Abs(d) > 1e-4 {
				t.Errorf("object %s: distance %v, is %v", f.Object.ID, f.Distance, all[at].Distance)
			}
		}
	}
	recall := float64(hits) / queries / limit
	t.Logf("recall at %d: %.2f", limit, recall)
	if recall < 0.5 {
		t.Errorf("recall at %d is %v", limit, recall)
	}
}

func FuzzDecodeMulti(f *testing.F) {
	f.Add([]byte{})
	f.Add(multiMessage("", [][]float32{{1, 0}, {0, 1}}).GetVectorBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		vectors, err := decodeMulti(b)
		if err != nil {
			return
		}
		total := 0
		for _, v := range vectors {
			if total += 4 * len(v); len(v) != len(vectors[0]) {
				t.Errorf("vectors of %d and %d components", len(v), len(vectors[0]))
			}
		}
		if total+multiHeader != len(b) {
			t.Errorf("%d bytes became %d", len(b), total)
		}
	})
}
