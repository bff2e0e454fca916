package window

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// trail is what one key has of PerEvent windows. A deterministic operator that allows lateness has a second layer, with the events that
// were late: a window fires from the first layer when the watermark passes it and, where the second has more, from that when
// nothing can come for it any more.
type trail[A any] struct {
	layers   [2]layer[A]
	cleaning Timestamp // when what is over is dropped; noTimer
}

// layer has the events that windows which are due next may see.
type layer[A any] struct {
	instants instants[A]
	waiting  []arrival[A] // of deterministic operators, by from
	sweep    sweep[A]
}

// arrival is an event that counts in windows that end at from or later, since it was late for those before.
type arrival[A any] struct {
	from, at Timestamp
	acc      A
}

// sweep has the instants of the window that fired last, merged. The next window is a few instants more and a few less, which is cheaper
// than the tree for an aggregate that can remove.
type sweep[A any] struct {
	from, to    Timestamp
	first, last int32 // leaves
	acc         A
	events      int64
	valid       bool
}

func (r *sweep[A]) has(at Timestamp) bool { return r.valid && r.from <= at && at <= r.to }

func (l *layer[A]) empty() bool { return l.instants.size == 0 && len(l.waiting) == 0 }

func (t *trail[A]) empty() bool { return t == nil || t.layers[0].empty() && t.layers[1].empty() }

// newest is the time of the latest event. There is one.
func (t *trail[A]) newest() Timestamp {
	at := MinTimestamp
	for i := range t.layers {
		l := &t.layers[i]
		if l.instants.size > 0 {
			at = max(at, l.instants.newest())
		}
		for _, w := range l.waiting {
			at = max(at, w.at)
		}
	}
	return at
}

// trailing is the window that ends with an event at that instant.
func (a Assigner) trailing(at Timestamp) Window { return Window{at.Add(-a.size), at.Add(1)} }

// layers is how many layers keys have.
func (o *Operator[K, V, A, R]) layers() int {
	if o.options.Deterministic && o.options.AllowedLateness > 0 {
		return 2
	}
	return 1
}

// delay is how long after a window a layer fires.
func (o *Operator[K, V, A, R]) delay(layer int) time.Duration {
	return time.Duration(layer) * o.options.AllowedLateness
}

// over is when no window can need an instant any more.
func (o *Operator[K, V, A, R]) over(at Timestamp) Timestamp {
	return at.Add(o.assigner.size).Add(o.options.AllowedLateness)
}

// intoTrail puts an event into the windows that end with it and with those up to size later, whether these have come or not.
func (o *Operator[K, V, A, R]) intoTrail(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	if o.over(t) <= o.now {
		return Late
	}
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	s := o.keys.at(id)
	before := o.keys.weight(s)
	outcome := o.place(id, s, t, v, emit)
	o.cleanTrail(id, s)
	o.keys.account(id, s, before)
	return outcome
}

func (o *Operator[K, V, A, R]) place(id int32, s *slot[K, A], t Timestamp, v V, emit func(Result[K, R])) Outcome {
	if s.trail == nil {
		s.trail = &trail[A]{cleaning: noTimer}
	}
	if o.options.Trigger.NoWatermark {
		o.pruneTrail(id, s.trail, o.marks.combined)
	}
	if !o.roomAt(id, s, t) {
		return Refused
	}
	switch {
	case o.options.Deterministic:
		for i := range o.layers() {
			if from := o.now.Add(1).Add(-o.delay(i)); from <= t {
				o.placeOnTime(id, s.trail, i, t, v)
			} else if from <= t.Add(o.assigner.size) {
				o.placeFrom(id, &s.trail.layers[i], from, t, v)
			}
		}
	case t > o.marks.combined || o.options.Trigger.NoWatermark:
		o.placeOnTime(id, s.trail, 0, t, v)
	default:
		o.placeLate(id, s, t, v, emit)
	}
	return Accepted
}

// roomAt says whether the key may have one more instant. If it seems not, what is over makes room.
func (o *Operator[K, V, A, R]) roomAt(id int32, s *slot[K, A], t Timestamp) bool {
	limit, l, m := o.options.MaxWindowsPerKey, &s.trail.layers[o.layers()-1], &o.keys.memory
	if n := int64(l.instants.size+len(l.waiting)) + 1; (limit < 0 || n <= int64(limit)) && m.ample(2*n*m.instant, 2*m.instant) {
		return true
	}
	return o.roomFor(id, s, l, t) || o.pruneFor(id, s, l, t)
}

func (o *Operator[K, V, A, R]) roomFor(id int32, s *slot[K, A], l *layer[A], t Timestamp) bool {
	limit := o.options.MaxWindowsPerKey
	if l.instants.find(t) != noInstant {
		return o.fits(id, s, 0)
	}
	return (limit < 0 || l.instants.size+len(l.waiting) < limit) && o.fits(id, s, int64(o.layers())*o.keys.memory.instant)
}

