package window

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Operator is the windows of a stream: a state machine without a clock, goroutines or I/O. Its results are a function of the calls made.
// It is not for concurrent use; run one for each input partition, or each share of the keys.
//
// emit is called before Process or Advance returns, and must not call the operator. Results that one call emits are ordered by the
// watermark that is due to fire them and among these by end, start and key.
type Operator[K Key, V, A, R any] struct {
	assigner  Assigner
	options   Options
	key       func(V) K
	aggregate Aggregator[V, A, R]
	rejects   func(V) bool
	remove    func(*A, A) bool      // nil unless the aggregator can
	gap       func(V) time.Duration // of a dynamic session; else nil

	marks    *Combiner
	partAt   int // the partition of the last event, and where it stands: events often follow their like
	part     *progress
	greatest Timestamp // of all timestamps seen

	keys    keyTable[K, A]
	timers  timers
	sliding *slider // nil unless windows share slices
	carried carriage[K, R]
	alike   bool // what is due at one instant is one window
	plain   bool // R can be emitted twice
	parted  bool // a Spill has each window by itself
	ids     *idMemory
	counts  [outcomes]uint64
	totals  Counts
	saved   digest // of the last snapshot
	err     error  // of Options.Spill

	// Reused to move keys out of memory and back.
	outside snapshotWriter
	encoded []byte
	loading *restoring[K, V, A, R]

	// Reused from call to call.
	now     Timestamp // the watermark that events are late against
	due     []dueWindow
	scratch A
	bounds  []Window
	again   []Timestamp
	recent  Window // of a tumbling operator: events often follow their like
	yield   func(Window)
}

// New makes an operator that groups events by key. Its error has all that is wrong with the assigner and the options; it matches ErrOptions.
func New[K Key, V, A, R any](key func(V) K, a Assigner, g Aggregator[V, A, R], o Options) (*Operator[K, V, A, R], error) {
	o = o.withDefaults(a)
	if err := o.validate(a); err != nil {
		return nil, err
	}
	if key == nil || g == nil {
		return nil, fmt.Errorf("%w: the key function and the aggregator are required", ErrOptions)
	}
	gap, ok := a.gap.(func(V) time.Duration)
	if a.gap != nil && (!ok || gap == nil) {
		return nil, fmt.Errorf("%w: the gap function is a %T, and takes no %v", ErrOptions, a.gap, reflect.TypeFor[V]())
	}
	a.strict = a.strict || a.kind == session && o.Deterministic
	op := &Operator[K, V, A, R]{assigner: a, options: o, key: key, aggregate: g, gap: gap, plain: plain(reflect.TypeFor[R]())}
	if r, ok := any(g).(Rejecter[V]); ok {
		op.rejects = r.Rejects
	}
	if r, ok := any(g).(Remover[A]); ok {
		op.remove = r.Remove
	}
	op.yield = func(w Window) { op.bounds = append(op.bounds, w) }
	op.reset()
	return op, nil
}

// reset makes the operator empty.
func (o *Operator[K, V, A, R]) reset() {
	o.marks = NewCombiner(o.options.Partitions)
	o.part, o.greatest = nil, MinTimestamp
	o.timers = newTimers()
	o.sliding, o.carried = nil, carriage[K, R]{}
	if t := o.options.Trigger; o.assigner.sliced() && t == (Trigger{LateCount: 1}) && o.options.Accumulation == Accumulating {
		o.sliding = newSlider(o.assigner, o.options.AllowedLateness)
	}
	o.resetKeys()
	// Otherwise windows with different ends or starts may be due together.
	o.alike = o.assigner.kind != session && o.options.Trigger.EarlyInterval == 0 && !o.options.Deterministic
	o.ids = newIDMemory(o.options.IDHorizon, o.options.MaxIDs)
	o.counts, o.totals, o.saved = [outcomes]uint64{}, Counts{}, digest{}
}

func (o *Operator[K, V, A, R]) resetKeys() {
	o.keys = newKeyTable[K, A](o.sliding != nil)
	o.bound(&o.keys.memory)
	if k := o.assigner.kind; o.options.Spill != nil {
		o.keys.parts = [][]part{}
		o.parted = (k == tumbling || k == sliding && o.sliding == nil || k == calendar) && !o.options.Deterministic
	}
}

// Process puts one event into its windows, moves the watermark of its partition, and emits what that completes. The event is judged
// against the watermark before it. The error is ErrTimestamp, ErrFull, or what ended the operator (Err); after the first two nothing has changed.
func (o *Operator[K, V, A, R]) Process(partition int, t Timestamp, v V, emit func(Result[K, R])) (Outcome, error) {
	return o.process(partition, t, "", v, emit)
}

// ProcessID is Process for an event with an id: one whose id was accepted before is a Duplicate and counts once. Ids are
// remembered until the watermark is Options.IDHorizon past their event. An empty id is none. In a Deterministic operator both copies have to
// come in one partition, or which of them counts depends on how the partitions are interleaved.
func (o *Operator[K, V, A, R]) ProcessID(partition int, t Timestamp, id string, v V, emit func(Result[K, R])) (Outcome, error) {
	return o.process(partition, t, id, v, emit)
}

