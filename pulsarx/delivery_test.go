package pulsarx

import (
	"errors"
	"testing"
	"time"
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
