package vectorstore

import (
	"context"
	"fmt"
	"strings"
)

// ID is an object's id: a UUID as lower-case text, usually from [UUID5].
type ID string

// Check returns an error that is [ErrID] unless the id is a UUID as lower-case text with hyphens, the one spelling that
// a Store accepts: stores compare ids as text, and two spellings of one UUID would be two objects in one batch.
func (id ID) Check() error {
	valid := len(id) == 36
	for i := 0; valid && i < len(id); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			valid = id[i] == '-'
		} else {
			valid = strings.IndexByte("0123456789abcdef", id[i]) >= 0
		}
	}
	if !valid {
		return Permanent(fmt.Errorf("%w: %.64q is not a UUID in lower case", ErrID, string(id)))
	}
	return nil
}

// Ref names an object. Tenant is empty in stores without tenants.
type Ref struct {
	ID     ID
	Tenant string
}

// Object is what a Store holds for one row.
type Object struct {
	Ref
	// Properties are the searchable and returned values by name. A nil value is a null, which a Store may return as nil
	// or leave out. Values are what [Value] accepts; they come back as the types that it returns.
	Properties map[string]any
	// Vectors are the named vectors. A name that is missing or nil has no vector.
	Vectors map[string][]float32
	// MultiVectors are named lists of vectors of one length, such as a vector for each token of a text (ColBERT), which are compared
	// by [Query].NearMulti. A name is of one kind: in all objects of a store, it is either here or in Vectors. One that is missing or
	// empty has none. A Store that has no such lists refuses an object with one, by [ErrUnsupported].
	MultiVectors map[string][][]float32
	// Inputs says, by vector name, what the vector was made from: a short digest of the input and of the model. Equal
	// digests mean that embedding again would give the same vector. A name can be here without a vector, when the input
	// was empty. An empty digest is the same as a missing name.
	Inputs map[string]string
	// Version is the source position of the change that the object shows, [cdc.Position] as text. Empty: unknown.
	Version string
	// Deleted marks what a Store remembers of a deleted object: its Ref and Version, nothing else.
	Deleted bool
}

// Action says what a Mutation does.
type Action int

const (
	// Upsert replaces the whole object, a remembered deletion included.
	Upsert Action = iota
	// Merge keeps of the stored object what Object lacks: properties, vectors of both kinds and inputs by name, and the Version where
	// it is empty. A name with a nil value (an empty one, in Inputs) clears what is stored. Where nothing is stored, or
	// a deletion is remembered, it is an Upsert.
	Merge
	// Delete removes the object and remembers its Ref and Version. Deleting what is not there is not an error; it is
	// remembered too.
	Delete
)

// String returns the name of the constant.
func (a Action) String() string {
	switch a {
	case Upsert:
		return "Upsert"
	case Merge:
		return "Merge"
	case Delete:
		return "Delete"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// Mutation is one write.
type Mutation struct {
	Action Action
	Object Object
}

// Store holds objects. Implementations are safe for concurrent use; concurrent writes of one object are the caller's to
// order. They keep nothing of what they are given and share nothing of what they return. Package storetest checks all
// of it.
type Store interface {
	// Apply makes the mutations take effect in order: of two of one Ref, the later wins. A nil error means that all are
	// durable and searchable. An error with ItemErrors() []error is aligned with m, nil where a mutation was done; any
	// other error means that none is known to be. Applying a mutation again is harmless.
	//
	// An item error concerns that mutation alone; later ones of the same Ref still take effect.
	Apply(ctx context.Context, m []Mutation) error
	// Get returns objects aligned with r: nil where nothing is known, Deleted where a deletion is remembered. Vectors
	// are included.
	Get(ctx context.Context, r []Ref) ([]*Object, error)
	// Search returns what a query asks for, the best first. Deleted objects are never found. What the Store cannot answer is
	// [ErrUnsupported]; finding the objects nearest to one vector is the least that every Store can.
	Search(ctx context.Context, q Query) ([]Match, error)
}

// Conditional is a Store that can compare and write in one step, so that a writer cannot undo what another has written since it
// read. The [Sink] makes use of it: a consumer that has lost its partition, but does not know it yet, gets [ErrConflict].
type Conditional interface {
	// ApplyIf is Apply for mutations each of which takes effect only if the Version of the object or remembered deletion that is
	// stored is the one in the same place of versions, which is empty where nothing is stored. Otherwise its item error is
	// [ErrConflict], which is not permanent. Of several mutations of one Ref, each is compared with what the one before has left.
	ApplyIf(ctx context.Context, m []Mutation, versions []string) error
}

// Clearer is a Store that can forget everything of a tenant, or of a store without tenants, at once; a truncated table
// needs it. Remembered deletions are forgotten too.
//
// A truncate may be handled after changes that came later at the source. A Clearer that is no [VersionedClearer] loses
// those until the rows change again.
type Clearer interface {
	Clear(ctx context.Context, tenant string) error
}

// VersionedClearer is a Clearer that can keep what is newer.
type VersionedClearer interface {
	Clearer
	// ClearBefore forgets, of a tenant, the objects and remembered deletions whose Version is bytewise less than the
	// given one; an empty Version is less than every other. Clearing again is harmless.
	ClearBefore(ctx context.Context, tenant, version string) error
}

// Tenanted is a Store that keeps the objects of several tenants apart, and knows which there are. The empty tenant is one
// as well.
type Tenanted interface {
	// Tenants returns the tenants that have objects or remembered deletions, sorted.
	Tenants(ctx context.Context) ([]string, error)
}
