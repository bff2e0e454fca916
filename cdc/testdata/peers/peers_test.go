// Package peers compares package cdc with decoders of JSON on the same events, in one run:
//
//	cd cdc/testdata/peers && go test -bench .
//
// It is a module of its own, so that nobody who uses tidemark downloads the others.
package peers

import (
	stdjson "encoding/json"
	"os"
	"testing"

	"github.com/bytedance/sonic"
	goccy "github.com/goccy/go-json"
	jsoniter "github.com/json-iterator/go"

	"github.com/tidemark-go/tidemark/cdc"
)

// product is the row, for all of them.
type product struct {
	ID          int64   `cdc:"id,key" json:"id"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Price       float64 `json:"price"`
	Stock       int32   `json:"stock"`
	Active      bool    `json:"active"`
	Brand       *string `json:"brand"`
	UpdatedAt   int64   `json:"updated_at"`
}

// envelope is what a user of a JSON package writes.
type envelope struct {
	Before *product `json:"before"`
	After  *product `json:"after"`
	Source struct {
		Connector string `json:"connector"`
		DB        string `json:"db"`
		Schema    string `json:"schema"`
		Table     string `json:"table"`
		Snapshot  any    `json:"snapshot"`
		TxID      *int64 `json:"txId"`
		LSN       *int64 `json:"lsn"`
		TsMs      int64  `json:"ts_ms"`
		TsUs      int64  `json:"ts_us"`
		TsNs      int64  `json:"ts_ns"`
	} `json:"source"`
	Op          string `json:"op"`
	TsMs        int64  `json:"ts_ms"`
	TsNs        int64  `json:"ts_ns"`
	Transaction *struct {
		ID string `json:"id"`
	} `json:"transaction"`
}

type wrapped struct {
	Payload envelope `json:"payload"`
}

type key struct {
	ID int64 `json:"id"`
}

const keyText = `{"id":9007199254740993}`

var unmarshal = map[string]func([]byte, any) error{
	"encoding-json": stdjson.Unmarshal,
	"goccy-go-json": goccy.Unmarshal,
	"sonic":         sonic.ConfigStd.Unmarshal,
	"jsoniter":      jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal,
}

func BenchmarkDecode(b *testing.B) {
	for _, event := range []string{"plain", "schema"} {
		data, err := os.ReadFile("../bench/" + event + ".json")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(event+"/cdc", func(b *testing.B) {
			decoder, err := cdc.NewDecoder[product](cdc.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				e, err := decoder.Decode(cdc.Record{Key: keyText, Value: data})
				if err != nil || e.After.Stock != 5 || e.Source.LSN != 70175728 {
					b.Fatal(err)
				}
			}
		})
		for _, name := range []string{"encoding-json", "goccy-go-json", "sonic", "jsoniter"} {
			decode := unmarshal[name]
			b.Run(event+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					var k key
					var e *envelope
					err := decode([]byte(keyText), &k)
					if event == "plain" {
						e = new(envelope)
						err = firstError(err, decode(data, e))
					} else {
						w := new(wrapped)
						err = firstError(err, decode(data, w))
						e = &w.Payload
					}
					if err != nil || e.After.Stock != 5 || *e.Source.LSN != 70175728 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
