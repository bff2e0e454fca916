//go:build cgo

package onnx

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tidemark-go/tidemark/embed"
)

// record writes the vectors of texts beside the model.
func record(tb testing.TB, text *Text, dir string, texts ...string) {
	tb.Helper()
	f, err := os.Create(filepath.Join(dir, goldenFile))
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(embed.Record(tb.Context(), f, text, texts), f.Close()); err != nil {
		tb.Fatal(err)
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// lookupFolder is a folder whose graph looks numbers up, and takes the mean of them.
func lookupFolder() files {
	return testFolder(model(idsInput, maskInput, lookup, embeddings(len(testVocabulary)), hiddenOut))
}

// TestHalfPrecision reads outputs of 16 bits.
func TestHalfPrecision(t *testing.T) {
	t.Parallel()
	for name, elem := range map[string]int64{"float16": elemFloat16, "bfloat16": elemBFloat16} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := func(row, col int) float32 { return float32(row+1) / float32(int(8)<<col) }
			graph := model(idsInput, maskInput, table("table", len(testVocabulary), testDims, small),
				node("Gather", []string{"table", "input_ids"}, []string{"rows"}),
				node("Cast", []string{"rows"}, []string{"last_hidden_state"}, integer("to", elem)),
				valueInfo(12, "last_hidden_state", elem, -1, -1, testDims))
			text := open(t, TextOptions{Dir: testFolder(graph).write(t), Pooling: LastToken})
			for _, v := range embedAll(t, text, "red", "the blue cup") {
				for col, x := range v {
					if want := small(sepID, col); x != want {
						t.Errorf("component %d is %v, want %v", col, x, want)
					}
				}
			}
		})
	}
}

// TestPositions gives a graph that asks for them the places of the tokens.
func TestPositions(t *testing.T) {
	t.Parallel()
	graph := model(idsInput, maskInput, valueInfo(11, "position_ids", 7, -1, -1), embeddings(len(testVocabulary)),
		node("Gather", []string{"table", "position_ids"}, []string{"last_hidden_state"}), hiddenOut)
	text := open(t, TextOptions{Dir: testFolder(graph).write(t), Pooling: LastToken})
	if v := embedAll(t, text, "red", "the blue cup"); v[0][1] != entry(2, 1) || v[1][1] != entry(4, 1) {
		t.Errorf("%v", v)
	}
}

// TestPlainFolder: without modules.json, the mean as it is, or what the options say.
func TestPlainFolder(t *testing.T) {
	t.Parallel()
	dir := lookupFolder().with("modules.json", nil).with("1_Pooling/config.json", nil).write(t)
	plain := embedAll(t, open(t, TextOptions{Dir: dir}), "red")[0]
	if want := (entry(clsID, 0) + entry(redID, 0) + entry(sepID, 0)) / 3; plain[0] != want {
		t.Errorf("%v, want %v", plain[0], want)
	}
	chosen := embedAll(t, open(t, TextOptions{Dir: dir, Pooling: CLS, Normalize: true}), "red")[0]
	if first := entry(clsID, 0) / float32(math.Sqrt(float64(entry(clsID, 0)*entry(clsID, 0)+entry(clsID, 1)*entry(clsID, 1)+
		entry(clsID, 2)*entry(clsID, 2)+entry(clsID, 3)*entry(clsID, 3)))); math.Abs(float64(chosen[0]-first)) > 1e-6 {
		t.Errorf("%v, want %v", chosen[0], first)
	}
}

