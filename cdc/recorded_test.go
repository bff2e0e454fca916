package cdc

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// recorded returns the messages of one recording in testdata, as Debezium Server wrote them to Pulsar.
func recorded(tb testing.TB, name string) []Record {
	tb.Helper()
	file, err := os.Open("testdata/" + name + ".jsonl.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	var records []Record
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Topic, Key, Value string
			Properties        map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			tb.Fatal(err)
		}
		records = append(records, Record{Topic: line.Topic, Key: line.Key, Value: []byte(line.Value), Properties: line.Properties})
	}
	if err := lines.Err(); err != nil || len(records) < 100 {
		tb.Fatalf("%d records: %v", len(records), err)
	}
	return records
}

// of keeps the records of one table.
func of(records []Record, table string) []Record {
	var kept []Record
	for _, r := range records {
		if strings.HasSuffix(r.Topic, "."+table) {
			kept = append(kept, r)
		}
	}
	return kept
}

func newDecoder[T any](tb testing.TB, o Options) *Decoder[T] {
	tb.Helper()
	d, err := NewDecoder[T](o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func decodeAll[T any](tb testing.TB, records []Record) []Event[T] {
	tb.Helper()
	d := newDecoder[T](tb, Options{})
	var events []Event[T]
	for i, r := range records {
		e, err := d.Decode(r)
		if err != nil {
			tb.Fatalf("record %d of %s: %v", i, r.Topic, err)
		}
		events = append(events, e)
	}
	return events
}
