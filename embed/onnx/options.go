package onnx

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// TextOptions configures NewText. The zero value is the default model on a library that comes by itself: see the package doc.
type TextOptions struct {
	// Dir is a model's folder: config.json, tokenizer.json (or BERT's vocab.txt), an ONNX file or model.safetensors (or its index and the
	// files that this names), and what sentence-transformers adds to them. Empty: all-MiniLM-L6-v2, downloaded once.
	Dir string
	// File is the ONNX file inside the transformer's folder, or model.safetensors. Empty: model.onnx, else onnx/model.onnx, else the only
	// *.onnx in the two places (several are an error), else model.safetensors. With Int8, always model.safetensors. Where there is no
	// model.safetensors, the name stands for model.safetensors.index.json.
	File string
	// Library is the path of ONNX Runtime's shared library, 1.29 or newer. Empty: the variable ONNXRUNTIME_LIB, else 1.31.1 is
	// downloaded once. A process has one: see the package doc.
	Library string
	// Cache is the folder of what is downloaded. Empty: the variable TIDEMARK_CACHE, else tidemark in os.UserCacheDir.
	Cache string
	// Progress gets a line of text now and then while something is downloaded. Nil: the lines go to slog.Default at level Info;
	// io.Discard is silent. It is written to before NewText returns and never after.
	Progress io.Writer

	// Pooling is how the vectors of a text's tokens become one. Empty: as the folder says, and the mean where it says nothing.
	Pooling Pooling
	// Normalize scales vectors to length 1 also where the folder does not ask for it.
	Normalize bool
	// Dimensions cuts vectors to their first components, before they are scaled to length 1 where they are: for models that were
	// trained so (Matryoshka). 0: truncate_dim of config_sentence_transformers.json, else all of them; more than the model has are an error.
	Dimensions int
	// Prompt is the name of a prompt in config_sentence_transformers.json that is put before every text, such as "query". Empty: the
	// folder's default_prompt_name, where it has one; NoPrompt: none. See also [Text.WithPrompt].
	Prompt string
	// MaxLength lowers the folder's limit of tokens a text, special tokens included. 0: the folder's limit.
	MaxLength int
	// LongTexts says what becomes of a text beyond the limit. Zero: it is cut.
	LongTexts LongTexts
	// Golden is a file of texts and vectors that embed.Record wrote with the options at hand: where the model makes others now, NewText
	// answers embed.ErrGolden. Empty: golden.jsonl in Dir, where there is one.
	Golden string

	// Precision is how exact a graph that is built from model.safetensors computes. Zero: FP32.
	Precision Precision
	// Provider is what runs the graph. The zero value is the CPU.
	Provider Provider
	// Threads work on one run of the graph. 0: one a CPU that Go may use, at most 4. As many runs may be under way at once, of one call and
	// of callers that embed at the same time, as give each CPU a thread; others wait for their turn. 1 makes the most of each CPU where
	// there is always more than one text to embed: see BenchmarkPeers. More make one text's answer come sooner.
	Threads int
	// Spin lets threads wait for work at full load also between runs, for a millisecond: a little faster where the machine has nothing else
	// to do, slower where it has. Without it they do so for 100 µs at most, and only while a run is under way.
	Spin bool
	// NoArena gives memory back after every run, instead of keeping it for the next.
	NoArena bool
	// BatchTokens bounds a run: its tokens, padding included, and the pairs of tokens in attention by its square. 0: 256. More
	// make hardly more of a processor, and leave the runs of a call less to share. With a thread a run, packed batches of 32 texts took
	// the same time at 256, 384 and 512 tokens within 2 %; padded ones, of an ONNX file's graph, were 1.1 times as fast at 256 as at 512, and
	// 1.9 times as at 1024, and at 128 the same. -1: a text at a time. A graph that fixes how many texts a run has takes as many.
	BatchTokens int

	// MeterProvider is where metrics go; nil: the global one.
	MeterProvider metric.MeterProvider
}

// NoPrompt is the name of no prompt, also where the folder has a default one.
const NoPrompt = "-"

// Pooling is how the vectors of a text's tokens become one, special tokens included, in sentence-transformers' names. Padding never
// counts. Several are joined by a plus sign, as in "cls+mean": then their vectors stand one behind the other.
type Pooling string

// The poolings.
const (
	Mean         Pooling = "mean"
	CLS          Pooling = "cls" // the first token's
	Max          Pooling = "max" // of each component
	LastToken    Pooling = "lasttoken"
	WeightedMean Pooling = "weightedmean"         // the n-th token counts n times
	MeanSqrtLen  Pooling = "mean_sqrt_len_tokens" // the sum, divided by the square root of how many tokens there are
)

// LongTexts is what becomes of a text that has more tokens than the limit.
type LongTexts int

const (
	// CutLong cuts it at the limit, special tokens kept. The metric embed.onnx.truncated counts such texts.
	CutLong LongTexts = iota
	// AverageLong embeds it in parts of like length, and answers the mean of their vectors, weighted by their tokens and scaled to length
	// 1 where vectors are. A prompt stands before each part.
	AverageLong
	// RejectLong makes it that text's error, ErrTooLong.
	RejectLong
)

const (
	defaultMaxThreads  = 4
	defaultBatchTokens = 256
)

func (o TextOptions) withDefaults() TextOptions {
	if o.Threads == 0 {
		o.Threads = min(runtime.GOMAXPROCS(0), defaultMaxThreads)
	}
	if o.BatchTokens == 0 {
		o.BatchTokens = defaultBatchTokens
	}
	if o.Provider.Name == "" {
		o.Provider.Name = CPU
	}
	if o.Precision == Int8 && o.File == "" {
		o.File = weightsFile
	}
	return o
}

func (o TextOptions) validate() error {
	var errs []error
	check := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("onnx: TextOptions.%s is %v", name, value))
		}
	}
	check(o.MaxLength >= 0, "MaxLength", o.MaxLength)
	check(o.Threads >= 1 && o.Threads <= 1024, "Threads", o.Threads)
	check(o.BatchTokens >= -1 && o.BatchTokens <= 1<<20, "BatchTokens", o.BatchTokens)
	check(o.Dimensions >= 0, "Dimensions", o.Dimensions)
	check(o.Precision == FP32 || o.Precision == Int8, "Precision", o.Precision)
	check(o.LongTexts >= CutLong && o.LongTexts <= RejectLong, "LongTexts", int(o.LongTexts))
	check(o.Pooling == "" || o.Pooling.known(), "Pooling", string(o.Pooling))
	check(o.Precision != Int8 || slices.Contains(weightsFiles, o.File), "File", o.File+", but only "+weightsFile+" can be quantized")
	return errors.Join(append(errs, o.Provider.validate())...)
}
