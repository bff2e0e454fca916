package pulsarx

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// bench drives a scheduler with a clock of its own.
type bench struct {
	t    *testing.T
	s    *scheduler
	now  time.Time
	part *partition
	keys map[string]*queue
	of   map[*item]string // the key: an empty queue takes another one
	n    int64
}

func newBench(t *testing.T, o ConsumerOptions) *bench {
	t.Helper()
	return &bench{
		t: t, s: newScheduler(o.withDefaults(), func() float64 { return 0 }), now: time.Unix(1000, 0),
		part: &partition{name: "t", topic: "t"}, keys: map[string]*queue{}, of: map[*item]string{},
	}
}

// add receives messages, each named by its key and a number in the order of their coming.
func (b *bench) add(keys ...string) (items []*item) {
	for _, key := range keys {
		it := &item{entry: &entry{number: b.n}, partition: b.part, queue: b.s.queue(b.keys, key), arrived: b.now}
		b.n++
		b.of[it] = key
		b.s.add(it)
		items = append(items, it)
	}
	return items
}

func (b *bench) names(items []*item) string {
	var all []string
	for _, it := range items {
		all = append(all, fmt.Sprintf("%s%d", b.of[it], it.entry.number))
	}
	return strings.Join(all, " ")
}

// batch expects a batch.
func (b *bench) batch(want string) []*item {
	b.t.Helper()
	w, _, ok := b.s.next(b.now, true, true)
	if got := b.names(w.batch); !ok || got != want {
		b.t.Fatalf("batch %q (%v), want %q", got, ok, want)
	}
	return w.batch
}

func (b *bench) bury(want string) *item {
	b.t.Helper()
	w, _, ok := b.s.next(b.now, true, true)
	if !ok || w.bury == nil || b.names([]*item{w.bury}) != want {
		b.t.Fatalf("%+v, want the burial of %s", w, want)
	}
	return w.bury
}

// idle expects that nothing is due before wait has passed, 0 for never.
func (b *bench) idle(wait time.Duration) {
	b.t.Helper()
	w, wake, ok := b.s.next(b.now, true, true)
	if ok {
		b.t.Fatalf("work %+v", w)
	}
	if wait == 0 && !wake.IsZero() || wait != 0 && wake.Sub(b.now) != wait {
		b.t.Fatalf("next work in %v, want %v", wake.Sub(b.now), wait)
	}
}

// finish gives the batch its verdicts as Run does: errs aligned with the batch or nil, and whether the handler named them.
func (b *bench) finish(batch []*item, errs []error, named bool, want string) {
	b.t.Helper()
	verdicts, of := make([]verdict, len(batch)), slices.Clone(batch)
	for i := range errs {
		if errs[i] != nil {
			verdicts[i] = verdict{failed, errs[i], named, len(batch) == 1}
		}
	}
	done, _ := b.s.finish(b.now, work{batch: of, verdicts: verdicts})
	if got := b.names(done); got != want {
		b.t.Fatalf("done %q, want %q", got, want)
	}
}

var errTest = errors.New("test")

func all(n int, err error) []error { return slices.Repeat([]error{err}, n) }

func TestSchedulerFillsBatches(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 3, MaxDelay: 5 * time.Millisecond})
	b.idle(0)
	b.add("a", "b")
	b.idle(5 * time.Millisecond)
	b.now = b.now.Add(2 * time.Millisecond)
	b.idle(3 * time.Millisecond)
	b.add("a")
	batch := b.batch("a0 a2 b1") // full
	b.add("a", "b", "c")
	b.now = b.now.Add(5 * time.Millisecond)
	other := b.batch("c5") // a and b are taken
	b.idle(0)
	b.finish(batch, nil, true, "a0 a2 b1")
	b.finish(b.batch("a3 b4"), nil, true, "a3 b4") // they have waited long enough
	b.finish(other, nil, true, "c5")
	b.idle(0)
	if len(b.keys) != 0 {
		t.Error("something is still held")
	}
}

