package pulsarx_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// TestTransactionsAreBroken pins why this package offers none: with pulsar-client-go v0.21.0 on Pulsar 4.0.8, a message of an aborted
// transaction is delivered. The day this fails is the day to offer them. It runs in a process of its own: what the client makes for
// transactions outlives its Close, and connects again for ever. PULSAR_TRANSACTIONS_URL is a broker that has transactions where the one at
// PULSAR_URL has none.
func TestTransactionsAreBroken(t *testing.T) {
	const alone = "PULSARX_TRANSACTIONS_ALONE"
	s := realPulsar(t)
	s.url = cmp.Or(os.Getenv("PULSAR_TRANSACTIONS_URL"), s.url)
	if os.Getenv(alone) == "" {
		child := exec.CommandContext(timeout(t, 2*time.Minute), os.Args[0], "-test.run=^TestTransactionsAreBroken$")
		child.Env = append(os.Environ(), alone+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	transactions(t, s)
	if !t.Failed() {
		os.Exit(0) // without a look at what is left
	}
}

func transactions(t *testing.T, s server) {
	t.Helper()
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
		if err := end(transaction, timeout(t, 60*time.Second)); err != nil {
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
