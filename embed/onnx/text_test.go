//go:build cgo

package onnx

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// open opens a model and closes it with the test.
func open(tb testing.TB, o TextOptions) *Text {
	tb.Helper()
	o.Progress = os.Stderr
	text, err := NewText(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := text.Close(); err != nil {
			tb.Error(err)
		}
	})
	return text
}

func embedAll(tb testing.TB, text *Text, texts ...string) [][]float32 {
	tb.Helper()
	vectors, err := text.Embed(context.Background(), texts)
	if err != nil {
		tb.Fatal(err)
	}
	return vectors
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}

// apart is the largest difference of two vectors in one component.
func apart(a, b []float32) float64 {
	var most float64
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

type golden struct {
	Text      string    `json:"text"`
	Embedding []float32 `json:"embedding"`
}

// goldens are texts with the vectors of sentence-transformers in fp32.
func goldens(tb testing.TB) []golden {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "minilm-fp32.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	var all []golden
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var g golden
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			tb.Fatal(err)
		}
		all = append(all, g)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		tb.Fatalf("%d goldens, %v", len(all), err)
	}
	return all
}

func TestGolden(t *testing.T) {
	text := open(t, TextOptions{})
	m := text.Model()
	if m.Name != "all-MiniLM-L6-v2" || m.Dimensions != 384 || m.MaxLength != 256 {
		t.Errorf("model %+v", m)
	}
	// It stands beside stored vectors: a release that changes it without changing the vectors makes users embed everything again.
	if want := "a4ef4abfced07d478a0c4c49a31aa591685b9cb825581e26d3d54a146cce79e6"; m.Fingerprint != want {
		t.Errorf("the default model's fingerprint is %s, was %s", m.Fingerprint, want)
	}
	var texts []string
	all := goldens(t)
	for _, g := range all {
		texts = append(texts, g.Text)
	}
	vectors := embedAll(t, text, texts...)
	for i, g := range all {
		if c := cosine(vectors[i], g.Embedding); c < 0.999999 {
			t.Errorf("%.40q: cosine %f to sentence-transformers", g.Text, c)
		}
		if norm := cosine(vectors[i], vectors[i]); math.Abs(norm-1) > 1e-6 || len(vectors[i]) != m.Dimensions {
			t.Errorf("%.40q: %d dimensions", g.Text, len(vectors[i]))
		}
	}
}

// words makes n texts of a few to many words, all different.
func words(n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("river cloud stone lamp green table wool jacket small light heavy cotton wide pocket red blue steel cup")
	texts := make([]string, n)
	for i := range texts {
		picked := []string{fmt.Sprint("item ", i)}
		for range 3 + random.IntN(40) {
			picked = append(picked, vocabulary[random.IntN(len(vocabulary))])
		}
		texts[i] = strings.Join(picked, " ")
	}
	return texts
}

// TestCompany: results are in the order of the texts, and neither the other texts of a batch nor other callers change a vector.
func TestCompany(t *testing.T) {
	text := open(t, TextOptions{})
	texts := words(48)
	alone := make([][]float32, len(texts))
	for i := range texts {
		alone[i] = embedAll(t, text, texts[i])[0]
	}
	for i, v := range embedAll(t, text, texts...) {
		if d := apart(v, alone[i]); d > 1e-6 {
			t.Errorf("text %d: differs by %g in company", i, d)
		}
	}
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			mine := slices.Clone(texts[c*6 : c*6+6])
			slices.Reverse(mine)
			vectors, err := text.Embed(context.Background(), mine)
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range vectors {
				if d := apart(v, alone[c*6+5-i]); d > 1e-6 {
					t.Errorf("caller %d, text %d: differs by %g beside other callers", c, i, d)
				}
			}
		})
	}
	callers.Wait()
}

