package pulsartest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// schemaCase is a schema as the admin routes take it.
type schemaCase struct {
	Type       string            `json:"type"`
	Schema     string            `json:"schema"`
	Properties map[string]string `json:"properties"`
}

func avroOf(fields ...string) schemaCase {
	return schemaCase{"AVRO", `{"type":"record","name":"R","fields":[` + strings.Join(fields, ",") + `]}`, map[string]string{}}
}

func keyValueOf(key, value schemaCase, encoding string) schemaCase {
	text := func(s schemaCase) string {
		if s.Schema == "" {
			return `""`
		}
		return s.Schema
	}
	return schemaCase{"KEY_VALUE", `{"key":` + text(key) + `,"value":` + text(value) + `}`, map[string]string{
		"key.schema.name": "", "key.schema.type": key.Type, "key.schema.properties": "{}",
		"value.schema.name": "", "value.schema.type": value.Type, "value.schema.properties": "{}", "kv.encoding.type": encoding,
	}}
}

func protobufOf(root string) schemaCase {
	// FileDescriptorSet { file { name: "f.proto" message_type { name: "M" } message_type { name: "N" } } }
	file := base64.StdEncoding.EncodeToString([]byte("\n\x13\n\x07f.proto\"\x03\n\x01M\"\x03\n\x01N"))
	return schemaCase{
		"PROTOBUF_NATIVE", `{"fileDescriptorSet":"` + file + `","rootMessageTypeName":"` + root + `","rootFileDescriptorName":"f.proto"}`,
		map[string]string{},
	}
}

// schemaHistories store one schema after the other.
func schemaHistories() map[string][]schemaCase {
	const a, b, bDefault = `{"name":"a","type":"int"}`, `{"name":"b","type":"int"}`, `{"name":"b","type":"int","default":1}`
	text, number := schemaCase{"STRING", "", map[string]string{}}, schemaCase{"INT32", "", map[string]string{}}
	jsonOf := func(s schemaCase) schemaCase { s.Type = "JSON"; return s }
	return map[string][]schemaCase{
		"default added":        {avroOf(a), avroOf(a, bDefault)},
		"field dropped":        {avroOf(a, b), avroOf(a)},
		"field added":          {avroOf(a), avroOf(a, b)},
		"JSON field added":     {jsonOf(avroOf(a)), jsonOf(avroOf(a, b))},
		"promoted":             {avroOf(a), avroOf(`{"name":"a","type":"long"}`)},
		"away and back":        {avroOf(a, bDefault), avroOf(a), avroOf(a, `{"name":"b","type":"string","default":"x"}`)},
		"by way of a default":  {avroOf(a), avroOf(a, bDefault), avroOf(a, b)},
		"by way of dropping":   {avroOf(a, b), avroOf(a, bDefault), avroOf(a)},
		"another type":         {avroOf(a), text},
		"JSON after Avro":      {avroOf(a), jsonOf(avroOf(a))},
		"the same":             {avroOf(a), avroOf(a)},
		"the same text":        {text, text},
		"text with properties": {text, {"STRING", "", map[string]string{"x": "y"}}},
		"numbers":              {number, {"INT64", "", map[string]string{}}},
		"number with data":     {{"INT32", "x", map[string]string{}}},
		"rolled back":          {avroOf(a), avroOf(a, bDefault), avroOf(a)},
		"key value":            {keyValueOf(text, avroOf(a), "SEPARATED"), keyValueOf(text, avroOf(a, bDefault), "SEPARATED")},
		"key value refused":    {keyValueOf(text, avroOf(a), "INLINE"), keyValueOf(text, avroOf(b), "INLINE")},
		"key value types":      {keyValueOf(text, text, "INLINE"), keyValueOf(number, text, "INLINE")},
		"key value encoding":   {keyValueOf(text, text, "INLINE"), keyValueOf(text, text, "SEPARATED")},
		"protobuf":             {protobufOf("M"), protobufOf("M")},
		"protobuf root":        {protobufOf("M"), protobufOf("N")},
		"protobuf no data":     {{"PROTOBUF_NATIVE", "x", map[string]string{}}},
		"unknown":              {{"AUTO_CONSUME", "", map[string]string{}}},
	}
}

