//nolint:thelper // these functions are the tests
package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

const (
	randomObjects = 60
	randomQueries = 400
)

// randomTimes is how many times as many queries and values the suite makes at random, others for each number: STORETEST_RANDOM_TIMES.
func randomTimes(t *testing.T) int {
	t.Helper()
	times, err := strconv.Atoi(cmp.Or(os.Getenv("STORETEST_RANDOM_TIMES"), "1"))
	if err != nil || times < 1 {
		t.Fatalf("STORETEST_RANDOM_TIMES is %q, must be a number of at least 1", os.Getenv("STORETEST_RANDOM_TIMES"))
	}
	return times
}

// queryRandom asks the store and the one in memory, which compares everything, the same: random filters, alone and with what is near, for
// keywords, and for both, in pages and in groups.
func queryRandom(t *testing.T, s vectorstore.Store) {
	times := randomTimes(t)
	r := random{rand.New(rand.NewPCG(uint64(times), 2))}
	_, err := s.Search(t.Context(), vectorstore.Query{Vector: MultiVector, NearMulti: r.vectors(1)})
	multi := !errors.Is(err, vectorstore.ErrUnsupported)
	var m []vectorstore.Mutation
	for n := 1; n <= randomObjects; n++ {
		o := r.object(n)
		if multi && r.IntN(3) > 0 {
			o.MultiVectors = map[string][][]float32{MultiVector: r.vectors(1 + r.IntN(2))}
		}
		m = append(m, upsert(o))
	}
	exact := memory.New()
	apply(t, exact, m...)
	apply(t, s, m...)
	unsupported := 0
	for range randomQueries * times {
		q := r.query(multi)
		want := search(t, exact, q)
		got, err := s.Search(t.Context(), q)
		if errors.Is(err, vectorstore.ErrUnsupported) {
			unsupported++
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if !sameMatches(got, want, q) {
			t.Fatalf("%+v:\nfound %v\nwant  %v", q, described(got), described(want))
		}
	}
	t.Logf("%d of %d queries are not supported", unsupported, randomQueries*times)
}

// random makes objects and queries. Its texts are words of small letters, which are the same to a store that cuts texts into words.
type random struct{ *rand.Rand }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) text() string {
	return pick(r, "red", "green", "blue", "tent", "tents", "mug", "x1", "zebra", "grün")
}

// sentence returns words of the kinds that are cut and compared in different ways.
func (r random) sentence() string {
	words := make([]string, r.IntN(12))
	for i := range words {
		words[i] = pick(r, r.text(), r.text(), "Red", "TENT", "the", "to", "a", "GRÜN", "x-1", "tent/mug", "it's", "İstanbul", "日本", "...", "4.5")
	}
	return strings.Join(words, pick(r, " ", ", ", "\t\n"))
}

// filterable returns the properties that filters compare.
func filterable() []Property { return Properties()[:6] }

// value returns one of few values, so that many are equal.
func (r random) value(kind string) any {
	switch kind {
	case "int":
		return pick[int64](r, 0, 1, -1, 2, 3, math.MaxInt32, -1<<40, 1<<53, -1<<53)
	case "number":
		return pick(r, 0, math.Copysign(0, -1), 1, -1, 0.1, 0.5, 3, 1e16, 1e300, -1e300, 5e-324, math.MaxFloat64)
	case "bool":
		return pick(r, true, false)
	case "date":
		day := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
		return pick(r, day, day.In(time.FixedZone("", -7200)), day.Add(1), day.Add(time.Microsecond), day.AddDate(0, 0, 1), time.Unix(-1, 0))
	}
	return r.text()
}

// held returns any value that every store holds.
func (r random) held(kind string) any {
	switch kind {
	case "int":
		return r.Int64N(1<<53) >> r.IntN(53) * pick[int64](r, 1, -1)
	case "number":
		for {
			if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f
			}
		}
	case "date":
		first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
		return time.UnixMicro(first.UnixMicro() + r.Int64N(last.UnixMicro()-first.UnixMicro())).UTC()
	case "bool":
		return r.IntN(2) == 0
	case "text[]":
		return []string{r.anyText(), r.anyText(), r.anyText()}[:1+r.IntN(3)]
	}
	return r.anyText()
}

func (r random) anyText() string {
	letters := make([]rune, r.IntN(12))
	for i := range letters {
		letters[i] = 1 + r.Int32N(pick[int32](r, 0x7f, 0xff, 0xd7ff, unicode.MaxRune))
		if !utf8.ValidRune(letters[i]) {
			letters[i] = '\''
		}
	}
	return string(letters)
}

func (r random) vector(dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// vectors returns a multi-vector.
func (r random) vectors(n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = r.vector(MultiDimensions)
	}
	return out
}

// object lacks some of the properties and vectors.
func (r random) object(n int) vectorstore.Object {
	o := vectorstore.Object{Ref: ref(n), Properties: map[string]any{}, Vectors: map[string][]float32{}}
	for _, p := range Properties() {
		if r.IntN(5) > 0 {
			o.Properties[p.Name] = r.value(p.Type)
		}
		if p.Name == "body" && o.Properties[p.Name] != nil {
			o.Properties[p.Name] = r.sentence()
		}
		if p.Type == "text[]" && o.Properties[p.Name] != nil {
			o.Properties[p.Name] = []string{r.text(), r.text(), r.text()}[:r.IntN(4)]
		}
	}
	if r.IntN(6) > 0 {
		o.Vectors[TextVector] = r.vector(TextDimensions)
	}
	if r.IntN(3) > 0 {
		o.Vectors[ImageVector] = r.vector(ImageDimensions)
	}
	return o
}