func TestLongTexts(t *testing.T) {
	text := open(t, TextOptions{})
	limit := text.Model().MaxLength
	for _, n := range []int{253, 254, 255, 300, 600, 5000} {
		long := strings.TrimSpace(strings.Repeat("river ", n))
		inputs, err := text.encode(t.Context(), long, 0)
		if err != nil || len(inputs) != 1 {
			t.Fatal(len(inputs), err)
		}
		in := inputs[0]
		if want := min(n+2, limit); len(in.ids) != want || in.ids[0] != 101 || in.ids[len(in.ids)-1] != 102 {
			t.Errorf("%d words: %d tokens from %d to %d, want %d from [CLS] to [SEP]", n, len(in.ids), in.ids[0], in.ids[len(in.ids)-1], want)
		}
	}
	vectors := embedAll(t, text, strings.Repeat("river ", 300), strings.Repeat("river ", 600), "short", strings.Repeat("river ", 254))
	if d := apart(vectors[0], vectors[1]); d > 1e-6 {
		t.Errorf("texts that are equal up to the limit differ by %g", d)
	}
	if d := apart(vectors[0], vectors[3]); d > 1e-6 {
		t.Errorf("a text that just fits and a longer one differ by %g", d)
	}
	short := open(t, TextOptions{MaxLength: 5})
	if m := short.Model(); m.MaxLength != 5 || m.Fingerprint == text.Model().Fingerprint {
		t.Errorf("model %+v has the fingerprint of one with another limit", m)
	}
	cut := embedAll(t, short, "one two three four five six")[0]
	if d := apart(cut, embedAll(t, text, "one two three")[0]); d > 1e-6 {
		t.Errorf("cut to 5 tokens: differs by %g from the text of 5 tokens", d)
	}
}

// TestCutLeft: where tokenizer_config.json says so, the end of a long text stays, and the model is another one.
func TestCutLeft(t *testing.T) {
	right := open(t, TextOptions{Dir: lookupFolder().write(t), MaxLength: 5})
	left := open(t, TextOptions{Dir: lookupFolder().with("tokenizer_config.json", files{"truncation_side": "left"}).write(t), MaxLength: 5})
	if left.Model().Fingerprint == right.Model().Fingerprint {
		t.Error("the fingerprint of a model that cuts on the right")
	}
	for long, want := range map[string][]int32{
		"red green blue cup lamp": {clsID, blueID, cupID, lampID, sepID}, "red cup lamp": {clsID, redID, cupID, lampID, sepID}, "cup": {clsID, cupID, sepID},
	} {
		if in, err := left.encode(t.Context(), long, 0); err != nil || len(in) != 1 || !slices.Equal(in[0].ids, want) {
			t.Errorf("%s: %v, error %v; want %v", long, in, err, want)
		}
	}
}

