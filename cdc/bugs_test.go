package cdc

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// change makes a change event of a table with the key id.
func change(op, before, after, source string) Record {
	return Record{
		Topic: "shop.public.t", Key: `{"id":7}`,
		Value: []byte(`{"before":` + before + `,"after":` + after + `,"source":{"schema":"public","table":"t"` + source + `},"op":"` + op + `"}`),
	}
}

// The tests of this file are bugs that other readers of change events had, each named after its report.

func TestRisingWave25863UnavailableVector(t *testing.T) {
	type row struct {
		ID    int64
		Title string
		Vec   []float32
	}
	e := decodeOne[row](t, change("u", "null", `{"id":7,"title":"mug","vec":"__debezium_unavailable_value"}`, ""))
	stored := row{7, "cup", []float32{0.5}}
	e.Merge(&stored)
	if !e.Unavailable("vec") || !reflect.DeepEqual(stored, row{7, "mug", []float32{0.5}}) {
		t.Errorf("stored %+v, lacks %v", stored, e.UnavailableColumns())
	}
}

func TestDebezium7815UnavailableArrays(t *testing.T) {
	type row struct {
		Tags []string
		Nums []int
	}
	codes := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", []byte(DefaultPlaceholder)), " ", ","), "[]")
	e := decodeOne[row](t, change("u", "null", `{"tags":["__debezium_unavailable_value"],"nums":[`+codes+`]}`, ""))
	if got := e.UnavailableColumns(); !reflect.DeepEqual(got, []string{"nums", "tags"}) {
		t.Errorf("lacks %v", got)
	}
	e = decodeOne[row](t, change("u", "null", `{"tags":[],"nums":[`+codes[:strings.LastIndexByte(codes, ',')]+`]}`, ""))
	if e.UnavailableColumns() != nil || len(e.After.Nums) != 27 || e.After.Nums[2] != 'd' {
		t.Errorf("27 numbers: %v, lacks %v", e.After.Nums, e.UnavailableColumns())
	}
}

func TestPostHog72435AbsentColumn(t *testing.T) {
	type row struct {
		ID    int64
		Title string
		Body  *string
	}
	r := change("u", "null", `{"id":7,"title":"mug"}`, "")
	e := decodeOne[row](t, r)
	stored := row{7, "cup", ptr("long")}
	if e.Merge(&stored); !e.Unavailable("body") || stored.Body == nil || *stored.Body != "long" || stored.Title != "mug" {
		t.Errorf("stored %+v, lacks %v", stored, e.UnavailableColumns())
	}
	dynamic := decodeOne[Row](t, r)
	if _, ok := dynamic.After.Get("body"); ok {
		t.Error("the row has a column that the message lacks")
	}
}

func TestRedpanda4811ReadThenLive(t *testing.T) {
	type row struct {
		ID          int64
		Title, Body string
	}
	read := decodeOne[row](t, change("r", "null", `{"id":7,"title":"mug","body":"long"}`, `,"snapshot":"incremental"`))
	live := decodeOne[row](t, change("u", "null", `{"id":7,"title":"cup","body":"__debezium_unavailable_value"}`, `,"lsn":900`))
	var stored row
	read.Merge(&stored)
	live.Merge(&stored)
	if (stored != row{7, "cup", "long"}) {
		t.Errorf("stored %+v", stored)
	}
}

func TestPgstream824ExactIntegers(t *testing.T) {
	e := decodeOne[Row](t, change("c", "null", `{"id":9007199254740993,"big":123456789012345678901,"x":0.1234567890123456789}`, ""))
	if got := fmt.Sprint(*e.After); got != "[{id 9007199254740993} {big 123456789012345678901} {x 0.1234567890123456789}]" {
		t.Errorf("got %s", got)
	}
}

