package window

import "slices"

// keyTable holds the windows of each key. A key without windows stays for a while, since its next event is often near.
type keyTable[K Key, A any] struct {
	index   map[K]int32
	slots   []slot[K, A]
	free    []int32
	inserts int // since the last sweep
}

// slot is one key.
type slot[K Key, A any] struct {
	key     K
	entries []entry[A]
	cells   *cells[A] // of sliding windows that share slices
	last    Timestamp // of its events, for expiry
	expiry  Timestamp // when expiry is looked at; noTimer
	used    bool
	idle    bool // was empty at the last sweep
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

func newKeyTable[K Key, A any]() keyTable[K, A] { return keyTable[K, A]{index: make(map[K]int32)} }

func (s *slot[K, A]) empty() bool { return len(s.entries) == 0 && (s.cells == nil || s.cells.empty()) }

// get finds the key or makes it; it is -1 when max keys have open windows.
func (t *keyTable[K, A]) get(k K, limit int) int32 {
	if id, ok := t.index[k]; ok {
		return id
	}
	if t.inserts++; t.inserts > 2*len(t.index)+1024 {
		t.sweep(false)
	}
	if limit > 0 && len(t.index) >= limit {
		if t.sweep(true); len(t.index) >= limit {
			return -1
		}
	}
	var id int32
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		id = int32(len(t.slots))
		t.slots = append(t.slots, slot[K, A]{})
	}
	s := &t.slots[id]
	s.key, s.used, s.idle, s.last, s.expiry = k, true, false, MinTimestamp, noTimer
	t.index[k] = id
	return id
}

// sweep forgets keys that are empty and were so at the last sweep, or all that are.
func (t *keyTable[K, A]) sweep(all bool) {
	t.inserts = 0
	for i := range t.slots {
		s := &t.slots[i]
		if !s.used {
			continue
		}
		if !s.empty() {
			s.idle = false
			continue
		}
		if !s.idle && !all {
			s.idle = true
			continue
		}
		t.drop(int32(i))
	}
}

func (t *keyTable[K, A]) drop(id int32) {
	s := &t.slots[id]
	delete(t.index, s.key)
	var zero K
	s.key, s.used = zero, false
	t.free = append(t.free, id)
}

// open counts the keys with windows.
func (t *keyTable[K, A]) open() int {
	n := 0
	for i := range t.slots {
		if s := &t.slots[i]; s.used && !s.empty() {
			n++
		}
	}
	return n
}

// sorted are the keys with windows, in order.
func (t *keyTable[K, A]) sorted() []int32 {
	ids := make([]int32, 0, len(t.index))
	for i := range t.slots {
		if s := &t.slots[i]; s.used && !s.empty() {
			ids = append(ids, int32(i))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		x, y := t.slots[a].key, t.slots[b].key
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return ids
}

// clear removes all windows and keeps the room.
func (s *slot[K, A]) clear() {
	clear(s.entries)
	s.entries = s.entries[:0]
}
