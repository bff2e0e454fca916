package onnx

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestPlan checks on random batches what a plan promises: every input once, the budget kept, like lengths together where there is padding
// and the order of arrival where there is none.
func TestPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for round := range 600 {
		budget, packed := []int{-1, 64, 512}[random.IntN(3)], round%2 == 0
		inputs := make([]input, random.IntN(40))
		for i := range inputs {
			inputs[i] = input{text: i, ids: make([]int32, 1+random.IntN(100))}
		}
		seen, longest, last := make([]int, len(inputs)), 0, -1
		for _, run := range plan(inputs, budget, packed) {
			if l := lay(run, packed); len(run) > 1 && l.places() > budget {
				t.Fatalf("%d texts in %d places, budget %d", len(run), l.places(), budget)
			}
			for _, in := range run {
				seen[in.text]++
				if !packed && budget > 0 && len(in.ids) < longest || packed && in.text < last {
					t.Fatalf("packed %t, budget %d: text %d of %d tokens is out of order", packed, budget, in.text, len(in.ids))
				}
				longest, last = len(in.ids), in.text
			}
		}
		for i, count := range seen {
			if count != 1 {
				t.Fatalf("input %d is in %d runs", i, count)
			}
		}
	}
}

func TestTensors(t *testing.T) {
	inputs := []input{{0, []int32{2, 5, 3}, []int32{0, 0, 0}}, {1, []int32{2, 5, 6, 7, 3}, []int32{0, 0, 1, 1, 1}}}
	f := folder{padID: 9, firstPosition: 2}
	padded, packed := lay(inputs, false), lay(inputs, true)
	if !reflect.DeepEqual(padded.shape, []int64{2, 5}) || !reflect.DeepEqual(packed.shape, []int64{8}) {
		t.Errorf("shapes %v and %v", padded.shape, packed.shape)
	}
	for name, want := range map[string][2][]int64{
		"input_ids":      {{2, 5, 3, 9, 9, 2, 5, 6, 7, 3}, {2, 5, 3, 2, 5, 6, 7, 3}},
		"attention_mask": {{1, 1, 1, 0, 0, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}},
		"token_type_ids": {{0, 0, 0, 0, 0, 0, 0, 1, 1, 1}, {0, 0, 0, 0, 0, 1, 1, 1}},
		"position_ids":   {{2, 3, 4, 0, 0, 2, 3, 4, 5, 6}, {2, 3, 4, 2, 3, 4, 5, 6}},
		"segment_ids":    {{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 1, 1, 1, 1}},
	} {
		if got := padded.tensor(name, f); !reflect.DeepEqual(got, want[0]) {
			t.Errorf("%s, padded: %v, want %v", name, got, want[0])
		}
		if got := packed.tensor(name, f); !reflect.DeepEqual(got, want[1]) {
			t.Errorf("%s, packed: %v, want %v", name, got, want[1])
		}
	}
}
