package vectorstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

func key(columns ...any) cdc.Key {
	var k cdc.Key
	for i := 0; i < len(columns); i += 2 {
		k = append(k, cdc.Column{Name: columns[i].(string), Value: columns[i+1]})
	}
	return k
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func bigInt(t *testing.T, digits string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		t.Fatalf("not an integer: %q", digits)
	}
	return n
}

// TestUUID5Recorded compares with generate_uuid5 of weaviate-client 4.24.1 on Python 3.11.
func TestUUID5Recorded(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Identifier [][2]any
		Python     string
		UUID       ID
	}
	readJSON(t, "testdata/uuid5.json", &vectors)
	if len(vectors) < 16 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		var k cdc.Key
		for _, column := range v.Identifier {
			value := column[1]
			if n, ok := value.(json.Number); ok {
				if strings.ContainsAny(n.String(), ".eE") {
					value, _ = n.Float64()
				} else {
					value = bigInt(t, n.String())
				}
			}
			k = append(k, cdc.Column{Name: column[0].(string), Value: value})
		}
		if got, err := UUID5(k); err != nil || got != v.UUID {
			t.Errorf("%s: %v, error %v; want %v", v.Python, got, err, v.UUID)
		}
	}
}

// TestUUID5Random compares with ids that testdata/uuid5.py has made.
func TestUUID5Random(t *testing.T) {
	t.Parallel()
	var cases []uuid5Case
	readJSON(t, "testdata/uuid5_more.json", &cases)
	checkUUID5(t, cases)
}

// TestUUID5Fresh compares with ids that Weaviate's client makes now, of keys of a seed.
func TestUUID5Fresh(t *testing.T) {
	t.Parallel()
	seed := servicetest.FreshSeed(t)
	var cases []uuid5Case
	out := servicetest.Python(t, []string{"weaviate-client==4.24.1"}, "testdata/uuid5.py", strconv.FormatUint(seed, 10))
	if err := json.Unmarshal(out, &cases); err != nil {
		t.Fatal(err)
	}
	checkUUID5(t, cases)
}

// uuid5Case is a key and what Python makes of it. Of a column there are the name, the type, and the value: of integers the digits, of floats
// the bits.
type uuid5Case struct {
	Columns [][3]any
	UUID    ID
}

func checkUUID5(t *testing.T, cases []uuid5Case) {
	t.Helper()
	if len(cases) < 400 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, c := range cases {
		var k cdc.Key
		for _, column := range c.Columns {
			value := column[2]
			switch column[1] {
			case "int":
				value = bigInt(t, value.(string))
			case "float":
				bits, err := hex.DecodeString(value.(string))
				if err != nil {
					t.Fatal(err)
				}
				value = math.Float64frombits(new(big.Int).SetBytes(bits).Uint64())
			}
			k = append(k, cdc.Column{Name: column[0].(string), Value: value})
		}
		if got, err := UUID5(k); err != nil || got != c.UUID {
			t.Errorf("case %d: %v, error %v; want %v", i, got, err, c.UUID)
		}
	}
}

func TestUUID5Types(t *testing.T) {
	t.Parallel()
	same := map[ID][]any{
		"f14461fd-128c-5c6c-aede-8e5e06ef19ff": {
			7, int8(7), int16(7), int32(7), int64(7), uint(7), uint8(7), uint16(7), uint32(7), uint64(7), big.NewInt(7),
		},
		"d6064360-3449-5eaa-9d3b-8770b3d9a543": {int64(1)},
		"ea8bce3a-2911-5b8d-90b4-a62ab9ff1d01": {"1"},
		"e82a1532-0030-51ac-ae9e-7f52577b2619": {1.0},
		"c9afc111-6a80-54ef-b9a9-f55c4edc664f": {true},
		"49691c5b-2609-5dae-9a4e-a501027635d4": {nil},
		"f9c73dd6-ecdc-50a3-8bed-82720e3d33d9": {`it's "x"`},
	}
	for want, values := range same {
		for _, v := range values {
			if got, err := UUID5(key("product_id", v)); err != nil || got != want {
				t.Errorf("%T %v: %v, error %v; want %v", v, v, got, err, want)
			} else if got.Check() != nil {
				t.Errorf("%v: %v", got, got.Check())
			}
		}
	}
}

func TestUUID5Refuses(t *testing.T) {
	t.Parallel()
	var none *big.Int
	type named int
	tests := map[string]cdc.Key{
		"no columns":           nil,
		"twice":                key("a", 1, "a", 2),
		"not valid UTF-8":      key("a", "\xff"),
		"name of column 0":     key("a\xff", 1),
		"float32":              key("a", float32(1)),
		"time.Time":            key("a", time.Time{}),
		"[]uint8":              key("a", []byte("x")),
		"json.Number":          key("a", json.Number("1")),
		"vectorstore.named":    key("a", named(1)),
		"map[string]int":       key("a", map[string]int{}),
		"is nil":               key("a", none),
		"more than 4300 digit": key("a", new(big.Int).Exp(big.NewInt(10), big.NewInt(4300), nil)),
		"more than 4300 digi":  key("a", new(big.Int).Lsh(big.NewInt(1), 10_000_000)),
	}
	for want, k := range tests {
		id, err := UUID5(k)
		if id != "" || !errors.Is(err, ErrKey) || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, error %v; want one about %q", id, err, want)
		}
	}
}

// TestReprOfAllCodePoints compares with the SHA-256 of repr(chr(c)) and a newline, for every c but surrogates, by
// Python 3.11.7.
func TestReprOfAllCodePoints(t *testing.T) {
	t.Parallel()
	h := sha256.New()
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) {
			h.Write(append(appendString(nil, string(r)), '\n'))
		}
	}
	const want = "293d9fd188fa9472d89c75ba771e9c241f3ca81136ced7b8fae3ac98232aab05"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("SHA-256 is %s, want %s", got, want)
	}
}

func FuzzUUID5(f *testing.F) {
	f.Add("id", "it's", int64(1), 1.5)
	f.Fuzz(func(t *testing.T, name, s string, n int64, x float64) {
		id, err := UUID5(key(name, s, name+"1", n, name+"2", x))
		if err != nil {
			if utf8.ValidString(name) && utf8.ValidString(s) {
				t.Fatal(err)
			}
			return
		}
		if err := id.Check(); err != nil || id[14] != '5' {
			t.Fatalf("%v: %v", id, err)
		}
	})
}

func BenchmarkUUID5(b *testing.B) {
	k := key("product_id", int64(1234567))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := UUID5(k); err != nil {
			b.Fatal(err)
		}
	}
}
