package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

// TestTokens: every request asks for its token, on both transports; one that cannot be had is asked for again, and is never in an
// error.
func TestTokens(t *testing.T) {
	var asked atomic.Int32
	f := &faultyServer{}
	s := faultyStore(t, f, Options{Token: func(context.Context) (string, error) {
		if asked.Add(1) == 1 {
			return "", errors.New("the issuer is away")
		}
		return fmt.Sprintf("token%d", asked.Load()), nil
	}})
	if err := s.Apply(t.Context(), upserts(1)); err != nil {
		t.Fatal(err)
	}
	if got := f.headers.Get("authorization"); !slices.Equal(got, []string{"Bearer token2"}) {
		t.Errorf("gRPC: authorization is %q", got)
	}
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer token3" {
			t.Errorf("REST: authorization is %q", got)
		}
	}))
	t.Cleanup(rest.Close)
	s.conn.httpURL = rest.URL
	if err := s.conn.rest(t.Context(), http.MethodGet, "/", nil, nil); err != nil {
		t.Error(err)
	}

	s = faultyStore(t, &faultyServer{}, Options{Retries: -1, Token: token("sec\nret")})
	s.conn.httpURL = rest.URL
	errs := []error{s.Apply(t.Context(), upserts(1)), s.conn.rest(t.Context(), http.MethodGet, "/", nil, nil)}
	for _, err := range errs {
		if err == nil || itemerror.IsPermanent(err) || strings.Contains(err.Error(), "sec") || !strings.Contains(err.Error(), "header") {
			t.Errorf("a token that no header carries: %v", err)
		}
	}
}

// TestInFlight: batches of one call are under way together, never more than MaxInFlight.
func TestInFlight(t *testing.T) {
	var running, most atomic.Int32
	together := make(chan struct{})
	f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		n := running.Add(1)
		defer running.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		if n == 3 {
			close(together)
		}
		<-together
		time.Sleep(10 * time.Millisecond)
		return &pb.BatchObjectsReply{}, nil
	}}
	s := faultyStore(t, f, Options{MaxBatch: 2, MaxInFlight: 3, ReadTimeout: -1})
	if err := s.Apply(t.Context(), upserts(1, 2, 3, 4, 5, 6)); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 3 || len(f.stored) != 6 {
		t.Errorf("%d at once, %d stored", most.Load(), len(f.stored))
	}
}

// TestSlowServer: what a server refuses for its load halves what is under way.
func TestSlowServer(t *testing.T) {
	f := &faultyServer{batch: func(int, *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
		return nil, status.Error(codes.ResourceExhausted, "too many requests")
	}}
	s := faultyStore(t, f, Options{MaxInFlight: 8})
	for range 3 {
		if err := s.Apply(t.Context(), upserts(1)); status.Code(err) != codes.ResourceExhausted || itemerror.IsPermanent(err) {
			t.Fatal(err)
		}
	}
	if s.pace.limit != 1 {
		t.Errorf("%v requests at once", s.pace.limit)
	}
}

func TestConsistencyIsSent(t *testing.T) {
	f := &faultyServer{
		batch: func(_ int, req *pb.BatchObjectsRequest) (*pb.BatchObjectsReply, error) {
			if req.GetConsistencyLevel() != pb.ConsistencyLevel_CONSISTENCY_LEVEL_ALL {
				t.Errorf("write: %v", req.GetConsistencyLevel())
			}
			return &pb.BatchObjectsReply{}, nil
		},
		remove: func(_ int, req *pb.BatchDeleteRequest) (*pb.BatchDeleteReply, error) {
			if req.GetConsistencyLevel() != pb.ConsistencyLevel_CONSISTENCY_LEVEL_ALL {
				t.Errorf("delete: %v", req.GetConsistencyLevel())
			}
			return &pb.BatchDeleteReply{}, nil
		},
		search: func(_ int, req *pb.SearchRequest) (*pb.SearchReply, error) {
			if req.GetConsistencyLevel() != pb.ConsistencyLevel_CONSISTENCY_LEVEL_ONE {
				t.Errorf("read: %v", req.GetConsistencyLevel())
			}
			return &pb.SearchReply{}, nil
		},
	}
	s := faultyStore(t, f, Options{})
	s.write, s.read = All.message(), One.message()
	apply(t, s, slices.Concat(upserts(1), deletes(2))...)
	if err := s.ClearBefore(t.Context(), "", "v"); err != nil {
		t.Error(err)
	}
	if got := get(t, s, 1); got != nil {
		t.Errorf("got %+v", got)
	}
	if f.called() < 5 {
		t.Errorf("%d calls", f.called())
	}
}

