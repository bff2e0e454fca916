package embed

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// ErrVector says that an embedder answered, for one input, no vector or one that cannot be compared; see [CheckVector].
var ErrVector = errors.New("embed: invalid vector")

// CheckVector returns an error that is [ErrVector] unless v can be compared by cosine: it has dims components (any number but 0, when
// dims is 0), all finite, not all zero. The error is permanent: it has a method Permanent() bool that answers true.
func CheckVector(v []float32, dims int) error {
	if len(v) == 0 || dims > 0 && len(v) != dims {
		return itemerror.Permanent(fmt.Errorf("%w: %d components, want %d", ErrVector, len(v), dims))
	}
	zero := true
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return itemerror.Permanent(fmt.Errorf("%w: component %d is %v", ErrVector, i, x))
		}
		zero = zero && x == 0
	}
	if zero {
		return itemerror.Permanent(fmt.Errorf("%w: all %d components are zero", ErrVector, len(v)))
	}
	return nil
}

// Each embeds inputs in one call of e, and returns a checked vector (see [CheckVector]) or an error for every one of them, so that
// no input suffers from its neighbours: where the embedder answers a wrong number of vectors, or refuses all inputs for good without
// saying which is to blame, each is tried alone. A panic passes through.
func Each[In any](ctx context.Context, e Embedder[In], inputs []In) (vectors [][]float32, errs []error) {
	vectors, err := call(ctx, e, inputs)
	errs, named := itemerror.Align(err, len(inputs))
	if !named && len(inputs) > 1 && itemerror.IsPermanent(err) {
		return alone(ctx, e, inputs)
	}
	if errs == nil {
		errs = make([]error, len(inputs))
	}
	if !named {
		vectors = make([][]float32, len(inputs))
	}
	dims := e.Model().Dimensions
	for i := range vectors {
		if errs[i] == nil {
			errs[i] = CheckVector(vectors[i], dims)
		}
		if errs[i] != nil {
			vectors[i] = nil
		}
	}
	return vectors, errs
}

// alone is Each with a call for each input.
func alone[In any](ctx context.Context, e Embedder[In], inputs []In) (vectors [][]float32, errs []error) {
	for i := range inputs {
		v, err := Each(ctx, e, inputs[i:i+1])
		vectors, errs = append(vectors, v[0]), append(errs, err[0])
	}
	return vectors, errs
}

// call calls the embedder. An answer of the wrong length is an error that is permanent.
func call[In any](ctx context.Context, e Embedder[In], inputs []In) ([][]float32, error) {
	vectors, err := e.Embed(ctx, inputs)
	if _, named := itemerror.Align(err, len(inputs)); named && len(vectors) != len(inputs) {
		return nil, itemerror.Permanent(fmt.Errorf("embed: the embedder answered %d vectors for %d inputs", len(vectors), len(inputs)))
	}
	return vectors, err
}
