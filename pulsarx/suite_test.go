package pulsarx_test

import (
	"context"
	"fmt"
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

// onBoth runs the test on the in-process broker, and on the real Pulsar where PULSAR_URL is set.
func onBoth(t *testing.T, test func(t *testing.T, s server)) {
	t.Helper()
	t.Run("pulsartest", func(t *testing.T) {
		test(t, inProcess(t, nil))
	})
	t.Run("pulsar", func(t *testing.T) {
		test(t, server{url: servicetest.Env(t, "PULSAR_URL"), admin: servicetest.Env(t, "PULSAR_ADMIN_URL")})
	})
}

func inProcess(t testing.TB, partitions map[string]int) server {
	t.Helper()
	broker, err := pulsartest.NewBroker(pulsartest.Options{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	return server{broker.URL(), broker.AdminURL(), broker}
}

func (s server) client(t testing.TB) *pulsarx.Client {
	t.Helper()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, AdminURL: s.admin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(timeout(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	})
	return c
}

// topic returns a name of the test's own.
func topic(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '#' || r == ' ' {
			return '-'
		}
		return r
	}, t.Name())
	return fmt.Sprintf("persistent://public/default/%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
}

// timeout is a context for cleaning up: it does not end with the test's.
func timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func producer[T any](t testing.TB, c *pulsarx.Client, codec pulsarx.Codec[T], o pulsarx.ProducerOptions[T]) *pulsarx.Producer[T] {
	t.Helper()
	p, err := pulsarx.NewProducer(t.Context(), c, codec, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(timeout(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// running is a consumer at work.
type running struct {
	stop func() // and wait
}

func run[T any](t testing.TB, c *pulsarx.Client, d pulsarx.Decoder[T], o pulsarx.ConsumerOptions, h pulsarx.Handler[T]) running {
	t.Helper()
	consumer, err := pulsarx.NewConsumer(t.Context(), c, d, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx, h) }()
	r := running{stop: sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(60 * time.Second):
			t.Error("Run did not return")
		}
	})}
	t.Cleanup(r.stop)
	return r
}

// letters reads the dead-letter topic until it has n, and a moment longer.
func letters(t testing.TB, s server, topic string, n int) []pulsar.Message {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: s.url, Logger: nopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reader, err := client.CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var all []pulsar.Message
	for {
		wait := 20 * time.Second
		if len(all) >= n {
			wait = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		m, err := reader.Next(ctx)
		cancel()
		if err != nil {
			break
		}
		all = append(all, m)
	}
	if len(all) != n {
		t.Errorf("%d dead letters, want %d", len(all), n)
	}
	return all
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
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

func (r *record) len() int { return len(r.all()) }

func quickOptions() pulsar.ClientOptions {
	return pulsar.ClientOptions{OperationTimeout: 300 * time.Millisecond}
}
