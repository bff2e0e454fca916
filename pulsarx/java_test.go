package pulsarx_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// javaMessages are messages that Pulsar's Java client 4.0.8 has sent (testdata/java/Record.java), as the registry and the broker gave them.
func javaMessages(t *testing.T) map[string][]pulsarx.Raw {
	t.Helper()
	text, err := os.ReadFile("testdata/java/java.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Name, Type, Schema, Key string
		Value                   []byte
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	all := map[string][]pulsarx.Raw{}
	for _, r := range recorded {
		all[r.Name] = append(all[r.Name], pulsarx.Raw{SchemaType: r.Type, Schema: []byte(r.Schema), Key: r.Key, Value: r.Value})
	}
	return all
}

// TestJavaAny reads what Java wrote, by its schemas alone.
func TestJavaAny(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123000000, time.UTC)
	day := time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC)
	key := map[string]any{"tenant": "acme", "id": int64(7)}
	all := javaMessages(t)
	for name, want := range map[string][]any{
		"avro": {map[string]any{
			"name": "Ünal", "count": int64(1 << 60), "at": at, "day": day, "tags": []any{"a", "b"}, "more": map[string]any{"x": int64(5)},
			"color": "GREEN", "uuid": nil, "none": nil,
		}},
		"json": {key}, "string": {"Ünal"}, "bool": {true, false}, "int8": {int64(-2)}, "int16": {int64(-300)}, "int32": {int64(1 << 24)},
		"int64": {int64(-1 << 63)}, "float": {1.5}, "double": {-0.1}, "date": {at}, "timestamp": {at}, "time": {time.Hour + time.Minute + time.Second},
		"instant": {at.Add(456789)}, "localdate": {day}, "localtime": {time.Hour + 2*time.Minute + 3*time.Second + 4},
		"localdatetime": {day.Add(time.Hour + 2*time.Minute + 3*time.Second + 4)},
		"inline":        {pulsarx.KeyValue[any, any]{key, key}, pulsarx.KeyValue[any, any]{key, nil}, pulsarx.KeyValue[any, any]{nil, key}},
		"separated":     {pulsarx.KeyValue[any, any]{key, int64(5)}, pulsarx.KeyValue[any, any]{key, nil}},
		"textkey":       {pulsarx.KeyValue[any, any]{"abcd", "v"}},
		"bytes":         {pulsarx.KeyValue[any, any]{[]byte{1}, []byte{2}}},
	} {
		if len(all[name]) != len(want) {
			t.Errorf("%s: %d messages", name, len(all[name]))
			continue
		}
		for i, raw := range all[name] {
			if got := decodeAny(t, raw); !reflect.DeepEqual(got, want[i]) {
				t.Errorf("%s: %#v, want %#v", name, got, want[i])
			}
		}
	}
}

// TestJavaTyped reads it as Go types, and writes the same bytes.
func TestJavaTyped(t *testing.T) {
	type key struct {
		ID     int32   `avro:"id" json:"id"`
		Tenant *string `avro:"tenant" json:"tenant"`
	}
	type inner struct {
		Name  *string          `avro:"name"`
		At    *time.Time       `avro:"at"`
		Color *string          `avro:"color,enum=GREEN|RED"`
		Count int64            `avro:"count"`
		More  map[string]int64 `avro:"more"`
	}
	all := javaMessages(t)
	v, err := pulsarx.Avro[inner]().Decode(all["avro"][0])
	if err != nil || *v.Name != "Ünal" || v.At.UnixMilli() != 1714979289123 || *v.Color != "GREEN" || v.Count != 1<<60 || v.More["x"] != 5 {
		t.Errorf("%+v %v", v, err)
	}
	inline := pulsarx.KeyValueInline(pulsarx.Avro[*key](), pulsarx.JSON[*key]())
	for i, raw := range all["inline"] {
		kv, err := inline.Decode(raw)
		if err != nil || (kv.Key == nil) != (i == 2) || (kv.Value == nil) != (i == 1) {
			t.Fatalf("%+v %v", kv, err)
		}
		if kv.Key != nil && (kv.Key.ID != 7 || *kv.Key.Tenant != "acme") {
			t.Errorf("%+v", kv.Key)
		}
	}
	separated := pulsarx.KeyValueSeparated(pulsarx.Avro[key](), pulsarx.Int32())
	if kv, err := separated.Decode(all["separated"][0]); err != nil || kv.Value != 5 || *kv.Key.Tenant != "acme" {
		t.Errorf("%+v %v", kv, err)
	}
	for name, encoded := range map[string]pulsarx.Raw{
		"bool": encode(t, pulsarx.Bool(), true), "int8": encode(t, pulsarx.Int8(), -2), "int16": encode(t, pulsarx.Int16(), -300),
		"int32": encode(t, pulsarx.Int32(), 1<<24), "int64": encode(t, pulsarx.Int64(), -1<<63), "float": encode(t, pulsarx.Float(), 1.5),
		"double": encode(t, pulsarx.Double(), -0.1), "string": encode(t, pulsarx.String(), "Ünal"),
		"bytes": encode(t, pulsarx.KeyValueInline(pulsarx.Bytes(), pulsarx.Bytes()), pulsarx.KeyValue[[]byte, []byte]{[]byte{1}, []byte{2}}),
	} {
		if java := all[name][0]; string(java.Value) != string(encoded.Value) || java.SchemaType != encoded.SchemaType {
			t.Errorf("%s: %q of %s, Java: %q of %s", name, encoded.Value, encoded.SchemaType, java.Value, java.SchemaType)
		}
	}
}
