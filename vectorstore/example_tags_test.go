package vectorstore_test

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

func ExampleMappingOf() {
	type Book struct {
		ID    int64  `cdc:"id,key" store:"book_id"`
		Title string `store:",vector=text_vector"`
		Blurb string `store:"-,vector=text_vector"`
	}
	mapping, err := vectorstore.MappingOf[Book](vectorstore.Models{
		Texts: map[string]embed.Embedder[string]{"text_vector": embedtest.New(8)},
	})
	if err != nil {
		panic(err)
	}
	store := memory.New()
	sink, err := vectorstore.NewSink(store, mapping, vectorstore.SinkOptions{})
	if err != nil {
		panic(err)
	}
	book := Book{ID: 7, Title: "Tides", Blurb: "How the sea breathes."}
	event := cdc.Event[Book]{Op: cdc.OpCreate, Key: cdc.Key{{Name: "id", Value: book.ID}}, After: &book}
	if err := sink.Handle(context.Background(), []cdc.Event[Book]{event}); err != nil {
		panic(err)
	}
	for o, err := range vectorstore.All(context.Background(), store, "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(o.Properties, len(o.Vectors["text_vector"]))
	}
	// Output: map[book_id:7 title:Tides] 8
}
