package window

import (
	"cmp"
	"math/bits"
	"slices"
)

// timers are the instants of event time at which keys are due to be looked at: a radix heap. Instants are numbers of eleven digits, and a
// timer is in the level of the highest digit in which it differs from the instant that was taken last, in the slot of its own digit there:
//
//	taken last 5 2 3 7      5 2 3 9    level 0, slot 9
//	                        5 2 8 1    level 1, slot 8
//	                        7 1 1 4    level 3, slot 7
//
// So the first is in the first slot of the lowest level that has any. When it is taken, the others of its slot move down: a timer moves at
// most once for each level, mostly two or three times, and nothing is compared but within a slot.
type timers struct {
	nodes   []timer
	free    int32 // the first node without a timer; the others follow
	count   int
	last    Timestamp // taken last
	least   Timestamp // of all
	filled  uint32    // levels that have timers
	levels  [(64 + digitBits - 1) / digitBits]level
	overdue []timer // those before last, which are due at once: the first of them last
	ids     []int32 // what was taken last
}

const (
	digitBits = 6
	digits    = 1 << digitBits
)

type timer struct {
	at   Timestamp
	id   int32
	next int32 // of its slot
}

type level struct {
	filled uint64            // slots that have timers
	first  [digits]int32     // of each slot
	least  [digits]Timestamp // of each slot
}

// nobody is no node, and the id of a timer that is for no key.
const nobody = -1

func newTimers() timers { return timers{free: nobody, last: MinTimestamp, least: MaxTimestamp} }

// add makes a key due at an instant; one that is nobody makes only the instant.
func (t *timers) add(at Timestamp, id int32) {
	t.least = min(t.least, at)
	t.count++
	if at < t.last {
		i, _ := slices.BinarySearchFunc(t.overdue, at, func(x timer, at Timestamp) int { return cmp.Compare(at, x.at) })
		t.overdue = slices.Insert(t.overdue, i, timer{at: at, id: id})
		return
	}
	n := t.free
	if n == nobody {
		n = int32(len(t.nodes))
		t.nodes = append(t.nodes, timer{})
	} else {
		t.free = t.nodes[n].next
	}
	t.nodes[n].at, t.nodes[n].id = at, id
	t.place(n)
}

// place puts a node into its slot.
func (t *timers) place(n int32) {
	node := &t.nodes[n]
	l := (bits.Len64(uint64(node.at^t.last)|1) - 1) / digitBits
	digit := (uint64(node.at) ^ 1<<63) >> (l * digitBits) % digits
	level := &t.levels[l]
	if level.filled&(1<<digit) == 0 {
		t.filled |= 1 << l
		level.filled |= 1 << digit
		level.first[digit], level.least[digit] = nobody, node.at
	}
	node.next, level.first[digit] = level.first[digit], n
	level.least[digit] = min(level.least[digit], node.at)
}

// next is the first instant; MaxTimestamp and false without one.
func (t *timers) next() (Timestamp, bool) { return t.least, t.count > 0 }

// take removes the first instant and returns its keys, until the next call. There is one.
func (t *timers) take() []int32 {
	t.ids = t.ids[:0]
	if len(t.overdue) > 0 {
		t.takeOverdue()
	} else {
		t.takeFirst()
	}
	t.count -= len(t.ids)
	t.ids = slices.DeleteFunc(t.ids, func(id int32) bool { return id == nobody })
	switch n := len(t.overdue); {
	case n > 0:
		t.least = t.overdue[n-1].at
	case t.count > 0:
		l := &t.levels[bits.TrailingZeros32(t.filled)]
		t.least = l.least[bits.TrailingZeros64(l.filled)]
	default:
		t.least = MaxTimestamp
	}
	return t.ids
}

func (t *timers) takeOverdue() {
	n := len(t.overdue)
	for ; n > 0 && t.overdue[n-1].at == t.least; n-- {
		t.ids = append(t.ids, t.overdue[n-1].id)
	}
	t.overdue = t.overdue[:n]
}

// takeFirst takes the first timers of the first slot, and moves the others down.
func (t *timers) takeFirst() {
	l := bits.TrailingZeros32(t.filled)
	level := &t.levels[l]
	digit := bits.TrailingZeros64(level.filled)
	if level.filled &^= 1 << digit; level.filled == 0 {
		t.filled &^= 1 << l
	}
	t.last = level.least[digit]
	for n := level.first[digit]; n != nobody; {
		node := &t.nodes[n]
		next := node.next
		if node.at == t.last {
			t.ids = append(t.ids, node.id)
			node.next, t.free = t.free, n
		} else {
			t.place(n)
		}
		n = next
	}
}
