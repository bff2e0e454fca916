package window

import (
	"sort"
	"time"
)

// WatermarkStrategy makes the watermark of a partition from its records: the instant up to which, both ends included, all of its
// events are believed to have come. It never looks at a clock, so that a replay has the watermarks of the first run. The zero value is
// Monotonous.
type WatermarkStrategy struct {
	bound  time.Duration
	custom func(current, greatest, t Timestamp) Timestamp
}

// BoundedOutOfOrderness is for partitions in which an event comes at most d of event time behind a later one. As in Flink, the
// watermark is the greatest timestamp seen - d - 1 ns.
func BoundedOutOfOrderness(d time.Duration) WatermarkStrategy { return WatermarkStrategy{bound: d} }

// Monotonous is for partitions whose timestamps never decrease: BoundedOutOfOrderness(0).
func Monotonous() WatermarkStrategy { return WatermarkStrategy{} }

// Punctuated leaves it to the caller, who knows the events that carry watermarks: only Advance moves it.
func Punctuated() WatermarkStrategy {
	return CustomWatermarks(func(current, _, _ Timestamp) Timestamp { return current })
}

// CustomWatermarks asks f for the partition's watermark after each event: what it was, the greatest timestamp of the partition up to and
// with this event, and the event's own timestamp. A watermark never goes back, whatever f says. For the same arguments f must give the
// same answer, since a replay asks again.
func CustomWatermarks(f func(current, greatest, t Timestamp) Timestamp) WatermarkStrategy {
	return WatermarkStrategy{custom: f}
}

func (s WatermarkStrategy) next(current, greatest, t Timestamp) Timestamp {
	if s.custom != nil {
		return s.custom(current, greatest, t)
	}
	return greatest.Add(-s.bound).Add(-1)
}

// Combiner is the watermark of several partitions: the least of those that count. It never goes back. Make it with NewCombiner. Not for
// concurrent use.
//
//   - A partition that is new stands at MinTimestamp and holds the others back until it has a watermark, but takes nothing back.
//   - One that is idle does not count. When all are, the combined watermark goes to the greatest of them.
//   - One that comes back from idleness behind the combined watermark counts when it has caught up.
//
// These are the rules of Flink's StatusWatermarkValve.
type Combiner struct {
	parts    map[int]*progress
	combined Timestamp
	// idle counts the partitions that are idle, so that this is known without a look at each.
	idle int
	// behind says that the combined watermark may be less than the least, which the next watermark of any partition mends.
	behind bool
}

// progress is where one partition stands.
type progress struct {
	watermark Timestamp
	greatest  Timestamp // of the timestamps seen
	jumps     int       // events in a row that were too far ahead
	idle      bool
	aligned   bool
}

// NewCombiner has partitions 0 to n-1.
func NewCombiner(n int) *Combiner {
	c := &Combiner{parts: make(map[int]*progress), combined: MinTimestamp}
	for p := range n {
		c.Add(p)
	}
	return c
}

// Watermark is the combined watermark, MinTimestamp at first.
func (c *Combiner) Watermark() Timestamp { return c.combined }

// Idle says whether all partitions are idle; without partitions it is false.
func (c *Combiner) Idle() bool { return len(c.parts) > 0 && c.idle == len(c.parts) }

// Add makes a partition known. One that is known stays as it is.
func (c *Combiner) Add(p int) { c.part(p) }

func (c *Combiner) part(p int) *progress {
	if s := c.parts[p]; s != nil {
		return s
	}
	s := &progress{watermark: MinTimestamp, greatest: MinTimestamp, aligned: true}
	c.parts[p] = s
	return s
}

// Remove forgets a partition, which then holds nothing back. The watermark is what Watermark says afterwards.
func (c *Combiner) Remove(p int) {
	s := c.parts[p]
	if s == nil {
		return
	}
	delete(c.parts, p)
	if s.idle {
		c.idle--
	}
	c.combine()
}

// Advance moves the watermark of a partition, which is then not idle, and returns the combined one.
func (c *Combiner) Advance(p int, watermark Timestamp) Timestamp {
	s := c.part(p)
	c.activate(s)
	c.advance(s, watermark)
	return c.combined
}

func (c *Combiner) advance(s *progress, watermark Timestamp) {
	if watermark <= s.watermark {
		return
	}
	held := s.aligned && s.watermark <= c.combined || !s.aligned || c.behind || c.combined == MinTimestamp
	s.watermark = watermark
	if watermark >= c.combined {
		s.aligned = true
	}
	switch {
	case len(c.parts) == 1:
		c.combined = max(c.combined, watermark)
	case held: // else others hold the combined watermark, and go on doing so
		c.combine()
	}
}

func (c *Combiner) activate(s *progress) {
	if !s.idle {
		return
	}
	s.idle = false
	c.idle--
	s.aligned = s.watermark >= c.combined
	c.behind = true
}

// SetIdle says that a partition has no events for now, or has again, and returns the combined watermark.
func (c *Combiner) SetIdle(p int, idle bool) Timestamp {
	s := c.part(p)
	switch {
	case idle == s.idle:
	case !idle:
		c.activate(s)
	default:
		s.idle, s.aligned = true, false
		c.idle++
		c.combine()
	}
	return c.combined
}

// combine moves the combined watermark to the least of the partitions that count.
func (c *Combiner) combine() {
	c.behind = false
	least, most, counting := MaxTimestamp, MinTimestamp, false
	for _, s := range c.parts {
		most = max(most, s.watermark)
		if !s.idle && s.aligned {
			least, counting = min(least, s.watermark), true
		}
	}
	switch {
	case counting:
		c.combined = max(c.combined, least)
	case c.Idle():
		c.combined = max(c.combined, most)
	}
}

// idleBehind makes idle what is more than d of event time behind t.
func (c *Combiner) idleBehind(t Timestamp, d time.Duration) {
	for _, s := range c.parts {
		if !s.idle && s.greatest > MinTimestamp && s.greatest < t.Add(-d) {
			s.idle, s.aligned = true, false
			c.idle++
		}
	}
	c.combine()
}

// numbers are the known partitions in order.
func (c *Combiner) numbers() []int {
	ps := make([]int, 0, len(c.parts))
	for p := range c.parts {
		ps = append(ps, p)
	}
	sort.Ints(ps)
	return ps
}
