package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"

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
		Topics: []string{"orders"}, Subscription: "billing", MaxBatch: 1, // BatchError is for larger ones
	})
	if err != nil {
		log.Fatal(err)
	}
	err = consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[Order]) error {
		order := batch[0].Value
		if order.Total < 0 {
			return pulsarx.Permanent(errors.New("negative total"))
		}
		fmt.Println("billed", order.Total)
		stop() // a service would go on
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

// A handler says which messages of a batch failed. The others are done, but for those that stand behind a failed one of their key: they run
// again.
func ExampleBatchError() {
	bill := func(_ context.Context, batch []pulsarx.Message[Order]) error {
		errs := make(pulsarx.BatchError, len(batch))
		for i, m := range batch {
			if m.Value.Total < 0 {
				errs[i] = pulsarx.Permanent(errors.New("negative total"))
			}
		}
		return errs.Err()
	}
	fmt.Println(bill(context.Background(), []pulsarx.Message[Order]{{Value: Order{"a", 5}}, {Value: Order{"b", -1}}}))
	fmt.Println(bill(context.Background(), []pulsarx.Message[Order]{{Value: Order{"a", 5}}}))
	// Output:
	// pulsarx: 1 of 2 messages failed, the first, number 1: negative total
	// <nil>
}

// A client with TLS, and a token that is read whenever a connection needs it, so that it changes without a restart. Options print no secret.
func ExampleClientOptions() {
	options := pulsarx.ClientOptions{
		URL:      "pulsar+ssl://pulsar.example:6651",
		AdminURL: "https://pulsar.example:8443",
		Auth:     pulsarx.TokenFile("/var/run/secrets/pulsar/token"),
		Pulsar:   pulsar.ClientOptions{TLSTrustCertsFilePath: "/etc/pulsar/ca.pem", TLSValidateHostname: true},
	}
	fmt.Println(options)
	// Output: pulsarx.ClientOptions(URL pulsar+ssl://pulsar.example:6651, AdminURL https://pulsar.example:8443, authentication token)
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

// A quarter of the visitors, always the same ones and with all that they do, feed an evaluation that may miss some of it.
func ExampleSampler() {
	broker, client := start()
	defer broker.Close()
	ctx := context.Background()
	defer client.Close(ctx)
	feed, err := pulsarx.NewSampler(ctx, client, pulsarx.String(), pulsarx.SamplerOptions[string]{
		Producer: pulsarx.ProducerOptions[string]{
			Topic: "non-persistent://public/default/visits",
			Key:   func(visit string) string { return strings.Fields(visit)[0] },
		},
		Share: 0.25,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer feed.Close(ctx)
	for _, visit := range []string{"ann /docs", "bob /docs", "ann /pricing", "bob /pricing", "eve /"} {
		if feed.Offer(ctx, visit) {
			fmt.Println("fed", visit)
		}
	}
	// Output:
	// fed bob /docs
	// fed bob /pricing
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
