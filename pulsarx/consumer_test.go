package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/tidemark-go/tidemark/pulsarx"
)

func nopLogger() log.Logger { return log.DefaultNopLogger() }

// keyed is a producer of strings "key:value", keyed by what stands before the colon.
func keyed(tb testing.TB, c *pulsarx.Client, topic string) *pulsarx.Producer[string] {
	tb.Helper()
	return producer(tb, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf})
}

func keyOf(v string) string {
	key, _, _ := strings.Cut(v, ":")
	return key
}

func send(tb testing.TB, p *pulsarx.Producer[string], values ...string) {
	tb.Helper()
	for _, v := range values {
		if _, err := p.Send(tb.Context(), v); err != nil {
			tb.Fatal(err)
		}
	}
}

// sendAll sends in batches.
func sendAll(tb testing.TB, p *pulsarx.Producer[string], values []string) {
	tb.Helper()
	var failed atomic.Int64
	for _, v := range values {
		p.SendAsync(tb.Context(), v, func(_ pulsarx.MessageID, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := p.Flush(timeout(tb, 60*time.Second)); err != nil || failed.Load() > 0 {
		tb.Fatal(err, failed.Load())
	}
}

// leftovers counts what the subscription still has.
func leftovers(tb testing.TB, c *pulsarx.Client, topic, subscription string) int {
	tb.Helper()
	var left record
	r := run(tb, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: subscription},
		func(_ context.Context, batch []pulsarx.Message[[]byte]) error {
			for _, m := range batch {
				left.add(string(m.Value))
			}
			return nil
		})
	time.Sleep(300 * time.Millisecond)
	r.stop()
	return left.len()
}

func quick() pulsarx.Backoff {
	return pulsarx.Backoff{Initial: 10 * time.Millisecond, Max: 50 * time.Millisecond}
}

func TestOrderUnderRetry(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			for i := range 5 {
				send(t, p, fmt.Sprintf("123:%d", i))
			}
			var done record
			failed := false
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", Backoff: quick(),
			}, func(_ context.Context, batch []pulsarx.Message[string]) error {
				errs := make(pulsarx.BatchError, len(batch))
				for i, m := range batch {
					if m.Value == "123:0" && !failed {
						failed = true
						errs[i] = errors.New("once")
						break // what comes behind has not been done
					}
					done.add(m.Value)
				}
				return errs.Err()
			})
			eventually(t, "five messages", func() bool { return done.len() >= 5 })
			r.stop()
			if want := []string{"123:0", "123:1", "123:2", "123:3", "123:4"}; !slices.Equal(done.all(), want) {
				t.Errorf("handled %v", done.all())
			}
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}

// TestOneOfABatchEntryFails: an entry of ten, of which the last fails once: the others do not come again.
func TestOneOfABatchEntryFails(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{
				Topic: topic, Key: keyOf, Batching: pulsarx.Batching{AcrossKeys: true, MaxDelay: time.Second},
			})
			var values []string
			for i := range 10 {
				values = append(values, fmt.Sprintf("%d:x", i))
			}
			sendAll(t, p, values)
			var seen record
			stopped := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", Backoff: quick(), DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: -1},
			},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					errs := make(pulsarx.BatchError, len(batch))
					for i, m := range batch {
						seen.add(m.Value)
						if m.Value == "9:x" {
							errs[i] = errors.New("not yet")
						}
					}
					return errs.Err()
				})
			eventually(t, "ten messages", func() bool { return seen.len() >= 11 })
			stopped.stop()
			var again record
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						again.add(m.Value)
					}
					return nil
				})
			eventually(t, "the ninth", func() bool { return again.len() > 0 })
			time.Sleep(200 * time.Millisecond)
			r.stop()
			if !slices.Equal(again.all(), []string{"9:x"}) {
				t.Errorf("came again: %v", again.all())
			}
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}

// TestTwoConsumers: keys that alternate in the producer's batches, and a key stays with one consumer.
func TestTwoConsumers(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			var mu sync.Mutex
			owners, done := map[string]map[int]bool{}, map[string][]string{}
			count := 0
			for consumer := range 2 {
				run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
					func(_ context.Context, batch []pulsarx.Message[string]) error {
						mu.Lock()
						defer mu.Unlock()
						for _, m := range batch {
							if owners[m.Key] == nil {
								owners[m.Key] = map[int]bool{}
							}
							owners[m.Key][consumer] = true
							done[m.Key] = append(done[m.Key], m.Value)
							count++
						}
						return nil
					})
			}
			var values []string
			want := map[string][]string{}
			for i := range 400 {
				v := fmt.Sprintf("k%d:%d", i%20, i)
				values = append(values, v)
				want[keyOf(v)] = append(want[keyOf(v)], v)
			}
			sendAll(t, p, values)
			eventually(t, "all", func() bool { mu.Lock(); defer mu.Unlock(); return count >= len(values) })
			mu.Lock()
			defer mu.Unlock()
			used := map[int]bool{}
			for key, consumers := range owners {
				for consumer := range consumers {
					used[consumer] = true
				}
				if len(consumers) != 1 || !slices.Equal(done[key], want[key]) {
					t.Errorf("%s: consumers %v, %v", key, consumers, done[key])
				}
			}
			if len(used) != 2 {
				t.Errorf("twenty keys went to the consumers %v", used)
			}
		})
	}
}

