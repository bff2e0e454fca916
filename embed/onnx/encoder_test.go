//go:build cgo

package onnx

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// architectureGolden is a line of testdata/architectures.jsonl.gz, which testdata/architectures.py made with transformers.
type architectureGolden struct {
	Name    string
	Config  files
	Weights string // base64
	Texts   []struct {
		IDs        []int32
		Mean, Last []float32
	}
}

func architectureGoldens(tb testing.TB) []architectureGolden {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "architectures.jsonl.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	in, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var all []architectureGolden
	for lines := json.NewDecoder(in); ; {
		var g architectureGolden
		if err := lines.Decode(&g); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			tb.Fatal(err)
		}
		all = append(all, g)
	}
}

// folder is a model folder with the golden's weights in the place of a graph. The tokenizer and its vocabulary are those of testFolder.
func (g architectureGolden) folder(tb testing.TB) files {
	tb.Helper()
	weights, err := base64.StdEncoding.DecodeString(g.Weights)
	if err != nil {
		tb.Fatal(err)
	}
	f := testFolder(nil).with("model.onnx", nil).with("model.safetensors", weights)
	f["config.json"] = g.Config
	return f.with("1_Pooling/config.json", files{"word_embedding_dimension": 24}).with("sentence_bert_config.json", files{"max_seq_length": 190})
}

// TestArchitectures compares graphs that are built from weights with transformers: texts alone, and packed with others.
func TestArchitectures(t *testing.T) {
	t.Parallel()
	goldens := architectureGoldens(t)
	if len(goldens) < 10 {
		t.Fatalf("%d goldens", len(goldens))
	}
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for _, pooling := range []Pooling{Mean, LastToken} {
				text := open(t, TextOptions{Dir: g.folder(t).write(t), Pooling: pooling})
				if half := strings.Contains(g.Name, " in "); half == (text.alone.DynamicAdvancedSession != nil) {
					t.Fatalf("a graph for texts that run alone, and weights in 16 bits: %t", half)
				}
				inputs, want := make([]input, len(g.Texts)), make([][]float32, len(g.Texts))
				for i, one := range g.Texts {
					inputs[i] = input{i, one.IDs, make([]int32, len(one.IDs)), 0}
					if want[i] = one.Mean; pooling == LastToken {
						want[i] = one.Last
					}
				}
				together, err := text.run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				for i := range inputs {
					alone, err := text.run(t.Context(), inputs[i:i+1])
					if err != nil {
						t.Fatal(err)
					}
					if d := apart(alone[0], want[i]); d > 1e-5 {
						t.Errorf("%s of %d tokens: differs by %g from transformers", pooling, len(inputs[i].ids), d)
					}
					if d := apart(together[i], alone[0]); d > 1e-5 { // of components up to 5, of weights that make much of little
						t.Errorf("%s of %d tokens: differs by %g in company", pooling, len(inputs[i].ids), d)
					}
				}
			}
		})
	}
}

// TestInt8 checks that 8-bit weights point where the original ones do, and that nobody's company changes them.
func TestInt8(t *testing.T) {
	t.Parallel()
	text := open(t, TextOptions{Precision: Int8})
	if text.Model().Fingerprint == open(t, TextOptions{}).Model().Fingerprint {
		t.Error("int8 has the fingerprint of fp32")
	}
	sum, lowest, all := 0.0, 1.0, goldens(t)
	var texts []string
	for _, g := range all {
		texts = append(texts, g.Text)
	}
	together := embedAll(t, text, texts...)
	for i, g := range all {
		alone := embedAll(t, text, g.Text)[0]
		if d := apart(alone, together[i]); d != 0 {
			t.Errorf("%.40q: differs by %g in company", g.Text, d)
		}
		c := cosine(alone, g.Embedding)
		sum, lowest = sum+c, min(lowest, c)
	}
	t.Logf("cosine to fp32: mean %.5f, lowest %.5f", sum/float64(len(all)), lowest)
	if lowest < 0.999 || sum/float64(len(all)) < 0.9995 {
		t.Errorf("cosine to fp32: mean %.5f, lowest %.5f", sum/float64(len(all)), lowest)
	}
	for _, g := range architectureGoldens(t) { // sizes that are no multiple of a block
		text := open(t, TextOptions{Dir: g.folder(t).write(t), Precision: Int8})
		got, err := text.run(t.Context(), []input{{0, g.Texts[4].IDs, make([]int32, len(g.Texts[4].IDs)), 0}})
		if err != nil {
			t.Fatal(err)
		}
		if c := cosine(got[0], g.Texts[4].Mean); c < 0.995 {
			t.Errorf("%s: cosine %f", g.Name, c)
		}
	}
}

