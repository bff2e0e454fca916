package onnx

import "math"

// maxAlone is how many tokens a text may have that runs alone in a graph of its own. Beyond them the other graph was as fast.
const maxAlone = 64

// A text alone has few tokens for each weight, so that the time goes by how the weights come from memory. So in the graph for it each
// product has the weights on the left, as they lie in their file, and what they are multiplied with on the right, a column for each token:
// then the weights are read once, row by row, at a pace that memory keeps up with. (With a row for each token, ONNX Runtime reads the weights
// for twelve tokens at a time, the first of which wait for memory; all-MiniLM-L6-v2 took 1.7 times as long with 16 tokens, 1.4 times with 27.)
// The heads of a text's queries, keys and values lie one below the other then, and attention needs no table of where they are.

// lone is a layer, for a text that runs alone.
func (e *encoder) lone(name, x string) string {
	heads := func(of string) string {
		return e.node("Reshape", []string{e.columns(name+of, e.size, e.size, x, 1), e.ints("head", e.config.Heads, e.size/e.config.Heads, -1)})
	}
	query, key, val := heads(e.names.query), heads(e.names.key), heads(e.names.value)
	scale := float32(1 / math.Sqrt(float64(e.size/e.config.Heads)))
	scores := e.product(query, key, attribute{"transA", int64(1)}, attribute{"alpha", scale})
	if e.texts.mask != "" {
		scores = e.node("Add", []string{scores, e.texts.mask})
	}
	shares := e.node("Softmax", []string{scores}, attribute{"axis", int64(-1)})
	mixed := e.node("Reshape", []string{e.product(val, shares, attribute{"transB", int64(1)}), e.ints("together", e.size, -1)})
	attended := e.turned(e.columns(name+e.names.output, e.size, e.size, mixed, 0))
	x = e.normalize(name+e.names.attention, e.node("Add", []string{attended, x}))
	inner := e.length(name+e.names.widen+".bias", -1)
	wide := activations[e.config.Activation](&e.graphWriter, e.columns(name+e.names.widen, inner, e.size, x, 1))
	narrow := e.turned(e.columns(name+e.names.narrow, e.size, inner, wide, 0))
	return e.normalize(name+e.names.final, e.node("Add", []string{narrow, x}))
}

// columns multiplies x by the named matrix and adds its bias: a column for each token, where rows says 1 also of x, which has else a row.
func (e *encoder) columns(name string, out, in int64, x string, rows int64) string {
	bias := e.node("Unsqueeze", []string{e.weight(name+".bias", out), e.ints("column", 1)})
	return e.node("Gemm", []string{e.weight(name+".weight", out, in), x, bias}, attribute{"transB", rows})
}

func (e *encoder) turned(x string) string {
	return e.node("Transpose", []string{x}, attribute{"perm", []int64{1, 0}})
}

// product multiplies the matrices of each head.
func (e *encoder) product(x, y string, attributes ...attribute) string {
	return e.nodes("FusedMatMul", microsoft, 1, []string{x, y}, attributes...)[0]
}
