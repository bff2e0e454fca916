package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-go/tidemark/vectorstore"
)

var combinations = map[vectorstore.Combination]pb.CombinationMethod{
	vectorstore.Minimum:       pb.CombinationMethod_COMBINATION_METHOD_TYPE_MIN,
	vectorstore.Sum:           pb.CombinationMethod_COMBINATION_METHOD_TYPE_SUM,
	vectorstore.Average:       pb.CombinationMethod_COMBINATION_METHOD_TYPE_AVERAGE,
	vectorstore.WeightedSum:   pb.CombinationMethod_COMBINATION_METHOD_TYPE_MANUAL,
	vectorstore.RelativeScore: pb.CombinationMethod_COMBINATION_METHOD_TYPE_RELATIVE_SCORE,
}

// Search answers every part of a query; which vectors are nearest, the server knows only approximately in an index [HNSW]. It finds near
// several vectors by combining what it finds near each, up to Limit, so that a small Limit may miss what is near only in the sum.
// Distances are in the measure of the vector's index. A filter compares texts as their [Tokenization] cuts them: exactly with [Field]
// alone, but for white space around them, which that drops. Dates are compared as the nanoseconds of 64 bits that the server makes of
// them: one beyond 1677-09-22 to 2262-04-11 is refused in a filter ([vectorstore.ErrValue]), and one that is stored, such as
// 9999-12-31, is taken for another. A page by After with a Filter costs the server a sort of all that is left. A Limit beyond its
// QUERY_MAXIMUM_RESULTS (10,000 by default) is the server's error. The [vectorstore.Minimum] of the distances to several vectors, of
// which one is a multi-vector, is not supported either, unless all look near equally many vectors.
func (s *Store) Search(ctx context.Context, q vectorstore.Query) ([]vectorstore.Match, error) {
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("weaviate: search: %w", err)
	}
	if err := s.checkTenant(q.Tenant); err != nil {
		return nil, err
	}
	if s.aliased {
		return s.searchAliased(ctx, q)
	}
	return s.searchOnce(ctx, q)
}

func (s *Store) searchOnce(ctx context.Context, q vectorstore.Query) ([]vectorstore.Match, error) {
	q, err := s.withObject(ctx, q)
	if err != nil {
		return nil, err
	}
	above, err := aboveServer(q)
	if err != nil {
		return nil, err
	}
	req, err := s.request(q, above)
	if err != nil {
		return nil, err
	}
	reply, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	out, err := matches(q.Tenant, reply.GetResults())
	if err != nil {
		return nil, err
	}
	if q.Text != "" {
		out = out[min(q.Offset, len(out)):]
	}
	if _, finer := textProperties(q); finer && req.GetBm25Search() != nil {
		for i := range out {
			out[i].Score /= finerWeights
		}
	}
	if q.Text != "" {
		return vectorstore.Grouped(out, q.GroupBy), nil
	}
	for i := range out {
		out[i].Distance += float32(above)
	}
	return vectorstore.Grouped(out, q.GroupBy), nil
}

// withObject puts the vectors of a query's object in its place, where one of them is a multi-vector: how many vectors it has says
// how its distances are to be read.
func (s *Store) withObject(ctx context.Context, q vectorstore.Query) (vectorstore.Query, error) {
	multi := func(t vectorstore.Target) bool { return s.schema.Load().vectors[t.Vector].multi }
	if q.Object == "" || !slices.ContainsFunc(s.objectTargets(q), multi) {
		return q, nil
	}
	got, err := s.Get(ctx, []vectorstore.Ref{{ID: q.Object, Tenant: q.Tenant}})
	if err != nil {
		return q, err
	}
	targets, err := vectorstore.ObjectTargets(q, got[0])
	if err != nil {
		return q, fmt.Errorf("weaviate: search: %w", err)
	}
	q.Object, q.Vector, q.Targets = "", "", targets
	return q, nil
}

// objectTargets returns the vectors of its object that a query looks near: those that it names, or the only one that there is.
func (s *Store) objectTargets(q vectorstore.Query) []vectorstore.Target {
	near := q.NearTargets()
	if len(near) == 0 && len(s.schema.Load().vectors) == 1 {
		for name := range s.schema.Load().vectors {
			near = []vectorstore.Target{{Vector: name, Weight: 1}}
		}
	}
	return near
}

