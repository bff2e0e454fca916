package window

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
	"github.com/tidemark-go/tidemark/window/spill"
)

// spillTo makes a Spill for each operator of the tests, when it is set.
var spillTo func() Spill

// spilling has one key in memory when spillTo is set.
func spilling(o Options) Options {
	if spillTo != nil {
		o.Spill, o.MaxResident = spillTo(), 1
	}
	return o
}

// share is an operator's share of a Disk, which has many in tests.
type share struct {
	*spill.Disk
	first uint64
	gets  *int
}

func (s share) Put(id uint64, state []byte) error { return s.Disk.Put(s.first+id, state) }

func (s share) Get(id uint64, dst []byte) ([]byte, error) {
	*s.gets++
	return s.Disk.Get(s.first+id, dst)
}

// TestSpilled runs the tests of windows and snapshots with all but one key on disk: the results are those of memory.
func TestSpilled(t *testing.T) {
	disk, err := spill.Open(t.TempDir(), spill.Options{Buffer: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	gets, operators := 0, uint64(0)
	spillTo = func() Spill {
		operators++
		return share{disk, operators << 32, &gets}
	}
	defer func() { spillTo = nil }()
	for name, test := range map[string]func(*testing.T){
		"oracle": TestOracle, "Flink": TestFlink, "options": TestOptions,
		"per event": TestPerEventAgainstModel, "per event, deterministic": TestPerEventDeterministic, "snapshots": TestSnapshotAnywhere, "changes": TestChangesAnywhere, "elsewhere": TestRestoreElsewhere, "many keys": TestManyKeys,
	} {
		before := gets
		t.Run(name, test)
		if gets == before {
			t.Errorf("%s brought nothing back", name)
		}
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
}

// broken fails after so many calls.
type broken struct {
	kept  map[uint64][]byte
	calls int
}

var errBroken = errors.New("broken")

func (b *broken) Put(id uint64, state []byte) error {
	if b.calls--; b.calls < 0 {
		return errBroken
	}
	b.kept[id] = bytes.Clone(state)
	return nil
}

func (b *broken) Get(id uint64, dst []byte) ([]byte, error) {
	if b.calls--; b.calls < 0 {
		return dst, errBroken
	}
	return append(dst, b.kept[id]...), nil
}

// TestSpillBreaks: after an error nothing is emitted and every call says so; a restored operator goes on.
func TestSpillBreaks(t *testing.T) {
	count := func(s Spill) *Operator[string, string, int64, int64] {
		op, err := New(func(s string) string { return s }, Tumbling(time.Second), aggregate.Count[string](),
			Options{Spill: s, MaxResident: 1, Watermark: Punctuated()})
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	for calls := range 30 {
		op := count(&broken{map[uint64][]byte{}, calls})
		var got []string
		emit := func(r Result[string, int64]) { got = append(got, fmt.Sprint(r.Key, r.Value)) }
		var err error
		for i := range 9 {
			if _, e := op.Process(0, Timestamp(i), string(rune('a'+i%3)), emit); e != nil {
				err = e
			}
		}
		op.Finish(emit)
		if op.Err() == nil {
			if fmt.Sprint(got) != "[a3 b3 c3]" {
				t.Fatalf("%d: %q", calls, got)
			}
			continue
		}
		if err == nil {
			_, err = op.Process(0, 1, "a", emit)
		}
		if !errors.Is(err, errBroken) || !errors.Is(op.Err(), errBroken) || !errors.Is(op.Snapshot(&bytes.Buffer{}), errBroken) {
			t.Errorf("%d: %v, %v", calls, err, op.Err())
		}
		if len(got) == 3 {
			t.Errorf("%d: all results, and an error", calls)
		}
	}
	malformed := &broken{map[uint64][]byte{}, 100}
	op := count(malformed)
	for _, k := range []string{"a", "b"} {
		if _, err := op.Process(0, 1, k, nil); err != nil {
			t.Fatal(err)
		}
	}
	for id := range malformed.kept {
		malformed.kept[id] = malformed.kept[id][:3]
	}
	if op.Finish(func(Result[string, int64]) {}); op.Err() == nil {
		t.Error("malformed state is no error")
	}
}

// TestSpillBytes: with a Spill, MaxBytes moves windows out of memory instead of refusing events, and results are those of memory; where keys
// alone have half of it, another one is refused.
func TestSpillBytes(t *testing.T) {
	for _, a := range []Assigner{Tumbling(50), Sliding(50, 10), Session(20), PerEvent(30)} {
		run := func(o Options) (results []string, refused uint64, most int64) {
			o.Watermark = BoundedOutOfOrderness(100)
			op := newTexts(t, a, o)
			emit := func(r Result[string, string]) { results = append(results, fmt.Sprint(r)) }
			for i := range 3000 {
				at := Timestamp(i/2 - i%7)
				e := input{Key: fmt.Sprint("k", i*7919%97), TS: int64(at), Value: int64(i % 20)}
				if _, err := op.Process(0, at, e, emit); err != nil {
					t.Fatal(err)
				}
				if got, want := op.Bytes(), held(t, op); got != want {
					t.Fatalf("%d bytes, and there are %d", got, want)
				}
				most = max(most, op.Bytes())
			}
			op.Finish(emit)
			if op.Err() != nil {
				t.Fatal(op.Err())
			}
			return results, op.Counts().Refused, most
		}
		want, _, all := run(Options{})
		memory := func() Spill { return &broken{map[uint64][]byte{}, math.MaxInt} }
		limit := max(all/2, 2*97*(newTexts(t, a, Options{}).keys.memory.key+3)+9000) // half of it has the keys
		got, refused, most := run(Options{Spill: memory(), MaxBytes: limit})
		if !slices.Equal(got, want) || refused > 0 || most > limit {
			t.Errorf("%v: %d refused, %d bytes of %d, %d results of %d", a.kind, refused, most, limit, len(got), len(want))
		}
		if _, refused, most = run(Options{Spill: memory(), MaxBytes: 9000}); refused == 0 || most > 9000 {
			t.Errorf("%v: %d refused, %d bytes of 9000", a.kind, refused, most)
		}
	}
}
