package window

import (
	"errors"
	"fmt"
	"time"
)

// Assigner says which windows an event belongs to. It is a value; make it with Tumbling, Sliding, PerEvent, Session, DynamicSession,
// Global, Count or Calendar.
type Assigner struct {
	kind        kind
	size, slide time.Duration // of a session: size is the gap
	offset      time.Duration
	strict      bool
	count       int64
	unit        Unit
	zone        *time.Location
	gap         any // of a dynamic session: func(V) time.Duration
}

type kind uint8

const (
	none kind = iota
	tumbling
	sliding
	session
	global
	counting
	calendar
	perEvent
)

// Unit is a unit of the calendar.
type Unit uint8

// The units of Calendar.
const (
	Day   Unit = iota + 1
	Week       // from Monday, as in ISO 8601
	Month      // from the first
)

// WeekFrom is the unit of weeks that begin with that day, such as Sunday.
func WeekFrom(d time.Weekday) Unit {
	if k := Unit((int(d-time.Monday)%7 + 7) % 7); k > 0 {
		return Month + k
	}
	return Week
}

// begins is the first day of a week.
func (u Unit) begins() time.Weekday {
	if u > Month {
		return (time.Monday + time.Weekday(u-Month)) % 7
	}
	return time.Monday
}

// Tumbling cuts time into windows of one size, one after the other, each event in one of them. They are aligned to 1970 UTC; see Offset.
//
//	events    a  b     c   d        e
//	      |---------|---------|---------|   size
func Tumbling(size time.Duration) Assigner { return Assigner{kind: tumbling, size: size, slide: size} }

// Sliding begins a window of that size every slide. Each event is in size/slide windows, on average; with a slide larger than the
// size some events are in none and come back as Unassigned. The slide need not divide the size.
//
//	|---------|                     size
//	   |---------|
//	      |---------|
//	|--|                            slide
func Sliding(size, slide time.Duration) Assigner {
	return Assigner{kind: sliding, size: size, slide: slide}
}

// PerEvent has a window that ends with each event, and reaches back by size: the last five minutes at each click, as SQL's RANGE BETWEEN
// INTERVAL ... PRECEDING AND CURRENT ROW and Kafka Streams' sliding windows. Both ends count: the window of an event at t is [t-size, t+1 ns).
// Events of a key at one instant have one window, and one result.
//
//	events    a   b c       d
//	         )|
//	       |-----)|
//	       |-------)|
//	               |-------)|           size
//
// An event counts in the windows that end with it or up to size later. It is Late when all of these are gone; where only its own is, it has no
// result but counts in the others. Operator.Query reads such a window at any time, also while no event ends it.
//
// An event costs O(log d) on the whole, where d is how many instants of its key are out of order with it, and a result a constant number of
// merges. O(log n) merges, of n instants that are kept, cost a result of an aggregate that is no Remover, and each window that a late event
// fires again.
func PerEvent(size time.Duration) Assigner { return Assigner{kind: perEvent, size: size} }

// Session gathers the events of a key that follow one another by at most the gap; the window is [first, last+gap).
//
//	events    a  b c          d   e
//	          |------gap-|    |-----gap-|
//
// Two events exactly one gap apart are one session, as in Flink, Kafka Streams and Bytewax; Strict, and an operator that is
// Deterministic, make them two.
func Session(gap time.Duration) Assigner { return Assigner{kind: session, size: gap} }

// DynamicSession is Session with a gap that depends on the event: an hour after "left the room", ten minutes after a click. An event
// at t reaches from t to t + its gap, and events whose reach overlaps or touches are one session. An event whose gap is not positive is Rejected.
// V is the operator's.
//
//	events    a        b  c          d
//	          |-----------|
//	                   |----|
//	                      |-------|  |---|
//	sessions  |-------------------)  |---)
func DynamicSession[V any](gap func(V) time.Duration) Assigner {
	return Assigner{kind: session, gap: gap}
}

// Global has one window for all time, [MinTimestamp, MaxTimestamp). It fires by early triggers and at the final watermark.
func Global() Assigner { return Assigner{kind: global} }

// Count gathers n events of a key, in the order in which they come, and fires with the n-th; the window is from the earliest of
// them to just behind the latest. Watermarks do nothing to it: what is incomplete at the end of the input is not emitted. No event is late.
func Count(n int) Assigner { return Assigner{kind: counting, count: int64(n)} }

// Calendar has one window for each day, week or month of a time zone, so that a day is 23 or 25 hours long where clocks change. A date
// begins when clocks first show it. A nil location is UTC.
func Calendar(u Unit, zone *time.Location) Assigner {
	if zone == nil {
		zone = time.UTC
	}
	return Assigner{kind: calendar, unit: u, zone: zone}
}

// Offset moves the windows of Tumbling and Sliding by d against 1970 UTC: Tumbling(24*time.Hour).Offset(-8*time.Hour) are days of UTC+8.
// Where offsets change with the season, use Calendar.
func (a Assigner) Offset(d time.Duration) Assigner { a.offset = d; return a }

// Strict makes sessions of two events that are exactly one gap apart, as Beam and Arroyo do.
func (a Assigner) Strict() Assigner { a.strict = true; return a }

