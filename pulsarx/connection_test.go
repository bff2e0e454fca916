package pulsarx_test

import (
	"context"
	"fmt"
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
