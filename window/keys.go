package window

import (
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"unsafe"
)

// keyTable holds the windows of each key. A key without windows stays for a while, since its next event is often near.
//
// What an event costs is cache misses, and those of the table of memory pages, so what it needs is in two places: an open-addressing
// index of eight bytes an entry, and the key's slot, with its first window or its slices behind it. Slots stay where they are, in pages.
type keyTable[K Key, A any] struct {
	index   []uint64 // half of the hash and the id+1 of a slot; 0 is free. The hash's low bits say where.
	hash    func(K) uint32
	pages   []*[pageSize]windowed[K, A] // of consecutive ids
	slices  []*[pageSize]sliced[K, A]   // instead of pages, where keys have slices
	sliced  bool
	used    int
	made    int32    // ids given out so far
	free    []int32  // of these, what is not in use
	inserts int      // since the last sweep
	out     int      // keys that have all their windows out of memory
	hand    int32    // the slot that was looked at last for what is to be
	parts   [][]part // by id, what a Spill has; nil without one
	records records
	gone    []K     // forgotten since the last snapshot, which has them
	vacant  []int32 // slots that had no windows when they came here
	memory  memory[A]

	order   ordering[K]
	stale   []bool // by id, of keys that have slices: what was merged of them is not what they have
	ranks   []ranked
	spare   []ranked
	fetched uint64 // so that fetching is not optimized away
}

const (
	pageBits = 8
	pageSize = 1 << pageBits
)

// windowed is a key with room for its first window.
type windowed[K Key, A any] struct {
	slot[K, A]
	first [1]entry[A]
}

// sliced is a key with its slices.
type sliced[K Key, A any] struct {
	slot[K, A]
	cells cells[A]
}

// slot is one key. What an event needs is last, beside its window.
type slot[K Key, A any] struct {
	last    Timestamp // of its events, for expiry
	expiry  Timestamp // when expiry is looked at; noTimer
	trail   *trail[A] // of PerEvent
	cells   *cells[A] // of sliding windows that share slices; else nil
	key     K
	used    bool
	idle    bool // was empty at the last sweep
	changed bool // since the last snapshot
	saved   bool // the last snapshot has it
	recent  bool // the hand has not passed since its last event
	spilled bool // it has parts
	out     bool // and nothing else
	listed  bool // in vacant
	entries []entry[A]
}

// entry is one window of one key, with its own accumulator.
type entry[A any] struct {
	window  Window
	acc     A
	emitted *A        // the last result, when results are retracted
	events  int64     // in acc
	fresh   int64     // since the last firing
	timer   Timestamp // when it is due to be looked at; noTimer
	early   Timestamp // the next early firing; noTimer
	pending bool      // the watermark has not passed it since its last event
	done    bool      // fired under Trigger.Once
	late    bool      // layer of Deterministic operators with the events that were late
	updated bool      // a session of that layer has such an event
}

// noTimer is no time at which anything is due.
const noTimer = MinTimestamp

func newKeyTable[K Key, A any](sliced bool) keyTable[K, A] {
	return keyTable[K, A]{
		index: make([]uint64, 64), hash: hashOf[K](), sliced: sliced, order: newOrdering[K](), memory: newMemory[K, A](sliced),
	}
}

// hashOf hashes keys with a seed of its own, so that nobody can choose keys that collide. Nothing that is emitted depends on it.
func hashOf[K Key]() func(K) uint32 {
	if reflect.TypeFor[K]().Kind() == reflect.String {
		seed := maphash.MakeSeed()
		return func(k K) uint32 { return uint32(maphash.String(seed, *(*string)(unsafe.Pointer(&k)))) } // K's kind is string
	}
	number, seed := numberOf[K](), rand.Uint64()
	return func(k K) uint32 {
		h := (number(k) ^ seed) * 0x9e3779b97f4a7c15
		h = (h ^ h>>32) * 0xd6e8feb86659fd93
		return uint32(h >> 32)
	}
}

func (t *keyTable[K, A]) at(id int32) *slot[K, A] {
	if t.sliced {
		return &t.slices[id>>pageBits][id&(pageSize-1)].slot
	}
	return &t.pages[id>>pageBits][id&(pageSize-1)].slot
}

