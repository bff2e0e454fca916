package aggregate

import (
	"fmt"
	"math"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/axiomhq/hyperloglog"
)

// DistinctOf is made by Distinct.
type DistinctOf[V any] struct{ f func(V) string }

// Distincts is the accumulator of Distinct.
type Distincts struct {
	sketch *hyperloglog.Sketch
	events int64 // at least as many as there are strings
}

// Distinct estimates how many different strings f has, by HyperLogLog with 2^14 registers: the standard error is 0.8 %. An
// accumulator has up to 16 KiB, a few hundred bytes for few strings. The result does not depend on the order.
func Distinct[V any](f func(V) string) DistinctOf[V] { return DistinctOf[V]{f} }

// Add adds one event.
func (g DistinctOf[V]) Add(a *Distincts, v V) {
	if a.sketch == nil {
		a.sketch = hyperloglog.New14()
	}
	a.sketch.Insert([]byte(g.f(v)))
	a.events++
}

// Merge adds the events of from.
func (DistinctOf[V]) Merge(into *Distincts, from Distincts) {
	into.events += from.events
	switch {
	case from.sketch == nil:
	case into.sketch == nil:
		into.sketch = from.sketch.Clone()
	default:
		mustMerge(into.sketch, from.sketch)
	}
}

// mustMerge merges sketches, which fails only for different precisions; this package makes and decodes only one.
func mustMerge(into, from *hyperloglog.Sketch) {
	if err := into.Merge(from); err != nil {
		panic(err)
	}
}

// Result is the estimate. It is made from dense registers always: when a sketch turns from sparse to dense depends on the order, its
// registers do not.
func (DistinctOf[V]) Result(a *Distincts) uint64 {
	if a.sketch == nil {
		return 0
	}
	dense := hyperloglog.NewNoSparse()
	mustMerge(dense, a.sketch)
	return dense.Estimate()
}

// Append appends the accumulator's bytes, which differ with the order for equal sketches.
func (DistinctOf[V]) Append(dst []byte, a *Distincts) []byte {
	dst = appendInt(append(dst, versionCounted), a.events)
	if a.sketch == nil {
		return dst
	}
	b, err := a.sketch.AppendBinary(dst)
	if err != nil {
		panic(err) // only for another precision
	}
	return b
}

// versionCounted is that of Distincts; version 1 had no number of events.
const versionCounted = 2

