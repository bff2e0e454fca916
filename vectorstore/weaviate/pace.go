package weaviate

import (
	"context"
	"sync"
	"time"
)

const (
	// batchTime is what a write request shall take at most: long enough that its overhead does not count, and far from
	// every timeout.
	batchTime = time.Second
	// leastBatch is the smallest number of objects that a slow server makes of a batch.
	leastBatch = 10
)

// pace adapts writes to the server: how many requests are under way, and how many objects one has.
//
// The server's refusals halve the number under way and successes add to it, one for each round of them; so several
// processes that write to one server share it. The time that an object took makes the next batches as large as batchTime
// allows.
type pace struct {
	most      int // under way
	mostBatch int

	mu      sync.Mutex
	limit   float64         // guarded by mu: requests under way, 1 to most
	running int             // guarded by mu
	waiting []chan struct{} // guarded by mu: closed when its turn has come, first come first served
	object  time.Duration   // guarded by mu: what an object takes, of late
}

func newPace(most, mostBatch int) *pace {
	return &pace{most: most, mostBatch: mostBatch, limit: float64(most)}
}

// batch returns how many objects the next request shall have at most.
func (p *pace) batch() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.object <= 0 {
		return p.mostBatch
	}
	return min(p.mostBatch, max(leastBatch, int(batchTime/p.object)))
}

// begin waits for a turn.
func (p *pace) begin(ctx context.Context) error {
	p.mu.Lock()
	if len(p.waiting) == 0 && p.running < int(p.limit) {
		p.running++
		p.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiting {
		if w == turn {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	p.running-- // it came just now
	p.next()
	return ctx.Err()
}

// end gives a turn back, after a request for so many objects that took so long; slowed says that the server had too much
// to do.
func (p *pace) end(objects int, took time.Duration, slowed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if slowed {
		p.limit = max(1, p.limit/2)
	} else {
		p.limit = min(float64(p.most), p.limit+1/p.limit)
		if objects >= leastBatch { // in a small one, the overhead counts
			p.object += (took/time.Duration(objects) - p.object) / 4
		}
	}
	p.next()
}

// next needs p.mu.
func (p *pace) next() {
	for len(p.waiting) > 0 && p.running < int(p.limit) {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.running++
	}
}
