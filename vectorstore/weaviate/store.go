package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// maxIDs is the number of objects that one request reads or deletes by id.
const maxIDs = 256

// Store is a [vectorstore.Store] and [vectorstore.VersionedClearer] in one Weaviate collection. It is safe for concurrent use.
// Use [New], and Close at the end.
type Store struct {
	conn       *conn
	collection string
	tombstones string
	fixed      bool
	tenants    bool
	replicated bool
	aliased    bool // collection is an alias
	maxBytes   int
	pace       *pace
	write      *pb.ConsistencyLevel
	read       *pb.ConsistencyLevel

	spoiled   spoiled
	schema    atomic.Pointer[schema]
	extending chan struct{} // has a place for the one that adds properties

	mu   sync.Mutex
	dims map[string]int // guarded by mu: by vector name, from the options, or of a vector that the server has
}

var (
	_ vectorstore.Store            = (*Store)(nil)
	_ vectorstore.VersionedClearer = (*Store)(nil)
)

// New connects, waits until both endpoints answer (at most ConnectTimeout), and creates the collection and its
// collection of deletions, or checks that the ones that are there fit (a [CollectionError] lists where they do not) and
// changes what the server can; with OpenOnly, or where something does not fit, it changes nothing. An endpoint that cannot be reached is an error that names it. The context
// bounds New alone.
func New(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	rest, rpc, err := o.endpoints()
	if err != nil {
		return nil, err
	}
	c, err := newConn(o, rest, rpc)
	if err != nil {
		return nil, err
	}
	s := &Store{
		conn: c, collection: o.Collection, tombstones: o.Collection + tombstones, fixed: o.FixedProperties,
		tenants:  o.Tenants,
		maxBytes: o.MaxBatchBytes, pace: newPace(o.MaxInFlight, o.MaxBatch),
		write: o.WriteConsistency.message(), read: o.ReadConsistency.message(), dims: map[string]int{},
		extending: make(chan struct{}, 1),
	}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	if err := s.conn.ready(ctx, o.ConnectTimeout); err != nil {
		return err
	}
	var meta struct {
		MaxMessage int `json:"grpcMaxMessageSize"`
	}
	if err := s.conn.rest(ctx, "GET", "/v1/meta", nil, &meta); err != nil {
		return fmt.Errorf("weaviate: REST endpoint %s: %w", s.conn.httpAddr, err)
	}
	s.conn.sendLimit = cmp.Or(meta.MaxMessage, maxMessageBytes)
	s.maxBytes = min(s.maxBytes, s.conn.sendLimit)
	for _, v := range o.Vectors {
		if v.Dimensions > 0 {
			s.dims[v.Name] = v.Dimensions
		}
	}
	return s.ensure(ctx, o)
}

// ensure makes the collections as they are wanted, or changes nothing, where they cannot be.
func (s *Store) ensure(ctx context.Context, o Options) error {
	objects, err := s.conn.plan(ctx, o.wanted(), o.OpenOnly)
	if err != nil && !errors.Is(err, ErrCollection) {
		return err
	}
	plans := []*plan{objects}
	if s.aliased = err == nil && objects.have.Class != "" && objects.want.Class != o.Collection; !s.aliased {
		deletions, errDeletions := s.conn.plan(ctx, o.wantedTombstones(), o.OpenOnly)
		plans, err = append(plans, deletions), errors.Join(err, errDeletions)
	}
	if err != nil {
		return err
	}
	if objects.have.Class != "" {
		s.schema.Store(newSchema(objects.have))
		if err := s.checkStored(ctx, o.Vectors); err != nil {
			return err
		}
	}
	for _, p := range slices.Backward(plans) {
		have, err := s.conn.carryOut(ctx, p)
		if err != nil {
			return err
		}
		if p == objects {
			s.schema.Store(newSchema(have))
			s.replicated = have.Replication != nil && have.Replication.Factor > 1
		}
	}
	return nil
}

// checkStored reads an object: it tells the dimensions that are there, and that reading works.
func (s *Store) checkStored(ctx context.Context, vectors []Vector) error {
	if s.tenants { // each may have others
		return nil
	}
	results, err := s.search(ctx, "read", &pb.SearchRequest{Limit: 1})
	if err != nil {
		return err
	}
	for _, result := range results {
		for _, have := range result.GetMetadata().GetVectors() {
			length := lengthOf(have)
			i := slices.IndexFunc(vectors, func(want Vector) bool { return want.Name == have.GetName() })
			if i >= 0 && vectors[i].Dimensions > 0 && vectors[i].Dimensions != length {
				return &CollectionError{s.collection, s.conn.grpcAddr, []Difference{{
					"vector " + have.GetName() + ": dimensions of what is stored", fmt.Sprint(length), fmt.Sprint(vectors[i].Dimensions),
				}}}
			}
		}
	}
	return nil
}

// Close closes the connections. Calls that are under way, and later ones, fail with [ErrClosed]. A second Close does
// nothing.
func (s *Store) Close() error { return s.conn.close() }

// search is ask for requests whose answer is one list.
func (s *Store) search(ctx context.Context, op string, req *pb.SearchRequest) ([]*pb.SearchResult, error) {
	reply, err := s.ask(ctx, op, req)
	return reply.GetResults(), err
}

// ask completes a request so that it returns whole objects, and learns dimensions from the answer. The Store's collection
// is the default, and so are vectors.
func (s *Store) ask(ctx context.Context, op string, req *pb.SearchRequest) (*pb.SearchReply, error) {
	req.Collection = cmp.Or(req.Collection, s.collection)
	req.Uses_127Api = true
	req.ConsistencyLevel = s.read
	if req.Metadata == nil {
		req.Metadata = &pb.MetadataRequest{Uuid: true, Vector: true}
	}
	req.Properties = &pb.PropertiesRequest{ReturnAllNonrefProperties: true}
	if explicit := s.schema.Load().explicit; explicit != nil && req.Collection == s.collection {
		req.Properties = explicit
	}
	reply, err := call(ctx, s.conn, op, s.conn.client.Search, req)
	if s.tenants && noTenant(err) {
		return &pb.SearchReply{}, nil // nothing was written to it yet
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, result := range reply.GetResults() {
		for _, v := range result.GetMetadata().GetVectors() {
			s.learn(v.GetName(), lengthOf(v))
		}
		s.learn("", len(result.GetMetadata().GetVectorBytes())/4)
	}
	return reply, nil
}

// learn needs s.mu.
func (s *Store) learn(vector string, dims int) {
	if s.dims[vector] == 0 && dims > 0 {
		s.dims[vector] = dims
	}
}

// dimensions returns a copy of what is known of them.
func (s *Store) dimensions() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.dims)
}
