package storetest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// The names of the suite's vectors, and their lengths.
const (
	TextVector      = "text_vector"
	ImageVector     = "image_vector"
	TextDimensions  = 4
	ImageDimensions = 3
)

// The name of the suite's multi-vector, and the length of its vectors.
const (
	MultiVector     = "token_vectors"
	MultiDimensions = 4
)

// Property is a property that the suite stores.
type Property struct {
	Name string
	// Type is what a value is: "text", "int", "number", "bool", "date", or with "[]" behind it a list of these.
	Type string
}

// Properties returns what the objects of the suite have. Their Go types, in this order: string, int64, float64, bool,
// time.Time, []string, string. A store that must be told so finds keywords in title, tags and body.
func Properties() []Property {
	return []Property{
		{"title", "text"}, {"qty", "int"}, {"price", "number"}, {"ok", "bool"}, {"at", "date"}, {"tags", "text[]"}, {"body", "text"},
	}
}

// Vectors returns the names of the suite's vectors with their lengths.
func Vectors() map[string]int {
	return map[string]int{TextVector: TextDimensions, ImageVector: ImageDimensions}
}

// MultiVectors returns the names of the suite's multi-vectors with the lengths of their vectors.
func MultiVectors() map[string]int { return map[string]int{MultiVector: MultiDimensions} }

// Run runs the suite; [RunTenants] and [RunRestart] have what not every store can. The factory returns an empty store each time, and cleans up after itself with t.Cleanup.
func Run(t *testing.T, factory func(t *testing.T) vectorstore.Store) {
	t.Helper()
	tests := []struct {
		name string
		run  func(t *testing.T, s vectorstore.Store)
	}{
		{"Upsert/RoundTrip", upsertRoundTrip},
		{"Values/Held", valuesHeld},
		{"Values/HeldOrRefused", valuesHeldOrRefused},
		{"Values/Merged", valuesMerged},
		{"Upsert/Replaces", upsertReplaces},
		{"Upsert/Vectors", upsertVectors},
		{"Merge/Keeps", mergeKeeps},
		{"Merge/Clears", mergeClears},
		{"Merge/Absent", mergeAbsent},
		{"Delete/Remembers", deleteRemembers},
		{"Delete/Absent", deleteAbsent},
		{"Apply/Order", applyOrder},
		{"Apply/Idempotent", applyIdempotent},
		{"Apply/Empty", applyEmpty},
		{"Apply/Large", applyLarge},
		{"Apply/Copies", applyCopies},
		{"Errors/Items", errorsOfItems},
		{"Errors/SameObject", errorsOfSameObject},
		{"Errors/Dimensions", errorsOfDimensions},
		{"Errors/UpperCase", errorsOfUpperCase},
		{"Get/Aligned", getAligned},
		{"Search/Nearest", searchNearest},
		{"Search/Limit", searchLimit},
		{"Search/OwnVector", searchOwnVector},
		{"Search/FollowsWrites", searchFollowsWrites},
		{"Search/Invalid", searchInvalid},
		{"Query/Filters", queryFilters},
		{"Query/LargeIntegers", queryLargeIntegers},
		{"Query/Places", queryPlaces},
		{"Query/Object", queryObject},
		{"Query/Targets", queryTargets},
		{"Query/Pages", queryPages},
		{"Query/All", queryAll},
		{"Query/Groups", queryGroups},
		{"Query/Nulls", queryNulls},
		{"Query/Keywords", queryKeywords},
		{"Query/KeywordsAfterWrites", queryKeywordsAfterWrites},
		{"Query/Invalid", queryInvalid},
		{"Query/Random", queryRandom},
		{"MultiVectors/Stored", multiStored},
		{"MultiVectors/Errors", multiErrors},
		{"MultiVectors/Searched", multiSearched},
		{"MultiVectors/Combined", multiCombined},
		{"Context/Cancelled", contextCancelled},
		{"Concurrent/Keys", concurrentKeys},
		{"ApplyIf", applyIf},
		{"Sink", sinkGuards},
		{"Reconcile", sinkReconciles},
		{"Clear", clearAll},
		{"ClearBefore", clearBefore},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, factory(t)) })
	}
}

