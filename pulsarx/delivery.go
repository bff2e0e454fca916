package pulsarx

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/trace"
)

// delivery is one message on its way. It is used again where nobody has it any more. Fetching one from another processor's cache costs
// more than all that is done with it: what changes with every message stands together, and the rest is not touched.
type delivery struct {
	message  pulsar.ProducerMessage // comes first, so that its address is the delivery's
	callback func(MessageID, error)
	line     *line
	number   uint64
	start    time.Duration // on the clock; that of the next sweep where nothing measures it, and 0 until then
	call     atomic.Int32  // of the client
	slot     int32         // among what is pending
	open     bool          // it has no outcome yet; the producer's mutex is held
	measured bool
	special  bool  // more of it is set than its payload, key, event time and callback
	places   int32 // of the line, that its chunks take

	room     []byte // empty, for the payload; never nil, as an empty payload is not
	block    *block
	producer *pulsar.Producer // of the line, that has the message
	span     trace.Span
	sync     *syncSend
}

// block are deliveries that stand beside each other in memory, and are used, and used again, in that order: the processor has fetched the
// next one by the time that it is needed, as it has what is allocated.
type block struct {
	deliveries [25]delivery
	free       int // of them
}

// syncSend is a Send, which waits by itself.
type syncSend struct {
	fail     context.CancelCauseFunc
	answered chan struct{} // closed with its outcome, unless fail is called
	outcome  answer
}

// waited is how long a delivery has been on its way at least.
func (d *delivery) waited(now time.Duration) time.Duration {
	if d.start == 0 { // no sweep has seen it
		return 0
	}
	return now - d.start
}

// deliveryOf is the delivery of a message that the client has.
func deliveryOf(m *pulsar.ProducerMessage) *delivery { return (*delivery)(unsafe.Pointer(m)) }

// maxRoom bounds the room that a delivery has for a payload.
const maxRoom = 1 << 10

// loneDelivery is for what is sent alone or waited for, which is not used again, and which its neighbours in a block would keep.
func loneDelivery() *delivery { return &delivery{room: []byte{}} }

// newDelivery returns one that is free, with room for a payload as they have been.
func (p *Producer[T]) newDelivery() *delivery {
	if p.main.alone {
		return loneDelivery()
	}
	p.mu.Lock()
	if len(p.unused) == 0 {
		p.free(new(block))
	}
	n := len(p.unused) - 1
	d := p.unused[n]
	p.unused[n], p.unused = nil, p.unused[:n]
	p.mu.Unlock()
	if n := p.largest.Load(); d.room == nil || int64(cap(d.room)) < n {
		d.room = make([]byte, 0, n)
	}
	return d
}

// free gives all deliveries of a block to messages. The producer's mutex is held.
func (p *Producer[T]) free(b *block) {
	b.free = 0
	for i := range b.deliveries {
		d := &b.deliveries[len(b.deliveries)-1-i]
		d.block = b
		p.unused = append(p.unused, d)
	}
}

// reusable tells whether nobody has a delivery any more: its receipt has come and its sender has seen the client take it. Of what is sent
// alone, the client has chunks.
func (a *answer) reusable() bool {
	return a.err == nil && a.call.Load() == taken && a.block != nil && !a.line.alone
}

// reuse keeps a delivery for another message. The producer's mutex is held.
func (p *Producer[T]) reuse(d *delivery) {
	b := d.block
	if d.special {
		*d = delivery{room: d.room}
	} else {
		d.message.Payload, d.message.Key, d.callback = nil, "", nil
		d.call.Store(waiting)
	}
	if b.free++; b.free == len(b.deliveries) && len(p.unused) < maxSpare {
		p.free(b)
	}
}

// clock is the time since the process began, which is cheaper to ask for than the time of day and never goes back.
func clock() time.Duration { return time.Since(began) }

var began = time.Now()

// The states of a call.
const (
	waiting int32 = iota // for the next
	calling
	foundFull   // the client had no place, and has not taken the message
	foundClosed // the client has closed its producer
	taken       // the client has the message
)
