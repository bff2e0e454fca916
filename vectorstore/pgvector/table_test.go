package pgvector_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
)

func options(table string, vectors ...pgvector.Vector) pgvector.Options {
	return pgvector.Options{Table: table, Vectors: vectors}
}

func TestNewRefuses(t *testing.T) {
	v := pgvector.Vector{Name: "v", Dimensions: 2}
	for want, o := range map[string]pgvector.Options{
		"Table: \"\"":              options("", v),
		"Table: \"a.\"":            options("a.", v),
		"is not a name":            options(strings.Repeat("x", 40), v),
		"there is none":            options("t"),
		"\"v\" is there twice":     options("t", v, v),
		"store's own":              options("t", pgvector.Vector{Name: "kinds", Dimensions: 2}),
		"has 0 dimensions":         options("t", pgvector.Vector{Name: "v"}),
		"has 2001 dimensions":      options("t", pgvector.Vector{Name: "v", Dimensions: 2001, HNSW: true}),
		"negative MaxConnections":  options("t", pgvector.Vector{Name: "v", Dimensions: 2, MaxConnections: -1}),
		"\"title\" is there twice": {Table: "t", Vectors: []pgvector.Vector{v}, Searchable: []pgvector.Text{{Name: "title"}, {Name: "title"}}},
		"unknown tokenization":     {Table: "t", Vectors: []pgvector.Vector{v}, Searchable: []pgvector.Text{{Name: "title", Tokenization: "x"}}},
		"at most 51 bytes":         {Table: "t", Vectors: []pgvector.Vector{v}, Searchable: []pgvector.Text{{Name: strings.Repeat("x", 52)}}},
		"may be, a column":         options("t", pgvector.Vector{Name: "word:title", Dimensions: 2}),
		"MaxBatch is -1":           {Table: "t", Vectors: []pgvector.Vector{v}, MaxBatch: -1},
		"needs a pool":             options("t", v),
	} {
		if _, err := pgvector.New(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestTable(t *testing.T) {
	pool := connect(t)
	v, w := pgvector.Vector{Name: `a "v"`, Dimensions: 2, HNSW: true, MaxConnections: 8, EFConstruction: 32}, pgvector.Vector{Name: "w", Dimensions: 3}
	only := func(o pgvector.Options) pgvector.Options { o.OpenOnly = true; return o }
	fails := func(want string, o pgvector.Options) {
		t.Helper()
		if _, err := pgvector.New(t.Context(), pool, o); !errors.Is(err, pgvector.ErrTable) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	fails("lacks the column", only(options(`Odd "name"`, v)))
	var opening sync.WaitGroup
	for range 8 { // at once
		opening.Go(func() {
			if _, err := pgvector.New(context.Background(), pool, options(`Odd "name"`, v)); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	fails("lacks the column \"w\"", only(options(`Odd "name"`, v, w)))
	open(t, pool, options(`Odd "name"`, v, w))
	s := open(t, pool, only(options(`Odd "name"`, v, w)))
	o := vectorstore.Object{Ref: vectorstore.Ref{ID: vectorstore.First}, Vectors: map[string][]float32{`a "v"`: {1, 2}, "w": {1, 2, 3}}}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{{Object: o}}); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, pool, only(options(`public.Odd "name"`, v))).Get(t.Context(), []vectorstore.Ref{o.Ref})
	if err != nil || len(got[0].Vectors[`a "v"`]) != 2 {
		t.Errorf("read in its schema: %+v, error %v", got, err)
	}
	fails("is vector(2), not vector(5)", options(`Odd "name"`, pgvector.Vector{Name: `a "v"`, Dimensions: 5}))
	if _, err := pool.Exec(t.Context(), "CREATE TABLE other (id uuid, title text)"); err != nil {
		t.Fatal(err)
	}
	fails("lacks the column \"tenant\"", options("other", v))
}

// TestIndexes says that the planner can use the indexes for what they are there for.
func TestIndexes(t *testing.T) {
	pool := connect(t)
	o := options("objects", pgvector.Vector{Name: "v", Dimensions: 8, HNSW: true})
	o.FilterIndex, o.Searchable = true, []pgvector.Text{{Name: "tags"}}
	s := open(t, pool, o)
	var m []vectorstore.Mutation
	for n := range 2000 {
		v := make([]float32, 8)
		for i := range v {
			v[i] = float32(math.Sin(float64(n*8+i) * 1.7))
		}
		m = append(m, vectorstore.Mutation{Object: vectorstore.Object{
			Ref:        vectorstore.Ref{ID: vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", n))},
			Properties: map[string]any{"n": n, "half": n % 2, "tags": []string{fmt.Sprint(n % 100)}}, Vectors: map[string][]float32{"v": v},
		}})
	}
	if err := s.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "ANALYZE objects"); err != nil {
		t.Fatal(err)
	}
	uses := func(index, statement string, args ...any) {
		t.Helper()
		var plan []string
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off"); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN "+statement, args...)
			if err != nil {
				return err
			}
			plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, index) {
			t.Errorf("error %v, want %s in the plan:\n%s", err, index, text)
		}
	}
	for _, q := range []vectorstore.Query{
		{Vector: "v", Near: m[7].Object.Vectors["v"]},
		{Vector: "v", Near: m[7].Object.Vectors["v"], Filter: vectorstore.Equal("half", 1)},
	} {
		statement, args := pgvector.Statement(s, q)
		uses("_hnsw", statement, args...)
	}
	statement, args := pgvector.Statement(s, vectorstore.Query{Filter: vectorstore.ContainsAny("tags", []string{"7", "8"})})
	uses("objects_properties", statement, args...)
	statement, args = pgvector.Statement(s, vectorstore.Query{Text: "7 8"})
	for _, index := range []string{"_words", "_length"} {
		uses(index, statement, args...)
	}
	// A filter that leaves one of 2,000 far from what is looked near: the index goes on until it is found.
	found, err := s.Search(t.Context(), vectorstore.Query{Vector: "v", Near: m[7].Object.Vectors["v"], Filter: vectorstore.Equal("n", 1234)})
	if err != nil || len(found) != 1 || found[0].Object.Properties["n"] != int64(1234) {
		t.Errorf("found %+v, error %v", found, err)
	}
}

// TestOverlapping says that calls with the same objects in different orders do not wait for each other in a circle.
func TestOverlapping(t *testing.T) {
	s := open(t, connect(t), options("objects", pgvector.Vector{Name: "v", Dimensions: 2}))
	mutation := func(n int) vectorstore.Mutation {
		return vectorstore.Mutation{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", n))}}}
	}
	var up, down []vectorstore.Mutation
	for n := range 100 {
		up, down = append(up, mutation(n)), append(down, mutation(99-n))
	}
	var writing sync.WaitGroup
	for _, m := range [][]vectorstore.Mutation{up, down, up, down} {
		writing.Go(func() {
			for range 10 {
				if err := s.Apply(context.Background(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
}

// TestRefusedByPostgres says that what only Postgres refuses is one object's error.
func TestRefusedByPostgres(t *testing.T) {
	pool := connect(t)
	s := open(t, pool, options("objects", pgvector.Vector{Name: "v", Dimensions: 2}))
	id := func(n int) vectorstore.Ref {
		return vectorstore.Ref{ID: vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", n))}
	}
	// What Postgres refuses by itself is large or odd; a division by zero is of the same class of errors.
	_, err := pool.Exec(t.Context(), `ALTER TABLE objects ADD CHECK (1 / coalesce((properties->>'d')::int, 1) <> 2)`)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Apply(t.Context(), []vectorstore.Mutation{
		{Object: vectorstore.Object{Ref: id(1)}},
		{Object: vectorstore.Object{Ref: id(2), Properties: map[string]any{"d": 0}}},
		{Object: vectorstore.Object{Ref: id(3)}},
	})
	errs, named := itemerror.Align(err, 3)
	if !named || errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], vectorstore.ErrValue) || !itemerror.IsPermanent(errs[1]) {
		t.Errorf("errors %v", errs)
	}
	if got, err := s.Get(t.Context(), []vectorstore.Ref{id(1), id(2), id(3)}); err != nil || got[0] == nil || got[1] != nil || got[2] == nil {
		t.Errorf("got %v, error %v", got, err)
	}
	pool.Close()
	err = s.Apply(context.Background(), []vectorstore.Mutation{{Object: vectorstore.Object{Ref: id(4)}}})
	if err == nil || itemerror.IsPermanent(err) {
		t.Errorf("without connections: %v, want an error that passes", err)
	}
}

// TestVectorNames says that a vector may have the name of anything that a statement speaks of beside the table's own columns.
func TestVectorNames(t *testing.T) {
	var vectors []pgvector.Vector
	for _, name := range []string{
		"word", "times", "score", "found", "place", "distance", "wanted_id", "field", "cut", "fits", "n", "length", "weight", "objects", "mean",
		"rarity", "scores", "wanted", "t", "v", "i", "x", "j", "q",
	} {
		vectors = append(vectors, pgvector.Vector{Name: name, Dimensions: 2})
	}
	for _, name := range []string{"own", "near", "V", "I", "X"} {
		vectors = append(vectors, pgvector.Vector{Name: name, Dimensions: 2, Multi: true})
	}
	o := options("fields", vectors...)
	o.Searchable = []pgvector.Text{{Name: "title"}}
	s := open(t, connect(t), o)
	object := withWords("", 1, map[string]any{"title": "a tent"})
	object.Object.Vectors, object.Object.MultiVectors = map[string][]float32{}, map[string][][]float32{}
	near := []float32{0, 1}
	for _, v := range vectors {
		if v.Multi {
			object.Object.MultiVectors[v.Name] = [][]float32{near, {1, 0}}
		} else {
			object.Object.Vectors[v.Name] = near
		}
	}
	if err := s.Apply(t.Context(), []vectorstore.Mutation{object}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), []vectorstore.Ref{object.Object.Ref})
	if err != nil || !reflect.DeepEqual(got[0].Vectors, object.Object.Vectors) || !reflect.DeepEqual(got[0].MultiVectors, object.Object.MultiVectors) {
		t.Errorf("got %+v, error %v", got, err)
	}
	finds(t, s, vectorstore.Query{Filter: vectorstore.Equal("title", "a tent")}, 1)
	finds(t, s, vectorstore.Query{Text: "tent", Filter: vectorstore.Equal("title", "a tent")}, 1)
	var targets []vectorstore.Target
	for _, v := range vectors {
		target := vectorstore.Target{Vector: v.Name, Near: near}
		if v.Multi {
			target.Near, target.NearMulti = nil, [][]float32{near}
		}
		targets = append(targets, target)
		finds(t, s, vectorstore.Query{Vector: v.Name, Near: target.Near, NearMulti: target.NearMulti, MaxDistance: 0.1}, 1)
	}
	finds(t, s, vectorstore.Query{Targets: targets, MaxDistance: 0.1}, 1)
	finds(t, s, vectorstore.Query{Targets: targets, Text: "tent"}, 1)
}