// inOrder reports whether the first successes stand in the order of want: a message may run again behind an earlier one's failure.
func inOrder(got, want []string) bool {
	var first []string
	for _, v := range got {
		if !slices.Contains(first, v) {
			first = append(first, v)
		}
	}
	return slices.Equal(first, want)
}

func TestGoexitInHandler(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	send(t, keyed(t, c, topic), "a:1")
	var done record
	first := true
	run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Workers: 1, Backoff: quick()},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			if first {
				first = false
				runtime.Goexit()
			}
			done.add(batch[0].Value)
			return nil
		})
	eventually(t, "the message", func() bool { return done.len() == 1 })
}

func TestTombstones(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			send(t, p, "k:1")
			if _, err := p.SendTombstone(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if _, err := p.SendTombstone(t.Context(), ""); err == nil {
				t.Error("a tombstone without a key is sent")
			}
			var seen record
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						seen.add(fmt.Sprintf("%s=%s %v", m.Key, m.Value, m.Tombstone))
					}
					return nil
				})
			eventually(t, "both", func() bool { return seen.len() == 2 })
			r.stop()
			if got := seen.all(); !slices.Equal(got, []string{"k=k:1 false", "k= true"}) {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestMaxInFlight(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			var values []string
			for i := range 300 {
				values = append(values, fmt.Sprintf("%d:x", i))
			}
			sendAll(t, p, values)
			release := make(chan struct{})
			var held, done atomic.Int64
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", Workers: 100, MaxBatch: 1, MaxInFlight: 20, MaxDelay: -1,
			}, func(_ context.Context, batch []pulsarx.Message[string]) error {
				held.Add(int64(len(batch)))
				<-release
				done.Add(int64(len(batch)))
				return nil
			})
			eventually(t, "twenty", func() bool { return held.Load() == 20 })
			time.Sleep(100 * time.Millisecond)
			if n := held.Load(); n != 20 {
				t.Errorf("%d messages in flight", n)
			}
			close(release)
			eventually(t, "all", func() bool { return done.Load() == 300 })
			r.stop()
		})
	}
}

func TestDrain(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			send(t, p, "a:1", "b:1")
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(),
				pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Workers: 1, MaxBatch: 1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var done record
			err = consumer.Run(ctx, func(ctx context.Context, batch []pulsarx.Message[string]) error {
				cancel()
				time.Sleep(100 * time.Millisecond)
				done.add(batch[0].Value)
				return ctx.Err() // nil: the handler's context lives on
			})
			if err != nil || done.len() != 1 {
				t.Errorf("Run: %v after %v", err, done.all())
			}
			if err := consumer.Run(t.Context(), nil); !errors.Is(err, pulsarx.ErrSecondRun) {
				t.Errorf("a second Run: %v", err)
			}
			if err := consumer.Close(t.Context()); err != nil {
				t.Error(err)
			}
			again, _ := collect(t, c, pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
			eventually(t, "the other message", func() bool { return again.len() > 0 })
			if got := append(done.all(), again.all()...); !slices.Equal(sorted(got), []string{"a:1", "b:1"}) || len(got) != 2 {
				t.Errorf("handled %v", got)
			}
		})
	}
}

func TestDrainTimeout(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	send(t, keyed(t, c, topic), "a:1")
	for name, obeys := range map[string]bool{"obeys": true, "ignores": false} {
		t.Run(name, func(t *testing.T) {
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(),
				pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: name, DrainTimeout: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			free := make(chan struct{})
			defer close(free)
			err = consumer.Run(ctx, func(ctx context.Context, _ []pulsarx.Message[string]) error {
				cancel()
				if obeys {
					<-ctx.Done()
				} else {
					<-free
				}
				return errors.New("too late")
			})
			if obeys && err != nil || !obeys && !errors.Is(err, pulsarx.ErrDrainTimeout) {
				t.Errorf("Run: %v", err)
			}
			if n := s.broker.Backlog(topic, name); n != 1 {
				t.Errorf("backlog %d", n)
			}
		})
	}
}

