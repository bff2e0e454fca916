package pgvector_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
)

// benchText returns 30 words, of which few are in most texts and most in few, as in languages.
func benchText(words *rand.Zipf) string {
	text := make([]string, 30)
	for i := range text {
		text[i] = fmt.Sprintf("w%d", words.Uint64())
	}
	return strings.Join(text, " ")
}

func newWords() *rand.Zipf { return rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 50_000) }

// fillWithTexts makes a store of objects with a vector and a text, and a table by hand with a tsvector of the same texts.
func fillWithTexts(b *testing.B, pool *pgxpool.Pool, objects int) (*pgvector.Store, string) {
	b.Helper()
	o := pgvector.Options{
		Table: fmt.Sprintf("bench_%d", tables.Add(1)), Vectors: []pgvector.Vector{{Name: "v", Dimensions: 384}},
		Searchable: []pgvector.Text{{Name: "text"}},
	}
	s, words := open(b, pool, o), newWords()
	for first := 0; first < objects; first += 1000 {
		m := make([]vectorstore.Mutation, 1000)
		for i := range m {
			v := make([]float32, 384)
			for j := range v {
				v[j] = rand.Float32() - 0.5
			}
			m[i].Object = vectorstore.Object{
				Ref:        vectorstore.Ref{ID: vectorstore.ID(benchID(first + i))},
				Properties: map[string]any{"text": benchText(words)}, Vectors: map[string][]float32{"v": v},
			}
		}
		if err := s.Apply(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	byHand := fmt.Sprintf("bench_%d", tables.Add(1))
	for _, statement := range []string{
		"CREATE TABLE " + byHand + " AS SELECT id, v, properties, to_tsvector('simple', properties->>'text') AS words FROM " + o.Table,
		"CREATE INDEX ON " + byHand + " USING gin (words)", "VACUUM ANALYZE " + byHand, "VACUUM ANALYZE " + o.Table,
	} {
		if _, err := pool.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	return s, byHand
}

// BenchmarkKeywords searches for two words that few texts have, and two that many have, and in turn for the same by hand: with Postgres'
// text search, which ranks by ts_rank and knows nothing of how rare a word is. It reports the median of 20 of each. The objects are 10,000,
// or TIDEMARK_BENCH_OBJECTS. Of 100,000, the rare words took 10 ms (2 ms by hand), of which 7 ms are to count the objects and the mean
// length of their texts, and the common ones, in 47,000 texts, 230 ms (470 ms by hand).
func BenchmarkKeywords(b *testing.B) {
	objects, err := strconv.Atoi(cmp.Or(os.Getenv("TIDEMARK_BENCH_OBJECTS"), "10000"))
	if err != nil {
		b.Fatal(err)
	}
	pool := connect(b)
	s, byHand := fillWithTexts(b, pool, objects)
	for name, text := range map[string]string{"rare": "w2000 w5000", "common": "w1 w20"} {
		b.Run(name, func(b *testing.B) {
			var took, tookByHand []time.Duration
			var found int
			for range b.N * 20 {
				start := time.Now()
				if got, err := s.Search(b.Context(), vectorstore.Query{Text: text}); err != nil || len(got) == 0 {
					b.Fatalf("%d found, error %v", len(got), err)
				}
				took = append(took, time.Since(start))
				start = time.Now()
				rows, err := pool.Query(b.Context(), "SELECT id, properties, v::real[] FROM "+byHand+", to_tsquery('simple', $1) AS q "+
					"WHERE words @@ q ORDER BY ts_rank(words, q) DESC LIMIT 10", strings.ReplaceAll(text, " ", " | "))
				if err != nil {
					b.Fatal(err)
				}
				if got, err := pgx.CollectRows(rows, pgx.RowToMap); err != nil || len(got) == 0 {
					b.Fatalf("%d found by hand, error %v", len(got), err)
				}
				tookByHand = append(tookByHand, time.Since(start))
			}
			err := pool.QueryRow(b.Context(), "SELECT count(*) FROM "+byHand+" WHERE words @@ to_tsquery('simple', $1)",
				strings.ReplaceAll(text, " ", " | ")).Scan(&found)
			if err != nil {
				b.Fatal(err)
			}
			slices.Sort(took)
			slices.Sort(tookByHand)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/search")
			b.ReportMetric(float64(tookByHand[len(tookByHand)/2].Microseconds())/1000, "by-hand-ms/search")
			b.ReportMetric(float64(found), "with-a-word")
			b.ReportMetric(0, "ns/op")
		})
	}
}
