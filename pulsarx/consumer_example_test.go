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

// A table view: the last value of each key, first from what the topic holds and then from what comes. The subscription is there before
// the replay, so that nothing is missed in between, and what is seen twice is the same.
func ExampleReplay_tableView() {
	ctx, stop := context.WithCancel(context.Background())
	broker, client := start()
	defer broker.Close()
	defer client.Close(context.Background())
	prices, err := pulsarx.NewProducer(ctx, client, pulsarx.Int64(), pulsarx.ProducerOptions[int64]{Topic: "prices"})
	if err != nil {
		log.Fatal(err)
	}
	defer prices.Close(context.Background())
	set := func(key string, price int64) {
		if _, err := prices.Send(ctx, price, pulsarx.Key(key)); err != nil {
			log.Fatal(err)
		}
	}
	set("mug", 24)
	set("lamp", 39)
	set("mug", 22)

	news, err := pulsarx.NewConsumer(ctx, client, pulsarx.Int64(), pulsarx.ConsumerOptions{
		Topics: []string{"prices"}, Subscription: "view-7", Type: pulsarx.Exclusive, InitialPosition: pulsarx.FromLatest, Workers: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	view := map[string]int64{}
	see := func(_ context.Context, batch []pulsarx.Message[int64]) error {
		for _, m := range batch {
			if view[m.Key] = m.Value; m.Tombstone {
				delete(view, m.Key)
			}
		}
		return nil
	}
	err = pulsarx.Replay(ctx, client, pulsarx.Int64(), pulsarx.ReplayOptions{Topics: []string{"prices"}, Compacted: true}, see)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(view)

	set("chair", 120)
	if _, err := prices.SendTombstone(ctx, "lamp"); err != nil {
		log.Fatal(err)
	}
	err = news.Run(ctx, func(ctx context.Context, batch []pulsarx.Message[int64]) error {
		defer func() {
			if view["chair"] > 0 && view["lamp"] == 0 {
				stop()
			}
		}()
		return see(ctx, batch)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(view)
	// Output:
	// map[lamp:39 mug:22]
	// map[chair:120 mug:22]
}
