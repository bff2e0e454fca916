package weaviate_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// A store for a table of products: written, read and searched.
func ExampleNew() {
	ctx := context.Background()
	store, err := weaviate.New(ctx, weaviate.Options{
		HTTP: os.Getenv("WEAVIATE_HTTP"), GRPC: os.Getenv("WEAVIATE_GRPC"), APIKey: os.Getenv("WEAVIATE_API_KEY"),
		Collection: "Product",
		Vectors:    []weaviate.Vector{{Name: "text_vector", Dimensions: 3}},
		Properties: []weaviate.Property{
			{Name: "product_id", DataType: weaviate.Int},
			{Name: "description", DataType: weaviate.Text},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	seven := vectorstore.Ref{ID: "f14461fd-128c-5c6c-aede-8e5e06ef19ff"} // UUID5({'product_id': 7})
	err = store.Apply(ctx, []vectorstore.Mutation{{Object: vectorstore.Object{
		Ref:        seven,
		Properties: map[string]any{"product_id": 7, "description": "a red tent"},
		Vectors:    map[string][]float32{"text_vector": {0.1, 0.9, 0.2}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	matches, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: []float32{0, 1, 0}, Limit: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range matches {
		fmt.Printf("%.3f %v\n", m.Distance, m.Object.Properties["description"])
	}
}

// A property price that changes leaves the other properties and the vectors as they are.
func ExampleStore_Apply() {
	reprice := func(ctx context.Context, store *weaviate.Store, ref vectorstore.Ref, price float64, version string) error {
		return store.Apply(ctx, []vectorstore.Mutation{{
			Action: vectorstore.Merge,
			Object: vectorstore.Object{Ref: ref, Properties: map[string]any{"price": price}, Version: version},
		}})
	}
	_ = reprice
}

// The properties of a struct, and a second named vector with a compressed index for a second model.
func ExamplePropertiesOf() {
	type Product struct {
		ID          int64   `weaviate:"product_id"`
		Description *string `weaviate:"description,tokenization=word"`
		Price       float64 `weaviate:"price,rangefilter"`
	}
	properties, err := weaviate.PropertiesOf[Product]()
	if err != nil {
		fmt.Println(err)
		return
	}
	options := weaviate.Options{
		HTTP: "localhost:8080", Collection: "Product", Properties: properties,
		Vectors: []weaviate.Vector{
			{Name: "text_vector", Dimensions: 384},
			{Name: "text_vector_2", Dimensions: 1536, Quantizer: weaviate.RQ},
		},
	}
	for _, p := range options.Properties {
		fmt.Println(p.Name, p.DataType)
	}
	// Output:
	// product_id int
	// description text
	// price number
}

// A hybrid search, by meaning and by words, among what is cheap.
func ExampleStore_Search() {
	search := func(ctx context.Context, store *weaviate.Store, text string, vector []float32) error {
		found, err := store.Search(ctx, vectorstore.Query{
			Text: text, Vector: "text_vector", Near: vector, Alpha: 0.5,
			Filter: vectorstore.And(vectorstore.Less("price", 100), vectorstore.ContainsAny("tags", []string{"tent", "camping"})),
			Limit:  5,
		})
		for _, m := range found {
			fmt.Println(m.Score, m.Object.Properties["description"])
		}
		return err
	}
	_ = search
}

// A new model without downtime: the collection gets a second named vector, which a backfill fills with Merge while the first is searched
// and live changes write both. Then queries name the second. A backfill yields to live writes.
func Example_reindex() {
	reindex := func(ctx context.Context, o weaviate.Options, model embed.Embedder[string]) error {
		o.Vectors = append(o.Vectors, weaviate.Vector{Name: "text_vector_2"})
		store, err := weaviate.New(ctx, o) // adds the vector
		if err != nil {
			return err
		}
		defer store.Close()
		ctx = embed.WithPriority(ctx, embed.Backfill)
		for object, err := range vectorstore.All(ctx, store, "") {
			if err != nil {
				return err
			}
			text, _ := object.Properties["description"].(string)
			vectors, err := model.Embed(ctx, []string{text})
			if err != nil {
				return err
			}
			err = store.Apply(ctx, []vectorstore.Mutation{{Action: vectorstore.Merge, Object: vectorstore.Object{
				Ref: object.Ref, Vectors: map[string][]float32{"text_vector_2": vectors[0]},
			}}})
			if err != nil {
				return err
			}
		}
		return nil
	}
	_ = reindex
}

// A new collection without downtime: programs that search have opened the alias, with OpenOnly. The new collection is written whole,
// here from the old one; then the alias stands for it.
func ExampleStore_PointAlias() {
	replace := func(ctx context.Context, from *weaviate.Store, o weaviate.Options, alias string) error {
		store, err := weaviate.New(ctx, o) // another collection, with other options
		if err != nil {
			return err
		}
		defer store.Close()
		var batch []vectorstore.Mutation
		for object, err := range vectorstore.All(ctx, from, "") {
			if err != nil {
				return err
			}
			if batch = append(batch, vectorstore.Mutation{Object: *object}); len(batch) == 1000 {
				if err := store.Apply(ctx, batch); err != nil {
					return err
				}
				batch = nil
			}
		}
		if err := store.Apply(ctx, batch); err != nil {
			return err
		}
		return store.PointAlias(ctx, alias)
	}
	_ = replace
}
