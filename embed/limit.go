package embed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// ErrBudget says that the budget of a [Limited] embedder is spent until its period ends. A retry after that may succeed.
var ErrBudget = errors.New("embed: the budget is spent")

// LimitOptions are the options of [Limit]. The zero value bounds nothing, and tries again what may succeed.
type LimitOptions struct {
	// CallsPerMinute and TokensPerMinute bound what goes to the embedder; a call waits until it fits. Zero: no bound. After a pause, a
	// tenth of a minute's worth may go at once.
	CallsPerMinute, TokensPerMinute int
	// Price is what a million tokens cost, in any currency, and Budget what may be spent in Period: a call beyond it fails with
	// [ErrBudget]. Zero: no bound.
	Price, Budget float64
	// Period is what Budget is for, from the first call of each. Zero: 24 hours.
	Period time.Duration
	// Attempts is how often an input is tried, where its error is not permanent. Zero: 5; -1: once.
	Attempts int
	// Backoff is the wait before the second attempt; each further one is twice as long, up to a minute, and at random down to half
	// of it. An error with a method RetryAfter() time.Duration asks for a longer one. Zero: 500 ms.
	Backoff time.Duration
	// MeterProvider is where the metrics go; nil: the global one.
	MeterProvider metric.MeterProvider
}

func (o LimitOptions) withDefaults() LimitOptions {
	if o.Period <= 0 {
		o.Period = 24 * time.Hour
	}
	if o.Backoff <= 0 {
		o.Backoff = 500 * time.Millisecond
	}
	switch {
	case o.Attempts == 0:
		o.Attempts = 5
	case o.Attempts < 0:
		o.Attempts = 1
	}
	return o
}

// maxBackoff bounds the wait between two attempts that nobody asked for.
const maxBackoff = time.Minute

// Limited is an [Embedder] that spends no more on another one, in calls, tokens and money, than it is told: for those that are paid
// for. Tokens are counted before the call, as a [Batcher] counts them, so that the bill may differ a little. It is safe for
// concurrent use, and what is spent is counted in this process alone.
type Limited[In any] struct {
	embedder      Embedder[In]
	options       LimitOptions
	count         func(In) int
	calls, tokens *rate.Limiter
	turn          chan struct{} // has one place: of callers that wait for the rates, who is in it goes next, and alone spends
	spending      func(ctx context.Context, tokens int, money float64)

	mu     sync.Mutex
	spent  int       // tokens
	period time.Time // when the current one began
}

// Limit bounds what goes to e.
func Limit[In any](e Embedder[In], o LimitOptions) *Limited[In] {
	o = o.withDefaults()
	return &Limited[In]{
		embedder: e, options: o, count: counterOf(e), spending: newSpendingCounter(o.MeterProvider),
		calls: newRate(o.CallsPerMinute), tokens: newRate(o.TokensPerMinute), turn: make(chan struct{}, 1),
	}
}

// Model returns the embedder's model.
func (l *Limited[In]) Model() Model { return l.embedder.Model() }

// Spent returns what was spent in the current period, in the currency of Price.
func (l *Limited[In]) Spent() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.period) >= l.options.Period {
		return 0
	}
	return l.cost(l.spent)
}

// cost is what so many tokens cost.
func (l *Limited[In]) cost(tokens int) float64 { return float64(tokens) * l.options.Price / 1e6 }

// Embed embeds inputs when the limits allow it, and tries those again that failed and may succeed; see [Embedder]. Where the budget, or
// the caller's patience, ends before the next attempt, the inputs that have no vector yet fail with that.
func (l *Limited[In]) Embed(ctx context.Context, inputs []In) ([][]float32, error) {
	vectors, errs := make([][]float32, len(inputs)), make([]error, len(inputs))
	left := make([]int, len(inputs)) // the places of inputs that have no vector
	for i := range left {
		left[i] = i
	}
	var wait time.Duration
	for attempt := 1; len(left) > 0 && attempt <= l.options.Attempts; attempt++ {
		now := make([]In, len(left))
		for j, i := range left {
			now[j] = inputs[i]
		}
		err := pause(ctx, wait)
		if err == nil {
			err = l.admit(ctx, now)
		}
		if err != nil && attempt == 1 {
			return nil, err
		} else if err != nil {
			for _, i := range left {
				errs[i] = err
			}
			break
		}
		made, failed := Each(ctx, l.embedder, now)
		var again []int
		wait = l.backoff(attempt)
		for j, i := range left {
			vectors[i], errs[i] = made[j], failed[j]
			if failed[j] != nil && !itemerror.IsPermanent(failed[j]) {
				again, wait = append(again, i), max(wait, retryAfter(failed[j]))
			}
		}
		left = again
	}
	return vectors, NewBatchError(errs)
}

// admit waits until a call fits the rates, and takes it from the budget.
func (l *Limited[In]) admit(ctx context.Context, inputs []In) error {
	tokens := 0
	for _, in := range inputs {
		tokens += l.count(in)
	}
	if err := l.afford(tokens); err != nil { // before the turn comes
		return err
	}
	if err := l.spend(ctx, tokens); err != nil {
		return err
	}
	l.spending(ctx, tokens, l.cost(tokens))
	return nil
}

// spend waits until a call fits the rates, and takes it from the budget then. Callers do so one after the other, so that many at the same
// time do not spend the budget twice, none is refused for the sake of one who waits and may leave, and who leaves gives back all that it has
// taken of the rates: a rate takes back nothing from before what it gave later.
func (l *Limited[In]) spend(ctx context.Context, tokens int) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.afford(tokens); err != nil {
		return err
	}
	now := time.Now()
	taken := slices.Concat(reserve(l.calls, 1, now), reserve(l.tokens, tokens, now))
	var wait time.Duration
	for _, r := range taken {
		wait = max(wait, r.DelayFrom(now))
	}
	if err := pause(ctx, wait); err != nil {
		for _, r := range slices.Backward(taken) {
			r.CancelAt(now) // at a later time it gives nothing back of what was there at once
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.period) >= l.options.Period {
		l.period, l.spent = now, 0
	}
	l.spent += tokens
	return nil
}

// afford returns [ErrBudget] where the budget has no more for so many tokens.
func (l *Limited[In]) afford(tokens int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	spent, left := l.spent, time.Until(l.period.Add(l.options.Period))
	if left <= 0 {
		spent, left = 0, l.options.Period
	}
	if l.options.Budget > 0 && l.cost(spent+tokens) > l.options.Budget {
		return fmt.Errorf("%w: %.4g of %.4g, for %v more", ErrBudget, l.cost(spent), l.options.Budget, left.Round(time.Second))
	}
	return nil
}

func (l *Limited[In]) backoff(attempt int) time.Duration {
	d := min(l.options.Backoff<<min(attempt-1, 20), maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// retryAfter is how long an error asks to wait.
func retryAfter(err error) time.Duration {
	var r interface{ RetryAfter() time.Duration }
	if errors.As(err, &r) {
		return r.RetryAfter()
	}
	return 0
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newRate returns the limiter of a rate; nil: there is none.
func newRate(perMinute int) *rate.Limiter {
	if perMinute <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))
}

// reserve takes n out of a rate, more than its burst too. The last reservation is the one to wait for.
func reserve(r *rate.Limiter, n int, now time.Time) (all []*rate.Reservation) {
	if r == nil {
		return nil
	}
	for ; n > 0; n -= r.Burst() {
		all = append(all, r.ReserveN(now, min(n, r.Burst())))
	}
	return all
}
