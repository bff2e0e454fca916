// Quickstart is the whole path through Tidemark in one process, without a server: messages that the real Debezium sent for a
// table of products go through an in-process Pulsar broker, a real model embeds the texts, and an in-memory store answers
// searches before and after the table changes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// Product is a row of the table.
type Product struct {
	ID          int64   `cdc:"product_id,key"`
	Description string  `cdc:"description"` // empty where the row has none
	Price       float64 `cdc:"price"`
}

const (
	topic        = "pg.products.changes"
	subscription = "quickstart"
)

var queries = []string{"keep my coffee hot on a hike", "a light for reading in bed", "a present for a child who loves the stars"}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object instead of text")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, asJSON bool) error {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		return err
	}
	defer broker.Close()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL(), AdminURL: broker.AdminURL()})
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	model, err := onnx.NewText(ctx, onnx.TextOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer model.Close()
	store, story := memory.New(), newStory()
	consumer, handle, err := newPipeline(ctx, client, model, store, story)
	if err != nil {
		return err
	}
	defer consumer.Close(context.WithoutCancel(ctx))

	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(consumer.Run(ctx, pulsarx.Values(handle)))
	}()
	err = tell(ctx, client, broker, model, store, story)
	cancel(errors.New("the end"))
	<-done
	if err != nil {
		return err
	}
	return story.print(out, asJSON)
}

// newPipeline joins what an application joins: a decoder of the topic's messages, and a sink that embeds and stores rows.
func newPipeline(
	ctx context.Context, client *pulsarx.Client, model embed.Embedder[string], store vectorstore.Store, story *story,
) (*pulsarx.Consumer[cdc.Event[Product]], func(context.Context, []cdc.Event[Product]) error, error) {
	decoder, err := cdc.NewDecoder[Product](cdc.Options{})
	if err != nil {
		return nil, nil, err
	}
	decode := func(r pulsarx.Raw) (cdc.Event[Product], error) {
		e, err := decoder.Decode(cdc.Record(r))
		e.Source.CommitTime = r.PublishTime // the recording is old: freshness begins where it is played
		return e, err
	}
	sink, err := vectorstore.NewSink(store, vectorstore.Mapping[Product]{
		Vectors: []vectorstore.Vector[Product]{
			vectorstore.Embed("text_vector", func(p Product) string { return p.Description }, model),
		},
		Properties: func(p Product) map[string]any {
			return map[string]any{"product_id": p.ID, "description": p.Description, "price": p.Price}
		},
	}, vectorstore.SinkOptions{Observe: story.outcome})
	if err != nil {
		return nil, nil, err
	}
	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.DecodeFunc(decode), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: subscription, Type: pulsarx.KeyShared, MaxDelay: time.Millisecond,
	})
	return consumer, story.telling(sink.Handle), err
}

// tell plays the recording and searches before and after the changes.
func tell(
	ctx context.Context, client *pulsarx.Client, broker *pulsartest.Broker, model embed.Embedder[string], store vectorstore.Store, story *story,
) error {
	messages, err := readRecording()
	if err != nil {
		return err
	}
	producer, err := pulsarx.NewProducer(ctx, client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
	if err != nil {
		return err
	}
	defer producer.Close(context.WithoutCancel(ctx))
	if err := play(ctx, producer, broker, messages[:snapshotRows]); err != nil {
		return err
	}
	if err := search(ctx, model, store, story.before); err != nil {
		return err
	}
	for i := range messages[snapshotRows:] { // one by one, so that none is there already when the one before it is embedded
		if err := play(ctx, producer, broker, messages[snapshotRows+i:][:1]); err != nil {
			return err
		}
	}
	return search(ctx, model, store, story.after)
}

// settle waits until every message is acknowledged.
func settle(ctx context.Context, broker *pulsartest.Broker) error {
	for broker.Backlog(topic, subscription) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func search(
	ctx context.Context, model embed.Embedder[string], store vectorstore.Store, found func(string, []vectorstore.Match),
) error {
	vectors, err := model.Embed(ctx, queries)
	if err != nil {
		return err
	}
	for i, query := range queries {
		matches, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: vectors[i], Limit: 3})
		if err != nil {
			return err
		}
		found(query, matches)
	}
	return nil
}
