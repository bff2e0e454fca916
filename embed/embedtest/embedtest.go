package embedtest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tidemark-go/tidemark/embed"
)

// Embedder is a deterministic [embed.Embedder] of texts or pictures. It is safe for concurrent use.
type Embedder[In ~string | ~[]byte] struct {
	model    embed.Model
	features func(input string) []string

	mu     sync.Mutex
	faults []*fault
	calls  int
	inputs []In
}

// New returns a text embedder whose vectors have dims components. It panics when dims is below 1.
func New(dims int) *Embedder[string] { return NewNamed("embedtest", dims) }

// NewNamed is like [New] for another model: a different name makes different vectors and another fingerprint, so that a test
// can tell two models apart.
func NewNamed(name string, dims int) *Embedder[string] {
	return &Embedder[string]{model: model(name, "words", dims), features: words}
}

// NewImages returns an embedder of pictures, which it does not decode: equal bytes make equal vectors. It panics when dims
// is below 1.
func NewImages(dims int) *Embedder[embed.Image] {
	whole := func(input string) []string { return []string{input} }
	return &Embedder[embed.Image]{model: model("embedtest-images", "bytes", dims), features: whole}
}

func model(name, kind string, dims int) embed.Model {
	if dims < 1 {
		panic(fmt.Sprintf("embedtest: dims is %d, must be at least 1", dims))
	}
	return embed.Model{Name: name, Fingerprint: fmt.Sprintf("%s/%s-1/%d", name, kind, dims), Dimensions: dims}
}

// Inject adds a fault. It holds for calls that begin afterwards.
func (e *Embedder[In]) Inject(f Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(e.faults, &fault{Fault: f})
}

// Heal removes every fault.
func (e *Embedder[In]) Heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = nil
}

// Calls returns how often Embed was called, calls that failed included.
func (e *Embedder[In]) Calls() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// Inputs returns every input that Embed was given so far, in the order in which they came, failed ones included.
func (e *Embedder[In]) Inputs() []In {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.inputs)
}

// Reset forgets the calls and inputs counted so far. Faults stay, with their counts.
func (e *Embedder[In]) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls, e.inputs = 0, nil
}

// Model describes the vectors. MaxLength is zero: nothing is cut.
func (e *Embedder[In]) Model() embed.Model { return e.model }

// Embed returns one unit vector an input, unless a fault says otherwise: a failed input is an item error of an
// [embed.BatchError], a failed call any other error. A context that is done fails the call with the context's error.
func (e *Embedder[In]) Embed(ctx context.Context, inputs []In) ([][]float32, error) {
	call, items := e.begin(inputs)
	if err := wait(ctx, longest(call, items)); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(inputs))
	errs := make([]error, len(inputs))
	for i, in := range inputs {
		vectors[i] = e.vector(string(in))
		for _, f := range items[i] {
			if f.Kind == Fail {
				errs[i] = f.error()
			} else {
				vectors[i] = f.spoil(vectors[i])
			}
		}
		if errs[i] != nil {
			vectors[i] = nil
		}
	}
	for _, f := range call {
		switch f.Kind {
		case FailCall:
			return nil, f.error()
		case Panic:
			panic(ErrInjected)
		case OneTooFew:
			vectors = vectors[:max(0, len(vectors)-1)]
		}
	}
	return vectors, embed.NewBatchError(errs)
}

// begin counts a call and returns the faults that strike it and each of its inputs.
func (e *Embedder[In]) begin(inputs []In) (call []Fault, items [][]Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	for _, in := range inputs {
		e.inputs = append(e.inputs, In(slices.Clone([]byte(in))))
	}
	items = make([][]Fault, len(inputs))
	for _, f := range e.faults {
		for i, in := range inputs {
			if !f.strike(string(in)) {
				continue
			}
			if f.ofCall() {
				call = append(call, f.Fault)
				break
			}
			items[i] = append(items[i], f.Fault)
		}
	}
	return call, items
}

func longest(call []Fault, items [][]Fault) time.Duration {
	var d time.Duration
	for _, faults := range append(items, call) {
		for _, f := range faults {
			d = max(d, f.Delay)
		}
	}
	return d
}

func wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// vector is the normalized sum of the directions of the input's features.
func (e *Embedder[In]) vector(input string) []float32 {
	sum := make([]float64, e.model.Dimensions)
	for _, feature := range e.features(input) {
		e.addDirection(sum, feature)
	}
	norm := length(sum)
	if norm == 0 { // no word in it, or words that cancel out, as they may in a dimension or two
		clear(sum)
		e.addDirection(sum, "\x00"+input)
		norm = length(sum)
	}
	v := make([]float32, len(sum))
	for i, x := range sum {
		v[i] = float32(x / norm)
	}
	return v
}

// addDirection adds the feature's own direction, a corner of the cube, to sum. The bits come from SplitMix64
// (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), which is seeded by the feature's hash.
func (e *Embedder[In]) addDirection(sum []float64, feature string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.model.Fingerprint + "\x00" + feature)) // a Hash never fails
	state := h.Sum64()
	for i := range sum {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		sum[i] += 1 - 2*float64(z>>63)
	}
}

func length(v []float64) float64 {
	var squares float64
	for _, x := range v {
		squares += x * x
	}
	return math.Sqrt(squares)
}

// words splits a text at everything that is neither a letter, a mark nor a digit, without regard to case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N)
	})
}