func (a Assigner) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch a.kind {
	case none:
		fail("no assigner")
	case tumbling, sliding:
		if a.size <= 0 || a.slide <= 0 {
			fail("size %v and slide %v must be positive", a.size, a.slide)
		}
	case session:
		if a.size <= 0 && a.gap == nil {
			fail("gap %v must be positive", a.size)
		}
	case perEvent:
		if a.size <= 0 {
			fail("size %v must be positive", a.size)
		}
	case counting:
		if a.count < 1 {
			fail("count %d must be positive", a.count)
		}
	case calendar:
		if a.unit < Day || a.unit > Month+6 {
			fail("calendar unit %d is unknown", a.unit)
		}
	}
	if a.offset != 0 && a.kind != tumbling && a.kind != sliding {
		fail("only tumbling and sliding windows have an offset")
	}
	if a.strict && a.kind != session {
		fail("only sessions are strict")
	}
	return errors.Join(errs...)
}

// Windows calls yield with each window that an event at t is in, in order of their starts. A session's is the window of the event
// alone, before merging, and that of PerEvent the one that ends with it; Count has none, since its windows are not cut by time.
func (a Assigner) Windows(t Timestamp, yield func(Window)) {
	switch a.kind {
	case tumbling:
		yield(a.tumble(t))
	case sliding:
		a.slides(t, yield)
	case session:
		if a.gap == nil {
			yield(Window{t, t.Add(a.size)})
		}
	case global:
		yield(Window{MinTimestamp, MaxTimestamp})
	case calendar:
		yield(a.civil(t))
	case perEvent:
		yield(a.trailing(t))
	}
}

// tumble is the tumbling window around t. Both bounds are reckoned from t, so that where one is beyond the ends of time, which are then
// the bound, the other is right.
func (a Assigner) tumble(t Timestamp) Window {
	within := floorMod(t, a.size, a.offset)
	return Window{t.Add(-within), t.Add(a.size - within)}
}

func (a Assigner) slides(t Timestamp, yield func(Window)) {
	within := floorMod(t, a.slide, a.offset)
	if within >= a.size {
		return
	}
	back := a.size - within - 1
	for back -= back % a.slide; back >= 0; back -= a.slide {
		yield(Window{t.Add(-within).Add(-back), t.Add(a.size - within - back)})
	}
}

// civil is the calendar's window around t. Where clocks go back behind midnight, they show the end of the day before once more; this
// belongs to the window that has begun.
func (a Assigner) civil(t Timestamp) Window {
	for n := 0; ; n++ {
		if w := a.dated(t, n); t < w.End {
			return w
		}
	}
}

// dated is the window of the date that clocks show at t, or the n-th after it.
func (a Assigner) dated(t Timestamp, n int) Window {
	at := t.Time().In(a.zone)
	y, m, d := at.Date()
	months, days := 0, 1
	switch a.unit {
	case Day:
	case Month:
		d, months, days = 1, 1, 0
	default:
		d -= (int(at.Weekday()-a.unit.begins()) + 7) % 7
		days = 7
	}
	begin := func(n int) Timestamp { return TimestampOf(firstInstant(y, m+time.Month(n*months), d+n*days, a.zone)) }
	return Window{begin(n), begin(n + 1)}
}

// firstInstant is when a date begins: at midnight, but at the end of the gap where clocks skip midnight, and at the first midnight
// where they show it twice.
func firstInstant(y int, m time.Month, d int, zone *time.Location) time.Time {
	y, m, d = time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Date() // month 13 and day 0 made real
	before := func(t time.Time) bool {
		ty, tm, td := t.Date()
		return ty < y || ty == y && (tm < m || tm == m && td < d)
	}
	// Around midnight clocks change at most once, so the date begins at one of: its midnight in either offset, or the change.
	noon := time.Date(y, m, d, 12, 0, 0, 0, zone)
	from, _ := noon.ZoneBounds()
	_, late := noon.Zone()
	midnight := func(offset int) time.Time {
		return time.Unix(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()-int64(offset), 0).In(zone)
	}
	t := midnight(late)
	if from.IsZero() || from.Before(t.Add(-24*time.Hour)) {
		return t
	}
	_, early := from.Add(-1).Zone()
	if u := midnight(early); u.Before(from) {
		return u
	}
	if before(from.Add(-1)) && !before(from) {
		return from
	}
	return t
}

// has says whether a window is one of the assigner's.
func (a Assigner) has(w Window) bool {
	switch a.kind {
	case tumbling, sliding:
		if w.Start == MinTimestamp { // or the nearest to where it begins
			return w.End <= w.Start.Add(a.size)
		}
		return w.End == w.Start.Add(a.size) && floorMod(w.Start, a.slide, a.offset) == 0
	case global:
		return w == Window{MinTimestamp, MaxTimestamp}
	}
	return true
}

// key identifies the assigner in a snapshot.
func (a Assigner) key() string {
	zone := ""
	if a.zone != nil {
		zone = a.zone.String()
	}
	return fmt.Sprintf("%d %d %d %d %t %d %d %s", a.kind, a.size, a.slide, a.offset, a.strict, a.count, a.unit, zone)
}
