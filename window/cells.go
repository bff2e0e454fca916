package window

import (
	"slices"
	"sort"
)

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
