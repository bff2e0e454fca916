package aggregate

import (
	"math"
)

// Aggregator is window.Aggregator, for which see there.
type Aggregator[V, A, R any] interface {
	Add(acc *A, v V)
	Merge(into *A, from A)
	Result(acc *A) R
	Append(dst []byte, acc *A) []byte
	Decode(src []byte, acc *A) error
}

// Acc2 is the accumulator of two aggregates.
type Acc2[A, B any] struct {
	A A
	B B
}

// PairOf is made by Pair.
type PairOf[V, A, B, RA, RB, R any] struct {
	a    Aggregator[V, A, RA]
	b    Aggregator[V, B, RB]
	join func(RA, RB) R
}

// Pair has two aggregates over one window, and joins their results into a struct. Join3 to Join6 are for more.
func Pair[V, A, B, RA, RB, R any](a Aggregator[V, A, RA], b Aggregator[V, B, RB], join func(RA, RB) R) PairOf[V, A, B, RA, RB, R] {
	return PairOf[V, A, B, RA, RB, R]{a, b, join}
}

// Add adds one event to both.
func (p PairOf[V, A, B, RA, RB, R]) Add(acc *Acc2[A, B], v V) {
	p.a.Add(&acc.A, v)
	p.b.Add(&acc.B, v)
}

// Merge adds the events of from.
func (p PairOf[V, A, B, RA, RB, R]) Merge(into *Acc2[A, B], from Acc2[A, B]) {
	p.a.Merge(&into.A, from.A)
	p.b.Merge(&into.B, from.B)
}

// Remove takes the events of part away, where both aggregates can.
func (p PairOf[V, A, B, RA, RB, R]) Remove(from *Acc2[A, B], part Acc2[A, B]) bool {
	return remove(p.a, &from.A, part.A) && remove(p.b, &from.B, part.B)
}

func remove[A any](g any, from *A, part A) bool {
	r, ok := g.(interface{ Remove(*A, A) bool })
	return ok && r.Remove(from, part)
}

// Result joins both results.
func (p PairOf[V, A, B, RA, RB, R]) Result(acc *Acc2[A, B]) R {
	return p.join(p.a.Result(&acc.A), p.b.Result(&acc.B))
}

// Append appends the accumulator's bytes.
func (p PairOf[V, A, B, RA, RB, R]) Append(dst []byte, acc *Acc2[A, B]) []byte {
	dst = append(dst, version)
	dst = appendBytes(dst, p.a.Append(nil, &acc.A))
	return appendBytes(dst, p.b.Append(nil, &acc.B))
}

// Decode reads what Append made.
func (p PairOf[V, A, B, RA, RB, R]) Decode(src []byte, acc *Acc2[A, B]) error {
	d := newDecoder(src)
	a, b := d.bytes(), d.bytes()
	if err := d.end(); err != nil {
		return err
	}
	if err := p.a.Decode(a, &acc.A); err != nil {
		return err
	}
	return p.b.Decode(b, &acc.B)
}

// Rejects rejects what either rejects.
func (p PairOf[V, A, B, RA, RB, R]) Rejects(v V) bool { return rejects(p.a, v) || rejects(p.b, v) }

func rejects[V any](g any, v V) bool {
	r, ok := g.(interface{ Rejects(V) bool })
	return ok && r.Rejects(v)
}

// FiniteOf is made by Finite.
type FiniteOf[V, A, R any] struct {
	Aggregator[V, A, R]
	fs []func(V) float64
}

// Finite keeps events for which one of fs is NaN or infinite out of the window: the operator answers Rejected, and the caller has
// the event to publish it elsewhere. Without it, and without SkipNonFinite, such values do to a result what they do in floating point.
func Finite[V, A, R any](g Aggregator[V, A, R], fs ...func(V) float64) FiniteOf[V, A, R] {
	return FiniteOf[V, A, R]{g, fs}
}

// Rejects says whether one of the values is not finite.
func (g FiniteOf[V, A, R]) Rejects(v V) bool { return !finite(v, g.fs) || rejects(g.Aggregator, v) }

// Remove takes the events of part away, where the aggregate can.
func (g FiniteOf[V, A, R]) Remove(from *A, part A) bool { return remove(g.Aggregator, from, part) }

func finite[V any](v V, fs []func(V) float64) bool {
	for _, f := range fs {
		if x := f(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// Skipped is a result and how many events it leaves out.
type Skipped[R any] struct {
	Value   R
	Skipped int64
}

// SkippingOf is made by SkipNonFinite.
type SkippingOf[V, A, R any] struct {
	g  Aggregator[V, A, R]
	fs []func(V) float64
}

// SkipNonFinite leaves out and counts the events for which one of fs is NaN or infinite.
func SkipNonFinite[V, A, R any](g Aggregator[V, A, R], fs ...func(V) float64) SkippingOf[V, A, R] {
	return SkippingOf[V, A, R]{g, fs}
}

// Rejects asks the aggregate, unless the event is left out.
func (g SkippingOf[V, A, R]) Rejects(v V) bool { return finite(v, g.fs) && rejects(g.g, v) }

// Add adds one event, or counts it.
func (g SkippingOf[V, A, R]) Add(acc *Acc2[A, int64], v V) {
	if !finite(v, g.fs) {
		acc.B++
		return
	}
	g.g.Add(&acc.A, v)
}

// Merge adds the events of from.
func (g SkippingOf[V, A, R]) Merge(into *Acc2[A, int64], from Acc2[A, int64]) {
	g.g.Merge(&into.A, from.A)
	into.B += from.B
}

// Remove takes the events of part away, where the aggregate can.
func (g SkippingOf[V, A, R]) Remove(from *Acc2[A, int64], part Acc2[A, int64]) bool {
	from.B -= part.B
	return remove(g.g, &from.A, part.A)
}

// Result is the result of the others, and the count.
func (g SkippingOf[V, A, R]) Result(acc *Acc2[A, int64]) Skipped[R] {
	return Skipped[R]{g.g.Result(&acc.A), acc.B}
}

// Append appends the accumulator's bytes.
func (g SkippingOf[V, A, R]) Append(dst []byte, acc *Acc2[A, int64]) []byte {
	dst = appendInt(append(dst, version), acc.B)
	return g.g.Append(dst, &acc.A)
}

// Decode reads what Append made.
func (g SkippingOf[V, A, R]) Decode(src []byte, acc *Acc2[A, int64]) error {
	d := newDecoder(src)
	if acc.B = d.count(); d.err != nil {
		return d.err
	}
	return g.g.Decode(d.b, &acc.A)
}
