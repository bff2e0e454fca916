package tokenizer_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

const minilm = "testdata/minilm/tokenizer.json"

func load(tb testing.TB, path string) *tokenizer.Tokenizer {
	tb.Helper()
	t, err := tokenizer.Load(path)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// lines decodes the lines of a file of JSON objects, which may be compressed.
func lines[T any](tb testing.TB, path string) (all []T) {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var file io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if file, err = gzip.NewReader(f); err != nil {
			tb.Fatal(err)
		}
	}
	in := bufio.NewScanner(file)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var v T
		if err := json.Unmarshal(in.Bytes(), &v); err != nil {
			tb.Fatal(err)
		}
		all = append(all, v)
	}
	if err := in.Err(); err != nil || len(all) == 0 {
		tb.Fatalf("%s: %d lines, error %v", path, len(all), err)
	}
	return all
}

// answer is what the original makes of a text, or of two, cut at a limit; without ids it has an error, and without offsets those of the
// original are wrong.
type answer struct {
	Text       string
	Pair       *string
	Limit      int
	Left       bool   // it is cut there
	Only       string // of a pair, what is cut; empty: the longer text first
	Short      bool   // the original says that it is too short to be cut
	IDs, Types []int32
	Offsets    [][2]int
}

func (a answer) encode(tok *tokenizer.Tokenizer) (tokenizer.Encoding, error) {
	if a.Left {
		tok = tok.CutLeft()
	}
	switch a.Only {
	case "only_first":
		tok = tok.CutFirst()
	case "only_second":
		tok = tok.CutSecond()
	}
	if a.Pair != nil {
		return tok.AppendEncodePair(tokenizer.Encoding{}, a.Text, *a.Pair, a.Limit)
	}
	return tok.AppendEncode(tokenizer.Encoding{}, a.Text, a.Limit)
}

func (a answer) compare(t *testing.T, tok *tokenizer.Tokenizer) {
	t.Helper()
	enc, err := a.encode(tok)
	switch {
	case a.Short:
		if err == nil || errors.Is(err, tokenizer.ErrNoUnknownToken) {
			t.Errorf("%q and %q in %d tokens, %s: ids %v, error %v", a.Text, *a.Pair, a.Limit, a.Only, enc.IDs, err)
		}
	case a.IDs == nil:
		if a.Limit > 0 && err == nil {
			return // what is wrong stands behind what is cut, where nothing looked
		}
		if !errors.Is(err, tokenizer.ErrNoUnknownToken) {
			t.Errorf("%q: ids %v, error %v; want ErrNoUnknownToken", a.Text, enc.IDs, err)
		}
	case err != nil:
		t.Errorf("%q: %v", a.Text, err)
	case !slices.Equal(enc.IDs, a.IDs):
		t.Errorf("%q: ids %v, want %v", a.Text, enc.IDs, a.IDs)
	case !slices.Equal(enc.TypeIDs, a.Types):
		t.Errorf("%q: type ids %v, want %v", a.Text, enc.TypeIDs, a.Types)
	case a.Offsets != nil && !slices.Equal(enc.Offsets, a.Offsets):
		t.Errorf("%q: offsets %v, want %v", a.Text, enc.Offsets, a.Offsets)
	}
}

func TestMiniLMGoldens(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	for _, a := range lines[answer](t, "testdata/minilm/goldens.jsonl") {
		enc, err := tok.Encode(a.Text)
		if err != nil || !slices.Equal(enc.IDs, a.IDs) {
			t.Errorf("%q: ids %v, error %v; want %v", a.Text, enc.IDs, err, a.IDs)
		}
	}
	for _, a := range lines[answer](t, "testdata/minilm/sentences.jsonl") {
		a.compare(t, tok)
	}
}