// TestAddedTokens: what the files beside tokenizer.json add to its tokens is found in texts, as in transformers, or an error where it has no
// such token.
func TestAddedTokens(t *testing.T) {
	whole := lookupFolder()
	added := testTokenizer()["added_tokens"].([]any)
	folder := whole.with("tokenizer.json", files{"added_tokens": added[:4]}) // without [MASK]
	token := func(content string) files {
		return files{"content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
	}
	for name, test := range map[string]struct {
		folder files
		says   string // empty: it has [MASK]
	}{
		"in tokenizer.json":       {folder: whole},
		"a decoder":               {folder: folder.with("tokenizer_config.json", files{"added_tokens_decoder": files{"4": token("[MASK]")}})},
		"a special token":         {folder: folder.with("tokenizer_config.json", files{"mask_token": "[MASK]"})},
		"one of several":          {folder: folder.with("tokenizer_config.json", files{"additional_special_tokens": []any{"[PAD]", token("[MASK]")}})},
		"one by its name":         {folder: folder.with("tokenizer_config.json", files{"extra_special_tokens": files{"hole_token": "[MASK]"}})},
		"a map":                   {folder: folder.with("special_tokens_map.json", files{"mask_token": token("[MASK]"), "bos_token": nil})},
		"ids":                     {folder: folder.with("added_tokens.json", files{"[MASK]": 4})},
		"ids and a map":           {folder: folder.with("added_tokens.json", files{"[MASK]": 4}).with("special_tokens_map.json", files{"mask_token": "[MASK]"})},
		"beside vocab.txt":        {folder: whole.with("tokenizer.json", nil).with("vocab.txt", []byte(strings.Join(testVocabulary, "\n")+"\n")).with("added_tokens.json", files{"[MASK]": 4})},
		"a decoder's new one":     {folder: whole.with("tokenizer_config.json", files{"added_tokens_decoder": files{"99": token("<x>")}}), says: `no token "<x>"`},
		"a new special token":     {folder: whole.with("tokenizer_config.json", files{"bos_token": "<x>"})},
		"a map's new one":         {folder: whole.with("special_tokens_map.json", files{"bos_token": token("<x>")})},
		"a new id":                {folder: whole.with("added_tokens.json", files{"<x>": 99}), says: `no token "<x>"`},
		"a decoder's other id":    {folder: whole.with("tokenizer_config.json", files{"added_tokens_decoder": files{"3": token("[MASK]")}}), says: `id 4, and the files beside it say 3`},
		"another id":              {folder: whole.with("added_tokens.json", files{"[MASK]": 5}), says: `id 4, and the files beside it say 5`},
		"beside vocab.txt, a new": {folder: whole.with("tokenizer.json", nil).with("vocab.txt", []byte(strings.Join(testVocabulary, "\n")+"\n")).with("added_tokens.json", files{"<x>": 99}), says: `no token "<x>"`},
		"no ids":                  {folder: whole.with("added_tokens.json", []byte("[]")), says: "added_tokens.json"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.says != "" {
				if _, err := NewText(t.Context(), TextOptions{Dir: test.folder.write(t)}); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("error %v, want one that says %s", err, test.says)
				}
				return
			}
			model := open(t, TextOptions{Dir: test.folder.write(t)})
			if in, err := model.encode(t.Context(), "red [MASK] cup", 0); err != nil || len(in) != 1 || !slices.Equal(in[0].ids, []int32{clsID, redID, 4, cupID, sepID}) {
				t.Errorf("%v, error %v", in, err)
			}
		})
	}
	without := open(t, TextOptions{Dir: folder.write(t)}).Model().Fingerprint
	if with := open(t, TextOptions{Dir: folder.with("tokenizer_config.json", files{"mask_token": "[MASK]"}).write(t)}).Model().Fingerprint; with == without {
		t.Error("the fingerprint does not change with a token that is added")
	}
}

// Empty and blank texts have the vector of [CLS] [SEP].
func TestEmptyTexts(t *testing.T) {
	text := open(t, TextOptions{})
	vectors := embedAll(t, text, "", "   ", "\t\r\n", "\u00a0", "\u200b", "\x00")
	for i, v := range vectors {
		if d := apart(v, vectors[0]); d > 1e-6 {
			t.Errorf("blank text %d differs by %g from the empty one", i, d)
		}
	}
	for _, none := range [][]string{nil, {}} {
		if vectors, err := text.Embed(t.Context(), none); err != nil || vectors == nil || len(vectors) != 0 {
			t.Errorf("no texts: %v, %v", vectors, err)
		}
	}
}

// TestPoolings runs a graph that looks numbers up, so that each vector is known.
func TestPoolings(t *testing.T) {
	graph := model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut)
	tokens := []int{clsID, redID, blueID, cupID, sepID}
	sum := func(col int) (s float32) {
		for _, id := range tokens {
			s += entry(id, col)
		}
		return s
	}
	for mode, want := range map[string]func(col int) float32{
		"mean_tokens": func(col int) float32 { return sum(col) / 5 },
		"cls_token":   func(col int) float32 { return entry(clsID, col) },
		"max_tokens":  func(col int) float32 { return entry(cupID, col) },
		"lasttoken":   func(col int) float32 { return entry(sepID, col) },
		"weightedmean_tokens": func(col int) (s float32) {
			for i, id := range tokens {
				s += float32(i+1) / 15 * entry(id, col)
			}
			return s
		},
	} {
		t.Run(mode, func(t *testing.T) {
			folder := testFolder(graph).with("1_Pooling/config.json", files{"pooling_mode_mean_tokens": false}).
				with("1_Pooling/config.json", files{"pooling_mode_" + mode: true})
			text := open(t, TextOptions{Dir: folder.write(t)})
			vectors := embedAll(t, text, "Red, green. The lamp of the blue cup", "red blue cup", "the sea")
			for col, x := range vectors[1] {
				if math.Abs(float64(x-want(col))) > 1e-5 {
					t.Errorf("component %d is %v, want %v", col, x, want(col))
				}
			}
		})
	}
}

