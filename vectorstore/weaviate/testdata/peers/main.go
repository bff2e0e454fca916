// Peers imports objects with weaviate-go-client v4 into a collection that is there, and prints what it took as a JSON object.
//
//	usage: peers HTTP_HOST:PORT GRPC_HOST:PORT COLLECTION FIRST OBJECTS DIMENSIONS SETTING
//
// A setting is "100 x 1": objects in a batch, and goroutines that send them side by side. The client's batcher sends one after the other.
//
// It is a module of its own, so that Tidemark does not depend on that client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/weaviate/weaviate-go-client/v4/weaviate"
	"github.com/weaviate/weaviate-go-client/v4/weaviate/grpc"
	"github.com/weaviate/weaviate/entities/models"
)

func main() {
	if len(os.Args) != 8 {
		log.Fatal("usage: peers HTTP GRPC COLLECTION FIRST OBJECTS DIMENSIONS SETTING")
	}
	var first, objects, dimensions, size, senders int
	if _, err := fmt.Sscanf(strings.Join(os.Args[4:], " "), "%d %d %d %d x %d", &first, &objects, &dimensions, &size, &senders); err != nil {
		log.Fatal(err)
	}
	client, err := weaviate.NewClient(weaviate.Config{Host: os.Args[1], Scheme: "http", GrpcConfig: &grpc.Config{Host: os.Args[2]}})
	if err != nil {
		log.Fatal(err)
	}
	rows := objectsOf(os.Args[3], first, objects, dimensions)
	used, start := processorTime(), time.Now()
	if err := importAll(client, rows, size, senders); err != nil {
		log.Fatal(err)
	}
	took := map[string]float64{"seconds": time.Since(start).Seconds(), "cpu": (processorTime() - used).Seconds()}
	if err := json.NewEncoder(os.Stdout).Encode(took); err != nil {
		log.Fatal(err)
	}
}

// objectsOf returns objects with a vector and the properties that BenchmarkImport gives them. The vectors are pieces of one sequence, as
// there.
func objectsOf(collection string, first, objects, dimensions int) []*models.Object {
	random := rand.New(rand.NewPCG(7, uint64(first)))
	sequence := make([]float32, objects+dimensions)
	for i := range sequence {
		sequence[i] = float32(random.NormFloat64())
	}
	rows := make([]*models.Object, objects)
	for k := range rows {
		i := first + k
		rows[k] = &models.Object{
			Class: collection, ID: strfmt.UUID(fmt.Sprintf("%08x-0000-5000-8000-%012x", i, i)),
			Properties: map[string]any{
				"product_id": i, "description": fmt.Sprintf("product number %d, a thing that is sold", i), "price": float64(i),
			},
			Vectors: models.Vectors{"text_vector": sequence[k : k+dimensions]},
		}
	}
	return rows
}

func importAll(client *weaviate.Client, rows []*models.Object, size, senders int) error {
	var sending sync.WaitGroup
	errs := make([]error, senders)
	for n := range errs {
		sending.Go(func() {
			for from := n * size; from < len(rows) && errs[n] == nil; from += senders * size {
				errs[n] = send(context.Background(), client, rows[from:min(from+size, len(rows))])
			}
		})
	}
	sending.Wait()
	return errors.Join(errs...)
}

func send(ctx context.Context, client *weaviate.Client, rows []*models.Object) error {
	answers, err := client.Batch().ObjectsBatcher().WithObjects(rows...).Do(ctx)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Result != nil && a.Result.Errors != nil && len(a.Result.Errors.Error) > 0 {
			return fmt.Errorf("object %s: %s", a.ID, a.Result.Errors.Error[0].Message)
		}
	}
	return nil
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
