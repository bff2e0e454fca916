package weaviate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/embed"
)

const (
	// batchTime is what a write request shall take at most: long enough that its overhead does not count, and far from
	// every timeout.
	batchTime = time.Second
	// backfillTime is that of a backfill. A server indexes the objects of all requests in the order in which they came (seen with v1.39),
	// so that a live write of another process, or one that nobody expected, waits until all that is under way is done.
	backfillTime = 40 * time.Millisecond
	// firstBatch is how many objects a batch has before it is known what one takes.
	firstBatch = 100
	// leastBatch is the smallest number of objects that a slow server makes of a batch, and how many a backfill begins with.
	leastBatch = 10
	// amongLive is how many objects a backfill sends at a time between live writes: a few milliseconds of a server's work, which is what
	// a live write that comes meanwhile waits for.
	amongLive = 5
	// liveFor is how long after a live write a backfill expects another.
	liveFor = time.Second
	// restFactor is how many times as long as its request a backfill rests between live writes: then most of these find the server
	// without it.
	restFactor = 2
)

// pace adapts writes to the server: how many requests are under way, and how many objects one has.
//
// The server's refusals halve the number under way and successes add to it, one for each round of them; so several
// processes that write to one server share it. The time that an object took, the wait for others' in it, makes the next batches as large
// as batchTime allows.
//
// A backfill ([embed.Backfill], in the context) goes after what is live, leaves a place free for it, and sends no more at a time than
// backfillTime allows. As long as live writes come it
// sends a few objects at a time and rests in between, since on the server, too, its objects take the processors from theirs.
type pace struct {
	most      int // under way
	mostBatch int

	mu        sync.Mutex
	limit     float64         // guarded by mu: requests under way, 1 to most
	running   int             // guarded by mu
	backfills int             // guarded by mu: those of running that are backfills
	live      []chan struct{} // guarded by mu: closed when its turn has come, first come first served
	backfill  []chan struct{} // guarded by mu: likewise, after live
	lastLive  time.Time       // guarded by mu: when a live write last began or ended
	rest      time.Time       // guarded by mu: until when backfills rest
	object    time.Duration   // guarded by mu: what an object takes, of late
}

func newPace(most, mostBatch int) *pace {
	return &pace{most: most, mostBatch: mostBatch, limit: float64(most)}
}

// batch returns how many objects the next request shall have at most.
func (p *pace) batch(ctx context.Context) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, most := firstBatch, batchTime
	if isBackfill(ctx) {
		first, most = leastBatch, backfillTime
	}
	switch {
	case isBackfill(ctx) && p.yields():
		return min(p.mostBatch, amongLive)
	case p.object <= 0:
		return min(p.mostBatch, first)
	}
	return min(p.mostBatch, max(leastBatch, int(most/p.object)))
}

func isBackfill(ctx context.Context) bool { return embed.PriorityOf(ctx) == embed.Backfill }

// yields reports whether backfills make room for what is live. It needs p.mu.
func (p *pace) yields() bool {
	return p.running > p.backfills || time.Since(p.lastLive) < liveFor
}

// begin waits for a turn.
func (p *pace) begin(ctx context.Context) error {
	turn := make(chan struct{})
	waiting := &p.live
	p.mu.Lock()
	if isBackfill(ctx) {
		waiting = &p.backfill
	} else {
		p.lastLive = time.Now()
	}
	*waiting = append(*waiting, turn)
	p.next()
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range *waiting {
		if w == turn {
			*waiting = slices.Delete(*waiting, i, i+1)
			return ctx.Err()
		}
	}
	p.leave(ctx) // its turn came just now
	return ctx.Err()
}

// end gives a turn back, after a request for so many objects that took so long; slowed says that the server had too much
// to do.
func (p *pace) end(ctx context.Context, objects int, took time.Duration, slowed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slowed {
		p.limit = max(1, p.limit/2)
	} else {
		p.limit = min(float64(p.most), p.limit+1/p.limit)
	}
	if objects >= leastBatch && (!slowed || took > batchTime) { // in a small one, the overhead counts, and a quick refusal says nothing
		object := took / time.Duration(objects)
		if p.object <= 0 {
			p.object = object
		}
		p.object += (object - p.object) / 4
	}
	if isBackfill(ctx) && p.yields() {
		p.rest = time.Now().Add(restFactor * took)
	}
	p.leave(ctx)
}

// leave needs p.mu.
func (p *pace) leave(ctx context.Context) {
	p.running--
	if isBackfill(ctx) {
		p.backfills--
	} else {
		p.lastLive = time.Now()
	}
	p.next()
}

// next needs p.mu.
func (p *pace) next() {
	for len(p.live) > 0 && p.running < int(p.limit) {
		close(p.live[0])
		p.live = p.live[1:]
		p.running++
	}
	for len(p.backfill) > 0 && p.running < max(1, int(p.limit)-1) {
		if p.yields() && !p.rested() {
			return
		}
		close(p.backfill[0])
		p.backfill = p.backfill[1:]
		p.running++
		p.backfills++
	}
}

// rested reports whether a backfill may go on among live writes. Else next is called when that may have changed. It needs p.mu.
func (p *pace) rested() bool {
	if p.backfills > 0 {
		return false // its end calls next
	}
	wait := min(time.Until(p.rest), time.Until(p.lastLive.Add(liveFor)))
	if wait > 0 {
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.next()
		})
	}
	return wait <= 0
}
