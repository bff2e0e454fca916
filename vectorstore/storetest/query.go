//nolint:thelper // these functions are the tests
package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// ask returns what a query finds, and false where the store says that it does not answer such queries.
func ask(t *testing.T, s vectorstore.Store, q vectorstore.Query) ([]vectorstore.Match, bool) {
	t.Helper()
	found, err := s.Search(t.Context(), q)
	if errors.Is(err, vectorstore.ErrUnsupported) {
		if !itemerror.IsPermanent(err) {
			t.Errorf("what is unsupported is no permanent error: %v", err)
		}
		t.Logf("the store says: %v", err)
		return nil, false
	}
	if err != nil {
		t.Fatalf("Search: %v", err)
	}
	return found, true
}

// finds fails the test unless a query finds exactly these objects in this order, or the store does not answer such queries.
func finds(t *testing.T, s vectorstore.Store, what string, q vectorstore.Query, ns ...int) []vectorstore.Match {
	t.Helper()
	found, answered := ask(t, s, q)
	if got := ids(found); answered && !slices.Equal(got, idsOf(ns...)) {
		t.Errorf("%s: found %v, want %v", what, got, idsOf(ns...))
	}
	return found
}

// sorted returns the matches by id.
func sorted(found []vectorstore.Match) []vectorstore.ID {
	got := ids(found)
	slices.Sort(got)
	return got
}

func queryFilters(t *testing.T, s vectorstore.Store) {
	var m []vectorstore.Mutation
	for n := 1; n <= 5; n++ {
		o := full(n)
		o.Properties["tags"] = []string{"every", fmt.Sprint(n)}
		m = append(m, upsert(o))
	}
	bare := full(6) // has a vector, and no property
	bare.Properties = nil
	apply(t, s, append(m, upsert(bare), upsert(full(7)), remove(7, "x"))...)
	at := full(3).Properties["at"]
	for name, tt := range map[string]struct {
		f    vectorstore.Filter
		want []int
	}{
		"text":                {vectorstore.Equal("title", "title 3"), []int{3}},
		"not the text":        {vectorstore.NotEqual("tags", "3"), []int{1, 2, 4, 5, 6}},
		"like":                {vectorstore.Like("title", "titl*"), []int{1, 2, 3, 4, 5}},
		"like, a letter":      {vectorstore.Like("tags", "?"), []int{1, 2, 3, 4, 5}},
		"like nothing":        {vectorstore.Like("title", "titles*"), nil},
		"integer":             {vectorstore.Equal("qty", 2), []int{2}},
		"not the integer":     {vectorstore.NotEqual("qty", 2), []int{1, 3, 4, 5, 6}},
		"less":                {vectorstore.Less("qty", 2), []int{1}},
		"less or equal":       {vectorstore.LessOrEqual("qty", int8(2)), []int{1, 2}},
		"greater":             {vectorstore.Greater("qty", 4), []int{5}},
		"greater or equal":    {vectorstore.GreaterOrEqual("qty", uint16(4)), []int{4, 5}},
		"number":              {vectorstore.Equal("price", 4.25), []int{4}},
		"number and integer":  {vectorstore.Greater("price", 4), []int{4, 5}},
		"number below":        {vectorstore.Less("price", -1e300), nil},
		"bool":                {vectorstore.Equal("ok", true), []int{1, 3, 5}},
		"not the bool":        {vectorstore.NotEqual("ok", true), []int{2, 4, 6}},
		"date":                {vectorstore.Equal("at", at), []int{3}},
		"date, other zone":    {vectorstore.Equal("at", at.(time.Time).In(time.FixedZone("", 7200))), []int{3}},
		"before":              {vectorstore.Less("at", at), []int{1, 2}},
		"from then on":        {vectorstore.GreaterOrEqual("at", at), []int{3, 4, 5}},
		"item of a list":      {vectorstore.Equal("tags", "4"), []int{4}},
		"item of all":         {vectorstore.Equal("tags", "every"), []int{1, 2, 3, 4, 5}},
		"any":                 {vectorstore.ContainsAny("tags", []string{"2", "5", "none"}), []int{2, 5}},
		"any of integers":     {vectorstore.ContainsAny("qty", []int{1, 3}), []int{1, 3}},
		"all":                 {vectorstore.ContainsAll("tags", []string{"every", "5"}), []int{5}},
		"all, one is lacking": {vectorstore.ContainsAll("tags", []string{"2", "5"}), nil},
		"ids":                 {vectorstore.IDs(ref(2).ID, ref(6).ID, ref(7).ID, ref(99).ID), []int{2, 6}},
		"and":                 {vectorstore.And(vectorstore.Equal("ok", true), vectorstore.Greater("qty", 1)), []int{3, 5}},
		"not":                 {vectorstore.Not(vectorstore.And(vectorstore.Greater("qty", 1), vectorstore.Equal("ok", false))), []int{1, 3, 5, 6}},
		"not any":             {vectorstore.Not(vectorstore.ContainsAny("qty", []int{1, 3})), []int{2, 4, 5, 6}},
		"not less, and there": {vectorstore.And(vectorstore.Not(vectorstore.Less("qty", 3)), vectorstore.Not(vectorstore.Equal("title", "title 4"))), []int{3, 5, 6}},
		"not not":             {vectorstore.Not(vectorstore.NotEqual("qty", 3)), []int{3}},
		"not these ids":       {vectorstore.Not(vectorstore.IDs(ref(2).ID, ref(99).ID)), []int{1, 3, 4, 5, 6}},
		"or":                  {vectorstore.Or(vectorstore.Equal("qty", 1), vectorstore.And(vectorstore.Equal("ok", false), vectorstore.Less("price", 3))), []int{1, 2}},
	} {
		got, answered := ask(t, s, vectorstore.Query{Filter: tt.f})
		if answered && !slices.Equal(sorted(got), idsOf(tt.want...)) {
			t.Errorf("%s: found %v, want %v", name, sorted(got), idsOf(tt.want...))
		}
		q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0), Filter: tt.f} // the nearer, the less its number
		finds(t, s, name+", near", q, tt.want...)
	}
}

