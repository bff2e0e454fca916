package pulsarx_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
)

var benchPresets = []struct {
	name   string
	preset pulsarx.Preset
	// bare are the preset's numbers, as a user of the bare client writes them.
	bare pulsar.ProducerOptions
}{
	{"LowLatency", pulsarx.LowLatency, pulsar.ProducerOptions{BatchingMaxPublishDelay: 5 * time.Millisecond, BatchingMaxMessages: 500}},
	{"Balanced", pulsarx.Balanced, pulsar.ProducerOptions{
		BatchingMaxPublishDelay: 10 * time.Millisecond, BatchingMaxMessages: 1000, CompressionType: pulsar.LZ4,
	}},
	{"Throughput", pulsarx.Throughput, pulsar.ProducerOptions{
		BatchingMaxPublishDelay: 20 * time.Millisecond, BatchingMaxMessages: 2000, CompressionType: pulsar.LZ4,
	}},
	{"LowBandwidth", pulsarx.LowBandwidth, pulsar.ProducerOptions{
		BatchingMaxPublishDelay: 20 * time.Millisecond, BatchingMaxMessages: 2000, CompressionType: pulsar.ZSTD,
	}},
}

const benchKeys = 64

// benchEvent has about size bytes, of which no two events have the same.
func benchEvent(i, size int) event {
	var text strings.Builder
	for n := i; text.Len() < size-10; n++ {
		fmt.Fprintf(&text, `{"page":"/products/%d","ms":%d},`, n*7919%10_000, n*104_729%1_000)
	}
	return event{int64(i), text.String()[:size-10]}
}

func eventKey(e event) string { return strconv.FormatInt(e.ID%benchKeys, 10) }

