package cdc

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// TestVersions has an update as each line of Debezium wrote it, laid out after the documentation of that version.
func TestVersions(t *testing.T) {
	type row struct {
		ID   int64 `cdc:"id,key"`
		Name string
	}
	const rows = `"before":null,"after":{"id":7,"name":"mug"},`
	at := time.UnixMilli(1559033904863).UTC()
	want := func(change func(*Source)) Source {
		s := Source{Connector: "postgresql", Database: "shop", Schema: "public", Table: "t", LSN: 24023128, TxID: 556, CommitTime: at}
		if change != nil {
			change(&s)
		}
		return s
	}
	for _, tc := range []struct {
		version, value string
		op             Op
		want           Source
		transaction    *Transaction
	}{
		{
			"0.9", `{` + rows + `"source":{"version":"0.9.5.Final","connector":"postgresql","name":"s","db":"shop","ts_usec":1559033904863000,"txId":556,"lsn":24023128,` +
				`"schema":"public","table":"t","snapshot":false,"last_snapshot_record":null},"op":"u","ts_ms":1559033904863}`,
			OpUpdate, want(func(s *Source) { s.CommitTime = time.Time{} }), nil,
		},
		{"1.0", `{` + rows + `"source":{"version":"1.0.0.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"false","db":"shop",` +
			`"schema":"public","table":"t","txId":556,"lsn":24023128,"xmin":null},"op":"u","ts_ms":1559033904900}`, OpUpdate, want(nil), nil},
		{"1.0, snapshot as a boolean", `{` + rows + `"source":{"version":"1.0.0.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":true,"db":"shop",` +
			`"schema":"public","table":"t","txId":556,"lsn":24023128,"xmin":null},"op":"r","ts_ms":1559033904900}`, OpRead, want(func(s *Source) { s.Snapshot = true }), nil},
		{"1.5", `{` + rows + `"source":{"version":"1.5.4.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"false","db":"shop",` +
			`"sequence":"[null,\"24023128\"]","schema":"public","table":"t","txId":556,"lsn":24023128,"xmin":null},"op":"u","ts_ms":1559033904900,` +
			`"transaction":{"id":"556","total_order":1,"data_collection_order":2}}`, OpUpdate, want(nil), &Transaction{"556", 1, 2}},
		{
			"1.6, incremental", `{` + rows + `"source":{"version":"1.6.0.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"incremental","db":"shop",` +
				`"sequence":"[\"1\",\"1\"]","schema":"public","table":"t","txId":null,"lsn":null,"xmin":null},"op":"r","ts_ms":1559033904900,"transaction":null}`,
			OpRead, want(func(s *Source) { s.Snapshot, s.LSN, s.TxID = true, 0, 0 }), nil,
		},
		{
			"2.0", `{` + rows + `"source":{"version":"2.0.1.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"last_in_data_collection","db":"shop",` +
				`"sequence":null,"schema":"public","table":"t","txId":556,"lsn":24023128,"xmin":null},"op":"r","ts_ms":1559033904900,"transaction":null}`,
			OpRead, want(func(s *Source) { s.Snapshot = true }), nil,
		},
		{
			"2.6", `{` + rows + `"source":{"version":"2.6.0.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"false","db":"shop",` +
				`"sequence":"[\"24023119\",\"24023128\"]","ts_us":1559033904863123,"ts_ns":1559033904863123000,"schema":"public","table":"t","txId":556,"lsn":24023128,` +
				`"xmin":null},"transaction":{"id":"556:24023128","total_order":1,"data_collection_order":1},"op":"u","ts_ms":1559033904900,"ts_us":1559033904900769,"ts_ns":1559033904900769000}`,
			OpUpdate, want(func(s *Source) { s.CommitTime = at.Add(123 * time.Microsecond) }), &Transaction{"556:24023128", 1, 1},
		},
		{
			"3.6", `{` + rows + `"source":{"version":"3.6.1.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":"false","db":"shop",` +
				`"sequence":"[null,\"24023128\"]","ts_us":1559033904863123,"ts_ns":1559033904863123000,"schema":"public","table":"t","txId":556,"lsn":24023128,` +
				`"xmin":null,"origin":"other","origin_lsn":7,"new":{"a":[1]}},"transaction":null,"op":"u","ts_ms":1559033904900,"ts_us":1559033904900769,"ts_ns":1559033904900769000,"more":[]}`,
			OpUpdate, want(func(s *Source) { s.CommitTime = at.Add(123 * time.Microsecond) }), nil,
		},
		{"ts_us missing", `{` + rows + `"source":{"version":"3.0.0.Final","connector":"postgresql","name":"s","ts_ms":1559033904863,"snapshot":null,"db":"shop",` +
			`"ts_us":null,"ts_ns":null,"schema":"public","table":"t","txId":556,"lsn":24023128},"op":"u"}`, OpUpdate, want(nil), nil},
	} {
		// One decoder for all would do as well: each is asked twice, the second time knowing what comes.
		d := newDecoder[row](t, Options{})
		for range 2 {
			e, err := d.Decode(Record{Value: []byte(tc.value)})
			if err != nil || e.Op != tc.op || e.Source != tc.want || !reflect.DeepEqual(e.Transaction, tc.transaction) || *e.After != (row{7, "mug"}) {
				t.Errorf("%s: %c %+v %+v, %v", tc.version, e.Op, e.Source, e.Transaction, err)
			}
		}
	}
}

