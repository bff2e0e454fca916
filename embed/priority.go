package embed

import "context"

// Priority says how urgent a call is. It travels in the context, so that it reaches a [Batcher], and a store, through
// whatever wraps it.
type Priority int

// The priorities. Live is the zero value: a context that says nothing is live.
const (
	Live     Priority = iota // somebody waits for it: a change that has just happened, a search
	Backfill                 // existing rows; it yields to what is live
)

const priorities = 2

type priorityKey struct{}

// WithPriority returns a context whose embedding calls have priority p. A value that is none of the constants counts as Backfill.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// PriorityOf returns the priority of a context, which whatever does the work of a call may heed, as vectorstore/weaviate does.
func PriorityOf(ctx context.Context) Priority {
	switch p, _ := ctx.Value(priorityKey{}).(Priority); p {
	case Live:
		return Live
	default:
		return Backfill
	}
}