// aboveServer returns by how much the distances of a query are above those of the server, which for n vectors near a multi-vector
// answers the negative sum of the similarities, n less than the sum of the distances.
func aboveServer(q vectorstore.Query) (float64, error) {
	near := q.NearTargets()
	var sum, weighted float64
	same := true
	for _, t := range near {
		n := float64(len(t.NearMulti))
		sum, weighted = sum+n, weighted+n*float64(t.Weight)
		same = same && len(t.NearMulti) == len(near[0].NearMulti)
	}
	switch {
	case sum == 0:
		return 0, nil
	case len(near) == 1, q.Combine == vectorstore.Sum:
		return sum, nil
	case q.Combine == vectorstore.WeightedSum:
		return weighted, nil
	case q.Combine == vectorstore.RelativeScore:
		return 0, nil
	case q.Combine == vectorstore.Minimum && !same:
		return 0, unsupported("the Minimum of distances to different numbers of vectors")
	}
	return sum / float64(len(near)), nil
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

func matches(tenant string, results []*pb.SearchResult) ([]vectorstore.Match, error) {
	out := make([]vectorstore.Match, 0, len(results))
	for _, result := range results {
		o, err := parseObject(result)
		if err != nil {
			return nil, objectError(vectorstore.ID(result.GetMetadata().GetId()), err)
		}
		o.Tenant = tenant
		m := result.GetMetadata()
		out = append(out, vectorstore.Match{Object: *o, Distance: m.GetDistance(), Score: m.GetScore()})
	}
	return out, nil
}

func queryError(format string, args ...any) error {
	return vectorstore.Permanent(fmt.Errorf("weaviate: search: %w: %s", vectorstore.ErrQuery, fmt.Sprintf(format, args...)))
}

func unsupported(part string) error {
	return fmt.Errorf("weaviate: search: %w", vectorstore.Unsupported(part))
}

// request returns q as it is sent; see aboveServer.
func (s *Store) request(q vectorstore.Query, above float64) (*pb.SearchRequest, error) {
	filter, err := filterMessage(q.Filter, s.schema.Load())
	if err != nil {
		return nil, fmt.Errorf("weaviate: search: %w", err)
	}
	near := len(q.NearTargets()) > 0 || q.Object != ""
	limit, offset := cmp.Or(q.Limit, vectorstore.DefaultLimit), q.Offset
	if q.Text != "" { // the offset is ours, since the server takes Limit alone for how many of each list it must look at
		limit, offset = limit+offset, 0
	}
	req := &pb.SearchRequest{
		Tenant: q.Tenant,
		Limit:  uint32(limit), Offset: uint32(offset), Autocut: uint32(q.Autocut),
		Filters: filter, After: string(q.After),
		Metadata: &pb.MetadataRequest{Uuid: true, Vector: q.WithVectors, Distance: near && q.Text == "", Score: q.Text != ""},
	}
	if q.After != "" && filter != nil { // which the server's cursor does not take
		req.After, req.SortBy = "", []*pb.SortBy{{Ascending: true, Path: []string{"_id"}}}
		req.Filters = &pb.Filters{Operator: pb.Filters_OPERATOR_AND, Filters: []*pb.Filters{filter, {
			Operator: pb.Filters_OPERATOR_GREATER_THAN, Target: &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: "_id"}},
			TestValue: &pb.Filters_ValueText{ValueText: string(q.After)},
		}}}
	}
	if by := q.GroupBy.Property; by != "" && s.schema.Load().properties[by] == nil {
		return nil, queryError("collection %s has no property %.64q", s.collection, by)
	}
	return req, s.look(q, req, above)
}

// look puts into req where q looks.
func (s *Store) look(q vectorstore.Query, req *pb.SearchRequest, above float64) (err error) {
	properties, _ := textProperties(q)
	switch {
	case q.Object != "":
		req.NearObject, err = s.nearObject(q)
	case len(q.NearTargets()) > 0:
		vector, targets, err := s.nearVector(q, above)
		if err != nil {
			return err
		}
		if q.Text == "" {
			vector.Targets = targets
			req.NearVector = vector
			break
		}
		req.HybridSearch = &pb.Hybrid{
			Query: q.Text, Properties: properties, Alpha: float32(cmp.Or(q.Alpha, vectorstore.DefaultAlpha)),
			NearVector: vector, Targets: targets, FusionType: pb.Hybrid_FUSION_TYPE_RELATIVE_SCORE,
		}
		if q.RankedFusion {
			req.HybridSearch.FusionType = pb.Hybrid_FUSION_TYPE_RANKED
		}
	case q.Text != "":
		req.Bm25Search = &pb.BM25{Query: q.Text, Properties: properties}
	}
	return err
}

