package window

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/window/aggregate"
)

// peerEvent is an event of the comparison with other systems, which make the same: one a millisecond, shuffled inside blocks of 256, of
// uniform keys.
type peerEvent struct{ key, at, value int64 }

func peerEventAt(i, keys int64) peerEvent {
	z := uint64(i) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return peerEvent{key: int64(z>>1) % keys, at: i&^255 | (i*89+17)&255, value: int64(z & 15)}
}

// figure is what a system did of a case: results and their sum, and seconds from the first event to the last result.
type figure struct {
	Events, Results, Sum int64
	Seconds              float64
}

func (f figure) rate() float64 { return float64(f.Events) / f.Seconds }

var peerWindows = map[string]Assigner{
	"tumbling": Tumbling(10 * time.Second),
	"sliding":  Sliding(60*time.Second, 5*time.Second),
	"session":  Session(500 * time.Millisecond),
}

// peerBatch is how many events come at once, as they do from a broker.
const peerBatch = 32

// peerRun processes the events of partition from, of step partitions that share n events and their keys.
func peerRun(tb testing.TB, a Assigner, keys, from, step, n int64, prefetched bool) (f figure) {
	tb.Helper()
	op, err := New(func(e peerEvent) int64 { return e.key }, a, aggregate.Sum(func(e peerEvent) float64 { return float64(e.value) }),
		Options{Watermark: BoundedOutOfOrderness(2*time.Second + time.Millisecond - 1)}) // the peers count milliseconds
	if err != nil {
		tb.Fatal(err)
	}
	sum := 0.0
	emit := func(r Result[int64, float64]) { f.Results, sum = f.Results+1, sum+r.Value }
	var batch [peerBatch]peerEvent
	began := time.Now()
	for i := from; i < n; {
		events := batch[:0]
		for ; i < n && len(events) < peerBatch; i += step {
			e := peerEventAt(i, keys/step)
			e.key = e.key*step + from
			events = append(events, e)
		}
		if prefetched {
			op.Prefetch(events...)
		}
		for _, e := range events {
			if outcome, err := op.Process(0, TimestampOfMillis(e.at), e, emit); err != nil || outcome != Accepted {
				tb.Fatal(outcome, err)
			}
		}
		f.Events += int64(len(events))
	}
	op.Finish(emit)
	f.Seconds, f.Sum = time.Since(began).Seconds(), int64(sum)
	return f
}

// BenchmarkPeers has Flink and bytewax process the same events beside this package, and checks that all count the same. Flink runs
// source, window and sink chained in one thread, without an exchange and checkpoints; this package gets one processor, on which its
// garbage collector runs as well, and gets its events 32 at a time, with Prefetch. 2cores is two operators with half of the keys and events
// each, in two goroutines. x-flink and the like say how many times as fast this package is.
//
// A pass is short: TIDEMARK_BENCH_EVENTS=5000000 measures what the JVM does when it is warm.
func BenchmarkPeers(b *testing.B) {
	n := int64(200_000)
	if s := os.Getenv("TIDEMARK_BENCH_EVENTS"); s != "" {
		var err error
		if n, err = strconv.ParseInt(s, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	n -= n % 512 // whole blocks
	for _, keys := range []int64{1000, 100_000} {
		for _, name := range []string{"tumbling", "sliding", "session"} {
			b.Run(fmt.Sprintf("%s/keys=%d", name, keys), func(b *testing.B) {
				flink := peerFigure(b, servicetest.Java(b, "testdata/peers/flink", "peers.Windows", name, fmt.Sprint(keys), fmt.Sprint(n)))
				bytewax := peerFigure(b, servicetest.Python(b, []string{"bytewax==0.21.1"}, "testdata/peers/bytewax_windows.py",
					name, fmt.Sprint(keys), fmt.Sprint(n/20)))
				benchmarkPeers(b, peerWindows[name], keys, n, flink, bytewax)
			})
		}
	}
}

func benchmarkPeers(b *testing.B, a Assigner, keys, n int64, flink, bytewax figure) {
	b.Helper()
	for _, peer := range []figure{flink, bytewax} {
		if f := peerRun(b, a, keys, 0, 1, peer.Events, true); f.Results != peer.Results || f.Sum != peer.Sum || f.Results == 0 {
			b.Fatalf("%+v, the peer %+v", f, peer)
		}
	}
	b.ResetTimer()
	var one, two float64
	for range b.N {
		one += onOneCore(func() figure { return peerRun(b, a, keys, 0, 1, n, true) }).Seconds
		b.StopTimer()
		two += peerTwoCores(b, a, keys, n)
		b.StartTimer()
	}
	rate := float64(n) * float64(b.N) / one
	b.ReportMetric(rate, "events/s")
	b.ReportMetric(flink.rate(), "flink-events/s")
	b.ReportMetric(rate/flink.rate(), "x-flink")
	b.ReportMetric(rate/bytewax.rate(), "x-bytewax")
	b.ReportMetric(one/two, "x-2cores")
}

func onOneCore(run func() figure) figure {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	return run()
}

// peerTwoCores is how long two operators take together.
func peerTwoCores(tb testing.TB, a Assigner, keys, n int64) float64 {
	tb.Helper()
	runtime.GC()
	var wg sync.WaitGroup
	began := time.Now()
	for p := range int64(2) {
		wg.Go(func() { peerRun(tb, a, keys, p, 2, n, true) })
	}
	wg.Wait()
	return time.Since(began).Seconds()
}

func peerFigure(tb testing.TB, line []byte) (f figure) {
	tb.Helper()
	if err := json.Unmarshal(line, &f); err != nil {
		tb.Fatalf("%s: %v", line, err)
	}
	return f
}

// BenchmarkOneCore is this package's part of BenchmarkPeers, without the peers, and what Prefetch is worth.
func BenchmarkOneCore(b *testing.B) {
	const n = 1_000_000
	for _, keys := range []int64{1000, 100_000} {
		for _, name := range []string{"tumbling", "sliding", "session"} {
			for _, way := range []string{"prefetched", "each"} {
				b.Run(fmt.Sprintf("%s/keys=%d/%s", name, keys, way), func(b *testing.B) {
					seconds := 0.0
					for range b.N {
						seconds += onOneCore(func() figure { return peerRun(b, peerWindows[name], keys, 0, 1, n, way == "prefetched") }).Seconds
					}
					b.ReportMetric(n*float64(b.N)/seconds, "events/s")
				})
			}
		}
	}
}
