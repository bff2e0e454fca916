package window

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// TestRandomTriggers moves operators with triggers, accumulations and bounds of all kinds to others at random points: that changes nothing,
// and what is taken back is what was said.
func TestRandomTriggers(t *testing.T) {
	assigners := []Assigner{
		Tumbling(20), Sliding(21, 5), Sliding(20, 5), Sliding(7, 20), Session(6), Session(6).Strict(), dynamic, Global(), Calendar(Day, nil),
	}
	for seed := range uint64(fewer(400)) {
		r := rand.New(rand.NewPCG(seed, 21))
		a, records := assigners[r.IntN(len(assigners))], stream(r, 80)
		o := Options{
			Watermark: BoundedOutOfOrderness(8), AllowedLateness: time.Duration(r.IntN(3) * 15), Accumulation: Accumulation(r.IntN(3)),
			IdleAfter: time.Duration(r.IntN(2) * 30), MaxJump: time.Duration(r.IntN(2) * 50),
			Trigger: Trigger{
				EarlyCount: r.IntN(3), EarlyInterval: time.Duration(r.IntN(3) * 4), LateCount: r.IntN(4) - 1,
				NoWatermark: r.IntN(4) == 0, Once: r.IntN(5) == 0,
			},
		}
		run := func(move bool) (lines []string, counts Counts) {
			op, live := newOperator(t, a, o), map[place]int64{}
			emit := func(x Result[string, tally]) {
				p := place{x.Window, x.Key}
				old, said := live[p]
				if back := x.Kind == Retraction; back && (!said || old != x.Value.Sum) || !back && said && o.Accumulation == Retracting {
					t.Errorf("seed %d: %v, after %d %t", seed, x, old, said)
				}
				if live[p] = x.Value.Sum; x.Kind == Retraction {
					delete(live, p)
				}
				lines = append(lines, printed(x))
			}
			for i, e := range records {
				if _, err := op.Process(i*7%3, Timestamp(e.TS), e, emit); err != nil {
					t.Fatal(err)
				}
				if move && r.IntN(8) == 0 {
					op = moved(t, a, o, op)
				}
			}
			op.Finish(emit)
			return lines, op.Counts()
		}
		want, wantCounts := run(false)
		if got, counts := run(true); !slices.Equal(got, want) || counts != wantCounts {
			t.Errorf("seed %d, %s, %+v: %+v\n%q\nwant %+v\n%q", seed, a.key(), o, counts, got, wantCounts, want)
		}
	}
}
