package avro_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	hamba "github.com/hamba/avro/v2"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

type reading struct {
	ID     int64     `avro:"id"`
	Sensor string    `avro:"sensor"`
	Room   *string   `avro:"room"`
	OK     bool      `avro:"ok"`
	Count  int32     `avro:"count"`
	Ratio  float64   `avro:"ratio"`
	Note   string    `avro:"note"`
	Raw    []byte    `avro:"raw"`
	Vector []float32 `avro:"vector"`
}

const (
	readingSchema = `{"type":"record","name":"reading","fields":[
		{"name":"id","type":"long"},{"name":"sensor","type":"string","aliases":["device"]},{"name":"room","type":["null","string"],"default":null},
		{"name":"ok","type":"boolean"},{"name":"count","type":"int"},{"name":"ratio","type":"double"},
		{"name":"note","type":"string","default":"none"},{"name":"raw","type":"bytes"},{"name":"vector","type":{"type":"array","items":"float"}}]}`
	// An earlier one: other order, narrower, renamed, one field less and one more.
	earlierSchema = `{"type":"record","name":"reading","fields":[
		{"name":"device","type":"string","aliases":["x"]},{"name":"id","type":"int"},{"name":"room","type":["null","string"],"default":null},
		{"name":"ok","type":"boolean"},{"name":"count","type":"int"},{"name":"ratio","type":"float"},
		{"name":"gone","type":"string"},{"name":"raw","type":"bytes"},{"name":"vector","type":{"type":"array","items":"float"}}]}`
)

func newReading() reading {
	room := "attic"
	return reading{1 << 40, "s-17", &room, true, 5, 0.25, strings.Repeat("n", 40), []byte("0123456789"), make([]float32, 16)}
}

func parse(b *testing.B, text string) *avro.Schema {
	b.Helper()
	s, err := avro.Parse([]byte(text), true)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func earlier(b *testing.B) []byte {
	b.Helper()
	room := "attic"
	v := struct {
		Device string    `avro:"device"`
		ID     int32     `avro:"id"`
		Room   *string   `avro:"room"`
		OK     bool      `avro:"ok"`
		Count  int32     `avro:"count"`
		Ratio  float32   `avro:"ratio"`
		Gone   string    `avro:"gone"`
		Raw    []byte    `avro:"raw"`
		Vector []float32 `avro:"vector"`
	}{"s-17", 1 << 30, &room, true, 5, 0.25, strings.Repeat("n", 40), []byte("0123456789"), make([]float32, 16)}
	data, err := hamba.Marshal(hamba.MustParse(earlierSchema), v)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkDecode compares decoding with the same schema and with an earlier writer's, here and with hamba/avro.
func BenchmarkDecode(b *testing.B) {
	v := newReading()
	own, err := hamba.Marshal(hamba.MustParse(readingSchema), v)
	if err != nil {
		b.Fatal(err)
	}
	old := earlier(b)
	reader := parse(b, readingSchema)
	theirs, err := hamba.NewSchemaCompatibility().Resolve(hamba.MustParse(readingSchema), hamba.MustParse(earlierSchema))
	if err != nil {
		b.Fatal(err)
	}
	plain, err := avro.NewDecoder(reader, reader, reflect.TypeFor[reading]())
	if err != nil {
		b.Fatal(err)
	}
	resolved, err := avro.NewDecoder(parse(b, earlierSchema), reader, reflect.TypeFor[reading]())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ratio", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(ratio(b, func() error { var v reading; return avro.Decode(resolved, old, &v) },
				func() error { var v reading; return avro.Decode(plain, own, &v) }), "resolved/same")
		}
	})
	for _, c := range []struct {
		name   string
		writer *avro.Schema
		hamba  hamba.Schema
		data   []byte
	}{
		{"same", reader, hamba.MustParse(readingSchema), own},
		{"resolved", parse(b, earlierSchema), theirs, old},
	} {
		decoder, err := avro.NewDecoder(c.writer, reader, reflect.TypeFor[reading]())
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/tidemark", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v reading
				if err := avro.Decode(decoder, c.data, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/hamba", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v reading
				if err := hamba.Unmarshal(c.hamba, c.data, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// ratio compares the fastest of many short rounds, which take turns, so that a busy machine slows both.
func ratio(b *testing.B, over, under func() error) float64 {
	b.Helper()
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 200 {
		for i, f := range []func() error{over, under} {
			start := time.Now()
			for range 50 {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
			best[i] = min(best[i], time.Since(start))
		}
	}
	return float64(best[0]) / float64(best[1])
}

// BenchmarkEncode compares encoding with hamba/avro.
func BenchmarkEncode(b *testing.B) {
	v := newReading()
	encoder, err := avro.NewEncoder(parse(b, readingSchema), reflect.TypeFor[reading]())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("tidemark", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := avro.Encode(encoder, nil, v); err != nil {
				b.Fatal(err)
			}
		}
	})
	theirs := hamba.MustParse(readingSchema)
	b.Run("hamba", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := hamba.Marshal(theirs, v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
