package window

import (
	"math"
	"reflect"
)

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
