// Package itemerror is how the packages ask an error what it says of a batch's items. They meet in methods, never in types: an
// error with ItemErrors() []error is aligned with the batch, nil meaning done; one with Permanent() bool that answers true will
// not go away by a retry.
package itemerror

import (
	"errors"
	"fmt"
	"slices"
)

// Permanent marks err as one that no retry mends: the result wraps it, and has a method Permanent() bool that answers true. It
// returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }
func (permanentError) Permanent() bool { return true }

// IsPermanent asks the first error of the chain that has an opinion.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// Align returns an error a place for a batch of n items: err's own, where it has n of them, else err in every place. named says
// whether they are err's own. The result is the caller's to change; for a nil err it is nil, and named.
func Align(err error, n int) (errs []error, named bool) {
	if err == nil {
		return nil, true
	}
	var items interface{ ItemErrors() []error }
	if errors.As(err, &items) {
		if own := items.ItemErrors(); len(own) == n {
			return slices.Clone(own), true
		}
	}
	errs = make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs, false
}

// Failed returns the places that hold an error.
func Failed(errs []error) []error {
	var failed []error
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// AllPermanent reports whether some items failed and all that did are permanent.
func AllPermanent(errs []error) bool {
	failed := Failed(errs)
	for _, err := range failed {
		if !IsPermanent(err) {
			return false
		}
	}
	return len(failed) > 0
}

// Text says how many of the items, such as "inputs", failed, and the first failure with its place, counted from 0.
func Text(prefix, items string, errs []error) string {
	failed := len(Failed(errs))
	for i, err := range errs {
		if err != nil {
			return fmt.Sprintf("%s: %d of %d %s failed, the first, number %d: %v", prefix, failed, len(errs), items, i, err)
		}
	}
	return fmt.Sprintf("%s: 0 of %d %s failed", prefix, len(errs), items)
}