func queryNulls(t *testing.T, s vectorstore.Store) {
	var m []vectorstore.Mutation
	for n := 1; n <= 7; n++ {
		o := full(n)
		o.Properties["body"] = "some words"
		m = append(m, upsert(o))
	}
	for name, nothing := range map[string]any{"title": "", "tags": []string{}, "qty": nil, "at": nil} {
		m[1].Object.Properties[name] = nothing
	}
	m[2].Object.Properties = nil
	apply(t, s, m...)
	apply(t, s, merge(vectorstore.Object{Ref: ref(4), Properties: map[string]any{"title": nil, "price": nil, "qty": int64(0), "ok": false}}))
	apply(t, s, upsert(full(5)), upsert(full(6)), remove(7, "x")) // 5 and 6 have no body any more
	for name, want := range map[string][]int{
		"title": {2, 3, 4}, "qty": {2, 3}, "price": {3, 4}, "ok": {3}, "at": {2, 3}, "tags": {2, 3}, "body": {3, 5, 6},
	} {
		for _, there := range []bool{false, true} {
			f := vectorstore.IsNull(name)
			if there {
				f = vectorstore.Not(f)
				want = slices.DeleteFunc([]int{1, 2, 3, 4, 5, 6}, func(n int) bool { return slices.Contains(want, n) })
			}
			found, answered := ask(t, s, vectorstore.Query{Filter: f})
			if answered && !slices.Equal(sorted(found), idsOf(want...)) {
				t.Errorf("%s is there: %v: found %v, want %v", name, there, sorted(found), idsOf(want...))
			}
		}
	}
	f := vectorstore.And(vectorstore.Not(vectorstore.Equal("qty", 1)), vectorstore.Not(vectorstore.IsNull("qty")))
	finds(t, s, "another value", vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0), Filter: f}, 4, 5, 6)
}

