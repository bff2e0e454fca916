package vectorstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// Shoe is a row of a table.
type Shoe struct {
	ID    int64   `cdc:"id,key"`
	Name  string  `cdc:"name"`
	Price float64 `cdc:"price"`
}

// A table's changes become objects; a change of the price alone needs no embedding.
func Example() {
	ctx := context.Background()
	store := memory.New()
	model := embedtest.New(64) // an application takes one of package onnx
	sink, err := vectorstore.NewSink(store, vectorstore.Mapping[Shoe]{
		Vectors:    []vectorstore.Vector[Shoe]{vectorstore.Embed("text_vector", func(s Shoe) string { return s.Name }, model)},
		Properties: func(s Shoe) map[string]any { return map[string]any{"name": s.Name, "price": s.Price} },
	}, vectorstore.SinkOptions{
		Observe: func(o vectorstore.Outcome) { fmt.Printf("%c %v: %v %v\n", o.Op, o.Key[0].Value, o.Kind, o.Embedded) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	change := func(op cdc.Op, lsn uint64, s Shoe) cdc.Event[Shoe] { // an application decodes them: cdc.Decoder
		return cdc.Event[Shoe]{
			Op: op, Key: cdc.Key{{Name: "id", Value: s.ID}}, After: &s,
			Source: cdc.Source{LSN: lsn}, Record: cdc.Record{Offset: fmt.Sprintf("%04d", lsn)},
		}
	}
	batches := [][]cdc.Event[Shoe]{
		{change(cdc.OpCreate, 1, Shoe{1, "red running shoes", 90}), change(cdc.OpCreate, 2, Shoe{2, "green rubber boots", 40})},
		{change(cdc.OpUpdate, 3, Shoe{1, "red running shoes", 75})},
		{change(cdc.OpDelete, 4, Shoe{2, "", 0})},
		{change(cdc.OpUpdate, 2, Shoe{2, "green rubber boots", 40})}, // comes again, late
	}
	for _, events := range batches {
		if err := sink.Handle(ctx, events); err != nil {
			fmt.Println(err)
			return
		}
	}

	near, err := model.Embed(ctx, []string{"shoes for running"})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: near[0], Limit: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range found {
		fmt.Println(m.Object.Properties["name"], m.Object.Properties["price"])
	}
	// Output:
	// c 1: created [text_vector]
	// c 2: created [text_vector]
	// u 1: updated []
	// d 2: deleted []
	// u 2: stale []
	// red running shoes 75
}

func ExampleUUID5() {
	id, err := vectorstore.UUID5(cdc.Key{{Name: "product_id", Value: int64(7)}})
	fmt.Println(id, err)
	_, err = vectorstore.UUID5(cdc.Key{{Name: "product_id", Value: []byte("7")}})
	fmt.Println(errors.Is(err, vectorstore.ErrKey))
	// Output:
	// f14461fd-128c-5c6c-aede-8e5e06ef19ff <nil>
	// true
}

func ExampleBatchError() {
	err := vectorstore.NewBatchError([]error{nil, vectorstore.Permanent(errors.New("no such property")), nil})
	var batch *vectorstore.BatchError
	if errors.As(err, &batch) {
		for i, err := range batch.ItemErrors() {
			fmt.Println(i, err)
		}
	}
	fmt.Println(err, batch.Permanent())
	// Output:
	// 0 <nil>
	// 1 no such property
	// 2 <nil>
	// vectorstore: 1 of 3 items failed, the first, number 1: no such property true
}

// A shoe was lost on the way, and an object stayed when its row went: both are found and put right.
func ExampleSink_Reconcile() {
	ctx := context.Background()
	store := memory.New()
	sink, err := vectorstore.NewSink(store, vectorstore.Mapping[Shoe]{
		Properties: func(s Shoe) map[string]any { return map[string]any{"name": s.Name} },
	}, vectorstore.SinkOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	read := func(lsn uint64, s Shoe) cdc.Event[Shoe] {
		return cdc.Event[Shoe]{Op: cdc.OpRead, Key: cdc.Key{{Name: "id", Value: s.ID}}, After: &s, Source: cdc.Source{LSN: lsn}}
	}
	if err := sink.Handle(ctx, []cdc.Event[Shoe]{read(10, Shoe{ID: 1, Name: "clogs"}), read(11, Shoe{ID: 2, Name: "boots"})}); err != nil {
		fmt.Println(err)
		return
	}
	table := func(yield func(cdc.Event[Shoe], error) bool) { // what the table has at position 50 of the log
		_ = yield(read(0, Shoe{ID: 1, Name: "clogs"}), nil) && yield(read(0, Shoe{ID: 3, Name: "pumps"}), nil)
	}
	found, err := sink.Reconcile(ctx, table, vectorstore.ReconcileOptions{
		AsOf: cdc.Position{LSN: 50}, Repair: true,
		Observe: func(d vectorstore.Difference) { fmt.Println(d.Finding, d.Ref.ID, d.Repaired) },
	})
	fmt.Println(found.Rows, found.Equal, found.Clean(), err)
	matches, err := store.Search(ctx, vectorstore.Query{Filter: vectorstore.Like("name", "*s")})
	for _, m := range matches {
		fmt.Println(m.Object.Properties["name"])
	}
	fmt.Println(err)
	// Output:
	// missing a06c4ba0-f87f-5f03-9ccb-48739d9f2a9b true
	// orphan 724aea0a-fb66-5b2f-8af0-43fc48c731af true
	// 2 1 true <nil>
	// pumps
	// clogs
	// <nil>
}

// A text is a vector for each of its words, and a question finds the text that has something near each of its own words.
func ExampleQuery_lateInteraction() {
	ctx := context.Background()
	words := embedtest.New(64) // an application takes a model that makes a vector for each token, such as ColBERT
	embed := func(text string) [][]float32 {
		vectors, err := words.Embed(ctx, strings.Fields(text))
		if err != nil {
			panic(err)
		}
		return vectors
	}
	store := memory.New()
	for i, text := range []string{"red shoes with green laces", "green shoes", "a red hat"} {
		id, err := vectorstore.UUID5(cdc.Key{{Name: "id", Value: int64(i)}})
		if err != nil {
			fmt.Println(err)
			return
		}
		err = store.Apply(ctx, []vectorstore.Mutation{{Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: id}, Properties: map[string]any{"text": text},
			MultiVectors: map[string][][]float32{"tokens": embed(text)},
		}}})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	found, err := store.Search(ctx, vectorstore.Query{Vector: "tokens", NearMulti: embed("red laces"), Limit: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range found {
		fmt.Println(m.Object.Properties["text"])
	}
	// Output:
	// red shoes with green laces
	// a red hat
}
