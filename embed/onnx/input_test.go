package onnx

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestPlan checks on random batches what a plan promises: every input without an error once, the budget kept, like lengths together.
func TestPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		n, budget := random.IntN(40), []int{-1, 64, 512}[random.IntN(3)]
		inputs, errs := make([]input, n), make([]error, n)
		for i := range inputs {
			inputs[i].ids = make([]int32, 1+random.IntN(100))
			if random.IntN(8) == 0 {
				errs[i] = errors.New("bad")
			}
		}
		seen := make([]int, n)
		longest := 0
		for _, rows := range plan(inputs, errs, budget) {
			width := len(inputs[rows[len(rows)-1]].ids)
			if len(rows) > 1 && len(rows)*width > budget {
				t.Fatalf("%d texts of up to %d tokens, budget %d", len(rows), width, budget)
			}
			for _, row := range rows {
				seen[row]++
				if length := len(inputs[row].ids); length > width || budget > 0 && length < longest {
					t.Fatalf("lengths are out of order: %d tokens in a run of width %d after one of %d", length, width, longest)
				}
			}
			longest = width
		}
		for i, count := range seen {
			if (errs[i] == nil) != (count == 1) || count > 1 {
				t.Fatalf("input %d (%v) is in %d runs", i, errs[i], count)
			}
		}
	}
}

func TestTensors(t *testing.T) {
	b := batch{inputs: []input{{[]int32{2, 5, 3}, []int32{0, 0, 0}}, {[]int32{2, 5, 6, 7, 3}, []int32{0, 0, 1, 1, 1}}}}
	got := b.tensors([]int{0, 1}, 5, []string{"attention_mask", "token_type_ids", "input_ids"}, 9)
	want := [][]int64{
		{1, 1, 1, 0, 0, 1, 1, 1, 1, 1},
		{0, 0, 0, 0, 0, 0, 0, 1, 1, 1},
		{2, 5, 3, 9, 9, 2, 5, 6, 7, 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPool(t *testing.T) {
	hidden := []float32{1, -2, 3, -4, 8, 0}
	for p, want := range map[pooling][]float32{poolMean: {4, -2}, poolCLS: {1, -2}, poolMax: {8, 0}, poolLast: {8, 0}} {
		if got := p.pool(hidden, 3, 2); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
	nan := float32(math.NaN())
	for _, p := range []pooling{poolMean, poolMax} {
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
