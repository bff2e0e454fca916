//nolint:thelper // these functions are the tests
package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

func upsertRoundTrip(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)), upsert(full(2)))
	check(t, s, 1, full(1))
	check(t, s, 2, full(2))
	if got := get(t, s, 3); got != nil {
		t.Errorf("an object that was never written is %+v", got)
	}
	bare := vectorstore.Object{Ref: ref(3)}
	apply(t, s, upsert(bare))
	check(t, s, 3, bare)
	noted := vectorstore.Object{ // an empty input: recorded, but without a vector
		Ref: ref(4), Properties: map[string]any{"title": ""}, Inputs: map[string]string{TextVector: "empty"},
		Version: `0000000000000001-x:"y"\ 'z' <&> é`,
	}
	apply(t, s, upsert(noted))
	check(t, s, 4, noted)
}

func upsertReplaces(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)))
	less := vectorstore.Object{
		Ref: ref(1), Properties: map[string]any{"title": "less", "qty": nil},
		Vectors: map[string][]float32{TextVector: unit(TextDimensions, 50), ImageVector: nil},
		Inputs:  map[string]string{TextVector: "other"}, Version: "later",
	}
	apply(t, s, upsert(less))
	check(t, s, 1, less)
	apply(t, s, upsert(vectorstore.Object{Ref: ref(1)}))
	check(t, s, 1, vectorstore.Object{Ref: ref(1)})
}

func upsertVectors(t *testing.T, s vectorstore.Store) {
	vectors := [][]float32{
		{1, 0, 0, 0}, {-1, 0, 0, 0}, {0, 0, 0, 1}, {3, -4, 12, 84}, {1e-3, 2e-3, -3e-3, 1e-4}, {0.1, 0.2, 0.3, 0.9}, {500, 1, 0.01, 0},
	}
	for i, v := range vectors {
		o := vectorstore.Object{Ref: ref(i), Vectors: map[string][]float32{TextVector: v}}
		apply(t, s, upsert(o))
		check(t, s, i, o)
	}
}

func mergeKeeps(t *testing.T, s vectorstore.Store) {
	want := full(1)
	apply(t, s, upsert(full(1)))
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Properties: map[string]any{"price": 9.5, "qty": int64(3)}, Version: "v2"}))
	want.Properties["price"], want.Properties["qty"], want.Version = 9.5, int64(3), "v2"
	check(t, s, 1, want)

	text := unit(TextDimensions, 77)
	apply(t, s, merge(vectorstore.Object{
		Ref: ref(1), Vectors: map[string][]float32{TextVector: text}, Inputs: map[string]string{TextVector: "new"},
	}))
	want.Vectors[TextVector], want.Inputs[TextVector] = text, "new"
	check(t, s, 1, want)

	apply(t, s, merge(vectorstore.Object{Ref: ref(1)}))
	check(t, s, 1, want)
	if found := search(t, s, vectorstore.Query{Vector: ImageVector, Near: want.Vectors[ImageVector]}); len(found) != 1 {
		t.Errorf("a kept vector finds %d objects", len(found))
	}
}

func mergeClears(t *testing.T, s vectorstore.Store) {
	want := full(1)
	apply(t, s, upsert(full(1)))
	apply(t, s, merge(vectorstore.Object{
		Ref: ref(1), Properties: map[string]any{"title": nil, "tags": nil, "ok": nil},
		Vectors: map[string][]float32{TextVector: nil}, Inputs: map[string]string{TextVector: "blank", ImageVector: ""},
	}))
	for _, name := range []string{"title", "tags", "ok"} {
		delete(want.Properties, name)
	}
	delete(want.Vectors, TextVector)
	want.Inputs = map[string]string{TextVector: "blank"}
	check(t, s, 1, want)
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1)}); len(found) != 0 {
		t.Errorf("a cleared vector is found: %v", ids(found))
	}
}

func mergeAbsent(t *testing.T, s vectorstore.Store) {
	apply(t, s, merge(full(1)), remove(2, "gone"))
	check(t, s, 1, full(1))
	o := full(2)
	o.Version = ""
	apply(t, s, merge(o)) // a deletion has nothing to keep, its version included
	check(t, s, 2, o)
	cleared := vectorstore.Object{
		Ref: ref(3), Properties: map[string]any{"title": nil}, Vectors: map[string][]float32{TextVector: nil},
	}
	apply(t, s, merge(cleared))
	check(t, s, 3, vectorstore.Object{Ref: ref(3)})
}

