//nolint:thelper // these functions are the tests
package storetest

import (
	"math"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
)

func getAligned(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)), upsert(full(2)), remove(3, "x"))
	got, err := s.Get(t.Context(), []vectorstore.Ref{ref(9), ref(2), ref(3), ref(1), ref(2), ref(9)})
	if err != nil || len(got) != 6 {
		t.Fatalf("Get: %d objects of 6, error %v", len(got), err)
	}
	if got[0] != nil || got[5] != nil {
		t.Errorf("unknown objects are %+v and %+v", got[0], got[5])
	}
	checkObject(t, got[1], full(2))
	checkObject(t, got[3], full(1))
	checkObject(t, got[4], full(2))
	if got[2] == nil || !got[2].Deleted || got[2].Version != "x" {
		t.Errorf("the deletion is %+v", got[2])
	}
}

// fan stores an object every 10 degrees, from 10 to 170; object n is at n degrees.
func fan(t *testing.T, s vectorstore.Store) {
	t.Helper()
	var m []vectorstore.Mutation
	for n := 10; n <= 170; n += 10 {
		m = append(m, upsert(full(n)))
	}
	apply(t, s, m...)
}

func searchNearest(t *testing.T, s vectorstore.Store) {
	fan(t, s)
	q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 52), Limit: 4}
	found := search(t, s, q)
	if got := ids(found); !slices.Equal(got, idsOf(50, 60, 40, 70)) {
		t.Fatalf("found %v", got)
	}
	for i, degrees := range []float64{2, 8, 12, 18} {
		want := 1 - math.Cos(degrees*math.Pi/180)
		if got := float64(found[i].Distance); math.Abs(got-want) > 1e-4 {
			t.Errorf("distance at %v degrees is %v, want %v", degrees, got, want)
		}
	}
	nearest, want := found[0].Object, full(50)
	if len(nearest.Vectors) == 0 { // it may be left out
		nearest.Vectors = want.Vectors
	}
	checkObject(t, &nearest, want)

	for i := range q.Near { // the length of a query does not matter
		q.Near[i] *= 7
	}
	if got := ids(search(t, s, q)); !slices.Equal(got, idsOf(50, 60, 40, 70)) {
		t.Errorf("a longer query found %v", got)
	}
	opposite := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 270), Limit: 17})
	if len(opposite) != 17 || math.Abs(float64(opposite[16].Distance)-2) > 1e-4 {
		t.Errorf("the opposite direction's farthest of %d matches: %+v", len(opposite), opposite[len(opposite)-1])
	}
}

func searchLimit(t *testing.T, s vectorstore.Store) {
	fan(t, s)
	for limit, want := range map[int]int{0: vectorstore.DefaultLimit, 1: 1, 3: 3, 17: 17, 1000: 17} {
		q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 10), Limit: limit}
		found := search(t, s, q)
		if len(found) != want || found[0].Object.ID != ref(10).ID {
			t.Errorf("limit %d: found %v, want %d from %s on", limit, ids(found), want, ref(10).ID)
		}
	}
}

func searchOwnVector(t *testing.T, s vectorstore.Store) {
	text, image, none := full(1), full(2), full(3)
	delete(text.Vectors, ImageVector)
	delete(image.Vectors, TextVector)
	none.Vectors = nil
	apply(t, s, upsert(text), upsert(image), upsert(none))
	if got := ids(search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 2)})); !slices.Equal(got, idsOf(1)) {
		t.Errorf("by text found %v", got)
	}
	if got := ids(search(t, s, vectorstore.Query{Vector: ImageVector, Near: unit(ImageDimensions, 2)})); !slices.Equal(got, idsOf(2)) {
		t.Errorf("by image found %v", got)
	}
}

func searchFollowsWrites(t *testing.T, s vectorstore.Store) {
	q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1), Limit: 1}
	apply(t, s, upsert(full(1)), upsert(full(80)))
	steps := []struct {
		m    vectorstore.Mutation
		want int
	}{
		{merge(vectorstore.Object{Ref: ref(1), Vectors: map[string][]float32{TextVector: unit(TextDimensions, 179)}}), 80},
		{merge(vectorstore.Object{Ref: ref(1), Vectors: map[string][]float32{TextVector: unit(TextDimensions, 0)}}), 1},
		{remove(1, "x"), 80},
		{upsert(full(1)), 1},
	}
	for i, step := range steps {
		apply(t, s, step.m)
		if got := ids(search(t, s, q)); !slices.Equal(got, idsOf(step.want)) {
			t.Errorf("step %d: found %v, want object %d", i, got, step.want)
		}
	}
}

func searchInvalid(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)))
	nan := float32(math.NaN())
	queries := map[string]vectorstore.Query{
		"nothing":        {},
		"no vector":      {Vector: TextVector},
		"NaN":            {Vector: TextVector, Near: []float32{nan, 1, 0, 0}},
		"zero":           {Vector: TextVector, Near: make([]float32, TextDimensions)},
		"wrong length":   {Vector: TextVector, Near: unit(TextDimensions+1, 0)},
		"negative limit": {Vector: TextVector, Near: unit(TextDimensions, 0), Limit: -1},
	}
	for name, q := range queries {
		if found, err := s.Search(t.Context(), q); err == nil {
			t.Errorf("%s: no error, found %v", name, ids(found))
		}
	}
}
