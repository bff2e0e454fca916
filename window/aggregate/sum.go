package aggregate

import (
	"math"
	"math/big"
)

// SumOf is made by Sum.
type SumOf[V any] struct{ f func(V) float64 }

// Sum adds up f, exactly: the result is the true sum, rounded once, whatever the order of the events and the windows that are merged.
func Sum[V any](f func(V) float64) SumOf[V] { return SumOf[V]{f} }

// Add adds one event.
func (s SumOf[V]) Add(a *Exact, v V) { a.add(s.f(v), false) }

// Merge adds the events of from.
func (SumOf[V]) Merge(into *Exact, from Exact) { into.Merge(&from) }

// Remove takes the events of part away; it cannot where one is NaN or infinite.
func (SumOf[V]) Remove(from *Exact, part Exact) bool { return from.Unmerge(&part) }

// Result is the sum.
func (SumOf[V]) Result(a *Exact) float64 { return a.Float64() }

// Append appends the accumulator's bytes; equal sums have equal bytes.
func (SumOf[V]) Append(dst []byte, a *Exact) []byte { return a.append(append(dst, version)) }

// Decode reads what Append made.
func (SumOf[V]) Decode(src []byte, a *Exact) error {
	d := newDecoder(src)
	a.decode(d)
	return d.end()
}

// Counter is made by Count.
type Counter[V any] struct{}

// Count counts events.
func Count[V any]() Counter[V] { return Counter[V]{} }

// Add counts one event.
func (Counter[V]) Add(a *int64, _ V) { *a++ }

// Merge adds the events of from.
func (Counter[V]) Merge(into *int64, from int64) { *into += from }

// Remove takes the events of part away.
func (Counter[V]) Remove(from *int64, part int64) bool {
	*from -= part
	return true
}

// Result is the count.
func (Counter[V]) Result(a *int64) int64 { return *a }

// Append appends the accumulator's bytes.
func (Counter[V]) Append(dst []byte, a *int64) []byte { return appendInt(append(dst, version), *a) }

// Decode reads what Append made.
func (Counter[V]) Decode(src []byte, a *int64) error {
	d := newDecoder(src)
	*a = d.int()
	return d.end()
}

// Moments are the number, the sum and the sum of squares of values, both exact.
type Moments struct {
	N            int64
	Sum, Squares Exact
}

// MomentOf is made by Mean, SampleVariance, PopulationVariance, SampleStd and PopulationStd, which share their accumulator.
type MomentOf[V any] struct {
	f      func(V) float64
	result func(*Moments) float64
	linear bool // needs no squares
}

// Mean is the arithmetic mean of f; NaN for no events.
func Mean[V any](f func(V) float64) MomentOf[V] {
	return MomentOf[V]{f: f, result: (*Moments).mean, linear: true}
}

// SampleVariance is the variance of a population that the events are a sample of: the squares are divided by n-1. NaN for fewer than two
// events, since one has no sample variance. It is computed from exact sums and rounded once, so that it cannot be negative or lose digits.
func SampleVariance[V any](f func(V) float64) MomentOf[V] {
	return MomentOf[V]{f: f, result: func(m *Moments) float64 { return m.variance(1) }}
}

// PopulationVariance is the variance of the events themselves: the squares are divided by n. 0 for one event, NaN for none.
func PopulationVariance[V any](f func(V) float64) MomentOf[V] {
	return MomentOf[V]{f: f, result: func(m *Moments) float64 { return m.variance(0) }}
}

// SampleStd is the square root of SampleVariance; NaN for fewer than two events.
func SampleStd[V any](f func(V) float64) MomentOf[V] {
	return MomentOf[V]{f: f, result: func(m *Moments) float64 { return m.std(1) }}
}

// PopulationStd is the square root of PopulationVariance.
func PopulationStd[V any](f func(V) float64) MomentOf[V] {
	return MomentOf[V]{f: f, result: func(m *Moments) float64 { return m.std(0) }}
}

// Add adds one event.
func (g MomentOf[V]) Add(a *Moments, v V) {
	x := g.f(v)
	a.N++
	a.Sum.Add(x)
	if !g.linear {
		a.Squares.addSquare(x)
	}
}

// Merge adds the events of from.
func (MomentOf[V]) Merge(into *Moments, from Moments) {
	into.N += from.N
	into.Sum.Merge(&from.Sum)
	into.Squares.Merge(&from.Squares)
}

// Remove takes the events of part away; it cannot where one is NaN or infinite.
func (MomentOf[V]) Remove(from *Moments, part Moments) bool {
	from.N -= part.N
	return from.Sum.Unmerge(&part.Sum) && from.Squares.Unmerge(&part.Squares)
}

// Result is the moment.
func (g MomentOf[V]) Result(a *Moments) float64 { return g.result(a) }

