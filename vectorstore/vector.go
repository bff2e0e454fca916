package vectorstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/tidemark-go/tidemark/embed"
)

// CheckVector returns an error that is [ErrVector] unless v can be compared by cosine: it has dims components (any
// number but 0, when dims is 0), all finite, not all zero.
func CheckVector(v []float32, dims int) error {
	if err := embed.CheckVector(v, dims); err != nil {
		return fmt.Errorf("%w: %w", ErrVector, err)
	}
	return nil
}

// CheckMultiVector returns an error that is [ErrVector] unless v has a vector and each passes [CheckVector] with dims components, or
// where dims is 0, as many as the first.
func CheckMultiVector(v [][]float32, dims int) error {
	if len(v) == 0 {
		return Permanent(fmt.Errorf("%w: no vectors", ErrVector))
	}
	for i := range v {
		if err := CheckVector(v[i], dims); err != nil {
			return fmt.Errorf("vector %d of %d: %w", i, len(v), err)
		}
		dims = len(v[i])
	}
	return nil
}

// Shape is what all vectors of a name have in common. It is for those who write a [Store].
type Shape struct {
	// Dimensions is the length of each, 0 where it is not known yet.
	Dimensions int
	// Multi says that the name is one of [Object].MultiVectors.
	Multi bool
}

// Check returns a permanent error that is [ErrVector] and names the vector, unless Near or NearMulti of t, to store or to look around, is
// of the shape.
func (s Shape) Check(t Target) error {
	var err error
	switch multi := len(t.NearMulti) > 0; {
	case multi && !s.Multi:
		err = Permanent(fmt.Errorf("%w: it is no multi-vector", ErrVector))
	case !multi && s.Multi:
		err = Permanent(fmt.Errorf("%w: it is a multi-vector", ErrVector))
	case multi:
		err = CheckMultiVector(t.NearMulti, s.Dimensions)
	default:
		err = CheckVector(t.Near, s.Dimensions)
	}
	if err != nil {
		return fmt.Errorf("vector %.64q: %w", t.Vector, err)
	}
	return nil
}

// Blank is a rule for empty inputs: NULL, text of nothing but white space, no bytes. See [Embed].
type Blank int

const (
	// BlankClears says that the object has no such vector.
	BlankClears Blank = iota
	// BlankDeletes says that the row is not wanted: its object is deleted, as by [Mapping].Filter.
	BlankDeletes
	// BlankRefused says that the event has the permanent error [ErrBlank].
	BlankRefused
)

// Vector says how one named vector is made of rows of T. [Embed] makes it.
type Vector[T any] struct {
	// Name is the vector's name in the Store.
	Name string
	// Only, when not nil, says which objects have this vector, by their id; the others lose it if they have it. It must
	// always answer the same for the same key. With [embed.Share] it tries a second model on a fraction of the rows.
	Only func(key string) bool
	// Blank says what becomes of an object whose input is empty. Zero: [BlankClears].
	Blank Blank
	// Optional lets the object be written without this vector when the model refuses its input for good; an older vector
	// is cleared, [Outcome].Refused and the metric tidemark.sink.refused say so. Otherwise that is the event's error, and
	// the object stays as it is. An error that may pass fails the event either way.
	Optional bool

	model  embed.Model
	digest *digester
	input  func(T) any
	embed  func(ctx context.Context, inputs []any) ([][]float32, []error)
	err    error
}

// Embed returns the vector that e makes of each row's input. Rows whose input is empty have no such vector, unless
// Vector.Blank has another rule: text of
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
	v.embed = func(ctx context.Context, inputs []any) ([][]float32, []error) {
		typed := make([]In, len(inputs))
		for i, in := range inputs {
			typed[i], _ = in.(In) // what input returned; a nil interface stays nil
		}
		return embed.Each(ctx, e, typed)
	}
	return v
}

// vectors embeds the inputs, and returns a vector or an error for each.
func (v *Vector[T]) vectors(ctx context.Context, inputs []any) ([][]float32, []error) {
	vectors, errs := v.embed(ctx, inputs)
	for i, err := range errs {
		if errors.Is(err, embed.ErrVector) {
			errs[i] = fmt.Errorf("%w: %w", ErrVector, err)
		}
	}
	return vectors, errs
}
