package window

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// TestManyKeys has so many keys that windows fire thousands at once, and that come and go, with much and with nothing in common: the
// results are those of a recount, in order.
func TestManyKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	names := map[string]func(int) string{
		"number":   func(i int) string { return fmt.Sprintf("%06d", i) },
		"long":     func(i int) string { return fmt.Sprintf("user-%06d-%s", i%700, strings.Repeat("x", i%40)) },
		"growing":  func(i int) string { return strings.Repeat("a", 20-i%21) + fmt.Sprint(i) },
		"anything": func(i int) string { return string([]byte{byte(i), byte(i >> 8)}[:i%3]) },
	}
	for name, key := range names {
		for _, a := range []Assigner{Tumbling(50), Sliding(50, 10), Sliding(52, 10), Sliding(10, 30), Session(7)} {
			t.Run(fmt.Sprint(name, a.kind, a.size, a.slide), func(t *testing.T) { manyKeys(t, r, a, key) })
		}
	}
	keys := manyKeys(t, r, Sliding(50, 10), func(i int) int32 { return int32(i-1000) * 7919 })
	manyKeys(t, r, Tumbling(50), func(i int) uint64 { return uint64(i) << 45 })
	if keys < nearKeys && spillTo == nil {
		t.Errorf("with %d keys nothing is fetched", keys)
	}
}

type keyed[K Key] struct {
	key K
	at  Timestamp
}

func manyKeys[K Key](t *testing.T, r *rand.Rand, a Assigner, key func(int) K) (keys int) {
	t.Helper()
	op, err := New(func(e keyed[K]) K { return e.key }, a, aggregate.Count[keyed[K]](),
		spilling(Options{Watermark: BoundedOutOfOrderness(8)}))
	if err != nil {
		t.Fatal(err)
	}
	var got []Result[K, int64]
	emit := func(x Result[K, int64]) { got = append(got, x) }
	n := 12_000
	if spillTo != nil {
		n = fewer(fewer(n))
	}
	events := make([]keyed[K], n)
	for i := range events {
		n := r.IntN(2500) + i/8 // some keys come, some go
		if r.IntN(2) == 0 {
			n = r.IntN(40)
		}
		events[i] = keyed[K]{key(n), Timestamp(i/20 + r.IntN(8))}
		if i%50 == 0 { // of events that come and of others
			op.Prefetch(events[max(0, i-100) : i+1]...)
			op.Prefetch(events[i:min(i+r.IntN(100), len(events))]...)
		}
		if outcome, _ := op.Process(0, events[i].at, events[i], emit); outcome != Accepted && outcome != Unassigned {
			t.Fatal(outcome)
		}
	}
	keys = op.keys.used
	op.Finish(emit)
	want := recount(a, events)
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("result %d of %d is %+v, want %+v", i, len(want), got[i], want[i])
		}
	}
	if n := op.Keys(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	return keys
}

func recount[K Key](a Assigner, events []keyed[K]) []Result[K, int64] {
	type of struct {
		w   Window
		key K
	}
	counts := map[of]int64{}
	if a.kind == session {
		sorted := slices.SortedStableFunc(slices.Values(events), func(a, b keyed[K]) int { return cmp.Compare(a.at, b.at) })
		open := map[K]*of{}
		for _, e := range sorted {
			s := open[e.key]
			n := int64(0)
			if s == nil || e.at > s.w.End {
				s = &of{Window{Start: e.at}, e.key}
				open[e.key] = s
			} else {
				n = counts[*s]
				delete(counts, *s)
			}
			s.w.End = e.at.Add(a.size)
			counts[*s] = n + 1
		}
	} else {
		for _, e := range events {
			a.Windows(e.at, func(w Window) { counts[of{w, e.key}]++ })
		}
	}
	var out []Result[K, int64]
	for k, n := range counts {
		out = append(out, Result[K, int64]{Window: k.w, Key: k.key, Value: n})
	}
	slices.SortFunc(out, func(a, b Result[K, int64]) int {
		return cmp.Or(cmp.Compare(a.Window.End, b.Window.End), cmp.Compare(a.Window.Start, b.Window.Start), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// TestKeyTable is a table beside a map, through growth, refusal and sweeps.
func TestKeyTable(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	table := newKeyTable[string, int64](false)
	ids := map[string]int32{}
	for range 60_000 {
		k := fmt.Sprint(r.IntN(3000))
		id := table.find(k)
		if want, ok := ids[k]; ok && id != want || !ok && id != -1 {
			t.Fatalf("%s is %d, want %d, %v", k, id, want, ok)
		}
		switch r.IntN(3) {
		case 0:
			if ids[k] = table.get(k, 2000); ids[k] < 0 {
				t.Fatal("no sweep made room") // all are empty
			}
			for k, id := range ids { // the sweep dropped these
				if !table.at(id).used || table.at(id).key != k {
					delete(ids, k)
				}
			}
		case 1:
			if id >= 0 {
				table.drop(id)
				delete(ids, k)
			}
		}
	}
	if table.used != len(ids) || len(ids) == 0 {
		t.Errorf("%d keys, want %d", table.used, len(ids))
	}
}
