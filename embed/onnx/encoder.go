package onnx

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// encoderConfig is what config.json says of a transformer encoder, in BERT's names and in DistilBERT's.
type encoderConfig struct {
	ModelType        string  `json:"model_type"`
	HiddenSize       int64   `json:"hidden_size"`
	Dim              int64   `json:"dim"`
	Layers           int     `json:"num_hidden_layers"`
	NLayers          int     `json:"n_layers"`
	Heads            int64   `json:"num_attention_heads"`
	NHeads           int64   `json:"n_heads"`
	Activation       string  `json:"hidden_act"`
	DistilActivation string  `json:"activation"`
	Epsilon          float64 `json:"layer_norm_eps"`
	PositionType     string  `json:"position_embedding_type"`
	Buckets          int64   `json:"relative_attention_num_buckets"`
	IsDecoder        bool    `json:"is_decoder"`
}

// architecture says how a model type names its weights, as its maker's code in transformers does.
type architecture struct {
	prefix            string // before all names, in the file of a model with a head
	layer             string // of layer %d
	query, key, value string
	output            string
	attention         string // the normalization behind attention
	widen, narrow     string
	final             string // the normalization at the end of a layer
	relative          bool   // attention is biased by the distance of two tokens, as in MPNet
}

func bertLike(prefix string) architecture {
	return architecture{
		prefix: prefix, layer: "encoder.layer.%d.", query: "attention.self.query", key: "attention.self.key", value: "attention.self.value",
		output: "attention.output.dense", attention: "attention.output.LayerNorm", widen: "intermediate.dense", narrow: "output.dense",
		final: "output.LayerNorm",
	}
}

// architectures are the model types that a graph can be built for.
var architectures = map[string]architecture{
	"bert":        bertLike("bert."),
	"roberta":     bertLike("roberta."),
	"xlm-roberta": bertLike("roberta."),
	"camembert":   bertLike("roberta."),
	"distilbert": {
		prefix: "distilbert.", layer: "transformer.layer.%d.", query: "attention.q_lin", key: "attention.k_lin", value: "attention.v_lin",
		output: "attention.out_lin", attention: "sa_layer_norm", widen: "ffn.lin1", narrow: "ffn.lin2", final: "output_layer_norm",
	},
	"mpnet": {
		prefix: "mpnet.", layer: "encoder.layer.%d.", query: "attention.attn.q", key: "attention.attn.k", value: "attention.attn.v",
		output: "attention.attn.o", attention: "attention.LayerNorm", widen: "intermediate.dense", narrow: "output.dense",
		final: "output.LayerNorm", relative: true,
	},
}

// Bounds of what a graph is built for; models in use stay far below.
const (
	maxLayers = 512
	maxHeads  = 1024
)

// defaultEpsilon is what transformers' normalizations have where config.json says nothing, and DistilBERT's always.
const defaultEpsilon = 1e-12

// resolved is c in BERT's names.
func (c encoderConfig) resolved() encoderConfig {
	if c.ModelType == "distilbert" {
		c.HiddenSize, c.Layers, c.Heads, c.Activation, c.Epsilon = c.Dim, c.NLayers, c.NHeads, c.DistilActivation, defaultEpsilon
	}
	return c
}

func (c encoderConfig) validate() error {
	unsupported := func(format string, args ...any) error {
		return fmt.Errorf("%w: a graph of %s: "+format, append([]any{ErrUnsupported, c.ModelType}, args...)...)
	}
	if _, known := architectures[c.ModelType]; !known {
		return fmt.Errorf("%w: a graph can be built from %s for the model types %s, not for %q: export the model to ONNX",
			ErrUnsupported, weightsFile, sorted(architectures), c.ModelType)
	}
	if _, known := activations[c.Activation]; !known {
		return unsupported("the activation %q; known are %s", c.Activation, sorted(activations))
	}
	if c.PositionType != "" && c.PositionType != "absolute" {
		return unsupported("position_embedding_type %q", c.PositionType)
	}
	if c.IsDecoder {
		return unsupported("is_decoder")
	}
	if c.Layers < 1 || c.Layers > maxLayers || c.Heads < 1 || c.Heads > maxHeads || c.HiddenSize < 1 || c.HiddenSize%c.Heads != 0 {
		return fmt.Errorf("%w: config.json: %d layers of size %d with %d heads", ErrModel, c.Layers, c.HiddenSize, c.Heads)
	}
	if c.Epsilon < 0 || c.Epsilon > 1 {
		return fmt.Errorf("%w: config.json: layer_norm_eps %v", ErrModel, c.Epsilon)
	}
	if c.Buckets < buckets || c.Buckets > 1024 {
		return unsupported("relative_attention_num_buckets %d; known are %d to 1024, of which transformers uses %[4]d", c.Buckets, buckets)
	}
	return nil
}

