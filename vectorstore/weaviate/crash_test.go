package weaviate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// brokenClient passes calls on, but for one: that one fails, before or after the server has done it.
type brokenClient struct {
	pb.WeaviateClient
	mu    sync.Mutex
	left  int // calls until the one that fails
	after bool
	sent  int
}

var errBroken = errors.New("broken")

func pass[Req, Reply any](ctx context.Context, c *brokenClient, rpc func(context.Context, Req, ...grpc.CallOption) (Reply, error), req Req) (Reply, error) {
	c.mu.Lock()
	c.sent++
	breaks := c.left == 0
	c.left--
	c.mu.Unlock()
	var none Reply
	if breaks && !c.after {
		return none, errBroken
	}
	reply, err := rpc(ctx, req)
	if breaks {
		return none, errBroken
	}
	return reply, err
}

func (c *brokenClient) BatchObjects(ctx context.Context, req *pb.BatchObjectsRequest, _ ...grpc.CallOption) (*pb.BatchObjectsReply, error) {
	return pass(ctx, c, c.WeaviateClient.BatchObjects, req)
}

func (c *brokenClient) BatchDelete(ctx context.Context, req *pb.BatchDeleteRequest, _ ...grpc.CallOption) (*pb.BatchDeleteReply, error) {
	return pass(ctx, c, c.WeaviateClient.BatchDelete, req)
}

func (c *brokenClient) Search(ctx context.Context, req *pb.SearchRequest, _ ...grpc.CallOption) (*pb.SearchReply, error) {
	return pass(ctx, c, c.WeaviateClient.Search, req)
}

// TestServerCrashPoints breaks an Apply at each of its requests. What Get then says is what was there before or what the mutations
// make, never anything else; and applying them again gives what they make.
func TestServerCrashPoints(t *testing.T) {
	o := serverOptions(t)
	s := open(t, o)
	whole := s.conn.client
	before := slices.Concat(upserts(1, 2, 3), deletes(4))
	m := slices.Concat(deletes(1), upserts(2, 4, 5), deletes(6))
	m = append(m, vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(3)}, Properties: map[string]any{"title": "merged"}, Version: "v3b",
	}})
	m[1].Object.Properties["title"], m[1].Object.Version = "again", "v2b"
	var refs []vectorstore.Ref
	for n := range 7 {
		refs = append(refs, vectorstore.Ref{ID: idOf(n)})
	}
	state := func() []vectorstore.Object {
		got, err := s.Get(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]vectorstore.Object, len(got))
		for i, o := range got {
			if o != nil {
				out[i] = *o
			}
		}
		return out
	}
	apply(t, s, before...)
	old := state()
	apply(t, s, m...)
	made := state()
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			if err := s.Clear(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			apply(t, s, before...)
			broken := &brokenClient{WeaviateClient: whole, left: at, after: after}
			s.conn.client = broken
			err := s.Apply(t.Context(), m)
			s.conn.client = whole
			if err == nil {
				if broken.sent != at || at < 3 {
					t.Errorf("%d requests without an error; expected at least a read, a write and a delete", broken.sent)
				}
				break
			}
			for i, got := range state() {
				if !reflect.DeepEqual(got, old[i]) && !reflect.DeepEqual(got, made[i]) {
					t.Errorf("broken at request %d (after %v): object %d is %+v; was %+v, becomes %+v", at, after, i, got, old[i], made[i])
				}
			}
			apply(t, s, m...)
			if got := state(); !reflect.DeepEqual(got, made) {
				t.Errorf("broken at request %d (after %v), then applied again: %+v, want %+v", at, after, got, made)
			}
		}
	}
}

// proxy passes TCP connections on to the server, and can cut them.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	running  sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener}
	p.running.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close() //nolint:errcheck // it is lost anyway
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				p.running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // ends when the connection is cut
					pair[0].Close()                  //nolint:errcheck // it is lost anyway
				})
			}
		}
	})
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // it has no state
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close() //nolint:errcheck // that is the point
	}
	p.conns = nil
}

// TestServerConnectionsCut writes while the connections are cut again and again: every call that succeeded is there, and the
// connection comes back by itself.
func TestServerConnectionsCut(t *testing.T) {
	o := serverOptions(t)
	_, rpc, err := o.withDefaults().endpoints()
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, rpc.address())
	o.GRPC = p.listener.Addr().String()
	s := open(t, o)
	const calls = 60
	var refs []vectorstore.Ref
	for n := range calls {
		if n%6 == 3 {
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, p.cut)
		}
		for err := s.Apply(t.Context(), upserts(n)); err != nil; err = s.Apply(t.Context(), upserts(n)) {
			if itemerror.IsPermanent(err) {
				t.Fatal(err)
			}
		}
		refs = append(refs, vectorstore.Ref{ID: idOf(n)})
	}
	var got []*vectorstore.Object
	for got == nil {
		if got, err = s.Get(t.Context(), refs); err != nil && t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	for n, o := range got {
		if o == nil || o.Version != fmt.Sprintf("v%d", n) {
			t.Errorf("object %d is %+v", n, o)
		}
	}
	if n := count(t, s, s.collection); n != calls {
		t.Errorf("%d objects are stored, want %d", n, calls)
	}
}