func TestSchedulerRetriesInPlace(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1, Backoff: Backoff{Initial: 20 * time.Millisecond}})
	b.add("a", "a", "a", "b")
	batch := b.batch("a0 a1 a2 b3")
	b.finish(batch, []error{nil, errTest, nil, nil}, true, "a0 b3") // a2 ran, and runs again
	b.add("a", "b")
	b.finish(b.batch("b5"), nil, true, "b5")
	b.idle(10 * time.Millisecond)
	b.now = b.now.Add(10 * time.Millisecond)
	batch = b.batch("a1 a2 a4")
	if batch[0].attempts != 1 || batch[1].attempts != 0 {
		t.Errorf("attempts %d %d", batch[0].attempts, batch[1].attempts)
	}
	b.finish(batch, nil, true, "a1 a2 a4")
}

func TestSchedulerLastAttemptAlone(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1, DeadLetter: DeadLetterPolicy{MaxAttempts: 3}})
	b.add("a", "b", "a")
	b.finish(b.batch("a0 a2 b1"), all(3, errTest), false, "")
	b.now = b.now.Add(time.Minute)
	b.finish(b.batch("a0 a2 b1"), all(3, errTest), false, "")
	b.now = b.now.Add(time.Minute)
	a, bb := b.batch("a0"), b.batch("b1")
	b.finish(bb, nil, true, "b1")
	b.finish(a, all(1, errTest), false, "")
	grave := b.bury("a0")
	if grave.grave.reason != reasonAttempts || grave.attempts != 3 {
		t.Errorf("%+v", grave.grave)
	}
	b.idle(0) // a2 waits for the burial
	b.s.buried(b.now, grave, errTest)
	b.idle(50 * time.Millisecond)
	b.now = b.now.Add(50 * time.Millisecond)
	b.s.buried(b.now, b.bury("a0"), nil)
	b.finish(b.batch("a2"), nil, true, "a2")
}

func TestSchedulerPermanent(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1})
	b.add("a", "b", "a")
	b.finish(b.batch("a0 a2 b1"), []error{Permanent(errTest), nil, nil}, true, "b1") // named: at once
	b.s.buried(b.now, b.bury("a0"), nil)
	b.add("c")
	b.finish(b.batch("a2 c3"), all(2, Permanent(errTest)), false, "") // not named: one by one, at once
	b.finish(b.batch("a2"), nil, true, "a2")
	b.finish(b.batch("c3"), all(1, Permanent(errTest)), false, "")
	if it := b.bury("c3"); it.grave.reason != reasonPermanent {
		t.Errorf("%+v", it.grave)
	}
}

func TestSchedulerPanic(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1, DeadLetter: DeadLetterPolicy{MaxAttempts: 2}})
	b.add("a", "b")
	b.finish(b.batch("a0 b1"), all(2, panicError{"boom"}), false, "")
	b.now = b.now.Add(time.Minute)
	b.finish(b.batch("a0"), nil, true, "a0")
	b.finish(b.batch("b1"), all(1, panicError{"boom"}), false, "")
	b.bury("b1")
}

func TestSchedulerOneAttempt(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1, DeadLetter: DeadLetterPolicy{MaxAttempts: 1}})
	b.add("a")
	b.finish(b.batch("a0"), all(1, errTest), false, "")
	b.s.buried(b.now, b.bury("a0"), nil)
	b.add("b", "c")
	b.finish(b.batch("b1 c2"), all(2, errTest), false, "") // in company: once more, alone
	b.now = b.now.Add(time.Minute)
	b.finish(b.batch("b1"), all(1, errTest), false, "")
	b.bury("b1")
	b.finish(b.batch("c2"), nil, true, "c2")
	b.add("d", "e")
	b.finish(b.batch("d3 e4"), []error{errTest, nil}, true, "e4") // named: that was its one attempt
	b.bury("d3")
}

func TestSchedulerForEver(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxDelay: -1, DeadLetter: DeadLetterPolicy{MaxAttempts: -1}})
	b.add("a")
	for range 200 {
		b.finish(b.batch("a0"), all(1, errTest), false, "")
		b.now = b.now.Add(time.Minute)
	}
	b.finish(b.batch("a0"), nil, true, "a0")
}

func TestSchedulerUndecodableInOrder(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1})
	b.add("a", "a", "a", "b")
	batch := b.batch("a0 a1 a2 b3")
	done, _ := b.s.finish(b.now, work{batch: batch, verdicts: []verdict{{}, {kind: condemned, err: errTest}, {kind: passedOver}, {}}})
	if got := b.names(done); got != "a0 b3" {
		t.Errorf("done %q", got)
	}
	grave := b.bury("a1")
	b.idle(0)
	b.s.buried(b.now, grave, nil)
	b.batch("a2")
}

