package window

import (
	"math"
	"math/bits"
	"reflect"
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
	kept                int64 // the first slice that is kept where windows fire
	memo                int64 // a window's number, and that window
	memoized            Window
	slideNumber         int64 // of the last event; when that slide and its second slice begin, and its end
	begin, middle, end  Timestamp
	open, keep          reign
}

// reign is for which watermarks, from and until, a window is the first.
type reign struct {
	from, until Timestamp
	window      int64
}

// sliced says whether windows can share slices, and every slice up to the ends of time has a number.
func (a Assigner) sliced() bool {
	return a.kind == sliding && a.slide < a.size && (a.slide > 2 || a.size%a.slide == 0)
}

func newSlider(a Assigner, lateness time.Duration) *slider {
	z := &slider{
		size: a.size, slide: a.slide, offset: floorMod(Timestamp(a.offset), a.slide, 0), rest: a.size % a.slide, per: 1,
		span: int64(a.size / a.slide), lateness: lateness, timers: newTimers(),
	}
	z.memoized = z.windowAt(0)
	if z.rest > 0 {
		z.per = 2
		z.span = 2*z.span + 1
	}
	return z
}

// locate finds the slice of an event, and the first and the last window that it is in.
func (z *slider) locate(t Timestamp) (slice, first, last int64) {
	if t < z.begin || t >= z.end { // events often follow their like
		within := floorMod(t, z.slide, z.offset)
		z.slideNumber, z.begin, z.middle, z.end = z.slideOf(t), t.Add(-within), t.Add(z.rest-within), t.Add(z.slide-within)
	}
	last = z.slideNumber
	slice, first = last*z.per, z.before(last, z.size)
	switch {
	case z.per == 1:
		first++
	case t >= z.middle:
		slice++
		first++
	}
	return slice, first, last
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
	return z.before(floorDiv(slice, z.per), z.size-within-1)
}

// before is the window that begins so many slides before another as there are in d, or the first that there is.
func (z *slider) before(n int64, d time.Duration) int64 {
	return max(int64(Timestamp(n).Add(-d/z.slide)), math.MinInt64/z.per)
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
	if n != z.memo {
		z.memo, z.memoized = n, z.windowAt(n)
	}
	return z.memoized
}

func (z *slider) windowAt(n int64) Window { return Window{z.instant(n, 0), z.instant(n, z.size)} }

// instant is so long after the start of a window, or the end of time that is nearer.
func (z *slider) instant(n int64, after time.Duration) Timestamp {
	hi, lo := bits.Mul64(uint64(n), uint64(z.slide))
	if n < 0 {
		hi -= uint64(z.slide)
	}
	for _, d := range [...]time.Duration{z.offset, after} {
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(d), 0)
		hi += carry
	}
	switch {
	case int64(hi) == int64(lo)>>63:
		return Timestamp(lo)
	case int64(hi) < 0:
		return MinTimestamp
	}
	return MaxTimestamp
}

// number is that of a window. One that begins before time is known by its end.
func (z *slider) number(w Window) int64 {
	if w.Start == MinTimestamp {
		return z.slideOf(w.End) - int64(z.size/z.slide)
	}
	return z.slideOf(w.Start)
}

// firstOpen is the first window that a watermark has not passed.
func (z *slider) firstOpen(watermark Timestamp) int64 { return z.first(&z.open, watermark) }

// firstKept is the first window for which late events are still allowed at a watermark.
func (z *slider) firstKept(watermark Timestamp) int64 {
	if watermark < MaxTimestamp { // the end of lateness saturates there
		watermark = watermark.Add(-z.lateness)
	}
	return z.first(&z.keep, watermark)
}

func (z *slider) first(r *reign, watermark Timestamp) int64 {
	if watermark >= r.from && watermark < r.until {
		return r.window
	}
	if watermark >= MaxTimestamp-1 {
		return math.MaxInt64 / z.per
	}
	n := z.before(z.before(z.slideOf(watermark), z.size), z.slide)
	for z.window(n).last() <= watermark {
		n++
	}
	*r = reign{watermark, z.window(n).last(), n}
	return n
}

// real says whether a slice is one of Timestamps.
func (z *slider) real(slice int64) bool {
	const last = 1<<63 - 1
	n := floorDiv(slice, z.per)
	return n != -1<<63 && max(n, -n)-1 <= last/int64(z.slide)
}

