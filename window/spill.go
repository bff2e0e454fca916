package window

import (
	"errors"
	"fmt"
)

// Spill is room outside of memory for what keys have, such as package window/spill's on disk. It is scratch: it need not outlive the
// operator, which has one for itself. Both methods are called from the goroutine that calls the operator.
type Spill interface {
	// Put keeps state under id, in place of what was there. It does not keep the slice.
	Put(id uint64, state []byte) error
	// Get appends to dst what Put was last given for id.
	Get(id uint64, dst []byte) ([]byte, error)
}

// errSpilled says that what came back from a Spill is not what it was given.
var errSpilled = errors.New("malformed state")

// Err is what ended the operator, if anything has: an error of Options.Spill. It is then to be thrown away, and another restored from the
// last snapshot; Process, Snapshot and SnapshotChanges return the error too.
func (o *Operator[K, V, A, R]) Err() error { return o.err }

func (o *Operator[K, V, A, R]) fail(err error) bool {
	if o.err == nil {
		o.err = fmt.Errorf("window: spill: %w", err)
	}
	return false
}

// lookup is the id of an event's key, with its state in memory; -1 when there is no room, or after an error.
func (o *Operator[K, V, A, R]) lookup(v V) int32 {
	k := o.key(v)
	id := o.keys.get(k, o.options.MaxKeys)
	if id < 0 && o.options.Spill != nil {
		if own := o.keys.self(k); o.spillUntil(-1, func() bool { return o.keys.admits(own, o.options.MaxKeys) }) {
			id = o.keys.get(k, o.options.MaxKeys)
		}
	}
	if id >= 0 && !o.load(id) {
		return -1
	}
	return id
}

// spill moves keys out of memory, those first that have had no event for longest, as a clock's hand goes round.
func (o *Operator[K, V, A, R]) spill() {
	if o.options.Spill == nil {
		return
	}
	t := &o.keys
	for n := t.used - t.spilled; (n > o.options.MaxResident || n > 0 && t.memory.bytes() > t.memory.limit) && o.err == nil; n = t.used - t.spilled {
		o.spillNext(-1)
	}
}

// spillUntil moves keys out of memory, but for one, until there is room or all are.
func (o *Operator[K, V, A, R]) spillUntil(but int32, room func() bool) bool {
	least := 0
	if but >= 0 {
		least = 1
	}
	for o.options.Spill != nil && o.err == nil && !room() {
		if o.keys.used-o.keys.spilled <= least {
			return false
		}
		o.spillNext(but)
	}
	return o.options.Spill != nil && o.err == nil
}

// spillNext moves the hand on by one key.
func (o *Operator[K, V, A, R]) spillNext(but int32) {
	t := &o.keys
	if t.hand++; t.hand >= t.made {
		t.hand = 0
	}
	s := t.at(t.hand)
	switch {
	case !s.used || s.spilled || t.hand == but:
	case s.recent:
		s.recent = false
	case s.empty():
		t.drop(t.hand)
	default:
		o.unload(t.hand, s)
	}
}

// unload moves a key out of memory: when its windows are due, and what a snapshot has of it. That the key is due stays.
func (o *Operator[K, V, A, R]) unload(id int32, s *slot[K, A]) {
	w := &o.outside
	w.buf = w.buf[:0]
	w.uint(uint64(len(s.entries)))
	for i := range s.entries {
		w.int(int64(s.entries[i].timer))
	}
	o.encoded = o.snapshotState(w, s, o.encoded)
	if err := o.options.Spill.Put(uint64(id), w.buf); err != nil {
		o.fail(err)
		return
	}
	o.keys.memory.windows -= o.keys.weight(s)
	o.keys.memory.forgetAll(id)
	if c := s.cells; c != nil {
		clear(c.list)
		c.list, c.head, c.merged = c.room[:0], 0, nil
	}
	clear(s.entries)
	s.entries, s.trail = o.keys.room(id), nil
	s.spilled = true
	o.keys.spilled++
}

// load brings a key back into memory, if it is not there; false after an error.
func (o *Operator[K, V, A, R]) load(id int32) bool {
	s := o.keys.at(id)
	if !s.spilled {
		return o.err == nil
	}
	timers, ok := o.read(id)
	if !ok {
		return false
	}
	s.spilled = false
	o.keys.spilled--
	if err := o.loading.state(id, s); err != nil {
		return o.fail(err)
	}
	if o.loading.f.bad || len(o.loading.f.b) > 0 || len(timers) != len(s.entries) {
		return o.fail(errSpilled)
	}
	for i := range s.entries {
		s.entries[i].timer = timers[i]
	}
	o.keys.recount(id, s)
	return true
}

// read reads what unload wrote up to the state, which is then what loading has.
func (o *Operator[K, V, A, R]) read(id int32) (timers []Timestamp, ok bool) {
	b, err := o.options.Spill.Get(uint64(id), o.outside.buf[:0])
	if err != nil {
		return nil, o.fail(err)
	}
	o.outside.buf = b
	if o.loading == nil {
		o.loading = &restoring[K, V, A, R]{operator: o, watermark: MinTimestamp, version: snapshotVersion, loads: true}
	}
	f := &o.loading.f
	*f = frame{b: b}
	o.again = o.again[:0]
	for n := f.uint(); n > 0 && !f.bad; n-- {
		o.again = append(o.again, Timestamp(f.int()))
	}
	if f.bad {
		return nil, o.fail(errSpilled)
	}
	return o.again, true
}