// TestInt8Company packs texts in many ways: with 8 bits, not a bit of a vector may differ. So for heads of 32, 64 and 128.
func TestInt8Company(t *testing.T) {
	t.Parallel()
	models := []string{""} // the default model
	for _, head := range []int{64, 128} {
		models = append(models, randomBert(t, head))
	}
	for _, dir := range models {
		texts := words(32)
		if dir != "" {
			for i := range texts {
				texts[i] = strings.Repeat("red cup of the blue sea ", 1+i*i%83)
			}
		}
		alone := open(t, TextOptions{Dir: dir, Precision: Int8, BatchTokens: -1, Threads: 1})
		want := embedAll(t, alone, texts...)
		for _, o := range []TextOptions{{BatchTokens: 90, Threads: 1}, {BatchTokens: 1500, Threads: 3}} {
			o.Precision, o.Dir = Int8, dir
			for i, v := range embedAll(t, open(t, o), texts...) {
				if d := apart(v, want[i]); d != 0 {
					t.Errorf("%s: %d tokens a run, %d threads: text %d differs by %g in company", dir, o.BatchTokens, o.Threads, i, d)
				}
			}
		}
	}
}

// randomBert is a model folder with random weights, of two layers with two heads of so many components.
func randomBert(tb testing.TB, head int) string {
	tb.Helper()
	size, wide := 2*head, 4*head
	shapes := map[string][]int{
		"embeddings.word_embeddings.weight":     {len(testVocabulary), size},
		"embeddings.position_embeddings.weight": {512, size},
		"embeddings.LayerNorm.weight":           {size}, "embeddings.LayerNorm.bias": {size},
	}
	for i := range 2 {
		layer := fmt.Sprintf("encoder.layer.%d.", i)
		for name, shape := range map[string][2]int{
			"attention.self.query": {size, size}, "attention.self.key": {size, size}, "attention.self.value": {size, size},
			"attention.output.dense": {size, size}, "intermediate.dense": {wide, size}, "output.dense": {size, wide},
		} {
			shapes[layer+name+".weight"], shapes[layer+name+".bias"] = shape[:], shape[:1]
		}
		for _, norm := range []string{"attention.output.LayerNorm", "output.LayerNorm"} {
			shapes[layer+norm+".weight"], shapes[layer+norm+".bias"] = []int{size}, []int{size}
		}
	}
	f := testFolder(nil).with("model.onnx", nil).with("model.safetensors", safetensorsFile(tb, shapes))
	f["config.json"] = files{
		"model_type": "bert", "hidden_size": size, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": len(testVocabulary),
		"max_position_embeddings": 512, "pad_token_id": 0,
	}
	return f.with("1_Pooling/config.json", files{"word_embedding_dimension": size}).with("sentence_bert_config.json", files{"max_seq_length": 500}).write(tb)
}

// TestInt8Weights: codes with and without a sign make the same vectors.
func TestInt8Weights(t *testing.T) {
	t.Parallel()
	g := architectureGoldens(t)[0]
	text := open(t, TextOptions{Dir: g.folder(t).write(t), Precision: Int8})
	c, w, err := readEncoder(text.folder)
	if err != nil {
		t.Fatal(err)
	}
	other := encoder{config: c, names: architectures[c.ModelType], weights: w, size: c.HiddenSize, int8: true, signed: !signedWeights()}
	built, made, err := other.build()
	if err != nil {
		t.Fatal(err)
	}
	session, err := newSession(w.path, openedGraph{made.inputs, built, w.folder()}, hiddenOutput, text.options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Destroy() }() // it only frees memory
	original := text.session
	defer func() { text.session = original }()
	for i, one := range g.Texts {
		in := []input{{i, one.IDs, make([]int32, len(one.IDs)), 0}}
		text.session = original
		a, errA := text.run(t.Context(), in)
		text.session = session
		b, errB := text.run(t.Context(), in)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if d := apart(a[0], b[0]); d != 0 {
			t.Errorf("text %d differs by %g", i, d)
		}
	}
}

