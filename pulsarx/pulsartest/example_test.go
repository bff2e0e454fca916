package pulsartest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// greet stands for the application: it reads names, and writes greetings until it has met "the end".
func greet(url string) error {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url, Logger: quietLogger()})
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: "names", SubscriptionName: "greeter", SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		AckWithResponse: true,
	})
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "greetings"})
	if err != nil {
		return err
	}
	defer producer.Close()
	for m := range consumer.Chan() {
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: append([]byte("hello, "), m.Payload()...)}); err != nil {
			return err
		}
		if err := consumer.Ack(m); err != nil {
			return err
		}
		if string(m.Payload()) == "the end" {
			break
		}
	}
	return nil
}

func say(url string, names ...string) error {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url, Logger: quietLogger()})
	if err != nil {
		return err
	}
	defer client.Close()
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "names"})
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, name := range names {
		if _, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte(name)}); err != nil {
			return err
		}
	}
	return nil
}

// An application is tested as it is: it connects to the broker's URL, and the test looks at what it has left in its topics.
func Example() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	if err := say(broker.URL(), "ada", "grace", "the end"); err != nil {
		log.Fatal(err)
	}
	if err := greet(broker.URL()); err != nil {
		log.Fatal(err)
	}
	for _, m := range broker.Messages("greetings") {
		fmt.Printf("%s\n", m.Value)
	}
	fmt.Println("unread:", broker.Backlog("names", "greeter"))
	// Output:
	// hello, ada
	// hello, grace
	// hello, the end
	// unread: 0
}

// bill stands for the handler of an application that uses pulsarx: it refuses what is nobody's.
func bill(_ context.Context, batch []pulsarx.Message[string]) error {
	errs := make(pulsarx.BatchError, len(batch))
	for i, m := range batch {
		if m.Value == "nobody" {
			errs[i] = pulsarx.Permanent(errors.New("nobody pays"))
		}
	}
	return errs.Err()
}

// The application subscribes, then messages come, and the test ends when all are acknowledged, although a connection breaks meanwhile.
func ExampleBroker_Backlog() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{Partitions: map[string]int{"names": 4}})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{"names"}, Subscription: "billing"})
	if err != nil {
		log.Fatal(err)
	}

	broker.Inject(pulsartest.Fault{Command: "ACK", Topic: "names", Count: 1, Disconnect: true})
	if err := say(broker.URL(), "ada", "nobody", "grace"); err != nil {
		log.Fatal(err)
	}
	go func() {
		for broker.Backlog("names", "billing") > 0 {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	if err := consumer.Run(ctx, bill); err != nil {
		log.Fatal(err)
	}
	for _, m := range broker.Messages("names-billing-DLQ") {
		fmt.Printf("%s: %s\n", m.Value, m.Properties[pulsarx.DeadLetterError])
	}
	fmt.Println(len(broker.Hits()), "fault")
	// Output:
	// nobody: nobody pays
	// 1 fault
}

// The broker refuses to store a message once; the client tries again by itself, and the application does not notice.
func ExampleBroker_Inject() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	remove := broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "names", After: 1, Count: 1, Error: "PersistenceError: disk full"})
	defer remove()
	if err := say(broker.URL(), "ada", "grace"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(broker.Messages("names")), "stored")
	// Output: 2 stored
}

// A restart breaks every connection. What was stored is still there, and clients come back by themselves.
func ExampleBroker_Restart() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	if err := say(broker.URL(), "ada"); err != nil {
		log.Fatal(err)
	}
	if err := broker.Restart(); err != nil {
		log.Fatal(err)
	}
	if err := say(broker.URL(), "the end"); err != nil {
		log.Fatal(err)
	}
	if err := greet(broker.URL()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(broker.Messages("greetings")), "greeted")
	// Output: 2 greeted
}

// A message is stored, and the connection breaks before the client hears of it. The client sends it again: without deduplication it is
// there twice. Hits tells that the fault was met.
func ExampleBroker_Hits() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "names", Count: 1, DropAnswer: true, Disconnect: true})
	if err := say(broker.URL(), "ada"); err != nil {
		log.Fatal(err)
	}
	for _, hit := range broker.Hits() {
		fmt.Println(hit.Command, hit.Topic)
	}
	fmt.Println(len(broker.Messages("names")), "stored")
	// Output:
	// SEND persistent://public/default/names
	// 2 stored
}

// Two brokers serve the topics between them. One dies: its topics pass to the other, and the application finds them there.
func ExampleBroker_Stop() {
	cluster, err := pulsartest.NewBroker(pulsartest.Options{Brokers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	if err := say(cluster.URL(), "ada"); err != nil {
		log.Fatal(err)
	}
	owner, err := cluster.Owner("names")
	if err != nil {
		log.Fatal(err)
	}
	if err := cluster.Stop(owner); err != nil {
		log.Fatal(err)
	}
	if err := say(cluster.URL(), "the end"); err != nil {
		log.Fatal(err)
	}
	successor, err := cluster.Owner("names")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(cluster.Messages("names")), "stored;", "another broker:", successor != owner)
	// Output: 2 stored; another broker: true
}
