package aggregate

import (
	"cmp"
	"math"
	"reflect"
)

// Kept is the value that Min, Max, First or Last keeps.
type Kept[T any] struct {
	Value T
	At    int64 // of First and Last: the event's time
	Set   bool
}

// ExtremeOf is made by Min and Max.
type ExtremeOf[V any, T cmp.Ordered] struct {
	f    func(V) T
	sign int
}

// Min is the least f; the zero T for no events. A NaN makes it NaN, and -0 is less than 0.
func Min[V any, T cmp.Ordered](f func(V) T) ExtremeOf[V, T] { return ExtremeOf[V, T]{f, -1} }

// Max is the greatest f; the zero T for no events. A NaN makes it NaN, and 0 is greater than -0.
func Max[V any, T cmp.Ordered](f func(V) T) ExtremeOf[V, T] { return ExtremeOf[V, T]{f, 1} }

// Add adds one event.
func (g ExtremeOf[V, T]) Add(a *Kept[T], v V) { g.keep(a, g.f(v)) }

func (g ExtremeOf[V, T]) keep(a *Kept[T], x T) {
	switch {
	case x != x:
		a.Value, a.Set = notANumber[T](), true
	case !a.Set:
		a.Value, a.Set = x, true
	case a.Value != a.Value: // it stays
	case cmp.Compare(x, a.Value) == g.sign, isZero(x) && x == a.Value && negative(x) == (g.sign < 0):
		a.Value = x
	}
}

// notANumber is the one NaN that stands for all, so that which of them came first cannot be seen.
func notANumber[T cmp.Ordered]() (x T) {
	if v := reflect.ValueOf(&x).Elem(); v.CanFloat() {
		v.SetFloat(math.NaN())
	}
	return x
}

func isZero[T cmp.Ordered](x T) bool {
	var zero T
	return x == zero
}

// negative says whether a zero is -0.
func negative[T cmp.Ordered](x T) bool {
	v := reflect.ValueOf(x)
	return v.CanFloat() && math.Signbit(v.Float())
}

// Merge adds the events of from.
func (g ExtremeOf[V, T]) Merge(into *Kept[T], from Kept[T]) {
	if from.Set {
		g.keep(into, from.Value)
	}
}

// Result is the extreme.
func (ExtremeOf[V, T]) Result(a *Kept[T]) T { return a.Value }

// Append appends the accumulator's bytes.
func (ExtremeOf[V, T]) Append(dst []byte, a *Kept[T]) []byte { return appendKept(dst, a, Scalar[T]()) }

// Decode reads what Append made.
func (ExtremeOf[V, T]) Decode(src []byte, a *Kept[T]) error { return decodeKept(src, a, Scalar[T]()) }

func appendKept[T any](dst []byte, a *Kept[T], c Codec[T]) []byte {
	dst = append(dst, version)
	if !a.Set {
		return append(dst, 0)
	}
	return c.Append(appendInt(append(dst, 1), a.At), a.Value)
}

func decodeKept[T any](src []byte, a *Kept[T], c Codec[T]) error {
	*a = Kept[T]{}
	d := newDecoder(src)
	switch d.byte() {
	case 0:
		return d.end()
	case 1:
		a.At = d.int()
	default:
		d.fail("value")
	}
	if d.err != nil {
		return d.err
	}
	v, err := c.Decode(d.b)
	if err != nil {
		return err
	}
	a.Value, a.Set = v, true
	return nil
}

// EdgeOf is made by First and Last.
type EdgeOf[V, T any] struct {
	f     func(V) T
	at    func(V) int64
	codec Codec[T]
	sign  int
}

// First is f of the event that is earliest by at: its timestamp, or an offset. Of events at one time it is the one that came
// first; give them different numbers, such as the position in the log, where the result must not depend on how partitions are interleaved.
func First[V, T any](f func(V) T, at func(V) int64, codec Codec[T]) EdgeOf[V, T] {
	return EdgeOf[V, T]{f, at, codec, -1}
}

// Last is f of the event that is latest by at. Of events at one time it is the one that came first, as in First.
func Last[V, T any](f func(V) T, at func(V) int64, codec Codec[T]) EdgeOf[V, T] {
	return EdgeOf[V, T]{f, at, codec, 1}
}

// Add adds one event.
func (g EdgeOf[V, T]) Add(a *Kept[T], v V) {
	if at := g.at(v); !a.Set || cmp.Compare(at, a.At) == g.sign {
		*a = Kept[T]{g.f(v), at, true}
	}
}

// Merge adds the events of from.
func (g EdgeOf[V, T]) Merge(into *Kept[T], from Kept[T]) {
	if from.Set && (!into.Set || cmp.Compare(from.At, into.At) == g.sign) {
		*into = from
	}
}

// Result is the value, the zero T for no events.
func (EdgeOf[V, T]) Result(a *Kept[T]) T { return a.Value }

// Append appends the accumulator's bytes.
func (g EdgeOf[V, T]) Append(dst []byte, a *Kept[T]) []byte { return appendKept(dst, a, g.codec) }

// Decode reads what Append made.
func (g EdgeOf[V, T]) Decode(src []byte, a *Kept[T]) error { return decodeKept(src, a, g.codec) }
