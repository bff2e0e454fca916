package memory

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// The constants of BM25, as they are usually set.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// keywords returns the objects that have one of the words of a query's Text, with their scores by BM25: the sum over the
// properties, each by its weight. Words are what lies between anything but letters and digits, in lower case. It needs s.mu.
func (s *Store) keywords(q vectorstore.Query, matches func(*entry) bool) []candidate {
	wanted := words(q.Text)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	weights := weights(q.Properties)
	fields := map[string]*field{}
	for _, e := range s.objects {
		if e.Tenant != q.Tenant || e.Deleted {
			continue
		}
		for name, v := range e.Properties {
			if weight := weights(name); weight > 0 {
				if fields[name] == nil {
					fields[name] = &field{weight: weight, with: make([]int, len(wanted))}
				}
				fields[name].add(e, v, wanted)
			}
		}
	}
	scores := map[*entry]float64{}
	for _, f := range fields {
		f.score(scores)
	}
	var out []candidate
	for e, score := range scores {
		if matches(e) {
			out = append(out, candidate{entry: e, score: score})
		}
	}
	return out
}

// weights returns the weight of a property; all have 1 where none is named.
func weights(properties []string) func(name string) float64 {
	if len(properties) == 0 {
		return func(string) float64 { return 1 }
	}
	named := map[string]float64{}
	for _, p := range properties {
		name, boost, _ := strings.Cut(p, "^")
		weight, err := strconv.ParseFloat(boost, 64)
		if err != nil {
			weight = 1
		}
		named[name] = weight
	}
	return func(name string) float64 { return named[name] }
}

// field is what BM25 needs of a property.
type field struct {
	weight float64
	length int    // words in all
	texts  []text // of objects that have a wanted word
	count  int    // objects that have the property
	with   []int  // objects that have each wanted word
}

type text struct {
	*entry
	length int
	counts []int // of each wanted word
}

func (f *field) add(e *entry, v any, wanted []string) {
	var list []string
	switch v := v.(type) {
	case string:
		list = words(v)
	case []string:
		list = words(strings.Join(v, " "))
	default:
		return
	}
	f.length += len(list)
	f.count++
	counts, has := make([]int, len(wanted)), false
	for _, word := range list {
		if i, found := slices.BinarySearch(wanted, word); found {
			if counts[i] == 0 {
				f.with[i]++
			}
			counts[i]++
			has = true
		}
	}
	if has {
		f.texts = append(f.texts, text{e, len(list), counts})
	}
}

func (f *field) score(scores map[*entry]float64) {
	mean := float64(f.length) / float64(f.count)
	for _, t := range f.texts {
		for i, n := range t.counts {
			if n == 0 {
				continue
			}
			rarity := math.Log(1 + (float64(f.count-f.with[i])+0.5)/(float64(f.with[i])+0.5))
			often := float64(n) * (bm25K1 + 1) / (float64(n) + bm25K1*(1-bm25B+bm25B*float64(t.length)/mean))
			scores[t.entry] += f.weight * rarity * often
		}
	}
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}
