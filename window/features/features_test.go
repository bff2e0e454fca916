package features

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
)

type click struct {
	user  string
	at    window.Timestamp
	price float64
}

func userOf(c click) string    { return c.user }
func price(c click) float64    { return c.price }
func sum() totals              { return aggregate.Sum(price) }
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

type (
	totals = aggregate.SumOf[click]
	table  = Table[string, click, aggregate.Exact, float64]
)

func newTable(tb testing.TB, longest time.Duration, o Options) *table {
	tb.Helper()
	t, err := New(userOf, longest, sum(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// clicks come up to 2 s out of order, of prices whose plain sum depends on the order.
func clicks(r *rand.Rand, n int) []click {
	cs := make([]click, n)
	for i := range cs {
		at := int64(i)*50 - r.Int64N(2000)
		cs[i] = click{fmt.Sprint(r.IntN(5)), window.TimestampOfMillis(at), r.NormFloat64() * float64(int64(1)<<r.IntN(50))}
	}
	return cs
}

// recomputed is the exact sum over the clicks that a read may see.
func recomputed(cs []click, user string, at window.Timestamp, span time.Duration) float64 {
	var acc aggregate.Exact
	for _, c := range cs {
		if c.user == user && c.at >= at.Add(-span) && c.at <= at {
			acc.Add(c.price)
		}
	}
	return acc.Float64()
}

// TestOnlineEqualsTraining reads while it writes, replays the same topic for training, and has the results of PerEvent windows: all equal to
// the bit, and equal to a recomputation.
func TestOnlineEqualsTraining(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	cs := clicks(r, 3000)
	type read struct {
		before int // events
		user   string
		at     window.Timestamp
		span   time.Duration
	}
	var reads []read
	for i := range 2000 {
		n := 1 + i*len(cs)/2000
		reads = append(reads, read{n, fmt.Sprint(r.IntN(6)), cs[n-1].at.Add(ms(r.Int64N(3000) - 1500)), ms(1 + r.Int64N(30_000))})
	}
	answers := func() (got []float64) {
		online := newTable(t, 30*time.Second, Options{History: 10 * time.Second})
		next := 0
		for i, c := range cs {
			if o, err := online.Add(0, c.at, c); err != nil || o != window.Accepted {
				t.Fatal(o, err)
			}
			for ; next < len(reads) && reads[next].before == i+1; next++ {
				q := reads[next]
				x, ok := online.Get(q.user, q.at, q.span)
				if !ok {
					t.Fatalf("read %d is refused", next)
				}
				got = append(got, x)
			}
		}
		return got
	}
	online, training := answers(), answers()
	if len(online) != len(reads) || !slices.Equal(online, training) {
		t.Fatalf("%d reads, or online and training differ", len(online))
	}
	for i, q := range reads {
		if want := recomputed(cs[:q.before], q.user, q.at, q.span); online[i] != want {
			t.Fatalf("read %d: %v, want %v", i, online[i], want)
		}
	}
	// The other way to a training set: a row at each event, when all that belongs to it has come.
	op, err := window.New(userOf, window.PerEvent(30*time.Second), sum(), window.Options{Watermark: window.BoundedOutOfOrderness(2 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	all := newTable(t, 30*time.Second, Options{History: time.Hour})
	for _, c := range cs {
		if _, err := all.Add(0, c.at, c); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	emit := func(x window.Result[string, float64]) {
		rows++
		if got, ok := all.Get(x.Key, x.Window.End-1, 30*time.Second); !ok || got != x.Value {
			t.Fatalf("%s at %v: read %v, row %v", x.Key, x.Window.End, got, x.Value)
		}
	}
	for _, c := range cs {
		if _, err := op.Process(0, c.at, c, emit); err != nil {
			t.Fatal(err)
		}
	}
	if op.Finish(emit); rows < 2000 {
		t.Errorf("%d rows", rows)
	}
}

// TestBounds has what is refused, late or gone.
func TestBounds(t *testing.T) {
	tab := newTable(t, 10*time.Second, Options{History: 5 * time.Second, MaxInstants: 2})
	second := func(n int64) window.Timestamp { return window.TimestampOfMillis(1000 * n) }
	add := func(at int64, want window.Outcome) {
		t.Helper()
		if o, err := tab.Add(0, second(at), click{"a", second(at), 1}); o != want || err != nil {
			t.Errorf("event at %d: %v %v, want %v", at, o, err, want)
		}
	}
	get := func(at, span int64, want float64, wantOK bool) {
		t.Helper()
		if x, ok := tab.Get("a", second(at), time.Duration(span)*time.Second); x != want || ok != wantOK {
			t.Errorf("the %d s until %d: %v %v, want %v %v", span, at, x, ok, want, wantOK)
		}
	}
	add(100, window.Accepted)
	add(101, window.Accepted)
	add(102, window.Refused)
	add(101, window.Accepted)
	get(101, 10, 3, true)
	get(101, 1, 3, true)
	get(100, 1, 1, true)
	get(99, 10, 0, true)
	get(500, 10, 0, true)
	get(101, 11, 0, false)
	get(101, 0, 0, false)
	get(97, 10, 0, true) // the event at 102 was refused, its watermark counts
	get(96, 10, 0, false)
	get(96, 9, 0, true)
	add(80, window.Late)
	if _, err := tab.Add(0, window.MaxTimestamp, click{}); !errors.Is(err, window.ErrTimestamp) {
		t.Errorf("%v", err)
	}
	tab.Advance(0, second(10_000))
	if tab.Keys() != 0 {
		t.Errorf("%d keys after their span", tab.Keys())
	}
	if tab.Watermark() != second(10_000) {
		t.Errorf("watermark %v", tab.Watermark())
	}
	if o, err := tab.AddID(0, second(10_001), "x", click{user: "a"}); o != window.Accepted || err != nil {
		t.Error(o, err)
	}
	if o, err := tab.AddID(0, second(10_001), "x", click{user: "a"}); o != window.Duplicate || err != nil {
		t.Error(o, err)
	}
	for _, o := range []Options{{History: -2}, {MaxKeys: -2}, {MaxInstants: -2}, {MaxIDs: -1}, {Partitions: -1}} {
		if _, err := New(userOf, time.Second, sum(), o); !errors.Is(err, window.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(userOf, 0, sum(), Options{}); !errors.Is(err, window.ErrOptions) {
		t.Errorf("no span: %v", err)
	}
	if _, err := New(userOf, time.Second, sum(), Options{MaxKeys: -1, MaxInstants: -1, History: -1}); err != nil {
		t.Error(err)
	}
}

// TestPartitions holds what a slow partition may still need.
func TestPartitions(t *testing.T) {
	tab := newTable(t, time.Second, Options{History: -1, Partitions: 2})
	for i := range 100 {
		if _, err := tab.Add(0, window.TimestampOfMillis(int64(1000*i)), click{user: "a", price: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if x, ok := tab.Get("a", window.TimestampOfMillis(3000), time.Second); !ok || x != 2 {
		t.Errorf("%v %v", x, ok)
	}
	if o, err := tab.Add(1, window.TimestampOfMillis(2500), click{user: "a", price: 5}); o != window.Accepted || err != nil {
		t.Error(o, err)
	}
	if x, ok := tab.Get("a", window.TimestampOfMillis(3000), time.Second); !ok || x != 7 {
		t.Errorf("%v %v", x, ok)
	}
}

// TestConcurrent reads and writes at once; run with -race.
func TestConcurrent(t *testing.T) {
	tab := newTable(t, time.Minute, Options{})
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(p), 1))
			for i, c := range clicks(r, 2000) {
				c.price = 1
				if _, err := tab.Add(p, c.at, c); err != nil {
					t.Error(err)
				}
				if _, ok := tab.Get(c.user, c.at, time.Second); !ok {
					t.Error("a read is refused")
				}
				if i%500 == 0 {
					if err := tab.Snapshot(&bytes.Buffer{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0.0
	for u := range 5 {
		x, _ := tab.Get(fmt.Sprint(u), window.TimestampOfMillis(100_000), time.Minute)
		total += x
	}
	if all, want := total, 4.0*1160; all < want || all > 4*1240 { // the last minute of one event each 50 ms, some of them shuffled over its ends
		t.Errorf("%v events in the last minute, want about %v", all, want)
	}
}

// TestSnapshot goes on in another table, and refuses what is damaged.
func TestSnapshot(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	cs := clicks(r, 1000)
	first := newTable(t, 20*time.Second, Options{})
	for _, c := range cs[:600] {
		if _, err := first.Add(0, c.at, c); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := first.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	second := newTable(t, 20*time.Second, Options{})
	if err := second.Restore(bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	for i, c := range cs[600:] {
		for _, tab := range []*table{first, second} {
			if _, err := tab.Add(0, c.at, c); err != nil {
				t.Fatal(err)
			}
		}
		x, _ := first.Get(c.user, c.at, 20*time.Second)
		y, ok := second.Get(c.user, c.at, 20*time.Second)
		if want := recomputed(cs[:601+i], c.user, c.at, 20*time.Second); !ok || x != want || y != want {
			t.Fatalf("%v and %v, want %v", x, y, want)
		}
	}
	for i := 0; i < b.Len(); i += 101 {
		damaged := bytes.Clone(b.Bytes())
		damaged[i] ^= 0x11
		for _, s := range [][]byte{damaged, b.Bytes()[:i]} {
			if err := newTable(t, 20*time.Second, Options{}).Restore(bytes.NewReader(s)); !errors.Is(err, window.ErrSnapshot) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
	if err := newTable(t, 21*time.Second, Options{}).Restore(&b); !errors.Is(err, window.ErrSnapshotMismatch) {
		t.Errorf("another span: %v", err)
	}
}

// FuzzRestore gives hostile bytes to Restore: an error, or a table that works.
func FuzzRestore(f *testing.F) {
	tab := newTable(f, time.Second, Options{})
	for i := range 10 {
		if _, err := tab.Add(0, window.Timestamp(i), click{user: fmt.Sprint(i)}); err != nil {
			f.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := tab.Snapshot(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(snapshotMagic + "\x05"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab := newTable(t, time.Second, Options{})
		if err := tab.Restore(bytes.NewReader(b)); err != nil {
			return
		}
		if _, err := tab.Add(0, 5, click{user: "a"}); err != nil {
			t.Fatal(err)
		}
		tab.Get("a", 5, time.Second)
	})
}

func TestKeyTypes(t *testing.T) {
	type id int32
	spread[id](t, func(i int) id { return id(i) })
	spread[int64](t, func(i int) int64 { return int64(i) * 64 })
	spread[uint64](t, func(i int) uint64 { return uint64(i) << 40 })
	spread[string](t, func(i int) string { return fmt.Sprint("user-", i) })
}

// spread checks that keys are found again, and in many shards.
func spread[K window.Key](t *testing.T, key func(int) K) {
	t.Helper()
	tab, err := New(func(k K) K { return k }, time.Second, aggregate.Count[K](), Options{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[*shard[K, K, int64, int64]]bool{}
	for i := range 1000 {
		if _, err := tab.Add(0, 5, key(i)); err != nil {
			t.Fatal(err)
		}
		used[tab.shard(key(i))] = true
		if n, ok := tab.Get(key(i), 5, 1); !ok || n != 1 {
			t.Fatalf("%v: %d %v", key(i), n, ok)
		}
	}
	if len(used) < shards/2 || tab.Keys() != 1000 {
		t.Errorf("%T: %d of %d shards, %d keys", key(0), len(used), shards, tab.Keys())
	}
}

// BenchmarkGet reads while it is written, beside a list of events a key that is added up at each read, which is what one does without. A key has
// about as many events in the span as the name says.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		const keys = 10
		span := ms(int64(n) * keys)
		b.Run(fmt.Sprintf("table/events=%d", n), func(b *testing.B) {
			tab, err := New(userOf, span, aggregate.Max(price), Options{})
			if err != nil {
				b.Fatal(err)
			}
			fill := func(i int) {
				at := window.TimestampOfMillis(int64(i))
				if _, err := tab.Add(0, at, click{fmt.Sprint(i % keys), at, float64(i % 1000)}); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n * keys {
				fill(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				fill(n*keys + i)
				if x, ok := tab.Get(fmt.Sprint(i%keys), window.TimestampOfMillis(int64(n*keys+i)), span); !ok || x == 0 {
					b.Fatal(x, ok)
				}
			}
		})
		b.Run(fmt.Sprintf("list/events=%d", n), func(b *testing.B) {
			lists := map[string][]click{}
			fill := func(i int) {
				k := fmt.Sprint(i % keys)
				l := append(lists[k], click{k, window.TimestampOfMillis(int64(i)), float64(i % 1000)})
				lists[k] = l[max(0, len(l)-n):]
			}
			for i := range n * keys {
				fill(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				fill(n*keys + i)
				x := 0.0
				for _, c := range lists[fmt.Sprint(i%keys)] {
					x = max(x, c.price)
				}
				if x == 0 {
					b.Fatal(x)
				}
			}
		})
	}
}
