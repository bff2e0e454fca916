package pulsarx_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
)

// pythonClient is Pulsar's client for Python, with what it needs for Avro.
var pythonClient = []string{"fastavro==1.13.1", "pulsar-client==3.13.0"}

// pythonPerson and pythonPainted are the records of testdata/schemas.py, all of whose fields are nullable unless it says otherwise.
type (
	pythonPerson struct {
		_      struct{}          `avro:"com.example.Person"`
		Name   string            `avro:"name" json:"name"`
		Nick   *string           `avro:"nick" json:"nick"`
		Age    *int32            `avro:"age" json:"age"`
		Worth  int64             `avro:"worth" json:"worth"`
		Ratio  float64           `avro:"ratio" json:"ratio"`
		Half   *float32          `avro:"half" json:"half"`
		OK     bool              `avro:"ok" json:"ok"`
		Tags   *[]string         `avro:"tags" json:"tags"`
		Counts *map[string]int64 `avro:"counts" json:"counts"`
		Home   *pythonAddress    `avro:"home" json:"home"`
		Past   *[]pythonAddress  `avro:"past" json:"past"`
	}
	pythonAddress struct {
		_      struct{} `avro:"Address"`
		Street string   `avro:"street" json:"street"`
		Zip    *string  `avro:"zip" json:"zip"`
	}
	pythonPainted struct {
		_      struct{}      `avro:"com.example.Painted"`
		Person *pythonPerson `avro:"person"`
		Blob   *[]byte       `avro:"blob"`
		Color  *Color        `avro:"color,enum=RED|GREEN"`
	}
	Color string
)

func newPythonPerson() *pythonPerson {
	zip, age, half := "8000", int32(-7), float32(0.25)
	return &pythonPerson{
		Name: "Ünal", Age: &age, Worth: 1<<62 + 1, Ratio: 0.1, Half: &half, OK: true, Tags: &[]string{"a", ""},
		Counts: &map[string]int64{"x": 1<<53 + 1}, Home: &pythonAddress{Street: "s", Zip: &zip}, Past: &[]pythonAddress{{Street: "p"}},
	}
}

// TestSchemasWithPython: what Python's client writes is read here, by type and by Any, and what is written here to the same topic, under
// the schema that Python has registered there, is read by Python as the same.
func TestSchemasWithPython(t *testing.T) {
	url := servicetest.Env(t, "PULSAR_URL")
	c, base := realPulsar(t).client(t), topic(t)
	var topics []string
	for _, kind := range []string{"avro", "bytes", "json", "string"} {
		topics = append(topics, base+"-"+kind)
	}
	script := filepath.Join("testdata", "schemas.py")
	servicetest.Python(t, pythonClient, script, append([]string{url, "write"}, topics...)...)
	green, blob := Color("GREEN"), []byte{0, 255}
	withPython(t, c, pulsarx.Avro[pythonPainted](), topics[0], pythonPainted{Person: newPythonPerson(), Blob: &blob, Color: &green})
	withPython(t, c, pulsarx.Bytes(), topics[1], blob)
	withPython(t, c, pulsarx.JSON[*pythonPerson](), topics[2], newPythonPerson())
	withPython(t, c, pulsarx.String(), topics[3], "Ünal")

	var read map[string][]any
	output := servicetest.Python(t, pythonClient, script, append([]string{url, "read"}, topics...)...)
	if err := json.Unmarshal(output, &read); err != nil || len(read) != len(topics) {
		t.Fatalf("%v: %s", err, output)
	}
	for kind, all := range read {
		if len(all) != 2 || !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("%s: of Python's message and ours Python reads %v", kind, all)
		}
	}
}

// withPython reads Python's message, and sends the same.
func withPython[T any](t *testing.T, c *pulsarx.Client, codec pulsarx.Codec[T], topic string, want T) {
	t.Helper()
	at := time.UnixMilli(1700000000123)
	n := 0
	readAll(t, c, codec, topic, func(m pulsarx.Message[T]) {
		n++
		if !reflect.DeepEqual(m.Value, want) || m.Key != "k" || !m.EventTime.Equal(at) || m.Properties["p"] != "v" {
			t.Errorf("%+v", m)
		}
	})
	if n != 1 {
		t.Errorf("%d messages of Python's", n)
	}
	var asAny []any
	each := func(m pulsarx.Message[any]) { asAny = append(asAny, m.Value) }
	p := producer(t, c, codec, pulsarx.ProducerOptions[T]{Topic: topic})
	if _, err := p.Send(t.Context(), want, pulsarx.Key("k"), pulsarx.Property("p", "v"), pulsarx.EventTime(at)); err != nil {
		t.Fatal(err)
	}
	readAll(t, c, pulsarx.Any(), topic, each)
	if len(asAny) != 2 || !reflect.DeepEqual(asAny[0], asAny[1]) || slices.Contains(asAny, any(nil)) {
		t.Errorf("as any: %#v", asAny)
	}
}

// TestMessagesOfPython: what Python's client, which is C++ inside, sends in all the ways it has arrives as it was. One way does not, in
// pulsar-client-go: the day that this fails, doc.go need not say so.
func TestMessagesOfPython(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s, topic, keys := connect(t), topic(t), t.TempDir()
			keyPair(t, keys, "app", false)
			c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Encryption: pulsarx.KeyFiles(keys)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			servicetest.Python(t, pythonClient, filepath.Join("testdata", "messages.py"), s.url, topic, filepath.Join(keys, "app.public.pem"))
			ways, properties := map[string]int{}, map[string]string{"ü": "ö", "": "empty"}
			var cut int
			readAll(t, c, pulsarx.Bytes(), topic, func(m pulsarx.Message[[]byte]) {
				words := bytes.SplitN(m.Value, []byte(" "), 5)
				switch {
				case len(words) == 4 && m.Key == "k"+string(words[3]) && reflect.DeepEqual(m.Properties, properties) && m.EventTime.UnixMilli() == 1700000000123:
				case len(words) == 5 && m.Key == "k" && fmt.Sprintf("%x", sha256.Sum256(words[4])) == string(words[3]):
				default:
					cut++
					return
				}
				ways[string(bytes.Join(words[:3], []byte(" ")))]++
			})
			for _, compression := range []string{"none", "lz4", "zlib", "zstd", "snappy"} {
				for _, way := range []string{"False alone", "False batch", "True alone", "True batch"} {
					if n := ways[compression+" "+way]; n != 3 {
						t.Errorf("%s %s: %d messages of 3", compression, way, n)
					}
				}
			}
			for _, way := range []string{"lz4 False chunks", "snappy True chunks", "none True chunks"} {
				if ways[way] != 1 {
					t.Errorf("%s: none", way)
				}
			}
			if cut != 1 || ways["none False chunks"] != 0 {
				t.Errorf("%d messages are not as they were sent, of the one in chunks that is neither compressed nor encrypted", cut)
			}
		})
	}
}