// TestCutOne: of two texts only one is cut, on the side that is asked for, or the error says why not.
func TestCutOne(t *testing.T) {
	t.Parallel()
	whole := load(t, minilm)
	encode := func(tok *tokenizer.Tokenizer, first, second string, limit int) []int32 {
		enc, err := tok.AppendEncodePair(tokenizer.Encoding{}, first, second, limit)
		if err != nil {
			t.Fatal(err)
		}
		return enc.IDs
	}
	for _, test := range []struct {
		tok           *tokenizer.Tokenizer
		first, second string // what is left of "red green blue" and "one two three"
		limit         int
	}{
		{whole.CutFirst(), "red green", "one two three", 8},
		{whole.CutSecond(), "red green blue", "one two", 8},
		{whole.CutLeft().CutSecond(), "red green blue", "three", 7},
		{whole.CutFirst().CutLeft(), "blue", "one two three", 7},
		{whole.CutFirst(), "red green blue", "one two three", 9},
	} {
		if got, want := encode(test.tok, "red green blue", "one two three", test.limit), encode(whole, test.first, test.second, 0); !slices.Equal(got, want) {
			t.Errorf("%d tokens: %v, want %v", test.limit, got, want)
		}
	}
	var p interface{ Permanent() bool }
	if _, err := whole.CutSecond().AppendEncodePair(tokenizer.Encoding{}, "red green blue", "one two three", 6); !errors.As(err, &p) || !p.Permanent() {
		t.Errorf("error %v", err)
	}
}

// golden is a tokenizer.json and what the original makes of texts with it.
type golden struct {
	Tokenizer json.RawMessage
	Texts     []answer
}

func (g golden) compare(t *testing.T) {
	t.Helper()
	tok, err := tokenizer.Parse(g.Tokenizer)
	if err != nil {
		t.Fatalf("%v: %.300s", err, g.Tokenizer)
	}
	for _, a := range g.Texts {
		a.compare(t, tok)
	}
	if t.Failed() {
		t.Fatalf("%.2000s", g.Tokenizer)
	}
}

// TestRandomTokenizers compares random texts under random files; see testdata/record_goldens.py.
func TestRandomTokenizers(t *testing.T) {
	t.Parallel()
	for _, g := range lines[golden](t, "testdata/random.jsonl.gz") {
		g.compare(t)
	}
}

// TestTrainedModels compares random texts and pairs under models that were trained; see testdata/record_models.py.
func TestTrainedModels(t *testing.T) {
	t.Parallel()
	for i, g := range lines[golden](t, "testdata/models.jsonl.gz") {
		t.Run(strconv.Itoa(i), func(t *testing.T) { g.compare(t) })
	}
}

// TestExpressions compares what texts are split into by regular expressions; see testdata/record_expressions.py.
func TestExpressions(t *testing.T) {
	t.Parallel()
	for i, g := range lines[golden](t, "testdata/expressions.jsonl.gz") {
		t.Run(strconv.Itoa(i), func(t *testing.T) { g.compare(t) })
	}
}

func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	tests := []struct {
		text    string
		like    string // the text that has the same ids
		offsets [][2]int
	}{
		{"caf\xe9", "caf", [][2]int{{0, 0}, {0, 3}, {0, 0}}},
		{"a\xffb", "ab", [][2]int{{0, 0}, {0, 3}, {0, 0}}},
		{"a \xe4\xb8 b", "a b", [][2]int{{0, 0}, {0, 1}, {5, 6}, {0, 0}}},
		{"\xff", "", [][2]int{{0, 0}, {0, 0}}},
		{"[CLS\xff]", "[CLS\ufffd]", [][2]int{{0, 0}, {0, 1}, {1, 3}, {3, 4}, {5, 6}, {0, 0}}},
	}
	for _, tt := range tests {
		got, err := tok.Encode(tt.text)
		want, err2 := tok.Encode(tt.like)
		if err != nil || err2 != nil || !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Offsets, tt.offsets) {
			t.Errorf("%q: %v, errors %v, %v; want the ids %v and offsets %v", tt.text, got, err, err2, want.IDs, tt.offsets)
		}
	}
}

