package onnx

import "math"

// maxAlone is how many tokens a text may have that runs alone in a graph of its own. Beyond them the other graph was as fast.
const maxAlone = 64

// A text alone has few tokens for each weight, so that the time goes by how the weights come from memory. So in the graph for it each
// product has the weights on the left, as they lie in their file, and what they are multiplied with on the right, a column for each token:
// then the weights are read once, row by row, at a pace that memory keeps up with. (With a row for each token, ONNX Runtime reads the weights
// for twelve tokens at a time, the first of which wait for memory; all-MiniLM-L6-v2 took 1.7 times as long with 16 tokens, 1.4 times with 27.)
// The heads of a text's queries, keys and values lie one below the other then, and attention needs no table of where they are. Their three
// matrices are one, a copy that ONNX Runtime makes when it loads the graph: two threads have more to share then, and wait less for another.

// lone is a layer, for a text that runs alone.
func (e *encoder) lone(name, x string) string {
	heads, head := e.config.Heads, e.size/e.config.Heads
	scale := float32(1 / math.Sqrt(float64(head)))
	joined := e.columns(x, 1, e.size, e.size, scale, name+e.names.query, name+e.names.key, name+e.names.value)
	parts := e.nodes("Split", "", 3, []string{e.node("Reshape", []string{joined, e.ints("heads", 3*heads, head, -1)})},
		attribute{"axis", int64(0)}, attribute{"num_outputs", int64(3)})
	query, key, val := parts[0], parts[1], parts[2]
	scores := e.product(query, key, attribute{"transA", int64(1)})
	if e.texts.mask != "" {
		scores = e.node("Add", []string{scores, e.texts.mask})
	}
	shares := e.node("Softmax", []string{scores}, attribute{"axis", int64(-1)})
	mixed := e.node("Reshape", []string{e.product(val, shares, attribute{"transB", int64(1)}), e.ints("together", e.size, -1)})
	attended := e.turned(e.columns(mixed, 0, e.size, e.size, 1, name+e.names.output))
	x = e.normalize(name+e.names.attention, e.node("Add", []string{attended, x}))
	inner := e.length(name+e.names.widen+".bias", -1)
	wide := activations[e.config.Activation](&e.graphWriter, e.columns(x, 1, e.size, inner, 1, name+e.names.widen))
	narrow := e.turned(e.columns(wide, 0, inner, e.size, 1, name+e.names.narrow))
	return e.normalize(name+e.names.final, e.node("Add", []string{narrow, x}))
}

// columns multiplies x by the named matrices and adds their biases; what they make lies one below the other. There is a column for each
// token, where rows says 1 also of x, which has else a row. What the first makes is scaled.
func (e *encoder) columns(x string, rows, in, out int64, scale float32, names ...string) string {
	matrix, bias := e.stacked(in, out, scale, names)
	return e.node("Gemm", []string{matrix, x, e.node("Unsqueeze", []string{bias, e.ints("column", 1)})}, attribute{"transB", rows})
}

func (e *encoder) turned(x string) string {
	return e.node("Transpose", []string{x}, attribute{"perm", []int64{1, 0}})
}

// product multiplies the matrices of each head.
func (e *encoder) product(x, y string, attributes ...attribute) string {
	return e.nodes("FusedMatMul", microsoft, 1, []string{x, y}, attributes...)[0]
}
