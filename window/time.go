package window

import (
	"math"
	"time"
)

// Timestamp is an instant of event time: nanoseconds since 1970-01-01 UTC, from 1677-09-21 to 2262-04-11. Arithmetic on it saturates:
// what would be later than MaxTimestamp is MaxTimestamp.
type Timestamp int64

// The ends of time. MinTimestamp is the watermark before the first event and MaxTimestamp the one after the last; neither is a
// timestamp that an event can have.
const (
	MinTimestamp Timestamp = math.MinInt64
	MaxTimestamp Timestamp = math.MaxInt64
)

// TimestampOf is t as a Timestamp; times outside of its range become the nearest end.
func TimestampOf(t time.Time) Timestamp {
	const first, last = math.MinInt64 / int64(time.Second), math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case s < first:
		return MinTimestamp
	case s > last || s == last && t.Nanosecond() > math.MaxInt64%int(time.Second):
		return MaxTimestamp
	}
	return Timestamp(t.UnixNano())
}

// TimestampOfMillis is the Timestamp of so many milliseconds since 1970, saturating: what Pulsar's event times, Debezium's ts_ms and
// JavaScript's Date count.
func TimestampOfMillis(ms int64) Timestamp {
	const limit = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case ms > limit:
		return MaxTimestamp
	case ms < -limit:
		return MinTimestamp
	}
	return Timestamp(ms * int64(time.Millisecond))
}

// Time is t as a time.Time in UTC.
func (t Timestamp) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// Add is t+d, or the end of time that it would pass.
func (t Timestamp) Add(d time.Duration) Timestamp {
	s := t + Timestamp(d)
	switch {
	case d > 0 && s < t:
		return MaxTimestamp
	case d < 0 && s > t:
		return MinTimestamp
	}
	return s
}

// Window is the half-open span of event time [Start, End): an event at End is in the next one.
type Window struct{ Start, End Timestamp }

// last is the last instant of the window: it is complete when the watermark reaches it.
func (w Window) last() Timestamp { return w.End.Add(-1) }

// floorMod is the rest of t-offset by step in [0, step), without an overflow.
func floorMod(t Timestamp, step, offset time.Duration) time.Duration {
	m := time.Duration(t)%step - offset%step
	if m < 0 {
		m += step
	}
	if m < 0 {
		m += step
	}
	return m % step
}
