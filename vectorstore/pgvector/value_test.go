package pgvector

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// FuzzDecode reads what somebody else may have written to the table: it is an object, which is written and read as the same again, or an
// error.
func FuzzDecode(f *testing.F) {
	f.Add(`{"n":1.5,"at":"2024-02-29T12:00:00.000000000Z","list":[1,2]}`, `{"n":"number","at":"date","list":"number[]"}`)
	f.Add(`{"o":{"at":"x","g":{"latitude":1.5,"longitude":2}},"os":[{"a":true},{}]}`, `{"o":{"at":"date","g":"geo"},"os":[{}]}`)
	f.Add(`{"p":{"input":"+1"},"no":[],"i":9007199254740993,"b":[true,false]}`, `{"p":"phone","no":"date[]","b":"bool[]"}`)
	f.Add(`null`, `{"a":[["number"]]}`)
	f.Add(`{"a":null,"b":[null],"c":1e999}`, `{"b":"int[]","c":"number"}`)
	f.Fuzz(func(t *testing.T, properties, kinds string) {
		var o, again vectorstore.Object
		if decodeInto(&o, []byte(properties), []byte(kinds), []byte(`{}`)) != nil {
			return
		}
		values, known, _, err := parseProperties(o.Properties)
		if err != nil {
			return // such as a place beyond the earth, which the store does not write
		}
		a, _ := json.Marshal(values)
		b, _ := json.Marshal(known)
		if err := decodeInto(&again, a, b, []byte(`{}`)); err != nil || !reflect.DeepEqual(o.Properties, again.Properties) {
			t.Errorf("%v came back as %v, error %v", o.Properties, again.Properties, err)
		}
	})
}
