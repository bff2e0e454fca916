//nolint:thelper // these functions are the tests
package storetest

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// valuesHeld are values that every store holds, as the types that vectorstore.Value returns.
func valuesHeld(t *testing.T, s vectorstore.Store) {
	values := map[string][]any{
		"title": {
			"plain", "", " ", "\"quoted\" 'it' \\back\\", "tab\tnew\nline", "日本語 😀 é é", "<b>&amp;%s%d \u2028", "2024-02-29T12:00:00Z",
			strings.Repeat("long ", 20_000),
		},
		"qty":   {int64(0), int64(-1), int64(1 << 53), int64(-1 << 53), int64(math.MaxInt32) + 1},
		"price": {0.0, -0.5, 0.1, 3.0, 1e300, 5e-324, math.MaxFloat64, float64(1 << 53)},
		"ok":    {true, false},
		"at": {
			time.Unix(0, 0).UTC(), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
			time.Date(2024, 2, 29, 23, 59, 59, 1000, time.FixedZone("", 5*3600+1800)),
			time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		},
		"tags": {[]string{"one"}, []string{"a", "b", "a"}, []string{"", "日本"}},
	}
	n := 0
	for _, p := range Properties() {
		for _, v := range append(values[p.Name], nil) {
			n++
			o := vectorstore.Object{Ref: ref(n), Properties: map[string]any{p.Name: v}}
			apply(t, s, upsert(o))
			check(t, s, n, o)
		}
	}
	times := randomTimes(t)
	r := random{rand.New(rand.NewPCG(uint64(times), 3))}
	var m []vectorstore.Mutation
	for range 100 * times {
		n++
		o := vectorstore.Object{Ref: ref(n), Properties: map[string]any{}}
		for _, p := range Properties() {
			o.Properties[p.Name] = r.held(p.Type)
		}
		m = append(m, upsert(o))
	}
	apply(t, s, m...)
	got, err := s.Get(t.Context(), refsOf(m))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range got {
		checkObject(t, o, m[i].Object)
	}
}

func refsOf(m []vectorstore.Mutation) (refs []vectorstore.Ref) {
	for i := range m {
		refs = append(refs, m[i].Object.Ref)
	}
	return refs
}

// address is an object in an object.
func address(city string) map[string]any {
	return map[string]any{
		"city": city, "floor": 2.5, "since": time.Date(2020, 5, 17, 0, 0, 0, 0, time.UTC), "names": []string{"a", city},
		"door": map[string]any{"code": "0" + city, "open": true},
	}
}

// valuesHeldOrRefused are values that a store holds as they are, or refuses with ErrValue; each is in a property of its own.
func valuesHeldOrRefused(t *testing.T, s vectorstore.Store) {
	day := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	held := 0
	values := map[string]any{
		"zero_byte":       "\x00\x7f",
		"beyond_2_53":     int64(1<<53 + 1),
		"most_negative":   int64(math.MinInt64),
		"greatest":        int64(math.MaxInt64),
		"integers":        []int64{0, -1, 1 << 53},
		"long_integers":   []int64{1<<53 + 1, math.MaxInt64},
		"numbers":         []float64{0.5, 3, -1e300},
		"bools":           []bool{true, false, true},
		"dates":           []time.Time{day, day.Add(time.Microsecond)},
		"no_texts":        []string{},
		"no_integers":     []int64{},
		"no_numbers":      []float64{},
		"no_dates":        []time.Time{},
		"year_10000":      time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"nanoseconds":     day.Add(1),
		"object":          address("Oslo"),
		"objects":         []map[string]any{address("Oslo"), address("Rome")},
		"objects_differ":  []map[string]any{{"city": "Oslo"}, {"city": "Rome", "floor": 1.5}},
		"empty_object":    map[string]any{},
		"no_objects":      []map[string]any{},
		"place":           vectorstore.Geo{Latitude: 52.520008, Longitude: -13.404954},
		"south":           &vectorstore.Geo{Latitude: -90, Longitude: 180},
		"phone":           vectorstore.Phone{Input: "+49 30 901820"},
		"national_phone":  vectorstore.Phone{Input: "030 901820", Country: "DE"},
		"no_phone":        vectorstore.Phone{Input: "+0"},
		"deep_place":      map[string]any{"at": vectorstore.Geo{Latitude: 1.5}},
		"deep":            map[string]any{"a": map[string]any{"b": map[string]any{"c": map[string]any{"d": "e"}}}},
		"object_integers": map[string]any{"n": int64(7), "list": []int64{1, 2}},
	}
	for i, name := range slices.Sorted(maps.Keys(values)) {
		n := 10 + i
		o := vectorstore.Object{Ref: ref(n), Properties: map[string]any{name: values[name], "title": name}}
		err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(o)})
		if err == nil {
			held++
			if o.Properties[name], err = vectorstore.Value(values[name]); err != nil {
				t.Fatal(err)
			}
			check(t, s, n, o)
			continue
		}
		t.Logf("%s is refused: %v", name, err)
		if !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
			t.Errorf("%s: error %v, want a permanent one that is ErrValue", name, err)
		}
		if got := get(t, s, n); got != nil {
			t.Errorf("%s was refused, and is stored: %+v", name, got)
		}
	}
	t.Logf("%d of %d values are held", held, len(values))
}

// valuesMerged says that a Merge replaces a property whole, whatever its type was, and leaves no part of it.
func valuesMerged(t *testing.T, s vectorstore.Store) {
	of := func(v any) vectorstore.Object {
		return vectorstore.Object{Ref: ref(1), Properties: map[string]any{"title": "kept", "house": v}}
	}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(of(address("Oslo")))}); errors.Is(err, vectorstore.ErrValue) {
		t.Logf("the store holds no objects: %v", err)
		return
	}
	check(t, s, 1, of(address("Oslo")))
	less := map[string]any{"city": "Rome", "door": map[string]any{"open": false}}
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Properties: map[string]any{"house": less}}))
	check(t, s, 1, of(less))
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Version: "v"}))
	want := of(less)
	want.Version = "v"
	check(t, s, 1, want)
	apply(t, s, merge(vectorstore.Object{Ref: ref(1), Properties: map[string]any{"house": nil}}))
	want.Properties = map[string]any{"title": "kept"}
	check(t, s, 1, want)
}
