package vectorstore_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
)

func TestTokenization(t *testing.T) {
	t.Parallel()
	const text = " It's the RED tent-mug, Größe ４2 naïve\u00a0日本! "
	for cut, want := range map[vectorstore.Tokenization]string{
		vectorstore.WordTokenization:       "it|s|the|red|tent|mug|größe|４2|naïve|日本",
		vectorstore.LowercaseTokenization:  "it's|the|red|tent-mug,|größe|４2|naïve|日本!",
		vectorstore.WhitespaceTokenization: "It's|the|RED|tent-mug,|Größe|４2|naïve|日本!",
		vectorstore.FieldTokenization:      "It's the RED tent-mug, Größe ４2 naïve\u00a0日本!",
	} {
		if got := strings.Join(cut.Words(text), "|"); got != want {
			t.Errorf("%s: %q, want %q", cut, got, want)
		}
	}
	if got := vectorstore.TrigramTokenization.Words([]string{"A-b c", "日本語x", "no"}); !slices.Equal(got, []string{"abc", "日本語", "本語x"}) {
		t.Errorf("trigrams: %q", got)
	}
	for _, v := range []any{nil, 7, []int64{1}, true, map[string]any{}} {
		if got := vectorstore.WordTokenization.Words(v); got != nil {
			t.Errorf("%v has the words %q", v, got)
		}
	}
	words, counts := vectorstore.WordTokenization.Wanted("To be or NOT to be: the Question, a question")
	if !slices.Equal(words, []string{"question"}) || !slices.Equal(counts, []int{2}) {
		t.Errorf("wanted %q %v", words, counts)
	}
	words, counts = vectorstore.LowercaseTokenization.Wanted("The tent the")
	if !slices.Equal(words, []string{"tent", "the"}) || !slices.Equal(counts, []int{1, 2}) {
		t.Errorf("wanted %q %v", words, counts)
	}
}

func TestTextProperties(t *testing.T) {
	t.Parallel()
	got, err := vectorstore.Query{Text: "a", Properties: []string{"title^2", "body", "tags^0.25", "code^1e12", "note^1e-3"}}.TextProperties()
	if want := []vectorstore.TextProperty{{"title", 2}, {"body", 1}, {"tags", 0.25}, {"code", 1e12}, {"note", 0.001}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, error %v", got, err)
	}
	for _, bad := range []string{
		"", "^2", "a^", "a^x", "a^0", "a^-1", "a^NaN", "a^Inf", "a^1e999", "a^1.1e12", "a^9223372036854775808", "a^0.0009", "a^1e-60",
		"a a^2", "a^2^3",
	} {
		if err := (vectorstore.Query{Text: "a", Properties: strings.Split(bad, " ")}).Check(); !errors.Is(err, vectorstore.ErrQuery) {
			t.Errorf("%q: error %v, want ErrQuery", bad, err)
		}
	}
}

func TestFuse(t *testing.T) {
	t.Parallel()
	match := func(id vectorstore.ID, distance, score float32) vectorstore.Match {
		return vectorstore.Match{Object: vectorstore.Object{Ref: vectorstore.Ref{ID: id}}, Distance: distance, Score: score}
	}
	near := []vectorstore.Match{match("a", 0.1, 0), match("b", 0.2, 0), match("c", 0.5, 0)}
	keywords := []vectorstore.Match{match("c", 0, 8), match("d", 0, 8), match("b", 0, 2)}
	one := []vectorstore.Match{match("z", 1.5, 0)}
	for name, tt := range map[string]struct {
		q              vectorstore.Query
		near, keywords []vectorstore.Match
		want           []vectorstore.ID
		scores         []float32
	}{
		"scores":      {vectorstore.Query{Alpha: 0.5}, near, keywords, []vectorstore.ID{"a", "c", "d", "b"}, []float32{0.5, 0.5, 0.5, 0.375}},
		"default":     {vectorstore.Query{}, near, keywords, []vectorstore.ID{"a", "b", "c", "d"}, []float32{0.75, 0.5625, 0.25, 0.25}},
		"ranks":       {vectorstore.Query{Alpha: 0.5, RankedFusion: true}, near[:2], keywords[1:], []vectorstore.ID{"b", "a", "d"}, []float32{1. / 61, 0.5 / 60, 0.5 / 60}},
		"by vector":   {vectorstore.Query{Alpha: 1}, near[:2], keywords, []vectorstore.ID{"a", "b"}, []float32{1, 0}},
		"all as good": {vectorstore.Query{}, one, nil, []vectorstore.ID{"z"}, []float32{0.75}},
		"nothing":     {vectorstore.Query{}, nil, nil, nil, nil},
	} {
		got := vectorstore.Fuse(tt.q, tt.near, tt.keywords)
		for i, m := range got {
			if i >= len(tt.want) || m.Object.ID != tt.want[i] || math.Abs(float64(m.Score-tt.scores[i])) > 1e-6 || m.Distance != 0 {
				t.Errorf("%s: match %d is %s %v %v", name, i, m.Object.ID, m.Score, m.Distance)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d matches, want %d", name, len(got), len(tt.want))
		}
	}
	deep := make([]vectorstore.Match, 150)
	for i := range deep {
		deep[i] = match(vectorstore.ID(strings.Repeat("x", i)), float32(i), 0)
	}
	for q, want := range map[*vectorstore.Query]int{{}: 100, {Limit: 50, Offset: 60}: 110, {Limit: 1000}: 150} {
		if got := vectorstore.Fuse(*q, deep, nil); len(got) != want {
			t.Errorf("of %d and %d: %d matches, want %d", q.Limit, q.Offset, len(got), want)
		}
	}
}
