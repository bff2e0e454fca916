package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Query is what Weaviate can search for, beyond [vectorstore.Query]: near vectors, near an object, by keywords, or both
// (hybrid). It needs one of Near, Object and Text; Near and Text together are a hybrid search. Filter alone lists objects in no
// order.
type Query struct {
	// Tenant is the one to search, where the collection has some.
	Tenant string
	// Near are vectors to look around, each among the objects' vectors of its name, a name once. With several, only objects
	// that have all of them are found, and Combine says how their distances become one.
	Near []Near
	// Object looks around the vectors of an object of the collection, which is found too. Vectors are the names of those
	// that are compared; it may be left out where the collection has one.
	Object  vectorstore.ID
	Vectors []string
	// Combine makes one distance of several. Default: [Minimum]. The server combines what it finds near each vector by
	// itself, up to Limit, so that a small Limit may miss what is near only in the sum.
	Combine Combination
	// MaxDistance leaves out what is farther away. Default: nothing.
	MaxDistance float64

	// Text is searched for by keywords (BM25), in the properties Properties, of which each may have a weight ("title^2").
	// Default: all texts that are in an index for it.
	Text       string
	Properties []string
	// Alpha is the weight of the vectors in a hybrid search, above 0 and at most 1. Default 0.75.
	Alpha float64
	// RankedFusion makes a hybrid search add the ranks that objects have by vector and by text. Default: their scores.
	RankedFusion bool

	// Filter says which objects count.
	Filter Filter
	// Limit is the largest number of matches, 10 when zero. Offset is how many are left out before.
	Limit, Offset int
	// Autocut ends the matches after so many jumps of the distance or score. Default: none.
	Autocut int
	// WithVectors returns the vectors of the objects too.
	WithVectors bool
}

// Near is a vector to look around.
type Near struct {
	// Vector is the name of the vector to compare with Values.
	Vector string
	Values []float32
	// Weight is its part in [WeightedSum] and [RelativeScore]. Default 1.
	Weight float32
}

// Combination makes one distance of the distances to several vectors.
type Combination int

// The combinations: the least distance, the sum, the mean, the sum after Weight, and the sum after Weight of distances that
// are scaled to 0 to 1 among those found.
const (
	Minimum Combination = iota
	Sum
	Average
	WeightedSum
	RelativeScore
)

var combinations = map[Combination]pb.CombinationMethod{
	Minimum:       pb.CombinationMethod_COMBINATION_METHOD_TYPE_MIN,
	Sum:           pb.CombinationMethod_COMBINATION_METHOD_TYPE_SUM,
	Average:       pb.CombinationMethod_COMBINATION_METHOD_TYPE_AVERAGE,
	WeightedSum:   pb.CombinationMethod_COMBINATION_METHOD_TYPE_MANUAL,
	RelativeScore: pb.CombinationMethod_COMBINATION_METHOD_TYPE_RELATIVE_SCORE,
}

// Hit is one answer to a [Query].
type Hit struct {
	// Object is what was found.
	Object vectorstore.Object
	// Distance is the distance of searches near vectors or an object, in the collection's measure; less is nearer.
	Distance float32
	// Score is that of keyword and hybrid searches; more is better.
	Score float32
}

// Find searches. A Query that cannot be answered is a permanent error.
func (s *Store) Find(ctx context.Context, q Query) ([]Hit, error) {
	req, err := s.request(q)
	if err != nil {
		return nil, err
	}
	reply, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	return hits(q.Tenant, reply.GetResults())
}

// Group is the part of the answer that has one value of a property.
type Group struct {
	// Value is that value as text, empty for objects without one.
	Value string
	Hits  []Hit
}

