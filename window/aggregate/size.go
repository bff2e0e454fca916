package aggregate

import (
	"reflect"
	"unsafe"

	"github.com/DataDog/sketches-go/ddsketch/store"
)

// mapBytes is what an entry of a map takes besides its key and value, about, as full as maps are on average.
const mapBytes = 16

// sizer is the function by which an aggregate counts what its accumulators refer to, see window.Sizer; nil where they refer to nothing.
func sizer[A any](g any) func(*A) int {
	if s, ok := g.(interface{ Sizer() func(*A) int }); ok {
		return s.Sizer()
	}
	return nil
}

// refers says whether values of a type refer to memory of their own.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return refers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if refers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.String, reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return true
	}
	return false
}

// referred is how many bytes a value refers to: those of strings, slices and maps, and what pointers point to, a few levels deep. It
// depends on lengths and not on capacities.
func referred(v reflect.Value, depth int) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n = v.Len() * int(v.Type().Elem().Size())
		}
		for i := 0; depth > 0 && refers(v.Type().Elem()) && i < v.Len(); i++ {
			n += referred(v.Index(i), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += referred(v.Field(i), depth)
		}
	case reflect.Map:
		n = v.Len() * (int(v.Type().Key().Size()+v.Type().Elem().Size()) + mapBytes)
		for e := v.MapRange(); depth > 0 && e.Next(); {
			n += referred(e.Key(), depth-1) + referred(e.Value(), depth-1)
		}
	case reflect.Pointer, reflect.Interface:
		if depth > 0 && !v.IsNil() {
			n = int(v.Elem().Type().Size()) + referred(v.Elem(), depth-1)
		}
	}
	return n
}

const referredDepth = 4

// referredOf is referred of a value that an accumulator keeps, without an allocation for the usual ones.
func referredOf[T any](v T) int {
	switch s := any(v).(type) {
	case string:
		return len(s)
	case int, int64, int32, uint64, uint32, float64, float32:
		return 0
	}
	if !refers(reflect.TypeFor[T]()) {
		return 0
	}
	return referred(reflect.ValueOf(v), referredDepth)
}

// keptSizer is the Sizer of aggregates that keep one value.
func keptSizer[T any]() func(*Kept[T]) int {
	if !refers(reflect.TypeFor[T]()) {
		return nil
	}
	return func(a *Kept[T]) int { return referredOf(a.Value) }
}

// Sizer counts a value that refers to memory.
func (ExtremeOf[V, T]) Sizer() func(*Kept[T]) int { return keptSizer[T]() }

// Sizer counts a value that refers to memory.
func (EdgeOf[V, T]) Sizer() func(*Kept[T]) int { return keptSizer[T]() }

// Sizer counts the values.
func (CollectOf[V, T]) Sizer() func(*Collection[T]) int {
	one := int(unsafe.Sizeof(Kept[T]{}))
	return func(a *Collection[T]) int { return one*len(a.kept) + a.referred }
}

// Sizer counts the counters and the values that they are of.
func (TopKOf[V, T]) Sizer() func(*Tops[T]) int {
	var zero T
	one := int(unsafe.Sizeof(zero)) + 8 + mapBytes
	return func(a *Tops[T]) int { return one*len(a.counts) + a.referred }
}

// Sizer counts the buckets.
func (HistogramOf[V]) Sizer() func(*[]int64) int {
	return func(a *[]int64) int { return 8 * len(*a) }
}

// Sizer counts the registers: 16 KiB, and less for few events.
func (DistinctOf[V]) Sizer() func(*Distincts) int {
	const header, event, dense = 256, 12, 1<<14 + 256
	return func(a *Distincts) int {
		if a.sketch == nil {
			return 0
		}
		return int(min(header+event*a.events, dense))
	}
}

// Sizer counts the bins.
func (QuantilesOf[V]) Sizer() func(*Sketch) int {
	const header = 256
	return func(a *Sketch) int {
		if a.values == nil {
			return 0
		}
		return header + binBytes(a.values.GetPositiveValueStore()) + binBytes(a.values.GetNegativeValueStore())
	}
}

func binBytes(s store.Store) int {
	const spare = 32
	least, err := s.MinIndex()
	most, failed := s.MaxIndex()
	if err != nil || failed != nil { // it is empty
		return 0
	}
	return 8 * (most - least + 1 + spare)
}

// Sizer counts what both refer to.
func (p PairOf[V, A, B, RA, RB, R]) Sizer() func(*Acc2[A, B]) int {
	a, b := sizer[A](p.a), sizer[B](p.b)
	switch {
	case a == nil && b == nil:
		return nil
	case b == nil:
		return func(acc *Acc2[A, B]) int { return a(&acc.A) }
	case a == nil:
		return func(acc *Acc2[A, B]) int { return b(&acc.B) }
	}
	return func(acc *Acc2[A, B]) int { return a(&acc.A) + b(&acc.B) }
}

// Sizer counts what the aggregate's accumulators refer to.
func (g FiniteOf[V, A, R]) Sizer() func(*A) int { return sizer[A](g.Aggregator) }

// Sizer counts what the aggregate's accumulators refer to.
func (g SkippingOf[V, A, R]) Sizer() func(*Acc2[A, int64]) int {
	size := sizer[A](g.g)
	if size == nil {
		return nil
	}
	return func(acc *Acc2[A, int64]) int { return size(&acc.A) }
}
