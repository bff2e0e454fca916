package embed

import "context"

// Embedder turns inputs into vectors. Implementations are safe for concurrent use.
//
// The result has one vector an input, in the order of the inputs. When some inputs fail and others do not, the error has a
// method ItemErrors() []error of the same length (see [BatchError]), and vectors[i] is nil exactly where ItemErrors()[i] is
// not; any other error means that no input was embedded. An error with a method Permanent() bool that answers true will not
// go away by a retry. No inputs are no vectors and no error.
type Embedder[In any] interface {
	Embed(ctx context.Context, inputs []In) ([][]float32, error)
	// Model describes what makes the vectors. It is constant for the value's life.
	Model() Model
}

// Image is an encoded picture: PNG, JPEG, GIF or WebP bytes.
type Image []byte

// Model says which vectors an Embedder makes. Two vectors may be compared only when their fingerprints are equal.
type Model struct {
	// Name is for people, such as "all-MiniLM-L6-v2".
	Name string
	// Fingerprint changes whenever the vectors do: with the weights, the pooling, the length limit.
	Fingerprint string
	// Dimensions is the length of every vector.
	Dimensions int
	// MaxLength is the longest input in tokens, special tokens included; what is longer is cut. Zero where nothing is cut, or
	// where the model's inputs are not tokens.
	MaxLength int
}
