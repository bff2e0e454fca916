package window

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// slider cuts time for sliding windows into slices at every start and end of a window. An event is added to one slice, and a window is
// a run of slices, so that an event costs the same however many windows it is in. Windows and slices are numbered from 1970 on; there
// are two slices a slide, or one where the slide divides the size:
//
//	windows   |-------------|
//	                |-------------|
//	slices    |  0  |1| 2   |3|      size = 7, slide = 3: [0,1) [1,3) [3,4) ...
type slider struct {
	size, slide, offset time.Duration
	rest                time.Duration // size mod slide: where the second slice of a slide begins
	per, span           int64         // slices in a slide and in a window
	lateness            time.Duration
	timers              timers
}

func newSlider(a Assigner, lateness time.Duration) *slider {
	z := &slider{
		size: a.size, slide: a.slide, offset: floorMod(Timestamp(a.offset), a.slide, 0), rest: a.size % a.slide, per: 1,
		span: int64(a.size / a.slide), lateness: lateness, timers: newTimers(),
	}
	if z.rest > 0 {
		z.per = 2
		z.span = 2*z.span + 1
	}
	return z
}

// locate finds the slice of an event, and the first and the last window that it is in.
func (z *slider) locate(t Timestamp) (slice, first, last int64) {
	within := floorMod(t, z.slide, z.offset)
	last = z.slideOf(t)
	slice = last * z.per
	if z.per == 2 && within >= z.rest {
		slice++
	}
	return slice, last - int64((z.size-within-1)/z.slide), last
}

// slideOf is the number of the last window that has begun at t.
func (z *slider) slideOf(t Timestamp) int64 {
	n, m := int64(t)/int64(z.slide), time.Duration(t)%z.slide
	if m < 0 {
		n, m = n-1, m+z.slide
	}
	if m < z.offset {
		n--
	}
	return n
}

