package pulsartest

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"
	"time"
)

// defaultMaxUnacked is how many unacknowledged messages one consumer of a Shared or Key_Shared subscription may hold; Pulsar's default.
const defaultMaxUnacked = 50_000

// dispatcher decides which consumer of a subscription gets which entry. It lives as long as the subscription has consumers;
// then whatever is not acknowledged is delivered again, as if for the first time. Broker.mu guards it.
type dispatcher interface {
	// add refuses a consumer that does not fit; remove follows when one has left and others remain.
	add(c *consumer) *refusal
	remove(c *consumer)
	// dispatch sends what the consumers' permits allow.
	dispatch()
	// redeliver takes back entries from a consumer: these, or with nil all that it has not acknowledged.
	redeliver(c *consumer, entries []int)
	// acked follows when messages of an entry were acknowledged, and so many are left.
	acked(i, left int)
	// takes is the consumer that gets an entry which is not stored, nil without any.
	takes(e *entry) *consumer
	stop()
}

func newDispatcher(s *subscription, kind subscriptionType, first *consumer) dispatcher {
	if kind == exclusive || kind == failover {
		return &single{sub: s, kind: kind, next: s.cursor.markDelete}
	}
	d := deliveries{
		sub: s, next: s.cursor.markDelete,
		pending: map[int]delivery{}, redeliveries: map[int]uint32{},
	}
	if kind == shared {
		return &roundRobin{deliveries: d, chunked: map[string]*consumer{}}
	}
	return &byKey{
		deliveries: d, sticky: first.sticky, outOfOrder: first.outOfOrder,
		slots: map[uint16]*slot{}, ready: map[*consumer]*slotHeap{},
	}
}

// single serves Exclusive and Failover: one consumer is active and gets everything in order.
type single struct {
	sub     *subscription
	kind    subscriptionType
	active  *consumer // elected when a consumer comes or goes; a seek closes it, and leaves the others waiting for that
	elected bool      // a moment ago: it is to be announced, and begins with what is not acknowledged
	next    int
}

func (d *single) add(c *consumer) *refusal {
	if d.kind == exclusive && len(d.sub.consumers) > 0 {
		return refuse(consumerBusy, "Exclusive consumer is already connected")
	}
	if !d.elect(append(slices.Clone(d.sub.consumers), c)) {
		c.conn.sendActiveChange(c.id, false)
	}
	return nil
}

func (d *single) remove(*consumer) { d.elect(d.sub.consumers) }

func (*single) stop() {}

func (d *single) dispatch() {
	if d.elected {
		d.elected, d.next = false, d.sub.cursor.markDelete
		d.announce()
	}
	if !slices.Contains(d.sub.consumers, d.active) {
		return
	}
	d.next = max(d.next, d.sub.cursor.markDelete)
	for d.active.permits > 0 && d.next < len(d.sub.topic.entries) {
		d.read(min(d.active.permits, maxRead))
	}
}

// maxRead is how many entries are read at once; Pulsar's default.
const maxRead = 100

// read sends so many entries. As with Pulsar it is the permits before that count, whatever the batches hold.
func (d *single) read(entries int) {
	for ; d.next < len(d.sub.topic.entries) && entries > 0; d.next++ {
		if (!d.sub.cursor.isAcked(d.next) || d.sub.topic.byCompaction(d.active, d.next)) && d.sub.topic.entryFor(d.active, d.next) != nil {
			d.sub.send(d.active, d.next, 0)
			entries--
		}
	}
}

// elect makes one of the consumers the active one, and tells whether it was not that before.
func (d *single) elect(consumers []*consumer) bool {
	c := d.choice(consumers)
	if c == d.active {
		return false
	}
	d.active, d.elected = c, true
	return true
}

// choice picks the active consumer as Pulsar does: of those with the best priority, by name, the one whose turn the partition
// is; in a topic without partitions the one that the topic's name falls to on a ring of hashes, of several with one name the last.
func (d *single) choice(consumers []*consumer) *consumer {
	all := slices.SortedStableFunc(slices.Values(consumers), func(a, b *consumer) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.name, b.name))
	})
	best := all
	for i, c := range all {
		if c.priority != all[0].priority {
			best = all[:i]
			break
		}
	}
	if p := d.sub.topic.name.partition; p >= 0 {
		return best[p%len(best)]
	}
	if len(best) == 1 {
		return best[0]
	}
	best = slices.Clone(best)
	slices.Reverse(best)
	points := newRing(best, func(c *consumer, point int) uint32 { return keyHash([]byte(c.name + strconv.Itoa(point))) })
	return points.at(keyHash([]byte(d.sub.topic.name.full)))
}

