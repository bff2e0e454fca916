package window

import (
	"math"
	"math/bits"
	"time"
)

// slider cuts time for sliding windows into slices at every start and end of a window. An event is added to one slice, and a window is
// a run of slices, so that an event costs the same however many windows it is in. Windows and slices are numbered from 1970 on; there
// are two slices a slide, or one where the slide divides the size:
//
//	windows   |-------------|
//	                |-------------|
//	slices    |  0  |1| 2   |3|      size = 7, slide = 3: [0,1) [1,3) [3,4) ...
type slider struct {
	size, slide, offset time.Duration
	rest                time.Duration // size mod slide: where the second slice of a slide begins
	per, span           int64         // slices in a slide and in a window
	lateness            time.Duration
	timers              timers
	kept                int64 // the first slice that is kept where windows fire
	memo                int64 // a window's number, and that window
	memoized            Window
	slideNumber         int64 // of the last event; when that slide and its second slice begin, and its end
	begin, middle, end  Timestamp
	open, keep          reign
}

// reign is for which watermarks, from and until, a window is the first.
type reign struct {
	from, until Timestamp
	window      int64
}

// sliced says whether windows can share slices, and every slice up to the ends of time has a number.
func (a Assigner) sliced() bool {
	return a.kind == sliding && a.slide < a.size && (a.slide > 2 || a.size%a.slide == 0)
}

func newSlider(a Assigner, lateness time.Duration) *slider {
	z := &slider{
		size: a.size, slide: a.slide, offset: floorMod(Timestamp(a.offset), a.slide, 0), rest: a.size % a.slide, per: 1,
		span: int64(a.size / a.slide), lateness: lateness, timers: newTimers(),
	}
	z.memoized = z.windowAt(0)
	if z.rest > 0 {
		z.per = 2
		z.span = 2*z.span + 1
	}
	return z
}

// locate finds the slice of an event, and the first and the last window that it is in.
func (z *slider) locate(t Timestamp) (slice, first, last int64) {
	if t < z.begin || t >= z.end { // events often follow their like
		within := floorMod(t, z.slide, z.offset)
		z.slideNumber, z.begin, z.middle, z.end = z.slideOf(t), t.Add(-within), t.Add(z.rest-within), t.Add(z.slide-within)
	}
	last = z.slideNumber
	slice, first = last*z.per, z.before(last, z.size)
	switch {
	case z.per == 1:
		first++
	case t >= z.middle:
		slice++
		first++
	}
	return slice, first, last
}

// slideOf is the number of the last window that has begun at t.
func (z *slider) slideOf(t Timestamp) int64 {
	n, m := int64(t)/int64(z.slide), time.Duration(t)%z.slide
	if m < 0 {
		n, m = n-1, m+z.slide
	}
	if m < z.offset {
		n--
	}
	return n
}

// firstOf is the first window that a slice is in; the last is slice/per, rounded down.
func (z *slider) firstOf(slice int64) int64 {
	within := time.Duration(0)
	if floorDiv(slice, z.per)*z.per != slice {
		within = z.rest
	}
	return z.before(floorDiv(slice, z.per), z.size-within-1)
}

// before is the window that begins so many slides before another as there are in d, or the first that there is.
func (z *slider) before(n int64, d time.Duration) int64 {
	return max(int64(Timestamp(n).Add(-d/z.slide)), math.MinInt64/z.per)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// window is the window of a number.
func (z *slider) window(n int64) Window {
	if n != z.memo {
		z.memo, z.memoized = n, z.windowAt(n)
	}
	return z.memoized
}

func (z *slider) windowAt(n int64) Window { return Window{z.instant(n, 0), z.instant(n, z.size)} }

// instant is so long after the start of a window, or the end of time that is nearer.
func (z *slider) instant(n int64, after time.Duration) Timestamp {
	hi, lo := bits.Mul64(uint64(n), uint64(z.slide))
	if n < 0 {
		hi -= uint64(z.slide)
	}
	for _, d := range [...]time.Duration{z.offset, after} {
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(d), 0)
		hi += carry
	}
	switch {
	case int64(hi) == int64(lo)>>63:
		return Timestamp(lo)
	case int64(hi) < 0:
		return MinTimestamp
	}
	return MaxTimestamp
}

// number is that of a window. One that begins before time is known by its end.
func (z *slider) number(w Window) int64 {
	if w.Start == MinTimestamp {
		return z.slideOf(w.End) - int64(z.size/z.slide)
	}
	return z.slideOf(w.Start)
}

// firstOpen is the first window that a watermark has not passed.
func (z *slider) firstOpen(watermark Timestamp) int64 { return z.first(&z.open, watermark) }

// firstKept is the first window for which late events are still allowed at a watermark.
func (z *slider) firstKept(watermark Timestamp) int64 {
	if watermark < MaxTimestamp { // the end of lateness saturates there
		watermark = watermark.Add(-z.lateness)
	}
	return z.first(&z.keep, watermark)
}

func (z *slider) first(r *reign, watermark Timestamp) int64 {
	if watermark >= r.from && watermark < r.until {
		return r.window
	}
	if watermark >= MaxTimestamp-1 {
		return math.MaxInt64 / z.per
	}
	n := z.before(z.before(z.slideOf(watermark), z.size), z.slide)
	for z.window(n).last() <= watermark {
		n++
	}
	*r = reign{watermark, z.window(n).last(), n}
	return n
}

// real says whether a slice is one of Timestamps.
func (z *slider) real(slice int64) bool {
	const last = 1<<63 - 1
	n := floorDiv(slice, z.per)
	return n != -1<<63 && max(n, -n)-1 <= last/int64(z.slide)
}
