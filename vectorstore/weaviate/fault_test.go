package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// faultyServer answers as the real server does in states that it cannot be brought into here: each test says what. It keeps what
// was put and deleted.
type faultyServer struct {
	pb.UnimplementedWeaviateServer
	batch  func(call int, req *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error)
	remove func(call int, req *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error)
	search func(call int, req *pb.SearchRequest) (*pb.SearchReply, error)

	mu      sync.Mutex
	calls   int
	sizes   []int            // objects in each batch
	stored  map[string][]int // by id, the calls that stored it
	headers metadata.MD      // of the last call
}

// enter counts a call.
func (f *faultyServer) enter(ctx context.Context) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.headers, _ = metadata.FromIncomingContext(ctx)
	f.calls++
	return f.calls
}

func (f *faultyServer) BatchObjects(ctx context.Context, req *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
	call := f.enter(ctx)
	reply, err := &pb.BatchObjectsReply{}, error(nil)
	if f.batch != nil {
		reply, err = f.batch(call, req)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes = append(f.sizes, len(req.GetObjects()))
	for _, o := range req.GetObjects() {
		if err == nil || errors.Is(err, errLost) {
			f.stored[o.GetUuid()] = append(f.stored[o.GetUuid()], call)
		}
	}
	return reply, err
}

func (f *faultyServer) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// errLost is a reply that is lost after the server has done its work.
var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

func (f *faultyServer) BatchDelete(ctx context.Context, req *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
	return f.remove(f.enter(ctx), req)
}

func (f *faultyServer) Search(ctx context.Context, req *pb.SearchRequest) (*pb.SearchReply, error) {
	return f.search(f.enter(ctx), req)
}

// faultyStore returns a store that talks to f.
func faultyStore(t *testing.T, f *faultyServer, o Options, options ...grpc.ServerOption) *Store {
	t.Helper()
	f.stored = map[string][]int{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	pb.RegisterWeaviateServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	o.HTTP, o.GRPC, o.Collection = "127.0.0.1:1", listener.Addr().String(), "product"
	o.ConnectTimeout, o.ReadTimeout = patience, cmp.Or(o.ReadTimeout, patience)
	o = o.withDefaults()
	s := &Store{
		conn: testConn(t, o), collection: o.Collection, tombstones: o.Collection + tombstones, maxBytes: o.MaxBatchBytes, pace: newPace(o.MaxInFlight, o.MaxBatch),
		dims: map[string]int{}, extending: make(chan struct{}, 1),
	}
	s.schema.Store(newSchema(class{
		Properties:   []classProperty{{Name: "title", DataType: []string{"text"}}},
		VectorConfig: map[string]vectorConfig{"text_vector": {VectorIndexConfig: indexConfig{Distance: Cosine}}},
	}))
	return s
}

func idOf(n int) vectorstore.ID {
	return vectorstore.ID(fmt.Sprintf("%08x-0000-5000-8000-%012x", n, n))
}

func upserts(ns ...int) []vectorstore.Mutation {
	var m []vectorstore.Mutation
	for _, n := range ns {
		m = append(m, vectorstore.Mutation{Object: vectorstore.Object{
			Ref: vectorstore.Ref{ID: idOf(n)}, Properties: map[string]any{"title": fmt.Sprint(n)},
			Vectors: map[string][]float32{"text_vector": {1, float32(n)}}, Version: fmt.Sprintf("v%d", n),
		}})
	}
	return m
}

func deletes(ns ...int) []vectorstore.Mutation {
	m := upserts(ns...)
	for i := range m {
		m[i] = vectorstore.Mutation{Action: vectorstore.Delete, Object: vectorstore.Object{Ref: m[i].Object.Ref, Version: m[i].Object.Version}}
	}
	return m
}

// failed returns the places of err's item errors.
func failed(t *testing.T, err error) []int {
	t.Helper()
	if err == nil {
		return nil
	}
	var batch *vectorstore.BatchError
	if !errors.As(err, &batch) {
		t.Fatalf("error is %v, want one with item errors", err)
	}
	var at []int
	for i, e := range batch.Errs {
		if e != nil {
			at = append(at, i)
		}
	}
	return at
}

func TestReplyLostAfterCommit(t *testing.T) {
	f := &faultyServer{batch: func(call int, _ *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		if call == 1 {
			return nil, errLost
		}
		return &pb.BatchObjectsReply{}, nil
	}}
	s := faultyStore(t, f, Options{})
	if err := s.Apply(t.Context(), upserts(1)); err != nil {
		t.Fatal(err)
	}
	if got := f.stored[string(idOf(1))]; len(f.stored) != 1 || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("stored %v, want the same object written twice", f.stored)
	}
}

func TestUnavailable(t *testing.T) {
	for retries, calls := range map[int]int{-1: 1, 0: 4, 1: 2} {
		f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
			return nil, status.Error(codes.Unavailable, "shutting down")
		}}
		s := faultyStore(t, f, Options{Retries: retries})
		err := s.Apply(t.Context(), upserts(1, 2))
		var items interface{ ItemErrors() []error }
		if status.Code(err) != codes.Unavailable || errors.As(err, &items) || itemerror.IsPermanent(err) {
			t.Errorf("error is %v, want the status as it is", err)
		}
		if !strings.Contains(fmt.Sprint(err), s.conn.grpcAddr) {
			t.Errorf("error %v does not name %s", err, s.conn.grpcAddr)
		}
		if f.called() != calls {
			t.Errorf("Retries %d: %d calls, want %d", retries, f.called(), calls)
		}
	}
}

