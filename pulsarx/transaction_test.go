package pulsarx_test

import (
	"context"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// TestTransactionsAreBroken pins why this package offers none: with pulsar-client-go v0.21.0 on Pulsar 4.0.8, a message of an aborted
// transaction is delivered. The day this fails is the day to offer them.
func TestTransactionsAreBroken(t *testing.T) {
	s := realPulsar(t)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: s.url, Logger: nopLogger(), EnableTransaction: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := topic(t)
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, SendTimeout: -1, DisableBatching: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for payload, end := range map[string]func(pulsar.Transaction, context.Context) error{
		"aborted": pulsar.Transaction.Abort, "committed": pulsar.Transaction.Commit,
	} {
		transaction, err := client.NewTransaction(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte(payload), Transaction: transaction}); err != nil {
			t.Fatal(err)
		}
		if err := end(transaction, timeout(t, 20*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]bool{}
	for _, m := range receiveAll(t, s, topic, 2) {
		got[string(m.Payload())] = true
	}
	if !got["aborted"] || !got["committed"] {
		t.Errorf("got %v: a message of an aborted transaction is not delivered any more", got)
	}
}
