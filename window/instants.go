package window

import "math/bits"

// instants are the events of a key by their time: one leaf an instant, in a binary tree over the bits of time, whose inner nodes have what
// is below them merged. So the events of any span are O(log n) merges away, and an event makes only the nodes above it stale,
// which are merged again when a span next needs them. A search begins at the leaf that was used last and is O(log d) for one that is d
// instants away, on the whole. The form of the tree, and with it what is merged with what, depends on the instants alone and not
// on the order in which they came.
//
//	instants     4  5     6        12          in binary 0100 0101 0110 1100
//	             |--|     |         |
//	             [4,6)----|         |          differ in the last bit, then in the one before,
//	                [4,8)-----------|          then in the first: [0,16)
//
// Leaves are known by their position in nodes, which is good until they are pruned.
type instants[A any] struct {
	nodes  []instant[A]
	free   []int32
	root   int32
	near   int32 // the leaf used last
	oldest int32
	size   int // leaves; without any the positions mean nothing
}

// instant is a node. Of a leaf, acc has the events at first, bit is -1.
type instant[A any] struct {
	acc    A
	events int64
	first  uint64 // the earliest instant that can be below, as ordered
	seen   int64  // of a leaf, in the layer of late events: the events that its window had when it fired
	child  [2]int32
	up     int32
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

func (n *instant[A]) covers(u uint64) bool { return n.first <= u && u <= n.last() }

// seek goes to the leaf of an instant, or to where it belongs: below up, in the place of i. Either may be noInstant.
func (t *instants[A]) seek(u uint64) (up, i int32) {
	if t.size == 0 {
		return noInstant, noInstant
	}
	i = t.near
	for !t.nodes[i].covers(u) {
		if t.nodes[i].up == noInstant {
			return noInstant, i
		}
		i = t.nodes[i].up
	}
	for up = t.nodes[i].up; ; {
		n := &t.nodes[i]
		if n.bit < 0 || !n.covers(u) {
			return up, i
		}
		up, i = i, n.child[u>>n.bit&1]
	}
}

// find is the leaf of an instant; noInstant without one.
func (t *instants[A]) find(at Timestamp) int32 {
	_, i := t.seek(ordered(at))
	if i == noInstant || t.nodes[i].bit >= 0 || t.nodes[i].at() != at {
		return noInstant
	}
	t.near = i
	return i
}

// change finds or makes the leaf of an instant for a change, after which what is above is stale. The pointer is good until the next change.
func (t *instants[A]) change(at Timestamp) (leaf *instant[A], added bool) {
	u := ordered(at)
	up, i := t.seek(u)
	if i == noInstant || t.nodes[i].first != u || t.nodes[i].bit >= 0 {
		i, added = t.insert(u, up, i), true
	}
	t.near = i
	t.spoil(t.nodes[i].up)
	return &t.nodes[i], added
}

// insert makes a leaf in the place of a node that does not cover it.
func (t *instants[A]) insert(u uint64, up, place int32) int32 {
	leaf := t.make(instant[A]{first: u, bit: -1, up: up})
	if t.size++; place == noInstant {
		t.root, t.oldest = leaf, leaf
		return leaf
	}
	if u < t.nodes[t.oldest].first {
		t.oldest = leaf
	}
	other := t.nodes[place].first
	n := instant[A]{bit: int8(bits.Len64(u^other) - 1), stale: true, up: up, child: [2]int32{place, leaf}}
	if u < other {
		n.child = [2]int32{leaf, place}
	}
	n.first = u &^ (1<<(n.bit+1) - 1)
	branch := t.make(n)
	t.nodes[leaf].up, t.nodes[place].up = branch, branch
	t.replace(up, place, branch)
	t.spoil(up)
	return leaf
}

// replace puts a node in the place of another below up.
func (t *instants[A]) replace(up, old, i int32) {
	switch {
	case up == noInstant:
		t.root = i
	case t.nodes[up].child[0] == old:
		t.nodes[up].child[0] = i
	default:
		t.nodes[up].child[1] = i
	}
}

// spoil makes a node and those above it stale.
func (t *instants[A]) spoil(i int32) {
	for ; i != noInstant && !t.nodes[i].stale; i = t.nodes[i].up {
		t.nodes[i].stale = true
	}
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

func (t *instants[A]) drop(i int32) {
	t.nodes[i] = instant[A]{}
	t.free = append(t.free, i)
}

// next is the leaf behind one; noInstant behind the last.
func (t *instants[A]) next(i int32) int32 {
	for up := t.nodes[i].up; up != noInstant; i, up = up, t.nodes[up].up {
		if right := t.nodes[up].child[1]; right != i {
			return t.edge(right, 0)
		}
	}
	return noInstant
}

// edge is the first or the last leaf below a node: side 0 or 1.
func (t *instants[A]) edge(i int32, side int) int32 {
	for t.nodes[i].bit >= 0 {
		i = t.nodes[i].child[side]
	}
	return i
}

// newest is the latest instant. There is one.
func (t *instants[A]) newest() Timestamp { return t.nodes[t.edge(t.root, 1)].at() }

// prune drops the instants before one.
func (t *instants[A]) prune(before Timestamp) {
	for t.size > 0 && t.nodes[t.oldest].at() < before {
		leaf := t.oldest
		up := t.nodes[leaf].up
		if up == noInstant {
			*t = instants[A]{}
			return
		}
		sibling, above := t.nodes[up].child[1], t.nodes[up].up // the oldest is on the left
		t.oldest = t.edge(sibling, 0)
		if t.near == leaf {
			t.near = t.oldest
		}
		t.replace(above, up, sibling)
		t.nodes[sibling].up = above
		t.spoil(above)
		t.drop(leaf)
		t.drop(up)
		t.size--
	}
}

func (t *instants[A]) start() int32 {
	if t.size == 0 {
		return noInstant
	}
	return t.root
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
func (t *instants[A]) each(from, to Timestamp, yield func(leaf int32) bool) bool {
	return t.eachBelow(t.start(), ordered(from), ordered(to), yield)
}

func (t *instants[A]) eachBelow(i int32, from, to uint64, yield func(leaf int32) bool) bool {
	if i == noInstant {
		return true
	}
	n := &t.nodes[i]
	switch {
	case n.last() < from || n.first > to:
		return true
	case n.bit < 0:
		return yield(i)
	}
	return t.eachBelow(n.child[0], from, to, yield) && t.eachBelow(n.child[1], from, to, yield)
}

// times appends the instants from one to another, both included, to dst.
func (t *instants[A]) times(from, to Timestamp, dst []Timestamp) []Timestamp {
	t.each(from, to, func(i int32) bool {
		dst = append(dst, t.nodes[i].at())
		return true
	})
	return dst
}
