package embed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// slow is a model that takes a second a call, and keeps what each call had.
type slow struct {
	embed.Embedder[string]
	mu      sync.Mutex
	batches [][]string
	ended   []error // by their context
}

func newSlow() *slow { return &slow{Embedder: embedtest.New(8)} }

func (s *slow) Tokens(text string) int { return len(strings.Fields(text)) }

func (s *slow) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	s.mu.Lock()
	s.batches = append(s.batches, slices.Clone(texts))
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		s.mu.Lock()
		s.ended = append(s.ended, ctx.Err())
		s.mu.Unlock()
		return nil, ctx.Err()
	}
	return s.Embedder.Embed(ctx, texts)
}

// embedAll calls Embed at the same time for each text, in their order.
func embedAll(ctx context.Context, t *testing.T, b *embed.Batcher[string], texts ...string) *sync.WaitGroup {
	t.Helper()
	var callers sync.WaitGroup
	for _, text := range texts {
		callers.Go(func() {
			if _, err := b.Embed(ctx, []string{text}); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		})
		synctest.Wait()
	}
	return &callers
}

func TestBatcherFormsTheNextBatchMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxItems: 3})
		start := time.Now()
		embedAll(t.Context(), t, b, "a", "b", "c", "d", "e").Wait()
		if want := [][]string{{"a"}, {"b", "c", "d"}, {"e"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v: an idle model does not wait", d)
		}
	})
}

func equal(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal) }

func TestBatcherTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxTokens: 4})
		embedAll(t.Context(), t, b, "first", "a b", "c d", "e", "much more than four tokens", "f", "g").Wait()
		want := [][]string{{"first"}, {"a b", "c d"}, {"e"}, {"much more than four tokens"}, {"f", "g"}}
		if !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

func TestBatcherPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{})
		backfill := embed.WithPriority(t.Context(), embed.Backfill)
		first := embedAll(backfill, t, b, "old 1", "old 2", "old 3")
		live := embedAll(t.Context(), t, b, "new 1", "new 2")
		first.Wait()
		live.Wait()
		if want := [][]string{{"old 1"}, {"new 1", "new 2"}, {"old 2", "old 3"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

// TestBatcherLiveFindsRoom: a backfill that fills the queue, and waits for more room, holds up nothing that is live.
func TestBatcherLiveFindsRoom(t *testing.T) {
	t.Parallel()
	for _, reject := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			model := newSlow()
			b := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: 2, MaxItems: 1, Reject: reject})
			backfill := embed.WithPriority(t.Context(), embed.Backfill)
			var callers sync.WaitGroup
			callers.Go(func() { _, _ = b.Embed(backfill, strings.Fields("1 2 3 4 5 6 7 8")) })
			synctest.Wait()
			start := time.Now()
			if _, err := b.Embed(t.Context(), []string{"live"}); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("after %v, error %v; batches %v", time.Since(start), err, model.batches)
			}
			callers.Wait()
		})
	}
}

// TestBatcherManyWaitForRoom: callers that wait for room sleep; where they woke each other, the time of the bubble would stand still.
func TestBatcherManyWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: 2, MaxItems: 2})
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				if _, err := b.Embed(t.Context(), strings.Fields("1 2 3 4 5 6 7")); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if n := len(slices.Concat(model.batches...)); n != 21 {
			t.Errorf("%d inputs in %d batches", n, len(model.batches))
		}
	})
}

// TestBatcherLine: of callers who wait for room, each in turn queues what fits.
func TestBatcherLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: 2, MaxItems: 2})
		var callers sync.WaitGroup
		leaving, leave := context.WithCancel(t.Context())
		for _, texts := range []string{"first", "a1 a2 a3 a4 a5 a6", "left", "b1 b2 b3"} {
			ctx := t.Context()
			if texts == "left" {
				ctx = leaving
			}
			callers.Go(func() { _, _ = b.Embed(ctx, strings.Fields(texts)) })
			synctest.Wait()
		}
		leave()
		callers.Wait()
		if want := [][]string{{"first"}, {"a1", "a2"}, {"a3", "a4"}, {"b1", "b2"}, {"a5", "a6"}, {"b3"}}; !equal(model.batches, want) {
			t.Errorf("batches %v, want %v", model.batches, want)
		}
	})
}

