package pulsarx

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/trace"
)

// delivery is one message on its way, in a ring until it has its outcome. It is used again where nobody has it any more.
type delivery struct {
	message    pulsar.ProducerMessage // comes first, so that its address is the delivery's
	room       []byte                 // empty, for the payload
	prev, next *delivery              // in the ring
	number     uint64
	line       *line
	start      time.Duration // on the clock
	callback   func(MessageID, error)
	call       atomic.Int32 // of the client
	owner      atomic.Int32 // who gives it its one outcome

	// The outcome, written by the owner.
	id   MessageID
	err  error
	took time.Duration

	producer pulsar.Producer // of the line, that has the message
	span     trace.Span
	places   int           // of the line, that its chunks take
	fail     func(error)   // of Send, which waits by itself
	answered chan struct{} // of Send, closed with its outcome, unless fail is called
}

// The owners of an outcome.
const (
	nobody     int32 = iota
	theAnswer        // of the client
	theSweep         // or another end of what was on its way
	theContext       // of Send
)

// settle gives d its outcome, unless it has one.
func (d *delivery) settle(owner int32, id MessageID, err error, now time.Duration) bool {
	if !d.owner.CompareAndSwap(nobody, owner) {
		return false
	}
	d.id, d.err, d.took = id, err, now-d.start
	return true
}

// deliveryOf is the delivery of a message that the client has.
func deliveryOf(m *pulsar.ProducerMessage) *delivery { return (*delivery)(unsafe.Pointer(m)) }

// maxRoom bounds the room that a delivery has for a payload.
const maxRoom = 1 << 10

// newDelivery returns one that is free, with room for a payload as they have been.
func (p *Producer[T]) newDelivery() *delivery {
	p.lending.Lock()
	d := p.unused
	if d != nil {
		p.unused = d.next
		p.kept--
	}
	p.lending.Unlock()
	if d == nil {
		d = &delivery{room: []byte{}}
	}
	d.next = nil
	if n := p.largest.Load(); int64(cap(d.room)) < n {
		d.room = make([]byte, 0, n)
	}
	return d
}

// reuse gives back what has had its outcome. Nobody else has a delivery whose receipt has come and whose sender has seen the client take
// it; of what is sent alone, the client has chunks.
func (p *Producer[T]) reuse(settled []*delivery) {
	var first, last *delivery
	n := 0
	for _, d := range settled {
		if d.err == nil && d.line != nil && !d.line.alone && d.owner.Load() == theAnswer && d.call.Load() == taken {
			*d = delivery{room: d.room, next: first}
			if first = d; last == nil {
				last = d
			}
			n++
		}
	}
	p.lending.Lock()
	defer p.lending.Unlock()
	if n > 0 && p.kept+n <= maxSpare {
		last.next = p.unused
		p.unused = first
		p.kept += n
	}
}

// forget lets go of what could be used again.
func (p *Producer[T]) forget() {
	p.lending.Lock()
	defer p.lending.Unlock()
	p.unused, p.kept = nil, 0
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

func (d *delivery) unlink() {
	d.prev.next, d.next.prev = d.next, d.prev
	d.prev, d.next = nil, nil
}
