package pulsarx_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
)

type event struct {
	ID   int64  `avro:"id"`
	Text string `avro:"text"`
}

// benchServer is the real Pulsar where there is one.
func benchServer(b *testing.B) server {
	b.Helper()
	if url := os.Getenv("PULSAR_URL"); url != "" {
		return server{url: url}
	}
	return inProcess(b)
}

// BenchmarkDecode compares decoding with the reader's own schema, and with one that it is resolved against.
func BenchmarkDecode(b *testing.B) {
	codec := pulsarx.Avro[productNext]()
	own, err := codec.Encode(nil, productNext{ID: "k1", Name: strings.Repeat("n", 100), Age: 3})
	if err != nil {
		b.Fatal(err)
	}
	older, err := pulsarx.Avro[productV1]().Encode(nil, productV1{"k1", strings.Repeat("n", 100)})
	if err != nil {
		b.Fatal(err)
	}
	schema, _ := pulsarx.Avro[productV1]().Schema()
	for name, raw := range map[string]pulsarx.Raw{
		"own":      {Value: own},
		"resolved": {Value: older, SchemaType: "AVRO", Schema: schema.Definition},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
