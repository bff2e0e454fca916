package vectorstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// overtaken is a store that lets something happen between a sink's read and its write.
type overtaken struct {
	*memory.Store
	meanwhile func()
}

func (s *overtaken) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	got, err := s.Store.Get(ctx, r)
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return got, err
}

// TestLostConsumer says that a consumer that has lost its key, and does not know it yet, cannot undo what its successor wrote
// between its read and its write; when it tries again, it sees that it is late.
func TestLostConsumer(t *testing.T) {
	t.Parallel()
	store := memory.New()
	mapping := vectorstore.Mapping[product]{Properties: func(p product) map[string]any { return map[string]any{"title": p.Title} }}
	sinkOn := func(s vectorstore.Store, seen *[]vectorstore.Kind) *vectorstore.Sink[product] {
		sink, err := vectorstore.NewSink(s, mapping, vectorstore.SinkOptions{
			Observe: func(o vectorstore.Outcome) { *seen = append(*seen, o.Kind) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return sink
	}
	for name, newer := range map[string]cdc.Event[product]{
		"update": update(20, product{ID: 1, Title: "newer"}), "delete": remove(20, 1),
	} {
		var lost, successor []vectorstore.Kind
		slow := &overtaken{Store: store}
		slow.meanwhile = func() {
			if err := sinkOn(store, &successor).Handle(t.Context(), []cdc.Event[product]{newer}); err != nil {
				t.Error(err)
			}
		}
		late := []cdc.Event[product]{insert(10, product{ID: 1, Title: "late"}), insert(11, product{ID: 2, Title: "other"})}
		sink := sinkOn(slow, &lost)
		err := sink.Handle(t.Context(), late)
		var batch *vectorstore.BatchError
		if !errors.As(err, &batch) || !errors.Is(batch.Errs[0], vectorstore.ErrConflict) || batch.Permanent() || batch.Errs[1] != nil {
			t.Fatalf("%s: error %v, want a conflict of the first alone", name, err)
		}
		if err := sink.Handle(t.Context(), late); err != nil || lost[1] != vectorstore.Stale {
			t.Errorf("%s: again: %v, error %v", name, lost, err)
		}
		got, err := store.Get(t.Context(), []vectorstore.Ref{refOf(t, 1)})
		if err != nil || got[0] == nil || got[0].Deleted != (name == "delete") || name == "update" && got[0].Properties["title"] != "newer" {
			t.Errorf("%s: the store has %+v, error %v", name, got[0], err)
		}
		if err := store.Clear(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}
