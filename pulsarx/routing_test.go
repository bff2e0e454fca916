package pulsarx_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
)

//go:embed testdata/routing.json
var recordedRouting []byte

type routing struct {
	Partitions int      `json:"partitions"`
	Keys       []string `json:"keys"`
	WentTo     []int32  `json:"went_to"`
}

func readRouting(tb testing.TB) (r routing) {
	tb.Helper()
	if err := json.Unmarshal(recordedRouting, &r); err != nil {
		tb.Fatal(err)
	}
	return r
}

// partitionedTopic is a topic of the test's own with n partitions, on an in-process broker or on the real one.
func partitionedTopic(tb testing.TB, c *pulsarx.Client, n int) string {
	tb.Helper()
	name := topic(tb)
	path := "/persistent/" + name[len("persistent://"):] + "/partitions"
	if err := c.Admin(tb.Context(), http.MethodPut, path, n, nil); err != nil {
		tb.Fatal(err)
	}
	return name
}

// TestRouting: Murmur3_32Hash as in the other clients, which hash k1 to 2110152746 and so on.
func TestRouting(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			recorded := readRouting(t)
			c := connect(t).client(t)
			p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: partitionedTopic(t, c, recorded.Partitions)})
			for key, hash := range map[string]uint32{"k1": 2110152746, "k2": 1479966664, "key1": 462881061, "key2": 1936800180} {
				id, err := p.Send(t.Context(), []byte("v"), pulsarx.Key(key))
				if err != nil || id.PartitionIdx() != int32(hash%uint32(recorded.Partitions)) {
					t.Errorf("%s went to partition %d, want %d: %v", key, id.PartitionIdx(), hash%uint32(recorded.Partitions), err)
				}
			}
			for i, to := range sendKeys(t, p, recorded.Keys) {
				if to != recorded.WentTo[i] {
					t.Errorf("%q went to partition %d; from Python it went to %d", recorded.Keys[i], to, recorded.WentTo[i])
				}
			}
		})
	}
}

// sendKeys sends a message with each key, and returns their partitions.
func sendKeys(tb testing.TB, p *pulsarx.Producer[[]byte], keys []string) []int32 {
	tb.Helper()
	partitions := make([]int32, len(keys))
	for i, key := range keys {
		p.SendAsync(tb.Context(), []byte("go"), func(id pulsarx.MessageID, err error) {
			if err != nil {
				tb.Errorf("%q: %v", key, err)
				return
			}
			partitions[i] = id.PartitionIdx()
		}, pulsarx.Key(key))
	}
	if err := p.Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return partitions
}

// TestRoutingWithPython: the Python client and pulsarx send to the same topic; every key has one partition.
func TestRoutingWithPython(t *testing.T) {
	url := servicetest.Env(t, "PULSAR_URL")
	c := realPulsar(t).client(t)
	keys := readRouting(t).Keys
	topic := partitionedTopic(t, c, 100)
	input, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, input, 0o600); err != nil {
		t.Fatal(err)
	}
	output := servicetest.Python(t, pythonClient, filepath.Join("testdata", "routing.py"), url, topic, file)
	var fromPython []int32
	if err := json.Unmarshal(output, &fromPython); err != nil || len(fromPython) != len(keys) {
		t.Fatalf("%v: %s", err, output)
	}
	p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic})
	for i, to := range sendKeys(t, p, keys) {
		if to != fromPython[i] {
			t.Errorf("%q went to partition %d, and from Python to %d", keys[i], to, fromPython[i])
		}
	}
}

// TestPartitionChoice: a choice of the user's own, and the ordering key of a message without a key.
func TestPartitionChoice(t *testing.T) {
	c := inProcess(t).client(t)
	topic := partitionedTopic(t, c, 7)
	mine := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{
		Topic: topic, Partition: func(key string, partitions int) int { return len(key) % partitions },
	})
	theirs := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic})
	for _, try := range []struct {
		p    *pulsarx.Producer[[]byte]
		want int32
		o    []pulsarx.SendOption
	}{
		{mine, 3, []pulsarx.SendOption{pulsarx.Key("abc")}},
		{mine, 4, []pulsarx.SendOption{pulsarx.OrderingKey("abcd")}},
		{mine, 3, []pulsarx.SendOption{pulsarx.Key("abc"), pulsarx.OrderingKey("abcd")}},
		{theirs, 2110152746 % 7, []pulsarx.SendOption{pulsarx.Key("k1"), pulsarx.OrderingKey("k2")}},
		{theirs, 1479966664 % 7, []pulsarx.SendOption{pulsarx.OrderingKey("k2")}},
	} {
		id, err := try.p.Send(t.Context(), []byte("v"), try.o...)
		if err != nil || id.PartitionIdx() != try.want {
			t.Errorf("partition %v, want %d: %v", id, try.want, err)
		}
	}
}

// TestPartitionOfNumbers: without a key, the number chooses the partition, so that what is sent again goes to where it went before.
func TestPartitionOfNumbers(t *testing.T) {
	c := inProcess(t).client(t)
	topic := partitionedTopic(t, c, 7)
	var before, after [30]int32
	for name, to := range map[string]*[30]int32{"before": &before, "after": &after} {
		p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Name: name, Deduplicate: true})
		for n := range to {
			id, err := p.Send(t.Context(), "v", pulsarx.SequenceID(int64(n)))
			if err != nil {
				t.Fatal(err)
			}
			to[n] = id.PartitionIdx()
		}
	}
	if before != after || before == [30]int32{} {
		t.Errorf("%v, and then %v", before, after)
	}
}

