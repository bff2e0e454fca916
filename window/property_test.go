package window

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fewer is how often something random is repeated, instead of n times, where the race detector slows it down.
func fewer(n int) int {
	if raced {
		return max(n/4, 1)
	}
	return n
}

func keyOf(e input) string { return e.Key }

func newOperator(tb testing.TB, a Assigner, o Options) *Operator[string, input, tally, tally] {
	tb.Helper()
	o = spilling(o)
	op, err := New(keyOf, a, tallying{}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return op
}

func printed(r Result[string, tally]) string {
	return fmt.Sprint(r.Window.Start, r.Window.End, r.Key, r.Value.Sum, r.Value.Count, r.Value.Max, r.Kind)
}

// stream is one partition's records: out of order by more than the bound, so that some are late.
func stream(r *rand.Rand, n int) []input {
	records := make([]input, n)
	at := r.Int64N(50) - 100
	for i := range records {
		at += r.Int64N(8)
		if r.IntN(40) == 0 {
			at += r.Int64N(100)
		}
		records[i] = input{Key: string(rune('a' + r.IntN(3))), TS: at - r.Int64N(30+10*r.Int64N(3)), Value: r.Int64N(20) - 5}
	}
	return records
}

// dynamic are sessions with gaps from 1 to 12.
var dynamic = DynamicSession(func(e input) time.Duration { return time.Duration(1 + (e.Value+5)%12) })

// TestDeterministicInterleavings gives the same partitions, with duplicates, in random interleavings, and goes on from snapshots on the way:
// the same results in the same order, and the same outcome for each event.
func TestDeterministicInterleavings(t *testing.T) {
	assigners := map[string]Assigner{
		"tumbling": Tumbling(20).Offset(3), "sliding": Sliding(21, 5), "divided": Sliding(20, 5), "gaps": Sliding(7, 20), "session": Session(6),
		"global": Global(), "calendar": Calendar(Day, nil), "per event": PerEvent(15),
		"dynamic session": dynamic,
	}
	for name, a := range assigners {
		for _, lateness := range []time.Duration{0, 9, 40} {
			t.Run(fmt.Sprint(name, lateness), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(lateness)))
				updated, late := 0, 0
				for range fewer(12) {
					parts := [][]input{repeated(r, stream(r, 50)), repeated(r, stream(r, 35)), repeated(r, stream(r, 20))}
					o := Options{Deterministic: true, Partitions: len(parts), AllowedLateness: lateness, Watermark: BoundedOutOfOrderness(10)}
					want, outcomes := interleave(t, a, o, parts, r)
					for range 6 {
						got, again := interleave(t, a, o, parts, r)
						if !slices.Equal(got, want) {
							t.Fatalf("results differ:\n%q\n%q", got, want)
						}
						if !slices.Equal(again, outcomes) {
							t.Fatalf("outcomes differ")
						}
					}
					for _, line := range want {
						if bytes.HasSuffix([]byte(line), []byte(Updated.String())) {
							updated++
						}
					}
					for _, line := range outcomes {
						if bytes.HasSuffix([]byte(line), []byte(Late.String())) {
							late++
						}
					}
				}
				if a.kind != global && a.kind != calendar && (updated == 0 && lateness > 0 || late == 0 && lateness == 0 && a.kind != sliding && a.kind != perEvent) {
					t.Errorf("%d updates and %d late events: the streams show nothing", updated, late)
				}
			})
		}
	}
}

// repeated is a partition in which some records come again.
func repeated(r *rand.Rand, records []input) (all []input) {
	for i, e := range records {
		if all = append(all, e); r.IntN(4) == 0 {
			all = append(all, records[r.IntN(i+1)])
		}
	}
	return all
}

