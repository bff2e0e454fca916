package onnx

import (
	"fmt"
	"math"
)

// pooling says how the vectors of a text's tokens become one, in sentence-transformers' names.
type pooling string

const (
	poolMean pooling = "mean"
	poolCLS  pooling = "cls"
	poolMax  pooling = "max"
	poolLast pooling = "lasttoken"
)

// pool makes one vector of n token vectors that lie one after the other in hidden. Only real tokens are given: padding is cut off by
// the caller, not multiplied by zero, so that whatever a graph answers for padding does not matter.
func (p pooling) pool(hidden []float32, n, dims int) []float32 {
	vector := make([]float32, dims)
	switch p {
	case poolCLS:
		copy(vector, hidden[:dims])
	case poolLast:
		copy(vector, hidden[(n-1)*dims:n*dims])
	case poolMax:
		copy(vector, hidden[:dims])
		for t := 1; t < n; t++ {
			for d, x := range hidden[t*dims : (t+1)*dims] {
				if x > vector[d] || x != x {
					vector[d] = x
				}
			}
		}
	case poolMean:
		sums := make([]float64, dims)
		for t := range n {
			for d, x := range hidden[t*dims : (t+1)*dims] {
				sums[d] += float64(x)
			}
		}
		for d, sum := range sums {
			vector[d] = float32(sum / float64(n))
		}
	}
	return vector
}

// finish scales the vector to length 1 where the folder asks for it, and refuses what nothing can be compared with.
func finish(vector []float32, normalize bool) error {
	var square float64
	for d, x := range vector {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: component %d is %v", ErrVector, d, x)
		}
		square += float64(x) * float64(x)
	}
	if !normalize {
		return nil
	}
	if square == 0 {
		return fmt.Errorf("%w: all zero, so it has no direction to normalize", ErrVector)
	}
	scale := 1 / math.Sqrt(square)
	for d := range vector {
		vector[d] = float32(float64(vector[d]) * scale)
	}
	return nil
}
