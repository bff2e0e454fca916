package embed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

// counted counts a token for each byte of a text.
type counted struct{ *embedtest.Embedder[string] }

func (counted) Tokens(text string) int { return len(text) }

func TestLimitRates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options embed.LimitOptions
		min     time.Duration // that 100 calls of 10 tokens take
	}{
		{"none", embed.LimitOptions{}, 0},
		{"calls", embed.LimitOptions{CallsPerMinute: 60}, 94 * time.Second},
		{"tokens", embed.LimitOptions{TokensPerMinute: 300}, 194 * time.Second},
		{"both", embed.LimitOptions{CallsPerMinute: 60, TokensPerMinute: 300}, 194 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := embed.Limit(counted{embedtest.New(4)}, tt.options)
				start := time.Now()
				for range 100 {
					if _, err := l.Embed(t.Context(), []string{"0123456789"}); err != nil {
						t.Fatal(err)
					}
				}
				if d := time.Since(start); d < tt.min || d > tt.min+time.Second {
					t.Errorf("100 calls took %v, want %v", d, tt.min)
				}
			})
		})
	}
}

// A call with more tokens than may go at once waits for all of them.
func TestLimitLargeCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := embed.Limit(counted{embedtest.New(4)}, embed.LimitOptions{TokensPerMinute: 60})
		start := time.Now()
		if _, err := l.Embed(t.Context(), []string{fmt.Sprintf("%0126d", 1)}); err != nil || time.Since(start) != 2*time.Minute {
			t.Errorf("took %v, error %v", time.Since(start), err)
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Embed(hurried, []string{"0123456789"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// TestLimitStorm: of many who wait and leave, nothing of the rates is lost, in whatever order they do.
func TestLimitStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := embed.Limit(counted{embedtest.New(4)}, embed.LimitOptions{TokensPerMinute: 60, CallsPerMinute: 60}) // a call of ten tokens takes 10 s
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7+1)*time.Second)
				defer cancel()
				_, _ = l.Embed(ctx, []string{"0123456789"})
			})
			synctest.Wait()
		}
		callers.Wait()
		start := time.Now()
		if _, err := l.Embed(t.Context(), []string{"0123456789"}); err != nil || time.Since(start) > 10*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}

// TestLimitLeft: who leaves gives back the call too that did not have to wait, while its tokens had to.
func TestLimitLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A call every 10 s; of ten tokens six are there and four take 4 s.
		l := embed.Limit(counted{embedtest.New(4)}, embed.LimitOptions{TokensPerMinute: 60, CallsPerMinute: 6})
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Embed(hurried, []string{"0123456789"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		start := time.Now()
		if _, err := l.Embed(t.Context(), []string{"0123456789"}); err != nil || time.Since(start) > 4*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
		if _, err := l.Embed(hurried, []string{"0"}); err == nil || err.Error() != hurried.Err().Error() {
			t.Errorf("error %q, want the context's, once", err)
		}
	})
}

func TestLimitBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := counted{embedtest.New(4)}
		l := embed.Limit(model, embed.LimitOptions{Price: 1e6, Budget: 25, Period: time.Hour}) // a token costs 1
		call := func() error { _, err := l.Embed(t.Context(), []string{"0123456789"}); return err }
		if err := errors.Join(call(), call()); err != nil || l.Spent() != 20 {
			t.Fatalf("error %v, spent %v", err, l.Spent())
		}
		err := call()
		var p interface{ Permanent() bool }
		if !errors.Is(err, embed.ErrBudget) || errors.As(err, &p) || model.Calls() != 2 {
			t.Errorf("error %v after %d calls", err, model.Calls())
		}
		if time.Sleep(time.Hour); l.Spent() != 0 {
			t.Errorf("spent %v before the first call of a period", l.Spent())
		}
		if err := call(); err != nil || l.Spent() != 10 {
			t.Errorf("the next period: %v, spent %v", err, l.Spent())
		}
	})
}

