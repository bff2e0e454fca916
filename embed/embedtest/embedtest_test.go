package embedtest_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

var (
	_ embed.Embedder[string]      = embedtest.New(1)
	_ embed.Embedder[embed.Image] = embedtest.NewImages(1)
)

func cosine(a, b []float32) float64 {
	var dot float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
	}
	return dot
}

func vectorOf[In ~string | ~[]byte](t *testing.T, e *embedtest.Embedder[In], input In) []float32 {
	t.Helper()
	vectors, err := e.Embed(t.Context(), []In{input})
	if err != nil || len(vectors) != 1 {
		t.Fatalf("Embed: %d vectors, error %v", len(vectors), err)
	}
	return vectors[0]
}

func TestVectorsAreUnitVectors(t *testing.T) {
	t.Parallel()
	texts := []string{"", " ", "!?", "red", "red shoes", "\x00", "\xff\xfe", "日本語", strings.Repeat("word ", 1000)}
	for _, dims := range []int{1, 2, 3, 384} {
		for _, text := range texts {
			v := vectorOf(t, embedtest.New(dims), text)
			if len(v) != dims || math.Abs(cosine(v, v)-1) > 1e-5 {
				t.Errorf("dims %d, text %q: %d components, squared length %v", dims, text, len(v), cosine(v, v))
			}
		}
	}
}

func TestWordsInCommonAreNear(t *testing.T) {
	t.Parallel()
	e := embedtest.New(384)
	query := vectorOf(t, e, "waterproof shoes")
	near := cosine(query, vectorOf(t, e, "Shoes, red and WATERPROOF"))
	half := cosine(query, vectorOf(t, e, "shoes for children"))
	far := cosine(query, vectorOf(t, e, "a pot of tea"))
	if near < half+0.1 || half < far+0.1 || math.Abs(far) > 0.2 {
		t.Errorf("cosines: two words %v, one word %v, none %v", near, half, far)
	}
	if !slices.Equal(query, vectorOf(t, embedtest.New(384), "waterproof shoes")) {
		t.Error("two embedders of one model differ")
	}
	other := embedtest.NewNamed("other", 384)
	if c := cosine(query, vectorOf(t, other, "waterproof shoes")); math.Abs(c) > 0.3 {
		t.Errorf("another model's vector has cosine %v", c)
	}
	if other.Model().Fingerprint == e.Model().Fingerprint {
		t.Error("two models have one fingerprint")
	}
}

func TestVectorsNeverChange(t *testing.T) {
	t.Parallel()
	got := vectorOf(t, embedtest.New(4), "red shoes and red socks")
	want := []float32{0.69337523, -0.69337523, -0.13867505, 0.13867505}
	if len(got) != len(want) {
		t.Fatalf("%d components, want %d", len(got), len(want))
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-6 {
			t.Fatalf("vector is %v, want %v", got, want)
		}
	}
}

func TestImagesGoByTheirBytes(t *testing.T) {
	t.Parallel()
	e := embedtest.NewImages(384)
	picture := embed.Image("\x89PNG one")
	a, b := vectorOf(t, e, picture), vectorOf(t, e, embed.Image("\x89PNG two"))
	if !slices.Equal(a, vectorOf(t, e, embed.Image("\x89PNG one"))) || math.Abs(cosine(a, b)) > 0.3 {
		t.Errorf("equal pictures differ, or different ones have cosine %v", cosine(a, b))
	}
	picture[0] = 'x'
	if string(e.Inputs()[0]) != "\x89PNG one" {
		t.Error("Inputs shares memory with the caller")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	isNaN := func(v []float32) bool { return len(v) == 8 && v[0] != v[0] }
	isInf := func(v []float32) bool { return len(v) == 8 && math.IsInf(float64(v[0]), 1) }
	isZero := func(v []float32) bool { return slices.Equal(v, make([]float32, 8)) }
	tests := []struct {
		fault   embedtest.Fault
		spoiled func(v []float32) bool // of the input "bad"; nil: it has an item error
		callErr bool
	}{
		{embedtest.Fault{Match: "bad"}, nil, false},
		{embedtest.Fault{Match: "bad", Permanent: true, Err: io.ErrClosedPipe}, nil, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.FailCall}, nil, true},
		{embedtest.Fault{Kind: embedtest.FailCall, Permanent: true}, nil, true},
		{embedtest.Fault{Match: "bad", Kind: embedtest.NaN}, isNaN, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.Inf}, isInf, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.Zero}, isZero, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.WrongDimension}, func(v []float32) bool { return len(v) == 9 }, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.Missing}, func(v []float32) bool { return v == nil }, false},
		{embedtest.Fault{Match: "bad", Kind: embedtest.Slow}, func(v []float32) bool { return len(v) == 8 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.fault.Kind.String(), func(t *testing.T) {
			t.Parallel()
			tt.fault.Times = 1
			e := embedtest.New(8)
			e.Inject(tt.fault)
			vectors, err := e.Embed(t.Context(), []string{"good", "bad", "good too"})
			checkFault(t, tt.fault, vectors, err, tt.spoiled, tt.callErr)
			vectors, err = e.Embed(t.Context(), []string{"good", "bad"})
			if err != nil || len(vectors[1]) != 8 || !slices.Equal(vectors[1], vectorOf(t, embedtest.New(8), "bad")) {
				t.Errorf("after its one time: vectors %v, error %v", vectors, err)
			}
		})
	}
}

