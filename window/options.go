package window

import (
	"errors"
	"fmt"
	"time"
)

// Options of an Operator. The zero value is ready: monotonous watermarks, no lateness, one result a window when the watermark passes it.
type Options struct {
	// Watermark makes the watermarks from the records. Default: Monotonous.
	Watermark WatermarkStrategy
	// AllowedLateness keeps a window for so long after the watermark has passed its end; an event that comes meanwhile counts and
	// the window fires again. Default 0.
	AllowedLateness time.Duration
	// Deterministic makes the results independent of how the partitions are interleaved: the same results, to the bit and in the same
	// order, online and in a replay. See the package's documentation for what it costs. It goes with the default Trigger and
	// Accumulating, and not with Count or IdleAfter; with aggregates whose result depends on the order of the events (First and Last
	// by arrival, Collect) it cannot keep its promise.
	Deterministic bool

	// Trigger says when a window fires. Default: at the watermark, and at each late event.
	Trigger Trigger
	// Accumulation says what a window that fires more than once has in its results. Default Accumulating.
	Accumulation Accumulation

	// Partitions are known from the start, as 0 to n-1, and hold the watermark back until they have one. Others are known from their
	// first event or AddPartition. Default 0.
	Partitions int
	// IdleAfter stops waiting for a partition that is so far behind the greatest timestamp of all. It is event time: where
	// nothing comes from any partition, nothing becomes idle, and a partition without any event yet is waited for. Default: off.
	IdleAfter time.Duration
	// MaxJump rejects an event that is further than this ahead of all of its partition before, as TooFar, so that one wrong clock does
	// not close all windows. The third of three such in a row is believed. The first event of a partition always is. Default: off.
	MaxJump time.Duration

	// MaxKeys bounds the keys that have open windows; an event of one more is Refused. Default 16,777,216; -1 is no bound.
	MaxKeys int
	// MaxWindowsPerKey bounds the windows (of a sliding operator slices, of PerEvent instants) that one key has open; an event that needs one more is
	// Refused. Default 1,048,576; -1 is no bound.
	MaxWindowsPerKey int
	// MaxBytes bounds the memory of keys and windows: an event that needs a key or a window for which there is no room is Refused, and so is any
	// event of an aggregate that is a Sizer when it is reached, since that may grow; what is over makes room. So it may be passed by what one
	// event adds to accumulators. A Deterministic operator of several partitions answers ErrFull instead, as what is refused would depend on how these
	// are interleaved; so it does for the other bounds. With a Spill, windows go there instead, and keys alone have half of it.
	// What is counted: of a key, its bytes if it is a string, and about 100, 300 with slices, 400 with PerEvent; of a window 1.5 times the
	// size of A, and about 110; of a slice twice the size of A, and about 30; of an instant of PerEvent three times the size of A, and about 140;
	// of what a Spill has, about 60 for each window or key; and what a Sizer says.
	// The heap that BenchmarkMemory has measured was 0.5 to 1.2 times that. The ids of ProcessID come on top, some 100 bytes each. Default 16 GiB;
	// -1 is no bound.
	MaxBytes int64
	// MaxKeyBytes bounds a key with its windows in the same way; the key alone has half of it. Default 256 MiB; -1 is no bound, but a snapshot has room for 1 GiB.
	MaxKeyBytes int64
	// KeyExpiry forgets a key of Global or Count for which the watermark has gone this far past its last event, without a
	// result. Default: never.
	KeyExpiry time.Duration
	// Spill takes what the keys have that had no event for longest, where there are more than MaxResident of them; results are the same. Of
	// Tumbling, Calendar and Sliding without shared slices, each window is taken and comes back by itself: with an event for it and when it is
	// due. What keys have of others comes back as a whole. The keys themselves stay in memory, and when their windows are due;
	// keys of sessions, PerEvent and Deterministic that are due at one instant come back together. See Operator.Err for what an
	// error of it means. Default: all is in memory.
	Spill Spill
	// MaxResident is how many keys have their windows in memory when there is a Spill. Default 1,048,576.
	MaxResident int
	// MaxIDs bounds the event ids that ProcessID remembers; beyond it the oldest half is forgotten and counted (Counts.ForgottenIDs). Which
	// these are depends on how partitions are interleaved, in a Deterministic operator too. Default 1,048,576.
	MaxIDs int
	// IDHorizon is how far the watermark has to pass an event until its id is forgotten. Default: the window's size and
	// AllowedLateness, after which a duplicate is late anyway; one hour where windows have no size.
	IDHorizon time.Duration
}

