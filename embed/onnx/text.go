//go:build cgo

package onnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx/internal/pinned"
	"github.com/tidemark-go/tidemark/embed/tokenizer"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// Text embeds texts with a sentence-transformers model on ONNX Runtime. It is an embed.Embedder[string], safe for concurrent use.
type Text struct {
	model       embed.Model
	tokenizer   *tokenizer.Tokenizer
	folder      folder
	signature   signature
	session     *ort.DynamicAdvancedSession
	batchTokens int
	slots       chan struct{} // one place a run at the same time: bounds memory and threads

	mu      sync.Mutex
	closed  bool           // no call begins once it is set
	running sync.WaitGroup // calls that have begun; added to only under mu while not closed
}

var _ embed.Embedder[string] = (*Text)(nil)

// NewText loads a model; with the zero options the default one, which it downloads on first use together with the runtime library.
// The context bounds the download and loading. Errors are ErrModel, ErrUnsupported, ErrLibrary, ErrDownload or the context's.
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
	t, path, err := openText(o)
	if err != nil {
		return nil, err
	}
	if err := startRuntime(ctx, cache, o.Library); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	if t.session, err = newSession(path, t.signature, o.Threads); err != nil {
		return nil, err
	}
	if err := t.probe(ctx); err != nil {
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
	in, err := t.encode("")
	if err != nil {
		return err
	}
	b := batch{inputs: []input{in}, vectors: make([][]float32, 1), errs: make([]error, 1)}
	if err := t.run(ctx, &b, []int{0}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("onnx: %w", ctx.Err())
		}
		return fmt.Errorf("%w: %s fails on the empty text: %w", ErrModel, t.folder.onnx, err)
	}
	return nil
}

// openText reads everything of the folder that needs no runtime library, and answers the graph's path.
func openText(o TextOptions) (*Text, string, error) {
	f, err := readFolder(o.Dir, o.File)
	if err != nil {
		return nil, "", err
	}
	if o.MaxLength > 0 && (f.limit == 0 || o.MaxLength < f.limit) {
		f.limit = o.MaxLength
	}
	if f.limit == 0 {
		return nil, "", fmt.Errorf("%w: %s: no file says how long a text may be: set TextOptions.MaxLength", ErrModel, o.Dir)
	}
	g, err := readGraph(f.onnx)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	s, err := sign(g, f.dimensions)
	if err != nil {
		return nil, "", fmt.Errorf("%w (%s)", err, f.onnx)
	}
	tok, err := tokenizer.Load(f.tokenizer)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		return nil, "", fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	if _, err := tok.AppendEncode(tokenizer.Encoding{}, "", f.limit); err != nil { // the limit does not hold the special tokens
		return nil, "", fmt.Errorf("%w: %s: %w", ErrUnsupported, o.Dir, err)
	}
	fingerprint, err := fingerprint(f, g, s)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	if g.companyOp != "" {
		o.BatchTokens = -1 // a text alone, so that its company never changes its vector
	}
	return &Text{
		model:       embed.Model{Name: f.name, Fingerprint: fingerprint, Dimensions: f.dimensions, MaxLength: f.limit},
		tokenizer:   tok,
		folder:      f,
		signature:   s,
		batchTokens: o.BatchTokens,
		slots:       make(chan struct{}, runtime.GOMAXPROCS(0)),
	}, f.onnx, nil
}

// Model describes the vectors: the folder's name, its dimension and token limit, and a fingerprint over the weights, the tokenizer,
// the pooling and the limit. The runtime library's version is not part of it.
func (t *Text) Model() embed.Model { return t.model }

// Close waits for running calls of Embed and frees the model. Later calls of Embed answer ErrClosed; Close may be called again.
func (t *Text) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
	if !first {
		return nil
	}
	return t.session.Destroy()
}

func (t *Text) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.running.Add(1)
	return nil
}

// Embed makes one vector a text, in the order of the texts. A text longer than Model().MaxLength tokens is cut there; an empty or
// blank one has the vector that the model gives to its special tokens alone. A text that can't be tokenized or whose vector is
// unusable fails alone, by an *embed.BatchError; when ctx ends, the run under way is stopped and its error is the context's.
func (t *Text) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.running.Done()
	b := batch{vectors: make([][]float32, len(texts)), errs: make([]error, len(texts)), inputs: make([]input, len(texts))}
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("onnx: %w", err)
		}
		b.inputs[i], b.errs[i] = t.encode(text)
	}
	for _, rows := range plan(b.inputs, b.errs, t.batchTokens) {
		if err := t.embedRows(ctx, &b, rows); err != nil {
			return nil, err
		}
	}
	return b.vectors, embed.NewBatchError(b.errs)
}

