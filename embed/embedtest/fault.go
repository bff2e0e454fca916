package embedtest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrInjected is what every injected failure wraps, unless its [Fault] brings an error of its own.
var ErrInjected = errors.New("embedtest: injected fault")

// Kind says what goes wrong.
type Kind int

// The kinds of faults. Fail to FailCall are failures that an embedder reports; NaN to OneTooFew are wrong answers without
// any error, such as a broken model gives.
const (
	Fail           Kind = iota // the input fails with an item error; its neighbours are embedded
	FailCall                   // the call fails as a whole, with an error that has no items
	Panic                      // the call panics
	Slow                       // nothing fails; with Delay, the call takes longer
	NaN                        // the first component of the vector is NaN
	Inf                        // the first component of the vector is +Inf
	Zero                       // every component of the vector is 0
	WrongDimension             // the vector has one component too many
	Missing                    // the vector is nil, and no error says so
	OneTooFew                  // the call answers one vector fewer than it had inputs
)

var kindNames = [...]string{
	"Fail", "FailCall", "Panic", "Slow", "NaN", "Inf", "Zero", "WrongDimension", "Missing", "OneTooFew",
}

// String returns the name of the constant.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Fault is one thing that goes wrong. Faults that are injected first are looked at first; an input, and a call, suffers from
// every fault that matches, and the last wins where two cannot both be.
type Fault struct {
	// Match selects the inputs that contain it; empty selects all. A kind that concerns the call strikes when the call has
	// such an input.
	Match string
	// Kind is what happens; the zero value is Fail.
	Kind Kind
	// Times is how often it strikes, counted an input (an input twice in a call counts twice) or, for a kind that concerns
	// the call, a call. Zero: for ever.
	Times int
	// Permanent is what the error's Permanent method answers, for Fail and FailCall.
	Permanent bool
	// Err is what the error wraps, for Fail and FailCall; nil: [ErrInjected].
	Err error
	// Delay is how long the call waits before it answers, whatever the Kind; the longest of a call's faults counts. The wait
	// ends early, with the context's error, when the context is done.
	Delay time.Duration
}

// ofCall reports whether the fault concerns the call and not single inputs.
func (f *Fault) ofCall() bool {
	return f.Kind == FailCall || f.Kind == Panic || f.Kind == Slow || f.Kind == OneTooFew
}

// strike reports whether the fault happens to an input, and counts it.
func (f *fault) strike(input string) bool {
	if f.spent() || !strings.Contains(input, f.Match) {
		return false
	}
	f.struck++
	return true
}

func (f *fault) spent() bool { return f.Times > 0 && f.struck >= f.Times }

// fault is a Fault with its count.
type fault struct {
	Fault
	struck int
}

// spoil returns the vector that the fault makes of a good one.
func (f *Fault) spoil(v []float32) []float32 {
	switch f.Kind {
	case NaN:
		v[0] = float32(math.NaN())
	case Inf:
		v[0] = float32(math.Inf(1))
	case Zero:
		clear(v)
	case WrongDimension:
		v = append(v, 0)
	case Missing:
		v = nil
	}
	return v
}

func (f *Fault) error() error {
	err := f.Err
	if err == nil {
		err = ErrInjected
	}
	return &faultError{err: err, permanent: f.Permanent}
}

// faultError is the error of an input or call that was made to fail.
type faultError struct {
	err       error
	permanent bool
}

func (e *faultError) Error() string   { return e.err.Error() }
func (e *faultError) Unwrap() error   { return e.err }
func (e *faultError) Permanent() bool { return e.permanent }
