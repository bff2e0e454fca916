package weaviate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Get returns objects aligned with r: nil where nothing is known, Deleted where a deletion is remembered. Where an
// object is there, it wins over a remembered deletion, which it has outlived (see Apply). An id that is no UUID in
// lower case names nothing. A Store that was opened by an alias knows no deletions. In a collection with replicas, what
// ReadConsistency of them agree on is the answer.
//
// Objects are read before deletions. A Delete writes in the other order, so that an object under deletion is seen
// before or after it, never as unknown.
func (s *Store) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	byTenant := map[string]map[vectorstore.ID][]int{}
	for i, ref := range r {
		if err := s.checkTenant(ref.Tenant); err != nil {
			return nil, err
		}
		positions := byTenant[ref.Tenant]
		if positions == nil {
			positions = map[vectorstore.ID][]int{}
			byTenant[ref.Tenant] = positions
		}
		if ref.ID.Check() == nil {
			positions[ref.ID] = append(positions[ref.ID], i)
		}
	}
	out := make([]*vectorstore.Object, len(r))
	for tenant, positions := range byTenant {
		if err := s.get(ctx, tenant, positions, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// get puts the objects of a tenant in their places.
func (s *Store) get(ctx context.Context, tenant string, positions map[vectorstore.ID][]int, out []*vectorstore.Object) error {
	for _, collection := range s.collections() {
		readings, err := s.byID(ctx, tenant, collection, ids(positions))
		if err != nil {
			return err
		}
		for _, r := range readings {
			for _, i := range positions[r.id] {
				o, err := r.parse() // again for each: callers share nothing
				if err != nil {
					return objectError(r.id, err)
				}
				if collection == s.tombstones {
					o = &vectorstore.Object{Ref: o.Ref, Version: o.Version, Deleted: true}
				}
				o.Tenant = tenant
				out[i] = o
			}
			delete(positions, r.id)
		}
	}
	return nil
}

// collections are those to read.
func (s *Store) collections() []string {
	if s.aliased {
		return []string{s.collection}
	}
	return []string{s.collection, s.tombstones}
}

func ids(positions map[vectorstore.ID][]int) []string {
	out := make([]string, 0, len(positions))
	for id := range positions {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out
}

// reading is an object that the server has sent.
type reading struct {
	id    vectorstore.ID
	parse func() (*vectorstore.Object, error)
}

// byID reads the objects of a collection with these ids, those that are there. An answer that is too large is asked
// for in halves.
func (s *Store) byID(ctx context.Context, tenant, collection string, ids []string) ([]reading, error) {
	if s.votes() {
		return s.vote(ctx, tenant, collection, ids)
	}
	var out []reading
	for chunk := range slices.Chunk(ids, maxIDs) {
		results, err := s.search(ctx, "get", &pb.SearchRequest{
			Tenant: tenant, Collection: collection, Limit: uint32(len(chunk)), Filters: withIDs(chunk),
		})
		if tooLarge(err) && len(chunk) > 1 {
			halves, err := s.halves(ctx, tenant, collection, chunk)
			if err != nil {
				return nil, err
			}
			out = append(out, halves...)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, result := range results {
			id := vectorstore.ID(result.GetMetadata().GetId())
			out = append(out, reading{id, func() (*vectorstore.Object, error) { return parseObject(result) }})
		}
	}
	return out, nil
}

func (s *Store) halves(ctx context.Context, tenant, collection string, ids []string) ([]reading, error) {
	first, err := s.byID(ctx, tenant, collection, ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	second, err := s.byID(ctx, tenant, collection, ids[len(ids)/2:])
	return append(first, second...), err
}

// withIDs is the filter for objects with these ids.
func withIDs(ids []string) *pb.Filters {
	return &pb.Filters{
		Operator: pb.Filters_OPERATOR_CONTAINS_ANY, Target: &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: "_id"}},
		TestValue: &pb.Filters_ValueTextArray{ValueTextArray: &pb.TextArray{Values: ids}},
	}
}

// votes reports whether several replicas say what an object is.
func (s *Store) votes() bool {
	return s.replicated && (s.read == nil || *s.read != pb.ConsistencyLevel_CONSISTENCY_LEVEL_ONE)
}

// vote reads objects by their ids from as many replicas as the consistency level asks for, those that are there.
//
// A search does not do that, whatever its consistency level: one replica answers it, which does not find what it lacks and returns what
// it has, even where the others have it newer and it says itself that they agree (seen with v1.39). Reading by id is REST alone.
func (s *Store) vote(ctx context.Context, tenant, collection string, ids []string) ([]reading, error) {
	readings, errs := make([]*reading, len(ids)), make([]error, len(ids))
	var running sync.WaitGroup
	turns := make(chan struct{}, maxIdle)
	for i, id := range ids {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			readings[i], errs[i] = s.readOne(ctx, tenant, collection, id)
		})
	}
	running.Wait()
	var out []reading
	for i, r := range readings {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if r != nil {
			out = append(out, *r)
		}
	}
	return out, nil
}

// readOne returns nil where there is no object.
func (s *Store) readOne(ctx context.Context, tenant, collection, id string) (*reading, error) {
	level := Quorum
	if s.read != nil && *s.read == pb.ConsistencyLevel_CONSISTENCY_LEVEL_ALL {
		level = All
	}
	query := url.Values{"consistency_level": {string(level)}, "include": {"vector"}}
	if s.tenants {
		query.Set("tenant", tenant)
	}
	var answer restObject
	err := s.conn.rest(ctx, http.MethodGet, "/v1/objects/"+collection+"/"+id+"?"+query.Encode(), nil, &answer)
	switch {
	case restCode(err) == http.StatusNotFound, s.tenants && err != nil && strings.Contains(err.Error(), "tenant not found"):
		return nil, nil
	case err != nil:
		return nil, objectError(vectorstore.ID(id), fmt.Errorf("reading it from %s replicas at %s: %w", level, s.conn.httpAddr, err))
	}
	known := map[string]*property{versionProperty: {dataType: Text}}
	if collection == s.collection {
		schema := s.schema.Load()
		if schema.lacks(answer.Properties) { // added by another process
			if schema, err = s.reload(ctx); err != nil {
				return nil, err
			}
		}
		known = schema.properties
	}
	return &reading{vectorstore.ID(id), func() (*vectorstore.Object, error) { return answer.parse(vectorstore.ID(id), known) }}, nil
}

// restObject is an object in the JSON of /v1/objects.
type restObject struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Vectors    map[string]json.RawMessage `json:"vectors"`
	Unnamed    []float32                  `json:"vector"`
}

