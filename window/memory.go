package window

import (
	"math"
	"unsafe"
)

// memory counts the bytes that keys and their windows have, by the rule of Options.MaxBytes: from what is there alone and not from how it
// came, so that a restored operator counts the same.
type memory[A any] struct {
	key, window, slice, instant, arrival int64        // of one, with what goes with it
	part                                 int64        // of one that a Spill has
	limit, keyLimit                      int64        // math.MaxInt64 is no bound
	keysLimit                            int64        // of keys alone
	keys                                 int64        // that they have without windows
	windows                              int64        // with accumulators
	parts                                int64        // where their windows are, when a Spill has them
	referred                             int64        // of what the accumulators refer to
	size                                 func(*A) int // nil where they refer to nothing
	extra                                []int64      // by id, its part of referred
}

const (
	indexBytes    = 24  // of a key in the index, as full as it is on average
	timerBytes    = 16  // of a window
	carriageBytes = 128 // of a key with slices, in what is passed on from window to window
)

func newMemory[K Key, A any](sliced bool) memory[A] {
	m := memory[A]{
		key:     int64(unsafe.Sizeof(slot[K, A]{})) + indexBytes,
		window:  3*int64(unsafe.Sizeof(entry[A]{}))/2 + timerBytes, // lists have room for half as much more, on average
		slice:   2*int64(unsafe.Sizeof(cell[A]{})) + timerBytes,    // with a merge that has it
		instant: 3*int64(unsafe.Sizeof(instant[A]{})) + timerBytes, // with a node above it, and room for more
		arrival: int64(unsafe.Sizeof(arrival[A]{})),
		part:    3*int64(unsafe.Sizeof(part{}))/2 + timerBytes,
		limit:   math.MaxInt64, keyLimit: math.MaxInt64, keysLimit: math.MaxInt64,
	}
	if sliced {
		m.key += int64(unsafe.Sizeof(cells[A]{})) + carriageBytes
	}
	return m
}

// bound gives it the operator's bounds.
func (o *Operator[K, V, A, R]) bound(m *memory[A]) {
	if o.options.MaxBytes > 0 {
		m.limit, m.keysLimit = o.options.MaxBytes, o.options.MaxBytes
		if o.options.Spill != nil { // so that many keys have windows in memory
			m.keysLimit = o.options.MaxBytes / 2
		}
	}
	if o.options.Spill != nil {
		m.key += int64(unsafe.Sizeof([]part{}))
	}
	if o.options.MaxKeyBytes > 0 {
		m.keyLimit = o.options.MaxKeyBytes
	}
	if o.assigner.kind == perEvent {
		m.key += int64(unsafe.Sizeof(trail[A]{}))
	}
	if o.options.Accumulation == Retracting {
		m.window += int64(unsafe.Sizeof(o.scratch))
	}
	if s, ok := any(o.aggregate).(Sizer[A]); ok {
		m.size = s.Sizer()
	}
}

func (m *memory[A]) bytes() int64 { return m.keys + m.windows + m.referred + m.parts }

// sized says whether accumulators refer to memory of their own.
func (m *memory[A]) sized() bool { return m.size != nil }

// grow notes that what a key's accumulators refer to is so much more.
func (m *memory[A]) grow(id int32, bytes int) {
	m.extra[id] += int64(bytes)
	m.referred += int64(bytes)
}

// forget notes that an accumulator goes.
func (m *memory[A]) forget(id int32, acc *A) {
	if m.size != nil {
		m.grow(id, -m.size(acc))
	}
}

// forgetAll notes that all accumulators of a key go.
func (m *memory[A]) forgetAll(id int32) {
	if m.size != nil {
		m.grow(id, -int(m.extra[id]))
	}
}

// put adds an event to an accumulator of a key.
func (o *Operator[K, V, A, R]) put(id int32, acc *A, v V) {
	m := &o.keys.memory
	if m.size == nil {
		o.aggregate.Add(acc, v)
		return
	}
	before := m.size(acc)
	o.aggregate.Add(acc, v)
	m.grow(id, m.size(acc)-before)
}

// merge merges an accumulator into one of a key.
func (o *Operator[K, V, A, R]) merge(id int32, into *A, from A) {
	m := &o.keys.memory
	if m.size == nil {
		o.aggregate.Merge(into, from)
		return
	}
	before := m.size(into)
	o.aggregate.Merge(into, from)
	m.grow(id, m.size(into)-before)
}

// self is what a key has without windows.
func (t *keyTable[K, A]) self(k K) int64 {
	if t.order.number != nil {
		return t.memory.key
	}
	return t.memory.key + int64(len(*(*string)(unsafe.Pointer(&k)))) // K's kind is string
}