// firstOf is the first window that a slice is in; the last is slice/per, rounded down.
func (z *slider) firstOf(slice int64) int64 {
	within := time.Duration(0)
	if floorDiv(slice, z.per)*z.per != slice {
		within = z.rest
	}
	return floorDiv(slice, z.per) - int64((z.size-within-1)/z.slide)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// window is the window of a number.
func (z *slider) window(n int64) Window {
	start := MaxTimestamp
	if n < 0 {
		start = MinTimestamp
	}
	if hi, lo := bits.Mul64(uint64(max(n, -n)), uint64(z.slide)); hi == 0 && lo <= 1<<63-1 {
		start = Timestamp(lo)
		if n < 0 {
			start = -start
		}
	}
	start = start.Add(z.offset)
	return Window{start, start.Add(z.size)}
}

func (z *slider) number(w Window) int64 { return z.slideOf(w.Start) }

// firstOpen is the first window that a watermark has not passed.
func (z *slider) firstOpen(watermark Timestamp) int64 {
	if watermark >= MaxTimestamp-1 {
		return 1 << 61
	}
	n := z.slideOf(watermark.Add(-z.size).Add(1))
	for z.window(n).last() <= watermark {
		n++
	}
	return n
}

// real says whether a slice is one of Timestamps.
func (z *slider) real(slice int64) bool {
	const last = 1<<63 - 1
	n := floorDiv(slice, z.per)
	return max(n, -n) <= last/int64(z.slide)+1 && n != -1<<63
}

// firstKept is the first window for which late events are still allowed at a watermark.
func (z *slider) firstKept(watermark Timestamp) int64 {
	if watermark == MaxTimestamp { // the end of lateness saturates there
		return z.firstOpen(watermark)
	}
	return z.firstOpen(watermark.Add(-z.lateness))
}

// cells are the slices of one key, oldest first. Windows that fire one after the other share most of their slices, so the merge of
// these is kept as two stacks: each slice below mid has in suffix the merge of itself and all up to mid, and back is the merge of those
// from mid to top. A window is then one suffix and back; when its start passes mid, the suffixes are made anew: two merges a slice.
type cells[A any] struct {
	list     []cell[A]
	head     int
	mid, top int64 // mid = top = noSlice: nothing is kept
	back     A
	due      int64 // the next window to fire
	waits    bool  // due is set
	cleaning Timestamp
}

type cell[A any] struct {
	slice       int64
	acc, suffix A
}

const noSlice = -1 << 63

func newCells[A any]() *cells[A] { return &cells[A]{mid: noSlice, top: noSlice, cleaning: noTimer} }

func (c *cells[A]) live() []cell[A] { return c.list[c.head:] }

func (c *cells[A]) empty() bool { return c.head == len(c.list) }

// from is the position of the first cell that is not before the slice.
func (c *cells[A]) from(slice int64) int {
	live := c.live()
	return sort.Search(len(live), func(i int) bool { return live[i].slice >= slice })
}

// find looks from the newest; -1 with the place where the slice belongs.
func (c *cells[A]) find(slice int64) (pos int, found bool) {
	live := c.live()
	n := len(live)
	for i := n - 1; i >= max(0, n-4); i-- {
		if live[i].slice == slice {
			return i, true
		}
		if live[i].slice < slice {
			return i + 1, false
		}
	}
	i := c.from(slice)
	return i, i < n && live[i].slice == slice
}

func (c *cells[A]) insert(pos int, slice int64) {
	c.list = slices.Insert(c.list, c.head+pos, cell[A]{slice: slice})
}

// changed forgets merges that a slice is in.
func (c *cells[A]) changed(slice int64) {
	if slice < c.top {
		c.mid, c.top = noSlice, noSlice
	}
}

// prune drops the cells before a slice.
func (c *cells[A]) prune(slice int64) {
	live := c.live()
	n := 0
	for n < len(live) && live[n].slice < slice {
		live[n] = cell[A]{}
		n++
	}
	c.head += n
	switch {
	case c.head == len(c.list):
		c.list, c.head = c.list[:0], 0
	case c.head > 16 && c.head > len(c.list)/2:
		moved := copy(c.list, c.list[c.head:])
		clear(c.list[moved:])
		c.list, c.head = c.list[:moved], 0
	}
}

// intoSlices adds an event to its slice, and fires again the windows that have fired without it.
func (o *Operator[K, V, A, R]) intoSlices(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	z := o.sliding
	slice, first, last := z.locate(t)
	if o.gone(z.window(last)) {
		return o.missed(t)
	}
	id := o.keys.get(o.key(v), o.options.MaxKeys)
	if id < 0 {
		return Refused
	}
	s := &o.keys.slots[id]
	if s.cells == nil {
		s.cells = newCells[A]()
	}
	c := s.cells
	if o.options.Deterministic && z.window(first).last() <= o.now {
		return o.besideSlices(id, s, first, last, v)
	}
	pos, found := c.find(slice)
	if !found {
		if o.options.MaxWindowsPerKey > 0 && len(c.live()) >= o.options.MaxWindowsPerKey {
			return Refused
		}
		c.insert(pos, slice)
	}
	o.aggregate.Add(&c.live()[pos].acc, v)
	c.changed(slice)
	n := first
	for ; n <= last && z.window(n).last() <= o.marks.combined; n++ {
		if !o.gone(z.window(n)) {
			o.emitShared(s, n, Updated, emit)
		}
	}
	if n <= last {
		o.require(c, n, id)
	} else {
		o.cleanCells(id, c)
	}
	return Accepted
}

// besideSlices is for an event of a deterministic operator that its partition's watermark has passed for some of its windows, which
// may not have fired yet. So it may not be in a slice that they share with the others, and each window has it by itself.
func (o *Operator[K, V, A, R]) besideSlices(id int32, s *slot[K, A], first, last int64, v V) Outcome {
	o.bounds = o.bounds[:0]
	for n := first; n <= last; n++ {
		if w := o.sliding.window(n); !o.gone(w) {
			o.bounds = append(o.bounds, w)
		}
	}
	if !o.room(s) {
		return Refused
	}
	for _, w := range o.bounds {
		late := w.last() <= o.now
		e := s.open(w, late)
		o.aggregate.Add(&e.acc, v)
		e.events++
		o.schedule(id, e)
		if !late {
			o.require(s.cells, o.sliding.number(w), id)
		}
	}
	return Accepted
}

// require sees to it that a window of the key fires.
func (o *Operator[K, V, A, R]) require(c *cells[A], n int64, id int32) {
	if !c.waits || n < c.due {
		c.due, c.waits = n, true
		o.sliding.timers.add(o.sliding.window(n).last(), id)
	}
}

// fireShared fires the windows that end at an instant, in the order of their keys. Keys that fired one window before come sorted.
func (o *Operator[K, V, A, R]) fireShared(at Timestamp, emit func(Result[K, R])) {
	b := o.sliding.timers.take()
	o.due = o.due[:0]
	for _, id := range b.ids {
		o.due = append(o.due, dueWindow{prefix: o.prefix(o.keys.slots[id].key), id: id})
	}
	o.sortDue()
	carried := b.carried
	for _, d := range o.due {
		key := o.keys.slots[d.id].key
		for len(carried) > 0 && cmp.Less(o.keys.slots[carried[0]].key, key) {
			o.fireKey(carried[0], at, emit)
			carried = carried[1:]
		}
		o.fireKey(d.id, at, emit)
	}
	for _, id := range carried {
		o.fireKey(id, at, emit)
	}
	o.sliding.timers.release(b)
}

// fireKey fires the window of a key that is due at an instant, if it is.
func (o *Operator[K, V, A, R]) fireKey(id int32, at Timestamp, emit func(Result[K, R])) {
	s := &o.keys.slots[id]
	c := s.cells
	if c == nil || !c.waits || o.sliding.window(c.due).last() != at {
		return
	}
	n := c.due
	o.emitShared(s, n, OnTime, emit)
	c.prune(o.sliding.firstKept(at) * o.sliding.per)
	c.due, c.waits = o.nextDue(s, n+1)
	if !c.waits {
		o.cleanCells(id, c)
		return
	}
	b := o.sliding.timers.bucket(o.sliding.window(c.due).last())
	if c.due == n+1 {
		b.carried = append(b.carried, id)
	} else {
		b.ids = append(b.ids, id)
	}
}

// nextDue is the first window of a key from n on that has events.
func (o *Operator[K, V, A, R]) nextDue(s *slot[K, A], n int64) (int64, bool) {
	z, c := o.sliding, s.cells
	next, ok := int64(0), false
	if i := c.from(n * z.per); i < len(c.live()) {
		next, ok = max(n, z.firstOf(c.live()[i].slice)), true
	}
	for i := range s.entries {
		if e := &s.entries[i]; !e.late {
			if m := z.number(e.window); m >= n && (!ok || m < next) {
				next, ok = m, true
			}
		}
	}
	return next, ok
}

// settleCells drops the slices whose last window is over, and sees to it that the rest will be.
func (o *Operator[K, V, A, R]) settleCells(id int32, c *cells[A], at Timestamp) {
	c.prune(o.sliding.firstKept(at) * o.sliding.per)
	if c.cleaning <= at {
		c.cleaning = noTimer
	}
	if !c.waits {
		o.cleanCells(id, c)
	}
}

// cleanCells looks at the key again when its newest slice is over.
func (o *Operator[K, V, A, R]) cleanCells(id int32, c *cells[A]) {
	if c.empty() || c.cleaning != noTimer {
		return
	}
	live := c.live()
	c.cleaning = o.cleanup(o.sliding.window(floorDiv(live[len(live)-1].slice, o.sliding.per)))
	o.timers.add(c.cleaning, id)
}

// emitShared fires a window made of slices.
func (o *Operator[K, V, A, R]) emitShared(s *slot[K, A], n int64, kind Kind, emit func(Result[K, R])) {
	var zero A
	o.scratch = zero
	w := o.sliding.window(n)
	var some bool
	if kind == OnTime {
		some = o.mergeShared(s.cells, n, &o.scratch)
	} else {
		some = o.mergeCells(s.cells, n, &o.scratch)
	}
	if len(s.entries) > 0 {
		if i, found := s.find(w, false); found {
			o.aggregate.Merge(&o.scratch, s.entries[i].acc)
			some = true
		}
	}
	if some {
		o.emit(Result[K, R]{w, s.key, o.aggregate.Result(&o.scratch), kind}, emit)
	}
}

// mergeCells merges the slices of a window one by one, and says whether there are any.
func (o *Operator[K, V, A, R]) mergeCells(c *cells[A], n int64, into *A) bool {
	from := n * o.sliding.per
	live := c.live()[c.from(from):]
	some := false
	for i := range live {
		if live[i].slice >= from+o.sliding.span {
			break
		}
		o.aggregate.Merge(into, live[i].acc)
		some = true
	}
	return some
}

// mergeShared is mergeCells for windows in order, by the two stacks.
func (o *Operator[K, V, A, R]) mergeShared(c *cells[A], n int64, into *A) bool {
	var zero A
	from, to := n*o.sliding.per, (n*o.sliding.per)+o.sliding.span
	live := c.live()
	first := c.from(from)
	if c.top == noSlice || from >= c.mid || to < c.top {
		end := c.from(to)
		for i := end - 1; i >= first; i-- {
			live[i].suffix = zero
			o.aggregate.Merge(&live[i].suffix, live[i].acc)
			if i+1 < end {
				o.aggregate.Merge(&live[i].suffix, live[i+1].suffix)
			}
		}
		c.mid, c.top, c.back = to, to, zero
	}
	for i := c.from(c.top); i < len(live) && live[i].slice < to; i++ {
		o.aggregate.Merge(&c.back, live[i].acc)
	}
	c.top = to
	some := first < len(live) && live[first].slice < to
	if first < len(live) && live[first].slice < c.mid {
		o.aggregate.Merge(into, live[first].suffix)
	}
	if c.top > c.mid {
		o.aggregate.Merge(into, c.back)
	}
	return some
}
