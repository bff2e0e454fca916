package window

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// unshare gives each window of a new operator an accumulator of its own, where they would share slices.
func (o *Operator[K, V, A, R]) unshare() {
	o.sliding = nil
	o.resetKeys()
}

// runLines processes "key time" events and "watermark time" lines, and tells what came.
func runLines(t *testing.T, a Assigner, o Options, lines ...string) []string {
	t.Helper()
	op := newOperator(t, a, o)
	var got []string
	emit := func(r Result[string, tally]) {
		got = append(got, fmt.Sprintf("%s [%d,%d) %d %v", r.Key, r.Window.Start, r.Window.End, r.Value.Count, r.Kind))
	}
	for _, line := range lines {
		var key string
		var at int64
		if _, err := fmt.Sscan(line, &key, &at); err != nil {
			t.Fatal(err)
		}
		if key == "watermark" {
			op.Advance(0, Timestamp(at), emit)
			continue
		}
		id := ""
		if o.MaxIDs > 0 {
			id = fmt.Sprint(at)
		}
		outcome, err := op.ProcessID(0, Timestamp(at), id, input{Key: key, TS: at}, emit)
		if err != nil {
			t.Fatal(err)
		}
		if outcome != Accepted {
			got = append(got, line+" "+outcome.String())
		}
	}
	return got
}

func TestOptions(t *testing.T) {
	punctuated := Punctuated()
	for _, c := range []struct {
		name  string
		a     Assigner
		o     Options
		lines []string
		want  []string
	}{
		{
			"retracting: old before new, also when a session grows", Session(5),
			Options{AllowedLateness: 20, Accumulation: Retracting},
			[]string{"k 0", "k 10", "k 3"},
			[]string{"k [0,5) 1 on time", "k [0,5) 1 retraction", "k [0,8) 2 updated"},
		},
		{
			"discarding", Tumbling(10),
			Options{Accumulation: Discarding, Trigger: Trigger{EarlyCount: 2}},
			[]string{"k 1", "k 2", "k 3", "watermark 9"},
			[]string{"k [0,10) 2 early", "k [0,10) 1 on time"},
		},
		{
			"once", Tumbling(10),
			Options{Trigger: Trigger{EarlyCount: 2, Once: true}},
			[]string{"k 1", "k 2", "k 3", "watermark 9"},
			[]string{"k [0,10) 2 early", "k 3 late"},
		},
		{
			"late count", Tumbling(10),
			Options{AllowedLateness: 100, Trigger: Trigger{LateCount: 2}},
			[]string{"k 1", "watermark 9", "k 2", "k 3", "k 4"},
			[]string{"k [0,10) 1 on time", "k [0,10) 3 updated"},
		},
		{
			"no late firing", Tumbling(10),
			Options{AllowedLateness: 100, Trigger: Trigger{LateCount: -1}},
			[]string{"k 1", "watermark 9", "k 2"},
			[]string{"k [0,10) 1 on time"},
		},
		{
			"early interval", Tumbling(10),
			Options{Watermark: punctuated, Trigger: Trigger{EarlyInterval: 4}},
			[]string{"k 1", "watermark 4", "k 5", "watermark 8", "watermark 9"},
			[]string{"k [0,10) 1 early", "k [0,10) 2 early", "k [0,10) 2 on time"},
		},
		{
			"duplicates count once", Tumbling(10),
			Options{Watermark: punctuated, MaxIDs: 100},
			[]string{"k 1", "k 1", "k 2", "watermark 9"},
			[]string{"k 1 duplicate", "k [0,10) 2 on time"},
		},
		{
			"bound of keys", Tumbling(10),
			Options{MaxKeys: 2, Watermark: punctuated},
			[]string{"a 1", "b 1", "c 1", "a 2", "watermark 9", "c 11"},
			[]string{"c 1 refused", "a [0,10) 2 on time", "b [0,10) 1 on time"},
		},
		{
			"bound of windows", Tumbling(10),
			Options{MaxWindowsPerKey: 2, Watermark: punctuated},
			[]string{"a 1", "a 11", "a 21", "a 12", "b 21", "watermark 9", "a 21"},
			[]string{"a 21 refused", "a [0,10) 1 on time"},
		},
		{
			"bound of slices", Sliding(10, 5),
			Options{MaxWindowsPerKey: 1, Watermark: punctuated},
			[]string{"a 1", "a 6", "a 2", "watermark 4"},
			[]string{"a 6 refused", "a [-5,5) 2 on time"},
		},
		{
			"bound of sessions", Session(5),
			Options{MaxWindowsPerKey: 1, Watermark: punctuated},
			[]string{"a 1", "a 20", "a 2", "watermark 6"},
			[]string{"a 20 refused", "a [1,7) 2 on time"},
		},
		{
			"key expiry", Global(),
			Options{KeyExpiry: 10, Trigger: Trigger{EarlyCount: 2}},
			[]string{"a 1", "b 100", "a 101", "a 102"},
			[]string{"a [-9223372036854775808,9223372036854775807) 2 early"},
		},
		{
			"a wrong clock closes nothing, a real jump is believed", Tumbling(10),
			Options{MaxJump: 50},
			[]string{"k 1", "k 1000000", "k 2", "k 500", "k 501", "k 502"},
			[]string{"k 1000000 too far", "k 500 too far", "k 501 too far", "k [0,10) 2 on time"},
		},
		{
			"a custom watermark that goes back does not", Tumbling(10),
			Options{Watermark: CustomWatermarks(func(_, _, t Timestamp) Timestamp { return t - 1 })},
			[]string{"k 1", "k 10", "k 3", "k 11"},
			[]string{"k [0,10) 1 on time", "k 3 late"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := runLines(t, c.a, c.o, c.lines...); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		a    Assigner
		o    Options
		want []string
	}{
		{Assigner{}, Options{AllowedLateness: -1}, []string{"no assigner", "AllowedLateness"}},
		{Sliding(0, -1), Options{}, []string{"size"}},
		{Session(0).Offset(3), Options{}, []string{"gap", "offset"}},
		{Count(0), Options{}, []string{"count"}},
		{Calendar(10, nil), Options{}, []string{"calendar"}},
		{Tumbling(1).Strict(), Options{MaxKeys: -2}, []string{"strict", "bound"}},
		{Count(3), Options{Deterministic: true, IdleAfter: 1}, []string{"Count", "IdleAfter"}},
		{Tumbling(1), Options{Deterministic: true, Trigger: Trigger{EarlyCount: 1}}, []string{"Deterministic"}},
		{Tumbling(1), Options{KeyExpiry: 1}, []string{"KeyExpiry"}},
		{DynamicSession(func(int) time.Duration { return 1 }), Options{}, []string{"gap function"}},
		{DynamicSession[input](nil), Options{}, []string{"gap function"}},
		{PerEvent(0), Options{Accumulation: Discarding, Trigger: Trigger{Once: true}}, []string{"size", "discard", "trigger"}},
	} {
		_, err := New(keyOf, c.a, tallying{}, c.o)
		if !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %s", err, w)
			}
		}
	}
	if _, err := New[string, input, tally, tally](nil, Tumbling(1), nil, Options{}); !errors.Is(err, ErrOptions) {
		t.Errorf("without key and aggregate: %v", err)
	}
}

