//nolint:thelper // these functions are the tests
package storetest

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// tokens returns an object with a multi-vector beside what the n-th has.
func tokens(n int, vectors ...[]float32) vectorstore.Object {
	o := full(n)
	o.MultiVectors = map[string][][]float32{MultiVector: vectors}
	return o
}

// axes returns the vector of a direction in the plane of the first two axes for each of the angles.
func axes(degrees ...float64) [][]float32 {
	out := make([][]float32, len(degrees))
	for i, d := range degrees {
		out[i] = unit(MultiDimensions, d)
	}
	return out
}

// holdsMulti reports whether a store holds multi-vectors. One that does not must say so.
func holdsMulti(t *testing.T, s vectorstore.Store) bool {
	err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(tokens(1, axes(0)...)), upsert(full(2))})
	if err == nil {
		return true
	}
	if items := itemErrors(t, err, 2); items[1] != nil || !errors.Is(items[0], vectorstore.ErrUnsupported) || !itemerror.IsPermanent(items[0]) {
		t.Errorf("an object with a multi-vector, and one without: %v; want a permanent error that is ErrUnsupported, of the first alone", err)
	}
	if got := get(t, s, 1); got != nil {
		t.Errorf("what was refused is stored: %+v", got)
	}
	_, err = s.Search(t.Context(), vectorstore.Query{Vector: MultiVector, NearMulti: axes(0)})
	if !errors.Is(err, vectorstore.ErrUnsupported) || !itemerror.IsPermanent(err) {
		t.Errorf("a search by several vectors: %v, want a permanent error that is ErrUnsupported", err)
	}
	t.Log("the store holds no multi-vectors")
	return false
}

func multiStored(t *testing.T, s vectorstore.Store) {
	if !holdsMulti(t, s) {
		return
	}
	want := tokens(1, axes(10, 20, 90, 10)...) // one of them twice
	bare := vectorstore.Object{Ref: ref(3), MultiVectors: map[string][][]float32{MultiVector: {{3, -4, 12, 84}}}}
	apply(t, s, upsert(want), upsert(bare))
	check(t, s, 1, want)
	check(t, s, 3, bare)

	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Properties: map[string]any{"title": "kept"}}))
	want.Properties["title"] = "kept"
	check(t, s, 1, want)
	want.MultiVectors[MultiVector] = axes(45)
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), MultiVectors: want.MultiVectors}))
	check(t, s, 1, want)
	want.Vectors[TextVector] = unit(TextDimensions, 3)
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Vectors: map[string][]float32{TextVector: want.Vectors[TextVector]}}))
	check(t, s, 1, want)
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), MultiVectors: map[string][][]float32{MultiVector: nil}}))
	want.MultiVectors = nil
	check(t, s, 1, want)
	for _, filter := range []vectorstore.Filter{{}, vectorstore.IDs(ref(1).ID, ref(2).ID)} { // which nothing else can hide
		found, _ := ask(t, s, vectorstore.Query{Vector: MultiVector, NearMulti: axes(45), Filter: filter})
		if slices.Contains(ids(found), ref(1).ID) {
			t.Errorf("a cleared multi-vector is found: %+v", found)
		}
	}

	apply(t, s, upsert(full(3)), upsert(tokens(4, axes(1, 2)...)), remove(4, "gone"))
	check(t, s, 3, full(3))
	checkDeleted(t, s, 4, "gone")
	if found, _ := ask(t, s, vectorstore.Query{Vector: MultiVector, NearMulti: axes(45)}); len(found) != 0 {
		t.Errorf("multi-vectors that are gone are found: %v", ids(found))
	}

	shared := tokens(5, axes(1, 2)...)
	apply(t, s, upsert(shared))
	shared.MultiVectors[MultiVector][0][0] = 99
	get(t, s, 5).MultiVectors[MultiVector][1][1] = 99
	check(t, s, 5, tokens(5, axes(1, 2)...))
}

