package aggregate

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

type event struct {
	x  float64
	y  float64
	s  string
	at int64
}

func (e event) price() float64 { return e.x }

func x(e event) float64  { return e.x }
func at(e event) int64   { return e.at }
func str(e event) string { return e.s }

// subject is an aggregate with its types hidden.
type subject struct {
	name string
	// bulk folds events in order; grouped folds them in groups, encodes and decodes each, and merges them.
	bulk, grouped func(events []event, r *rand.Rand) any
	decode        func(b []byte) error
	encoded       func(events []event) []byte
	// removed folds all events, takes the first n out again, and compares with the others; false where the aggregate cannot.
	removed func(events []event, n int) (got, want any, ok bool)
}

func of[A, R any](name string, g Aggregator[event, A, R]) subject {
	fold := func(events []event) *A {
		acc := new(A)
		for _, e := range events {
			g.Add(acc, e)
		}
		return acc
	}
	grouped := func(events []event, r *rand.Rand) any {
		var groups []*A
		for len(events) > 0 {
			n := 1 + r.IntN(len(events))
			acc := fold(events[:n])
			events = events[n:]
			var again A
			if err := g.Decode(g.Append([]byte("x"), acc)[1:], &again); err != nil {
				panic(err)
			}
			if !same(g.Result(&again), g.Result(acc)) {
				panic(fmt.Sprint("decoded: ", g.Result(&again), " want ", g.Result(acc)))
			}
			groups = append(groups, &again)
		}
		var sum A
		for _, acc := range groups {
			before := g.Append(nil, acc)
			g.Merge(&sum, *acc)
			g.Merge(new(A), sum)
			if !same(decoded(g, before), g.Result(acc)) {
				panic("Merge changed its argument")
			}
		}
		g.Merge(&sum, *new(A))
		return g.Result(&sum)
	}
	return subject{
		name:    name,
		bulk:    func(events []event, _ *rand.Rand) any { return g.Result(fold(events)) },
		grouped: grouped,
		decode: func(b []byte) error {
			acc := new(A)
			if err := g.Decode(b, acc); err != nil {
				return err
			}
			g.Add(acc, event{x: 1, y: 2, s: "a", at: 5})
			g.Merge(new(A), *acc)
			g.Result(acc)
			g.Append(nil, acc)
			return nil
		},
		encoded: func(events []event) []byte { return g.Append(nil, fold(events)) },
		removed: func(events []event, n int) (got, want any, ok bool) {
			all := fold(events)
			if !remove(g, all, *fold(events[:n])) {
				return nil, nil, false
			}
			return g.Result(all), g.Result(fold(events[n:])), true
		},
	}
}

func decoded[A, R any](g Aggregator[event, A, R], b []byte) R {
	var acc A
	if err := g.Decode(b, &acc); err != nil {
		panic(err)
	}
	return g.Result(&acc)
}

// same compares results to the bit, NaN equal to itself.
func same(a, b any) bool {
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) || reflect.DeepEqual(a, b)
}

func subjects() []subject {
	return []subject{
		of("sum", Sum(x)),
		of("count", Count[event]()),
		of("mean", Mean(x)),
		of("sample variance", SampleVariance(x)),
		of("population variance", PopulationVariance(x)),
		of("sample std", SampleStd(x)),
		of("population std", PopulationStd(x)),
		of("min", Min(x)),
		of("max", Max(x)),
		of("max string", Max(str)),
		of("first", First(x, at, Scalar[float64]())),
		of("last", Last(str, at, Scalar[string]())),
		of("last struct", Last(func(e event) []string { return []string{e.s} }, at, JSON[[]string]())),
		of("distinct", Distinct(str)),
		of("quantiles", Quantiles(x, 0.01, 0, 0.5, 0.99, 1)),
		of("top", TopK(str, 3, 100)),
		of("histogram", Histogram(x, -1, 0, 1, 10)),
		of("collect", Collect(str, at, 7, Scalar[string]())),
		of("ratio", Ratio(x, func(e event) float64 { return e.y })),
		of("decay", Decay(x, at, 40*time.Nanosecond)),
		of("pair", Pair(Sum(x), Pair(Count[event](), Max(x), func(n int64, m float64) [2]float64 { return [2]float64{float64(n), m} }),
			func(s float64, p [2]float64) [3]float64 { return [3]float64{s, p[0], p[1]} })),
		of("skip", SkipNonFinite(Sum(x), x)),
		of("finite", Finite(Sum(x), x)),
		of("sums", Pair(Sum(x), Mean(x), func(s, m float64) [2]float64 { return [2]float64{s, m} })),
	}
}

