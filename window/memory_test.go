package window

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// text are the events' values, as strings of some bytes, collected with a sum: accumulators that grow.
type textOperator = Operator[string, input, aggregate.Acc2[aggregate.Exact, aggregate.Collection[string]], string]

func texts() Aggregator[input, aggregate.Acc2[aggregate.Exact, aggregate.Collection[string]], string] {
	return aggregate.Pair(
		aggregate.Sum(func(e input) float64 { return float64(e.Value) }),
		aggregate.Collect(func(e input) string { return strings.Repeat("x", int(e.Value+5)) },
			func(e input) int64 { return e.TS<<16 | e.Value }, 5, aggregate.Scalar[string]()),
		func(sum float64, c aggregate.Collected[string]) string { return fmt.Sprint(sum, c) })
}

func newTexts(tb testing.TB, a Assigner, o Options) *textOperator {
	tb.Helper()
	op, err := New(keyOf, a, texts(), spilling(o))
	if err != nil {
		tb.Fatal(err)
	}
	return op
}

// held recounts what an operator has from scratch, and checks that each key without windows can make room.
func held[K Key, V, A, R any](tb testing.TB, o *Operator[K, V, A, R]) (want int64) {
	tb.Helper()
	fresh := newKeyTable[K, A](o.sliding != nil)
	o.bound(&fresh.memory)
	fresh.memory.extra = make([]int64, o.keys.made)
	for id := range o.keys.made {
		s := o.keys.at(id)
		if !s.used {
			continue
		}
		fresh.memory.keys += fresh.self(s.key)
		fresh.recount(id, s, 0)
		if s.spilled {
			fresh.memory.parts += int64(len(o.keys.parts[id])) * fresh.memory.part
		}
		if s.empty() && !s.listed {
			tb.Fatalf("%v has no windows and is kept", s.key)
		}
	}
	return fresh.memory.bytes()
}

// TestBytes: what is counted is what is there, after each event of random runs under all kinds of options, and of what was restored.
func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	emit := func(Result[string, string]) {}
	for i, c := range snapshotCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.o.Watermark = BoundedOutOfOrderness(8)
			op := newTexts(t, c.a, c.o)
			most := int64(0)
			for j, e := range stream(r, 300) {
				e.Key += fmt.Sprint(e.TS / 50 % 7)
				if _, err := op.Process(j%2, Timestamp(e.TS), e, emit); err != nil {
					t.Fatal(err)
				}
				if got, want := op.Bytes(), held(t, op); got != want {
					t.Fatalf("after %d events: %d bytes, and there are %d", j, got, want)
				}
				most = max(most, op.Bytes())
				if j%40 != 7 {
					continue
				}
				var b bytes.Buffer
				if err := op.Snapshot(&b); err != nil {
					t.Fatal(err)
				}
				again := newTexts(t, c.a, c.o)
				if err := again.Restore(&b); err != nil {
					t.Fatal(err)
				}
				op.keys.evict(-1, func() bool { return false })
				if got, want := again.Bytes(), op.Bytes(); got != want || got != held(t, again) {
					t.Fatalf("restored after %d events: %d bytes, before %d, and there are %d", j, got, want, held(t, again))
				}
			}
			op.Finish(emit)
			op.keys.evict(-1, func() bool { return false })
			if c.a.kind != counting && c.a.kind != global && op.Bytes() != 0 || most == 0 {
				t.Errorf("%d bytes are left, of %d", op.Bytes(), most)
			}
		})
	}
}

