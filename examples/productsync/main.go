// Productsync keeps the Weaviate collection Product equal to the Postgres table products: Debezium puts the table's changes into
// a Pulsar topic, this program embeds what changed and writes it. README.md says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// Product is a row of the table.
type Product struct {
	ID          int64   `cdc:"product_id,key"`
	Description *string `cdc:"description"`
}

func main() {
	c, err := configure(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		os.Exit(2) // the flag package has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, c, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "productsync:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config, out io.Writer) error {
	model, err := onnx.NewText(ctx, onnx.TextOptions{Dir: c.model, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer model.Close()
	o := c.store()
	o.OpenOnly = c.search != "" // a search for a collection with a typo must not create it
	store, err := weaviate.New(ctx, o)
	if err != nil {
		return err
	}
	defer store.Close()
	if c.search != "" {
		return search(ctx, out, model, store, c)
	}
	return index(ctx, c, model, store, vectorstore.SinkOptions{})
}

// index runs the pipeline until ctx is done.
func index(
	ctx context.Context, c config, model embed.Embedder[string], store vectorstore.Store, o vectorstore.SinkOptions,
) error {
	client, err := pulsarx.NewClient(c.client())
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	sink, err := vectorstore.NewSink(store, mapping(model), o)
	if err != nil {
		return err
	}
	decode, err := decoder()
	if err != nil {
		return err
	}
	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.DecodeFunc(reportingDecode(decode)), c.consumer())
	if err != nil {
		return err
	}
	defer consumer.Close(context.WithoutCancel(ctx))
	slog.Info("productsync follows", "pulsar", c.pulsarURL, "topic", c.topic, "subscription", c.subscription,
		"dead_letters", c.deadLetters, "collection", c.collection)
	return consumer.Run(ctx, pulsarx.Values(reporting(sink.Handle)))
}

// reporting logs why changes wait, which the consumer, that tries them again, counts in its metrics and does not log.
func reporting(handle func(context.Context, []cdc.Event[Product]) error) func(context.Context, []cdc.Event[Product]) error {
	return func(ctx context.Context, events []cdc.Event[Product]) error {
		err := handle(ctx, events)
		if err != nil {
			slog.Warn("changes cannot be indexed", "batch", len(events), "error", err)
		}
		return err
	}
}

// reportingDecode logs which messages go to the dead letters because nobody can read them.
func reportingDecode(decode func(pulsarx.Raw) (cdc.Event[Product], error)) func(pulsarx.Raw) (cdc.Event[Product], error) {
	return func(r pulsarx.Raw) (cdc.Event[Product], error) {
		e, err := decode(r)
		if err != nil {
			slog.Warn("a change cannot be read", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
		}
		return e, err
	}
}

// mapping says how a row becomes an object: one without a description has no text_vector, and none has an image_vector yet.
func mapping(model embed.Embedder[string]) vectorstore.Mapping[Product] {
	description := func(p Product) string {
		if p.Description == nil {
			return ""
		}
		return *p.Description
	}
	return vectorstore.Mapping[Product]{
		Vectors: []vectorstore.Vector[Product]{vectorstore.Embed("text_vector", description, model)},
		Properties: func(p Product) map[string]any {
			return map[string]any{"product_id": p.ID, "description": p.Description}
		},
	}
}

// decoder reads a change in either form: Avro where the message's schema says so, else Debezium's JSON.
func decoder() (func(pulsarx.Raw) (cdc.Event[Product], error), error) {
	debezium, err := cdc.NewDecoder[Product](cdc.Options{})
	if err != nil {
		return nil, err
	}
	avro := decodeAvro()
	return func(r pulsarx.Raw) (cdc.Event[Product], error) {
		if r.SchemaType == "AVRO" {
			return avro(r)
		}
		return debezium.Decode(cdc.Record(r))
	}, nil
}

// search prints the products whose descriptions are nearest to the text asked for.
func search(ctx context.Context, out io.Writer, model embed.Embedder[string], store vectorstore.Store, c config) error {
	vectors, err := model.Embed(ctx, []string{c.search})
	if err != nil {
		return err
	}
	matches, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: vectors[0]})
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		_, err := fmt.Fprintf(out, "no product with a description is in collection %s\n", c.collection)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DISTANCE\tPRODUCT_ID\tDESCRIPTION")
	for _, m := range matches {
		fmt.Fprintf(table, "%.3f\t%v\t%v\n", m.Distance, m.Object.Properties["product_id"], m.Object.Properties["description"])
	}
	return table.Flush()
}
