package tokenizer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
)

// BenchmarkEncode encodes sentences of several languages, one long English text, and the same with a limit. tokens/s and MB/s
// are those of one core.
func BenchmarkEncode(b *testing.B) {
	tok := load(b, minilm)
	var sentences []string
	for _, a := range lines[answer](b, "testdata/minilm/goldens.jsonl") {
		sentences = append(sentences, a.Text)
	}
	long := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again, unaffably. ", 550) // 40 KB
	benchmarks := []struct {
		name  string
		texts []string
		limit int
	}{
		{"sentences", sentences, 0},
		{"40KB", []string{long}, 0},
		{"40KB/limit=256", []string{long}, 256},
	}
	for _, bm := range benchmarks {
		b.Run(bm.name, func(b *testing.B) {
			var dst tokenizer.Encoding
			var err error
			size, tokens := 0, 0
			for _, s := range bm.texts {
				size += len(s)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, s := range bm.texts {
					dst.IDs, dst.TypeIDs, dst.Offsets = dst.IDs[:0], dst.TypeIDs[:0], dst.Offsets[:0]
					if dst, err = tok.AppendEncode(dst, s, bm.limit); err != nil {
						b.Fatal(err)
					}
					tokens += len(dst.IDs)
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func BenchmarkEncodeParallel(b *testing.B) {
	tok := load(b, minilm)
	const sentence = "Waterproof running shoes with a breathable mesh, for trails and long rainy days."
	b.SetBytes(int64(len(sentence)))
	b.RunParallel(func(pb *testing.PB) {
		var dst tokenizer.Encoding
		for pb.Next() {
			dst.IDs, dst.TypeIDs, dst.Offsets = dst.IDs[:0], dst.TypeIDs[:0], dst.Offsets[:0]
			dst, _ = tok.AppendEncode(dst, sentence, 0)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile(minilm)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokenizer.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
