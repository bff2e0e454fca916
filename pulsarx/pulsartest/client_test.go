package pulsartest_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func count(n int) []string {
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	return want
}

func TestProduceAndConsume(t *testing.T) {
	for name, o := range map[string]pulsar.ProducerOptions{
		"single":  {DisableBatching: true},
		"batched": {BatchingMaxMessages: 7, BatchingMaxPublishDelay: time.Hour},
		"lz4":     {CompressionType: pulsar.LZ4},
		"zlib":    {CompressionType: pulsar.ZLib},
		"zstd":    {CompressionType: pulsar.ZSTD},
		"snappy":  {CompressionType: pulsar.SNAPPY},
		"lz4 one": {CompressionType: pulsar.LZ4, DisableBatching: true},
		"by key":  {BatcherBuilderType: pulsar.KeyBasedBatchBuilder, CompressionType: pulsar.ZSTD},
	} {
		t.Run(name, func(t *testing.T) {
			for name, connect := range brokers {
				t.Run(name, func(t *testing.T) {
					on := connect(t)

					client := on.client(t)
					o.Topic = on.topic(t, "produce")
					c := subscribe(t, client, pulsar.ConsumerOptions{Topic: o.Topic})
					event := time.UnixMilli(1_700_000_000_123)
					sent := numbered(50, func(i int) string { return fmt.Sprint("k", i%3) })
					for _, m := range sent {
						m.EventTime, m.Properties = event, map[string]string{"p": string(m.Payload)}
					}
					produce(t, client, o, sent...)
					byKey := map[string][]string{}
					for range sent {
						m := receive(t, c)
						ack(t, c, m)
						byKey[m.Key()] = append(byKey[m.Key()], string(m.Payload()))
						if !m.EventTime().Equal(event) || m.Properties()["p"] != string(m.Payload()) || m.RedeliveryCount() != 0 {
							t.Fatalf("%v %v %d", m.EventTime(), m.Properties(), m.RedeliveryCount())
						}
					}
					want := map[string][]string{}
					for _, m := range sent {
						want[m.Key] = append(want[m.Key], string(m.Payload))
					}
					if !maps.EqualFunc(byKey, want, slices.Equal) {
						t.Fatal(byKey)
					}
					on.drained(t, o.Topic, "s")
					if on.broker == nil {
						return
					}
					stored := on.broker.Messages(o.Topic)
					byKey = map[string][]string{}
					for _, m := range stored {
						byKey[m.Key] = append(byKey[m.Key], string(m.Value))
						if !m.EventTime.Equal(event) || m.Properties["p"] != string(m.Value) || time.Since(m.PublishTime) > time.Hour {
							t.Fatalf("%+v", m)
						}
					}
					if !maps.EqualFunc(byKey, want, slices.Equal) {
						t.Fatal("stored", byKey)
					}
				})
			}
		})
	}
}

func TestTombstones(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			for _, disable := range []bool{true, false} {
				client, topic := on.client(t), on.topic(t, "tombstone")
				c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
				produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: disable},
					&pulsar.ProducerMessage{Key: "a", Payload: []byte("x")}, &pulsar.ProducerMessage{Key: "a", Payload: nil})
				if m := receive(t, c); string(m.Payload()) != "x" {
					t.Fatal(m.Payload())
				}
				if m := receive(t, c); len(m.Payload()) != 0 {
					t.Fatal(m.Payload())
				}
				if on.broker != nil {
					if m := on.broker.Messages(topic); len(m) != 2 || m[0].Value == nil || m[1].Value != nil || m[1].Key != "a" {
						t.Fatalf("%+v", m)
					}
				}
			}
		})
	}
}

