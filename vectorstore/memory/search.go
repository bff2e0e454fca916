package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Search answers every part of a query but Autocut. It compares all objects of the tenant, so that what it finds is exact; ties
// come in the order of the ids.
func (s *Store) Search(ctx context.Context, q vectorstore.Query) ([]vectorstore.Match, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := s.search(q)
	if err != nil {
		return nil, fmt.Errorf("memory: search: %w", err)
	}
	out = out[min(q.Offset, len(out)):min(size(q), len(out))]
	for i := range out {
		out[i].Object = clone(out[i].Object)
	}
	return vectorstore.Grouped(out, q.GroupBy), nil
}

// candidate is an object with what speaks for it.
type candidate struct {
	*entry
	distance float64
	score    float64
}

// compare orders by distance, or where there is none by score, and then by id.
func (c candidate) compare(d candidate) int {
	return cmp.Or(cmp.Compare(c.distance, d.distance), cmp.Compare(d.score, c.score), strings.Compare(string(c.ID), string(d.ID)))
}

// best keeps the first n in order of what is added, and at most about as many others.
type best struct {
	n   int
	all []candidate
}

func (b *best) add(c candidate) {
	if b.all = append(b.all, c); len(b.all) >= 2*b.n+1024 {
		slices.SortFunc(b.all, candidate.compare)
		b.all = b.all[:b.n]
	}
}

// search returns matches with the store's own objects, the best first: all or those that are needed.
func (s *Store) search(q vectorstore.Query) ([]vectorstore.Match, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if q.Autocut > 0 {
		return nil, vectorstore.Unsupported("Autocut")
	}
	matches, err := compile(q.Filter)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	targets, err := s.targets(q)
	if err != nil {
		return nil, err
	}
	switch {
	case len(targets) > 0 && q.Text == "":
		return sorted(s.near(q, targets, matches)), nil
	case len(targets) > 0:
		return vectorstore.Fuse(q, sorted(s.near(q, targets, matches)), sorted(s.keywords(q, matches))), nil
	case q.Text != "":
		return sorted(s.keywords(q, matches)), nil
	}
	return sorted(s.listed(q, matches)), nil
}

func sorted(found []candidate) []vectorstore.Match {
	slices.SortFunc(found, candidate.compare)
	out := make([]vectorstore.Match, len(found))
	for i, c := range found {
		out[i] = vectorstore.Match{Object: c.Object, Distance: float32(c.distance), Score: float32(c.score)}
	}
	return out
}

// size is how many matches are needed, those before the offset among them.
func size(q vectorstore.Query) int { return cmp.Or(q.Limit, vectorstore.DefaultLimit) + q.Offset }

// near returns the objects near the targets: for a search by one vector the best, for others all. It needs s.mu.
func (s *Store) near(q vectorstore.Query, targets []target, matches func(*entry) bool) []candidate {
	found := best{n: len(s.objects)}
	if len(targets) == 1 && q.Text == "" {
		found.n = size(q)
	}
	var distances []float64 // a row of one for each target
	for _, e := range s.objects {
		if e.Tenant != q.Tenant || !e.has(targets, q.Combine) || !matches(e) {
			continue
		}
		c := candidate{entry: e}
		if len(targets) == 1 {
			c.distance = e.distance(targets[0])
			if q.MaxDistance > 0 && float64(float32(c.distance)) > q.MaxDistance {
				continue
			}
		}
		found.add(c)
		if len(targets) > 1 {
			for _, t := range targets {
				distances = append(distances, e.distance(t))
			}
		}
	}
	if len(targets) == 1 {
		return found.all
	}
	combine(q.Combine, targets, found.all, distances)
	return slices.DeleteFunc(found.all, func(c candidate) bool { return q.MaxDistance > 0 && float64(float32(c.distance)) > q.MaxDistance })
}

// listed returns the first objects by id. It needs s.mu.
func (s *Store) listed(q vectorstore.Query, matches func(*entry) bool) []candidate {
	found := best{n: size(q)}
	for _, e := range s.objects {
		if e.Tenant == q.Tenant && !e.Deleted && e.ID > q.After && matches(e) {
			found.add(candidate{entry: e})
		}
	}
	return found.all
}

// target is a vector to look around, or all of a multi-vector.
type target struct {
	vectorstore.Target
	near []measured
}

// targets needs s.mu.
func (s *Store) targets(q vectorstore.Query) ([]target, error) {
	named := q.NearTargets()
	if q.Object != "" {
		var o *vectorstore.Object
		if e := s.objects[vectorstore.Ref{ID: q.Object, Tenant: q.Tenant}]; e != nil {
			o = &e.Object
		}
		var err error
		if named, err = vectorstore.ObjectTargets(q, o); err != nil {
			return nil, err
		}
	}
	out := make([]target, len(named))
	for i, t := range named {
		is, known := s.shapes[t.Vector]
		if !known {
			is.Multi = len(t.NearMulti) > 0
		}
		if err := is.Check(t); err != nil {
			return nil, err
		}
		near := t.NearMulti
		if !is.Multi {
			near = [][]float32{t.Near}
		}
		out[i] = target{t, measure(near...)}
	}
	return out, nil
}

// has reports whether an object has the vectors that are compared: all, or for the least distance one.
func (e *entry) has(targets []target, how vectorstore.Combination) bool {
	n := 0
	for i := range targets {
		if e.measured[targets[i].Vector] != nil {
			n++
		}
	}
	return n == len(targets) || n > 0 && how == vectorstore.Minimum
}

// distance is infinite where the object lacks the vector. Of a multi-vector, it is the sum of the distances of each vector of the
// target to the nearest of the object's.
func (e *entry) distance(t target) (sum float64) {
	own := e.measured[t.Vector]
	for _, near := range t.near {
		least := math.Inf(1)
		for _, m := range own {
			least = min(least, 1-max(-1, min(1, dot(m.v, near.v)/near.norm/m.norm)))
		}
		sum += least
	}
	return sum
}

// combine sets the distances of candidates, of each of which there is one distance a target.
func combine(how vectorstore.Combination, targets []target, all []candidate, distances []float64) {
	n := len(targets)
	if how == vectorstore.RelativeScore {
		for t := range targets {
			scale(len(all), func(i int) *float64 { return &distances[i*n+t] })
		}
	}
	for i := range all {
		row := distances[i*n : (i+1)*n]
		switch how {
		case vectorstore.Minimum:
			all[i].distance = slices.Min(row)
		default:
			for t, d := range row {
				if how == vectorstore.WeightedSum || how == vectorstore.RelativeScore {
					d *= float64(targets[t].Weight)
				}
				all[i].distance += d
			}
			if how == vectorstore.Average {
				all[i].distance /= float64(n)
			}
		}
	}
}

// scale brings n values to 0 to 1. Where all are equal, they are 1.
func scale(n int, at func(i int) *float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range n {
		low, high = min(low, *at(i)), max(high, *at(i))
	}
	for i := range n {
		if *at(i) = (*at(i) - low) / (high - low); high == low {
			*at(i) = 1
		}
	}
}