func TestPartitions(t *testing.T) {
	op := newOperator(t, Tumbling(10), Options{Partitions: 2, IdleAfter: 50})
	fired := 0
	emit := func(Result[string, tally]) { fired++ }
	process := func(p int, at int64) {
		t.Helper()
		if _, err := op.Process(p, Timestamp(at), input{Key: "k", TS: at}, emit); err != nil {
			t.Fatal(err)
		}
	}
	process(0, 5)
	if process(0, 30); fired != 0 || op.Ahead(0) != math.MaxInt64 {
		t.Fatal("fired before partition 1 was seen")
	}
	process(1, 12)
	if fired != 1 || op.Watermark() != 11 || op.Ahead(0) != 18 || op.Ahead(1) != 0 || op.Ahead(7) != 0 {
		t.Fatalf("fired %d at %d, ahead %v", fired, op.Watermark(), op.Ahead(0))
	}
	if process(0, 63); op.Watermark() != 62 {
		t.Fatalf("partition 1 is 51 behind and not idle: watermark %d", op.Watermark())
	}
	if process(1, 40); op.Watermark() != 62 { // back from idleness, and behind
		t.Fatalf("watermark %d", op.Watermark())
	}
	if process(1, 64); op.Watermark() != 62 {
		t.Fatalf("watermark %d", op.Watermark())
	}
	op.RemovePartition(0, emit)
	if op.Watermark() != 63 {
		t.Fatalf("watermark %d after the partition that held it was removed", op.Watermark())
	}
	op.AddPartition(4)
	if process(1, 100); op.Watermark() != 63 {
		t.Fatalf("a new partition does not hold %d back", op.Watermark())
	}
	op.SetIdle(4, emit)
	if op.Watermark() != 99 {
		t.Fatalf("watermark %d", op.Watermark())
	}
}

