package weaviate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
				p.end(1, time.Second, false)
			})
		}
		all.Wait()
		if most != 3 || p.running != 0 || len(p.waiting) != 0 {
			t.Errorf("%d at once; %d are running, %d wait", most, p.running, len(p.waiting))
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
		if p.end(1, 0, true); int(p.limit) != want {
			t.Errorf("after a refusal %v at once, want %d", p.limit, want)
		}
	}
	for range 100 {
		begin()
		p.end(1, 0, false)
	}
	if p.limit != 8 {
		t.Errorf("after successes, %v at once", p.limit)
	}
}

func TestPaceSizes(t *testing.T) {
	p := newPace(1, 200)
	for _, tt := range []struct {
		object time.Duration
		want   int
	}{{time.Millisecond, 200}, {20 * time.Millisecond, 50}, {time.Second, leastBatch}, {time.Millisecond, 200}} {
		for range 60 {
			if err := p.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.end(100, 100*tt.object, false)
			p.running++
			p.end(1, time.Hour, false) // says nothing
		}
		if got := p.batch(); got != tt.want && got != tt.want+1 {
			t.Errorf("%v an object: batches of %d, want %d", tt.object, got, tt.want)
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
		p.end(1, 0, false)
		if err := p.begin(t.Context()); err != nil || p.running != 1 || len(p.waiting) != 0 {
			t.Errorf("error %v; %d are running, %d wait", err, p.running, len(p.waiting))
		}
	})
}