// produceMessages are the messages of a round, 4000 by default.
func produceMessages(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("PRODUCE_MESSAGES"), "4000"))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkProduce compares typed Avro through pulsarx with the bare client that sends bytes made before, batched by key as well, on the
// same broker. They take turns, and turns at being the first: each finds what the other has left on the heap. ratio is the median of the
// rounds' ratios of messages a second, ratio-q1 and ratio-q3 are the quartiles, and cpu-ratio is of messages a second of processor time.
//
// On 2 cores beside a Pulsar 4.0.8, cpu-ratio of LowLatency/100B was 0.94 to 0.98 in four runs. A profile of 1.2 million of its messages, of
// 3.9 µs each, had 262 ns of this package's own: 57 to encode, 49 to look for the caller's span, 66 for the rest of SendAsync, 41 to take
// the client's answer, 49 to deliver the outcome. The client also looks up the schema for each; the bare one, which has none, allocates
// each message anew.
func BenchmarkProduce(b *testing.B) {
	n := produceMessages(b)
	for _, size := range []int{100, 1024} {
		events, payloads := make([]event, 1000), make([][]byte, 1000)
		codec := pulsarx.Avro[event]()
		for i := range events {
			var err error
			events[i] = benchEvent(i, size)
			if payloads[i], err = codec.Encode(nil, events[i]); err != nil {
				b.Fatal(err)
			}
		}
		for _, preset := range benchPresets {
			b.Run(fmt.Sprintf("%s/%dB", preset.name, size), func(b *testing.B) {
				s := benchServer(b)
				typed := producer(b, s.client(b), codec, pulsarx.ProducerOptions[event]{
					Topic: topic(b), Key: eventKey, Batching: pulsarx.Batching{Preset: preset.preset},
				})
				o := preset.bare
				o.Topic, o.SendTimeout = topic(b), -1
				o.HashingScheme, o.BatcherBuilderType = pulsar.Murmur3_32Hash, pulsar.KeyBasedBatchBuilder
				bare, err := bareClient(b, s).CreateProducer(o)
				if err != nil {
					b.Fatal(err)
				}
				defer bare.Close()
				var failed atomic.Int64
				ours := func() {
					for i := range n {
						typed.SendAsync(b.Context(), events[i%len(events)], func(_ pulsarx.MessageID, err error) {
							if err != nil {
								failed.Add(1)
							}
						})
					}
					if err := typed.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				theirs := func() {
					for i := range n {
						bare.SendAsync(b.Context(), &pulsar.ProducerMessage{Payload: payloads[i%len(payloads)], Key: eventKey(events[i%len(events)])},
							func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
								if err != nil {
									failed.Add(1)
								}
							})
					}
					if err := bare.FlushWithCtx(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				ours() // warm
				theirs()
				var typedRate, bareRate, ratio, cpuRatio []float64
				rate := func(f func()) (perSecond, perCPUSecond float64) {
					start, cpu := time.Now(), cpuTime()
					f()
					return float64(n) / time.Since(start).Seconds(), float64(n) / (cpuTime() - cpu).Seconds()
				}
				for b.Loop() {
					for range 6 {
						var x, xCPU, y, yCPU float64
						if len(ratio)%2 == 0 {
							x, xCPU = rate(ours)
							y, yCPU = rate(theirs)
						} else {
							y, yCPU = rate(theirs)
							x, xCPU = rate(ours)
						}
						typedRate, bareRate = append(typedRate, x), append(bareRate, y)
						ratio, cpuRatio = append(ratio, x/y), append(cpuRatio, xCPU/yCPU)
					}
				}
				if failed.Load() > 0 {
					b.Fatalf("%d messages failed", failed.Load())
				}
				b.ReportMetric(median(typedRate), "pulsarx-msgs/s")
				b.ReportMetric(median(bareRate), "bare-msgs/s")
				b.ReportMetric(median(ratio), "ratio")
				b.ReportMetric(ratio[len(ratio)/4], "ratio-q1") // median has sorted them
				b.ReportMetric(ratio[len(ratio)*3/4], "ratio-q3")
				b.ReportMetric(median(cpuRatio), "cpu-ratio")
			})
		}
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkPresets sends the same events with each preset: as many as it can, for the bytes on the wire and the messages a second, and
// 2000 a second, for the time from SendAsync to the receipt.
func BenchmarkPresets(b *testing.B) {
	n := produceMessages(b)
	for _, preset := range benchPresets {
		b.Run(preset.name, func(b *testing.B) {
			g := newGate(b, benchServer(b).url, nil, nil)
			p := producer(b, server{url: g.url()}.client(b), pulsarx.Avro[event](), pulsarx.ProducerOptions[event]{
				Topic: topic(b), Key: eventKey, Batching: pulsarx.Batching{Preset: preset.preset},
			})
			send := func(i int, took *time.Duration) {
				start := time.Now()
				p.SendAsync(b.Context(), benchEvent(i, 300), func(_ pulsarx.MessageID, err error) {
					*took = time.Since(start)
					if err != nil {
						b.Error(err)
					}
				})
			}
			flush := func() {
				if err := p.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			latencies := make([]time.Duration, 2000)
			send(0, &latencies[0])
			flush()
			before, start := g.upstream.Load(), time.Now()
			sent := 0
			for b.Loop() {
				for i := range n {
					send(i, &latencies[0])
				}
				flush()
				sent += n
			}
			elapsed, bytes := time.Since(start), g.upstream.Load()-before
			pace := time.NewTicker(time.Second / 1000)
			defer pace.Stop()
			for i := 0; i < len(latencies); i += 2 {
				<-pace.C
				send(i, &latencies[i])
				send(i+1, &latencies[i+1])
			}
			flush()
			slices.Sort(latencies)
			b.ReportMetric(float64(bytes)/float64(sent), "wire-B/msg")
			b.ReportMetric(float64(sent)/elapsed.Seconds(), "msgs/s")
			b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// BenchmarkManyKeys sends messages of which no two have the same key, as the changes of a large table, with each way of batching:
// pulsar-client-go makes a batch, and a compressor, for every key.
func BenchmarkManyKeys(b *testing.B) {
	n := produceMessages(b)
	for _, way := range []struct {
		name     string
		batching pulsarx.Batching
	}{
		{"by key, LZ4", pulsarx.Batching{}},
		{"by key, ZSTD", pulsarx.Batching{Preset: pulsarx.LowBandwidth}},
		{"by key, not compressed", pulsarx.Batching{Compression: pulsarx.NoCompression}},
		{"one by one, LZ4", pulsarx.Batching{MaxMessages: -1}},
		{"across keys, LZ4", pulsarx.Batching{AcrossKeys: true}},
	} {
		b.Run(way.name, func(b *testing.B) {
			g := newGate(b, benchServer(b).url, nil, nil)
			p := producer(b, server{url: g.url()}.client(b), pulsarx.Avro[event](), pulsarx.ProducerOptions[event]{
				Topic: topic(b), Batching: way.batching, Key: func(e event) string { return strconv.FormatInt(e.ID, 10) },
			})
			sent, before, cpu := 0, g.upstream.Load(), cpuTime()
			for b.Loop() {
				for range n {
					p.SendAsync(b.Context(), benchEvent(sent, 300), func(_ pulsarx.MessageID, err error) {
						if err != nil {
							b.Error(err)
						}
					})
					sent++
				}
				if err := p.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(g.upstream.Load()-before)/float64(sent), "wire-B/msg")
			b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(sent), "cpu-ns/msg")
		})
	}
}

// BenchmarkNonPersistent compares Send to a topic that is kept with Send to one that is not.
func BenchmarkNonPersistent(b *testing.B) {
	for _, kind := range []string{"persistent", "non-persistent"} {
		b.Run(kind, func(b *testing.B) {
			s := benchServer(b)
			name := topic(b)
			if kind == "non-persistent" {
				name = "non-" + name
			}
			p := producer(b, s.client(b), pulsarx.Avro[event](), pulsarx.ProducerOptions[event]{Topic: name})
			var latencies []float64
			for b.Loop() {
				for i := range 300 {
					start := time.Now()
					if _, err := p.Send(b.Context(), benchEvent(i, 300)); err != nil {
						b.Fatal(err)
					}
					latencies = append(latencies, float64(time.Since(start).Microseconds())/1000)
				}
			}
			slices.Sort(latencies)
			b.ReportMetric(latencies[len(latencies)/2], "p50-ms")
			b.ReportMetric(latencies[len(latencies)*99/100], "p99-ms")
		})
	}
}