// A graph that pools by itself and takes token type ids.
func TestPooledGraph(t *testing.T) {
	graph := model(maskInput, valueInfo(11, "token_type_ids", 7, -1, -1), idsInput, embeddings(len(testVocabulary)),
		node("Gather", []string{"table", "input_ids"}, []string{"rows"}),
		node("ReduceMax", []string{"rows"}, []string{"sentence_embedding"}, ints("axes", 1), integer("keepdims", 0)),
		valueInfo(12, "sentence_embedding", 1, -1, testDims))
	text := open(t, TextOptions{Dir: testFolder(graph).write(t)})
	vectors := embedAll(t, text, "red", "cup red")
	for col := range testDims {
		if vectors[0][col] != entry(redID, col) || vectors[1][col] != entry(cupID, col) {
			t.Errorf("component %d: %v and %v", col, vectors[0][col], vectors[1][col])
		}
	}
}

// TestItemErrors: a text whose vector is unusable, or on which the run fails, fails alone.
func TestItemErrors(t *testing.T) {
	nan := func(row, col int) float32 {
		if row == badID && col == 2 {
			return float32(math.NaN())
		}
		return entry(row, col)
	}
	graph := model(idsInput, maskInput, lookup, table("table", worseID, testDims, nan), hiddenOut) // ids from worseID on are out of it
	for _, tokens := range []int{-1, 64} {
		text := open(t, TextOptions{Dir: testFolder(graph).write(t), BatchTokens: tokens})
		vectors, err := text.Embed(t.Context(), []string{"red", "a bad cup", "worse", "blue lamp", "bad"})
		var batch *embed.BatchError
		if !errors.As(err, &batch) || len(batch.ItemErrors()) != 5 {
			t.Fatalf("error %v", err)
		}
		for i, err := range batch.ItemErrors() {
			if wrong := i == 1 || i == 2 || i == 4; wrong != (err != nil) || wrong != (vectors[i] == nil) {
				t.Errorf("text %d: vector %v, error %v", i, vectors[i], err)
			}
		}
		for _, i := range []int{1, 4} {
			var permanent interface{ Permanent() bool }
			err := batch.ItemErrors()[i]
			if !errors.Is(err, ErrVector) || !strings.Contains(err.Error(), "component 2 is NaN") || !errors.As(err, &permanent) || !permanent.Permanent() {
				t.Errorf("text %d: error %v", i, err)
			}
		}
		if strings.Contains(err.Error(), "worse") || strings.Contains(err.Error(), "cup") {
			t.Errorf("the error repeats a text: %v", err)
		}
	}
}

// TestDynamicQuantization: in a batch, such a graph rounds every text by the scale of all. So it is found and run a text at a time.
func TestDynamicQuantization(t *testing.T) {
	scaled := func(row, col int) float32 { return entry(row, col) / float32(1+row) }
	graph := model(idsInput, maskInput, table("table", len(testVocabulary), testDims, scaled),
		node("Gather", []string{"table", "input_ids"}, []string{"rows"}),
		node("DynamicQuantizeLinear", []string{"rows"}, []string{"q", "scale", "zero"}),
		node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"last_hidden_state"}), hiddenOut)
	text := open(t, TextOptions{Dir: testFolder(graph).write(t)})
	texts := []string{"red", "the lamp of the blue sea", "cup"}
	together := embedAll(t, text, texts...)
	for i := range texts {
		if d := apart(embedAll(t, text, texts[i])[0], together[i]); d != 0 {
			t.Errorf("text %d: differs by %g in company", i, d)
		}
	}
	if got := text.Info(); got.Quantizing != "DynamicQuantizeLinear" || got.BatchTokens != -1 {
		t.Errorf("info %+v", got)
	}
	text.batchTokens = 64 // what would happen otherwise
	if d := apart(embedAll(t, text, texts...)[0], together[0]); d == 0 {
		t.Error("batches do not change this graph's vectors: the test shows nothing")
	}
}

