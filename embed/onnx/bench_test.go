//go:build cgo

package onnx

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// latency reports the median of the iterations, which a busy machine disturbs less than their mean.
func latency(b *testing.B, once func()) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		once()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
}

// BenchmarkText embeds one text of 20 tokens, and says how much of it is tokenizing.
func BenchmarkText(b *testing.B) {
	text := strings.Repeat("river cloud stone lamp green table ", 3)
	for _, threads := range []int{1, 2} {
		model := open(b, TextOptions{Threads: threads})
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			b.ReportAllocs()
			latency(b, func() { embedAll(b, model, text) })
		})
	}
	model := open(b, TextOptions{})
	b.Run("tokenizing", func(b *testing.B) {
		b.ReportAllocs()
		latency(b, func() {
			if _, _, err := model.inputs(text, 0); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkTexts embeds 96 texts of 8 to 60 tokens in batches of 32 in the order of arrival: as Embed does, and one by one.
func BenchmarkTexts(b *testing.B) {
	texts := words(96)
	model := open(b, TextOptions{})
	alone := open(b, TextOptions{BatchTokens: -1})
	for _, way := range []struct {
		name  string
		embed func(batch []string)
	}{
		{"batches", func(batch []string) { embedAll(b, model, batch...) }},
		{"alone", func(batch []string) { embedAll(b, alone, batch...) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for batch := range slices.Chunk(texts, 32) {
					way.embed(batch)
				}
			}
			b.ReportMetric(float64(len(texts)*b.N)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}

// BenchmarkLoad loads the model from the cache.
func BenchmarkLoad(b *testing.B) {
	open(b, TextOptions{}) // the download, if need be
	latency(b, func() {
		t, err := NewText(context.Background(), TextOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := t.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
