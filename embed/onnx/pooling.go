package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// modes are the poolings of which p is made.
func (p Pooling) modes() []Pooling {
	var modes []Pooling
	for mode := range strings.SplitSeq(string(p), "+") {
		modes = append(modes, Pooling(mode))
	}
	return modes
}

func joinPoolings(modes []Pooling) Pooling {
	words := make([]string, len(modes))
	for i, mode := range modes {
		words[i] = string(mode)
	}
	return Pooling(strings.Join(words, "+"))
}

var poolings = []Pooling{Mean, CLS, Max, LastToken, WeightedMean, MeanSqrtLen}

// maxPoolings bounds how many vectors are put together.
const maxPoolings = 16

func (p Pooling) known() bool {
	modes := p.modes()
	return len(modes) <= maxPoolings && !slices.ContainsFunc(modes, func(mode Pooling) bool { return !slices.Contains(poolings, mode) })
}

// pool makes one vector of n token vectors that lie one after the other in hidden, but for those of the first tokens, skip of them. Only
// real tokens are given: padding is cut off by the caller, not multiplied by zero, so that whatever a graph answers for padding does not
// matter.
func (p Pooling) pool(hidden []float32, n, dims, skip int) []float32 {
	var vector []float32
	for _, mode := range p.modes() {
		vector = append(vector, mode.one(hidden, n, dims, skip)...)
	}
	return vector
}

func (p Pooling) one(hidden []float32, n, dims, skip int) []float32 {
	vector, left := make([]float32, dims), hidden[skip*dims:n*dims]
	switch p {
	case CLS:
		copy(vector, left)
	case LastToken:
		copy(vector, left[len(left)-dims:])
	case Max:
		copy(vector, left)
		for t := dims; t < len(left); t += dims {
			for d, x := range left[t : t+dims] {
				if x > vector[d] || x != x {
					vector[d] = x
				}
			}
		}
	case Mean, WeightedMean, MeanSqrtLen:
		m := newMean(dims)
		for t := skip; t < n; t++ {
			weight := 1.0
			if p == WeightedMean {
				weight = float64(t + 1)
			}
			m.add(hidden[t*dims:(t+1)*dims], weight)
		}
		if p == MeanSqrtLen {
			m.total = math.Sqrt(m.total)
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
	for d, x := range vector {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: component %d is %v", ErrVector, d, x)
		}
	}
	if normalize && !scale(vector) {
		return fmt.Errorf("%w: all zero, so it has no direction to normalize", ErrVector)
	}
	return nil
}

// scale scales a vector to length 1; false: it is all zero.
func scale(vector []float32) bool {
	var square float64
	for _, x := range vector {
		square += float64(x) * float64(x)
	}
	if square == 0 {
		return false
	}
	factor := 1 / math.Sqrt(square)
	for d := range vector {
		vector[d] = float32(float64(vector[d]) * factor)
	}
	return true
}