func TestRejectedAndCounts(t *testing.T) {
	value := func(e input) float64 { return 1 / float64(e.Value) }
	op, err := New(keyOf, Tumbling(10), aggregate.Finite(aggregate.Sum(value), value), Options{})
	if err != nil {
		t.Fatal(err)
	}
	emit := func(Result[string, float64]) {}
	for _, e := range []input{{Value: 1}, {Value: 0}, {TS: 20, Value: 4}, {TS: 3, Value: 1}} {
		if _, err := op.Process(0, Timestamp(e.TS), e, emit); err != nil {
			t.Fatal(err)
		}
	}
	if want := (Counts{Accepted: 2, Rejected: 1, Late: 1, Results: 1}); op.Counts() != want {
		t.Errorf("%+v", op.Counts())
	}
	for _, at := range []Timestamp{MinTimestamp, MaxTimestamp} {
		var permanent interface{ Permanent() bool }
		if _, err := op.Process(0, at, input{}, emit); !errors.Is(err, ErrTimestamp) || !errors.As(err, &permanent) || !permanent.Permanent() {
			t.Errorf("%d: %v", at, err)
		}
	}
}

// TestForgottenIDs bounds the ids, and forgets them when the watermark is past.
func TestForgottenIDs(t *testing.T) {
	op := newOperator(t, Tumbling(1000), Options{MaxIDs: 10, IDHorizon: 100})
	emit := func(Result[string, tally]) {}
	for i := range 1000 {
		if _, err := op.ProcessID(0, 1, fmt.Sprint(i), input{}, emit); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(op.ids.young) + len(op.ids.old); n > 10 || op.Counts().ForgottenIDs < 980 {
		t.Errorf("%d ids, %d forgotten", n, op.Counts().ForgottenIDs)
	}
	for _, watermark := range []Timestamp{150, 300} {
		op.Advance(0, watermark, emit)
	}
	if n := len(op.ids.young) + len(op.ids.old); n != 0 {
		t.Errorf("%d ids behind their horizon", n)
	}
}

// TestFarTimes runs every assigner at the ends of time: nothing overflows, and the final watermark ends all.
func TestFarTimes(t *testing.T) {
	for _, a := range []Assigner{Tumbling(1000).Offset(-7), Sliding(1000, 300).Offset(999), Sliding(300, 1000), Session(1000), Global(), Calendar(Month, nil), PerEvent(1000)} {
		for _, deterministic := range []bool{false, true} {
			op := newOperator(t, a, Options{AllowedLateness: math.MaxInt64, Deterministic: deterministic})
			n := int64(0)
			emit := func(r Result[string, tally]) { n += r.Value.Count }
			for _, at := range []Timestamp{MinTimestamp + 1, MinTimestamp + 1500, -1, 0, 1, MaxTimestamp - 1500, MaxTimestamp - 1} {
				if _, err := op.Process(0, at, input{}, emit); err != nil {
					t.Fatal(err)
				}
			}
			if op.Finish(emit); op.Keys() != 0 || n == 0 {
				t.Errorf("%+v: %d keys left, %d events in results", a, op.Keys(), n)
			}
		}
	}
}

// TestEndsOfTime: an event near an end of time is once in each window around it, and these fire, in shared slices and by themselves.
func TestEndsOfTime(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	assigners := []Assigner{
		Tumbling(10).Offset(3), Tumbling(most / 2), Tumbling(most).Offset(-5), Tumbling(most).Offset(math.MinInt64), Sliding(10, 3), Sliding(10, 5),
		Sliding(4, 2), Sliding(5, 2), Sliding(3, 10), Sliding(most/2, most/4), Sliding(most, most/4+7), Session(5), PerEvent(7), Calendar(Day, nil), Calendar(Month, nil),
	}
	for _, a := range assigners {
		for _, at := range []Timestamp{1, 2, 3, 8, 12, 1 << 61, 1 << 62, 1<<63 - 1} {
			for _, at := range []Timestamp{MinTimestamp + at, MaxTimestamp - at} {
				for _, shared := range []bool{true, false} {
					op := newOperator(t, a, Options{Watermark: Punctuated()})
					if !shared {
						op.unshare()
					}
					var want, got []Window
					a.Windows(at, func(w Window) { want = append(want, w) })
					for i, w := range want {
						if at < w.Start || at >= w.End || i > 0 && (w.Start < want[i-1].Start || w.End < want[i-1].End || w == want[i-1]) {
							t.Errorf("%s at %d: %v", a.key(), at, want)
						}
					}
					emit := func(r Result[string, tally]) { got = append(got, r.Window) }
					outcome, err := op.Process(0, at, input{Key: "k"}, emit)
					if err != nil || (outcome == Accepted) != (len(want) > 0) {
						t.Fatal(outcome, err)
					}
					op.Advance(0, MaxTimestamp-1, emit)
					if op.Finish(emit); !slices.Equal(got, want) || op.Keys() != 0 {
						t.Errorf("%s at %d, shared %t: %v fire, want %v; %d keys", a.key(), at, shared, got, want, op.Keys())
					}
				}
			}
		}
	}
}

// TestCalendar walks through time zones whose clocks change at midnight, skip a day or are odd: every instant is in its window, windows
// follow one another, and each begins a new date.
func TestCalendar(t *testing.T) {
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "America/Havana", "Africa/Cairo", "Asia/Beirut",
		"Australia/Lord_Howe", "America/St_Johns",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []Unit{Day, Week, WeekFrom(time.Sunday), Month} {
			end := TimestampOf(time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC))
			at := TimestampOf(time.Date(2009, 1, 1, 9, 0, 0, 0, zone))
			for at < end {
				var w, again, next Window
				a := Calendar(u, zone)
				a.Windows(at, func(x Window) { w = x })
				a.Windows(w.Start, func(x Window) { again = x })
				a.Windows(w.End-1, func(x Window) { next = x })
				if at < w.Start || at >= w.End || again != w || next != w {
					t.Fatalf("%s %d: %v is in [%v,%v), its first in %v, its last in %v", name, u, at.Time().In(zone), w.Start.Time().In(zone), w.End.Time().In(zone), again, next)
				}
				before, first := (w.Start - 1).Time().In(zone), w.Start.Time().In(zone)
				if before.Format(time.DateOnly) == first.Format(time.DateOnly) || u != Day && u != Month && first.Weekday() != u.begins() || u == Month && first.Day() != 1 {
					t.Fatalf("%s %d: a window begins at %v", name, u, first)
				}
				at = w.End
			}
		}
	}
}

