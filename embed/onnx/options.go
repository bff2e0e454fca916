package onnx

import (
	"errors"
	"fmt"
	"io"
	"runtime"
)

// TextOptions configures NewText. The zero value is the default model on a library that comes by itself: see the package doc.
type TextOptions struct {
	// Dir is a sentence-transformers folder: modules.json, the pooling's config.json, config.json, tokenizer.json and an ONNX file.
	// Empty: all-MiniLM-L6-v2, downloaded once (128 MB with the runtime library; 121 MB stay on the disk).
	Dir string
	// File is the ONNX file inside the transformer's folder. Empty: model.onnx, else onnx/model.onnx, else the only *.onnx in
	// the two places; several are an error.
	File string
	// Library is the path of ONNX Runtime's shared library, 1.29 or newer. Empty: the variable ONNXRUNTIME_LIB, else 1.31.1 is
	// downloaded once. A process has one: see the package doc.
	Library string
	// Cache is the folder of what is downloaded. Empty: the variable TIDEMARK_CACHE, else tidemark in os.UserCacheDir.
	Cache string
	// Progress gets a line of text now and then while something is downloaded. Nil: the lines go to slog.Default at level Info;
	// io.Discard is silent. It is written to before NewText returns and never after.
	Progress io.Writer
	// MaxLength lowers the folder's limit of tokens a text, special tokens included. 0: the folder's limit.
	MaxLength int
	// Threads work on one run of the graph, without spinning between runs. 0: one a CPU that Go may use, at most 4. As many runs as
	// Go has CPUs may be under way at once, for callers that embed at the same time; others wait for their turn.
	Threads int
	// BatchTokens bounds a run: its texts times the longest's tokens. 0: 256, where padding and calls cost least on CPUs. -1: a text
	// at a time.
	BatchTokens int
}

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
	return o
}

func (o TextOptions) validate() error {
	var errs []error
	if o.MaxLength < 0 {
		errs = append(errs, fmt.Errorf("onnx: TextOptions.MaxLength is %d", o.MaxLength))
	}
	if o.Threads < 1 || o.Threads > 1024 {
		errs = append(errs, fmt.Errorf("onnx: TextOptions.Threads is %d", o.Threads))
	}
	if o.BatchTokens < -1 || o.BatchTokens > 1<<20 {
		errs = append(errs, fmt.Errorf("onnx: TextOptions.BatchTokens is %d", o.BatchTokens))
	}
	return errors.Join(errs...)
}