// TestPartitionErrors: a choice that is none is an error of its message, which says so, and of no other.
func TestPartitionErrors(t *testing.T) {
	c := inProcess(t).client(t)
	p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{
		Topic: partitionedTopic(t, c, 7), Partition: func(key string, partitions int) int {
			switch key {
			case "negative":
				return -1
			case "beyond":
				return partitions
			case "panic":
				panic("no choice")
			}
			return 0
		},
	})
	for key, says := range map[string]string{"negative": "-1 of 7", "beyond": "7 of 7", "panic": "no choice", "good": ""} {
		for _, o := range [][]pulsarx.SendOption{{pulsarx.Key(key)}, {pulsarx.OrderingKey(key)}} {
			_, err := p.Send(t.Context(), "v", o...)
			result := make(chan error, 1)
			p.SendAsync(t.Context(), "v", func(_ pulsarx.MessageID, err error) { result <- err }, o...)
			for _, err := range []error{err, <-result} {
				if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
	}
}

// TestKeyOrder: on a hundred partitions, with four consumers, no key is on two partitions and none out of order. For comparison it logs
// what comes out of order when partitions take turns, as without keys. ORDER_KEYS is the number of keys, 1000 by default.
func TestKeyOrder(t *testing.T) {
	keys := 1000
	if text := os.Getenv("ORDER_KEYS"); text != "" {
		var err error
		if keys, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := inProcess(t)
	keyed := receiveOrder(t, s, keys, pulsar.KeyShared)
	if keyed.moved != 0 || keyed.disordered != 0 {
		t.Errorf("with keys: %v", keyed)
	}
	turns := receiveOrder(t, s, keys, pulsar.Shared)
	t.Logf("with keys: %v", keyed)
	t.Logf("taking turns: %v", turns)
	if turns.disordered == 0 {
		t.Error("the measurement finds nothing out of order where order cannot be kept")
	}
}

type orderCount struct{ messages, keys, moved, disordered int }

func (o orderCount) String() string {
	return fmt.Sprintf("%d messages of %d keys, %d keys on several partitions, %d messages out of order (%.2f%%)",
		o.messages, o.keys, o.moved, o.disordered, 100*float64(o.disordered)/float64(o.messages))
}

const (
	messagesPerKey = 3
	startAfter     = 2900 // messages are received
)

// receiveOrder sends messagesPerKey messages for each key and receives them with four consumers of the bare client. With KeyShared the
// keys are the messages' own; otherwise they stand in the values alone.
func receiveOrder(t *testing.T, s server, keys int, kind pulsar.SubscriptionType) orderCount {
	t.Helper()
	c := s.client(t)
	topic := partitionedTopic(t, c, 100)
	type value struct{ Key, Number int }
	count := orderCount{keys: keys}
	last, partition := make([]int, keys), make([]int32, keys)
	for i := range last {
		last[i], partition[i] = -1, -1
	}
	var mu sync.Mutex
	var received atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var consumers sync.WaitGroup
	start := make(chan struct{}) // or messages might come one by one, in order by chance
	receive := func(consumer pulsar.Consumer) {
		<-start
		for {
			m, err := consumer.Receive(ctx)
			if err != nil {
				return
			}
			var v value
			if err := json.Unmarshal(m.Payload(), &v); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if v.Number < last[v.Key] {
				count.disordered++
			}
			last[v.Key] = max(last[v.Key], v.Number)
			if at := m.ID().PartitionIdx(); partition[v.Key] == -1 {
				partition[v.Key] = at
			} else if partition[v.Key] >= 0 && partition[v.Key] != at {
				partition[v.Key] = -2
				count.moved++
			}
			mu.Unlock()
			if err := consumer.Ack(m); err != nil {
				t.Error(err)
			}
			received.Add(1)
		}
	}
	for range 4 {
		consumer, err := bareClient(t, s).Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: kind})
		if err != nil {
			t.Fatal(err)
		}
		defer consumer.Close()
		consumers.Go(func() { receive(consumer) })
	}
	o := pulsarx.ProducerOptions[value]{
		Topic: topic, SendTimeout: 10 * time.Minute, // of a million keys, each a batch
		Batching: pulsarx.Batching{MaxMessages: 50, Compression: pulsarx.NoCompression},
	}
	if kind == pulsar.KeyShared {
		o.Key = func(v value) string { return strconv.Itoa(v.Key) }
	}
	p := producer(t, c, pulsarx.JSON[value](), o)
	for i := range messagesPerKey * keys {
		group, at := i/(messagesPerKey*1000), i%(messagesPerKey*1000) // a thousand keys at a time
		inGroup := min(1000, keys-1000*group)
		p.SendAsync(t.Context(), value{1000*group + at%inGroup, at / inGroup}, func(_ pulsarx.MessageID, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if i == min(startAfter, messagesPerKey*keys-1) {
			close(start)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	count.messages = keys * messagesPerKey
	patience := time.Duration(1+count.messages/100_000) * time.Minute
	for deadline := time.Now().Add(patience); int(received.Load()) < count.messages; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages came, of %d", received.Load(), count.messages)
		}
	}
	cancel()
	consumers.Wait()
	return count
}
