//go:build cgo && unix

package onnx

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/embed"
)

// BenchmarkOpenLoop sends texts at a rate that does not depend on how fast they are answered, as users do, and reports the latency from the
// moment at which a text was due. It compares callers through a Batcher with callers that embed their text themselves, and with what
// programs write by hand: a goroutine that waits up to 10 ms for 32 texts. The rates are shares of what the model does in batches.
func BenchmarkOpenLoop(b *testing.B) {
	model := open(b, TextOptions{})
	texts := words(96)
	embedAll(b, model, texts...)
	began := time.Now()
	embedAll(b, model, texts...)
	most := float64(len(texts)) / time.Since(began).Seconds()
	for _, share := range []float64{0.3, 0.6, 0.9} {
		ways := map[string]embed.Embedder[string]{
			"batcher": embed.NewBatcher(model, embed.BatcherOptions{MaxTokens: 2 * defaultBatchTokens}),
			"alone":   model,
		}
		hand := newByHand(model)
		ways["by-hand"] = hand
		for _, way := range []string{"batcher", "by-hand", "alone"} {
			b.Run(fmt.Sprintf("load=%.0f%%/%s", 100*share, way), func(b *testing.B) {
				for b.Loop() {
					took := openLoop(b, ways[way], texts, most*share)
					b.ReportMetric(most*share, "offered/s")
					b.ReportMetric(float64(len(took))/took[len(took)-1].done.Seconds(), "done/s")
					slices.SortFunc(took, func(x, y answered) int { return int(x.latency - y.latency) })
					b.ReportMetric(took[len(took)/2].latency.Seconds()*1e3, "p50-ms")
					b.ReportMetric(took[len(took)*99/100].latency.Seconds()*1e3, "p99-ms")
				}
			})
		}
		close(hand)
	}
}

// answered is when a text was answered, counted from the start and from the moment at which it was due.
type answered struct{ done, latency time.Duration }

// openLoop offers texts for a second, and waits for their answers, which it returns in their order.
func openLoop(b *testing.B, e embed.Embedder[string], texts []string, rate float64) []answered {
	b.Helper()
	var mu sync.Mutex
	var all []answered
	var callers sync.WaitGroup
	start := time.Now()
	for i := range max(2, int(rate)) {
		due := time.Duration(float64(i) / rate * float64(time.Second))
		time.Sleep(due - time.Since(start))
		callers.Go(func() {
			if _, err := e.Embed(context.Background(), []string{texts[i%len(texts)]}); err != nil {
				b.Error(err)
			}
			done := time.Since(start)
			mu.Lock()
			all = append(all, answered{done, done - due})
			mu.Unlock()
		})
	}
	callers.Wait()
	return all
}

// byHand is what waits for 32 texts, 10 ms at most, and then embeds them.
type byHand chan asked

type asked struct {
	text   string
	answer chan error
}

func newByHand(model *Text) byHand {
	queue := make(byHand)
	go func() {
		for first := range queue {
			batch := []asked{first}
			timer := time.NewTimer(10 * time.Millisecond)
			for waiting := true; waiting && len(batch) < 32; {
				select {
				case next, more := <-queue:
					if waiting = more; more {
						batch = append(batch, next)
					}
				case <-timer.C:
					waiting = false
				}
			}
			timer.Stop()
			texts := make([]string, len(batch))
			for i, a := range batch {
				texts[i] = a.text
			}
			_, err := model.Embed(context.Background(), texts)
			for _, a := range batch {
				a.answer <- err
			}
		}
	}()
	return queue
}

func (h byHand) Model() embed.Model { return embed.Model{} }

func (h byHand) Embed(_ context.Context, texts []string) ([][]float32, error) {
	a := asked{texts[0], make(chan error, 1)}
	h <- a
	return nil, <-a.answer
}

// BenchmarkMemory embeds texts that are all different, 2000 or as many as MEMORY_TEXTS says, such as 1000000, through a Cache that is full
// early and a Batcher, and reports the memory of the process after a tenth of them and at the end: it does not grow with their number. Of a
// million texts it was 142 MB after each 100,000, Go's heap 7 MB.
func BenchmarkMemory(b *testing.B) {
	n := 2000
	if s := os.Getenv("MEMORY_TEXTS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	model := open(b, TextOptions{Precision: Int8, Threads: 1})
	embedder := embed.NewCache(embed.NewBatcher(model, embed.BatcherOptions{}), embed.CacheOptions{MaxBytes: 2 << 20})
	for b.Loop() {
		var early, late int64
		for from := 0; from < n; from += 100 {
			batch := make([]string, 100)
			for i := range batch {
				batch[i] = strings.Repeat(fmt.Sprintf("text %d ", from+i), 1+(from+i)%5)
			}
			if _, err := embedder.Embed(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			if step := n / 10; from/step != (from+100)/step {
				heap, resident := memory(b)
				b.Logf("%d texts: heap %.1f MB, resident %.1f MB", from+100, float64(heap)/1e6, float64(resident)/1e6)
				if early == 0 {
					early = resident
				}
				late = resident
			}
		}
		b.ReportMetric(float64(early)/1e6, "early-MB")
		b.ReportMetric(float64(late)/1e6, "late-MB")
	}
}

// memory is what Go's heap has in use, and what the process has in memory.
func memory(b *testing.B) (heap uint64, resident int64) {
	b.Helper()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil { // on Linux
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			resident = pages * int64(os.Getpagesize())
		}
	}
	return stats.HeapAlloc, resident
}
