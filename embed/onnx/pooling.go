package onnx

import (
	"fmt"
	"math"
	"slices"
)

func (p Pooling) known() bool {
	return slices.Contains([]Pooling{Mean, CLS, Max, LastToken, WeightedMean}, p)
}

// pool makes one vector of n token vectors that lie one after the other in hidden. Only real tokens are given: padding is cut off by
// the caller, not multiplied by zero, so that whatever a graph answers for padding does not matter.
func (p Pooling) pool(hidden []float32, n, dims int) []float32 {
	vector := make([]float32, dims)
	switch p {
	case CLS:
		copy(vector, hidden[:dims])
	case LastToken:
		copy(vector, hidden[(n-1)*dims:n*dims])
	case Max:
		copy(vector, hidden[:dims])
		for t := 1; t < n; t++ {
			for d, x := range hidden[t*dims : (t+1)*dims] {
				if x > vector[d] || x != x {
					vector[d] = x
				}
			}
		}
	case Mean, WeightedMean:
		m := newMean(dims)
		for t := range n {
			weight := 1.0
			if p == WeightedMean {
				weight = float64(t + 1)
			}
			m.add(hidden[t*dims:(t+1)*dims], weight)
		}
		m.divide(vector)
	}
	return vector
}

// mean is a weighted mean of vectors, in 64 bits.
type mean struct {
	sums  []float64
	total float64
}

func newMean(dims int) *mean { return &mean{sums: make([]float64, dims)} }

func (m *mean) add(vector []float32, weight float64) {
	for d, x := range vector {
		m.sums[d] += weight * float64(x)
	}
	m.total += weight
}

func (m *mean) divide(to []float32) {
	for d, sum := range m.sums {
		to[d] = float32(sum / m.total)
	}
}

// finish scales the vector to length 1 where that is wanted, and refuses what nothing can be compared with.
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