func TestSchedulerUnready(t *testing.T) {
	b := newBench(t, ConsumerOptions{MaxBatch: 10, MaxDelay: -1})
	b.add("a", "b")
	batch := b.batch("a0 b1")
	b.s.finish(b.now, work{batch: batch, verdicts: []verdict{{kind: unready}, {}}})
	b.idle(5 * time.Millisecond)
	b.now = b.now.Add(5 * time.Millisecond)
	batch = b.batch("a0")
	if batch[0].attempts != 0 {
		t.Error("waiting for a schema counts as an attempt")
	}
	b.s.finish(b.now, work{batch: batch, verdicts: []verdict{{kind: unready}}})
	b.idle(10 * time.Millisecond)
}

// TestSchedulerProperty: whatever the handlers do, a key's messages succeed in order, none is lost, none of two batches at once.
func TestSchedulerProperty(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, ConsumerOptions{MaxBatch: 1 + rng.IntN(6), DeadLetter: DeadLetterPolicy{MaxAttempts: 1 + rng.IntN(4)}})
		poison := map[*item]bool{}
		last := map[string]int64{}
		running := map[string]bool{}
		var open []work
		total, settled := 0, 0
		settle := func(it *item) {
			if at, ok := last[b.of[it]]; ok && at >= it.entry.number {
				t.Fatalf("seed %d: %s%d after %d", seed, b.of[it], it.entry.number, at)
			}
			last[b.of[it]] = it.entry.number
			settled++
		}
		for step := 0; step < 4000 && (step < 300 || settled < total); step++ {
			if step < 300 && rng.IntN(3) > 0 {
				it := b.add(string(rune('a' + rng.IntN(5))))[0]
				poison[it] = rng.IntN(8) == 0
				total++
			}
			if w, wake, ok := b.s.next(b.now, len(open) < 3, true); ok {
				items := w.batch
				if w.bury != nil {
					items = []*item{w.bury}
					if !poison[w.bury] {
						t.Fatalf("seed %d: a good message is buried", seed)
					}
				}
				for i, it := range items {
					if running[b.of[it]] && (i == 0 || items[i-1].queue != it.queue) {
						t.Fatalf("seed %d: key %s twice at once", seed, b.of[it])
					}
					running[b.of[it]] = true
				}
				open = append(open, w)
			} else if !wake.IsZero() && rng.IntN(2) == 0 {
				b.now = wake
			}
			if len(open) == 0 || rng.IntN(2) == 0 {
				continue
			}
			i := rng.IntN(len(open))
			w := open[i]
			open = slices.Delete(open, i, i+1)
			if w.bury != nil {
				delete(running, b.of[w.bury])
				if rng.IntN(3) == 0 {
					b.s.buried(b.now, w.bury, errTest)
				} else {
					b.s.buried(b.now, w.bury, nil)
					settle(w.bury)
				}
				continue
			}
			for _, it := range w.batch {
				delete(running, b.of[it])
			}
			randomVerdicts(rng, w, poison)
			done, _ := b.s.finish(b.now, w)
			for _, it := range done {
				if poison[it] {
					t.Fatalf("seed %d: poison succeeded", seed)
				}
				settle(it)
			}
		}
		if settled != total || len(b.keys) != 0 {
			t.Fatalf("seed %d: %d of %d settled, %d keys left", seed, settled, total, len(b.keys))
		}
	}
}

// randomVerdicts fails poison, in one of the ways in which handlers fail.
func randomVerdicts(rng *rand.Rand, w work, poison map[*item]bool) {
	bad := slices.ContainsFunc(w.batch, func(it *item) bool { return poison[it] })
	err := []error{errTest, Permanent(errTest), panicError{"boom"}}[rng.IntN(3)]
	named := rng.IntN(2) == 0 && !errors.As(err, new(panicError))
	for i, it := range w.batch {
		if bad && (!named || poison[it]) {
			w.verdicts[i] = verdict{failed, err, named, len(w.batch) == 1}
		}
	}
}
