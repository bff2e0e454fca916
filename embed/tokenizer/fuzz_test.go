package tokenizer_test

import (
	"encoding/json"
	"errors"
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

// FuzzModels is FuzzEncode for each kind of model, which all have tokens of their own for what they do not know. The ids depend on
// what Python and Rust make of bytes that are not UTF-8.
func FuzzModels(f *testing.F) {
	var models []*tokenizer.Tokenizer
	for _, g := range lines[golden](f, "testdata/models.jsonl.gz") {
		tok, err := tokenizer.Parse(g.Tokenizer)
		if err != nil {
			f.Fatal(err)
		}
		models = append(models, tok)
		f.Add(uint8(len(models)), g.Texts[len(models)].Text)
	}
	f.Fuzz(func(t *testing.T, model uint8, s string) {
		tok := models[int(model)%len(models)]
		enc, err := tok.Encode(s)
		if err != nil || len(enc.TypeIDs) != len(enc.IDs) || len(enc.Offsets) != len(enc.IDs) {
			t.Fatalf("encoding %v, error %v", enc, err)
		}
		for i, o := range enc.Offsets {
			if o[0] < 0 || o[0] > o[1] || o[1] > len(s) || enc.IDs[i] < 0 {
				t.Fatalf("token %d: id %d from %d to %d of %d bytes", i, enc.IDs[i], o[0], o[1], len(s))
			}
		}
		replaced, err := tok.Encode(replace(s))
		if utf8.ValidString(s) && (err != nil || !slices.Equal(replaced.IDs, enc.IDs)) {
			t.Fatalf("%v, then %v, error %v", enc.IDs, replaced.IDs, err)
		}
		pair, err := tok.AppendEncodePair(tokenizer.Encoding{}, s, "a b", 0)
		if err != nil || len(pair.IDs) < len(enc.IDs) {
			t.Fatalf("%d tokens, and %d in a pair, error %v", len(enc.IDs), len(pair.IDs), err)
		}
	})
}

// FuzzPrecompiled: a charsmap is read or refused, and whatever it says is done in bounded time.
func FuzzPrecompiled(f *testing.F) {
	for _, g := range lines[golden](f, "testdata/models.jsonl.gz") {
		var file struct {
			Normalizer struct {
				PrecompiledCharsmap []byte `json:"precompiled_charsmap"`
			}
		}
		if json.Unmarshal(g.Tokenizer, &file) == nil && len(file.Normalizer.PrecompiledCharsmap) > 0 {
			f.Add(file.Normalizer.PrecompiledCharsmap, "ﬁ ① e\u0301\r\nか\u3099")
			break
		}
	}
	f.Add([]byte{8, 0, 0, 0, 0, 4, 0, 0, 97, 1, 0, 0, 'x', 0}, "aa")
	f.Fuzz(func(t *testing.T, charsmap []byte, s string) {
		normalizer, err := json.Marshal(map[string]any{"type": "Precompiled", "precompiled_charsmap": charsmap})
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Parse([]byte(file(bertNormalizer, string(normalizer))))
		if err != nil {
			return
		}
		if _, err := tok.Encode(s); err != nil && !errors.Is(err, tokenizer.ErrTextTooLarge) {
			t.Fatal(err)
		}
	})
}

// replace writes U+FFFD for what is no UTF-8. How many makes no difference to a tokenizer that cleans the text.
func replace(s string) string { return string([]rune(s)) }

// FuzzParse: a file is read or refused, and what was read encodes or says that it cannot.
func FuzzParse(f *testing.F) {
	f.Add([]byte(file()), "ab [SEP] x")
	f.Add([]byte(file(bertNormalizer, nested("normalizers", 3), `"lstrip": false`, `"lstrip": true`)), "a  [SEP]  b")
	for _, g := range lines[golden](f, "testdata/random.jsonl.gz")[:20] {
		f.Add([]byte(g.Tokenizer), "ab é [CLS] 中")
	}
	f.Add([]byte(bpe(`"ignore_merges": true, "end_of_word_suffix": "b", "unk_token": "a", "fuse_unk": true`)), "ab é")
	f.Add([]byte(unigram(`"unk_id": 0, "byte_fallback": true`)), "ab é")
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
