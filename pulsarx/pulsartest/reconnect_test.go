//go:build !race

package pulsartest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestFaultSend is apart since the client's producer races with itself when it reconnects: it changes the metadata of a batch that it is
// sending.
func TestFaultSend(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	remove := on.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "t", Key: "bad", After: 1, Count: 1, Error: "PersistenceError: no disk"})
	defer remove()
	ids := produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(4, func(i int) string { return []string{"good", "bad", "bad", "good"}[i] })...)
	if got := on.broker.Messages("t"); len(got) != 4 || slices.Contains(ids, nil) {
		t.Fatal(got) // the client reconnects and sends again
	}
}

// TestMoveProducer keeps one producer over moves and deaths of brokers, for the same reason.
func TestMoveProducer(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{Brokers: 2})
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", DisableBatching: true, SendTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 6 {
		done := make(chan error, 10)
		for range cap(done) {
			p.SendAsync(context.Background(), &pulsar.ProducerMessage{}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { done <- err })
		}
		if i < 4 {
			err = on.broker.Move("t", i%2)
		} else {
			err = errors.Join(on.broker.Stop(i%2), on.broker.Start(i%2))
		}
		for range cap(done) {
			err = errors.Join(err, <-done)
		}
		if err != nil {
			t.Fatal(i, err)
		}
	}
	if n := len(on.broker.Messages("t")); n < 60 {
		t.Fatal(n)
	}
}
