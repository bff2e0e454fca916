package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestEveryCodePoint compares what each part makes of "a" + c + "b" with the original, for every code point c; see
// testdata/record_goldens.py.
func TestEveryCodePoint(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/codepoints.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	fillTables()
	for line := range strings.Lines(string(data)) {
		var golden struct {
			Normalizer   json.RawMessage
			PreTokenizer json.RawMessage `json:"pre_tokenizer"`
			Tokenizer    string
			Blocks       []string
		}
		if err := json.Unmarshal([]byte(line), &golden); err != nil {
			t.Fatal(err)
		}
		name := golden.Tokenizer + string(golden.Normalizer) + string(golden.PreTokenizer)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareBlocks(t, golden.Blocks, answerer(t, golden.Normalizer, golden.PreTokenizer, golden.Tokenizer))
		})
	}
}

// answerer returns what writes the answer of a part to a text.
func answerer(t *testing.T, normalizer, preTokenizer json.RawMessage, file string) func(dst []byte, s string) []byte {
	t.Helper()
	l := &loader{}
	defer func() {
		if len(l.errs) > 0 {
			t.Fatal(l.errs)
		}
	}()
	switch {
	case normalizer != nil:
		n, txt := l.normalizer("normalizer", normalizer, 0), &text{}
		return func(dst []byte, s string) []byte {
			txt.chars = decodeText(txt.chars[:0], s)
			n.normalize(txt)
			return appendChars(dst, txt.chars)
		}
	case preTokenizer != nil:
		p, w := l.preTokenizer("pre_tokenizer", preTokenizer, 0), &words{}
		return func(dst []byte, s string) []byte {
			w.chars = decodeText(w.chars[:0], s)
			w.spans = append(w.spans[:0], span{0, len(w.chars)})
			p.split(w)
			for i, sp := range w.spans {
				if i > 0 {
					dst = append(dst, 0)
				}
				dst = appendChars(dst, w.chars[sp.from:sp.to])
			}
			return dst
		}
	}
	tok, err := Load("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	enc := Encoding{}
	return func(dst []byte, s string) []byte {
		enc, err = tok.AppendEncode(Encoding{enc.IDs[:0], enc.TypeIDs[:0], enc.Offsets[:0]}, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range enc.IDs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(id), 10)
		}
		return dst
	}
}

func appendChars(dst []byte, chars []char) []byte {
	for _, c := range chars {
		dst = utf8.AppendRune(dst, c.r)
	}
	return dst
}

func compareBlocks(t *testing.T, blocks []string, answer func(dst []byte, s string) []byte) {
	t.Helper()
	const block = 4096
	if len(blocks) != (utf8.MaxRune+1)/block {
		t.Fatalf("%d blocks", len(blocks))
	}
	var buf []byte
	for i, want := range blocks {
		buf = buf[:0]
		for r := rune(i * block); r < rune(i+1)*block; r++ {
			if utf8.ValidRune(r) {
				buf = append(answer(buf, "a"+string(r)+"b"), '\n')
			}
		}
		if sum := sha256.Sum256(buf); hex.EncodeToString(sum[:4]) != want {
			t.Errorf("code points from %U on: hash %x, want %s", i*block, sum[:4], want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	t.Parallel()
	// What Python's bytes.decode("utf-8", "replace") gives.
	tests := []struct{ in, want string }{
		{"", ""},
		{"aé中😀", "aé中😀"},
		{"a\x00b", "a\x00b"},
		{"\xff\xfe", "��"},
		{"\x80\xbf", "��"},
		{"a\xc3", "a�"},
		{"\xc3a", "�a"},
		{"\xe4\xb8", "�"},
		{"\xe4\xb8a", "�a"},
		{"\xf0\x9f\x98", "�"},
		{"\xf0\x9f\x98\xe4\xb8\xad", "�中"},
		{"\xf0\x9f\x98\xf0\x9f\x98", "��"},
		{"\xc0\xaf\xe0\x80\xbf", "�����"},
		{"\xed\xa0\x80", "���"},
		{"\xf4\x90\x80\x80", "����"},
		{"\xf8\x88\x80\x80\x80", "�����"},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "����A"},
	}
	for _, tt := range tests {
		chars := decodeText(nil, tt.in)
		if got := string(appendChars(nil, chars)); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
		at := int32(0)
		for _, c := range chars {
			if c.start != at || c.end <= at {
				t.Errorf("%q: a character from %d to %d behind %d", tt.in, c.start, c.end, at)
			}
			at = c.end
		}
		if int(at) != len(tt.in) {
			t.Errorf("%q: characters up to %d", tt.in, at)
		}
	}
}

// TestGraphemes: clusters are those of Unicode 17, as in the original. Where one of five bytes at most begins with a key of a charsmap, here
// K, all of it becomes what the key does.
func TestGraphemes(t *testing.T) {
	p := &precompiled{units: make([]uint32, 256), texts: []byte("k\x00")}
	p.units['K'] = 'K' | 1<<8 | 1<<10 // the value is beside it, and is the place of k
	for given, want := range map[string]string{
		"K": "k", "KK": "kk", "aK\n": "ak\n", "K\u0342": "k", "K\u0342\u0342K": "kk", "K\U0001612bK": "kk", "K\u1ad0": "k",
		"K\u0342\U000113d0": "k\u0342\U000113d0", "\U000113d1K\u0342": "\U000113d1k\u0342", "\u0600K\u0342": "\u0600k\u0342", "K\u200d\u0342": "k\u200d\u0342",
	} {
		var x text
		x.normalize(p, decodeText(nil, given))
		var got []rune
		for _, c := range x.chars {
			got = append(got, c.r)
		}
		if string(got) != want {
			t.Errorf("%+q: %+q, want %+q", given, string(got), want)
		}
	}
}
