package vectorstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// CheckVector returns an error that is [ErrVector] unless v can be compared by cosine: it has dims components (any
// number but 0, when dims is 0), all finite, not all zero.
func CheckVector(v []float32, dims int) error {
	if len(v) == 0 || dims > 0 && len(v) != dims {
		return Permanent(fmt.Errorf("%w: %d components, want %d", ErrVector, len(v), dims))
	}
	zero := true
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return Permanent(fmt.Errorf("%w: component %d is %v", ErrVector, i, x))
		}
		zero = zero && x == 0
	}
	if zero {
		return Permanent(fmt.Errorf("%w: all %d components are zero", ErrVector, len(v)))
	}
	return nil
}

// Vector says how one named vector is made of rows of T. [Embed] makes it.
type Vector[T any] struct {
	// Name is the vector's name in the Store.
	Name string
	// Only, when not nil, says which objects have this vector, by their id; the others lose it if they have it. It must
	// always answer the same for the same key. With [embed.Share] it tries a second model on a fraction of the rows.
	Only func(key string) bool

	model  embed.Model
	digest *digester
	input  func(T) any
	embed  func(ctx context.Context, inputs []any) ([][]float32, error)
	err    error
}

// Embed returns the vector that e makes of each row's input. Rows whose input is empty have no such vector: text of
// nothing but white space, no bytes, a nil pointer, or a slice or struct in which every text is so.
//
// In is text, bytes, a number, or a pointer, slice, array or struct of these, so that the sink can tell whether an
// input has changed; other types, and a nil function or embedder, are an error of [NewSink].
func Embed[T, In any](name string, input func(T) In, e embed.Embedder[In]) Vector[T] {
	v := Vector[T]{Name: name}
	if input == nil || e == nil {
		v.err = errors.New("Embed needs an input function and an embedder")
		return v
	}
	v.model = e.Model()
	fingerprint := cmp.Or(v.model.Fingerprint, v.model.Name)
	v.digest, v.err = newDigester(reflect.TypeFor[In](), fmt.Sprint(fingerprint, " ", v.model.Dimensions))
	v.input = func(row T) any { return input(row) }
	v.embed = func(ctx context.Context, inputs []any) ([][]float32, error) {
		typed := make([]In, len(inputs))
		for i, in := range inputs {
			typed[i], _ = in.(In) // what input returned; a nil interface stays nil
		}
		return e.Embed(ctx, typed)
	}
	return v
}

// vectors embeds the inputs in one call, and returns a vector or an error for each.
func (v *Vector[T]) vectors(ctx context.Context, inputs []any) ([][]float32, []error) {
	out, err := v.embed(ctx, inputs)
	if len(out) != len(inputs) && err == nil {
		err = Permanent(fmt.Errorf("the embedder answered %d vectors for %d inputs", len(out), len(inputs)))
	}
	errs := make([]error, len(inputs))
	if err != nil {
		var items bool
		if errs, items = itemerror.Align(err, len(inputs)); !items && len(inputs) > 1 && itemerror.IsPermanent(err) {
			return v.oneByOne(ctx, inputs)
		}
	}
	for i := range errs {
		switch {
		case errs[i] != nil:
		case i >= len(out):
			errs[i] = err
		default:
			errs[i] = CheckVector(out[i], v.model.Dimensions)
		}
	}
	return out, errs
}

// oneByOne finds out which input it is that the embedder refuses for good without saying which.
func (v *Vector[T]) oneByOne(ctx context.Context, inputs []any) ([][]float32, []error) {
	out, errs := make([][]float32, len(inputs)), make([]error, len(inputs))
	for i := range inputs {
		one, err := v.vectors(ctx, inputs[i:i+1])
		if errs[i] = err[0]; err[0] == nil {
			out[i] = one[0]
		}
	}
	return out, errs
}
