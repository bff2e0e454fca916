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
		r := rows{packed: packed}
		if !packed && round%3 == 0 {
			r.texts, r.tokens = random.IntN(6), 100*random.IntN(2)
		}
		inputs := make([]input, random.IntN(40))
		for i := range inputs {
			inputs[i] = input{text: i, ids: make([]int32, 1+random.IntN(100))}
		}
		seen, longest := make([]int, len(inputs)), 0
		for _, run := range r.plan(inputs, budget) {
			l := r.lay(run)
			if r.texts > 0 {
				if l.shape[0] != int64(r.texts) || len(run) > 1 && budget < 0 {
					t.Fatalf("%d texts in a shape of %v, budget %d, fixed %+v", len(run), l.shape, budget, r)
				}
			} else if len(run) > 1 && l.places() > budget {
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
	padded, packed, fixed := rows{}.lay(inputs), rows{packed: true}.lay(inputs), rows{texts: 3, tokens: 6}.lay(inputs)
	if !reflect.DeepEqual(padded.shape, []int64{2, 5}) || !reflect.DeepEqual(packed.shape, []int64{8}) || !reflect.DeepEqual(fixed.shape, []int64{3, 6}) {
		t.Errorf("shapes %v, %v and %v", padded.shape, packed.shape, fixed.shape)
	}
	if _, got := fixed.tensor("input_ids", f); !reflect.DeepEqual(got, []int64{2, 5, 3, 9, 9, 9, 2, 5, 6, 7, 3, 9, 2, 5, 3, 9, 9, 9}) {
		t.Errorf("of fixed sizes: %v", got)
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
	l := rows{packed: true}.lay([]input{{0, make([]int32, 3), nil, 0}, {1, make([]int32, 1), nil, 0}, {2, make([]int32, 2), nil, 0}})
	shape, rows := l.tensor(textRows, folder{})
	if !reflect.DeepEqual(shape, []int64{3, 3}) || !reflect.DeepEqual(rows, []int64{0, 1, 2, 3, -1, -1, 4, 5, -1}) {
		t.Errorf("%v in the shape %v", rows, shape)
	}
}

// TestPaddingInAText: where positions begin behind the padding id, as in RoBERTa, a text that has the padding token in it gives it that
// position and goes on as if it were not there.
func TestPaddingInAText(t *testing.T) {
	run := rows{packed: true}.lay([]input{{0, []int32{0, 1, 5, 1, 2}, nil, 0}, {1, []int32{0, 5, 2}, nil, 0}})
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