// queryLargeIntegers compares integers that have no float64 of their own, where the store holds them.
func queryLargeIntegers(t *testing.T, s vectorstore.Store) {
	for n, qty := range []int64{1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		o := full(1 + n)
		o.Properties["qty"] = qty
		if err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(o)}); errors.Is(err, vectorstore.ErrValue) {
			t.Logf("the store does not hold %d: %v", qty, err)
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		f    vectorstore.Filter
		want []int
	}{
		{vectorstore.Equal("qty", float64(1<<53)), []int{1}},
		{vectorstore.Greater("qty", float64(1<<53)), []int{2, 3, 4}},
		{vectorstore.Less("qty", float64(1<<53+2)), []int{1, 2}},
		{vectorstore.GreaterOrEqual("qty", math.MaxInt64), []int{4}},
		{vectorstore.LessOrEqual("qty", float64(math.MaxInt64)), []int{1, 2, 3, 4}}, // which is one more
		{vectorstore.Greater("qty", -0.5), []int{1, 2, 3, 4}},
	} {
		if got := sorted(search(t, s, vectorstore.Query{Filter: tt.f})); !slices.Equal(got, idsOf(tt.want...)) {
			t.Errorf("%+v: found %v, want %v", tt.f, got, idsOf(tt.want...))
		}
	}
}

func queryPlaces(t *testing.T, s vectorstore.Store) {
	places := []vectorstore.Geo{{}, {Latitude: 52.520008, Longitude: 13.404954}, {Latitude: 52.39, Longitude: 13.06}, {Latitude: 48.137154, Longitude: 11.576124}, {Latitude: 52.5, Longitude: -179.9}}
	for n := 1; n < len(places); n++ { // Berlin, Potsdam, Munich, and the other side of the earth
		o := full(n)
		o.Properties["place"] = places[n]
		if err := s.Apply(t.Context(), []vectorstore.Mutation{upsert(o)}); errors.Is(err, vectorstore.ErrValue) {
			t.Logf("the store holds no places: %v", err)
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	apply(t, s, upsert(full(9)))
	for metres, want := range map[float64][]int{20: {1}, 20_000: {1}, 30_000: {1, 2}, 520_000: {1, 2, 3}, 2e7: {1, 2, 3, 4}} {
		found, answered := ask(t, s, vectorstore.Query{Filter: vectorstore.Within("place", places[1], metres)})
		if answered && !slices.Equal(sorted(found), idsOf(want...)) {
			t.Errorf("within %v m: found %v, want %v", metres, sorted(found), idsOf(want...))
		}
	}
	found, answered := ask(t, s, vectorstore.Query{Filter: vectorstore.Within("place", vectorstore.Geo{Latitude: 52.5, Longitude: 179.9}, 20_000)})
	if answered && !slices.Equal(sorted(found), idsOf(4)) {
		t.Errorf("across the date line: found %v", sorted(found))
	}
}

func queryObject(t *testing.T, s vectorstore.Store) {
	fan(t, s)
	finds(t, s, "near an object", vectorstore.Query{Object: ref(50).ID, Vector: TextVector, Limit: 2, Filter: vectorstore.Less("qty", 60)}, 50, 40)
	targets := []vectorstore.Target{{Vector: TextVector}, {Vector: ImageVector}}
	finds(t, s, "by two vectors", vectorstore.Query{Object: ref(170).ID, Targets: targets, Combine: vectorstore.Sum, Limit: 2}, 170, 160)
	if _, err := s.Search(t.Context(), vectorstore.Query{Object: ref(1).ID, Vector: TextVector}); err == nil {
		t.Error("near an object that is not there: no error")
	}
}

func queryTargets(t *testing.T, s vectorstore.Store) {
	fan(t, s)
	lacks := full(85)
	delete(lacks.Vectors, ImageVector)
	apply(t, s, upsert(lacks))
	// Object n has its text at n degrees and its image at 90+n: the text is sought at 40, the image at that of 130.
	targets := func(text, image float32) []vectorstore.Target {
		return []vectorstore.Target{
			{Vector: TextVector, Near: unit(TextDimensions, 40), Weight: text},
			{Vector: ImageVector, Near: unit(ImageDimensions, 90+130), Weight: image},
		}
	}
	away := func(degrees float64) float64 { return 1 - math.Cos(degrees*math.Pi/180) }
	for name, tt := range map[string]struct {
		q        vectorstore.Query
		count    int
		first    []int
		distance float64
	}{
		"sum":      {vectorstore.Query{Targets: targets(0, 0), Combine: vectorstore.Sum, Limit: 1000}, 17, []int{80, 90}, away(40) + away(50)},
		"average":  {vectorstore.Query{Targets: targets(0, 0), Combine: vectorstore.Average, Limit: 1000}, 17, []int{80, 90}, (away(40) + away(50)) / 2},
		"minimum":  {vectorstore.Query{Targets: targets(0, 0), Limit: 1000}, 18, []int{40, 130}, 0},
		"weighted": {vectorstore.Query{Targets: targets(1, 9), Combine: vectorstore.WeightedSum, Limit: 1000}, 17, []int{120}, away(80) + 9*away(10)},
		"scaled":   {vectorstore.Query{Targets: targets(1, 9), Combine: vectorstore.RelativeScore, Limit: 1000}, 17, []int{120, 130}, -1},
	} {
		found, answered := ask(t, s, tt.q)
		if !answered {
			continue
		}
		if len(found) != tt.count || !slices.Contains(idsOf(tt.first...), found[0].Object.ID) {
			t.Errorf("%s: found %d, first %v; want %d, the first of %v", name, len(found), ids(found[:min(2, len(found))]), tt.count, tt.first)
			continue
		}
		if d := float64(found[0].Distance); tt.distance >= 0 && math.Abs(d-tt.distance) > 1e-4 {
			t.Errorf("%s: distance %v, want %v", name, d, tt.distance)
		}
	}
}

func queryPages(t *testing.T, s vectorstore.Store) {
	fan(t, s)
	near := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 10), Limit: 3, Offset: 2}
	finds(t, s, "offset", near, 30, 40, 50)
	near.Offset = 16
	finds(t, s, "the last page", near, 170)
	near.Offset = 20
	finds(t, s, "beyond the end", near)
	finds(t, s, "within a distance", vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 41), MaxDistance: 0.02}, 40, 50, 30)
	found := search(t, s, vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 10), Limit: 1, WithVectors: true})
	checkObject(t, &found[0].Object, full(10))
}

