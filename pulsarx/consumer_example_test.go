package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// Orders that could not be booked are moved back when the reason has gone, but for those that are invalid.
func ExampleRedrive() {
	ctx := context.Background()
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	producer, err := pulsarx.NewProducer(ctx, client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close(ctx)
	for _, order := range []string{"3 books", "-1 books"} {
		if _, err := producer.Send(ctx, order, pulsarx.Key("ann")); err != nil {
			log.Fatal(err)
		}
	}

	// The consumer gives both up.
	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{"orders"}, Subscription: "billing", MaxBatch: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	go func() {
		for len(broker.Messages("orders-billing-DLQ")) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	}()
	err = consumer.Run(running, func(_ context.Context, batch []pulsarx.Message[string]) error {
		if batch[0].Value == "-1 books" {
			return pulsarx.Permanent(errors.New("invalid"))
		}
		return pulsarx.Permanent(errors.New("the ledger is closed"))
	})
	if err != nil {
		log.Fatal(err)
	}

	// Booking compares the order's version, so that it may come behind a later one.
	result, err := pulsarx.Redrive(ctx, client, pulsarx.RedriveOptions{
		Topic: "orders-billing-DLQ", Order: pulsarx.RedriveGuarded,
		Filter: func(letter pulsarx.DeadLetter, _ pulsarx.Raw) bool { return letter.Error != "invalid" },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("moved %d, %d stay\n", result.Moved, result.Filtered)
	messages := broker.Messages("orders")
	fmt.Printf("the topic's last message: %s\n", messages[len(messages)-1].Value)
	// Output:
	// moved 1, 1 stay
	// the topic's last message: 3 books
}
