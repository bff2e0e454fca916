package window

import (
	"slices"
	"sort"
)

// assign puts an event into its windows.
func (o *Operator[K, V, A, R]) assign(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	switch {
	case o.sliding != nil:
		return o.intoSlices(t, v, emit)
	case o.assigner.kind == session:
		return o.intoSession(t, v, emit)
	case o.assigner.kind == counting:
		return o.intoCount(t, v, emit)
	case o.assigner.kind == perEvent:
		return o.intoTrail(t, v, emit)
	case o.assigner.kind == tumbling:
		if w := o.recent; t < w.Start || t >= w.End {
			o.recent = o.assigner.tumble(t)
		}
		o.bounds = append(o.bounds[:0], o.recent)
	default:
		o.bounds = o.bounds[:0]
		o.assigner.Windows(t, o.yield)
	}
	for len(o.bounds) > 0 && o.gone(o.bounds[0]) { // they are in order
		o.bounds = o.bounds[1:]
	}
	if len(o.bounds) == 0 {
		return o.missed(t)
	}
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	s := o.keys.at(id)
	if s.spilled && !o.bringBounds(id, s) {
		return Refused
	}
	if !o.room(id, s) {
		return o.refuse(id)
	}
	outcome, before := Late, len(s.entries)
	for _, w := range o.bounds {
		e := s.open(w, o.options.Deterministic && w.last() <= o.now)
		if !e.done {
			o.add(id, s, e, t, v, emit)
			outcome = Accepted
		}
	}
	o.keys.memory.opened(len(s.entries) - before)
	return outcome
}

// missed is the outcome of an event that no window takes.
func (o *Operator[K, V, A, R]) missed(t Timestamp) Outcome {
	if t.Add(o.options.AllowedLateness) <= o.now {
		return Late
	}
	return Unassigned
}

// room says whether the key may have the windows in bounds.
func (o *Operator[K, V, A, R]) room(id int32, s *slot[K, A]) bool {
	m, limit := &o.keys.memory, o.options.MaxWindowsPerKey
	has := len(s.entries)
	if s.spilled {
		has += len(o.keys.parts[id])
	}
	if n := has + len(o.bounds); (limit < 0 || n <= limit) && m.ample(int64(n)*m.window, int64(len(o.bounds))*m.window) {
		return true
	}
	missing := 0
	for _, w := range o.bounds {
		if _, found := s.find(w, o.options.Deterministic && w.last() <= o.now); !found {
			missing++
		}
	}
	return (limit < 0 || has+missing <= limit) && o.fits(id, s, int64(missing)*m.window)
}

// find is the position of a window, or the one where it belongs: entries that are not sessions are in order of their starts, those of
// late events behind the others.
func (s *slot[K, A]) find(w Window, late bool) (pos int, found bool) {
	before := func(e *entry[A]) bool {
		return e.window.Start < w.Start || e.window.Start == w.Start && !e.late && late
	}
	pos = len(s.entries)
	for range 4 { // most events belong to the newest
		if pos == 0 || before(&s.entries[pos-1]) {
			break
		}
		pos--
	}
	if pos > 0 && !before(&s.entries[pos-1]) {
		pos = sort.Search(pos, func(i int) bool { return !before(&s.entries[i]) })
	}
	return pos, pos < len(s.entries) && s.entries[pos].window == w && s.entries[pos].late == late
}

// open finds or makes the entry of a window.
func (s *slot[K, A]) open(w Window, late bool) *entry[A] {
	i, found := s.find(w, late)
	if !found {
		s.entries = slices.Insert(s.entries, i, entry[A]{window: w, late: late, timer: noTimer, early: noTimer})
	}
	return &s.entries[i]
}

// add puts an event into an entry and fires it where its trigger says so.
func (o *Operator[K, V, A, R]) add(id int32, s *slot[K, A], e *entry[A], t Timestamp, v V, emit func(Result[K, R])) {
	o.put(id, &e.acc, v)
	e.events++
	e.fresh++
	o.touch(id, s, t)
	trigger, passed := &o.options.Trigger, e.window.last() <= o.marks.combined
	switch {
	case e.late:
	case passed && !trigger.NoWatermark:
		if trigger.LateCount > 0 && e.fresh >= int64(trigger.LateCount) {
			o.emitEntry(id, s, e, Updated, emit)
		}
	default:
		e.pending = !passed
		if trigger.EarlyCount > 0 && e.fresh >= int64(trigger.EarlyCount) {
			o.emitEntry(id, s, e, Early, emit)
		}
		if trigger.EarlyInterval > 0 && e.early == noTimer && !e.done {
			e.early = o.nextEarly(t.Add(-floorMod(t, trigger.EarlyInterval, 0)), e.window)
		}
	}
	o.schedule(id, e)
}

// touch notes the event for KeyExpiry.
func (o *Operator[K, V, A, R]) touch(id int32, s *slot[K, A], t Timestamp) {
	if o.options.KeyExpiry == 0 {
		return
	}
	s.last = max(s.last, t)
	if s.expiry == noTimer {
		s.expiry = s.last.Add(o.options.KeyExpiry)
		o.timers.add(s.expiry, id)
	}
}

