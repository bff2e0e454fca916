package cdc

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestGoldenFlat(t *testing.T) {
	records := recorded(t, "flat")
	events := decodeAll[declaredTypes](t, of(records, "all_types"))
	plain := decodeAll[declaredTypes](t, of(recorded(t, "plain"), "all_types"))
	if len(events) == 0 {
		t.Fatal("no events")
	}
	equal(t, *events[0].After, *plain[0].After)
	first := events[0]
	if first.Op != OpCreate || first.Source.LSN != 148968272 || !first.Source.CommitTime.Equal(time.UnixMilli(1795960154199)) {
		t.Errorf("%c %+v", first.Op, first.Source)
	}
	if first.UnavailableColumns() != nil {
		t.Errorf("lacks %v", first.UnavailableColumns())
	}
	// Every table, with the operations and keys of the same story without the transformation, whose tombstones it drops.
	for _, table := range []string{"all_types", "composite_key", "full_identity", "defaults", "toasty", "inc_snap"} {
		var want, got []string
		for _, e := range decodeAll[Row](t, of(recorded(t, "plain"), table)) {
			if e.Op != OpTruncate {
				want = append(want, string(rune(e.Op))+e.keyText())
			}
		}
		flat := decodeAll[Row](t, of(records, table))
		for i, e := range flat {
			got = append(got, string(rune(e.Op))+e.keyText())
			for _, row := range []*Row{e.Before, e.After} {
				if row == nil {
					continue
				}
				for _, c := range *row {
					if strings.HasPrefix(c.Name, "__") {
						t.Errorf("%s, event %d: the row has %s", table, i, c.Name)
					}
				}
			}
		}
		if !reflect.DeepEqual(without(got, "\x00"), without(want, "\x00")) {
			t.Errorf("%s:\ngot  %q\nwant %q", table, got, want)
		}
	}
	update := decodeAll[toasty](t, of(records, "toasty"))[1]
	if got := update.UnavailableColumns(); len(got) != 8 || update.Op != OpUpdate {
		t.Errorf("%c lacks %v", update.Op, got)
	}
}

func (e *Event[T]) keyText() string {
	var b strings.Builder
	for _, c := range e.Key {
		if c.Value != nil {
			b.WriteString(" " + c.Name)
		}
	}
	return b.String()
}

func without(texts []string, prefix string) (kept []string) {
	for _, text := range texts {
		if !strings.HasPrefix(text, prefix) {
			kept = append(kept, text)
		}
	}
	return kept
}

func TestFlattened(t *testing.T) {
	type row struct {
		ID   int64 `cdc:"id,key"`
		Name string
	}
	schema := `{"schema":{"type":"struct","name":"s.public.t.Value","fields":[{"type":"int64","field":"id"},{"type":"string","field":"name"},` +
		`{"type":"string","field":"__op"},{"type":"int64","field":"__source_ts_ms"}]},"payload":`
	for _, tc := range []struct {
		name, value string
		properties  map[string]string
		op          Op
		source      Source
	}{
		{"bare", `{"id":7,"name":"mug"}`, nil, OpRead, Source{}},
		{"operation", `{"id":7,"name":"mug","__op":"u"}`, nil, OpUpdate, Source{}},
		{"first", `{"__deleted":"false","__op":"c","id":7,"name":"mug"}`, nil, OpCreate, Source{}},
		{
			"source", `{"id":7,"name":"mug","__op":"u","__table":"t","__source_schema":"public","__db":"shop","__lsn":9,"__source_txId":3,"__connector":"postgresql"}`, nil,
			OpUpdate,
			Source{Connector: "postgresql", Database: "shop", Schema: "public", Table: "t", LSN: 9, TxID: 3},
		},
		{"snapshot", `{"id":7,"name":"mug","__op":"r","__source_snapshot":"last"}`, nil, OpRead, Source{Snapshot: true}},
		{"read", `{"id":7,"name":"mug","__op":"r"}`, nil, OpRead, Source{Snapshot: true}},
		{"streamed read", `{"id":7,"name":"mug","__op":"r","__source_snapshot":"false"}`, nil, OpRead, Source{}},
		{"deleted as a boolean", `{"id":7,"name":"mug","__deleted":true}`, nil, OpDelete, Source{}},
		{"schema", schema + `{"id":7,"name":"mug","__op":"u","__source_ts_ms":1500}}`, nil, OpUpdate, Source{CommitTime: time.UnixMilli(1500).UTC()}},
		{"headers", `{"id":7,"name":"mug"}`, map[string]string{"__op": `"u"`, "__source_lsn": "12", "other": "x"}, OpUpdate, Source{LSN: 12}},
		{"headers with schemas", `{"id":7,"name":"mug"}`, map[string]string{"__op": `{"schema":{"type":"string"},"payload":"c"}`}, OpCreate, Source{}},
		{"header of a delete", `{"id":7,"name":"mug"}`, map[string]string{"__deleted": `"true"`}, OpDelete, Source{}},
	} {
		e := decodeOne[row](t, Record{Value: []byte(tc.value), Properties: tc.properties})
		image := e.After
		if tc.op == OpDelete {
			image = e.Before
		}
		if e.Op != tc.op || e.Source != tc.source || image == nil || *image != (row{7, "mug"}) || !reflect.DeepEqual(e.Key, Key{{"id", int64(7)}}) {
			t.Errorf("%s: %c %+v %v %v", tc.name, e.Op, e.Source, image, e.Key)
		}
	}
	e := decodeOne[Row](t, Record{Value: []byte(`{"id":7,"__own":1,"__op":"c","__transaction_id":"5:6"}`)})
	if _, ok := e.After.Get("__own"); !ok || len(*e.After) != 2 || e.Transaction == nil || e.Transaction.ID != "5:6" {
		t.Errorf("got %v, %v", *e.After, e.Transaction)
	}
}