func deleteRemembers(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)), upsert(full(2)))
	apply(t, s, remove(1, "10"))
	checkDeleted(t, s, 1, "10")
	check(t, s, 2, full(2))
	apply(t, s, remove(1, "11"))
	checkDeleted(t, s, 1, "11")
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1)}); len(found) != 1 {
		t.Errorf("found %v, want the object that is not deleted alone", ids(found))
	}
	apply(t, s, upsert(full(1)))
	check(t, s, 1, full(1))
	apply(t, s, remove(1, ""))
	checkDeleted(t, s, 1, "")
}

func deleteAbsent(t *testing.T, s vectorstore.Store) {
	apply(t, s, remove(1, "20"))
	checkDeleted(t, s, 1, "20")
	apply(t, s, upsert(full(2)))
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 2)}); len(found) != 1 {
		t.Errorf("found %v, want one", ids(found))
	}
}

func applyOrder(t *testing.T, s vectorstore.Store) {
	changed := full(1)
	changed.Properties = map[string]any{"title": "changed"}
	apply(
		t, s,
		upsert(full(2)), upsert(full(1)), upsert(changed), // the last wins
		remove(3, "a"), upsert(full(3)), // a deletion, then the object again
		upsert(full(4)), remove(4, "b"), // the object, then its deletion
		upsert(full(5)), merge(vectorstore.Object{Ref: ref(5), Properties: map[string]any{"qty": int64(50)}}),
		upsert(full(6)), remove(6, "c"), merge(vectorstore.Object{Ref: ref(6), Version: "d"}),
	)
	check(t, s, 1, changed)
	check(t, s, 2, full(2))
	check(t, s, 3, full(3))
	checkDeleted(t, s, 4, "b")
	five := full(5)
	five.Properties["qty"] = int64(50)
	check(t, s, 5, five)
	check(t, s, 6, vectorstore.Object{Ref: ref(6), Version: "d"})
}

func applyIdempotent(t *testing.T, s vectorstore.Store) {
	want := full(1)
	want.Properties["title"] = "merged"
	for range 3 {
		apply(
			t, s,
			upsert(full(1)), merge(vectorstore.Object{Ref: ref(1), Properties: map[string]any{"title": "merged"}}),
			upsert(full(2)), remove(2, "x"),
		)
		check(t, s, 1, want)
		checkDeleted(t, s, 2, "x")
		if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1)}); len(found) != 1 {
			t.Fatalf("found %v, want one", ids(found))
		}
	}
}

func applyEmpty(t *testing.T, s vectorstore.Store) {
	apply(t, s)
	if got, err := s.Get(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("Get of nothing: %v, error %v", got, err)
	}
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0)}); len(found) != 0 {
		t.Errorf("an empty store finds %v", ids(found))
	}
}

func applyLarge(t *testing.T, s vectorstore.Store) {
	const count = 400
	var m []vectorstore.Mutation
	var refs []vectorstore.Ref
	for n := range count {
		m = append(m, upsert(full(n)))
		refs = append(refs, ref(n))
	}
	apply(t, s, m...)
	got, err := s.Get(t.Context(), refs)
	if err != nil || len(got) != count {
		t.Fatalf("Get: %d objects, error %v", len(got), err)
	}
	for n, o := range got {
		checkObject(t, o, full(n))
	}
}

func applyCopies(t *testing.T, s vectorstore.Store) {
	o := full(1)
	apply(t, s, upsert(o))
	o.Properties["title"], o.Vectors[TextVector][0], o.Inputs[TextVector] = "changed", 9, "changed"
	o.Properties["tags"].([]string)[0] = "changed"
	check(t, s, 1, full(1))
	got := get(t, s, 1)
	got.Properties["title"], got.Vectors[TextVector][0], got.Inputs[TextVector] = "changed", 9, "changed"
	got.Properties["tags"].([]string)[0] = "changed"
	check(t, s, 1, full(1))
}

