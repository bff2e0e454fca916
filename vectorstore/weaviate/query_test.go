package weaviate

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// shop is a store with five objects to search for.
func shop(t *testing.T) *Store {
	t.Helper()
	o := serverOptions(t)
	o.Properties = []Property{
		{Name: "title", DataType: Text},
		{Name: "code", DataType: Text, Tokenization: Field},
		{Name: "price", DataType: Number, RangeFilter: true},
		{Name: "stock", DataType: Int},
		{Name: "sold", DataType: Boolean},
		{Name: "at", DataType: Date},
		{Name: "tags", DataType: TextArray},
		{Name: "sizes", DataType: IntArray},
		{Name: "uid", DataType: UUID},
		{Name: "picture", DataType: Blob},
	}
	s := open(t, o)
	titles := []string{"a red tent", "a green tent", "red shoes", "a mug", "a red mug"}
	var m []vectorstore.Mutation
	for i, title := range titles {
		angle := float64(i) * math.Pi / 8
		m = append(m, vectorstore.Mutation{Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: idOf(i)},
			Properties: map[string]any{
				"title": title, "code": "C " + string(rune('a'+i)), "price": float64(i) + 0.5, "stock": i, "sold": i%2 == 1,
				"at": time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC), "tags": []string{"all", title[len(title)-3:]}, "sizes": []int{i, i + 10},
				"uid": string(idOf(i)), "picture": []byte{byte(i)},
			},
			Vectors: map[string][]float32{
				"text_vector":  {float32(math.Cos(angle)), float32(math.Sin(angle))},
				"image_vector": {float32(math.Sin(angle)), 0, float32(math.Cos(angle))},
			},
		}})
	}
	apply(t, s, m...)
	return s
}

// found returns the numbers of the hits.
func found(hits []vectorstore.Match) []int {
	out := []int{}
	for _, h := range hits {
		for n := range 10 {
			if h.Object.ID == idOf(n) {
				out = append(out, n)
			}
		}
	}
	return out
}