func (s *slot[K, A]) empty() bool {
	return !s.spilled && len(s.entries) == 0 && (s.cells == nil || s.cells.empty()) && s.trail.empty()
}

// cells is at(id).cells without a look at the slot.
func (t *keyTable[K, A]) cells(id int32) *cells[A] {
	return &t.slices[id>>pageBits][id&(pageSize-1)].cells
}

// find looks the key up; -1 without it.
func (t *keyTable[K, A]) find(k K) int32 {
	h := t.hash(k)
	mask := uint32(len(t.index) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := t.index[i]
		if e == 0 {
			return -1
		}
		if uint32(e>>32) == h {
			id := int32(uint32(e)) - 1
			if t.at(id).key == k {
				return id
			}
		}
	}
}

// get finds the key or makes it; it is -1 when so many keys have open windows, or the bounds of memory are reached. 0 is no limit of any kind.
func (t *keyTable[K, A]) get(k K, limit int) int32 {
	if id := t.find(k); id >= 0 {
		s := t.at(id)
		s.changed, s.recent = true, true
		return id
	}
	if t.inserts++; t.inserts > 2*t.used+1024 {
		t.sweep()
	}
	own := t.self(k)
	if limit != 0 && !t.admits(own, limit) && (own > t.memory.keyLimit/2 || !t.evict(-1, func() bool { return t.admits(own, limit) })) {
		return -1
	}
	if 4*(t.used+1) > 3*len(t.index) {
		t.grow()
	}
	id := t.take()
	s := t.at(id)
	s.key, s.used, s.idle, s.last, s.expiry, s.changed = k, true, false, MinTimestamp, noTimer, true
	s.recent = true
	t.put(uint64(t.hash(k))<<32 | uint64(id+1))
	t.order.see(k)
	t.used++
	t.memory.keys += own
	return id
}

// admits says whether there is room for one more key of so many bytes, with a window.
func (t *keyTable[K, A]) admits(own int64, limit int) bool {
	m := &t.memory
	return (limit < 0 || t.used < limit) && own <= m.keyLimit/2 && m.keys+own <= m.keysLimit && m.bytes()+own <= m.limit
}

const (
	prefetch = 32      // keys that are fetched from memory at once
	nearKeys = 1 << 11 // so many are near anyway, in the processor's second cache
)

// fetchHashes fetches the keys of some hashes, and what is in their place in the index.
func (t *keyTable[K, A]) fetchHashes(hashes []uint32) {
	mask, n := uint32(len(t.index)-1), uint64(0)
	for _, h := range hashes {
		n += t.index[h&mask]
	}
	var some [prefetch]ranked
	count := 0
	for _, h := range hashes {
		for i := h & mask; t.index[i] != 0; i = (i + 1) & mask {
			if e := t.index[i]; uint32(e>>32) == h {
				some[count].id = int32(uint32(e)) - 1
				count++
				break
			}
		}
	}
	t.fetched = n
	t.fetch(some[:count])
}

// fetch reads a little of each cache line that an event or a result needs of some keys, so that the processor waits for all of them
// together and not for one after the other.
func (t *keyTable[K, A]) fetch(some []ranked) {
	n := 0
	if !t.sliced {
		for _, r := range some {
			s := &t.pages[r.id>>pageBits][r.id&(pageSize-1)]
			e := &s.first[0]
			n += len(s.entries) + int(e.window.Start) + int(e.events) + int(e.early)
		}
	} else {
		for _, r := range some {
			s := &t.slices[r.id>>pageBits][r.id&(pageSize-1)]
			c := &s.cells
			n += len(s.entries) + c.head + int(c.room[0].slice+c.room[inline-1].slice) + int(c.cleaning)
		}
		for _, r := range some { // where they have grown out of their room
			n += int(t.cells(r.id).first())
		}
	}
	t.fetched += uint64(n)
}

func (t *keyTable[K, A]) put(e uint64) {
	mask := uint32(len(t.index) - 1)
	i := uint32(e>>32) & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = e
}