// TestBounds: under bounds of all kinds memory stays below them, but for what one event adds to accumulators; what is refused is counted, and
// is the same when the operator is restored in between.
func TestBounds(t *testing.T) {
	const oneEvent = 6 * (24 + 8 + 5*48) // a string in each of the windows that it is in, and the slice that has it
	r := rand.New(rand.NewPCG(6, 2))
	for i, c := range snapshotCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			refused := uint64(0)
			for run := range 24 {
				o := c.o
				o.Watermark, o.Partitions = BoundedOutOfOrderness(8), 0
				records := stream(r, 200)
				for j := range records {
					records[j].Key += fmt.Sprint(r.IntN(9))
				}
				o.MaxBytes, o.MaxKeyBytes = int64(800+r.IntN(9000)), int64(700+r.IntN(6000))
				switch run % 4 {
				case 0:
					o.MaxKeys = 5
				case 1:
					o.MaxWindowsPerKey = 3
				}
				var want []string
				var wantCounts Counts
				for _, restored := range []int{-1, r.IntN(len(records))} {
					var got []string
					emit := func(x Result[string, string]) { got = append(got, fmt.Sprint(x)) }
					op := newTexts(t, c.a, o)
					for j, e := range records {
						before := op.Bytes()
						outcome, err := op.ProcessID(0, Timestamp(e.TS), fmt.Sprint(j), e, emit)
						if err != nil {
							t.Fatal(err)
						}
						if op.Bytes() > o.MaxBytes+oneEvent {
							t.Fatalf("%d bytes of %d, after %d", op.Bytes(), o.MaxBytes, before)
						}
						got = append(got, outcome.String())
						if j == restored {
							var b bytes.Buffer
							if err := op.Snapshot(&b); err != nil {
								t.Fatal(err)
							}
							op = newTexts(t, c.a, o)
							if err := op.Restore(&b); err != nil {
								t.Fatal(err)
							}
						}
					}
					op.Finish(emit)
					if restored < 0 {
						want, wantCounts = got, op.Counts()
						continue
					}
					if !slices.Equal(got, want) || op.Counts() != wantCounts {
						at := 0
						for at < len(got) && at < len(want) && got[at] == want[at] {
							at++
						}
						t.Fatalf("restored after %d, %+v: %q, want %q", restored, o, got[at:min(at+3, len(got))], want[at:min(at+3, len(want))])
					}
				}
				refused += wantCounts.Refused
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// TestFull: a deterministic operator of several partitions has the results of one without bounds, whatever the interleaving, if the reader
// goes on with another partition where there is no room; and an error where there is none at all.
func TestFull(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 2))
	full, ended := 0, 0
	for _, a := range []Assigner{Tumbling(20), Sliding(21, 5), Session(6), PerEvent(15)} {
		for _, lateness := range []time.Duration{0, 15} {
			for range 20 {
				parts := [][]input{stream(r, 60), stream(r, 60)}
				o := Options{Deterministic: true, Partitions: 2, AllowedLateness: lateness, Watermark: BoundedOutOfOrderness(10), MaxJump: 200}
				want, outcomes := interleave(t, a, o, parts, r)
				o.MaxBytes = int64(3000 + r.IntN(20_000))
				got, again, times, ok := interleaveFull(t, newOperator(t, a, o), parts, r)
				full += times
				if !ok {
					ended++
					if !slices.Equal(got, want[:len(got)]) {
						t.Fatalf("before the end the results differ:\n%q\n%q", got, want)
					}
					continue
				}
				if !slices.Equal(got, want) || !slices.Equal(again, outcomes) {
					t.Fatalf("results differ:\n%q\n%q", got, want)
				}
			}
		}
	}
	if full < 50 || ended == 0 || ended > 120 {
		t.Errorf("%d times full, %d ends: the runs show nothing", full, ended)
	}
}

