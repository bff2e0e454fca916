package pulsarx_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// replay returns the values that a replay hands to its handler.
func replay(tb testing.TB, c *pulsarx.Client, o pulsarx.ReplayOptions) []string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 60*time.Second)
	defer cancel()
	var got []string
	err := pulsarx.Replay(ctx, c, pulsarx.String(), o, func(_ context.Context, batch []pulsarx.Message[string]) error {
		for _, m := range batch {
			got = append(got, m.Value)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

func numbers(from, to int) (values []string) {
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf("k:%04d", i))
	}
	return values
}

func TestReplay(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			if got := replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}}); len(got) != 0 {
				t.Errorf("an empty topic has %v", got)
			}
			if got := replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}, From: pulsarx.At(time.Now().Add(-time.Hour))}); len(got) != 0 {
				t.Errorf("an empty topic has %v", got)
			}
			sendAll(t, p, numbers(0, 100))
			time.Sleep(20 * time.Millisecond)
			middle := time.Now()
			time.Sleep(20 * time.Millisecond)
			id, err := p.Send(t.Context(), "k:0100")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			sendAll(t, p, numbers(101, 200))
			all := numbers(0, 200)
			var published time.Time // of that message
			one := pulsarx.ReplayOptions{Topics: []string{topic}, From: pulsarx.At(middle), To: pulsarx.After(topic, id)}
			err = pulsarx.Replay(t.Context(), c, pulsarx.String(), one, func(_ context.Context, batch []pulsarx.Message[string]) error {
				published = batch[0].PublishTime
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]struct {
				o    pulsarx.ReplayOptions
				want []string
			}{
				"all":                {pulsarx.ReplayOptions{}, all},
				"small batches":      {pulsarx.ReplayOptions{MaxBatch: 7}, all},
				"from a time":        {pulsarx.ReplayOptions{From: pulsarx.At(middle)}, all[100:]},
				"from long ago":      {pulsarx.ReplayOptions{From: pulsarx.At(time.Unix(1, 0))}, all},
				"from the future":    {pulsarx.ReplayOptions{From: pulsarx.At(time.Now().Add(time.Hour))}, nil},
				"after a message":    {pulsarx.ReplayOptions{From: pulsarx.After(topic, id)}, all[101:]},
				"to a time":          {pulsarx.ReplayOptions{To: pulsarx.At(middle)}, all[:100]},
				"to a message":       {pulsarx.ReplayOptions{To: pulsarx.After(topic, id)}, all[:101]},
				"from its time":      {pulsarx.ReplayOptions{From: pulsarx.At(published)}, all[100:]},
				"to its time":        {pulsarx.ReplayOptions{To: pulsarx.At(published)}, all[:100]},
				"between":            {pulsarx.ReplayOptions{From: pulsarx.At(middle), To: pulsarx.After(topic, id)}, all[100:101]},
				"nothing in between": {pulsarx.ReplayOptions{From: pulsarx.After(topic, id), To: pulsarx.At(middle)}, nil},
			} {
				c.o.Topics = []string{topic}
				if got := replay(t, s.client(t), c.o); !slices.Equal(got, c.want) {
					t.Errorf("%s: %d messages, want %d: %v", name, len(got), len(c.want), got)
				}
			}
			// From each position that Progress reports, the rest.
			var places []pulsarx.Progress
			o := pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 60, Progress: func(p pulsarx.Progress) { places = append(places, p) }}
			replay(t, c, o)
			if n := len(places); n < 4 || places[n-1].Messages != 200 || places[n-1].Remaining != 0 {
				t.Errorf("progress %+v", places)
			}
			for _, place := range places {
				text, err := place.Position.MarshalText()
				if err != nil {
					t.Fatal(err)
				}
				var from pulsarx.Position
				if err := from.UnmarshalText(text); err != nil {
					t.Fatal(err)
				}
				got := replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}, From: from})
				if !slices.Equal(got, all[place.Messages:]) {
					t.Errorf("from %s: %d messages, want %d", text, len(got), 200-place.Messages)
				}
			}
		})
	}
}

