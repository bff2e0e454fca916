package vectorstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Query asks a [Store] for objects. It looks near vectors (Near, NearMulti or Targets), near an object (Object), for keywords (Text), or
// both near vectors and for keywords (a hybrid search); or it lists what a Filter is true of, or everything page by page
// (After). A Filter goes with all of them; what it lists by itself comes in no order that is promised, so that After is the way to
// page through it.
//
// A Store that cannot answer some part says so: the error is then [ErrUnsupported] and names the part. A Query that nobody can
// answer is [ErrQuery], [ErrVector] or [ErrValue]. All of these are permanent.
type Query struct {
	// Tenant is the one to search, where the store has some.
	Tenant string

	// Vector is the name of the vector to compare with Near, or with the vector that Object has under that name. Objects
	// without it are not found.
	Vector string
	// Near is the vector to look around. It must be finite, not all zero, and as long as the stored vectors of that
	// name.
	Near []float32
	// NearMulti are the vectors to look around, in place of Near, where Vector names one of [Object].MultiVectors: say one for each
	// token of a question. An object is as far away as the sum, over these, of the cosine distances to the nearest one of its own
	// (late interaction, by the sum of greatest similarities, MaxSim). A Store that has no such lists says [ErrUnsupported].
	NearMulti [][]float32
	// Targets are several vectors to look around, in place of Vector and Near, each name once. Combine says how their distances
	// become one. Only objects that have all of them are found; with [Minimum], those that have any.
	Targets []Target
	// Object looks around the vectors of an object of the store, which is found too: its vector Vector, or those that Targets
	// name, or its only one. An object that is not there, or lacks the vector, is an error.
	Object ID
	// Combine makes one distance of several. Default: [Minimum].
	Combine Combination
	// MaxDistance leaves out what is farther away. Default: nothing.
	MaxDistance float64

	// Text is searched for by keywords (BM25): objects with any of its words are found, in the properties Properties, of which each may
	// have a weight, from 0.001 to 1e12 ("title^2"). Default: all texts that are in an index for it. [Tokenization] says what words are.
	Text       string
	Properties []string
	// Alpha is the weight of the vectors in a hybrid search, above 0 and at most 1. Default 0.75.
	Alpha float64
	// RankedFusion makes a hybrid search add the ranks that objects have by vector and by text. Default: their scores, each
	// scaled to 0 to 1. It looks at the 100 best of each, or as many as Limit and Offset together; MaxDistance bounds what is found by
	// vector alone.
	RankedFusion bool

	// Filter says which objects count.
	Filter Filter
	// After lists the objects that come after an id, in the order of the ids: from [First] on, and then from the last of the
	// page before. [All] does it to the end, without a Filter. Nothing but Tenant, Filter, Limit and WithVectors goes with it.
	After ID
	// GroupBy puts together what is found, by a property.
	GroupBy GroupBy
	// Limit is the largest number of matches, 10 when zero. Offset is how many are left out before.
	Limit, Offset int
	// Autocut ends the matches after so many jumps of the distance or score. Default: none.
	Autocut int
	// WithVectors returns the vectors of the objects too.
	WithVectors bool
}

// DefaultLimit is the largest number of matches of a [Query] whose Limit is zero.
const DefaultLimit = 10

// DefaultAlpha is the weight of the vectors in a hybrid [Query] whose Alpha is zero.
const DefaultAlpha = 0.75

// First is the id after which [Query].After begins: no object has it.
const First ID = "00000000-0000-0000-0000-000000000000"

// Target is one of several vectors to look around.
type Target struct {
	// Vector is the name of the vector to compare with Near.
	Vector string
	// Near is the vector to look around, NearMulti the vectors where the name is one of [Object].MultiVectors. Both are empty where
	// [Query].Object has them.
	Near      []float32
	NearMulti [][]float32
	// Weight is its part in [WeightedSum] and [RelativeScore], more than 0. Default 1.
	Weight float32
}

// Combination makes one distance of the distances to several vectors.
type Combination int

// The combinations: the least distance, the sum, the mean, the sum after Weight, and the sum after Weight of distances that
// are scaled to 0 to 1 among those found (1 each, where all are equal).
const (
	Minimum Combination = iota
	Sum
	Average
	WeightedSum
	RelativeScore
)

