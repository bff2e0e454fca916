package window

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func newProcessing(t *testing.T, a Assigner, o Options) *ProcessingTime[string, input, tally, tally] {
	t.Helper()
	p, err := NewProcessingTime(keyOf, a, tallying{}, o, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProcessingTime runs a loop as its users write it, in a bubble whose clock stands until all wait.
func TestProcessingTime(t *testing.T) {
	for _, c := range []struct {
		name string
		a    Assigner
		o    Options
		want []string
	}{
		{"tumbling", Tumbling(10 * time.Second), Options{}, []string{"10s a 2", "20s a 1", "20s b 1", "1m0s a 1"}},
		{"sliding", Sliding(10*time.Second, 5*time.Second), Options{}, []string{
			"5s a 1", "10s a 2", "15s a 2", "15s b 1", "20s a 1", "20s b 1", "55s a 1", "1m0s a 1",
		}},
		{"session", Session(10 * time.Second), Options{}, []string{"22s b 1", "24s a 3", "1m1s a 1"}},
		{"early", Tumbling(10 * time.Second), Options{Trigger: Trigger{EarlyInterval: 4 * time.Second}}, []string{
			"4s a 1", "8s a 2", "10s a 2", "16s a 1", "16s b 1", "20s a 1", "20s b 1", "52s a 1", "56s a 1", "1m0s a 1",
		}},
		{"once", Tumbling(10 * time.Second), Options{Trigger: Trigger{EarlyCount: 1, Once: true}}, []string{"1s a 1", "12s b 1", "14s a 1", "51s a 1"}},
		{"per event", PerEvent(5 * time.Second), Options{}, []string{"1s a 1", "6s a 2", "12s b 1", "14s a 1", "51s a 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := arrivals(t, newProcessing(t, c.a, c.o)); !slices.Equal(got, c.want) {
					t.Errorf("got\n%q\nwant\n%q", got, c.want)
				}
			})
		})
	}
}

// arrivals sends events as time passes, and tells when which results come. Results of less than a second later are of that second.
func arrivals(t *testing.T, p *ProcessingTime[string, input, tally, tally]) (got []string) {
	t.Helper()
	start := time.Now()
	in := make(chan string)
	go func() {
		defer close(in)
		for _, e := range []struct {
			key string
			at  int
		}{{"a", 1}, {"a", 6}, {"b", 12}, {"a", 14}, {"a", 51}} {
			time.Sleep(time.Until(start.Add(time.Duration(e.at) * time.Second)))
			in <- e.key
		}
		time.Sleep(30 * time.Second)
	}()
	emit := func(r Result[string, tally]) {
		got = append(got, fmt.Sprint(time.Since(start).Truncate(time.Second), " ", r.Key, " ", r.Value.Count))
	}
	for {
		var due <-chan time.Time
		if at, ok := p.Next(); ok {
			due = time.After(time.Until(at))
		}
		select {
		case <-due:
			p.Tick(emit)
		case key, ok := <-in:
			if !ok {
				return got
			}
			if _, err := p.Process(input{Key: key}, emit); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestProcessingClock has a clock that goes back, a restart, duplicates and the end.
func TestProcessingClock(t *testing.T) {
	at := int64(100)
	clock := func() time.Time { return time.Unix(0, at) }
	fresh := func() *ProcessingTime[string, input, tally, tally] {
		p, err := NewProcessingTime(keyOf, Tumbling(10), tallying{}, Options{}, clock)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var got []string
	emit := func(r Result[string, tally]) { got = append(got, fmt.Sprint(r.Window.Start, r.Value.Count)) }
	send := func(p *ProcessingTime[string, input, tally, tally], now int64, id string) Outcome {
		at = now
		o, err := p.ProcessID(id, input{Key: "k"}, emit)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	p := fresh()
	send(p, 105, "")
	send(p, 91, "") // stays at 105
	send(p, 106, "x")
	if o := send(p, 107, "x"); o != Duplicate {
		t.Errorf("%v", o)
	}
	var b bytes.Buffer
	if err := p.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	p = fresh()
	if err := p.Restore(&b); err != nil {
		t.Fatal(err)
	}
	send(p, 130, "")
	if next, ok := p.Next(); !ok || next.UnixNano() != 140 {
		t.Errorf("next %v %v", next, ok)
	}
	p.Finish(emit)
	if o := send(p, 131, ""); o != Late {
		t.Errorf("%v after the end", o)
	}
	if want := []string{"100 3", "130 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := p.Counts(); c.Accepted != 4 || c.Duplicate != 1 || c.Late != 1 {
		t.Errorf("%+v", c)
	}
	if _, ok := p.Next(); ok {
		t.Error("something is due after the end")
	}
	for _, o := range []Options{{AllowedLateness: 1}, {Deterministic: true}, {Watermark: Punctuated()}, {Partitions: 2}, {IdleAfter: 1}, {MaxJump: 1}} {
		if _, err := NewProcessingTime(keyOf, Tumbling(10), tallying{}, o, clock); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewProcessingTime(keyOf, Tumbling(10), tallying{}, Options{}, nil); !errors.Is(err, ErrOptions) {
		t.Errorf("without a clock: %v", err)
	}
}
