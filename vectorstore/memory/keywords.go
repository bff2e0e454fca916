package memory

import (
	"math"
	"slices"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// keywords returns the objects that have one of the words of a query's Text, with their scores by BM25 as Weaviate has it: the sum over
// the properties, each by its weight, of what each word adds. It needs s.mu.
func (s *Store) keywords(q vectorstore.Query, matches func(*entry) bool) []candidate {
	wanted, counts := vectorstore.WordTokenization.Wanted(q.Text)
	properties, _ := q.TextProperties() // which Check has seen
	weights := map[string]float64{}
	for _, p := range properties {
		weights[p.Name] = p.Weight
	}
	objects, fields := 0, map[string]*field{}
	for _, e := range s.objects {
		if e.Tenant != q.Tenant || e.Deleted {
			continue
		}
		objects++
		for name, v := range e.Properties {
			weight, named := weights[name]
			if len(weights) == 0 {
				weight = 1
			} else if !named {
				continue
			}
			if fields[name] == nil {
				fields[name] = &field{weight: weight, with: make([]int, len(wanted))}
			}
			fields[name].add(e, vectorstore.WordTokenization.Words(v), wanted)
		}
	}
	rarities := rarities(objects, counts, fields)
	scores := map[*entry]float64{}
	for _, f := range fields {
		f.score(rarities, scores)
	}
	var out []candidate
	for e, score := range scores {
		if matches(e) {
			out = append(out, candidate{entry: e, score: float64(float32(score))}) // so that what differs by rounding is equal
		}
	}
	return out
}

// rarities returns how rare each wanted word is, by how many objects have it in the mean of the properties that it is in.
func rarities(objects int, counts []int, fields map[string]*field) []float64 {
	out := make([]float64, len(counts))
	for i, count := range counts {
		with, in := 0, 0
		for _, f := range fields {
			if f.with[i] > 0 {
				with, in = with+f.with[i], in+1
			}
		}
		mean := float64(with / max(in, 1))
		out[i] = float64(count) * math.Log(1+(float64(objects)-mean+0.5)/(mean+0.5))
	}
	return out
}

// field is what BM25 needs of a property.
type field struct {
	weight float64
	length int    // words in all
	count  int    // objects that have words
	texts  []text // of objects that have a wanted word
	with   []int  // objects that have each wanted word
}

type text struct {
	*entry
	length int
	counts []int // of each wanted word
}

func (f *field) add(e *entry, words, wanted []string) {
	if len(words) == 0 {
		return
	}
	f.length += len(words)
	f.count++
	counts, has := make([]int, len(wanted)), false
	for _, word := range words {
		if i, found := slices.BinarySearch(wanted, word); found {
			if counts[i] == 0 {
				f.with[i]++
			}
			counts[i]++
			has = true
		}
	}
	if has {
		f.texts = append(f.texts, text{e, len(words), counts})
	}
}

func (f *field) score(rarities []float64, scores map[*entry]float64) {
	const k1, b = vectorstore.BM25K1, vectorstore.BM25B
	mean := float64(f.length) / float64(f.count)
	for _, t := range f.texts {
		for i, n := range t.counts {
			often := float64(n) / (float64(n) + k1*(1-b+b*float64(t.length)/mean))
			scores[t.entry] += f.weight * rarities[i] * often
		}
	}
}