// TestStrategies plays each history under each strategy to a broker, and compares what it took with what Pulsar 4.0.8 did: the digits
// are versions, "-" is a refusal. Of each schema it is first asked whether it would be compatible, and then its version.
func TestStrategies(t *testing.T) {
	want := recorded(t, "testdata/strategies.json")
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			for i, by := range []string{
				"UNDEFINED", "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", "BACKWARD", "FORWARD", "FULL",
				"BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
			} {
				t.Run(by, func(t *testing.T) {
					t.Parallel()
					ns := fmt.Sprintf("public/strategy-%d-%d", time.Now().UnixNano(), i)
					on.must(t, "PUT", "/namespaces/"+ns, "")
					on.must(t, "PUT", "/namespaces/"+ns+"/schemaCompatibilityStrategy", `"`+by+`"`)
					for name, history := range schemaHistories() {
						path := "/schemas/" + ns + "/" + strings.ReplaceAll(name, " ", "-")
						got := ""
						for _, s := range history {
							body, err := json.Marshal(s)
							if err != nil {
								t.Fatal(err)
							}
							got += on.offer(path, string(body))
						}
						want.check(t, by+": "+name, got)
					}
				})
			}
		})
	}
	want.save(t)
}

// offer asks a registry about a schema, and stores it.
func (on target) offer(path, schema string) string {
	result := " "
	if status, _ := on.admin("POST", path+"/compatibility", schema); status == http.StatusAccepted {
		result += "fits "
	}
	status, answer := on.admin("POST", path+"/schema", schema)
	if status != http.StatusOK {
		return result + "-"
	}
	var stored struct{ Version struct{ Version int } }
	if err := json.Unmarshal([]byte(answer), &stored); err != nil {
		return result + answer
	}
	return result + fmt.Sprint(stored.Version.Version)
}

func (on target) must(t *testing.T, method, path, body string) string {
	t.Helper()
	status, answer := on.admin(method, path, body)
	if status >= 300 {
		t.Fatal(method, path, body, status, answer)
	}
	return answer
}

// TestRandomSchemas offers a schema and then another that evolved from it by chance, as those of TestReference beside Avro's codec do,
// and compares what a broker says with what Pulsar 4.0.8 said.
func TestRandomSchemas(t *testing.T) {
	text, err := os.ReadFile("testdata/pairs.json")
	if err != nil {
		t.Fatal(err)
	}
	var pairs []map[string]string
	if err := json.Unmarshal(text, &pairs); err != nil || len(pairs) == 0 {
		t.Fatal(err)
	}
	for name, connect := range brokers {
		for _, by := range []string{"BACKWARD", "FORWARD", "FULL"} {
			t.Run(name+"/"+by, func(t *testing.T) {
				t.Parallel()
				on := connect(t)
				ns := fmt.Sprintf("public/pairs-%d-%s", time.Now().UnixNano(), by)
				on.must(t, "PUT", "/namespaces/"+ns, "")
				on.must(t, "PUT", "/namespaces/"+ns+"/schemaCompatibilityStrategy", `"`+by+`"`)
				for i, pair := range pairs {
					got := ""
					for _, which := range []string{"first", "second"} {
						body, err := json.Marshal(schemaCase{pair["type"], pair[which], map[string]string{}})
						if err != nil {
							t.Fatal(err)
						}
						got += on.offer(fmt.Sprintf("/schemas/%s/%d", ns, i), string(body))
					}
					if got != pair[by] {
						t.Errorf("%s %s\nthen %s:\n got %s\nwant %s", pair["type"], pair["first"], pair["second"], got, pair[by])
					}
				}
			})
		}
	}
}
