package window

import (
	"cmp"
	"slices"
)

// dueWindow is a window that a watermark completes, with what it is sorted by.
type dueWindow struct {
	window Window
	prefix uint64
	id     int32
	pos    int32 // in the key's entries
	kind   Kind
}

// cleanup is when nothing can come any more for a window.
func (o *Operator[K, V, A, R]) cleanup(w Window) Timestamp {
	return w.last().Add(o.options.AllowedLateness)
}

func (o *Operator[K, V, A, R]) gone(w Window) bool { return o.cleanup(w) <= o.now }

// keptUntil is cleanup for an entry. Sessions of a deterministic operator live on in their layer of late events.
func (o *Operator[K, V, A, R]) keptUntil(e *entry[A]) Timestamp {
	if o.options.Deterministic && o.assigner.kind == session && !e.late {
		return e.window.last()
	}
	return o.cleanup(e.window)
}

// schedule sees to it that the key is looked at when the entry is next due.
func (o *Operator[K, V, A, R]) schedule(id int32, e *entry[A]) {
	at := o.keptUntil(e)
	if e.pending {
		at = min(at, e.window.last())
	}
	if e.early != noTimer {
		at = min(at, e.early)
	}
	if e.timer == noTimer || at < e.timer {
		e.timer = at
		o.timers.add(at, id)
	}
}

// fire emits all that the combined watermark has completed.
func (o *Operator[K, V, A, R]) fire(emit func(Result[K, R])) {
	watermark := o.marks.combined
	for o.err == nil {
		at, timed := o.timers.next()
		timed = timed && at <= watermark
		if o.sliding != nil {
			end, shared := o.sliding.timers.next()
			// Updates at the same watermark are of earlier windows. Without lateness there are none, and entries of late
			// events end with their window, after it has fired.
			if shared && end <= watermark && (!timed || end < at || end == at && o.options.AllowedLateness == 0) {
				o.fireShared(end, emit)
				o.spill()
				continue
			}
		}
		if !timed {
			break
		}
		if ids := o.timers.take(); o.assigner.kind == perEvent {
			o.fireTrails(at, ids, emit)
		} else {
			o.fireEntries(at, ids, emit)
		}
		o.spill()
	}
	o.spill()
	o.ids.forget(watermark)
}

// fireEntries looks at the keys that are due at an instant.
func (o *Operator[K, V, A, R]) fireEntries(at Timestamp, ids []int32, emit func(Result[K, R])) {
	if o.alike && at < MaxTimestamp-1 { // where ends saturate, windows with different starts end together
		o.fireAlike(at, ids, emit)
		return
	}
	o.due = o.due[:0]
	for _, id := range ids {
		if !o.bringDue(id, at) {
			return
		}
		s := o.keys.at(id)
		for i := range s.entries {
			e := &s.entries[i]
			if e.timer != at {
				continue
			}
			e.timer = noTimer
			if kind, ok := o.dueKind(e, at); ok {
				o.due = append(o.due, dueWindow{e.window, o.keys.order.prefix(s.key), id, int32(i), kind})
			}
		}
	}
	o.sortDue()
	for _, d := range o.due {
		s := o.keys.at(d.id)
		o.emitEntry(d.id, s, &s.entries[d.pos], d.kind, emit)
	}
	for _, id := range ids {
		o.settle(id, at)
	}
}

// fireAlike is fireEntries where all that is due is one window, so that results come in the order of the keys.
func (o *Operator[K, V, A, R]) fireAlike(at Timestamp, ids []int32, emit func(Result[K, R])) {
	for some := range slices.Chunk(o.keys.inOrder(ids), prefetch) {
		o.keys.fetch(some)
		for _, r := range some {
			if !o.bringDue(r.id, at) {
				return
			}
			s := o.keys.at(r.id)
			for i := range s.entries {
				e := &s.entries[i]
				if e.timer != at {
					continue
				}
				e.timer = noTimer
				if kind, ok := o.dueKind(e, at); ok {
					o.emitEntry(r.id, s, e, kind, emit)
				}
			}
			o.settle(r.id, at)
		}
		o.spill()
	}
}