// FindGroups searches near vectors or an object and returns the best hits of each value of a property: at most so many groups, with
// at most so many hits each, both at least 1. The Limit of the query says of how many hits the groups are made, 10 when zero.
func (s *Store) FindGroups(ctx context.Context, q Query, property string, groups, each int) ([]Group, error) {
	req, err := s.request(q)
	if err != nil {
		return nil, err
	}
	switch {
	case req.NearVector == nil && req.NearObject == nil:
		return nil, queryError("groups are made near vectors or an object alone")
	case s.schema.Load().properties[property] == nil:
		return nil, queryError("collection %s has no property %.64q", s.collection, property)
	case groups < 1 || each < 1 || groups > math.MaxInt32 || each > math.MaxInt32:
		return nil, queryError("%d groups of %d", groups, each)
	}
	req.GroupBy = &pb.GroupBy{Path: []string{property}, NumberOfGroups: int32(groups), ObjectsPerGroup: int32(each)}
	reply, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	out := make([]Group, len(reply.GetGroupByResults()))
	for i, g := range reply.GetGroupByResults() {
		out[i].Value = g.GetName()
		if out[i].Hits, err = hits(q.Tenant, g.GetObjects()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// find sends a search; what the server refuses for good is a permanent error.
func (s *Store) find(ctx context.Context, req *pb.SearchRequest) (*pb.SearchReply, error) {
	reply, err := s.ask(ctx, "search", req)
	var failed *callError
	if errors.As(err, &failed) && failed.cause == nil && refused(failed.err.Error()) {
		return nil, vectorstore.Permanent(fmt.Errorf("%w: %w", vectorstore.ErrVector, err))
	}
	return reply, err
}

func hits(tenant string, results []*pb.SearchResult) ([]Hit, error) {
	out := make([]Hit, 0, len(results))
	for _, result := range results {
		o, err := parseObject(result)
		if err != nil {
			return nil, objectError(vectorstore.ID(result.GetMetadata().GetId()), err)
		}
		o.Tenant = tenant
		m := result.GetMetadata()
		out = append(out, Hit{Object: *o, Distance: m.GetDistance(), Score: m.GetScore()})
	}
	return out, nil
}

// All returns every object of the collection, or of one tenant where it has some, with its vectors, by id, reading pages of 256: what is written meanwhile is
// seen or not, by its id. An error ends the iteration and is its last item.
func (s *Store) All(ctx context.Context, tenant string) iter.Seq2[*vectorstore.Object, error] {
	return func(yield func(*vectorstore.Object, error) bool) {
		if err := s.checkTenant(tenant); err != nil {
			yield(nil, err)
			return
		}
		after := firstID
		for {
			results, err := s.search(ctx, "list", &pb.SearchRequest{Tenant: tenant, Limit: maxIDs, After: after})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, result := range results {
				after = result.GetMetadata().GetId()
				o, err := parseObject(result)
				if err != nil {
					o, err = nil, objectError(vectorstore.ID(after), err)
				} else {
					o.Tenant = tenant
				}
				if !yield(o, err) || err != nil {
					return
				}
			}
			if len(results) < maxIDs {
				return
			}
		}
	}
}

func queryError(format string, args ...any) error {
	return vectorstore.Permanent(fmt.Errorf("weaviate: search: "+format, args...))
}

// request checks q and returns it as it is sent.
func (s *Store) request(q Query) (*pb.SearchRequest, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := s.checkTenant(q.Tenant); err != nil {
		return nil, err
	}
	filter, err := q.Filter.message(s.schema.Load())
	if err != nil {
		return nil, fmt.Errorf("weaviate: search: %w", err)
	}
	near := len(q.Near) > 0 || q.Object != ""
	req := &pb.SearchRequest{
		Tenant: q.Tenant,
		Limit:  uint32(cmp.Or(q.Limit, vectorstore.DefaultLimit)), Offset: uint32(q.Offset), Autocut: uint32(q.Autocut),
		Filters:  filter,
		Metadata: &pb.MetadataRequest{Uuid: true, Vector: q.WithVectors, Distance: near && q.Text == "", Score: q.Text != ""},
	}
	switch {
	case q.Object != "":
		if req.NearObject, err = s.nearObject(q); err != nil {
			return nil, err
		}
	case len(q.Near) > 0:
		vector, targets, err := s.nearVector(q)
		if err != nil {
			return nil, err
		}
		if q.Text == "" {
			vector.Targets = targets
			req.NearVector = vector
			break
		}
		req.HybridSearch = &pb.Hybrid{
			Query: q.Text, Properties: q.Properties, Alpha: float32(cmp.Or(q.Alpha, 0.75)), NearVector: vector, Targets: targets,
			FusionType: pb.Hybrid_FUSION_TYPE_RELATIVE_SCORE,
		}
		if q.RankedFusion {
			req.HybridSearch.FusionType = pb.Hybrid_FUSION_TYPE_RANKED
		}
	case q.Text != "":
		req.Bm25Search = &pb.BM25{Query: q.Text, Properties: q.Properties}
	}
	return req, nil
}

func (q Query) check() error {
	switch {
	case q.Limit < 0 || q.Limit > math.MaxInt32 || q.Offset < 0 || q.Offset > math.MaxInt32:
		return queryError("the limit %d or offset %d is out of range", q.Limit, q.Offset)
	case q.Autocut < 0 || q.Autocut > math.MaxInt32:
		return queryError("autocut %d is out of range", q.Autocut)
	case q.Object != "" && (len(q.Near) > 0 || q.Text != ""):
		return queryError("Object stands alone: no Near, no Text")
	case math.IsNaN(q.MaxDistance) || q.MaxDistance < 0:
		return queryError("the largest distance is %v", q.MaxDistance)
	case math.IsNaN(q.Alpha) || q.Alpha < 0 || q.Alpha > 1:
		return queryError("alpha is %v", q.Alpha)
	case len(q.Properties) > 0 && q.Text == "":
		return queryError("Properties are searched for a Text, and there is none")
	}
	if _, ok := combinations[q.Combine]; !ok {
		return queryError("combination %d is unknown", q.Combine)
	}
	return nil
}

func (q Query) distance() *float64 {
	if q.MaxDistance == 0 {
		return nil
	}
	return proto.Float64(q.MaxDistance)
}

func (s *Store) nearObject(q Query) (*pb.NearObject, error) {
	if err := q.Object.Check(); err != nil {
		return nil, fmt.Errorf("weaviate: search: %w", err)
	}
	names := q.Vectors
	if len(names) == 0 && len(s.vectors) == 1 {
		for name := range s.vectors {
			names = []string{name}
		}
	}
	if len(names) == 0 {
		return nil, queryError("collection %s has several vectors: say which are compared", s.collection)
	}
	targets := &pb.Targets{TargetVectors: names}
	for _, name := range names {
		if s.vectors[name] == "" {
			return nil, queryError("collection %s has no vector %.64q", s.collection, name)
		}
	}
	if len(names) > 1 {
		targets.Combination = combinations[q.Combine]
		targets.WeightsForTargets = weights(q.Combine, names, func(int) float32 { return 1 })
	}
	return &pb.NearObject{Id: string(q.Object), Distance: q.distance(), Targets: targets}, nil
}

// nearVector returns the vectors to look around and how they are compared, which stand in different places in a hybrid
// search.
func (s *Store) nearVector(q Query) (*pb.NearVector, *pb.Targets, error) {
	out, targets := &pb.NearVector{Distance: q.distance()}, &pb.Targets{}
	dims := s.dimensions()
	for i, n := range q.Near {
		if err := s.checkVector(n.Vector, n.Values, dims[n.Vector]); err != nil {
			return nil, nil, fmt.Errorf("weaviate: search: %w", err)
		}
		for _, other := range q.Near[:i] {
			if other.Vector == n.Vector {
				return nil, nil, queryError("vector %q is there twice", n.Vector)
			}
		}
		if w := float64(n.Weight); math.IsNaN(w) || w < 0 || math.IsInf(w, 0) {
			return nil, nil, queryError("vector %q has the weight %v", n.Vector, n.Weight)
		}
		targets.TargetVectors = append(targets.TargetVectors, n.Vector)
		out.VectorForTargets = append(out.VectorForTargets, &pb.VectorForTarget{Name: n.Vector, VectorBytes: encodeVector(n.Values)})
	}
	if len(q.Near) == 1 {
		out.VectorBytes, out.VectorForTargets = out.VectorForTargets[0].GetVectorBytes(), nil
		return out, targets, nil
	}
	targets.Combination = combinations[q.Combine]
	targets.WeightsForTargets = weights(q.Combine, targets.TargetVectors, func(i int) float32 { return cmp.Or(q.Near[i].Weight, 1) })
	return out, targets, nil
}

// weights are sent for the combinations that take them.
func weights(c Combination, names []string, of func(int) float32) []*pb.WeightsForTarget {
	if c != WeightedSum && c != RelativeScore {
		return nil
	}
	out := make([]*pb.WeightsForTarget, len(names))
	for i, name := range names {
		out[i] = &pb.WeightsForTarget{Target: name, Weight: of(i)}
	}
	return out
}
