package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// model computes PerEvent windows from the rules alone, from all events each time.
type model struct {
	size, lateness int64
	watermark      int64
	events         []input
	watermarks     []int64 // before each event
}

// window is the value of a key's window at an instant, of the events for which take says so.
func (m *model) window(key string, at int64, take func(i int) bool) (sum, count int64) {
	for i, e := range m.events {
		if e.Key == key && e.TS >= at-m.size && e.TS <= at && take(i) {
			sum += e.Value
			count++
		}
	}
	return sum, count
}

// instants are the times of a key's events from one to another.
func (m *model) instants(key string, from, to int64) []int64 {
	var ts []int64
	for _, e := range m.events {
		if e.Key == key && e.TS >= from && e.TS <= to {
			ts = append(ts, e.TS)
		}
	}
	slices.Sort(ts)
	return slices.Compact(ts)
}

func (m *model) line(key string, at, sum, count int64, k Kind) string {
	return fmt.Sprint(key, " ", at-m.size, " ", at+1, " ", sum, " ", count, " ", k)
}

func everything(int) bool { return true }

// add is an event; the results are updates.
func (m *model) add(e input) (results []string, o Outcome) {
	if e.TS+m.size+m.lateness <= m.watermark {
		return nil, Late
	}
	m.events, m.watermarks = append(m.events, e), append(m.watermarks, m.watermark)
	for _, at := range m.instants(e.Key, max(e.TS, m.watermark-m.lateness+1), min(e.TS+m.size, m.watermark)) {
		sum, count := m.window(e.Key, at, everything)
		results = append(results, m.line(e.Key, at, sum, count, Updated))
	}
	return results, Accepted
}

// advance is a watermark; the results are of the windows that it passes.
func (m *model) advance(watermark int64) (results []string) {
	for at := m.watermark + 1; at <= watermark; at++ {
		for _, key := range []string{"a", "b", "c"} {
			if len(m.instants(key, at, at)) > 0 {
				sum, count := m.window(key, at, everything)
				results = append(results, m.line(key, at, sum, count, OnTime))
			}
		}
	}
	m.watermark = max(m.watermark, watermark)
	return results
}

// removable is tallying for sums and counts, which can be taken out again.
type removable struct{ tallying }

func (removable) Remove(from *tally, part tally) bool {
	from.Sum -= part.Sum
	from.Count -= part.Count
	return part.Sum%7 != 0 // sometimes it cannot
}

// TestPerEventAgainstModel gives random events, late ones among them, to the operator with and without Remove, and compares each result.
func TestPerEventAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	updates, late, kept := 0, 0, 0
	for run := range fewer(300) {
		m := &model{size: 1 + r.Int64N(40), lateness: r.Int64N(3) * 10, watermark: -1000}
		o := Options{Watermark: Punctuated(), AllowedLateness: time.Duration(m.lateness)}
		var g Aggregator[input, tally, tally] = tallying{}
		if run%2 == 0 {
			g = removable{}
		}
		op, err := New(keyOf, PerEvent(time.Duration(m.size)), g, spilling(o))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		emit := func(x Result[string, tally]) {
			got = append(got, m.line(x.Key, int64(x.Window.End-1), x.Value.Sum, x.Value.Count, x.Kind))
			if x.Window.End-x.Window.Start != Timestamp(m.size)+1 {
				t.Fatalf("window %v", x.Window)
			}
		}
		op.Advance(0, Timestamp(m.watermark), emit)
		at := int64(-100)
		for range 150 {
			at += r.Int64N(5)
			e := input{Key: string(rune('a' + r.IntN(3))), TS: at - r.Int64N(30), Value: 1 + r.Int64N(9)}
			results, outcome := m.add(e)
			want, updates = append(want, results...), updates+len(results)
			if o, err := op.Process(0, Timestamp(e.TS), e, emit); err != nil || o != outcome {
				t.Fatalf("event %+v at %d: %v, %v, want %v", e, m.watermark, o, err, outcome)
			}
			if outcome == Late {
				late++
			} else if e.TS+m.lateness <= m.watermark {
				kept++
			}
			if r.IntN(3) == 0 {
				w := at - r.Int64N(25)
				want = append(want, m.advance(w)...)
				op.Advance(0, Timestamp(w), emit)
			}
			if end := at - r.Int64N(60); end > m.watermark-m.lateness {
				sum, count := m.window(e.Key, end, everything)
				if x, ok := op.Query(e.Key, op.assigner.trailing(Timestamp(end))); !ok || x.Sum != sum || x.Count != count {
					t.Fatalf("query at %d: %+v %v, want %d %d", end, x, ok, sum, count)
				}
			} else if _, ok := op.Query(e.Key, op.assigner.trailing(Timestamp(end))); ok {
				t.Fatalf("a query at %d behind watermark %d and lateness %d", end, m.watermark, m.lateness)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("size %d, lateness %d\ngot  %q\nwant %q", m.size, m.lateness, got[max(0, len(got)-9):], want[max(0, len(want)-9):])
			}
		}
		want = append(want, m.advance(at)...)
		op.Finish(emit)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		if op.Keys() != 0 {
			t.Fatalf("%d keys at the end", op.Keys())
		}
	}
	if updates < 100 || late < 100 || kept < 100 {
		t.Errorf("%d updates, %d late, %d kept for others: the events show nothing", updates, late, kept)
	}
}

