// Peers imports objects with weaviate-go-client v4 and prints, a line for each way of its batching, a JSON object with what it took.
//
//	usage: peers HTTP_HOST:PORT GRPC_HOST:PORT COLLECTION_PREFIX OBJECTS DIMENSIONS
//
// It is a module of its own, so that Tidemark does not depend on that client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/weaviate/weaviate-go-client/v4/weaviate"
	"github.com/weaviate/weaviate-go-client/v4/weaviate/grpc"
	"github.com/weaviate/weaviate/entities/models"
)

// The ways: objects in a batch, and batchers side by side. The client itself sends one batch after the other.
var ways = []struct{ size, batchers int }{{100, 1}, {200, 1}, {200, 4}}

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: peers HTTP GRPC COLLECTION_PREFIX OBJECTS DIMENSIONS")
	}
	objects, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	dimensions, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	client, err := weaviate.NewClient(weaviate.Config{Host: os.Args[1], Scheme: "http", GrpcConfig: &grpc.Config{Host: os.Args[2]}})
	if err != nil {
		log.Fatal(err)
	}
	for n, way := range ways {
		rows := objectsOf(fmt.Sprintf("%s_%d", os.Args[3], n), objects, dimensions)
		if err := importInto(client, rows, way.size, way.batchers); err != nil {
			log.Fatal(err)
		}
	}
}

// objectsOf returns objects with a vector and the properties that BenchmarkImport gives them.
func objectsOf(collection string, objects, dimensions int) []*models.Object {
	random := rand.New(rand.NewPCG(7, 8))
	rows := make([]*models.Object, objects)
	for i := range rows {
		vector := make([]float32, dimensions)
		for j := range vector {
			vector[j] = float32(random.NormFloat64())
		}
		rows[i] = &models.Object{
			Class: collection, ID: strfmt.UUID(fmt.Sprintf("%08x-0000-5000-8000-%012x", i, i)),
			Properties: map[string]any{
				"product_id": i, "description": fmt.Sprintf("product number %d, a thing that is sold", i), "price": float64(i),
			},
			Vectors: models.Vectors{"text_vector": vector},
		}
	}
	return rows
}

func importInto(client *weaviate.Client, rows []*models.Object, size, batchers int) error {
	ctx := context.Background()
	class := &models.Class{
		Class: rows[0].Class,
		VectorConfig: map[string]models.VectorConfig{"text_vector": {
			Vectorizer: map[string]any{"none": map[string]any{}}, VectorIndexType: "hnsw", VectorIndexConfig: map[string]any{"distance": "cosine"},
		}},
		Properties: []*models.Property{
			{Name: "product_id", DataType: []string{"int"}},
			{Name: "description", DataType: []string{"text"}},
			{Name: "price", DataType: []string{"number"}},
		},
	}
	if err := client.Schema().ClassCreator().WithClass(class).Do(ctx); err != nil {
		return err
	}
	used, start := processorTime(), time.Now()
	var sending sync.WaitGroup
	errs := make([]error, batchers)
	for n := range errs {
		sending.Go(func() {
			for from := n * size; from < len(rows) && errs[n] == nil; from += batchers * size {
				errs[n] = send(ctx, client, rows[from:min(from+size, len(rows))])
			}
		})
	}
	sending.Wait()
	took := time.Since(start)
	used = processorTime() - used
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	err := json.NewEncoder(os.Stdout).Encode(map[string]any{
		"way": fmt.Sprintf("%d x %d", size, batchers), "seconds": took.Seconds(), "cpu": used.Seconds(),
	})
	if err != nil {
		return err
	}
	return client.Schema().ClassDeleter().WithClassName(class.Class).Do(ctx)
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