func TestServerSearch(t *testing.T) {
	s := shop(t)
	text := func(x, y float32) []vectorstore.Target {
		return []vectorstore.Target{{Vector: "text_vector", Near: []float32{x, y}}}
	}
	both := []vectorstore.Target{{Vector: "text_vector", Near: []float32{1, 0}}, {Vector: "image_vector", Near: []float32{1, 0, 0}, Weight: 3}}
	for name, tt := range map[string]struct {
		q    vectorstore.Query
		want []int
	}{
		"near":             {vectorstore.Query{Targets: text(1, 0), Limit: 3}, []int{0, 1, 2}},
		"near the other":   {vectorstore.Query{Targets: text(0, 1), Limit: 2}, []int{4, 3}},
		"offset":           {vectorstore.Query{Targets: text(1, 0), Limit: 2, Offset: 2}, []int{2, 3}},
		"distance":         {vectorstore.Query{Targets: text(1, 0), MaxDistance: 0.1}, []int{0, 1}},
		"object":           {vectorstore.Query{Object: idOf(4), Vector: "text_vector", Limit: 2}, []int{4, 3}},
		"two vectors":      {vectorstore.Query{Targets: both, Combine: vectorstore.WeightedSum, Limit: 5}, []int{3, 4, 2, 1, 0}},
		"object by two":    {vectorstore.Query{Object: idOf(2), Targets: []vectorstore.Target{{Vector: "text_vector"}, {Vector: "image_vector"}}, Combine: vectorstore.Sum, Limit: 1}, []int{2}},
		"keywords":         {vectorstore.Query{Text: "mug"}, []int{3, 4}},
		"keywords, where":  {vectorstore.Query{Text: "red", Properties: []string{"title^2"}, Filter: vectorstore.Less("price", 1)}, []int{0}},
		"hybrid":           {vectorstore.Query{Text: "mug", Targets: text(1, 0), Alpha: 0.01, Limit: 1}, []int{3}},
		"hybrid by vector": {vectorstore.Query{Text: "mug", Targets: text(1, 0), Alpha: 1, Limit: 2}, []int{0, 1}},
		"hybrid, ranked":   {vectorstore.Query{Text: "green", Targets: text(1, 0.4), RankedFusion: true, Limit: 1}, []int{1}},
		"hybrid, two":      {vectorstore.Query{Text: "green", Targets: both, Combine: vectorstore.Average, Alpha: 0.01, Limit: 1}, []int{1}},
		"filtered":         {vectorstore.Query{Targets: text(1, 0), Filter: vectorstore.And(vectorstore.Equal("sold", false), vectorstore.Greater("stock", 0))}, []int{2, 4}},
		"keywords, groups": {vectorstore.Query{Text: "mug", GroupBy: vectorstore.GroupBy{Property: "sold", Groups: 2, Each: 1}}, []int{3, 4}},
		"filter alone":     {vectorstore.Query{Filter: vectorstore.IDs(idOf(3), idOf(9))}, []int{3}},
	} {
		got, err := s.Search(t.Context(), tt.q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		numbers := found(got)
		if tt.q.Text != "" && len(tt.q.Targets) == 0 || strings.HasPrefix(name, "hybrid") && len(tt.want) > 1 {
			slices.Sort(numbers)
		}
		if !slices.Equal(numbers, tt.want) {
			t.Errorf("%s: found %v, want %v", name, numbers, tt.want)
		}
		for _, h := range got {
			if (h.Score > 0) != (tt.q.Text != "") || h.Object.Properties["title"] == nil || len(h.Object.Vectors) > 0 {
				t.Errorf("%s: hit %+v", name, h)
			}
		}
	}
	got, err := s.Search(t.Context(), vectorstore.Query{Targets: text(0, 1), Limit: 1, WithVectors: true})
	if err != nil || len(got) != 1 || len(got[0].Object.Vectors["image_vector"]) != 3 || len(got[0].Object.Properties["picture"].([]byte)) != 1 {
		t.Errorf("with vectors: %+v, error %v", got, err)
	}
}

func TestServerFilters(t *testing.T) {
	s := shop(t)
	for name, tt := range map[string]struct {
		f    vectorstore.Filter
		want []int
	}{
		"text by words":     {vectorstore.Equal("title", "tent"), []int{0, 1}},
		"text as it is":     {vectorstore.Equal("code", "C a"), []int{0}},
		"not":               {vectorstore.NotEqual("stock", 3), []int{0, 1, 2, 4}},
		"number":            {vectorstore.GreaterOrEqual("price", 3.5), []int{3, 4}},
		"integer as number": {vectorstore.Less("price", 1), []int{0}},
		"int":               {vectorstore.LessOrEqual("stock", 1), []int{0, 1}},
		"bool":              {vectorstore.Equal("sold", true), []int{1, 3}},
		"date":              {vectorstore.Greater("at", time.Date(2024, 1, 4, 0, 0, 0, 0, time.UTC)), []int{4}},
		"date as text":      {vectorstore.Less("at", "2024-01-02"), []int{0}},
		"uuid":              {vectorstore.Equal("uid", strings.ToUpper(string(idOf(2)))), []int{2}},
		"like":              {vectorstore.Like("code", "C ?"), []int{0, 1, 2, 3, 4}},
		"list has":          {vectorstore.Equal("tags", "mug"), []int{3, 4}},
		"any":               {vectorstore.ContainsAny("sizes", []int{1, 14}), []int{1, 4}},
		"all":               {vectorstore.ContainsAll("tags", []string{"all", "ent"}), []int{0, 1}},
		"any of dates":      {vectorstore.ContainsAny("at", []string{"2024-01-01", "2024-01-03"}), []int{0, 2}},
		"or":                {vectorstore.Or(vectorstore.Equal("stock", 0), vectorstore.And(vectorstore.Equal("sold", true), vectorstore.Greater("price", 2))), []int{0, 3}},
		"none":              {vectorstore.And(vectorstore.Equal("stock", 0), vectorstore.Equal("stock", 1)), []int{}},
	} {
		got, err := s.Search(t.Context(), vectorstore.Query{Filter: tt.f})
		numbers := found(got)
		if slices.Sort(numbers); err != nil || !slices.Equal(numbers, tt.want) {
			t.Errorf("%s: found %v, want %v, error %v", name, numbers, tt.want, err)
		}
	}
	beyond := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, f := range []vectorstore.Filter{vectorstore.Less("at", beyond), vectorstore.ContainsAny("at", []time.Time{{}})} {
		if _, err := s.Search(t.Context(), vectorstore.Query{Filter: f}); !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
			t.Errorf("a date that the server does not compare: %v", err)
		}
	}
}

