package window

// Key is what an operator groups events by. Results of one window come in the order of their keys.
type Key interface {
	~string | ~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// Aggregator folds the events of a window into an accumulator A and makes the result R of it. The zero A is empty. Package aggregate
// has the usual ones, and Pair to have several at once. It is called from the goroutine that calls the Operator.
type Aggregator[V, A, R any] interface {
	// Add adds one event.
	Add(acc *A, v V)
	// Merge adds all events of from, which it neither changes nor keeps a reference into. into may be the zero A.
	Merge(into *A, from A)
	// Result is the result so far; more may be added afterwards.
	Result(acc *A) R
	// Append appends the accumulator's bytes to dst, for a snapshot. They begin with a version.
	Append(dst []byte, acc *A) []byte
	// Decode reads what Append made, and is an error for anything else: bytes of a later version, cut off, or damaged.
	Decode(src []byte, acc *A) error
}

// Rejecter is what an Aggregator may implement besides, to keep values out: an event whose value is rejected changes nothing and comes
// back as Rejected.
type Rejecter[V any] interface {
	Rejects(v V) bool
}

// Remover is what an Aggregator may implement besides, where events can be taken out again: a PerEvent window is then made of the one before it.
type Remover[A any] interface {
	// Remove takes the events of part, all of which have been added or merged, out of from, and leaves it as if they had never been in it, to
	// the bit. False says that this cannot be done for these, such as for a NaN in a sum; from is then not used again.
	Remove(from *A, part A) bool
}

// Sizer is what an Aggregator may implement besides, whose accumulators refer to memory of their own: maps, slices, strings.
type Sizer[A any] interface {
	// Sizer is a function that says how many bytes an accumulator refers to, about, without those of A itself; nil where none does. It
	// is called before and after each event, so it has to be quick, and it must say the same of what Decode makes of Append's bytes. What an
	// aggregate without it refers to is not counted.
	Sizer() func(acc *A) int
}

// Result is the value of one window of one key.
type Result[K Key, R any] struct {
	Window Window
	Key    K
	Value  R
	Kind   Kind
}

// Kind says why a result came.
type Kind uint8

const (
	// OnTime results come when the watermark passes the window's end.
	OnTime Kind = iota
	// Early results come before, by a trigger.
	Early
	// Updated results come after, because a late event was allowed.
	Updated
	// Retraction takes an earlier result back; the one that replaces it follows.
	Retraction
)

var kindNames = [...]string{"on time", "early", "updated", "retraction"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Outcome says what became of an event. All but Accepted have changed nothing but counts and watermarks, so that the caller has the
// event to publish it elsewhere.
type Outcome int

const (
	// Accepted events are in at least one window.
	Accepted Outcome = iota
	// Late events come when all of their windows are gone.
	Late
	// Unassigned events are in no window, between two that slide by more than their size.
	Unassigned
	// Duplicate events have an id that was seen before.
	Duplicate
	// TooFar events are further ahead than Options.MaxJump. The watermark does not move.
	TooFar
	// Refused events come when there is no room: Options.MaxKeys, MaxWindowsPerKey, MaxBytes or MaxKeyBytes is reached. The watermark moves.
	Refused
	// Rejected events have a value that the aggregator keeps out. The watermark moves.
	Rejected
	outcomes
)

var outcomeNames = [outcomes]string{"accepted", "late", "unassigned", "duplicate", "too far", "refused", "rejected"}

func (o Outcome) String() string {
	if o >= 0 && o < outcomes {
		return outcomeNames[o]
	}
	return "unknown"
}

// Counts are events by outcome and other totals since the operator was made; a snapshot has them.
type Counts struct {
	Accepted, Late, Unassigned, Duplicate, TooFar, Refused, Rejected uint64
	// Results counts what was emitted, Expired the keys that KeyExpiry forgot, ForgottenIDs the ids that MaxIDs forgot.
	Results, Expired, ForgottenIDs uint64
}
