package pulsarx_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// server is what a test runs against: the in-process broker, or a real one.
type server struct {
	url, admin string
	broker     *pulsartest.Broker // nil for a real one
}

// servers are the in-process broker, and the real Pulsar where PULSAR_URL is set.
var servers = map[string]func(testing.TB) server{"pulsartest": inProcess, "pulsar": realPulsar}

func realPulsar(tb testing.TB) server {
	tb.Helper()
	return server{url: servicetest.Env(tb, "PULSAR_URL"), admin: servicetest.Env(tb, "PULSAR_ADMIN_URL")}
}

func inProcess(tb testing.TB) server {
	tb.Helper()
	return partitioned(tb, nil)
}

// partitioned is an in-process broker that has the partitioned topics.
func partitioned(tb testing.TB, partitions map[string]int) server {
	tb.Helper()
	broker, err := pulsartest.NewBroker(pulsartest.Options{Partitions: partitions})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { broker.Close() })
	return server{broker.URL(), broker.AdminURL(), broker}
}

func (s server) client(tb testing.TB) *pulsarx.Client {
	tb.Helper()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, AdminURL: s.admin})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(timeout(tb, 60*time.Second)); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func bareClient(tb testing.TB, s server) pulsar.Client {
	tb.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: s.url, Logger: nopLogger()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// topic returns a name of the test's own.
func topic(tb testing.TB) string {
	tb.Helper()
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '#' || r == ' ' {
			return '-'
		}
		return r
	}, tb.Name())
	return fmt.Sprintf("persistent://public/default/%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
}

// timeout is a context for cleaning up: it does not end with the test's.
func timeout(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

func producer[T any](tb testing.TB, c *pulsarx.Client, codec pulsarx.Codec[T], o pulsarx.ProducerOptions[T]) *pulsarx.Producer[T] {
	tb.Helper()
	p, err := pulsarx.NewProducer(tb.Context(), c, codec, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(timeout(tb, 60*time.Second)); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// running is a consumer at work.
type running struct {
	stop func() // and wait
}

func run[T any](tb testing.TB, c *pulsarx.Client, d pulsarx.Decoder[T], o pulsarx.ConsumerOptions, h pulsarx.Handler[T]) running {
	tb.Helper()
	consumer, err := pulsarx.NewConsumer(tb.Context(), c, d, o)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx, h) }()
	r := running{stop: sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				tb.Errorf("Run: %v", err)
			}
		case <-time.After(60 * time.Second):
			tb.Error("Run did not return")
		}
	})}
	tb.Cleanup(r.stop)
	return r
}

// letters reads the dead-letter topic, which has n.
func letters(tb testing.TB, s server, topic string, n int) []pulsar.Message {
	tb.Helper()
	all := readLetters(tb, s, topic, n)
	if len(all) != n {
		tb.Errorf("%d dead letters, want %d", len(all), n)
	}
	return all
}

// readLetters reads the dead-letter topic until it has n, and a moment longer.
func readLetters(tb testing.TB, s server, topic string, n int) (all []pulsar.Message) {
	tb.Helper()
	reader, err := bareClient(tb, s).CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		tb.Fatal(err)
	}
	defer reader.Close()
	for {
		wait := 60 * time.Second
		if len(all) >= n {
			wait = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		m, err := reader.Next(ctx)
		cancel()
		if err != nil {
			return all
		}
		all = append(all, m)
	}
}

// eventually waits until ok is true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited for %s in vain", what)
		}
	}
}

// keep makes a subscription without a consumer: of a topic that has none, Pulsar drops all ledgers but the last, every two minutes.
func keep(tb testing.TB, client pulsar.Client, topic, subscription string) {
	tb.Helper()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: subscription, Type: pulsar.KeyShared})
	if err != nil {
		tb.Fatal(err)
	}
	consumer.Close()
}

// unload makes the broker serve a topic anew. One that is busy is asked again.
func unload(tb testing.TB, c *pulsarx.Client, topic string) {
	tb.Helper()
	eventually(tb, "the topic to be unloaded", func() bool {
		err := c.Admin(tb.Context(), http.MethodPut, adminPath(topic, "/unload"), nil, nil)
		if err != nil {
			tb.Log(err)
		}
		return err == nil
	})
}

// record is what a handler has seen.
type record struct {
	mu   sync.Mutex
	seen []string
}

func (r *record) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, s)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.seen...)
}

// Write makes a record a log.
func (r *record) Write(line []byte) (int, error) {
	r.add(string(line))
	return len(line), nil
}

func (r *record) len() int { return len(r.all()) }

func quickOptions() pulsar.ClientOptions {
	return pulsar.ClientOptions{OperationTimeout: 300 * time.Millisecond}
}