func queryAll(t *testing.T, s vectorstore.Store) {
	const count = 600 // several pages
	var m []vectorstore.Mutation
	for n := 1; n <= count; n++ {
		m = append(m, upsert(full(n)))
	}
	apply(t, s, append(m, remove(5, "x"), remove(count, "x"))...)
	if _, answered := ask(t, s, vectorstore.Query{After: vectorstore.First}); !answered {
		return
	}
	n := 0
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 5 {
			n++
		}
		if o.Ref != ref(n) {
			t.Fatalf("object %d is %s", n, o.ID)
		}
		if n%50 == 0 {
			checkObject(t, o, full(n))
		}
	}
	if n != count-1 {
		t.Errorf("the last is %d", n)
	}
	finds(t, s, "a page", vectorstore.Query{After: ref(590).ID, Limit: 2}, 591, 592)
	finds(t, s, "a page of some", vectorstore.Query{After: ref(4).ID, Limit: 2, Filter: vectorstore.Equal("ok", true)}, 7, 9)
}

func queryGroups(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)), upsert(full(2)), upsert(full(3)), upsert(full(4)), upsert(full(5)))
	for _, tt := range []struct {
		by     vectorstore.GroupBy
		want   []int
		groups []string
	}{
		{vectorstore.GroupBy{Property: "ok", Groups: 2, Each: 2}, []int{1, 3, 2, 4}, []string{"true", "true", "false", "false"}},
		{vectorstore.GroupBy{Property: "ok", Groups: 1, Each: 5}, []int{1, 3, 5}, []string{"true", "true", "true"}},
		{vectorstore.GroupBy{Property: "title", Groups: 3, Each: 1}, []int{1, 2, 3}, []string{"title 1", "title 2", "title 3"}},
		{vectorstore.GroupBy{Property: "price", Groups: 2, Each: 1}, []int{1, 2}, []string{"1.25", "2.25"}},
	} {
		q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0), GroupBy: tt.by}
		for i, m := range finds(t, s, fmt.Sprint("groups ", tt.by), q, tt.want...) {
			if i < len(tt.groups) && m.Group != tt.groups[i] {
				t.Errorf("groups %v: match %d is in group %q, want %q", tt.by, i, m.Group, tt.groups[i])
			}
		}
	}
}

