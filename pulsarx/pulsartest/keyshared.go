package pulsartest

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// lookAhead is how many entries a Key_Shared subscription reads past those that wait for their consumer; Pulsar's default.
const lookAhead = 20_000

// byKey serves Key_Shared. A key's hash belongs to one consumer; when consumers join or leave, a hash whose entries are not all
// acknowledged drains first, and what follows waits in its slot. So entries of a key are handled in order, by one consumer at a time.
type byKey struct {
	deliveries
	sticky     bool // consumers bring their ranges of hashes; otherwise consistent hashing shares them out
	outOfOrder bool // a consumer may get a key before another has acknowledged it
	slots      map[uint16]*slot
	waiting    int // entries in all slots
	ring       ring
	ready      map[*consumer]*slotHeap // the slots whose next entry a consumer may get, oldest entry first
}

// slot is a hash of which entries wait or are out.
type slot struct {
	hash    uint16
	owner   *consumer // who holds entries of this hash
	pending int       // how many it holds
	waiting []int     // to be delivered, in order
	queued  *consumer // in whose ready it is
	at      int       // where there
}

func (d *byKey) add(c *consumer) *refusal {
	if d.sticky != c.sticky || d.outOfOrder != c.outOfOrder {
		return refuse(consumerBusy, "Subscription is of different type")
	}
	if d.sticky {
		if why := d.checkRanges(c); why != nil {
			return why
		}
	}
	for slices.ContainsFunc(d.sub.consumers, func(o *consumer) bool { return o.name == c.name && o.namesake == c.namesake }) {
		c.namesake++
	}
	d.share(append(slices.Clone(d.sub.consumers), c))
	return nil
}

func (d *byKey) checkRanges(c *consumer) *refusal {
	if len(c.ranges) == 0 {
		return refuse(consumerAssignError, "Ranges for KeyShared policy must not be empty.")
	}
	for i, r := range c.ranges {
		if r.start > r.end {
			return refuse(consumerAssignError, "Fixed hash range start > end for range: [%d,%d]", r.start, r.end)
		}
		if slices.ContainsFunc(c.ranges[:i], r.overlaps) {
			return refuse(consumerAssignError, "Consumer's own ranges conflict: [%d,%d]", r.start, r.end)
		}
		for _, other := range d.sub.consumers {
			if slices.ContainsFunc(other.ranges, r.overlaps) {
				return refuse(consumerAssignError, "Range conflict with consumer %s", other.name)
			}
		}
	}
	return nil
}

func (r hashRange) overlaps(o hashRange) bool { return r.start <= o.end && o.start <= r.end }

// hash is the place of an entry's key: 0 to 65535, or from 1 where the keys are shared out by consistent hashing.
func (d *byKey) hash(e *entry) uint16 {
	if d.sticky {
		return uint16(e.hash)
	}
	return ringHash(e.hash)
}

func ringHash(hash uint32) uint16 { return uint16(hash%65535) + 1 }

// share gives every hash its consumer.
func (d *byKey) share(consumers []*consumer) {
	if !d.sticky {
		d.ring = newRing(consumers, func(c *consumer, point int) uint32 {
			return uint32(ringHash(keyHash(fmt.Appendf(nil, "%s\x00%d\x00%d", c.name, c.namesake, point))))
		})
	}
	d.ready = map[*consumer]*slotHeap{}
	for _, c := range consumers {
		d.ready[c] = &slotHeap{}
	}
	for _, s := range d.slots {
		s.queued = nil
		d.place(s)
	}
}

func (d *byKey) consumerOf(hash uint16) *consumer {
	if !d.sticky {
		return d.ring.at(uint32(hash))
	}
	for c := range d.ready {
		for _, r := range c.ranges {
			if int(hash) >= r.start && int(hash) <= r.end {
				return c
			}
		}
	}
	return nil
}

func (d *byKey) takes(e *entry) *consumer { return d.consumerOf(d.hash(e)) }

// slot returns the slot of a hash, a new one where there is none.
func (d *byKey) slot(hash uint16) *slot {
	s := d.slots[hash]
	if s == nil {
		s = &slot{hash: hash}
		d.slots[hash] = s
	}
	return s
}

// put lets an entry wait in its slot.
func (d *byKey) put(i int) *slot {
	s := d.slot(d.hash(&d.sub.topic.entries[i]))
	k, found := slices.BinarySearch(s.waiting, i)
	if found {
		return s
	}
	s.waiting = slices.Insert(s.waiting, k, i)
	d.waiting++
	if s.queued != nil {
		heap.Fix(d.ready[s.queued], s.at)
	} else {
		d.place(s)
	}
	return s
}

// place queues a slot at its consumer, unless another consumer has yet to acknowledge entries of the hash.
func (d *byKey) place(s *slot) {
	if len(s.waiting) == 0 {
		if s.pending == 0 {
			delete(d.slots, s.hash)
		}
		return
	}
	c := d.consumerOf(s.hash)
	if c == nil || s.queued != nil || s.pending > 0 && s.owner != c && !d.outOfOrder {
		return
	}
	s.queued = c
	heap.Push(d.ready[c], s)
}

// serve gives a consumer what is ready for it.
func (d *byKey) serve(c *consumer) {
	for ready := d.ready[c]; ready.Len() > 0 && c.hungry(); {
		s := heap.Pop(ready).(*slot)
		s.queued = nil
		i := s.waiting[0]
		s.waiting = s.waiting[1:]
		d.waiting--
		if !d.sub.cursor.isAcked(i) && !d.hold(i) {
			d.deliver(c, i)
			s.owner = c
			s.pending++
		}
		d.place(s)
	}
}

func (d *byKey) dispatch() {
	for _, i := range d.due() {
		d.put(i)
	}
	for _, c := range d.sub.consumers {
		d.serve(c)
	}
	for d.next < len(d.sub.topic.entries) && d.waiting < lookAhead && !d.idle() {
		i := d.next
		d.next++
		if d.sub.cursor.isAcked(i) {
			continue
		}
		if s := d.put(i); s.queued != nil {
			d.serve(s.queued)
		}
	}
}

// takeBack is recall, with the slots told of it.
func (d *byKey) takeBack(c *consumer, entries []int) []int {
	recalled := d.recall(c, entries)
	for _, i := range recalled {
		d.released(i)
	}
	return recalled
}

// released follows when entry i is no longer out.
func (d *byKey) released(i int) {
	s := d.slot(d.hash(&d.sub.topic.entries[i]))
	if s.pending--; s.pending == 0 {
		s.owner = nil
	}
	d.place(s)
}

func (d *byKey) remove(c *consumer) {
	recalled := d.takeBack(c, nil)
	d.share(d.sub.consumers)
	for _, i := range recalled {
		d.put(i)
	}
}

func (d *byKey) redeliver(c *consumer, entries []int) {
	recalled := d.takeBack(c, entries)
	d.nacked(recalled)
	for _, i := range recalled {
		d.put(i)
	}
}

func (d *byKey) acked(i, left int) {
	if d.settle(i, left) {
		d.released(i)
	}
}

// slotHeap has the slot with the oldest waiting entry first.
type slotHeap []*slot

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return cmp.Less(h[i].waiting[0], h[j].waiting[0]) }
func (h slotHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

func (h *slotHeap) Push(x any) {
	s := x.(*slot)
	s.at = len(*h)
	*h = append(*h, s)
}

func (h *slotHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