// TestReplayTombstoneLast: the end is a message without a value.
func TestReplayTombstoneLast(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			send(t, p, "k:1")
			if _, err := p.SendTombstone(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if got := replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}}); !slices.Equal(got, []string{"k:1", ""}) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestReplayPartitions(t *testing.T) {
	const name = "persistent://public/default/parts"
	s := partitioned(t, map[string]int{name: 5})
	c := s.client(t)
	p := keyed(t, c, name)
	var values []string
	for i := range 500 {
		values = append(values, fmt.Sprintf("k%d:%03d", i%31, i))
	}
	sendAll(t, p, values)
	var at pulsarx.Position
	stop := errors.New("stop")
	perKey := map[string][]string{}
	collect := func(fail int) error {
		n := 0
		return pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{
			Topics: []string{name}, From: at, MaxBatch: 50, Progress: func(p pulsarx.Progress) { at = p.Position },
		}, func(_ context.Context, batch []pulsarx.Message[string]) error {
			if n++; n == fail {
				return stop
			}
			for _, m := range batch {
				perKey[m.Key] = append(perKey[m.Key], m.Value)
			}
			return nil
		})
	}
	if err := collect(4); !errors.Is(err, stop) || !strings.Contains(err.Error(), name) {
		t.Fatalf("Replay: %v", err)
	}
	if err := collect(0); err != nil {
		t.Fatal(err)
	}
	n := 0
	for key, got := range perKey {
		n += len(got)
		if !slices.IsSorted(got) {
			t.Errorf("%s: %v", key, got)
		}
	}
	if n != 500 {
		t.Errorf("%d messages in two runs, of 500", n)
	}
}

func TestReplayErrors(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic})
	for _, v := range []string{"1", "\xff", "2"} {
		if _, err := p.Send(t.Context(), []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(context.Context, []pulsarx.Message[string]) error { return nil }
	err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}}, nothing)
	if err == nil || !strings.Contains(err.Error(), topic) {
		t.Errorf("what cannot be decoded: %v", err)
	}
	var bad []string
	got := replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}, OnDecodeError: func(r pulsarx.Raw, err error) error {
		bad = append(bad, string(r.Value))
		return nil
	}})
	if !slices.Equal(got, []string{"1", "2"}) || !slices.Equal(bad, []string{"\xff"}) {
		t.Errorf("%v %q", got, bad)
	}
	if err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{MaxBatch: -1}, nothing); err == nil {
		t.Error("bad options replay")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pulsarx.Replay(ctx, c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}}, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestReplayRefused: what is refused for good while a replay looks for its end is asked for once.
func TestReplayRefused(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	send(t, keyed(t, c, topic), "k:1")
	defer s.broker.Inject(pulsartest.Fault{Command: "SUBSCRIBE", Topic: topic, After: 1, Error: "AuthorizationError"})()
	err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, From: pulsarx.At(time.UnixMilli(1))},
		func(context.Context, []pulsarx.Message[string]) error { return nil })
	if hits := s.broker.Hits(); err == nil || !strings.Contains(err.Error(), "AuthorizationError") || len(hits) != 1 {
		t.Errorf("%d requests: %v", len(hits), err)
	}
}

func TestPositionText(t *testing.T) {
	const places = "persistent://a/b/c-partition-0@0000000000000001000000000000000200000003,persistent://a/b/d@0000000000000001000000000000000200000003"
	for text, want := range map[string]string{
		"v1 beginning":                   "",
		"v1 at:2024-05-06T07:08:09.123Z": "",
		"v1 beginning after:" + places:   "",
		"v1 at:2024-05-06T07:08:09Z after:persistent://a/b/c%2Cd%25@0000000000000001000000000000000200000003": "",
		"beginning":               "v1 beginning",
		"at:2024-05-06T07:08:09Z": "v1 at:2024-05-06T07:08:09Z",
		"after:" + places:         "v1 beginning after:" + places,
	} {
		var p pulsarx.Position
		if err := p.UnmarshalText([]byte(text)); err != nil || p.String() != cmp.Or(want, text) {
			t.Errorf("%s became %s: %v", text, p, err)
		}
	}
	for _, text := range []string{
		"", "x", "v1", "v1 ", "v2 beginning", "at:", "at:yesterday", "after:", "after:x", "after:@00", "after:t@12",
		"after:t@" + strings.Repeat("g", 40), "after:t@" + strings.Repeat("f", 40), "after:t%zz@0000000000000001000000000000000200000003",
		"after:" + places + "," + places, "beginning beginning", "beginning after:" + places + " after:" + places,
	} {
		if err := new(pulsarx.Position).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a position", text)
		}
	}
}

