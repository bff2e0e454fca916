package pulsarx_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// scaled is a number that the environment may set: the tests below are short by default, and measure with more.
func scaled(tb testing.TB, name string, standard int) int {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("%s is %q", name, text)
	}
	return n
}

// heap is the memory in use, in MiB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// unacked is how many messages the broker has sent to the consumers of a subscription and has no acknowledgement of.
func unacked(t *testing.T, s server, topic, subscription string) int {
	t.Helper()
	var stats struct {
		Subscriptions map[string]struct {
			Unacked int `json:"unackedMessages"`
		} `json:"subscriptions"`
	}
	getJSON(t, s.admin+"/admin/v2/"+strings.Replace(topic, "://", "/", 1)+"/stats", &stats)
	return stats.Subscriptions[subscription].Unacked
}

// TestBackpressure: a handler that does not return stops the flow at the broker, and what is held is what the documentation says,
// however much waits. PULSARX_BACKLOG is how many messages wait.
func TestBackpressure(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			n := scaled(t, "PULSARX_BACKLOG", 15_000)
			const perBatch = 100
			backlog(t, s, topic, "s", n, perBatch)
			before := heap()
			var handled atomic.Int64
			release := make(chan struct{})
			r := run(t, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", MaxInFlight: 2000, ReceiverQueue: 500,
			}, func(_ context.Context, batch []pulsarx.Message[[]byte]) error {
				<-release
				handled.Add(int64(len(batch)))
				return nil
			})
			bound := 2000 + 256 + 500 + perBatch
			if s.broker == nil { // until it has seen how large the batches are, Pulsar takes an entry for a message: a read is 100 entries
				bound += 100 * perBatch
			}
			last := 0
			eventually(t, "a flow that has stopped", func() bool {
				now := unacked(t, s, topic, "s")
				stopped := now == last && now >= 2000
				last = now
				time.Sleep(300 * time.Millisecond)
				return stopped
			})
			t.Logf("%d waiting: %d sent by the broker, of at most %d; heap %.1f MiB, %.1f before", n, last, bound, heap(), before)
			if last > bound {
				t.Errorf("the broker has sent %d messages, more than %d", last, bound)
			}
			close(release)
			eventually(t, "all", func() bool { return handled.Load() >= int64(min(n, 15_000)) })
			r.stop()
		})
	}
}

// backlog makes n messages of 100 bytes wait for a subscription.
func backlog(t *testing.T, s server, topic, subscription string, n, perBatch int) {
	t.Helper()
	client := bareClient(t, s)
	keep(t, client, topic, subscription)
	produce(t, client, topic, n, perBatch)
}

// produce sends n messages of 100 bytes, in batches of a key.
func produce(t *testing.T, client pulsar.Client, topic string, n, perBatch int) {
	t.Helper()
	p, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, BatchingMaxMessages: uint(perBatch), BatchingMaxPublishDelay: time.Second, SendTimeout: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var failed atomic.Int64
	payload := make([]byte, 100)
	for i := range n {
		p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: payload, Key: strconv.Itoa(i / perBatch)},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					failed.Add(1)
				}
			})
	}
	if err := p.FlushWithCtx(timeout(t, time.Minute)); err != nil || failed.Load() > 0 {
		t.Fatal(err, failed.Load())
	}
}

// TestMemoryIsFlat: what a consumer holds does not grow with what it has handled. PULSARX_MESSAGES is how many that is.
func TestMemoryIsFlat(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, client, topic := s.client(t), bareClient(t, s), topic(t)
			n := scaled(t, "PULSARX_MESSAGES", 100_000)
			var handled atomic.Int64
			run(t, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[[]byte]) error {
					handled.Add(int64(len(batch)))
					return nil
				})
			const steps = 10
			var heaps [steps]float64
			for step := range heaps {
				produce(t, client, topic, n/steps, 100)
				want := int64(step+1) * int64(n/steps)
				for deadline := time.Now().Add(2 * time.Minute); handled.Load() < want; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d messages handled, of %d", handled.Load(), want)
					}
				}
				if s.broker != nil {
					eventually(t, "an empty backlog", func() bool { return s.broker.Backlog(topic, "s") == 0 })
				}
				heaps[step] = heap()
				t.Logf("%9d messages: heap %.1f MiB", want, heaps[step])
			}
			allowed := 2*heaps[1] + 20
			if s.broker != nil { // which keeps all messages, for tests to look at
				allowed += float64(n) * 200 / (1 << 20)
			}
			if heaps[steps-1] > allowed {
				t.Errorf("the heap grows: %v", heaps)
			}
		})
	}
}

// TestStopWithoutBroker: with the broker gone, Run still returns, and says what was not acknowledged.
func TestStopWithoutBroker(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	topic := topic(t)
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: quickOptions()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(timeout(t, 60*time.Second)) }()
	send(t, keyed(t, s.client(t), topic), "a:1")
	var consumer *pulsarx.Consumer[string]
	eventually(t, "a subscription", func() bool { // a busy machine may take longer than the client waits
		consumer, err = pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
		return err == nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- consumer.Run(ctx, func(context.Context, []pulsarx.Message[string]) error {
			_ = s.broker.Close()
			cancel()
			return nil
		})
	}()
	start := time.Now()
	select {
	case err := <-done:
		t.Logf("Run has returned after %v: %v", time.Since(start).Round(time.Millisecond), err)
		if err == nil || !strings.Contains(err.Error(), "come again") {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(60 * time.Second):
		t.Error("Run does not return")
	}
}