func multiErrors(t *testing.T, s vectorstore.Store) {
	if !holdsMulti(t, s) {
		return
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	bad := []vectorstore.Object{
		tokens(10, []float32{1, 0, 0, nan}), tokens(11, []float32{1, 0, 0, 0}, []float32{inf, 0, 0, 1}),
		tokens(12, []float32{1, 0, 0, 0}, []float32{0, 0, 0, 0}), tokens(13, []float32{1, 0, 0, 0}, []float32{1, 0, 0}),
		tokens(14, []float32{1, 0, 0, 0}, nil), tokens(15, []float32{1, 0, 0, 0, 0}), tokens(16, axes(1)...), tokens(17, axes(1)...),
		full(18), tokens(19, axes(1)...),
	}
	bad[6].MultiVectors = map[string][][]float32{TextVector: axes(1)}             // a name of the other kind
	bad[7].MultiVectors["no_such"] = axes(1)                                      // a store without a schema may take it
	bad[8].Vectors[MultiVector] = unit(MultiDimensions, 1)                        // a name of the other kind
	bad[9].Vectors[MultiVector] = unit(MultiDimensions, 1)                        // of both kinds
	m := []vectorstore.Mutation{upsert(full(20)), upsert(tokens(21, axes(7)...))} // and good ones around
	for _, o := range bad {
		m = append(m, upsert(o))
	}
	m = append(m, upsert(tokens(22, axes(8)...)))
	for i, err := range itemErrors(t, s.Apply(t.Context(), m), len(m)) {
		n := i - 2
		switch {
		case n < 0 || n == len(bad):
			if err != nil {
				t.Errorf("mutation %d, beside bad ones: %v", i, err)
			}
		case n == 7 && err == nil:
		case !errors.Is(err, vectorstore.ErrVector) || !itemerror.IsPermanent(err):
			t.Errorf("bad object %d: error %v, want a permanent one that is ErrVector", n, err)
		case get(t, s, 10+n) != nil:
			t.Errorf("bad object %d is stored", n)
		}
	}
	check(t, s, 21, tokens(21, axes(7)...))
	check(t, s, 22, tokens(22, axes(8)...))
	for name, q := range map[string]vectorstore.Query{
		"a single vector":      {Vector: MultiVector, Near: unit(MultiDimensions, 1)},
		"of the other kind":    {Vector: TextVector, NearMulti: axes(1)},
		"of another length":    {Vector: MultiVector, NearMulti: [][]float32{{1, 0}}},
		"of different lengths": {Vector: MultiVector, NearMulti: [][]float32{{1, 0, 0, 0}, {1, 0}}},
		"not finite":           {Vector: MultiVector, NearMulti: [][]float32{{1, 0, 0, nan}}},
		"both":                 {Vector: MultiVector, Near: unit(MultiDimensions, 1), NearMulti: axes(1)},
		"beside an object":     {Vector: MultiVector, Object: ref(21).ID, NearMulti: axes(1)},
	} {
		_, err := s.Search(t.Context(), q)
		if !errors.Is(err, vectorstore.ErrVector) && !errors.Is(err, vectorstore.ErrQuery) || !itemerror.IsPermanent(err) {
			t.Errorf("%s: error %v, want a permanent one that is ErrVector or ErrQuery", name, err)
		}
	}
}

// lateInteraction is the distance of multi-vectors, as [vectorstore.Query].NearMulti has it.
func lateInteraction(near, own [][]float32) (sum float64) {
	for _, q := range near {
		least := math.Inf(1)
		for _, v := range own {
			var dot float64
			for i := range q {
				dot += float64(q[i]) * float64(v[i])
			}
			least = min(least, 1-dot/length(q)/length(v))
		}
		sum += least
	}
	return sum
}

// scattered is a store with objects that have random multi-vectors.
type scattered struct {
	random *rand.Rand
	stored map[int][][]float32
}

func scatter(t *testing.T, s vectorstore.Store) scattered {
	out := scattered{rand.New(rand.NewPCG(1, 2)), map[int][][]float32{1: axes(0)}} // holdsMulti's
	m := []vectorstore.Mutation{upsert(full(99))}
	for n := 10; n < 50; n++ {
		out.stored[n] = out.some(1 + out.random.IntN(6))
		m = append(m, upsert(tokens(n, out.stored[n]...)))
	}
	apply(t, s, m...)
	return out
}

// some returns n vectors, of lengths that differ, which must not count.
func (s scattered) some(n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, MultiDimensions)
		for j := range out[i] {
			out[i][j] = float32(s.random.NormFloat64()) * 5
		}
	}
	return out
}

