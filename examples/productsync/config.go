package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// config says where the systems are and what the things in them are called. Secrets come from the environment alone.
type config struct {
	pulsarURL, pulsarAdminURL, pulsarToken string
	topic, subscription, deadLetters       string
	weaviateURL, weaviateGRPC, weaviateKey string
	collection                             string
	model                                  string
	search                                 string
}

// configure reads flags, whose defaults are environment variables.
func configure(arguments []string) (config, error) {
	c := config{pulsarToken: os.Getenv("PULSAR_JWT_TOKEN"), weaviateKey: os.Getenv("WEAVIATE_API_KEY")}
	f := flag.NewFlagSet("productsync", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "productsync keeps a Weaviate collection equal to the table whose changes are in a Pulsar topic.")
		fmt.Fprintln(f.Output(), "Secrets: PULSAR_JWT_TOKEN, WEAVIATE_API_KEY. Flags:")
		f.PrintDefaults()
	}
	system := func(to *string, name, variable, value, usage string) {
		f.StringVar(to, name, cmp.Or(os.Getenv(variable), value), usage+"; "+variable)
	}
	system(&c.pulsarURL, "pulsar", "PULSAR_URL", "pulsar://localhost:6650", "Pulsar's service URL")
	system(&c.pulsarAdminURL, "pulsar-admin", "PULSAR_ADMIN_URL", "", "Pulsar's admin URL, if wanted")
	system(&c.weaviateURL, "weaviate", "WEAVIATE_URL", "http://localhost:8080", "Weaviate's URL")
	system(&c.weaviateGRPC, "weaviate-grpc", "WEAVIATE_GRPC", "", "Weaviate's gRPC address, by default port 50051 of its host")
	f.StringVar(&c.topic, "topic", "pg.products.changes", "topic of the changes")
	f.StringVar(&c.subscription, "subscription", "productsync", "subscription, of type Key_Shared")
	f.StringVar(&c.deadLetters, "dead-letters", "vectorization_dlq", "topic of the changes that cannot be indexed")
	f.StringVar(&c.collection, "collection", "Product", "collection of the objects")
	f.StringVar(&c.model, "model", "", "sentence-transformers folder with an ONNX file, by default all-MiniLM-L6-v2, downloaded once")
	f.StringVar(&c.search, "search", "", "print the products nearest to this text instead of running the pipeline")
	err := f.Parse(arguments)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(f.Output(), err)
	}
	return c, err
}

func (c config) client() pulsarx.ClientOptions {
	return pulsarx.ClientOptions{URL: c.pulsarURL, AdminURL: c.pulsarAdminURL, Token: c.pulsarToken}
}

// consumer says how changes are read. A hundred attempts take about half an hour, since an outage of Weaviate is no reason to give
// up a change; what a change itself is to blame for goes to the dead letters at once.
func (c config) consumer() pulsarx.ConsumerOptions {
	return pulsarx.ConsumerOptions{
		Topics: []string{c.topic}, Subscription: c.subscription, Type: pulsarx.KeyShared,
		DeadLetter: pulsarx.DeadLetterPolicy{Topic: c.deadLetters, MaxAttempts: 100},
		Workers:    2, MaxBatch: 32, MaxDelay: time.Millisecond,
	}
}

// store is the collection with the properties and vectors of a product.
func (c config) store() weaviate.Options {
	return weaviate.Options{
		HTTP: c.weaviateURL, GRPC: c.weaviateGRPC, APIKey: c.weaviateKey,
		Collection: c.collection,
		Properties: []weaviate.Property{
			{Name: "product_id", DataType: weaviate.Int},
			{Name: "description", DataType: weaviate.Text},
		},
		Vectors:        []weaviate.Vector{{Name: "text_vector"}, {Name: "image_vector"}},
		ConnectTimeout: 5 * time.Second,
		ReadTimeout:    15 * time.Second,
	}
}
