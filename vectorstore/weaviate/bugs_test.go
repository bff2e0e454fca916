package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// The tests of this file are named after public reports of bugs in programs that write to vector stores. What each of them asks
// for is shown on the real server. Two more are elsewhere: weaviate#5789 (names in other case) is TestServerNames, and llama_index#8887
// (10,001 matches of a delete) is TestServerDeletesAllMatches.

// TestServerLangchain35572 and python#2107: the error names the object that failed, and says so by itself, not by a flag.
func TestServerLangchain35572(t *testing.T) {
	s := open(t, serverOptions(t))
	apply(t, s, upserts(9)...)
	for _, byServer := range []bool{false, true} {
		m := upserts(1, 2, 3)
		m[1].Object.Vectors["text_vector"] = []float32{1, 2, 3}
		if byServer { // which alone knows the length then
			s.dims = map[string]int{}
			m[0].Object.Vectors, m[2].Object.Vectors = nil, nil
		}
		err := s.Apply(t.Context(), m)
		if got := failed(t, err); !slices.Equal(got, []int{1}) || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), string(idOf(2))) {
			t.Errorf("failed are %v: %v", got, err)
		}
		if get(t, s, 1) == nil || get(t, s, 2) != nil || get(t, s, 3) == nil {
			t.Error("not the two others are stored")
		}
	}
}

// TestServerWeaviate4499: in a new collection, the first vector of a batch fixes the length, and others are refused before they
// are sent.
func TestServerWeaviate4499(t *testing.T) {
	s := open(t, serverOptions(t))
	m := upserts(1, 2, 3, 4)
	for i, dims := range []int{5, 10, 6, 5} {
		m[i].Object.Vectors["text_vector"] = slices.Repeat([]float32{1}, dims)
	}
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{1, 2}) || !errors.Is(err, vectorstore.ErrVector) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if n := count(t, s, s.collection); n != 2 {
		t.Errorf("%d objects are stored", n)
	}
}

// TestServerWeaviate11735: an integer that the server would round is refused, in a property, a list and an object; as text it is kept.
func TestServerWeaviate11735(t *testing.T) {
	s := open(t, serverOptions(t))
	m := upserts(1, 2, 3, 4)
	m[0].Object.Properties["n"] = int64(math.MaxInt64)
	m[1].Object.Properties["ns"] = []int64{1, math.MinInt64}
	m[2].Object.Properties["o"] = map[string]any{"n": int64(1<<53 + 1)}
	m[3].Object.Properties["text"] = fmt.Sprint(int64(math.MaxInt64))
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{0, 1, 2}) || !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	if got := get(t, s, 4).Properties["text"]; got != "9223372036854775807" {
		t.Errorf("stored %v", got)
	}
}

// TestServerWeaviate1929 and 1916: dates of a database's text arrive as dates, and what is none is refused.
func TestServerWeaviate1929(t *testing.T) {
	o := serverOptions(t)
	o.Properties = []Property{{Name: "at", DataType: Date}}
	s := open(t, o)
	want := time.Date(2022, 4, 22, 10, 0, 0, 0, time.UTC)
	values := []any{"2022-04-22 10:00:00", want.In(time.FixedZone("", 3600)), "2022-04-22T12:00:00+02:00", "", "22.04.2022", "2022-02-30", 5}
	m := upserts(0, 1, 2, 3, 4, 5, 6)
	for i, v := range values {
		m[i].Object.Properties["at"] = v
	}
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{3, 4, 5, 6}) || !errors.Is(err, vectorstore.ErrValue) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	for i := range 3 {
		if got := get(t, s, i).Properties["at"]; got != want {
			t.Errorf("%v is stored as %v", values[i], got)
		}
	}
}

