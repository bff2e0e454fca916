package pulsartest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
)

// compact compacts a topic and waits for it.
func (on target) compact(t *testing.T, topic string) {
	t.Helper()
	if status, body := on.admin("PUT", topicPath(topic)+"/compaction", ""); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	eventually(t, func() bool {
		status, body := on.admin("GET", topicPath(topic)+"/compaction", "")
		return status == http.StatusOK && strings.Contains(body, `"SUCCESS"`)
	})
}

// TestCompaction: who asks for it gets the newest message of each key, without those that are deleted, and everything that came after the
// compaction; others get everything.
func TestCompaction(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			c := on.client(t)
			topic := on.topic(t, "compaction")
			batch := pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 100}
			single := pulsar.ProducerOptions{Topic: topic, DisableBatching: true}
			compressed := batch
			compressed.CompressionType = pulsar.ZSTD
			message := func(key, value string) *pulsar.ProducerMessage {
				return &pulsar.ProducerMessage{Key: key, Payload: []byte(value)}
			}
			produce(t, c, batch, message("a", "a1"), message("b", "b1"), message("a", "a2"), message("", "none"), message("c", "c1"))
			produce(t, c, compressed, message("b", "b2"), message("c", "c2"), message("d", "d1"))
			produce(t, c, single, message("e", "e1"), message("c", "c3"), &pulsar.ProducerMessage{Key: "d"}, message("", "alone"))
			everything := []string{"a1", "b1", "a2", "none", "c1", "b2", "c2", "d1", "e1", "c3", "", "alone"}
			for round, want := range [][]string{{"a2", "b2", "e1", "c3"}, {"b2", "e1", "a3"}} {
				on.compact(t, topic)
				after := fmt.Sprintf("after %d", round)
				produce(t, c, single, message("f", after))
				everything = append(everything, after)
				if got := readAll(t, c, topic, true, after); !slices.Equal(got, append(want, after)) {
					t.Errorf("compacted: %q, want %q", got, append(want, after))
				}
				if got := readAll(t, c, topic, false, after); !slices.Equal(got, everything) {
					t.Errorf("all: %q, want %q", got, everything)
				}
				produce(t, c, single, &pulsar.ProducerMessage{Key: "c"}, message("a", "a3"), &pulsar.ProducerMessage{Key: "f"})
				everything = append(everything, "", "a3", "")
			}
			if !slices.Contains(on.subscriptions(t, topic), "__compaction") {
				t.Error("no subscription keeps what is not compacted yet")
			}
			if _, err := c.Subscribe(pulsar.ConsumerOptions{
				Topic: topic, SubscriptionName: "shared", Type: pulsar.Shared, ReadCompacted: true,
			}); err == nil {
				t.Error("a shared subscription reads what compaction has left")
			}
		})
	}
}

// TestCompactedEnd: who asks for what compaction has left gets its last message as the topic's, and none where nothing is left.
func TestCompactedEnd(t *testing.T) {
	gone := &pulsar.ProducerMessage{Key: "c"}
	message := func(key string) *pulsar.ProducerMessage {
		return &pulsar.ProducerMessage{Key: key, Payload: []byte("v")}
	}
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			c := on.client(t)
			for i, try := range []struct {
				batched      bool
				messages     []*pulsar.ProducerMessage
				entry, place int64 // of the last one that is left
				again        int64 // the entry of the last one when that was compacted: what was taken away behind it is back
			}{
				{false, []*pulsar.ProducerMessage{message("a"), message("b"), message("c"), gone}, 1, 0, 3},
				{true, []*pulsar.ProducerMessage{message("a"), message("b"), message("c"), gone}, 0, 1, 0},
				{false, []*pulsar.ProducerMessage{message("c"), gone}, -1, 0, -1},
				{true, []*pulsar.ProducerMessage{message("a"), message("b")}, 0, 1, 0},
			} {
				topic := on.topic(t, fmt.Sprint("end", i))
				produce(t, c, pulsar.ProducerOptions{Topic: topic, DisableBatching: !try.batched, BatchingMaxMessages: 100}, try.messages...)
				on.compact(t, topic)
				if last := lastID(t, c, topic, true); last.EntryID() != try.entry || int64(max(last.BatchIdx(), 0)) != try.place {
					t.Errorf("%d: %v is what is left last, want %d:%d", i, last, try.entry, try.place)
				}
				on.compact(t, topic)
				eventually(t, func() bool { return lastID(t, c, topic, true).EntryID() == try.again })
				all := lastID(t, c, topic, false)
				if n := int64(len(try.messages) - 1); all.EntryID() != n && int64(all.BatchIdx()) != n {
					t.Errorf("%d: %v is the last", i, all)
				}
				produce(t, c, pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, message("z"))
				if last := lastID(t, c, topic, true); last.EntryID() != all.EntryID()+1 {
					t.Errorf("%d: %v is the last behind the compaction", i, last)
				}
			}
		})
	}
}

func fromBeginning(t *testing.T, c pulsar.Client, topic string, compacted bool) pulsar.Reader {
	t.Helper()
	r, err := c.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(), StartMessageIDInclusive: true, ReadCompacted: compacted,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lastID(t *testing.T, c pulsar.Client, topic string, compacted bool) pulsar.MessageID {
	t.Helper()
	r := fromBeginning(t, c, topic, compacted)
	defer r.Close()
	id, err := r.GetLastMessageID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (on target) subscriptions(t *testing.T, topic string) (names []string) {
	t.Helper()
	for name := range on.stats(t, topic).Subscriptions {
		names = append(names, name)
	}
	return names
}

// readAll reads up to a value. What is empty and has no key is what pulsar-client-go makes of a place in a batch that compaction took.
func readAll(t *testing.T, c pulsar.Client, topic string, compacted bool, end string) (values []string) {
	t.Helper()
	r := fromBeginning(t, c, topic, compacted)
	defer r.Close()
	for {
		m, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err, values)
		}
		if m.Key() == "" && len(m.Payload()) == 0 {
			continue
		}
		if values = append(values, string(m.Payload())); string(m.Payload()) == end {
			return values
		}
	}
}
