package pulsarx_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
)

type unit struct {
	Sum  [4]byte `avro:"sum"`
	Kind string  `avro:"kind,enum=A|B"`
}

type spaced struct {
	_    struct{} `avro:"com.example.Inner"`
	Unit unit     `avro:"unit"`
	Sum  [4]byte  `avro:"sum"`
	Self *spaced  `avro:"self"`
	Back *mixed   `avro:"back"`
}

// mixed has types of its own namespace, which is none, and of another one, which both use the same Go types.
type mixed struct {
	Inner spaced   `avro:"inner"`
	Unit  unit     `avro:"unit"`
	More  []spaced `avro:"more"`
	Sum   [4]byte  `avro:"sum"`
}

// TestAvroNamespaces: a type without a namespace of its own is of the namespace around it, so that a type that two of them use is defined
// in both: a short name means nothing outside of its namespace.
func TestAvroNamespaces(t *testing.T) {
	codec := pulsarx.Avro[mixed]()
	s, err := codec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(s.Definition), `"type":"record","name":"unit"`); n != 2 {
		t.Errorf("%d definitions of unit in %s", n, s.Definition)
	}
	u := unit{[4]byte{1}, "B"}
	in := mixed{Inner: spaced{Unit: u, Self: &spaced{Unit: u}, Back: &mixed{Inner: spaced{Unit: u}, Unit: u, More: []spaced{}}}, Unit: u, More: []spaced{}}
	payload, err := codec.Encode(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	// The definition as it comes from the registry may have other white space, and is compiled on its own.
	out, err := codec.Decode(pulsarx.Raw{SchemaType: "AVRO", Schema: append(s.Definition, ' '), Value: payload})
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%+v\nbecame\n%+v: %v", in, out, err)
	}
}

type Source struct {
	Host string `avro:"host" json:"host"`
}

type hidden struct{ N int64 }

// TestEmbedded: an embedded struct gives its fields to the outer one, unless a tag names it, in Avro as in encoding/json. What is embedded
// less deep comes first.
func TestEmbedded(t *testing.T) {
	type plain struct {
		Source `json:",omitempty"`
		N      int64 `avro:"n" json:"n"`
	}
	type named struct {
		Source `avro:"source" json:"source"`
		N      int64 `avro:"n" json:"n"`
	}
	type pointer struct {
		*Source `avro:"source" json:"source"`
		N       int64 `avro:"n" json:"n"`
	}
	embedded(t, plain{Source{"h"}, 1}, `{"host":"h","n":1}`)
	embedded(t, named{Source{"h"}, 1}, `{"source":{"host":"h"},"n":1}`)
	type hiding struct {
		Host int64 `avro:"host" json:"host"`
		plain
	}
	embedded(t, pointer{&Source{"h"}, 1}, `{"source":{"host":"h"},"n":1}`)
	embedded(t, hiding{Host: 1, plain: plain{N: 2}}, `{"host":1,"n":2}`)
	type unexported struct {
		hidden `avro:"h" json:"h"`
	}
	type (
		unnamed struct{ *Source }
		secret  struct{ *hidden }
		alike   struct {
			Host string `avro:"host"`
			More string `avro:"host"`
		}
	)
	for name, schema := range map[string]func() (pulsarx.Schema, error){
		"Avro": pulsarx.Avro[unexported]().Schema, "JSON": pulsarx.JSON[unexported]().Schema,
		"Avro, pointer": pulsarx.Avro[unnamed]().Schema, "JSON, pointer": pulsarx.JSON[unnamed]().Schema,
		"Avro, unexported pointer": pulsarx.Avro[secret]().Schema, "JSON, unexported pointer": pulsarx.JSON[secret]().Schema,
		"Avro, two fields": pulsarx.Avro[alike]().Schema,
	} {
		if s, err := schema(); err == nil {
			t.Errorf("%s: %s", name, s.Definition)
		}
	}
}

