//go:build cgo

package onnx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// Text embeds texts with a transformer on ONNX Runtime. It is an embed.Embedder[string], safe for concurrent use.
type Text struct {
	*engine // shared by all that WithPrompt makes
	model   embed.Model
	prompt  prompt
}

var _ embed.Embedder[string] = (*Text)(nil)

// NewText loads a model; with the zero options the default one, which it downloads on first use together with the runtime library.
// The context bounds the download and loading. Errors are ErrModel, ErrUnsupported, ErrLibrary, ErrProvider, ErrDownload,
// embed.ErrGolden or the context's.
func NewText(ctx context.Context, o TextOptions) (*Text, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	cache := pinned.Cache{Dir: o.Cache, Progress: o.Progress}
	if o.Dir == "" {
		// The library first, so that a machine without one is told so before it downloads a model.
		if err := startRuntime(ctx, cache, o.Library); err != nil {
			return nil, err
		}
		dir, err := cache.TextModel(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDownload, err)
		}
		o.Dir = dir
	}
	e, graphs, err := openEngine(o)
	if err != nil {
		return nil, err
	}
	t, err := e.text(o.Prompt)
	if err != nil {
		return nil, err
	}
	if err := startRuntime(ctx, cache, o.Library); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	if err := e.load(graphs); err != nil {
		return nil, err
	}
	if err := errors.Join(t.probe(ctx), t.verify(ctx)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// startRuntime loads the library that the caller or the environment names, else the pinned one.
func startRuntime(ctx context.Context, cache pinned.Cache, library string) error {
	if library != "" {
		return loadLibrary(library, "TextOptions.Library")
	}
	if library = os.Getenv("ONNXRUNTIME_LIB"); library != "" {
		return loadLibrary(library, "ONNXRUNTIME_LIB")
	}
	library, err := cache.Library(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	return loadLibrary(library, "the cache")
}

// probe embeds the empty text, so that a graph whose answer is not what it declares, or does not fit the folder, fails at once.
func (t *Text) probe(ctx context.Context) error {
	in, err := t.encode(ctx, "", 0)
	if err != nil {
		return err
	}
	if _, err := t.run(ctx, in[:1]); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("onnx: %w", ctx.Err())
		}
		return fmt.Errorf("%w: %s fails on the empty text: %w", ErrModel, t.folder.graph, err)
	}
	return nil
}

// goldenFile is where a folder keeps recorded vectors.
const goldenFile = "golden.jsonl"

// verify compares with the vectors that were recorded, if any were.
func (t *Text) verify(ctx context.Context) error {
	path := t.options.Golden
	if path == "" {
		if path = filepath.Join(t.options.Dir, goldenFile); !exists(path) {
			return nil
		}
	}
	f, _, err := openRegular(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer func() { _ = f.Close() }() // only read from
	if err := embed.Verify(ctx, f, t); err != nil {
		return fmt.Errorf("onnx: %s: %w", path, err)
	}
	return nil
}

// WithPrompt returns an embedder that puts another of the folder's prompts before every text, such as "query" where t has "passage"; ""
// is the folder's default prompt and NoPrompt none. It has a fingerprint of its own, so that caches keep the two apart, though their
// vectors are made to be compared. The model is shared: closing either closes both. An unknown name is ErrModel.
func (t *Text) WithPrompt(name string) (*Text, error) { return t.text(name) }

// Model describes the vectors: the folder's name, its dimension and token limit, and a fingerprint over the weights, the tokenizer
// and all options that change vectors. The runtime library's version is not part of it, nor the provider and the threads.
func (t *Text) Model() embed.Model { return t.model }

// Info returns what was found in the folder, with what the options have changed.
func (t *Text) Info() Info {
	f, o := t.folder, t.options
	return Info{
		Architecture: f.architecture, Graph: f.graph, Built: t.signature.packed, Packed: t.signature.packed, Quantizing: t.quantizing,
		RunTexts: t.signature.texts, RunTokens: t.signature.tokens,
		Pooled: t.signature.pooled, Pooling: f.pooling, Normalize: o.Normalize || f.normalize, Layers: len(f.layers),
		Dimensions: f.made(), Limit: f.limit,
		Prompts: maps.Clone(f.prompts), Prompt: t.prompt.name,
		Precision: o.Precision, Provider: o.Provider.Name, Threads: o.Threads, BatchTokens: t.batchTokens,
	}
}

// Tokens returns how many tokens of a text the model sees, special tokens included: what embed.Batcher counts for MaxTokens. A text that
// can't be embedded has none.
func (t *Text) Tokens(text string) int {
	n := 0
	inputs, _, err := t.inputs(text, 0)
	if err == nil {
		for _, in := range inputs {
			n += len(in.ids)
		}
	}
	return n
}

// Close waits for running calls of Embed and frees the model. Later calls of Embed answer ErrClosed; Close may be called again.
func (t *Text) Close() error { return t.close() }

// Embed makes one vector a text, in the order of the texts. A text longer than Model().MaxLength tokens is cut there, unless
// TextOptions.LongTexts says otherwise; an empty or blank one has the vector that the model gives to its special tokens alone. A text
// that can't be tokenized or whose vector is unusable fails alone, by an *embed.BatchError; when ctx ends, the run under way is stopped
// and its error is the context's.
func (t *Text) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.running.Done()
	b := batch{parts: make([]parts, len(texts)), errs: make([]error, len(texts))}
	var inputs []input
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("onnx: %w", err)
		}
		in, err := t.encode(ctx, text, i)
		inputs, b.errs[i] = append(inputs, in...), err
	}
	if err := t.embedRuns(ctx, &b, t.signature.plan(inputs, t.batchTokens)); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(texts))
	for i := range texts {
		if b.errs[i] == nil {
			vectors[i], b.errs[i] = t.finish(b.parts[i])
		}
	}
	return vectors, embed.NewBatchError(b.errs)
}

// finish makes the vector of a text of those of its parts.
func (t *Text) finish(p parts) ([]float32, error) {
	for i := range p {
		for _, layer := range t.folder.layers {
			p[i].vector = layer.apply(p[i].vector)
		}
	}
	vector := p.mean()[:t.model.Dimensions]
	if err := finish(vector, t.options.Normalize || t.folder.normalize); err != nil {
		return nil, itemerror.Permanent(err)
	}
	return vector, nil
}
