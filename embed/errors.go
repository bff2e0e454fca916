package embed

import "github.com/tidemark-go/tidemark/internal/itemerror"

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
	if len(itemerror.Failed(errs)) == 0 {
		return nil
	}
	return &BatchError{Errs: errs}
}

// Error says how many inputs failed, and the first failure with the place of its input.
func (e *BatchError) Error() string { return itemerror.Text("embed", "inputs", e.Errs) }

// ItemErrors returns Errs: one place an input, nil where it was embedded.
func (e *BatchError) ItemErrors() []error { return e.Errs }

// Unwrap returns the errors of the inputs that failed, so that errors.Is and errors.As look into each.
func (e *BatchError) Unwrap() []error { return itemerror.Failed(e.Errs) }

// Permanent reports whether every input that failed did so for good: each of their errors has a method Permanent() bool
// that answers true. One input that may succeed later makes the batch worth a retry.
func (e *BatchError) Permanent() bool { return itemerror.AllPermanent(e.Errs) }
