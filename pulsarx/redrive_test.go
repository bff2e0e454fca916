package pulsarx_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// buried makes dead letters of all values.
func buried(t *testing.T, c *pulsarx.Client, s server, topic string, values ...string) string {
	t.Helper()
	send(t, keyed(t, c, topic), values...)
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(context.Context, []pulsarx.Message[string]) error { return pulsarx.Permanent(errors.New("no")) })
	letters(t, s, topic+"-s-DLQ", len(values))
	r.stop()
	return topic + "-s-DLQ"
}

// raws reads a subscription until it has n messages, and a moment longer.
func raws(t *testing.T, c *pulsarx.Client, topic, subscription string, n int) []pulsarx.Raw {
	t.Helper()
	var mu sync.Mutex
	var all []pulsarx.Raw
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(all) }
	r := run(t, c, pulsarx.DecodeFunc(func(r pulsarx.Raw) (pulsarx.Raw, error) { return r, nil }),
		pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: subscription},
		pulsarx.Values(func(_ context.Context, values []pulsarx.Raw) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, values...)
			return nil
		}))
	eventually(t, fmt.Sprintf("%d messages of %s", n, topic), func() bool { return count() >= n })
	time.Sleep(100 * time.Millisecond)
	r.stop()
	if len(all) != n {
		t.Errorf("%d messages, want %d", len(all), n)
	}
	return all
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			c, topic := s.client(t), topic(t)
			at := time.UnixMilli(1700000000123)
			old := producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
			for i := range 3 {
				_, err := old.Send(t.Context(), productV1{fmt.Sprint(i), "bob"}, pulsarx.Key("k"), pulsarx.EventTime(at), pulsarx.Property("p", fmt.Sprint(i)))
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := old.SendTombstone(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			r := run(t, c, pulsarx.Avro[productV2](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(context.Context, []pulsarx.Message[productV2]) error { return pulsarx.Permanent(errors.New("no")) })
			dead := letters(t, s, topic+"-s-DLQ", 4)
			r.stop()
			first, _ := pulsarx.ParseDeadLetter(dead[0].Properties())
			if first.Reason != "permanent" || first.Attempts < 1 || first.FirstTime.IsZero() || first.LastTime.Before(first.FirstTime) ||
				first.PublishTime.IsZero() || len(first.SchemaVersion) == 0 || first.Topic != topic || first.Subscription != "s" || first.Error != "no" {
				t.Errorf("%+v", first)
			}

			if _, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: topic + "-s-DLQ"}); !errors.Is(err, pulsarx.ErrRedriveOrder) {
				t.Errorf("without an order: %v", err)
			}
			options := pulsarx.RedriveOptions{
				Topic: topic + "-s-DLQ", Order: pulsarx.RedriveGuarded,
				Filter: func(l pulsarx.DeadLetter, r pulsarx.Raw) bool {
					if l.Topic != topic || r.Key != "k" || r.Properties[pulsarx.DeadLetterReason] != "" {
						t.Errorf("the filter gets %+v %+v", l, r)
					}
					return r.Properties["p"] != "1"
				},
			}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{Moved: 3, Filtered: 1}) {
				t.Errorf("redrive: %+v, %v", got, err)
			}
			// A second time there is but the one that stayed, and what comes meanwhile is for the third time.
			options.Limit = 5
			options.Filter = func(pulsarx.DeadLetter, pulsarx.Raw) bool {
				p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: options.Topic})
				if _, err := p.Send(t.Context(), []byte("v"), pulsarx.Key("k"), pulsarx.Property(pulsarx.DeadLetterTopic, topic+"-other")); err != nil {
					t.Error(err)
				}
				return true
			}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{Moved: 1}) {
				t.Errorf("redrive: %+v, %v", got, err)
			}
			options.Filter = nil
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{Moved: 1}) {
				t.Errorf("redrive: %+v, %v", got, err)
			}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{}) {
				t.Errorf("redrive of nothing: %+v, %v", got, err)
			}

			schema, _ := pulsarx.Avro[productV1]().Schema()
			var order []string
			for _, m := range raws(t, c, topic, "s", 4) {
				order = append(order, m.Properties["p"])
				if m.Key != "k" || string(m.Schema) != string(schema.Definition) && m.Value != nil || len(m.Properties) > 1 {
					t.Errorf("%+v", m)
				}
				if m.Value != nil && !m.EventTime.Equal(at) {
					t.Errorf("event time %v", m.EventTime)
				}
			}
			if !slices.Equal(order, []string{"0", "2", "", "1"}) {
				t.Errorf("order %q", order)
			}
		})
	}
}

