package pulsarx

import (
	"cmp"
	"container/heap"
	"context"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// merge passes on the messages of several partitions, each in its own order, by event time: the next one is that with the least
// event time among the first ones that the partitions still have. It holds one message a partition, so that a partition that is far
// ahead waits. It returns when every input is closed, or the context ends.
func merge(ctx context.Context, inputs []chan replayed, out chan<- replayed) {
	heads := make(mergeHeap, 0, len(inputs))
	for i, input := range inputs {
		heads.take(ctx, i, input)
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		first := &heads[0]
		select {
		case out <- first.replayed:
		case <-ctx.Done():
			return
		}
		if first.receive(ctx) {
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
}

// mergeHead is the next message of an input.
type mergeHead struct {
	replayed
	at    int64 // milliseconds
	place int   // of the input, which settles ties
	input <-chan replayed
}

func (h *mergeHead) receive(ctx context.Context) bool {
	select {
	case m, ok := <-h.input:
		if ok {
			h.replayed, h.at = m, mergeTime(m.message).UnixMilli()
		}
		return ok
	case <-ctx.Done():
		return false
	}
}

// mergeTime is when a message happened; where the producer does not say, when it was published.
func mergeTime(m pulsar.Message) time.Time {
	if t := eventTime(m); !t.IsZero() {
		return t
	}
	return m.PublishTime()
}

// mergeHeap has the least event time first, then the first input.
type mergeHeap []mergeHead

func (h *mergeHeap) take(ctx context.Context, place int, input <-chan replayed) {
	head := mergeHead{place: place, input: input}
	if head.receive(ctx) {
		*h = append(*h, head)
	}
}

func (h mergeHeap) Len() int { return len(h) }

func (h mergeHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].place, h[j].place)) < 0
}

func (h mergeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mergeHeap) Push(x any)   { *h = append(*h, x.(mergeHead)) }

func (h *mergeHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = mergeHead{}
	*h = old[:len(old)-1]
	return last
}
