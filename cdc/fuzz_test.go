package cdc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// seeds are the grammar's corners, for every target that reads JSON.
var seeds = []string{
	`null`, `true`, `-0`, `0.1e+2`, `1E5`, `01`, `-`, `1.`, `.5`, `1e`, `"\u00e9\ud83d\ude00\ud800"`, "\"\xff\xc3(\"", "\"\x01\"", `"\x"`, `"\u12g4"`,
	`[]`, `[1,]`, `[,]`, `{}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":1 "b":2}`, ` {"a" : [ 1 , {"b":null} ] } `, `{"a":{"a":[[[]]]},"a":2}`, `nul`, `truex`, "", " ",
	`{"op":"c","after":{"id":1}}`, "\ufeff{}", `12345678901234567890123`, `"abcdefgh\n01234567\"89"`, `["1234567","12345678","123456789"]`,
}

// FuzzScanner compares the scanner with encoding/json: it accepts the same texts, except for depth, and reads the same values.
func FuzzScanner(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{data: data, maxDepth: maxDepth}
		v, err := s.value()
		if err == nil {
			err = s.end()
		}
		if err != nil && strings.Contains(err.Error(), "nested") {
			return
		}
		if valid := json.Valid(data); valid != (err == nil) {
			t.Fatalf("encoding/json says %v, we say %v: %q", valid, err, data)
		}
		if err != nil {
			return
		}
		got, bad := dynamicValue(v, document)
		if bad != nil {
			t.Fatalf("%q: %v", data, bad)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var want any
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !equalJSON(got, want) {
			t.Fatalf("%q: got %#v, want %#v", data, got, want)
		}
	})
}

// equalJSON compares what we read with what encoding/json reads with UseNumber.
func equalJSON(got, want any) bool {
	switch want := want.(type) {
	case json.Number:
		exact, ok := parseDecimal([]byte(want))
		ok = ok && exact.Scale > -400 // or the test takes its time
		switch got := got.(type) {
		case int64:
			return ok && exact.Rat().Cmp(new(big.Rat).SetInt64(got)) == 0
		case *big.Int:
			return ok && exact.Rat().Cmp(new(big.Rat).SetInt(got)) == 0
		case float64:
			nearest, err := want.Float64()
			return err == nil && nearest == got
		case json.Number:
			return got == want
		}
		return false
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !equalJSON(got[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if d, isDecimal := got.(Decimal); isDecimal {
			return equalDecimal(d, want)
		}
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name := range want {
			if member, ok := got[name]; !ok || !equalJSON(member, want[name]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

// fuzzRow has every kind of target.
type fuzzRow struct {
	ID   int64 `cdc:"id,key"`
	I8   int8
	U    *uint16
	F    float64
	F4   float32
	S    string
	B    []byte
	T    time.Time     `cdc:"t,unit=us"`
	D    time.Duration `cdc:"d,unit=ms"`
	Dec  Decimal       `cdc:"dec,scale=2"`
	Big  *big.Int
	Rat  *big.Rat
	Num  json.Number
	Raw  json.RawMessage
	Any  any
	Map  map[string][]int
	List []*list
	Text upper
	JSON rawJSON
	Row  Row
	Iv   Interval `cdc:"iv,unit=us"`
	Geo  Geometry
	Vec  *SparseVector
	Addr Null[netip.Prefix]
	UUID [16]byte
}

// equalDecimal compares with a VariableScaleDecimal.
func equalDecimal(got Decimal, want map[string]any) bool {
	text, _ := want["value"].(string)
	octets, err := base64.StdEncoding.DecodeString(text)
	unscaled := new(big.Int).SetBytes(octets)
	if len(octets) > 0 && octets[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(octets))))
	}
	return err == nil && len(want) == 2 && got.Unscaled.Cmp(unscaled) == 0 && want["scale"] == json.Number(strconv.Itoa(got.Scale))
}

// FuzzDecode: no input panics, what encoding/json refuses we refuse, and what encoding/json reads into a row we read equally.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"plain", "schema", "strings", "flat"} {
		for i, r := range recorded(f, name) {
			if len(r.Value) < 8000 && i%5 == 0 {
				f.Add(r.Value, r.Key)
			}
		}
	}
	f.Add([]byte(`{"id":7,"__op":"u","__deleted":"false"}`), `eyJpZCI6N30=`)
	f.Add([]byte("\x00\x00\x00\x08{\"id\":7}\x00\x00\x00\x1a{\"op\":\"c\",\"after\":{\"a\":1}}"), "")
	f.Add([]byte(`{"op":"c","after":{"iv":"P1Y2M3DT4H5M6.78S","geo":{"wkb":"AQEAACDmEAAAzczMzMzMAkDNzMzMzGxIQA==","srid":1},"vec":{"dimensions":5,"vector":[[1,2]]},`+
		`"addr":"10.0.0.0/8","uuid":"7f1e4c1a-4f5e-4c57-9a57-0d2f7a5b0c11","t":{"year":1,"month":2,"day":3}}}`), "")
	for _, seed := range seeds {
		f.Add([]byte(`{"op":"u","before":{"id":1,"any":`+seed+`},"after":{"id":1,"any":`+seed+`,"raw":`+seed+`,"s":"x"}}`), seed)
	}
	rows, structs := newDecoder[Row](f, Options{}), newDecoder[fuzzRow](f, Options{})
	f.Fuzz(func(t *testing.T, data []byte, key string) {
		r := Record{Topic: "t", Key: key, Value: data}
		row, err := rows.Decode(r)
		_, structErr := structs.Decode(r)
		// A decoder that expects what came last reads what one reads that expects nothing.
		if fresh, freshErr := newDecoder[Row](t, Options{}).Decode(r); fmt.Sprint(fresh.Key, fresh.Source, freshErr, rowText(fresh.Before), rowText(fresh.After)) !=
			fmt.Sprint(row.Key, row.Source, err, rowText(row.Before), rowText(row.After)) {
			t.Fatalf("%q: %v, then %v", data, freshErr, err)
		}
		for _, err := range []error{err, structErr} {
			var permanent interface{ Permanent() bool }
			if err != nil && (!errors.As(err, &permanent) || !permanent.Permanent()) {
				t.Fatalf("an error that is not permanent: %v", err)
			}
			if err != nil && !utf8.ValidString(err.Error()) {
				t.Fatalf("an error that is no text: %q", err)
			}
		}
		if _, _, inline := SplitKeyValue(data); (err == nil || structErr == nil) && !inline && len(data) > 0 && !json.Valid(data) {
			t.Fatalf("decoded what is not JSON: %q", data)
		}
		if err != nil || row.Op == OpTombstone {
			return
		}
		if json.Valid(data) {
			checkEvent(t, &row, data)
		}
	})
}

func rowText(r *Row) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprint(*r)
}