// weight is what a key's windows have, without what accumulators refer to.
func (t *keyTable[K, A]) weight(s *slot[K, A]) int64 {
	m := &t.memory
	n := m.window * int64(len(s.entries))
	if s.cells != nil {
		n += m.slice * int64(len(s.cells.live()))
	}
	if s.trail != nil {
		for i := range s.trail.layers {
			l := &s.trail.layers[i]
			n += m.instant*int64(l.instants.size) + m.arrival*int64(len(l.waiting))
		}
	}
	return n
}

// account notes what has become of a key's windows, which had the weight before.
func (t *keyTable[K, A]) account(id int32, s *slot[K, A], before int64) {
	t.memory.windows += t.weight(s) - before
	if s.empty() {
		t.vacate(id, s)
	}
}

// vacate notes that a key has no windows, so that it makes room when others need it.
func (t *keyTable[K, A]) vacate(id int32, s *slot[K, A]) {
	if !s.listed && s.used {
		s.listed = true
		t.vacant = append(t.vacant, id)
	}
}

// evict drops keys without windows, but for one, until there is room or none is left.
func (t *keyTable[K, A]) evict(but int32, room func() bool) bool {
	kept := false
	for !room() {
		n := len(t.vacant)
		if n == 0 {
			break
		}
		id := t.vacant[n-1]
		t.vacant = t.vacant[:n-1]
		if id == but {
			kept = true
			continue
		}
		s := t.at(id)
		s.listed = false
		if s.used && s.empty() {
			t.drop(id)
		}
	}
	if kept {
		t.vacant = append(t.vacant, but)
	}
	return room()
}

// recount makes memory what the windows of a key have that was read, or of which some were: they had the weight before.
func (t *keyTable[K, A]) recount(id int32, s *slot[K, A], before int64) {
	t.memory.windows += t.weight(s) - before
	if !t.memory.sized() {
		return
	}
	t.memory.forgetAll(id)
	sum := 0
	for i := range s.entries {
		sum += t.sizeOf(&s.entries[i])
	}
	if s.cells != nil {
		live := s.cells.live()
		for i := range live {
			sum += t.memory.size(&live[i].acc)
		}
	}
	if s.trail != nil {
		for i := range s.trail.layers {
			l := &s.trail.layers[i]
			l.instants.each(MinTimestamp, MaxTimestamp, func(i int32) bool {
				sum += t.memory.size(&l.instants.nodes[i].acc)
				return true
			})
			for j := range l.waiting {
				sum += t.memory.size(&l.waiting[j].acc)
			}
		}
	}
	t.memory.grow(id, sum)
}

func (t *keyTable[K, A]) sizeOf(e *entry[A]) int {
	n := t.memory.size(&e.acc)
	if e.emitted != nil {
		n += t.memory.size(e.emitted)
	}
	return n
}

// forgetEntry notes that a window goes.
func (t *keyTable[K, A]) forgetEntry(id int32, e *entry[A]) {
	if t.memory.sized() {
		t.memory.grow(id, -t.sizeOf(e))
	}
}

// ample says at a glance that neither a key of so many bytes nor so many more in all come near to a bound. It says no to accumulators that grow.
func (m *memory[A]) ample(own, more int64) bool {
	return m.size == nil && own < m.keyLimit/4 && m.bytes()+more <= m.limit // besides, the key has half, and entries beside slices
}

// opened notes so many windows more.
func (m *memory[A]) opened(n int) { m.windows += m.window * int64(n) }

// fits says whether a key may have so many bytes more. Where it seems that all keys together may not, those without windows make room, and
// with a Spill others that have some.
func (o *Operator[K, V, A, R]) fits(id int32, s *slot[K, A], bytes int64) bool {
	t := &o.keys
	m := &t.memory
	if bytes == 0 && m.size == nil {
		return true
	}
	if m.keyLimit < math.MaxInt64 {
		own := t.self(s.key) + t.weight(s)
		if m.size != nil {
			own += m.extra[id]
		}
		if s.spilled {
			own += weigh(t.parts[id])
		}
		if own+bytes > m.keyLimit {
			return false
		}
	}
	if m.bytes()+bytes <= m.limit {
		return true
	}
	room := func() bool { return m.bytes()+bytes <= m.limit }
	return t.evict(id, room) || o.spillUntil(id, room)
}

// refuse is the outcome of an event for which a key has no room. The key may be new.
func (o *Operator[K, V, A, R]) refuse(id int32) Outcome {
	if s := o.keys.at(id); s.empty() {
		o.keys.vacate(id, s)
	}
	return Refused
}

// Bytes is how much memory the keys and their windows have, as Options.MaxBytes counts it. Keys without windows that are kept for their next
// event are in it; they make room where it is needed.
func (o *Operator[K, V, A, R]) Bytes() int64 { return o.keys.memory.bytes() }
