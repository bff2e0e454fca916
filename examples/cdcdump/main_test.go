package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// dump runs the program.
func dump(t *testing.T, in string, arguments ...string) (out, problems string, code int) {
	t.Helper()
	var o, p bytes.Buffer
	code = run(t.Context(), arguments, strings.NewReader(in), &o, &p)
	return o.String(), p.String(), code
}

// TestRecorded prints recorded events as the files beside them have it; every line of those was compared by eye with what the story of
// the recording did.
func TestRecorded(t *testing.T) {
	for file, arguments := range map[string][]string{
		"testdata/events.txt":      {"testdata/events.jsonl"},
		"testdata/canonical.jsonl": {"-json", "testdata/events.jsonl"},
	} {
		out, problems, code := dump(t, "", arguments...)
		if problems != "" || code != allWell {
			t.Errorf("%v: code %d, %s", arguments, code, problems)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if out != string(want) {
			t.Errorf("%v: got\n%s\nwant\n%s", arguments, out, want)
		}
	}
}

// recordings are those of package cdc: every type in every mode.
const recordings = "../../cdc/testdata/types/"

func unzip(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// placeholders are those of the recordings that have their own.
var placeholders = map[string]string{"iso": "not here", "micro": "hex:c2ab676f6e65c2bb"}

// TestEveryMode prints the recordings of all modes, a line of valid JSON for each message.
func TestEveryMode(t *testing.T) {
	files, err := filepath.Glob(recordings + "*.jsonl.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		if name == "tables" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			in := unzip(t, file)
			arguments := []string{"-json", "-placeholder", placeholders[strings.TrimSuffix(name, "-plain")]}
			out, problems, code := dump(t, in, arguments...)
			if problems != "" || code != allWell {
				t.Fatalf("code %d, %s", code, problems)
			}
			kinds := map[string]int{}
			for line := range strings.Lines(out) {
				var event struct{ Kind string }
				if err := json.Unmarshal([]byte(line), &event); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				kinds[event.Kind]++
			}
			want := []string{"change", "tombstone", "transaction", "message"}
			if !strings.HasPrefix(name, "flat") {
				want = append(want, "truncate") // ExtractNewRecordState drops truncates
			}
			for _, kind := range want {
				if kinds[kind] == 0 {
					t.Errorf("no %s", kind)
				}
			}
			if got, lines := strings.Count(out, "\n"), strings.Count(in, "\n"); got != lines {
				t.Errorf("%d lines of %d", got, lines)
			}
		})
	}
}

