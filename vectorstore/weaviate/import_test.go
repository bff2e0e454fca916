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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// An importer is a client and how it is set.
type importer struct {
	client, setting string
	run             func(b *testing.B, i *imports, setting string) imported
}

// imported is what an import took: of the wall's clock, and of the processors, on the client's side and on the server's.
type imported struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	server  float64
}

// imports are the imports of one benchmark: into collections of the Store's, on one server of their own.
type imports struct {
	server        *servicetest.WeaviateNode
	objects, dims int
	index         Index
	rows          []benchRow
	store         *Store // on the collection of the import that runs
	peers         string // the program in testdata/peers
}

// BenchmarkImport writes objects to a new collection of a server that does nothing else: with one Apply, with the bare stubs, with
// weaviate-go-client v4, and with Weaviate's Python client, each in several settings. An import is over when all objects are there and
// found. speedup-python and the others are how many times as fast the Store is as the fastest setting of that client. The rounds go
// through the settings in turn, each from another beginning, and the medians count. TIDEMARK_IMPORT_OBJECTS is the number of objects,
// 500 by default, TIDEMARK_IMPORT_ROUNDS that of rounds, 1 by default.
//
// Client and server share the processors here, so that an object costs what the two take for it. With an HNSW index, that is the
// server's search for the neighbours of each vector, the same whoever has sent it, and more the larger the index: of 0.3 ms an object at
// 3,000 objects of 384 dimensions and 2.6 ms at 100,000, the Store's part was 0.015 ms, and all that keep the server busy are as fast as
// each other. With a flat index it takes 0.1 ms, and clients differ. server-limit is how many objects a second the server's own work
// allows on all processors, and of-limit the part of that which the Store reaches; no client can be faster than 1/of-limit times the Store.
func BenchmarkImport(b *testing.B) {
	objects, rounds := fromEnv(b, "TIDEMARK_IMPORT_OBJECTS", 500), fromEnv(b, "TIDEMARK_IMPORT_ROUNDS", 1)
	peers := buildPeers(b)
	server := servicetest.Weaviate{}.Start(b)[0]
	for _, to := range []struct {
		dims  int
		index Index
	}{{384, HNSW}, {1536, HNSW}, {384, Flat}, {1536, Flat}} {
		b.Run(fmt.Sprintf("%d/%s", to.dims, to.index), func(b *testing.B) {
			i := &imports{
				server: server, objects: objects, dims: to.dims, index: to.index, rows: importRows(objects, to.dims), peers: peers,
			}
			took := make([][]imported, len(importers))
			for range b.N {
				for round := range rounds {
					for n := range importers {
						n = (n + round) % len(importers)
						took[n] = append(took[n], i.measure(b, importers[n]))
					}
				}
			}
			i.report(b, took)
		})
	}
}

var importers = []importer{
	{"Python", "fixed 100 x 2", importPython},
	{"Python", "fixed 200 x 4", importPython},
	{"Python", "fixed 1000 x 2", importPython},
	{"Python", "stream", importPython},
	{"Go client", "100 x 1", importGo},
	{"Go client", "1000 x 1", importGo},
	{"Go client", "200 x 4", importGo},
	{"stubs", "200 x 4", importStubs},
	{"store", "Apply", importStore},
}

// measure runs one import.
func (i *imports) measure(b *testing.B, by importer) imported {
	b.Helper()
	o := Options{HTTP: i.server.HTTP, GRPC: i.server.GRPC, Collection: fmt.Sprintf("Import_%x", rand.Uint64())}
	benchCollection(&o, i.dims)
	o.Vectors[0].Index = i.index
	i.store = open(b, o)
	used := i.server.CPU(b)
	out := by.run(b, i, by.setting)
	out.server = (i.server.CPU(b) - used).Seconds()
	i.check(b, by)
	// The server has less to do then for what comes next.
	if err := i.store.conn.rest(context.Background(), "DELETE", "/v1/schema/"+i.store.collection, nil, nil); err != nil {
		b.Fatal(err)
	}
	return out
}

