package onnx

import (
	"cmp"
	"slices"
)

// input is a text, or a part of one, as the graph reads it.
type input struct {
	text       int // which of the call
	ids, types []int32
}

// layout is how the tokens of some inputs lie in the tensors of one run: in padded rows, one an input, or packed into a single row that
// holds no padding, where the tokens of an input have one segment number.
type layout struct {
	inputs []input
	shape  []int64 // of each tensor
	starts []int   // where each input's first token lies
}

// lay lays inputs out, packed or padded at the right to the longest.
func lay(inputs []input, packed bool) layout {
	l := layout{inputs: inputs, starts: make([]int, len(inputs))}
	if packed {
		n := 0
		for i, in := range inputs {
			l.starts[i] = n
			n += len(in.ids)
		}
		l.shape = []int64{int64(n)}
		return l
	}
	width := 0
	for _, in := range inputs {
		width = max(width, len(in.ids))
	}
	for i := range inputs {
		l.starts[i] = i * width
	}
	l.shape = []int64{int64(len(inputs)), int64(width)}
	return l
}

// places is how many tokens a tensor holds, padding included.
func (l layout) places() int {
	n := int64(1)
	for _, d := range l.shape {
		n *= d
	}
	return int(n)
}

// tensor lays out the numbers of an input of the graph.
func (l layout) tensor(name string, f folder) []int64 {
	data := make([]int64, l.places())
	if name == "input_ids" && f.padID != 0 {
		for i := range data {
			data[i] = f.padID
		}
	}
	for i, in := range l.inputs {
		row := data[l.starts[i]:][:len(in.ids)]
		for j := range row {
			switch name {
			case "input_ids":
				row[j] = int64(in.ids[j])
			case "attention_mask":
				row[j] = 1
			case "token_type_ids":
				row[j] = int64(in.types[j])
			case "position_ids":
				row[j] = f.firstPosition + int64(j)
			case "segment_ids":
				row[j] = int64(i)
			}
		}
	}
	return data
}

// plan groups inputs into runs of at most so many tokens, padding included; an input that alone has more is a run by itself. Packed
// inputs stay in their order; others are sorted, so that those of like length come together. A budget of -1 makes runs of one, in order.
func plan(inputs []input, budget int, packed bool) [][]input {
	if !packed && budget > 0 {
		inputs = slices.Clone(inputs)
		slices.SortStableFunc(inputs, func(a, b input) int { return cmp.Compare(len(a.ids), len(b.ids)) })
	}
	var runs [][]input
	for len(inputs) > 0 {
		n, tokens := 1, len(inputs[0].ids)
		for ; n < len(inputs); n++ {
			if packed {
				tokens += len(inputs[n].ids)
			} else {
				tokens = (n + 1) * len(inputs[n].ids)
			}
			if tokens > budget {
				break
			}
		}
		runs = append(runs, inputs[:n])
		inputs = inputs[n:]
	}
	return runs
}
