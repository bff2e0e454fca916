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
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// storm is a model in which everything goes wrong that texts name, and that checks the batches it gets.
type storm struct {
	embed.Embedder[string]
	t       *testing.T
	options embed.BatcherOptions
	random  *rand.Rand

	mu      sync.Mutex
	running int
	waiting map[string]stay // live texts that no batch had yet
}

// stay is how long a caller is there.
type stay struct{ from, to time.Time }

func (*storm) Tokens(text string) int { return len(text) % 7 }

func (s *storm) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	s.begin(texts)
	s.first(texts)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	if err := sleep(ctx, s.duration()); err != nil {
		return nil, err
	}
	all := strings.Join(texts, "\n")
	switch {
	case strings.Contains(all, "exit"):
		runtime.Goexit()
	case strings.Contains(all, "panic"):
		panic("as told")
	case strings.Contains(all, "bad"):
		return nil, itemerror.Permanent(errors.New("one is bad"))
	}
	return s.Embedder.Embed(ctx, texts)
}

func (s *storm) duration() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(1+s.random.IntN(30)) * time.Millisecond
}

// begin checks a batch.
func (s *storm) begin(texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens := 0
	for _, text := range texts {
		tokens += s.Tokens(text)
		delete(s.waiting, text)
		if text[0] != texts[0][0] {
			s.t.Errorf("%q: two priorities in a batch", texts)
		}
	}
	if s.running++; s.running > s.options.Concurrency || len(texts) > s.options.MaxItems || len(texts) > 1 && tokens > s.options.MaxTokens {
		s.t.Errorf("%d texts, %d tokens, %d batches at a time; the options are %+v", len(texts), tokens, s.running, s.options)
	}
}

// first checks that a backfill's batch, which began a moment ago, left nothing live waiting. (A batch that began at the same time may have
// come here later.) A text of a batch that fails is tried alone, when live ones may have come meanwhile.
func (s *storm) first(texts []string) {
	began := time.Now()
	time.Sleep(time.Nanosecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, caller := range s.waiting {
		if texts[0][0] == 'b' && caller.from.Before(began) && caller.to.After(time.Now()) && s.options.MaxQueue < 0 && len(texts) > 1 {
			s.t.Errorf("a backfill's batch began while %q waited", text)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestBatcherStorms: whatever comes at once, under whatever options, each caller gets what is its own, who leaves does so at once, no batch
// is too large, live texts go first, and nothing is left behind.
func TestBatcherStorms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			o := embed.BatcherOptions{
				MaxTokens: 1 + random.IntN(20), MaxItems: 1 + random.IntN(8), MaxQueue: []int{-1, 1 + random.IntN(8)}[random.IntN(2)],
				MaxDelay: time.Duration(random.IntN(2)*random.IntN(20)) * time.Millisecond, Reject: random.IntN(3) == 0, Concurrency: 1 + random.IntN(3),
			}
			model := &storm{Embedder: embedtest.New(4), t: t, options: o, random: rand.New(rand.NewPCG(seed, 1)), waiting: map[string]stay{}}
			b := embed.NewBatcher(model, o)
			var callers sync.WaitGroup
			for i := range 40 {
				c := stormCaller{at: time.Duration(random.IntN(100)) * time.Millisecond, patience: time.Duration(1+random.IntN(300)) * time.Millisecond}
				c.live = random.IntN(2) == 0
				for j := range 1 + random.IntN(6) {
					kind := []string{"", "", "", "", "", "", "bad", "exit", "panic"}[random.IntN(9)]
					c.texts = append(c.texts, fmt.Sprintf("%s %d-%d %s", map[bool]string{true: "live", false: "back"}[c.live], i, j, kind))
				}
				callers.Go(func() { c.call(t, model, b) })
			}
			callers.Wait()
			start := time.Now()
			if _, err := b.Embed(t.Context(), []string{"live at last"}); err != nil || time.Since(start) > 31*time.Millisecond+o.MaxDelay {
				t.Errorf("error %v after %v", err, time.Since(start))
			}
			if t.Failed() {
				t.Fatalf("seed %d, options %+v", seed, o)
			}
		})
	}
}

type stormCaller struct {
	at, patience time.Duration
	live         bool
	texts        []string
}

func (c stormCaller) call(t *testing.T, model *storm, b *embed.Batcher[string]) {
	t.Helper()
	time.Sleep(c.at)
	ctx, cancel := context.WithTimeout(t.Context(), c.patience)
	defer cancel()
	if c.live {
		model.mu.Lock()
		for _, text := range c.texts {
			model.waiting[text] = stay{time.Now(), time.Now().Add(c.patience)}
		}
		model.mu.Unlock()
	} else {
		ctx = embed.WithPriority(ctx, embed.Backfill)
	}
	start := time.Now()
	vectors, err := b.Embed(ctx, c.texts)
	model.mu.Lock()
	for _, text := range c.texts {
		delete(model.waiting, text)
	}
	model.mu.Unlock()
	switch {
	case errors.Is(err, embed.ErrQueueFull):
		if !model.options.Reject || vectors != nil || time.Since(start) > 0 {
			t.Errorf("%v, error %v after %v", vectors, err, time.Since(start))
		}
		return
	case errors.Is(err, context.DeadlineExceeded):
		if vectors != nil || time.Since(start) != c.patience {
			t.Errorf("%v, error %v after %v of %v", vectors, err, time.Since(start), c.patience)
		}
		return
	}
	want, _ := embedtest.New(4).Embed(t.Context(), c.texts)
	errs, named := itemerror.Align(err, len(c.texts))
	if !named || len(vectors) != len(c.texts) {
		t.Fatalf("%d vectors for %q, error %v", len(vectors), c.texts, err)
	}
	for i, text := range c.texts {
		good := strings.HasSuffix(text, " ")
		if good && !slices.Equal(vectors[i], want[i]) || good != (vectors[i] != nil) || good != (errs == nil || errs[i] == nil) {
			t.Errorf("%q: vector %v, errors %v", text, vectors[i], errs)
		}
	}
}