func FuzzPosition(f *testing.F) {
	f.Add("v1 at:2024-05-06T07:08:09.123Z after:persistent://a/b/c-partition-0@0000000000000001000000000000000200000003")
	f.Add("after:a,b@0000000000000001000000000000000200000003")
	f.Fuzz(func(t *testing.T, text string) {
		var p, again pulsarx.Position
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(p.String())); err != nil || again.String() != p.String() {
			t.Errorf("%q is %q, and that %q: %v", text, p, again, err)
		}
	})
}

// TestReplayNeedsTopic: what cannot be replayed is an error, not an empty result.
func TestReplayNeedsTopic(t *testing.T) {
	nothing := func(context.Context, []pulsarx.Message[string]) error { return nil }
	s := partitioned(t, map[string]int{"persistent://public/default/parts": 2})
	for _, topics := range [][]string{
		{"non-persistent://public/default/x"}, {"x", "persistent://public/default/x"}, {"parts", "parts-partition-1"}, {""}, nil,
	} {
		if err := pulsarx.Replay(t.Context(), s.client(t), pulsarx.String(), pulsarx.ReplayOptions{Topics: topics}, nothing); err == nil {
			t.Errorf("%v is replayed", topics)
		} else if topics != nil && strings.HasPrefix(topics[0], "non-") && !errors.Is(err, pulsarx.ErrNonPersistent) {
			t.Errorf("%v: %v", topics, err)
		}
	}
}

// TestReplayForeignPosition: a position in other topics would be the beginning, without a word.
func TestReplayForeignPosition(t *testing.T) {
	c := inProcess(t).client(t)
	ours, other := topic(t), partitionedTopic(t, c, 3)
	for _, name := range []string{ours, other} {
		send(t, keyed(t, c, name), "k:1", "k:2")
	}
	id := pulsar.NewMessageID(1, 0, 0, 2)
	for _, o := range []pulsarx.ReplayOptions{{From: pulsarx.After(ours+"2", id)}, {To: pulsarx.After(ours+"-partition-00", id)}, {From: pulsarx.After(other, id)}} {
		o.Topics = []string{ours}
		err := pulsarx.Replay(t.Context(), c, pulsarx.String(), o, func(context.Context, []pulsarx.Message[string]) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "none of the topics") {
			t.Errorf("from %v to %v: %v", o.From, o.To, err)
		}
	}
	of := pulsarx.After(other+"-partition-0", pulsar.NewMessageID(0, 0, 0, 0)) // and of the other partitions the beginning
	for _, topics := range [][]string{{ours, other}, {other}} {
		if got := replay(t, c, pulsarx.ReplayOptions{Topics: topics, From: of}); len(got) != 2*len(topics) {
			t.Errorf("%v: %q", topics, got)
		}
	}
	replay(t, c, pulsarx.ReplayOptions{Topics: []string{other + "-partition-1"}, From: of})
}

func TestReplayNoTopic(t *testing.T) {
	nothing := func(context.Context, []pulsarx.Message[string]) error { return nil }
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			broker := connect(t)
			beside := broker // where the first host is not there
			beside.url = strings.Replace(broker.url, "://", "://127.0.0.1:1,", 1)
			for _, s := range []server{broker, beside} {
				err := pulsarx.Replay(t.Context(), s.client(t), pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic(t)}}, nothing)
				if !errors.Is(err, pulsarx.ErrNoTopic) {
					t.Errorf("a topic that does not exist: %v", err)
				}
				_, err = pulsarx.Redrive(t.Context(), s.client(t), pulsarx.RedriveOptions{Topic: topic(t), Order: pulsarx.RedriveForced})
				if !errors.Is(err, pulsarx.ErrNoTopic) {
					t.Errorf("dead letters that do not exist: %v", err)
				}
			}
		})
	}
}