// TestBatcherStorm: of thousands who wait and leave at once nothing stays, and who comes then is next.
func TestBatcherStorm(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, -1, 10} {
		synctest.Test(t, func(t *testing.T) {
			model := newSlow()
			b := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: most})
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for range 5000 {
				callers.Go(func() {
					if _, err := b.Embed(ctx, []string{"a", "b"}); !errors.Is(err, context.Canceled) {
						t.Errorf("error %v", err)
					}
				})
			}
			synctest.Wait()
			cancel()
			callers.Wait()
			start := time.Now()
			if _, err := b.Embed(t.Context(), []string{"next"}); err != nil || time.Since(start) != time.Second {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
			if last := model.batches[len(model.batches)-1]; !slices.Equal(last, []string{"next"}) {
				t.Errorf("the last batch has %d inputs", len(last))
			}
		})
	}
}

// BenchmarkBatcherCallers: with 20000 callers most wait for room. What an input takes should hardly grow with them: with five inputs each
// they took 1.2 s, and 34 s where each place that became free woke all who waited.
func BenchmarkBatcherCallers(b *testing.B) {
	for _, callers := range []int{100, 20000} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			const inputs = 40000
			texts := embed.NewBatcher(embedtest.New(8), embed.BatcherOptions{})
			for b.Loop() {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range inputs / callers {
							if _, err := texts.Embed(b.Context(), []string{"tea"}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/inputs, "ns/input")
		})
	}
}

func TestBatcherMaxDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxDelay: 10 * time.Millisecond, MaxItems: 3})
		start := time.Now()
		var callers sync.WaitGroup
		for i, text := range []string{"a", "b"} {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 4 * time.Millisecond)
				_, _ = b.Embed(t.Context(), []string{text})
			})
		}
		callers.Wait()
		if d := time.Since(start); d != 1010*time.Millisecond || !equal(model.batches, [][]string{{"a", "b"}}) {
			t.Errorf("took %v for %v", d, model.batches)
		}
		start = time.Now()
		if _, err := b.Embed(t.Context(), []string{"c", "d", "e"}); err != nil || time.Since(start) != time.Second {
			t.Errorf("a full batch waited: %v, error %v", time.Since(start), err)
		}
	})
}

// TestBatcherMaxDelayOfOthers: when who leaves lets others in, the next batch may be full, and waits no longer.
func TestBatcherMaxDelayOfOthers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stays, leaves, comes string
		stay                       embed.Priority
		want                       []string // the first batch
	}{
		{"a place is taken by a larger input", "a", "b", "c c c c", embed.Live, []string{"a"}},
		{"nothing live is left", "old,older", "new", "", embed.Backfill, []string{"old", "older"}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			model := newSlow()
			b := embed.NewBatcher(model, embed.BatcherOptions{MaxDelay: time.Hour, MaxQueue: 2, MaxTokens: 4, MaxItems: 2 + len(tt.comes)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leaving, leave := context.WithCancel(ctx)
			defer leave()
			var callers sync.WaitGroup
			call := func(ctx context.Context, texts string) {
				callers.Go(func() { _, _ = b.Embed(ctx, strings.FieldsFunc(texts, func(r rune) bool { return r == ',' })) })
				synctest.Wait()
			}
			if tt.stay == embed.Backfill {
				call(leaving, tt.leaves) // first, so that the batch waits for its like
				call(embed.WithPriority(ctx, tt.stay), tt.stays)
			} else {
				call(ctx, tt.stays)
				call(leaving, tt.leaves)
			}
			call(ctx, tt.comes)
			leave()
			synctest.Wait()
			model.mu.Lock()
			if len(model.batches) == 0 || !slices.Equal(model.batches[0], tt.want) {
				t.Errorf("%s: batches %q, want %q at once", tt.name, model.batches, tt.want)
			}
			model.mu.Unlock()
			cancel()
			callers.Wait()
		})
	}
}

