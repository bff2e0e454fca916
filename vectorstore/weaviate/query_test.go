package weaviate

import (
	"errors"
	"math"
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
func found(hits []Hit) []int {
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

func TestServerFind(t *testing.T) {
	s := shop(t)
	text := func(x, y float32) []Near { return []Near{{Vector: "text_vector", Values: []float32{x, y}}} }
	both := []Near{{Vector: "text_vector", Values: []float32{1, 0}}, {Vector: "image_vector", Values: []float32{1, 0, 0}, Weight: 3}}
	for name, tt := range map[string]struct {
		q    Query
		want []int
	}{
		"near":             {Query{Near: text(1, 0), Limit: 3}, []int{0, 1, 2}},
		"near the other":   {Query{Near: text(0, 1), Limit: 2}, []int{4, 3}},
		"offset":           {Query{Near: text(1, 0), Limit: 2, Offset: 2}, []int{2, 3}},
		"distance":         {Query{Near: text(1, 0), MaxDistance: 0.1}, []int{0, 1}},
		"object":           {Query{Object: idOf(4), Vectors: []string{"text_vector"}, Limit: 2}, []int{4, 3}},
		"two vectors":      {Query{Near: both, Combine: WeightedSum, Limit: 5}, []int{3, 4, 2, 1, 0}},
		"object by two":    {Query{Object: idOf(2), Vectors: []string{"text_vector", "image_vector"}, Combine: Sum, Limit: 1}, []int{2}},
		"keywords":         {Query{Text: "mug"}, []int{3, 4}},
		"keywords, where":  {Query{Text: "red", Properties: []string{"title^2"}, Filter: Less("price", 1)}, []int{0}},
		"hybrid":           {Query{Text: "mug", Near: text(1, 0), Alpha: 0.01, Limit: 1}, []int{3}},
		"hybrid by vector": {Query{Text: "mug", Near: text(1, 0), Alpha: 1, Limit: 2}, []int{0, 1}},
		"hybrid, ranked":   {Query{Text: "green", Near: text(1, 0.4), RankedFusion: true, Limit: 1}, []int{1}},
		"hybrid, two":      {Query{Text: "green", Near: both, Combine: Average, Alpha: 0.01, Limit: 1}, []int{1}},
		"filtered":         {Query{Near: text(1, 0), Filter: And(Equal("sold", false), Greater("stock", 0))}, []int{2, 4}},
		"filter alone":     {Query{Filter: IDs(idOf(3), idOf(9))}, []int{3}},
	} {
		got, err := s.Find(t.Context(), tt.q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		numbers := found(got)
		if tt.q.Text != "" && len(tt.q.Near) == 0 || strings.HasPrefix(name, "hybrid") && len(tt.want) > 1 {
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
	got, err := s.Find(t.Context(), Query{Near: text(0, 1), Limit: 1, WithVectors: true})
	if err != nil || len(got) != 1 || len(got[0].Object.Vectors["image_vector"]) != 3 || len(got[0].Object.Properties["picture"].([]byte)) != 1 {
		t.Errorf("with vectors: %+v, error %v", got, err)
	}
}

func TestServerFilters(t *testing.T) {
	s := shop(t)
	for name, tt := range map[string]struct {
		f    Filter
		want []int
	}{
		"text by words":     {Equal("title", "tent"), []int{0, 1}},
		"text as it is":     {Equal("code", "C a"), []int{0}},
		"not":               {NotEqual("stock", 3), []int{0, 1, 2, 4}},
		"number":            {GreaterOrEqual("price", 3.5), []int{3, 4}},
		"integer as number": {Less("price", 1), []int{0}},
		"int":               {LessOrEqual("stock", 1), []int{0, 1}},
		"bool":              {Equal("sold", true), []int{1, 3}},
		"date":              {Greater("at", time.Date(2024, 1, 4, 0, 0, 0, 0, time.UTC)), []int{4}},
		"date as text":      {Less("at", "2024-01-02"), []int{0}},
		"uuid":              {Equal("uid", strings.ToUpper(string(idOf(2)))), []int{2}},
		"like":              {Like("code", "C ?"), []int{0, 1, 2, 3, 4}},
		"list has":          {Equal("tags", "mug"), []int{3, 4}},
		"any":               {ContainsAny("sizes", []int{1, 14}), []int{1, 4}},
		"all":               {ContainsAll("tags", []string{"all", "ent"}), []int{0, 1}},
		"any of dates":      {ContainsAny("at", []string{"2024-01-01", "2024-01-03"}), []int{0, 2}},
		"or":                {Or(Equal("stock", 0), And(Equal("sold", true), Greater("price", 2))), []int{0, 3}},
		"none":              {And(Equal("stock", 0), Equal("stock", 1)), []int{}},
		"all of them":       {Filter{}, []int{0, 1, 2, 3, 4}},
	} {
		got, err := s.Find(t.Context(), Query{Filter: tt.f})
		numbers := found(got)
		if slices.Sort(numbers); err != nil || !slices.Equal(numbers, tt.want) {
			t.Errorf("%s: found %v, want %v, error %v", name, numbers, tt.want, err)
		}
	}
}

func TestServerFindGroups(t *testing.T) {
	s := shop(t)
	q := Query{Near: []Near{{Vector: "text_vector", Values: []float32{1, 0}}}}
	groups, err := s.FindGroups(t.Context(), q, "sold", 2, 2)
	if err != nil || len(groups) != 2 || groups[0].Value != "false" || groups[1].Value != "true" {
		t.Fatalf("groups %+v, error %v", groups, err)
	}
	if a, b := found(groups[0].Hits), found(groups[1].Hits); !slices.Equal(a, []int{0, 2}) || !slices.Equal(b, []int{1, 3}) {
		t.Errorf("groups have %v and %v", a, b)
	}
	if groups[0].Hits[0].Object.Properties["title"] != "a red tent" {
		t.Errorf("hit %+v", groups[0].Hits[0])
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
	for o, err := range s.All(t.Context(), "") {
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
	for o, err := range s.All(t.Context(), "") {
		if o == nil || err != nil {
			t.Errorf("the first is %v, error %v", o, err)
		}
		break
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for o, err := range s.All(t.Context(), "") {
		if o != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, %v", o, err)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	s := faultyStore(t, &faultyServer{}, Options{})
	near := []Near{{Vector: "text_vector", Values: []float32{1, 0}}}
	for want, q := range map[string]Query{
		"limit -1":               {Near: near, Limit: -1},
		"offset -1":              {Near: near, Offset: -1},
		"autocut -1":             {Near: near, Autocut: -1},
		"no vector \"other\"":    {Near: []Near{{Vector: "other", Values: []float32{1}}}},
		"invalid vector":         {Near: []Near{{Vector: "text_vector", Values: []float32{0, 0}}}},
		"is there twice":         {Near: append(near, near...)},
		"weight -1":              {Near: []Near{{Vector: "text_vector", Values: []float32{1, 0}, Weight: -1}}},
		"Object stands alone":    {Near: near, Object: idOf(1)},
		"invalid id":             {Object: "x"},
		"vector \"image\"":       {Object: idOf(1), Vectors: []string{"image"}},
		"largest distance":       {Near: near, MaxDistance: math.NaN()},
		"alpha is 2":             {Near: near, Text: "a", Alpha: 2},
		"combination 9":          {Near: near, Combine: 9},
		"there is none":          {Near: near, Properties: []string{"title"}},
		"no property \"none\"":   {Near: near, Filter: Equal("none", 1)},
		"does not fit":           {Near: near, Filter: Equal("title", 1)},
		"list that is not empty": {Near: near, Filter: ContainsAny("title", []string{})},
		"need a filter":          {Near: near, Filter: And()},
		"take no zero Filter":    {Near: near, Filter: Or(Filter{})},
		"no ids":                 {Near: near, Filter: IDs()},
		"not a UUID":             {Near: near, Filter: IDs("A")},
		"item 0":                 {Near: near, Filter: ContainsAll("title", []int{1})},
	} {
		if _, err := s.Find(t.Context(), q); err == nil || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, property := range []string{"none", "title"} {
		_, err := s.FindGroups(t.Context(), Query{Near: near}, property, 0, 1)
		if err == nil || !itemerror.IsPermanent(err) {
			t.Errorf("groups of %s: %v", property, err)
		}
	}
	if _, err := s.FindGroups(t.Context(), Query{Text: "a"}, "title", 1, 1); err == nil || !itemerror.IsPermanent(err) {
		t.Errorf("groups by keywords: %v", err)
	}
}
