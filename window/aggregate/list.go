package aggregate

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// Item is a value of TopK and how often it came.
type Item[T cmp.Ordered] struct {
	Value T
	// Count is at least this; the true count is at most Error more. Error is 0 as long as the distinct values fit.
	Count, Error int64
}

// Tops are the counters of TopK.
type Tops[T cmp.Ordered] struct {
	counts  map[T]int64
	nan     int64 // of NaN, which no map finds again
	missing int64 // at most so much is missing from each count
	// referred is how many bytes the values refer to.
	referred int
}

// TopKOf is made by TopK.
type TopKOf[V any, T cmp.Ordered] struct {
	f        func(V) T
	k, limit int
}

// TopK finds the k most frequent values of f with their counts, most frequent first and equal ones in order. All NaN are one
// value, and -0 is 0. It keeps counters for up to 2·capacity values, and is exact, whatever the order, while there are no more.
// Beyond, it is the mergeable summary of Misra and Gries: a count is short by at most Item.Error, which is at most
// events/capacity. A capacity below k is k.
func TopK[V any, T cmp.Ordered](f func(V) T, k, capacity int) TopKOf[V, T] {
	return TopKOf[V, T]{f, k, max(capacity, k, 1)}
}

// Add adds one event.
func (g TopKOf[V, T]) Add(a *Tops[T], v V) {
	if a.counts == nil {
		a.counts = make(map[T]int64)
	}
	a.add(g.f(v), 1)
	g.trim(a)
}

func (a *Tops[T]) add(v T, n int64) {
	switch {
	case v != v:
		a.nan += n
		return
	case isZero(v):
		var zero T
		v = zero
	}
	old, known := a.counts[v]
	if a.counts[v] = old + n; !known {
		a.referred += referredOf(v)
	}
}

// trim takes the count behind the largest from all when there are too many, so that this happens once in so many events.
func (g TopKOf[V, T]) trim(a *Tops[T]) {
	if len(a.counts) <= 2*g.limit {
		return
	}
	counts := make([]int64, 0, len(a.counts))
	for _, n := range a.counts {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(x, y int64) int { return cmp.Compare(y, x) })
	cut := counts[g.limit]
	a.missing += cut
	for v, n := range a.counts {
		if n <= cut {
			delete(a.counts, v)
			a.referred -= referredOf(v)
		} else {
			a.counts[v] = n - cut
		}
	}
}

// Merge adds the events of from.
func (g TopKOf[V, T]) Merge(into *Tops[T], from Tops[T]) {
	if into.counts == nil {
		into.counts = make(map[T]int64, len(from.counts))
	}
	for v, n := range from.counts {
		into.add(v, n)
	}
	into.nan += from.nan
	into.missing += from.missing
	g.trim(into)
}

// Result has up to k values.
func (g TopKOf[V, T]) Result(a *Tops[T]) []Item[T] {
	items := g.items(a)
	slices.SortFunc(items, func(x, y Item[T]) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Value, y.Value))
	})
	return slices.Clip(items[:min(g.k, len(items))])
}

func (TopKOf[V, T]) items(a *Tops[T]) []Item[T] {
	items := make([]Item[T], 0, len(a.counts)+1)
	for v, n := range a.counts {
		items = append(items, Item[T]{v, n, a.missing})
	}
	if a.nan > 0 {
		items = append(items, Item[T]{notANumber[T](), a.nan, 0})
	}
	return items
}

// Append appends the accumulator's bytes, the values in order.
func (g TopKOf[V, T]) Append(dst []byte, a *Tops[T]) []byte {
	dst = appendInt(append(dst, version), a.missing)
	items := g.items(a)
	slices.SortFunc(items, func(x, y Item[T]) int { return cmp.Compare(x.Value, y.Value) })
	for _, item := range items {
		dst = appendBytes(appendInt(dst, item.Count), Scalar[T]().Append(nil, item.Value))
	}
	return dst
}

// Decode reads what Append made.
func (g TopKOf[V, T]) Decode(src []byte, a *Tops[T]) error {
	d := newDecoder(src)
	*a = Tops[T]{counts: make(map[T]int64), missing: d.count()}
	for d.err == nil && len(d.b) > 0 {
		n := d.count()
		v, err := Scalar[T]().Decode(d.bytes())
		switch {
		case d.err != nil:
		case err != nil:
			return err
		case n == 0 || len(a.counts) >= 2*g.limit:
			d.fail("counters")
		default:
			a.add(v, n)
		}
	}
	return d.end()
}

// Buckets are the counts of a Histogram. Counts[i] is for values up to Bounds[i], with it, and above the bound before; the last is for
// those above all bounds, +Inf among them.
type Buckets struct {
	Bounds []float64
	Counts []int64
	NaN    int64
}

// HistogramOf is made by Histogram.
type HistogramOf[V any] struct {
	f      func(V) float64
	bounds []float64
}

