package window

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// tally is an aggregate of all that the cases ask for.
type tally struct {
	Sum, Count, Max int64
	Values          []timed
}

type timed struct{ TS, Value int64 }

type tallying struct{ collect bool }

type input struct {
	Key       string
	TS        int64
	Value     int64
	Watermark *int64
}

func (g tallying) Add(a *tally, e input) {
	if a.Count == 0 || e.Value > a.Max {
		a.Max = e.Value
	}
	a.Sum += e.Value
	a.Count++
	if g.collect {
		a.Values = append(a.Values, timed{e.TS, e.Value})
	}
}

func (tallying) Merge(into *tally, from tally) {
	if from.Count == 0 {
		return
	}
	if into.Count == 0 || from.Max > into.Max {
		into.Max = from.Max
	}
	into.Sum += from.Sum
	into.Count += from.Count
	into.Values = append(into.Values, from.Values...)
}

func (tallying) Result(a *tally) tally {
	r := *a
	r.Values = slices.Clone(a.Values)
	slices.SortStableFunc(r.Values, func(x, y timed) int { return cmp.Compare(x.TS, y.TS) })
	return r
}

func (tallying) Append(dst []byte, a *tally) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return append(append(dst, 1), b...)
}

func (tallying) Decode(src []byte, a *tally) error {
	if len(src) == 0 || src[0] != 1 {
		return errors.New("tally: version")
	}
	return json.NewDecoder(bytes.NewReader(src[1:])).Decode(a)
}

type spec struct {
	Kind            string
	Size, Slide     int64
	Gap, Offset     int64
	AllowedLateness int64 `json:"allowed_lateness"`
	Aggregate       string
	Trigger         string
	Accumulation    string
	MergeRule       string `json:"merge_rule"`
	TriggerCount    int    `json:"trigger_count"`
	TriggerInterval int64  `json:"trigger_interval"`
	Grace           int64
	Bounds          string
}

type row struct {
	After      int `json:"after_input_index"`
	Key        string
	Start, End *int64
	Value      json.RawMessage
	Kind       string
	TS         int64
	Optional   bool
}

type oracleCase struct {
	Name     string
	Spec     spec
	Input    []input
	Expected []row
}

func (s spec) assigner(t *testing.T) Assigner {
	t.Helper()
	size, slide, gap, offset := time.Duration(s.Size), time.Duration(s.Slide), time.Duration(s.Gap), time.Duration(s.Offset)
	switch s.Kind {
	case "tumbling":
		return Tumbling(size).Offset(offset)
	case "sliding":
		return Sliding(size, slide).Offset(offset)
	case "session":
		if s.MergeRule == "overlapping" {
			return Session(gap).Strict()
		}
		return Session(gap)
	case "global":
		return Global()
	case "count":
		return Count(int(s.Size))
	case "per_event_lookback":
		return PerEvent(size)
	}
	t.Fatalf("no assigner %q", s.Kind)
	return Assigner{}
}

func (s spec) options() Options {
	o := Options{Watermark: Punctuated(), AllowedLateness: time.Duration(s.AllowedLateness)}
	if s.Accumulation == "discarding" && s.Kind != "count" {
		o.Accumulation = Discarding
	}
	switch {
	case s.Trigger == "count" && s.Kind != "count":
		o.Trigger = Trigger{EarlyCount: s.TriggerCount, NoWatermark: true}
	case s.Trigger == "continuous_event_time":
		o.Trigger = Trigger{EarlyInterval: time.Duration(s.TriggerInterval)}
	}
	return o
}

func (s spec) value(r tally) string {
	switch s.Aggregate {
	case "sum":
		return fmt.Sprint(r.Sum)
	case "count":
		return fmt.Sprint(r.Count)
	case "max":
		return fmt.Sprint(r.Max)
	}
	vs := make([]int64, 0, len(r.Values))
	for _, v := range r.Values {
		vs = append(vs, v.Value)
	}
	b, _ := json.Marshal(vs)
	return string(b)
}

