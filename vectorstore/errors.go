package vectorstore

import (
	"errors"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// The errors that a [Store] or the [Sink] wraps, with the object, column or table that they concern. All but ErrConflict are
// permanent: the same call will fail again.
var (
	// ErrID: an object's id is not a UUID as lower-case text.
	ErrID = errors.New("vectorstore: invalid id")
	// ErrVector: a vector has NaN, infinite or only zero components, or another length than the vectors of its name.
	ErrVector = errors.New("vectorstore: invalid vector")
	// ErrValue: a property's value is of a type that is not stored, or out of range.
	ErrValue = errors.New("vectorstore: unsupported property value")
	// ErrKey: a key column's value has no defined id.
	ErrKey = errors.New("vectorstore: unsupported key")
	// ErrNoKey: a change of a row has no key, so that its object has no id.
	ErrNoKey = errors.New("vectorstore: event without a key")
	// ErrNoRow: a create, update or read event lacks the row as it is after the change.
	ErrNoRow = errors.New("vectorstore: event without its row")
	// ErrUnavailable: the event lacks the values of columns that the change left as they were, and what is made of them is
	// not stored, or must be made anew.
	ErrUnavailable = errors.New("vectorstore: unavailable columns")
	// ErrBlank: a vector's input has nothing to embed, and its rule is [BlankRefused].
	ErrBlank = errors.New("vectorstore: blank input")
	// ErrTruncate: the table was truncated, and the store is no [Clearer], or no [Tenanted] where the mapping has tenants.
	ErrTruncate = errors.New("vectorstore: the store cannot be cleared")
	// ErrQuery: a query makes no sense, whatever the store.
	ErrQuery = errors.New("vectorstore: invalid query")
	// ErrUnsupported: the store cannot answer this part of a query, or hold this part of an object, which the error names.
	ErrUnsupported = errors.New("vectorstore: unsupported by this store")
	// ErrConflict: the object has been changed since it was read, by another writer. Reading it again and deciding again cures it.
	ErrConflict = errors.New("vectorstore: the object has changed since it was read")
	// ErrOp: the event's operation is unknown.
	ErrOp = errors.New("vectorstore: unknown operation")
)

// BatchError says which mutations of one Apply call, or events of one [Sink.Handle] call, failed.
type BatchError struct {
	// Errs has one place an item, in their order; nil means that the item is done.
	Errs []error
}

// NewBatchError returns a *[BatchError] that holds errs, or nil when every place of errs is nil. It keeps errs: the
// caller must not change it afterwards.
func NewBatchError(errs []error) error {
	if len(itemerror.Failed(errs)) == 0 {
		return nil
	}
	return &BatchError{Errs: errs}
}

// Error says how many items failed, and the first failure with its place.
func (e *BatchError) Error() string { return itemerror.Text("vectorstore", "items", e.Errs) }

// ItemErrors returns Errs: one place an item, nil where it is done.
func (e *BatchError) ItemErrors() []error { return e.Errs }

// Unwrap returns the errors of the items that failed, so that errors.Is and errors.As look into each.
func (e *BatchError) Unwrap() []error { return itemerror.Failed(e.Errs) }

// Permanent reports whether every item that failed did so for good. One that may succeed later makes the batch worth a
// retry.
func (e *BatchError) Permanent() bool { return itemerror.AllPermanent(e.Errs) }

// Permanent marks err as one that a retry cannot cure: the result has a method Permanent() bool that answers true, and
// wraps err. It returns nil for nil.
func Permanent(err error) error { return itemerror.Permanent(err) }