func TestContext(t *testing.T) {
	text := open(t, TextOptions{})
	cause := errors.New("enough")
	ended, end := context.WithCancelCause(t.Context())
	end(cause)
	if _, err := text.Embed(ended, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v", err)
	}
	if _, err := NewText(ended, TextOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("NewText: %v", err)
	}
	// A deadline in the middle of much work ends it within a run, and the next call works.
	much := make([]string, 2000)
	for i := range much {
		much[i] = strings.Repeat("river ", 300)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	vectors, err := text.Embed(short, much)
	if !errors.Is(err, context.DeadlineExceeded) || vectors != nil {
		t.Errorf("ended in the middle: %d vectors, %v", len(vectors), err)
	}
	var batch *embed.BatchError
	if errors.As(err, &batch) {
		t.Errorf("the end of the context became the error of texts: %v", err)
	}
	embedAll(t, text, "after")
}

func TestClose(t *testing.T) {
	text, err := NewText(t.Context(), TextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		callers.Go(func() {
			started <- struct{}{}
			vectors, err := text.Embed(context.Background(), words(12))
			if err != nil && !errors.Is(err, ErrClosed) || err == nil && len(vectors) != 12 {
				t.Errorf("%d vectors, %v", len(vectors), err)
			}
		})
	}
	for range 8 {
		<-started
	}
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() {
			if err := text.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closers.Wait()
	callers.Wait()
	if _, err := text.Embed(t.Context(), []string{"x"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if text.Model().Dimensions != 384 {
		t.Error("the model is forgotten after Close")
	}
}

func TestModelErrors(t *testing.T) {
	whole := testFolder(model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut))
	broken := model(idsInput, maskInput, node("NoSuchOperator", []string{"table", "input_ids"}, []string{"last_hidden_state"}), embeddings(4), hiddenOut)
	external := model(idsInput, maskInput, lookup, hiddenOut, message(5, number(1, 16), number(1, testDims), number(2, 1), text(8, "table"),
		message(13, text(1, "location"), text(2, "weights.bin")), number(14, 1)))
	outside := []byte(strings.Replace(string(external), "weights.bin", "../../a.bin", 1))
	tests := map[string]struct {
		folder files
		o      TextOptions
		err    error
		says   string
	}{
		"graph is text":        {folder: whole.with("model.onnx", []byte("no graph")), err: ErrModel, says: "model.onnx"},
		"graph is cut short":   {folder: whole.with("model.onnx", whole["model.onnx"].([]byte)[:100]), err: ErrModel, says: "model.onnx"},
		"unknown operator":     {folder: whole.with("model.onnx", broken), err: ErrModel, says: "NoSuchOperator"},
		"other dimension":      {folder: whole.with("config.json", files{"hidden_size": 8}).with("1_Pooling/config.json", files{"word_embedding_dimension": 8}), err: ErrModel, says: "dimension is 8"},
		"weights missing":      {folder: whole.with("model.onnx", external), err: ErrModel, says: "weights.bin"},
		"weights outside":      {folder: whole.with("model.onnx", outside), err: ErrModel, says: "../../a.bin"},
		"tokenizer is no JSON": {folder: whole.with("tokenizer.json", []byte("[")), err: ErrModel, says: "tokenizer.json"},
		"unknown tokenizer":    {folder: whole.with("tokenizer.json", files{"normalizer": files{"type": "Mystery"}}), err: ErrUnsupported, says: "Mystery"},
		"no limit":             {folder: whole.with("sentence_bert_config.json", nil).with("config.json", files{"max_position_embeddings": nil}), err: ErrModel, says: "MaxLength"},
		"limit below specials": {folder: whole, o: TextOptions{MaxLength: 1}, err: ErrUnsupported, says: "2 special tokens"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.o.Dir = test.folder.write(t)
			text, err := NewText(t.Context(), test.o)
			if err == nil {
				t.Cleanup(func() {
					if err := text.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %v that says %q", err, test.err, test.says)
			}
		})
	}
	for _, o := range []TextOptions{{Threads: -1}, {MaxLength: -1}, {BatchTokens: -2}, {BatchTokens: 1 << 30}} {
		if _, err := NewText(t.Context(), o); err == nil || !strings.Contains(err.Error(), "TextOptions.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A graph may declare no shape; that its answer has another size than the folder says then shows when NewText tries it.
func TestUndeclaredShape(t *testing.T) {
	graph := model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), message(12, text(1, "last_hidden_state"), message(2, message(1, number(1, 1)))))
	folder := testFolder(graph).with("config.json", files{"hidden_size": 8}).with("1_Pooling/config.json", files{"word_embedding_dimension": 8})
	_, err := NewText(t.Context(), TextOptions{Dir: folder.write(t)})
	if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "model.onnx") {
		t.Errorf("a graph of 4 dimensions for a folder of 8: %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	folder := testFolder(model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut))
	other := func(row, col int) float32 { return entry(row, col) * 2 }
	tokens := append(slices.Clone(testVocabulary[:15]), "lake")
	vocabulary := map[string]int{}
	for id, token := range tokens {
		vocabulary[token] = id
	}
	tokenizerModel := testTokenizer()["model"].(files).with("vocab", vocabulary)
	seen := map[string]string{}
	for name, f := range map[string]files{
		"as it is": folder,
		"weights":  folder.with("model.onnx", model(idsInput, maskInput, lookup, table("table", 16, testDims, other), hiddenOut)),
		"pooling":  folder.with("1_Pooling/config.json", files{"pooling_mode_mean_tokens": false, "pooling_mode_cls_token": true}),
		"limit":    folder.with("sentence_bert_config.json", files{"max_seq_length": 15}),
		"tokens":   folder.with("tokenizer.json", files{"model": tokenizerModel}),
		"normalize": folder.with("modules.json", []any{
			files{"path": "", "type": "sentence_transformers.models.Transformer"},
			files{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
			files{"path": "2", "type": "sentence_transformers.models.Normalize"},
		}),
		"an old vocabulary": folder.with("tokenizer.json", nil).with("vocab.txt", []byte(strings.Join(testVocabulary, "\r\n"))),
		"a cased one": folder.with("tokenizer.json", nil).with("vocab.txt", []byte(strings.Join(testVocabulary, "\r\n"))).
			with("tokenizer_config.json", files{"do_lower_case": false, "sep_token": files{"content": "[SEP]"}, "mask_token": nil}),
		"lower case":   folder.with("sentence_bert_config.json", files{"do_lower_case": true}),
		"two poolings": folder.with("1_Pooling/config.json", files{"pooling_mode_cls_token": true}),
		"dimensions":   folder.with("config_sentence_transformers.json", files{"truncate_dim": 3}),
		"a prompt":     folder.with("config_sentence_transformers.json", files{"prompts": files{"q": "red "}, "default_prompt_name": "q"}),
		"a prompt left out": folder.with("config_sentence_transformers.json", files{"prompts": files{"q": "red "}, "default_prompt_name": "q"}).
			with("1_Pooling/config.json", files{"include_prompt": false}),
	} {
		fingerprint := open(t, TextOptions{Dir: f.write(t)}).Model().Fingerprint
		if twin, is := seen[fingerprint]; is {
			t.Errorf("%s and %s have one fingerprint", name, twin)
		}
		seen[fingerprint] = name
	}
	again := open(t, TextOptions{Dir: folder.with("README.md", []byte("x")).write(t), Threads: 1, BatchTokens: -1}).Model()
	if seen[again.Fingerprint] != "as it is" {
		t.Error("the fingerprint changes with the place, the threads or other files")
	}
}

// TestLibrary runs each case in a process of its own, since a process has one runtime library for good.
func TestLibrary(t *testing.T) {
	if os.Getenv("ONNX_CHILD") != "" {
		_, err := NewText(t.Context(), TextOptions{Dir: os.Getenv("ONNX_CHILD_DIR"), Library: os.Getenv("ONNX_CHILD_OPTION")})
		fmt.Printf("answer: %v (library: %t)\n", err, errors.Is(err, ErrLibrary))
		if os.Getenv("ONNX_CHILD") == "retry" { // a library that can't be loaded does not spoil the next one
			_, err = NewText(t.Context(), TextOptions{Dir: os.Getenv("ONNX_CHILD_DIR"), Library: os.Getenv("ONNX_CHILD_RETRY")})
			fmt.Printf("retry: %v\n", err)
		}
		return
	}
	dir := t.TempDir()
	small := testFolder(model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut)).write(t)
	textFile := filepath.Join(dir, "libtext.so")
	if err := os.WriteFile(textFile, []byte("this is no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	good, err := pinned.Cache{}.Library(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		option, variable string
		want             []string
	}{
		"a text file":              {option: textFile, want: []string{"library: true", textFile}},
		"nowhere":                  {option: filepath.Join(dir, "absent.so"), want: []string{"library: true", "absent.so (from TextOptions.Library)"}},
		"a folder":                 {option: dir, want: []string{"library: true", "not a file"}},
		"variable to nowhere":      {variable: filepath.Join(dir, "no folder", "absent2.so"), want: []string{"library: true", "absent2.so (from ONNXRUNTIME_LIB)"}},
		"variable":                 {variable: good, want: []string{"answer: <nil>"}},
		"option before variable":   {option: good, variable: textFile, want: []string{"answer: <nil>"}},
		"not ONNX Runtime at all":  {option: otherLibrary(t), want: []string{"library: true", "OrtGetApiBase"}},
		"older than the interface": {option: oldLibrary(t), want: []string{"library: true", "too old", "1.29"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.option == "" && test.variable == "" {
				t.Skip("no C compiler to make such a library with")
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestLibrary$", "-test.count=1")
			cmd.Env = append(os.Environ(), "ONNX_CHILD=retry", "ONNX_CHILD_DIR="+small, "ONNX_CHILD_OPTION="+test.option, "ONNXRUNTIME_LIB="+test.variable, "ONNX_CHILD_RETRY="+good)
			out, err := cmd.CombinedOutput()
			for _, want := range append(test.want, "retry: <nil>") {
				if err != nil || !strings.Contains(string(out), want) {
					t.Errorf("%v: answer %s, want %q", err, out, want)
				}
			}
		})
	}
	// One process, one library: another path to the same file is the same, a copy is not.
	open(t, TextOptions{Dir: small, Library: good})
	link, twin := filepath.Join(dir, "link.so"), filepath.Join(dir, "copy.so")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	open(t, TextOptions{Dir: small, Library: link})
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(twin, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: small, Library: twin}); !errors.Is(err, ErrLibrary) || !strings.Contains(err.Error(), "only one") {
		t.Errorf("a second library: %v", err)
	}
}

// otherLibrary is a shared library that is not ONNX Runtime, oldLibrary one that lacks the interface's version. Both are empty where
// there is no C compiler.
func otherLibrary(t *testing.T) string {
	t.Helper()
	return compile(t, "int nothing(void) { return 0; }")
}

func oldLibrary(t *testing.T) string {
	t.Helper()
	return compile(t, `
typedef struct { const void *(*GetApi)(unsigned); const char *(*GetVersionString)(void); } Base;
static const void *api(unsigned version) { (void)version; return 0; }
static const char *version(void) { return "1.23.2"; }
static const Base base = {api, version};
const Base *OrtGetApiBase(void) { return &base; }`)
}

func compile(t *testing.T, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		return ""
	}
	library := filepath.Join(t.TempDir(), "lib.so")
	cmd := exec.Command(cc, "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return library
}
