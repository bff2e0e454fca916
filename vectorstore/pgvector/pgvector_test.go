package pgvector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// connect returns a pool of connections to a database of the test's own.
func connect(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(context.Background(), servicetest.Pgvector(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func open(tb testing.TB, pool *pgxpool.Pool, o pgvector.Options) *pgvector.Store {
	tb.Helper()
	s, err := pgvector.New(context.Background(), pool, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

var tables atomic.Int32

func suiteOptions(hnsw bool) pgvector.Options {
	o := pgvector.Options{Table: fmt.Sprintf("objects_%d", tables.Add(1)), FilterIndex: hnsw}
	for name, dims := range storetest.Vectors() {
		o.Vectors = append(o.Vectors, pgvector.Vector{Name: name, Dimensions: dims, HNSW: hnsw})
	}
	for name, dims := range storetest.MultiVectors() {
		o.Vectors = append(o.Vectors, pgvector.Vector{Name: name, Dimensions: dims, Multi: true})
	}
	for _, p := range storetest.Properties() {
		if strings.HasPrefix(p.Type, "text") {
			o.Searchable = append(o.Searchable, pgvector.Text{Name: p.Name})
		}
	}
	return o
}

func TestStore(t *testing.T) {
	pool := connect(t)
	for _, hnsw := range []bool{false, true} {
		t.Run(fmt.Sprintf("hnsw=%v", hnsw), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) vectorstore.Store {
				t.Helper()
				return open(t, pool, suiteOptions(hnsw))
			})
		})
	}
}

func TestStoreTenants(t *testing.T) {
	pool := connect(t)
	storetest.RunTenants(t, func(t *testing.T) vectorstore.Store {
		t.Helper()
		return open(t, pool, suiteOptions(true))
	})
}

func TestStoreRestart(t *testing.T) {
	storetest.RunRestart(t, func(t *testing.T) func(t *testing.T) vectorstore.Store {
		t.Helper()
		pool, o := connect(t), suiteOptions(true)
		return func(t *testing.T) vectorstore.Store {
			t.Helper()
			return open(t, pool, o)
		}
	})
}