func events(r *rand.Rand, n int) []event {
	out := make([]event, n)
	times := r.Perm(10 * n)
	for i := range out {
		e := event{x: r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20)), y: r.Float64(), at: int64(times[i]), s: fmt.Sprint(r.IntN(12))}
		switch r.IntN(30) {
		case 0:
			e.x = 0
		case 1:
			e.x = -math.MaxFloat64
		case 2:
			e.x = math.MaxFloat64
		case 3:
			e.x = math.SmallestNonzeroFloat64
		}
		out[i] = e
	}
	return out
}

// TestMergeIsBulk folds the same events as they come, and shuffled, in groups that are encoded, decoded and merged: equal to the bit.
func TestMergeIsBulk(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for i := range 150 {
				es := events(r, 1+r.IntN(60))
				if i%10 == 0 {
					es[0].x = math.NaN()
				}
				if i%10 == 1 {
					es[0].x = math.Inf(1 - 2*r.IntN(2))
				}
				want := s.bulk(es, r)
				r.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
				if got := s.grouped(es, r); !same(got, want) {
					t.Fatalf("%v, want %v", got, want)
				}
				if got := s.bulk(es, r); !same(got, want) {
					t.Fatalf("shuffled: %v, want %v", got, want)
				}
			}
		})
	}
}

// TestRemove takes events out again: the rest is as if they had never been there, or the aggregate says that it cannot.
func TestRemove(t *testing.T) {
	can := []string{
		"sum", "count", "mean", "sample variance", "population variance", "sample std", "population std", "histogram", "ratio", "skip", "finite", "sums",
	}
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 3))
			for range 300 {
				es := events(r, 1+r.IntN(60))
				got, want, ok := s.removed(es, r.IntN(len(es)+1))
				if ok != slices.Contains(can, s.name) {
					t.Fatalf("removes: %t", ok)
				}
				if ok && !same(got, want) {
					t.Fatalf("%v, want %v", got, want)
				}
			}
		})
	}
	var all, part Exact
	part.Add(math.NaN())
	all.Merge(&part)
	if all.Unmerge(&part) {
		t.Error("a NaN was taken out of a sum")
	}
}

// FuzzDecode gives hostile bytes to every aggregate: an error or an accumulator that works.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 5))
	all := subjects()
	for i, s := range all {
		for _, n := range []int{0, 1, 5, 40} {
			f.Add(s.encoded(events(r, n)), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, i uint8) {
		if err := all[int(i)%len(all)].decode(b); err != nil && !errors.Is(err, ErrEncoding) {
			t.Errorf("%v does not match ErrEncoding", err)
		}
	})
}

func TestVersions(t *testing.T) {
	for _, s := range subjects() {
		b := s.encoded(events(rand.New(rand.NewPCG(1, 1)), 20))
		if b[0] != 1 && (s.name != "distinct" || b[0] != versionCounted) {
			t.Errorf("%s: version %d", s.name, b[0])
		}
		b[0] = 99
		if err := s.decode(b); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: a later version: %v", s.name, err)
		}
		if err := s.decode(nil); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: no bytes: %v", s.name, err)
		}
	}
}

// exactly is the sum of f over the values by big rational numbers.
func exactly(xs []float64, f func(*big.Rat) *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, x := range xs {
		sum.Add(sum, f(new(big.Rat).SetFloat64(x)))
	}
	return sum
}

func identity(r *big.Rat) *big.Rat { return r }