func queryKeywords(t *testing.T, s vectorstore.Store) {
	titles := []string{"", "a red tent", "a green tent for two", "red shoes", "a mug", "a red mug, red inside and outside"}
	var m []vectorstore.Mutation
	for n := 1; n < len(titles); n++ {
		o := full(n)
		o.Properties["title"], o.Properties["tags"] = titles[n], []string{"all"}
		m = append(m, upsert(o))
	}
	apply(t, s, m...)
	for name, tt := range map[string]struct {
		q    vectorstore.Query
		want []int
	}{
		"a word":          {vectorstore.Query{Text: "tent"}, []int{1, 2}},
		"any of words":    {vectorstore.Query{Text: "Tent MUG"}, []int{1, 2, 4, 5}},
		"no such word":    {vectorstore.Query{Text: "kettle"}, nil},
		"of a property":   {vectorstore.Query{Text: "all red", Properties: []string{"title^2"}}, []int{1, 3, 5}},
		"of a decimal":    {vectorstore.Query{Text: "all red", Properties: []string{"title^2.0"}}, []int{1, 3, 5}},
		"with a filter":   {vectorstore.Query{Text: "red", Filter: vectorstore.Greater("qty", 1)}, []int{3, 5}},
		"by text, hybrid": {vectorstore.Query{Text: "shoes", Vector: TextVector, Near: unit(TextDimensions, 1), Alpha: 0.01, Limit: 1}, []int{3}},
		"by vector":       {vectorstore.Query{Text: "shoes", Vector: TextVector, Near: unit(TextDimensions, 1), Alpha: 1, Limit: 2}, []int{1, 2}},
		"by ranks": {
			vectorstore.Query{Text: "green", Vector: TextVector, Near: unit(TextDimensions, 2), RankedFusion: true, Alpha: 0.5, Limit: 1},
			[]int{2},
		},
	} {
		found, answered := ask(t, s, tt.q)
		if answered && !slices.Equal(sorted(found), idsOf(tt.want...)) {
			t.Errorf("%s: found %v, want %v", name, sorted(found), idsOf(tt.want...))
		}
		for i, m := range found {
			if m.Score < 0 || i > 0 && m.Score > found[i-1].Score {
				t.Errorf("%s: the scores do not fall: %+v", name, m)
			}
		}
	}
	if found, answered := ask(t, s, vectorstore.Query{Text: "tent", Properties: []string{"title"}}); answered && found[0].Object.ID != ref(1).ID {
		t.Errorf("the shorter text does not come first: %v", ids(found))
	}
}

// queryKeywordsAfterWrites says that words are found where they are, and nowhere that they were.
func queryKeywordsAfterWrites(t *testing.T, s vectorstore.Store) {
	o := func(n int, title string, tags ...string) vectorstore.Object {
		o := full(n)
		o.Properties["title"], o.Properties["tags"] = title, tags
		return o
	}
	apply(t, s, upsert(o(1, "red tent")), upsert(o(2, "green tent", "camp")), upsert(o(3, "mug")), upsert(o(4, "tent")))
	apply(t, s, upsert(o(1, "blue boat")), merge(vectorstore.Object{Ref: ref(2), Properties: map[string]any{"title": "Zelt"}}), remove(4, "x"))
	apply(t, s, merge(vectorstore.Object{Ref: ref(3), Properties: map[string]any{"tags": []string{"cup", "Camp"}}}))
	without := full(5)
	without.Properties = map[string]any{"title": nil}
	apply(t, s, upsert(o(5, "lamp")), upsert(without))
	for text, want := range map[string][]int{"tent": nil, "red": nil, "boat": {1}, "zelt": {2}, "camp": {2, 3}, "mug CUP": {3}, "lamp": nil} {
		found, answered := ask(t, s, vectorstore.Query{Text: text})
		if answered && !slices.Equal(sorted(found), idsOf(want...)) {
			t.Errorf("%s: found %v, want %v", text, sorted(found), idsOf(want...))
		}
	}
	apply(t, s, merge(vectorstore.Object{Ref: ref(3), Properties: map[string]any{"title": nil}}))
	finds(t, s, "what was cleared", vectorstore.Query{Text: "mug"})
}

