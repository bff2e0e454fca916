package pulsarx_test

import (
	"context"
	"fmt"
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

// benchMessages is how many messages an iteration consumes; PULSARX_BENCH_MESSAGES scales it.
func benchMessages(tb testing.TB, standard int) int {
	tb.Helper()
	text := os.Getenv("PULSARX_BENCH_MESSAGES")
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("PULSARX_BENCH_MESSAGES is %q", text)
	}
	return n
}

// pass is what one consumer did with all messages of a topic.
type pass struct {
	time, cpu time.Duration
	allocs    uint64
}

func measure(f func()) pass {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), cpuTime()
	f()
	p := pass{time: time.Since(start), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	p.allocs = after.Mallocs - before.Mallocs
	return p
}

func (p *pass) add(q pass) {
	p.time, p.cpu, p.allocs = p.time+q.time, p.cpu+q.cpu, p.allocs+q.allocs
}

// consumeBare is the loop that a user of the bare client writes, with the queue and the batch-index acknowledgement that pulsarx has.
func consumeBare(tb testing.TB, client pulsar.Client, topic, subscription string, n int) pass {
	tb.Helper()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: subscription, Type: pulsar.KeyShared, ReceiverQueueSize: 1000,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, EnableBatchIndexAcknowledgment: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer consumer.Close()
	ctx := context.Background()
	return measure(func() {
		for range n {
			m, err := consumer.Receive(ctx)
			if err != nil {
				tb.Fatal(err)
			}
			if err := consumer.Ack(m); err != nil {
				tb.Fatal(err)
			}
		}
	})
}

func consumeRun[T any](tb testing.TB, c *pulsarx.Client, d pulsarx.Decoder[T], topic, subscription string, n int) pass {
	tb.Helper()
	consumer, err := pulsarx.NewConsumer(tb.Context(), c, d, pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: subscription, Workers: 8, ReceiverQueue: 1000,
	})
	if err != nil {
		tb.Fatal(err)
	}
	var handled atomic.Int64
	done, stopped := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	p := measure(func() {
		go func() {
			stopped <- consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[T]) error {
				if all := handled.Add(int64(len(batch))); all >= int64(n) && all-int64(len(batch)) < int64(n) {
					close(done)
				}
				return nil
			})
		}()
		<-done
	})
	cancel()
	if err := <-stopped; err != nil {
		tb.Error(err)
	}
	return p
}

// BenchmarkRun compares Run with 8 workers, with bytes and with typed Avro, and the bare client's loop that receives and
// acknowledges bytes: the same topic, in turns. The ratios are of messages a second, and of messages a second of processor time.
func BenchmarkRun(b *testing.B) {
	n := benchMessages(b, 50_000)
	for _, preset := range benchPresets {
		for _, size := range []int{100, 1024} {
			b.Run(fmt.Sprintf("%s/%dB", preset.name, size), func(b *testing.B) {
				s := benchServer(b)
				c, client, name := s.client(b), bareClient(b, s), topic(b)
				fill(b, s, name, preset.preset, size, n)
				var bare, run, typed pass
				passes := 0
				for b.Loop() {
					passes++
					subscription := func(kind string) string { return fmt.Sprintf("%s-%d", kind, passes) }
					bare.add(consumeBare(b, client, name, subscription("bare"), n))
					run.add(consumeRun(b, c, pulsarx.Bytes(), name, subscription("run"), n))
					typed.add(consumeRun(b, c, pulsarx.Avro[event](), name, subscription("typed"), n))
				}
				total := float64(n * passes)
				b.ReportMetric(total/bare.time.Seconds(), "bare-msgs/s")
				b.ReportMetric(total/run.time.Seconds(), "run-msgs/s")
				b.ReportMetric(bare.time.Seconds()/run.time.Seconds(), "run/bare")
				b.ReportMetric(bare.time.Seconds()/typed.time.Seconds(), "typed/bare")
				if bare.cpu > 0 {
					b.ReportMetric(bare.cpu.Seconds()/run.cpu.Seconds(), "run/bare-cpu")
					b.ReportMetric(bare.cpu.Seconds()/typed.cpu.Seconds(), "typed/bare-cpu")
				}
				b.ReportMetric(float64(bare.allocs)/total, "bare-allocs/msg")
				b.ReportMetric(float64(run.allocs)/total, "run-allocs/msg")
				b.ReportMetric(float64(typed.allocs)/total, "typed-allocs/msg")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// fill sends n events of about the size, of 64 keys, and keeps them for subscriptions that begin later.
func fill(tb testing.TB, s server, topic string, preset pulsarx.Preset, size, n int) {
	tb.Helper()
	keep, err := bareClient(tb, s).Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "keep", Type: pulsar.KeyShared})
	if err != nil {
		tb.Fatal(err)
	}
	keep.Close()
	p := producer(tb, s.client(tb), pulsarx.Avro[event](), pulsarx.ProducerOptions[event]{
		Topic: topic, Key: func(e event) string { return strconv.FormatInt(e.ID%64, 10) }, Batching: pulsarx.Batching{Preset: preset},
	})
	text := strings.Repeat("x", size)
	var failed atomic.Int64
	for i := range n {
		p.SendAsync(tb.Context(), event{int64(i), text}, func(_ pulsarx.MessageID, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := p.Flush(timeout(tb, 2*time.Minute)); err != nil || failed.Load() > 0 {
		tb.Fatal(err, failed.Load())
	}
}

// TestRunAllocations: a message costs no more than two allocations beside the client's own.
func TestRunAllocations(t *testing.T) {
	if raceDetector { // which allocates too
		return
	}
	s := realPulsar(t)
	c, client, name := s.client(t), bareClient(t, s), topic(t)
	const n = 20_000
	fill(t, s, name, pulsarx.Balanced, 100, n)
	bare := consumeBare(t, client, name, "bare", n)
	for kind, p := range map[string]pass{
		"bytes": consumeRun(t, c, pulsarx.Bytes(), name, "bytes", n),
		"typed": consumeRun(t, c, pulsarx.Avro[event](), name, "typed", n),
	} {
		own := (float64(p.allocs) - float64(bare.allocs)) / n
		t.Logf("%s: %.2f of our own, %.2f of the client's", kind, own, float64(bare.allocs)/n)
		if own > 2 {
			t.Errorf("%s: %.2f allocations a message of our own", kind, own)
		}
	}
}