func TestCloseStopsRun(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(),
		pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- consumer.Run(t.Context(), func(context.Context, []pulsarx.Message[string]) error { return nil })
	}()
	time.Sleep(20 * time.Millisecond)
	for range 2 {
		if err := consumer.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil && !errors.Is(err, pulsarx.ErrClosed) {
		t.Error(err)
	}
	idle, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(),
		pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := idle.Run(t.Context(), nil); !errors.Is(err, pulsarx.ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
}

func TestFourPartitions(t *testing.T) {
	s := partitioned(t, map[string]int{"persistent://public/default/four": 4})
	c := s.client(t)
	const topic = "persistent://public/default/four"
	p := keyed(t, c, topic)
	var values []string
	for i := range 40 {
		values = append(values, fmt.Sprintf("%d:x", i))
	}
	sendAll(t, p, values)
	var mu sync.Mutex
	partitions := map[int]bool{}
	done := 0
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range batch {
				partitions[m.Partition] = true
				if m.Topic != topic {
					t.Errorf("topic %s", m.Topic)
				}
				done++
			}
			return nil
		})
	eventually(t, "an empty backlog", func() bool { return s.broker.Backlog(topic, "s") == 0 })
	r.stop()
	if done != 40 || len(partitions) != 4 {
		t.Errorf("%d messages of %d partitions", done, len(partitions))
	}
	if n := leftovers(t, c, topic, "s"); n != 0 {
		t.Errorf("%d messages come again", n)
	}
}

// TestMany is more than any queue on the way holds.
func TestMany(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			const messages = 5000
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			var values []string
			for i := range messages {
				values = append(values, fmt.Sprintf("k%d:%d", i%64, i))
			}
			sendAll(t, p, values)
			var mu sync.Mutex
			done, count := map[string][]string{}, 0
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					mu.Lock()
					defer mu.Unlock()
					for _, m := range batch {
						done[m.Key] = append(done[m.Key], m.Value)
						count++
					}
					return nil
				})
			eventually(t, "all messages", func() bool { mu.Lock(); defer mu.Unlock(); return count >= messages })
			r.stop()
			for i, v := range values {
				if got := done[keyOf(v)]; len(got) <= i/64 || got[i/64] != v {
					t.Fatalf("message %d of %s is not in its place", i/64, keyOf(v))
				}
			}
			if count != messages {
				t.Errorf("%d messages handled, of %d", count, messages)
			}
		})
	}
}

// TestTypes: each subscription type delivers, in order without keys where it promises so.
func TestTypes(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			for _, typ := range []pulsarx.SubscriptionType{pulsarx.KeyShared, pulsarx.Failover, pulsarx.Exclusive, pulsarx.Shared} {
				c, topic := s.client(t), topic(t)
				p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
				var values []string
				for i := range 100 {
					values = append(values, fmt.Sprintf("%03d", i))
				}
				sendAll(t, p, values)
				var seen record
				r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
					Topics: []string{topic}, Subscription: "s", Type: typ, MaxBatch: 3,
				}, func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						seen.add(m.Value)
					}
					return nil
				})
				eventually(t, "all", func() bool { return seen.len() >= 100 })
				r.stop()
				got := seen.all()
				if typ == pulsarx.Shared {
					slices.Sort(got)
				}
				if !slices.Equal(got, values) {
					t.Errorf("type %d: %v", typ, got)
				}
			}
		})
	}
}

func TestNewConsumerErrors(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	_, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Type: 9, Workers: -1})
	for _, want := range []string{"Topics", "Subscription", "Type", "Workers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if _, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.AvroSchema[int]("{"), pulsarx.ConsumerOptions{
		Topics: []string{topic(t)}, Subscription: "s",
	}); err == nil {
		t.Error("a codec without a schema consumes")
	}
	for _, name := range []string{"a/b", "a/b/c/d", "x://a/b/c", "persistent://a"} {
		options := pulsarx.ConsumerOptions{Topics: []string{name}, Subscription: "s"}
		if _, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), options); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is a topic: %v", name, err)
		}
	}
}

// TestReadCompacted: what compaction took out of batches reaches no handler, and is acknowledged.
func TestReadCompacted(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{
				Topic: topic, Key: keyOf, Batching: pulsarx.Batching{AcrossKeys: true, MaxDelay: time.Second},
			})
			sendAll(t, p, []string{"a:1", "b:1", "a:2", "c:1", "c:2", "a:3"})
			compact(t, c, topic)
			send(t, p, "d:1")
			options := pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Type: pulsarx.Exclusive, ReadCompacted: true}
			var seen record
			r := run(t, c, pulsarx.String(), options, pulsarx.Values(func(_ context.Context, values []string) error {
				for _, v := range values {
					seen.add(v)
				}
				return nil
			}))
			eventually(t, "a message of each key", func() bool { return len(seen.all()) >= 4 })
			r.stop()
			got := seen.all()
			slices.Sort(got)
			if !slices.Equal(got, []string{"a:3", "b:1", "c:2", "d:1"}) {
				t.Errorf("handled: %q", got)
			}
			var stats struct {
				Subscriptions map[string]struct{ MsgBacklog int }
			}
			eventually(t, "no backlog", func() bool {
				err := c.Admin(t.Context(), http.MethodGet, adminPath(topic, "/stats"), nil, &stats)
				return err == nil && stats.Subscriptions["s"].MsgBacklog == 0
			})
		})
	}
}