func TestServerGroups(t *testing.T) {
	s := shop(t)
	q := vectorstore.Query{Vector: "text_vector", Near: []float32{1, 0}}
	q.GroupBy = vectorstore.GroupBy{Property: "sold", Groups: 2, Each: 2}
	matches, err := s.Search(t.Context(), q)
	if err != nil || !slices.Equal(found(matches), []int{0, 2, 1, 3}) {
		t.Fatalf("found %v, error %v", found(matches), err)
	}
	for i, m := range matches {
		if m.Group != []string{"false", "false", "true", "true"}[i] || m.Object.Properties["title"] == nil {
			t.Errorf("match %d: %+v", i, m)
		}
	}
}

func TestServerAll(t *testing.T) {
	s := open(t, serverOptions(t))
	var numbers []int
	for n := range 2*maxIDs + 1 {
		numbers = append(numbers, n)
	}
	apply(t, s, upserts(numbers...)...)
	var got []vectorstore.ID
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Vectors["text_vector"]) != 2 || o.Version == "" {
			t.Fatalf("object %+v", o)
		}
		got = append(got, o.ID)
	}
	if len(got) != len(numbers) || !slices.IsSorted(got) || len(slices.Compact(got)) != len(numbers) {
		t.Errorf("%d objects, sorted %v", len(got), slices.IsSorted(got))
	}
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if o == nil || err != nil {
			t.Errorf("the first is %v, error %v", o, err)
		}
		break
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if o != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, %v", o, err)
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	s := faultyStore(t, &faultyServer{}, Options{})
	near := []vectorstore.Target{{Vector: "text_vector", Near: []float32{1, 0}}}
	for want, q := range map[string]vectorstore.Query{
		"limit -1":               {Targets: near, Limit: -1},
		"no vector \"other\"":    {Vector: "other", Near: []float32{1}},
		"invalid vector":         {Vector: "text_vector", Near: []float32{0, 0}},
		"vector \"image\"":       {Object: idOf(1), Vector: "image"},
		"no property \"none\"":   {Targets: near, Filter: vectorstore.Equal("none", 1)},
		"does not fit":           {Targets: near, Filter: vectorstore.Equal("title", 1)},
		"list that is not empty": {Targets: near, Filter: vectorstore.ContainsAny("title", []string{})},
		"need a filter":          {Targets: near, Filter: vectorstore.And()},
		"item 0":                 {Targets: near, Filter: vectorstore.ContainsAll("title", []int{1})},
		"no property \"group\"":  {Targets: near, GroupBy: vectorstore.GroupBy{Property: "group", Groups: 1, Each: 1}},
	} {
		if _, err := s.Search(t.Context(), q); err == nil || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestTextProperties: a weight is sent in digits alone, however it is written.
func TestTextProperties(t *testing.T) {
	for name, tt := range map[string]struct {
		given, sent []string
		finer       bool
	}{
		"none":       {nil, nil, false},
		"unweighted": {[]string{"title", "body"}, []string{"title", "body"}, false},
		"integer":    {[]string{"title^2", "body"}, []string{"title^2", "body"}, false},
		"decimal":    {[]string{"title^2.0", "body^1.0"}, []string{"title^2", "body"}, false},
		"exponent":   {[]string{"title^1e1", "body^0x1p2", "tags^+3"}, []string{"title^10", "body^4", "tags^3"}, false},
		"finer":      {[]string{"title^2.0", "body", "tags^0.5"}, []string{"title^2000000", "body^1000000", "tags^500000"}, true},
		"finest":     {[]string{"title^1e-3", "body^1e1"}, []string{"title^1000", "body^10000000"}, true},
	} {
		sent, finer := textProperties(vectorstore.Query{Text: "a", Properties: tt.given})
		if !slices.Equal(sent, tt.sent) || finer != tt.finer {
			t.Errorf("%s: %v is sent as %v, finer %v, want %v, %v", name, tt.given, sent, finer, tt.sent, tt.finer)
		}
	}
}

// TestTokenizations compares the words of this module's tokenizations with the server's, which tells its own from v1.37 or so on.
func TestTokenizations(t *testing.T) {
	c := testConn(t, serverOptions(t))
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abcXYZ019 ,.-'_\t\n\u00a0\u2003äÖßİıǅΣς日本語한é\u0301ñ²½٣😀\u200d٪ﬁ")
	for range 60 {
		text := make([]rune, rng.IntN(30))
		for i := range text {
			text[i] = letters[rng.IntN(len(letters))]
		}
		for _, cut := range []Tokenization{Word, Lowercase, Whitespace, Field, Trigram} {
			var reply struct{ Indexed, Query []string }
			err := c.rest(t.Context(), http.MethodPost, "/v1/tokenize", map[string]any{"text": "the " + string(text), "tokenization": cut}, &reply)
			if restCode(err) == http.StatusNotFound {
				return // an older server
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := cut.Words("the " + string(text)); !slices.Equal(got, reply.Indexed) {
				t.Errorf("%s of %q: %q, want %q", cut, string(text), got, reply.Indexed)
			}
			slices.Sort(reply.Query)
			if got, _ := cut.Wanted("the " + string(text)); !slices.Equal(got, slices.Compact(reply.Query)) {
				t.Errorf("%s of %q: wanted %q, want %q", cut, string(text), got, reply.Query)
			}
		}
	}
}

// TestNullIndex says what a collection without an index of nulls cannot be asked, and that it gets none later.
func TestNullIndex(t *testing.T) {
	o := serverOptions(t)
	o.Properties = []Property{
		{Name: "title", DataType: Text}, {Name: "place", DataType: Geo}, {Name: "hidden", DataType: Int, NoFilter: true},
	}
	s := open(t, o)
	_, err := s.Search(t.Context(), vectorstore.Query{Filter: vectorstore.IsNull("title")})
	if !errors.Is(err, vectorstore.ErrUnsupported) || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), "indexNullState") {
		t.Errorf("error %v, want a permanent one that is ErrUnsupported and names indexNullState", err)
	}
	if _, err := s.Search(t.Context(), vectorstore.Query{Filter: vectorstore.Not(vectorstore.Equal("title", "x"))}); err != nil {
		t.Error(err)
	}
	o.NullIndex = true
	if _, err := New(t.Context(), o); !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "index of nulls") {
		t.Errorf("error %v, want ErrCollection for the index of nulls", err)
	}
	with := serverOptions(t)
	with.Properties, with.NullIndex = o.Properties, true
	s = open(t, with)
	for _, name := range []string{"place", "hidden", "none"} {
		if _, err := s.Search(t.Context(), vectorstore.Query{Filter: vectorstore.IsNull(name)}); !errors.Is(err, vectorstore.ErrValue) {
			t.Errorf("%s: error %v, want ErrValue", name, err)
		}
	}
	with.NullIndex = false // a collection that has one may keep it
	open(t, with)
}
