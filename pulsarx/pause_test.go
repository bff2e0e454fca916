package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// TestPause: what is at work finishes, nothing more is handed out, the broker sends no more than was prefetched, and all goes on in
// order afterwards.
func TestPause(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			var values []string
			for i := range 300 {
				values = append(values, fmt.Sprintf("k%d:%03d", i%3, i))
			}
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", MaxBatch: 4, MaxInFlight: 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			var seen record
			var working atomic.Int64
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				done <- consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[string]) error {
					working.Add(1)
					defer working.Add(-1)
					time.Sleep(5 * time.Millisecond)
					for _, m := range batch {
						seen.add(m.Value)
					}
					return nil
				})
			}()
			sendAll(t, p, values[:150])
			eventually(t, "some", func() bool { return seen.len() > 20 })
			if err := consumer.Pause(timeout(t, 30*time.Second)); err != nil {
				t.Fatal(err)
			}
			if n := working.Load(); n != 0 {
				t.Errorf("%d handlers at work in a pause", n)
			}
			at := seen.len()
			sendAll(t, p, values[150:])
			time.Sleep(200 * time.Millisecond)
			if n := seen.len(); n != at {
				t.Errorf("%d messages handled, %d before the pause", n, at)
			}
			if err := consumer.Pause(t.Context()); err != nil { // once more
				t.Error(err)
			}
			consumer.Resume()
			consumer.Resume()
			eventually(t, "all", func() bool { return seen.len() >= len(values) })
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, key := range []string{"k0", "k1", "k2"} {
				of := func(all []string) []string {
					return slices.DeleteFunc(slices.Clone(all), func(v string) bool { return keyOf(v) != key })
				}
				if !slices.Equal(of(seen.all()), of(values)) {
					t.Errorf("%s: %v", key, of(seen.all()))
				}
			}
			if err := consumer.Pause(t.Context()); !errors.Is(err, pulsarx.ErrClosed) {
				t.Errorf("a pause after the end: %v", err)
			}
		})
	}
}

// TestPauseFirst: paused before it runs; and a pause that is waited for ends with its context, or with Run.
func TestPauseFirst(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	send(t, keyed(t, c, topic), "k:1")
	consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "s", DrainTimeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	started, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- consumer.Run(t.Context(), func(ctx context.Context, _ []pulsarx.Message[string]) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	select {
	case <-started:
		t.Error("a paused consumer handles")
	case <-time.After(100 * time.Millisecond):
	}
	consumer.Resume()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := consumer.Pause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a pause with a handler at work: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- consumer.Pause(context.Background()) }()
	if err := consumer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err != nil && !errors.Is(err, pulsarx.ErrClosed) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