// pruneFor is roomFor when what is over has made room.
func (o *Operator[K, V, A, R]) pruneFor(id int32, s *slot[K, A], l *layer[A], t Timestamp) bool {
	before := o.keys.weight(s)
	o.pruneTrail(id, s.trail, o.marks.combined)
	return o.keys.weight(s) < before && o.roomFor(id, s, l, t)
}

// placeOnTime adds an event that is on time for the layer.
func (o *Operator[K, V, A, R]) placeOnTime(id int32, tr *trail[A], i int, t Timestamp, v V) {
	leaf, _ := tr.layers[i].instants.change(t)
	o.put(id, &leaf.acc, v)
	leaf.events++
	if !leaf.due && !o.options.Trigger.NoWatermark {
		leaf.due = true
		o.timers.add(t.Add(o.delay(i)), id)
	}
}

// placeFrom adds an event for windows from one on.
func (o *Operator[K, V, A, R]) placeFrom(id int32, l *layer[A], from, t Timestamp, v V) {
	pos, _ := slices.BinarySearchFunc(l.waiting, from+1, func(w arrival[A], from Timestamp) int { return cmp.Compare(w.from, from) })
	l.waiting = slices.Insert(l.waiting, pos, arrival[A]{from: from, at: t})
	o.put(id, &l.waiting[pos].acc, v)
}

// placeLate adds an event behind the watermark, and fires again the windows that have fired without it, its own among them.
func (o *Operator[K, V, A, R]) placeLate(id int32, s *slot[K, A], t Timestamp, v V, emit func(Result[K, R])) {
	l := &s.trail.layers[0]
	_, added := l.instants.change(t)
	from, to := o.now.Add(-o.options.AllowedLateness).Add(1), min(t.Add(o.assigner.size), o.marks.combined)
	again := l.instants.times(max(t, from), to, o.again[:0])
	o.again = again[:0]
	var old []R
	if o.options.Accumulation == Retracting {
		for _, at := range again {
			o.mergeTrail(l, at)
			old = append(old, o.aggregate.Result(&o.scratch))
		}
	}
	leaf, _ := l.instants.change(t)
	o.put(id, &leaf.acc, v)
	leaf.events++
	if l.sweep.has(t) {
		o.aggregate.Add(&l.sweep.acc, v)
		l.joined()
	}
	for i, at := range again {
		if old != nil && (!added || at != t) {
			o.emit(Result[K, R]{o.assigner.trailing(at), s.key, old[i], Retraction}, emit)
		}
		o.mergeTrail(l, at)
		o.emit(Result[K, R]{o.assigner.trailing(at), s.key, o.aggregate.Result(&o.scratch), Updated}, emit)
	}
}

// joined notes an event in the sweep, whose leaf was changed just now.
func (l *layer[A]) joined() {
	t, r := &l.instants, &l.sweep
	r.events++
	if t.nodes[t.near].first < t.nodes[r.first].first {
		r.first = t.near
	}
}

// mergeTrail makes the scratch accumulator that of a window, and returns the number of its events.
func (o *Operator[K, V, A, R]) mergeTrail(l *layer[A], at Timestamp) int64 {
	var zero A
	o.scratch = zero
	return l.instants.merge(o.aggregate.Merge, at.Add(-o.assigner.size), at, &o.scratch)
}

// fireTrails looks at the keys that are due at an instant. Updates are of earlier windows than what fires for the first time.
func (o *Operator[K, V, A, R]) fireTrails(at Timestamp, ids []int32, emit func(Result[K, R])) {
	due := slices.CompactFunc(o.keys.inOrder(ids), func(a, b ranked) bool { return a.id == b.id })
	for _, d := range due {
		if !o.load(d.id) {
			return
		}
	}
	for i := o.layers() - 1; i >= 0; i-- {
		for _, d := range due {
			if s := o.keys.at(d.id); s.trail != nil {
				o.fireLayer(d.id, s, i, at, emit)
			}
		}
	}
	for _, d := range due {
		s := o.keys.at(d.id)
		if s.trail == nil {
			continue
		}
		s.changed = true
		before := o.keys.weight(s)
		o.pruneTrail(d.id, s.trail, at)
		if s.trail.cleaning <= at {
			s.trail.cleaning = noTimer
		}
		o.cleanTrail(d.id, s)
		o.keys.account(d.id, s, before)
	}
}

