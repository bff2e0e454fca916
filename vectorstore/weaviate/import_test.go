//go:build unix

package weaviate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
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
// way, with weaviate-go-client v4, and with Weaviate's Python client in several of its settings, of which the fastest counts. All in
// one run, on one server; speedup is how many times as fast the Store is. TIDEMARK_IMPORT_OBJECTS is the number of objects, 500 by
// default.
func BenchmarkImport(b *testing.B) {
	objects := fromEnv(b, "TIDEMARK_IMPORT_OBJECTS", 500)
	peers := buildPeers(b)
	for _, dims := range []int{384, 1536} {
		b.Run(strconv.Itoa(dims), func(b *testing.B) {
			for range b.N {
				rows := importRows(objects, dims)
				python := importPython(b, objects, dims)
				client := importGo(b, peers, objects, dims)
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
				for _, way := range slices.Concat(python, client, []imported{stubs, store}) {
					b.Logf("%5d dimensions, %-30s %6.0f objects/s, %4.0f µs of CPU an object", dims, way.Way+":",
						float64(objects)/way.Seconds, way.CPU/float64(objects)*1e6)
				}
				b.ReportMetric(float64(objects)/store.Seconds, "objects/s")
				b.ReportMetric(store.CPU/float64(objects)*1e6, "cpu-µs/object")
				b.ReportMetric(fastest(python)/store.Seconds, "speedup-python")
				b.ReportMetric(client[0].Seconds/store.Seconds, "speedup-go-client")
				b.ReportMetric(fastest(client)/store.Seconds, "speedup-go-client-side-by-side")
				b.ReportMetric(stubs.Seconds/store.Seconds, "speedup-stubs")
			}
		})
	}
}

func importInto(b *testing.B, way string, dims int, run func(*Store) error) imported {
	b.Helper()
	s := openForBench(b, dims)
	used, start := processorTime(b), time.Now()
	if err := run(s); err != nil {
		b.Fatal(err)
	}
	out := imported{Way: way, Seconds: time.Since(start).Seconds()}
	out.CPU = (processorTime(b) - used).Seconds()
	// The server has less to do then for what comes next; the clean-up drops it once more, which does no harm.
	if err := s.conn.rest(context.Background(), "DELETE", "/v1/schema/"+s.collection, nil, nil); err != nil {
		b.Fatal(err)
	}
	return out
}

// fastest returns the seconds of the fastest way.
func fastest(ways []imported) float64 {
	return slices.MinFunc(ways, func(x, y imported) int { return cmp.Compare(x.Seconds, y.Seconds) }).Seconds
}

func importPython(b *testing.B, objects, dims int) []imported {
	b.Helper()
	return parseImported(b, "Python", servicetest.Python(b, []string{"weaviate-client==4.24.1"}, "testdata/import.py", importArgs(b, objects, dims)...))
}

// buildPeers builds the program in testdata/peers, whose module depends on weaviate-go-client.
func buildPeers(b *testing.B) string {
	b.Helper()
	servicetest.Env(b, "WEAVIATE_HTTP")
	program := filepath.Join(b.TempDir(), "peers")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "peers")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build in %s: %v\n%s", build.Dir, err, out)
	}
	return program
}

// importGo returns the ways of weaviate-go-client, the first of which is its batcher as it is: one batch after the other.
func importGo(b *testing.B, program string, objects, dims int) []imported {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), program, importArgs(b, objects, dims)...).Output()
	if err != nil {
		b.Fatalf("weaviate-go-client: %v", err)
	}
	return parseImported(b, "weaviate-go-client", out)
}

func importArgs(b *testing.B, objects, dims int) []string {
	b.Helper()
	return []string{
		servicetest.Env(b, "WEAVIATE_HTTP"), servicetest.Env(b, "WEAVIATE_GRPC"), fmt.Sprintf("Import_%x", rand.Uint64()),
		strconv.Itoa(objects), strconv.Itoa(dims),
	}
}

func parseImported(b *testing.B, client string, out []byte) []imported {
	b.Helper()
	var ways []imported
	for line := range bytes.Lines(out) {
		var way imported
		if err := json.Unmarshal(line, &way); err != nil {
			b.Fatalf("%v: %s", err, line)
		}
		way.Way = client + ", " + way.Way
		ways = append(ways, way)
	}
	if len(ways) == 0 {
		b.Fatalf("%s imported nothing", client)
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
