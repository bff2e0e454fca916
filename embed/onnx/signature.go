package onnx

import (
	"fmt"
	"slices"
	"strings"
)

// signature is how a graph is called: its inputs in their order, and the one output that is read.
type signature struct {
	inputs []string
	output string
	elem   int // of the output
	// pooled says that the output has one vector a text: the graph itself pools.
	pooled bool
	// packed says that the graph takes all texts of a run as one row.
	packed bool
}

// tokenOutputs and pooledOutputs are the names that exporters give; tokens are preferred, since the folder says how to pool them.
var (
	tokenOutputs  = []string{"last_hidden_state", "token_embeddings"}
	pooledOutputs = []string{"sentence_embedding"}
)

// sign checks what the graph declares against what the folder says.
func sign(g graph, f folder) (signature, error) {
	s := signature{}
	for _, v := range g.inputs {
		if !slices.Contains([]string{"input_ids", "attention_mask", "token_type_ids", "position_ids"}, v.name) {
			return s, fmt.Errorf("%w: the graph wants an input %q; known are input_ids, attention_mask, token_type_ids and position_ids",
				ErrUnsupported, v.name)
		}
		if v.elem != elemInt64 || !fits(v, -1, -1) {
			return s, fmt.Errorf("%w: input %v; known is int64[batch, sequence] with both left open", ErrUnsupported, v)
		}
		s.inputs = append(s.inputs, v.name)
	}
	if !slices.Contains(s.inputs, "input_ids") || !slices.Contains(s.inputs, "attention_mask") {
		return s, fmt.Errorf("%w: the graph takes %v; needed are input_ids and attention_mask", ErrUnsupported, names(g.inputs))
	}
	i := slices.IndexFunc(g.outputs, func(v value) bool { return slices.Contains(tokenOutputs, v.name) })
	if i < 0 {
		i = slices.IndexFunc(g.outputs, func(v value) bool { return slices.Contains(pooledOutputs, v.name) })
		s.pooled = true
	}
	if i < 0 {
		return s, fmt.Errorf("%w: the graph answers %v; known are %v", ErrUnsupported, names(g.outputs),
			strings.Join(slices.Concat(tokenOutputs, pooledOutputs), ", "))
	}
	out := g.outputs[i]
	s.output, s.elem = out.name, out.elem
	if !slices.Contains([]int{elemFloat32, elemFloat16, elemBFloat16}, out.elem) {
		return s, fmt.Errorf("%w: output %v; known are float32, float16 and bfloat16", ErrUnsupported, out)
	}
	want := []int64{-1, -1, int64(f.dimensions)}
	if s.pooled {
		want = []int64{-1, int64(f.pooled())}
	}
	if !fits(out, want...) {
		return s, fmt.Errorf("%w: output %v, but the folder's dimension is %d (wanted: %v)", ErrModel, out, want[len(want)-1], want)
	}
	return s, nil
}

// fits says whether a declared shape leaves open what must vary (-1) and can have the sizes that are known. A shape that is not
// declared fits: the run will show.
func fits(v value, want ...int64) bool {
	if v.dims == nil {
		return true
	}
	return slices.EqualFunc(v.dims, want, func(have, want int64) bool { return have == -1 || have == want })
}

func names(values []value) []string {
	var n []string
	for _, v := range values {
		n = append(n, v.name)
	}
	return n
}