func square(r *big.Rat) *big.Rat { return r.Mul(r, r) }

// TestExactSum compares with rational numbers: values of all magnitudes, near one another, that cancel, and at the ends of the range.
func TestExactSum(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for i := range 3000 {
		n := 1 + r.IntN(40)
		xs := make([]float64, n)
		for j := range xs {
			switch i % 4 {
			case 0:
				xs[j] = math.Float64frombits(r.Uint64())
			case 1:
				xs[j] = math.Ldexp(r.Float64()-0.5, r.IntN(200)-100)
			case 2:
				xs[j] = float64(r.IntN(20000)-10000) / 100
			case 3:
				xs[j] = math.Ldexp(r.NormFloat64(), -1060-r.IntN(14))
			}
			if math.IsNaN(xs[j]) || math.IsInf(xs[j], 0) {
				xs[j] = 1
			}
			if j > 0 && r.IntN(3) == 0 {
				xs[j] = -xs[j-1]
			}
		}
		var e, left Exact
		for j, x := range xs {
			e.Add(x)
			if j%2 == 0 {
				left.Add(x)
			}
		}
		want, _ := exactly(xs, identity).Float64()
		if got := e.Float64(); got != want {
			t.Fatalf("%v: %v, want %v", xs, got, want)
		}
		var squares Exact
		for _, x := range xs {
			squares.addSquare(x)
		}
		if want, _ := exactly(xs, square).Float64(); squares.Float64() != want {
			t.Fatalf("squares of %v: %v, want %v", xs, squares.Float64(), want)
		}
		var back Exact
		d := newDecoder(e.append([]byte{version}))
		if back.decode(d); d.end() != nil || back.Float64() != want || !bytes.Equal(back.append(nil), e.append(nil)) {
			t.Fatalf("decoded: %v, want %v (%v)", back.Float64(), want, d.err)
		}
		for j, x := range xs {
			if j%2 == 0 {
				e.Remove(x)
			}
		}
		e.Merge(&left)
		if got := e.Float64(); got != want {
			t.Fatalf("removed and merged: %v, want %v", got, want)
		}
	}
}

// TestExactLong adds so many large values that a sum of 256 bits could overflow if it were not seen.
func TestExactLong(t *testing.T) {
	var e Exact
	e.Add(0x1p-1)
	for range 3000 {
		e.Add(0x1.fffffffffffffp130)
	}
	for range 3000 {
		e.Remove(0x1.fffffffffffffp130)
	}
	if got := e.Float64(); got != 0.5 {
		t.Errorf("%v", got)
	}
}

func TestMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for i := range 400 {
		n := 2 + r.IntN(30)
		es, xs := make([]event, n), make([]float64, n)
		for j := range es {
			xs[j] = 1e9 + r.Float64()
			if i%2 == 0 {
				xs[j] = math.Ldexp(r.NormFloat64(), r.IntN(1000)-500)
			}
			es[j].x = xs[j]
		}
		mean := exactly(xs, identity)
		mean.Quo(mean, new(big.Rat).SetInt64(int64(n)))
		squares := exactly(xs, func(x *big.Rat) *big.Rat { d := x.Sub(x, mean); return d.Mul(d, d) })
		sample, _ := new(big.Rat).Quo(squares, new(big.Rat).SetInt64(int64(n-1))).Float64()
		population, _ := new(big.Rat).Quo(squares, new(big.Rat).SetInt64(int64(n))).Float64()
		if got := of("", SampleVariance(x)).bulk(es, r); got != sample {
			t.Fatalf("sample variance %v, want %v", got, sample)
		}
		if got := of("", PopulationVariance(x)).bulk(es, r); got != population {
			t.Fatalf("population variance %v, want %v", got, population)
		}
	}
	for _, c := range []struct {
		g    MomentOf[event]
		xs   []float64
		want float64
	}{
		{Mean(x), nil, math.NaN()},
		{Mean(x), []float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
		{SampleStd(x), []float64{3}, math.NaN()},
		{PopulationStd(x), []float64{3}, 0},
		{PopulationStd(x), nil, math.NaN()},
		{SampleStd(x), []float64{1, 3}, math.Sqrt2},
		{PopulationStd(x), []float64{1e200, -1e200}, 1e200},
		{PopulationStd(x), []float64{1e-200, -1e-200}, 1e-200},
		{PopulationStd(x), []float64{1, math.Inf(1)}, math.NaN()},
		{SampleVariance(x), []float64{1, math.NaN()}, math.NaN()},
		{Mean(x), []float64{1, math.Inf(1)}, math.Inf(1)},
	} {
		var a Moments
		for _, v := range c.xs {
			c.g.Add(&a, event{x: v})
		}
		if got := c.g.Result(&a); !same(got, c.want) {
			t.Errorf("%v: %v, want %v", c.xs, got, c.want)
		}
	}
}

