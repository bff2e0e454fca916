package window

import (
	"bytes"
	"errors"
	"fmt"
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