// Histogram counts f in buckets with these upper bounds, as Prometheus does. Bounds that do not increase are a mistake in the
// program, and panic.
func Histogram[V any](f func(V) float64, bounds ...float64) HistogramOf[V] {
	for i, b := range bounds {
		if b != b || i > 0 && b <= bounds[i-1] {
			panic("aggregate: the bounds of a histogram must increase")
		}
	}
	return HistogramOf[V]{f, slices.Clone(bounds)}
}

// Add adds one event. The accumulator's last element counts NaN.
func (g HistogramOf[V]) Add(a *[]int64, v V) {
	if *a == nil {
		*a = make([]int64, len(g.bounds)+2)
	}
	x := g.f(v)
	if x != x {
		(*a)[len(g.bounds)+1]++
		return
	}
	(*a)[sort.SearchFloat64s(g.bounds, x)]++
}

// Merge adds the events of from.
func (g HistogramOf[V]) Merge(into *[]int64, from []int64) {
	if *into == nil && from != nil {
		*into = make([]int64, len(g.bounds)+2)
	}
	for i, n := range from {
		(*into)[i] += n
	}
}

// Remove takes the events of part away.
func (HistogramOf[V]) Remove(from *[]int64, part []int64) bool {
	for i, n := range part {
		(*from)[i] -= n
	}
	return true
}

// Result has the counts. Bounds is shared by all results and must not be changed.
func (g HistogramOf[V]) Result(a *[]int64) Buckets {
	n := len(g.bounds) + 1
	if *a == nil {
		return Buckets{Bounds: g.bounds, Counts: make([]int64, n)}
	}
	return Buckets{g.bounds, slices.Clone((*a)[:n]), (*a)[n]}
}

// Append appends the accumulator's bytes.
func (HistogramOf[V]) Append(dst []byte, a *[]int64) []byte {
	dst = append(dst, version)
	for _, n := range *a {
		dst = appendInt(dst, n)
	}
	return dst
}

// Decode reads what Append made.
func (g HistogramOf[V]) Decode(src []byte, a *[]int64) error {
	d := newDecoder(src)
	*a = nil
	if d.err != nil || len(d.b) == 0 {
		return d.err
	}
	*a = make([]int64, len(g.bounds)+2)
	for i := range *a {
		(*a)[i] = d.count()
	}
	return d.end()
}

// Collected are values in order of their times.
type Collected[T any] struct {
	Values []T
	// Dropped is how many later values there was no room for.
	Dropped int64
}

// Collection is the accumulator of Collect.
type Collection[T any] struct {
	kept    []Kept[T]
	dropped int64
	// referred is how many bytes the values refer to.
	referred int
}

// CollectOf is made by Collect.
type CollectOf[V, T any] struct {
	f     func(V) T
	at    func(V) int64
	limit int
	codec Codec[T]
}

// Collect keeps the values of f of the earliest limit events, in the order of at: their timestamps, or offsets. Events at
// one time stay in the order in which they came; give them different numbers where the result must not depend on that.
func Collect[V, T any](f func(V) T, at func(V) int64, limit int, codec Codec[T]) CollectOf[V, T] {
	return CollectOf[V, T]{f, at, max(limit, 1), codec}
}

// Add adds one event.
func (g CollectOf[V, T]) Add(a *Collection[T], v V) {
	g.insert(a, Kept[T]{Value: g.f(v), At: g.at(v), Set: true})
}

func (g CollectOf[V, T]) insert(a *Collection[T], k Kept[T]) {
	i := sort.Search(len(a.kept), func(i int) bool { return a.kept[i].At > k.At })
	if len(a.kept) == g.limit {
		a.dropped++
		if i == g.limit {
			return
		}
		a.referred -= referredOf(a.kept[g.limit-1].Value)
		a.kept = a.kept[:g.limit-1]
	}
	a.referred += referredOf(k.Value)
	a.kept = slices.Insert(a.kept, i, k)
}

// Merge adds the events of from.
func (g CollectOf[V, T]) Merge(into *Collection[T], from Collection[T]) {
	for _, k := range from.kept {
		g.insert(into, k)
	}
	into.dropped += from.dropped
}

// Result has the values.
func (CollectOf[V, T]) Result(a *Collection[T]) Collected[T] {
	values := make([]T, len(a.kept))
	for i, k := range a.kept {
		values[i] = k.Value
	}
	return Collected[T]{values, a.dropped}
}

// Append appends the accumulator's bytes.
func (g CollectOf[V, T]) Append(dst []byte, a *Collection[T]) []byte {
	dst = appendInt(append(dst, version), a.dropped)
	for _, k := range a.kept {
		dst = appendBytes(appendInt(dst, k.At), g.codec.Append(nil, k.Value))
	}
	return dst
}

