package pulsarx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// TestSweep: a message that has begun since the last sweep is not overdue, however long the process runs; the sweep after counts from there.
func TestSweep(t *testing.T) {
	tel, err := newTelemetry("pulsar://localhost:6650")
	if err != nil {
		t.Fatal(err)
	}
	const timeout = time.Millisecond
	p := &Producer[string]{
		client: &Client{tel: tel}, main: &line{closed: true}, wake: make(chan struct{}, 1),
		options: ProducerOptions[string]{Topic: "t", SendTimeout: timeout},
	}
	for clock() < 2*timeout {
		time.Sleep(timeout)
	}
	d := p.newDelivery()
	if _, err := p.begin(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	p.failPending(func(d *delivery) bool { return d.waited(clock()) >= timeout }, ErrSendTimeout) // the end of a sweep that has not seen it
	if p.sweep(); len(p.settled) > 0 {
		t.Fatal("a message that has just begun is overdue")
	}
	time.Sleep(2 * timeout)
	if p.sweep(); len(p.settled) != 1 || !errors.Is(p.settled[0].err, ErrSendTimeout) {
		t.Fatalf("outcomes %v", p.settled)
	}
	if p.settle(d) {
		t.Error("a second outcome")
	}
}

// TestUsedAgain: a delivery that is used again is not yet with the client, so that it does not end with what the client has.
func TestUsedAgain(t *testing.T) {
	tel, err := newTelemetry("pulsar://localhost:6650")
	if err != nil {
		t.Fatal(err)
	}
	p := &Producer[string]{
		client: &Client{tel: tel}, main: &line{}, wake: make(chan struct{}, 1), options: ProducerOptions[string]{Topic: "t"},
	}
	send := func() *delivery {
		d := p.newDelivery()
		if _, err := p.begin(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	sent := map[*delivery]bool{}
	for range len(block{}.deliveries) {
		d := send()
		d.call.Store(taken)
		sent[d] = true
		p.leave(d, nil, nil)
	}
	answers := p.answered(nil)
	p.settleAll(answers)
	p.report(answers)
	with, again := send(), send()
	if !sent[again] || !sent[with] {
		t.Fatal("the deliveries are not used again")
	}
	with.call.Store(taken)
	p.failLine(p.main)(ErrSendTimeout)
	if len(p.settled) != 1 || p.settled[0].delivery != with || !again.open {
		t.Errorf("outcomes %+v", p.settled)
	}
}

// taking is a producer of the client's that takes messages, and says nothing.
type taking struct {
	pulsar.Producer
	taken chan string
}

func (p taking) SendAsync(_ context.Context, m *pulsar.ProducerMessage, _ func(pulsar.MessageID, *pulsar.ProducerMessage, error)) {
	p.taken <- string(m.Payload)
}

func (p taking) Send(_ context.Context, m *pulsar.ProducerMessage) (pulsar.MessageID, error) {
	p.taken <- string(m.Payload)
	return nil, nil
}

// TestOutcomeWhileWaiting: a message that gets its outcome while it waits for its turn, or for the client's producer to be made anew, waits
// no longer, and is not sent when that is there.
func TestOutcomeWhileWaiting(t *testing.T) {
	tel, err := newTelemetry("pulsar://localhost:6650")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		alone bool // the line has no batches, and another message has the turn
		send  func(*Producer[string])
	}{
		"SendAsync":        {send: func(p *Producer[string]) { p.SendAsync(t.Context(), "late", nil) }},
		"Send":             {send: func(p *Producer[string]) { _, _ = p.Send(t.Context(), "late") }},
		"alone, SendAsync": {alone: true, send: func(p *Producer[string]) { p.SendAsync(t.Context(), "late", nil) }},
		"alone, Send":      {alone: true, send: func(p *Producer[string]) { _, _ = p.Send(t.Context(), "late") }},
	} {
		for _, ready := range []bool{false, true} { // the producer is there at the same time
			made := taking{taken: make(chan string, 1)}
			var producer pulsar.Producer = made
			l := &line{alone: test.alone, closing: make(chan struct{}), replacing: make(chan struct{}), turn: make(chan struct{}, 1)}
			p := &Producer[string]{
				client: &Client{tel: tel}, codec: String(), main: l, wake: make(chan struct{}, 1),
				options: ProducerOptions[string]{Topic: "t", MaxMessageBytes: 1 << 20},
			}
			l.answer = p.answerer(l)
			if test.alone {
				l.open.Store(&producer)
				l.turn <- struct{}{}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				test.send(p)
			}()
			for pending := false; !pending; time.Sleep(time.Millisecond) {
				p.mu.Lock()
				pending = p.left > 0
				p.mu.Unlock()
			}
			p.failPending(func(*delivery) bool { return true }, ErrSendTimeout)
			switch {
			case test.alone:
				<-l.turn
			case ready:
				l.mu.Lock()
				l.open.Store(&producer)
				close(l.replacing)
				l.replacing = nil
				l.mu.Unlock()
			}
			<-done
			if len(made.taken) > 0 {
				t.Errorf("%s: a message is sent that has failed", name)
			}
		}
	}
}

// TestSteady: a steady context ends after its time, which is its cause, and with the one it is made from.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := steady(t.Context(), 5*time.Second)
		defer cancel()
		<-ctx.Done()
		if took, cause := time.Since(began), context.Cause(ctx); took != 5*time.Second || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("%v after %v", cause, took)
		}
		parent, end := context.WithCancel(t.Context())
		child, cancel := steady(parent, time.Second)
		defer cancel()
		end()
		if <-child.Done(); !errors.Is(context.Cause(child), context.Canceled) {
			t.Error(context.Cause(child))
		}
	})
}