// announce tells the consumers of a Failover subscription who is active.
func (d *single) announce() {
	if d.kind != failover || d.sub.topic.name.transient() { // those that store nothing do not tell
		return
	}
	for _, c := range d.sub.consumers {
		c.conn.sendActiveChange(c.id, c == d.active)
	}
}

// redeliver starts over from the first entry that is not acknowledged: one consumer's order is never broken by sending a few again.
func (d *single) redeliver(c *consumer, _ []int) {
	if c == d.active {
		d.next = d.sub.cursor.markDelete
	}
}

func (*single) acked(int, int) {}

func (d *single) takes(*entry) *consumer { return d.active }

// deliveries is what Shared and Key_Shared have in common: who holds which entry, and how often it was given out.
type deliveries struct {
	sub          *subscription
	next         int // the next entry to read from the topic
	pending      map[int]delivery
	redeliveries map[int]uint32
	delayed      delayHeap
	timer        *time.Timer
}

type delivery struct {
	to       *consumer
	messages int
}

func (d *deliveries) deliver(c *consumer, i int) {
	n := d.sub.send(c, i, d.redeliveries[i])
	c.unacked += n
	d.pending[i] = delivery{to: c, messages: n}
}

// settle books an acknowledgement, and tells whether it ended a delivery.
func (d *deliveries) settle(i, left int) (done bool) {
	p, ok := d.pending[i]
	if ok {
		p.to.unacked -= p.messages - left
		p.messages = left
		d.pending[i] = p
	}
	if left > 0 {
		return false
	}
	delete(d.pending, i)
	delete(d.redeliveries, i)
	return ok
}

// recall ends deliveries of a consumer, these or all, and returns their entries in order.
func (d *deliveries) recall(c *consumer, entries []int) []int {
	var recalled []int
	if entries == nil {
		for i, p := range d.pending {
			if p.to == c {
				recalled = append(recalled, i)
			}
		}
	} else {
		for _, i := range entries {
			if d.pending[i].to == c {
				recalled = append(recalled, i)
			}
		}
	}
	slices.Sort(recalled)
	recalled = slices.Compact(recalled)
	for _, i := range recalled {
		c.unacked -= d.pending[i].messages
		delete(d.pending, i)
	}
	return recalled
}

// nacked counts a redelivery that a consumer has asked for.
func (d *deliveries) nacked(entries []int) {
	for _, i := range entries {
		d.redeliveries[i]++
	}
}

// hold keeps an entry that is to be delivered later.
func (d *deliveries) hold(i int) bool {
	at := d.sub.topic.entries[i].deliverAt
	if at == 0 || at <= time.Now().UnixMilli() {
		return false
	}
	heap.Push(&d.delayed, delayedEntry{at: at, index: i})
	d.arm()
	return true
}

// due takes the entries whose time has come.
func (d *deliveries) due() []int {
	var entries []int
	now := time.Now().UnixMilli()
	for len(d.delayed) > 0 && d.delayed[0].at <= now {
		entries = append(entries, heap.Pop(&d.delayed).(delayedEntry).index)
	}
	if entries != nil {
		d.arm()
	}
	return entries
}

// arm sets the timer to the next entry that is due.
func (d *deliveries) arm() {
	d.stop()
	if len(d.delayed) == 0 {
		return
	}
	b, s := d.sub.topic.broker, d.sub
	d.timer = time.AfterFunc(time.Until(time.UnixMilli(d.delayed[0].at)), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.dispatch()
	})
}

func (d *deliveries) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// idle says whether no consumer can take a message.
func (d *deliveries) idle() bool {
	return !slices.ContainsFunc(d.sub.consumers, (*consumer).hungry)
}

func (c *consumer) hungry() bool { return c.permits > 0 && !c.blocked() }

func (c *consumer) blocked() bool { return c.maxUnacked > 0 && c.unacked >= c.maxUnacked }

