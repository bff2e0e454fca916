package window

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// chained is an operator and the snapshots that it has written.
type chained struct {
	*Operator[string, input, tally, tally]
	parts []bytes.Buffer
}

func (c *chained) write(t *testing.T, changes bool) {
	t.Helper()
	if !changes {
		c.parts = nil
	}
	var b bytes.Buffer
	var err error
	if changes {
		err = c.SnapshotChanges(&b)
	} else {
		err = c.Snapshot(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.parts = append(c.parts, b)
}

func (c *chained) reader() io.Reader {
	rs := make([]io.Reader, len(c.parts))
	for i := range c.parts {
		rs[i] = bytes.NewReader(c.parts[i].Bytes())
	}
	return io.MultiReader(rs...)
}

// TestChangesAnywhere writes snapshots and changes at random steps of random runs, and goes on from them in another operator, which writes
// more changes: its state is the same to the byte, and so are its results.
func TestChangesAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	for i, c := range snapshotCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.o.Watermark = BoundedOutOfOrderness(8)
			runs := fewer(12)
			if spillTo != nil {
				runs = 3
			}
			for range runs {
				records := stream(r, 120)
				var want, got []string
				whole := newOperator(t, c.a, c.o)
				op := &chained{Operator: newOperator(t, c.a, c.o)}
				for j, e := range records {
					e.Key += fmt.Sprint(e.TS / 50 % 7) // keys come and go
					id := ""
					if c.o.MaxIDs > 0 {
						id = fmt.Sprint(j / 2)
					}
					p := r.IntN(2)
					if _, err := whole.ProcessID(p, Timestamp(e.TS), id, e, func(x Result[string, tally]) { want = append(want, printed(x)) }); err != nil {
						t.Fatal(err)
					}
					if _, err := op.ProcessID(p, Timestamp(e.TS), id, e, func(x Result[string, tally]) { got = append(got, printed(x)) }); err != nil {
						t.Fatal(err)
					}
					if k := r.IntN(20); k < 4 {
						op.write(t, k > 0)
					}
					if len(op.parts) > 0 && r.IntN(20) == 0 {
						op.write(t, true)
						op = restored(t, op, newOperator(t, c.a, c.o))
					}
				}
				whole.Finish(func(x Result[string, tally]) { want = append(want, printed(x)) })
				op.Finish(func(x Result[string, tally]) { got = append(got, printed(x)) })
				if !slices.Equal(got, want) || len(want) == 0 {
					t.Fatalf("got\n%q\nwant\n%q", got, want)
				}
				if got, want := op.Counts(), whole.Counts(); got != want {
					t.Fatalf("%+v, want %+v", got, want)
				}
			}
		})
	}
}

// restored is an operator made of another's snapshots, which has the same state.
func restored(t *testing.T, op *chained, into *Operator[string, input, tally, tally]) *chained {
	t.Helper()
	if err := into.Restore(op.reader()); err != nil {
		t.Fatal(err)
	}
	again := &chained{into, slices.Clone(op.parts)}
	again.write(t, true)
	var a, b bytes.Buffer
	if err := op.Snapshot(&a); err != nil {
		t.Fatal(err)
	}
	next := newOperator(t, into.assigner, into.options)
	if err := next.Restore(again.reader()); err != nil {
		t.Fatal(err)
	}
	if err := next.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("the state that was restored differs")
	}
	return again
}

// TestChangesAreSmall: what a few keys of many have changed is a few keys.
func TestChangesAreSmall(t *testing.T) {
	op := newOperator(t, Tumbling(time.Hour), Options{})
	emit := func(Result[string, tally]) {}
	process := func(key string, at int64) {
		t.Helper()
		if _, err := op.Process(0, Timestamp(at), input{Key: key, TS: at}, emit); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		process(fmt.Sprint("key", i), int64(i))
	}
	var first, second, third bytes.Buffer
	if err := op.SnapshotChanges(&first); err != nil { // whole, as the first
		t.Fatal(err)
	}
	process("key7", 20_000)
	process("new", 20_001)
	if err := op.SnapshotChanges(&second); err != nil {
		t.Fatal(err)
	}
	if first.Len() < 200_000 || second.Len() > 500 {
		t.Errorf("%d bytes, %d bytes of changes", first.Len(), second.Len())
	}
	if op.Finish(emit); op.Keys() != 0 {
		t.Fatal("keys are left")
	}
	if err := op.SnapshotChanges(&third); err != nil {
		t.Fatal(err)
	}
	after := newOperator(t, Tumbling(time.Hour), Options{})
	if err := after.Restore(io.MultiReader(&first, &second, &third)); err != nil || after.Keys() != 0 {
		t.Errorf("%d keys, %v", after.Keys(), err)
	}
}

// TestChangesMisplaced: changes without what they follow, twice, in another order or after another operator's snapshot are an error.
func TestChangesMisplaced(t *testing.T) {
	emit := func(Result[string, tally]) {}
	var parts, others [3]bytes.Buffer
	for p, to := range []*[3]bytes.Buffer{&parts, &others} {
		op := newOperator(t, Tumbling(10), Options{MaxIDs: 100})
		for i := range to {
			for j := range 5 {
				if _, err := op.ProcessID(0, Timestamp(10*i+j), fmt.Sprint(p, i, j), input{Key: fmt.Sprint(j, p), TS: int64(j)}, emit); err != nil {
					t.Fatal(err)
				}
			}
			if err := op.SnapshotChanges(&to[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	restore := func(from ...[]byte) error {
		return newOperator(t, Tumbling(10), Options{MaxIDs: 100}).Restore(bytes.NewReader(bytes.Join(from, nil)))
	}
	a, b, c := parts[0].Bytes(), parts[1].Bytes(), parts[2].Bytes()
	if err := restore(a, b, c); err != nil {
		t.Fatal(err)
	}
	for i, from := range [][][]byte{{b}, {a, c}, {a, b, b}, {a, a}, {a, c, b}, {others[0].Bytes(), b}, {a, []byte("x")}} {
		if err := restore(from...); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%d: %v", i, err)
		}
	}
	all := bytes.Join([][]byte{a, b, c}, nil)
	for i := range all {
		damaged := bytes.Clone(all)
		damaged[i] ^= 0x21
		if err := restore(damaged); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if err := restore(all[:i]); !errors.Is(err, ErrSnapshot) && i != len(a) && i != len(a)+len(b) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
}

// failing fails after a number of bytes.
type failing int

func (f *failing) Write(b []byte) (int, error) {
	if *f -= failing(len(b)); *f < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// TestChangesAfterError: what was not written is not left out of the next.
func TestChangesAfterError(t *testing.T) {
	op, err := New(func(s string) string { return s }, Tumbling(10), aggregate.Count[string](), Options{})
	if err != nil {
		t.Fatal(err)
	}
	emit := func(Result[string, int64]) {}
	for _, k := range []string{"a", "b", "c"} {
		if _, err := op.Process(0, 1, k, emit); err != nil {
			t.Fatal(err)
		}
		small := failing(20)
		if err := op.SnapshotChanges(&small); !errors.Is(err, io.ErrShortWrite) {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := op.SnapshotChanges(&b); err != nil {
		t.Fatal(err)
	}
	next, _ := New(func(s string) string { return s }, Tumbling(10), aggregate.Count[string](), Options{})
	if err := next.Restore(&b); err != nil || next.Keys() != 3 {
		t.Errorf("%d keys, %v", next.Keys(), err)
	}
}