// intoCount gathers events whatever their time.
func (o *Operator[K, V, A, R]) intoCount(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	s, m := o.keys.at(id), &o.keys.memory
	if !o.fits(id, s, m.window*int64(1-len(s.entries))) {
		return o.refuse(id)
	}
	before := o.keys.weight(s)
	if len(s.entries) == 0 {
		s.entries = append(s.entries, entry[A]{window: Window{t, t + 1}, timer: noTimer, early: noTimer})
	}
	e := &s.entries[0]
	e.window = Window{min(e.window.Start, t), max(e.window.End, t+1)}
	o.put(id, &e.acc, v)
	o.touch(id, s, t)
	if e.events++; e.events == o.assigner.count {
		o.emitEntry(id, s, e, OnTime, emit)
		m.forgetAll(id)
		s.clear()
		s.last, s.expiry = MinTimestamp, noTimer
	}
	o.keys.account(id, s, before)
	return Accepted
}

// intoSession puts an event into the session that it is near to, or into one of its own.
//
// A deterministic operator keeps two layers of sessions. The first has the events that were not behind their partition's watermark,
// and fires at it: no such event comes any more that could join. The second has the late ones as well, and fires when these
// cannot come any more.
func (o *Operator[K, V, A, R]) intoSession(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	gap := o.assigner.size
	if o.gap != nil {
		if gap = o.gap(v); gap <= 0 {
			return Rejected
		}
	}
	own := Window{t, t.Add(gap)}
	behind := o.options.Deterministic && t <= o.now
	if behind && t.Add(o.options.AllowedLateness) <= o.now {
		return Late
	}
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	s := o.keys.at(id)
	layers := 1
	if o.options.Deterministic && o.options.AllowedLateness > 0 {
		layers = 2
	}
	if m := &o.keys.memory; m.sized() || !o.joins(s, own) {
		if n := o.options.MaxWindowsPerKey; n > 0 && len(s.entries)+layers > n && !o.joins(s, own) || !o.fits(id, s, int64(layers)*m.window) {
			return o.refuse(id)
		}
	}
	before, outcome := o.keys.weight(s), Late
	if !behind {
		outcome = o.join(id, s, own, false, t, v, emit)
	}
	if layers > 1 {
		outcome = o.join(id, s, own, true, t, v, emit)
	}
	o.keys.account(id, s, before)
	return outcome
}

func (o *Operator[K, V, A, R]) joins(s *slot[K, A], w Window) bool {
	for i := range s.entries {
		if o.near(s.entries[i].window, w) {
			return true
		}
	}
	return false
}

func (o *Operator[K, V, A, R]) near(a, b Window) bool {
	if o.assigner.strict {
		return a.Start < b.End && b.Start < a.End
	}
	return a.Start <= b.End && b.Start <= a.End
}

// join adds an event to the one session that it makes with those near to it.
func (o *Operator[K, V, A, R]) join(id int32, s *slot[K, A], w Window, late bool, t Timestamp, v V, emit func(Result[K, R])) Outcome {
	own, at, others := w, -1, false
	for i := range s.entries {
		e := &s.entries[i]
		if e.late != late || !o.near(e.window, own) {
			continue
		}
		if e.done {
			return Late
		}
		w = Window{min(w.Start, e.window.Start), max(w.End, e.window.End)}
		others = others || at >= 0
		if at < 0 {
			at = i
		}
	}
	if at < 0 {
		if !o.options.Deterministic && o.gone(w) {
			return o.missed(t)
		}
		at = len(s.entries)
		s.entries = append(s.entries, entry[A]{window: w, late: late, timer: noTimer, early: noTimer})
	}
	if others {
		o.mergeSessions(id, s, at, own, emit)
	}
	e := &s.entries[at]
	if e.window != w {
		o.retract(id, s, e, emit)
		e.window = w
	}
	e.updated = e.updated || late && t <= o.now
	o.add(id, s, e, t, v, emit)
	return Accepted
}

// mergeSessions merges what is near own into the entry at that position, the first of them.
func (o *Operator[K, V, A, R]) mergeSessions(id int32, s *slot[K, A], at int, own Window, emit func(Result[K, R])) {
	e := &s.entries[at]
	kept := s.entries[:at+1]
	for i := at + 1; i < len(s.entries); i++ {
		x := &s.entries[i]
		if x.late != e.late || !o.near(x.window, own) {
			kept = append(kept, *x)
			continue
		}
		o.retract(id, s, x, emit)
		o.merge(id, &e.acc, x.acc)
		o.keys.memory.forget(id, &x.acc)
		e.events += x.events
		e.fresh += x.fresh
		e.updated = e.updated || x.updated
		if x.early != noTimer && (e.early == noTimer || x.early < e.early) {
			e.early = x.early
		}
	}
	clear(s.entries[len(kept):])
	s.entries = kept
}
