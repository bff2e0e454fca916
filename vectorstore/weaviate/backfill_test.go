//go:build unix

package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// listing is a row of the benchmark's table.
type listing struct {
	ID    int64
	Text  string
	Price float64
}

// cutter is an embedder that costs nothing: a text's vector is a piece of one sequence.
type cutter struct{ sequence []float32 }

func (cutter) Model() embed.Model {
	return embed.Model{Name: "cutter", Fingerprint: "cutter", Dimensions: benchDimensions}
}

func (c cutter) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		h := fnv.New32a()
		_, _ = h.Write([]byte(text)) // a Hash never fails
		from := int(h.Sum32()) % (len(c.sequence) - benchDimensions)
		out[i] = c.sequence[from : from+benchDimensions]
	}
	return out, nil
}

// BenchmarkSink backfills a table through a Sink, by four workers with batches of 256 rows, into a flat index, where the server does
// least beside storing: rows that are new to the store, then the same rows read again, then with other prices, then with other texts.
// bare is one Apply of what the Sink writes for new rows. TIDEMARK_IMPORT_OBJECTS is the number of rows, 500 by default.
//
// Of 4,000 rows, each cost the server 100 µs bare, 120 µs through the Sink, whose two look-ups found nothing, and 165 to 180 µs where
// the look-up found the row: 22 to 26 µs for reading it, 4 to 6 µs of them for its vector, and as much again to merge what stays.
func BenchmarkSink(b *testing.B) {
	rows := fromEnv(b, "TIDEMARK_IMPORT_OBJECTS", 500)
	server := servicetest.Weaviate{}.Start(b)[0]
	for range b.N {
		i := &imports{server: server, objects: rows, dims: benchDimensions, index: Flat}
		bare := i.open(b)
		m := benchMutations(importRows(rows, benchDimensions))
		i.timed(b, "bare", func() error { return bare.Apply(context.Background(), m) })
		s, err := vectorstore.NewSink(i.open(b), vectorstore.Mapping[listing]{
			Vectors: []vectorstore.Vector[listing]{vectorstore.Embed("text_vector", func(l listing) string { return l.Text }, newCutter())},
			Properties: func(l listing) map[string]any {
				return map[string]any{"product_id": l.ID, "description": l.Text, "price": l.Price}
			},
		}, vectorstore.SinkOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for pass, name := range []string{"new", "again", "prices", "texts"} {
			events := snapshot(rows, pass)
			i.timed(b, name, func() error { return handleAll(s, events) })
		}
	}
}

func newCutter() cutter {
	random := rand.New(rand.NewPCG(9, 10))
	c := cutter{make([]float32, 1<<20)}
	for i := range c.sequence {
		c.sequence[i] = float32(random.NormFloat64())
	}
	return c
}

// snapshot returns the events of a pass over the table, the later ones with other prices, the last with other texts.
func snapshot(rows, pass int) []cdc.Event[listing] {
	events := make([]cdc.Event[listing], rows)
	for i := range events {
		row := listing{ID: int64(i), Text: benchRow{n: i + 1<<24*(pass/3)}.text(), Price: float64(i + pass/2)}
		events[i] = cdc.Event[listing]{
			Op: cdc.OpRead, Key: cdc.Key{{Name: "id", Value: row.ID}}, After: &row,
			Source: cdc.Source{LSN: uint64(pass*rows + i + 1), Snapshot: true},
		}
	}
	return events
}

func handleAll(s *vectorstore.Sink[listing], events []cdc.Event[listing]) error {
	batches := slices.Collect(slices.Chunk(events, 256))
	errs := make([]error, 4)
	var workers sync.WaitGroup
	for n := range errs {
		workers.Go(func() {
			for k := n; k < len(batches); k += len(errs) {
				errs[n] = cmp.Or(errs[n], s.Handle(context.Background(), batches[k]))
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// timed reports what a pass took.
func (i *imports) timed(b *testing.B, name string, run func() error) {
	b.Helper()
	used := i.server.CPU(b)
	took := timed(b, run)
	took.server = (i.server.CPU(b) - used).Seconds()
	each := 1e6 / float64(i.objects)
	b.Logf("%-7s %6.0f objects/s; CPU of an object: %4.0f µs here, %4.0f µs on the server", name+":", float64(i.objects)/took.Seconds,
		took.CPU*each, took.server*each)
	b.ReportMetric(float64(i.objects)/took.Seconds, fmt.Sprintf("%s-objects/s", name))
}