// TestUnavailableForAll: when a batch has found out that nobody answers, the others of the call do not try that again.
func TestUnavailableForAll(t *testing.T) {
	f := &faultyServer{batch: func(call int, _ *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		if call == 1 {
			return &pb.BatchObjectsReply{}, nil
		}
		return nil, status.Error(codes.Unavailable, "shutting down")
	}}
	s := faultyStore(t, f, Options{Retries: 1, MaxBatch: 2, MaxInFlight: 1})
	err := s.Apply(t.Context(), upserts(1, 2, 3, 4, 5, 6, 7, 8))
	if got := failed(t, err); !slices.Equal(got, []int{2, 3, 4, 5, 6, 7}) || itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if f.called() != 3 {
		t.Errorf("%d calls, want one that succeeds and one that is repeated once", f.called())
	}
}

func TestOtherCodesAreNotRepeated(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.Internal, codes.Unauthenticated, codes.ResourceExhausted} {
		f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
			return nil, status.Error(code, "usage limit reached")
		}}
		s := faultyStore(t, f, Options{})
		if err := s.Apply(t.Context(), upserts(1, 2)); status.Code(err) != code || itemerror.IsPermanent(err) || f.called() != 1 {
			t.Errorf("%v: error %v after %d calls", code, err, f.called())
		}
	}
}

func TestTimeouts(t *testing.T) {
	release := make(chan struct{})
	f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		<-release
		return &pb.BatchObjectsReply{}, nil
	}}
	s := faultyStore(t, f, Options{ReadTimeout: 50 * time.Millisecond})
	defer close(release)
	err := s.Apply(t.Context(), upserts(1))
	if !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.DeadlineExceeded || f.called() > 1 {
		t.Errorf("ReadTimeout: error %v after %d calls", err, f.called())
	}
	s.conn.readTimeout = -1
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Apply(ctx, upserts(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context: error %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := s.Apply(ctx, upserts(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}

func TestRetriesEndWithTheContext(t *testing.T) {
	f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		return nil, status.Error(codes.Unavailable, "starting")
	}}
	s := faultyStore(t, f, Options{Retries: 1 << 30})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := s.Apply(ctx, upserts(1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestItemErrors(t *testing.T) {
	wrong := "Validate vector index text_vector for target vector x: new node has a vector with length 2. Existing nodes have vectors with length 3"
	tests := map[string]struct {
		errors    map[int32]string
		failed    []int
		permanent bool
	}{
		"none":               {nil, nil, false},
		"dimensions":         {map[int32]string{1: wrong}, []int{1}, true},
		"nested":             {map[int32]string{2: "invalid object property 'd' on class 'P': unknown property 'd.y'"}, []int{2}, true},
		"read-only":          {map[int32]string{0: "store is read-only due to: disk usage"}, []int{0, 1, 2}, false},
		"unknown":            {map[int32]string{1: "something new"}, []int{0, 1, 2}, false},
		"places that do not": {map[int32]string{-1: wrong, 3: wrong}, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
				reply := &pb.BatchObjectsReply{}
				for i, text := range tt.errors {
					reply.Errors = append(reply.Errors, &pb.BatchObjectsReply_BatchError{Index: i, Error: text})
				}
				return reply, nil
			}}
			err := faultyStore(t, f, Options{}).Apply(t.Context(), upserts(1, 2, 3))
			if got := failed(t, err); !slices.Equal(got, tt.failed) {
				t.Errorf("failed are %v, want %v: %v", got, tt.failed, err)
			}
			if itemerror.IsPermanent(err) != tt.permanent {
				t.Errorf("permanent is %v: %v", !tt.permanent, err)
			}
		})
	}
}

// TestRefusedTogether has a good mutation and one that only the server can refuse, of one object: the good one takes effect.
func TestRefusedTogether(t *testing.T) {
	var last *pb.BatchObject
	f := &faultyServer{batch: func(_ int, req *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		reply := &pb.BatchObjectsReply{}
		for i, o := range req.GetObjects() {
			if o.GetProperties().GetNonRefProperties().AsMap()["title"] == "bad" {
				reply.Errors = append(reply.Errors, &pb.BatchObjectsReply_BatchError{Index: int32(i), Error: "invalid text property 'title'"})
			} else if o.GetUuid() == string(idOf(1)) {
				last = o
			}
		}
		return reply, nil
	}}
	m := upserts(1, 1, 2)
	m[1].Object.Properties["title"] = "bad"
	err := faultyStore(t, f, Options{}).Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{1}) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if last == nil || len(f.stored[string(idOf(2))]) != 1 {
		t.Errorf("stored %v; object 1 is %v", f.stored, last)
	}
}

