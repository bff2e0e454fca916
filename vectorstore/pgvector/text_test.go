package pgvector_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
)

// withWords returns an object with properties.
func withWords(tenant string, n int, properties map[string]any) vectorstore.Mutation {
	return vectorstore.Mutation{Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: vectorstore.ID(benchID(n)), Tenant: tenant}, Properties: properties,
	}}
}

// finds fails the test unless a search by keywords finds these objects.
func finds(t *testing.T, s *pgvector.Store, q vectorstore.Query, ns ...int) {
	t.Helper()
	found, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	var got, want []string
	for _, m := range found {
		got = append(got, string(m.Object.ID))
	}
	for _, n := range ns {
		want = append(want, benchID(n))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%+v: found %v, want %v", q, got, want)
	}
}

// TestSearchableLater makes properties searchable of a table that is there, which then every Store keeps so.
func TestSearchableLater(t *testing.T) {
	pool := connect(t)
	o := options("objects", pgvector.Vector{Name: "v", Dimensions: 2})
	before := open(t, pool, o)
	day := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	m := []vectorstore.Mutation{
		withWords("a", 2, map[string]any{"title": "A red tent", "tags": []string{"camp out", "red"}}),
		withWords("b", 1, map[string]any{"title": "red"}),
		withWords("a", 3, map[string]any{"title": 7, "tags": []int{1, 2}}), // no texts
		withWords("a", 4, nil),
		withWords("a", 6, map[string]any{"title": day, "tags": []time.Time{day, day}}), // whose JSON is texts
		withWords("a", 7, map[string]any{"title": map[string]any{"red": "red"}, "tags": []string{}}),
		withWords("a", 8, map[string]any{"title": []time.Time{}, "tags": vectorstore.Phone{Input: "+49 red"}}),
	}
	for n := 100; n < 2600; n++ { // pages
		m = append(m, withWords("b", n, map[string]any{"title": fmt.Sprint("number", n)}))
	}
	deleted := withWords("a", 2599, nil)
	deleted.Action = vectorstore.Delete
	if err := before.Apply(t.Context(), append(m, deleted)); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Search(t.Context(), vectorstore.Query{Tenant: "a", Text: "red"}); !errors.Is(err, vectorstore.ErrUnsupported) {
		t.Errorf("nothing is searchable: %v, want ErrUnsupported", err)
	}

	o.Searchable = []pgvector.Text{{Name: "title"}, {Name: "tags", Tokenization: vectorstore.FieldTokenization}}
	o.OpenOnly = true
	if _, err := pgvector.New(t.Context(), pool, o); !errors.Is(err, pgvector.ErrTable) {
		t.Errorf("with OpenOnly: %v, want ErrTable", err)
	}
	o.OpenOnly = false
	s := open(t, pool, o)
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "red"}, 2)
	finds(t, s, vectorstore.Query{Tenant: "b", Text: "RED number2599 number100"}, 1, 100, 2599)
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "camp"})
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "2024 29t12 2024-02-29T12:00:00.000000000Z"})
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "camp out", Properties: []string{"tags"}}, 2)

	o.Searchable, o.OpenOnly = nil, true
	later := open(t, pool, o)
	change := withWords("a", 2, map[string]any{"tags": []string{"house"}})
	change.Action = vectorstore.Merge
	if err := later.Apply(t.Context(), []vectorstore.Mutation{change, withWords("a", 5, map[string]any{"title": "Ein Zelt"})}); err != nil {
		t.Fatal(err)
	}
	finds(t, later, vectorstore.Query{Tenant: "a", Text: "house zelt tent"}, 2, 5)
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "camp out", Properties: []string{"tags"}})
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "house", Properties: []string{"tags^3"}}, 2)
	_, err := s.Search(t.Context(), vectorstore.Query{Text: "red", Properties: []string{"qty"}})
	if !errors.Is(err, vectorstore.ErrQuery) || !itemerror.IsPermanent(err) {
		t.Errorf("a property that is not searchable: %v, want a permanent error that is ErrQuery", err)
	}

	o.Searchable, o.OpenOnly = []pgvector.Text{{Name: "tags"}}, false // in another way
	s = open(t, pool, o)
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "the house", Properties: []string{"tags"}}, 2)
	if err := s.Apply(t.Context(), []vectorstore.Mutation{withWords("a", 2, map[string]any{"tags": "a boat-house"})}); err != nil {
		t.Fatal(err)
	}
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "house"}, 2)
	finds(t, s, vectorstore.Query{Tenant: "a", Text: "tent"})
}

// TestSearchLongText says that there is no limit to texts and words that one comes to by itself, in what is stored or asked.
func TestSearchLongText(t *testing.T) {
	o := options("objects", pgvector.Vector{Name: "v", Dimensions: 2})
	o.Searchable = []pgvector.Text{{Name: "title"}, {Name: "code", Tokenization: vectorstore.FieldTokenization}}
	s := open(t, connect(t), o)
	var long []byte
	for n := range 60_000 {
		long = fmt.Appendf(long, "w%d ", n)
	}
	text := string(long)
	if err := s.Apply(t.Context(), []vectorstore.Mutation{
		withWords("", 1, map[string]any{"title": text, "code": text}), withWords("", 2, map[string]any{"title": "W7"}),
	}); err != nil {
		t.Fatal(err)
	}
	finds(t, s, vectorstore.Query{Text: "w59999"}, 1)
	finds(t, s, vectorstore.Query{Text: text[:5_000], Properties: []string{"title"}}, 1, 2)
	finds(t, s, vectorstore.Query{Text: text, Properties: []string{"code"}}, 1)
}