// TestEqualsSelect compares what is printed of rows that were inserted with what SELECT returns for them.
func TestEqualsSelect(t *testing.T) {
	type table struct {
		Table   string
		Columns []struct{ Name, Base string }
		Rows    [][]*string
	}
	tables := map[string]table{}
	for d := json.NewDecoder(strings.NewReader(unzip(t, recordings+"tables.jsonl.gz"))); d.More(); {
		var one table
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		tables[one.Table] = one
	}
	out, _, _ := dump(t, unzip(t, recordings+"precise.jsonl.gz"), "-json")
	compared := 0
	for line := range strings.Lines(out) {
		var event struct {
			Op     string
			After  map[string]any
			Source struct{ Table string }
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&event); err != nil {
			t.Fatal(err)
		}
		table, ok := tables[event.Source.Table]
		if !ok || event.Op != "c" || strings.HasPrefix(table.Table, "toast") {
			continue
		}
		id, err := event.After["id"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range table.Columns {
			text := table.Rows[id%100-1][i]
			want, known := canonicalOf(c.Base, text)
			if c.Name == "id" || !known || table.Table == "not_numbers" || table.Table == "edge_times" && id == 110 && c.Name == "ts6" {
				continue // the last two are what Debezium itself loses
			}
			compared++
			if got := event.After[c.Name]; !same(got, want) {
				t.Errorf("%s.%s of row %d: %v, Postgres has %s", table.Table, c.Name, id, got, *text)
			}
		}
	}
	if compared < 250 {
		t.Errorf("only %d values were compared", compared)
	}
}

// same compares decimals by their value: Debezium leaves zeros out where the column has no scale.
func same(got, want any) bool {
	if w, ok := want.(*big.Rat); ok {
		text, isText := got.(string)
		g, ok := new(big.Rat).SetString(text)
		return isText && ok && g.Cmp(w) == 0
	}
	return got == want
}

// canonicalOf says how a text of Postgres is to be printed, for the types for which that is easy to say.
func canonicalOf(base string, text *string) (any, bool) {
	switch base {
	case "smallint", "integer", "bigint", "oid", "boolean", "numeric", "bytea", "uuid", "text", "citext", "character varying", "inet",
		"date", "timestamp without time zone", "timestamp with time zone":
	default:
		return nil, false
	}
	if text == nil {
		return nil, true
	}
	switch s := *text; base {
	case "smallint", "integer", "bigint", "oid":
		if n, _ := new(big.Int).SetString(s, 10); n.CmpAbs(big.NewInt(maxSafe)) > 0 {
			return s, true
		}
		return json.Number(s), true
	case "boolean":
		return s == "t", true
	case "numeric":
		n, ok := new(big.Rat).SetString(s)
		return n, ok
	case "bytea":
		b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`))
		return base64.StdEncoding.EncodeToString(b), err == nil
	case "date", "timestamp without time zone", "timestamp with time zone":
		return timeOf(s), true
	default:
		return s, true
	}
}

// timeOf turns Postgres's notation of a time into ISO 8601.
func timeOf(s string) string {
	if strings.HasSuffix(s, "infinity") {
		return s
	}
	date, clock, ok := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(s, " BC"), "+00"), " ")
	clock = strings.TrimSuffix(clock, "+00")
	if !ok {
		clock = "00:00:00"
	}
	year, rest, _ := strings.Cut(date, "-")
	switch {
	case strings.HasSuffix(s, " BC"):
		var n int
		_, _ = fmt.Sscan(year, &n)
		year = fmt.Sprintf("-%04d", n-1)
		if n == 1 {
			year = "0000"
		}
	case len(year) > 4:
		year = "+" + year
	}
	return year + "-" + rest + "T" + clock + "Z"
}

// TestLines has one line that is bad between two good ones: it is named, and the others go on.
func TestLines(t *testing.T) {
	const good = `{"topic":"t","key":"{\"id\":1}","value":null}` + "\n"
	deep := strings.Repeat("[", 100_000)
	for line, want := range map[string]string{
		`{`:                                   "not JSON, at byte",
		`{"topic":"t"}x`:                      "not JSON, at byte",
		`[]`:                                  "no JSON object",
		`null`:                                "no JSON object",
		`"text"`:                              "no JSON object",
		`{"topic":"t"}`:                       "neither key nor value",
		`{"topic":1,"value":"{}"}`:            "topic is a JSON number",
		`{"properties":[],"value":"{}"}`:      "properties is a JSON array",
		`{"properties":{"a":1},"value":"{}"}`: "is a JSON number",
		`{"value":1}`:                         "value is no string, object or null",
		`{"value":[]}`:                        "value is no string, object or null",
		`{"key":true,"value":"{}"}`:           "key is no string, object or null",
		`{"value":"{}"}`:                      "not a change event",
		`{"value":"{"}`:                       "not JSON",
		`{"value":"\ud800"}`:                  "",
		"{\"value\":\"\xff\"}":                "not UTF-8",
		`{"value":` + deep + `}`:              "not JSON",
		`{"value":"` + deep + `"}`:            "",
		`{"value":{"op":"c","before":null,"after":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}}`: "nested",
		`{"key":"{\"id\":","value":{"op":"d","before":null,"after":null}}`:                                               "key",
		`{"value":{"op":"q","before":null,"after":{"a":1}}}`:                                                             "op",
		`{"value":{"op":"c","before":null,"after":"text"}}`:                                                              "",
	} {
		out, problems, code := dump(t, good+line+"\n"+good, "-json")
		if code != failed || !strings.Contains(problems, "standard input, line 2: ") || !strings.Contains(problems, want) ||
			strings.Count(problems, "\n") != 1 || strings.Count(out, "\n") != 2 {
			t.Errorf("%.80s: code %d, %d lines, problems %q, want one with %q", line, code, strings.Count(out, "\n"), problems, want)
		}
	}
	long := `{"value":"` + strings.Repeat("x", maxLine) + `"}`
	if out, problems, code := dump(t, good+long+"\n"+good, "-json"); code != failed || strings.Count(out, "\n") != 2 || !strings.Contains(problems, "line 2: longer than") {
		t.Errorf("a long line: code %d, %q", code, problems)
	}
}

// TestForms gives one event in the forms that a line may have.
func TestForms(t *testing.T) {
	const key, value = `{"id":1}`, `{"op":"c","before":null,"after":{"id":1,"big":9007199254740993,"f":0.1},"source":{"table":"t"}}`
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	want, _, _ := dump(t, `{"topic":"a","key":`+quoted(key)+`,"value":`+quoted(value)+`,"properties":{}}`, "-json")
	if !strings.Contains(want, `"key":{"id":1},"before":null,"after":{"id":1,"big":"9007199254740993","f":0.1},`) {
		t.Fatal(want)
	}
	for _, line := range []string{
		`{"topic":"a","key":` + key + `,"value":` + value + `}`,
		"\ufeff" + `{"topic":"a","key":` + key + `,"value":` + value + `}`,
		` {"value":` + value + `,"key":` + quoted(key) + `,"topic":"a","properties":null,"other":[1]} ` + "\r\n\n",
	} {
		if got, problems, code := dump(t, line, "-json"); got != want || code != allWell {
			t.Errorf("%s: code %d, %s%s", line, code, problems, got)
		}
	}
	for _, line := range []string{`{"topic":"a","key":{"id":1}}`, `{"key":"{\"id\":1}","value":null}`, `{"key":{"id":1},"value":""}`} {
		if got, _, code := dump(t, line, "-json"); code != allWell || !strings.HasPrefix(got, `{"op":"tombstone","kind":"tombstone","key":{"id":1},`) {
			t.Errorf("%s: %s", line, got)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		code      int
		problem   string
	}{
		{[]string{"-help"}, allWell, "usage"},
		{[]string{"-nonsense"}, misused, "nonsense"},
		{[]string{"-topic", "t", "file"}, misused, "exclude"},
		{[]string{"-follow"}, misused, "-topic"},
		{[]string{"-placeholder", "hex:x"}, misused, "Placeholder"},
		{[]string{"testdata/none.jsonl"}, failed, "none.jsonl"},
		{[]string{"-topic", "t", "-pulsar", "http://x"}, failed, "URL"},
	} {
		if _, problems, code := dump(t, "", c.arguments...); code != c.code || !strings.Contains(problems, c.problem) {
			t.Errorf("%v: code %d, %q", c.arguments, code, problems)
		}
	}
	events := `{"key":{"id":1}}` + "\n"
	if code := run(t.Context(), nil, strings.NewReader(events), broken{}, io.Discard); code != failed {
		t.Errorf("where nothing can be written: code %d", code)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestTimes(t *testing.T) {
	at := time.Date(2026, 2, 28, 10, 0, 0, 123456789, time.FixedZone("", 3600))
	for text, got := range map[string]string{
		"2026-02-28T09:00:00.123456789Z": timeText(at),
		"infinity":                       timeText(cdc.Infinity),
		"-infinity":                      timeText(cdc.NegativeInfinity),
		"0000-12-31T00:00:00Z":           timeText(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)),
		"-0001-01-01T00:00:00Z":          timeText(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)),
		"+10000-01-01T00:00:00.1Z":       timeText(time.Date(10000, 1, 1, 0, 0, 0, 1e8, time.UTC)),
		"+5874897-12-31T00:00:00Z":       timeText(time.Date(5874897, 12, 31, 0, 0, 0, 0, time.UTC)),
		"PT0S":                           durationText(0),
		"PT24H":                          durationText(24 * time.Hour),
		"PT-1H-2M-3.5S":                  durationText(-time.Hour - 2*time.Minute - 3500*time.Millisecond),
		"PT0.000000001S":                 durationText(1),
		"PT-2562047H-47M-16.854775808S":  durationText(-1 << 63),
	} {
		if got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
}

// places are what only a message in a topic has, and the names of topics.
var places = regexp.MustCompile(`("position":"[^"]*"|"topic":"[^"]*")`)

// TestTopic reads from a topic what it reads from a file, with a message in between that nobody can read.
func TestTopic(t *testing.T) {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	publish(t, broker, 0, 6)
	lines := events(t)
	arguments := []string{"-json", "-topic", "changes", "-pulsar", broker.URL()}
	out, problems, code := dump(t, "", arguments...)
	if code != allWell || problems != "" {
		t.Fatalf("code %d, %s", code, problems)
	}
	fromFile, _, _ := dump(t, strings.Join(lines[:6], "\n"), "-json")
	if got, want := places.ReplaceAllString(out, ""), places.ReplaceAllString(fromFile, ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	publishText(t, broker, "nonsense")
	if out, problems, code = dump(t, "", arguments...); code != failed || strings.Count(out, "\n") != 6 || !strings.Contains(problems, "message ") {
		t.Errorf("code %d, %d lines, %s", code, strings.Count(out, "\n"), problems)
	}

	// Followed, it prints what comes later too.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append(arguments, "-follow"), nil, writer, io.Discard)
		_ = writer.Close()
	}()
	printed := json.NewDecoder(reader)
	for i := range lines {
		if i == 6 {
			publish(t, broker, 6, len(lines))
		}
		var event map[string]any
		if err := printed.Decode(&event); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	cancel()
	if code := <-done; code != failed { // for the nonsense
		t.Errorf("code %d", code)
	}
}

// TestAvroTopic reads a message whose schema is in the registry.
func TestAvroTopic(t *testing.T) {
	const schema = `{"type":"record","name":"Envelope","fields":[
		{"name":"after","type":["null",{"type":"record","name":"Value","fields":[
			{"name":"id","type":"long"},
			{"name":"at","type":{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}}]}]},
		{"name":"op","type":"string"}]}`
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	codec := pulsarx.AvroSchema[map[string]any](schema)
	producer, err := pulsarx.NewProducer(t.Context(), client, codec, pulsarx.ProducerOptions[map[string]any]{Topic: "avro"})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(context.WithoutCancel(t.Context()))
	change := map[string]any{"op": "c", "after": map[string]any{"id": int64(7), "at": int64(63072000000000)}}
	if _, err := producer.Send(t.Context(), change, pulsarx.Key(`{"id":7}`)); err != nil {
		t.Fatal(err)
	}
	out, problems, code := dump(t, "", "-json", "-topic", "avro", "-pulsar", broker.URL())
	if want := `{"op":"c","kind":"change","key":{"id":7},"before":null,"after":{"id":7,"at":"1972-01-01T00:00:00Z"},`; !strings.HasPrefix(out, want) || code != allWell {
		t.Errorf("code %d, %s%s", code, problems, out)
	}
}

func events(t *testing.T) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(unzip(t, recordings+"precise-plain.jsonl.gz")) {
		if strings.HasPrefix(line, `{"topic":"precise_plain.public.toast_full"`) || strings.HasPrefix(line, `{"topic":"precise_plain.public.no_key"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 10 {
		t.Fatalf("%d events", len(lines))
	}
	return lines
}

// publish sends recorded events as Debezium Server does.
func publish(t *testing.T, broker *pulsartest.Broker, from, to int) {
	t.Helper()
	producer := newProducer(t, broker)
	for _, line := range events(t)[from:to] {
		record, err := parseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		options := []pulsarx.SendOption{pulsarx.Key(record.Key)}
		for name, value := range record.Properties {
			options = append(options, pulsarx.Property(name, value))
		}
		if len(record.Value) == 0 {
			_, err = producer.SendTombstone(t.Context(), record.Key)
		} else {
			_, err = producer.Send(t.Context(), string(record.Value), options...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func publishText(t *testing.T, broker *pulsartest.Broker, text string) {
	t.Helper()
	if _, err := newProducer(t, broker).Send(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func newProducer(t *testing.T, broker *pulsartest.Broker) *pulsarx.Producer[string] {
	t.Helper()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.WithoutCancel(t.Context())) })
	producer, err := pulsarx.NewProducer(t.Context(), client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "changes"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = producer.Close(context.WithoutCancel(t.Context())) })
	return producer
}