func (o *Operator[K, V, A, R]) process(partition int, t Timestamp, id string, v V, emit func(Result[K, R])) (Outcome, error) {
	if t == MinTimestamp || t == MaxTimestamp {
		return Rejected, fmt.Errorf("%w: %d", ErrTimestamp, t)
	}
	s := o.progressOf(partition)
	jumps := s.jumps
	outcome := o.take(s, t, id, v, emit)
	if o.err != nil {
		return outcome, o.err
	}
	if outcome == Refused && o.options.Deterministic && len(o.marks.parts) > 1 {
		s.jumps = jumps
		return outcome, ErrFull
	}
	o.counts[outcome]++
	if outcome == TooFar {
		return outcome, nil
	}
	s.greatest, o.greatest = max(s.greatest, t), max(o.greatest, t)
	o.marks.activate(s)
	o.marks.advance(s, o.options.Watermark.next(s.watermark, s.greatest, t))
	if o.options.IdleAfter > 0 {
		o.marks.idleBehind(o.greatest, o.options.IdleAfter)
	}
	o.fire(emit)
	return outcome, o.err
}

func (o *Operator[K, V, A, R]) progressOf(partition int) *progress {
	if o.part == nil || o.partAt != partition {
		o.partAt, o.part = partition, o.marks.part(partition)
	}
	return o.part
}

// confirmingJumps is how many events in a row have to be far ahead to be believed.
const confirmingJumps = 3

// take puts the event into its windows.
func (o *Operator[K, V, A, R]) take(s *progress, t Timestamp, id string, v V, emit func(Result[K, R])) Outcome {
	if o.options.MaxJump > 0 && s.greatest > MinTimestamp && t > s.greatest.Add(o.options.MaxJump) {
		if s.jumps++; s.jumps < confirmingJumps {
			return TooFar
		}
	}
	s.jumps = 0
	if o.rejects != nil && o.rejects(v) {
		return Rejected
	}
	o.now = o.marks.combined
	if o.options.Deterministic {
		o.now = max(o.now, s.watermark)
	}
	var hash idHash
	if id != "" {
		hash = hashID(id)
		if o.ids.has(hash, o.now) {
			return Duplicate
		}
	}
	outcome := o.assign(t, v, emit)
	if outcome == Accepted && id != "" {
		o.totals.ForgottenIDs += o.ids.add(hash, t)
	}
	return outcome
}

// Prefetch says which events Process gets next, some tens of them, such as those of a message batch. It brings what their keys have nearer to
// the processor, which then waits for memory once and not for each event: with some ten thousand keys and more, events cost less, and with
// few it does nothing. What comes need not be what it was told. It is for those who have their events in batches; a processor of
// pulsarx.RunStateful gets one message after the other, and what a message costs on its way there is many times what Prefetch saves.
func (o *Operator[K, V, A, R]) Prefetch(vs ...V) {
	if o.keys.used < nearKeys {
		return
	}
	var hashes [prefetch]uint32
	for some := range slices.Chunk(vs, prefetch) {
		for i := range some {
			hashes[i] = o.keys.hash(o.key(some[i]))
		}
		o.keys.fetchHashes(hashes[:len(some)])
	}
}

// Advance moves the watermark of a partition to at least this, as a punctuation, a heartbeat or the end of the partition (MaxTimestamp)
// says, and emits what that completes.
func (o *Operator[K, V, A, R]) Advance(partition int, watermark Timestamp, emit func(Result[K, R])) {
	s := o.progressOf(partition)
	o.marks.activate(s)
	o.marks.advance(s, watermark)
	o.fire(emit)
}

// Finish is the end of a bounded input: the watermark of every known partition becomes MaxTimestamp, and all windows fire. Without
// any partition it does nothing.
func (o *Operator[K, V, A, R]) Finish(emit func(Result[K, R])) {
	for _, s := range o.marks.parts {
		o.marks.activate(s)
		s.watermark, s.aligned = MaxTimestamp, true
	}
	o.marks.combine()
	o.fire(emit)
}

// AddPartition makes a partition known before its first event, so that the watermark waits for it.
func (o *Operator[K, V, A, R]) AddPartition(partition int) { o.marks.Add(partition) }

// RemovePartition forgets a partition, whose watermark then holds nothing back, and emits what that completes.
func (o *Operator[K, V, A, R]) RemovePartition(partition int, emit func(Result[K, R])) {
	o.marks.Remove(partition)
	o.part = nil
	o.fire(emit)
}

// SetIdle says that a partition has no events for now, so that the watermark does not wait for it, and emits what that completes. Its
// next event makes it active again. Whoever calls it by a clock gives up that a replay has the same results.
func (o *Operator[K, V, A, R]) SetIdle(partition int, emit func(Result[K, R])) {
	o.marks.SetIdle(partition, true)
	o.fire(emit)
}

// Watermark is the combined watermark of the partitions.
func (o *Operator[K, V, A, R]) Watermark() Timestamp { return o.marks.combined }

// Ahead is how far the partition's watermark is ahead of the combined one: what runs far ahead is better not read on until others
// have caught up, since its windows wait in memory. It is 0 for a partition without a watermark.
func (o *Operator[K, V, A, R]) Ahead(partition int) time.Duration {
	s := o.marks.parts[partition]
	if s == nil || s.watermark <= o.marks.combined {
		return 0
	}
	if o.marks.combined == MinTimestamp {
		return time.Duration(MaxTimestamp)
	}
	d := s.watermark - o.marks.combined
	if d < 0 {
		d = MaxTimestamp
	}
	return time.Duration(d)
}

// Counts are the totals so far.
func (o *Operator[K, V, A, R]) Counts() Counts {
	c := o.totals
	c.Accepted, c.Late, c.Unassigned, c.Duplicate = o.counts[Accepted], o.counts[Late], o.counts[Unassigned], o.counts[Duplicate]
	c.TooFar, c.Refused, c.Rejected = o.counts[TooFar], o.counts[Refused], o.counts[Rejected]
	return c
}

// Keys is how many keys have open windows. It looks at all of them.
func (o *Operator[K, V, A, R]) Keys() int { return o.keys.open() }
