package window

import (
	"fmt"
	"io"
	"time"
)

// ProcessingTime has windows of arrival: an event's time is when it comes, by a clock, and a window fires when the clock has passed its
// end. Nothing is out of order and nothing is late, and no replay gives the same results: a stream that is read faster, or again,
// falls into other windows. Use it for what is about the reading itself, such as events a second, and an Operator for what is
// about the events.
//
// It has no goroutine either: Process fires what is due before the event, and between events its caller waits until Next and calls Tick. It is
// not for concurrent use.
type ProcessingTime[K Key, V, A, R any] struct {
	operator *Operator[K, V, A, R]
	now      func() time.Time
}

// NewProcessingTime makes one whose clock is now: time.Now, or a test's. It takes the options of New but for those about watermarks,
// partitions and lateness, which have no meaning here; its error matches ErrOptions.
func NewProcessingTime[K Key, V, A, R any](
	key func(V) K, a Assigner, g Aggregator[V, A, R], o Options, now func() time.Time,
) (*ProcessingTime[K, V, A, R], error) {
	if now == nil {
		return nil, fmt.Errorf("%w: the clock is required", ErrOptions)
	}
	if o.Watermark.bound != 0 || o.Watermark.custom != nil || o.AllowedLateness != 0 || o.Deterministic || o.Partitions != 0 || o.IdleAfter != 0 ||
		o.MaxJump != 0 {
		return nil, fmt.Errorf("%w: Watermark, AllowedLateness, Deterministic, Partitions, IdleAfter and MaxJump are about event time", ErrOptions)
	}
	o.Watermark = Punctuated()
	operator, err := New(key, a, g, o)
	if err != nil {
		return nil, err
	}
	operator.AddPartition(0)
	return &ProcessingTime[K, V, A, R]{operator, now}, nil
}

// Process fires what the clock has passed, and puts the event into the windows that are open now.
func (p *ProcessingTime[K, V, A, R]) Process(v V, emit func(Result[K, R])) (Outcome, error) {
	return p.ProcessID("", v, emit)
}

// ProcessID is Process for an event with an id, which counts once; see Operator.ProcessID.
func (p *ProcessingTime[K, V, A, R]) ProcessID(id string, v V, emit func(Result[K, R])) (Outcome, error) {
	p.Tick(emit)
	return p.operator.ProcessID(0, min(p.operator.Watermark().Add(1), MaxTimestamp-1), id, v, emit)
}

// Tick fires what the clock has passed. A clock that goes back stands still until it has caught up.
func (p *ProcessingTime[K, V, A, R]) Tick(emit func(Result[K, R])) {
	p.operator.Advance(0, TimestampOf(p.now()).Add(-1), emit)
}

// Next is when Tick has something to do; false when nothing is due at any time.
func (p *ProcessingTime[K, V, A, R]) Next() (time.Time, bool) {
	at, ok := p.operator.nextTimer()
	if !ok || at >= MaxTimestamp-1 {
		return time.Time{}, false
	}
	return at.Add(1).Time(), true
}

// Finish fires all windows, whether their time is over or not. Events after it are Late.
func (p *ProcessingTime[K, V, A, R]) Finish(emit func(Result[K, R])) { p.operator.Finish(emit) }

// Snapshot writes the whole state, as Operator.Snapshot does.
func (p *ProcessingTime[K, V, A, R]) Snapshot(w io.Writer) error { return p.operator.Snapshot(w) }

// Restore reads what Snapshot wrote, as Operator.Restore does. What ended in between fires at the next call.
func (p *ProcessingTime[K, V, A, R]) Restore(r io.Reader) error { return p.operator.Restore(r) }

// Counts are the totals so far.
func (p *ProcessingTime[K, V, A, R]) Counts() Counts { return p.operator.Counts() }

// nextTimer is the least watermark at which there is something to do.
func (o *Operator[K, V, A, R]) nextTimer() (Timestamp, bool) {
	at, ok := o.timers.next()
	if o.sliding != nil {
		if end, shared := o.sliding.timers.next(); shared {
			at, ok = min(at, end), true
		}
	}
	return at, ok
}