func TestExclusive(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "exclusive")
			first := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Exclusive})
			if _, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"}); err == nil || !strings.Contains(err.Error(), "ConsumerBusy") {
				t.Fatal(err)
			}
			if _, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: pulsar.Shared}); err == nil {
				t.Fatal("another type was let in")
			}
			produce(t, client, pulsar.ProducerOptions{Topic: topic}, numbered(20, nil)...)
			var last pulsar.Message
			for range 10 {
				last = receive(t, first)
			}
			if err := first.AckCumulative(last); err != nil {
				t.Fatal(err)
			}
			first.Close()
			second := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
			var got []string // the batch is delivered whole where a part of it is acknowledged, unless both sides keep track of parts
			for len(got) == 0 || got[len(got)-1] != "19" {
				got = append(got, payloads(t, second, 1)...)
			}
			if len(got) < 10 || !slices.Equal(got[len(got)-10:], count(20)[10:]) {
				t.Fatal(got)
			}
			on.drained(t, topic, "s")
			if err := second.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
			if _, ok := on.stats(t, topic).Subscriptions["s"]; ok {
				t.Fatal("still subscribed")
			}
		})
	}
}

func TestShared(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "shared")
			a := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, ReceiverQueueSize: 30})
			b := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, ReceiverQueueSize: 30})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, numbered(60, nil)...)
			got := append(payloads(t, a, 20), payloads(t, b, 10)...) // the first has at most 20, and 30 that wait in its queue
			a.Close()                                                // what is left goes to the other
			got = append(got, payloads(t, b, 30)...)
			slices.Sort(got)
			want := count(60)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatal(got)
			}
			on.drained(t, topic, "s")
		})
	}
}

func TestFailover(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.partitioned(t, "failover", 2)
			a := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "a"})
			b := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "b"})
			// A real broker takes a second to move a partition: both have theirs when each has got something.
			for partition, owner := range []pulsar.Consumer{a, b} {
				eventually(t, func() bool {
					produce(t, client, pulsar.ProducerOptions{Topic: fmt.Sprint(topic, "-partition-", partition)}, numbered(1, nil)...)
					select {
					case m := <-a.Chan():
						ack(t, a, m)
						return owner == a && m.ID().PartitionIdx() == int32(partition)
					case m := <-b.Chan():
						ack(t, b, m)
						return owner == b && m.ID().PartitionIdx() == int32(partition)
					case <-time.After(patience):
						return false
					}
				})
			}
			on.drained(t, topic, "s")
			produce(t, client, pulsar.ProducerOptions{Topic: topic + "-partition-0"}, numbered(10, nil)...)
			produce(t, client, pulsar.ProducerOptions{Topic: topic + "-partition-1"}, numbered(10, nil)...)
			if got := payloads(t, a, 10); !slices.Equal(got, count(10)) {
				t.Fatal(got)
			}
			for range 10 { // not acknowledged
				receive(t, b)
			}
			nothing(t, a)
			b.Close()
			if got := payloads(t, a, 10); !slices.Equal(got, count(10)) {
				t.Fatal(got)
			}
			on.drained(t, topic, "s")
		})
	}
}

