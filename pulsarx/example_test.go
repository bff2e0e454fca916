package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

type Order struct {
	ID    string `avro:"id"`
	Total int64  `avro:"total"`
}

// Two orders are sent, one is handled, and the other goes to the dead letters.
func Example() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx, stop := context.WithCancel(context.Background())
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	orders, err := pulsarx.NewProducer(ctx, client, pulsarx.Avro[Order](), pulsarx.ProducerOptions[Order]{
		Topic: "orders", Key: func(o Order) string { return o.ID },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(context.Background())
	for _, o := range []Order{{"a", -1}, {"a", 20}} {
		if _, err := orders.Send(ctx, o); err != nil {
			log.Fatal(err)
		}
	}

	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.Avro[Order](), pulsarx.ConsumerOptions{
		Topics: []string{"orders"}, Subscription: "billing",
	})
	if err != nil {
		log.Fatal(err)
	}
	err = consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[Order]) error {
		errs := make(pulsarx.BatchError, len(batch))
		for i, m := range batch {
			if m.Value.Total < 0 {
				errs[i] = pulsarx.Permanent(errors.New("negative total"))
				return errs // what stands behind it in the batch runs again
			}
			fmt.Println("billed", m.Value.Total)
			stop()
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, letter := range broker.Messages("orders-billing-DLQ") {
		fmt.Println("dead letter:", letter.Properties[pulsarx.DeadLetterError])
	}
	// Output:
	// billed 20
	// dead letter: negative total
}

// A replay hands the same handler what a topic holds, from a time or a place to its end.
func ExampleReplay() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx := context.Background()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	clicks, err := pulsarx.NewProducer(ctx, client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "clicks"})
	if err != nil {
		log.Fatal(err)
	}
	defer clicks.Close(ctx)
	for _, page := range []string{"/", "/pricing", "/docs"} {
		if _, err := clicks.Send(ctx, page); err != nil {
			log.Fatal(err)
		}
	}
	var last pulsarx.Progress
	err = pulsarx.Replay(ctx, client, pulsarx.String(), pulsarx.ReplayOptions{
		Topics: []string{"clicks"}, Progress: func(p pulsarx.Progress) { last = p },
	}, pulsarx.Values(func(_ context.Context, pages []string) error {
		for _, page := range pages {
			fmt.Println(page)
		}
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.Messages, "messages,", last.Remaining, "to come")
	// Output:
	// /
	// /pricing
	// /docs
	// 3 messages, 0 to come
}

func ExamplePosition() {
	var p pulsarx.Position
	fmt.Println(p)
	if err := p.UnmarshalText([]byte("at:2024-05-06T07:08:09Z")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p)
	// Output:
	// v1 beginning
	// v1 at:2024-05-06T07:08:09Z
}

func ExampleAvro() {
	type customer struct {
		ID    string  `avro:"id"`
		Name  string  `avro:"full_name,alias=name"`
		Email *string `avro:"email"`
	}
	schema, err := pulsarx.Avro[customer]().Schema()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(schema.Definition))
	// Output:
	// {"type":"record","name":"customer","fields":[{"name":"id","type":"string"},{"name":"full_name","aliases":["name"],"type":"string"},{"name":"email","type":["null","string"],"default":null}]}
}