// TestCalendarTwice: an evening that clocks show a second time, and a date that Alaska had twice, are in the window that has begun.
func TestCalendarTwice(t *testing.T) {
	for _, c := range []struct {
		zone          string
		at, from, end time.Time
	}{
		{
			"America/St_Johns", time.Date(2006, 10, 29, 2, 45, 0, 0, time.UTC), // 23:15, the second time
			time.Date(2006, 10, 29, 2, 30, 0, 0, time.UTC), time.Date(2006, 10, 30, 3, 30, 0, 0, time.UTC),
		},
		{
			"America/Adak", time.Date(1867, 10, 19, 6, 0, 0, 0, time.UTC), // the 18th once more
			time.Date(1867, 10, 18, 11, 46, 38, 0, time.UTC), time.Date(1867, 10, 20, 11, 46, 38, 0, time.UTC),
		},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		Calendar(Day, zone).Windows(TimestampOf(c.at), func(w Window) {
			if w.Start != TimestampOf(c.from) || w.End != TimestampOf(c.end) {
				t.Errorf("%s: %v is in [%v, %v)", c.zone, c.at, w.Start.Time(), w.End.Time())
			}
		})
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		Calendar(WeekFrom(d), nil).Windows(0, func(w Window) {
			if w.Start > 0 || w.End <= 0 || w.Start.Time().Weekday() != d || w.End-w.Start != Timestamp(7*24*time.Hour) {
				t.Errorf("weeks from %v: [%v, %v)", d, w.Start.Time(), w.End.Time())
			}
		})
	}
}

