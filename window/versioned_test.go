package window

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

// An application has summed prices, and is to have the number of clicks besides. For the windows that were open when it was stopped
// only the sum is known.
func ExampleVersioned() {
	type click struct {
		user  string
		at    Timestamp
		price float64
	}
	user := func(c click) string { return c.user }
	sum := aggregate.Sum(func(c click) float64 { return c.price })
	options := Options{Watermark: BoundedOutOfOrderness(time.Second)}

	before, _ := New(user, Tumbling(time.Minute), sum, options)
	_, _ = before.Process(0, Timestamp(time.Second), click{"ann", Timestamp(time.Second), 2.5}, nil)
	var snapshot bytes.Buffer
	_ = before.Snapshot(&snapshot)

	both := aggregate.Pair(sum, aggregate.Count[click](), func(sum float64, n int64) string { return fmt.Sprint(sum, " in ", n) })
	migrated := Versioned(1, both, func(_ int, src []byte, acc *aggregate.Acc2[aggregate.Exact, int64]) error {
		return sum.Decode(src, &acc.A)
	})
	after, _ := New(user, Tumbling(time.Minute), migrated, options)
	if err := after.Restore(&snapshot); err != nil {
		fmt.Println(err)
	}
	emit := func(r Result[string, string]) { fmt.Println(r.Key, r.Value) }
	_, _ = after.Process(0, Timestamp(2*time.Second), click{"ann", Timestamp(2 * time.Second), 1}, emit)
	after.Finish(emit)
	// Output: ann 3.5 in 1
}

func TestVersioned(t *testing.T) {
	asked := -1
	at := func(version int) VersionedOf[float64, aggregate.Exact, float64] {
		return Versioned(version, aggregate.Sum(func(f float64) float64 { return f }), func(v int, src []byte, acc *aggregate.Exact) error {
			if asked = v; len(src) == 0 {
				return errors.New("nothing")
			}
			acc.Add(42)
			return nil
		})
	}
	var acc, got aggregate.Exact
	acc.Add(1)
	first, second := at(1).Append(nil, &acc), at(200).Append(nil, &acc)
	if err := at(200).Decode(second, &got); err != nil || got.Float64() != 1 || asked != -1 {
		t.Error(got.Float64(), err, asked)
	}
	if err := at(200).Decode(first, &aggregate.Exact{}); err != nil || asked != 1 {
		t.Error(err, asked)
	}
	if err := at(1).Decode(second, &got); !errors.Is(err, errVersion) {
		t.Error(err)
	}
	if err := at(1).Decode(at(1).Aggregator.Append(nil, &acc), &got); err != nil || asked != 0 {
		t.Error(err, asked)
	}
	for _, bad := range [][]byte{nil, {versionMark}, {versionMark, 0}, {versionMark, 0x80}} {
		if err := at(1).Decode(bad, &got); err == nil {
			t.Errorf("%v is no error", bad)
		}
	}
	if at(1).Rejects(1) || !at(1).Remove(&acc, acc) {
		t.Error("what the aggregate can does not come through")
	}
}

type distinctOperator = Operator[string, input, aggregate.Acc2[int64, aggregate.Distincts], string]

// TestVersion1 restores snapshots, with changes, that version 1 has written, and goes on from them as if nothing had happened.
func TestVersion1(t *testing.T) {
	for i, c := range snapshotCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.o.Watermark = BoundedOutOfOrderness(8)
			open := func() *distinctOperator {
				op, err := New(keyOf, c.a, aggregate.Pair(aggregate.Count[input](), aggregate.Distinct(func(e input) string { return fmt.Sprint(e.Value) }),
					func(n int64, d uint64) string { return fmt.Sprint(n, d) }), c.o)
				if err != nil {
					t.Fatal(err)
				}
				return op
			}
			file, err := os.Open(filepath.Join("testdata", "version1", fmt.Sprintf("%02d", i)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			old, whole := open(), open()
			if err := old.Restore(file); err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for j, e := range stream(rand.New(rand.NewPCG(1, uint64(i))), 60) {
				process := func(op *distinctOperator, into *[]string) {
					emit := func(r Result[string, string]) { *into = append(*into, fmt.Sprint(r)) }
					if _, err := op.ProcessID(j%2, Timestamp(e.TS), fmt.Sprint(j), e, emit); err != nil {
						t.Fatal(err)
					}
				}
				process(whole, &want)
				if j <= 45 { // the old one has it
					want = nil
				} else {
					process(old, &got)
				}
			}
			old.Finish(func(r Result[string, string]) { got = append(got, fmt.Sprint(r)) })
			whole.Finish(func(r Result[string, string]) { want = append(want, fmt.Sprint(r)) })
			if !slices.Equal(got, want) || old.Counts() != whole.Counts() {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
		})
	}
}
