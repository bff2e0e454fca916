package window

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Spill is room outside of memory for what keys have, such as package window/spill's on disk. It is scratch: it need not outlive the
// operator, which has one for itself, and uses ids again. Both methods are called from the goroutine that calls the operator.
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

// part is what a Spill has of a key: one of its windows, where the operator is parted, or else all that it has. When a key has an event, those
// of its windows come back that the event is in, and when windows are due, these.
type part struct {
	start  Timestamp // of its window
	timer  Timestamp // when that is due
	bytes  int64     // that it had in memory
	record uint32
}

// weigh is what parts had in memory.
func weigh(parts []part) (bytes int64) {
	for i := range parts {
		bytes += parts[i].bytes
	}
	return bytes
}

// records numbers what is kept in a Spill. Numbers are used again, so that what is not needed any more is overwritten.
type records struct {
	made uint32
	free []uint32
}

func (r *records) take() uint32 {
	if n := len(r.free); n > 0 {
		last := r.free[n-1]
		r.free = r.free[:n-1]
		return last
	}
	r.made++
	return r.made
}

// rest notes that a key has nothing in memory any more, if so.
func (t *keyTable[K, A]) rest(s *slot[K, A]) {
	if s.spilled && !s.out && len(s.entries) == 0 {
		s.out = true
		t.out++
	}
}

// wake notes that a key will have something in memory.
func (t *keyTable[K, A]) wake(s *slot[K, A]) {
	if s.out {
		s.out = false
		t.out--
	}
}

// abandon forgets a key's parts.
func (t *keyTable[K, A]) abandon(id int32, s *slot[K, A]) {
	if !s.spilled {
		return
	}
	t.wake(s)
	for _, p := range t.parts[id] {
		t.records.free = append(t.records.free, p.record)
	}
	t.keep(id, s, nil)
}

// keep leaves a key so many of its parts.
func (t *keyTable[K, A]) keep(id int32, s *slot[K, A], parts []part) {
	t.memory.parts += int64(len(parts)-len(t.parts[id])) * t.memory.part
	if s.spilled = len(parts) > 0; !s.spilled {
		parts = nil
	}
	t.parts[id] = parts
}