// cells are the slices of one key, oldest first.
type cells[A any] struct {
	list     []cell[A]
	head     int
	due      int64 // the next window to fire, or one before it
	waits    bool  // due is set
	room     [inline]cell[A]
	merged   *stacks[A] // nil until there are more than few
	cleaning Timestamp
}

type cell[A any] struct {
	slice int64
	acc   A
}

// stacks are merges of many slices. Windows that fire one after the other share most of theirs: front has, for each slice below mid,
// the merge of itself and all up to mid, the oldest last, and back is the merge of those from mid to top. A window is then one of
// front and back; when its start passes mid, front is made anew: two merges a slice.
type stacks[A any] struct {
	mid, top int64 // noSlice: nothing is kept
	front    []cell[A]
	back     A
}

const (
	noSlice  = -1 << 63
	few      = 4  // slices that are merged one by one
	inline   = 2  // slices of a key that have room without an allocation
	fewMoved = 16 // slices that are moved at any time
)

func (c *cells[A]) live() []cell[A] { return c.list[c.head:] }

func (c *cells[A]) empty() bool { return c.head == len(c.list) }

// clear removes all slices and keeps the room.
func (c *cells[A]) clear() {
	clear(c.list)
	*c = cells[A]{list: c.list[:0], cleaning: noTimer}
}

// first is the oldest slice, if there is one.
func (c *cells[A]) first() int64 {
	if c.empty() {
		return noSlice
	}
	return c.list[c.head].slice
}

// from is the position of the first cell that is not before the slice.
func (c *cells[A]) from(slice int64) int {
	live := c.live()
	if len(live) <= few {
		for i := range live {
			if live[i].slice >= slice {
				return i
			}
		}
		return len(live)
	}
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
	if n := len(c.list); n == cap(c.list) && (c.head > n/2 || c.head > 0 && n <= fewMoved) { // else it would grow
		c.moveUp()
	}
	c.list = slices.Insert(c.list, c.head+pos, cell[A]{slice: slice})
}

