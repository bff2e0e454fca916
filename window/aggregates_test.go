package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// sample is an event with values of very different sizes, whose plain sums depend on the order.
type sample struct {
	key    string
	at     Timestamp
	x, y   float64
	name   string
	number int64 // another for each event
}

// samples are the records of some partitions, out of order by more than the bound.
func samples(r *rand.Rand, sizes ...int) [][]sample {
	parts := make([][]sample, len(sizes))
	number := int64(0)
	for p, n := range sizes {
		for _, e := range stream(r, n) {
			number++
			s := sample{key: e.Key, at: Timestamp(e.TS), name: fmt.Sprint(r.IntN(9)), number: number}
			s.x, s.y = r.NormFloat64()*math.Pow(10, float64(r.IntN(30)-15)), 1+r.Float64()
			if r.IntN(40) == 0 {
				s.x = math.Inf(1 - 2*r.IntN(2))
			}
			parts[p] = append(parts[p], s)
		}
	}
	return parts
}

// TestEveryAggregateDeterministic runs every aggregate in every kind of window over random interleavings: equal to the bit.
func TestEveryAggregateDeterministic(t *testing.T) {
	x := func(s sample) float64 { return s.x }
	y := func(s sample) float64 { return s.y }
	name := func(s sample) string { return s.name }
	at := func(s sample) int64 { return int64(s.at) }
	number := func(s sample) int64 { return s.number }
	bitEqual(t, "sum", aggregate.Sum(x))
	bitEqual(t, "count", aggregate.Count[sample]())
	bitEqual(t, "mean", aggregate.Mean(x))
	bitEqual(t, "sample variance", aggregate.SampleVariance(y))
	bitEqual(t, "population std", aggregate.PopulationStd(x))
	bitEqual(t, "min", aggregate.Min(x))
	bitEqual(t, "max", aggregate.Max(name))
	bitEqual(t, "first", aggregate.First(x, number, aggregate.Scalar[float64]()))
	bitEqual(t, "last", aggregate.Last(name, number, aggregate.Scalar[string]()))
	bitEqual(t, "distinct", aggregate.Distinct(name))
	bitEqual(t, "quantiles", aggregate.Quantiles(x, 0.01, 0, 0.5, 0.9, 1))
	bitEqual(t, "top", aggregate.TopK(name, 3, 50))
	bitEqual(t, "histogram", aggregate.Histogram(x, -1, 0, 1))
	bitEqual(t, "collect", aggregate.Collect(name, number, 5, aggregate.Scalar[string]()))
	bitEqual(t, "ratio", aggregate.Ratio(x, y))
	bitEqual(t, "decay", aggregate.Decay(y, at, 20))
	bitEqual(t, "finite", aggregate.Finite(aggregate.Sum(x), x))
	bitEqual(t, "skip", aggregate.SkipNonFinite(aggregate.Sum(x), x))
	bitEqual(t, "pair", aggregate.Pair(aggregate.Sum(y), aggregate.Max(x), func(a, b float64) [2]float64 { return [2]float64{a, b} }))
}

func bitEqual[A, R any](t *testing.T, name string, g Aggregator[sample, A, R]) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		assigners := []Assigner{
			Tumbling(20), Sliding(21, 5), Sliding(20, 5), Session(6), Global(), Calendar(Day, nil), PerEvent(25),
			DynamicSession(func(s sample) time.Duration { return time.Duration(1 + s.number%9) }),
		}
		for i, a := range assigners {
			for _, lateness := range []time.Duration{0, 12} {
				r := rand.New(rand.NewPCG(uint64(i), uint64(lateness)))
				parts := samples(r, 70, 50, 30)
				o := Options{Deterministic: true, Partitions: len(parts), AllowedLateness: lateness, Watermark: BoundedOutOfOrderness(10)}
				want := mixed(t, a, g, o, parts, r)
				for range fewer(4) {
					if got := mixed(t, a, g, o, parts, r); !slices.Equal(got, want) {
						t.Fatalf("%s, lateness %v: results differ:\n%q\n%q", a.key(), lateness, got, want)
					}
				}
			}
		}
	})
}