// broken returns mutations that no store may take.
func broken() map[string]vectorstore.Mutation {
	with := func(change func(*vectorstore.Object)) vectorstore.Mutation {
		o := full(100)
		change(&o)
		return upsert(o)
	}
	vector := func(v ...float32) vectorstore.Mutation {
		return with(func(o *vectorstore.Object) { o.Vectors[TextVector] = v })
	}
	return map[string]vectorstore.Mutation{
		"no id":           with(func(o *vectorstore.Object) { o.ID = "" }),
		"no uuid":         with(func(o *vectorstore.Object) { o.ID = "product-7" }),
		"NaN":             vector(float32(math.NaN()), 1, 0, 0),
		"infinite":        vector(0, float32(math.Inf(-1)), 0, 0),
		"zero":            vector(0, 0, 0, 0),
		"too long":        vector(1, 0, 0, 0, 0),
		"too short":       vector(1, 0, 0),
		"value":           with(func(o *vectorstore.Object) { o.Properties["title"] = func() {} }),
		"no UTF-8":        with(func(o *vectorstore.Object) { o.Properties["title"] = "\xff" }),
		"unsigned":        with(func(o *vectorstore.Object) { o.Properties["qty"] = uint64(math.MaxUint64) }),
		"NaN property":    with(func(o *vectorstore.Object) { o.Properties["price"] = math.NaN() }),
		"delete, no uuid": {Action: vectorstore.Delete, Object: vectorstore.Object{Ref: vectorstore.Ref{ID: "7"}}},
		"unknown action":  {Action: 99, Object: full(100)},
	}
}

func errorsOfItems(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1))) // so that the lengths of the vectors are known
	for name, bad := range broken() {
		t.Run(name, func(t *testing.T) {
			errs := itemErrors(t, s.Apply(t.Context(), []vectorstore.Mutation{upsert(full(2)), bad, remove(3, "x")}), 3)
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("neighbours failed: %v", errs)
			}
			if !itemerror.IsPermanent(errs[1]) {
				t.Errorf("error is %v, want a permanent one", errs[1])
			}
			check(t, s, 2, full(2))
			checkDeleted(t, s, 3, "x")
			if got := get(t, s, 100); got != nil {
				t.Errorf("the refused object is stored: %+v", got)
			}
			apply(t, s, upsert(full(3)))
		})
	}
}

func errorsOfSameObject(t *testing.T, s vectorstore.Store) {
	bad := full(1)
	bad.Vectors[TextVector] = []float32{0, 0, 0, 0}
	last := full(1)
	last.Properties["title"] = "last"
	errs := itemErrors(t, s.Apply(t.Context(), []vectorstore.Mutation{
		upsert(full(1)), upsert(bad), upsert(full(2)), upsert(last), upsert(full(3)), {Action: 99, Object: full(3)},
	}), 6)
	for i, err := range errs {
		if (err != nil) != (i == 1 || i == 5) {
			t.Errorf("item %d: error %v", i, err)
		}
	}
	check(t, s, 1, last)
	check(t, s, 2, full(2))
	check(t, s, 3, full(3))
}

func errorsOfDimensions(t *testing.T, s vectorstore.Store) {
	of := func(n int, v ...float32) vectorstore.Mutation {
		return upsert(vectorstore.Object{Ref: ref(n), Vectors: map[string][]float32{TextVector: v}})
	}
	errs := itemErrors(t, s.Apply(t.Context(), []vectorstore.Mutation{
		of(1, 1, 0, 0, 0), of(2, 1, 0, 0, 0, 0, 0), of(3, 1, 0, 0, 0, 0), of(4, 0, 1, 0, 0),
	}), 4)
	for i, err := range errs {
		if (err != nil) != (i == 1 || i == 2) {
			t.Errorf("item %d: error %v; the first vector fixes the length", i, err)
		}
	}
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: []float32{1, 0, 0, 0}}); len(found) != 2 {
		t.Errorf("found %v, want two", ids(found))
	}
}

func errorsOfUpperCase(t *testing.T, s vectorstore.Store) {
	lower := vectorstore.Ref{ID: "abcdef01-0000-5000-8000-abcdefabcdef"}
	upper := vectorstore.Ref{ID: vectorstore.ID(strings.ToUpper(string(lower.ID)))}
	vectors := map[string][]float32{TextVector: unit(TextDimensions, 0)}
	apply(t, s, upsert(vectorstore.Object{Ref: lower, Vectors: vectors, Version: "lower"}))
	err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(vectorstore.Object{Ref: upper, Vectors: vectors, Version: "upper"})})
	want := "upper"
	if err != nil {
		itemErrors(t, err, 1)
		want = "lower"
	}
	got, err := s.Get(t.Context(), []vectorstore.Ref{lower})
	if err != nil || got[0] == nil || got[0].Version != want {
		t.Errorf("Get: %+v, error %v; want version %q", got, err, want)
	}
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: vectors[TextVector]}); len(found) != 1 {
		t.Errorf("found %v: two spellings of one id are two objects", ids(found))
	}
}

