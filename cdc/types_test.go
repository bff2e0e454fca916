package cdc_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

func newDecoder[T any](t *testing.T, o cdc.Options) *cdc.Decoder[T] {
	t.Helper()
	d, err := cdc.NewDecoder[T](o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (m message) record() cdc.Record {
	return cdc.Record{Topic: m.Topic, Key: m.Key, Value: []byte(m.Value), Properties: m.Properties}
}

// sample is a column of a table in one message of a setting.
type sample struct {
	setting
	table string
	column
	op cdc.Op
}

// isSent says whether Debezium sends the column at all.
func (s sample) isSent() bool {
	switch {
	case slices.Contains([]string{"interval[]", "money[]", "xml[]", "point[]"}, s.Base):
		return false
	case slices.Contains([]string{
		"pair", "tsquery", "pg_lsn", "xid8", "jsonpath", "regclass", "line", "lseg", "box", "path", "polygon", "circle", "box[]",
	}, s.Base), strings.HasSuffix(s.Base, "multirange"):
		return s.unknown
	}
	return true
}

// isGarbled says whether what Debezium sends has little to do with the value.
func (s sample) isGarbled(text string) bool {
	switch {
	case strings.HasPrefix(text, "{{"): // arrays of more than one dimension: null or [Ljava.lang.String;@3ad7f559 for each of the inner ones
		return true
	case s.Base == "timestamp without time zone" && text >= "294247" && len(text) > 20 && text[6] == '-': // beyond int64 microseconds
		return s.time == "microseconds" || s.Name == "ts6" && s.time != "connect" && s.time != "isostring" && s.time != "nanoseconds"
	}
	return false
}

// lose returns what is left of a value that Postgres has: all of it, but for what follows.
func (s sample) lose(base string, text *string) *string {
	if text == nil {
		return nil
	}
	infinite := strings.HasSuffix(*text, "infinity") || strings.HasSuffix(*text, "Infinity") || *text == "NaN"
	left := *text
	switch base {
	case "numeric", "money":
		switch {
		case infinite && s.decimal == "": // no decimal of Kafka Connect can be that
			return nil
		case s.decimal == "double":
			number, _ := strconv.ParseFloat(strings.NewReplacer("$", "", ",", "").Replace(left), 64)
			left = strconv.FormatFloat(number, 'f', -1, 64)
		}
	case "name":
		if s.op != cdc.OpRead && !s.unknown { // no converter for what pgoutput sends
			return nil
		}
	case "interval":
		if whole, ok := interval(left); ok && s.interval == "" {
			micros := whole.averaged()
			left = fmt.Sprintf("PT%dS", micros/1e6)
			if rest := micros % 1e6; rest != 0 {
				left = fmt.Sprintf("PT%s%d.%06dS", map[bool]string{true: "-"}[micros < 0], abs(micros)/1e6, abs(rest))
			}
		}
	case "date":
		if s.op != cdc.OpRead && s.Base == base {
			break
		}
		// In snapshots and arrays through java.sql.Date, which forgets the era and has no days from 5 to 14 October 1582.
		left = strings.TrimSuffix(left, " BC")
		if day, ok := instant(left); ok && left > "1582-10-04" && left < "1582-10-15" {
			left = day.AddDate(0, 0, 10).Format(time.DateOnly)
		}
	case "timestamp with time zone":
		if s.Base != base { // through java.sql.Timestamp
			left = strings.TrimSuffix(left, " BC")
		}
	case "timestamp without time zone":
		if infinite {
			break
		}
		at, _ := instant(left)
		if s.Base != base && at.Before(gregorian) { // through java.sql.Timestamp
			at = julian(at)
			left = at.Format("2006-01-02 15:04:05.999999")
			if y := at.Year(); y <= 0 {
				left = fmt.Sprintf("%04d", 1-y) + at.Format("-01-02 15:04:05.999999") + " BC"
			}
		}
		switch {
		case s.time == "connect":
			left = fraction.ReplaceAllString(left, "$1")
		case s.time == "nanoseconds" && (at.Before(time.Unix(0, -1<<63)) || at.After(time.Unix(0, 1<<63-1))):
			return nil
		}
	case "time without time zone":
		switch {
		case s.time == "isostring" && left == "24:00:00":
			left = "00:00:00"
		case s.time == "connect", s.Base != base: // arrays go through java.sql.Time
			left = fraction.ReplaceAllString(left, "$1")
		}
		if s.Base != base && left == "24:00:00" {
			left = "00:00:00"
		}
	case "time with time zone":
		if s.Base != base {
			left = regexp.MustCompile(`\.\d+`).ReplaceAllString(left, "")
		}
	}
	return &left
}

// gregorian is when the Gregorian calendar begins for Java's old classes.
var gregorian = time.Date(1582, 10, 15, 0, 0, 0, 0, time.UTC)

// julian reads the day of a time as one of the Julian calendar.
func julian(t time.Time) time.Time {
	year := t.Year() + 8000 // a multiple of both calendars' cycles, so that it is positive
	if t.Month() < time.March {
		year--
	}
	return t.AddDate(0, 0, year/100-year/400-2-(80-20)) // the leap days that the Gregorian calendar leaves out
}

func abs(n int64) int64 { return max(n, -n) }

// fraction finds what is below a millisecond.
var fraction = regexp.MustCompile(`(\.\d{3})\d*`)

// isNull says whether Debezium sends null for an array that it cannot convert.
func (s sample) isNull(text *string) bool {
	switch s.Base {
	case "bit[]":
		return true
	case "mood[]", "ltree[]":
		return text != nil && strings.Contains(*text, "NULL")
	}
	return false
}

// check compares one value.
func (s sample) check(want *string, got any) error {
	if want != nil && s.isGarbled(*want) {
		return nil
	}
	if s.isNull(want) {
		want = nil
	}
	return equal(s.Base, want, got, s.lose)
}

// fromText decodes what a Row has as text because the message does not say that it is more: bytes in a binary mode that makes strings,
// and types that Debezium knows nothing of, whose bytes are their text.
func (s sample) fromText(got any) any {
	switch got := got.(type) {
	case string:
		if s.Base != "bytea" && s.Base != "bytea[]" {
			return got
		}
		var out []byte
		var err error
		switch s.binary {
		case "base64":
			out, err = base64.StdEncoding.DecodeString(got)
		case "base64-url-safe":
			out, err = base64.URLEncoding.DecodeString(got)
		case "hex":
			out, err = hex.DecodeString(got)
		}
		if err != nil {
			return err
		}
		return out
	case []any:
		list := make([]any, len(got))
		for i := range got {
			list[i] = s.fromText(got[i])
		}
		return list
	case []byte:
		if s.unknown && comparisons[strings.TrimSuffix(s.Base, "[]")] == nil {
			return strings.ReplaceAll(string(got), ".0", "") // the driver writes the numbers of shapes as Java does
		}
	}
	return got
}

func truth(t *testing.T) map[string]table {
	t.Helper()
	tables := map[string]table{}
	for _, table := range readLines[table](t, "tables.jsonl.gz") {
		tables[table.Name] = table
	}
	return tables
}

// eachRow calls check with every row of the tables of types: those of the snapshot, of inserts, and before deletes. It says how many
// there were.
func eachRow[T any](
	t *testing.T, s setting, messages []message, tables map[string]table, check func(*testing.T, *T, table, []*string, cdc.Op),
) int {
	t.Helper()
	d := newDecoder[T](t, cdc.Options{Placeholder: s.placeholder})
	ids := newDecoder[struct {
		ID int `cdc:"id,key"`
	}](t, cdc.Options{})
	count := 0
	for _, m := range messages {
		name, _ := strings.CutPrefix(m.Topic, s.prefix()+".public.")
		table, ok := tables[name]
		if !ok || strings.HasPrefix(name, "toast") || m.Value == "" {
			continue
		}
		e, err := d.Decode(m.record())
		if err != nil {
			t.Errorf("%s: %v", m.Topic, err)
			continue
		}
		id, err := ids.Decode(m.record())
		if err != nil {
			t.Fatal(err)
		}
		row, n := e.After, id.After
		if e.Op == cdc.OpDelete {
			row, n = e.Before, id.Before
		}
		if row == nil || n == nil {
			t.Errorf("%s: no row in an event %c", m.Topic, e.Op)
			continue
		}
		count++
		check(t, row, table, table.Rows[n.ID%100-1], e.Op)
	}
	return count
}

// rowCount is how many rows eachRow meets.
func rowCount(tables map[string]table) int {
	count := 0
	for name, table := range tables {
		if !strings.HasPrefix(name, "toast") {
			count += 3 * len(table.Rows)
		}
	}
	return count
}

// TestRows compares every column of every row in cdc.Row with what SELECT returns.
func TestRows(t *testing.T) {
	tables := truth(t)
	for _, s := range settings {
		if !s.schemas {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			count := eachRow(t, s, s.recording(t), tables, s.checkRow)
			if want := rowCount(tables); count != want {
				t.Errorf("%d rows, want %d", count, want)
			}
		})
	}
}

func (s setting) checkRow(t *testing.T, row *cdc.Row, table table, want []*string, op cdc.Op) {
	t.Helper()
	for i, c := range table.Columns {
		if c.Name == "id" {
			continue
		}
		v := sample{s, table.Name, c, op}
		got, ok := row.Get(c.Name)
		if ok != v.isSent() {
			t.Errorf("%s.%s of row %s, op %c: sent: %t", table.Name, c.Name, *want[0], op, ok)
		}
		if !ok {
			continue
		}
		if want[i] != nil && *want[i] == "null" && got == nil {
			continue // a document that is null, which a Row does not tell from NULL
		}
		if err := v.check(want[i], v.fromText(got)); err != nil {
			t.Errorf("%s.%s of row %s, op %c: %v", table.Name, c.Name, *want[0], op, err)
		}
	}
}