// TestPerEventDeterministic compares a deterministic operator with the rule: a window first has what was on time for it by its own partition's
// watermark, and once more, if it differs, what was not later than allowed.
func TestPerEventDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	updates := 0
	for range fewer(200) {
		m := &model{size: 1 + r.Int64N(40), lateness: r.Int64N(3) * 10}
		bound := r.Int64N(12)
		op := newOperator(t, PerEvent(time.Duration(m.size)), Options{
			Watermark: BoundedOutOfOrderness(time.Duration(bound)), AllowedLateness: time.Duration(m.lateness), Deterministic: true, Partitions: 2,
		})
		got := map[string]bool{}
		emit := func(x Result[string, tally]) {
			line := m.line(x.Key, int64(x.Window.End-1), x.Value.Sum, x.Value.Count, x.Kind)
			if got[line] {
				t.Fatalf("%s comes twice", line)
			}
			got[line] = true
		}
		parts := [][]input{stream(r, 80), stream(r, 50)}
		marks, next := []int64{-1 << 40, -1 << 40}, []int{0, 0}
		for next[0] < len(parts[0]) || next[1] < len(parts[1]) {
			p := r.IntN(2)
			if next[p] == len(parts[p]) {
				p = 1 - p
			}
			e := parts[p][next[p]]
			next[p]++
			want := Accepted
			if e.TS+m.size+m.lateness <= marks[p] {
				want = Late
			} else {
				m.events, m.watermarks = append(m.events, e), append(m.watermarks, marks[p])
			}
			if o, err := op.Process(p, Timestamp(e.TS), e, emit); err != nil || o != want {
				t.Fatalf("%v %v, want %v", o, err, want)
			}
			marks[p] = max(marks[p], e.TS-bound-1)
		}
		op.Finish(emit)
		want := map[string]bool{}
		for _, key := range []string{"a", "b", "c"} {
			for _, at := range m.instants(key, -1<<40, 1<<40) {
				onTime := func(i int) bool { return m.watermarks[i] < at }
				allowed := func(i int) bool { return m.watermarks[i] < at+m.lateness }
				own := func(take func(int) bool) bool {
					for i, e := range m.events {
						if e.Key == key && e.TS == at && take(i) {
							return true
						}
					}
					return false
				}
				sum, count := m.window(key, at, onTime)
				first := own(onTime)
				if first {
					want[m.line(key, at, sum, count, OnTime)] = true
				}
				if again, n := m.window(key, at, allowed); own(allowed) && (!first || n != count) {
					want[m.line(key, at, again, n, Updated)] = true
					updates++
				}
			}
		}
		for line := range want {
			if !got[line] {
				t.Fatalf("size %d, lateness %d: %s is missing; got %v", m.size, m.lateness, line, got)
			}
		}
		for line := range got {
			if !want[line] {
				t.Fatalf("size %d, lateness %d: %s is wrong; want %v", m.size, m.lateness, line, want)
			}
		}
		if len(got) != len(want) || op.Keys() != 0 {
			t.Fatalf("%d results, want %d; %d keys left", len(got), len(want), op.Keys())
		}
	}
	if updates < 100 {
		t.Errorf("%d updates", updates)
	}
}

