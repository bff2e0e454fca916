package avro_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

func decodeAny(writer, reader, data []byte) (v any, err error) {
	w, err := avro.Parse(writer, false)
	if err != nil {
		return nil, err
	}
	r, err := avro.Parse(reader, true)
	if err != nil {
		return nil, err
	}
	decoder, err := avro.NewDecoder(w, r, reflect.TypeFor[any]())
	if err != nil {
		return nil, err
	}
	return v, avro.Decode(decoder, data, &v)
}

// canon is a value as testdata/resolution.py writes it.
func canon(v any) any {
	switch v := v.(type) {
	case int64:
		return fmt.Sprintf("i:%d", v)
	case float64:
		return "f:" + pythonHex(v)
	case []byte:
		return "b:" + hex.EncodeToString(v)
	case json.Number:
		return "d:" + v.String()
	case string:
		return "s:" + v
	case time.Time:
		return fmt.Sprintf("t:%d", v.UnixMicro())
	case time.Duration:
		return fmt.Sprintf("u:%d", v.Microseconds())
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canon(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = canon(x)
		}
		return out
	}
	return v
}

// pythonHex is float.hex.
func pythonHex(f float64) string {
	text := strconv.FormatFloat(f, 'x', -1, 64)
	switch {
	case text == "+Inf":
		return "inf"
	case f == 0:
		return strings.Replace(text, "0x0p+00", "0x0.0p+0", 1)
	}
	mantissa, exponent, _ := strings.Cut(text, "p")
	whole, part, _ := strings.Cut(mantissa, ".")
	n, _ := strconv.Atoi(exponent)
	return fmt.Sprintf("%s.%sp%+d", whole, part+strings.Repeat("0", 13-len(part)), n)
}

type resolutionCase struct {
	Writer, Reader json.RawMessage
	Data           string
	Value          any
	Error          string
}

// TestResolution compares with what fastavro has read of random data with random pairs of schemas.
func TestResolution(t *testing.T) {
	text, err := os.ReadFile("testdata/resolution.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []resolutionCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	read, refused := 0, 0
	for i, c := range cases {
		data, _ := hex.DecodeString(c.Data)
		got, err := decodeAny(c.Writer, c.Reader, data)
		switch {
		case c.Error != "" && err == nil:
			t.Errorf("%d: %s\nas %s: fastavro refuses, and this is %v", i, c.Writer, c.Reader, canon(got))
		case c.Error != "":
			refused++
		case err != nil:
			t.Errorf("%d: %s\nas %s: %v, fastavro: %v", i, c.Writer, c.Reader, err, c.Value)
		case !reflect.DeepEqual(canon(got), c.Value):
			t.Errorf("%d: %s\nas %s: %v\nfastavro: %v", i, c.Writer, c.Reader, canon(got), c.Value)
		default:
			read++
		}
	}
	if read < 400 || refused < 50 {
		t.Errorf("%d read alike, %d refused alike", read, refused)
	}
}

// TestTypeAliases: a reader's union takes a record by the name that it had, before others whose fields would do.
func TestTypeAliases(t *testing.T) {
	record := func(name, more string) string {
		return fmt.Sprintf(`{"type":"record","name":%q%s,"fields":[{"name":"which","type":"string","default":%q}]}`, name, more, name)
	}
	writer := `["null",{"type":"record","name":"shop.Old","fields":[]}]`
	for alias, want := range map[string]string{
		`,"aliases":["shop.Old"]`: "New", `,"namespace":"shop","aliases":["Old"]`: "New", `,"aliases":["Old"]`: "Other", "": "Other",
	} {
		reader := fmt.Sprintf("[%s,%s]", record("Other", ""), record("New", alias))
		v, err := decodeAny([]byte(writer), []byte(reader), []byte{2})
		if fields, ok := v.(map[string]any); err != nil || !ok || fields["which"] != want {
			t.Errorf("%s: %v, %v", alias, v, err)
		}
	}
}

// TestNamesakes: a branch that the reader lacks is not read as another branch, and a type without a name that both have is.
func TestNamesakes(t *testing.T) {
	enum := func(name string) string { return fmt.Sprintf(`{"type":"enum","name":%q,"symbols":["A"]}`, name) }
	for _, c := range []struct{ writer, reader, says string }{
		{"[" + enum("Size") + "," + enum("Color") + "]", enum("Color"), "Size is not read as Color"},
		{"[" + enum("Size") + "," + enum("Color") + "]", `["null",` + enum("other.Color") + "]", "no branch of the reader's union takes Size"},
		{"[" + enum("ColorV1") + `,"null"]`, `["null",` + enum("ColorV2") + "]", ""},
		{"[" + enum("ColorV1") + `,"null"]`, enum("ColorV2"), ""},
		{enum("ColorV1"), `["null",` + enum("ColorV2") + "]", ""},
	} {
		data := []byte{0, 0}
		if c.writer[0] != '[' {
			data = data[1:]
		}
		v, err := decodeAny([]byte(c.writer), []byte(c.reader), data)
		if c.says == "" && (err != nil || v != "A") || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s as %s: %v, %v", c.writer, c.reader, v, err)
		}
	}
}

// TestNotNull: a null takes no bytes, and nothing else reads as one.
func TestNotNull(t *testing.T) {
	writer := `{"type":"record","name":"R","fields":[{"name":"a","type":"boolean"},{"name":"b","type":"int"}]}`
	reader := `{"type":"record","name":"R","fields":[{"name":"a","type":"null"},{"name":"b","type":"int"}]}`
	if v, err := decodeAny([]byte(writer), []byte(reader), []byte{1, 2}); err == nil {
		t.Errorf("%v", v)
	}
}