// TestKeyShared lets consumers join and leave while messages flow: a key's messages must come in order and be handled by one
// consumer at a time, and none may be lost.
func TestKeyShared(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "keyshared")
			const total, keys = 3000, 17
			var mu sync.Mutex
			handled := map[string][]int{}
			seen := map[string]bool{}
			done := make(chan struct{})
			consume := func(stop <-chan struct{}) {
				c, err := client.Subscribe(pulsar.ConsumerOptions{
					Topic: topic, SubscriptionName: "s", Type: pulsar.KeyShared, ReceiverQueueSize: 50,
					SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
				})
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				for {
					select {
					case <-stop:
						return
					case m := <-c.Chan():
						var n int
						_, _ = fmt.Sscan(string(m.Payload()), &n)
						mu.Lock()
						if !seen[string(m.Payload())] {
							seen[string(m.Payload())] = true
							handled[m.Key()] = append(handled[m.Key()], n)
							if len(seen) == total {
								close(done)
							}
						}
						mu.Unlock()
						if err := c.Ack(m); err != nil {
							t.Error(err)
						}
					}
				}
			}
			var running sync.WaitGroup
			start := func() (stop chan struct{}) {
				stop = make(chan struct{})
				running.Go(func() { consume(stop) })
				return stop
			}
			stops := []chan struct{}{start(), start()}
			running.Go(func() {
				produce(t, client, pulsar.ProducerOptions{Topic: topic, BatcherBuilderType: pulsar.KeyBasedBatchBuilder, BatchingMaxMessages: 20},
					numbered(total, func(i int) string { return fmt.Sprint(i % keys) })...)
			})
			for range 6 {
				time.Sleep(50 * time.Millisecond)
				stops = append(stops, start())
				if on.broker != nil && len(stops) > 3 {
					i := rand.IntN(len(stops))
					close(stops[i])
					stops = slices.Delete(stops, i, i+1)
				}
			}
			select {
			case <-done:
			case <-time.After(2 * patience):
				t.Error("lost:", total-len(seen))
			}
			for _, stop := range stops {
				close(stop)
			}
			running.Wait()
			for key, numbers := range handled {
				if !slices.IsSorted(numbers) {
					t.Errorf("key %s out of order: %v", key, numbers)
				}
			}
		})
	}
}

// TestKeySharedWaits lets a consumer join while another holds messages of every key: what follows waits for their
// acknowledgement.
func TestKeySharedWaits(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "waits")
			a := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared, Name: "a"})
			key := func(i int) string { return fmt.Sprint("key", i%50) }
			p := pulsar.ProducerOptions{Topic: topic, DisableBatching: true}
			produce(t, client, p, numbered(50, key)...)
			var held []pulsar.Message
			for range 50 {
				held = append(held, receive(t, a))
			}
			b := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared, Name: "b"})
			produce(t, client, p, numbered(50, key)...)
			nothing(t, b)
			for _, m := range held {
				ack(t, a, m)
			}
			seen := 0
			for ; seen < 50; seen++ {
				select {
				case m := <-a.Chan():
					ack(t, a, m)
				case m := <-b.Chan():
					ack(t, b, m)
				case <-time.After(patience):
					t.Fatal("stuck after", seen)
				}
			}
			on.drained(t, topic, "s")
		})
	}
}

func TestNack(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "nack")
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 50 * time.Millisecond})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, numbered(5, nil)...)
			for range 5 {
				m := receive(t, c)
				if string(m.Payload()) == "3" {
					c.Nack(m)
				} else {
					ack(t, c, m)
				}
			}
			for n := uint32(1); n <= 3; n++ {
				m := receive(t, c)
				if string(m.Payload()) != "3" || m.RedeliveryCount() != n {
					t.Fatal(string(m.Payload()), m.RedeliveryCount())
				}
				if n < 3 {
					c.Nack(m)
				} else {
					ack(t, c, m)
				}
			}
			nothing(t, c)
			on.drained(t, topic, "s")
		})
	}
}

// TestBatchIndexAck acknowledges all of a batch but one message: with acknowledgement at batch index level only that one returns.
func TestBatchIndexAck(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "index")
			c := subscribe(t, client, pulsar.ConsumerOptions{
				Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond, EnableBatchIndexAcknowledgment: true,
				AckGroupingOptions: &pulsar.AckGroupingOptions{MaxSize: 0, MaxTime: 0},
			})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 10, BatchingMaxPublishDelay: time.Hour}, numbered(10, nil)...)
			for range 10 {
				m := receive(t, c)
				if string(m.Payload()) == "9" {
					c.Nack(m)
				} else {
					ack(t, c, m)
				}
			}
			if on.broker != nil {
				eventually(t, func() bool { return on.broker.Backlog(topic, "s") == 1 })
			}
			m := receive(t, c)
			if string(m.Payload()) != "9" || m.RedeliveryCount() != 1 {
				t.Fatal(string(m.Payload()), m.RedeliveryCount())
			}
			ack(t, c, m)
			nothing(t, c)
			if on.batchIndexAck() {
				on.drained(t, topic, "s")
			}
		})
	}
}

