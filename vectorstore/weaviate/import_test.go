//go:build unix

package weaviate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/embed"
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

// imports are the imports of one benchmark: each importer's into a collection of its own, on one server of their own.
type imports struct {
	server        *servicetest.WeaviateNode
	objects, dims int // of a round
	index         Index
	first         int                    // the number of this round's first object
	mutations     []vectorstore.Mutation // of this round
	store         *Store                 // on the collection of the import that runs
	peers         string                 // the program in testdata/peers
}

// BenchmarkImport writes objects to new collections of a server that does nothing else: with Apply, with Apply at the priority of a
// backfill, with the bare stubs, with weaviate-go-client v4 and with Weaviate's Python client, each in several settings. The Go client's
// batcher sends what it is given as one request and waits for the answer; that is "Go client", in batches of 100 and 1,000, as its
// documentation shows. "Go client, by hand" has in addition what a user has to write around it: goroutines that each send every fourth
// batch. All write the same objects.
//
// Every importer adds so many objects to its own collection in each round, TIDEMARK_IMPORT_OBJECTS, 500 by default; of rounds there are
// TIDEMARK_IMPORT_ROUNDS, 1 by default, each from another beginning, so that what else the machine does meets all alike.
// TIDEMARK_IMPORT_ONLY is a regular expression of the importers to run ("stream|Go client: 1000 x 1|store"). An import is over when all
// objects are there and found. speedup-python and the others are how many times as fast the Store is as the fastest setting of that
// client: the median of the rounds' ratios.
//
// Client and server share the processors here, so that an object costs what the two take for it. With an HNSW index, that is the
// server's search for the neighbours of each vector, the same whoever has sent it, and more the larger the index: 0.4 ms an object for
// the first 5,000 of 384 dimensions and 4 ms from 50,000 to 100,000, of which the Store's part was 0.01 to 0.02 ms, so that all that keep the server
// busy are as fast as each other. With a flat index it takes 0.1 ms, and clients differ. server-limit is how many objects a second the
// server's own work allows on all processors, and of-limit the part of that which the Store reaches; no client can be faster than
// 1/of-limit times the Store. With HNSW at 8,000 objects, of 384 and 1,536 dimensions: 0.94 and 0.95 the Store, 0.96 and 0.95 the Go client
// by hand, 0.87 and 0.93 as documented, 0.86 and 0.83 Python, and 0.90 and 0.92 a backfill, which pays so for what live writes gain.
func BenchmarkImport(b *testing.B) {
	objects, rounds := fromEnv(b, "TIDEMARK_IMPORT_OBJECTS", 500), fromEnv(b, "TIDEMARK_IMPORT_ROUNDS", 1)
	only := regexp.MustCompile(os.Getenv("TIDEMARK_IMPORT_ONLY"))
	chosen := slices.DeleteFunc(slices.Clone(importers), func(by importer) bool { return !only.MatchString(by.String()) })
	peers := buildPeers(b)
	server := servicetest.Weaviate{}.Start(b)[0]
	for _, to := range []struct {
		dims  int
		index Index
	}{{384, HNSW}, {1536, HNSW}, {384, Flat}, {1536, Flat}} {
		b.Run(fmt.Sprintf("%d/%s", to.dims, to.index), func(b *testing.B) {
			for range b.N {
				i := &imports{server: server, objects: objects, dims: to.dims, index: to.index, peers: peers}
				i.report(b, chosen, i.measure(b, chosen, rounds))
			}
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
	{"Go client, by hand", "200 x 4", importGo},
	{"stubs", "200 x 4", importStubs},
	{"backfill", "Apply", importBackfill},
	{"store", "Apply", importStore},
}

func (by importer) String() string { return by.client + ": " + by.setting }

// measure runs the imports, and returns what each took, by importer and round.
func (i *imports) measure(b *testing.B, importers []importer, rounds int) [][]imported {
	b.Helper()
	stores, took := make([]*Store, len(importers)), make([][]imported, len(importers))
	for n := range importers {
		stores[n] = i.open(b)
	}
	rows := importRows(i.objects*rounds, i.dims)
	for round := range rounds {
		i.first = round * i.objects
		i.mutations = plainMutations(rows[i.first:][:i.objects])
		for n := range importers {
			n = (n + round) % len(importers)
			i.store = stores[n]
			used := i.server.CPU(b)
			out := importers[n].run(b, i, importers[n].setting)
			out.server = (i.server.CPU(b) - used).Seconds()
			i.check(b, importers[n])
			took[n] = append(took[n], out)
			if rounds > 1 {
				b.Logf("round %d, %v: %.1f s, %.1f s of the server", round, importers[n], out.Seconds, out.server)
			}
		}
	}
	for _, s := range stores { // the server has less to do then for what comes next
		if err := s.conn.rest(context.Background(), "DELETE", "/v1/schema/"+s.collection, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	return took
}

func (i *imports) open(b *testing.B) *Store {
	b.Helper()
	o := nodeOptions(i.server)
	benchCollection(&o, i.dims)
	o.Vectors[0].Index = i.index
	return open(b, o)
}

// plainMutations are objects without what a Sink adds, which the other clients do not write.
func plainMutations(rows []benchRow) []vectorstore.Mutation {
	m := benchMutations(rows)
	for i := range m {
		m[i].Object.Inputs, m[i].Object.Version = nil, ""
	}
	return m
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
	if counts := answer.Data.Aggregate[i.store.collection]; len(counts) != 1 || counts[0].Meta.Count != i.first+i.objects {
		b.Fatalf("%v: %+v objects are there of %d", by, counts, i.first+i.objects)
	}
	last := vectorstore.Ref{ID: idOf(i.first + i.objects - 1)}
	objects, err := i.store.Get(context.Background(), []vectorstore.Ref{last})
	if err != nil || objects[0] == nil {
		b.Fatalf("%v: the last object: %v, %v", by, objects, err)
	}
	near := vectorstore.Query{Vector: "text_vector", Near: objects[0].Vectors["text_vector"], Limit: 1}
	if found, err := i.store.Search(context.Background(), near); err != nil || len(found) != 1 || found[0].Object.ID != last.ID {
		b.Fatalf("%v: searching for the last object: %v, %v", by, found, err)
	}
}

// report logs each importer's medians, and reports the Store's, which is the last, beside those of the others.
func (i *imports) report(b *testing.B, importers []importer, took [][]imported) {
	b.Helper()
	each := 1e6 / float64(i.objects)
	for n, by := range importers {
		b.Logf("%5d dimensions, %s, %-34s %6.0f objects/s, %.2f of the server's limit; CPU of an object: %4.0f µs here, %5.0f µs there",
			i.dims, i.index, by.String()+":", 1e6/each/median(took[n], wall), median(took[n], busy), each*median(took[n], client),
			each*median(took[n], server))
	}
	store := took[len(took)-1]
	b.ReportMetric(1e6/each/median(store, wall), "objects/s")
	b.ReportMetric(each*median(store, client), "cpu-µs/object")
	b.ReportMetric(float64(i.objects*runtime.NumCPU())/median(store, server), "server-limit-objects/s")
	b.ReportMetric(median(store, busy), "of-limit")
	speedups := map[string]float64{} // over the fastest setting
	for n, by := range importers[:len(importers)-1] {
		round := 0
		ratio := median(took[n], func(t imported) float64 { round++; return t.Seconds / store[round-1].Seconds })
		if known := speedups[by.client]; known == 0 || ratio < known {
			speedups[by.client] = ratio
		}
	}
	for client, ratio := range speedups {
		b.ReportMetric(ratio, "speedup-"+strings.ToLower(strings.NewReplacer(",", "", " ", "-").Replace(client)))
	}
}

func wall(t imported) float64   { return t.Seconds }
func client(t imported) float64 { return t.CPU }
func server(t imported) float64 { return t.server }

// busy is the part of the processors' time that the server used.
func busy(t imported) float64 { return t.server / t.Seconds / float64(runtime.NumCPU()) }

func median(took []imported, of func(imported) float64) float64 {
	values := make([]float64, len(took))
	for i, t := range took {
		values[i] = of(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func importStore(b *testing.B, i *imports, _ string) imported {
	b.Helper()
	return timed(b, func() error { return i.store.Apply(context.Background(), i.mutations) })
}

func importBackfill(b *testing.B, i *imports, _ string) imported {
	b.Helper()
	ctx := embed.WithPriority(context.Background(), embed.Backfill)
	return timed(b, func() error { return i.store.Apply(ctx, i.mutations) })
}

func importStubs(b *testing.B, i *imports, _ string) imported {
	b.Helper()
	batches := slices.Collect(slices.Chunk(i.mutations, 200))
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
	return []string{i.server.HTTP, i.server.GRPC, i.store.collection, strconv.Itoa(i.first), strconv.Itoa(i.objects), strconv.Itoa(i.dims), setting}
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