func TestTimestamp(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want Timestamp
	}{
		{time.Unix(0, 5), 5},
		{time.Unix(0, -5), -5},
		{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), MinTimestamp},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), MaxTimestamp},
		{time.Unix(0, math.MaxInt64), MaxTimestamp},
		{time.Unix(0, math.MaxInt64).Add(1), MaxTimestamp},
	} {
		if got := TimestampOf(c.at); got != c.want {
			t.Errorf("%v: %d, want %d", c.at, got, c.want)
		}
	}
	if TimestampOfMillis(-3) != -3e6 || TimestampOfMillis(math.MaxInt64) != MaxTimestamp || TimestampOfMillis(math.MinInt64) != MinTimestamp {
		t.Error("milliseconds")
	}
}

// TestTriggersOfSlidingWindows: slices give way to windows with an accumulator each, and the answers stay those of Flink.
func TestTriggersOfSlidingWindows(t *testing.T) {
	got := runLines(t, Sliding(10, 5), Options{Watermark: Punctuated(), Trigger: Trigger{EarlyCount: 2}}, "k 6", "k 7", "watermark 9")
	want := []string{"k [0,10) 2 early", "k [5,15) 2 early", "k [0,10) 2 on time"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestKeyTypes orders results of all kinds of keys and brings them through a snapshot.
func TestKeyTypes(t *testing.T) {
	type name string
	type number int32
	keys(t, []name{"b", "", "aaaaaaaab", "aaaaaaaaa", "\xff", "a"})
	keys(t, []number{3, -1, math.MinInt32, math.MaxInt32, 0})
	keys(t, []int64{3, -1, math.MinInt64, math.MaxInt64, 0})
	keys(t, []int{5, -5})
	keys(t, []uint32{3, math.MaxUint32, 0})
	keys(t, []uint64{3, math.MaxUint64, 0})
}

func keys[K Key](t *testing.T, ks []K) {
	t.Helper()
	for _, a := range []Assigner{Tumbling(10), Sliding(10, 3)} {
		op, err := New(func(k K) K { return k }, a, aggregate.Count[K](), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []K
		emit := func(r Result[K, int64]) { got = append(got, r.Key) }
		for _, i := range rand.Perm(len(ks)) {
			if _, err := op.Process(0, 9, ks[i], emit); err != nil {
				t.Fatal(err)
			}
		}
		var b strings.Builder
		if err := op.Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		if op, err = New(func(k K) K { return k }, a, aggregate.Count[K](), Options{}); err != nil {
			t.Fatal(err)
		}
		if err := op.Restore(strings.NewReader(b.String())); err != nil {
			t.Fatal(err)
		}
		op.Finish(emit)
		want := slices.Sorted(slices.Values(ks))
		if !reflect.DeepEqual(got[:len(ks)], want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestDynamicSession compares with the union of what the events reach to, whatever the order.
func TestDynamicSession(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	gap := func(e input) time.Duration { return time.Duration(e.Value) }
	for range 200 {
		op := newOperator(t, DynamicSession(gap), Options{Watermark: Punctuated()})
		es := make([]input, 1+r.IntN(30))
		for i := range es {
			es[i] = input{TS: r.Int64N(200), Value: 1 + r.Int64N(20)}
		}
		var got, want []string
		emit := func(x Result[string, tally]) { got = append(got, fmt.Sprint(x.Window, x.Value.Count)) }
		for _, e := range es {
			if _, err := op.Process(0, Timestamp(e.TS), e, emit); err != nil {
				t.Fatal(err)
			}
		}
		op.Finish(emit)
		slices.SortFunc(es, func(x, y input) int { return int(x.TS - y.TS) })
		for i := 0; i < len(es); {
			w, n := Window{Timestamp(es[i].TS), Timestamp(es[i].TS + es[i].Value)}, 0
			for ; i < len(es) && Timestamp(es[i].TS) <= w.End; i++ {
				w.End = max(w.End, Timestamp(es[i].TS+es[i].Value))
				n++
			}
			want = append(want, fmt.Sprint(w, n))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v\ngot  %q\nwant %q", es, got, want)
		}
	}
	op := newOperator(t, DynamicSession(gap), Options{})
	if o, err := op.Process(0, 5, input{Value: 0}, nil); o != Rejected || err != nil || op.Counts().Rejected != 1 {
		t.Errorf("a gap of 0: %v %v", o, err)
	}
}
