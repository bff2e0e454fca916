package weaviate

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/vectorstore"
)

const benchDimensions = 384

// BenchmarkUpsert writes objects with a vector of 384 dimensions and three properties, through the Store and through the bare stubs on
// the same connection. It reports the time of a call as p50 and p99.
func BenchmarkUpsert(b *testing.B) {
	for _, size := range []int{1, 16, 100} {
		for _, way := range []string{"store", "stubs"} {
			b.Run(fmt.Sprintf("%s/%d", way, size), func(b *testing.B) {
				s := openForBench(b, benchDimensions)
				write := benchStore(s)
				if way == "stubs" {
					write = func(rows []benchRow) error { return benchStubs(s)(benchMutations(rows)) }
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
	b.ReportMetric(quantile(took, 0.50), "p50-ms")
	b.ReportMetric(quantile(took, 0.99), "p99-ms")
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "objects/s")
}

func benchStore(s *Store) func([]benchRow) error {
	return func(rows []benchRow) error { return s.Apply(context.Background(), benchMutations(rows)) }
}

func benchMutations(rows []benchRow) []vectorstore.Mutation {
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
	return m
}

// benchStubs writes what the mutations of benchMutations say.
func benchStubs(s *Store) func([]vectorstore.Mutation) error {
	return func(m []vectorstore.Mutation) error {
		req := &pb.BatchObjectsRequest{}
		for i := range m {
			o := &m[i].Object
			values := maps.Clone(o.Properties)
			if o.Version != "" {
				values[inputsProperty], values[versionProperty] = `{"text_vector":"0123456789abcdef"}`, o.Version
			}
			properties, err := structpb.NewStruct(values)
			if err != nil {
				return err
			}
			req.Objects = append(req.Objects, &pb.BatchObject{
				Uuid: string(o.ID), Collection: s.collection, Properties: &pb.BatchObject_Properties{NonRefProperties: properties},
				Vectors: []*pb.Vectors{{Name: "text_vector", VectorBytes: encodeVector(o.Vectors["text_vector"])}},
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
	b.ReportMetric(quantile(took, 0.50), "p50-ms")
	b.ReportMetric(quantile(took, 0.99), "p99-ms")
}

// BenchmarkLiveBesideBackfill writes single objects at random moments: on an idle server, while an import of the same Store runs with the
// priority of a backfill, and while one runs without. It reports p50 and p99 of each, and how often the first is in the second. 100
// objects each, TIDEMARK_LIVE_OBJECTS says otherwise.
func BenchmarkLiveBesideBackfill(b *testing.B) {
	live := fromEnv(b, "TIDEMARK_LIVE_OBJECTS", 100)
	for range b.N {
		s := openForBench(b, benchDimensions)
		idle := liveWrites(b, s, live)
		backfill := besideImport(b, s, embed.Backfill, live)
		equal := besideImport(b, s, embed.Live, live)
		for name, took := range map[string][]time.Duration{"idle": idle, "backfill": backfill, "equal": equal} {
			b.ReportMetric(quantile(took, 0.50), name+"-p50-ms")
			b.ReportMetric(quantile(took, 0.99), name+"-p99-ms")
		}
		b.ReportMetric(quantile(backfill, 0.50)/quantile(idle, 0.50), "p50-ratio")
		b.ReportMetric(quantile(backfill, 0.99)/quantile(idle, 0.99), "p99-ratio")
	}
}

func fromEnv(b *testing.B, name string, otherwise int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func openForBench(b *testing.B, dims int) *Store {
	b.Helper()
	o := serverOptions(b)
	benchCollection(&o, dims)
	return open(b, o)
}

// benchCollection gives a collection the vector and the properties of the rows.
func benchCollection(o *Options, dims int) {
	o.Vectors = []Vector{{Name: "text_vector", Dimensions: dims}}
	o.Properties = []Property{{Name: "product_id", DataType: Int}, {Name: "description", DataType: Text}, {Name: "price", DataType: Number}}
}

// liveWrites returns how long single writes took, which come 20 to 60 ms after each other.
func liveWrites(b *testing.B, s *Store, n int) []time.Duration {
	b.Helper()
	rows, write := importRows(n, benchDimensions), benchStore(s)
	took := make([]time.Duration, n)
	for i := range rows {
		rows[i].n += 1 << 24 // others than the import's
		time.Sleep(20*time.Millisecond + rand.N(40*time.Millisecond))
		start := time.Now()
		if err := write(rows[i : i+1]); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took
}

// besideImport is liveWrites while an import of some priority runs.
func besideImport(b *testing.B, s *Store, priority embed.Priority, live int) []time.Duration {
	b.Helper()
	ctx, stop := context.WithCancel(embed.WithPriority(context.Background(), priority))
	done := make(chan int, 1)
	start := time.Now()
	go func() {
		objects, m := 0, benchMutations(importRows(500, benchDimensions))
		for ctx.Err() == nil {
			for i := range m { // new objects: an object whose vector is as it was costs the server little
				m[i].Object.ID = idOf(rand.IntN(1 << 23))
			}
			if s.Apply(ctx, m) == nil {
				objects += len(m)
			}
		}
		done <- objects
	}()
	time.Sleep(200 * time.Millisecond) // it is under way
	took := liveWrites(b, s, live)
	stop()
	b.Logf("beside it, more than %.0f objects/s were imported", float64(<-done)/time.Since(start).Seconds())
	return took
}

func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Microseconds()) / 1000
}

// importRows returns rows whose vectors are pieces of one sequence: pieces that begin at different places have as little to do with each
// other as new ones, and they take no memory. The programs in testdata do the same.
func importRows(objects, dims int) []benchRow {
	random := rand.New(rand.NewPCG(5, 6))
	sequence := make([]float32, objects+dims)
	for i := range sequence {
		sequence[i] = float32(random.NormFloat64())
	}
	rows := make([]benchRow, objects)
	for i := range rows {
		rows[i] = benchRow{n: i, vector: sequence[i : i+dims]}
	}
	return rows
}