// nearest returns the objects by a distance.
func (s scattered) nearest(distance func(n int) float64) []int {
	return slices.SortedFunc(maps.Keys(s.stored), func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
}

func multiSearched(t *testing.T, s vectorstore.Store) {
	if !holdsMulti(t, s) {
		return
	}
	all := scatter(t, s)
	for range 8 {
		near := all.some(1 + all.random.IntN(5))
		// A store with an index may look, for each of the vectors, at no more than Limit of those that are stored.
		q := vectorstore.Query{Vector: MultiVector, NearMulti: near, Limit: 30}
		distance := func(n int) float64 { return lateInteraction(near, all.stored[n]) }
		want := all.nearest(distance)
		found, answered := ask(t, s, q)
		if answered && (len(found) < 6 || !slices.Equal(ids(found[:6]), idsOf(want[:6]...))) {
			t.Errorf("several vectors: found %v, want first %v", ids(found), idsOf(want[:6]...))
		}
		for i, m := range found[:min(6, len(found))] {
			if d := float64(m.Distance); math.Abs(d-distance(want[i])) > 1e-4 {
				t.Errorf("the distance is %v, want %v", d, distance(want[i]))
			}
		}
		q.MaxDistance = (distance(want[2]) + distance(want[3])) / 2
		finds(t, s, "up to a distance", q, want[:3]...)
		q.MaxDistance, q.Filter = 0, vectorstore.Less("qty", 30)
		few := slices.DeleteFunc(slices.Clone(want), func(n int) bool { return n >= 30 })
		if found, answered := ask(t, s, q); answered && (len(found) < 6 || !slices.Equal(ids(found[:6]), idsOf(few[:6]...))) {
			t.Errorf("with a filter: found %v, want first %v", ids(found), idsOf(few[:6]...))
		}
	}
	of := func(n int) func(int) float64 {
		return func(m int) float64 { return lateInteraction(all.stored[n], all.stored[m]) }
	}
	found, answered := ask(t, s, vectorstore.Query{Vector: MultiVector, Object: ref(20).ID, Limit: 30})
	if want := idsOf(all.nearest(of(20))[:4]...); answered && (len(found) < 4 || !slices.Equal(ids(found[:4]), want)) {
		t.Errorf("near an object: found %v, want first %v", ids(found), want)
	}
}

func multiCombined(t *testing.T, s vectorstore.Store) {
	if !holdsMulti(t, s) {
		return
	}
	all := scatter(t, s)
	near := all.some(3)
	both := func(n int) float64 {
		return lateInteraction(near, all.stored[n]) + 1 - math.Cos(float64(n-15)*math.Pi/180)
	}
	targets := []vectorstore.Target{{Vector: MultiVector, NearMulti: near}, {Vector: TextVector, Near: unit(TextDimensions, 15)}}
	found, answered := ask(t, s, vectorstore.Query{Targets: targets, Combine: vectorstore.Sum, Limit: 1000})
	if want := all.nearest(both); answered && (len(found) != len(want) || !slices.Equal(ids(found)[:5], idsOf(want[:5]...))) {
		t.Errorf("beside a single vector: found %d, first %v; want %d, first %v", len(found), ids(found)[:min(5, len(found))], len(want), idsOf(want[:5]...))
	}
	for i, m := range found {
		if want := both(all.nearest(both)[i]); math.Abs(float64(m.Distance)-want) > 1e-4 {
			t.Fatalf("beside a single vector: distance %v, want %v", m.Distance, want)
		}
	}
}