// GroupBy puts matches together that have the same value of a property. The zero GroupBy does not.
type GroupBy struct {
	// Property is the one whose values are compared. A list puts its object into a group for each of its items.
	Property string
	// Groups is how many there are at most, Each how many matches each has at most; both at least 1. Query.Limit says of how
	// many matches they are made.
	Groups, Each int
}

// Match is one answer to a [Query], the best first. With GroupBy, the matches of a group come together, and the groups in the
// order of their best ones.
type Match struct {
	// Object is what was found. A Store may leave its Vectors out unless Query.WithVectors asks for them.
	Object Object
	// Distance is the distance of searches near vectors or an object, less is nearer: the cosine distance, 0 (same direction) to
	// 2 (opposite), unless the Store has been told to measure otherwise, the sum of such distances for NearMulti, and what Combine
	// makes of several.
	Distance float32
	// Score is that of keyword and hybrid searches; more is better. Scores of different queries do not compare.
	Score float32
	// Group is the value that the group has in common, as text. Empty without GroupBy, and for objects without the property.
	Group string
}

// NearTargets returns Targets, or the one target that Vector and Near are, each with its Weight; none where the query names no
// vectors. It is for those who write a [Store].
func (q Query) NearTargets() []Target {
	targets := slices.Clone(q.Targets)
	if len(targets) == 0 && q.single() {
		targets = []Target{{Vector: q.Vector, Near: q.Near, NearMulti: q.NearMulti}}
	}
	for i := range targets {
		targets[i].Weight = cmp.Or(targets[i].Weight, 1)
	}
	return targets
}

// single reports whether the query says anything of one vector by itself, without Targets.
func (q Query) single() bool { return q.Vector != "" || len(q.Near) > 0 || len(q.NearMulti) > 0 }

// ObjectTargets returns the targets of a query by an Object, with the vectors of that object, nil where there is none. It is for those
// who write a [Store].
func ObjectTargets(q Query, o *Object) ([]Target, error) {
	if o == nil || o.Deleted {
		return nil, queryError("there is no object %s", q.Object)
	}
	targets := q.NearTargets()
	names := slices.AppendSeq(slices.Collect(maps.Keys(o.Vectors)), maps.Keys(o.MultiVectors))
	if len(targets) == 0 && len(names) == 1 {
		targets = []Target{{Vector: names[0], Weight: 1}}
	}
	if len(targets) == 0 {
		return nil, queryError("object %s has %d vectors: say which are compared", q.Object, len(names))
	}
	for i, t := range targets {
		if targets[i].Near, targets[i].NearMulti = o.Vectors[t.Vector], o.MultiVectors[t.Vector]; !slices.Contains(names, t.Vector) {
			return nil, queryError("object %s has no vector %q", q.Object, t.Vector)
		}
	}
	return targets, nil
}

func queryError(format string, args ...any) error {
	return Permanent(fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...)))
}

// Unsupported returns a permanent error that is [ErrUnsupported] and names the part of a query that a Store cannot answer.
func Unsupported(part string) error { return Permanent(fmt.Errorf("%w: %s", ErrUnsupported, part)) }

// Check returns a permanent error that is [ErrQuery], or [ErrVector] for a vector, unless the query makes sense, whatever the
// store. A Store calls it first, then checks the lengths of vectors and the values of filters by what it holds.
func (q Query) Check() error {
	if err := q.checkNear(); err != nil {
		return err
	}
	if err := q.checkText(); err != nil {
		return err
	}
	if err := q.Filter.Check(); err != nil {
		return err
	}
	if err := q.checkAfter(); err != nil {
		return err
	}
	near := q.Object != "" || len(q.NearTargets()) > 0
	switch {
	case q.Limit < 0 || q.Limit > math.MaxInt32 || q.Offset < 0 || q.Offset > math.MaxInt32:
		return queryError("the limit %d or offset %d is out of range", q.Limit, q.Offset)
	case q.Autocut < 0 || q.Autocut > math.MaxInt32:
		return queryError("autocut %d is out of range", q.Autocut)
	case !near && q.Text == "" && q.Filter.Operator == OperatorNone && q.After == "":
		return queryError("it asks for nothing: give vectors, an object, a text, a filter, or After")
	}
	return q.GroupBy.check()
}