// Decode reads what Append made.
func (DistinctOf[V]) Decode(src []byte, a *Distincts) error {
	*a = Distincts{}
	d := &decoder{b: src}
	switch v := d.byte(); {
	case d.err != nil:
	case v == versionCounted:
		a.events = d.count()
	case v != version:
		d.err = fmt.Errorf("%w: version %d", ErrEncoding, v)
	case len(d.b) > 0:
		a.events = 1 << 14 // more would say no more about its size
	}
	if d.err != nil || len(d.b) == 0 {
		return d.err
	}
	s := hyperloglog.New14()
	if err := s.UnmarshalBinary(d.b); err != nil {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	if err := hyperloglog.NewNoSparse().Merge(s); err != nil {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	a.sketch = s
	return nil
}

// The bins of a quantile sketch, of 8 bytes each: so many that they span 17 powers of ten, as 2,048 do at 1 %.
const (
	leastBins = 2048
	mostBins  = 1 << 20
	binned    = 1e17
)

// QuantilesOf is made by Quantiles.
type QuantilesOf[V any] struct {
	f        func(V) float64
	accuracy float64
	ranks    []float64
	mapping  mapping.IndexMapping
	provider store.Provider
}

// Sketch is the accumulator of Quantiles.
type Sketch struct {
	values            *ddsketch.DDSketch
	nan, above, below int64 // NaN, and the values too large for a sketch in either direction
}

// Quantiles estimates quantiles of f at the ranks, each from 0 to 1, by a DDSketch: each result is within the relative accuracy,
// such as 0.01, of a value with that rank. Infinities are beyond all others; a NaN makes all NaN, and so does no event. The
// result does not depend on the order. Of values with one sign, those that are more than 17 powers of ten nearer to zero than the
// farthest count as the nearest that is kept (with an accuracy below 0.00002, of which there is no use, sooner). An accumulator
// has 8 bytes for each bin from the least to the greatest: 115 bins a power of ten at 0.01, 1,150 at 0.001. An accuracy outside
// of (0, 1) and ranks outside of [0, 1] are a mistake in the program, and panic.
func Quantiles[V any](f func(V) float64, accuracy float64, ranks ...float64) QuantilesOf[V] {
	m, err := mapping.NewDefaultMapping(accuracy)
	if err != nil {
		panic(fmt.Sprintf("aggregate: accuracy %v: %v", accuracy, err))
	}
	for _, r := range ranks {
		if !(r >= 0 && r <= 1) {
			panic(fmt.Sprintf("aggregate: rank %v is not from 0 to 1", r))
		}
	}
	bins := min(max(m.Index(binned)-m.Index(1)+1, leastBins), mostBins)
	return QuantilesOf[V]{f, accuracy, ranks, m, func() store.Store { return store.NewCollapsingLowestDenseStore(bins) }}
}

// Add adds one event.
func (g QuantilesOf[V]) Add(a *Sketch, v V) {
	x := g.f(v)
	switch {
	case x != x:
		a.nan++
		return
	case x > g.mapping.MaxIndexableValue():
		a.above++
		return
	case x < -g.mapping.MaxIndexableValue():
		a.below++
		return
	}
	if a.values == nil {
		a.values = ddsketch.NewDDSketchFromStoreProvider(g.mapping, g.provider)
	}
	if err := a.values.Add(x); err != nil {
		a.nan++ // never: the range is checked above
	}
}

// Merge adds the events of from.
func (QuantilesOf[V]) Merge(into *Sketch, from Sketch) {
	into.nan += from.nan
	into.above += from.above
	into.below += from.below
	switch {
	case from.values == nil:
	case into.values == nil:
		into.values = from.values.Copy()
	default:
		if err := into.values.MergeWith(from.values); err != nil {
			panic(err) // only for another accuracy; Decode refuses these
		}
	}
}

// Result has one value for each rank.
func (g QuantilesOf[V]) Result(a *Sketch) []float64 {
	out := make([]float64, len(g.ranks))
	inner := 0.0
	if a.values != nil {
		inner = a.values.GetCount()
	}
	n := inner + float64(a.above) + float64(a.below)
	for i, q := range g.ranks {
		rank := q*(n-1) - float64(a.below)
		switch {
		case n == 0 || a.nan > 0:
			out[i] = math.NaN()
		case rank < 0:
			out[i] = math.Inf(-1)
		case rank > inner-1 && a.above > 0 || inner == 0:
			out[i] = math.Inf(1)
		case inner == 1:
			out[i] = g.at(a, 0)
		default:
			out[i] = g.at(a, min(1, rank/(inner-1)))
		}
	}
	return out
}

func (QuantilesOf[V]) at(a *Sketch, q float64) float64 {
	x, err := a.values.GetValueAtQuantile(q)
	if err != nil {
		return math.NaN()
	}
	return x
}

// Append appends the accumulator's bytes.
func (g QuantilesOf[V]) Append(dst []byte, a *Sketch) []byte {
	dst = appendFloat(append(dst, version), g.accuracy)
	dst = appendInt(appendInt(appendInt(dst, a.nan), a.above), a.below)
	if a.values == nil {
		return dst
	}
	var b []byte
	a.values.Encode(&b, true)
	return append(dst, b...)
}

// Decode reads what Append made.
func (g QuantilesOf[V]) Decode(src []byte, a *Sketch) error {
	*a = Sketch{}
	d := newDecoder(src)
	accuracy := d.float()
	nan, above, below := d.count(), d.count(), d.count()
	if d.err != nil {
		return d.err
	}
	if accuracy != g.accuracy {
		return fmt.Errorf("%w: a sketch of accuracy %v, not %v", ErrEncoding, accuracy, g.accuracy)
	}
	a.nan, a.above, a.below = nan, above, below
	if len(d.b) == 0 {
		return nil
	}
	s, err := ddsketch.DecodeDDSketch(d.b, g.provider, g.mapping)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	a.values = s
	return nil
}