// TestRedriveTwice: a dead letter that becomes one again says where both came from, and goes back the way it came, to its last step as it
// was: without a value, with a key that is no text, in chunks, encrypted.
func TestRedriveTwice(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 6<<16)
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			keys := t.TempDir()
			keyPair(t, keys, "k", false)
			c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, AdminURL: s.admin, Encryption: pulsarx.KeyFiles(keys)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(timeout(t, 60*time.Second)) })
			topic := partitionedTopic(t, c, 3)
			for _, o := range []pulsarx.ProducerOptions[[]byte]{{}, {Chunking: true}, {EncryptionKeys: []string{"k"}}} {
				o.Topic = topic
				p := producer(t, c, pulsarx.Bytes(), o)
				value := []byte("v")
				if o.Chunking {
					value = large
				}
				for _, key := range []string{"\xff\x00", "b"} {
					_, err := p.Send(t.Context(), value, pulsarx.Key(key), pulsarx.Property("p", key))
					if err == nil {
						_, err = p.SendTombstone(t.Context(), key, pulsarx.OrderingKey("\xfe"))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			const n = 12
			before := counted(t, c, topic)
			fail := func(topic, subscription string) {
				r := run(t, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: subscription},
					func(context.Context, []pulsarx.Message[[]byte]) error {
						return pulsarx.Permanent(errors.New(subscription))
					})
				letters(t, s, topic+"-"+subscription+"-DLQ", n)
				r.stop()
			}
			fail(topic, "one")
			fail(topic+"-one-DLQ", "two")
			for _, m := range letters(t, s, topic+"-one-DLQ-two-DLQ", n) {
				second, _ := pulsarx.ParseDeadLetter(m.Properties())
				first, ok := pulsarx.ParseDeadLetter(second.Properties)
				if second.Topic != topic+"-one-DLQ" || second.Error != "two" || !ok || first.Topic != topic || first.Error != "one" || len(first.Properties) > 1 {
					t.Errorf("%+v of %+v", second, first)
				}
			}
			for _, dlq := range []string{topic + "-one-DLQ-two-DLQ", topic + "-one-DLQ"} {
				got, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced})
				if err != nil || got.Moved < n || got.Unknown > 0 {
					t.Fatalf("%s: %+v, %v", dlq, got, err)
				}
			}
			after := counted(t, c, topic)
			for what, count := range before {
				if after[what] != 3*count { // sent, redriven, and redriven after it was a letter of a letter
					t.Errorf("%s: %d times, before %d times", what, after[what], count)
				}
			}
		})
	}
}

// counted counts the messages of a topic by what has to stay of them.
func counted(t *testing.T, c *pulsarx.Client, topic string) map[string]int {
	t.Helper()
	count := map[string]int{}
	decode := pulsarx.DecodeFunc(func(r pulsarx.Raw) (pulsarx.Raw, error) { return r, nil })
	readAll(t, c, decode, topic, func(m pulsarx.Message[pulsarx.Raw]) {
		r := m.Value
		count[fmt.Sprintf("%x null %v key %q of %d %v", sha256.Sum256(r.Value), r.Value == nil, r.Key, r.Partition, r.Properties)]++
	})
	return count
}