// TestDenseLayers: two dense layers and normalization behind the pooling, as in LaBSE, and then fewer dimensions.
func TestDenseLayers(t *testing.T) {
	t.Parallel()
	folder := withDense(t, withDense(t, lookupFolder(), "2_Dense", testDims, "Identity"), "3_Dense", 2, "ReLU")
	sum, difference := float32(0), float32(0) // of the mean's components, and of its first two, less 1
	for col := range testDims {
		x := (entry(clsID, col) + entry(redID, col) + entry(sepID, col)) / 3
		sum += x
		if difference += x; col > 0 {
			difference -= x
		}
		if col == 1 {
			difference -= x
		}
	}
	difference--
	want := []float32{sum + difference, max(sum-difference-1, 0)}
	dir := folder.write(t)
	text := open(t, TextOptions{Dir: dir})
	if got := embedAll(t, text, "red", "the blue cup")[0]; apart(got, want) > 1e-5 || text.Model().Dimensions != 2 || text.Info().Layers != 2 {
		t.Errorf("%v of %+v, want %v", got, text.Info(), want)
	}
	if got := embedAll(t, open(t, TextOptions{Dir: dir, Dimensions: 1, Normalize: true}), "red")[0]; len(got) != 1 || got[0] != 1 {
		t.Errorf("of one dimension: %v", got)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: dir, Dimensions: 3}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("of three dimensions: error %v", err)
	}
	other := withDense(t, withDense(t, lookupFolder(), "2_Dense", testDims, "Identity"), "3_Dense", 2, "GELU")
	if open(t, TextOptions{Dir: other.write(t)}).Model().Fingerprint == text.Model().Fingerprint {
		t.Error("one fingerprint for two activations")
	}
	pooled := model(idsInput, maskInput, embeddings(len(testVocabulary)), node("Gather", []string{"table", "input_ids"}, []string{"rows"}),
		node("ReduceMax", []string{"rows"}, []string{"sentence_embedding"}, ints("axes", 1), integer("keepdims", 0)),
		valueInfo(12, "sentence_embedding", 1, -1, testDims))
	if _, err := NewText(t.Context(), TextOptions{Dir: folder.with("model.onnx", pooled).write(t)}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a graph that pools: error %v", err)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: dir, Pooling: "cls+mean"}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "cls+mean") {
		t.Errorf("more poolings than the layers are for: error %v", err)
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	prompts := files{"prompts": files{"query": "red cup: ", "passage": "the ", "none": ""}, "default_prompt_name": nil}
	folder := lookupFolder().with("config_sentence_transformers.json", prompts)
	plain := open(t, TextOptions{Dir: folder.write(t)})
	query := open(t, TextOptions{Dir: folder.write(t), Prompt: "query"})
	if d := apart(embedAll(t, query, "sea")[0], embedAll(t, plain, "red cup: sea")[0]); d != 0 {
		t.Errorf("with the prompt: differs by %g", d)
	}
	passage, err := query.WithPrompt("passage")
	if err != nil {
		t.Fatal(err)
	}
	none, err := query.WithPrompt(NoPrompt)
	if err != nil {
		t.Fatal(err)
	}
	if d := apart(embedAll(t, passage, "sea")[0], embedAll(t, none, "the sea")[0]); d != 0 {
		t.Errorf("with another prompt: differs by %g", d)
	}
	if none.Model() != plain.Model() || passage.Model().Fingerprint == query.Model().Fingerprint || query.Model() == none.Model() {
		t.Errorf("models %v, %v and %v", none.Model(), passage.Model(), query.Model())
	}
	byDefault := open(t, TextOptions{Dir: folder.with("config_sentence_transformers.json", files{"default_prompt_name": "query"}).write(t)})
	if byDefault.Model() != query.Model() {
		t.Error("the folder's default prompt is another than the one of its name")
	}
	if _, err := plain.WithPrompt("qeury"); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), `["none" "passage" "query"]`) {
		t.Errorf("an unknown prompt: %v", err)
	}
	left := open(t, TextOptions{Dir: folder.with("1_Pooling/config.json", files{"include_prompt": false}).write(t), Prompt: "query", LongTexts: AverageLong})
	for sea, want := range map[string]float32{
		"sea": (entry(seaID, 0) + entry(sepID, 0)) / 2,
		// Of twelve tokens that are left of the limit, six are the parts', and the prompt is left out of each.
		strings.Repeat("sea ", 18): (18*entry(seaID, 0) + 2*entry(sepID, 0)) / 20,
	} {
		if got := embedAll(t, left, sea)[0][0]; math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("a prompt that is left out of the pooling of %q: %v, want %v", sea, got, want)
		}
	}
	long := folder.with("config_sentence_transformers.json", files{"prompts": files{"query": strings.Repeat("red ", 20)}})
	if _, err := NewText(t.Context(), TextOptions{Dir: long.write(t), Prompt: "query"}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a prompt beyond the limit: %v", err)
	}
}