// fireLayer fires the windows of a key that a layer has due at an instant: one, but many at the end of time.
func (o *Operator[K, V, A, R]) fireLayer(id int32, s *slot[K, A], i int, at Timestamp, emit func(Result[K, R])) {
	l := &s.trail.layers[i]
	o.again = append(o.again[:0], at.Add(-o.delay(i)))
	if at == MaxTimestamp { // where delays end, whatever they began with
		o.again = l.instants.times(o.again[0], at, o.again[:0])
	}
	for _, t := range o.again {
		leaf := l.instants.find(t)
		if leaf == noInstant || !l.instants.nodes[leaf].due {
			continue
		}
		l.instants.nodes[leaf].due = false
		o.admit(id, s, l, t)
		acc, events := o.slide(l, leaf)
		kind := OnTime
		if i > 0 {
			if kind = Updated; events == l.instants.nodes[leaf].seen {
				continue
			}
		} else if late := &s.trail.layers[1].instants; late.find(t) != noInstant {
			late.nodes[late.near].seen = events
		}
		o.emit(Result[K, R]{o.assigner.trailing(t), s.key, o.aggregate.Result(acc), kind}, emit)
	}
}

// admit adds to a layer the events that were late only for windows before this one.
func (o *Operator[K, V, A, R]) admit(id int32, s *slot[K, A], l *layer[A], at Timestamp) {
	n, before := 0, o.keys.weight(s)
	for ; n < len(l.waiting) && l.waiting[n].from <= at; n++ {
		w := &l.waiting[n]
		leaf, _ := l.instants.change(w.at)
		o.merge(id, &leaf.acc, w.acc)
		o.keys.memory.forget(id, &w.acc)
		leaf.events++
		if l.sweep.has(w.at) {
			o.aggregate.Merge(&l.sweep.acc, w.acc)
			l.joined()
		}
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	o.keys.account(id, s, before)
}

// slide is the merge of the window that ends with a leaf and fires after the ones before it, and the number of its events.
func (o *Operator[K, V, A, R]) slide(l *layer[A], leaf int32) (*A, int64) {
	t, r := &l.instants, &l.sweep
	at := t.nodes[leaf].at()
	from := at.Add(-o.assigner.size)
	if o.remove == nil {
		n := o.mergeTrail(l, at)
		return &o.scratch, n
	}
	if r.valid && r.to < at && from <= r.to && o.moveStart(l, from) {
		for r.last != leaf {
			r.last = t.next(r.last)
			o.aggregate.Merge(&r.acc, t.nodes[r.last].acc)
			r.events += t.nodes[r.last].events
		}
		r.to = at
		return &r.acc, r.events
	}
	*r = sweep[A]{from: from, to: at, last: leaf, valid: true}
	r.events = t.merge(o.aggregate.Merge, from, at, &r.acc)
	t.each(from, at, func(i int32) bool {
		r.first = i
		return false
	})
	return &r.acc, r.events
}

// moveStart takes the instants before from out of the sweep, which reaches so far. False says that the aggregate cannot.
func (o *Operator[K, V, A, R]) moveStart(l *layer[A], from Timestamp) bool {
	t, r := &l.instants, &l.sweep
	for r.valid && t.nodes[r.first].at() < from {
		n := &t.nodes[r.first]
		r.events -= n.events
		r.valid = o.remove(&r.acc, n.acc)
		r.first = t.next(r.first)
	}
	r.from = max(r.from, from)
	return r.valid
}

// pruneTrail drops what no window after a watermark needs.
func (o *Operator[K, V, A, R]) pruneTrail(id int32, tr *trail[A], watermark Timestamp) {
	for i := range o.layers() {
		l := &tr.layers[i]
		before := o.keptFrom(watermark)
		if i < o.layers()-1 { // its windows have fired; late events are for the other
			before = before.Add(o.options.AllowedLateness)
		}
		if l.sweep.valid = l.sweep.valid && before <= l.sweep.to; l.sweep.valid {
			o.moveStart(l, before)
		}
		if o.keys.memory.sized() && before > MinTimestamp {
			l.instants.each(MinTimestamp, before.Add(-1), func(leaf int32) bool {
				o.keys.memory.forget(id, &l.instants.nodes[leaf].acc)
				return true
			})
		}
		l.instants.prune(before)
		l.waiting = slices.DeleteFunc(l.waiting, func(w arrival[A]) bool {
			if w.at < before {
				o.keys.memory.forget(id, &w.acc)
			}
			return w.at < before
		})
	}
}

// keptFrom is the earliest instant that windows need after a watermark.
func (o *Operator[K, V, A, R]) keptFrom(watermark Timestamp) Timestamp {
	if watermark == MaxTimestamp {
		return watermark
	}
	return watermark.Add(-o.assigner.size).Add(-o.options.AllowedLateness).Add(1)
}

// cleanTrail sees to it that what a key has is dropped in the end.
func (o *Operator[K, V, A, R]) cleanTrail(id int32, s *slot[K, A]) {
	switch t := s.trail; {
	case t.empty():
		s.trail = nil
	case t.cleaning == noTimer:
		t.cleaning = o.over(t.newest())
		o.timers.add(t.cleaning, id)
	}
}

// Query is the value of a key's events in a window that ends at any time, ahead of the watermark too, of those that have come so far: what
// a prediction at that time can know. Without events it is the result of an empty accumulator. It is for PerEvent without Deterministic; false is
// for other operators, after an error of a Spill, and for a window that begins before the events that are kept: those of the last size + AllowedLateness behind
// the watermark.
func (o *Operator[K, V, A, R]) Query(k K, w Window) (R, bool) {
	var zero A
	var none R
	o.scratch = zero
	if o.assigner.kind != perEvent || o.options.Deterministic || w.Start < o.keptFrom(o.marks.combined) {
		return none, false
	}
	if id := o.keys.find(k); id >= 0 && w.Start < w.End {
		if !o.load(id) {
			return none, false
		}
		if t := o.keys.at(id).trail; t != nil {
			t.layers[0].instants.merge(o.aggregate.Merge, w.Start, w.last(), &o.scratch)
		}
		o.spill()
	}
	return o.aggregate.Result(&o.scratch), true
}

// instantDue is a flag of an instant in a snapshot.
const instantDue = 1

// snapshotTrail writes what a key of PerEvent has: for each layer, its instants and what waits.
func (o *Operator[K, V, A, R]) snapshotTrail(w *snapshotWriter, t *trail[A], acc []byte) []byte {
	for i := range o.layers() {
		l := &t.layers[i]
		w.uint(uint64(l.instants.size))
		l.instants.each(MinTimestamp, MaxTimestamp, func(i int32) bool {
			n := &l.instants.nodes[i]
			w.int(int64(n.at()))
			w.int(n.events)
			w.int(n.seen)
			w.uint(flag(n.due, instantDue))
			acc = o.aggregate.Append(acc[:0], &n.acc)
			w.bytes(acc)
			return true
		})
		w.uint(uint64(len(l.waiting)))
		for j := range l.waiting {
			w.int(int64(l.waiting[j].from))
			w.int(int64(l.waiting[j].at))
			acc = o.aggregate.Append(acc[:0], &l.waiting[j].acc)
			w.bytes(acc)
		}
	}
	return acc
}

// trail reads what snapshotTrail wrote.
func (s *restoring[K, V, A, R]) trail(id int32, slot *slot[K, A]) error {
	o := s.operator
	slot.trail = &trail[A]{cleaning: noTimer}
	for i := range o.layers() {
		l := &slot.trail.layers[i]
		for n := s.f.uint(); n > 0 && !s.f.bad; n-- {
			if err := s.instant(id, l, o.delay(i)); err != nil {
				return err
			}
		}
		for n := s.f.uint(); n > 0 && !s.f.bad; n-- {
			w := arrival[A]{from: Timestamp(s.f.int()), at: Timestamp(s.f.int())}
			if k := len(l.waiting); w.from <= w.at || !inTime(w.at) || k > 0 && w.from < l.waiting[k-1].from {
				s.f.bad = true
				return nil
			}
			if err := s.decode(&w.acc); err != nil {
				return err
			}
			l.waiting = append(l.waiting, w)
		}
	}
	if s.version > 1 && !s.f.bad {
		if slot.trail.cleaning = Timestamp(s.f.int()); slot.trail.cleaning != noTimer && !slot.trail.empty() && !s.loads {
			o.timers.add(slot.trail.cleaning, id)
		}
	}
	o.cleanTrail(id, slot)
	return nil
}

func inTime(t Timestamp) bool { return t > MinTimestamp && t < MaxTimestamp }

func (s *restoring[K, V, A, R]) instant(id int32, l *layer[A], delay time.Duration) error {
	at, events, seen, flags := Timestamp(s.f.int()), s.f.int(), s.f.int(), s.f.uint()
	if !inTime(at) || events < 1 || seen < 0 || flags > instantDue || l.instants.size > 0 && at <= l.instants.newest() {
		s.f.bad = true
		return nil
	}
	leaf, _ := l.instants.change(at)
	leaf.events, leaf.seen, leaf.due = events, seen, flags&instantDue != 0
	if leaf.due && !s.loads {
		s.operator.timers.add(at.Add(delay), id)
	}
	return s.decode(&leaf.acc)
}

// decode reads an accumulator.
func (s *restoring[K, V, A, R]) decode(acc *A) error {
	if err := s.operator.aggregate.Decode(s.f.bytes(), acc); err != nil {
		return fmt.Errorf("%w: accumulator: %w", ErrSnapshot, err)
	}
	return nil
}
