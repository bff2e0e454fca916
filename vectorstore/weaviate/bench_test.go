package weaviate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-go/tidemark/vectorstore"
)

const benchDimensions = 384

// BenchmarkUpsert writes objects with a vector of 384 dimensions and three properties, through the Store and through the bare stubs on
// the same connection. It reports the time of a call as p50 and p99.
func BenchmarkUpsert(b *testing.B) {
	for _, size := range []int{1, 16, 100} {
		for _, way := range []string{"store", "stubs"} {
			b.Run(fmt.Sprintf("%s/%d", way, size), func(b *testing.B) {
				o := serverOptions(b)
				o.Vectors = []Vector{{Name: "text_vector", Dimensions: benchDimensions}}
				o.Properties = []Property{{Name: "product_id", DataType: Int}, {Name: "description", DataType: Text}, {Name: "price", DataType: Number}}
				s := open(b, o)
				write := benchStore(s)
				if way == "stubs" {
					write = benchStubs(s)
				}
				benchCalls(b, size, write)
			})
		}
	}
}

type benchRow struct {
	n      int
	vector []float32
}

func (r benchRow) text() string { return fmt.Sprintf("product number %d, a thing that is sold", r.n) }

func benchCalls(b *testing.B, size int, write func([]benchRow) error) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	next := 0
	batch := func() []benchRow {
		rows := make([]benchRow, size)
		for i := range rows {
			rows[i] = benchRow{n: next, vector: make([]float32, benchDimensions)}
			for j := range rows[i].vector {
				rows[i].vector[j] = float32(random.NormFloat64())
			}
			next++
		}
		return rows
	}
	if err := write(batch()); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		rows := batch()
		b.StartTimer()
		start := time.Now()
		if err := write(rows); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "objects/s")
}

func benchStore(s *Store) func([]benchRow) error {
	return func(rows []benchRow) error {
		m := make([]vectorstore.Mutation, len(rows))
		for i, r := range rows {
			m[i].Object = vectorstore.Object{
				Ref:        vectorstore.Ref{ID: idOf(r.n)},
				Properties: map[string]any{"product_id": r.n, "description": r.text(), "price": float64(r.n)},
				Vectors:    map[string][]float32{"text_vector": r.vector},
				Inputs:     map[string]string{"text_vector": "0123456789abcdef"},
				Version:    "0000000000000001",
			}
		}
		return s.Apply(context.Background(), m)
	}
}

func benchStubs(s *Store) func([]benchRow) error {
	return func(rows []benchRow) error {
		req := &pb.BatchObjectsRequest{}
		for _, r := range rows {
			properties, err := structpb.NewStruct(map[string]any{
				"product_id": r.n, "description": r.text(), "price": float64(r.n),
				inputsProperty: `{"text_vector":"0123456789abcdef"}`, versionProperty: "0000000000000001",
			})
			if err != nil {
				return err
			}
			req.Objects = append(req.Objects, &pb.BatchObject{
				Uuid: string(idOf(r.n)), Collection: s.collection, Properties: &pb.BatchObject_Properties{NonRefProperties: properties},
				Vectors: []*pb.Vectors{{Name: "text_vector", VectorBytes: encodeVector(r.vector)}},
			})
		}
		reply, err := s.conn.client.BatchObjects(context.Background(), req)
		if err == nil && len(reply.GetErrors()) > 0 {
			err = fmt.Errorf("server: %v", reply.GetErrors())
		}
		return err
	}
}

// BenchmarkSearch looks for the 10 nearest of 2,000 objects.
func BenchmarkSearch(b *testing.B) {
	o := serverOptions(b)
	s := open(b, o)
	write := benchStore(s)
	random := rand.New(rand.NewPCG(3, 4))
	vector := func() []float32 {
		v := make([]float32, benchDimensions)
		for j := range v {
			v[j] = float32(random.NormFloat64())
		}
		return v
	}
	for n := 0; n < 2000; n += 200 {
		var rows []benchRow
		for i := range 200 {
			rows = append(rows, benchRow{n: n + i, vector: vector()})
		}
		if err := write(rows); err != nil {
			b.Fatal(err)
		}
	}
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := s.Search(context.Background(), vectorstore.Query{Vector: "text_vector", Near: vector()}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