// mixed gives the partitions to a new operator in a random order that keeps that of each, and tells the results and outcomes.
func mixed[A, R any](t *testing.T, a Assigner, g Aggregator[sample, A, R], o Options, parts [][]sample, r *rand.Rand) (lines []string) {
	t.Helper()
	op, err := New(func(s sample) string { return s.key }, a, g, o)
	if err != nil {
		t.Fatal(err)
	}
	emit := func(x Result[string, R]) {
		lines = append(lines, fmt.Sprintf("%v %s %x %v %v", x.Window, x.Key, rawBits(x.Value), x.Value, x.Kind))
	}
	left := slices.Clone(parts)
	outcomes := map[int64]Outcome{}
	for {
		left = slices.Clone(left)
		some := r.Perm(len(left))
		p := slices.IndexFunc(some, func(p int) bool { return len(left[p]) > 0 })
		if p < 0 {
			break
		}
		p = some[p]
		for range min(1+r.IntN(8), len(left[p])) { // partitions are read in runs
			s := left[p][0]
			left[p] = left[p][1:]
			outcome, err := op.Process(p, s.at, s, emit)
			if err != nil {
				t.Fatal(err)
			}
			outcomes[s.number] = outcome
		}
	}
	op.Finish(emit)
	return append(lines, fmt.Sprint(outcomes))
}

// rawBits has the bits of floating-point results, so that nothing is hidden by how they are printed.
func rawBits(v any) any {
	switch x := v.(type) {
	case float64:
		return math.Float64bits(x)
	case []float64:
		out := make([]uint64, len(x))
		for i := range x {
			out[i] = math.Float64bits(x[i])
		}
		return out
	}
	return ""
}

// TestAlignment reads two partitions of very different density, and pauses the one that runs ahead: what waits stays bounded.
func TestAlignment(t *testing.T) {
	const drift = 100 * time.Nanosecond
	op := newOperator(t, Tumbling(10), Options{Partitions: 2})
	emit := func(Result[string, tally]) {}
	next, step, most, paused := [2]Timestamp{}, [2]Timestamp{50, 1}, 0, 0
	for range 20_000 {
		for p := range next {
			if op.Ahead(p) > drift && op.Watermark() > MinTimestamp {
				paused++
				continue
			}
			next[p] += step[p]
			if _, err := op.Process(p, next[p], input{Key: fmt.Sprint(next[p] / 10)}, emit); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, op.Keys())
	}
	if most > 20 || paused == 0 || op.Watermark() < 19_000 {
		t.Errorf("%d windows waited, %d pauses, watermark %d", most, paused, op.Watermark())
	}
}

// TestCombinerSteps adds, removes and idles partitions, up to the final watermark.
func TestCombinerSteps(t *testing.T) {
	c := NewCombiner(0)
	for i, s := range []struct {
		do   func()
		want Timestamp
	}{
		{func() { c.Advance(0, 10) }, 10},
		{func() { c.Add(1) }, 10},
		{func() { c.Advance(0, 20) }, 10},    // the new one holds back
		{func() { c.Advance(1, 5) }, 10},     // and takes nothing back
		{func() { c.Advance(1, 15) }, 15},    //
		{func() { c.Advance(1, 12) }, 15},    // never regresses
		{func() { c.SetIdle(1, true) }, 20},  // the rest count
		{func() { c.SetIdle(1, true) }, 20},  //
		{func() { c.SetIdle(1, false) }, 20}, // behind: holds nothing back
		{func() { c.Advance(0, 25) }, 25},    //
		{func() { c.Advance(1, 30) }, 25},    // has caught up
		{func() { c.Advance(0, 40) }, 30},    // and counts
		{func() { c.Remove(1) }, 40},         //
		{func() { c.Remove(9) }, 40},         // unknown
		{func() { c.Remove(0) }, 40},         // without any, it stays
		{func() { c.Advance(2, 7) }, 40},     //
		{func() { c.Advance(2, MaxTimestamp) }, MaxTimestamp},
		{func() { c.Add(5) }, MaxTimestamp},
	} {
		if s.do(); c.Watermark() != s.want {
			t.Fatalf("step %d: %d, want %d", i, c.Watermark(), s.want)
		}
	}
}