func TestAppendEncode(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	const sentence = "unaffable [MASK] embeddings everywhere"
	whole, err := tok.Encode(sentence)
	if err != nil {
		t.Fatal(err)
	}
	last := len(whole.IDs) - 1
	prefix, _ := tok.Encode("before")
	for limit := 2; limit <= len(whole.IDs)+2; limit++ {
		dst, _ := tok.Encode("before")
		got, err := tok.AppendEncode(dst, sentence, limit)
		if err != nil {
			t.Fatal(err)
		}
		keep := min(limit-1, last)
		want := slices.Concat(prefix.IDs, whole.IDs[:keep], whole.IDs[last:])
		offsets := slices.Concat(prefix.Offsets, whole.Offsets[:keep], whole.Offsets[last:])
		if !slices.Equal(got.IDs, want) || !slices.Equal(got.Offsets, offsets) || len(got.TypeIDs) != len(want) {
			t.Errorf("limit %d: %v, want %v and %v", limit, got, want, offsets)
		}
	}
	got, err := tok.AppendEncode(prefix, sentence, 1)
	if err == nil || !slices.Equal(got.IDs, prefix.IDs) {
		t.Errorf("a limit below the special tokens: %v, error %v", got, err)
	}
}

func TestAppendEncodeAllocates(t *testing.T) {
	toks := []*tokenizer.Tokenizer{load(t, minilm)}
	for _, g := range lines[golden](t, "testdata/models.jsonl.gz") {
		tok, err := tokenizer.Parse(g.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		toks = append(toks, tok)
	}
	sentence := strings.Repeat("Unaffable cafés, 안녕하세요 世界 [MASK]! ", 100)
	for i, tok := range toks {
		dst, err := tok.Encode(sentence)
		if err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(20, func() {
			dst, err = tok.AppendEncode(tokenizer.Encoding{IDs: dst.IDs[:0], TypeIDs: dst.TypeIDs[:0], Offsets: dst.Offsets[:0]}, sentence, 0)
		})
		// None, but that a garbage collection, and the race detector at random, drop the buffers that are kept between calls.
		if err != nil || allocs > float64(len(dst.IDs)/20) {
			t.Errorf("tokenizer %d: %v allocations for %d tokens, error %v", i, allocs, len(dst.IDs), err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	answers := lines[answer](t, "testdata/minilm/sentences.jsonl")
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range answers {
				answers[(i*37+j)%len(answers)].compare(t, tok)
			}
		})
	}
	callers.Wait()
}

func TestID(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	for token, want := range map[string]int32{"[PAD]": 0, "[SEP]": 102, "hello": 7592, "##ing": 2075} {
		if id, ok := tok.ID(token); !ok || id != want {
			t.Errorf("%s: %d, %v; want %d", token, id, ok, want)
		}
	}
	for _, token := range []string{"", "no such token", "hel\xfflo"} {
		if id, ok := tok.ID(token); ok {
			t.Errorf("%q has the id %d", token, id)
		}
	}
}

// TestLongTextsTakeLinearTime counts no time: each of these texts would take many seconds if a step looked at all that came before.
func TestLongTextsTakeLinearTime(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	toks := []*tokenizer.Tokenizer{tok}
	for i, g := range lines[golden](t, "testdata/models.jsonl.gz") {
		if i == 0 || i == 2 || i == 6 || i == 8 { // of words of GPT-2 and of Llama, of the whole text as one word, and unigrams
			tok, err := tokenizer.Parse(g.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			toks = append(toks, tok)
		}
	}
	tok, err := tokenizer.Parse([]byte(file(`"added_tokens": [`, `"added_tokens": [
		{"id": 5, "content": " ", "single_word": false, "lstrip": false, "rstrip": true, "normalized": false, "special": false},`)))
	if err != nil {
		t.Fatal(err)
	}
	for i, tok := range append(toks, tok) {
		testLongTexts(t, i, tok)
	}
}

func testLongTexts(t *testing.T, i int, tok *tokenizer.Tokenizer) {
	t.Helper()
	for _, s := range []string{"a", "a ", "[", "[CLS]", "é", "e\u0301", "\u0316\u0300", "中", " ", ".", "\xff", "한", "İ", "1", "\r\n", "'"} {
		enc, err := tok.Encode(strings.Repeat(s, 100_000/len(s)))
		if err != nil || len(enc.IDs) == 0 && i == 0 {
			t.Errorf("tokenizer %d: %q: %d tokens, error %v", i, s, len(enc.IDs), err)
		}
	}
}