func queryInvalid(t *testing.T, s vectorstore.Store) {
	apply(t, s, upsert(full(1)))
	near := func(change func(*vectorstore.Query)) vectorstore.Query {
		q := vectorstore.Query{Vector: TextVector, Near: unit(TextDimensions, 0)}
		change(&q)
		return q
	}
	type query = *vectorstore.Query
	for name, q := range map[string]vectorstore.Query{
		"offset":        near(func(q query) { q.Offset = -1 }),
		"autocut":       near(func(q query) { q.Autocut = -1 }),
		"alpha":         near(func(q query) { q.Text, q.Alpha = "a", 1.5 }),
		"distance":      near(func(q query) { q.MaxDistance = math.NaN() }),
		"combination":   near(func(q query) { q.Combine = 9 }),
		"group":         near(func(q query) { q.GroupBy.Property = "title" }),
		"object, near":  near(func(q query) { q.Object = ref(1).ID }),
		"near, targets": near(func(q query) { q.Targets = []vectorstore.Target{{Vector: ImageVector, Near: unit(ImageDimensions, 0)}} }),
		"near, after":   near(func(q query) { q.After = vectorstore.First }),
		"twice":         {Targets: []vectorstore.Target{{Vector: TextVector, Near: unit(TextDimensions, 0)}, {Vector: TextVector, Near: unit(TextDimensions, 1)}}},
		"weight":        {Targets: []vectorstore.Target{{Vector: TextVector, Near: unit(TextDimensions, 0), Weight: -1}}},
		"object":        {Object: "7", Vector: TextVector},
		"after":         {After: "7"},
		"properties":    {Properties: []string{"title"}},
		"filter":        near(func(q query) { q.Filter = vectorstore.And() }),
		"zero filter":   near(func(q query) { q.Filter = vectorstore.Or(vectorstore.Filter{}) }),
		"no ids":        near(func(q query) { q.Filter = vectorstore.IDs() }),
		"bad id":        near(func(q query) { q.Filter = vectorstore.IDs("A") }),
		"empty list":    near(func(q query) { q.Filter = vectorstore.ContainsAny("tags", []string{}) }),
		"no list":       near(func(q query) { q.Filter = vectorstore.ContainsAll("tags", "a") }),
		"no value":      near(func(q query) { q.Filter = vectorstore.Equal("title", nil) }),
		"no distance":   near(func(q query) { q.Filter = vectorstore.Within("place", vectorstore.Geo{}, 0) }),
		"from nowhere":  near(func(q query) { q.Filter = vectorstore.Within("place", vectorstore.Geo{Latitude: 91}, 1) }),
		"like a number": near(func(q query) {
			q.Filter = vectorstore.Filter{Operator: vectorstore.OperatorLike, Property: "title", Value: 1}
		}),
		"not nothing": near(func(q query) { q.Filter = vectorstore.Not(vectorstore.Filter{}) }),
		"not two": near(func(q query) {
			q.Filter = vectorstore.And(vectorstore.IDs(ref(1).ID))
			q.Filter.Operator, q.Filter.Filters = vectorstore.OperatorNot, []vectorstore.Filter{q.Filter, q.Filter}
		}),
		"null nothing":   near(func(q query) { q.Filter = vectorstore.IsNull("") }),
		"weight of text": {Text: "a", Properties: []string{"title^heavy"}},
		"no weight":      {Text: "a", Properties: []string{"title^0"}},
		"light weight":   {Text: "a", Properties: []string{"title^1e-60"}},
		"text twice":     {Text: "a", Properties: []string{"title", "title^2"}},
		"operator":       near(func(q query) { q.Filter.Operator = 99 }),
		"no property":    near(func(q query) { q.Filter = vectorstore.Equal("", 1) }),
	} {
		if found, err := s.Search(t.Context(), q); err == nil || !itemerror.IsPermanent(err) {
			t.Errorf("%s: error %v, found %v; want a permanent error", name, err, ids(found))
		}
	}
}
