package vectorstore

import (
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// Kind says what became of an event.
type Kind int

// The kinds of outcomes.
const (
	// Created: the object is new, or is there again after a deletion.
	Created Kind = iota + 1
	// Updated: the object shows the event. With nothing in Outcome.Embedded, its vectors were kept.
	Updated
	// Moved: the object is the one that the row had under its old primary key, and is there under the new one. With
	// nothing in Outcome.Embedded, it has brought its vectors along.
	Moved
	// Deleted: the object is removed, and the deletion remembered; so too when Mapping.Filter no longer wants the row,
	// or never did.
	Deleted
	// Unchanged: the store shows the event already. It was delivered again, or is the tombstone of a row that is
	// deleted.
	Unchanged
	// Stale: the store, or the batch, has a later change of the key.
	Stale
	// Collapsed: a later event of the batch has taken its place.
	Collapsed
	// Cleared: the table was truncated, and the store cleared.
	Cleared
	// Skipped: a logical message, which concerns no row.
	Skipped
)

var kindNames = [...]string{
	"Kind(0)", "created", "updated", "moved", "deleted", "unchanged", "stale", "collapsed", "cleared", "skipped",
}

// String returns the name in lower case, as it stands in metrics.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Outcome says what became of one event.
type Outcome struct {
	// Ref is the object, the zero Ref where the event concerns none.
	Ref Ref
	// Key is the event's, before Mapping.Key.
	Key  cdc.Key
	Op   cdc.Op
	Kind Kind
	// Position is the event's place in the order of its source.
	Position cdc.Position
	// Embedded are the names of the vectors that were made for the event, in the order of the mapping. Created, Updated,
	// Moved only.
	Embedded []string
	// Refused are the names of the Optional vectors that the object lacks because the model refused their input.
	Refused []string
	// Freshness is the time from the commit at the source to the acknowledged write. Zero for events that were not
	// written, rows read by a snapshot, and where the source does not say when it committed.
	Freshness time.Duration
	// Latency is the time from the event's publishing to the acknowledged write. Zero where Freshness would be, but not
	// for snapshots.
	Latency time.Duration
	// Embed and Write are how long the embedding and the writing took for the batch that the event was in. Zero for
	// events that were not written.
	Embed, Write time.Duration
}

// written reports whether the event itself reached the store.
func (k Kind) written() bool {
	return k == Created || k == Updated || k == Moved || k == Deleted || k == Cleared
}