func TestKinds(t *testing.T) {
	for _, tc := range []struct{ topic, value, kind string }{
		{"__debezium-heartbeat.shop", `{"ts_ms":1500}`, KindHeartbeat},
		{"persistent://public/default/__debezium-heartbeat.shop", `{"ts_ms":1500,"x":1}`, KindHeartbeat},
		{"beats", `{"ts_ms":1500}`, KindHeartbeat},
		{"shop.transaction", `{"status":"END","id":"1131:7","event_count":2,"data_collections":[{"data_collection":"public.t","event_count":2}],"ts_ms":1500}`, KindTransaction},
		{"shop.transaction", `{"status":"BEGIN","id":"1131","event_count":null,"data_collections":null}`, KindTransaction},
		{"shop", `{"source":{"db":"x"},"ts_ms":1500,"databaseName":"x","ddl":"create table t()","tableChanges":[]}`, KindSchema},
		{"shop.public.signals", `{"op":"c","before":null,"after":{"id":"1","type":"snapshot-window-open","data":null},"source":{}}`, KindSignal},
		{"shop.public.signals", `{"id":"1","type":"execute-snapshot","data":"{}","__op":"c"}`, KindSignal},
		{"signals", `{"type":"execute-snapshot","data":{"data-collections":["public.t"],"type":"INCREMENTAL"}}`, KindSignal},
		{"notifications", `{"id":"x","aggregate_type":"Initial Snapshot","type":"STARTED","additional_data":{},"timestamp":1}`, KindNotification},
		{"", `{}`, KindUnknown},
		{"", `[1]`, KindUnknown},
		{"", `"text"`, KindUnknown},
		{"", `{"schema":null,"payload":[1]}`, KindUnknown},
	} {
		values := []string{tc.value}
		if !strings.HasPrefix(tc.value, `{"schema"`) {
			values = append(values, `{"schema":null,"payload":`+tc.value+`}`)
		}
		for _, value := range values {
			_, err := newDecoder[Row](t, Options{}).Decode(Record{Topic: tc.topic, Value: []byte(value)})
			var other *NotChangeEventError
			if !errors.As(err, &other) || other.Kind != tc.kind {
				t.Errorf("%s: %v, want %s", value, err, tc.kind)
				continue
			}
			if strings.Contains(tc.value, "1500") && !other.Time.Equal(time.UnixMilli(1500)) {
				t.Errorf("%s: time %v", value, other.Time)
			}
			if b := other.Transaction; (b != nil) != (tc.kind == KindTransaction) || b != nil && b.End && (b.ID != "1131:7" || b.Events != 2 || b.Collections["public.t"] != 2) {
				t.Errorf("%s: %+v", value, b)
			}
		}
	}
	// What looks like one of them but is a row.
	for _, value := range []string{
		`{"id":7,"status":"END","total":3}`, `{"id":"7","type":"log","data":"x"}`, `{"id":7,"type":"stop-snapshot","data":"x","more":1}`, `{"id":"7","type":"letter","data":"x"}`, `{"ddl":"x","id":1}`,
		`{"op":"c","after":{"id":1,"type":"letter","data":null}}`, `{"id":"7","status":"paid"}`, `{"id":"7","status":"END"}`,
		`{"id":"7","status":"paid","event_count":2,"ts_ms":1}`,
	} {
		if _, err := newDecoder[Row](t, Options{}).Decode(Record{Topic: "shop.public.t", Value: []byte(value)}); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestKeyValue(t *testing.T) {
	type row struct{ ID int64 }
	part := func(text string) string {
		n := len(text)
		return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + text
	}
	const null = "\xff\xff\xff\xff"
	value := `{"op":"c","after":{"id":7}}`
	for _, tc := range []struct {
		name, key, value string
		op               Op
		want             Key
	}{
		{"inline", "eyJpZCI6OH0=", part(`{"id":7}`) + part(value), OpCreate, Key{{"id", int64(7)}}},
		{"inline with schemas", "", part(`{"schema":{"type":"struct"},"payload":{"id":7}}`) + part(`{"schema":null,"payload":`+value+`}`), OpCreate, Key{{"id", int64(7)}}},
		{"inline, null key", "eyJpZCI6OH0=", null + part(value), OpCreate, Key{{"id", int64(8)}}},
		{"inline, null value", "", part(`{"id":7}`) + null, OpTombstone, Key{{"id", int64(7)}}},
		{"separated", "eyJpZCI6OH0=", value, OpCreate, Key{{"id", int64(8)}}},
		{"separated tombstone", "eyJpZCI6OH0=", "", OpTombstone, Key{{"id", int64(8)}}},
	} {
		e := decodeOne[row](t, Record{Key: tc.key, Value: []byte(tc.value), SchemaType: "KEY_VALUE"})
		if e.Op != tc.op || !reflect.DeepEqual(e.Key, tc.want) {
			t.Errorf("%s: %c %v", tc.name, e.Op, e.Key)
		}
	}
	for _, bad := range []string{"\x00", "\x00\x00\x00\x05abc", part("a") + part("b") + "c", "\xff\xff\xff\xfe", null + "\x00\x00\x00\x01"} {
		if _, _, ok := SplitKeyValue([]byte(bad)); ok {
			t.Errorf("%q was split", bad)
		}
		if _, err := newDecoder[row](t, Options{}).Decode(Record{Value: []byte(bad), SchemaType: "AVRO"}); err == nil || !strings.Contains(err.Error(), "avrocdc") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestKeyChangesByHeader(t *testing.T) {
	for _, name := range []string{"schema", "plain", "strings", "flat"} {
		linked := 0
		for _, e := range decodeAll[Row](t, of(recorded(t, name), "composite_key")) {
			if e.NewKey != nil && e.Op == OpDelete && reflect.DeepEqual(e.NewKey, Key{{"tenant", "acme"}, {"sku", int64(3)}}) {
				linked++
			}
			if e.OldKey != nil && e.Op == OpCreate && reflect.DeepEqual(e.OldKey, Key{{"tenant", "acme"}, {"sku", int64(2)}}) {
				linked++
			}
		}
		if linked != 2 {
			t.Errorf("%s: %d halves are linked", name, linked)
		}
	}
	_, err := newDecoder[Row](t, Options{}).Decode(Record{
		Value: []byte(`{"op":"c","after":{"id":7}}`), Properties: map[string]string{"__debezium.oldkey": "{"},
	})
	if err == nil || !strings.Contains(err.Error(), "__debezium.oldkey") {
		t.Errorf("a broken header: %v", err)
	}
}

func TestLinker(t *testing.T) {
	// The recorded story without its headers.
	var events []Event[Row]
	for _, e := range decodeAll[Row](t, of(recorded(t, "plain"), "composite_key")) {
		e.OldKey, e.NewKey = nil, nil
		events = append(events, e)
	}
	for _, size := range []int{1, 2, 3, len(events)} {
		for i := range events {
			events[i].OldKey, events[i].NewKey = nil, nil
		}
		var l Linker[Row]
		for i := 0; i < len(events); i += size {
			l.Link(events[i:min(i+size, len(events))])
		}
		for i, e := range events {
			if (e.OldKey != nil) != (i == 5) || i == 5 && !reflect.DeepEqual(e.OldKey, events[3].Key) || e.NewKey != nil && i != 3 {
				t.Errorf("batches of %d, event %d: %c %v, old %v, new %v", size, i, e.Op, e.Key, e.OldKey, e.NewKey)
			}
		}
		if size == len(events) && !reflect.DeepEqual(events[3].NewKey, events[5].Key) {
			t.Errorf("the delete does not know its new key: %v", events[3].NewKey)
		}
	}
	// Another LSN, another partition, another table, something between: no link.
	decode := func(op, source string) Event[Row] {
		return decodeOne[Row](t, change(op, `{"id":1}`, `{"id":1}`, source))
	}
	other := decode("c", `,"lsn":500`)
	other.Record.Partition = 1
	for _, events := range [][]Event[Row]{
		{decode("d", `,"lsn":500`), decode("c", `,"lsn":501`)},
		{decode("d", `,"lsn":500,"txId":1`), decode("c", `,"lsn":500,"txId":2`)},
		{decode("d", `,"lsn":500`), other},
		{decode("d", ``), decode("c", ``)},
		{decode("d", `,"lsn":500`), decode("u", `,"lsn":500`), decode("c", `,"lsn":500`)},
	} {
		var l Linker[Row]
		l.Link(events)
		for _, e := range events {
			if e.OldKey != nil || e.NewKey != nil {
				t.Errorf("linked: %+v", e.Source)
			}
		}
	}
}
