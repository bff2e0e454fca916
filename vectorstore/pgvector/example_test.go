package pgvector_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/pgvector"
)

// Two objects in a table, and the one that is nearest among those that cost less than 100.
func Example() {
	run := func(ctx context.Context, pool *pgxpool.Pool) error {
		store, err := pgvector.New(ctx, pool, pgvector.Options{
			Table: "product_index", Vectors: []pgvector.Vector{{Name: "text_vector", Dimensions: 2, HNSW: true}},
		})
		if err != nil {
			return err
		}
		product := func(id vectorstore.ID, price float64, v ...float32) vectorstore.Mutation {
			return vectorstore.Mutation{Object: vectorstore.Object{
				Ref: vectorstore.Ref{ID: id}, Properties: map[string]any{"price": price}, Vectors: map[string][]float32{"text_vector": v},
			}}
		}
		if err := store.Apply(ctx, []vectorstore.Mutation{
			product("d6064360-3449-5eaa-9d3b-8770b3d9a543", 99, 1, 0), product("ea8bce3a-2911-5b8d-90b4-a62ab9ff1d01", 150, 1, 1),
		}); err != nil {
			return err
		}
		found, err := store.Search(ctx, vectorstore.Query{
			Vector: "text_vector", Near: []float32{1, 1}, Filter: vectorstore.Less("price", 100),
		})
		for _, m := range found {
			fmt.Println(m.Object.ID, m.Object.Properties["price"], m.Distance)
		}
		return err
	}
	_ = run // it needs a database
}