// Trigger says when a window fires, besides the final result.
type Trigger struct {
	// EarlyCount fires before the watermark, at each so many events. Default: off.
	EarlyCount int
	// EarlyInterval fires before the watermark whenever that passes a multiple of this duration, from the first event of the window on,
	// as Flink's ContinuousEventTimeTrigger; but once for a watermark that passes several, where Flink fires as often with the same.
	// Default: off.
	EarlyInterval time.Duration
	// LateCount fires again at each so many events that come after the watermark. Default 1; -1 never does.
	LateCount int
	// NoWatermark does not fire at the watermark: only early triggers do.
	NoWatermark bool
	// Once finishes a window with its first result; what comes later for it is Late.
	Once bool
}

// Accumulation says what a result has when its window has fired before.
type Accumulation uint8

const (
	// Accumulating results have all events of the window.
	Accumulating Accumulation = iota
	// Discarding results have the events since the last result.
	Discarding
	// Retracting results are Accumulating, and before each comes the one that it replaces, as Kind Retraction.
	Retracting
)

// idHorizonWithoutSize is IDHorizon where windows have no size.
const idHorizonWithoutSize = time.Hour

func (o Options) withDefaults(a Assigner) Options {
	o.MaxKeys = orDefault(o.MaxKeys, 1<<24)
	o.MaxWindowsPerKey = orDefault(o.MaxWindowsPerKey, 1<<20)
	o.MaxBytes = orDefault(o.MaxBytes, 16<<30)
	o.MaxKeyBytes = orDefault(o.MaxKeyBytes, 256<<20)
	o.MaxIDs = orDefault(o.MaxIDs, 1<<20)
	o.MaxResident = orDefault(o.MaxResident, 1<<20)
	o.Trigger.LateCount = orDefault(o.Trigger.LateCount, 1)
	if o.IDHorizon == 0 {
		o.IDHorizon = idHorizonWithoutSize
		switch {
		case a.size > 0:
			o.IDHorizon = time.Duration(Timestamp(a.size).Add(o.AllowedLateness))
		case a.kind == calendar:
			o.IDHorizon = time.Duration(Timestamp(32 * 24 * time.Hour).Add(o.AllowedLateness))
		}
	}
	return o
}

func orDefault[N int | int64](v, d N) N {
	if v == 0 {
		return d
	}
	return v
}

func (o Options) validate(a Assigner) error {
	errs := []error{a.validate()}
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Watermark.bound < 0, "out-of-orderness %v is negative", o.Watermark.bound)
	for _, d := range []struct {
		name string
		time.Duration
	}{
		{"AllowedLateness", o.AllowedLateness},
		{"IdleAfter", o.IdleAfter},
		{"MaxJump", o.MaxJump},
		{"KeyExpiry", o.KeyExpiry},
		{"IDHorizon", o.IDHorizon},
		{"EarlyInterval", o.Trigger.EarlyInterval},
	} {
		check(d.Duration < 0, "%s %v is negative", d.name, d.Duration)
	}
	check(o.Trigger.EarlyCount < 0, "EarlyCount %d is negative", o.Trigger.EarlyCount)
	check(o.Trigger.LateCount < -1, "LateCount %d is below -1", o.Trigger.LateCount)
	check(o.Partitions < 0, "Partitions %d is negative", o.Partitions)
	check(o.MaxKeys < -1 || o.MaxWindowsPerKey < -1 || o.MaxBytes < -1 || o.MaxKeyBytes < -1 || o.MaxIDs < 1, "a bound is negative")
	check(o.MaxResident < 1, "MaxResident %d is not positive", o.MaxResident)
	check(o.Accumulation > Retracting, "Accumulation %d is unknown", o.Accumulation)
	check(o.KeyExpiry > 0 && a.kind != global && a.kind != counting, "KeyExpiry is for Global and Count: other windows end by themselves")
	check(a.kind == counting && (o.Trigger != Trigger{LateCount: 1} || o.Accumulation != Accumulating),
		"Count has no trigger but its count")
	if reading := (Trigger{LateCount: -1, NoWatermark: true}); a.kind == perEvent {
		check(o.Trigger != Trigger{LateCount: 1} && o.Trigger != reading, "PerEvent has the default trigger, or NoWatermark with LateCount -1")
		check(o.Accumulation == Discarding, "PerEvent windows share their events and discard none")
	}
	if o.Deterministic {
		check(o.Trigger != Trigger{LateCount: 1} || o.Accumulation != Accumulating, "Deterministic goes with the default trigger, accumulating")
		check(a.kind == counting, "Count depends on the order of partitions and is not Deterministic")
		check(o.IdleAfter > 0, "IdleAfter depends on the order of partitions and is not Deterministic")
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return nil
}

// key identifies the options that a snapshot depends on.
func (o Options) key() string {
	return fmt.Sprintf("%d %t %v %d", o.AllowedLateness, o.Deterministic, o.Trigger, o.Accumulation)
}