func TestLongTextsByChoice(t *testing.T) {
	t.Parallel()
	prompts := files{"prompts": files{"query": "red cup "}}
	folder := lookupFolder().with("config_sentence_transformers.json", prompts)
	words := slices.Repeat([]string{"green", "blue", "cup", "lamp", "sea"}, 8) // 40 tokens, where 14 have room
	long := strings.Join(words, " ")

	reject := open(t, TextOptions{Dir: folder.write(t), LongTexts: RejectLong})
	vectors, err := reject.Embed(t.Context(), []string{long, "red"})
	var permanent interface{ Permanent() bool }
	if !errors.Is(err, ErrTooLong) || vectors[1] == nil || !errors.As(err, &permanent) || !permanent.Permanent() {
		t.Errorf("rejected: %v, error %v", vectors, err)
	}
	if n := reject.Tokens(long); n != 0 {
		t.Errorf("%d tokens of a rejected text", n)
	}

	dir := folder.write(t)
	average, cut := open(t, TextOptions{Dir: dir, LongTexts: AverageLong}), open(t, TextOptions{Dir: dir})
	if average.Model().Fingerprint == cut.Model().Fingerprint {
		t.Error("one fingerprint for two treatments of long texts")
	}
	if n, m := average.Tokens(long), cut.Tokens(long); n != 40+3*2 || m != 16 {
		t.Errorf("%d tokens in parts, %d cut; want 46 and 16", n, m)
	}
	check := func(name string, got []float32, parts ...string) {
		t.Helper()
		m, total := make([]float64, testDims), 0.0
		for _, p := range parts {
			weight := float64(cut.Tokens(p))
			for d, x := range embedAll(t, cut, p)[0] {
				m[d] += weight * float64(x)
			}
			total += weight
		}
		for d, x := range got {
			if math.Abs(float64(x)-m[d]/total) > 1e-4 {
				t.Errorf("%s: component %d is %v, want %v", name, d, x, m[d]/total)
			}
		}
	}
	part := func(from, to int) string { return strings.Join(words[from:to], " ") }
	got := embedAll(t, average, long, "red", long)
	check("without a prompt", got[0], part(0, 13), part(13, 26), part(26, 40))
	check("again", got[2], part(0, 13), part(13, 26), part(26, 40))
	check("a short text", got[1], "red")
	prompted, err := average.WithPrompt("query")
	if err != nil {
		t.Fatal(err)
	}
	check("with a prompt", embedAll(t, prompted, long)[0],
		"red cup "+part(0, 10), "red cup "+part(10, 20), "red cup "+part(20, 30), "red cup "+part(30, 40))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	text := open(t, TextOptions{Dir: lookupFolder().write(t)})
	for s, want := range map[string]int{"": 2, "red": 3, "the blue cup": 5, strings.Repeat("red ", 100): 16} {
		if got := text.Tokens(s); got != want {
			t.Errorf("%.20q: %d tokens, want %d", s, got, want)
		}
	}
}

