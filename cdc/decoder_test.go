package cdc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// event wraps a row after into an envelope.
func event(after string) Record {
	return Record{Topic: "shop.public.t", Value: []byte(`{"op":"c","before":null,"after":` + after + `,"source":{"schema":"public","table":"t"}}`)}
}

// typed does the same with the Connect schema of the row's fields.
func typed(fields, after string) Record {
	r := event(after)
	r.Value = []byte(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[` + fields + `],"field":"after"}]},"payload":` + string(r.Value) + `}`)
	return r
}

func decodeOne[T any](t *testing.T, r Record) Event[T] {
	t.Helper()
	e, err := newDecoder[T](t, Options{}).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// upper reads itself from text.
func TestMisfitAtFirstEvent(t *testing.T) {
	type row struct{ A string }
	d := newDecoder[row](t, Options{})
	for _, fields := range []string{
		`{"type":"int32","optional":true,"field":"a"}`,
		`{"type":"boolean","optional":true,"field":"a"}`,
		`{"type":"int64","name":"io.debezium.time.MicroTimestamp","optional":true,"field":"a"}`,
		`{"type":"array","items":{"type":"string"},"optional":true,"field":"a"}`,
	} {
		_, err := d.Decode(typed(fields, `{"a":null}`))
		var de *DecodeError
		if !errors.As(err, &de) || de.Column != "a" || de.Go != "string" || de.Table != "public.t" || de.Topic != "shop.public.t" {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if _, err := d.Decode(typed(`{"type":"string","field":"a"}`, `{"a":"x"}`)); err != nil {
		t.Error(err)
	}
	type at struct{ A *time.Time }
	_, err := newDecoder[at](t, Options{}).Decode(typed(`{"type":"int64","field":"a"}`, `{"a":null}`))
	if err == nil || !strings.Contains(err.Error(), "unit=") {
		t.Errorf("a bare integer fits a time: %v", err)
	}
	type array struct{ A []string }
	if _, err := newDecoder[array](t, Options{}).Decode(typed(`{"type":"array","items":{"type":"int32"},"field":"a"}`, `{"a":null}`)); err == nil {
		t.Error("an array of integers fits a slice of strings")
	}
}

func TestFieldNames(t *testing.T) {
	type base struct{ CreatedAt string }
	type row struct {
		base
		ProductID   int    // folded
		Description string `json:"body,omitempty"`
		Other       string `cdc:"other_name" json:"ignored"`
		Out         string `cdc:"-"`
		JSONOut     string `json:"-"`
		Tagged      string `cdc:",key" json:"tagged_as"`
		hidden      string
	}
	_ = row{}.hidden
	e := decodeOne[row](t, event(`{"product_id":7,"body":"b","other_name":"o","Out":"x","out":"x","json_out":"x","hidden":"x","tagged_as":"t","createdat":"c","more":{}}`))
	want := row{base: base{"c"}, ProductID: 7, Description: "b", Other: "o", Tagged: "t"}
	if *e.After != want || e.UnavailableColumns() != nil {
		t.Errorf("got %+v, lacks %v", *e.After, e.UnavailableColumns())
	}
	if !reflect.DeepEqual(e.Key, Key{{"tagged_as", "t"}}) {
		t.Errorf("key %v", e.Key)
	}
	// A column that the row lacks is unavailable, not zero.
	e = decodeOne[row](t, event(`{"product_id":7,"tagged_as":"t"}`))
	if got, want := e.UnavailableColumns(), []string{"body", "created_at", "other_name"}; !reflect.DeepEqual(got, want) {
		t.Errorf("lacks %v, want %v", got, want)
	}
	// What T has no field for is unavailable, but T lacks nothing.
	e = decodeOne[row](t, event(`{"product_id":7,"body":"b","other_name":"o","createdat":"c","tagged_as":"t","notes":"__debezium_unavailable_value"}`))
	if got := e.UnavailableColumns(); got != nil || !e.Unavailable("notes") {
		t.Errorf("lacks %v, notes unavailable: %v", got, e.Unavailable("notes"))
	}
}

// TestTwoColumnsOneField: which of two columns a field's Go name means is not guessed.
func TestTwoColumnsOneField(t *testing.T) {
	type folded struct{ UserID int }
	r := event(`{"user_id":1,"userid":2}`)
	_, err := newDecoder[folded](t, Options{}).Decode(r)
	var bad *DecodeError
	if !errors.As(err, &bad) || bad.Column != "userid" || !strings.Contains(err.Error(), `"user_id"`) {
		t.Errorf("error %v", err)
	}
	type tagged struct {
		UserID int `cdc:"user_id"`
	}
	if e := decodeOne[tagged](t, r); e.After.UserID != 1 {
		t.Errorf("got %+v", e.After)
	}
	if e := decodeOne[folded](t, event(`{"user_id":1,"user_id":2}`)); e.After.UserID != 2 {
		t.Errorf("of one column given twice the last counts: got %+v", e.After)
	}
}

func TestNewDecoderErrors(t *testing.T) {
	newErr := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q in it", err, w)
			}
		}
	}
	_, err := NewDecoder[struct {
		A chan int
		B int `cdc:"b,unit=weeks"`
		C int `cdc:"c,primary"`
		D map[int]string
		E string `cdc:"e,encoding=rot13"`
		F int    `cdc:"x"`
		G int    `cdc:"x"`
	}](Options{Placeholder: "hex:zz", BinaryMode: "octal", MaxBytes: -2})
	newErr(err, "field A: cannot decode into chan int", "field B: unit", "field C: unknown tag option", "field D:", "field E: encoding", "two fields",
		"Options.Placeholder", "Options.BinaryMode", "Options.MaxBytes")
	_, err = NewDecoder[int](Options{})
	newErr(err, "struct or cdc.Row, not int")
	_, err = NewDecoder[time.Time](Options{})
	newErr(err, "time.Time has no fields for columns")
	_, err = NewDecoder[*allTypes](Options{})
	newErr(err, "not *cdc.allTypes")
	_, err = NewDecoder[struct{ *sparse }](Options{})
	newErr(err, "embedded pointer")
}

// TestEnvelopes has what the recordings do not: other versions, orders and bad messages.
func TestEnvelopes(t *testing.T) {
	type row struct {
		ID   int64 `cdc:"id,key"`
		Name string
	}
	d := newDecoder[row](t, Options{Epoch: 3})
	for _, tc := range []struct{ name, key, value, want string }{
		{"no source", "", `{"op":"u","before":null,"after":{"id":7,"name":"mug"}}`, `u [{id 7}] <nil> &{7 mug}`},
		{"other order", "", `{"source":{"lsn":5},"ts_ms":1,"after":{"name":"mug","id":7},"op":"c","x":[{}]}`, `c [{id 7}] <nil> &{7 mug}`},
		{"white space", "", " {\n\"op\" : \"r\",\t\"after\":\r{ \"id\" : 7 , \"name\" : \"mug\" } } ", `r [{id 7}] <nil> &{7 mug}`},
		{"escaped names", "", `{"\u006fp":"c","aft\u0065r":{"\u0069d":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"payload first", "", `{"payload":{"op":"c","after":{"id":7,"name":"mug"}},"schema":{"type":"struct"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"payload alone", "", `{"schema":null,"payload":{"op":"c","after":{"id":7,"name":"mug"}}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"duplicates", "", `{"op":"d","op":"c","after":{"id":1,"x":2},"after":{"id":6,"name":"cup","id":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"later null", "", `{"op":"c","after":{"id":7,"name":"mug","name":null}}`, `c [{id 7}] <nil> &{7 }`},
		{"key wins", `{"k":8}`, `{"op":"c","after":{"id":7,"name":"mug"}}`, `c [{k 8}] <nil> &{7 mug}`},
		{"routing key", `product-7`, `{"op":"c","after":{"id":7,"name":"mug"}}`, `c [{id 7}] <nil> &{7 mug}`},
		{"default key", `default`, `{"op":"d","before":{"id":7,"name":"mug"},"after":null}`, `d [{id 7}] &{7 mug} <nil>`},
		{"delete by key", `{"id":7}`, `{"op":"d","before":null,"after":null}`, `d [{id 7}] <nil> <nil>`},
		{"delete with after", `{"id":7}`, `{"op":"d","before":null,"after":{"id":7}}`, `d [{id 7}] <nil> <nil>`},
		{"truncate", `default`, `{"op":"t","before":null,"after":null}`, `t [] <nil> <nil>`},
		{"tombstone", `{"id":9007199254740993}`, ``, "\x00 [{id 9007199254740993}] <nil> <nil>"},
		{"tombstone in JSON", `{"id":7}`, `null`, "\x00 [{id 7}] <nil> <nil>"},
		{"tombstone with a schema", `{"id":7}`, `{"schema":null,"payload":null}`, "\x00 [{id 7}] <nil> <nil>"},
		{"empty", `{"id":7}`, `{}`, "unknown record"},
		{"flattened without op", `{"id":7}`, `{"id":7}`, `r [{id 7}] <nil> &{7 }`},
		{"flattened", `{"id":7}`, `{"id":7,"name":"mug","__op":"u","__deleted":"false"}`, `u [{id 7}] <nil> &{7 mug}`},
		{"flattened, column op", `{"id":7}`, `{"id":7,"op":"u","source":"web","after":null,"__deleted":"false"}`, `r [{id 7}] <nil> &{7 }`},
		{"flattened delete", ``, `{"id":7,"name":null,"__deleted":"true"}`, `d [{id 7}] &{7 } <nil>`},
		{"flattened delete by op", `{"id":7}`, `{"id":7,"__op":"d"}`, `d [{id 7}] &{7 } <nil>`},
		{"nothing of T", `{"id":7}`, `{"temperature":20}`, "unknown record"},
		{"schema change", ``, `{"source":{},"ddl":"create table t()","tableChanges":[]}`, "schema change"},
		{"scalar", ``, `17`, "unknown record"},
		{"unknown operation", ``, `{"op":"x","after":{"id":7}}`, "unknown operation"},
		{"long operation", ``, `{"op":"create","after":{"id":7}}`, "unknown operation"},
		{"no row after", `{"id":7}`, `{"op":"u","before":{"id":7},"after":null}`, "operation u without the row after"},
		{"after is no row", `{"id":7}`, `{"op":"c","after":[7]}`, "operation c without the row after"},
		{"before is no row", `{"id":7}`, `{"op":"d","before":7}`, "the row before is no object"},
		{"delete of nothing", ``, `{"op":"d","before":null,"source":{}}`, "neither a key nor the row before"},
		{"message without content", ``, `{"op":"m","message":{"prefix":"p"}}`, "without prefix and content"},
		{"broken key", `{"id":`, `{"op":"c","after":{"id":7}}`, "message key: unexpected end of JSON"},
		{"key of an array", `[7]`, ``, "the message key is no JSON object"},
		{"cut off", ``, `{"op":"c","after":{"id":7`, "message value: not JSON: unexpected end of JSON at byte 25"},
		{"trailing", ``, `{"op":"c","after":{"id":7}} x`, "unexpected data after the JSON value at byte 28"},
		{"trailing comma", ``, `{"op":"c",}`, "want a member's name at byte 10"},
		{"leading zero", ``, `{"op":"c","after":{"id":07}}`, "want a comma"},
		{"deep", ``, `{"op":"c","x":` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `}`, "nested too deeply"},
		{"deep key", strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000), ``, "nested too deeply"},
	} {
		e, err := d.Decode(Record{Topic: "shop.public.t", Key: tc.key, Value: []byte(tc.value)})
		got := fmt.Sprintf("%c %v %v %v", e.Op, e.Key, e.Before, e.After)
		if err == nil {
			if got != tc.want || e.Position().Epoch != 3 {
				t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
			}
			continue
		}
		var permanent interface{ Permanent() bool }
		if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "shop.public.t") || !errors.As(err, &permanent) || !permanent.Permanent() {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestSourceVariants(t *testing.T) {
	for _, tc := range []struct {
		source string
		want   Source
	}{
		{`{"snapshot":true,"ts_ms":1500}`, Source{Snapshot: true, CommitTime: time.UnixMilli(1500).UTC()}},
		{`{"snapshot":"true"}`, Source{Snapshot: true}},
		{`{"snapshot":"last_in_data_collection"}`, Source{Snapshot: true}},
		{`{"snapshot":"incremental","lsn":null,"txId":null}`, Source{Snapshot: true}},
		{`{"snapshot":"false"}`, Source{}},
		{`{"snapshot":false}`, Source{}},
		{`{"snapshot":null}`, Source{}},
		{`{"lsn":18446744073709551615,"txId":4294967297}`, Source{LSN: math.MaxUint64, TxID: 4294967297}},
		{`{"ts_ms":1,"ts_us":1500}`, Source{CommitTime: time.UnixMicro(1500).UTC()}},
		{`{"ts_ns":1500,"ts_ms":1,"ts_us":1}`, Source{CommitTime: time.Unix(0, 1500).UTC()}},
		{`{"lsn":"x","ts_ms":"y","table":7,"db":"\u0064b"}`, Source{Database: "db"}},
		{`null`, Source{}},
	} {
		e := decodeOne[Row](t, Record{Value: []byte(`{"op":"c","after":{"id":1},"source":` + tc.source + `}`)})
		if e.Source != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.source, e.Source, tc.want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Key
	}{
		{``, nil},
		{`default`, nil},
		{`null`, nil},
		{`{"schema":null,"payload":null}`, nil},
		{`{}`, Key{}},
		{`{"id":9007199254740993}`, Key{{"id", int64(9007199254740993)}}},
		{`{"b":1,"a":2}`, Key{{"b", int64(1)}, {"a", int64(2)}}},
		{`{"id":123456789012345678901}`, Key{{"id", bigText("123456789012345678901")}}},
		{`{"f":1.5,"t":true,"n":null,"s":"x\u00e9"}`, Key{{"f", 1.5}, {"t", true}, {"n", nil}, {"s", "xé"}}},
		{`{"a":1,"b":2,"a":3}`, Key{{"a", int64(3)}, {"b", int64(2)}}},
		{`{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":7}}`, Key{{"id", int64(7)}}},
		{`{"payload":{"id":7},"schema":{"type":"struct","fields":[]}}`, Key{{"id", int64(7)}}},
		{`{"schema":"public","payload":"x"}`, Key{{"schema", "public"}, {"payload", "x"}}},
		{`{"n":{"scale":2,"value":"BOI="}}`, Key{{"n", "12.50"}}},
		{
			`{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"field":"n"}]},"payload":{"n":"BOI="}}`,
			Key{{"n", "12.50"}},
		},
		{`{"a":[1, 2]}`, Key{{"a", "[1, 2]"}}},
	} {
		e := decodeOne[Row](t, Record{Key: tc.text})
		if !reflect.DeepEqual(e.Key, tc.want) {
			t.Errorf("%s: got %#v", tc.text, e.Key)
		}
	}
	if v, ok := (Key{{"a", nil}}).Get("a"); v != nil || !ok {
		t.Error("Get does not find a null")
	}
	d := newDecoder[Row](t, Options{})
	for _, text := range []string{`{"id":1e999}`, `{"id":7}x`, `7`, `"x"`, `abc`, `{"schema":null,"payload":7}`} {
		if e, err := d.Decode(Record{Key: text}); err == nil {
			t.Errorf("%s: got %v", text, e.Key)
		}
	}
}

func TestChanged(t *testing.T) {
	update := func(before, after string) Record {
		return Record{Key: `{"id":7}`, Value: []byte(`{"op":"u","before":` + before + `,"after":` + after + `}`)}
	}
	const placeholder = `"__debezium_unavailable_value"`
	for _, tc := range []struct {
		name, before, after string
		changed             []string
		known               bool
		unavailable         []string
	}{
		{"only stock", `{"id":7,"title":"mug","stock":1}`, `{"id":7,"title":"mug","stock":2}`, []string{"stock"}, true, nil},
		{"nothing", `{"id":7,"title":"mug"}`, `{"id":7,"title":"mug"}`, nil, true, nil},
		{"no before", `null`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"key alone", `{"id":7}`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"key and nulls", `{"id":7,"title":null}`, `{"id":7,"title":"mug"}`, nil, false, nil},
		{"identity by another index", `{"id":null,"title":"mug"}`, `{"id":7,"title":"cup"}`, nil, false, nil},
		{"to null", `{"id":7,"a":"x","b":1}`, `{"id":7,"a":null,"b":1}`, []string{"a"}, true, nil},
		{"from null", `{"id":7,"a":null,"b":1}`, `{"id":7,"a":"x","b":1}`, []string{"a"}, true, nil},
		{"only a key", `{"id":7}`, `{"id":7}`, nil, true, nil},
		{"other order", `{"b":1,"id":7,"a":2}`, `{"id":7,"a":2,"b":3}`, []string{"b"}, true, nil},
		{"other escapes", `{"id":7,"a":"\u0061\/"}`, `{"id":7,"a":"a/"}`, nil, true, nil},
		{"other digits", `{"id":7,"a":1.50,"b":1.5}`, `{"id":7,"a":1.5,"b":1.51}`, []string{"b"}, true, nil},
		{"other type", `{"id":7,"a":"1"}`, `{"id":7,"a":1}`, []string{"a"}, true, nil},
		{"unavailable", `null`, `{"id":7,"a":` + placeholder + `}`, nil, false, []string{"a"}},
		{"filled from before", `{"id":7,"a":"long","b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, []string{"b"}, true, nil},
		{"before lacks it too", `{"id":7,"a":` + placeholder + `,"b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, []string{"b"}, true, []string{"a"}},
		{"null before is not the value", `{"id":7,"a":null,"b":1}`, `{"id":7,"a":` + placeholder + `,"b":2}`, nil, false, []string{"a"}},
	} {
		e := decodeOne[Row](t, update(tc.before, tc.after))
		changed, known := e.Changed()
		if !reflect.DeepEqual(changed, tc.changed) || known != tc.known || !reflect.DeepEqual(e.UnavailableColumns(), tc.unavailable) {
			t.Errorf("%s: changed %v (%v), lacks %v", tc.name, changed, known, e.UnavailableColumns())
		}
	}
	e := decodeOne[Row](t, update(`{"id":7,"a":"long","b":1}`, `{"id":7,"a":`+placeholder+`,"b":2}`))
	if v, _ := e.After.Get("a"); v != "long" {
		t.Errorf("After does not take the value of Before: %v", v)
	}
	e = decodeOne[Row](t, Record{Value: []byte(`{"op":"c","after":{"id":7,"a":null}}`)})
	if changed, known := e.Changed(); !known || !reflect.DeepEqual(changed, []string{"id", "a"}) {
		t.Errorf("create: %v, %v", changed, known)
	}
	e = decodeOne[Row](t, Record{Key: `{"id":7}`, Value: []byte(`{"op":"d","before":{"id":7,"a":` + placeholder + `}}`)})
	if changed, known := e.Changed(); known || changed != nil || !e.Unavailable("a") {
		t.Errorf("delete: %v, %v, lacks %v", changed, known, e.UnavailableColumns())
	}
}

// TestPlaceholders has every disguise, for the default and for custom settings, and what only looks like one.
func TestPlaceholders(t *testing.T) {
	type row struct {
		ID int
		V  any
	}
	for setting, octets := range map[string]string{
		"": DefaultPlaceholder, "gone": "gone", "hex:676f6e65": "gone", `a"b\`: `a"b\`, "hex:fffe": "\xff\xfe", "fehlt: ä": "fehlt: ä",
	} {
		d := newDecoder[row](t, Options{Placeholder: setting})
		quote := func(s string) string {
			out, _ := json.Marshal(s)
			return string(out)
		}
		codes := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", []byte(octets)), " ", ","), "[]")
		b64 := base64.StdEncoding.EncodeToString([]byte(octets))
		unavailable := []string{quote(b64), `[` + quote(b64) + `]`, `[` + codes + `]`, `["` + nameUUID([]byte(octets)) + `"]`}
		if setting != "hex:fffe" { // no text
			hstore := `{` + quote(octets) + `: ` + quote(octets) + `}`
			unavailable = append(unavailable, quote(octets), `[`+quote(octets)+`]`, hstore, quote(`{`+quote(octets)+`:`+quote(octets)+`}`))
		}
		if strings.ContainsAny(octets, `"\ä`) { // characters that may be escaped otherwise
			escaped := ""
			for _, r := range octets {
				escaped += fmt.Sprintf(`\u%04X`, r)
			}
			unavailable = append(unavailable, `"`+escaped+`"`)
		}
		for _, wire := range unavailable {
			e, err := d.Decode(event(`{"id":7,"v":` + wire + `}`))
			if err != nil || !e.Unavailable("v") || e.Unavailable("id") || e.After.V != nil {
				t.Errorf("%q: %s is not unavailable: %v", setting, wire, err)
			}
		}
		for _, wire := range []string{
			quote(octets + "x"), `[` + quote(octets) + `,` + quote(octets) + `]`, `[` + codes + `,95]`, `[]`, `{}`, `""`, `null`,
			`[` + codes[strings.IndexByte(codes, ',')+1:] + `]`, `{` + quote(octets) + `:null}`, `"` + nameUUID([]byte(octets)) + `"`,
		} {
			e, err := d.Decode(event(`{"id":7,"v":` + wire + `}`))
			if err != nil || e.Unavailable("v") {
				t.Errorf("%q: %s is unavailable: %v", setting, wire, err)
			}
		}
	}
	// The target's type does not matter.
	e := decodeOne[struct{ Vec []float32 }](t, event(`{"vec":"__debezium_unavailable_value"}`))
	if !e.Unavailable("vec") || e.After.Vec != nil {
		t.Errorf("a vector: %v", e.UnavailableColumns())
	}
}

func TestBinaryMode(t *testing.T) {
	type row struct{ A []byte }
	for mode, wire := range map[string]string{"hex": "deadbeff", "base64-url-safe": "3q2-_w==", "bytes": "3q2+/w==", "base64": "3q2+/w=="} {
		d := newDecoder[row](t, Options{BinaryMode: mode})
		e, err := d.Decode(event(`{"a":"` + wire + `"}`))
		if err != nil || len(e.After.A) != 4 || e.After.A[0] != 0xde {
			t.Errorf("%s: %v, %v", mode, e.After, err)
		}
		m, err := d.Decode(Record{Value: []byte(`{"op":"m","message":{"prefix":"p","content":"` + wire + `"}}`)})
		if err != nil || len(m.Message.Content) != 4 {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	d := newDecoder[Row](t, Options{MaxBytes: 100})
	if _, err := d.Decode(event(`{"a":"` + strings.Repeat("x", 100) + `"}`)); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("value: %v", err)
	}
	if _, err := d.Decode(Record{Key: `{"a":"` + strings.Repeat("x", 100) + `"}`}); err == nil || !strings.Contains(err.Error(), "MaxBytes") {
		t.Errorf("key: %v", err)
	}
	if _, err := newDecoder[Row](t, Options{MaxBytes: -1}).Decode(event(`{"a":"` + strings.Repeat("x", 100) + `"}`)); err != nil {
		t.Error(err)
	}
}

// TestReuse: nothing but Record aliases the message.
func TestReuse(t *testing.T) {
	type row struct {
		A string
		B []byte
		C json.RawMessage
		D any
		E map[string]string
		F json.Number
		G upper
		H rawJSON
	}
	r := event(`{"a":"plain","b":"AAAA","c":[1],"d":"dynamic","e":{"k":"v"},"f":17,"g":"text","h":[2]}`)
	r.Key = `{"id":"key"}`
	e := decodeOne[row](t, r)
	before := fmt.Sprintf("%+v %+v %+v", *e.After, e.Key, e.Source)
	clear(r.Value)
	if after := fmt.Sprintf("%+v %+v %+v", *e.After, e.Key, e.Source); before != after {
		t.Errorf("the event changed with the buffer:\n%s\n%s", before, after)
	}
}

// TestConcurrent decodes different tables and schemas with one decoder, for the race detector.
func TestConcurrent(t *testing.T) {
	d := newDecoder[Row](t, Options{})
	records := append(recorded(t, "schema"), recorded(t, "plain")...)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, r := range records {
				if _, err := d.Decode(r); err != nil && !errors.Is(err, ErrNotChangeEvent) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestCaches: schemas and shapes are bounded, and parsed once.
func TestCaches(t *testing.T) {
	d := newDecoder[Row](t, Options{})
	for i := range 3 * maxSchemas {
		r := typed(fmt.Sprintf(`{"type":"int32","field":"c%d"}`, i), `{"c":1}`)
		for range 2 {
			if _, err := d.Decode(r); err != nil {
				t.Fatal(err)
			}
		}
		first := d.schemas.last.Load()
		if _, err := d.Decode(r); err != nil || d.schemas.last.Load() != first {
			t.Fatalf("schema %d is parsed twice: %v", i, err)
		}
		if _, err := d.Decode(event(fmt.Sprintf(`{"c%d":1}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(d.schemas.byText); n > maxSchemas {
		t.Errorf("%d schemas", n)
	}
	if _, err := d.Decode(event(`{"` + strings.Repeat("c", maxShapeBytes) + `":1}`)); err != nil || len(d.shapes.last.Load().names[0]) > 10 {
		t.Errorf("a shape too large is kept: %v", err)
	}
	if n := len(d.shapes.byNames); n > maxShapes {
		t.Errorf("%d shapes", n)
	}
	// The same row under another schema is another type.
	type row struct{ A time.Time }
	times := newDecoder[row](t, Options{})
	for range 2 {
		for unit, want := range map[string]int64{"Timestamp": 1_000_000, "MicroTimestamp": 1_000, "NanoTimestamp": 1} {
			e, err := times.Decode(typed(`{"type":"int64","name":"io.debezium.time.`+unit+`","field":"a"}`, `{"a":1}`))
			if err != nil || e.After.A.UnixNano() != want {
				t.Errorf("%s: %v, %v", unit, e.After, err)
			}
		}
	}
}

// TestTwins: a field of the row before that is the same after is copied from there, and is what it would have been.
func TestTwins(t *testing.T) {
	type row struct {
		I        int
		I64      int64
		I32      int32
		I16      int16
		F        float64
		B        bool
		S, L, Un string
		N        string
		Own      *int
	}
	long := strings.Repeat("y", maxSharedText+1)
	same := `{"i":-7,"i64":9007199254740993,"i32":3,"i16":4,"f":1.5,"b":true,"s":"é","l":"` + long + `","un":"__debezium_unavailable_value","n":null,"own":`
	value := `{"op":"u","before":` + same + `1},"after":` + same + `2}}`
	e := decodeOne[row](t, Record{Key: `{"i":-7}`, Value: []byte(value)})
	one, two := 1, 2
	want := row{I: -7, I64: 9007199254740993, I32: 3, I16: 4, F: 1.5, B: true, S: "é", L: long, Own: &one}
	if !reflect.DeepEqual(*e.Before, want) {
		t.Errorf("before: got %+v, want %+v", *e.Before, want)
	}
	if want.Own = &two; !reflect.DeepEqual(*e.After, want) {
		t.Errorf("after: got %+v, want %+v", *e.After, want)
	}
	if e.After.Own == e.Before.Own || !e.Unavailable("un") {
		t.Errorf("rows share a pointer, or %v", e.UnavailableColumns())
	}
}