// TestQuantize: codes times steps are the numbers again, but for half a step; the loud ones are kept as they are.
func TestQuantize(t *testing.T) {
	t.Parallel()
	const row = 40
	matrix := make([]float32, 3*row) // the last row is of zeros
	for i := range 2 * row {
		matrix[i] = float32(i%row-20) * float32(1+i/row)
	}
	matrix[7], matrix[row+7] = 900, -800
	original := slices.Clone(matrix)
	loud := loudest(columnNorms(matrix, row))
	if !slices.Equal(loud, []int64{7}) {
		t.Fatalf("loud are %v", loud)
	}
	codes, steps, exact := quantize(matrix, row, loud)
	if steps[0] != 20.0/127 || steps[2] != 0 || !slices.Equal(exact[:3], []float32{900, -800, 0}) {
		t.Fatalf("steps %v, exact %v", steps, exact)
	}
	for n := range 3 {
		var sum float64
		for k := range row {
			got := float64(int8(codes[k*3+n])) * float64(steps[n])
			sum += got
			want := float64(original[n*row+k])
			if k == 7 {
				want = 0
			}
			if math.Abs(got-want) > float64(steps[n])/2+1e-5 {
				t.Errorf("row %d: %v became %v", n, want, got)
			}
		}
		if math.Abs(sum-float64(exact[3+n])) > 1e-3 {
			t.Errorf("row %d: the codes add up to %v, not %v", n, sum, exact[3+n])
		}
	}
	if got := loudest(make([]float32, 96)); len(got) != 2 {
		t.Errorf("%v of 96", got)
	}
}

// TestBuildErrors: what a graph can't be built from is named.
func TestBuildErrors(t *testing.T) {
	t.Parallel()
	g := architectureGoldens(t)[0]
	whole := g.folder(t)
	weights := whole["model.safetensors"].([]byte)
	tests := map[string]struct {
		folder files
		err    error
		says   string
	}{
		"another architecture": {whole.with("config.json", files{"model_type": "modernbert"}), ErrUnsupported, `"modernbert"`},
		"no architecture":      {whole.with("config.json", files{"model_type": nil}), ErrUnsupported, "bert, camembert, distilbert, mpnet, roberta, xlm-roberta"},
		"another activation":   {whole.with("config.json", files{"hidden_act": "relu2"}), ErrUnsupported, `"relu2"`},
		"relative positions":   {whole.with("config.json", files{"position_embedding_type": "relative_key"}), ErrUnsupported, "relative_key"},
		"fewer buckets":        {whole.with("config.json", files{"relative_attention_num_buckets": 31}), ErrUnsupported, "relative_attention_num_buckets 31"},
		"a decoder":            {whole.with("config.json", files{"is_decoder": true}), ErrUnsupported, "is_decoder"},
		"more layers":          {whole.with("config.json", files{"num_hidden_layers": 3}), ErrModel, "encoder.layer.2."},
		"no layers":            {whole.with("config.json", files{"num_hidden_layers": 0}), ErrModel, "0 layers"},
		"heads that don't fit": {whole.with("config.json", files{"num_attention_heads": 5}), ErrModel, "5 heads"},
		"another size":         {whole.with("config.json", files{"hidden_size": 48}).with("1_Pooling/config.json", files{"word_embedding_dimension": 48}), ErrModel, "[61 24]"},
		"no safetensors":       {whole.with("model.safetensors", []byte("no weights")), ErrModel, "not a safetensors file"},
		"cut short":            {whole.with("model.safetensors", weights[:len(weights)-1]), ErrModel, "bytes"},
		"a pointer of LFS":     {whole.with("model.safetensors", []byte(lfsPointer+".github.com/spec/v1\n")), ErrModel, "git lfs pull"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewText(t.Context(), TextOptions{Dir: test.folder.write(t)})
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v that says %q", err, test.err, test.says)
			}
		})
	}
}

// TestPackedNaN: a text that makes the numbers of its own tokens unusable does not make those of its neighbours so (TEI#51).
func TestPackedNaN(t *testing.T) {
	t.Parallel()
	g := architectureGoldens(t)[0]
	f := g.folder(t)
	b := bytes.Clone(f["model.safetensors"].([]byte))
	table, _, err := readTable(bytes.NewReader(b), int64(len(b)), maxHeader)
	if err != nil {
		t.Fatal(err)
	}
	words := table["embeddings.word_embeddings.weight"]
	binary.LittleEndian.PutUint32(b[words.from+4*24*badID:], math.Float32bits(float32(math.NaN())))
	text := open(t, TextOptions{Dir: f.with("model.safetensors", b).write(t)})
	vectors, err := text.Embed(t.Context(), []string{"red", "a bad cup", "the blue sea"})
	var items interface{ ItemErrors() []error }
	if !errors.As(err, &items) || !errors.Is(items.ItemErrors()[1], ErrVector) || items.ItemErrors()[0] != nil || items.ItemErrors()[2] != nil {
		t.Fatalf("error %v", err)
	}
	if vectors[0] == nil || vectors[1] != nil || vectors[2] == nil {
		t.Errorf("vectors %v", vectors)
	}
}