// TestRedriveFails: what could not be moved is still a dead letter, and what was is none.
func TestRedriveFails(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("k:%02d", i))
	}
	dlq := buried(t, c, s, topic, values...)
	remove := s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, After: 2, Error: "PersistenceError"})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	options := pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced, MaxInFlight: 5}
	failed, err := pulsarx.Redrive(ctx, c, options)
	if err == nil || failed.Moved > 10 {
		t.Errorf("redrive: %+v, %v", failed, err)
	}
	remove()
	rest, err := pulsarx.Redrive(t.Context(), c, options)
	if err != nil || failed.Moved+rest.Moved != 20 {
		t.Errorf("redrive: %+v after %+v, %v", rest, failed, err)
	}
	var seen record
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			for _, m := range batch {
				seen.add(m.Value)
			}
			return nil
		})
	eventually(t, "all", func() bool {
		return !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(seen.all(), v) })
	})
	r.stop()
	if s.broker.Backlog(dlq, "dead-letters") != 0 {
		t.Error("dead letters are left")
	}
}

// TestRedriveSlow: that nothing comes for long is believed only after the broker's answer, behind which nothing has come either.
func TestRedriveSlow(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	dlq := buried(t, c, s, topic, "k:1")
	defer s.broker.Inject(pulsartest.Fault{Command: "MESSAGE", Topic: dlq, Delay: 2500 * time.Millisecond})()
	got, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced, Quiet: 2 * time.Second})
	if err != nil || got.Moved != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRedriveRefused: what the broker refuses for good, of which the client says nothing, ends Redrive.
func TestRedriveRefused(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	topic := topic(t)
	dlq := buried(t, s.client(t), s, topic, "k:1")
	quick, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: quickOptions()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := quick.Close(timeout(t, 60*time.Second)); err != nil {
			t.Error(err)
		}
	}()
	defer s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Error: "NotAllowedError"})()
	ctx := timeout(t, time.Minute)
	got, err := pulsarx.Redrive(ctx, quick, pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced})
	if err == nil || ctx.Err() != nil || got != (pulsarx.RedriveResult{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if s.broker.Backlog(dlq, "dead-letters") != 1 {
		t.Error("the letter is gone")
	}
}

// TestRedriveBusy: two do not move the same letters, and nobody reads them meanwhile.
func TestRedriveBusy(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			dlq := buried(t, c, s, topic, "k:1")
			other, err := bareClient(t, s).Subscribe(pulsar.ConsumerOptions{Topic: dlq, SubscriptionName: "dead-letters", Type: pulsar.Exclusive})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			got, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced})
			if err == nil || !strings.Contains(err.Error(), "ConsumerBusy") || got.Moved != 0 {
				t.Errorf("redrive: %+v, %v", got, err)
			}
		})
	}
}

