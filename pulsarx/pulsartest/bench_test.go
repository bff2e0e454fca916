package pulsartest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// BenchmarkBroker produces messages of 100 bytes in batches of 1000 and consumes them, on an in-process broker and, where
// PULSAR_URL names one, on a real Pulsar: the alternative that a test has.
func BenchmarkBroker(b *testing.B) {
	b.Run("pulsartest", func(b *testing.B) {
		broker := newBroker(b, pulsartest.Options{})
		benchmark(b, target{url: broker.URL(), adminURL: broker.AdminURL()})
	})
	b.Run("pulsar", func(b *testing.B) {
		benchmark(b, realBroker(b))
	})
}

func benchmark(b *testing.B, on target) {
	b.Helper()
	client := on.client(b)
	topic := on.topic(b, "bench")
	consumer := subscribe(b, client, pulsar.ConsumerOptions{Topic: topic, ReceiverQueueSize: 10_000})
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, BatchingMaxMessages: 1000, BatchingMaxPublishDelay: 5 * time.Millisecond, MaxPendingMessages: 10_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	payload := bytes.Repeat([]byte("x"), 100)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: payload}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					b.Error(err)
				}
			})
		}
	}()
	for range b.N {
		m := <-consumer.Chan()
		if err := consumer.Ack(m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkNewBroker starts and ends a broker, as each test does.
func BenchmarkNewBroker(b *testing.B) {
	for b.Loop() {
		broker, err := pulsartest.NewBroker(pulsartest.Options{Partitions: map[string]int{"orders": 4}})
		if err != nil {
			b.Fatal(err)
		}
		if err := broker.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
