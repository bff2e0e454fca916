package pulsarx_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// told is a message as the model of a topic knows it.
type told struct {
	value     string
	partition int
	id        pulsarx.MessageID
	event     int64 // milliseconds, 0 for none
	published int64 // milliseconds, where it was replayed
	second    bool  // published in the second half
}

func compareIDs(a, b pulsarx.MessageID) int {
	return cmp.Or(cmp.Compare(a.LedgerID(), b.LedgerID()), cmp.Compare(a.EntryID(), b.EntryID()), cmp.Compare(a.BatchIdx(), b.BatchIdx()))
}

// createPartitions makes a partitioned topic, of which one has none.
func createPartitions(tb testing.TB, c *pulsarx.Client, topic string, n int) {
	tb.Helper()
	path := "/persistent/" + strings.TrimPrefix(topic, "persistent://") + "/partitions"
	if err := c.Admin(tb.Context(), "PUT", path, n, nil); err != nil {
		tb.Fatal(err)
	}
}

// fillPartitions sends messages of all kinds to the partitions, and returns them in order, and the time between the halves.
func fillPartitions(tb testing.TB, s server, topic string, partitions, messages int, rng *rand.Rand) (model [][]told, middle time.Time) {
	tb.Helper()
	bare, c := bareClient(tb, s), s.client(tb)
	keep(tb, bare, topic, "keep")
	model = make([][]told, partitions)
	results := make(chan told, 2*messages+100)
	for half := range 2 {
		if half == 1 {
			time.Sleep(20 * time.Millisecond)
			middle = time.Now()
			time.Sleep(20 * time.Millisecond)
			unload(tb, c, topic) // the second half is in other ledgers
		}
		for p := range partitions {
			for _, chunked := range []bool{false, true} {
				o := pulsar.ProducerOptions{Topic: fmt.Sprintf("%s-partition-%d", topic, p), BatchingMaxMessages: 7, MaxPendingMessages: 2000, SendTimeout: -1}
				if chunked {
					o.DisableBatching, o.EnableChunking, o.ChunkMaxMessageSize = true, true, 200
				}
				producer, err := bare.CreateProducer(o)
				if err != nil {
					tb.Fatal(err)
				}
				n := messages / partitions / 2
				if chunked {
					n = rng.IntN(3) // at the end too: the last message of a partition is in chunks
				}
				for i := range n {
					m := told{value: fmt.Sprintf("%d-%v-%d-%d", half, chunked, p, i), partition: p, second: half == 1}
					if rng.IntN(5) > 0 {
						m.event = 1_700_000_000_000 + int64(rng.IntN(messages))*10
					}
					message := &pulsar.ProducerMessage{Payload: []byte(m.value)}
					if chunked {
						m.value += strings.Repeat("x", 500)
						message.Payload = []byte(m.value)
					}
					if m.event > 0 {
						message.EventTime = time.UnixMilli(m.event)
					}
					producer.SendAsync(tb.Context(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
						if err != nil {
							tb.Error(err)
						}
						m.id = id
						results <- m
					})
				}
				if err := producer.FlushWithCtx(tb.Context()); err != nil {
					tb.Fatal(err)
				}
				producer.Close()
			}
		}
	}
	close(results)
	for m := range results {
		model[m.partition] = append(model[m.partition], m)
	}
	for _, list := range model {
		slices.SortFunc(list, func(a, b told) int { return compareIDs(a.id, b.id) })
	}
	return model, middle
}

// attempt is one replay of the property test, which may stop by itself or through a fault.
type attempt struct {
	got      []told
	position pulsarx.Position
	err      error
}

var errEnough = errors.New("enough")

func replayOnce(ctx context.Context, c *pulsarx.Client, o pulsarx.ReplayOptions, batches int) (a attempt) {
	a.position = o.From
	done := 0
	o.Progress = func(p pulsarx.Progress) { a.position, done = p.Position, len(a.got) }
	a.err = pulsarx.Replay(ctx, c, pulsarx.String(), o, func(_ context.Context, batch []pulsarx.Message[string]) error {
		if batches--; batches < 0 {
			return errEnough
		}
		for _, m := range batch {
			t := told{value: m.Value, partition: m.Partition, published: m.PublishTime.UnixMilli()}
			if !m.EventTime.IsZero() {
				t.event = m.EventTime.UnixMilli()
			}
			a.got = append(a.got, t)
		}
		return nil
	})
	if a.err != nil {
		a.got = a.got[:done]
	}
	return a
}

// disturb injects a fault.
func disturb(b *pulsartest.Broker, topic string, rng *rand.Rand) (remove func()) {
	f := pulsartest.Fault{Topic: topic, After: rng.IntN(4), Count: 1 + rng.IntN(2), Disconnect: rng.IntN(2) == 0}
	switch commands := []string{"SUBSCRIBE", "FLOW", "SEEK", "GET_LAST_MESSAGE_ID", "LOOKUP", "ACK"}; rng.IntN(2) {
	case 0:
		f.Command = commands[rng.IntN(3)]
		f.Disconnect = true
	default:
		f.Command = commands[rng.IntN(len(commands))]
		f.Error = "ServiceNotReady"
	}
	return b.Inject(f)
}