// ref returns the suite's n-th object's Ref.
func ref(n int) vectorstore.Ref {
	return vectorstore.Ref{ID: vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-%012x", n, n))}
}

// unit returns the vector of a direction in the plane of the first two axes, in degrees, with dims components.
func unit(dims int, degrees float64) []float32 {
	v := make([]float32, dims)
	v[0], v[1] = float32(math.Cos(degrees*math.Pi/180)), float32(math.Sin(degrees*math.Pi/180))
	return v
}

// full returns an object with something in every field; objects of different n differ in every value.
func full(n int) vectorstore.Object {
	return vectorstore.Object{
		Ref: ref(n),
		Properties: map[string]any{
			"title": fmt.Sprintf("title %d", n),
			"qty":   int64(n),
			"price": float64(n) + 0.25,
			"ok":    n%2 == 1,
			"at":    time.Date(2024, 2, 29, 12, 34, n%60, 123456000, time.UTC),
			"tags":  []string{"a", fmt.Sprint(n)},
		},
		Vectors: map[string][]float32{
			TextVector:  unit(TextDimensions, float64(n)),
			ImageVector: unit(ImageDimensions, 90+float64(n)),
		},
		Inputs:  map[string]string{TextVector: fmt.Sprintf("text-%d", n), ImageVector: fmt.Sprintf("image-%d", n)},
		Version: fmt.Sprintf("version-%d", n),
	}
}

func upsert(o vectorstore.Object) vectorstore.Mutation {
	return vectorstore.Mutation{Action: vectorstore.Upsert, Object: o}
}

func merge(o vectorstore.Object) vectorstore.Mutation {
	return vectorstore.Mutation{Action: vectorstore.Merge, Object: o}
}

func remove(n int, version string) vectorstore.Mutation {
	return vectorstore.Mutation{Action: vectorstore.Delete, Object: vectorstore.Object{Ref: ref(n), Version: version}}
}

// apply fails the test unless the store takes all mutations.
func apply(t *testing.T, s vectorstore.Store, m ...vectorstore.Mutation) {
	t.Helper()
	if err := s.Apply(t.Context(), m); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

// get returns what the store knows of the n-th object.
func get(t *testing.T, s vectorstore.Store, n int) *vectorstore.Object {
	t.Helper()
	got, err := s.Get(t.Context(), []vectorstore.Ref{ref(n)})
	if err != nil || len(got) != 1 {
		t.Fatalf("Get: %d objects of 1, error %v", len(got), err)
	}
	return got[0]
}

// check fails the test unless the store has the object, live and with nothing else.
func check(t *testing.T, s vectorstore.Store, n int, want vectorstore.Object) {
	t.Helper()
	checkObject(t, get(t, s, n), want)
}

func checkObject(t *testing.T, got *vectorstore.Object, want vectorstore.Object) {
	t.Helper()
	switch {
	case got == nil:
		t.Errorf("object %s is unknown", want.ID)
		return
	case got.Deleted:
		t.Errorf("object %s is deleted", want.ID)
		return
	case got.Ref != want.Ref:
		t.Errorf("Ref is %+v, want %+v", got.Ref, want.Ref)
	case got.Version != want.Version:
		t.Errorf("object %s: Version is %q, want %q", want.ID, got.Version, want.Version)
	}
	for name := range union(got.Properties, want.Properties) {
		if g, w := got.Properties[name], want.Properties[name]; !equalValue(g, w) {
			t.Errorf("object %s: property %s is %#v, want %#v", want.ID, name, g, w)
		}
	}
	for name := range union(got.Vectors, want.Vectors) {
		if g, w := got.Vectors[name], want.Vectors[name]; !equalVector(g, w) {
			t.Errorf("object %s: vector %s is %v, want %v", want.ID, name, g, w)
		}
	}
	for name := range union(got.MultiVectors, want.MultiVectors) {
		if g, w := got.MultiVectors[name], want.MultiVectors[name]; !slices.EqualFunc(g, w, equalVector) {
			t.Errorf("object %s: multi-vector %s is %v, want %v", want.ID, name, g, w)
		}
	}
	for name := range union(got.Inputs, want.Inputs) {
		if g, w := got.Inputs[name], want.Inputs[name]; g != w {
			t.Errorf("object %s: input of %s is %q, want %q", want.ID, name, g, w)
		}
	}
}

// checkDeleted fails the test unless the store remembers that the object was deleted, and at which version.
func checkDeleted(t *testing.T, s vectorstore.Store, n int, version string) {
	t.Helper()
	got := get(t, s, n)
	if got == nil || !got.Deleted || got.Version != version || got.Ref != ref(n) {
		t.Errorf("object %s is %+v, want a deletion at version %q", ref(n).ID, got, version)
		return
	}
	if len(got.Properties)+len(got.Vectors)+len(got.MultiVectors)+len(got.Inputs) > 0 {
		t.Errorf("deletion of %s has more than Ref and Version: %+v", ref(n).ID, got)
	}
}

func union[V any](a, b map[string]V) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

// equalValue compares times by instant, anything else by type and value.
func equalValue(a, b any) bool {
	if t, ok := a.(time.Time); ok {
		u, ok := b.(time.Time)
		return ok && t.Equal(u)
	}
	return reflect.DeepEqual(a, b)
}

// equalVector compares component by component to within 1e-6, after both are normalized.
func equalVector(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	na, nb := length(a), length(b)
	for i := range a {
		if !(math.Abs(float64(a[i])/na-float64(b[i])/nb) <= 1e-6) { // so that NaN is unequal
			return false
		}
	}
	return true
}

func length(v []float32) float64 {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	return math.Sqrt(squares)
}

// itemErrors returns err's item errors, and fails the test unless there are n.
func itemErrors(t *testing.T, err error, n int) []error {
	t.Helper()
	var items interface{ ItemErrors() []error }
	if !errors.As(err, &items) || len(items.ItemErrors()) != n {
		t.Fatalf("error %v has no %d item errors", err, n)
	}
	return items.ItemErrors()
}

// search returns the numbers of the objects found, nearest first.
func search(t *testing.T, s vectorstore.Store, q vectorstore.Query) []vectorstore.Match {
	t.Helper()
	found, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("Search: %v", err)
	}
	return found
}

func ids(found []vectorstore.Match) []vectorstore.ID {
	out := make([]vectorstore.ID, len(found))
	for i, m := range found {
		out[i] = m.Object.ID
	}
	return out
}

func idsOf(ns ...int) []vectorstore.ID {
	out := make([]vectorstore.ID, len(ns))
	for i, n := range ns {
		out[i] = ref(n).ID
	}
	return out
}
