package cdc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// product is the row of the benchmarks, for both decoders.
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

// productEvents returns an update of about 800 bytes without a schema, and the same with its schema in 3.6 kB. Source and schema are
// laid out as in the recordings.
func productEvents(tb testing.TB) (plain, withSchema Record) {
	tb.Helper()
	read := func(name string) Record {
		value, err := os.ReadFile("testdata/bench/" + name + ".json")
		if err != nil {
			tb.Fatal(err)
		}
		return Record{Topic: "shop.public.products", Key: `{"id":9007199254740993}`, Value: bytes.TrimSpace(value)}
	}
	return read("plain"), read("schema")
}

// jsonEnvelope is what a user of encoding/json writes.
type jsonEnvelope struct {
	Before *product `json:"before"`
	After  *product `json:"after"`
	Source struct {
		Connector, DB, Schema, Table string
		Snapshot                     any
		TxID                         *int64 `json:"txId"`
		LSN                          *int64 `json:"lsn"`
		TsMs                         int64  `json:"ts_ms"`
		TsUs                         int64  `json:"ts_us"`
		TsNs                         int64  `json:"ts_ns"`
	} `json:"source"`
	Op          string `json:"op"`
	TsMs        int64  `json:"ts_ms"`
	TsNs        int64  `json:"ts_ns"`
	Transaction *struct {
		ID string `json:"id"`
	} `json:"transaction"`
}

// BenchmarkDecode compares this package with encoding/json on the same events. testdata/peers compares it with other decoders.
func BenchmarkDecode(b *testing.B) {
	plain, withSchema := productEvents(b)
	for _, event := range []struct {
		name   string
		record Record
	}{{"plain", plain}, {"schema", withSchema}} {
		name := fmt.Sprintf("%s-%dB", event.name, len(event.record.Value))
		b.Run(name+"/cdc", func(b *testing.B) { benchmarkCDC[product](b, event.record) })
		b.Run(name+"/cdc-row", func(b *testing.B) { benchmarkCDC[Row](b, event.record) })
		b.Run(name+"/encoding-json", func(b *testing.B) {
			benchmarkJSON(b, event.record, func() any {
				if event.name == "plain" {
					return new(jsonEnvelope)
				}
				return new(struct{ Payload jsonEnvelope })
			})
		})
		b.Run(name+"/encoding-json-any", func(b *testing.B) { benchmarkJSON(b, event.record, func() any { return new(any) }) })
	}
}

func benchmarkCDC[T any](b *testing.B, r Record) {
	b.Helper()
	d := newDecoder[T](b, Options{})
	b.SetBytes(int64(len(r.Value)))
	b.ReportAllocs()
	for b.Loop() {
		e, err := d.Decode(r)
		if err != nil || e.After == nil || e.Before == nil {
			b.Fatal(err)
		}
	}
}

func benchmarkJSON(b *testing.B, r Record, target func() any) {
	b.Helper()
	b.SetBytes(int64(len(r.Value)))
	b.ReportAllocs()
	for b.Loop() {
		var key struct{ ID int64 }
		if err := json.Unmarshal([]byte(r.Key), &key); err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(r.Value, target()); err != nil {
			b.Fatal(err)
		}
	}
}