func TestSeek(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "seek")
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
			ids := produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, numbered(10, nil)...)
			payloads(t, c, 10)
			if err := c.Seek(ids[4]); err != nil { // to after it, as this client means it
				t.Fatal(err)
			}
			if got := payloads(t, c, 5); !slices.Equal(got, count(10)[5:]) {
				t.Fatal(got)
			}
			c.Close() // a seek by time would still drop what is before the message
			c = subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
			time.Sleep(20 * time.Millisecond)
			middle := time.Now()
			time.Sleep(20 * time.Millisecond)
			produce(t, client, pulsar.ProducerOptions{Topic: topic}, numbered(3, nil)...)
			payloads(t, c, 3)
			if err := c.SeekByTime(middle); err != nil {
				t.Fatal(err)
			}
			if got := payloads(t, c, 3); !slices.Equal(got, count(3)) {
				t.Fatal(got)
			}
			for range 5 {
				if err := c.SeekByTime(time.UnixMilli(1)); err != nil {
					t.Fatal(err)
				}
				if got := payloads(t, c, 1); got[0] != "0" {
					t.Fatal(got)
				}
			}
			last, err := c.GetLastMessageIDs()
			if err != nil || len(last) != 1 || last[0].BatchIdx() != 2 {
				t.Fatal(last, err)
			}
		})
	}
}

func TestReader(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "reader")
			read := func(o pulsar.ReaderOptions, seek func(pulsar.Reader) error) []string {
				t.Helper()
				o.Topic = topic
				r, err := client.CreateReader(o)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if seek != nil {
					if err := seek(r); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for r.HasNext() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					m, err := r.Next(ctx)
					cancel()
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(m.Payload()))
				}
				return got
			}
			if got := read(pulsar.ReaderOptions{StartMessageID: pulsar.EarliestMessageID()}, nil); got != nil {
				t.Fatal("empty topic:", got)
			}
			ids := produce(t, client, pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 4, BatchingMaxPublishDelay: time.Hour}, numbered(10, nil)...)
			for name, c := range map[string]struct {
				o    pulsar.ReaderOptions
				seek func(pulsar.Reader) error
				want []string
			}{
				"earliest":  {o: pulsar.ReaderOptions{StartMessageID: pulsar.EarliestMessageID()}, want: count(10)},
				"latest":    {o: pulsar.ReaderOptions{StartMessageID: pulsar.LatestMessageID()}},
				"after":     {o: pulsar.ReaderOptions{StartMessageID: ids[5]}, want: count(10)[6:]},
				"from":      {o: pulsar.ReaderOptions{StartMessageID: ids[5], StartMessageIDInclusive: true}, want: count(10)[5:]},
				"last":      {o: pulsar.ReaderOptions{StartMessageID: ids[9]}},
				"seek id":   {o: pulsar.ReaderOptions{StartMessageID: pulsar.LatestMessageID()}, seek: func(r pulsar.Reader) error { return r.Seek(ids[2]) }, want: count(10)[3:]},
				"seek time": {o: pulsar.ReaderOptions{StartMessageID: pulsar.LatestMessageID()}, seek: func(r pulsar.Reader) error { return r.SeekByTime(time.UnixMilli(1)) }, want: count(10)},
				"seek past": {o: pulsar.ReaderOptions{StartMessageID: pulsar.EarliestMessageID()}, seek: func(r pulsar.Reader) error { return r.SeekByTime(time.Now().Add(time.Hour)) }},
			} {
				if got := read(c.o, c.seek); !slices.Equal(got, c.want) {
					t.Errorf("%s: %v", name, got)
				}
			}
		})
	}
}
