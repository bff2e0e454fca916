package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// nodeOptions are options for a node of a test's own, which drops nothing at the end: the node goes.
func nodeOptions(n *servicetest.WeaviateNode) Options {
	return Options{
		HTTP: n.HTTP, GRPC: n.GRPC, Collection: fmt.Sprintf("Test_%x", rand.Uint64()), ConnectTimeout: time.Minute, ReadTimeout: 30 * time.Second,
	}
}

func numbered(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// eventually does something until it has no error; every error until then must be one that passes.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	for err := do(); err != nil; err = do() {
		if itemerror.IsPermanent(err) || !sleep(t.Context(), 100*time.Millisecond) {
			t.Fatal(err)
		}
	}
}

// persist applies until the store takes all mutations.
func persist(t *testing.T, s *Store, m []vectorstore.Mutation) {
	t.Helper()
	eventually(t, func() error { return s.Apply(t.Context(), m) })
}

// read gets the objects with these numbers.
func read(t *testing.T, s *Store, numbers ...int) (got []*vectorstore.Object) {
	t.Helper()
	refs := make([]vectorstore.Ref, len(numbers))
	for i, n := range numbers {
		refs[i] = vectorstore.Ref{ID: idOf(n)}
	}
	eventually(t, func() (err error) {
		got, err = s.Get(t.Context(), refs)
		return err
	})
	return got
}

// acknowledged returns the numbers of the mutations that an Apply with this error has done.
func acknowledged(t *testing.T, m []vectorstore.Mutation, err error) []int {
	t.Helper()
	if err == nil {
		return numbered(len(m))
	}
	if itemerror.IsPermanent(err) {
		t.Errorf("the error does not pass: %.300v", err)
	}
	at := failed(t, err)
	return slices.DeleteFunc(numbered(len(m)), func(i int) bool { return slices.Contains(at, i) })
}

// checkStored fails the test unless the objects with these numbers are there. It gets them, since a search asks one replica, which may
// lack what a killed one has acknowledged with another.
func checkStored(t *testing.T, s *Store, numbers []int) {
	t.Helper()
	for i, o := range read(t, s, numbers...) {
		if o == nil || o.Deleted {
			t.Fatalf("object %d was acknowledged and is not there", numbers[i])
		}
	}
}

// interrupted passes writes on. With the one that makes objects enough it calls interrupt, and those after it wait until that is done.
type interrupted struct {
	pb.WeaviateClient
	interrupt func()       // once; others who call it wait for that
	left      atomic.Int64 // objects
}

func (c *interrupted) BatchObjects(ctx context.Context, req *pb.BatchObjectsRequest, o ...grpc.CallOption) (*pb.BatchObjectsReply, error) {
	n := int64(len(req.GetObjects()))
	switch left := c.left.Add(-n); {
	case left <= 0 && left+n > 0:
		go c.interrupt()
	case left <= 0:
		c.interrupt()
	}
	return c.WeaviateClient.BatchObjects(ctx, req, o...)
}

// importing applies mutations and calls interrupt when a quarter of them is sent. It returns what was acknowledged.
func importing(t *testing.T, s *Store, m []vectorstore.Mutation, interrupt func()) []int {
	t.Helper()
	c := &interrupted{WeaviateClient: s.conn.client, interrupt: sync.OnceFunc(interrupt)}
	c.left.Store(int64(len(m) / 4))
	s.conn.client = c
	err := s.Apply(context.WithoutCancel(t.Context()), m)
	s.conn.client = c.WeaviateClient
	c.interrupt()
	return acknowledged(t, m, err)
}

// TestServerRestarts kills a server in the middle of a batch and starts it again: what was not done has an error that passes, the
// same Store goes on by itself, and in the end every object is there, once.
func TestServerRestarts(t *testing.T) {
	node := servicetest.Weaviate{}.Start(t)[0]
	o := nodeOptions(node)
	o.MaxBatch = 20
	s := open(t, o)
	m := upserts(numbered(2000)...)
	done := importing(t, s, m, node.Kill)
	if len(done) < 100 || len(done) == len(m) {
		t.Errorf("%d of %d were acknowledged", len(done), len(m))
	}
	node.Start(t)
	persist(t, s, m[:1])
	checkStored(t, s, done)
	persist(t, s, m)
	if n := count(t, s, s.collection); n != len(m) {
		t.Errorf("%d objects are stored, want %d", n, len(m))
	}
}