func checkFault(t *testing.T, f embedtest.Fault, vectors [][]float32, err error, spoiled func([]float32) bool, call bool) {
	t.Helper()
	want := f.Err
	if want == nil {
		want = embedtest.ErrInjected
	}
	var items interface{ ItemErrors() []error }
	var p interface{ Permanent() bool }
	hasItems := errors.As(err, &items)
	switch {
	case call:
		if hasItems || vectors != nil || !errors.Is(err, want) || !errors.As(err, &p) || p.Permanent() != f.Permanent {
			t.Errorf("call: vectors %v, error %v", vectors, err)
		}
		return
	case spoiled == nil:
		if !hasItems || len(items.ItemErrors()) != 3 || !errors.Is(items.ItemErrors()[1], want) || vectors[1] != nil ||
			!errors.As(items.ItemErrors()[1], &p) || p.Permanent() != f.Permanent {
			t.Fatalf("item: vectors %v, error %v", vectors, err)
		}
		if items.ItemErrors()[0] != nil || items.ItemErrors()[2] != nil {
			t.Errorf("neighbours failed: %v", items.ItemErrors())
		}
	case err != nil || !spoiled(vectors[1]):
		t.Errorf("vector is %v, error %v", vectors[1], err)
	}
	if len(vectors[0]) != 8 || len(vectors[2]) != 8 {
		t.Errorf("neighbours have no vectors: %v", vectors)
	}
}

func TestFaultsOfTheCall(t *testing.T) {
	t.Parallel()
	e := embedtest.New(8)
	e.Inject(embedtest.Fault{Kind: embedtest.OneTooFew, Times: 2})
	for _, inputs := range [][]string{{"a", "b"}, {"a"}} {
		if vectors, err := e.Embed(t.Context(), inputs); err != nil || len(vectors) != len(inputs)-1 {
			t.Errorf("OneTooFew: %d vectors of %d inputs, error %v", len(vectors), len(inputs), err)
		}
	}
	e.Inject(embedtest.Fault{Match: "b", Kind: embedtest.Panic})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		e.Heal()
		if _, err := e.Embed(t.Context(), []string{"b"}); err != nil {
			t.Errorf("healed: %v", err)
		}
	}()
	_, _ = e.Embed(t.Context(), []string{"a", "b"})
}

func TestTimesCountsInputs(t *testing.T) {
	t.Parallel()
	e := embedtest.New(8)
	e.Inject(embedtest.Fault{Match: "x", Times: 3})
	failures := func() (n int) {
		_, err := e.Embed(t.Context(), []string{"x", "y", "x"})
		var batch *embed.BatchError
		if errors.As(err, &batch) {
			n = len(batch.Unwrap())
		}
		return n
	}
	if a, b, c := failures(), failures(), failures(); a != 2 || b != 1 || c != 0 {
		t.Errorf("failures are %d, %d, %d; want 2, 1, 0", a, b, c)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	e := embedtest.New(8)
	e.Inject(embedtest.Fault{Match: "b", Kind: embedtest.FailCall})
	_, _ = e.Embed(t.Context(), []string{"a", "b"})
	_, _ = e.Embed(t.Context(), nil)
	if e.Calls() != 2 || !slices.Equal(e.Inputs(), []string{"a", "b"}) {
		t.Errorf("%d calls, inputs %q", e.Calls(), e.Inputs())
	}
	e.Reset()
	if e.Calls() != 0 || len(e.Inputs()) != 0 {
		t.Errorf("after Reset: %d calls, inputs %q", e.Calls(), e.Inputs())
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() { _, _ = e.Embed(t.Context(), []string{"a"}) })
	}
	callers.Wait()
	if e.Calls() != 8 || len(e.Inputs()) != 8 {
		t.Errorf("%d calls and %d inputs of 8 concurrent calls", e.Calls(), len(e.Inputs()))
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := embedtest.New(8)
		e.Inject(embedtest.Fault{Match: "slow", Kind: embedtest.Slow, Delay: time.Second})
		e.Inject(embedtest.Fault{Match: "slower", Kind: embedtest.NaN, Delay: time.Minute})
		start := time.Now()
		if _, err := e.Embed(t.Context(), []string{"fast", "slower"}); err != nil || time.Since(start) != time.Minute {
			t.Errorf("took %v, error %v; want the longest delay", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start = time.Now()
		if _, err := e.Embed(ctx, []string{"slow"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
			t.Errorf("took %v, error %v; want the deadline", time.Since(start), err)
		}
		if _, err := e.Embed(ctx, []string{"fast"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("done context: error %v", err)
		}
	})
}
