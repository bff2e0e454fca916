package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestRestart: the broker goes away with messages in flight; nothing is lost, no key is out of order, and what was still held is
// not handled twice.
func TestRestart(t *testing.T) {
	s := partitioned(t, map[string]int{"persistent://public/default/restart": 3})
	c := s.client(t)
	const topic = "persistent://public/default/restart"
	p := keyed(t, c, topic)
	var values []string
	for i := range 600 {
		values = append(values, fmt.Sprintf("k%d:%d", i%17, i))
	}
	sendAll(t, p, values)
	var mu sync.Mutex
	done := map[string][]string{}
	count := 0
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "s", Backoff: quick(), MaxBatch: 5, Workers: 4,
	}, func(_ context.Context, batch []pulsarx.Message[string]) error {
		time.Sleep(2 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		for _, m := range batch {
			done[m.Key] = append(done[m.Key], m.Value)
			count++
		}
		return nil
	})
	handled := func() int { mu.Lock(); defer mu.Unlock(); return count }
	for _, at := range []int{100, 300} {
		eventually(t, "some messages", func() bool { return handled() >= at })
		if err := s.broker.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "an empty backlog", func() bool { return s.broker.Backlog(topic, "s") == 0 })
	r.stop()
	mu.Lock()
	defer mu.Unlock()
	if count != 600 {
		t.Errorf("%d messages handled, of 600", count)
	}
	for key, got := range done {
		var want []string
		for _, v := range values {
			if keyOf(v) == key {
				want = append(want, v)
			}
		}
		if !inOrder(got, want) {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestLostConsumer(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(),
		pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- consumer.Run(t.Context(), func(context.Context, []pulsarx.Message[string]) error { return nil })
	}()
	// Before its first acknowledgement, a consumer of the client that is given up has a data race with its own making.
	send(t, keyed(t, c, topic), "a:1")
	eventually(t, "an empty backlog", func() bool { return s.broker.Backlog(topic, "s") == 0 })
	defer s.broker.Inject(pulsartest.Fault{Command: "SUBSCRIBE", Topic: topic, Error: "TopicNotFound"})()
	if err := s.broker.Restart(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), topic) {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(60 * time.Second):
		t.Error("Run goes on with a consumer that is closed")
	}
}

// TestAckLost: the connection breaks at an acknowledgement.
func TestAckLost(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	defer s.broker.Inject(pulsartest.Fault{Command: "ACK", Topic: topic, Count: 2, Disconnect: true})()
	p := keyed(t, c, topic)
	var seen record
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			for _, m := range batch {
				seen.add(m.Value)
			}
			return nil
		})
	for i := range 20 {
		send(t, p, fmt.Sprintf("a:%d", i))
	}
	eventually(t, "an empty backlog", func() bool { return s.broker.Backlog(topic, "s") == 0 })
	r.stop()
	if n := seen.len(); n != 20 {
		t.Errorf("%d messages handled, of 20: %v", n, seen.all())
	}
}

// TestMovingTopic: a topic that the broker refuses a few times, as while it moves to another one, opens all the same. What is refused for
// good fails at once, and what is refused for long fails too; both say why.
func TestMovingTopic(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	quick, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: quickOptions()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { quick.Close(timeout(t, 60*time.Second)) })
	namespace := deduplicating(t, s.client(t))
	store, err := pulsarx.NewDirStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		open     func(c *pulsarx.Client, topic string) error
		commands string
	}{
		"Replay": {func(c *pulsarx.Client, topic string) error {
			return pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}},
				func(context.Context, []pulsarx.Message[string]) error { return nil })
		}, "PARTITIONED_METADATA LOOKUP SUBSCRIBE GET_LAST_MESSAGE_ID"},
		"Redrive": {func(c *pulsarx.Client, topic string) error {
			_, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: topic, Order: pulsarx.RedriveForced})
			return err
		}, "PARTITIONED_METADATA LOOKUP SUBSCRIBE GET_LAST_MESSAGE_ID"},
		"NewConsumer": {func(c *pulsarx.Client, topic string) error {
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
			if err == nil {
				err = consumer.Close(t.Context())
			}
			return err
		}, "PARTITIONED_METADATA LOOKUP SUBSCRIBE"},
		"RunStateful": {func(c *pulsarx.Client, topic string) error {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			return stateful(ctx, c, topic, namespace+"out", store, func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
				return &counts{seen: map[string]int{}, fail: func(string) error { stop(); return nil }}, nil
			})
		}, "PARTITIONED_METADATA LOOKUP SUBSCRIBE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.client(t) // a refusal breaks the connections of its client
			for command := range strings.FieldsSeq(test.commands) {
				topic := namespace + name + command
				p := keyed(t, c, topic)
				send(t, p, "k:1")
				if err := p.Close(timeout(t, 60*time.Second)); err != nil { // it would ask for the topic too
					t.Fatal(err)
				}
				s.broker.Inject(pulsartest.Fault{Command: command, Topic: topic, Count: 2, Error: "ServiceNotReady"})
				if err := test.open(c, topic); err != nil {
					t.Errorf("%s refused twice: %v", command, err)
				}
				remove := s.broker.Inject(pulsartest.Fault{Command: command, Topic: topic, Error: "ServiceNotReady"})
				if err := test.open(quick, topic); err == nil || !strings.Contains(err.Error(), topic) {
					t.Errorf("%s refused: %v", command, err)
				}
				remove()
				if command != "LOOKUP" && command != "SUBSCRIBE" { // the client repeats the others itself
					continue
				}
				defer s.broker.Inject(pulsartest.Fault{Command: command, Topic: topic, Error: "AuthorizationError"})()
				if err := test.open(c, topic); err == nil || !strings.Contains(err.Error(), topic) || !strings.Contains(err.Error(), "AuthorizationError") {
					t.Errorf("%s refused for good: %v", command, err)
				}
				hits := slices.DeleteFunc(s.broker.Hits(), func(h pulsartest.Hit) bool { return h.Topic != topic || h.Fault.Error != "AuthorizationError" })
				if len(hits) != 1 {
					t.Errorf("%s has been sent %d times", command, len(hits))
				}
			}
		})
	}
}