// changed forgets merges that a slice is in.
func (c *cells[A]) changed(slice int64) {
	if c.merged != nil && slice < c.merged.top {
		c.merged.top = noSlice
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
	if c.empty() || c.head > fewMoved && c.head > len(c.list)/2 {
		c.moveUp()
	}
}

// moveUp gives the room of what is pruned back.
func (c *cells[A]) moveUp() {
	moved := copy(c.list, c.list[c.head:])
	clear(c.list[moved:])
	c.list, c.head = c.list[:moved], 0
}

// intoSlices adds an event to its slice, and fires again the windows that have fired without it.
func (o *Operator[K, V, A, R]) intoSlices(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	z := o.sliding
	slice, first, last := z.locate(t)
	kept := z.firstKept(o.now)
	if last < kept {
		return o.missed(t)
	}
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	c := o.keys.cells(id)
	o.keys.stale[id] = true
	if o.options.Deterministic && first < z.firstOpen(o.now) {
		return o.besideSlices(id, o.keys.at(id), first, last, v)
	}
	pos, found := c.find(slice)
	if m := &o.keys.memory; !found {
		if n := o.options.MaxWindowsPerKey; n > 0 && len(c.live()) >= n || !m.ample(int64(len(c.live())+1)*m.slice, m.slice) && !o.fits(id, o.keys.at(id), m.slice) {
			return o.refuse(id)
		}
		c.insert(pos, slice)
		m.windows += m.slice
	} else if m.sized() && !o.fits(id, o.keys.at(id), 0) {
		return Refused
	}
	o.put(id, &c.live()[pos].acc, v)
	c.changed(slice)
	n, open := max(first, kept), z.firstOpen(o.marks.combined)
	for ; n <= last && n < open; n++ {
		o.emitShared(o.keys.at(id), n, Updated, emit)
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
	if !o.room(id, s) {
		return o.refuse(id)
	}
	before := o.keys.weight(s)
	for _, w := range o.bounds {
		late := w.last() <= o.now
		e := s.open(w, late)
		o.put(id, &e.acc, v)
		e.events++
		o.schedule(id, e)
		if !late {
			o.require(s.cells, o.sliding.number(w), id)
		}
	}
	o.keys.account(id, s, before)
	return Accepted
}

// require sees to it that a window of the key fires.
func (o *Operator[K, V, A, R]) require(c *cells[A], n int64, id int32) {
	if !c.waits || n < c.due {
		c.due, c.waits = n, true
		o.sliding.timers.add(o.sliding.window(n).last(), id)
	}
}

// carriage has what the window that fired last has passed on to the next: keys in order, with the value that they have in both. Most keys
// have no events from one window to the next, and their next result is made without a look at their state. A value that refers to memory,
// which whoever gets it may change, is made anew.
type carriage[K Key, R any] struct {
	window int64 // which is to fire next
	list   []carried[K, R]
	common int // bytes that the prefixes of list leave out
	next   []carried[K, R]
}

type carried[K Key, R any] struct {
	prefix uint64 // as in ranked
	id     int32
	until  int32 // the low bits of the last window that has this value, as long as it is not stale
	key    K
	value  R
}

// lasts says whether the window after n has the value too.
func (c *carried[K, R]) lasts(n int64) bool { return c.until-int32(n) > 0 }

func (c *carried[K, R]) ranked() ranked { return ranked{c.prefix, c.id} }

// fireShared fires the windows that end at an instant, in the order of their keys.
func (o *Operator[K, V, A, R]) fireShared(at Timestamp, emit func(Result[K, R])) {
	z := o.sliding
	z.kept = z.firstKept(at) * z.per
	fresh := o.keys.inOrder(z.timers.take())
	o.keys.fetch(fresh[:len(fresh)%prefetch])
	if len(o.carried.list) > 0 && z.window(o.carried.window).last() == at {
		fresh = o.fireCarried(fresh, at, emit)
	}
	for len(fresh) > 0 {
		fresh = o.fireFirst(fresh, at, emit)
	}
	c := &o.carried
	c.list, c.next, c.common = c.next, c.list, len(o.keys.order.common)
	clear(c.next)
	if c.next = c.next[:0]; len(c.list) > 0 {
		z.timers.add(z.window(c.window).last(), nobody)
	}
}

// fireCarried fires what was passed on, and of the others those that come before the last of it; it returns the rest.
func (o *Operator[K, V, A, R]) fireCarried(fresh []ranked, at Timestamp, emit func(Result[K, R])) []ranked {
	list, n := o.carried.list, o.carried.window
	w := o.sliding.window(n)
	o.carried.window = n + 1
	if o.carried.common != len(o.keys.order.common) {
		for i := range list {
			list[i].prefix = o.keys.order.prefix(list[i].key)
		}
	}
	for i := range list {
		if i%prefetch == 0 {
			o.spill()
			o.fetchStale(list[i:min(i+prefetch, len(list))], n)
		}
		c := &list[i]
		for len(fresh) > 0 && (fresh[0].prefix < c.prefix || fresh[0].prefix == c.prefix && o.keys.at(fresh[0].id).key < c.key) {
			fresh = o.fireFirst(fresh, at, emit)
		}
		for len(fresh) > 0 && fresh[0].id == c.id { // it was required before, and comes here
			fresh = fresh[1:]
		}
		if o.keys.stale[c.id] || !c.lasts(n) {
			o.fireWindow(c.ranked(), n, emit)
			continue
		}
		o.emit(Result[K, R]{w, c.key, c.value, OnTime}, emit)
		o.carried.next = append(o.carried.next, *c)
	}
	return fresh
}

// fetchStale fetches what fireCarried is about to look at.
func (o *Operator[K, V, A, R]) fetchStale(list []carried[K, R], n int64) {
	var some [prefetch]ranked
	count := 0
	for i := range list {
		if o.keys.stale[list[i].id] || !list[i].lasts(n) {
			some[count] = list[i].ranked()
			count++
		}
	}
	o.keys.fetch(some[:count])
}

// fireFirst fires the window of the first key that is due at an instant, if it still is, and returns the others.
func (o *Operator[K, V, A, R]) fireFirst(fresh []ranked, at Timestamp, emit func(Result[K, R])) []ranked {
	if len(fresh)%prefetch == 0 {
		o.spill()
		o.keys.fetch(fresh[:prefetch])
	}
	if c := o.keys.cells(fresh[0].id); c.waits && o.sliding.window(c.due).last() == at {
		o.fireWindow(fresh[0], c.due, emit)
	}
	return fresh[1:]
}

// fireWindow fires a window of a key, and sees to it that the next one will.
func (o *Operator[K, V, A, R]) fireWindow(r ranked, n int64, emit func(Result[K, R])) {
	if !o.load(r.id) {
		return
	}
	z, s := o.sliding, o.keys.at(r.id)
	c := s.cells
	s.changed = true
	value := o.emitShared(s, n, OnTime, emit)
	whole, until := o.carries(s, n)
	before := o.keys.weight(s)
	o.pruneCells(r.id, c, min(z.kept, (n+1)*z.per)) // of those that end with time, the next has still to fire
	o.keys.account(r.id, s, before)
	if c.due, c.waits = o.nextDue(s, n+1); !c.waits {
		o.cleanCells(r.id, c)
		return
	}
	next := z.window(c.due).last()
	if c.due != n+1 || next == z.window(n).last() {
		z.timers.add(next, r.id)
		return
	}
	p := carried[K, R]{prefix: r.prefix, id: r.id, until: int32(n), key: s.key}
	if whole {
		p.value, p.until = value, int32(min(until, n+math.MaxInt32))
		o.keys.stale[r.id] = false
	}
	o.carried.window = c.due
	o.carried.next = append(o.carried.next, p)
}

// carries says whether the window after n has of a key just what n has, and until which window that goes on.
func (o *Operator[K, V, A, R]) carries(s *slot[K, A], n int64) (whole bool, until int64) {
	z, c := o.sliding, s.cells
	live := c.live()
	i := c.from(n * z.per)
	if !o.plain || len(s.entries) > 0 || i == len(live) || live[len(live)-1].slice >= n*z.per+z.span {
		return false, 0
	}
	until = floorDiv(live[i].slice, z.per)
	return until > n, until
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

// pruneCells drops a key's cells before a slice.
func (o *Operator[K, V, A, R]) pruneCells(id int32, c *cells[A], slice int64) {
	o.forgetCells(id, c, slice)
	c.prune(slice)
}

// forgetCells notes that the cells before a slice go.
func (o *Operator[K, V, A, R]) forgetCells(id int32, c *cells[A], slice int64) {
	if !o.keys.memory.sized() {
		return
	}
	live := c.live()
	for i := 0; i < len(live) && live[i].slice < slice; i++ {
		o.keys.memory.forget(id, &live[i].acc)
	}
}

// settleCells drops the slices whose last window is over, and sees to it that the rest will be.
func (o *Operator[K, V, A, R]) settleCells(id int32, c *cells[A], at Timestamp) {
	o.pruneCells(id, c, o.sliding.firstKept(at)*o.sliding.per)
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

// emitShared fires a window made of slices, and returns its value.
func (o *Operator[K, V, A, R]) emitShared(s *slot[K, A], n int64, kind Kind, emit func(Result[K, R])) (value R) {
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
		value = o.aggregate.Result(&o.scratch)
		o.emit(Result[K, R]{w, s.key, value, kind}, emit)
	}
	return value
}

// plain says whether a value of the type refers to no memory that can be changed.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return false
	}
	return true
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
	live := c.live()
	if len(live) <= few {
		return o.mergeCells(c, n, into)
	}
	from, to := n*o.sliding.per, n*o.sliding.per+o.sliding.span
	if c.merged == nil {
		c.merged = &stacks[A]{top: noSlice}
	}
	m := c.merged
	if m.top == noSlice || from >= m.mid || to < m.top {
		o.restack(c, from, to)
	}
	for i := c.from(m.top); i < len(live) && live[i].slice < to; i++ {
		o.aggregate.Merge(&m.back, live[i].acc)
	}
	m.top = to
	for n := len(m.front); n > 0 && m.front[n-1].slice < from; n-- {
		m.front[n-1] = cell[A]{}
		m.front = m.front[:n-1]
	}
	if n := len(m.front); n > 0 {
		o.aggregate.Merge(into, m.front[n-1].acc)
	}
	if m.top > m.mid {
		o.aggregate.Merge(into, m.back)
	}
	first := c.from(from)
	return first < len(live) && live[first].slice < to
}

// restack makes front of the slices of a window.
func (o *Operator[K, V, A, R]) restack(c *cells[A], from, to int64) {
	var back A
	m, live := c.merged, c.live()
	clear(m.front)
	m.front = m.front[:0]
	for i := c.from(to) - 1; i >= 0 && live[i].slice >= from; i-- {
		m.front = append(m.front, cell[A]{slice: live[i].slice})
		n := len(m.front)
		o.aggregate.Merge(&m.front[n-1].acc, live[i].acc)
		if n > 1 {
			o.aggregate.Merge(&m.front[n-1].acc, m.front[n-2].acc)
		}
	}
	m.mid, m.top, m.back = to, to, back
}