func (r random) filter(depth int) vectorstore.Filter {
	if depth < 3 && r.IntN(2) == 0 {
		parts := []vectorstore.Filter{r.filter(depth + 1), r.filter(depth + 1), r.filter(depth + 1)}[:1+r.IntN(3)]
		if r.IntN(4) == 0 {
			return vectorstore.Not(parts[0])
		}
		return pick(r, vectorstore.And, vectorstore.Or)(parts...)
	}
	p := pick(r, filterable()...)
	one := r.value(p.Type)
	list := []any{one, r.value(p.Type), r.value(p.Type)}[:1+r.IntN(3)]
	switch compare := pick(r, vectorstore.Equal, vectorstore.NotEqual, vectorstore.Less, vectorstore.LessOrEqual, vectorstore.Greater,
		vectorstore.GreaterOrEqual); r.IntN(11) {
	case 0:
		return vectorstore.Like(pick(r, "title", "tags"), pick(r, "*", "t*", "*t*", "?e*", "ten?", "???", "b*e", "gr?n"))
	case 1, 2:
		return vectorstore.ContainsAny(p.Name, list)
	case 3:
		return vectorstore.ContainsAll(p.Name, list)
	case 4:
		return vectorstore.IDs(ref(r.IntN(2*randomObjects)).ID, ref(r.IntN(randomObjects)).ID, ref(r.IntN(randomObjects)).ID)
	case 5:
		return vectorstore.IsNull(pick(r, Properties()...).Name)
	default:
		return compare(p.Name, one)
	}
}

// query returns one that may look near multi-vectors too.
func (r random) query(multi bool) vectorstore.Query {
	q := vectorstore.Query{Limit: 2 * randomObjects, Filter: r.filter(0)}
	text, image := r.vector(TextDimensions), r.vector(ImageDimensions)
	switch r.IntN(6) {
	case 0:
		return q
	case 1:
		q.After, q.Limit = ref(r.IntN(randomObjects)).ID, 1+r.IntN(20)
		return q
	case 2:
		q.Targets = []vectorstore.Target{
			{Vector: TextVector, Near: text, Weight: r.Float32()}, {Vector: ImageVector, Near: image, Weight: r.Float32()},
		}
		q.Combine = vectorstore.Combination(r.IntN(5))
	case 3:
		q.Vector, q.Near = ImageVector, image
	case 4:
		q.Text = cmp.Or(r.sentence(), "tent")
	default:
		q.Vector, q.Near = TextVector, text
		if multi && r.IntN(3) == 0 {
			q.Vector, q.Near, q.NearMulti = MultiVector, nil, r.vectors(1+r.IntN(3))
		}
	}
	if q.Text == "" && r.IntN(4) == 0 {
		q.Text, q.Alpha, q.RankedFusion = r.sentence(), float64(r.IntN(5))/4, r.IntN(2) == 0
	}
	if q.Text != "" && r.IntN(2) == 0 {
		q.Properties = []string{"tags", "title^2.0", "body^0.5"}[:1+r.IntN(3)]
	}
	q.Limit, q.Offset = r.page(q)
	if r.IntN(3) == 0 {
		q.MaxDistance = 2 * r.Float64()
	}
	if q.Text == "" && r.IntN(4) == 0 { // of as good ones, those come first that the store likes
		q.GroupBy = vectorstore.GroupBy{Property: pick(r, Properties()...).Name, Groups: 1 + r.IntN(4), Each: 1 + r.IntN(3)}
	}
	if r.IntN(4) == 0 {
		q.Filter = vectorstore.Filter{}
	}
	return q
}

// page returns a Limit and Offset.
func (r random) page(q vectorstore.Query) (limit, offset int) {
	// A store with an index may combine, of several vectors or properties, only what it finds by each up to the Limit; and where more than
	// that have the words, Weaviate v1.35 misses some of the best.
	switch page := r.IntN(2) == 0; {
	case page && q.Text != "":
		return randomObjects - 10 + r.IntN(10), r.IntN(20)
	case page && len(q.Targets) == 0 && q.Vector != MultiVector:
		return 1 + r.IntN(20), r.IntN(20)
	}
	return q.Limit, 0
}

// sameMatches compares what was found, in order where it is by distance, score or id. Distances and scores may differ by what float32
// does to them, those by ranks also by the ranks that objects with as good texts may change, and matches as good may come in any order.
func sameMatches(got, want []vectorstore.Match, q vectorstore.Query) bool {
	if len(q.NearTargets()) == 0 && q.Text == "" {
		return slices.Equal(sorted(got), sorted(want))
	}
	scores := 1e-4
	if q.RankedFusion {
		scores = 0.2
		if q.Limit > randomObjects && !slices.Equal(sorted(got), sorted(want)) {
			return false
		}
	}
	return slices.EqualFunc(got, want, func(a, b vectorstore.Match) bool {
		apart := math.Abs(float64(a.Distance - b.Distance))
		return a.Group == b.Group && (apart < 1e-6 || apart < 1e-4 && a.Object.ID == b.Object.ID) &&
			math.Abs(float64(a.Score-b.Score)) <= scores*float64(b.Score)+1e-6
	})
}

func described(matches []vectorstore.Match) (out []string) {
	for _, m := range matches {
		out = append(out, fmt.Sprintf("%s %g %g %q", m.Object.ID, m.Distance, m.Score, m.Group))
	}
	return out
}