func (g GroupBy) check() error {
	if g != (GroupBy{}) && (g.Property == "" || min(g.Groups, g.Each) < 1 || max(g.Groups, g.Each) > math.MaxInt32) {
		return queryError("groups by %.64q: %d of %d", g.Property, g.Groups, g.Each)
	}
	return nil
}

func (q Query) checkAfter() error {
	if q.After == "" {
		return nil
	}
	if q.Object != "" || len(q.NearTargets()) > 0 || q.Text != "" || q.GroupBy != (GroupBy{}) || q.Offset != 0 || q.Autocut != 0 {
		return queryError("After goes with nothing but Filter, Limit and WithVectors")
	}
	if err := q.After.Check(); err != nil {
		return fmt.Errorf("%w: After: %w", ErrQuery, err)
	}
	return nil
}

func (q Query) checkText() error {
	switch {
	case len(q.Properties) > 0 && q.Text == "":
		return queryError("Properties are searched for a Text, and there is none")
	case math.IsNaN(q.Alpha) || q.Alpha < 0 || q.Alpha > 1:
		return queryError("alpha is %v", q.Alpha)
	}
	_, err := q.TextProperties()
	return err
}

func (q Query) checkNear() error {
	if q.Combine < Minimum || q.Combine > RelativeScore {
		return queryError("combination %d is unknown", q.Combine)
	}
	if math.IsNaN(q.MaxDistance) || q.MaxDistance < 0 {
		return queryError("the largest distance is %v", q.MaxDistance)
	}
	if len(q.Targets) > 0 && q.single() {
		return queryError("Targets stand in place of Vector, Near and NearMulti, not beside them")
	}
	if q.Object != "" {
		if q.Text != "" {
			return queryError("Object stands alone: no Text")
		}
		if err := q.Object.Check(); err != nil {
			return fmt.Errorf("%w: Object: %w", ErrQuery, err)
		}
	}
	names := map[string]bool{}
	for _, t := range q.NearTargets() {
		switch w := float64(t.Weight); {
		case names[t.Vector]:
			return queryError("vector %q is there twice", t.Vector)
		case math.IsNaN(w) || w < 0 || math.IsInf(w, 0):
			return queryError("vector %q has the weight %v", t.Vector, t.Weight)
		case q.Object != "" && len(t.Near)+len(t.NearMulti) > 0:
			return queryError("Object stands alone: no Near")
		case len(t.Near) > 0 && len(t.NearMulti) > 0:
			return queryError("vector %q has Near and NearMulti", t.Vector)
		}
		names[t.Vector] = true
	}
	return nil
}

// pageSize is how many objects [All] asks for at once.
const pageSize = 256

// All returns every object of a tenant, with its vectors, in the order of the ids, reading a page of 256 at a time: what is
// written meanwhile is seen or not, by its id. Remembered deletions are not among them. An error ends the iteration and is its
// last item.
func All(ctx context.Context, s Store, tenant string) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		for after := First; ; {
			page, err := s.Search(ctx, Query{Tenant: tenant, After: after, Limit: pageSize, WithVectors: true})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i].Object, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1].Object.ID
		}
	}
}

// Grouped returns matches, the best first, as [Query].GroupBy says: group after group, and as they are with the zero GroupBy. The
// Group is the value as text: numbers in their shortest form, times in RFC 3339. A match with a list is in several groups, and
// then shares its Object with itself. It is for those who write a [Store].
func Grouped(matches []Match, by GroupBy) []Match {
	if by == (GroupBy{}) {
		return matches
	}
	var names []string
	groups := map[string][]Match{}
	for _, m := range matches {
		for _, m.Group = range groupNames(m.Object.Properties[by.Property]) {
			if groups[m.Group] == nil {
				if len(names) == by.Groups {
					continue
				}
				names = append(names, m.Group)
			}
			if len(groups[m.Group]) < by.Each {
				groups[m.Group] = append(groups[m.Group], m)
			}
		}
	}
	out := []Match{}
	for _, name := range names {
		out = append(out, groups[name]...)
	}
	return out
}

// groupNames returns the groups of a property's value, and "" where there is none.
func groupNames(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{""}
	case string:
		return []string{v}
	case time.Time:
		return []string{v.UTC().Format(time.RFC3339Nano)}
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return []string{fmt.Sprint(v)}
	}
	var names []string
	for i := range list.Len() {
		for _, name := range groupNames(list.Index(i).Interface()) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	return names
}
