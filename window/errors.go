package window

import "errors"

// Errors of this package. Those of options are joined, so that one call of New shows them all.
var (
	// ErrOptions is in every error that New returns.
	ErrOptions = errors.New("window: invalid options")
	// ErrTimestamp says that an event has MinTimestamp or MaxTimestamp, which are watermarks and no times. It is permanent.
	ErrTimestamp error = timestampError{}
	// ErrFull says that a Deterministic operator of several partitions has no room for an event. Nothing has changed: where other
	// partitions that are behind (Operator.Ahead) are read on, the watermark makes room, and the event can be given again.
	ErrFull = errors.New("window: no room for an event")
	// ErrSnapshot says that what Restore read is no snapshot, is damaged, or is cut off.
	ErrSnapshot = errors.New("window: invalid snapshot")
	// ErrSnapshotMismatch says that a snapshot is sound but comes from an operator with another assigner or other options.
	ErrSnapshotMismatch = errors.New("window: snapshot of another operator")
	// ErrNotEmpty says that Restore was called on an operator that has state already.
	ErrNotEmpty = errors.New("window: operator has state")
)

type timestampError struct{}

func (timestampError) Error() string { return "window: timestamp out of range" }

// Permanent says that the same event fails again.
func (timestampError) Permanent() bool { return true }
