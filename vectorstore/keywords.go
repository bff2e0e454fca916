package vectorstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The constants of BM25, as Weaviate and most others have them.
const (
	BM25K1 = 1.2
	BM25B  = 0.75
)

// Tokenization is a way to cut texts into the words that a [Query].Text is compared with. Names and rules are Weaviate's.
type Tokenization string

// The ways to cut a text.
const (
	WordTokenization       Tokenization = "word"       // runs of letters and digits, in lower case
	LowercaseTokenization  Tokenization = "lowercase"  // what is between white space, in lower case
	WhitespaceTokenization Tokenization = "whitespace" // what is between white space
	FieldTokenization      Tokenization = "field"      // the whole text, without white space around it
	TrigramTokenization    Tokenization = "trigram"    // each three letters and digits in a row, in lower case, whatever is between
)

// stopWords are dropped from a Query's Text where words are compared, and from no stored text.
var stopWords = strings.Fields("a an and are as at be but by for if in into is it no not of on or such that the their then there these " +
	"they this to was will with")

// Words returns the words of a property's value, a text or list of texts as [Value] returns it; nil for any other. It is for those who
// write a [Store].
func (t Tokenization) Words(v any) []string {
	switch v := v.(type) {
	case string:
		return t.cut(v)
	case []string:
		var words []string
		for _, text := range v {
			words = append(words, t.cut(text)...)
		}
		return words
	}
	return nil
}

func (t Tokenization) cut(text string) []string {
	switch t {
	case FieldTokenization:
		return []string{strings.TrimFunc(text, unicode.IsSpace)}
	case WhitespaceTokenization:
		return strings.FieldsFunc(text, unicode.IsSpace)
	case LowercaseTokenization:
		return lower(strings.FieldsFunc(text, unicode.IsSpace))
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if t != TrigramTokenization {
		return lower(words)
	}
	letters := []rune(strings.ToLower(strings.Join(words, "")))
	words = nil
	for i := 0; i+3 <= len(letters); i++ {
		words = append(words, string(letters[i:i+3]))
	}
	return words
}

func lower(words []string) []string {
	for i, word := range words {
		words[i] = strings.ToLower(word)
	}
	return words
}

// Wanted returns the words of a [Query].Text, sorted, each once, and how often each is there. Of [WordTokenization], they are without
// English stop words, as with Weaviate unless its collection has others. It is for those who write a [Store].
func (t Tokenization) Wanted(text string) (words []string, counts []int) {
	times := map[string]int{}
	for _, word := range t.cut(text) {
		if t != WordTokenization || !slices.Contains(stopWords, word) {
			times[word]++
		}
	}
	words = slices.Sorted(maps.Keys(times))
	for _, word := range words {
		counts = append(counts, times[word])
	}
	return words, counts
}

// TextProperty is a property that a [Query].Text is searched for in.
type TextProperty struct {
	Name   string
	Weight float64
}

// The bounds of the weights of properties: beyond, stores take them for others, or cannot count with them.
const (
	minTextWeight = 1e-3
	maxTextWeight = 1e12
)

// TextProperties returns the Properties of a query with their weights, or a permanent error that is [ErrQuery] where one of these is no
// number from 0.001 to 1e12, or a name is empty or there twice. It is for those who write a [Store].
func (q Query) TextProperties() ([]TextProperty, error) {
	out := make([]TextProperty, len(q.Properties))
	for i, p := range q.Properties {
		name, weight, weighted := strings.Cut(p, "^")
		out[i] = TextProperty{name, 1}
		if weighted {
			w, err := strconv.ParseFloat(weight, 64)
			if out[i].Weight = w; err != nil || !(w >= minTextWeight && w <= maxTextWeight) {
				return nil, queryError("the weight of property %.64q is no number from 0.001 to 1e12", p)
			}
		}
		if name == "" || slices.ContainsFunc(out[:i], func(other TextProperty) bool { return other.Name == name }) {
			return nil, queryError("property %.64q is empty or there twice", p)
		}
	}
	return out, nil
}

// hybridDepth is how many of the nearest, and of those with the keywords, a hybrid search looks at, at least.
const hybridDepth = 100

// HybridDepth returns how many of the nearest objects, and of those with the keywords, a hybrid search makes one list of. It is for those
// who write a [Store].
func (q Query) HybridDepth() int {
	return max(hybridDepth, cmp.Or(q.Limit, DefaultLimit)+q.Offset)
}

// Fuse makes the list of a hybrid search, the best first, of the nearest objects and of those with the keywords, both the best first, of
// which it takes [Query].HybridDepth. Ties come in the order of the ids. It is for those who write a [Store].
func Fuse(q Query, near, keywords []Match) []Match {
	near, keywords = near[:min(len(near), q.HybridDepth())], keywords[:min(len(keywords), q.HybridDepth())]
	alpha := cmp.Or(q.Alpha, DefaultAlpha)
	if alpha == 1 {
		keywords = nil
	}
	var out []Match
	places := map[ID]int{}
	add := func(list []Match, weight float64, of func(Match) float32) {
		for i, m := range list {
			place, there := places[m.Object.ID]
			if !there {
				place, places[m.Object.ID] = len(out), len(out)
				out = append(out, Match{Object: m.Object})
			}
			out[place].Score += float32(weight * part(q.RankedFusion, i, of(m), of(list[0]), of(list[len(list)-1])))
		}
	}
	add(near, alpha, func(m Match) float32 { return -m.Distance })
	add(keywords, 1-alpha, func(m Match) float32 { return m.Score })
	slices.SortFunc(out, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(string(a.Object.ID), string(b.Object.ID)))
	})
	return out
}

// part is what a place in a list adds: by its rank, or its score as a part of the way from the last to the best, 1 where all are as good.
func part(ranked bool, i int, score, best, last float32) float64 {
	const ranks = 60 // as is usual, so that the first ranks do not decide alone
	switch {
	case ranked:
		return 1 / float64(ranks+i)
	case best == last:
		return 1
	}
	return float64(score-last) / float64(best-last)
}
