package onnx

import (
	"cmp"
	"slices"
)

// input is a text, or a part of one, as the graph reads it.
type input struct {
	text       int // which of the call
	ids, types []int32
	skip       int // how many of the first tokens the pooling leaves out
}

// layout is how the tokens of some inputs lie in the tensors of one run: in padded rows, one an input, or packed into a single row that
// holds no padding, beside which two tensors say which tokens are an input's.
type layout struct {
	inputs  []input
	longest int     // tokens of an input, or of a row that the graph fixes
	shape   []int64 // of the tensors of tokens
	starts  []int   // where each input's first token lies
}

// lay lays inputs out, packed, or padded at the right to the longest or to what the graph fixes. Rows that it wants beyond the inputs have
// the first of them once more, so that there is nothing in a run that would not be there without them.
func (r rows) lay(inputs []input) layout {
	if missing := r.texts - len(inputs); missing > 0 {
		inputs = append(slices.Clone(inputs), slices.Repeat(inputs[:1], missing)...)
	}
	l := layout{inputs: inputs, longest: r.tokens, starts: make([]int, len(inputs))}
	tokens := 0
	for i, in := range inputs {
		l.starts[i] = tokens
		tokens += len(in.ids)
		l.longest = max(l.longest, len(in.ids))
	}
	if r.packed {
		l.shape = []int64{int64(tokens)}
		return l
	}
	for i := range inputs {
		l.starts[i] = i * l.longest
	}
	l.shape = []int64{int64(len(inputs)), int64(l.longest)}
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

// tensor lays out the numbers of an input of the graph, by its role.
func (l layout) tensor(role string, f folder) (shape, data []int64) {
	if role == textRows {
		return l.textRows()
	}
	data = make([]int64, l.places())
	if role == "input_ids" && f.padID != 0 {
		for i := range data {
			data[i] = f.padID
		}
	}
	for i, in := range l.inputs {
		row := data[l.starts[i]:][:len(in.ids)]
		position := f.firstPosition
		for j := range row {
			switch role {
			case "input_ids":
				row[j] = int64(in.ids[j])
			case "attention_mask":
				row[j] = 1
			case "token_type_ids":
				row[j] = int64(in.types[j])
			case "position_ids":
				// Where positions begin behind the padding id, a padding token in a text has that one, and counts for none.
				if row[j] = position; f.firstPosition > 0 && int64(in.ids[j]) == f.firstPosition-1 {
					row[j] = f.firstPosition - 1
				} else {
					position++
				}
			case tokenPlaces:
				row[j] = int64(i*l.longest + j)
			}
		}
	}
	return l.shape, data
}

// The inputs of graphs that are built here which say where the tokens of a text are.
const (
	textRows    = "text_rows"    // the tokens of each text by their places in the packed row, -1 behind the last
	tokenPlaces = "token_places" // the place of each token in the former, counted row by row
)

func (l layout) textRows() (shape, data []int64) {
	data = slices.Repeat([]int64{-1}, len(l.inputs)*l.longest)
	for i, in := range l.inputs {
		for j := range in.ids {
			data[i*l.longest+j] = int64(l.starts[i] + j)
		}
	}
	return []int64{int64(len(l.inputs)), int64(l.longest)}, data
}

// plan groups inputs into runs of at most so many tokens, padding included; an input that alone has more is a run by itself. They are
// sorted, so that those of like length come together: padding, or the places in attention that texts shorter than the longest of a packed
// run leave empty, is least then, and such a run has no more pairs of tokens in attention than one text of budget tokens. Where the graph
// fixes how many texts a run has, as many are in it, whatever the budget. A budget of -1 makes runs of one, in order.
func (r rows) plan(inputs []input, budget int) [][]input {
	if budget > 0 {
		inputs = slices.Clone(inputs)
		slices.SortStableFunc(inputs, func(a, b input) int { return cmp.Compare(len(a.ids), len(b.ids)) })
	}
	var runs [][]input
	for len(inputs) > 0 {
		n, tokens := 1, len(inputs[0].ids)
		for ; n < len(inputs); n++ {
			longest := max(len(inputs[n].ids), r.tokens)
			if tokens += longest; !r.packed {
				tokens = (n + 1) * longest
			}
			full := tokens > budget || (n+1)*longest*longest > budget*budget
			if r.texts > 0 {
				full = budget < 0 || n == r.texts
			}
			if full {
				break
			}
		}
		runs = append(runs, inputs[:n])
		inputs = inputs[n:]
	}
	return runs
}
