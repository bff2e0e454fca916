package cdc

import (
	"reflect"
	"testing"
)

func TestMerge(t *testing.T) {
	type base struct{ Created string }
	type row struct {
		base
		ID    int64
		Title *string
		Body  string
		Tags  []string
		Own   int `cdc:"-"`
	}
	const placeholder = `"__debezium_unavailable_value"`
	full := row{base{"c"}, 7, ptr("mug"), "long", []string{"a"}, 42}
	for _, tc := range []struct {
		name   string
		record Record
		want   row
	}{
		{"create", change("c", "null", `{"created":"d","id":7,"title":"cup","body":"b","tags":[]}`, ""), row{base{"d"}, 7, ptr("cup"), "b", []string{}, 42}},
		{"null is a value", change("u", "null", `{"created":"c","id":7,"title":null,"body":"b","tags":null}`, ""), row{base{"c"}, 7, nil, "b", nil, 42}},
		{
			"unavailable", change("u", "null", `{"created":`+placeholder+`,"id":7,"title":"cup","body":`+placeholder+`,"tags":[`+placeholder+`]}`, ""),
			row{base{"c"}, 7, ptr("cup"), "long", []string{"a"}, 42},
		},
		{"absent", change("u", "null", `{"id":7}`, ""), full},
		{"given twice", change("u", "null", `{"id":7,"body":"x","body":`+placeholder+`}`, ""), full},
		{"filled from before", change("u", `{"id":7,"body":"old","x":1}`, `{"id":7,"body":`+placeholder+`,"x":2}`, ""), row{base{"c"}, 7, ptr("mug"), "old", []string{"a"}, 42}},
		{"delete", change("d", `{"id":7,"title":null,"body":null}`, "null", ""), full},
		{"tombstone", Record{Key: `{"id":7}`}, full},
		{"truncate", change("t", "null", "null", ""), full},
	} {
		e := decodeOne[row](t, tc.record)
		stored := full
		e.Merge(&stored)
		if !reflect.DeepEqual(stored, tc.want) {
			t.Errorf("%s: got %+v, want %+v", tc.name, stored, tc.want)
		}
	}
	made := Event[row]{Op: OpCreate, After: &row{ID: 1}}
	stored := full
	if made.Merge(&stored); stored.ID != 1 || stored.Body != "" {
		t.Errorf("an event made by hand: %+v", stored)
	}
	e := decodeOne[Row](t, change("u", "null", `{"id":7,"body":`+placeholder+`,"title":null,"new":1}`, ""))
	dynamic := Row{{"title", "mug"}, {"body", "long"}, {"gone", 1}}
	if e.Merge(&dynamic); !reflect.DeepEqual(dynamic, Row{{"title", nil}, {"body", "long"}, {"gone", 1}, {"id", int64(7)}, {"new", int64(1)}}) {
		t.Errorf("a row: %v", dynamic)
	}
}