// TestServerWeaviate1932: a column id is an error that says so, when the collection is made and when it comes; that a shard is
// read-only is TestServerReadOnly.
func TestServerWeaviate1932(t *testing.T) {
	o := serverOptions(t)
	s := open(t, o)
	m := upserts(1)
	m[0].Object.Properties["id"] = 7
	if err := s.Apply(t.Context(), m); !errors.Is(err, vectorstore.ErrValue) || !strings.Contains(err.Error(), `"id" is a reserved name`) {
		t.Errorf("error is %v", err)
	}
	o.Properties = []Property{{Name: "id", DataType: Int}}
	if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"id" is a reserved name`) {
		t.Errorf("error is %v", err)
	}
}

// TestServerQdrant2530: vectors that compare with nothing are refused, and their neighbours stored and found.
func TestServerQdrant2530(t *testing.T) {
	s := open(t, serverOptions(t))
	m := upserts(1, 2, 3, 4)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for i, v := range [][]float32{{nan, 1}, {inf, 1}, {0, 0}} {
		m[i].Object.Vectors["text_vector"] = v
	}
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{0, 1, 2}) || !errors.Is(err, vectorstore.ErrVector) || !itemerror.IsPermanent(err) {
		t.Errorf("failed are %v: %v", got, err)
	}
	found, err := s.Search(t.Context(), vectorstore.Query{Vector: "text_vector", Near: []float32{1, 1}})
	if err != nil || len(found) != 1 || found[0].Object.ID != idOf(4) {
		t.Errorf("found %+v, error %v", found, err)
	}
}

// lostReplies loses the replies of so many writes, after the server has done its work.
type lostReplies struct {
	pb.WeaviateClient
	left int
}

func (c *lostReplies) BatchObjects(ctx context.Context, req *pb.BatchObjectsRequest, o ...grpc.CallOption) (*pb.BatchObjectsReply, error) {
	reply, err := c.WeaviateClient.BatchObjects(ctx, req, o...)
	if err == nil && c.left > 0 {
		c.left--
		return nil, errLost
	}
	return reply, err
}

// TestServerPython127: a reply that was lost after the commit is repeated within the call, and there is one object.
func TestServerPython127(t *testing.T) {
	s := open(t, serverOptions(t))
	lossy := &lostReplies{WeaviateClient: s.conn.client, left: 2}
	s.conn.client = lossy
	apply(t, s, upserts(1, 2)...)
	if n := count(t, s, s.collection); n != 2 || lossy.left != 0 {
		t.Errorf("%d objects are stored, %d replies were not lost", n, lossy.left)
	}
	if got := get(t, s, 1); got == nil || got.Version != "v1" {
		t.Errorf("stored %+v", got)
	}
}

type item struct {
	ID    int64   `cdc:"id,key"`
	Title string  `cdc:"title"`
	Price float64 `cdc:"price"`
}

// change is an event of an item, its place the LSN.
func change(op cdc.Op, lsn uint64, i item) cdc.Event[item] {
	e := cdc.Event[item]{Op: op, Key: cdc.Key{{Name: "id", Value: i.ID}}}
	if op != cdc.OpDelete {
		e.After = &i
	}
	e.Source = cdc.Source{Schema: "public", Table: "items", LSN: lsn}
	e.Record = cdc.Record{Topic: "items", Offset: fmt.Sprintf("%08x", lsn)}
	return e
}

// itemSink returns a sink of items with two vectors into a store, and how often each embedder was called.
func itemSink(t *testing.T, s *Store) (*vectorstore.Sink[item], func() int) {
	t.Helper()
	text, other := embedtest.New(4), embedtest.NewNamed("other", 3)
	title := func(i item) string { return i.Title }
	sink, err := vectorstore.NewSink(s, vectorstore.Mapping[item]{
		Vectors: []vectorstore.Vector[item]{
			vectorstore.Embed("text_vector", title, embed.Embedder[string](text)),
			vectorstore.Embed("image_vector", title, embed.Embedder[string](other)),
		},
		Properties: func(i item) map[string]any {
			return map[string]any{"item_id": i.ID, "title": i.Title, "price": i.Price}
		},
	}, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return sink, func() int { return text.Calls() + other.Calls() }
}

func handle(t *testing.T, sink *vectorstore.Sink[item], events ...cdc.Event[item]) {
	t.Helper()
	if err := sink.Handle(context.WithoutCancel(t.Context()), events); err != nil {
		t.Fatal(err)
	}
}

func itemRef(t *testing.T, id int64) vectorstore.Ref {
	t.Helper()
	uuid, err := vectorstore.UUID5(cdc.Key{{Name: "id", Value: id}})
	if err != nil {
		t.Fatal(err)
	}
	return vectorstore.Ref{ID: uuid}
}

func stored(t *testing.T, s *Store, id int64) *vectorstore.Object {
	t.Helper()
	got, err := s.Get(t.Context(), []vectorstore.Ref{itemRef(t, id)})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// TestServerDify40499: a delete finds the object that the upsert has made, and reading back and searching find nothing.
func TestServerDify40499(t *testing.T) {
	s := open(t, serverOptions(t))
	sink, _ := itemSink(t, s)
	handle(t, sink, change(cdc.OpCreate, 1, item{ID: 1, Title: "tent"}), change(cdc.OpCreate, 2, item{ID: 2, Title: "mug"}))
	handle(t, sink, change(cdc.OpDelete, 3, item{ID: 1}))
	if got := stored(t, s, 1); got == nil || !got.Deleted {
		t.Errorf("stored %+v", got)
	}
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if err != nil || o.ID != itemRef(t, 2).ID {
			t.Errorf("left is %+v, error %v", o, err)
		}
	}
	if n := count(t, s, s.collection); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestServerPalaia336: events that come late change nothing, and bring nothing back, also for a sink that has begun anew.
func TestServerPalaia336(t *testing.T) {
	s := open(t, serverOptions(t))
	sink, _ := itemSink(t, s)
	handle(t, sink, change(cdc.OpCreate, 10, item{ID: 1, Title: "ten"}))
	handle(t, sink, change(cdc.OpUpdate, 12, item{ID: 1, Title: "twelve"}))
	sink, _ = itemSink(t, s)
	handle(t, sink, change(cdc.OpUpdate, 11, item{ID: 1, Title: "eleven"}))
	if got := stored(t, s, 1); got == nil || got.Properties["title"] != "twelve" {
		t.Errorf("stored %+v", got)
	}
	handle(t, sink, change(cdc.OpDelete, 20, item{ID: 1}))
	sink, _ = itemSink(t, s)
	handle(t, sink, change(cdc.OpUpdate, 15, item{ID: 1, Title: "fifteen"}))
	if got := stored(t, s, 1); got == nil || !got.Deleted || count(t, s, s.collection) != 0 {
		t.Errorf("stored %+v", got)
	}
}

// TestServerWeaviate4945 and 9157: an object that the server brings back after its deletion is found by reading all, and deleted
// again.
func TestServerWeaviate4945(t *testing.T) {
	s := open(t, serverOptions(t))
	apply(t, s, upserts(1, 2)...)
	apply(t, s, deletes(1)...)
	back, _, err := s.message(&write{id: idOf(1), version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.client.BatchObjects(t.Context(), &pb.BatchObjectsRequest{Objects: []*pb.BatchObject{back}}); err != nil {
		t.Fatal(err)
	}
	var orphans []vectorstore.Mutation
	for o, err := range vectorstore.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.ID != idOf(2) { // all that the table has
			orphans = append(orphans, vectorstore.Mutation{Action: vectorstore.Delete, Object: vectorstore.Object{Ref: o.Ref, Version: o.Version}})
		}
	}
	apply(t, s, orphans...)
	if got := get(t, s, 1); len(orphans) != 1 || got == nil || !got.Deleted || count(t, s, s.collection) != 1 {
		t.Errorf("%d orphans; stored %+v", len(orphans), got)
	}
}

// TestServerPgai878: a change of the price alone embeds nothing and keeps both vectors.
func TestServerPgai878(t *testing.T) {
	s := open(t, serverOptions(t))
	sink, calls := itemSink(t, s)
	handle(t, sink, change(cdc.OpCreate, 1, item{ID: 1, Title: "tent", Price: 5}))
	before, called := stored(t, s, 1), calls()
	handle(t, sink, change(cdc.OpUpdate, 2, item{ID: 1, Title: "tent", Price: 6}))
	got := stored(t, s, 1)
	if calls() != called || called != 2 || got.Properties["price"] != 6.0 {
		t.Errorf("%d calls after %d; stored %+v", calls(), called, got)
	}
	for name, v := range before.Vectors {
		if len(v) == 0 || !slices.Equal(got.Vectors[name], v) {
			t.Errorf("vector %s is %v, was %v", name, got.Vectors[name], v)
		}
	}
}

// TestServerMessageSize: the server's limit is 104,858,000 bytes, whatever its name says. One object beyond it fails for good, and
// its neighbours are stored; a batch is cut before the limit.
func TestServerMessageSize(t *testing.T) {
	s := open(t, serverOptions(t))
	if s.conn.sendLimit != maxMessageBytes {
		t.Fatalf("the limit is %d", s.conn.sendLimit)
	}
	m := upserts(1, 2, 3)
	m[1].Object.Properties["title"] = strings.Repeat("x", maxMessageBytes)
	err := s.Apply(t.Context(), m)
	if got := failed(t, err); !slices.Equal(got, []int{1}) || !itemerror.IsPermanent(err) || len(err.Error()) > 1000 {
		t.Errorf("failed are %v: %.200v", got, err)
	}
	if n := count(t, s, s.collection); n != 2 {
		t.Errorf("%d objects are stored", n)
	}
}
