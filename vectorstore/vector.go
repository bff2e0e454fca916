package vectorstore

import (
	"fmt"
	"math"
)

// CheckVector returns an error that is [ErrVector] unless v can be compared by cosine: it has dims components (any number but 0,
// when dims is 0), all finite, not all zero.
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
