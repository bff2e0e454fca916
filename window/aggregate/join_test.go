package aggregate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// five are features of a window, as one would write them.
type five struct {
	N              int64
	Sum, Mean, Max float64
	Last           string
}

func joined() PairOf[event, int64, Acc4[Exact, Moments, Kept[float64], Kept[string]], int64, Acc4[float64, float64, float64, string], five] {
	return Join5(Count[event](), Sum(x), Mean(x), Max(x), Last(str, at, Scalar[string]()),
		func(n int64, sum, mean, most float64, last string) five { return five{n, sum, mean, most, last} })
}

// byHand are the same features in one aggregate that somebody has written for them.
type byHand struct{}

type byHandAcc struct {
	n         int64
	sum, mean Exact
	most      Kept[float64]
	last      Kept[string]
}

func (byHand) Add(a *byHandAcc, e event) {
	a.n++
	a.sum.Add(e.x)
	a.mean.Add(e.x)
	if !a.most.Set || e.x > a.most.Value {
		a.most = Kept[float64]{Value: e.x, Set: true}
	}
	if !a.last.Set || e.at > a.last.At {
		a.last = Kept[string]{e.s, e.at, true}
	}
}

func (byHand) Merge(into *byHandAcc, from byHandAcc) {
	into.n += from.n
	into.sum.Merge(&from.sum)
	into.mean.Merge(&from.mean)
	if from.most.Set && (!into.most.Set || from.most.Value > into.most.Value) {
		into.most = from.most
	}
	if from.last.Set && (!into.last.Set || from.last.At > into.last.At) {
		into.last = from.last
	}
}

func (byHand) Result(a *byHandAcc) five {
	return five{a.n, a.sum.Float64(), a.mean.Float64() / float64(a.n), a.most.Value, a.last.Value}
}

// TestJoin: each of several aggregates over one window has what it has alone, also from encoded and merged parts.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		es := events(r, 1+r.IntN(50))
		for i := range es {
			es[i].x = r.NormFloat64()
		}
		var hand byHandAcc
		for _, e := range es {
			byHand{}.Add(&hand, e)
		}
		got := of("", joined()).bulk(es, r)
		if want := (byHand{}).Result(&hand); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	numbers := func(f func(event) float64) SumOf[event] { return Sum(f) }
	three := Join3(numbers(x), Count[event](), numbers(x), func(a float64, b int64, c float64) string { return fmt.Sprint(a, b, c) })
	four := Join4(numbers(x), Count[event](), numbers(x), Count[event](),
		func(a float64, b int64, c float64, d int64) string { return fmt.Sprint(a, b, c, d) })
	six := Join6(numbers(x), Count[event](), numbers(x), Count[event](), Min(x), Max(str),
		func(a float64, b int64, c float64, d int64, e float64, f string) string {
			return fmt.Sprint(a, b, c, d, e, f)
		})
	es := []event{{x: 2, s: "b"}, {x: 3, s: "a"}}
	for want, s := range map[string]subject{"5 2 5": of("", three), "5 2 5 2": of("", four), "5 2 5 2 2b": of("", six)} {
		if got := s.bulk(es, r); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestJoinRemoves: events can be taken out where all members can, and otherwise not.
func TestJoinRemoves(t *testing.T) {
	g := Join3(Count[event](), Sum(x), Mean(x), func(n int64, s, m float64) [3]float64 { return [3]float64{float64(n), s, m} })
	var all, part Acc3[int64, Exact, Moments]
	for i, e := range []event{{x: 1}, {x: 1e300}, {x: 3}} {
		g.Add(&all, e)
		if i == 1 {
			g.Add(&part, e)
		}
	}
	if !g.Remove(&all, part) || g.Result(&all) != [3]float64{2, 4, 2} {
		t.Errorf("%v is left", g.Result(&all))
	}
	var none Acc5[int64, Exact, Moments, Kept[float64], Kept[string]]
	if joined().Remove(&none, none) {
		t.Error("a maximum was taken out")
	}
}

// TestJoinPolicies: a member that skips what is not finite does so for itself; one that is Finite keeps the event out of all.
func TestJoinPolicies(t *testing.T) {
	nan := event{x: math.NaN()}
	g := Join3(Count[event](), SkipNonFinite(Sum(x), x), Sum(x), func(n int64, s Skipped[float64], p float64) string { return fmt.Sprint(n, s, p) })
	var acc Acc3[int64, Acc2[Exact, int64], Exact]
	g.Add(&acc, event{x: 2})
	if g.Rejects(nan) {
		t.Error("it is rejected")
	}
	g.Add(&acc, nan)
	if got := g.Result(&acc); got != "2 {2 1} NaN" {
		t.Error(got)
	}
	if !Join3(Count[event](), Finite(Sum(x), x), Sum(x), func(int64, float64, float64) string { return "" }).Rejects(nan) {
		t.Error("it is not rejected")
	}
}

// BenchmarkJoin has five features over one window, by Join5 and written by hand. On a busy machine of two cores an event took 131 ns by Join5 and
// 50 ns by hand, a merge 88 ns and 19 ns: the calls of each aggregate, and of the function that it takes its value from, are not inlined.
func BenchmarkJoin(b *testing.B) {
	es := events(rand.New(rand.NewPCG(1, 1)), 1024)
	for i := range es {
		es[i].x = float64(i%1000) / 100
	}
	b.Run("add/Join5", func(b *testing.B) { benchmark(b, joined(), es) })
	b.Run("add/by hand", func(b *testing.B) {
		var acc byHandAcc
		for i := range b.N {
			byHand{}.Add(&acc, es[i&1023])
		}
		byHand{}.Result(&acc)
	})
	b.Run("merge/Join5", func(b *testing.B) {
		g := joined()
		var all, part Acc5[int64, Exact, Moments, Kept[float64], Kept[string]]
		g.Add(&part, es[1])
		for range b.N {
			g.Merge(&all, part)
		}
	})
	b.Run("merge/by hand", func(b *testing.B) {
		var all, part byHandAcc
		byHand{}.Add(&part, es[1])
		for range b.N {
			byHand{}.Merge(&all, part)
		}
	})
}
