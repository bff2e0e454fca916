//go:build cgo

package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// engine is a model that was loaded: everything but the prompt.
type engine struct {
	options     TextOptions
	folder      folder
	tokenizer   *tokenizer.Tokenizer
	specials    specials
	signature   signature
	fingerprint string
	session     session
	alone       session // for a text of up to maxAlone tokens that runs alone; the zero value: it has none of its own
	batchTokens int
	quantizing  string         // the graph's operator for which texts run one by one
	slots       chan []float32 // one a run at the same time, which bounds memory and threads; what the last one's output lay in
	telemetry   telemetry

	mu      sync.Mutex
	closed  bool           // no call begins once it is set
	running sync.WaitGroup // calls that have begun; added to only under mu while not closed
}

// openedGraph is a graph that was read or built, with its inputs in their order. One that was built here has a model and the folder of its
// weights; else it is in a file.
type openedGraph struct {
	inputs []value
	model  []byte
	folder string
}

// openEngine reads everything of the folder that needs no runtime library, and builds the graph where there is none.
func openEngine(o TextOptions) (e *engine, graphs []openedGraph, err error) {
	f, err := readFolder(o.Dir, o.File)
	if err != nil {
		return nil, nil, err
	}
	if o.MaxLength > 0 && (f.limit == 0 || o.MaxLength < f.limit) {
		f.limit = o.MaxLength
	}
	if o.Pooling != "" {
		if len(f.layers) > 0 && len(o.Pooling.modes()) != len(f.pooling.modes()) {
			return nil, nil, fmt.Errorf("%w: TextOptions.Pooling is %q, but the layers behind it are for %q", ErrUnsupported, o.Pooling, f.pooling)
		}
		f.pooling = o.Pooling
	}
	if o.Dimensions > f.made() {
		return nil, nil, fmt.Errorf("%w: TextOptions.Dimensions is %d, but the model has %d", ErrUnsupported, o.Dimensions, f.made())
	}
	slots := (runtime.GOMAXPROCS(0) + o.Threads - 1) / o.Threads
	e = &engine{options: o, folder: f, batchTokens: o.BatchTokens, slots: make(chan []float32, slots)}
	for range cap(e.slots) {
		e.slots <- nil
	}
	if e.telemetry, err = newTelemetry(o.MeterProvider); err != nil {
		return nil, nil, err
	}
	if graphs, err = e.openGraph(); err != nil {
		return nil, nil, err
	}
	if e.folder.limit == 0 {
		return nil, nil, fmt.Errorf("%w: %s: no file says how long a text may be: set TextOptions.MaxLength", ErrModel, o.Dir)
	}
	if err := e.signature.checkSize(e.folder.limit, e.folder.dimensions); err != nil {
		return nil, nil, fmt.Errorf("%w (%s)", err, e.folder.graph)
	}
	return e, graphs, e.openTokenizer()
}

// openGraph reads the graph, or builds it, and where it is of use also one for texts that run alone.
func (e *engine) openGraph() (graphs []openedGraph, err error) {
	if e.folder.built() {
		c, w, err := readEncoder(e.folder)
		if err != nil {
			return nil, err
		}
		e.signature = signature{output: hiddenOutput, elem: elemFloat32, rows: rows{packed: true}}
		for _, alone := range []bool{false, true} {
			if alone && !e.gainsAlone(w) {
				continue
			}
			model, g, err := buildGraph(c, w, e.options.Precision, alone)
			if err != nil {
				return nil, err
			}
			graphs = append(graphs, openedGraph{g.inputs, model, w.folder()})
		}
		if e.fingerprint, err = fingerprintBuilt(e.folder, c, w, e.options.Precision); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrModel, err)
		}
		return graphs, nil
	}
	g, err := readGraph(e.folder.graph)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if e.signature, err = sign(g, e.folder); err != nil {
		return nil, fmt.Errorf("%w (%s)", err, e.folder.graph)
	}
	if e.signature.pooled && len(e.folder.layers) > 0 {
		return nil, fmt.Errorf("%w: %s: a graph that pools, and layers behind the pooling, which it may have or not", ErrUnsupported, e.folder.graph)
	}
	if e.quantizing = g.companyOp; e.quantizing != "" || !has(g.inputs, "attention_mask") {
		e.batchTokens = -1 // a text alone, so that its company, or padding that nothing masks, never changes its vector
	}
	if fixed := e.signature.tokens; fixed > 0 && (e.folder.limit == 0 || fixed < e.folder.limit) {
		e.folder.limit = fixed
	}
	if e.fingerprint, err = fingerprint(e.folder, g, e.signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return []openedGraph{{inputs: g.inputs}}, nil
}