// lookup is the id of an event's key, with its state in memory unless the operator is parted; -1 when there is no room, or after an error.
func (o *Operator[K, V, A, R]) lookup(v V) int32 {
	k := o.key(v)
	id := o.keys.get(k, o.options.MaxKeys)
	if o.options.Spill == nil {
		return id
	}
	if id < 0 {
		if own := o.keys.self(k); o.spillUntil(-1, func() bool { return o.keys.admits(own, o.options.MaxKeys) }) {
			id = o.keys.get(k, o.options.MaxKeys)
		}
	}
	switch {
	case id < 0:
	case o.parted:
		o.keys.wake(o.keys.at(id))
	case !o.load(id):
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
	for n := t.used - t.out; (n > o.options.MaxResident || n > 0 && t.memory.bytes() > t.memory.limit) && o.err == nil; n = t.used - t.out {
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
		if o.keys.used-o.keys.out <= least {
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
	case !s.used || s.out || t.hand == but:
	case s.recent:
		s.recent = false
	case s.empty():
		t.drop(t.hand)
	default:
		o.unload(t.hand, s)
	}
}

// unload moves what a key has in memory out of it. That the key is due stays.
func (o *Operator[K, V, A, R]) unload(id int32, s *slot[K, A]) {
	t := &o.keys
	weight, parts := t.weight(s), t.parts[id]
	if !o.parted {
		p := part{bytes: weight}
		if t.memory.sized() {
			p.bytes += t.memory.extra[id]
		}
		parts = o.write(parts, p, s, s.entries)
	}
	for i := 0; o.parted && i < len(s.entries); i++ {
		e := &s.entries[i]
		p := part{start: e.window.Start, timer: e.timer, bytes: t.memory.window}
		if t.memory.sized() {
			p.bytes += int64(t.sizeOf(e))
		}
		parts = o.write(parts, p, s, s.entries[i:i+1])
	}
	if o.err != nil {
		return
	}
	t.keep(id, s, parts)
	t.memory.windows -= weight
	t.memory.forgetAll(id)
	t.vanish(id, s)
	t.rest(s)
}

// write gives the Spill windows of a key: when they are due, and what a snapshot has of them.
func (o *Operator[K, V, A, R]) write(parts []part, p part, s *slot[K, A], entries []entry[A]) []part {
	w := &o.outside
	w.buf = w.buf[:0]
	w.uint(uint64(len(entries)))
	for i := range entries {
		w.int(int64(entries[i].timer))
	}
	o.encoded = o.snapshotWindows(w, s, entries, o.encoded)
	p.record = o.keys.records.take()
	if err := o.options.Spill.Put(uint64(p.record), w.buf); err != nil {
		o.fail(err)
	}
	return append(parts, p)
}

// vanish clears what a key has in memory.
func (t *keyTable[K, A]) vanish(id int32, s *slot[K, A]) {
	if c := s.cells; c != nil {
		clear(c.list)
		c.list, c.head, c.merged = c.room[:0], 0, nil
	}
	clear(s.entries)
	s.entries, s.trail = t.room(id), nil
}

// load brings all of a key back into memory; false after an error.
func (o *Operator[K, V, A, R]) load(id int32) bool {
	if o.options.Spill == nil {
		return true
	}
	return o.bring(id, o.keys.at(id), func(*part) bool { return true })
}

// bringDue brings back what is due at an instant.
func (o *Operator[K, V, A, R]) bringDue(id int32, at Timestamp) bool {
	if o.options.Spill == nil {
		return true
	}
	return o.bring(id, o.keys.at(id), func(p *part) bool { return !o.parted || p.timer == at })
}

// bringBounds brings back the windows in bounds.
func (o *Operator[K, V, A, R]) bringBounds(id int32, s *slot[K, A]) bool {
	return o.bring(id, s, func(p *part) bool {
		return slices.ContainsFunc(o.bounds, func(w Window) bool { return w.Start == p.start })
	})
}

// bring brings those parts back that are wanted; false after an error.
func (o *Operator[K, V, A, R]) bring(id int32, s *slot[K, A], wanted func(*part) bool) bool {
	if !s.spilled {
		return o.err == nil
	}
	t := &o.keys
	parts, weight := t.parts[id], t.weight(s)
	kept := parts[:0]
	for _, p := range parts {
		if o.err != nil || !wanted(&p) {
			kept = append(kept, p)
			continue
		}
		o.read(id, s, p.record)
		t.records.free = append(t.records.free, p.record)
	}
	if len(kept) < len(parts) {
		t.wake(s)
		t.keep(id, s, kept)
		t.recount(id, s, weight)
	}
	return o.err == nil
}

// read adds what is in a record to what a key has in memory.
func (o *Operator[K, V, A, R]) read(id int32, s *slot[K, A], record uint32) {
	b, err := o.options.Spill.Get(uint64(record), o.outside.buf[:0])
	if err != nil {
		o.fail(err)
		return
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
	had := len(s.entries)
	if err := o.loading.windows(id, s); err != nil {
		o.fail(err)
		return
	}
	if f.bad || len(f.b) > 0 || len(s.entries)-had != len(o.again) {
		o.fail(errSpilled)
		return
	}
	for i, at := range o.again {
		s.entries[had+i].timer = at
	}
	if had > 0 {
		slices.SortFunc(s.entries, func(a, b entry[A]) int { return cmp.Compare(a.window.Start, b.window.Start) })
	}
}

// snapshotSpilled is snapshotWindows for a key of which a Spill has some, and goes on having them.
func (o *Operator[K, V, A, R]) snapshotSpilled(w *snapshotWriter, id int32, s *slot[K, A], acc []byte) []byte {
	resident := slices.Clone(s.entries)
	for _, p := range o.keys.parts[id] {
		if o.err == nil {
			o.read(id, s, p.record)
		}
	}
	if o.err == nil {
		acc = o.snapshotWindows(w, s, s.entries, acc)
	}
	o.keys.vanish(id, s)
	s.entries = append(s.entries, resident...)
	return acc
}