// sorted lists the keys for an error.
func sorted[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

// activations are the functions between the two matrices of a layer, by transformers' names.
var activations = map[string]func(g *graphWriter, x string) string{
	"gelu":              gelu,
	"gelu_python":       gelu,
	"gelu_new":          geluTanh,
	"gelu_pytorch_tanh": geluTanh,
	"gelu_python_tanh":  geluTanh,
	"gelu_fast":         geluTanh,
	"gelu_accurate":     geluTanh,
	"quick_gelu": func(g *graphWriter, x string) string {
		return gated(g, x, g.node("Mul", []string{x, g.floats("steep", []float32{1.702})}))
	},
	"relu":       func(g *graphWriter, x string) string { return g.node("Relu", []string{x}) },
	"silu":       func(g *graphWriter, x string) string { return gated(g, x, x) },
	"swish":      func(g *graphWriter, x string) string { return gated(g, x, x) },
	"mish":       func(g *graphWriter, x string) string { return g.node("Mish", []string{x}) },
	"tanh":       func(g *graphWriter, x string) string { return g.node("Tanh", []string{x}) },
	"sigmoid":    func(g *graphWriter, x string) string { return g.node("Sigmoid", []string{x}) },
	"leaky_relu": func(g *graphWriter, x string) string { return g.node("LeakyRelu", []string{x}) },
}

func gelu(g *graphWriter, x string) string { return g.node("Gelu", []string{x}) }

func geluTanh(g *graphWriter, x string) string {
	return g.node("Gelu", []string{x}, attribute{"approximate", "tanh"})
}

// gated multiplies x by the sigmoid of another.
func gated(g *graphWriter, x, by string) string {
	return g.node("Mul", []string{x, g.node("Sigmoid", []string{by})})
}

// encoder builds the graph of a transformer encoder for packed texts: all tokens of a run are one row, in which matrices are multiplied;
// only attention takes them text by text.
type encoder struct {
	graphWriter
	config  encoderConfig
	names   architecture
	weights weights
	folder  string // of the weights
	prefix  string // what the names in the files begin with
	alone   bool   // the graph is for a text that runs alone
	int8    bool
	signed  bool    // with int8: the weights' codes have a sign
	loud    []int64 // with int8: the components of a token's vector that are multiplied as they are
	size    int64
	inputs  []value
	texts   texts
	one     string // with int8: 1 for each token
	err     error  // the first; what follows it does nothing
}

// texts is how attention finds the tokens of a text: where the pieces of their vectors lie, one a head, that are the texts' queries, keys
// and values, and where it puts what it makes of them.
type texts struct {
	queries, keys, values string // [texts, heads, longest]
	tokens                string // [tokens, heads]
	mask                  string // what is added to the scores
	ones                  string // with int8: 16 ones, which is a processor's vector, for each token of the longest
}

// weightsFile is the name that Hugging Face gives to the weights.
const weightsFile = "model.safetensors"

// hiddenOutput is the output of the graphs that are built: a vector a token.
const hiddenOutput = "last_hidden_state"

// readEncoder reads where a folder's weights are, and what its config.json says of them. What it leaves out is as in transformers.
func readEncoder(f folder) (encoderConfig, weights, error) {
	c := encoderConfig{
		HiddenSize: 768, Dim: 768, Layers: 12, NLayers: 6, Heads: 12, NHeads: 12, Activation: "gelu", DistilActivation: "gelu",
		Epsilon: defaultEpsilon, Buckets: buckets,
	}
	if _, err := readJSON(filepath.Join(f.transformer, "config.json"), &c); err != nil {
		return c, weights{}, err
	}
	w, err := readWeights(f.graph)
	return c.resolved(), w, err
}

// buildGraph returns an ONNX model, for packed texts or for one that runs alone. The weights stay in their files, but for those that are
// quantized.
func buildGraph(c encoderConfig, w weights, precision Precision, alone bool) (model []byte, g graph, err error) {
	if err := c.validate(); err != nil {
		return nil, graph{}, err
	}
	e := encoder{
		config: c, names: architectures[c.ModelType], weights: w, size: c.HiddenSize, alone: alone, int8: precision == Int8,
		signed: signedWeights(),
	}
	return e.build()
}

func (e *encoder) build() (model []byte, g graph, err error) {
	c, w := e.config, e.weights
	e.folder = w.folder()
	if _, is := w.tensors["embeddings.word_embeddings.weight"]; !is {
		e.prefix = e.names.prefix
	}
	if e.int8 {
		e.loud = e.loudComponents()
		e.one = e.filled(e.node("Shape", []string{"input_ids"}), e.ints("column", 1))
	}
	x := e.embeddings()
	layer := e.layer
	if e.alone {
		layer = e.lone
		if e.names.relative {
			e.texts.mask = e.distanceBias(e.node("Shape", []string{"input_ids"}))
		}
	} else {
		e.texts = e.findTexts()
	}
	for i := range c.Layers {
		x = layer(fmt.Sprintf(e.names.layer, i), x)
	}
	if e.err != nil {
		return nil, graph{}, e.err
	}
	e.named("Identity", "", []string{hiddenOutput}, []string{x})
	g = graph{inputs: e.inputs, outputs: []value{{hiddenOutput, elemFloat32, []int64{-1, e.size}}}}
	for _, v := range g.inputs {
		e.value(11, v)
	}
	e.value(12, g.outputs[0])
	return e.model(), g, nil
}

// weight adds a tensor of the files. Its shape must be the one given; -1 is any.
func (e *encoder) weight(name string, shape ...int64) string {
	t := e.find(name, shape...)
	if e.err != nil {
		return ""
	}
	path, err := filepath.Rel(e.folder, t.file)
	if err != nil {
		e.err = fmt.Errorf("%w: %w", ErrModel, err)
	}
	added := e.external(name, path, t)
	if t.elem != elemFloat32 {
		added = e.node("Cast", []string{added}, attribute{"to", int64(elemFloat32)}) // once, when ONNX Runtime loads the graph
	}
	return added
}

func (e *encoder) find(name string, shape ...int64) tensor {
	if e.err != nil {
		return tensor{}
	}
	name = e.prefix + name
	if _, is := e.weights.tensors[name]; !is && strings.Contains(name, "LayerNorm") { // TensorFlow's names, which BERT's first files still have
		old := strings.NewReplacer(".weight", ".gamma", ".bias", ".beta").Replace(name)
		if _, is := e.weights.tensors[old]; is {
			name = old
		}
	}
	t, err := e.weights.find(name, shape...)
	e.err = err
	return t
}

// input adds an input with a number a token; rank is 2 where it has a row a text.
func (e *encoder) input(name string, rank int) string {
	e.inputs = append(e.inputs, value{name, elemInt64, slices.Repeat([]int64{-1}, rank)})
	return name
}

// embeddings looks the tokens up and adds their places, and what part of the input they are.
func (e *encoder) embeddings() string {
	lookup := func(table, input string) string {
		return e.node("Gather", []string{e.weight("embeddings."+table+"_embeddings.weight", -1, e.size), e.input(input, 1)})
	}
	x := e.node("Add", []string{lookup("word", "input_ids"), lookup("position", "position_ids")})
	if _, is := e.weights.tensors[e.prefix+"embeddings.token_type_embeddings.weight"]; is {
		x = e.node("Add", []string{x, lookup("token_type", "token_type_ids")})
	}
	return e.normalize("embeddings.LayerNorm", x)
}

func (e *encoder) normalize(name, x string) string {
	return e.node("LayerNormalization", []string{x, e.weight(name+".weight", e.size), e.weight(name+".bias", e.size)},
		attribute{"axis", int64(-1)}, attribute{"epsilon", float32(e.config.Epsilon)})
}

// findTexts reads the two inputs that say where the texts are. An empty place of textRows is -1, which stands for the last token of all;
// what the mask adds to its score leaves nothing of it. Of the 3*heads pieces that a token has, its queries come first, then its keys.
func (e *encoder) findTexts() (t texts) {
	heads := e.config.Heads
	rows, places := e.input(textRows, 2), e.input(tokenPlaces, 1)
	down := e.ints("axis", 1)
	add := func(x, y string) string { return e.node("Add", []string{x, y}) }
	times := func(x, y string) string { return e.node("Mul", []string{x, y}) }
	longest := e.node("Shape", []string{rows}, attribute{"start", int64(1)})
	head := e.ints("head", count(heads)...)

	token := e.node("Unsqueeze", []string{times(rows, e.ints("pieces", 3*heads)), down})
	t.queries = add(token, e.node("Unsqueeze", []string{head, down}))
	t.keys = add(t.queries, e.ints("heads", heads))
	t.values = add(t.keys, e.ints("heads", heads))

	before := times(e.node("Div", []string{places, longest}), times(longest, e.ints("others", heads-1))) // the other heads of texts before it
	t.tokens = add(e.node("Unsqueeze", []string{add(places, before), down}), times(head, longest))

	empty := e.node("Unsqueeze", []string{e.node("Less", []string{rows, e.ints("none", 0)}), e.ints("axes", 1, 2)})
	t.mask = e.node("Where", []string{empty, e.floats("nothing", []float32{-1e30}), e.floats("all", []float32{0})})
	if e.names.relative {
		t.mask = add(t.mask, e.distanceBias(longest))
	}
	if e.int8 {
		t.ones = e.filled(longest, e.ints("equal", 16))
	}
	return t
}

// count lists the numbers from 0 on.
func count(n int64) []int64 {
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	return numbers
}

// distanceBias is what attention adds for the distance of two tokens of a text: [heads, longest, longest].
func (e *encoder) distanceBias(longest string) string {
	n := e.length("embeddings.position_embeddings.weight", -1, e.size)
	numbers := make([]int64, 0, 2*n)
	for distance := 1 - n; distance < n; distance++ {
		numbers = append(numbers, bucket(distance))
	}
	// A row for each distance, from 1-n on, and a column for each head.
	table := e.weight("encoder.relative_attention_bias.weight", e.config.Buckets, e.config.Heads)
	biases := e.node("Gather", []string{table, e.ints("buckets", numbers...)})
	places := e.node("Range", []string{e.scalar(0), e.node("Squeeze", []string{longest}), e.scalar(1)})
	at := func(axis int64) string { return e.node("Unsqueeze", []string{places, e.ints("axis", axis)}) }
	distances := e.node("Sub", []string{at(0), at(1)}) // the query is the row, the key the column
	distances = e.node("Add", []string{distances, e.ints("origin", n-1)})
	return e.node("Transpose", []string{e.node("Gather", []string{biases, distances})}, attribute{"perm", []int64{2, 0, 1}})
}

// length is how many rows a weight has, or numbers.
func (e *encoder) length(name string, shape ...int64) int64 {
	t := e.find(name, shape...)
	if e.err != nil {
		return 0
	}
	return t.shape[0]
}

// buckets are those that transformers takes of MPNet's biases, however many a config.json says that there are.
const buckets = 32

// bucket is the number of the bias for a key so far behind its query (before it, where negative): MPNet's relative_position_bucket, which
// is T5's. Half of the buckets are for each direction; half of those for exact distances, the others for logarithmic ranges up to 128.
func bucket(distance int64) int64 {
	const farthest, half, exact = 128, buckets / 2, buckets / 4
	first := int64(0)
	if distance > 0 {
		first = half
	}
	distance = max(distance, -distance)
	if distance < exact {
		return first + distance
	}
	// In 32 bits and in this order, as the original, whose rounding decides at the borders.
	scaled := float32(math.Log(float64(float32(distance)/exact))) / float32(math.Log(farthest/float64(exact))) * (half - exact)
	return first + min(exact+int64(scaled), half-1)
}

// layer is attention and two matrices, each with what went in added and normalized.
func (e *encoder) layer(name, x string) string {
	attended := e.attention(name, x)
	x = e.normalize(name+e.names.attention, e.node("Add", []string{attended, x}))
	inner := e.length(name+e.names.widen+".bias", -1)
	wide := e.linear(x, e.size, inner, 1, name+e.names.widen)
	wide = activations[e.config.Activation](&e.graphWriter, wide)
	narrow := e.linear(wide, inner, e.size, 1, name+e.names.narrow)
	return e.normalize(name+e.names.final, e.node("Add", []string{narrow, x}))
}

// attention answers, for each token, the mean of the values of its text, weighted by how well its query fits their keys.
//
// With 8 bits, where a change in the last bit can become one of a whole step, the weights are added up by a product too, with ones. For a
// product adds the tokens up in their order, and the empty places behind them are zeros, which change nothing; Softmax adds them up in an
// order that depends on the longest text. So a text's company changes no bit of its vector.
func (e *encoder) attention(name, x string) string {
	head := e.size / e.config.Heads
	scale := float32(1 / math.Sqrt(float64(head)))
	joined := e.linear(x, e.size, e.size, scale, name+e.names.query, name+e.names.key, name+e.names.value)
	pieces := func(x, places string) string {
		return e.node("Gather", []string{e.node("Reshape", []string{x, e.ints("head", -1, head)}), places})
	}
	query, key, val := pieces(joined, e.texts.queries), pieces(joined, e.texts.keys), pieces(joined, e.texts.values)
	key = e.node("Transpose", []string{key}, attribute{"perm", []int64{0, 1, 3, 2}})
	scores := e.node("Add", []string{e.node("MatMul", []string{query, key}), e.texts.mask})
	var mixed string
	if e.int8 {
		most := e.node("ReduceMax", []string{scores, e.ints("keys", -1)})
		shares := e.node("Exp", []string{e.node("Sub", []string{scores, most})})
		sums := e.node("ReduceMax", []string{e.node("MatMul", []string{shares, e.texts.ones}), e.ints("equal", -1)})
		mixed = e.node("Div", []string{e.node("MatMul", []string{shares, val}), sums})
	} else {
		shares := e.node("Softmax", []string{scores}, attribute{"axis", int64(-1)})
		mixed = e.node("MatMul", []string{shares, val})
	}
	mixed = e.node("Reshape", []string{pieces(mixed, e.texts.tokens), e.ints("together", -1, e.size)})
	return e.linear(mixed, e.size, e.size, 1, name+e.names.output)
}

// linear multiplies by the named matrices and adds their biases; what they make lies side by side. What the first makes is scaled.
func (e *encoder) linear(x string, in, out int64, scale float32, names ...string) string {
	if e.int8 {
		return e.quantizedLinear(x, in, out, scale, names)
	}
	matrix, bias := e.stacked(in, out, scale, names)
	return e.node("Gemm", []string{x, matrix, bias}, attribute{"transB", int64(1)})
}

// stacked puts the named matrices one below the other, and their biases: once, when ONNX Runtime loads the graph. The first is scaled.
func (e *encoder) stacked(in, out int64, scale float32, names []string) (matrix, bias string) {
	var matrices, biases []string
	for i, name := range names {
		matrix, bias = e.weight(name+".weight", out, in), e.weight(name+".bias", out)
		if i == 0 && scale != 1 {
			factor := e.floats("scale", []float32{scale})
			matrix, bias = e.node("Mul", []string{matrix, factor}), e.node("Mul", []string{bias, factor})
		}
		matrices, biases = append(matrices, matrix), append(biases, bias)
	}
	if len(names) == 1 {
		return matrix, bias
	}
	return e.node("Concat", matrices, attribute{"axis", int64(0)}), e.node("Concat", biases, attribute{"axis", int64(0)})
}