func TestRisingWave10628Decimals(t *testing.T) {
	type row struct{ Price Decimal }
	decimal := func(parameters string) string {
		return `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"` + parameters + `,"field":"price"}`
	}
	e := decodeOne[row](t, typed(decimal(`,"parameters":{"scale":"2"}`), `{"price":"BOI="}`))
	if e.After.Price.String() != "12.50" {
		t.Errorf("got %v", e.After.Price)
	}
	e = decodeOne[row](t, event(`{"price":{"scale":4,"value":"AYr3"}}`))
	if e.After.Price.String() != "10.1111" {
		t.Errorf("got %v", e.After.Price)
	}
	// A row without a schema has a decimal where the value says its scale, and nothing is guessed inside a value.
	wide := decodeOne[Row](t, event(`{"price":{"scale":4,"value":"AYr3"},"map":{"zoom":{"scale":2,"value":"high"}},"bad":{"scale":4,"value":"?"}}`))
	if price, _ := (*wide.After)[0].Value.(Decimal); price.String() != "10.1111" {
		t.Errorf("got %v", *wide.After)
	}
	for _, c := range (*wide.After)[1:] {
		if _, isMap := c.Value.(map[string]any); !isMap {
			t.Errorf("got %v", c)
		}
	}
	for _, r := range []Record{typed(decimal(""), `{"price":"BOI="}`), event(`{"price":"BOI="}`)} {
		_, err := newDecoder[row](t, Options{}).Decode(r)
		var bad *DecodeError
		if !errors.As(err, &bad) || bad.Column != "price" || bad.Table != "public.t" {
			t.Errorf("without a scale: %v", err)
		}
	}
}

func TestRisingWave16395InfiniteNumeric(t *testing.T) {
	type row struct {
		N float64
		D Decimal `cdc:"n2"`
	}
	for wire, want := range map[string]string{"POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity", "NAN": "NaN"} {
		e := decodeOne[row](t, event(`{"n":"`+wire+`","n2":"`+wire+`"}`))
		if e.After.D.String() != want || e.After.N != e.After.D.Float64() && !math.IsNaN(e.After.N) {
			t.Errorf("%s: %v", wire, *e.After)
		}
	}
}

func TestRisingWave16097Units(t *testing.T) {
	type row struct{ At time.Time }
	e := decodeOne[row](t, typed(`{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"at"}`, `{"at":63072000000000}`))
	if !e.After.At.Equal(day(1972, 1, 1)) {
		t.Errorf("got %v", e.After.At)
	}
	if _, err := newDecoder[row](t, Options{}).Decode(event(`{"at":63072000000000}`)); err == nil || !strings.Contains(err.Error(), "unit=") {
		t.Errorf("without a schema: %v", err)
	}
	type declared struct {
		At time.Time `cdc:"at,unit=us"`
	}
	if e := decodeOne[declared](t, event(`{"at":63072000000000}`)); !e.After.At.Equal(day(1972, 1, 1)) {
		t.Errorf("declared: %v", e.After.At)
	}
}

func TestDebezium1833Infinities(t *testing.T) {
	type row struct {
		At time.Time `cdc:"at,unit=us"`
		Z  time.Time
		D  time.Time `cdc:"d,unit=days"`
	}
	e := decodeOne[row](t, event(`{"at":9223372036825200000,"z":"infinity","d":-2147472691}`))
	if !e.After.At.Equal(Infinity) || !e.After.Z.Equal(Infinity) || !e.After.D.Equal(NegativeInfinity) {
		t.Errorf("got %v", *e.After)
	}
}

func TestDebeziumFarYears(t *testing.T) {
	type row struct{ Z time.Time }
	e := decodeOne[row](t, event(`{"z":"+21016-11-04T06:51:30.123456Z"}`))
	if !e.After.Z.Equal(time.Date(21016, 11, 4, 6, 51, 30, 123456000, time.UTC)) {
		t.Errorf("got %v", e.After.Z)
	}
}

func TestFlink13019TombstoneIsNoDelete(t *testing.T) {
	type row struct{ ID int64 }
	tombstone := decodeOne[row](t, Record{Key: `{"id":7}`})
	deleted := decodeOne[row](t, change("d", "null", "null", ""))
	if tombstone.Op != OpTombstone || deleted.Op != OpDelete || !reflect.DeepEqual(tombstone.Key, deleted.Key) || len(deleted.Key) != 1 {
		t.Errorf("%c %v, %c %v", tombstone.Op, tombstone.Key, deleted.Op, deleted.Key)
	}
}

func TestMaterialize6553EqualLSN(t *testing.T) {
	deleted := decodeOne[Row](t, at("01", change("d", `{"id":1}`, "null", `,"lsn":500`)))
	created := decodeOne[Row](t, at("02", change("c", "null", `{"id":2}`, `,"lsn":500`)))
	if order, known := deleted.Position().Compare(created.Position()); !known || order != -1 {
		t.Errorf("%d, %v", order, known)
	}
}

func at(offset string, r Record) Record {
	r.Offset = offset
	return r
}

