//go:build cgo

package onnx

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/embed"
)

// The tests of this file are faults that users of other embedding servers have reported, one a subtest. Others of their kind have tests of
// their own: a graph that quantizes what it computes (fastembed-rs#107, ORT#10111) in TestDynamicQuantization, NaN of one text (TEI#51)
// in TestPackedNaN, TestItemErrors and embed's TestCacheKeepsNothingBad, empty and blank texts (model2vec#368) in TestEmptyTexts, odd
// characters in package tokenizer. That signals still drain after CUDA has loaded (onnxruntime_go#140) shows on a GPU alone: the package's
// documentation says what programs do.
func TestPublicBugs(t *testing.T) {
	t.Parallel()
	graph := model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut)
	for name, test := range map[string]func(t *testing.T){
		"spiceai#13415: declared padding is not content": func(t *testing.T) {
			t.Helper()
			// The tokenizer of the tests declares padding to 12, at the right.
			vector := embedAll(t, open(t, TextOptions{Dir: testFolder(graph).write(t)}), "red")[0]
			if want := (entry(clsID, 1) + entry(redID, 1) + entry(sepID, 1)) / 3; vector[1] != want {
				t.Errorf("%v, want %v", vector[1], want)
			}
		},
		"fastembed#703: texts below and above the declared padding": func(t *testing.T) {
			t.Helper()
			text := open(t, TextOptions{Dir: testFolder(graph).write(t)})
			long, short := strings.Repeat("red cup ", 7), "blue lamp"
			together := embedAll(t, text, long, short, "sea")
			for i, s := range []string{long, short, "sea"} {
				if d := apart(together[i], embedAll(t, text, s)[0]); d > 1e-5 {
					t.Errorf("text %d differs by %g in company", i, d)
				}
			}
		},
		"fastembed#689, hugot#73: too long a text keeps its last special token": func(t *testing.T) {
			t.Helper()
			text := open(t, TextOptions{Dir: testFolder(graph).write(t)})
			for _, n := range []int{13, 14, 15, 300, 600} {
				in, err := text.encode(t.Context(), strings.Repeat("red ", n), 0)
				if err != nil || len(in[0].ids) != min(n+2, 16) || in[0].ids[len(in[0].ids)-1] != sepID {
					t.Errorf("%d words: %v, %v", n, in, err)
				}
				embedAll(t, text, strings.Repeat("red ", n))
			}
		},
		"ST#3208, TEI#648: padding at the left": func(t *testing.T) {
			t.Helper()
			left := testFolder(graph).with("tokenizer.json", files{"padding": files{
				"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
			}}).with("tokenizer_config.json", files{"padding_side": "left"})
			for _, pooling := range []Pooling{CLS, LastToken, Mean, Max, WeightedMean} {
				text := open(t, TextOptions{Dir: left.write(t), Pooling: pooling})
				together := embedAll(t, text, "red", "the lamp of the blue sea cup")
				if d := apart(together[0], embedAll(t, text, "red")[0]); d > 1e-5 {
					t.Errorf("%s: differs by %g in company", pooling, d)
				}
				if want := entry(sepID, 0); pooling == LastToken && together[0][0] != want {
					t.Errorf("last token %v, want %v", together[0][0], want)
				}
			}
		},
		"fastembed#384: another pooling than the recorded one": func(t *testing.T) {
			t.Helper()
			dir := testFolder(graph).write(t)
			record(t, open(t, TextOptions{Dir: dir}), dir, "red", "the sea")
			open(t, TextOptions{Dir: dir})
			if _, err := NewText(t.Context(), TextOptions{Dir: dir, Pooling: CLS}); !errors.Is(err, embed.ErrGolden) {
				t.Errorf("error %v", err)
			}
		},
		"Infinity#538, semantic-router#2183: cut vectors have length 1": func(t *testing.T) {
			t.Helper()
			whole := embedAll(t, open(t, TextOptions{}), "a red cup")[0]
			text := open(t, TextOptions{Dimensions: 64})
			cut := embedAll(t, text, "a red cup")[0]
			if norm := dot(cut, cut); text.Model().Dimensions != 64 || len(cut) != 64 || math.Abs(norm-1) > 1e-6 || cosine(cut, whole[:64]) < 0.999999 {
				t.Errorf("%d components of %d, square of the length %v", len(cut), text.Model().Dimensions, norm)
			}
			for _, dims := range []int{-1, 385} {
				if _, err := NewText(t.Context(), TextOptions{Dimensions: dims}); err == nil || !strings.Contains(err.Error(), "TextOptions.Dimensions") {
					t.Errorf("%d: error %v", dims, err)
				}
			}
		},
		"ollama#6187: every caller gets its own": func(t *testing.T) {
			t.Helper()
			text := open(t, TextOptions{Dir: architectureGoldens(t)[0].folder(t).write(t)})
			texts := make([]string, 100)
			for i := range texts {
				texts[i] = strings.Repeat(testVocabulary[5+i%8]+" ", 1+i/8)
			}
			want := make([][]float32, len(texts))
			for i := range texts {
				want[i] = embedAll(t, text, texts[i])[0]
			}
			batcher := embed.NewBatcher(text, embed.BatcherOptions{MaxTokens: 300})
			var callers sync.WaitGroup
			for c := range 8 {
				callers.Go(func() {
					for from := c; from < 92; from += 8 {
						got, err := batcher.Embed(context.Background(), texts[from:from+8])
						if err != nil || !slices.EqualFunc(got, want[from:from+8], func(a, b []float32) bool { return apart(a, b) < 1e-5 }) {
							t.Errorf("texts from %d: error %v, or other vectors", from, err)
						}
					}
				})
			}
			callers.Wait()
		},
		"model2vec#368: a vector of zeros is an error, not NaN": func(t *testing.T) {
			t.Helper()
			zeros := model(idsInput, maskInput, lookup, table("table", len(testVocabulary), testDims, func(int, int) float32 { return 0 }), hiddenOut)
			text := open(t, TextOptions{Dir: testFolder(zeros).write(t), Normalize: true})
			if vectors, err := text.Embed(t.Context(), []string{""}); !errors.Is(err, ErrVector) || vectors[0] != nil {
				t.Errorf("%v, error %v", vectors, err)
			}
		},
		"ORT#23372: a provider that is not there": testProviders,
		"Triton#3395: texts of 16 and 20 tokens share a run": func(t *testing.T) {
			t.Helper()
			inputs := []input{{0, make([]int32, 16), nil, 0}, {1, make([]int32, 20), nil, 0}}
			for _, packed := range []bool{true, false} {
				if runs := (rows{packed: packed}).plan(inputs, defaultBatchTokens); len(runs) != 1 {
					t.Errorf("%d runs", len(runs))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// testProviders asks a library for CPUs for all that it has not.
func testProviders(t *testing.T) {
	t.Helper()
	dir := testFolder(model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut)).write(t)
	for _, name := range providerNames[1:] {
		for _, p := range []Provider{{Name: name}, {Name: name, AllowCPU: true}} {
			text, err := NewText(t.Context(), TextOptions{Dir: dir, Provider: p})
			if err == nil {
				t.Errorf("%s: a model without it", name)
				_ = text.Close() // the error is enough
			}
			if !errors.Is(err, ErrProvider) || !strings.Contains(err.Error(), string(name)) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
}
