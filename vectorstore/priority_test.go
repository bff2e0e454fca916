package vectorstore_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// gated embeds nothing until its gate is open, and notes what it embeds.
type gated struct {
	embed.Embedder[string]
	gate chan struct{}
	seen []string // the batcher calls one at a time
}

func (g *gated) Embed(ctx context.Context, in []string) ([][]float32, error) {
	<-g.gate
	g.seen = append(g.seen, in...)
	return g.Embedder.Embed(ctx, in)
}

// TestBackfillYields says that rows that a snapshot has read wait behind live changes for the model.
func TestBackfillYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := &gated{Embedder: embedtest.New(8), gate: make(chan struct{})}
		mapping := vectorstore.Mapping[product]{Vectors: []vectorstore.Vector[product]{
			vectorstore.Embed(textVector, func(p product) string { return p.Title }, embed.NewBatcher(model, embed.BatcherOptions{MaxItems: 1})),
		}}
		sink, err := vectorstore.NewSink(memory.New(), mapping, vectorstore.SinkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		handle := func(events ...cdc.Event[product]) {
			go func() {
				if err := sink.Handle(t.Context(), events); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait() // until all are in the queue
		}
		read := func(id int64, title string) cdc.Event[product] {
			e := put(cdc.OpRead, uint64(id), product{ID: id, Title: title})
			e.Source.Snapshot = true
			return e
		}
		handle(read(1, "one"))
		handle(read(2, "two"), read(3, "three"))
		handle(insert(4, product{ID: 4, Title: "live"}))
		handle(read(5, "five"), update(6, product{ID: 6, Title: "live in a mixed batch"}))
		close(model.gate)
		synctest.Wait()
		if want := []string{"one", "live", "five", "live in a mixed batch", "two", "three"}; !slices.Equal(model.seen, want) {
			t.Errorf("embedded in the order %q, want %q", model.seen, want)
		}
	})
}
