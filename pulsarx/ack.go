package pulsarx

import (
	"context"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	ackRetry   = 500 * time.Millisecond
	ackTimeout = 10 * time.Second // for Run's last acknowledgements, and for the client to close
)

// acker acknowledges the messages of one partition, one request at a time; what gathers meanwhile makes the next.
type acker struct {
	pending []*item
	busy    bool
}

// take takes the pending messages for one request. The client makes one acknowledgement of an entry's messages in a request, and
// keeps the last of those that belong to different deliveries of the entry: those wait for the next request.
func (a *acker) take() (items []*item) {
	type entry struct{ ledger, entry int64 }
	copies := map[entry]int64{}
	var rest []*item
	for _, it := range a.pending {
		e := entry{it.id.ledger, it.id.entry}
		if copied, ok := copies[e]; ok && (copied != it.copy || copied < 0) {
			rest = append(rest, it)
			continue
		}
		copies[e] = it.copy
		items = append(items, it)
	}
	a.pending = rest
	return items
}

type ackResult struct {
	acker *acker
	items []*item
	err   error
}

// acknowledge queues acknowledgements and sends those of partitions that have none under way.
func (r *run[T]) acknowledge(items ...*item) {
	for _, it := range items {
		p := it.id.partition
		a := r.ackers[p]
		if a == nil {
			a = &acker{}
			r.ackers[p] = a
		}
		a.pending = append(a.pending, it)
	}
	for _, it := range items {
		r.sendAcks(r.ackers[it.id.partition])
	}
}

func (r *run[T]) sendAcks(a *acker) {
	if a.busy || len(a.pending) == 0 {
		return
	}
	a.busy = true
	r.acking++
	items := a.take()
	ids := make([]pulsar.MessageID, len(items))
	for i, it := range items {
		ids[i] = it.ackID
	}
	go func() {
		err := r.c.consumer.AckIDList(ids)
		if err != nil { // the loop sends them again, in a while
			select {
			case <-time.After(ackRetry):
			case <-r.ended:
			}
		}
		select {
		case r.acks <- ackResult{a, items, err}:
		case <-r.ended:
		}
	}()
}

func (r *run[T]) finishAck(res ackResult) {
	r.acking--
	res.acker.busy = false
	ctx := context.Background()
	if res.err != nil {
		r.tel.ackFailures.Add(ctx, 1, r.attrs)
		res.acker.pending = append(res.items, res.acker.pending...)
	} else {
		before := len(r.s.held)
		for _, it := range res.items {
			r.s.acknowledged(it)
		}
		r.tel.inFlight.Add(ctx, int64(len(r.s.held)-before), r.attrs)
	}
	r.sendAcks(res.acker)
}