func TestBatches(t *testing.T) {
	f := &faultyServer{}
	s := faultyStore(t, f, Options{MaxBatch: 3, MaxInFlight: 1})
	if err := s.Apply(t.Context(), upserts(1, 2, 3, 4, 5, 6, 7)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.sizes, []int{3, 3, 1}) {
		t.Errorf("by count: batches of %v", f.sizes)
	}
	f = &faultyServer{}
	s = faultyStore(t, f, Options{MaxBatchBytes: 3000, MaxInFlight: 1})
	m := upserts(1, 2, 3, 4)
	m[2].Object.Properties["title"] = strings.Repeat("x", 10_000) // larger than a batch by itself
	if err := s.Apply(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.sizes, []int{2, 1, 1}) {
		t.Errorf("by size: batches of %v", f.sizes)
	}
}

func TestOneBatchOfSeveralFails(t *testing.T) {
	f := &faultyServer{batch: func(call int, _ *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		if call == 2 {
			return nil, status.Error(codes.Internal, "broken")
		}
		return &pb.BatchObjectsReply{}, nil
	}}
	s := faultyStore(t, f, Options{MaxBatch: 2, MaxInFlight: 1})
	err := s.Apply(t.Context(), upserts(1, 2, 3, 4, 5))
	if got := failed(t, err); !slices.Equal(got, []int{2, 3}) || itemerror.IsPermanent(err) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("failed are %v: %v", got, err)
	}
}

func TestTooLarge(t *testing.T) {
	f := &faultyServer{}
	s := faultyStore(t, f, Options{}, grpc.MaxRecvMsgSize(4000)) // a server that takes less than it says
	m := upserts(1, 2, 3, 4, 5, 6, 7, 8)
	for i := range m {
		m[i].Object.Properties["title"] = strings.Repeat("x", 1000)
	}
	m[4].Object.Properties["title"] = strings.Repeat("x", 5000)
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{4}) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if len(f.stored) != 7 {
		t.Errorf("stored %d objects, want 7", len(f.stored))
	}

	f = &faultyServer{}
	s = faultyStore(t, f, Options{})
	s.conn.sendLimit = 4000
	err = s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{4}) || !itemerror.IsPermanent(err) {
		t.Errorf("known limit: failed are %v: %v", got, err)
	}
	if f.called() != 1 || len(f.stored) != 7 {
		t.Errorf("known limit: %d calls stored %d objects, want 1 and 7", f.called(), len(f.stored))
	}
}

func TestAnswerTooLarge(t *testing.T) {
	f := &faultyServer{search: func(_ int, req *pb.SearchRequest) (*pb.SearchReply, error) {
		reply := &pb.SearchReply{}
		for _, id := range req.GetFilters().GetValueTextArray().GetValues() {
			if req.GetCollection() == "Product" {
				metadata := &pb.MetadataResult{Id: id, ExplainScore: strings.Repeat("x", 1000)}
				reply.Results = append(reply.Results, &pb.SearchResult{Metadata: metadata})
			}
		}
		return reply, nil
	}}
	s := faultyStore(t, f, Options{}, grpc.MaxSendMsgSize(2500))
	var refs []vectorstore.Ref
	for n := range 9 {
		refs = append(refs, vectorstore.Ref{ID: idOf(n)})
	}
	got, err := s.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range got {
		if o == nil || o.ID != refs[i].ID {
			t.Errorf("object %d is %+v", i, o)
		}
	}
}

func TestDeleteToTheEnd(t *testing.T) {
	left := int64(25)
	f := &faultyServer{remove: func(int, *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
		n := min(left, 10)
		left -= n
		return &pb.BatchDeleteReply{Matches: left + n, Successful: n}, nil
	}}
	s := faultyStore(t, f, Options{})
	if err := s.Clear(t.Context(), ""); err != nil || left != 0 {
		t.Errorf("Clear: %d are left, error %v", left, err)
	}

	f = &faultyServer{remove: func(int, *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
		return &pb.BatchDeleteReply{Matches: 7}, nil
	}}
	s = faultyStore(t, f, Options{})
	if err := s.Clear(t.Context(), ""); err == nil || f.called() != 1 {
		t.Errorf("without progress: error %v after %d calls", err, f.called())
	}
}