// interleave feeds the partitions in a random order that keeps that of each.
func interleave(t *testing.T, a Assigner, o Options, parts [][]input, r *rand.Rand) (results, outcomes []string) {
	t.Helper()
	op := newOperator(t, a, o)
	emit := func(x Result[string, tally]) { results = append(results, printed(x)) }
	next := make([]int, len(parts))
	outcomes = make([]string, 0, 200)
	bias := r.IntN(len(parts))
	for {
		left := 0
		for p := range parts {
			left += len(parts[p]) - next[p]
		}
		if left == 0 {
			break
		}
		p := r.IntN(len(parts))
		if r.IntN(3) > 0 {
			p = bias
		}
		if next[p] == len(parts[p]) {
			bias = r.IntN(len(parts))
			continue
		}
		e := parts[p][next[p]]
		outcome, err := op.ProcessID(p, Timestamp(e.TS), fmt.Sprint(p, e), e, emit)
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, fmt.Sprintf("%d %04d %v", p, next[p], outcome))
		if next[p]++; r.IntN(60) == 0 {
			op = moved(t, a, o, op)
		}
	}
	op.Finish(emit)
	if n := op.Keys(); n != 0 {
		t.Errorf("%d keys have windows at the end", n)
	}
	slices.Sort(outcomes)
	return results, outcomes
}

// moved is another operator that goes on from a snapshot.
func moved(t *testing.T, a Assigner, o Options, from *Operator[string, input, tally, tally]) *Operator[string, input, tally, tally] {
	t.Helper()
	var b bytes.Buffer
	if err := from.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	op := newOperator(t, a, o)
	if err := op.Restore(&b); err != nil {
		t.Fatal(err)
	}
	return op
}

// snapshotCases are all kinds of state.
var snapshotCases = []struct {
	a Assigner
	o Options
}{
	{Tumbling(20), Options{AllowedLateness: 15}},
	{Tumbling(20), Options{Accumulation: Retracting, AllowedLateness: 15, Trigger: Trigger{EarlyCount: 2}}},
	{Tumbling(20), Options{Accumulation: Discarding, AllowedLateness: 15, Trigger: Trigger{EarlyInterval: 7}}},
	{Tumbling(20), Options{Trigger: Trigger{EarlyCount: 3, Once: true}}},
	{Sliding(20, 5), Options{AllowedLateness: 15}},
	{Sliding(21, 5), Options{}},
	{Sliding(7, 20), Options{}},
	{Sliding(21, 5), Options{Deterministic: true, AllowedLateness: 15, Partitions: 2}},
	{Session(6), Options{AllowedLateness: 15}},
	{Session(6), Options{Accumulation: Retracting, AllowedLateness: 15}},
	{Session(6), Options{Deterministic: true, AllowedLateness: 15, Partitions: 2}},
	{Global(), Options{Trigger: Trigger{EarlyInterval: 20}, KeyExpiry: 60}},
	{Count(3), Options{KeyExpiry: 50}},
	{Calendar(Day, time.UTC), Options{}},
	{dynamic, Options{AllowedLateness: 15}},
	{dynamic, Options{Deterministic: true, AllowedLateness: 15, Partitions: 2}},
	{PerEvent(15), Options{AllowedLateness: 15}},
	{PerEvent(15), Options{AllowedLateness: 15, Accumulation: Retracting}},
	{PerEvent(15), Options{Deterministic: true, AllowedLateness: 15, Partitions: 2}},
	{PerEvent(15), Options{Deterministic: true, Partitions: 2}},
	{Tumbling(20), Options{IdleAfter: 30, MaxJump: 60, MaxIDs: 30}},
}

// TestSnapshotAnywhere snapshots after each step of random runs under all kinds of options: restored and gone on is as gone on.
func TestSnapshotAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for i, c := range snapshotCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.o.Watermark = BoundedOutOfOrderness(8)
			records := stream(r, 70)
			parts := make([]int, len(records))
			for i := range parts {
				parts[i] = r.IntN(2)
			}
			want, wantCounts := replay(t, c.a, c.o, records, parts, -1)
			if len(want) == 0 {
				t.Fatal("no results")
			}
			step := 1
			if raced && spillTo != nil {
				step = 5
			}
			for at := 0; at < len(records); at += step {
				got, counts := replay(t, c.a, c.o, records, parts, at)
				if !slices.Equal(got, want) {
					t.Fatalf("restored at %d:\n%q\n%q", at, got, want)
				}
				if counts != wantCounts {
					t.Fatalf("restored at %d: %+v, want %+v", at, counts, wantCounts)
				}
			}
		})
	}
}