// TestMixedStream decodes the versions, tables and shapes of a stream in turn with one decoder, so that nothing which it expects of the
// next message can be mistaken for what is there.
func TestMixedStream(t *testing.T) {
	values := []string{
		`{"before":{"id":1,"name":"a","x":1},"after":{"id":1,"name":"a","x":12},"source":{"version":"1","connector":"postgresql","name":"s","db":"a","schema":"public","table":"t"},"op":"u"}`,
		`{"before":{"id":1,"name":"a","x":12},"after":{"id":1,"name":"ab","x":1},"source":{"version":"1","connector":"postgresql","name":"s","db":"ab","schema":"publi","table":"tt"},"op":"u"}`,
		`{"before":{"id":1,"name":"a"},"after":{"name":"a","id":1},"source":{"version":"12","connector":"p","name":"s","db":"a","schema":"","table":""},"op":"u"}`,
		`{"after":{"id":1,"name":"a","x":[1,2]},"before":{"id":1,"name":"a","x":[1,2,3]},"source":{"db":"b","version":"1"},"op":"u"}`,
		`{"before":{"id":1.0,"name":"a" ,"x":1},"after":{"id":1.0 ,"name":"a","x":1e0},"source":null,"op":"u"}`,
		`{"before":{"id":1,"name":null,"x":1},"after":{"id":1,"name":nul,"x":1},"op":"u"}`,
		`{"before":{"id":1,"name":"a","x":1},"after":{"id":1,"name":"a","x":1`,
		`{"before":{"id":1},"after":{"id":1,"id":2},"source":{"db":"a","db":"c"},"op":"u"}`,
	}
	show := func(e Event[Row], err error) string {
		changed, known := e.Changed()
		return string(rune(e.Op)) + toText(e.Before, e.After, e.Source, changed, known, err)
	}
	shared := newDecoder[Row](t, Options{})
	for _, first := range values {
		for _, second := range values {
			for _, value := range []string{first, second, second} {
				r := Record{Value: []byte(value)}
				if got, want := show(shared.Decode(r)), show(newDecoder[Row](t, Options{}).Decode(r)); got != want {
					t.Fatalf("after %s\n%s\ngot  %s\nwant %s", first, value, got, want)
				}
			}
		}
	}
}

func toText(before, after *Row, rest ...any) string {
	var rows []any
	for _, row := range []*Row{before, after} {
		if row != nil {
			rows = append(rows, *row)
		}
	}
	return fmt.Sprint(rows, rest)
}