func TestDeleteErrors(t *testing.T) {
	text := "store is read-only"
	third := []byte{0, 0, 0, 3, 0, 0, 0x50, 0, 0x80, 0, 0, 0, 0, 0, 0, 3}
	tests := map[string]struct {
		reply  *pb.BatchDeleteReply
		failed []int
	}{
		"one":                  {&pb.BatchDeleteReply{Matches: 3, Successful: 2, Failed: 1, Objects: []*pb.BatchDeleteObject{{Uuid: third, Error: &text}}}, []int{2}},
		"more than are named":  {&pb.BatchDeleteReply{Matches: 3, Successful: 1, Failed: 2, Objects: []*pb.BatchDeleteObject{{Uuid: third, Error: &text}}}, []int{0, 1, 2}},
		"more than were tried": {&pb.BatchDeleteReply{Matches: 9, Successful: 2, Failed: 1, Objects: []*pb.BatchDeleteObject{{Uuid: third, Error: &text}}}, []int{0, 1, 2}},
		"no id":                {&pb.BatchDeleteReply{Matches: 3, Successful: 2, Failed: 1, Objects: []*pb.BatchDeleteObject{{Error: &text}}}, []int{0, 1, 2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &faultyServer{remove: func(int, *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) { return tt.reply, nil }}
			err := faultyStore(t, f, Options{}).Apply(t.Context(), deletes(1, 2, 3))
			if got := failed(t, err); !slices.Equal(got, tt.failed) || itemerror.IsPermanent(err) {
				t.Errorf("failed are %v: %v", got, err)
			}
		})
	}
}

// TestDeleteIsRememberedFirst: where the deletion could not be remembered, the object is not removed.
func TestDeleteIsRememberedFirst(t *testing.T) {
	var removed []string
	f := &faultyServer{
		batch: func(_ int, req *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
			for i, o := range req.GetObjects() {
				if o.GetCollection() != "ProductTombstones" || len(o.GetVectors()) > 0 {
					return nil, status.Errorf(codes.Internal, "object %d is no tombstone: %v", i, o)
				}
			}
			return &pb.BatchObjectsReply{Errors: []*pb.BatchObjectsReply_BatchError{{Index: 1, Error: "invalid text property 'x'"}}}, nil
		},
		remove: func(_ int, req *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
			removed = req.GetFilters().GetValueTextArray().GetValues()
			return &pb.BatchDeleteReply{Matches: int64(len(removed)), Successful: int64(len(removed))}, nil
		},
	}
	err := faultyStore(t, f, Options{}).Apply(t.Context(), deletes(1, 2, 3))
	if got := failed(t, err); !slices.Equal(got, []int{1}) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if want := []string{string(idOf(1)), string(idOf(3))}; !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
}

// TestDeleteNeedsARefAlone: what else the object of a Delete has, another mutation might need; here it means nothing.
func TestDeleteNeedsARefAlone(t *testing.T) {
	f := &faultyServer{remove: func(int, *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
		return &pb.BatchDeleteReply{Matches: 1, Successful: 1}, nil
	}}
	m := deletes(1)
	m[0].Object.Vectors = map[string][]float32{"text_vector": {0}, "unknown": {1}}
	m[0].Object.Properties = map[string]any{"id": func() {}}
	m[0].Object.Inputs = map[string]string{"\xff": "\xff"}
	if err := faultyStore(t, f, Options{}).Apply(t.Context(), m); err != nil {
		t.Error(err)
	}
}

func TestHeaders(t *testing.T) {
	f := &faultyServer{}
	s := faultyStore(t, f, Options{APIKey: " secret\n"})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	if err := s.Apply(ctx, upserts(1)); err != nil {
		t.Fatal(err)
	}
	if got := f.headers.Get("authorization"); !slices.Equal(got, []string{"Bearer secret"}) {
		t.Errorf("authorization is %q", got)
	}
	if got, want := f.headers.Get("traceparent"), "00-01000000000000000000000000000000-0200000000000000-01"; !slices.Equal(got, []string{want}) {
		t.Errorf("traceparent is %q, want %q", got, want)
	}
	own := "00-0a000000000000000000000000000000-0b00000000000000-01"
	ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", own, "x-own", "kept")
	if err := s.Apply(ctx, upserts(1)); err != nil {
		t.Fatal(err)
	}
	if got := f.headers; !slices.Equal(got.Get("traceparent"), []string{own}) || !slices.Equal(got.Get("x-own"), []string{"kept"}) {
		t.Errorf("the caller's metadata arrived as %v", got)
	}
}

func TestClosed(t *testing.T) {
	s := faultyStore(t, &faultyServer{}, Options{})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Apply(t.Context(), upserts(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := s.Get(t.Context(), []vectorstore.Ref{{ID: idOf(1)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 0}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Search: %v", err)
	}
}