// TestPerEventOptions has what the other tests have not: old values taken back, bounds, and reading alone.
func TestPerEventOptions(t *testing.T) {
	got := runLines(t, PerEvent(10), Options{AllowedLateness: 20, Accumulation: Retracting, Watermark: Punctuated()},
		"k 5", "k 12", "watermark 12", "k 8", "k 4")
	want := []string{
		"k [-5,6) 1 on time", "k [2,13) 2 on time",
		"k [-2,9) 2 updated", "k [2,13) 2 retraction", "k [2,13) 3 updated",
		"k [-6,5) 1 updated", "k [-5,6) 1 retraction", "k [-5,6) 2 updated",
		"k [-2,9) 2 retraction", "k [-2,9) 3 updated", "k [2,13) 3 retraction", "k [2,13) 4 updated",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	got = runLines(t, PerEvent(10), Options{MaxWindowsPerKey: 2, Watermark: Punctuated()}, "k 1", "k 2", "k 3", "k 2", "watermark 12", "k 3")
	want = []string{"k 3 refused", "k [-9,2) 1 on time", "k [-8,3) 3 on time"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	op := newOperator(t, PerEvent(10), Options{Trigger: Trigger{NoWatermark: true, LateCount: -1}})
	for at := range Timestamp(10_000) {
		if _, err := op.Process(0, at, input{Key: "k", TS: int64(at), Value: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if x, ok := op.Query("k", Window{9990, 10_500}); !ok || x.Count != 10 {
		t.Errorf("%+v %v", x, ok)
	}
	if n := op.keys.at(0).trail.layers[0].instants.size; n > 12 {
		t.Errorf("%d instants are kept", n)
	}
	for _, o := range []Options{{Accumulation: Discarding}, {Trigger: Trigger{EarlyCount: 1}}, {Trigger: Trigger{NoWatermark: true}}} {
		if _, err := New(keyOf, PerEvent(10), tallying{}, o); err == nil {
			t.Errorf("%+v is not refused", o)
		}
	}
}

// TestInstants compares the tree with a sorted list, and its form with that of another order of the same instants.
func TestInstants(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	add := func(into *int64, from int64) { *into += from }
	for range 200 {
		var tree instants[int64]
		sums := map[Timestamp]int64{}
		spread := int64(1) << r.IntN(63)
		for range 100 {
			switch at := Timestamp(r.Int64N(spread) - spread/2); r.IntN(8) {
			case 0:
				tree.prune(at - Timestamp(spread/4))
				for k := range sums {
					if k < at-Timestamp(spread/4) {
						delete(sums, k)
					}
				}
			default:
				leaf, added := tree.change(at)
				if _, known := sums[at]; added == known {
					t.Fatal("an instant twice, or never")
				}
				leaf.acc++
				leaf.events++
				sums[at]++
			}
			from, to := Timestamp(r.Int64N(spread)-spread/2), Timestamp(r.Int64N(spread)-spread/2)
			var got, want int64
			n := tree.merge(add, from, to, &got)
			for at, k := range sums {
				if from <= at && at <= to {
					want += k
				}
			}
			if got != want || n != want || tree.size != len(sums) {
				t.Fatalf("[%d,%d] has %d (%d), want %d", from, to, got, n, want)
			}
		}
		times := tree.times(MinTimestamp, MaxTimestamp, nil)
		if !slices.IsSorted(times) || len(times) != len(sums) {
			t.Fatal("order")
		}
		if len(times) > 0 && (tree.nodes[tree.oldest].at() != times[0] || tree.newest() != times[len(times)-1]) {
			t.Fatal("ends")
		}
		if live := len(tree.nodes) - len(tree.free); live != max(0, 2*tree.size-1) {
			t.Fatalf("%d nodes for %d instants", live, tree.size)
		}
		var other instants[int64]
		r.Shuffle(len(times), func(i, j int) { times[i], times[j] = times[j], times[i] })
		for _, at := range times {
			leaf, _ := other.change(at)
			leaf.acc, leaf.events = sums[at], sums[at]
		}
		if form(&tree, tree.start()) != form(&other, other.start()) {
			t.Fatal("the form depends on the order")
		}
	}
}

func form(t *instants[int64], i int32) string {
	if i == noInstant {
		return ""
	}
	n := &t.nodes[i]
	if n.bit < 0 {
		return fmt.Sprint(n.first)
	}
	return fmt.Sprintf("(%d: %s %s)", n.bit, form(t, n.child[0]), form(t, n.child[1]))
}

// BenchmarkPerEvent makes the window longer at the same disorder, and the disorder larger in the same window; a sum can be removed from, a
// maximum cannot. "naive" is what one writes without: a sorted list of events, added up at each, in plain float64.
func BenchmarkPerEvent(b *testing.B) {
	price := func(c click) float64 { return c.n }
	for _, c := range []struct {
		size, disorder int
	}{{100, 16}, {1000, 16}, {10_000, 16}, {100_000, 16}, {10_000, 256}, {10_000, 4096}} {
		es := disordered(200_000, c.disorder)
		size, bound := time.Duration(c.size)*time.Millisecond, time.Duration(c.disorder)*time.Millisecond
		name := fmt.Sprintf("events=%d/disorder=%d", c.size, c.disorder)
		b.Run("sum/"+name, func(b *testing.B) { perEvents(b, aggregate.Sum(price), es, size, bound) })
		b.Run("max/"+name, func(b *testing.B) { perEvents(b, aggregate.Max(price), es, size, bound) })
		if c.size <= 10_000 && c.disorder == 16 {
			b.Run("naive/"+name, func(b *testing.B) { naivePerEvent(b, es, Timestamp(size), Timestamp(bound)) })
		}
	}
}

// disordered are events of one key, one a millisecond, shuffled inside blocks.
func disordered(n, block int) []click {
	es := clicks(n, 1)
	r := rand.New(rand.NewPCG(2, 2))
	for i := range es {
		es[i].at = Timestamp(i) * Timestamp(time.Millisecond)
	}
	for i := 0; i+block <= n; i += block {
		r.Shuffle(block, func(x, y int) { es[i+x].at, es[i+y].at = es[i+y].at, es[i+x].at })
	}
	return es
}

func perEvents[A any](b *testing.B, g Aggregator[click, A, float64], es []click, size, bound time.Duration) {
	b.Helper()
	b.ReportAllocs()
	results := 0
	for range b.N {
		op, err := New(func(c click) string { return c.key }, PerEvent(size), g, Options{Watermark: BoundedOutOfOrderness(bound)})
		if err != nil {
			b.Fatal(err)
		}
		emit := func(Result[string, float64]) { results++ }
		for i := range es {
			if _, err := op.Process(0, es[i].at, es[i], emit); err != nil {
				b.Fatal(err)
			}
		}
		op.Finish(emit)
	}
	if results != b.N*len(es) {
		b.Fatalf("%d results", results)
	}
	b.ReportMetric(float64(len(es))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func naivePerEvent(b *testing.B, es []click, size, bound Timestamp) {
	b.Helper()
	results := 0
	for range b.N {
		var list []click
		fired, greatest := 0, MinTimestamp
		for _, e := range es {
			i, _ := slices.BinarySearchFunc(list, e.at, func(c click, at Timestamp) int { return int(c.at - at) })
			list = slices.Insert(list, i, e)
			greatest = max(greatest, e.at)
			for ; fired < len(list) && list[fired].at < greatest-bound; fired++ {
				sum := 0.0
				from := fired
				for ; from >= 0 && list[from].at >= list[fired].at-size; from-- {
					sum += list[from].n
				}
				results++
				if from > 0 {
					list, fired = list[from:], fired-from
				}
			}
		}
	}
	b.ReportMetric(float64(len(es))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
