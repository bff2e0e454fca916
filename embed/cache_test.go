package embed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

func newCache[In any](t *testing.T, e embed.Embedder[In], o embed.CacheOptions) *embed.Cache[In] {
	t.Helper()
	c := embed.NewCache(e, o)
	t.Cleanup(c.Close)
	return c
}

func TestCache(t *testing.T) {
	t.Parallel()
	model := embedtest.New(8)
	c := newCache(t, model, embed.CacheOptions{})
	texts := []string{"tea", "coffee", "tea", ""}
	want, _ := embedtest.New(8).Embed(t.Context(), texts)
	for range 3 {
		got, err := c.Embed(t.Context(), texts)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%v, error %v", got, err)
		}
		got[0][0] = 7 // the caller's own
	}
	if in := model.Inputs(); !slices.Equal(in, []string{"tea", "coffee", ""}) {
		t.Errorf("embedded %q", in)
	}
	if c.Model() != model.Model() {
		t.Error("another model")
	}
}

func TestCacheOfImages(t *testing.T) {
	t.Parallel()
	model := embedtest.NewImages(4)
	c := newCache(t, model, embed.CacheOptions{})
	for range 2 {
		if _, err := c.Embed(t.Context(), []embed.Image{{1, 2}, {1, 2}, {3}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(model.Inputs()); n != 2 {
		t.Errorf("%d pictures were embedded", n)
	}
	var p interface{ Permanent() bool }
	if _, err := newCache(t, numbers{}, embed.CacheOptions{}).Embed(t.Context(), []int{1}); !errors.As(err, &p) || !p.Permanent() {
		t.Errorf("neither text nor bytes: %v", err)
	}
}

type numbers struct{}

func (numbers) Model() embed.Model { return embed.Model{Dimensions: 1} }
func (numbers) Embed(_ context.Context, n []int) ([][]float32, error) {
	return make([][]float32, len(n)), nil
}

func TestCacheKeepsNothingBad(t *testing.T) {
	t.Parallel()
	kinds := []embedtest.Kind{embedtest.NaN, embedtest.Inf, embedtest.Zero, embedtest.WrongDimension, embedtest.Missing}
	for _, kind := range kinds {
		model := embedtest.New(8)
		model.Inject(embedtest.Fault{Match: "bad", Kind: kind})
		c := newCache(t, model, embed.CacheOptions{})
		vectors, err := c.Embed(t.Context(), []string{"good", "bad"})
		var items interface{ ItemErrors() []error }
		if !errors.As(err, &items) || !errors.Is(items.ItemErrors()[1], embed.ErrVector) || items.ItemErrors()[0] != nil || vectors[0] == nil || vectors[1] != nil {
			t.Errorf("%v: %v, error %v", kind, vectors, err)
		}
		model.Heal()
		if _, err := c.Embed(t.Context(), []string{"good", "bad"}); err != nil {
			t.Errorf("%v, healed: %v", kind, err)
		}
		if in := model.Inputs(); !slices.Equal(in, []string{"good", "bad", "bad"}) {
			t.Errorf("%v: embedded %q", kind, in)
		}
	}
}

func TestCacheErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := embedtest.New(8)
		model.Inject(embedtest.Fault{Match: "wrong", Permanent: true})
		model.Inject(embedtest.Fault{Match: "down", Times: 1})
		c := newCache(t, model, embed.CacheOptions{NegativeTTL: time.Minute})
		for _, after := range []time.Duration{0, time.Second, 2 * time.Minute} {
			time.Sleep(after)
			_, _ = c.Embed(t.Context(), []string{"wrong", "down"})
		}
		if in := model.Inputs(); !slices.Equal(in, []string{"wrong", "down", "down", "wrong"}) {
			t.Errorf("embedded %q", in)
		}
	})
}

func TestCacheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := embedtest.New(8)
		c := newCache(t, model, embed.CacheOptions{TTL: time.Hour})
		_, _ = c.Embed(t.Context(), []string{"hot", "cold"})
		for range 5 {
			time.Sleep(40 * time.Minute)
			_, _ = c.Embed(t.Context(), []string{"hot"})
		}
		_, _ = c.Embed(t.Context(), []string{"cold"})
		if in := model.Inputs(); !slices.Equal(in, []string{"hot", "cold", "cold"}) {
			t.Errorf("embedded %q", in)
		}
	})
}

func TestCacheBytes(t *testing.T) {
	t.Parallel()
	model := embedtest.New(256) // 1 KiB a vector, and what an entry takes beside it
	c := newCache(t, model, embed.CacheOptions{MaxBytes: 100 << 10})
	for i := range 1000 {
		if _, err := c.Embed(t.Context(), []string{fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	model.Reset()
	// What is too much goes a moment later, in a goroutine of its own.
	for deadline := time.Now().Add(time.Minute); len(model.Inputs()) < 850; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 1000 were embedded again: it keeps more than it may", len(model.Inputs()))
		}
		model.Reset()
		for i := range 1000 {
			_, _ = c.Embed(t.Context(), []string{fmt.Sprint(i)})
		}
	}
}

// wide answers parts of one slice for all inputs, which it writes over in the next call.
type wide struct{ rows []float32 }

func (w *wide) Embed(_ context.Context, inputs []string) (vectors [][]float32, _ error) {
	clear(w.rows)
	for i := range inputs {
		w.rows[2*i] = float32(len(inputs[i]))
		vectors = append(vectors, w.rows[2*i:2*i+2])
	}
	return vectors, nil
}

func (*wide) Model() embed.Model { return embed.Model{Name: "wide", Fingerprint: "w", Dimensions: 2} }

// TestCacheKeepsCopies: what is kept is no part of the embedder's memory, which would be larger than MaxBytes counts.
func TestCacheKeepsCopies(t *testing.T) {
	t.Parallel()
	c := newCache(t, &wide{make([]float32, 1<<10)}, embed.CacheOptions{})
	for _, texts := range [][]string{{"a", "bb"}, {"ccc", "dddd"}, {"a", "bb", "ccc", "dddd"}} {
		vectors, err := c.Embed(t.Context(), texts)
		for i, text := range texts {
			if err != nil || !slices.Equal(vectors[i], []float32{float32(len(text)), 0}) {
				t.Errorf("%q: %v, error %v", text, vectors[i], err)
			}
		}
	}
}

// TestCacheBytesOfErrors: what is kept of refused inputs counts too.
func TestCacheBytesOfErrors(t *testing.T) {
	t.Parallel()
	model := embedtest.New(4)
	model.Inject(embedtest.Fault{Match: "x", Err: errors.New(strings.Repeat("words ", 2000)), Permanent: true})
	c := newCache(t, model, embed.CacheOptions{MaxBytes: 100 << 10})
	// What is too much goes a moment later, in a goroutine of its own.
	for deadline := time.Now().Add(time.Minute); len(model.Inputs()) < 80; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 100 were tried again: it keeps more than it may", len(model.Inputs()))
		}
		for i := range 200 {
			if i == 100 {
				model.Reset()
			}
			_, _ = c.Embed(t.Context(), []string{fmt.Sprint("x", i%100)})
		}
	}
}

func TestCacheSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		c := newCache(t, model, embed.CacheOptions{})
		var callers sync.WaitGroup
		for i := range 10 {
			callers.Go(func() {
				if v, err := c.Embed(t.Context(), []string{"tea", fmt.Sprint(i % 2)}); err != nil || len(v) != 2 {
					t.Errorf("%v, error %v", v, err)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		if want := [][]string{{"tea", "0"}, {"1"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

// TestCacheLive: what is live does not wait for a backfill that embeds the same.
func TestCacheLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		c := newCache(t, embed.NewBatcher(model, embed.BatcherOptions{MaxItems: 1}), embed.CacheOptions{})
		backfill := embed.WithPriority(t.Context(), embed.Backfill)
		var callers sync.WaitGroup
		for _, texts := range [][]string{{"1", "2", "3", "tea"}, {"tea", "coffee"}} { // the second waits for tea
			callers.Go(func() {
				if _, err := c.Embed(backfill, texts); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		start := time.Now()
		if _, err := c.Embed(t.Context(), []string{"tea"}); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		callers.Wait()
		if want := [][]string{{"1"}, {"tea"}, {"2"}, {"3"}, {"tea"}, {"coffee"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

// The caller who embeds leaves: those who wait for it do not fail with it.
func TestCacheFirstCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		c := newCache(t, model, embed.CacheOptions{})
		impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := c.Embed(impatient, []string{"tea"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who leaves: %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			callers.Go(func() {
				if _, err := c.Embed(t.Context(), []string{"tea"}); err != nil {
					t.Errorf("who stays: %v", err)
				}
			})
		}
		callers.Wait()
		if want := [][]string{{"tea"}, {"tea"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

func TestCachePanic(t *testing.T) {
	t.Parallel()
	model := embedtest.New(8)
	model.Inject(embedtest.Fault{Kind: embedtest.Panic, Times: 1})
	c := newCache(t, model, embed.CacheOptions{})
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Embed(t.Context(), []string{"tea"})
		t.Error("no panic")
	}()
	if _, err := c.Embed(t.Context(), []string{"tea"}); err != nil {
		t.Error(err)
	}
}

// TestCacheGoexit: of callers who want the same, one whose goroutine ends meanwhile takes none along.
func TestCacheGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := newSlow()
		model := &quitter{Embedder: slow}
		model.times.Store(1)
		c := newCache(t, laggard{model}, embed.CacheOptions{})
		var callers sync.WaitGroup
		var made atomic.Int32
		for range 5 {
			callers.Go(func() {
				if v, err := c.Embed(t.Context(), []string{"bad"}); err == nil && len(v) == 1 {
					made.Add(1)
				}
			})
		}
		callers.Wait()
		if made.Load() != 4 || len(slow.batches) != 1 {
			t.Errorf("%d of 5 callers have a vector, in %d batches", made.Load(), len(slow.batches))
		}
	})
}

// laggard waits a second before each call.
type laggard struct{ embed.Embedder[string] }

func (l laggard) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	time.Sleep(time.Second)
	return l.Embedder.Embed(ctx, texts)
}

// shared is a Remote in memory, which can be slow or wrong.
type shared struct {
	mu       sync.Mutex
	values   map[string][]byte
	requests int
	delay    time.Duration
	err      error
}

func (s *shared) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	select {
	case <-time.After(s.delay):
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shared) Get(ctx context.Context, keys []string) ([][]byte, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = s.values[key]
	}
	return values, nil
}

func (s *shared) Set(ctx context.Context, keys []string, values [][]byte, _ time.Duration) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	for i, key := range keys {
		s.values[key] = values[i]
	}
	return nil
}

func TestCacheRemote(t *testing.T) {
	t.Parallel()
	remote := &shared{values: map[string][]byte{}}
	first, second := embedtest.New(8), embedtest.New(8)
	want, err := newCache(t, first, embed.CacheOptions{Remote: remote}).Embed(t.Context(), []string{"tea", "coffee"})
	if err != nil {
		t.Fatal(err)
	}
	c := newCache(t, second, embed.CacheOptions{Remote: remote})
	got, err := c.Embed(t.Context(), []string{"coffee", "cocoa", "tea"})
	if err != nil || !slices.Equal(got[0], want[1]) || !slices.Equal(got[2], want[0]) {
		t.Errorf("%v, error %v", got, err)
	}
	if in := second.Inputs(); !slices.Equal(in, []string{"cocoa"}) {
		t.Errorf("embedded %q", in)
	}
	other := embedtest.NewNamed("other", 8)
	if _, err := newCache(t, other, embed.CacheOptions{Remote: remote}).Embed(t.Context(), []string{"tea"}); err != nil || len(other.Inputs()) != 1 {
		t.Errorf("another model's vector was taken: error %v", err)
	}
	for key := range maps.Keys(remote.values) {
		remote.values[key] = []byte("rubbish")
	}
	again := embedtest.New(8)
	if got, err := newCache(t, again, embed.CacheOptions{Remote: remote}).Embed(t.Context(), []string{"tea"}); err != nil || !slices.Equal(got[0], want[0]) {
		t.Errorf("rubbish: %v, error %v", got, err)
	}
}

func TestCacheRemoteThatIsSlowOrDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, remote := range []*shared{{delay: time.Hour}, {err: errors.New("connection refused")}} {
			model := embedtest.New(8)
			c := newCache(t, model, embed.CacheOptions{Remote: remote})
			start := time.Now()
			for i := range 20 {
				if _, err := c.Embed(t.Context(), []string{fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
			if d := time.Since(start); d > time.Second || remote.requests != 3 {
				t.Errorf("20 calls took %v, with %d requests", d, remote.requests)
			}
			time.Sleep(11 * time.Second)
			_, _ = c.Embed(t.Context(), []string{"later"})
			if remote.requests == 3 {
				t.Error("it is left alone for ever")
			}
		}
	})
}

// deaf is a Remote that heeds no context, or panics.
type deaf struct {
	wait     chan struct{}
	panics   bool
	requests atomic.Int32
}

func (d *deaf) Get(context.Context, []string) ([][]byte, error) {
	d.requests.Add(1)
	if d.panics {
		panic("no connection")
	}
	<-d.wait
	return nil, nil
}

func (d *deaf) Set(context.Context, []string, [][]byte, time.Duration) error { return nil }

func TestCacheRemoteThatIsDeaf(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			remote := &deaf{wait: make(chan struct{}), panics: panics}
			defer close(remote.wait)
			c := newCache(t, embedtest.New(8), embed.CacheOptions{Remote: remote})
			start := time.Now()
			for i := range 20 {
				if _, err := c.Embed(t.Context(), []string{fmt.Sprint(i)}); err != nil {
					t.Fatal(err)
				}
			}
			if d, n := time.Since(start), remote.requests.Load(); d > 2*time.Second || n != 3 {
				t.Errorf("20 calls took %v, with %d requests", d, n)
			}
		})
	}
}

// TestCacheRemoteThatStaysDeaf: requests that are never answered are few, however long it lasts, and one that ends has it asked again.
func TestCacheRemoteThatStaysDeaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := &deaf{wait: make(chan struct{})}
		defer close(remote.wait)
		c := newCache(t, embedtest.New(8), embed.CacheOptions{Remote: remote})
		hours := func(n int) {
			for range n {
				if _, err := c.Embed(t.Context(), []string{time.Now().String()}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
			}
		}
		if hours(100); remote.requests.Load() != 3 {
			t.Errorf("%d requests in 100 hours", remote.requests.Load())
		}
		remote.wait <- struct{}{} // one is answered
		synctest.Wait()
		if hours(100); remote.requests.Load() != 4 {
			t.Errorf("%d requests after one was answered", remote.requests.Load())
		}
	})
}

func TestCacheRandom(t *testing.T) {
	t.Parallel()
	c := newCache(t, embedtest.New(16), embed.CacheOptions{MaxBytes: 10 << 10})
	b := embed.NewBatcher[string](c, embed.BatcherOptions{Concurrency: 3})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 200 {
				texts := []string{fmt.Sprint(i * j % 17), fmt.Sprint(j % 13), fmt.Sprint(i)}
				got, err := b.Embed(t.Context(), texts)
				want, _ := embedtest.New(16).Embed(t.Context(), texts)
				if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("%q: error %v", texts, err)
				}
			}
		})
	}
	callers.Wait()
}