func contextCancelled(t *testing.T, s vectorstore.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ctx, []vectorstore.Mutation{upsert(full(1))}); err == nil {
		t.Error("Apply: no error")
	}
	if _, err := s.Get(ctx, []vectorstore.Ref{ref(1)}); err == nil {
		t.Error("Get: no error")
	}
	if _, err := s.Search(ctx, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0)}); err == nil {
		t.Error("Search: no error")
	}
	apply(t, s, upsert(full(2)))
	check(t, s, 2, full(2))
}

func concurrentKeys(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)))
	const writers, rounds = 8, 5
	failed := make(chan error, writers)
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for r := range rounds {
				n := 100 + w*rounds + r
				err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(full(n)), remove(1000+n, "x"), upsert(full(1000 + w))})
				if err == nil {
					_, err = s.Search(t.Context(), vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, float64(n))})
				}
				if err != nil {
					failed <- fmt.Errorf("writer %d: %w", w, err)
					return
				}
			}
		})
	}
	running.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for w := range writers {
		check(t, s, 1000+w, full(1000+w))
		for r := range rounds {
			n := 100 + w*rounds + r
			check(t, s, n, full(n))
			checkDeleted(t, s, 1000+n, "x")
		}
	}
}

func clearAll(t *testing.T, s vectorstore.Store) {
	c, ok := s.(vectorstore.Clearer)
	if !ok {
		t.Skip("the store is no Clearer")
	}
	apply(t, s, upsert(full(1)), upsert(full(2)), remove(3, "x"))
	if err := c.Clear(t.Context(), ""); err != nil {
		t.Fatalf("Clear: %v", err)
	}
	for n := 1; n <= 3; n++ {
		if got := get(t, s, n); got != nil {
			t.Errorf("object %d is %+v after Clear", n, got)
		}
	}
	if found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1)}); len(found) != 0 {
		t.Errorf("found %v after Clear", ids(found))
	}
	if err := c.Clear(t.Context(), ""); err != nil {
		t.Errorf("Clear of an empty store: %v", err)
	}
	apply(t, s, upsert(full(2)))
	check(t, s, 2, full(2))
}

func clearBefore(t *testing.T, s vectorstore.Store) {
	c, ok := s.(vectorstore.VersionedClearer)
	if !ok {
		t.Skip("the store is no VersionedClearer")
	}
	const old, cut, later = "0a-1f", "0a-20", "0a-20-1"
	var want []vectorstore.Object
	var m []vectorstore.Mutation
	for n := range 700 { // several pages, where a store has pages
		o := full(n)
		o.Version = []string{old, later, cut, ""}[n%4]
		if n%8 >= 4 {
			m = append(m, remove(n, o.Version))
			o = vectorstore.Object{Ref: o.Ref, Version: o.Version, Deleted: true}
		} else {
			m = append(m, upsert(o))
		}
		want = append(want, o)
	}
	apply(t, s, m...)
	refs, live := make([]vectorstore.Ref, len(want)), 0
	for n, o := range want {
		refs[n] = o.Ref
		if !o.Deleted && o.Version >= cut {
			live++
		}
	}
	for range 2 { // the second time has nothing to do
		if err := c.ClearBefore(t.Context(), "", cut); err != nil {
			t.Fatalf("ClearBefore: %v", err)
		}
		got, err := s.Get(t.Context(), refs)
		if err != nil || len(got) != len(refs) {
			t.Fatalf("Get: %d objects, error %v", len(got), err)
		}
		for n, o := range want {
			switch {
			case o.Version < cut:
				if got[n] != nil {
					t.Fatalf("object %d of version %q is %+v", n, o.Version, got[n])
				}
			case o.Deleted:
				if got[n] == nil || !got[n].Deleted || got[n].Version != o.Version {
					t.Fatalf("the deletion %d of version %q is %+v", n, o.Version, got[n])
				}
			default:
				checkObject(t, got[n], o)
			}
		}
	}
	found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 1), Limit: 1000})
	if len(found) != live {
		t.Errorf("found %d objects, want the %d that are left", len(found), live)
	}
}