func (t *keyTable[K, A]) grow() {
	old := t.index
	t.index = make([]uint64, 2*len(old))
	for _, e := range old {
		if e != 0 {
			t.put(e)
		}
	}
}

// take is a free slot.
func (t *keyTable[K, A]) take() int32 {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	id := t.made
	if id&(pageSize-1) == 0 {
		t.addPage()
		if t.memory.sized() {
			t.memory.extra = append(t.memory.extra, make([]int64, pageSize)...)
		}
		if t.parts != nil {
			t.parts = append(t.parts, make([][]part, pageSize)...)
		}
	}
	t.made++
	return id
}

func (t *keyTable[K, A]) addPage() {
	if !t.sliced {
		p := new([pageSize]windowed[K, A])
		for i := range p {
			p[i].entries = p[i].first[:0]
		}
		t.pages = append(t.pages, p)
		return
	}
	p := new([pageSize]sliced[K, A])
	for i := range p {
		c := &p[i].cells
		c.list, c.cleaning = c.room[:0], noTimer
		p[i].slot.cells = c
	}
	t.slices = append(t.slices, p)
	t.stale = append(t.stale, make([]bool, pageSize)...)
}

// room is where a key has its first window.
func (t *keyTable[K, A]) room(id int32) []entry[A] {
	if t.sliced {
		return nil
	}
	return t.pages[id>>pageBits][id&(pageSize-1)].first[:0]
}

// sweep forgets keys that are empty and were so at the last sweep.
func (t *keyTable[K, A]) sweep() {
	t.inserts = 0
	for id := range t.made {
		s := t.at(id)
		if !s.used {
			continue
		}
		if !s.empty() {
			s.idle = false
			continue
		}
		if !s.idle {
			s.idle = true
			continue
		}
		t.drop(id)
	}
}

// drop forgets a key. What follows it in the index moves up, so that it is still found.
func (t *keyTable[K, A]) drop(id int32) {
	s := t.at(id)
	mask := uint32(len(t.index) - 1)
	i := t.hash(s.key) & mask
	for int32(uint32(t.index[i]))-1 != id {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		if home := uint32(t.index[j]>>32) & mask; (j-home)&mask >= (j-i)&mask {
			t.index[i], i = t.index[j], j
		}
	}
	t.index[i] = 0
	t.used--
	t.abandon(id, s)
	if s.saved {
		t.gone = append(t.gone, s.key)
	}
	t.memory.keys -= t.self(s.key)
	t.memory.windows -= t.weight(s)
	t.memory.forgetAll(id)
	s.clear()
	var zero K
	s.key, s.used, s.saved = zero, false, false
	t.free = append(t.free, id)
}

// open counts the keys with windows.
func (t *keyTable[K, A]) open() int {
	n := 0
	for id := range t.made {
		if s := t.at(id); s.used && !s.empty() {
			n++
		}
	}
	return n
}

// sorted are the keys with windows, or of these the ones that have changed, in order.
func (t *keyTable[K, A]) sorted(changed bool) []int32 {
	ids := make([]int32, 0, t.used)
	for id := range t.made {
		if s := t.at(id); s.used && !s.empty() && (s.changed || !changed) {
			ids = append(ids, id)
		}
	}
	ranks := t.inOrder(ids)
	for i := range ranks {
		ids[i] = ranks[i].id
	}
	return ids
}

// lost are the keys that the last snapshot has and that have nothing any more.
func (t *keyTable[K, A]) lost() []K {
	var keys []K
	for _, k := range t.gone {
		if id := t.find(k); id < 0 || t.at(id).empty() {
			keys = append(keys, k)
		}
	}
	for id := range t.made {
		if s := t.at(id); s.used && s.saved && s.empty() {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// save notes that all that is there is in a snapshot.
func (t *keyTable[K, A]) save() {
	t.gone = nil
	for id := range t.made {
		if s := t.at(id); s.used {
			s.changed, s.saved = false, !s.empty()
		}
	}
}

// clear removes all windows and keeps the room.
func (s *slot[K, A]) clear() {
	clear(s.entries)
	s.entries = s.entries[:0]
	if s.cells != nil {
		s.cells.clear()
	}
	s.trail = nil
}