// finerWeights is by how much the weights of properties are multiplied where one is no integer.
const finerWeights = 1_000_000

// textProperties returns the properties that a text is searched for in as they are sent, and whether their weights are multiplied, as then
// are the scores, of which those of a hybrid search are scaled anyway. A weight is sent in digits alone, however it was written, since
// server v1.35 takes anything else for 0.
func textProperties(q vectorstore.Query) (sent []string, finer bool) {
	properties, _ := q.TextProperties() // which Check has seen
	finer = slices.ContainsFunc(properties, func(p vectorstore.TextProperty) bool { return p.Weight != math.Trunc(p.Weight) })
	times := 1.0
	if finer {
		times = finerWeights
	}
	for _, p := range properties {
		if weight := p.Weight * times; weight != 1 {
			p.Name += fmt.Sprintf("^%.0f", weight)
		}
		sent = append(sent, p.Name)
	}
	return sent, finer
}

// distance is the largest that is asked for. With a filter that few objects fit, the server answers those without a multi-vector too, at
// the largest distance that there is (seen with v1.35 and v1.39), so that there is always one for multi-vectors.
func distance(q vectorstore.Query, above float64) *float64 {
	switch {
	case q.MaxDistance > 0:
		return proto.Float64(q.MaxDistance - above)
	case above != 0:
		return proto.Float64(math.MaxFloat32 / 2)
	}
	return nil
}

func (s *Store) nearObject(q vectorstore.Query) (*pb.NearObject, error) {
	near := s.objectTargets(q)
	if len(near) == 0 {
		return nil, queryError("collection %s has several vectors: say which are compared", s.collection)
	}
	targets := &pb.Targets{}
	for _, t := range near {
		if _, there := s.schema.Load().vectors[t.Vector]; !there {
			return nil, queryError("collection %s has no vector %.64q", s.collection, t.Vector)
		}
	}
	var err error
	if targets.TargetVectors, err = targetNames(near); err != nil {
		return nil, err
	}
	if len(near) > 1 {
		targets.Combination = combinations[q.Combine]
		targets.WeightsForTargets = weights(q.Combine, near)
	}
	return &pb.NearObject{Id: string(q.Object), Distance: distance(q, 0), Targets: targets}, nil
}

// targetNames returns the names of targets as they are sent: of the vector without a name, none, which the server takes alone.
func targetNames(near []vectorstore.Target) (names []string, err error) {
	for _, t := range near {
		if t.Vector == "" && len(near) > 1 {
			return nil, unsupported("a vector without a name beside others")
		}
		if t.Vector != "" {
			names = append(names, t.Vector)
		}
	}
	return names, nil
}

// nearVector returns the vectors to look around and how they are compared, which stand in different places in a hybrid
// search.
func (s *Store) nearVector(q vectorstore.Query, above float64) (*pb.NearVector, *pb.Targets, error) {
	lengths, near := s.dimensions(), q.NearTargets()
	names, err := targetNames(near)
	if err != nil {
		return nil, nil, err
	}
	out, targets := &pb.NearVector{Distance: distance(q, above)}, &pb.Targets{TargetVectors: names}
	for _, t := range near {
		v, err := s.encodeTarget(t, lengths[t.Vector])
		if err != nil {
			return nil, nil, fmt.Errorf("weaviate: search: %w", err)
		}
		out.VectorForTargets = append(out.VectorForTargets, &pb.VectorForTarget{Name: t.Vector, Vectors: []*pb.Vectors{v}})
	}
	if len(near) == 1 {
		out.Vectors, out.VectorForTargets = out.VectorForTargets[0].GetVectors(), nil
		return out, targets, nil
	}
	targets.Combination = combinations[q.Combine]
	targets.WeightsForTargets = weights(q.Combine, near)
	return out, targets, nil
}

// weights are sent for the combinations that take them.
func weights(c vectorstore.Combination, near []vectorstore.Target) []*pb.WeightsForTarget {
	if c != vectorstore.WeightedSum && c != vectorstore.RelativeScore {
		return nil
	}
	out := make([]*pb.WeightsForTarget, len(near))
	for i, t := range near {
		out[i] = &pb.WeightsForTarget{Target: t.Vector, Weight: t.Weight}
	}
	return out
}