// TestLimitBudgetIsExact: as many calls as it is for, in any order, and none that was not made costs anything.
func TestLimitBudgetIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := counted{embedtest.New(4)}
		l := embed.Limit(model, embed.LimitOptions{Price: 1e4, Budget: 0.3, CallsPerMinute: 10}) // a token costs 0.01
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var made, left, refused atomic.Int32
		call := func(ctx context.Context) {
			switch _, err := l.Embed(ctx, []string{"0123456789"}); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, context.DeadlineExceeded):
				left.Add(1)
			case errors.Is(err, embed.ErrBudget):
				refused.Add(1)
			}
		}
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { call(impatient) })
		}
		callers.Wait()
		if made.Load() != 1 || left.Load() != 2 || math.Abs(l.Spent()-0.1) > 1e-9 {
			t.Fatalf("%d calls, %d left, spent %v", made.Load(), left.Load(), l.Spent())
		}
		start := time.Now()
		for range 8 {
			callers.Go(func() { call(t.Context()) })
		}
		callers.Wait()
		if made.Load() != 3 || refused.Load() != 6 || math.Abs(l.Spent()-0.3) > 1e-9 {
			t.Errorf("%d calls, %d refused, spent %v", made.Load(), refused.Load(), l.Spent())
		}
		if d := time.Since(start); d > 20*time.Second { // 6 s a call; 23 s with the turns of both who left, the last of whom gives his back
			t.Errorf("took %v: those who left have kept their turns", d)
		}
	})
}

// TestLimitTurn: who waits for the rates has spent nothing yet, so that nobody is refused for the sake of one who leaves.
func TestLimitTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := embed.Limit(counted{embedtest.New(4)}, embed.LimitOptions{Price: 1e6, Budget: 25, CallsPerMinute: 10}) // a token costs 1
		call := func(ctx context.Context) error { _, err := l.Embed(ctx, []string{"0123456789"}); return err }
		if err := call(t.Context()); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var callers sync.WaitGroup
		callers.Go(func() {
			if err := call(leaving); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who leaves: %v", err)
			}
		})
		synctest.Wait()
		if l.Spent() != 10 {
			t.Errorf("spent %v", l.Spent())
		}
		if err := call(t.Context()); err != nil || l.Spent() != 20 {
			t.Errorf("who comes next: %v, spent %v", err, l.Spent())
		}
		callers.Wait()
		start := time.Now()
		if err := call(t.Context()); !errors.Is(err, embed.ErrBudget) || time.Since(start) > 0 {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}

// TestLimitKeepsWhatIsPaid: vectors of the first attempt are the caller's, though there is no money for the second, or no time.
func TestLimitKeepsWhatIsPaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := counted{embedtest.New(4)}
		model.Inject(embedtest.Fault{Match: "down"})
		for want, l := range map[error]*embed.Limited[string]{
			embed.ErrBudget:          embed.Limit(model, embed.LimitOptions{Price: 1e6, Budget: 9}),
			context.DeadlineExceeded: embed.Limit(model, embed.LimitOptions{Backoff: time.Hour}),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			vectors, err := l.Embed(ctx, []string{"good", "down"})
			cancel()
			var items interface{ ItemErrors() []error }
			if !errors.As(err, &items) || items.ItemErrors()[0] != nil || !errors.Is(items.ItemErrors()[1], want) || vectors[0] == nil || vectors[1] != nil {
				t.Errorf("%v, error %v; want %v", vectors, err, want)
			}
		}
	})
}

type busyError struct{}

func (busyError) Error() string             { return "429" }
func (busyError) RetryAfter() time.Duration { return 20 * time.Second }

func TestLimitRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := embedtest.New(4)
		model.Inject(embedtest.Fault{Match: "wrong", Permanent: true})
		model.Inject(embedtest.Fault{Match: "busy", Err: busyError{}, Times: 1})
		model.Inject(embedtest.Fault{Match: "down", Times: 3})
		l := embed.Limit(model, embed.LimitOptions{})
		start := time.Now()
		vectors, err := l.Embed(t.Context(), []string{"good", "wrong", "down", "busy"})
		var items interface{ ItemErrors() []error }
		if !errors.As(err, &items) || len(embedFailed(items.ItemErrors())) != 1 || vectors[1] != nil || vectors[2] == nil || vectors[3] == nil {
			t.Errorf("%v, error %v", vectors, err)
		}
		if in := model.Inputs(); slices.Contains(in[4:], "good") || slices.Contains(in[4:], "wrong") {
			t.Errorf("tried again what was done: %q", in)
		}
		if d := time.Since(start); d < 20*time.Second {
			t.Errorf("took %v, though it was told to wait 20 s", d)
		}
		model.Heal()
		model.Inject(embedtest.Fault{Kind: embedtest.FailCall})
		model.Reset()
		if _, err := l.Embed(t.Context(), []string{"never"}); !errors.Is(err, embedtest.ErrInjected) || model.Calls() != 5 {
			t.Errorf("error %v after %d calls", err, model.Calls())
		}
	})
}

func embedFailed(errs []error) (failed []error) {
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
