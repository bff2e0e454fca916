package window

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// valve is the rule of Flink's StatusWatermarkValve in its plainest form: after each watermark it looks at all partitions.
type valve struct {
	parts map[int]*inlet
	out   Timestamp
}

type inlet struct {
	watermark       Timestamp
	active, aligned bool
}

func (v *valve) part(p int) *inlet {
	if v.parts[p] == nil {
		v.parts[p] = &inlet{MinTimestamp, true, true}
	}
	return v.parts[p]
}

func (v *valve) activate(p int) {
	if s := v.part(p); !s.active {
		s.active, s.aligned = true, s.watermark >= v.out
	}
}

func (v *valve) advance(p int, watermark Timestamp) {
	v.activate(p)
	if s := v.part(p); watermark > s.watermark {
		s.watermark = watermark
		s.aligned = s.aligned || watermark >= v.out
		v.look()
	}
}

func (v *valve) idle(p int) {
	if s := v.part(p); s.active {
		s.active, s.aligned = false, false
		v.look()
	}
}

func (v *valve) look() {
	least, most, counting, active := MaxTimestamp, MinTimestamp, false, false
	for _, s := range v.parts {
		if most, active = max(most, s.watermark), active || s.active; s.aligned {
			least, counting = min(least, s.watermark), true
		}
	}
	switch {
	case counting:
		v.out = max(v.out, least)
	case !active:
		v.out = max(v.out, most)
	}
}

// TestCombinerAgainstModel takes random steps with partitions that come, go, are idle and return.
func TestCombinerAgainstModel(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, v := NewCombiner(2), &valve{map[int]*inlet{0: {MinTimestamp, true, true}, 1: {MinTimestamp, true, true}}, MinTimestamp}
		for now, step := Timestamp(0), 0; step < 60; step++ {
			p, what := r.IntN(4), r.IntN(12)
			switch now += Timestamp(r.IntN(3)); {
			case what < 6:
				watermark := now - Timestamp(r.IntN(12))
				c.Advance(p, watermark)
				v.advance(p, watermark)
			case what < 8:
				c.SetIdle(p, true)
				v.idle(p)
			case what < 9:
				c.SetIdle(p, false)
				v.activate(p)
			case what < 10:
				if c.Remove(p); v.parts[p] != nil {
					delete(v.parts, p)
					v.look()
				}
			case what < 11:
				c.Add(p)
				v.part(p)
			}
			if c.Watermark() != v.out {
				t.Fatalf("seed %d, step %d: watermark %d, want %d", seed, step, c.Watermark(), v.out)
			}
		}
	}
}

// TestFinishCountsAll: also a partition that has come back from idleness and has not caught up.
func TestFinishCountsAll(t *testing.T) {
	op := newOperator(t, Tumbling(10), Options{Partitions: 2, Watermark: Punctuated()})
	results := 0
	emit := func(Result[string, tally]) { results++ }
	op.Advance(0, 100, emit)
	op.Advance(1, 50, emit)
	op.SetIdle(0, emit)
	op.SetIdle(1, emit)
	op.RemovePartition(0, emit)
	if _, err := op.Process(1, 105, input{Key: "a"}, emit); err != nil {
		t.Fatal(err)
	}
	if op.Finish(emit); results != 1 || op.Watermark() != MaxTimestamp {
		t.Errorf("%d results at watermark %d", results, op.Watermark())
	}
}

// TestRestoreSeveralGoesOn: of two operators that had read on unequally, the watermark is the lesser until the next one of any partition.
func TestRestoreSeveralGoesOn(t *testing.T) {
	var snapshots [2]bytes.Buffer
	for i, marks := range [][2]Timestamp{{100, 90}, {80, 95}} {
		op := newOperator(t, Tumbling(10), Options{Partitions: 2, Watermark: Punctuated()})
		op.Advance(0, marks[0], nil)
		op.Advance(1, marks[1], nil)
		if err := op.Snapshot(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	op := newOperator(t, Tumbling(10), Options{Partitions: 2, Watermark: Punctuated()})
	if err := op.RestoreKeys(nil, &snapshots[0], &snapshots[1]); err != nil {
		t.Fatal(err)
	}
	if op.Watermark() != 80 {
		t.Errorf("restored at %d", op.Watermark())
	}
	if op.Advance(0, 110, nil); op.Watermark() != 95 {
		t.Errorf("the watermark stands at %d", op.Watermark())
	}
}
