package tokenizer_test

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// FuzzEncode: whatever the text, one id a token, in order, within the text; the same ids when bytes that are not UTF-8 are
// replaced before, and when the text is cut by a limit.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{
		"", "café cafe\u0301 [CLS] x [SEP]", "a\u00a0b\u3000c", "\u202ertl\x00\xff\xe4\xb8", "안녕 hello世界test 👩‍👩‍👧‍👦", "жȾΘİ", "e\u0323\u0302\u0344",
	} {
		f.Add(s)
	}
	tok := load(f, minilm)
	f.Fuzz(func(t *testing.T, s string) {
		enc, err := tok.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		n := len(enc.IDs)
		if n < 2 || len(enc.TypeIDs) != n || len(enc.Offsets) != n || enc.IDs[0] != 101 || enc.IDs[n-1] != 102 {
			t.Fatalf("encoding %v", enc)
		}
		var last [2]int
		for i, o := range enc.Offsets[1 : n-1] {
			if o[0] < last[0] || o[1] < last[1] || o[0] >= o[1] || o[1] > len(s) || enc.IDs[i+1] < 0 {
				t.Fatalf("token %d: id %d from %d to %d behind %v, of %d bytes", i, enc.IDs[i+1], o[0], o[1], last, len(s))
			}
			last = o
		}
		if utf8.ValidString(s) && len(s) <= 1000 {
			limit := 2 + len(s)%7
			cut, err := tok.AppendEncode(tokenizer.Encoding{}, s, limit)
			if err != nil || !slices.Equal(cut.IDs[:len(cut.IDs)-1], enc.IDs[:min(limit, n)-1]) {
				t.Fatalf("cut at %d: %v, error %v; whole %v", limit, cut.IDs, err, enc.IDs)
			}
		}
		replaced, err := tok.Encode(replace(s))
		if err != nil || !slices.Equal(replaced.IDs, enc.IDs) {
			t.Fatalf("%v with U+FFFD, error %v; %v without", replaced.IDs, err, enc.IDs)
		}
	})
}

// replace writes U+FFFD for what is no UTF-8. How many makes no difference to a tokenizer that cleans the text.
func replace(s string) string { return string([]rune(s)) }

// FuzzParse: a file is read or refused, and what was read encodes or says that it cannot.
func FuzzParse(f *testing.F) {
	f.Add([]byte(file()), "ab [SEP] x")
	f.Add([]byte(file(bertNormalizer, nested("normalizers", 3), `"lstrip": false`, `"lstrip": true`)), "a  [SEP]  b")
	for _, golden := range lines[struct{ Tokenizer json.RawMessage }](f, "testdata/random.jsonl.gz")[:20] {
		f.Add([]byte(golden.Tokenizer), "ab é [CLS] 中")
	}
	f.Fuzz(func(t *testing.T, data []byte, s string) {
		tok, err := tokenizer.Parse(data)
		if (tok == nil) == (err == nil) {
			t.Fatalf("tokenizer %v and error %v", tok, err)
		}
		if err != nil {
			return
		}
		enc, err := tok.Encode(s)
		if err == nil && (len(enc.IDs) != len(enc.TypeIDs) || len(enc.IDs) != len(enc.Offsets)) {
			t.Fatalf("encoding %v", enc)
		}
		for _, o := range enc.Offsets {
			if o[0] < 0 || o[0] > o[1] || o[1] > len(s) {
				t.Fatalf("offsets %v of %d bytes", o, len(s))
			}
		}
	})
}