func (s *schema) lacks(properties map[string]json.RawMessage) bool {
	for name := range properties {
		if s.properties[name] == nil {
			return true
		}
	}
	return false
}

// parse returns the object that parseObject would.
func (r restObject) parse(id vectorstore.ID, known map[string]*property) (*vectorstore.Object, error) {
	o := &vectorstore.Object{Ref: vectorstore.Ref{ID: id}, Vectors: map[string][]float32{}}
	if len(r.Unnamed) > 0 {
		o.Vectors[""] = r.Unnamed
	}
	for name, text := range r.Vectors {
		if err := takeJSON(o, name, text); err != nil {
			return nil, fmt.Errorf("vector %q: %w", name, err)
		}
	}
	var err error
	if o.Properties, err = fromJSON(known, r.Properties); err != nil {
		return nil, err
	}
	return o, takeBookkeeping(o)
}

// fromJSON returns the values of properties, or of the fields of an object, as decode does. One that the schema lacks is what its JSON
// says.
func fromJSON(known map[string]*property, fields map[string]json.RawMessage) (map[string]any, error) {
	out := make(map[string]any, len(fields))
	for name, text := range fields {
		if string(text) == "null" {
			continue
		}
		var err error
		if p := known[name]; p == nil {
			out[name], err = decodeJSON(text)
		} else if element, array := p.dataType.element(); array {
			out[name], err = listFromJSON(p, element, text)
		} else {
			out[name], err = p.fromJSON(p.dataType, text)
		}
		if err != nil { // of package json, which quotes no values of texts
			return nil, fmt.Errorf("%q: the server sent what is not its type: %w", name, err)
		}
	}
	return out, nil
}

// fromJSON returns a single value of type t, that of p or of its elements.
func (p *property) fromJSON(t DataType, text json.RawMessage) (any, error) {
	switch t {
	case Int:
		v, err := unmarshal[float64](text) // which is what the server keeps, and may write with an exponent
		return int64(v), err
	case Number:
		return unmarshal[float64](text)
	case Boolean:
		return unmarshal[bool](text)
	case Object:
		fields, err := unmarshal[map[string]json.RawMessage](text)
		if err != nil {
			return nil, err
		}
		return fromJSON(p.nested, fields)
	}
	v, err := unmarshal[string](text)
	switch {
	case err != nil:
		return nil, err
	case t == Date:
		return decodeDate(v)
	case t == Blob:
		return base64.StdEncoding.DecodeString(v)
	}
	return v, nil
}

func unmarshal[T any](text json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return v, errors.New("not a " + fmt.Sprintf("%T", v))
	}
	return v, nil
}

func listFromJSON(p *property, element DataType, text json.RawMessage) (any, error) {
	texts, err := unmarshal[[]json.RawMessage](text)
	if err != nil {
		return nil, err
	}
	items := make([]any, len(texts))
	for i := range items {
		if items[i], err = p.fromJSON(element, texts[i]); err != nil {
			return nil, err
		}
	}
	switch element {
	case Int:
		return listOf[int64](items), nil
	case Number:
		return listOf[float64](items), nil
	case Boolean:
		return listOf[bool](items), nil
	case Date:
		return listOf[time.Time](items), nil
	case Object:
		return listOf[map[string]any](items), nil
	}
	return listOf[string](items), nil
}