// TestBatcherShares: what waits is shared among as many batches as may run, so that neither one has all nor small ones stay small.
func TestBatcherShares(t *testing.T) {
	t.Parallel()
	tests := []struct {
		calls, want string // with commas between inputs
		options     embed.BatcherOptions
	}{
		{"1,2,3,4,5,6,7", "1,2,3,4 5,6,7", embed.BatcherOptions{Concurrency: 2}},
		{"1,2,3,4,5,6,7", "1,2,3 4,5,6 7", embed.BatcherOptions{Concurrency: 3}},
		{"1,2", "1 2", embed.BatcherOptions{Concurrency: 5}},
		{"1,2,3,4,5,6,7", "1,2,3,4,5,6,7", embed.BatcherOptions{Concurrency: 2, MaxDelay: time.Millisecond}},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			model := newSlow()
			b := embed.NewBatcher(model, tt.options)
			var callers sync.WaitGroup
			for _, call := range strings.Fields(tt.calls) {
				callers.Go(func() {
					if _, err := b.Embed(t.Context(), strings.Split(call, ",")); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			callers.Wait()
			var got []string
			for _, batch := range model.batches {
				got = append(got, strings.Join(batch, ","))
			}
			if slices.Sort(got); strings.Join(got, " ") != tt.want { // those that begin at the same time do so in any order
				t.Errorf("%s: batches %q, want %q", tt.calls, got, tt.want)
			}
		})
	}
}

func TestBatcherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: 2, MaxItems: 2, Reject: true})
		running := embedAll(t.Context(), t, b, "running", "a", "b")
		if _, err := b.Embed(t.Context(), []string{"c"}); !errors.Is(err, embed.ErrQueueFull) {
			t.Errorf("error %v", err)
		}
		running.Wait()

		waits := embed.NewBatcher(model, embed.BatcherOptions{MaxQueue: 2, MaxItems: 2})
		texts := strings.Fields("1 2 3 4 5 6 7 8 9")
		vectors, err := waits.Embed(t.Context(), texts)
		want, _ := model.Embedder.Embed(t.Context(), texts)
		if err != nil || !slices.EqualFunc(vectors, want, slices.Equal) {
			t.Errorf("a call longer than the queue: %v, error %v", vectors, err)
		}
	})
}

func TestBatcherCallersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{})
		var callers sync.WaitGroup
		for i, text := range []string{"running", "waits 1", "waits 2"} {
			callers.Go(func() {
				impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond-time.Duration(i)*time.Millisecond)
				defer cancel()
				if _, err := b.Embed(impatient, []string{text}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: error %v", text, err)
				}
			})
			synctest.Wait()
		}
		patient := embedAll(t.Context(), t, b, "stays")
		callers.Wait()
		patient.Wait()
		if want := [][]string{{"running"}, {"stays"}}; !equal(model.batches, want) || len(model.ended) != 1 {
			t.Errorf("batches %v, want %v; %d were ended", model.batches, want, len(model.ended))
		}
	})
}

// A batch goes on while anybody waits for it.
func TestBatcherOneOfTwoLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := newSlow()
		b := embed.NewBatcher(model, embed.BatcherOptions{})
		first := embedAll(t.Context(), t, b, "running")
		impatient, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var left sync.WaitGroup
		left.Go(func() { _, _ = b.Embed(impatient, []string{"leaves"}) })
		synctest.Wait()
		stays := embedAll(t.Context(), t, b, "stays")
		left.Wait()
		stays.Wait()
		first.Wait()
		if want := [][]string{{"running"}, {"leaves", "stays"}}; !equal(model.batches, want) || len(model.ended) != 0 {
			t.Errorf("batches %v, want %v; %d were ended", model.batches, want, len(model.ended))
		}
	})
}

func TestBatcherFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault embedtest.Fault
		fails func(text string) bool
	}{
		{"an input", embedtest.Fault{Match: "bad", Permanent: true}, bad},
		{"no vector for an input", embedtest.Fault{Match: "bad", Kind: embedtest.Missing}, bad},
		{"the batch, for good", embedtest.Fault{Match: "bad", Kind: embedtest.FailCall, Permanent: true}, bad},
		{"a panic", embedtest.Fault{Match: "bad", Kind: embedtest.Panic}, bad},
		{"too few vectors", embedtest.Fault{Match: "bad", Kind: embedtest.OneTooFew}, bad},
		{"the batch, for now", embedtest.Fault{Match: "bad", Kind: embedtest.FailCall}, func(string) bool { return true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model := embedtest.New(4)
			model.Inject(tt.fault)
			b := embed.NewBatcher(model, embed.BatcherOptions{})
			texts := []string{"good", "bad", "better"}
			vectors, err := b.Embed(t.Context(), texts)
			var items interface{ ItemErrors() []error }
			if !errors.As(err, &items) || len(vectors) != len(texts) {
				t.Fatalf("vectors %v, error %v", vectors, err)
			}
			for i, text := range texts {
				if failed := items.ItemErrors()[i] != nil; failed != tt.fails(text) || failed == (vectors[i] != nil) {
					t.Errorf("%s: vector %v, error %v", text, vectors[i], items.ItemErrors()[i])
				}
			}
		})
	}
}

