package window_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
)

// view is an event: who looked, and when.
type view struct {
	user string
	at   int // seconds
}

// show counts views in windows and prints the results, in seconds.
func show(a window.Assigner, o window.Options, views ...view) {
	op, err := window.New(func(v view) string { return v.user }, a, aggregate.Count[view](), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	emit := func(r window.Result[string, int64]) {
		fmt.Printf("  %s [%v,%v): %d, %v\n", r.Key, seconds(r.Window.Start), seconds(r.Window.End), r.Value, r.Kind)
	}
	for _, v := range views {
		outcome, err := op.Process(0, window.Timestamp(v.at)*window.Timestamp(time.Second), v, emit)
		if err != nil || outcome != window.Accepted {
			fmt.Printf("  %s at %d: %v\n", v.user, v.at, outcome)
		}
	}
	fmt.Println("  end of input")
	op.Finish(emit)
}

func seconds(t window.Timestamp) int64 { return int64(t) / int64(time.Second) }

// One window after the other; the event at 12 moves the watermark past the end of the first.
//
//	seconds   0         10        20
//	ann        1  4        12
//	windows   |---------|---------|
func ExampleTumbling() {
	show(window.Tumbling(10*time.Second), window.Options{}, view{"ann", 1}, view{"ann", 4}, view{"ann", 12})
	// Output:
	//   ann [0,10): 2, on time
	//   end of input
	//   ann [10,20): 1, on time
}

// The last 10 seconds, every 5.
//
//	seconds  -5    0    5    10   15
//	ann             1    6     11
//	windows   |---------|
//	               |---------|
//	                    |---------|
//	                         |--------- [10,20)
func ExampleSliding() {
	show(window.Sliding(10*time.Second, 5*time.Second), window.Options{}, view{"ann", 1}, view{"ann", 6}, view{"ann", 11})
	// Output:
	//   ann [-5,5): 1, on time
	//   ann [0,10): 2, on time
	//   end of input
	//   ann [5,15): 2, on time
	//   ann [10,20): 1, on time
}

// A slide larger than the size leaves gaps, and events in them are said to be in no window.
//
//	seconds   0    5    10   15
//	ann         2    7    11
//	windows   |----|    |----|
func ExampleSliding_gaps() {
	show(window.Sliding(5*time.Second, 10*time.Second), window.Options{}, view{"ann", 2}, view{"ann", 7}, view{"ann", 11})
	// Output:
	//   ann [0,5): 1, on time
	//   ann at 7: unassigned
	//   end of input
	//   ann [10,15): 1, on time
}

// The last 10 seconds at each event: what is known of a user when something happens. The event at 7 comes out of order and counts
// in its own window and in those of 9 and 14.
//
//	seconds   0    5    10   15   20   25
//	ann         2    7 9    14        24
//	windows   --)
//	          -------)
//	          ---------)
//	              ----------)
//	                        ----------)      both ends count: 14 is 10 before 24
func ExamplePerEvent() {
	show(window.PerEvent(10*time.Second), window.Options{Watermark: window.BoundedOutOfOrderness(5 * time.Second)},
		view{"ann", 2}, view{"ann", 9}, view{"ann", 7}, view{"ann", 14}, view{"ann", 24})
	// Output:
	//   ann [-8,2): 1, on time
	//   ann [-3,7): 2, on time
	//   ann [-1,9): 3, on time
	//   ann [4,14): 3, on time
	//   end of input
	//   ann [14,24): 2, on time
}

// What follows within 5 seconds belongs together. The event at 8 comes late but joins what 4 and 12 leave apart.
//
//	seconds   0   4   8   12      20
//	ann       0 . 4 . 8 . 12      20
//	windows   |----------------|  |----|
func ExampleSession() {
	show(window.Session(5*time.Second), window.Options{Watermark: window.BoundedOutOfOrderness(5 * time.Second)},
		view{"ann", 0}, view{"ann", 4}, view{"ann", 12}, view{"ann", 8}, view{"ann", 24})
	// Output:
	//   ann [0,17): 4, on time
	//   end of input
	//   ann [24,29): 1, on time
}

// Who leaves is waited for longer than who clicks: 10 seconds after 14, and 4 after the others.
//
//	seconds   0    5    10   15   20   25
//	ann         2  5       13.14      24  28
//	windows     |------)   |----------------|      14 reaches to 24, which then touches it
func ExampleDynamicSession() {
	gap := func(v view) time.Duration {
		if v.at == 14 {
			return 10 * time.Second
		}
		return 4 * time.Second
	}
	show(window.DynamicSession(gap), window.Options{}, view{"ann", 2}, view{"ann", 5}, view{"ann", 13}, view{"ann", 14}, view{"ann", 24}, view{"ann", 28})
	// Output:
	//   ann [2,9): 2, on time
	//   end of input
	//   ann [13,32): 4, on time
}

// Windows of arrival, by a clock that the example moves by hand; a program passes time.Now, waits until Next, and calls Tick.
//
//	clock     0         10        20
//	arrives    1  4        13
//	windows   |---------|---------|
//	fires               at 10     at 20
func ExampleProcessingTime() {
	clock := time.Unix(0, 0)
	windows, err := window.NewProcessingTime(func(v view) string { return v.user }, window.Tumbling(10*time.Second), aggregate.Count[view](),
		window.Options{}, func() time.Time { return clock })
	if err != nil {
		fmt.Println(err)
		return
	}
	emit := func(r window.Result[string, int64]) { fmt.Println(clock.Unix(), r.Key, r.Value) }
	for _, at := range []int64{1, 4, 13} {
		for next, ok := windows.Next(); ok && next.Unix() <= at; next, ok = windows.Next() {
			clock = next
			windows.Tick(emit)
		}
		clock = time.Unix(at, 0)
		if _, err := windows.Process(view{user: "ann"}, emit); err != nil {
			fmt.Println(err)
		}
	}
	clock, _ = windows.Next()
	windows.Tick(emit)
	// Output:
	// 10 ann 2
	// 20 ann 1
}

// One window for all time, with early results.
//
//	ann       1  2  3  4  5  ...
//	results      2     4     5 at the end
func ExampleGlobal() {
	op, err := window.New(func(v view) string { return v.user }, window.Global(), aggregate.Count[view](),
		window.Options{Trigger: window.Trigger{EarlyCount: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	emit := func(r window.Result[string, int64]) { fmt.Println(r.Value, r.Kind) }
	for i := range 5 {
		if _, err := op.Process(0, window.Timestamp(i), view{"ann", i}, emit); err != nil {
			fmt.Println(err)
		}
	}
	op.Finish(emit)
	// Output:
	// 2 early
	// 4 early
	// 5 on time
}

// Every second view of a user.
//
//	ann       1     5    7
//	bob          3     6
//	windows   |-ann-|      and ann's third waits for a fourth
//	             |bob|
func ExampleCount() {
	op, err := window.New(func(v view) string { return v.user }, window.Count(2), aggregate.Count[view](), window.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range []view{{"ann", 1}, {"bob", 3}, {"ann", 5}, {"bob", 6}, {"ann", 7}} {
		_, err := op.Process(0, window.Timestamp(v.at), v, func(r window.Result[string, int64]) {
			fmt.Printf("%s [%d,%d): %d\n", r.Key, r.Window.Start, r.Window.End, r.Value)
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ann [1,6): 2
	// bob [3,7): 2
}

// Days of Berlin: the one on which clocks go forward has 23 hours.
//
//	Berlin    30.3.          31.3.         1.4.
//	          |--- 24 h -----|--- 23 h ----|--- 24 h ---
func ExampleCalendar() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, day := range []int{30, 31} {
		at := window.TimestampOf(time.Date(2024, 3, day, 12, 0, 0, 0, berlin))
		window.Calendar(window.Day, berlin).Windows(at, func(w window.Window) {
			fmt.Println(w.Start.Time().In(berlin).Format("2 Jan 15:04 -0700"), w.End.Time().Sub(w.Start.Time()))
		})
	}
	// Output:
	// 30 Mar 00:00 +0100 24h0m0s
	// 31 Mar 00:00 +0100 23h0m0s
}

// A late event within the allowed lateness fires its window again; the old result is taken back first. A later one is late.
//
//	watermark            behind 12        behind 23
//	ann       1       12          3   23           4
//	[0,10)              1         1 taken back, 2  gone
func ExampleOptions_late() {
	show(window.Tumbling(10*time.Second), window.Options{AllowedLateness: 10 * time.Second, Accumulation: window.Retracting},
		view{"ann", 1}, view{"ann", 12}, view{"ann", 3}, view{"ann", 23}, view{"ann", 4})
	// Output:
	//   ann [0,10): 1, on time
	//   ann [0,10): 1, retraction
	//   ann [0,10): 2, updated
	//   ann [10,20): 1, on time
	//   ann at 4: late
	//   end of input
	//   ann [20,30): 1, on time
}

// Events that come in batches, as from a file or a consumer's handler: Prefetch tells of some tens of them before they are processed one by one.
// Results are the same without.
func ExampleOperator_Prefetch() {
	op, err := window.New(func(v view) string { return v.user }, window.Tumbling(10*time.Second), aggregate.Count[view](), window.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	emit := func(r window.Result[string, int64]) { fmt.Println(r.Key, r.Value) }
	views := []view{{"ann", 1}, {"bob", 2}, {"ann", 3}, {"cid", 11}}
	for batch := range slices.Chunk(views, 32) {
		op.Prefetch(batch...)
		for _, v := range batch {
			if _, err := op.Process(0, window.Timestamp(v.at)*window.Timestamp(time.Second), v, emit); err != nil {
				fmt.Println(err)
			}
		}
	}
	op.Finish(emit)
	// Output:
	// ann 2
	// bob 1
	// cid 1
}
