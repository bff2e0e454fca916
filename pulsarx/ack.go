package pulsarx

import (
	"context"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	ackRetry = 500 * time.Millisecond
	// What is done waits up to ackDelay, or until it is ackBurst entries of a partition, so that one request acknowledges much, and
	// entries as wholes; not where the flow has stopped, and not when Run ends.
	ackDelay = 20 * time.Millisecond
	ackBurst = 256
	// stopTimeout is for the last acknowledgements, and for the client to close.
	stopTimeout = 5 * time.Second
)

// acker acknowledges the messages of one partition, one request at a time; what gathers meanwhile makes the next.
type acker struct {
	dirty []*entry // with items to acknowledge
	busy  bool
}

// ackRequest is what one request acknowledges.
type ackRequest struct {
	p     *partition
	ids   []MessageID
	whole []*entry
	parts []part
	err   error
}

// part are items of a delivery.
type part struct {
	entry *entry
	items []*item
}

// request makes the next request. The client makes one acknowledgement of an entry in a request: an older delivery of one has a
// request for itself.
func (p *partition) request() ackRequest {
	r := ackRequest{p: p}
	kept, full := p.acker.dirty[:0], false
	for _, e := range p.acker.dirty {
		switch {
		case full, e.superseded && len(r.ids) > 0:
			kept = append(kept, e)
			continue
		case e.whole():
			r.ids, r.whole, e.acking = append(r.ids, e.wholeID()), append(r.whole, e), true
		default:
			full = r.add(e) && e.superseded
		}
		e.dirty = false
	}
	clear(p.acker.dirty[len(kept):])
	p.acker.dirty = kept
	return r
}

// wholeID is the id that acknowledges all of an entry. Through the ids of its messages the client would copy its set of those
// that are not acknowledged for each of them.
func (e *entry) wholeID() MessageID {
	if len(e.items) == 1 && e.items[0].ackID.BatchSize() <= 1 {
		return e.items[0].ackID // a message in chunks is acknowledged by its own
	}
	return pulsar.NewMessageID(e.ledger, e.number, -1, 0) // the client's consumer has one partition, its first
}

// add adds what is done of an entry, if anything is: the client acknowledges with the last id all that it knows to be.
func (r *ackRequest) add(e *entry) bool {
	var items []*item
	for i := range e.items[:e.received] {
		it := &e.items[i]
		if counts := it.counts(); counts.done && !it.acked && (it.known != nil || it.entry == e) {
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return false
	}
	last := len(items) - 1
	for _, it := range items[:last] {
		if id, ok := it.ackID.(interface{ Ack() error }); ok {
			_ = id.Ack() // notes it, and sends nothing while another message of the entry is left
		}
	}
	r.ids, r.parts, e.acking = append(r.ids, items[last].ackID), append(r.parts, part{e, items}), true
	return true
}

// acknowledge says that items are done.
func (r *run[T]) acknowledge(items ...*item) {
	for _, it := range items {
		it.partition.finished(it)
	}
	for _, it := range items {
		r.sendAcks(it.partition, r.draining)
	}
}

// sendAcks sends what is to be acknowledged of a partition, if it is enough or to be sent now, and no request is under way.
func (r *run[T]) sendAcks(p *partition, now bool) {
	if p.acker.busy || len(p.acker.dirty) == 0 {
		return
	}
	consumer := p.source.client()
	if consumer == nil || !now && len(p.acker.dirty) < ackBurst {
		if r.acksDue.IsZero() {
			r.acksDue = time.Now().Add(ackDelay)
		}
		return
	}
	req := p.request()
	if len(req.ids) == 0 {
		return
	}
	p.acker.busy = true
	r.acking++
	go func() {
		req.err = consumer.AckIDList(req.ids)
		if req.err != nil { // the loop sends them again, in a while
			select {
			case <-time.After(ackRetry):
			case <-r.ended:
			}
		}
		select {
		case r.acks <- req:
		case <-r.ended:
		}
	}()
}

// sendAllAcks sends what is left of all partitions.
func (r *run[T]) sendAllAcks() {
	r.acksDue = time.Time{}
	for _, p := range r.partitions {
		r.sendAcks(p, true)
	}
}

// confirm takes the answer to a request: the items are let go of, or to be acknowledged again. It returns how many were held.
func (p *partition) confirm(req *ackRequest, ok bool) (held int) {
	for _, e := range req.whole {
		e.acking = false
	}
	for _, part := range req.parts {
		part.entry.acking = false
	}
	if !ok {
		for _, e := range req.whole {
			p.soil(e)
		}
		for _, part := range req.parts {
			p.soil(part.entry)
		}
		return 0
	}
	free := req.whole[:0]
	for _, e := range req.whole {
		n, unused := p.settle(e)
		held += n
		if unused {
			free = append(free, e)
		}
	}
	p.source.arrivals.recycle(free, 2*p.source.queue)
	for _, part := range req.parts {
		for _, it := range part.items {
			held += it.settle()
		}
		p.retire(part.entry)
	}
	return held
}

func (r *run[T]) finishAck(req ackRequest) {
	r.acking--
	req.p.acker.busy = false
	ctx := context.Background()
	if req.err != nil {
		r.tel.ackFailures.Add(ctx, 1, r.attrs)
	}
	held := req.p.confirm(&req, req.err == nil)
	r.held -= held
	r.tel.inFlight.Add(ctx, -int64(held), r.attrs)
	r.sendAcks(req.p, r.draining || r.full())
}
