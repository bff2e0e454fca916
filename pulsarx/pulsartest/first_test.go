package pulsartest_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func TestFirst(t *testing.T) {
	b, err := pulsartest.NewBroker(pulsartest.Options{Partitions: map[string]int{"orders": 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := logrus.New()
	l.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: b.URL(), Logger: log.NewLoggerWithLogrus(l)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, typ := range []pulsar.SubscriptionType{pulsar.Exclusive, pulsar.Shared, pulsar.Failover, pulsar.KeyShared} {
		for _, topic := range []string{"orders", "plain"} {
			sub := fmt.Sprint("s", typ)
			c, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: sub, Type: typ})
			if err != nil {
				t.Fatal(err)
			}
			p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, CompressionType: pulsar.ZSTD, Schema: pulsar.NewStringSchema(nil)})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				p.SendAsync(ctx, &pulsar.ProducerMessage{Key: fmt.Sprint(i % 10), Value: fmt.Sprint(i)}, func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
			}
			if err := p.Flush(); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				m, err := c.Receive(ctx)
				if err != nil {
					t.Fatal(typ, topic, err)
				}
				c.Ack(m)
			}
			for b.Backlog(topic, sub) > 0 {
				time.Sleep(time.Millisecond)
			}
			p.Close()
			c.Close()
		}
	}
	if n := len(b.Messages("orders")); n != 400 {
		t.Fatal(n)
	}
}
