package onnx

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestPool(t *testing.T) {
	hidden := []float32{1, -2, 3, -4, 8, 0}
	for p, want := range map[Pooling][]float32{Mean: {4, -2}, CLS: {1, -2}, Max: {8, 0}, LastToken: {8, 0}, WeightedMean: {31.0 / 6, -10.0 / 6}} {
		if got := p.pool(hidden, 3, 2); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
	nan := float32(math.NaN())
	for _, p := range []Pooling{Mean, Max, WeightedMean} {
		if got := p.pool([]float32{1, nan, 2}, 3, 1); got[0] == got[0] {
			t.Errorf("%s of NaN: %v", p, got)
		}
	}
}

func TestFinish(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tests := map[string]struct {
		vector    []float32
		normalize bool
		want      []float32 // nil: ErrVector
	}{
		"as it is":         {[]float32{3, 4}, false, []float32{3, 4}},
		"normalized":       {[]float32{3, 4}, true, []float32{0.6, 0.8}},
		"zero as it is":    {[]float32{0, 0}, false, []float32{0, 0}},
		"zero":             {[]float32{0, 0}, true, nil},
		"NaN":              {[]float32{1, nan}, true, nil},
		"NaN as it is":     {[]float32{1, nan}, false, nil},
		"infinite":         {[]float32{-inf, 1}, true, nil},
		"beyond float32^2": {[]float32{3e38, -3e38}, true, []float32{float32(math.Sqrt(0.5)), -float32(math.Sqrt(0.5))}},
		"tiny":             {[]float32{3e-38, 4e-38}, true, []float32{0.6, 0.8}},
		"denormal":         {[]float32{1e-45, 0}, true, []float32{1, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := finish(test.vector, test.normalize)
			if test.want == nil {
				if !errors.Is(err, ErrVector) {
					t.Errorf("%v, error %v", test.vector, err)
				}
				return
			}
			for d, want := range test.want {
				if err != nil || math.Abs(float64(test.vector[d]-want)) > 1e-6 {
					t.Errorf("%v, error %v, want %v", test.vector, err, test.want)
				}
			}
		})
	}
}
