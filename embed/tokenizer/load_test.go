package tokenizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// file is a small tokenizer.json; a pair of strings replaces one by the other.
func file(replacements ...string) string {
	return strings.NewReplacer(replacements...).Replace(`{
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 2, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
  ],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}}},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}}
}`)
}

const (
	bertNormalizer  = `{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}`
	bertPreTokenzer = `{"type": "BertPreTokenizer"}`
	template        = `{"type": "TemplateProcessing",`
	around          = `{"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}`
)

func TestParse(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"as it is":         file(),
		"no type of model": file(`"type": "WordPiece", "unk`, `"unk`),
		"whole words": file(`"type": "WordPiece", "unk`, `"type": "WordLevel", "unk`, `"continuing_subword_prefix": "##", "max_input_chars_per_word": 100,`, ``,
			bertPreTokenzer, `{"type": "FixedLength", "length": 1}`, `"##b"`, `"b"`),
		"no version":       file(`"version": "1.0", `, ``),
		"padding ignored":  file(`"padding": null`, `"padding": {"strategy": {"Fixed": 128}}`),
		"no normalizer":    file(bertNormalizer, `null`),
		"escaped pair":     file(`"a": 3`, `"a": 3, "\ud83d\ude00": 5`),
		"accents by name":  file(`"strip_accents": null`, `"strip_accents": false`),
		"no strip_accents": file(`"strip_accents": null, `, ``),
		"nested sequences": file(bertNormalizer, nested("normalizers", 10)),
	}
	for name, data := range good {
		tok, err := tokenizer.Parse([]byte(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if enc, err := tok.Encode("ab[SEP]"); err != nil || !slices.Equal(enc.IDs, []int32{1, 3, 4, 2}) {
			t.Errorf("%s: %v, error %v", name, enc, err)
		}
	}
}

// bpe and unigram are files with a model whose fields are replaced, or added to.
func bpe(fields string) string {
	return withModel(map[string]any{"type": "BPE", "vocab": map[string]int{"a": 0, "b": 1, "ab": 2}, "merges": []string{"a b"}}, fields)
}

func unigram(fields string) string {
	return withModel(map[string]any{"type": "Unigram", "vocab": [][]any{{"a", -1.0}, {"b", -2.0}}}, fields)
}

func withModel(model map[string]any, fields string) string {
	if err := json.Unmarshal([]byte("{"+fields+"}"), &model); err != nil {
		panic(err)
	}
	data, err := json.Marshal(map[string]any{"version": "1.0", "model": model})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestCharacterWithoutToken: where a model has no token for unknown characters they vanish, and what follows keeps its place, where
// the original moves it forward.
func TestCharacterWithoutToken(t *testing.T) {
	t.Parallel()
	tok, err := tokenizer.Parse([]byte(bpe("")))
	if err != nil {
		t.Fatal(err)
	}
	enc, err := tok.Encode("aéab")
	if err != nil || !slices.Equal(enc.IDs, []int32{0, 2}) || !slices.Equal(enc.Offsets, [][2]int{{0, 1}, {3, 5}}) {
		t.Errorf("%v, error %v", enc, err)
	}
}

// TestUnknownInsideAToken: without an unknown token, a character that no token stands for alone may be inside of one that fits.
func TestUnknownInsideAToken(t *testing.T) {
	t.Parallel()
	tok, err := tokenizer.Parse([]byte(unigram(`"vocab": [["a", -1], ["ab", -3]]`)))
	if err != nil {
		t.Fatal(err)
	}
	if enc, err := tok.Encode("aab"); err != nil || !slices.Equal(enc.IDs, []int32{0, 1}) {
		t.Errorf("%v, error %v", enc, err)
	}
	if enc, err := tok.Encode("ba"); !errors.Is(err, tokenizer.ErrNoUnknownToken) {
		t.Errorf("%v, error %v", enc, err)
	}
}

// TestByteLevelsThatBlowUp: every level makes two characters of one that is not ASCII.
func TestByteLevelsThatBlowUp(t *testing.T) {
	t.Parallel()
	const level = `{"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}`
	levels := strings.Repeat(level+",", 60) + level
	tok, err := tokenizer.Parse([]byte(strings.Replace(bpe(""), `{"model"`, `{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [`+levels+`]}, "model"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode(strings.Repeat("é", 100)); !errors.Is(err, tokenizer.ErrTextTooLarge) {
		t.Errorf("error %v", err)
	}
}

// nested is depth sequences, one in the other.
func nested(key string, depth int) string {
	open := fmt.Sprintf(`{"type": "Sequence", "%s": [`, key)
	return strings.Repeat(open, depth) + strings.Repeat(`]}`, depth)
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	normalizer := func(s string) string { return file(bertNormalizer, s) }
	preTokenizer := func(s string) string { return file(bertPreTokenzer, s) }
	tests := []struct {
		data string
		is   error
		says string // what the error names
	}{
		{``, tokenizer.ErrInvalid, "file"},
		{`null`, tokenizer.ErrInvalid, "file: it is not an object"},
		{`[]`, tokenizer.ErrInvalid, "file: it is not an object"},
		{`{}`, tokenizer.ErrInvalid, "model: it is missing"},
		{file() + `{}`, tokenizer.ErrInvalid, "something follows"},
		{file()[:900], tokenizer.ErrInvalid, "unexpected EOF"},
		{"\xff", tokenizer.ErrInvalid, "not Unicode"},
		{file(`"a"`, `"\ud800"`), tokenizer.ErrInvalid, "not Unicode"},
		{file(`"a"`, `"\uDE00\uD83D"`), tokenizer.ErrInvalid, "not Unicode"},
		{file(`"a"`, `"\ud800\u0041"`), tokenizer.ErrInvalid, "not Unicode"},
		{file(`"1.0"`, `"2.0"`), tokenizer.ErrUnsupported, `version: "2.0"`},
		{file(`"version"`, `"model": {}, "version"`), tokenizer.ErrInvalid, `field "model" stands there twice`},
		{file(`"version"`, `"Version"`), tokenizer.ErrUnsupported, `field "Version"`},
		{file(`"padding"`, `"post_tokenizer"`), tokenizer.ErrUnsupported, `field "post_tokenizer"`},

		{file(`"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"`, `"prefix": "##"`), tokenizer.ErrInvalid, "model.type: it is missing"},
		{file(`"type": "WordPiece", "unk`, `"type": 1, "unk`), tokenizer.ErrInvalid, "model.type: it is not a string"},
		{file(`"type": "WordPiece", "unk`, `"type": "WordSense", "unk`), tokenizer.ErrUnsupported, `model: type "WordSense"`},
		{file(`"unk_token"`, `"byte_fallback": true, "unk_token"`), tokenizer.ErrUnsupported, `model: field "byte_fallback"`},
		{file(`"unk_token": "[UNK]", `, ``), tokenizer.ErrInvalid, "model.unk_token: it is missing"},
		{file(`"unk_token": "[UNK]"`, `"unk_token": null`), tokenizer.ErrInvalid, "model.unk_token: it is missing"},
		{file(`"continuing_subword_prefix": "##", `, ``), tokenizer.ErrInvalid, "model.continuing_subword_prefix"},
		{file(`_word": 100`, `_word": -1`), tokenizer.ErrInvalid, "model.max_input_chars_per_word"},
		{file(`_word": 100`, `_word": 1e2`), tokenizer.ErrInvalid, "model.max_input_chars_per_word"},
		{file(`"vocab": {`, `"vocab": [{`, `"##b": 4}`, `"##b": 4}]`), tokenizer.ErrInvalid, "model.vocab: it is not an object"},
		{file(`"a": 3`, `"a": "3"`), tokenizer.ErrInvalid, `token "a"`},
		{file(`"a": 3`, `"a": {}`), tokenizer.ErrInvalid, `token "a"`},
		{file(`"a": 3`, `"a": -3`), tokenizer.ErrInvalid, `token "a"`},
		{file(`"a": 3`, `"a": 2147483648`), tokenizer.ErrInvalid, `token "a"`},
		{file(`"a": 3`, `"a": 3, "a": 4`), tokenizer.ErrInvalid, `token "a" stands there twice`},

		{bpe(`"dropout": 0.1`), tokenizer.ErrUnsupported, `model.dropout: other than 0`},
		{bpe(`"merges": ["a b c"]`), tokenizer.ErrInvalid, `model.merges[0]: it is not two tokens`},
		{bpe(`"merges": [["a"]]`), tokenizer.ErrInvalid, `model.merges[0]: it is not two tokens`},
		{bpe(`"merges": [1]`), tokenizer.ErrInvalid, `model.merges[0]: it is not two tokens`},
		{bpe(`"merges": ["a b", "ab z"]`), tokenizer.ErrInvalid, `model.merges[1]: token "z" is not in the vocabulary`},
		{bpe(`"continuing_subword_prefix": "##", "merges": ["a b"]`), tokenizer.ErrInvalid, `model.merges[0]: it is not two tokens`},
		{bpe(`"byte_fallback": true, "vocab": {"<0x00>": 0}`), tokenizer.ErrUnsupported, `model.byte_fallback: with tokens of 1 bytes of 256`},
		{bpe(`"vocab_size": 3`), tokenizer.ErrUnsupported, `model: field "vocab_size"`},
		{unigram(`"unk_id": 2`), tokenizer.ErrInvalid, `model.unk_id: 2 is not in the vocabulary`},
		{unigram(`"vocab": [["a"]]`), tokenizer.ErrInvalid, `model.vocab[0]: it is not a token and its score`},
		{unigram(`"vocab": [["a", "1"]]`), tokenizer.ErrInvalid, `model.vocab[0][1]: it is not a number`},
		{unigram(`"vocab": {"a": 1}`), tokenizer.ErrInvalid, `model.vocab: it is not a list`},
		{unigram(`"alpha": 0.1`), tokenizer.ErrUnsupported, `model: field "alpha"`},

		{normalizer(`{"type": "Precompiled", "precompiled_charsmap": "AA=="}`), tokenizer.ErrInvalid, `normalizer.precompiled_charsmap: it is too short`},
		{normalizer(`{"type": "Precompiled", "precompiled_charsmap": "CAAAAAAA"}`), tokenizer.ErrInvalid, `normalizer.precompiled_charsmap: a trie of 8 bytes`},
		{normalizer(`{"type": "Precompiled", "precompiled_charsmap": "AAAAAP8="}`), tokenizer.ErrInvalid, `normalizer.precompiled_charsmap: texts`},
		{normalizer(`{"type": "Precompiled", "precompiled_charsmap": "?"}`), tokenizer.ErrInvalid, `normalizer.precompiled_charsmap: it is not base64`},
		{normalizer(`{}`), tokenizer.ErrInvalid, `normalizer.type: it is missing`},
		{normalizer(`"NFC"`), tokenizer.ErrInvalid, `normalizer: it is not an object`},
		{normalizer(`{"type": "NFC", "form": "fast"}`), tokenizer.ErrUnsupported, `normalizer: field "form"`},
		{
			normalizer(`{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "X"}]}`),
			tokenizer.ErrUnsupported, `normalizer.normalizers[1]: type "X"`,
		},
		{normalizer(`{"type": "Sequence"}`), tokenizer.ErrInvalid, `normalizer.normalizers: it is missing`},
		{normalizer(nested("normalizers", 1000)), tokenizer.ErrUnsupported, `nested more than`},
		{normalizer(`{"type": "Strip", "strip_left": true}`), tokenizer.ErrInvalid, `normalizer.strip_right: it is missing`},
		{normalizer(`{"type": "Replace", "pattern": {"Regex": "\\d*"}, "content": " "}`), tokenizer.ErrUnsupported, `normalizer: a regular expression that may match nothing`},
		{normalizer(`{"type": "Replace", "pattern": {"String": ""}, "content": " "}`), tokenizer.ErrUnsupported, `normalizer.pattern: an empty`},
		{normalizer(`{"type": "Replace", "pattern": "a", "content": " "}`), tokenizer.ErrInvalid, `normalizer.pattern: it is not an object`},
		{file(`"lowercase": true`, `"lowercase": 1`), tokenizer.ErrInvalid, `normalizer.lowercase: it is not a boolean`},
		{file(`"strip_accents": null`, `"strip_accents": "yes"`), tokenizer.ErrInvalid, `normalizer.strip_accents`},
		{file(`"clean_text": true, `, ``), tokenizer.ErrInvalid, `normalizer.clean_text: it is missing`},

		{preTokenizer(`{"type": "ByteLevel", "use_regex": true}`), tokenizer.ErrInvalid, `pre_tokenizer.add_prefix_space: it is missing`},
		{preTokenizer(`{"type": "Metaspace", "replacement": "ab"}`), tokenizer.ErrInvalid, `pre_tokenizer.replacement: it is not one character`},
		{preTokenizer(`{"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}`), tokenizer.ErrUnsupported, `pre_tokenizer.prepend_scheme: "last"`},
		{preTokenizer(`{"type": "Punctuation", "behavior": "isolated"}`), tokenizer.ErrUnsupported, `pre_tokenizer.behavior: "isolated"`},
		{preTokenizer(`{"type": "FixedLength", "length": 0}`), tokenizer.ErrInvalid, `pre_tokenizer.length: it is 0`},
		{preTokenizer(`{"type": "Digits"}`), tokenizer.ErrInvalid, `pre_tokenizer.individual_digits: it is missing`},
		{preTokenizer(`{"type": "CharDelimiterSplit", "delimiter": "ab"}`), tokenizer.ErrInvalid, `pre_tokenizer.delimiter`},
		{
			preTokenizer(`{"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Removed", "invert": false}`),
			tokenizer.ErrUnsupported, `pre_tokenizer.pattern: the regular expression "(a)\\1": the escape \1`,
		},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "(?<name>a)\\k<name>"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `the group (?<name>a`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "a{5000}"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `a repetition from 5000`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "((a{99}){99}){99}"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `too large`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "(a?)*"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `a repetition of what may match nothing`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "(?i)(?<=ß)"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `looking behind for`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "\\p{Klingon}"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `the class "klingon"`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "(?<=a+)b"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `looking behind`},
		{preTokenizer(`{"type": "Split", "pattern": {"Regex": "[a"}, "behavior": "Removed", "invert": false}`), tokenizer.ErrUnsupported, `a bracket too few`},
		{
			preTokenizer(`{"type": "Sequence", "pretokenizers": [{"type": "UnicodeBlocks"}]}`),
			tokenizer.ErrUnsupported, `pre_tokenizer.pretokenizers[0]: type "UnicodeBlocks"`,
		},
		{preTokenizer(nested("pretokenizers", 1000)), tokenizer.ErrUnsupported, `nested more than`},

		{file(template, `{"type": "ByteLevel",`), tokenizer.ErrInvalid, `post_processor.trim_offsets: it is missing`},
		{file(template, `{"type": "Sequence",`), tokenizer.ErrInvalid, `post_processor.processors: it is missing`},
		{file(template, `{"type": "Sequence", "processors": [`+around+`, `+around+`],`), tokenizer.ErrUnsupported, `post_processor.processors[1]: behind special tokens`},
		{file(template, `{"type": "Sequence", "processors": [`+around+`, {"type": "ByteLevel"}],`), tokenizer.ErrUnsupported, `processors[1]: behind special`},
		{file(template, `{"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]"],`), tokenizer.ErrInvalid, `post_processor.cls: it is not`},
		{file(`"ids": [1]`, `"ids": [1, 2]`), tokenizer.ErrInvalid, `post_processor.special_tokens.[CLS]: it has 2 ids and 1 tokens`},
		{file(`{"SpecialToken": {"id": "[CLS]"`, `{"SpecialToken": {"id": "[BOS]"`), tokenizer.ErrInvalid, `post_processor.single[0].SpecialToken.id: "[BOS]"`},
		{file(`[{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A"`, `[{"Sequence": {"id": "B"`), tokenizer.ErrInvalid, `post_processor.single[0].Sequence.id: "B"`},
		{file(`, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair"`, `], "pair"`), tokenizer.ErrUnsupported, `post_processor.single: a template without the text`},
		{file(`"pair"`, `"pairs"`), tokenizer.ErrInvalid, `post_processor.pair: it is missing`},

		{file(`{"type": "WordPiece", "prefix"`, `{"type": "Magic", "prefix"`), tokenizer.ErrUnsupported, `decoder: type "Magic"`},
		{file(`"lstrip": false, `, ``), tokenizer.ErrInvalid, `added_tokens[0].lstrip: it is missing`},
		{file(`"lstrip": false`, `"lstrip": false, "fuzzy": 1`), tokenizer.ErrUnsupported, `added_tokens[0]: field "fuzzy"`},
		{
			file(`"content": "[SEP]"`, `"content": "\u0301"`, `"normalized": false`, `"normalized": true`),
			tokenizer.ErrUnsupported, `is empty once it is normalized`,
		},
	}
	for _, tt := range tests {
		tok, err := tokenizer.Parse([]byte(tt.data))
		if tok != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%.60q ...\nerror %v\nwant %v: %s", tt.data, err, tt.is, tt.says)
		}
	}
}

func TestParseNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := tokenizer.Parse([]byte(file(bertNormalizer, `{"type": "X"}`, bertPreTokenzer, `{"type": "Y"}`, `"a": 3`, `"a": null`)))
	for _, part := range []string{`normalizer: type "X"`, `pre_tokenizer: type "Y"`, `model.vocab: the id of token "a"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
}

func TestTokensThatAreTheSameOnceNormalized(t *testing.T) {
	t.Parallel()
	token := func(content string) string {
		b, _ := json.Marshal(map[string]any{
			"id": 9, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false,
		})
		return string(b)
	}
	_, err := tokenizer.Parse([]byte(file(`"added_tokens": [`, `"added_tokens": [`+token("Foo")+","+token("FOO")+",")))
	if !errors.Is(err, tokenizer.ErrUnsupported) || !strings.Contains(err.Error(), "FOO") {
		t.Errorf("error %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := tokenizer.Load(filepath.Join(dir, "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"model": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokenizer.Load(bad); !errors.Is(err, tokenizer.ErrInvalid) || !strings.Contains(err.Error(), bad) {
		t.Errorf("bad file: %v", err)
	}
	if _, err := tokenizer.Load(dir); err == nil {
		t.Error("a folder is no file")
	}
}

func TestNormalizersThatBlowUp(t *testing.T) {
	t.Parallel()
	grow := strings.Repeat(`{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaa"}, `, 40)
	tok, err := tokenizer.Parse([]byte(file(bertNormalizer, `{"type": "Sequence", "normalizers": [`+grow+
		`{"type": "Replace", "pattern": {"String": "aaaaaaaa"}, "content": ""}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("b"); err != nil {
		t.Error(err)
	}
	_, err = tok.Encode("aa")
	var p interface{ Permanent() bool }
	if !errors.Is(err, tokenizer.ErrTextTooLarge) || !errors.As(err, &p) || !p.Permanent() {
		t.Errorf("error %v", err)
	}
}

func TestLimitWithTheTextTwice(t *testing.T) {
	t.Parallel()
	const text = `{"Sequence": {"id": "A", "type_id": 0}}`
	tok, err := tokenizer.Parse([]byte(file(text+`],`, text+`, `+text+`],`)))
	if err != nil {
		t.Fatal(err)
	}
	enc, err := tok.AppendEncode(tokenizer.Encoding{}, "a a a a", 6)
	if err != nil || !slices.Equal(enc.IDs, []int32{1, 3, 3, 3, 3}) {
		t.Errorf("%v, error %v", enc, err)
	}
}

func TestNoUnknownToken(t *testing.T) {
	t.Parallel()
	tok, err := tokenizer.Parse([]byte(file(`"[UNK]": 0, `, ``)))
	if err != nil {
		t.Fatal(err)
	}
	if enc, err := tok.Encode("ab"); err != nil || !slices.Equal(enc.IDs, []int32{1, 3, 4}) {
		t.Errorf("known word: %v, error %v", enc, err)
	}
	if enc, err := tok.Encode("ab zzz"); !errors.Is(err, tokenizer.ErrNoUnknownToken) || len(enc.IDs) != 0 {
		t.Errorf("unknown word: %v, error %v", enc, err)
	}
}