// TestRedriveForeign: letters of the bare client, and messages that are no letters.
func TestRedriveForeign(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			c, topic := s.client(t), topic(t)
			dlq := topic + "-dead"
			keep, err := bareClient(t, s).Subscribe(pulsar.ConsumerOptions{Topic: dlq, SubscriptionName: "dead-letters", Type: pulsar.Shared})
			if err != nil {
				t.Fatal(err)
			}
			keep.Close()
			p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: dlq})
			for _, o := range [][]pulsarx.SendOption{
				{pulsarx.Property("REAL_TOPIC", topic), pulsarx.Property("ORIGIN_MESSAGE_ID", "1:2:3"), pulsarx.Property("own", "x")},
				{pulsarx.Property("own", "y")},
			} {
				if _, err := p.Send(t.Context(), []byte("v"), append(o, pulsarx.Key("k"))...); err != nil {
					t.Fatal(err)
				}
			}
			options := pulsarx.RedriveOptions{Topic: dlq, Order: pulsarx.RedriveForced}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{Moved: 1, Unknown: 1}) {
				t.Errorf("redrive: %+v, %v", got, err)
			}
			options.Target = topic
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got != (pulsarx.RedriveResult{Moved: 1}) {
				t.Errorf("redrive: %+v, %v", got, err)
			}
			for i, m := range raws(t, c, topic, "s", 2) {
				if want := []string{"x", "y"}[i]; m.Properties["own"] != want || len(m.Properties) != 1 || m.Key != "k" || string(m.Value) != "v" {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

func TestRedriveOptions(t *testing.T) {
	c := inProcess(t).client(t)
	_, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Order: 9, Limit: -1, MaxInFlight: -1, Quiet: -1})
	for _, want := range []string{"Topic", "Order", "Limit", "MaxInFlight", "Quiet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

// TestRedriveOrderingKeys: letters with an ordering key beside their key come back to the partition of the key, and stand alone, so that
// Key_Shared can tell whose they are.
func TestRedriveOrderingKeys(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c := s.client(t)
			topic := partitionedTopic(t, c, 7)
			p := keyed(t, c, topic)
			at := map[string]int{}
			for i := range 20 {
				id, err := p.Send(t.Context(), "v", pulsarx.Key(fmt.Sprint(i)), pulsarx.OrderingKey(fmt.Sprint("account", i%5)))
				if err != nil {
					t.Fatal(err)
				}
				at[fmt.Sprint(i)] = int(id.PartitionIdx())
			}
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(context.Context, []pulsarx.Message[string]) error { return pulsarx.Permanent(errors.New("no")) })
			for _, m := range letters(t, s, topic+"-s-DLQ", len(at)) {
				if m.OrderingKey() == "" {
					t.Errorf("the letter of %s has no ordering key", m.Key())
				}
			}
			r.stop()
			options := pulsarx.RedriveOptions{Topic: topic + "-s-DLQ", Order: pulsarx.RedriveForced}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got.Moved != len(at) {
				t.Fatalf("%+v, %v", got, err)
			}
			for _, m := range receiveAll(t, s, topic, 2*len(at)) {
				if m.ID().PartitionIdx() != int32(at[m.Key()]) || m.OrderingKey() == "" || m.ID().BatchSize() > 1 {
					t.Errorf("%s, ordered by %q, is in partition %d, not %d, in a batch of %d",
						m.Key(), m.OrderingKey(), m.ID().PartitionIdx(), at[m.Key()], m.ID().BatchSize())
				}
			}
		})
	}
}

// TestRedrivePartition: where the producers of a topic choose its partitions, Redrive does as they do; a partition that is none keeps its
// letter.
func TestRedrivePartition(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			c := s.client(t)
			topic := partitionedTopic(t, c, 3)
			last := func(_ string, partitions int) int { return partitions - 1 }
			p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf, Partition: last})
			for i := range 10 {
				if _, err := p.Send(t.Context(), fmt.Sprintf("%d:v", i)); err != nil {
					t.Fatal(err)
				}
			}
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(context.Context, []pulsarx.Message[string]) error { return pulsarx.Permanent(errors.New("no")) })
			letters(t, s, topic+"-s-DLQ", 10)
			r.stop()
			options := pulsarx.RedriveOptions{Topic: topic + "-s-DLQ", Order: pulsarx.RedriveForced, Partition: func(key string, partitions int) int {
				if key == "7" {
					return partitions
				}
				return last(key, partitions)
			}}
			if got, err := pulsarx.Redrive(t.Context(), c, options); err == nil || got.Moved != 9 || !strings.Contains(err.Error(), "3 of 3") {
				t.Fatalf("%+v, %v", got, err)
			}
			options.Partition = last
			if got, err := pulsarx.Redrive(t.Context(), c, options); err != nil || got.Moved != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			for _, m := range receiveAll(t, s, topic, 20) {
				if m.ID().PartitionIdx() != 2 {
					t.Errorf("the message of %s is in partition %d", m.Key(), m.ID().PartitionIdx())
				}
			}
		})
	}
}
