package pulsartest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestSchemaCompatibility stores one Avro definition after another: whether the second is taken, and as which version, is Pulsar's
// answer with its default strategy, FULL. A definition that begins with "{" is a record's fields.
func TestSchemaCompatibility(t *testing.T) {
	record := func(fields string) string {
		if strings.HasPrefix(fields, "{") {
			return `{"type":"record","name":"R","fields":[` + fields + `]}`
		}
		return strings.TrimPrefix(fields, "whole ")
	}
	const a, ab, aDefault = `{"name":"a","type":"int"}`, `{"name":"a","type":"int"},{"name":"b","type":"int"}`, `{"name":"a","type":"int","default":1}`
	of := func(t string) string { return `{"name":"a","type":` + t + `}` }
	const refused = -1
	for _, c := range []struct {
		name, first, second string
		version             int
	}{
		{"field without default added", a, ab, refused},
		{"field without default dropped", ab, a, refused},
		{"field with default added", a, a + `,{"name":"b","type":"int","default":1}`, 1},
		{"nullable field added", a, a + `,{"name":"b","type":["null","int"]}`, refused},
		{"nullable field with default added", a, a + `,{"name":"b","type":["null","int"],"default":null}`, 1},
		{"field renamed", a, `{"name":"z","type":"int"}`, refused},
		{"alias, not read the other way", a, `{"name":"z","type":"int","aliases":["a"]}`, refused},
		{"alias and default", aDefault, `{"name":"z","type":"int","aliases":["a"],"default":1}`, 1},
		{"fields reordered", ab, `{"name":"b","type":"int"},{"name":"a","type":"int"}`, 1},
		{"default changed", aDefault, `{"name":"a","type":"int","default":2}`, 1},
		{"documented", a, `{"name":"a","type":"int","doc":"it","aliases":["z"]}`, 0},
		{"promoted, not read the other way", a, of(`"long"`), refused},
		{"text and bytes", of(`"string"`), of(`"bytes"`), 1},
		{"another type", a, of(`"string"`), refused},
		{"made nullable", a, of(`["null","int"]`), refused},
		{"union reordered", of(`["null","int"]`), of(`["int","null"]`), 1},
		{"union grown", of(`["null","int"]`), of(`["null","int","string"]`), refused},
		{"items changed", of(`{"type":"array","items":"int"}`), of(`{"type":"array","items":"string"}`), refused},
		{"values changed", of(`{"type":"map","values":"int"}`), of(`{"type":"map","values":"string"}`), refused},
		{"map to array", of(`{"type":"map","values":"int"}`), of(`{"type":"array","items":"int"}`), refused},
		{"enum grown", of(`{"type":"enum","name":"E","symbols":["A"]}`), of(`{"type":"enum","name":"E","symbols":["A","B"]}`), 1},
		{"enum renamed", of(`{"type":"enum","name":"E","symbols":["A"]}`), of(`{"type":"enum","name":"G","symbols":["A"]}`), refused},
		{"fixed resized", of(`{"type":"fixed","name":"F","size":4}`), of(`{"type":"fixed","name":"F","size":5}`), refused},
		{"fixed renamed", of(`{"type":"fixed","name":"F","size":4}`), of(`{"type":"fixed","name":"G","size":4}`), refused},
		{"fixed in a namespace", of(`{"type":"fixed","name":"F","size":4}`), of(`{"type":"fixed","name":"n.F","size":4}`), 1},
		{"logical type changed", of(`{"type":"long","logicalType":"timestamp-millis"}`), of(`{"type":"long","logicalType":"timestamp-micros"}`), 1},
		{"record renamed", a, `whole {"type":"record","name":"S","fields":[` + a + `]}`, 1},
		{"inner field added", of(`{"type":"record","name":"N","fields":[` + a + `]}`), of(`{"type":"record","name":"N","fields":[` + ab + `]}`), refused},
		{"inner record renamed", of(`["null",{"type":"record","name":"N","fields":[` + a + `]}]`), of(`["null",{"type":"record","name":"M","fields":[` + a + `]}]`), 1},
		{"tree", a + `,{"name":"n","type":["null","R"]}`, aDefault + `,{"name":"n","type":["null","R"]}`, 1},
		{"tree that does not fit", a + `,{"name":"n","type":["null","R"]}`, ab + `,{"name":"n","type":["null","R"]}`, refused},
		{"plain type", `"int"`, `"long"`, refused},
		{"plain type to record", `"int"`, a, refused},
		{"not Avro", a, `whole {}`, refused},
		{"unknown type", a, of(`"what"`), refused},
	} {
		for name, connect := range brokers {
			for _, kind := range []string{"AVRO", "JSON"} {
				t.Run(c.name+"/"+name+"/"+kind, func(t *testing.T) {
					on := connect(t)
					path := "/schemas/" + strings.TrimPrefix(on.topic(t, "compatible"), "persistent://") + "/schema"
					store := func(fields string) (int, string) {
						body, err := json.Marshal(map[string]any{"type": kind, "schema": record(fields), "properties": map[string]string{}})
						if err != nil {
							t.Fatal(err)
						}
						return on.admin("POST", path, string(body))
					}
					if status, answer := store(c.first); status != http.StatusOK {
						t.Fatal(status, answer)
					}
					status, answer := store(c.second)
					if taken := status == http.StatusOK; taken != (c.version >= 0) || taken && answer != fmt.Sprintf(`{"version":{"version":%d}}`, c.version) {
						t.Errorf("%d %.300s; want version %d", status, answer, c.version)
					}
				})
			}
		}
	}
}