// TestServerCluster has a cluster of three nodes, each with all objects, of which one is killed and comes back. What a quorum has
// acknowledged is there, whichever node is asked.
func TestServerCluster(t *testing.T) {
	nodes := servicetest.Weaviate{Nodes: 3, Env: []string{"MEMBERLIST_FAST_FAILURE_DETECTION=true"}}.Start(t)
	o := nodeOptions(nodes[0])
	o.Replication.Factor, o.MaxBatch, o.ReadTimeout = 3, 20, 10*time.Second
	through := func(n *servicetest.WeaviateNode, write, read Consistency) *Store {
		o := o
		o.HTTP, o.GRPC, o.WriteConsistency, o.ReadConsistency = n.HTTP, n.GRPC, write, read
		for {
			s, err := New(t.Context(), o)
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			if !sleep(t.Context(), 100*time.Millisecond) { // until the nodes have a leader again, which knows the schema
				t.Fatal(err)
			}
		}
	}
	s := through(nodes[0], "", "")

	t.Run("replicas", func(t *testing.T) {
		other := o
		other.Replication.Factor = 2
		eventually(t, func() error {
			_, err := New(t.Context(), other)
			if err == nil {
				t.Fatal("another factor: no error")
			} else if errors.Is(err, ErrCollection) {
				return nil
			}
			return err
		})
		want := shapes()
		persist(t, through(nodes[0], All, ""), []vectorstore.Mutation{{Object: want}}) // so that it is what One reads
		for _, n := range nodes {
			for _, level := range []Consistency{"", One, All} {
				got := read(t, through(n, All, level), 7)[0] // by REST, but for One
				if got == nil || !reflect.DeepEqual(got.Properties, want.Properties) || !reflect.DeepEqual(got.Vectors, want.Vectors) {
					t.Errorf("level %q: %+v", level, got)
				}
			}
		}
		persist(t, s, []vectorstore.Mutation{{Action: vectorstore.Merge, Object: vectorstore.Object{
			Ref: want.Ref, Properties: map[string]any{"text": "merged"},
		}}})
		want.Properties["text"] = "merged"
		if got := read(t, s, 7)[0]; !reflect.DeepEqual(got.Properties, want.Properties) || !reflect.DeepEqual(got.Vectors, want.Vectors) {
			t.Errorf("merged: %+v", got)
		}
	})

	t.Run("killed in the middle", func(t *testing.T) {
		m := upserts(numbered(1000)...)
		done := importing(t, s, m, nodes[2].Kill)
		t.Logf("%d of %d were acknowledged", len(done), len(m))
		checkStored(t, s, done)
		persist(t, s, m)
		checkStored(t, s, numbered(len(m)))
	})

	// This is done while a node is down that has the objects.
	later := upserts(2, 3, 1000)
	for i := range 2 {
		later[i].Object.Version, later[i].Object.Properties["title"] = "v9", "later"
	}
	persist(t, s, deletes(1, 2))
	persist(t, s, later)
	nodes[2].Start(t)
	nodes[2].Await(t)
	behind := through(nodes[2], Quorum, Quorum)

	t.Run("deletion conflicts", func(t *testing.T) {
		for _, s := range []*Store{behind, s} {
			if got := read(t, s, 1)[0]; got == nil || !got.Deleted {
				t.Errorf("the deleted object is %+v", got)
			}
			if got := read(t, s, 2)[0]; got == nil || got.Deleted || got.Version != "v9" || got.Properties["title"] != "later" {
				t.Errorf("the object that was written after its deletion is %+v", got)
			}
			if got := read(t, s, 1000)[0]; got == nil || got.Properties["title"] != "1000" {
				t.Errorf("the new object is %+v", got)
			}
		}
		persist(t, behind, deletes(1000))
		for _, s := range []*Store{behind, s} {
			if got := read(t, s, 1000)[0]; got == nil || !got.Deleted {
				t.Errorf("the object that was deleted through a node without it is %+v", got)
			}
		}
	})

	t.Run("the node of the Store killed", func(t *testing.T) {
		m := upserts(numbered(1500)...)[1000:]
		done := importing(t, s, m, nodes[0].Kill)
		t.Logf("%d of %d were acknowledged", len(done), len(m))
		for i := range done {
			done[i] += 1000
		}
		checkStored(t, through(nodes[1], Quorum, Quorum), done)
		persist(t, behind, m)
		checkStored(t, behind, numbered(1500)[1000:])
	})

	t.Run("cleared", func(t *testing.T) {
		eventually(t, func() error { return behind.ClearBefore(t.Context(), "", "v31") }) // the node itself has version v3 of object 3
		nodes[0].Start(t)
		nodes[0].Await(t)
		s := through(nodes[1], Quorum, Quorum)
		before := count(t, s, s.collection)
		cleared := make(chan error, 1)
		go func() { cleared <- s.ClearBefore(context.WithoutCancel(t.Context()), "", "v5") }()
		for len(cleared) == 0 && count(t, s, s.collection) > before-100 { // by REST
		}
		nodes[0].Kill()
		if err := <-cleared; err != nil {
			eventually(t, func() error { return s.ClearBefore(t.Context(), "", "v5") })
		}
		numbers := []int{1, 2, 3, 4, 49, 50, 300, 499, 500, 999}
		for _, s := range []*Store{behind, s} {
			for i, o := range read(t, s, numbers...) {
				want := slices.Contains([]int{2, 3, 50, 500, 999}, numbers[i])
				if (o != nil) != want {
					t.Errorf("object %d: %+v", numbers[i], o)
				}
			}
		}
	})
}