// replay processes the records and goes on in another operator behind the one at that position.
func replay(t *testing.T, a Assigner, o Options, records []input, parts []int, at int) (results []string, counts Counts) {
	t.Helper()
	op := newOperator(t, a, o)
	emit := func(x Result[string, tally]) { results = append(results, printed(x)) }
	for i, e := range records {
		id := fmt.Sprint(i / 2) // every second is a duplicate
		if o.MaxIDs == 0 {
			id = ""
		}
		if _, err := op.ProcessID(parts[i], Timestamp(e.TS), id, e, emit); err != nil {
			t.Fatal(err)
		}
		if i != at {
			continue
		}
		var b bytes.Buffer
		if err := op.Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		first := bytes.Clone(b.Bytes())
		op = newOperator(t, a, o)
		if err := op.Restore(&b); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		if err := op.Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), first) {
			t.Fatal("the snapshot of what was restored differs")
		}
	}
	op.Finish(emit)
	return results, op.Counts()
}

// TestRestoreElsewhere moves the keys of three operators to two, and to one with other partitions.
func TestRestoreElsewhere(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	records := stream(r, 300)
	owner := func(k string, n int) int { return int(k[0]) % n }
	var want []string
	ops := make([]*Operator[string, input, tally, tally], 3)
	for i := range ops {
		ops[i] = newOperator(t, Sliding(20, 5), Options{Watermark: Punctuated()})
	}
	whole := newOperator(t, Sliding(20, 5), Options{Watermark: Punctuated()})
	var got []string
	all := func(x Result[string, tally]) { want = append(want, printed(x)) }
	mine := func(x Result[string, tally]) { got = append(got, printed(x)) }
	feed := func(records []input, ops []*Operator[string, input, tally, tally]) {
		for _, e := range records {
			w := Timestamp(e.TS - 20)
			for _, op := range ops {
				if op == ops[owner(e.Key, len(ops))] {
					if _, err := op.Process(0, Timestamp(e.TS), e, mine); err != nil {
						t.Fatal(err)
					}
				}
				op.Advance(0, w, mine)
			}
			if _, err := whole.Process(0, Timestamp(e.TS), e, all); err != nil {
				t.Fatal(err)
			}
			whole.Advance(0, w, all)
		}
	}
	feed(records[:150], ops)
	snapshots := make([]bytes.Buffer, 3)
	for i := range ops {
		if err := ops[i].Snapshot(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	two := make([]*Operator[string, input, tally, tally], 2)
	for i := range two {
		two[i] = newOperator(t, Sliding(20, 5), Options{Watermark: Punctuated()})
		if err := two[i].RestoreKeys(func(k string) bool { return owner(k, 2) == i }, bytes.NewReader(snapshots[0].Bytes()),
			bytes.NewReader(snapshots[1].Bytes()), bytes.NewReader(snapshots[2].Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	feed(records[150:], two)
	two[0].Finish(mine)
	two[1].Finish(mine)
	whole.Finish(all)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestRestorePartitions(t *testing.T) {
	snapshot := func(parts int) *bytes.Buffer {
		op := newOperator(t, Tumbling(10), Options{Partitions: parts, Watermark: Punctuated()})
		for p := range parts {
			op.Advance(p, Timestamp(100+p), nil)
		}
		b := &bytes.Buffer{}
		if err := op.Snapshot(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	fewer := newOperator(t, Tumbling(10), Options{Partitions: 1, Watermark: Punctuated()})
	if err := fewer.Restore(snapshot(3)); err != nil {
		t.Fatal(err)
	}
	if fewer.Advance(0, 150, nil); fewer.Watermark() != 150 {
		t.Errorf("removed partitions hold %d back", fewer.Watermark())
	}
	more := newOperator(t, Tumbling(10), Options{Partitions: 3, Watermark: Punctuated()})
	if err := more.Restore(snapshot(2)); err != nil {
		t.Fatal(err)
	}
	more.Advance(0, 200, nil)
	more.Advance(1, 200, nil)
	if more.Watermark() != 100 {
		t.Errorf("a new partition does not hold %d back", more.Watermark())
	}
	if more.Advance(2, 180, nil); more.Watermark() != 180 {
		t.Errorf("watermark %d", more.Watermark())
	}
	if err := more.Restore(snapshot(2)); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("restored over state: %v", err)
	}
}

func TestSnapshotDamage(t *testing.T) {
	op := newOperator(t, Tumbling(10), Options{})
	for i := range 50 {
		if _, err := op.Process(0, Timestamp(i), input{Key: fmt.Sprint(i), TS: int64(i)}, func(Result[string, tally]) {}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := op.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Bytes() {
		damaged := bytes.Clone(b.Bytes())
		damaged[i] ^= 0x21
		for _, s := range [][]byte{damaged, b.Bytes()[:i]} {
			other := newOperator(t, Tumbling(10), Options{})
			if err := other.Restore(bytes.NewReader(s)); !errors.Is(err, ErrSnapshot) {
				t.Fatalf("byte %d: %v", i, err)
			}
			if other.Keys() != 0 {
				t.Fatal("state after an error")
			}
		}
	}
	other := newOperator(t, Tumbling(11), Options{})
	if err := other.Restore(&b); !errors.Is(err, ErrSnapshotMismatch) {
		t.Errorf("another size: %v", err)
	}
}

// FuzzRestore restores bytes whose checksums are made right, so that what is behind them is reached, and goes on with the result.
func FuzzRestore(f *testing.F) {
	assigners := []Assigner{
		Tumbling(20), Sliding(21, 5), Session(6), Count(3), Global(), PerEvent(15),
		Tumbling(20), Sliding(21, 5), Session(6), PerEvent(15), // deterministic
	}
	options := func(i int) Options { return Options{AllowedLateness: 5, MaxKeys: 1000, Deterministic: i > 5} }
	for i, a := range assigners {
		op, err := New(keyOf, a, tallying{}, options(i))
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer // a snapshot, then with changes
		for n, e := range stream(rand.New(rand.NewPCG(uint64(i), 1)), 30) {
			if _, err := op.ProcessID(0, Timestamp(e.TS), fmt.Sprint(e.TS), e, func(Result[string, tally]) {}); err != nil {
				f.Fatal(err)
			}
			if n%10 < 9 {
				continue
			}
			if err := op.SnapshotChanges(&b); err != nil {
				f.Fatal(err)
			}
			if err := newOperator(f, a, options(i)).Restore(bytes.NewReader(resummed(b.Bytes()))); err != nil {
				f.Fatal(err) // or resummed would hide what it is to show
			}
			f.Add(bytes.Clone(b.Bytes()), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		i := int(which) % len(assigners)
		op := newOperator(t, assigners[i], options(i))
		if err := op.Restore(bytes.NewReader(resummed(b))); err != nil {
			return
		}
		emit := func(Result[string, tally]) {}
		for _, e := range stream(rand.New(rand.NewPCG(1, 1)), 30) {
			if _, err := op.Process(0, Timestamp(e.TS), e, emit); err != nil {
				t.Fatal(err)
			}
		}
		if err := op.Snapshot(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		op.Finish(emit)
	})
}

// resummed is a snapshot and its changes with right checksums, and digests of the snapshot before, as far as the frames go.
func resummed(b []byte) []byte {
	out := append([]byte(nil), b...)
	var before digest
	for i := len(snapshotMagic) + 1; i < len(out); i += len(snapshotMagic) + 1 {
		sums := sha256.New()
		for kind := byte(0); kind != frameEnd; {
			n, size := binary.Uvarint(out[i:])
			if size <= 0 || n == 0 || n > uint64(len(out)) || i+size+int(n)+4 > len(out) {
				return out
			}
			payload, sum := out[i+size:i+size+int(n)], out[i+size+int(n):i+size+int(n)+4]
			if kind = payload[0]; kind == frameFollows {
				copy(payload[1:], before[:])
			}
			binary.LittleEndian.PutUint32(sum, crc32.Checksum(payload, castagnoli))
			sums.Write(sum)
			i += size + int(n) + 4
		}
		before = digest(sums.Sum(nil))
	}
	return out
}

// TestRestoreFineSlices: slides of a nanosecond have slices up to the ends of time.
func TestRestoreFineSlices(t *testing.T) {
	for _, at := range []Timestamp{MinTimestamp + 3, -1, 0, MaxTimestamp - 3} {
		op := newOperator(t, Sliding(4, 1), Options{Watermark: Punctuated()})
		if _, err := op.Process(0, at, input{Key: "k"}, nil); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := op.Snapshot(&b); err != nil {
			t.Fatal(err)
		}
		if err := newOperator(t, Sliding(4, 1), Options{}).Restore(&b); err != nil {
			t.Errorf("%d: %v", at, err)
		}
	}
}