// embedRows runs the graph for some of the batch. Where a run of several fails, each is tried alone, so that one does not take
// its neighbours along. The error is the context's; all others belong to a row.
func (t *Text) embedRows(ctx context.Context, b *batch, rows []int) error {
	err := t.run(ctx, b, rows)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("onnx: %w", ctx.Err())
	case len(rows) == 1:
		b.errs[rows[0]] = fmt.Errorf("onnx: run of %d tokens: %w", len(b.inputs[rows[0]].ids), err)
		return nil
	}
	for _, row := range rows {
		if err := t.embedRows(ctx, b, []int{row}); err != nil {
			return err
		}
	}
	return nil
}

// run fills in the vectors of the rows, which are in order of length, the longest last.
func (t *Text) run(ctx context.Context, b *batch, rows []int) error {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.slots }()

	width := len(b.inputs[rows[len(rows)-1]].ids)
	dims := t.model.Dimensions
	hidden := make([]float32, len(rows)*width*dims)
	shape := ort.NewShape(int64(len(rows)), int64(width), int64(dims))
	if t.signature.pooled {
		hidden, shape = hidden[:len(rows)*dims], ort.NewShape(int64(len(rows)), int64(dims))
	}
	if err := t.runGraph(ctx, b.tensors(rows, width, t.signature.inputs, t.folder.padID), len(rows), width, hidden, shape); err != nil {
		return err
	}
	for i, row := range rows {
		var vector []float32
		if t.signature.pooled {
			vector = append(vector, hidden[i*dims:(i+1)*dims]...)
		} else {
			n := len(b.inputs[row].ids)
			vector = t.folder.pooling.pool(hidden[i*width*dims:(i*width+n)*dims], n, dims)
		}
		if err := finish(vector, t.folder.normalize); err != nil {
			b.errs[row] = itemerror.Permanent(err)
			continue
		}
		b.vectors[row] = vector
	}
	return nil
}

// runGraph gives the tensors to ONNX Runtime, which writes its answer to hidden, and stops the run when ctx ends.
func (t *Text) runGraph(ctx context.Context, data [][]int64, rows, width int, hidden []float32, shape ort.Shape) (err error) {
	var values []ort.Value
	options, err := ort.NewRunOptions()
	if err != nil {
		return err
	}
	defer func() {
		for _, v := range values {
			err = errors.Join(err, v.Destroy())
		}
		err = errors.Join(err, options.Destroy())
	}()
	for _, d := range data {
		v, err := ort.NewTensor(ort.NewShape(int64(rows), int64(width)), d)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	out, err := ort.NewTensor(shape, hidden)
	if err != nil {
		return err
	}
	values = append(values, out)

	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(terminated)
		_ = options.Terminate() // the run ends by itself where it can't be stopped
	})
	err = t.session.RunWithOptions(values[:len(data)], values[len(data):], options)
	if !stop() {
		<-terminated // options must outlive Terminate
	}
	if err != nil {
		return oneLine(err)
	}
	return nil
}

func (t *Text) encode(text string) (input, error) {
	e, err := t.tokenizer.AppendEncode(tokenizer.Encoding{}, text, t.model.MaxLength)
	if err != nil {
		return input{}, itemerror.Permanent(fmt.Errorf("onnx: %w", err))
	}
	if len(e.IDs) == 0 { // blank, and the folder's tokenizer adds no special tokens
		return input{}, itemerror.Permanent(fmt.Errorf("%w: a text without any token", ErrUnsupported))
	}
	if id := slices.Max(e.IDs); t.folder.vocabulary > 0 && int(id) >= t.folder.vocabulary {
		return input{}, itemerror.Permanent(fmt.Errorf("%w: the tokenizer's id %d is outside of config.json's vocabulary of %d",
			ErrModel, id, t.folder.vocabulary))
	}
	return input{ids: e.IDs, types: e.TypeIDs}, nil
}
