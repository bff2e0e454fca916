// Package window computes event-time windows. Events come out of order and from several partitions; a result comes when it is complete,
// and is the same online and in a replay.
//
//	op, err := window.New(
//		func(c Click) string { return c.User },
//		window.Sliding(5*time.Minute, 10*time.Second),
//		aggregate.Sum(func(c Click) float64 { return c.Price }),
//		window.Options{Watermark: window.BoundedOutOfOrderness(5 * time.Second), AllowedLateness: time.Minute},
//	)
//	outcome, err := op.Process(partition, window.TimestampOf(click.At), click, func(r window.Result[string, float64]) { ... })
//
// An Operator is a state machine: it has no goroutine, reads no clock and does no I/O. Call it from one goroutine. Prefetch makes events of
// many keys that come in batches cheaper. pulsarx.RunStateful
// gives it a partition's messages and keeps its snapshots; pulsarx.ReplayStateful gives it what a topic holds.
//
// # Watermarks
//
// A watermark W says that all events up to W, W included, are believed to have come. Each partition has one, made from its records by a
// WatermarkStrategy; the operator's is the least of them. A window [start, end) fires when W reaches end-1. Since only records move it,
// the last windows of a topic without new records wait: records that carry nothing but a time (Advance) move them on, and Finish ends a
// bounded input.
//
// A partition that is not known yet holds nothing back. Say how many there are (Options.Partitions) or add them, and the watermark waits
// for all. IdleAfter leaves out those that fall far behind, by their records; MaxJump keeps out single events from far in the future;
// Ahead tells how far a partition runs before the others, for a reader that wants to pause it. Combiner is the rule by itself.
//
// # Late events
//
// An event behind the watermark still counts in every window that has not ended. With AllowedLateness a window is kept for so long after
// its end, and fires again (Kind Updated) when one comes. An event that no window takes changes nothing and comes back from Process as
// Late, so that the caller, who has it, can publish it elsewhere; one that is in no window because they have gaps is Unassigned. Counts
// has the totals.
//
// # Windows
//
// Tumbling, Sliding, PerEvent, Session, DynamicSession, Global, Count and Calendar; each has an example with a drawing. Starts are rounded down also before 1970.
// Timestamps are nanoseconds; durations have no rounding.
//
// Sliding windows that share slices cost the same for each event, however many windows it is in. They do with the default Trigger and
// Accumulation; with others each window has its own accumulator, and an event costs size/slide additions.
//
// PerEvent looks back from each event, which is what a model is trained on: Query reads the same window between events, so that a
// prediction and a training row at one time are equal once what happened before has come.
//
// Sessions exactly one gap apart are one, as in Flink. A session fires when the watermark reaches its end-1, and there the rule has a flaw:
//
//	gap = 10    event at 0                 event at 10
//	            |------------------)       |------------------)
//	            0                  10      10                 20
//
//	no watermark between them:    one session [0,20)
//	watermark 9 between them:     [0,10) has fired; Flink's rule gives two
//
// Both events were on time. Strict makes them two sessions always, and so does an operator that is Deterministic.
//
// # Where engines differ
//
// What Flink, Beam and Kafka Streams do differently is done here as in Flink 2.3, whose answers are among the tests: a session that
// has fired and is kept can grow past the watermark and then fires again as a whole, an event whose own session would be late counts
// when it touches one that is kept, and EarlyInterval fires also when nothing has changed, though
// once for a watermark that passes several multiples. The differences: results that come together are
// ordered by end, start and key, which Flink does not promise; an event between windows that slide by more than their size is
// Unassigned where Flink drops it without a trace (behind the watermark it is Late, as in Flink); Count with a final
// watermark emits nothing for incomplete windows, as in Flink, and names the span of the events.
//
// # Deterministic
//
// The order in which partitions are read is an accident, and so is what depends on it. A Deterministic operator gives the same results to
// the bit, in the same order, and the same Outcome for each event, for any interleaving of the same partitions:
//
//   - whether an event is late is judged by the watermark of its own partition;
//   - a window fires once with all events that were on time by that rule, and, when late ones came within AllowedLateness, once more when
//     that is over (Kind Updated), not at each;
//   - sessions are strict, and on time are events ahead of their partition's watermark;
//   - the aggregate must not depend on the order either; package aggregate says which do not.
//
// It needs all partitions to be known from the start. It costs a second layer of sessions and of PerEvent, and an accumulator in each window for late
// events.
//
// # State
//
// A key is forgotten when its last window is over; for Global and Count, which do not end, by KeyExpiry. MaxBytes and MaxKeyBytes bound
// the memory of all keys and of each, by a count that Operator.Bytes tells; MaxKeys, MaxWindowsPerKey and MaxIDs bound numbers. An event
// beyond a bound is Refused and counted, and nothing that is already there is lost; what is refused depends on the events alone, so that a
// replay refuses the same. Of several partitions it would depend on how these are interleaved: there a Deterministic operator changes nothing and
// answers ErrFull, and its caller reads the others on. Spill keeps the windows of all but MaxResident keys outside of memory, in package window/spill's case on
// disk; the keys themselves, and when they are due, stay.
//
// Snapshot writes all of it key by key, with a version and checksums, and SnapshotChanges what has changed since; Restore reads the one and
// what follows it and goes on as if nothing had happened, and RestoreKeys moves keys between operators. The accumulators encode themselves
// beginning with their version; Versioned reads those of an earlier version of the application.
//
// # Processing time
//
// ProcessingTime has windows of arrival, by a clock that it is given: what is wanted for "requests a second", and results that no replay
// repeats. Nothing else in this package looks at a clock.
package window
