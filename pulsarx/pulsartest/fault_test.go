package pulsartest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestDropAnswer stores a message and breaks the connection before the receipt: the client sends it again, and it is there twice,
// unless it is deduplicated.
func TestDropAnswer(t *testing.T) {
	for _, deduplicated := range []bool{false, true} {
		on, client := brokerAndClient(t, pulsartest.Options{Deduplication: deduplicated})
		fault := pulsartest.Fault{Command: "SEND", Topic: "t", Count: 1, DropAnswer: true, Disconnect: true}
		on.broker.Inject(fault)
		p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", Name: "p", SendTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("once")}); err != nil {
			t.Fatal(err)
		}
		p.Close()
		want := 2
		if deduplicated {
			want = 1
		}
		if n := len(on.broker.Messages("t")); n != want {
			t.Errorf("deduplicated %v: %d messages", deduplicated, n)
		}
		hits := on.broker.Hits()
		if len(hits) != 1 || hits[0].Fault != fault || hits[0].Command != "SEND" || hits[0].Topic != "persistent://public/default/t" || hits[0].Client == "" {
			t.Error(hits)
		}
	}
}

func TestDuplicateCommand(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	on.broker.Inject(pulsartest.Fault{Command: "SEND", Key: "twice", Duplicate: true})
	produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(3, func(i int) string { return []string{"", "twice", ""}[i] })...)
	var got []string
	for _, m := range on.broker.Messages("t") {
		got = append(got, string(m.Value))
	}
	if !slices.Equal(got, []string{"0", "1", "1", "2"}) {
		t.Error(got)
	}
}

// TestMessageTwice delivers a message twice. Nothing is acknowledged before all is there: the client drops a message that comes again
// while its acknowledgement waits to be sent.
func TestMessageTwice(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	on.broker.Inject(pulsartest.Fault{Command: "MESSAGE", Key: "1", Topic: "t", Count: 1, Duplicate: true})
	produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(3, func(i int) string { return count(3)[i] })...)
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", Type: pulsar.Shared})
	seen := map[string]int{}
	for range 4 {
		seen[string(receive(t, c).Payload())]++
	}
	if len(seen) != 3 || seen["1"] != 2 {
		t.Error(seen)
	}
}

// TestMessageFaults loses a message until the consumer reconnects, and breaks the connection in place of another.
func TestMessageFaults(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	for key, f := range map[string]pulsartest.Fault{"3": {Drop: true}, "5": {Disconnect: true}} {
		f.Command, f.Key, f.Topic, f.Count = "MESSAGE", key, "t", 1
		on.broker.Inject(f)
	}
	produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(7, func(i int) string { return count(7)[i] })...)
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", Type: pulsar.Shared})
	seen := map[string]int{}
	for len(seen) < 7 {
		m := receive(t, c)
		seen[string(m.Payload())]++
		ack(t, c, m)
	}
	eventually(t, func() bool { return on.broker.Backlog("t", "s") == 0 })
	if hits := on.broker.Hits(); len(hits) != 2 || hits[0].Command != "MESSAGE" {
		t.Error(hits)
	}
}

// TestMessageDelay holds a message up, and what is sent behind it.
func TestMessageDelay(t *testing.T) {
	const delay = 300 * time.Millisecond
	on, client := brokerAndClient(t, pulsartest.Options{})
	on.broker.Inject(pulsartest.Fault{Command: "MESSAGE", Key: "3", Topic: "t", Count: 1, Delay: delay})
	on.broker.Inject(pulsartest.Fault{Command: "MESSAGE", Key: "5", Topic: "t", Count: 1, Delay: delay, Disconnect: true})
	produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(7, func(i int) string { return count(7)[i] })...)
	start := time.Now()
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", Type: pulsar.Shared})
	at := map[string]time.Time{}
	var order []string
	for len(at) < 7 {
		m := receive(t, c)
		if at[m.Key()].IsZero() {
			at[m.Key()], order = time.Now(), append(order, m.Key())
		}
		ack(t, c, m)
	}
	if !slices.IsSorted(order) || at["3"].Sub(start) < delay || at["5"].Sub(start) < 2*delay {
		t.Errorf("received %v at %v, from %v on", order, at, start)
	}
}

// TestWitness watches without doing anything.
func TestWitness(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{Partitions: map[string]int{"t": 2}})
	remove := on.broker.Inject(pulsartest.Fault{Command: "SUBSCRIBE", Topic: "t"})
	subscribe(t, client, pulsar.ConsumerOptions{Topic: "t"})
	subscribe(t, client, pulsar.ConsumerOptions{Topic: "other"})
	remove()
	subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", SubscriptionName: "later"})
	if hits := on.broker.Hits(); len(hits) != 2 || hits[0].Topic == hits[1].Topic || hits[0].Time.IsZero() {
		t.Error(hits)
	}
}

func TestImpossibleFaults(t *testing.T) {
	b := newBroker(t, pulsartest.Options{})
	for _, f := range []pulsartest.Fault{{Command: "SEN"}, {Topic: "a/b"}, {Command: "MESSAGE", DropAnswer: true}, {Command: "MESSAGE", Error: "x"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", f)
				}
			}()
			b.Inject(f)
		}()
	}
}
