package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// locks are a client that encrypts with the key k, and one that has it to decrypt with from unlock on.
type locks struct {
	writing, reading *pulsarx.Client
	unlock           func()
}

func locked(t *testing.T, s server) locks {
	t.Helper()
	full, empty := t.TempDir(), t.TempDir()
	keyPair(t, full, "k", false)
	with := func(e pulsarx.Encryption) *pulsarx.Client {
		c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, AdminURL: s.admin, Encryption: e})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(timeout(t, 60*time.Second)) })
		return c
	}
	return locks{with(pulsarx.KeyFiles(full)), with(pulsarx.KeyFiles(empty)), func() {
		if err := os.Rename(filepath.Join(full, "k.private.pem"), filepath.Join(empty, "k.private.pem")); err != nil {
			t.Fatal(err)
		}
	}}
}

func (l locks) producer(t *testing.T, topic string) *pulsarx.Producer[string] {
	t.Helper()
	return producer(t, l.writing, pulsarx.String(), pulsarx.ProducerOptions[string]{
		Topic: topic, Key: keyOf, EncryptionKeys: []string{"k"}, Batching: pulsarx.Batching{AcrossKeys: true, MaxDelay: time.Second},
	})
}

// TestLocked: messages that cannot be decrypted wait, and hold up no others, however many the broker sends of them; they come when their
// key does.
func TestLocked(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			typ := pulsarx.KeyShared
			if s.broker != nil { // each round takes seconds: one type each
				typ = pulsarx.Exclusive
			}
			lockedRun(t, s, typ)
		})
	}
}

func lockedRun(t *testing.T, s server, typ pulsarx.SubscriptionType) {
	t.Helper()
	l, topic := locked(t, s), topic(t)
	var seen record
	run(t, l.reading, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "s", Type: typ, ReceiverQueue: 20, MaxInFlight: 50,
	}, pulsarx.Values(func(_ context.Context, values []string) error {
		for _, v := range values {
			seen.add(v)
		}
		return nil
	}))
	secret, plain := l.producer(t, topic), producer(t, l.writing, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf})
	values := func(kind string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s%d:%d", kind, i%5, i))
		}
		return all
	}
	sendAll(t, secret, values("secret", 30)) // more than the queue has places, in one batch
	for i := range 30 {
		send(t, secret, fmt.Sprintf("one%d:%d", i%5, i))
	}
	for i := range 3 {
		send(t, plain, values("plain", 50)...)
		eventually(t, "the messages that are not encrypted", func() bool { return seen.len() >= 50*(i+1) })
		time.Sleep(lockedRound)
	}
	if i := slices.IndexFunc(seen.all(), func(v string) bool { return !strings.HasPrefix(v, "plain") }); i >= 0 {
		t.Errorf("%s came", seen.all()[i])
	}
	l.unlock()
	eventually(t, "the messages that were encrypted", func() bool { return len(sorted(seen.all())) == 50+30+30 })
}

// lockedRound is how long a test waits for the broker to be asked again.
const lockedRound = 500 * time.Millisecond

// TestLockedStateful: what cannot be decrypted is not passed over: the partition waits for its key.
func TestLockedStateful(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			l, topic := locked(t, s), topic(t)
			out := deduplicating(t, l.writing) + "out"
			secret, plain := l.producer(t, topic), producer(t, l.writing, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf})
			values := []string{"a:0", "a:1", "b:2", "b:3", "a:4", "b:5"}
			send(t, plain, values[0], values[1])
			sendAll(t, secret, values[2:4])
			send(t, plain, values[4:]...)
			store, err := pulsarx.NewDirStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var late atomic.Bool
			factory := func(p pulsarx.Partition) (pulsarx.Processor[string, string], error) {
				return &counts{seen: map[string]int{}, fail: func(v string) error {
					if v > "a:1" && !late.Load() {
						return errors.New("too early")
					}
					return nil
				}}, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- stateful(ctx, l.reading, topic, out, store, factory) }()
			equalOutputs(t, l.writing, out, clean(values[:2]))
			time.Sleep(lockedRound)
			late.Store(true)
			l.unlock()
			equalOutputs(t, l.writing, out, clean(values))
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLockedErrors: a replay, and a move of dead letters, say that there is no key, and which.
func TestLockedErrors(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			l, topic := locked(t, s), topic(t)
			sendAll(t, l.producer(t, topic), []string{"a:0", "a:1", "a:2"})
			handle := pulsarx.Values(func(_ context.Context, values []string) error { return fmt.Errorf("got %q", values) })
			bare := s.client(t)
			for name, c := range map[string]*pulsarx.Client{"other keys": l.reading, "no keys": bare} {
				for _, from := range []pulsarx.Position{{}, pulsarx.At(time.Now().Add(-time.Hour))} {
					err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, From: from}, handle)
					lockedError(t, name+" "+from.String(), err)
				}
				_, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{
					Topic: topic, Subscription: "redrive", Order: pulsarx.RedriveForced, Target: topic + "-2",
				})
				lockedError(t, name+" Redrive", err)
			}
			// What is not asked for needs no key.
			err := pulsarx.Replay(t.Context(), bare, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, To: pulsarx.At(time.Now().Add(-time.Hour))}, handle)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func lockedError(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, pulsarx.ErrDecryption) || !strings.Contains(err.Error(), `key "k": `) {
		t.Errorf("%s: %v", what, err)
	}
}
