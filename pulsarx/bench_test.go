package pulsarx_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
)

type event struct {
	ID   int64  `avro:"id"`
	Text string `avro:"text"`
}

func newEvent(i int) event { return event{int64(i), strings.Repeat("x", 100)} }

// benchServer is the real Pulsar where there is one.
func benchServer(b *testing.B) server {
	b.Helper()
	if url := os.Getenv("PULSAR_URL"); url != "" {
		return server{url: url}
	}
	return inProcess(b)
}

// BenchmarkConsume compares Run with the bare client's receive-and-ack loop, both decoding.
func BenchmarkConsume(b *testing.B) {
	s := benchServer(b)
	fill := func(b *testing.B) string {
		b.Helper()
		name := topic(b)
		p := producer(b, s.client(b), pulsarx.Avro[event](), pulsarx.ProducerOptions[event]{
			Topic: name, Key: func(e event) string { return strconv.FormatInt(e.ID%64, 10) },
		})
		client := bareClient(b, s)
		keep, err := client.Subscribe(pulsar.ConsumerOptions{Topic: name, SubscriptionName: "s", Type: pulsar.KeyShared})
		if err != nil {
			b.Fatal(err)
		}
		keep.Close()
		for i := range b.N {
			p.SendAsync(b.Context(), newEvent(i), nil)
		}
		if err := p.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		return name
	}
	b.Run("pulsarx", func(b *testing.B) {
		name, c := fill(b), s.client(b)
		var n atomic.Int64
		done, stop := make(chan struct{}), sync.Once{}
		b.ReportAllocs()
		b.ResetTimer()
		r := run(b, c, pulsarx.Avro[event](), pulsarx.ConsumerOptions{Topics: []string{name}, Subscription: "s"},
			func(_ context.Context, batch []pulsarx.Message[event]) error {
				if n.Add(int64(len(batch))) >= int64(b.N) {
					stop.Do(func() { close(done) })
				}
				return nil
			})
		<-done
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		r.stop()
	})
	b.Run("bare", func(b *testing.B) {
		name, client := fill(b), bareClient(b, s)
		codec := pulsarx.Avro[event]()
		b.ReportAllocs()
		b.ResetTimer()
		consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: name, SubscriptionName: "s", Type: pulsar.KeyShared})
		if err != nil {
			b.Fatal(err)
		}
		for range b.N {
			m, err := consumer.Receive(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := codec.Decode(pulsarx.Raw{Value: m.Payload()}); err != nil {
				b.Fatal(err)
			}
			if err := consumer.Ack(m); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		consumer.Close()
	})
}

// BenchmarkDecode compares decoding with the reader's own schema, and with one that it is resolved against.
func BenchmarkDecode(b *testing.B) {
	codec := pulsarx.Avro[productNext]()
	own, err := codec.Encode(nil, productNext{ID: "k1", Name: strings.Repeat("n", 100), Age: 3})
	if err != nil {
		b.Fatal(err)
	}
	older, err := pulsarx.Avro[productV1]().Encode(nil, productV1{"k1", strings.Repeat("n", 100)})
	if err != nil {
		b.Fatal(err)
	}
	schema, _ := pulsarx.Avro[productV1]().Schema()
	for name, raw := range map[string]pulsarx.Raw{
		"own":      {Value: own},
		"resolved": {Value: older, SchemaType: "AVRO", Schema: schema.Definition},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
