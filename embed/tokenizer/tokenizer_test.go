package tokenizer_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
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

// lines decodes the lines of a file of JSON objects.
func lines[T any](tb testing.TB, path string) (all []T) {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
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

func TestMiniLMGoldens(t *testing.T) {
	t.Parallel()
	tok := load(t, minilm)
	for _, g := range lines[struct {
		Text string
		IDs  []int32
	}](t, "testdata/minilm/goldens.jsonl") {
		enc, err := tok.Encode(g.Text)
		if err != nil || !slices.Equal(enc.IDs, g.IDs) {
			t.Errorf("%q: ids %v, error %v; want %v", g.Text, enc.IDs, err, g.IDs)
		}
	}
}