// quitter ends the goroutine that it is called in at a bad text, as t.FailNow does.
type quitter struct {
	embed.Embedder[string]
	times atomic.Int32 // how often it does, at most
}

func (q *quitter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if slices.ContainsFunc(texts, bad) && q.times.Add(-1) >= 0 {
		runtime.Goexit()
	}
	return q.Embedder.Embed(ctx, texts)
}

// TestBatcherGoexit: an embedder that ends its goroutine leaves nobody waiting.
func TestBatcherGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := &quitter{Embedder: embedtest.New(4)}
		model.times.Store(1000)
		b := embed.NewBatcher(model, embed.BatcherOptions{})
		for range 3 {
			vectors, err := b.Embed(t.Context(), []string{"good", "bad", "better"})
			var items interface{ ItemErrors() []error }
			if !errors.As(err, &items) || items.ItemErrors()[1] == nil || len(embedFailed(items.ItemErrors())) != 1 || vectors[0] == nil || vectors[2] == nil {
				t.Errorf("vectors %v, error %v", vectors, err)
			}
		}
	})
}

func bad(text string) bool { return strings.Contains(text, "bad") }

// TestBatcherRandom: whatever callers do at the same time, each gets what is its own (ollama#6187).
func TestBatcherRandom(t *testing.T) {
	t.Parallel()
	model := embedtest.New(16)
	model.Inject(embedtest.Fault{Match: "bad", Permanent: true})
	b := embed.NewBatcher(model, embed.BatcherOptions{MaxItems: 7, MaxTokens: 30, MaxQueue: 20, Concurrency: 2})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 100 {
				testRandomCall(t, b)
			}
		})
	}
	callers.Wait()
}

func testRandomCall(t *testing.T, b *embed.Batcher[string]) {
	t.Helper()
	ctx, cancel := context.WithCancel(embed.WithPriority(t.Context(), embed.Priority(rand.IntN(2))))
	defer cancel()
	if rand.IntN(4) == 0 {
		cancel()
	}
	texts := make([]string, rand.IntN(30))
	for i := range texts {
		texts[i] = fmt.Sprint(rand.IntN(1000))
		if rand.IntN(10) == 0 {
			texts[i] += " bad"
		}
	}
	vectors, err := b.Embed(ctx, texts)
	if errors.Is(err, context.Canceled) {
		return
	}
	reference := embedtest.New(16)
	reference.Inject(embedtest.Fault{Match: "bad", Permanent: true})
	want, wantErr := reference.Embed(t.Context(), texts)
	if (err == nil) != (wantErr == nil) || !slices.EqualFunc(vectors, want, slices.Equal) {
		t.Errorf("%q: error %v, want %v", texts, err, wantErr)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	small, large, other := embed.Share("canary", 0.05), embed.Share("canary", 0.3), embed.Share("other", 0.3)
	var n, m, both int
	for i := range 100_000 {
		key := fmt.Sprint(i)
		if small(key) {
			n++
			if !large(key) {
				t.Fatalf("%s is in the smaller share alone", key)
			}
		}
		if large(key) {
			m++
			if other(key) {
				both++
			}
		}
		if embed.Share("canary", 0)(key) || !embed.Share("canary", 1)(key) {
			t.Fatalf("%s: nothing and everything", key)
		}
	}
	near := func(got, want int) bool { return got > want-5*(1+want/100) && got < want+5*(1+want/100) }
	if !near(n, 5000) || !near(m, 30_000) || !near(both, 9000) {
		t.Errorf("%d, %d and %d of 100000", n, m, both)
	}
	// The same in every version: who changes it moves every canary.
	for key, want := range map[string]bool{"1": false, "2": false, "7": false, "42": true, "1000": false} {
		if got := embed.Share("canary", 0.3)(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}
