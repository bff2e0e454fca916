package vectorstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// free is an embedder that costs nothing.
type free struct{ vector []float32 }

func (free) Model() embed.Model {
	return embed.Model{Name: "free", Fingerprint: "free", Dimensions: 384}
}

func (e free) Embed(_ context.Context, inputs []string) ([][]float32, error) {
	out := make([][]float32, len(inputs))
	for i := range out {
		out[i] = e.vector
	}
	return out, nil
}

func newFree() free {
	e := free{make([]float32, 384)}
	for i := range e.vector {
		e.vector[i] = 1
	}
	return e
}

const benchBatch = 64

// BenchmarkSink measures the sink itself, with an embedder that costs nothing and the in-memory store; Plain is what a
// handler does that embeds and upserts every event, without ids, guard or digests.
func BenchmarkSink(b *testing.B) {
	title := func(i int, round uint64) product {
		return product{ID: int64(i), Title: fmt.Sprintf("a title that is about as long as titles are, number %d of %d", i, round), Price: float64(round)}
	}
	fixed := func(i int, round uint64) product {
		p := title(i, 0)
		p.Price = float64(round)
		return p
	}
	cases := map[string]func(i int, round uint64) product{"TextChanges": title, "PriceChanges": fixed}
	for name, row := range cases {
		b.Run(name, func(b *testing.B) {
			e := newFree()
			sink, err := vectorstore.NewSink(memory.New(), vectorstore.Mapping[product]{
				Vectors:    []vectorstore.Vector[product]{vectorstore.Embed(textVector, func(p product) string { return p.Title }, e)},
				Properties: properties,
			}, vectorstore.SinkOptions{})
			if err != nil {
				b.Fatal(err)
			}
			benchBatches(b, row, func(ctx context.Context, events []cdc.Event[product]) error { return sink.Handle(ctx, events) })
		})
	}
	b.Run("Plain", func(b *testing.B) {
		e, store := newFree(), memory.New()
		benchBatches(b, title, func(ctx context.Context, events []cdc.Event[product]) error { return plain(ctx, store, e, events) })
	})
}

func properties(p product) map[string]any { return map[string]any{"title": p.Title, "price": p.Price} }

func benchBatches(b *testing.B, row func(int, uint64) product, handle func(context.Context, []cdc.Event[product]) error) {
	b.Helper()
	b.ReportAllocs()
	round := uint64(0)
	events := make([]cdc.Event[product], benchBatch)
	for b.Loop() {
		b.StopTimer()
		round++
		for i := range events {
			events[i] = update(round, row(i, round))
		}
		b.StartTimer()
		if err := handle(b.Context(), events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchBatch*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func plain(ctx context.Context, s vectorstore.Store, e free, events []cdc.Event[product]) error {
	texts := make([]string, len(events))
	m := make([]vectorstore.Mutation, len(events))
	for i, event := range events {
		texts[i] = event.After.Title
	}
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return err
	}
	for i, event := range events {
		m[i].Object.ID = vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-000000000000", event.After.ID))
		m[i].Object.Properties = properties(*event.After)
		m[i].Object.Vectors = map[string][]float32{textVector: vectors[i]}
	}
	return s.Apply(ctx, m)
}
