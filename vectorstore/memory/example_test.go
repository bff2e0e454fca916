package memory_test

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

func Example() {
	ctx := context.Background()
	store := memory.New()
	directions := map[string][]float32{"north": {0, 1}, "east": {1, 0}, "north-east": {1, 1}}
	for name, v := range directions {
		id, err := vectorstore.UUID5(cdc.Key{{Name: "name", Value: name}})
		if err != nil {
			fmt.Println(err)
			return
		}
		o := vectorstore.Object{
			Ref:        vectorstore.Ref{ID: id},
			Properties: map[string]any{"name": name},
			Vectors:    map[string][]float32{"direction": v},
		}
		if err := store.Apply(ctx, []vectorstore.Mutation{{Action: vectorstore.Upsert, Object: o}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	found, err := store.Search(ctx, vectorstore.Query{Vector: "direction", Near: []float32{0.2, 1}, Limit: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range found {
		fmt.Printf("%s %.2f\n", m.Object.Properties["name"], m.Distance)
	}
	// Output:
	// north 0.02
	// north-east 0.17
}
