package window

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// place is a window of a key.
type place struct {
	window Window
	key    string
}

// TestAccumulationLaws gives the same events to every trigger and accumulation. Whatever comes early or late, in the end each window has said the
// same: accumulating results by their last, discarding ones by their sum, retracting ones by what is not taken back.
func TestAccumulationLaws(t *testing.T) {
	assigners := map[string]Assigner{
		"tumbling": Tumbling(20), "sliding": Sliding(21, 5), "session": Session(6), "dynamic": dynamic, "calendar": Calendar(Day, nil), "global": Global(),
	}
	triggers := []Trigger{{}, {EarlyCount: 1}, {EarlyCount: 3}, {EarlyInterval: 4}, {EarlyCount: 2, EarlyInterval: 7}}
	for name, a := range assigners {
		for seed := range uint64(12) {
			records := stream(rand.New(rand.NewPCG(seed, 17)), 120)
			o := Options{Watermark: BoundedOutOfOrderness(8), AllowedLateness: time.Duration(seed%3) * 15}
			o.Accumulation = Retracting
			_, want := last(t, a, o, records)
			for _, o.Trigger = range triggers {
				t.Run(fmt.Sprint(name, seed, o.Trigger), func(t *testing.T) {
					o.Accumulation = Retracting
					_, live := last(t, a, o, records)
					same(t, "retracting", live, want)
					o.Accumulation = Discarding
					sums := summed(t, a, o, records)
					if a.kind == session { // one that grows leaves results under its earlier bounds
						same(t, "discarding", total(sums), total(want))
						return
					}
					same(t, "discarding", sums, want)
					o.Accumulation = Accumulating
					latest, _ := last(t, a, o, records)
					same(t, "accumulating", latest, want)
				})
			}
		}
	}
}

func total(sums map[place]int64) map[place]int64 {
	n := int64(0)
	for _, sum := range sums {
		n += sum
	}
	return map[place]int64{{}: n}
}

func same(t *testing.T, what string, got, want map[place]int64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got\n%v\nwant\n%v", what, got, want)
	}
}

// last has the last result of each window, and of those that are not taken back the only one.
func last(t *testing.T, a Assigner, o Options, records []input) (latest, live map[place]int64) {
	t.Helper()
	latest, live = map[place]int64{}, map[place]int64{}
	results(t, a, o, records, func(p place, sum int64, k Kind) {
		if k == Retraction {
			if old, ok := live[p]; !ok || old != sum {
				t.Errorf("%v: %d is taken back, and was %d %t", p, sum, old, ok)
			}
			delete(live, p)
			return
		}
		if _, ok := live[p]; ok && o.Accumulation == Retracting {
			t.Errorf("%v: the old result is not taken back", p)
		}
		latest[p], live[p] = sum, sum
	})
	return latest, live
}

func summed(t *testing.T, a Assigner, o Options, records []input) map[place]int64 {
	t.Helper()
	sums := map[place]int64{}
	results(t, a, o, records, func(p place, sum int64, _ Kind) { sums[p] += sum })
	return sums
}

func results(t *testing.T, a Assigner, o Options, records []input, yield func(place, int64, Kind)) {
	t.Helper()
	op := newOperator(t, a, o)
	emit := func(r Result[string, tally]) { yield(place{r.Window, r.Key}, r.Value.Sum, r.Kind) }
	for _, e := range records {
		if _, err := op.Process(0, Timestamp(e.TS), e, emit); err != nil {
			t.Fatal(err)
		}
	}
	op.Finish(emit)
}

// TestEarlyIntervalOfAllTime ends a window without an end that fires every nanosecond: a watermark that passes many multiples fires early once.
func TestEarlyIntervalOfAllTime(t *testing.T) {
	o := Options{Watermark: Punctuated(), Trigger: Trigger{EarlyInterval: 1}}
	got := runLines(t, Global(), o, "k 5", "watermark 7", "watermark 1000000000000000000", "watermark 9223372036854775807")
	if len(got) != 4 {
		t.Errorf("%q", got)
	}
}