// TestOracle runs the cases that were taken from the suites of Flink, Beam, Kafka Streams, Bytewax and Scotty.
func TestOracle(t *testing.T) {
	var oracle struct{ Cases []oracleCase }
	read(t, "testdata/oracle.json", &oracle)
	if len(oracle.Cases) != 36 {
		t.Fatalf("%d cases", len(oracle.Cases))
	}
	for _, c := range oracle.Cases {
		t.Run(c.Name, func(t *testing.T) {
			runOracle(t, c)
		})
	}
}

func runOracle(t *testing.T, c oracleCase) {
	t.Helper()
	op, err := New(func(e input) string { return e.Key }, c.Spec.assigner(t), tallying{c.Spec.Aggregate == "collect"},
		spilling(c.Spec.options()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	stream := MinTimestamp
	for i, e := range c.Input {
		emit := func(r Result[string, tally]) {
			got = append(got, fmt.Sprint(i, r.Key, " ", bounds(c.Spec, r.Window), " ", c.Spec.value(r.Value), " ", kindName(r.Kind, c.Spec)))
		}
		if e.Watermark != nil {
			op.Advance(0, Timestamp(*e.Watermark), emit)
			continue
		}
		if c.Spec.Grace > 0 {
			stream = max(stream, Timestamp(e.TS))
			closed := stream - Timestamp(c.Spec.Grace) - 1
			if c.Spec.Kind == "session" { // which Kafka closes one later than Flink, when its end is before stream time - grace
				closed--
			}
			op.Advance(0, closed, emit)
		}
		outcome, err := op.Process(0, Timestamp(e.TS), e, emit)
		if err != nil {
			t.Fatal(err)
		}
		if outcome == Late {
			got = append(got, fmt.Sprint(i, e.Key, " dropped ", e.TS))
		}
	}
	if c.Spec.Kind == "per_event_lookback" { // these cases say what comes in the end, not at which event
		for i := range c.Expected {
			c.Expected[i].After = 0
		}
		for i, line := range got {
			got[i] = "0" + strings.TrimLeft(line, "0123456789")
		}
	}
	want, optional := []string{}, map[string]bool{}
	for _, r := range c.Expected {
		line := fmt.Sprint(r.After, r.Key, " ", wantBounds(c.Spec, r), " ", compact(r.Value), " ", r.Kind)
		if r.Kind == "dropped_late" {
			line = fmt.Sprint(r.After, r.Key, " dropped ", r.TS)
		}
		optional[line] = r.Optional
		want = append(want, line)
	}
	if c.Spec.Grace > 0 && c.Spec.Kind == "session" { // the case says only what is dropped
		got = slices.DeleteFunc(got, func(s string) bool { return !bytes.Contains([]byte(s), []byte("dropped")) })
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func bounds(s spec, w Window) string {
	if s.Kind == "global" || s.Kind == "count" {
		return "-"
	}
	if s.Bounds == "both_inclusive" {
		w.End--
	}
	return fmt.Sprint(int64(w.Start), int64(w.End))
}

func wantBounds(_ spec, r row) string {
	if r.Start == nil {
		return "-"
	}
	return fmt.Sprint(*r.Start, *r.End)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	return b.String()
}

func kindName(k Kind, s spec) string {
	if s.Kind == "count" {
		return "early"
	}
	return map[Kind]string{OnTime: "on_time", Early: "early", Updated: "late_refire"}[k]
}

func read(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

type flinkRow struct {
	After      int
	Key        string
	Start, End int64
	Value      int64
}

type flinkCase struct {
	Name     string
	Spec     spec
	Input    []input
	Expected []flinkRow
	Late     []int
}

func flinkCases(t *testing.T, name string) []flinkCase {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []flinkCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c flinkCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// TestFlink has the answers of Flink 2.3's window operator to 300 random cases, in the order of (end, start, key). Each is run with
// windows that share slices and, as another way to the same answer, without; sessions with a gap and with a function of it. WINDOW_FLINK_CASES names more files of the kind.
func TestFlink(t *testing.T) {
	cases := flinkCases(t, "testdata/flink-seed1.jsonl")
	if len(cases) != 300 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, name := range filepath.SplitList(os.Getenv("WINDOW_FLINK_CASES")) {
		cases = append(cases, flinkCases(t, name)...)
	}
	for _, c := range cases {
		for _, shared := range []bool{true, false} {
			rows, late := runFlink(t, c, shared)
			if !reflect.DeepEqual(rows, c.Expected) || !slices.Equal(late, c.Late) {
				t.Errorf("%s, shared %t: %+v\ngot  %v %v\nwant %v %v", c.Name, shared, c.Spec, rows, late, c.Expected, c.Late)
			}
		}
	}
}

func runFlink(t *testing.T, c flinkCase, shared bool) (rows []flinkRow, late []int) {
	t.Helper()
	a := c.Spec.assigner(t)
	if a.kind == session && !shared {
		a = DynamicSession(func(input) time.Duration { return time.Duration(c.Spec.Gap) })
	}
	op, err := New(func(e input) string { return e.Key }, a, tallying{}, spilling(c.Spec.options()))
	if err != nil {
		t.Fatal(err)
	}
	if !shared {
		op.unshare()
	}
	rows, late = []flinkRow{}, []int{}
	for i, e := range c.Input {
		emit := func(r Result[string, tally]) {
			rows = append(rows, flinkRow{i, r.Key, int64(r.Window.Start), int64(r.Window.End), r.Value.Sum})
		}
		if e.Watermark != nil {
			op.Advance(0, Timestamp(*e.Watermark), emit)
			continue
		}
		outcome, err := op.Process(0, Timestamp(e.TS), e, emit)
		if err != nil {
			t.Fatal(err)
		}
		if outcome == Late {
			late = append(late, i)
		}
	}
	if n := op.Keys(); n != 0 {
		t.Errorf("%s: %d keys have windows after the final watermark", c.Name, n)
	}
	return rows, late
}

// TestWatermarkOracle runs the cases of Flink's StatusWatermarkValve and WatermarkOutputMultiplexer.
func TestWatermarkOracle(t *testing.T) {
	type step struct {
		P           int
		Watermark   *int64
		Status      string
		Remove, Add bool
		Out         *int64
		Combined    string
	}
	var oracle struct {
		Cases []struct {
			Name       string
			Partitions int
			Steps      []step
		} `json:"watermark_cases"`
		Generators []struct {
			Name      string
			Bound     int64
			Events    []int64
			Watermark *int64
		} `json:"generator_cases"`
		Assignments []struct {
			Size, Slide, Offset, TS int64
			Starts                  []int64
		} `json:"assignment_cases"`
	}
	read(t, "testdata/oracle.json", &oracle)
	for _, c := range oracle.Cases {
		marks := NewCombiner(c.Partitions)
		for i, s := range c.Steps {
			before := marks.Watermark()
			switch {
			case s.Watermark != nil:
				marks.Advance(s.P, Timestamp(*s.Watermark))
			case s.Status != "":
				marks.SetIdle(s.P, s.Status == "idle")
			case s.Remove:
				marks.Remove(s.P)
			case s.Add:
				marks.Add(s.P)
			}
			want := before
			if s.Out != nil {
				want = Timestamp(*s.Out)
			}
			if marks.Watermark() != want || s.Combined != "" && marks.Idle() != (s.Combined == "idle") {
				t.Errorf("%s, step %d: %d, idle %t, want %d %s", c.Name, i, marks.Watermark(), marks.Idle(), want, s.Combined)
			}
		}
	}
	for _, c := range oracle.Generators {
		if c.Watermark == nil {
			continue // idleness by a clock, which this package does not have
		}
		op, err := New(func(e input) string { return e.Key }, Tumbling(10), tallying{},
			Options{Watermark: BoundedOutOfOrderness(time.Duration(c.Bound)), Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, ts := range c.Events {
			if _, err := op.Process(0, Timestamp(ts), input{TS: ts}, func(Result[string, tally]) {}); err != nil {
				t.Fatal(err)
			}
		}
		if op.Watermark() != Timestamp(*c.Watermark) {
			t.Errorf("%s: %d, want %d", c.Name, op.Watermark(), *c.Watermark)
		}
	}
	for _, c := range oracle.Assignments {
		a := Sliding(time.Duration(c.Size), time.Duration(c.Slide)).Offset(time.Duration(c.Offset))
		var got []int64
		a.Windows(Timestamp(c.TS), func(w Window) { got = append(got, int64(w.Start)) })
		if !slices.Equal(got, c.Starts) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