// Append appends the accumulator's bytes.
func (MomentOf[V]) Append(dst []byte, a *Moments) []byte {
	return a.Squares.append(a.Sum.append(appendInt(append(dst, version), a.N)))
}

// Decode reads what Append made.
func (MomentOf[V]) Decode(src []byte, a *Moments) error {
	d := newDecoder(src)
	a.N = d.count()
	a.Sum.decode(d)
	a.Squares.decode(d)
	return d.end()
}

func (m *Moments) mean() float64 {
	if m.N == 0 {
		return math.NaN()
	}
	x := m.Sum.Float64()
	if m.Sum.overflows(x) { // the mean does not
		v, exponent := m.Sum.integer()
		return quotient(v, big.NewInt(m.N), exponent)
	}
	return x / float64(m.N)
}

// quotient is a·2^exponent/b, rounded once.
func quotient(a, b *big.Int, exponent int) float64 {
	if exponent < 0 {
		b = new(big.Int).Lsh(b, uint(-exponent))
	} else {
		a = new(big.Int).Lsh(a, uint(exponent))
	}
	x, _ := new(big.Rat).SetFrac(a, b).Float64()
	return x
}

// spread is n·Σx² - (Σx)² as v·2^exponent: n² times the population variance. Not ok when it is not finite.
func (m *Moments) spread() (v *big.Int, exponent int, ok bool) {
	if _, special := m.Sum.special(); special {
		return nil, 0, false
	}
	s, es := m.Sum.integer()
	q, eq := m.Squares.integer()
	s.Mul(s, s)
	es *= 2
	q.Mul(q, big.NewInt(m.N))
	exponent = min(es, eq)
	s.Lsh(s, uint(es-exponent))
	q.Lsh(q, uint(eq-exponent))
	if q.Sub(q, s).Sign() < 0 { // only in a forged snapshot
		q.SetInt64(0)
	}
	return q, exponent, true
}

func (m *Moments) divisor(less int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(m.N), big.NewInt(m.N-less))
}

func (m *Moments) variance(less int64) float64 {
	if m.N <= less {
		return math.NaN()
	}
	v, exponent, ok := m.spread()
	if !ok {
		return math.NaN()
	}
	return quotient(v, m.divisor(less), exponent)
}

func (m *Moments) std(less int64) float64 {
	x := m.variance(less)
	if x == 0 || math.IsInf(x, 0) || x < 0x1p-1000 { // the variance may be out of range where its root is not
		v, exponent, _ := m.spread()
		if v.Sign() == 0 {
			return 0
		}
		f := new(big.Float).SetPrec(200).SetInt(v)
		f.Quo(f, new(big.Float).SetInt(m.divisor(less)))
		f.SetMantExp(f, exponent)
		r, _ := f.Sqrt(f).Float64()
		return r
	}
	return math.Sqrt(x)
}

// RatioOf is made by Ratio.
type RatioOf[V any] struct{ over, under func(V) float64 }

// Ratio is the sum of one function of the events over the sum of another: clicks per view, spend per order. 0/0 is NaN and x/0 infinite,
// as in floating point.
func Ratio[V any](over, under func(V) float64) RatioOf[V] { return RatioOf[V]{over, under} }

// Add adds one event.
func (g RatioOf[V]) Add(a *Acc2[Exact, Exact], v V) {
	a.A.Add(g.over(v))
	a.B.Add(g.under(v))
}

// Merge adds the events of from.
func (RatioOf[V]) Merge(into *Acc2[Exact, Exact], from Acc2[Exact, Exact]) {
	into.A.Merge(&from.A)
	into.B.Merge(&from.B)
}

// Remove takes the events of part away; it cannot where one is NaN or infinite.
func (RatioOf[V]) Remove(from *Acc2[Exact, Exact], part Acc2[Exact, Exact]) bool {
	return from.A.Unmerge(&part.A) && from.B.Unmerge(&part.B)
}

// Result is the ratio.
func (RatioOf[V]) Result(a *Acc2[Exact, Exact]) float64 {
	over, under := a.A.Float64(), a.B.Float64()
	if a.A.overflows(over) && under != 0 || a.B.overflows(under) { // the ratio need not
		if v, exponent, ok := a.A.finite(); ok {
			if u, less, ok := a.B.finite(); ok {
				return quotient(v, u, exponent-less)
			}
		}
	}
	return over / under
}

// Append appends the accumulator's bytes.
func (RatioOf[V]) Append(dst []byte, a *Acc2[Exact, Exact]) []byte {
	return a.B.append(a.A.append(append(dst, version)))
}

// Decode reads what Append made.
func (RatioOf[V]) Decode(src []byte, a *Acc2[Exact, Exact]) error {
	d := newDecoder(src)
	a.A.decode(d)
	a.B.decode(d)
	return d.end()
}