type delayedEntry struct {
	at    int64
	index int
}

type delayHeap []delayedEntry

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return cmp.Less(h[i].at, h[j].at) }
func (h delayHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayHeap) Push(x any)        { *h = append(*h, x.(delayedEntry)) }

func (h *delayHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// roundRobin serves Shared: each entry to the next consumer that can take it, those with the best priority first.
type roundRobin struct {
	deliveries
	replay  intHeap // entries to deliver again
	turn    int
	chunked map[string]*consumer // who gets the chunks of a message, from the first to the last
}

func (*roundRobin) add(*consumer) *refusal { return nil }

func (d *roundRobin) remove(c *consumer) { d.putBack(d.recall(c, nil)) }

func (d *roundRobin) putBack(entries []int) {
	for _, i := range entries {
		heap.Push(&d.replay, i)
	}
}

func (d *roundRobin) redeliver(c *consumer, entries []int) {
	recalled := d.recall(c, entries)
	d.nacked(recalled)
	d.putBack(recalled)
}

func (d *roundRobin) acked(i, left int) { d.settle(i, left) }

func (d *roundRobin) dispatch() {
	d.putBack(d.due())
	var waiting []int // chunks
	defer func() { d.putBack(waiting) }()
	for {
		c := d.pick()
		if c == nil {
			return
		}
		i, ok := d.nextEntry()
		if !ok {
			return
		}
		if e := &d.sub.topic.entries[i]; e.chunks > 1 {
			if c = d.assign(e, c); c == nil {
				waiting = append(waiting, i)
				continue
			}
		}
		d.deliver(c, i)
		d.turn = slices.Index(d.sub.consumers, c) + 1
	}
}

// assign is the consumer that gets a chunk, nil while it waits: the chunks of a message go to the consumer of the first one, c.
func (d *roundRobin) assign(e *entry, c *consumer) *consumer {
	to := d.chunked[e.uuid]
	if e.chunk == 0 && !slices.Contains(d.sub.consumers, to) {
		to = c
	}
	if !slices.Contains(d.sub.consumers, to) || !to.hungry() {
		return nil
	}
	if d.chunked[e.uuid] = to; e.chunk == e.chunks-1 {
		delete(d.chunked, e.uuid)
	}
	return to
}

func (d *roundRobin) takes(*entry) *consumer {
	c := d.pick()
	if c != nil {
		d.turn = slices.Index(d.sub.consumers, c) + 1
	}
	return c
}

// pick is the next consumer in turn that can take a message.
func (d *roundRobin) pick() *consumer {
	var best *consumer
	n := len(d.sub.consumers)
	for k := range n {
		c := d.sub.consumers[(d.turn+k)%n]
		if c.hungry() && (best == nil || c.priority < best.priority) {
			best = c
		}
	}
	return best
}

func (d *roundRobin) nextEntry() (int, bool) {
	for len(d.replay) > 0 {
		i := heap.Pop(&d.replay).(int)
		if _, out := d.pending[i]; !out && !d.sub.cursor.isAcked(i) {
			return i, true
		}
	}
	for d.next < len(d.sub.topic.entries) {
		i := d.next
		d.next++
		if !d.sub.cursor.isAcked(i) && !d.hold(i) {
			return i, true
		}
	}
	return 0, false
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }

func (h *intHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// ring is consistent hashing: each consumer stands at many points, and a hash belongs to the next point.
type ring []ringPoint

type ringPoint struct {
	hash uint32
	to   *consumer
}

// ringPoints is how often a consumer stands on a ring; Pulsar's default.
const ringPoints = 100

// newRing places consumers on a ring. Of several at one point the first has it.
func newRing(consumers []*consumer, hash func(c *consumer, point int) uint32) ring {
	r := make(ring, 0, ringPoints*len(consumers))
	for _, c := range consumers {
		for i := range ringPoints {
			r = append(r, ringPoint{hash: hash(c, i), to: c})
		}
	}
	slices.SortStableFunc(r, func(a, b ringPoint) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

func (r ring) at(hash uint32) *consumer {
	i, _ := slices.BinarySearchFunc(r, hash, func(p ringPoint, h uint32) int { return cmp.Compare(p.hash, h) })
	return r[i%len(r)].to
}