// checkEvent compares the rows of an event without schema with those that encoding/json reads.
func checkEvent(t *testing.T, e *Event[Row], data []byte) {
	t.Helper()
	changed, known := e.Changed()
	if !known && changed != nil {
		t.Fatal("changed columns that are not known")
	}
	for _, column := range e.UnavailableColumns() {
		if !e.Unavailable(column) {
			t.Fatalf("UnavailableColumns and Unavailable disagree: %q", column)
		}
		if e.After != nil {
			if _, ok := e.After.Get(column); ok {
				t.Fatalf("an unavailable column has a value: %q", column)
			}
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var want map[string]any
	if err := decoder.Decode(&want); err != nil {
		t.Fatal(err)
	}
	after, isObject := want["after"].(map[string]any)
	if _, wrapped := want["payload"]; wrapped || !isObject || e.After == nil {
		return // with a schema the values are of other types
	}
	if op, _ := want["op"].(string); op != string(rune(e.Op)) {
		return // a flattened row with such a column
	}
	before, _ := want["before"].(map[string]any)
	if len(*e.After)+len(e.UnavailableColumns()) != len(after) {
		t.Fatalf("got %d columns, want %d: %q", len(*e.After), len(after), data)
	}
	for _, c := range *e.After {
		if !equalJSON(c.Value, after[c.Name]) && !equalJSON(c.Value, before[c.Name]) {
			t.Fatalf("column %q: got %#v, want %#v", c.Name, c.Value, after[c.Name])
		}
	}
}

// FuzzKey: no key panics; what is read is what encoding/json reads.
func FuzzKey(f *testing.F) {
	f.Add(`{"id":9007199254740993}`)
	f.Add(`default`)
	f.Add(`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"n"}]},"payload":{"n":"BOI="}}`)
	for _, seed := range seeds {
		f.Add(seed)
		f.Add(`{"a":` + seed + `}`)
	}
	d := newDecoder[Row](f, Options{})
	f.Fuzz(func(t *testing.T, text string) {
		e, err := d.Decode(Record{Key: text})
		if err != nil || text == "" || text == noKey {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("read a key that is not JSON: %q", text)
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var want map[string]any
		if decoder.Decode(&want) != nil || want["schema"] != nil || want["payload"] != nil {
			return
		}
		for _, c := range e.Key {
			nested := reflect.TypeOf(want[c.Name])
			if nested != nil && (nested.Kind() == reflect.Map || nested.Kind() == reflect.Slice) {
				continue // JSON text
			}
			if !equalJSON(c.Value, want[c.Name]) {
				t.Fatalf("%q: column %q is %#v, want %#v", text, c.Name, c.Value, want[c.Name])
			}
		}
	})
}

// lenient finds what time.Parse takes beyond ISO 8601 as Debezium writes it: a comma, an hour of one digit, a fraction
// that it cuts short.
var lenient = regexp.MustCompile(`,|T[0-9]:|\.[0-9]{10}`)

// FuzzTime: no text panics, and what time.Parse reads as strict RFC 3339 we read equally.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{
		"2026-02-28T07:00:00.123456Z", "+21016-11-04T06:51:30Z", "-4713-12-31T00:00:00Z", "infinity", "2017-09-15Z", "2026-02-28T24:00:00Z",
		"P1Y2M3DT4H5M6.78S", "11:51:30.123789Z", "2026-02-28T07:00:00-23:59",
		"0000-01-01T00:00:00.0000000000Z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseTime(text)
		want, err := time.Parse(time.RFC3339Nano, text)
		if err == nil && !lenient.MatchString(text) && (!ok || !got.Equal(want)) {
			t.Fatalf("%q: got %v, %v, want %v", text, got, ok, want)
		}
		parseClock(text)
		if i, ok := parseInterval(text); ok {
			if back, ok := parseInterval(i.String()); !ok || back != i {
				t.Fatalf("%q is %v, and that is %v", text, i, back)
			}
		}
	})
}

// FuzzDecimal: text that is read comes back as the same number.
func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"12.50", "-0.05", "1e5", "1E-7", "+3", "00.10", "-", ".5", "5.", "1e20000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := parseDecimal([]byte(text))
		if !ok {
			return
		}
		want, isRat := new(big.Rat).SetString(text)
		if !isRat || d.Rat().Cmp(want) != 0 {
			t.Fatalf("%q is %v", text, d)
		}
		back, ok := parseDecimal([]byte(d.String()))
		if len(text) < 1000 && d.Scale >= 0 && (!ok || back.Rat().Cmp(want) != 0) {
			t.Fatalf("%q: %v comes back as %v", text, d, back)
		}
	})
}
