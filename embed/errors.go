package embed

import (
	"errors"
	"fmt"
)

// BatchError says which inputs of one Embed call failed. It is the error that [Embedder] asks for when some inputs fail
// and others do not.
//
//	errs := make([]error, len(inputs)) // one place an input, nil: embedded
//	...
//	return vectors, embed.NewBatchError(errs)
type BatchError struct {
	// Errs has one place an input, in the order of the inputs; nil means that the input was embedded.
	Errs []error
}

// NewBatchError returns a *[BatchError] that holds errs, or nil when every place of errs is nil. It keeps errs: the caller
// must not change it afterwards.
func NewBatchError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return &BatchError{Errs: errs}
		}
	}
	return nil
}

// Error says how many inputs failed, and the first failure with the place of its input.
func (e *BatchError) Error() string {
	failed := e.Unwrap()
	for i, err := range e.Errs {
		if err != nil {
			return fmt.Sprintf("embed: %d of %d inputs failed, first input %d: %v", len(failed), len(e.Errs), i, err)
		}
	}
	return fmt.Sprintf("embed: 0 of %d inputs failed", len(e.Errs))
}

// ItemErrors returns Errs: one place an input, nil where it was embedded.
func (e *BatchError) ItemErrors() []error { return e.Errs }

// Unwrap returns the errors of the inputs that failed, so that errors.Is and errors.As look into each.
func (e *BatchError) Unwrap() []error {
	var failed []error
	for _, err := range e.Errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// Permanent reports whether every input that failed did so for good: each of their errors has a method Permanent() bool
// that answers true. One input that may succeed later makes the batch worth a retry.
func (e *BatchError) Permanent() bool {
	failed := e.Unwrap()
	for _, err := range failed {
		var p interface{ Permanent() bool }
		if !errors.As(err, &p) || !p.Permanent() {
			return false
		}
	}
	return len(failed) > 0
}