// TestReplayIncompleteChunks: the topic ends within a message in chunks, whose producer has died. What is whole is handed out; that
// the rest is not is an error, since nobody can say that it will not come.
func TestReplayIncompleteChunks(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	topic := topic(t)
	sendAll(t, keyed(t, s.client(t), topic), numbers(0, 5))
	defer s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, After: 1, Drop: true})()
	chunks, err := bareClient(t, s).CreateProducer(pulsar.ProducerOptions{
		Topic: topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 100, SendTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer chunks.Close()
	if _, err := chunks.Send(t.Context(), &pulsar.ProducerMessage{Payload: make([]byte, 1000)}); err == nil {
		t.Fatal("the chunks have arrived")
	}
	var got []string
	for wait := 2 * time.Second; wait < time.Minute && !errors.Is(err, pulsarx.ErrGap); wait *= 3 { // longer than a machine stands still
		got, err = replayWithin(t, s, topic, wait)
	}
	if !errors.Is(err, pulsarx.ErrGap) || !slices.Equal(got, numbers(0, 5)) {
		t.Errorf("%v: %v", got, err)
	}
}

// replayWithin replays a topic with a client of this OperationTimeout.
func replayWithin(t *testing.T, s server, topic string, wait time.Duration) (got []string, err error) {
	t.Helper()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: pulsar.ClientOptions{OperationTimeout: wait}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	return got, pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			for _, m := range batch {
				got = append(got, m.Value)
			}
			return nil
		})
}

// TestReplayUnanswered: two questions for a topic's end that get no answer are not the end of a replay.
func TestReplayUnanswered(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	topic := topic(t)
	sendAll(t, keyed(t, s.client(t), topic), numbers(0, 5))
	var got []string
	err := errors.New("not tried")
	for wait := time.Second; wait < time.Minute && err != nil; wait *= 3 { // longer than a machine stands still
		remove := s.broker.Inject(pulsartest.Fault{Command: "GET_LAST_MESSAGE_ID", Topic: topic, Count: 2, Drop: true})
		got, err = replayWithin(t, s, topic, wait)
		remove()
	}
	if err != nil || !slices.Equal(got, numbers(0, 5)) {
		t.Errorf("%v: %v", got, err)
	}
}

// TestReplaySlow: a broker that takes long for each message, though less than a replay waits for one, is waited for at the end too.
func TestReplaySlow(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	topic := topic(t)
	send(t, keyed(t, s.client(t), topic), "a:1")
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: pulsar.ClientOptions{OperationTimeout: 8 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	defer s.broker.Inject(pulsartest.Fault{Command: "MESSAGE", Topic: topic, Delay: 600 * time.Millisecond})()
	o := pulsarx.ReplayOptions{Topics: []string{topic}, From: pulsarx.At(time.Now().Add(-time.Hour))}
	if got := replay(t, c, o); !slices.Equal(got, []string{"a:1"}) {
		t.Errorf("got %q", got)
	}
}

// TestReplayCompacted: what compaction has left and what came after it, also from a saved position, and nothing where it left nothing.
func TestReplayCompacted(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			c, topic := connect(t).client(t), topic(t)
			p := keyed(t, c, topic)
			o := pulsarx.ReplayOptions{Topics: []string{topic}, Compacted: true, MaxBatch: 1}
			compacted := func(want ...string) {
				t.Helper()
				got := replay(t, c, o)
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("from %v: %q, want %q", o.From, got, want)
				}
			}
			bury := func(keys ...string) {
				t.Helper()
				for _, key := range keys {
					if _, err := p.SendTombstone(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
			}
			var values []string
			for i := range 30 {
				values = append(values, fmt.Sprintf("k%d:%02d", i%4, i))
			}
			sendAll(t, p, values)
			bury("k1")
			compact(t, c, topic)
			compacted("k0:28", "k2:26", "k3:27")
			o.From = pulsarx.At(time.Now().Add(-time.Hour))
			compacted("k0:28", "k2:26", "k3:27")
			var places []pulsarx.Position
			o.Progress = func(p pulsarx.Progress) { places = append(places, p.Position) }
			first := replay(t, c, o)[0]
			o.Progress, o.From = nil, places[0]
			sendAll(t, p, []string{"k1:30", "k2:31"})
			want := slices.DeleteFunc([]string{"k0:28", "k1:30", "k2:26", "k2:31", "k3:27"}, func(v string) bool { return v == first })
			compacted(want...)
			bury("k0", "k1", "k2", "k3")
			compact(t, c, topic)
			compacted()
			o.From = pulsarx.Position{}
			compacted()
		})
	}
}