// TestServerOptions: the server takes compressed messages and every consistency level.
func TestServerOptions(t *testing.T) {
	for _, level := range []Consistency{One, Quorum, All} {
		o := serverOptions(t)
		o.Compress, o.WriteConsistency, o.ReadConsistency = true, level, level
		s := open(t, o)
		apply(t, s, slices.Concat(upserts(1, 2), deletes(2))...)
		if got := get(t, s, 1); got == nil || got.Properties["title"] != "1" {
			t.Errorf("%s: got %+v", level, got)
		}
		if got, err := s.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 1}}); err != nil || len(got) != 1 {
			t.Errorf("%s: found %+v, error %v", level, got, err)
		}
	}
}

func TestServerDeleteWhere(t *testing.T) {
	s := open(t, serverOptions(t))
	m := upserts(1, 2, 3, 4)
	for i := range m {
		m[i].Object.Properties["stock"] = i
	}
	apply(t, s, m...)
	if n, err := s.DeleteWhere(t.Context(), "", vectorstore.GreaterOrEqual("stock", 2)); n != 2 || err != nil {
		t.Errorf("deleted %d, error %v", n, err)
	}
	if n := count(t, s, s.collection); n != 2 {
		t.Errorf("%d are left", n)
	}
	if got := get(t, s, 4); got != nil {
		t.Errorf("a deletion by filter is remembered: %+v", got)
	}
	for _, f := range []vectorstore.Filter{{}, vectorstore.Equal("none", 1)} {
		if n, err := s.DeleteWhere(t.Context(), "", f); n != 0 || !itemerror.IsPermanent(err) {
			t.Errorf("deleted %d, error %v", n, err)
		}
	}
}

// TestServerPieces: a call of many pieces, in which the same objects come again and again and some mutations are refused, has the effect
// and the errors that it has on the store in memory.
func TestServerPieces(t *testing.T) {
	const objects, mutations = 100, 6 * leastPiece
	o := serverOptions(t)
	o.MaxBatch, o.MaxInFlight = 3, 2
	s, oracle := open(t, o), memory.New()
	random := rand.New(rand.NewPCG(servicetest.Seed(t), 0))
	m := make([]vectorstore.Mutation, mutations)
	var refs []vectorstore.Ref
	for i := range objects {
		refs = append(refs, vectorstore.Ref{ID: idOf(i)})
	}
	for i := range m {
		vector := []float32{1, float32(i)}
		if random.IntN(20) == 0 {
			vector[1] = float32(math.NaN())
		}
		m[i].Action = []vectorstore.Action{vectorstore.Upsert, vectorstore.Merge, vectorstore.Delete}[random.IntN(3)]
		m[i].Object = vectorstore.Object{
			Ref: refs[random.IntN(objects)], Version: fmt.Sprintf("%04d", i),
			Properties: map[string]any{fmt.Sprintf("p%d", random.IntN(3)): int64(i)},
			Vectors:    map[string][]float32{[]string{"text_vector", "image_vector"}[random.IntN(2)]: vector},
		}
	}
	want := itemErrors(t, oracle.Apply(t.Context(), m), mutations)
	for i, err := range itemErrors(t, s.Apply(t.Context(), m), mutations) {
		if (err == nil) != (want[i] == nil) {
			t.Errorf("mutation %d: error %v, in memory %v", i, err, want[i])
		}
	}
	have, err := s.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := oracle.Get(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range refs {
		if have, want := fmt.Sprintf("%+v", have[i]), fmt.Sprintf("%+v", wanted[i]); have != want {
			t.Errorf("object %d: %s, in memory %s", i, have, want)
		}
	}
}

func itemErrors(t *testing.T, err error, n int) []error {
	t.Helper()
	errs, named := itemerror.Align(err, n)
	if !named {
		t.Fatal(err)
	}
	if err == nil {
		return make([]error, n)
	}
	return errs
}
