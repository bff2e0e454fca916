package onnx

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestPlan checks on random batches what a plan promises: every input once, the budget kept, and like lengths together.
func TestPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for round := range 600 {
		budget, packed := []int{-1, 64, 512}[random.IntN(3)], round%2 == 0
		inputs := make([]input, random.IntN(40))
		for i := range inputs {
			inputs[i] = input{text: i, ids: make([]int32, 1+random.IntN(100))}
		}
		seen, longest := make([]int, len(inputs)), 0
		for _, run := range plan(inputs, budget, packed) {
			if l := lay(run, packed); len(run) > 1 && l.places() > budget {
				t.Fatalf("%d texts in %d places, budget %d", len(run), l.places(), budget)
			} else if pairs := len(run) * l.longest * l.longest; len(run) > 1 && pairs > budget*budget {
				t.Fatalf("%d texts make %d pairs of tokens, budget %d", len(run), pairs, budget)
			}
			for _, in := range run {
				seen[in.text]++
				if budget > 0 && len(in.ids) < longest {
					t.Fatalf("budget %d: text %d of %d tokens is out of order", budget, in.text, len(in.ids))
				}
				longest = len(in.ids)
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
	inputs := []input{{0, []int32{2, 5, 3}, []int32{0, 0, 0}, 0}, {1, []int32{2, 5, 6, 7, 3}, []int32{0, 0, 1, 1, 1}, 0}}
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
		"token_places":   {{0, 1, 2, 0, 0, 5, 6, 7, 8, 9}, {0, 1, 2, 5, 6, 7, 8, 9}},
	} {
		if _, got := padded.tensor(name, f); !reflect.DeepEqual(got, want[0]) {
			t.Errorf("%s, padded: %v, want %v", name, got, want[0])
		}
		if _, got := packed.tensor(name, f); !reflect.DeepEqual(got, want[1]) {
			t.Errorf("%s, packed: %v, want %v", name, got, want[1])
		}
	}
}

// TestTextRows: where the tokens of each text lie, and nothing behind them.
func TestTextRows(t *testing.T) {
	l := lay([]input{{0, make([]int32, 3), nil, 0}, {1, make([]int32, 1), nil, 0}, {2, make([]int32, 2), nil, 0}}, true)
	shape, rows := l.tensor(textRows, folder{})
	if !reflect.DeepEqual(shape, []int64{3, 3}) || !reflect.DeepEqual(rows, []int64{0, 1, 2, 3, -1, -1, 4, 5, -1}) {
		t.Errorf("%v in the shape %v", rows, shape)
	}
}

// TestPaddingInAText: where positions begin behind the padding id, as in RoBERTa, a text that has the padding token in it gives it that
// position and goes on as if it were not there.
func TestPaddingInAText(t *testing.T) {
	run := lay([]input{{0, []int32{0, 1, 5, 1, 2}, nil, 0}, {1, []int32{0, 5, 2}, nil, 0}}, true)
	for _, test := range []struct {
		f    folder
		want []int64
	}{
		{folder{padID: 1, firstPosition: 2}, []int64{2, 1, 3, 1, 4, 2, 3, 4}},
		{folder{padID: 1}, []int64{0, 1, 2, 3, 4, 0, 1, 2}},
	} {
		if _, got := run.tensor("position_ids", test.f); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.f, got, test.want)
		}
	}
}