func (o *Operator[K, V, A, R]) sortDue() {
	slices.SortFunc(o.due, func(a, b dueWindow) int {
		switch {
		case a.window.End != b.window.End:
			return cmp.Compare(a.window.End, b.window.End)
		case a.window.Start != b.window.Start:
			return cmp.Compare(a.window.Start, b.window.Start)
		case a.prefix != b.prefix:
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Compare(o.keys.at(a.id).key, o.keys.at(b.id).key)
	})
}

// dueKind says whether an entry fires at this instant, and moves it to its next.
func (o *Operator[K, V, A, R]) dueKind(e *entry[A], at Timestamp) (Kind, bool) {
	if e.late {
		return Updated, at >= o.keptUntil(e) && (e.updated || o.assigner.kind != session)
	}
	if e.early != noTimer && at >= e.early && at < e.window.last() {
		// The multiples that this watermark passes as well would only say the same again, and may be without number.
		e.early = o.nextEarly(o.marks.combined.Add(-floorMod(o.marks.combined, o.options.Trigger.EarlyInterval, 0)), e.window)
		return Early, true
	}
	if e.pending && at >= e.window.last() {
		e.pending, e.early = false, noTimer
		return OnTime, !o.options.Trigger.NoWatermark
	}
	return OnTime, false
}

// nextEarly is the early firing after t; noTimer when the window's end comes first.
func (o *Operator[K, V, A, R]) nextEarly(t Timestamp, w Window) Timestamp {
	if t = t.Add(o.options.Trigger.EarlyInterval); t >= w.last() {
		return noTimer
	}
	return t
}

// settle removes what is over and schedules the rest of a key that was due.
func (o *Operator[K, V, A, R]) settle(id int32, at Timestamp) {
	s := o.keys.at(id)
	before := o.keys.weight(s)
	s.changed = true
	kept := 0
	for i := range s.entries {
		e := &s.entries[i]
		if e.timer == noTimer && o.assigner.kind != counting {
			if o.keptUntil(e) <= at {
				o.keys.forgetEntry(id, e)
				continue
			}
			o.schedule(id, e)
		}
		if kept < i {
			s.entries[kept] = *e
		}
		kept++
	}
	clear(s.entries[kept:])
	s.entries = s.entries[:kept]
	if s.cells != nil {
		o.settleCells(id, s.cells, at)
	}
	o.expire(id, s, at)
	o.keys.account(id, s, before)
	o.keys.rest(s)
}

// expire forgets a key of windows without an end.
func (o *Operator[K, V, A, R]) expire(id int32, s *slot[K, A], at Timestamp) {
	if o.options.KeyExpiry == 0 || s.expiry != at || len(s.entries) == 0 {
		return
	}
	if s.expiry = s.last.Add(o.options.KeyExpiry); s.expiry > at {
		o.timers.add(s.expiry, id)
		return
	}
	s.last, s.expiry = MinTimestamp, noTimer
	o.keys.memory.forgetAll(id)
	s.clear()
	o.totals.Expired++
}

// emitEntry fires a window with an accumulator of its own.
func (o *Operator[K, V, A, R]) emitEntry(id int32, s *slot[K, A], e *entry[A], kind Kind, emit func(Result[K, R])) {
	if e.events == 0 {
		return
	}
	o.retract(id, s, e, emit)
	acc := &e.acc
	if e.late && o.assigner.kind != session {
		acc = o.whole(s, e)
	}
	o.emit(Result[K, R]{e.window, s.key, o.aggregate.Result(acc), kind}, emit)
	e.fresh = 0
	var zero A
	switch o.options.Accumulation {
	case Discarding:
		o.keys.memory.forget(id, &e.acc)
		e.acc, e.events = zero, 0
	case Retracting:
		e.emitted = new(A)
		o.merge(id, e.emitted, e.acc)
	}
	if o.options.Trigger.Once {
		o.keys.memory.forget(id, &e.acc)
		e.done, e.early, e.acc, e.events = true, noTimer, zero, 0
	}
}

// retract takes the last result of a window back.
func (o *Operator[K, V, A, R]) retract(id int32, s *slot[K, A], e *entry[A], emit func(Result[K, R])) {
	if e.emitted == nil {
		return
	}
	o.emit(Result[K, R]{e.window, s.key, o.aggregate.Result(e.emitted), Retraction}, emit)
	o.keys.memory.forget(id, e.emitted)
	e.emitted = nil
}

// whole is a window of a deterministic operator with its late events.
func (o *Operator[K, V, A, R]) whole(s *slot[K, A], e *entry[A]) *A {
	var zero A
	o.scratch = zero
	if s.cells != nil {
		o.mergeCells(s.cells, o.sliding.number(e.window), &o.scratch)
	}
	if base, found := s.find(e.window, false); found {
		o.aggregate.Merge(&o.scratch, s.entries[base].acc)
	}
	o.aggregate.Merge(&o.scratch, e.acc)
	return &o.scratch
}

func (o *Operator[K, V, A, R]) emit(r Result[K, R], emit func(Result[K, R])) {
	o.totals.Results++
	emit(r)
}