// interleaveFull is interleave for an operator that has little room. It is not ok when no partition can go on.
func interleaveFull(t *testing.T, op *Operator[string, input, tally, tally], parts [][]input, r *rand.Rand) (results, outcomes []string, full int, ok bool) {
	t.Helper()
	emit := func(x Result[string, tally]) { results = append(results, printed(x)) }
	next, waiting := make([]int, len(parts)), 0
	for p := 0; next[0] < len(parts[0]) || next[1] < len(parts[1]); {
		if r.IntN(10) == 0 && waiting == 0 || next[p] == len(parts[p]) {
			p = 1 - p
		}
		if next[p] == len(parts[p]) {
			p = 1 - p
		}
		e := parts[p][next[p]]
		outcome, err := op.ProcessID(p, Timestamp(e.TS), fmt.Sprint(p, e), e, emit)
		if errors.Is(err, ErrFull) {
			if full, waiting = full+1, waiting|1<<p; waiting == 3 || next[1-p] == len(parts[1-p]) {
				return results, outcomes, full, false
			}
			p = 1 - p
			continue
		}
		if err != nil || outcome == Refused {
			t.Fatal(outcome, err)
		}
		waiting = 0
		outcomes = append(outcomes, fmt.Sprintf("%d %04d %v", p, next[p], outcome))
		next[p]++
	}
	op.Finish(emit)
	slices.Sort(outcomes)
	return results, outcomes, full, true
}

// TestHostileKeys: keys that are long, without number, or in windows without number, take no more memory than they may, and no more time each.
func TestHostileKeys(t *testing.T) {
	emit := func(Result[string, int64]) {}
	open := func(a Assigner, o Options) *Operator[string, string, int64, int64] {
		o.Watermark = BoundedOutOfOrderness(time.Hour)
		op, err := New(func(s string) string { return s }, a, aggregate.Count[string](), o)
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	process := func(op *Operator[string, string, int64, int64], at Timestamp, key string) Outcome {
		t.Helper()
		outcome, err := op.Process(0, at, key, emit)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	t.Run("long", func(t *testing.T) {
		op := open(Tumbling(time.Minute), Options{MaxBytes: 1 << 20, MaxKeyBytes: 10_000})
		if got := process(op, 1, strings.Repeat("x", 5000)); got != Refused || op.Bytes() != 0 {
			t.Errorf("a key of more than half of MaxKeyBytes is %v, %d bytes", got, op.Bytes())
		}
		accepted := 0
		for i := range 1000 {
			if process(op, 1, fmt.Sprint(i, strings.Repeat("x", 4000))) == Accepted {
				accepted++
			}
		}
		if accepted < 200 || accepted > 1<<20/4000 || op.Bytes() > 1<<20 {
			t.Errorf("%d keys of 4 KB in %d bytes", accepted, op.Bytes())
		}
	})
	for name, o := range map[string]Options{"number": {MaxKeys: 50_000}, "bytes": {MaxBytes: 10 << 20}} {
		t.Run(name, func(t *testing.T) {
			op := open(Tumbling(time.Minute), o)
			refused, step := 0, Timestamp(50*time.Millisecond)
			for i := range 300_000 { // a key in each window, when the watermark is an hour behind: 72,000 windows are open at most
				if process(op, Timestamp(i)*step, fmt.Sprint("key-", i)) == Refused {
					refused++
				}
			}
			if int(op.Counts().Refused) != refused || refused == 0 || o.MaxKeys > 0 && op.keys.used > o.MaxKeys || o.MaxBytes > 0 && op.Bytes() > o.MaxBytes {
				t.Errorf("%d refused, %d counted, %d keys in %d bytes", refused, op.Counts().Refused, op.keys.used, op.Bytes())
			}
		})
	}
	for name, a := range map[string]Assigner{
		"tumbling": Tumbling(time.Second), "sliding": Sliding(time.Second, time.Millisecond), "session": Session(time.Second), "per event": PerEvent(time.Second),
	} {
		t.Run("far apart, "+name, func(t *testing.T) {
			op, refused := open(a, Options{MaxKeyBytes: 20_000}), 0
			for i := range 5000 { // in an hour, so that all windows stay open
				if process(op, Timestamp(i*7919%5000)*Timestamp(time.Hour)/5000, "k") == Refused {
					refused++
				}
				if op.Bytes() > 20_000 {
					t.Fatalf("%d bytes", op.Bytes())
				}
			}
			if refused < 4000 || int(op.Counts().Refused) != refused {
				t.Errorf("%d refused, %d counted", refused, op.Counts().Refused)
			}
		})
	}
}