// TestGoldenFile: a model that makes other vectors than were recorded does not start.
func TestGoldenFile(t *testing.T) {
	t.Parallel()
	dir := lookupFolder().write(t)
	record(t, open(t, TextOptions{Dir: dir}), dir, "red", "the sea", "")
	open(t, TextOptions{Dir: dir})
	path := filepath.Join(dir, goldenFile)
	recorded, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: dir, Dimensions: 2}); !errors.Is(err, embed.ErrGolden) {
		t.Errorf("other dimensions: error %v", err)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: dir, Golden: filepath.Join(dir, "absent.jsonl")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a named file that is not there: error %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewText(t.Context(), TextOptions{Dir: dir}); err == nil {
		t.Error("a file without a line passed")
	}
	elsewhere := filepath.Join(t.TempDir(), "recorded.jsonl")
	if err := os.WriteFile(elsewhere, recorded, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, TextOptions{Dir: dir, Golden: elsewhere})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	text := open(t, TextOptions{Dir: lookupFolder().write(t), MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	embedAll(t, text, "red", "the blue cup", strings.Repeat("red ", 100))
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			got[m.Name] = float64(data.DataPoints[0].Count)
			if m.Name == "embed.onnx.run.tokens" {
				got[m.Name] = data.DataPoints[0].Sum
			}
		case metricdata.Sum[int64]:
			got[m.Name] = float64(data.DataPoints[0].Value)
		}
	}
	// One empty text tries the graph, of two tokens; then one run of three rows of 16.
	want := map[string]float64{"embed.onnx.tokenize.duration": 4, "embed.onnx.run.duration": 2, "embed.onnx.run.tokens": 50, "embed.onnx.truncated": 1}
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

func TestOptionErrors(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]TextOptions{
		"Pooling is median":           {Pooling: "median"},
		"Precision is":                {Precision: 7},
		"LongTexts is 3":              {LongTexts: 3},
		"File is model.onnx":          {Precision: Int8, File: "model.onnx"},
		`Provider.Name is "GPU"`:      {Provider: Provider{Name: "GPU"}},
		"Device is 1 for CPU":         {Provider: Provider{Device: 1}},
		"Device is -1":                {Provider: Provider{Name: CUDA, Device: -1}},
		"MemoryLimit is 5":            {Provider: Provider{Name: CoreML, MemoryLimit: 5}},
		"EngineCache is":              {Provider: Provider{Name: CUDA, EngineCache: "x"}},
		"enable_cuda_graph: what":     {Provider: Provider{Name: CUDA, Options: map[string]string{"enable_cuda_graph": "1"}}},
		"trt_cuda_graph_enable: what": {Provider: Provider{Name: TensorRT, Options: map[string]string{"trt_cuda_graph_enable": "1"}}},
		"Options: CPU":                {Provider: Provider{Options: map[string]string{"a": "b"}}},
	} {
		if _, err := NewText(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
	several := TextOptions{Pooling: "median", Threads: -1, Provider: Provider{Name: "GPU"}}
	if _, err := NewText(t.Context(), several); err == nil || strings.Count(err.Error(), "TextOptions.") != 3 {
		t.Errorf("three faults: %v", err)
	}
}

func TestProviderSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		p    Provider
		want map[string]string
	}{
		{
			Provider{Name: CUDA, Device: 1, MemoryLimit: 1 << 30, Options: map[string]string{"arena_extend_strategy": "kNextPowerOfTwo"}},
			map[string]string{"device_id": "1", "gpu_mem_limit": "1073741824", "arena_extend_strategy": "kNextPowerOfTwo"},
		},
		{
			Provider{Name: TensorRT, MemoryLimit: 5, EngineCache: "engines"},
			map[string]string{"device_id": "0", "trt_max_workspace_size": "5", "trt_engine_cache_enable": "1", "trt_engine_cache_path": "engines"},
		},
		{Provider{Name: OpenVINO, Options: map[string]string{"device_type": "GPU"}}, map[string]string{"device_type": "GPU"}},
	} {
		if got := test.p.settings(); !maps.Equal(got, test.want) || test.p.validate() != nil {
			t.Errorf("%+v: %v, want %v, %v", test.p, got, test.want, test.p.validate())
		}
	}
}

// TestThreadOptions runs with every option of the session.
func TestThreadOptions(t *testing.T) {
	t.Parallel()
	want := embedAll(t, open(t, TextOptions{}), "a red cup")[0]
	got := embedAll(t, open(t, TextOptions{Threads: 1, Spin: true, NoArena: true, BatchTokens: 8}), "a red cup", "another")[0]
	if d := apart(got, want); d > 1e-6 {
		t.Errorf("differs by %g", d)
	}
}