// gainsAlone says whether texts that run alone have a graph of their own: on the CPU, with weights most of which are used as they lie in
// their file, and so take no memory twice.
func (e *engine) gainsAlone(w weights) bool {
	for _, t := range w.tensors {
		if t.elem == elemFloat16 || t.elem == elemBFloat16 {
			return false
		}
	}
	return e.options.Precision == FP32 && e.options.Provider.Name == CPU
}

// load gives the graphs to ONNX Runtime.
func (e *engine) load(graphs []openedGraph) (err error) {
	for i, into := range []*session{&e.session, &e.alone}[:len(graphs)] {
		if *into, err = newSession(e.folder.graph, graphs[i], e.signature.output, e.options); err != nil {
			return errors.Join(err, e.destroy())
		}
	}
	return nil
}

func (e *engine) destroy() error {
	var errs []error
	for _, s := range []session{e.session, e.alone} {
		if s.DynamicAdvancedSession != nil {
			errs = append(errs, s.Destroy())
		}
	}
	return errors.Join(errs...)
}

func (e *engine) openTokenizer() (err error) {
	var more bool
	if e.tokenizer, err = e.folder.loadTokenizer(); err == nil {
		more, err = e.folder.addTokens(e.tokenizer)
	}
	if err == nil && more {
		e.tokenizer, err = e.folder.loadTokenizer()
	}
	if errors.Is(err, tokenizer.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	if e.folder.cutsLeft {
		e.tokenizer = e.tokenizer.CutLeft()
	}
	if _, err := e.tokenizer.AppendEncode(tokenizer.Encoding{}, "", e.folder.limit); err != nil { // it does not hold the special tokens
		return fmt.Errorf("%w: %s: %w", ErrUnsupported, e.options.Dir, err)
	}
	e.specials, err = findSpecials(e.tokenizer)
	return err
}

// text returns an embedder with a prompt of the folder.
func (e *engine) text(promptName string) (*Text, error) {
	p, err := e.folder.prompt(promptName)
	if err != nil {
		return nil, err
	}
	if p.text != "" {
		if p.encoding, err = e.tokenizer.Encode(p.text); err != nil {
			return nil, fmt.Errorf("%w: prompt %q: %w", ErrModel, p.name, err)
		}
		if n := len(p.encoding.IDs); n >= e.folder.limit {
			return nil, fmt.Errorf("%w: prompt %q has %d tokens, and the limit is %d", ErrUnsupported, p.name, n, e.folder.limit)
		}
		if e.folder.promptLeftOut {
			if e.signature.pooled {
				return nil, fmt.Errorf("%w: %s: a graph that pools, and a pooling that leaves the prompt out", ErrUnsupported, e.folder.graph)
			}
			p.skip = len(p.encoding.IDs) - min(1, e.specials.behind) // all but the last special token, as in sentence-transformers
		}
	}
	dims := e.folder.made()
	if e.options.Dimensions > 0 {
		dims = e.options.Dimensions
	} else if e.folder.cut > 0 {
		dims = min(dims, e.folder.cut)
	}
	said := fmt.Appendf(nil, "tidemark text 2\n%s\npooling %s\nnormalize %t\ndimensions %d\nlimit %d\nlong %d\nprompt %q\n",
		e.fingerprint, e.folder.pooling, e.options.Normalize || e.folder.normalize, dims, e.folder.limit, e.options.LongTexts, p.text)
	if e.folder.cutsLeft {
		said = append(said, "cut left\n"...)
	}
	if e.folder.lowers {
		said = append(said, "lower case\n"...)
	}
	if e.folder.composed != nil {
		said = fmt.Appendf(said, "tokenizer %x\n", sha256.Sum256(e.folder.composed))
	}
	if p.skip > 0 {
		said = fmt.Appendf(said, "prompt left out: %d\n", p.skip)
	}
	for _, l := range e.folder.layers {
		said = fmt.Appendf(said, "%s\n", l.fingerprint())
	}
	sum := sha256.Sum256(said)
	return &Text{
		engine: e, prompt: p,
		model: embed.Model{Name: e.folder.name, Fingerprint: hex.EncodeToString(sum[:]), Dimensions: dims, MaxLength: e.folder.limit},
	}, nil
}

func (e *engine) close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	e.running.Wait()
	if !first {
		return nil
	}
	return e.destroy()
}

func (e *engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.running.Add(1)
	return nil
}