// TestMaterialize5262InterleavedTransactions: a transaction that commits later may have lower LSNs. Positions are compared for one key,
// for which row locks make LSN order commit order; across keys nothing is dropped by them.
func TestMaterialize5262InterleavedTransactions(t *testing.T) {
	newest := map[any]Position{}
	for i, lsn := range []int{30, 50, 40} {
		r := at(fmt.Sprintf("%02d", i), change("u", "null", fmt.Sprintf(`{"id":%d}`, i), fmt.Sprintf(`,"lsn":%d`, lsn)))
		r.Key = fmt.Sprintf(`{"id":%d}`, i)
		e := decodeOne[Row](t, r)
		id, _ := e.Key.Get("id")
		if last, seen := newest[id]; seen {
			t.Errorf("a key was seen before, at %v", last)
		}
		newest[id] = e.Position()
	}
	if len(newest) != 3 {
		t.Errorf("kept %d", len(newest))
	}
}

func TestMaterialize7557EqualSequence(t *testing.T) {
	const sequence = `,"sequence":"[\"5\",\"5\"]"`
	first := decodeOne[Row](t, at("01", change("u", "null", `{"id":7}`, sequence+`,"lsn":5`)))
	second := decodeOne[Row](t, at("02", change("u", "null", `{"id":7}`, sequence+`,"lsn":9`)))
	if order, known := first.Position().Compare(second.Position()); !known || order != -1 {
		t.Errorf("%d, %v", order, known)
	}
}

func TestMaterialize14211IncrementalRead(t *testing.T) {
	live := decodeOne[Row](t, at("01", change("u", "null", `{"id":7}`, `,"lsn":900`)))
	read := decodeOne[Row](t, at("02", change("r", "null", `{"id":7}`, `,"snapshot":"incremental","lsn":null,"txId":null`)))
	if order, known := live.Position().Compare(read.Position()); !known || order != -1 || !read.Source.Snapshot || read.Op != OpRead {
		t.Errorf("%d, %v: %+v", order, known, read.Source)
	}
}

func TestAirbyte36011NullSnapshot(t *testing.T) {
	if e := decodeOne[Row](t, change("u", "null", `{"id":7}`, `,"snapshot":null`)); e.Source.Snapshot {
		t.Error("a null snapshot is taken for one")
	}
}

func TestIceberg698FlattenedWithoutOp(t *testing.T) {
	e := decodeOne[Row](t, Record{Key: `{"id":7}`, Value: []byte(`{"id":7}`)})
	if e.Op != OpRead || e.Before != nil || len(*e.After) != 1 {
		t.Errorf("%c %v", e.Op, e.After)
	}
}

func TestDebezium1671EmptySparseVector(t *testing.T) {
	type row struct{ V *SparseVector }
	e := decodeOne[row](t, event(`{"v":{"dimensions":5,"vector":[]}}`))
	if e.After.V == nil || !reflect.DeepEqual(*e.After.V, SparseVector{5, []int32{}, []float32{}}) {
		t.Errorf("got %+v", e.After.V)
	}
}

func TestPgai878OnlyStockChanged(t *testing.T) {
	e := decodeOne[Row](t, change("u", `{"id":7,"title":"mug","stock":1}`, `{"id":7,"title":"mug","stock":2}`, ""))
	if changed, known := e.Changed(); !known || !reflect.DeepEqual(changed, []string{"stock"}) {
		t.Errorf("%v, %v", changed, known)
	}
	e = decodeOne[Row](t, change("u", "null", `{"id":7,"title":"mug","stock":2}`, ""))
	if changed, known := e.Changed(); known || changed != nil {
		t.Errorf("without the row before: %v, %v", changed, known)
	}
}

// TestFlink4323SharedLSN: the beginning of a transaction and its first change share one LSN; after a restart the change is no duplicate.
func TestFlink4323SharedLSN(t *testing.T) {
	before := decodeOne[Row](t, at("01", change("u", "null", `{"id":7}`, `,"lsn":500`)))
	after := decodeOne[Row](t, at("03", change("u", "null", `{"id":7}`, `,"lsn":500`)))
	if order, known := before.Position().Compare(after.Position()); !known || order != -1 {
		t.Errorf("%d, %v", order, known)
	}
}

// TestNullTrap: a default that the converter writes in place of NULL cannot be told from a value. The package's doc says so; this test
// holds it to what the recording shows (the row was written as null, null).
func TestNullTrap(t *testing.T) {
	type row struct {
		ID   int
		Qty  *int
		Note *string
	}
	e := decodeAll[row](t, of(recorded(t, "plain"), "defaults"))[0]
	if e.After.Qty == nil || *e.After.Qty != 7 || e.After.Note == nil || *e.After.Note != "none" {
		t.Errorf("the recording has changed: %+v", e.After)
	}
}
