package topology

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

var (
	// ErrRefused says that a change was refused, by the rules of this package or by the server.
	ErrRefused = errors.New("topology: refused")
	// ErrNotFound says that a tenant that was to be read does not exist.
	ErrNotFound = errors.New("not found")
)

// Refusal is a change that Plan will not make, and why. Apply makes nothing while there is one.
type Refusal struct {
	// Resource is what the change is about, as "topic persistent://shop/events/orders".
	Resource string
	// Reason says what is to do about it too.
	Reason string
}

// String is the refusal in a line.
func (r Refusal) String() string { return line(r.Resource + ": " + r.Reason) }

// ApplyError says how far Apply came: Done is in force, Failed is the change that was refused or got no answer, and may be in force in
// the second case, NotDone are those after it. Plan again, mend, and apply: what is done is no part of the next plan.
type ApplyError struct {
	Done []Change
	// Failed is the zero Change where the plan held refusals, so that nothing was tried.
	Failed  Change
	NotDone []Change
	// Err is the reason, the server's in its own words.
	Err error
}

func (e *ApplyError) Error() string {
	if e.Failed == (Change{}) {
		return fmt.Sprintf("%v (none of %d changes was made)", e.Err, len(e.NotDone))
	}
	return fmt.Sprintf("topology: %s: %v (%d changes were made before it, %d were not)", e.Failed, e.Err, len(e.Done), len(e.NotDone))
}

// Unwrap returns Err.
func (e *ApplyError) Unwrap() error { return e.Err }

// Is says that what the server refused is ErrRefused.
func (e *ApplyError) Is(target error) bool {
	status := admin.Status(e.Err)
	return target == ErrRefused && status/100 == 4 && status != http.StatusTooManyRequests
}