// compact compacts a topic and waits for it.
func compact(t *testing.T, c *pulsarx.Client, topic string) {
	t.Helper()
	path := adminPath(topic, "/compaction")
	if err := c.Admin(t.Context(), http.MethodPut, path, nil, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the compaction", func() bool {
		var status struct{ Status string }
		return c.Admin(t.Context(), http.MethodGet, path, nil, &status) == nil && status.Status == "SUCCESS"
	})
}

// TestReplayGrown: a topic that grows while it is replayed is replayed to the end that it had, and from the position saved then on the new
// partitions come whole.
func TestReplayGrown(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			c := connect(t).client(t)
			topic := partitionedTopic(t, c, 2)
			fill := func(name string, n int) {
				t.Helper()
				var values []string
				for i := range n {
					values = append(values, fmt.Sprintf("%s%d:%d", name, i%31, i))
				}
				sendAll(t, keyed(t, c, topic), values)
			}
			fill("a", 400)
			var at pulsarx.Position
			got := map[string]int{}
			for _, want := range []int{400, 200} {
				grow := want == 400
				n := 0
				err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{
					Topics: []string{topic}, From: at, MaxBatch: 50, MergeByEventTime: grow, Progress: func(p pulsarx.Progress) { at = p.Position },
				}, func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						got[m.Value]++
					}
					if n += len(batch); grow {
						grow = false
						if err := c.Admin(t.Context(), http.MethodPost, adminPath(topic, "/partitions"), 5, nil); err != nil {
							t.Error(err)
						}
						fill("b", 200)
					}
					return nil
				})
				if err != nil || n != want {
					t.Errorf("%d messages, want %d: %v", n, want, err)
				}
			}
			for value, n := range got {
				if n != 1 {
					t.Errorf("%s came %d times", value, n)
				}
			}
			if len(got) != 600 {
				t.Errorf("%d messages, want 600", len(got))
			}
		})
	}
}

// TestReplayDeleted: a topic that is deleted while it is read is an error, whether or not the broker makes a new one for who asks.
func TestReplayDeleted(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	c := s.client(t)
	for _, anew := range []bool{false, true} {
		namespace := fmt.Sprintf("/namespaces/public/anew-%v", anew)
		topic := fmt.Sprintf("persistent://public/anew-%v/t", anew)
		admin := func(method, path string, body any) error { return c.Admin(t.Context(), method, path, body, nil) }
		if err := errors.Join(
			admin(http.MethodPut, namespace, nil),
			admin(http.MethodPost, namespace+"/autoTopicCreation", map[string]any{"allowAutoTopicCreation": anew, "topicType": "non-partitioned"}),
			admin(http.MethodPut, adminPath(topic, ""), nil),
		); err != nil {
			t.Fatal(err)
		}
		sendAll(t, keyed(t, c, topic), numbers(0, 3000)) // more than readers prefetch
		n := 0
		err := pulsarx.Replay(t.Context(), s.client(t), pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 10},
			func(_ context.Context, batch []pulsarx.Message[string]) error {
				if n += len(batch); n == len(batch) {
					return admin(http.MethodDelete, adminPath(topic, "?force=true"), nil)
				}
				return nil
			})
		if !errors.Is(err, pulsarx.ErrGap) && (err != nil || n != 3000) {
			t.Errorf("made anew %v: %d messages: %v", anew, n, err)
		}
	}
}

// TestReplayTrimmed: what the broker trims while it is read is an error, not a short result.
func TestReplayTrimmed(t *testing.T) {
	t.Parallel()
	s := realPulsar(t)
	topic := topic(t)
	c := s.client(t)
	fill := func(n int) {
		p, err := bareClient(t, s).CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true, MaxPendingMessages: n, SendTimeout: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range n {
			p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: []byte("v")}, func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		}
		if err := p.FlushWithCtx(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, bareClient(t, s), topic, "keep")
	fill(4000)          // more than readers prefetch
	unload(t, c, topic) // which ends the ledger
	fill(10)
	if n := len(replay(t, c, pulsarx.ReplayOptions{Topics: []string{topic}})); n != 4010 {
		t.Errorf("%d messages of two ledgers", n)
	}
	n := 0
	err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 10},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			if n += len(batch); n == len(batch) {
				return c.Admin(t.Context(), http.MethodDelete, adminPath(topic, "/truncate"), nil, nil)
			}
			return nil
		})
	if !errors.Is(err, pulsarx.ErrGap) && (err != nil || n != 4010) {
		t.Errorf("%d messages of 4010: %v", n, err)
	}
}