// TestClosedClient: what runs when its client is closed ends, and says so.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	namespace := deduplicating(t, s.client(t))
	topic := namespace + "t"
	sendAll(t, keyed(t, s.client(t), topic), numbers(0, 50))
	store, err := pulsarx.NewDirStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, work := range map[string]func(c *pulsarx.Client, working func()) error{
		"Run": func(c *pulsarx.Client, working func()) error {
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"})
			if err != nil {
				return err
			}
			return consumer.Run(t.Context(), func(context.Context, []pulsarx.Message[string]) error { working(); return nil })
		},
		"Run of a pattern without topics": func(c *pulsarx.Client, working func()) error {
			consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{TopicPattern: "none-.*", Subscription: "s"})
			if err != nil {
				return err
			}
			working()
			return consumer.Run(t.Context(), func(context.Context, []pulsarx.Message[string]) error { return nil })
		},
		"Replay": func(c *pulsarx.Client, working func()) error {
			return pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 1},
				func(context.Context, []pulsarx.Message[string]) error { working(); return nil })
		},
		"RunStateful": func(c *pulsarx.Client, working func()) error {
			return stateful(t.Context(), c, topic, namespace+"out", store, func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
				return &counts{seen: map[string]int{}, fail: func(string) error { working(); return nil }}, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url})
			if err != nil {
				t.Fatal(err)
			}
			closeClient := sync.OnceFunc(func() {
				if err := c.Close(timeout(t, 60*time.Second)); err != nil {
					t.Error(err)
				}
			})
			if err := work(c, closeClient); !errors.Is(err, pulsarx.ErrClosed) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestClosedWhileAsking: what waits for a schema ends with the client too.
func TestClosedWhileAsking(t *testing.T) {
	t.Parallel()
	s, topic := inProcess(t), topic(t)
	p := producer(t, s.client(t), pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
	if _, err := p.Send(t.Context(), productV1{"k1", "bob"}); err != nil {
		t.Fatal(err)
	}
	s.broker.Inject(pulsartest.Fault{Command: "GET_SCHEMA", Error: "ServiceNotReady"})
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() {
		done <- pulsarx.Replay(t.Context(), c, pulsarx.Avro[productV1](), pulsarx.ReplayOptions{Topics: []string{topic}},
			func(context.Context, []pulsarx.Message[productV1]) error { return nil })
	}()
	go func() {
		_, err := pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: topic, Target: topic + "-target", Order: pulsarx.RedriveForced})
		done <- err
	}()
	eventually(t, "a look-up", func() bool { return len(s.broker.Hits()) > 0 })
	if err := c.Close(timeout(t, 60*time.Second)); err != nil {
		t.Error(err)
	}
	for range cap(done) {
		if err := <-done; !errors.Is(err, pulsarx.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestConsumerUnused: a consumer that did not run can be closed any number of times, and does not run without a handler or a decoder.
func TestConsumerUnused(t *testing.T) {
	c := inProcess(t).client(t)
	o := pulsarx.ConsumerOptions{Topics: []string{topic(t)}, Subscription: "s"}
	consumer, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, []pulsarx.Message[string]) error { return nil }
	ctx := timeout(t, 60*time.Second)
	for closed, h := range []pulsarx.Handler[string]{nil, nothing} {
		if err := consumer.Run(ctx, h); err == nil || errors.Is(err, pulsarx.ErrClosed) != (closed == 1) {
			t.Errorf("closed %d times: %v", closed, err)
		}
		for range 2 {
			if err := consumer.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	for _, d := range []pulsarx.Decoder[string]{nil, pulsarx.DecodeFunc[string](nil)} {
		if _, err := pulsarx.NewConsumer(ctx, c, d, o); err == nil {
			t.Error("a consumer without a decoder")
		}
		if err := pulsarx.Replay(ctx, c, d, pulsarx.ReplayOptions{Topics: o.Topics}, nothing); err == nil {
			t.Error("a replay without a decoder")
		}
	}
	if err := pulsarx.Replay(ctx, c, pulsarx.String(), pulsarx.ReplayOptions{Topics: o.Topics}, nil); err == nil {
		t.Error("a replay without a handler")
	}
}