func TestNonFinite(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{[]float64{1, inf}, inf},
		{[]float64{-inf, 1}, -inf},
		{[]float64{inf, -inf}, nan},
		{[]float64{nan, 1}, nan},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, inf},
		{[]float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64}, math.MaxFloat64},
		{nil, 0},
		{[]float64{math.Copysign(0, -1)}, 0},
	} {
		var e Exact
		for _, v := range c.xs {
			e.Add(v)
		}
		if got := e.Float64(); !same(got, c.want) {
			t.Errorf("%v: %v, want %v", c.xs, got, c.want)
		}
	}
	if g := Finite(Sum(x), x); !g.Rejects(event{x: nan}) || !g.Rejects(event{x: inf}) || g.Rejects(event{x: 1}) {
		t.Error("Finite rejects the wrong ones")
	}
	p := Pair(Count[event](), Finite(Sum(x), x), func(n int64, s float64) float64 { return s })
	if !p.Rejects(event{x: nan}) {
		t.Error("a Pair does not reject what its part rejects")
	}
	skip := of("", SkipNonFinite(Sum(x), x)).bulk([]event{{x: 1}, {x: nan}, {x: inf}, {x: 2}}, nil)
	if skip != (Skipped[float64]{3, 2}) {
		t.Errorf("skipped: %v", skip)
	}
	q := of("", Quantiles(x, 0.01, 0, 0.5, 1))
	for _, c := range []struct {
		xs   []float64
		want []float64
	}{
		{[]float64{-inf, 2, inf}, []float64{-inf, 2, inf}},
		{[]float64{nan, 2}, []float64{nan, nan, nan}},
		{nil, []float64{nan, nan, nan}},
		{[]float64{inf}, []float64{inf, inf, inf}},
		{[]float64{-inf}, []float64{-inf, -inf, -inf}},
		{[]float64{5}, []float64{5, 5, 5}},
		{[]float64{-math.MaxFloat64, 1, math.MaxFloat64}, []float64{-inf, 1, inf}},
	} {
		var es []event
		for _, v := range c.xs {
			es = append(es, event{x: v})
		}
		for i, got := range q.bulk(es, nil).([]float64) {
			if w := c.want[i]; !same(got, w) && !(math.Abs(got-w) <= 0.01*math.Abs(w)) {
				t.Errorf("%v: rank %d is %v, want %v", c.xs, i, got, w)
			}
		}
	}
}