// check counts the objects, and looks for the last one by its vector.
func (i *imports) check(b *testing.B, by importer) {
	b.Helper()
	query := map[string]string{"query": fmt.Sprintf("{Aggregate{%s{meta{count}}}}", i.store.collection)}
	var answer struct {
		Data struct {
			Aggregate map[string][]struct{ Meta struct{ Count int } }
		}
	}
	if err := i.store.conn.rest(context.Background(), "POST", "/v1/graphql", query, &answer); err != nil {
		b.Fatal(err)
	}
	if counts := answer.Data.Aggregate[i.store.collection]; len(counts) != 1 || counts[0].Meta.Count != i.objects {
		b.Fatalf("%s, %s: %+v objects are there of %d", by.client, by.setting, counts, i.objects)
	}
	last := vectorstore.Ref{ID: idOf(i.objects - 1)}
	objects, err := i.store.Get(context.Background(), []vectorstore.Ref{last})
	if err != nil || objects[0] == nil {
		b.Fatalf("%s, %s: the last object: %v, %v", by.client, by.setting, objects, err)
	}
	near := vectorstore.Query{Vector: "text_vector", Near: objects[0].Vectors["text_vector"], Limit: 1}
	if found, err := i.store.Search(context.Background(), near); err != nil || len(found) != 1 || found[0].Object.ID != last.ID {
		b.Fatalf("%s, %s: searching for the last object: %v, %v", by.client, by.setting, found, err)
	}
}

// report logs each setting's medians, and reports the Store's beside the fastest of the others.
func (i *imports) report(b *testing.B, took [][]imported) {
	b.Helper()
	fastest := map[string]float64{}
	var store imported
	for n, by := range importers {
		m := medians(took[n])
		if was := fastest[by.client]; was == 0 || m.Seconds < was {
			fastest[by.client] = m.Seconds
		}
		store = m // at last
		each := 1e6 / float64(i.objects)
		b.Logf("%5d dimensions, %s, %-9s %-14s %6.0f objects/s; CPU of an object: %4.0f µs here, %5.0f µs on the server", i.dims, i.index, by.client,
			by.setting+":", float64(i.objects)/m.Seconds, m.CPU*each, m.server*each)
	}
	b.ReportMetric(float64(i.objects)/store.Seconds, "objects/s")
	b.ReportMetric(store.CPU/float64(i.objects)*1e6, "cpu-µs/object")
	limit := float64(i.objects*runtime.NumCPU()) / store.server
	b.ReportMetric(limit, "server-limit-objects/s")
	b.ReportMetric(float64(i.objects)/store.Seconds/limit, "of-limit")
	for client, seconds := range fastest {
		if client != "store" {
			b.ReportMetric(seconds/store.Seconds, "speedup-"+strings.ToLower(strings.ReplaceAll(client, " ", "-")))
		}
	}
}

func medians(took []imported) imported {
	median := func(of func(imported) float64) float64 {
		sorted := slices.SortedFunc(slices.Values(took), func(x, y imported) int { return cmp.Compare(of(x), of(y)) })
		return of(sorted[len(sorted)/2])
	}
	return imported{
		median(func(t imported) float64 { return t.Seconds }), median(func(t imported) float64 { return t.CPU }),
		median(func(t imported) float64 { return t.server }),
	}
}

func importStore(b *testing.B, i *imports, _ string) imported {
	b.Helper()
	return timed(b, func() error { return benchStore(i.store)(i.rows) })
}

func importStubs(b *testing.B, i *imports, _ string) imported {
	b.Helper()
	batches := slices.Collect(slices.Chunk(i.rows, 200))
	return timed(b, func() error {
		var errs [4]error
		var sending sync.WaitGroup
		for n := range errs {
			sending.Go(func() {
				for k := n; k < len(batches) && errs[n] == nil; k += len(errs) {
					errs[n] = benchStubs(i.store)(batches[k])
				}
			})
		}
		sending.Wait()
		return errors.Join(errs[:]...)
	})
}

func importPython(b *testing.B, i *imports, setting string) imported {
	b.Helper()
	return parseImported(b, servicetest.Python(b, []string{"weaviate-client==4.24.1"}, "testdata/import.py", i.arguments(setting)...))
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

func importGo(b *testing.B, i *imports, setting string) imported {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), i.peers, i.arguments(setting)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("weaviate-go-client: %v\n%s", err, problems.String())
	}
	return parseImported(b, out)
}

// arguments are those of the programs in testdata.
func (i *imports) arguments(setting string) []string {
	return []string{i.server.HTTP, i.server.GRPC, i.store.collection, strconv.Itoa(i.objects), strconv.Itoa(i.dims), setting}
}

func parseImported(b *testing.B, out []byte) imported {
	b.Helper()
	var took imported
	if err := json.Unmarshal(out, &took); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return took
}

func timed(b *testing.B, run func() error) imported {
	b.Helper()
	used, start := processorTime(b), time.Now()
	if err := run(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	return imported{Seconds: took.Seconds(), CPU: (processorTime(b) - used).Seconds()}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
