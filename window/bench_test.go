package window

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// clicks are events as in the Flink anchor: one a millisecond, shuffled inside blocks of 256, uniform keys.
type click struct {
	key string
	at  Timestamp
	n   float64
}

func clicks(n, keys int) []click {
	r := rand.New(rand.NewPCG(1, 1))
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user-%07d", i)
	}
	out := make([]click, n)
	for i := range out {
		out[i] = click{names[r.IntN(keys)], Timestamp(i) * Timestamp(time.Millisecond), float64(r.IntN(1000)) / 100}
	}
	for b := 0; b+256 <= n; b += 256 {
		r.Shuffle(256, func(i, j int) { out[b+i].at, out[b+j].at = out[b+j].at, out[b+i].at })
	}
	return out
}

type sumOperator = Operator[string, click, aggregate.Exact, float64]

func summing(b *testing.B, a Assigner) *sumOperator {
	b.Helper()
	op, err := New(func(c click) string { return c.key }, a, aggregate.Sum(func(c click) float64 { return c.n }),
		Options{Watermark: BoundedOutOfOrderness(2 * time.Second)})
	if err != nil {
		b.Fatal(err)
	}
	return op
}

// BenchmarkWindows runs the events of the Flink anchor. What no implementation can avoid is a look-up of the key in a hash table and a cache
// miss or two for its state, which "floor" measures: the same keys, a map, one addition.
//
// In one run on two cores of an AMD EPYC, the floor was 119 M events/s with 1,000 keys and 25 M with 100,000; tumbling windows were 8 and 6 times
// slower than it (14 M and 3.8 M), sliding ones 12 and 15 times (each event of 100,000 keys is in nine results), sessions 17 and 7 times (7.1 M
// and 3.7 M). With 100,000 keys an event needs the key's place in the index and its slot, with its first window or slices
// behind it, which Prefetch fetches for 32 events at once; a result needs the slot again, 32 keys at once. What is allocated is for keys and
// slices that are seen first. BenchmarkSnapshot says what a key has of its own memory and in a snapshot.
func BenchmarkWindows(b *testing.B) {
	const n = 400_000
	for _, keys := range []int{1000, 100_000} {
		es := clicks(n, keys)
		b.Run(fmt.Sprintf("floor/keys=%d", keys), func(b *testing.B) {
			for range b.N {
				sums := make(map[string]*float64)
				for i := range es {
					s := sums[es[i].key]
					if s == nil {
						s = new(float64)
						sums[es[i].key] = s
					}
					*s += es[i].n
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
		for _, c := range []struct {
			name string
			a    Assigner
		}{
			{"tumbling=10s", Tumbling(10 * time.Second)},
			{"sliding=60s,5s", Sliding(60*time.Second, 5*time.Second)},
			{"session=500ms", Session(500 * time.Millisecond)},
		} {
			b.Run(fmt.Sprintf("%s/keys=%d", c.name, keys), func(b *testing.B) { run(b, es, c.a, true) })
		}
	}
}

// BenchmarkSlices keeps the size and makes the slide smaller, down to a thousandth: with shared slices, and with an accumulator for
// each window, which is what one does without. One key, so that the results do not outnumber the events.
func BenchmarkSlices(b *testing.B) {
	all := clicks(200_000, 1)
	const size = 100 * time.Second
	for _, ratio := range []time.Duration{1, 10, 100, 1000} {
		for _, shared := range []bool{true, false} {
			name, es := map[bool]string{true: "shared", false: "each window"}[shared], all
			if !shared && ratio > 10 {
				es = all[:10_000] // an iteration has to end
			}
			b.Run(fmt.Sprintf("%s/size=slide*%d", name, ratio), func(b *testing.B) { run(b, es, Sliding(size, size/ratio), shared) })
		}
	}
}

func run(b *testing.B, es []click, a Assigner, shared bool) {
	b.Helper()
	results := 0
	emit := func(Result[string, float64]) { results++ }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range b.N {
		op := summing(b, a)
		if !shared {
			op.unshare()
		}
		for batch := range slices.Chunk(es, peerBatch) {
			op.Prefetch(batch...)
			for i := range batch {
				if _, err := op.Process(0, batch[i].at, batch[i], emit); err != nil {
					b.Fatal(err)
				}
			}
		}
		op.Finish(emit)
	}
	runtime.ReadMemStats(&after)
	events := float64(len(es)) * float64(b.N)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(results)/events, "results/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/events, "allocs/event")
}

// BenchmarkSnapshot writes and reads the state of many keys, and writes what has changed when one key in a hundred has.
func BenchmarkSnapshot(b *testing.B) {
	const keys = 1_000_000
	op := summing(b, Tumbling(time.Hour))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range keys {
		c := click{key: fmt.Sprintf("user-%07d", i), at: Timestamp(i), n: float64(i) / 100}
		if _, err := op.Process(0, c.at, c, func(Result[string, float64]) {}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	var w bytes.Buffer
	b.Run("snapshot", func(b *testing.B) {
		for range b.N {
			w.Reset()
			if err := op.Snapshot(&w); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(w.Len())/keys, "bytes/key")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "heap-bytes/key")
		b.ReportMetric(float64(keys)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	})
	b.Run("changes of 1%", func(b *testing.B) {
		var changes bytes.Buffer
		for range b.N {
			b.StopTimer()
			for i := 0; i < keys; i += 100 {
				c := click{key: fmt.Sprintf("user-%07d", i), at: Timestamp(i), n: 1}
				if _, err := op.Process(0, c.at, c, func(Result[string, float64]) {}); err != nil {
					b.Fatal(err)
				}
			}
			changes.Reset()
			b.StartTimer()
			if err := op.SnapshotChanges(&changes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(changes.Len())/1e6, "MB")
		b.ReportMetric(float64(w.Len())/1e6, "MB-whole")
	})
	b.Run("restore", func(b *testing.B) {
		for range b.N {
			if err := summing(b, Tumbling(time.Hour)).Restore(bytes.NewReader(w.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(keys)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	})
}

// BenchmarkMemory has what Operator.Bytes says beside the growth of the heap, a key: of many keys with few windows each, and of few with many.
// The heap has room that lists keep for more, which is not counted.
//
// On two cores of an AMD EPYC the heap was 1.2 times what is counted for tumbling windows, 300 a key, and 0.7 times it for one; 0.5 times it for
// slices, before the first have fired and merges are kept; equal for instants of PerEvent.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name          string
		a             Assigner
		keys, windows int
	}{
		{"tumbling", Tumbling(time.Hour), 300_000, 1},
		{"tumbling", Tumbling(time.Hour), 1000, 300},
		{"sliding", Sliding(time.Hour, time.Minute), 300_000, 1},
		{"sliding", Sliding(time.Hour, time.Minute), 3000, 60},
		{"session", Session(time.Minute), 300_000, 1},
		{"per event", PerEvent(time.Hour), 1000, 300},
	} {
		b.Run(fmt.Sprintf("%s/keys=%d/windows=%d", c.name, c.keys, c.windows), func(b *testing.B) {
			names := make([]string, c.keys)
			for i := range names {
				names[i] = fmt.Sprintf("user-%07d", i)
			}
			for range b.N {
				op := summing(b, c.a)
				op.options.Watermark = Punctuated()
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				for w := range c.windows {
					for _, name := range names {
						at := Timestamp(w) * Timestamp(time.Minute)
						if c.a.kind == tumbling {
							at *= 60
						}
						if _, err := op.Process(0, at, click{name, at, 1}, nil); err != nil {
							b.Fatal(err)
						}
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(op.Bytes())/float64(c.keys), "bytes/key")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(c.keys), "heap-bytes/key")
				runtime.KeepAlive(names)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestSteadyStateAllocatesNothing processes events into windows that open, fire and close, when all have been there before.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, a := range map[string]Assigner{
		"tumbling": Tumbling(time.Second), "sliding": Sliding(5*time.Second, time.Second), "session": Session(5 * time.Millisecond),
	} {
		es := clicks(80_000, 20)
		op, err := New(func(c click) string { return c.key }, a, aggregate.Sum(func(c click) float64 { return c.n }),
			Options{Watermark: BoundedOutOfOrderness(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		emit := func(Result[string, float64]) {}
		next := 0
		step := func() {
			for range 10_000 {
				if _, err := op.Process(0, es[next].at, es[next], emit); err != nil {
					t.Fatal(err)
				}
				next++
			}
		}
		step()
		step()
		if n := testing.AllocsPerRun(4, step); n > 100 {
			t.Errorf("%s: %v allocations in 10,000 events", name, n)
		}
	}
}