func TestSketches(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{1, 10, 100, 1000, 30000} {
		es := make([]event, n)
		xs := make([]float64, n)
		for i := range es {
			xs[i] = math.Exp(r.NormFloat64())
			es[i] = event{s: fmt.Sprint("user-", i), x: xs[i]}
		}
		got := float64(of("", Distinct(str)).bulk(slices.Concat(es, es), r).(uint64))
		if math.Abs(got-float64(n)) > 0.03*float64(n) {
			t.Errorf("%v distinct of %d", got, n)
		}
		slices.Sort(xs)
		for i, got := range of("", Quantiles(x, 0.01, 0, 0.25, 0.5, 0.99, 1)).bulk(es, r).([]float64) {
			want := xs[int([]float64{0, 0.25, 0.5, 0.99, 1}[i]*float64(n-1))]
			if math.Abs(got-want) > 0.0101*want {
				t.Errorf("n %d: quantile %d is %v, want %v", n, i, got, want)
			}
		}
	}
	// Counts of all values where they fit; beyond, counts that are short by no more than said.
	counts := map[string]int64{}
	es := make([]event, 20000)
	for i := range es {
		es[i].s = fmt.Sprint(int(math.Exp(r.ExpFloat64())))
		counts[es[i].s]++
	}
	for _, item := range of("", TopK(str, 5, 10)).grouped(es, r).([]Item[string]) {
		if n := counts[item.Value]; n < item.Count || n > item.Count+item.Error || item.Error > int64(len(es)/10) {
			t.Errorf("%+v, want %d", item, n)
		}
	}
	top := of("", TopK(str, 2, 10)).bulk([]event{{s: "b"}, {s: "a"}, {s: "c"}, {s: "c"}}, r)
	if !same(top, []Item[string]{{"c", 2, 0}, {"a", 1, 0}}) {
		t.Errorf("%v", top)
	}
}

func TestLists(t *testing.T) {
	h := of("", Histogram(x, 0, 10)).bulk([]event{{x: -1}, {x: 0}, {x: 0.5}, {x: 10}, {x: 11}, {x: math.Inf(1)}, {x: math.NaN()}}, nil).(Buckets)
	if !slices.Equal(h.Counts, []int64{2, 2, 2}) || h.NaN != 1 {
		t.Errorf("%+v", h)
	}
	c := of("", Collect(str, at, 2, Scalar[string]())).bulk([]event{{s: "c", at: 3}, {s: "a", at: 1}, {s: "b", at: 2}, {s: "d", at: 4}}, nil)
	if !same(c, Collected[string]{[]string{"a", "b"}, 2}) {
		t.Errorf("%+v", c)
	}
	decay := Decay(x, at, time.Second)
	var a Fading
	for _, e := range []event{{x: 8, at: 0}, {x: 4, at: int64(time.Second)}, {x: 1, at: int64(3 * time.Second)}} {
		decay.Add(&a, e)
	}
	if got := decay.Result(&a); got != 3 {
		t.Errorf("decayed to %v, want 8/8 + 4/4 + 1", got)
	}
	// Far from 1970, far apart, and earlier ones later.
	for _, start := range []int64{-1 << 62, 0, 1700000000e9, math.MaxInt64 - 200e9} {
		var b Fading
		for _, e := range []event{{x: 1, at: start + 100e9}, {x: 2, at: start + 99e9}, {x: 5, at: start}, {x: 4, at: start + 102e9}} {
			decay.Add(&b, e)
		}
		if got, want := decay.Result(&b), 1.0/4+2.0/8+4; math.Abs(got-want) > 1e-12 {
			t.Errorf("from %d: %v, want %v", start, got, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	es := events(rand.New(rand.NewPCG(1, 1)), 1024)
	for i := range es {
		es[i].x = float64(i) / 100
	}
	b.Run("exact", func(b *testing.B) { benchmark(b, Sum(x), es) })
	b.Run("plain float64", func(b *testing.B) {
		var sum float64
		for i := range b.N {
			sum += es[i&1023].price()
		}
		if sum < 0 {
			b.Fatal(sum)
		}
	})
	b.Run("std", func(b *testing.B) { benchmark(b, SampleStd(x), es) })
	b.Run("distinct", func(b *testing.B) { benchmark(b, Distinct(str), es) })
	b.Run("quantiles", func(b *testing.B) { benchmark(b, Quantiles(x, 0.01, 0.5), es) })
	b.Run("top", func(b *testing.B) { benchmark(b, TopK(str, 3, 100), es) })
}

func benchmark[A, R any](b *testing.B, g Aggregator[event, A, R], es []event) {
	b.Helper()
	b.ReportAllocs()
	acc := new(A)
	for i := range b.N {
		g.Add(acc, es[i&1023])
	}
	g.Result(acc)
}
