package window

import "math/bits"

// instants are the events of a key by their time: one leaf an instant, in a binary tree over the bits of time, whose inner nodes have what
// is below them merged. So the events of any span are O(log n) merges away, and an event makes only the nodes above it stale,
// which are merged again when a span next needs them. The form of the tree, and with it what is merged with what, depends on the
// instants alone and not on the order in which they came.
//
//	instants     4  5     6        12          in binary 0100 0101 0110 1100
//	             |--|     |         |
//	             [4,6)----|         |          differ in the last bit, then in the one before,
//	                [4,8)-----------|          then in the first: [0,16)
type instants[A any] struct {
	nodes []instant[A]
	free  []int32
	root  int32
	size  int // leaves
}

// instant is a node. Of a leaf, acc has the events at first, bit is -1.
type instant[A any] struct {
	acc    A
	events int64
	first  uint64 // the earliest instant that can be below, as ordered
	seen   int64  // of a leaf, in the layer of late events: the events that its window had when it fired
	child  [2]int32
	bit    int8 // the first bit in which instants below differ
	stale  bool // acc and events are not of the children; then so are they above
	due    bool // of a leaf: its window waits for the watermark
}

const noInstant = -1

// ordered is a time as a number without a sign, in the same order.
func ordered(t Timestamp) uint64 { return uint64(t) ^ 1<<63 }

func (n *instant[A]) at() Timestamp { return Timestamp(n.first ^ 1<<63) }

// last is the latest instant that can be below.
func (n *instant[A]) last() uint64 { return n.first | (1<<(n.bit+1) - 1) }

// find is the leaf of an instant; nil without one.
func (t *instants[A]) find(at Timestamp) *instant[A] {
	u := ordered(at)
	for i := t.start(); i != noInstant; {
		n := &t.nodes[i]
		switch {
		case u < n.first || u > n.last():
			return nil
		case n.bit < 0:
			return n
		}
		i = n.child[u>>n.bit&1]
	}
	return nil
}

func (t *instants[A]) start() int32 {
	if t.size == 0 {
		return noInstant
	}
	return t.root
}

// change finds or makes the leaf of an instant for a change, after which what is above is stale. The pointer is good until the next change.
func (t *instants[A]) change(at Timestamp) (leaf *instant[A], added bool) {
	u := ordered(at)
	up, side, i := int32(noInstant), uint64(0), t.start()
	for i != noInstant {
		n := &t.nodes[i]
		if u < n.first || u > n.last() {
			break
		}
		if n.bit < 0 {
			return n, false
		}
		n.stale = true
		up, side = i, u>>n.bit&1
		i = n.child[side]
	}
	added, t.size = true, t.size+1
	made := t.make(instant[A]{first: u, bit: -1})
	top := made
	if i != noInstant {
		top = t.branch(made, i)
	}
	if up == noInstant {
		t.root = top
	} else {
		t.nodes[up].child[side] = top
	}
	return &t.nodes[made], added
}

// branch makes the node above two that have no instant in common.
func (t *instants[A]) branch(a, b int32) int32 {
	x, y := t.nodes[a].first, t.nodes[b].first
	if x > y {
		a, b = b, a
	}
	n := instant[A]{bit: int8(bits.Len64(x^y) - 1), stale: true, child: [2]int32{a, b}}
	n.first = x &^ (1<<(n.bit+1) - 1)
	return t.make(n)
}

func (t *instants[A]) make(n instant[A]) int32 {
	if k := len(t.free); k > 0 {
		i := t.free[k-1]
		t.free = t.free[:k-1]
		t.nodes[i] = n
		return i
	}
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// merge adds the events from one instant to another, both included, to into, and returns their number.
func (t *instants[A]) merge(add func(*A, A), from, to Timestamp, into *A) int64 {
	return t.mergeBelow(t.start(), add, ordered(from), ordered(to), into)
}

func (t *instants[A]) mergeBelow(i int32, add func(*A, A), from, to uint64, into *A) int64 {
	if i == noInstant {
		return 0
	}
	n := &t.nodes[i]
	switch {
	case n.last() < from || n.first > to:
		return 0
	case from <= n.first && n.last() <= to:
		t.freshen(n, add)
		add(into, n.acc)
		return n.events
	}
	return t.mergeBelow(n.child[0], add, from, to, into) + t.mergeBelow(n.child[1], add, from, to, into)
}

// freshen merges a stale node's children again. The depth is at most 64.
func (t *instants[A]) freshen(n *instant[A], add func(*A, A)) {
	if !n.stale {
		return
	}
	var zero A
	n.acc, n.events, n.stale = zero, 0, false
	for _, c := range n.child {
		below := &t.nodes[c]
		t.freshen(below, add)
		add(&n.acc, below.acc)
		n.events += below.events
	}
}

// each calls yield with the leaves from one instant to another, both included, in order, until it is false. yield must not change the tree's form.
func (t *instants[A]) each(from, to Timestamp, yield func(*instant[A]) bool) bool {
	return t.eachBelow(t.start(), ordered(from), ordered(to), yield)
}

func (t *instants[A]) eachBelow(i int32, from, to uint64, yield func(*instant[A]) bool) bool {
	if i == noInstant {
		return true
	}
	n := &t.nodes[i]
	switch {
	case n.last() < from || n.first > to:
		return true
	case n.bit < 0:
		return yield(n)
	}
	return t.eachBelow(n.child[0], from, to, yield) && t.eachBelow(n.child[1], from, to, yield)
}

// times appends the instants from one to another, both included, to dst.
func (t *instants[A]) times(from, to Timestamp, dst []Timestamp) []Timestamp {
	t.each(from, to, func(n *instant[A]) bool {
		dst = append(dst, n.at())
		return true
	})
	return dst
}

// end is the time of the first or the last leaf: side 0 or 1. The tree is not empty.
func (t *instants[A]) end(side int) Timestamp {
	n := &t.nodes[t.root]
	for n.bit >= 0 {
		n = &t.nodes[n.child[side]]
	}
	return n.at()
}

// prune drops the instants before one.
func (t *instants[A]) prune(before Timestamp) {
	if t.size == 0 || t.end(0) >= before {
		return
	}
	t.root = t.pruned(t.root, ordered(before))
	if t.size == 0 {
		*t = instants[A]{}
	}
}

func (t *instants[A]) pruned(i int32, before uint64) int32 {
	n := &t.nodes[i]
	switch {
	case n.first >= before:
		return i
	case n.last() < before:
		t.release(i)
		return noInstant
	}
	left, right := t.pruned(n.child[0], before), t.pruned(n.child[1], before)
	if left != noInstant && right != noInstant {
		n.child, n.stale = [2]int32{left, right}, true
		return i
	}
	t.drop(i)
	return max(left, right)
}

func (t *instants[A]) release(i int32) {
	n := &t.nodes[i]
	if n.bit < 0 {
		t.size--
	} else {
		t.release(n.child[0])
		t.release(n.child[1])
	}
	t.drop(i)
}

func (t *instants[A]) drop(i int32) {
	t.nodes[i] = instant[A]{}
	t.free = append(t.free, i)
}
