//go:build unix

package weaviate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// imported is what an import took: of the wall's clock, and of this side's processors.
type imported struct {
	Way     string  `json:"way"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
}

// BenchmarkImport writes objects to a new collection: with one Apply, with the bare stubs in batches of 100 of which 2 are under
// way, and with Weaviate's Python client in three of its settings, of which the fastest counts. All in one run, on one server;
// speedup is how many times as fast the Store is. TIDEMARK_IMPORT_OBJECTS is the number of objects, 500 by default.
func BenchmarkImport(b *testing.B) {
	objects := 500
	if text := os.Getenv("TIDEMARK_IMPORT_OBJECTS"); text != "" {
		var err error
		if objects, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, dims := range []int{384, 1536} {
		b.Run(strconv.Itoa(dims), func(b *testing.B) {
			for range b.N {
				rows := importRows(objects, dims)
				python := importPython(b, objects, dims)
				store := importInto(b, "store", dims, func(s *Store) error { return benchStore(s)(rows) })
				stubs := importInto(b, "stubs", dims, func(s *Store) error {
					batches := slices.Collect(slices.Chunk(rows, 100))
					var errs [2]error
					var sending sync.WaitGroup
					for n := range errs {
						sending.Go(func() {
							for i := n; i < len(batches) && errs[n] == nil; i += len(errs) {
								errs[n] = benchStubs(s)(batches[i])
							}
						})
					}
					sending.Wait()
					return errors.Join(errs[:]...)
				})
				for _, way := range append(python, store, stubs) {
					b.Logf("%5d dimensions, %-20s %6.0f objects/s, %4.0f µs of CPU an object", dims, way.Way+":",
						float64(objects)/way.Seconds, way.CPU/float64(objects)*1e6)
				}
				best := slices.MinFunc(python, func(x, y imported) int { return int((x.Seconds - y.Seconds) * 1e6) })
				b.ReportMetric(float64(objects)/store.Seconds, "objects/s")
				b.ReportMetric(store.CPU/float64(objects)*1e6, "cpu-µs/object")
				b.ReportMetric(best.Seconds/store.Seconds, "speedup-python")
				b.ReportMetric(stubs.Seconds/store.Seconds, "speedup-stubs")
			}
		})
	}
}

func importRows(objects, dims int) []benchRow {
	random := rand.New(rand.NewPCG(5, 6))
	rows := make([]benchRow, objects)
	for i := range rows {
		rows[i] = benchRow{n: i, vector: make([]float32, dims)}
		for j := range rows[i].vector {
			rows[i].vector[j] = float32(random.NormFloat64())
		}
	}
	return rows
}

func importInto(b *testing.B, way string, dims int, run func(*Store) error) imported {
	b.Helper()
	o := serverOptions(b)
	o.Vectors = []Vector{{Name: "text_vector", Dimensions: dims}}
	o.Properties = []Property{{Name: "product_id", DataType: Int}, {Name: "description", DataType: Text}, {Name: "price", DataType: Number}}
	s := open(b, o)
	used, start := processorTime(b), time.Now()
	if err := run(s); err != nil {
		b.Fatal(err)
	}
	out := imported{Way: way, Seconds: time.Since(start).Seconds()}
	out.CPU = (processorTime(b) - used).Seconds()
	// The server has less to do then for what comes next; the clean-up drops it once more, which does no harm.
	if err := s.conn.rest(context.Background(), "DELETE", "/v1/schema/"+o.Collection, nil, nil); err != nil {
		b.Fatal(err)
	}
	return out
}

func importPython(b *testing.B, objects, dims int) []imported {
	b.Helper()
	out := servicetest.Python(b, []string{"weaviate-client==4.24.1"}, "testdata/import.py",
		servicetest.Env(b, "WEAVIATE_HTTP"), servicetest.Env(b, "WEAVIATE_GRPC"), fmt.Sprintf("Import_%x", rand.Uint64()),
		strconv.Itoa(objects), strconv.Itoa(dims))
	var ways []imported
	for line := range bytes.Lines(out) {
		var way imported
		if err := json.Unmarshal(line, &way); err != nil {
			b.Fatalf("%v: %s", err, line)
		}
		way.Way = "Python, " + way.Way
		ways = append(ways, way)
	}
	if len(ways) == 0 {
		b.Fatal("the Python client imported nothing")
	}
	return ways
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
