package pgvector_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
)

// BenchmarkApply writes batches of objects that are there already, as a sink does, beside what one writes by hand with pgx: the same
// columns in an INSERT ... ON CONFLICT DO UPDATE, in one transaction, without checks, merges or types.
func BenchmarkApply(b *testing.B) {
	const objects, dims = 256, 384
	pool := connect(b)
	vectors := make([][]float32, objects)
	for i := range vectors {
		vectors[i] = make([]float32, dims)
		for j := range vectors[i] {
			vectors[i][j] = rand.Float32() - 0.5
		}
	}
	id := func(i int) string { return fmt.Sprintf("%08x-0000-5000-8000-%012x", i, i) }
	check := func(b *testing.B, table string) {
		b.Helper()
		var n int
		if err := pool.QueryRow(b.Context(), "SELECT count(*) FROM "+table+" WHERE text_vector IS NOT NULL").Scan(&n); err != nil || n != objects {
			b.Fatalf("%d objects are stored, error %v", n, err)
		}
		b.ReportMetric(float64(objects)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
	}
	b.Run("Store", func(b *testing.B) {
		o := pgvector.Options{Table: fmt.Sprintf("bench_%d", tables.Add(1)), Vectors: []pgvector.Vector{{Name: "text_vector", Dimensions: dims}}}
		s := open(b, pool, o)
		for round := 0; b.Loop(); round++ {
			m := make([]vectorstore.Mutation, objects)
			for i := range m {
				m[i].Object = vectorstore.Object{
					Ref: vectorstore.Ref{ID: vectorstore.ID(id(i))}, Version: fmt.Sprintf("%020d", round),
					Properties: map[string]any{"title": fmt.Sprint("object ", i), "qty": round},
					Vectors:    map[string][]float32{"text_vector": vectors[i]},
					Inputs:     map[string]string{"text_vector": "0123456789abcdef"},
				}
			}
			if err := s.Apply(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
		check(b, o.Table)
	})
	b.Run("ByHand", func(b *testing.B) {
		table := fmt.Sprintf("bench_%d", tables.Add(1))
		_, err := pool.Exec(b.Context(), "CREATE TABLE "+table+` (id uuid PRIMARY KEY, version text NOT NULL, properties jsonb NOT NULL,
			inputs jsonb NOT NULL, text_vector vector(384))`)
		if err != nil {
			b.Fatal(err)
		}
		insert := "INSERT INTO " + table + ` VALUES ($1::text::uuid, $2, $3::text::jsonb, $4::text::jsonb, $5::real[]::vector)
			ON CONFLICT (id) DO UPDATE SET version = EXCLUDED.version, properties = EXCLUDED.properties, inputs = EXCLUDED.inputs,
			text_vector = EXCLUDED.text_vector`
		for round := 0; b.Loop(); round++ {
			err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
				batch := &pgx.Batch{}
				for i := range objects {
					batch.Queue(insert, id(i), fmt.Sprintf("%020d", round), fmt.Sprintf(`{"title": "object %d", "qty": %d}`, i, round),
						`{"text_vector": "0123456789abcdef"}`, vectors[i])
				}
				return tx.SendBatch(b.Context(), batch).Close()
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		check(b, table)
	})
}
