package onnx

import (
	"fmt"
	"slices"
	"strings"
)

// signature is what is read of a graph, and how its inputs lie.
type signature struct {
	output string
	elem   int // of the output
	// pooled says that the output has one vector a text: the graph itself pools.
	pooled bool
	rows
}

// rows is how a graph takes the texts of a run: all in one row (packed), or each in a row of its own, padded.
type rows struct {
	packed        bool
	texts, tokens int // of every run, where the graph fixes them; 0: it does not
}

// tokenOutputs and pooledOutputs are the names that exporters give; tokens are preferred, since the folder says how to pool them.
var (
	tokenOutputs  = []string{"last_hidden_state", "token_embeddings", "sequence_output"}
	pooledOutputs = []string{"sentence_embedding"}
)

// noEmbeddings are outputs that many graphs have and that are not what they may seem.
var noEmbeddings = map[string]string{
	"logits":        "logits are the scores of a classifier",
	"pooler_output": "pooler_output is the first token behind one more layer, which sentence-transformers does not take",
}

// roles are the inputs by other names than transformers': BERT's first ones and TensorFlow Hub's, and Keras'.
var roles = map[string]string{
	"input_word_ids": "input_ids", "token_ids": "input_ids",
	"input_mask": "attention_mask", "padding_mask": "attention_mask",
	"input_type_ids": "token_type_ids", "segment_ids": "token_type_ids",
}

// plainName is a value's name without the number of an operator's result, which TensorFlow adds.
func (v value) plainName() string { return strings.TrimSuffix(v.name, ":0") }

// role is what an input is for, by transformers' name of it.
func (v value) role() string {
	name := v.plainName()
	if role, is := roles[name]; is {
		return role
	}
	return name
}

// has says whether one of the inputs is for this.
func has(inputs []value, role string) bool {
	return slices.ContainsFunc(inputs, func(v value) bool { return v.role() == role })
}

// sign checks what the graph declares against what the folder says.
func sign(g graph, f folder) (signature, error) {
	s, err := signInputs(g.inputs)
	if err != nil {
		return s, err
	}
	find := func(known []string) int {
		return slices.IndexFunc(g.outputs, func(v value) bool { return slices.Contains(known, v.plainName()) })
	}
	i := find(tokenOutputs)
	if i < 0 {
		i = find(pooledOutputs)
		s.pooled = true
	}
	if i < 0 {
		return s, unknownOutputs(g.outputs)
	}
	out := g.outputs[i]
	s.output, s.elem = out.name, out.elem
	if !slices.Contains([]int{elemFloat32, elemFloat16, elemBFloat16}, out.elem) {
		return s, fmt.Errorf("%w: output %v; known are float32, float16 and bfloat16", ErrUnsupported, out)
	}
	want := []int{s.texts, s.tokens, f.dimensions}
	if s.pooled {
		want = []int{s.texts, f.pooled()}
	}
	if !fits(out, want) {
		return s, fmt.Errorf("%w: output %v, but the folder's dimension is %d (wanted: %v, where 0 is left open)", ErrModel, out, want[len(want)-1], want)
	}
	return s, nil
}

// signInputs checks the inputs, and finds the sizes that they fix.
func signInputs(inputs []value) (s signature, err error) {
	var seen []string
	for _, v := range inputs {
		role := v.role()
		if !slices.Contains([]string{"input_ids", "attention_mask", "token_type_ids", "position_ids"}, role) || slices.Contains(seen, role) {
			return s, fmt.Errorf("%w: the graph wants %v; known are input_ids, attention_mask, token_type_ids and position_ids, one of each",
				ErrUnsupported, names(inputs))
		}
		seen = append(seen, role)
		if v.elem != elemInt64 && v.elem != elemInt32 || v.dims != nil && len(v.dims) != 2 {
			return s, fmt.Errorf("%w: input %v; known are int64 and int32, [batch, sequence]", ErrUnsupported, v)
		}
		for axis, size := range v.dims {
			fixed := []*int{&s.texts, &s.tokens}[axis]
			if size == -1 {
				continue
			}
			if size < 1 || size > maxFixed || *fixed > 0 && *fixed != int(size) {
				return s, fmt.Errorf("%w: input %v; an input before it has %d, and %d is the most", ErrUnsupported, v, *fixed, maxFixed)
			}
			*fixed = int(size)
		}
	}
	switch masked := has(inputs, "attention_mask"); {
	case !has(inputs, "input_ids"):
		return s, fmt.Errorf("%w: the graph takes %v; needed are input_ids", ErrUnsupported, names(inputs))
	case !masked && s.tokens > 0:
		return s, fmt.Errorf("%w: texts have to be padded to %d tokens, and the graph has no attention_mask that says so", ErrUnsupported, s.tokens)
	}
	return s, nil
}

func unknownOutputs(outputs []value) error {
	err := fmt.Errorf("%w: the graph answers %v; known are %v", ErrUnsupported, names(outputs),
		strings.Join(slices.Concat(tokenOutputs, pooledOutputs), ", "))
	for _, v := range outputs {
		if what, is := noEmbeddings[v.plainName()]; is {
			err = fmt.Errorf("%w; %s", err, what)
		}
	}
	return err
}

// maxFixed bounds the sizes that a graph fixes, maxNumbers what its output then holds: 1 GiB.
const (
	maxFixed   = 1 << 20
	maxNumbers = 1 << 28
)

// checkSize refuses a graph whose every run would be too large, with texts of up to limit tokens.
func (r rows) checkSize(limit, dimensions int) error {
	texts, tokens := max(r.texts, 1), r.tokens
	if tokens == 0 && r.texts > 0 {
		tokens = limit
	}
	if tokens*texts > maxNumbers/dimensions {
		return fmt.Errorf("%w: every run of the graph has %d texts of up to %d tokens", ErrUnsupported, texts, tokens)
	}
	return nil
}

// fits says whether a declared shape has the sizes that are known, and leaves open what must vary (0). It may leave open what is known. A
// shape that is not declared fits: the run will show.
func fits(v value, want []int) bool {
	return v.dims == nil || slices.EqualFunc(v.dims, want, func(have int64, want int) bool { return have == -1 || have == int64(want) })
}

func names(values []value) []string {
	var n []string
	for _, v := range values {
		n = append(n, v.name)
	}
	return n
}