// TestReplayProperty: whatever is asked for, from wherever, across interruptions, resumptions and faults of the broker, a replay
// hands out exactly what the model of the topic says, in its order.
func TestReplayProperty(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			topic := topic(t)
			c := s.client(t)
			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			partitions := 1 + rng.IntN(4)
			createPartitions(t, c, topic, partitions)
			model, middle := fillPartitions(t, s, topic, partitions, 600, rng)
			for range 6 {
				o := pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 1 + rng.IntN(100), MergeByEventTime: rng.IntN(2) == 0}
				want := slices.Clone(model)
				cut := func(keep func(told) bool) {
					for p, list := range want {
						want[p] = slices.Collect(func(yield func(told) bool) {
							for _, m := range list {
								if keep(m) && !yield(m) {
									return
								}
							}
						})
					}
				}
				pick := func() told { list := model[rng.IntN(partitions)]; return list[rng.IntN(len(list))] }
				switch rng.IntN(3) {
				case 0:
					o.From = pulsarx.At(middle)
					cut(func(m told) bool { return m.second })
				case 1:
					from := pick()
					o.From = pulsarx.After(fmt.Sprintf("%s-partition-%d", topic, from.partition), from.id)
					cut(func(m told) bool { return m.partition != from.partition || compareIDs(m.id, from.id) > 0 })
				}
				switch rng.IntN(3) {
				case 0:
					o.To = pulsarx.At(middle)
					cut(func(m told) bool { return !m.second })
				case 1:
					to := pick()
					o.To = pulsarx.After(fmt.Sprintf("%s-partition-%d", topic, to.partition), to.id)
					cut(func(m told) bool { return m.partition != to.partition || compareIDs(m.id, to.id) <= 0 })
				}
				checkReplay(t, s, topic, c, o, want, rng)
			}
		})
	}
}

// checkReplay replays in several goes, each of which resumes from the text of the last position.
func checkReplay(t *testing.T, s server, topic string, c *pulsarx.Client, o pulsarx.ReplayOptions, want [][]told, rng *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	var got []told
	first := o.From
	for goes := 0; ; goes++ {
		batches, faulty := 1<<30, false
		if goes < 3 {
			batches, faulty = rng.IntN(8), s.broker != nil && rng.IntN(2) == 0
		}
		remove := func() {}
		if faulty {
			remove = disturb(s.broker, topic, rng)
		}
		a := replayOnce(ctx, c, o, batches)
		remove()
		got = append(got, a.got...)
		if a.err == nil {
			break
		}
		if !errors.Is(a.err, errEnough) && !faulty {
			t.Fatalf("from %v to %v: %v", first, o.To, a.err)
		}
		text, err := a.position.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		o.From = pulsarx.Position{}
		if err := o.From.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
	}
	perPartition := make([][]told, len(want))
	for _, m := range got {
		perPartition[m.partition] = append(perPartition[m.partition], m)
	}
	for p, list := range want {
		if !slices.Equal(values(perPartition[p]), values(list)) {
			t.Fatalf("from %v to %v: partition %d has\n%.3000v\nwant\n%.3000v", first, o.To, p, values(perPartition[p]), values(list))
		}
	}
	if o.MergeByEventTime {
		if merged := mergeModel(want, got); !slices.Equal(values(got), values(merged)) {
			t.Fatalf("merged from %v to %v:\n%.3000v\nwant\n%.3000v", first, o.To, values(got), values(merged))
		}
	}
}

func values(list []told) (all []string) {
	for _, m := range list {
		all = append(all, m.value)
	}
	return all
}

// mergeModel is MergeByEventTime in its simplest words. The publish times are from what was replayed.
func mergeModel(lists [][]told, got []told) (merged []told) {
	lists = slices.Clone(lists)
	published := map[string]int64{}
	for _, m := range got {
		published[m.value] = m.published
	}
	for {
		best := -1
		at := func(p int) int64 { return cmp.Or(lists[p][0].event, published[lists[p][0].value]) }
		for p := range lists {
			if len(lists[p]) > 0 && (best < 0 || at(p) < at(best)) {
				best = p
			}
		}
		if best < 0 {
			return merged
		}
		merged = append(merged, lists[best][0])
		lists[best] = lists[best][1:]
	}
}

// TestReplayRestarts: the broker goes away again and again while it is read. Nothing is missing and nothing comes twice.
func TestReplayRestarts(t *testing.T) {
	s := partitioned(t, map[string]int{"restarts": 3})
	c := s.client(t)
	const topic = "persistent://public/default/restarts"
	model, _ := fillPartitions(t, s, topic, 3, 6000, rand.New(rand.NewPCG(1, 2)))
	want := map[string]int{}
	for _, list := range model {
		for _, m := range list {
			want[m.value]++
		}
	}
	for _, merged := range []bool{false, true} {
		got, batches := map[string]int{}, 0
		err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 50, MergeByEventTime: merged},
			func(_ context.Context, batch []pulsarx.Message[string]) error {
				for _, m := range batch {
					got[m.Value]++
				}
				if batches++; batches%20 == 0 {
					return s.broker.Restart()
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d messages, want %d", len(got), len(want))
		}
	}
}
