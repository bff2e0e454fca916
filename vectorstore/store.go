package vectorstore

import "context"

// ID is an object's id: a UUID as lower-case text, usually from [UUID5].
type ID string

// Ref names an object. Tenant is empty in stores without tenants.
type Ref struct {
	ID     ID
	Tenant string
}

// Object is what a Store holds for one row.
type Object struct {
	Ref
	// Properties are the searchable and returned values by name. A nil value is a null.
	Properties map[string]any
	// Vectors are the named vectors. A name that is missing or nil has no vector.
	Vectors map[string][]float32
	// Inputs says, by vector name, what the vector was made from: a short digest of the input and of the model. Equal digests mean
	// that embedding again would give the same vector. A name can be here without a vector, when the input was empty.
	Inputs map[string]string
	// Version is the source position of the change that the object shows, [cdc.Position] as text. Empty: unknown.
	Version string
	// Deleted marks what a Store remembers of a deleted object: its Ref and Version, nothing else.
	Deleted bool
}

// Action says what a Mutation does.
type Action int

const (
	// Upsert replaces the whole object.
	Upsert Action = iota
	// Merge keeps of the stored object what Object lacks: properties, vectors and inputs by name. A name with a nil value clears
	// what is stored. Where nothing is stored, it is an Upsert.
	Merge
	// Delete removes the object and remembers its Ref and Version. Deleting what is not there is not an error.
	Delete
)

// Mutation is one write.
type Mutation struct {
	Action Action
	Object Object
}

// Query finds the objects nearest to a vector.
type Query struct {
	Tenant string
	// Vector is the name of the vector to compare with Near. Objects without it are not found.
	Vector string
	Near   []float32
	// Limit is the largest number of matches, 10 when zero.
	Limit int
}

// Match is one answer to a Query, nearest first.
type Match struct {
	Object Object
	// Distance is the cosine distance, 0 (same direction) to 2 (opposite).
	Distance float32
}

// Store holds objects. Implementations are safe for concurrent use; concurrent writes of one object are the caller's to order.
type Store interface {
	// Apply makes the mutations take effect in order: of two of one Ref, the later wins. A nil error means that all are durable and
	// searchable. An error with ItemErrors() []error is aligned with m, nil where a mutation was done; any other error means that
	// none is known to be. Applying a mutation again is harmless.
	Apply(ctx context.Context, m []Mutation) error
	// Get returns objects aligned with r: nil where nothing is known, Deleted where a deletion is remembered. Vectors are included.
	Get(ctx context.Context, r []Ref) ([]*Object, error)
	// Search returns the nearest objects, nearest first.
	Search(ctx context.Context, q Query) ([]Match, error)
}

// Clearer is a Store that can forget everything of a tenant, or of a store without tenants, at once; a truncated table needs it.
type Clearer interface {
	Clear(ctx context.Context, tenant string) error
}