// Decode reads what Append made.
func (g CollectOf[V, T]) Decode(src []byte, a *Collection[T]) error {
	d := newDecoder(src)
	*a = Collection[T]{dropped: d.count()}
	for d.err == nil && len(d.b) > 0 {
		at := d.int()
		b := d.bytes()
		if n := len(a.kept); n >= g.limit || n > 0 && at < a.kept[n-1].At {
			d.fail("values")
		}
		if d.err != nil {
			break
		}
		v, err := g.codec.Decode(b)
		if err != nil {
			return err
		}
		a.referred += referredOf(v)
		a.kept = append(a.kept, Kept[T]{v, at, true})
	}
	return d.end()
}

// Fading is the accumulator of Decay: a sum in units of 2^Epoch half-lives ago.
type Fading struct {
	Sum   Exact
	Epoch int64 // a multiple of 64
	Last  int64
	Set   bool
}

// DecayOf is made by Decay.
type DecayOf[V any] struct {
	f        func(V) float64
	at       func(V) int64
	halfLife float64
}

// Decay is the sum of f in which each event has lost half of its weight every half-life up to the latest event of the window, by
// at, their timestamps in nanoseconds. Each weight is rounded, the sum is not, so the result does not depend on the order. An
// event that is 2,240 half-lives older than the latest has no weight at all. A half-life that is not positive is a mistake in the
// program, and panics.
func Decay[V any](f func(V) float64, at func(V) int64, halfLife time.Duration) DecayOf[V] {
	if halfLife <= 0 {
		panic("aggregate: a half-life must be positive")
	}
	return DecayOf[V]{f, at, float64(halfLife)}
}

// age is t in half-lives as a whole number and the rest.
func (g DecayOf[V]) age(t int64) (whole int64, rest float64) {
	h := int64(g.halfLife)
	whole = t / h
	if t%h < 0 {
		whole--
	}
	return whole, float64(t-whole*h) / g.halfLife
}

// Add adds one event.
func (g DecayOf[V]) Add(a *Fading, v V) {
	t := g.at(v)
	whole, rest := g.age(t)
	g.reach(a, t, whole)
	x, exponent := math.Frexp(g.f(v)) // so that nothing on the way is out of range
	switch late := epochs(a.Epoch, whole); {
	case late > -faded:
		a.Sum.addScaled(x*math.Exp2(rest), int32(whole-a.Epoch)+int32(exponent))
	case x-x != 0: // NaN and the infinities do not fade
		a.Sum.Add(x)
	}
}

// faded is after how many epochs the greatest float64 is less than the least one.
const faded = 36

// epochs is how many multiples of 64 half-lives are from one to another, without an overflow.
func epochs(from, to int64) int64 { return to>>6 - from>>6 }

// reach moves the units of a to those of time t.
func (g DecayOf[V]) reach(a *Fading, t, whole int64) {
	epoch := whole &^ 63
	if !a.Set {
		a.Epoch, a.Last, a.Set = epoch, t, true
	}
	a.Last = max(a.Last, t)
	if epoch > a.Epoch {
		a.Sum.halve(epochs(a.Epoch, epoch))
		a.Epoch = epoch
	}
}

// Merge adds the events of from.
func (g DecayOf[V]) Merge(into *Fading, from Fading) {
	if !from.Set {
		return
	}
	whole, _ := g.age(from.Last)
	g.reach(into, from.Last, whole)
	var older Exact
	older.Merge(&from.Sum)
	older.halve(epochs(from.Epoch, into.Epoch))
	into.Sum.Merge(&older)
}

// Result is the faded sum.
func (g DecayOf[V]) Result(a *Fading) float64 {
	whole, rest := g.age(a.Last)
	older, x := int(whole-a.Epoch), a.Sum.Float64()
	if a.Sum.overflows(x) { // in its units; half of it does not in those of Last
		v, exponent := a.Sum.integer()
		x, older = scaled(v, exponent-older-1), -1
	}
	return math.Ldexp(x*math.Exp2(-rest), -older) + 0 // which makes -0 of what is left of old ones 0
}

// Append appends the accumulator's bytes.
func (DecayOf[V]) Append(dst []byte, a *Fading) []byte {
	dst = append(dst, version)
	if !a.Set {
		return dst
	}
	return a.Sum.append(appendInt(appendInt(dst, a.Epoch/64), a.Last))
}

// Decode reads what Append made.
func (g DecayOf[V]) Decode(src []byte, a *Fading) error {
	*a = Fading{}
	d := newDecoder(src)
	if d.err != nil || len(d.b) == 0 {
		return d.err
	}
	epoch := d.int()
	a.Last = d.int()
	whole, _ := g.age(a.Last)
	a.Sum.decode(d)
	if a.Epoch, a.Set = whole&^63, true; epoch != a.Epoch/64 {
		d.fail("epoch")
	}
	return d.end()
}
