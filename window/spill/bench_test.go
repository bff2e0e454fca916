package spill_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
	"github.com/tidemark-go/tidemark/window/spill"
)

type click struct {
	key   string
	price float64
}

// clicks are of many keys: each as often as another, or few of them nearly always.
func clicks(n, keys int, skewed bool) []click {
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.2, 10, uint64(keys-1))
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("user-%07d", i)
	}
	r.Shuffle(keys, func(i, j int) { names[i], names[j] = names[j], names[i] })
	list := make([]click, n)
	for i := range list {
		k := r.IntN(keys)
		if skewed {
			k = int(zipf.Uint64())
		}
		list[i] = click{names[k], float64(r.IntN(1000)) / 100}
	}
	return list
}

// BenchmarkSpill sums by key in eight windows of an hour, all of which are open: in memory; with a tenth of the keys in memory and the rest in a Disk, whose cache has all of
// it, and whose cache has a tenth of it; and, as what one would do without, in Pebble with a Get and a Set for each event and the same cache. The
// heap is without Pebble's cache and with a Disk's buffer. Then all windows fire.
//
// On two cores of an AMD EPYC, beside other work, a Disk had 352 K and 160 K events/s against 459 K and 102 K of Pebble alone where every key is as
// frequent as another, and 1.06 M and 0.84 M against 575 K and 288 K where few are nearly always; memory had 0.8 M and 3.4 M. The heap, with the
// Disk's buffer, was 58 MB where that has all, as in memory, and 31 MB of 57 where it has a tenth; 19 and 16 of 17 where few keys have most.
func BenchmarkSpill(b *testing.B) {
	const keys, events = 50_000, 400_000
	const fits, tenth = 64 << 20, 1 << 20 // of some 10 MB of state
	for _, skewed := range []bool{false, true} {
		list := clicks(events, keys, skewed)
		for _, c := range []struct {
			name  string
			cache int64 // 0 is memory alone
			plain bool
		}{
			{"memory", 0, false},
			{"in cache", fits, false},
			{"ten times the cache", tenth, false},
			{"Pebble alone, in cache", fits, true},
			{"Pebble alone, ten times the cache", tenth, true},
		} {
			b.Run(fmt.Sprintf("%s/skewed=%v", c.name, skewed), func(b *testing.B) {
				for range b.N {
					if c.plain {
						sumInPebble(b, list, c.cache)
					} else {
						sumInWindows(b, list, c.cache, keys/10)
					}
				}
				b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

func sumInWindows(b *testing.B, list []click, cache int64, resident int) {
	b.Helper()
	b.StopTimer()
	before := heap()
	o := window.Options{Watermark: window.Punctuated()}
	var disk *spill.Disk
	if cache > 0 {
		var err error
		if disk, err = spill.Open(b.TempDir(), spill.Options{Cache: cache, Buffer: uint64(cache)}); err != nil {
			b.Fatal(err)
		}
		o.Spill, o.MaxResident = disk, resident
	}
	op, err := window.New(func(c click) string { return c.key }, window.Tumbling(time.Hour),
		aggregate.Sum(func(c click) float64 { return c.price }), o)
	if err != nil {
		b.Fatal(err)
	}
	results := 0
	emit := func(window.Result[string, float64]) { results++ }
	b.StartTimer()
	for i := range list {
		if _, err := op.Process(0, window.Timestamp(i/(len(list)/8))*window.Timestamp(time.Hour), list[i], emit); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(heap()-before, "MB-heap")
	b.StartTimer()
	op.Finish(emit)
	b.StopTimer()
	if op.Err() != nil || results == 0 {
		b.Fatal(op.Err(), results)
	}
	if disk != nil {
		b.ReportMetric(float64(disk.Bytes())/1e6, "MB-disk")
		if err := disk.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.StartTimer()
}

// sumInPebble reads, changes and writes the sum of each event's key, and reads all of them at the end.
func sumInPebble(b *testing.B, list []click, cache int64) {
	b.Helper()
	b.StopTimer()
	before := heap()
	blocks := pebble.NewCache(cache)
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Cache: blocks, MemTableSize: uint64(cache), DisableWAL: true, Logger: quiet{}})
	blocks.Unref()
	if err != nil {
		b.Fatal(err)
	}
	var key, value []byte
	b.StartTimer()
	for i := range list {
		sum := 0.0
		key = append(binary.BigEndian.AppendUint64(key[:0], uint64(i/(len(list)/8))), list[i].key...) // the window, and the key
		old, release, err := db.Get(key)
		if err == nil {
			sum = math.Float64frombits(binary.LittleEndian.Uint64(old))
			err = release.Close()
		}
		if err != nil && !errors.Is(err, pebble.ErrNotFound) {
			b.Fatal(err)
		}
		value = binary.LittleEndian.AppendUint64(value[:0], math.Float64bits(sum+list[i].price))
		if err := db.Set(key, value, pebble.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(heap()-before, "MB-heap")
	b.StartTimer()
	results := 0
	all, err := db.NewIter(nil)
	if err != nil {
		b.Fatal(err)
	}
	for ok := all.First(); ok; ok = all.Next() {
		results++
	}
	b.StopTimer()
	b.ReportMetric(float64(db.Metrics().DiskSpaceUsage())/1e6, "MB-disk")
	if err := errors.Join(all.Close(), db.Close()); err != nil || results == 0 {
		b.Fatal(err, results)
	}
	b.StartTimer()
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