// embedded compares the fields of both schemas with those that encoding/json writes.
func embedded[T any](t *testing.T, in T, want string) {
	t.Helper()
	for _, codec := range []pulsarx.Codec[T]{pulsarx.Avro[T](), pulsarx.JSON[T]()} {
		raw := encode(t, codec, in)
		if out, err := codec.Decode(raw); err != nil || !reflect.DeepEqual(in, out) {
			t.Errorf("%T: %+v became %+v: %v", codec, in, out, err)
		}
		var asAny any
		if asAny = decodeAny(t, raw); raw.SchemaType == "JSON" {
			reader := pulsarx.AvroSchema[map[string]any](string(raw.Schema)) // the schema has the fields of the payload
			if _, err := reader.Encode(nil, asAny.(map[string]any)); err != nil {
				t.Errorf("%T: %s does not fit %s: %v", codec, raw.Value, raw.Schema, err)
			}
		}
		var wanted any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(asAny)
		again, _ := json.Marshal(wanted)
		if string(got) != string(again) {
			t.Errorf("%T: %s, want %s", codec, got, again)
		}
	}
}

// TestJSONWithoutSchema: what JSON writes as it is has no schema, and json.Number is a number.
func TestJSONWithoutSchema(t *testing.T) {
	if s, err := pulsarx.JSON[holder[json.RawMessage]]().Schema(); err == nil {
		t.Errorf("%s", s.Definition)
	}
	s, err := pulsarx.JSON[holder[json.Number]]().Schema()
	if err != nil || !strings.Contains(string(s.Definition), `"type":"double"`) {
		t.Errorf("%s %v", s.Definition, err)
	}
}

// TestJSONTypes: a Go type has the schema of what encoding/json makes of it.
func TestJSONTypes(t *testing.T) {
	jsonType(t, map[int8]string{-1: "a"}, `{"type":"map","values":"string"}`)
	jsonType(t, map[uint64]bool{1 << 63: true}, `{"type":"map","values":"boolean"}`)
	jsonType(t, map[netip.Addr]int64{netip.MustParseAddr("::1"): 5}, `{"type":"map","values":"long"}`)
	jsonType(t, [2]float64{1, 2}, `{"type":"array","items":"double"}`)
	jsonType(t, [3]byte{1, 2, 3}, `{"type":"array","items":"int"}`)
	jsonType(t, big.NewRat(1, 3), `"string"`)
	for name, err := range map[string]error{
		"strings":  schemaError(pulsarx.JSON[holder[map[float64]int]]()),
		"a struct": schemaError(pulsarx.JSON[holder[[2]struct{ X int }]]()),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func jsonType[T any](t *testing.T, v T, schema string) {
	t.Helper()
	raw := encode(t, pulsarx.JSON[T](), v)
	if string(raw.Schema) != schema {
		t.Errorf("%T: %s, want %s", v, raw.Schema, schema)
	}
	if out, err := pulsarx.JSON[T]().Decode(raw); err != nil || !reflect.DeepEqual(out, v) {
		t.Errorf("%s is %v: %v", raw.Value, out, err)
	}
}

// TestTextOfBinary: bytes of a binary schema that happen to be text are not read as such.
func TestTextOfBinary(t *testing.T) {
	raw := encode(t, pulsarx.Int32(), 0x31323334)
	if v, err := pulsarx.String().Decode(raw); err == nil {
		t.Errorf("%q", v)
	}
	if v, err := pulsarx.JSON[int]().Decode(raw); err == nil {
		t.Error(v)
	}
	for _, schema := range []string{"", "JSON", "STRING", "BYTES"} {
		raw.SchemaType = schema
		if v, err := pulsarx.String().Decode(raw); err != nil || v != "1234" {
			t.Errorf("%s: %q %v", schema, v, err)
		}
		if v, err := pulsarx.JSON[int]().Decode(raw); err != nil || v != 1234 {
			t.Errorf("%s: %v %v", schema, v, err)
		}
	}
}
