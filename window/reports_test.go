package window

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestReports has what went wrong elsewhere, one test a bug report, by its number. Times are nanoseconds, where the report has others too.
func TestReports(t *testing.T) {
	punctuated := Options{Watermark: Punctuated()}
	for _, c := range []struct {
		report string
		a      Assigner
		o      Options
		lines  []string
		want   []string
	}{
		{
			"FLINK-26334 and SPARK-39347: windows before 1970 are rounded down", Tumbling(7), punctuated,
			[]string{"k -10", "watermark 0"},
			[]string{"k [-14,-7) 1 on time"},
		},
		{
			"bytewax 485: a size that is no multiple of the slide", Sliding(5500, 5000), punctuated,
			[]string{"k 513040", "watermark 600000"},
			[]string{"k [510000,515500) 1 on time"},
		},
		{
			"bytewax 413: windows far from where they are aligned", Sliding(1600, 700), punctuated,
			[]string{"k 1709315512577", "watermark 1709315520000"},
			[]string{"k [1709315511400,1709315513000) 1 on time", "k [1709315512100,1709315513700) 1 on time"},
		},
		{
			"Beam 36609: a slide larger than the size", Sliding(5, 10), punctuated,
			[]string{"k 1", "k 2", "k 3", "k 4", "k 5", "k 6", "k 7", "k 8", "k 9", "k 10", "watermark 20"},
			[]string{
				"k 5 unassigned", "k 6 unassigned", "k 7 unassigned", "k 8 unassigned", "k 9 unassigned",
				"k [0,5) 4 on time", "k [10,15) 1 on time",
			},
		},
		{
			"Beam 35384: no sliding window fires before its end", Sliding(5, 3), punctuated,
			[]string{"k 4", "watermark 3", "k 4", "watermark 4", "k 4", "watermark 7"},
			[]string{"k [0,5) 2 on time", "k [3,8) 3 on time"},
		},
		{
			"Beam 33542: sessions of one key are not joined by those of another", Session(15), punctuated,
			[]string{"a 0", "b 10", "a 20", "watermark 100"},
			[]string{"a [0,15) 1 on time", "b [10,25) 1 on time", "a [20,35) 1 on time"},
		},
		{
			"KAFKA-8289 and KAFKA-12718: a session is open until its last event + gap", Session(5), punctuated,
			[]string{"k 0", "watermark 3", "k 4", "watermark 7", "watermark 8"},
			[]string{"k [0,9) 2 on time"},
		},
		{
			"Arroyo 829: one late event in a batch drops no other", Tumbling(1000), punctuated,
			[]string{"k 9999", "watermark 9999", "k 1000", "k 10500", "k 11000", "watermark 20000"},
			[]string{"k [9000,10000) 1 on time", "k 1000 late", "k [10000,11000) 1 on time", "k [11000,12000) 1 on time"},
		},
		{
			"Jet 747: an event behind a closed session does not go to the next", Session(5), punctuated,
			[]string{"k 0", "watermark 10", "k 20", "k 2", "watermark 100"},
			[]string{"k [0,5) 1 on time", "k 2 late", "k [20,25) 1 on time"},
		},
		{
			"Numaflow 494: an event ahead of the watermark is kept", Tumbling(10), punctuated,
			[]string{"watermark 12", "k 13", "k 31", "watermark 100"},
			[]string{"k [10,20) 1 on time", "k [30,40) 1 on time"},
		},
		{
			"eKuiper 530: one timestamp from the far future does not close everything", Tumbling(10),
			Options{MaxJump: 100},
			[]string{"k 1", "k 4000000000", "k 2", "k 12"},
			[]string{"k 4000000000 too far", "k [0,10) 2 on time"},
		},
		{
			"quix-streams 728: a very late event makes no window", Tumbling(10),
			Options{AllowedLateness: 10},
			[]string{"k 100", "k 5", "k 101"},
			[]string{"k 5 late"},
		},
	} {
		t.Run(c.report, func(t *testing.T) {
			if got := runLines(t, c.a, c.o, c.lines...); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
	t.Run("Arroyo 596: sliding windows at both ends of a stream", reportArroyo596)
	t.Run("Jet 675: a sum that is kept running stays right when an event is late for some windows", reportJet675)
	t.Run("FLINK-36663 and FLINK-24501: what was late before a restart is late after it", reportFlink36663)
	t.Run("FLINK-38454: all idle, in either order, ends at the greatest", reportFlink38454)
	t.Run("FLINK-40504: a partition that comes back behind makes the whole active", reportFlink40504)
	t.Run("FLINK-40475: the watermark of the only partition that counts comes out", reportFlink40475)
	t.Run("FLINK-35886 and FLINK-40234: who is blocked is not idle", reportFlink35886)
	t.Run("Flink's multiplexer: no partition, no watermark", reportNoPartitions)
	t.Run("IBM SWAG 77: random inserts and evictions equal a recomputation", reportSwag77)
}

func reportArroyo596(t *testing.T) {
	op := newOperator(t, Sliding(10*time.Second, 2*time.Second), Options{})
	var got []int64
	emit := func(r Result[string, tally]) { got = append(got, r.Value.Count) }
	for i := range 100 {
		if _, err := op.Process(0, Timestamp(i)*Timestamp(200*time.Millisecond), input{Key: "k"}, emit); err != nil {
			t.Fatal(err)
		}
	}
	op.Finish(emit)
	if want := []int64{10, 20, 30, 40, 50, 50, 50, 50, 50, 50, 40, 30, 20, 10}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// reportJet675 gives late events to windows that share slices or instants, and adds up each result anew.
func reportJet675(t *testing.T) {
	for name, a := range map[string]Assigner{"sliding": Sliding(20, 5), "per event": PerEvent(20)} {
		r := rand.New(rand.NewPCG(1, 675))
		op, err := New(keyOf, a, removable{}, Options{Watermark: BoundedOutOfOrderness(6), AllowedLateness: 12})
		if err != nil {
			t.Fatal(err)
		}
		var taken []input
		updates := 0
		emit := func(x Result[string, tally]) {
			sum := int64(0)
			for _, e := range taken {
				if x.Window.Start <= Timestamp(e.TS) && Timestamp(e.TS) < x.Window.End {
					sum += e.Value
				}
			}
			if x.Kind == Updated {
				updates++
			}
			if x.Value.Sum != sum {
				t.Fatalf("%s %v: %d, want %d", name, x.Window, x.Value.Sum, sum)
			}
		}
		for _, e := range stream(r, 2000) {
			e.Key = "k"
			taken = append(taken, e)
			outcome, err := op.Process(0, Timestamp(e.TS), e, emit)
			if err != nil {
				t.Fatal(err)
			}
			if outcome == Late {
				taken = taken[:len(taken)-1]
			}
		}
		if op.Finish(emit); updates < 100 {
			t.Errorf("%s: %d updates", name, updates)
		}
	}
}

func reportFlink36663(t *testing.T) {
	for name, a := range map[string]Assigner{
		"tumbling": Tumbling(10), "sliding": Sliding(10, 5), "session": Session(5), "per event": PerEvent(3), "calendar": Calendar(Day, nil),
	} {
		op := newOperator(t, a, Options{Watermark: Punctuated()})
		var got []string
		emit := func(r Result[string, tally]) { got = append(got, fmt.Sprint(r.Window, r.Value.Count)) }
		if _, err := op.Process(0, 3, input{Key: "k"}, emit); err != nil {
			t.Fatal(err)
		}
		op.Advance(0, Timestamp(48*time.Hour), emit)
		fired := len(got)
		var b bytes.Buffer
		if err := op.Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		op = newOperator(t, a, Options{Watermark: Punctuated()})
		if err := op.Restore(&b); err != nil {
			t.Fatal(err)
		}
		if o, err := op.Process(0, 4, input{Key: "k"}, emit); err != nil || o != Late {
			t.Errorf("%s: %v %v", name, o, err)
		}
		if op.Finish(emit); len(got) != fired || fired == 0 {
			t.Errorf("%s: %q after %d", name, got, fired)
		}
	}
}

func reportFlink38454(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		c := NewCombiner(2)
		c.Advance(0, 5)
		c.Advance(1, 2)
		for _, p := range order {
			c.SetIdle(p, true)
		}
		if c.Watermark() != 5 || !c.Idle() {
			t.Errorf("idle in the order %v: %d, idle %t", order, c.Watermark(), c.Idle())
		}
	}
}

func reportFlink40504(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(0, 2)
	c.Advance(1, 5)
	c.SetIdle(0, true)
	c.SetIdle(1, true)
	c.SetIdle(0, false)
	if c.Advance(0, 3); c.Idle() || c.Watermark() != 5 {
		t.Errorf("idle %t, watermark %d", c.Idle(), c.Watermark())
	}
}

func reportFlink40475(t *testing.T) {
	c := NewCombiner(2)
	c.Advance(0, 5)
	c.Advance(1, 4)
	c.SetIdle(0, true)
	c.SetIdle(1, true)
	c.SetIdle(0, false)
	if c.Advance(0, 9); c.Watermark() != 9 {
		t.Errorf("watermark %d", c.Watermark())
	}
	c.SetIdle(1, false) // is behind, and holds nothing back
	if c.Advance(0, 12); c.Watermark() != 12 {
		t.Errorf("watermark %d", c.Watermark())
	}
	c.Advance(1, 12)
	if c.Advance(0, 20); c.Watermark() != 12 {
		t.Errorf("who has caught up holds nothing back: watermark %d", c.Watermark())
	}
}

// reportFlink35886 lets a day go by between records: idleness is a matter of event time, and a process that stood still has missed none.
func reportFlink35886(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := newOperator(t, Tumbling(10), Options{Partitions: 2, IdleAfter: time.Minute})
		emit := func(Result[string, tally]) {}
		for i := range 3 {
			for p := range 2 {
				if _, err := op.Process(p, Timestamp(20*i+p), input{Key: "k"}, emit); err != nil {
					t.Fatal(err)
				}
				time.Sleep(24 * time.Hour)
			}
		}
		if op.Watermark() != 39 || op.marks.idle != 0 {
			t.Errorf("watermark %d, %d idle", op.Watermark(), op.marks.idle)
		}
	})
}

func reportNoPartitions(t *testing.T) {
	c := NewCombiner(0)
	if c.Idle() || c.Watermark() != MinTimestamp {
		t.Errorf("idle %t, watermark %d", c.Idle(), c.Watermark())
	}
	c.Advance(3, 7)
	c.Remove(3)
	if c.Remove(3); c.Watermark() != 7 || c.Idle() {
		t.Errorf("without partitions again: idle %t, watermark %d", c.Idle(), c.Watermark())
	}
	op := newOperator(t, Tumbling(10), Options{})
	op.Finish(func(Result[string, tally]) { t.Error("a result") })
	if op.Watermark() != MinTimestamp {
		t.Errorf("watermark %d", op.Watermark())
	}
}

func reportSwag77(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	add := func(into *[]int64, from []int64) { *into = append(slices.Clone(*into), from...) }
	for range 100 {
		var tree instants[[]int64]
		var all []int64
		low := int64(0)
		for range 300 {
			if r.IntN(5) == 0 {
				low += r.Int64N(40)
				tree.prune(Timestamp(low))
				all = slices.DeleteFunc(all, func(at int64) bool { return at < low })
				continue
			}
			at := low + r.Int64N(200)
			leaf, _ := tree.change(Timestamp(at))
			leaf.acc, leaf.events = append(leaf.acc, at), leaf.events+1
			pos, _ := slices.BinarySearch(all, at)
			all = slices.Insert(all, pos, at)
			from := low + r.Int64N(100)
			to := from + r.Int64N(100)
			var got, want []int64
			tree.merge(add, Timestamp(from), Timestamp(to), &got)
			for _, x := range all {
				if from <= x && x <= to {
					want = append(want, x)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("[%d,%d]: %v, want %v", from, to, got, want)
			}
		}
	}
}
