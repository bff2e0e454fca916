package weaviate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-go/tidemark/embed"
)

func TestPaceLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(3, 100)
		var mu sync.Mutex
		running, most := 0, 0
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := p.begin(t.Context()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				p.end(t.Context(), 1, time.Second, false)
			})
		}
		all.Wait()
		if most != 3 || p.running != 0 || len(p.live) != 0 {
			t.Errorf("%d at once; %d are running, %d wait", most, p.running, len(p.live))
		}
	})
}

func TestPaceYields(t *testing.T) {
	p := newPace(8, 100)
	begin := func() {
		if err := p.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{4, 2, 1, 1} {
		begin()
		if p.end(t.Context(), 1, 0, true); int(p.limit) != want {
			t.Errorf("after a refusal %v at once, want %d", p.limit, want)
		}
	}
	for range 100 {
		begin()
		p.end(t.Context(), 1, 0, false)
	}
	if p.limit != 8 {
		t.Errorf("after successes, %v at once", p.limit)
	}
}

func TestPaceSizes(t *testing.T) {
	p := newPace(1, 200)
	if got := p.batch(t.Context()); got != firstBatch {
		t.Errorf("at first: batches of %d, want %d", got, firstBatch)
	}
	backfill := embed.WithPriority(t.Context(), embed.Backfill)
	for _, tt := range []struct {
		object          time.Duration
		want, backfills int
	}{
		{time.Millisecond, 200, 40},
		{20 * time.Millisecond, 50, leastBatch},
		{time.Second, leastBatch, leastBatch},
		{100 * time.Microsecond, 200, 200},
	} {
		for range 60 {
			if err := p.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.end(t.Context(), 100, 100*tt.object, false)
			p.running++
			p.end(t.Context(), 1, time.Hour, false) // says nothing
		}
		if got := p.batch(t.Context()); got != tt.want && got != tt.want+1 {
			t.Errorf("%v an object: batches of %d, want %d", tt.object, got, tt.want)
		}
		p.lastLive = time.Time{} // a backfill does not yield
		if got := p.batch(backfill); got != tt.backfills && got != tt.backfills-1 {
			t.Errorf("%v an object: batches of %d of a backfill, want %d", tt.object, got, tt.backfills)
		}
	}
}

// TestPaceSizesAfterTimeouts: a request that ran out of time says how slow the server is at least; one that was refused at once, nothing.
func TestPaceSizesAfterTimeouts(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration
		want int
	}{{10 * time.Second, leastBatch}, {time.Millisecond, firstBatch}} {
		p := newPace(1, 200)
		if err := p.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.end(t.Context(), firstBatch, tt.took, true)
		if got := p.batch(t.Context()); got != tt.want {
			t.Errorf("after %v: batches of %d, want %d", tt.took, got, tt.want)
		}
	}
}

func TestPaceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1, 1)
		if err := p.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		p.end(t.Context(), 1, 0, false)
		if err := p.begin(t.Context()); err != nil || p.running != 1 || len(p.live) != 0 {
			t.Errorf("error %v; %d are running, %d wait", err, p.running, len(p.live))
		}
	})
}

// TestPaceBackfill: a backfill has all places but one, goes after what is live, and as long as live writes come sends little at a time
// and rests.
func TestPaceBackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(4, firstBatch)
		backfill := embed.WithPriority(t.Context(), embed.Backfill)
		begin := func(ctx context.Context) {
			t.Helper()
			if err := p.begin(ctx); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * liveFor)
		for range 3 {
			begin(backfill)
		}
		if n := p.batch(backfill); n != leastBatch {
			t.Errorf("alone, a backfill begins with %d", n)
		}
		ctx, cancel := context.WithTimeout(backfill, time.Second)
		if err := p.begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a backfill takes the last place: %v", err)
		}
		cancel()
		begin(t.Context()) // at once
		began := make(chan string, 3)
		var waiting sync.WaitGroup
		for _, name := range []string{"backfill", "live"} {
			waiting.Go(func() {
				ctx := t.Context()
				if name == "backfill" {
					ctx = backfill
				}
				begin(ctx)
				began <- name
			})
			synctest.Wait()
		}
		if n := p.batch(backfill); n != amongLive {
			t.Errorf("among live writes, a backfill sends %d", n)
		}
		for range 3 {
			p.end(backfill, 200, 100*time.Millisecond, false)
		}
		if name := <-began; name != "live" {
			t.Errorf("%s was first", name)
		}
		p.end(t.Context(), 1, 0, false)
		start := time.Now()
		p.end(t.Context(), 1, 0, false)
		waiting.Wait()
		if rested := time.Since(start); rested != restFactor*100*time.Millisecond {
			t.Errorf("a backfill rested for %v", rested)
		}
		p.end(backfill, 10, 2*time.Second, false)
		begin(backfill) // it rests, but no longer than live writes are expected
		if rested := time.Since(start); rested != liveFor {
			t.Errorf("a backfill rested until %v", rested)
		}
		p.end(backfill, 10, time.Second, false)
		if p.running != 0 || p.backfills != 0 {
			t.Errorf("%d are running, %d of them backfills", p.running, p.backfills)
		}
	})
}
