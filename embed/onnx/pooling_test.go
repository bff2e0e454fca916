package onnx

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestPool(t *testing.T) {
	hidden := []float32{1, -2, 3, -4, 8, 0}
	for _, test := range []struct {
		pooling Pooling
		skip    int
		want    []float32
	}{
		{Mean, 0, []float32{4, -2}},
		{CLS, 0, []float32{1, -2}},
		{Max, 0, []float32{8, 0}},
		{LastToken, 0, []float32{8, 0}},
		{WeightedMean, 0, []float32{31.0 / 6, -10.0 / 6}},
		{MeanSqrtLen, 0, []float32{float32(12 / math.Sqrt(3)), float32(-6 / math.Sqrt(3))}},
		{"max+cls+max", 0, []float32{8, 0, 1, -2, 8, 0}},
		{Mean, 1, []float32{5.5, -2}},
		{CLS, 1, []float32{3, -4}},
		{Max, 2, []float32{8, 0}},
		{LastToken, 2, []float32{8, 0}},
		{WeightedMean, 1, []float32{6, -1.6}},
		{MeanSqrtLen, 2, []float32{8, 0}},
	} {
		if got := test.pooling.pool(hidden, 3, 2, test.skip); !slices.Equal(got, test.want) {
			t.Errorf("%s without %d: %v, want %v", test.pooling, test.skip, got, test.want)
		}
	}
	nan := float32(math.NaN())
	for _, p := range []Pooling{Mean, Max, WeightedMean} {
		if got := p.pool([]float32{1, nan, 2}, 3, 1, 0); got[0] == got[0] {
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
