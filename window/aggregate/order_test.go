package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// reading is a value with its time.
type reading struct {
	x  float64
	at int64
}

func value(e reading) float64 { return e.x }
func when(e reading) int64    { return e.at }

// odd are values at which floating point is not what one thinks of first.
var odd = []float64{
	0, math.Copysign(0, -1), 5e-324, -5e-324, 1e-310, 1, -1, 0.1, 3.3, 1e16, 1e308, -1e308, 1.7e308, math.MaxFloat64, -math.MaxFloat64,
	math.NaN(), math.Float64frombits(0x7ff8000000000123), math.Inf(1), math.Inf(-1),
}

// TestOrderOfOddValues folds the same events in other orders, into accumulators that are merged and that are written and read in between:
// zeros of both signs, NaN of all kinds, what overflows on the way, and times over all that there are give the same bits.
func TestOrderOfOddValues(t *testing.T) {
	sameBits(t, "sum", Sum(value))
	sameBits(t, "mean", Mean(value))
	sameBits(t, "variance", SampleVariance(value))
	sameBits(t, "std", PopulationStd(value))
	sameBits(t, "min", Min(value))
	sameBits(t, "max", Max(value))
	sameBits(t, "quantiles", Quantiles(value, 0.001, 0, 0.25, 0.5, 1))
	sameBits(t, "histogram", Histogram(value, -1, 0, 1))
	sameBits(t, "ratio", Ratio(value, func(e reading) float64 { return e.x / 2 }))
	sameBits(t, "top", TopK(value, 3, 50))
	sameBits(t, "distinct", Distinct(func(e reading) string { return fmt.Sprint(e.x) }))
	sameBits(t, "decay by 1 ns", Decay(value, when, 1))
	sameBits(t, "decay by 100 ns", Decay(value, when, 100))
	sameBits(t, "decay by 1 h", Decay(value, when, time.Hour))
}

func sameBits[A, R any](t *testing.T, name string, g Aggregator[reading, A, R]) {
	t.Helper()
	for seed := range uint64(96) {
		r := rand.New(rand.NewPCG(seed, 3))
		events := make([]reading, 1+r.IntN(8))
		for i := range events {
			events[i] = reading{odd[r.IntN(len(odd)-int(seed%2)*4)], int64(r.Uint64())} // every second without NaN and infinities
			if seed%3 > 0 {
				events[i].at %= 3000
			}
		}
		want := folded(t, g, events, r)
		for range 3 {
			if got := folded(t, g, events, r); got != want {
				t.Errorf("%s of %v: %s, and in another order %s", name, events, want, got)
				return
			}
		}
	}
}

func folded[A, R any](t *testing.T, g Aggregator[reading, A, R], events []reading, r *rand.Rand) string {
	t.Helper()
	parts := make([]A, 1+r.IntN(4))
	for _, i := range r.Perm(len(events)) {
		acc := &parts[r.IntN(len(parts))]
		if g.Add(acc, events[i]); r.IntN(4) == 0 {
			var read A
			if err := g.Decode(g.Append(nil, acc), &read); err != nil {
				t.Fatal(err)
			}
			*acc = read
		}
	}
	var whole A
	for _, i := range r.Perm(len(parts)) {
		g.Merge(&whole, parts[i])
	}
	switch x := any(g.Result(&whole)).(type) {
	case float64:
		return fmt.Sprintf("%v %x", x, math.Float64bits(x))
	case []float64:
		return fmt.Sprint(x)
	case []Item[float64]:
		return fmt.Sprintf("%v %t", x, slices.ContainsFunc(x, func(i Item[float64]) bool { return i.Value == 0 && math.Signbit(i.Value) }))
	default:
		return fmt.Sprint(x)
	}
}

func resultOf[A, R any](g Aggregator[reading, A, R], events ...reading) R {
	var acc A
	for _, e := range events {
		g.Add(&acc, e)
	}
	return g.Result(&acc)
}

