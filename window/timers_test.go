package window

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestTimers takes what was added in the order of the instants, all keys of one together, whatever comes in between: near and far, at the
// ends of time, and before what was taken last.
func TestTimers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	spans := []int64{3, 64, 5000, 1e9, 1 << 40, 1 << 62}
	for range fewer(300) {
		timers := newTimers()
		want := map[Timestamp][]int32{}
		last := Timestamp(r.Uint64())
		span := spans[r.IntN(len(spans))]
		for id := range int32(400) {
			if r.IntN(3) > 0 || len(want) == 0 {
				at := last.Add(time.Duration(r.Int64N(span) - span/8))
				switch r.IntN(50) {
				case 0:
					at = MaxTimestamp
				case 1:
					at = MinTimestamp
				case 2:
					at = Timestamp(r.Uint64())
				}
				if r.IntN(10) == 0 { // an instant without a key
					timers.add(at, nobody)
					want[at] = slices.Clip(want[at])
				} else {
					timers.add(at, id)
					want[at] = append(want[at], id)
				}
				continue
			}
			last = least(want)
			if at, ok := timers.next(); !ok || at != last {
				t.Fatalf("%d %v, want %d", at, ok, last)
			}
			got := slices.Sorted(slices.Values(timers.take()))
			if !slices.Equal(got, want[last]) {
				t.Fatalf("at %d: %v, want %v", last, got, want[last])
			}
			delete(want, last)
		}
		for len(want) > 0 {
			at := least(want)
			if got := slices.Sorted(slices.Values(timers.take())); !slices.Equal(got, want[at]) {
				t.Fatalf("at %d: %v, want %v", at, got, want[at])
			}
			delete(want, at)
		}
		if at, ok := timers.next(); ok || at != MaxTimestamp {
			t.Fatalf("%d is left", at)
		}
	}
}

func least(m map[Timestamp][]int32) Timestamp { return slices.Min(slices.Collect(maps.Keys(m))) }