// TestZeros: as math.Min and math.Max say.
func TestZeros(t *testing.T) {
	minus := math.Copysign(0, -1)
	for _, events := range [][]reading{{{x: 0}, {x: minus}}, {{x: minus}, {x: 0}}} {
		if least := resultOf(Min(value), events...); !math.Signbit(least) {
			t.Errorf("the least is %v", least)
		}
		if most := resultOf(Max(value), events...); math.Signbit(most) {
			t.Errorf("the greatest is %v", most)
		}
	}
}

// TestTopNaN: all NaN are one value, whose count is bounded as those of others and comes back from a snapshot.
func TestTopNaN(t *testing.T) {
	g := TopK(value, 2, 2)
	var acc, read Tops[float64]
	for range 100 {
		g.Add(&acc, reading{x: math.NaN()})
	}
	g.Add(&acc, reading{x: 1})
	if err := g.Decode(g.Append(nil, &acc), &read); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Tops[float64]{&acc, &read} {
		if got := g.Result(a); len(got) != 2 || got[0].Value == got[0].Value || got[0].Count != 100 || got[1] != (Item[float64]{1, 1, 0}) {
			t.Errorf("%v", got)
		}
	}
}

// TestOutOfRangeOnTheWay: a result that is a float64 is one, whatever it is made of.
func TestOutOfRangeOnTheWay(t *testing.T) {
	for _, at := range []int64{0, 50, 99, 6350, 6399, -1, -6400, math.MaxInt64 - 1, math.MinInt64 + 1} {
		for _, x := range []float64{1.7e308, -1.5e308, 1e300, 1e290, 1e-320, 3} {
			if got := resultOf(Decay(value, when, 100), reading{x, at}); math.Abs(got-x) > math.Abs(x)*1e-15+5e-324 {
				t.Errorf("one %v at %d has decayed to %v", x, at, got)
			}
		}
	}
	large := []reading{{x: 1.5e308}, {x: 1.5e308}, {x: 1.5e308}}
	if got := resultOf(Ratio(value, func(e reading) float64 { return e.x / 3 }), large...); got != 3 {
		t.Errorf("a ratio of large sums is %v", got)
	}
	if got := resultOf(Ratio(value, func(reading) float64 { return 1 }), large...); got != 1.5e308 {
		t.Errorf("a ratio with a large sum is %v", got)
	}
	if got := resultOf(Ratio(value, func(reading) float64 { return 0 }), large...); !math.IsInf(got, 1) {
		t.Errorf("a large sum over 0 is %v", got)
	}
	if got := resultOf(Ratio(func(reading) float64 { return 0 }, func(reading) float64 { return 0 }), large...); got == got {
		t.Errorf("0/0 is %v", got)
	}
}

// TestQuantileAccuracy: every accuracy is kept over 9 powers of ten, also at the lowest ranks.
func TestQuantileAccuracy(t *testing.T) {
	ranks := []float64{0, 0.01, 0.5, 0.9, 1}
	for _, accuracy := range []float64{0.1, 0.01, 0.001, 0.0001} {
		r := rand.New(rand.NewPCG(1, 2))
		events := make([]reading, 2000)
		values := make([]float64, len(events))
		for i := range events {
			values[i] = math.Pow(10, 9*r.Float64()-4)
			events[i].x = values[i]
		}
		slices.Sort(values)
		for i, got := range resultOf(Quantiles(value, accuracy, ranks...), events...) {
			at := ranks[i] * float64(len(values)-1)
			below, above := values[int(at)], values[int(math.Ceil(at))]
			if slack := accuracy * 1.0001; got < below*(1-slack) || got > above*(1+slack) {
				t.Errorf("accuracy %v, rank %v: %v is not near %v to %v", accuracy, ranks[i], got, below, above)
			}
		}
	}
}

// TestSkippingAsks: what is around an aggregate that is Finite lets it reject.
func TestSkippingAsks(t *testing.T) {
	g := SkipNonFinite(Finite(Sum(value), func(e reading) float64 { return 1 / float64(e.at-1) }), value)
	if !g.Rejects(reading{1, 1}) || g.Rejects(reading{math.NaN(), 1}) {
		t.Error("it rejects what is left out, or not what the other rejects")
	}
}
