package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tidemark-go/tidemark/embed/tokenizer"
	"github.com/tidemark-go/tidemark/vectorstore"
)

const (
	changes = 300
	rate    = 50 * time.Millisecond // 20 changes a second
)

// BenchmarkFreshness changes single rows and asks Weaviate for each change until it finds it: p50-ms and p99-ms are from before the statement
// that commits to the first search that hits. The rest says, in milliseconds on average, at which station a change was.
func BenchmarkFreshness(b *testing.B) {
	s := newSystem(b)
	reader := metric.NewManualReader()
	provider := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	b.Cleanup(func() { otel.SetMeterProvider(provider) })
	store := s.openStore(b)
	w := &watch{waiting: map[int64]chan struct{}{}}
	s.run(b, s.model, store, vectorstore.SinkOptions{Observe: w.observe})
	conn := s.connect(b)
	defer conn.Close(context.WithoutCancel(b.Context()))
	texts := make([]string, changes)
	for i := range texts {
		texts[i] = fmt.Sprintf("product number %d: a bag for hiking in the mountains, made of waxed cotton, blue, with a lid", i)
	}
	vectors, err := s.model.Embed(b.Context(), texts)
	if err != nil {
		b.Fatal(err)
	}
	s.warmUp(b, conn)

	w.outcomes = nil
	before := waits(b, reader)
	var hits []time.Duration
	for b.Loop() {
		hits = append(hits, s.changeAndFind(b, w, conn, store, texts, vectors)...)
	}
	reportStations(b, hits, w.outcomes, waits(b, reader).minus(before), tokenizing(b, texts))
}

// watch hears from the sink what was written.
type watch struct {
	mu       sync.Mutex
	outcomes []vectorstore.Outcome
	waiting  map[int64]chan struct{} // by product_id
}

func (w *watch) observe(o vectorstore.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes = append(w.outcomes, o)
	id, _ := o.Key[0].Value.(int64)
	if written := w.waiting[id]; written != nil {
		close(written)
		delete(w.waiting, id)
	}
}

// next returns a channel that is closed when the row's next change is written.
func (w *watch) next(id int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := make(chan struct{})
	w.waiting[id] = written
	return written
}

// warmUp has a few rows indexed.
func (s *system) warmUp(b *testing.B, conn *pgx.Conn) {
	b.Helper()
	_, err := conn.Exec(b.Context(), "INSERT INTO products SELECT -i, 'something else, number ' || i FROM generate_series(1, 20) i")
	if err != nil {
		b.Fatal(err)
	}
	s.awaitEqual(b, conn)
}

// changeAndFind inserts rows and then updates them, at the rate, and returns how long each change took to be found. It asks Weaviate
// from the moment on at which the sink has written, since asking all the time would slow down what is measured.
func (s *system) changeAndFind(
	b *testing.B, w *watch, conn *pgx.Conn, store vectorstore.Store, texts []string, vectors [][]float32,
) []time.Duration {
	b.Helper()
	took := make([]time.Duration, len(texts))
	found := make([]chan struct{}, len(texts))
	var finders sync.WaitGroup
	tick := time.NewTicker(rate)
	defer tick.Stop()
	for i, text := range texts {
		id := int64(i % (changes / 2))
		if i >= changes/2 {
			<-found[i-changes/2] // a row changes again once its first text was found
		}
		written := w.next(id)
		<-tick.C
		start := time.Now()
		_, err := conn.Exec(b.Context(), `
			INSERT INTO products VALUES ($1, $2) ON CONFLICT (product_id) DO UPDATE SET description = excluded.description`, id, text)
		if err != nil {
			b.Fatal(err)
		}
		found[i] = make(chan struct{})
		finders.Go(func() {
			defer close(found[i])
			if err := find(b.Context(), written, store, text, vectors[i]); err != nil {
				b.Errorf("change %d: %v", i, err)
			}
			took[i] = time.Since(start)
		})
	}
	finders.Wait()
	return took
}

// find searches until the nearest object is the one with the text.
func find(ctx context.Context, written <-chan struct{}, store vectorstore.Store, text string, vector []float32) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-written:
	case <-ctx.Done():
		return fmt.Errorf("not written: %w", ctx.Err())
	}
	for {
		matches, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: vector, Limit: 1})
		if err != nil || len(matches) == 1 && matches[0].Object.Properties["description"] == text {
			return err
		}
	}
}

// wait is the count and the sum of a histogram of seconds.
type wait struct {
	count uint64
	sum   float64
}

type waitTimes map[string]wait

func (w waitTimes) minus(earlier waitTimes) waitTimes {
	out := waitTimes{}
	for name, now := range w {
		out[name] = wait{now.count - earlier[name].count, now.sum - earlier[name].sum}
	}
	return out
}

// mean is in milliseconds.
func (w waitTimes) mean(b *testing.B, name string) float64 {
	b.Helper()
	if w[name].count == 0 {
		b.Errorf("no metric %s", name)
	}
	return 1000 * w[name].sum / float64(max(w[name].count, 1))
}

// waits reads all histograms.
func waits(b *testing.B, reader *metric.ManualReader) waitTimes {
	b.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(b.Context(), &all); err != nil {
		b.Fatal(err)
	}
	out := waitTimes{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			histogram, ok := m.Data.(metricdata.Histogram[float64])
			if !ok {
				continue
			}
			w := out[m.Name]
			for _, point := range histogram.DataPoints {
				w.count, w.sum = w.count+point.Count, w.sum+point.Sum
			}
			out[m.Name] = w
		}
	}
	return out
}

// tokenizing returns how long the tokenizer takes for one of the texts, in milliseconds.
func tokenizing(b *testing.B, texts []string) float64 {
	b.Helper()
	t, err := tokenizer.Load("../../embed/tokenizer/testdata/minilm/tokenizer.json")
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for _, text := range texts {
		if _, err := t.Encode(text); err != nil {
			b.Fatal(err)
		}
	}
	return milliseconds(time.Since(start)) / float64(len(texts))
}

// reportStations prints where the time went.
func reportStations(b *testing.B, hits []time.Duration, outcomes []vectorstore.Outcome, w waitTimes, tokenizing float64) {
	b.Helper()
	if len(outcomes) != len(hits) {
		b.Errorf("%d outcomes of %d changes", len(outcomes), len(hits))
	}
	average := func(of func(vectorstore.Outcome) time.Duration) float64 {
		sum := 0.0
		for _, o := range outcomes {
			sum += milliseconds(of(o))
		}
		return sum / float64(max(len(outcomes), 1))
	}
	queueing, lookUp := w.mean(b, "pulsarx.consumer.queue.duration"), w.mean(b, "tidemark.sink.read.duration")
	embedding := average(func(o vectorstore.Outcome) time.Duration { return o.Embed })
	write := average(func(o vectorstore.Outcome) time.Duration { return o.Write })
	fresh := average(func(o vectorstore.Outcome) time.Duration { return o.Freshness })
	slices.SortFunc(hits, cmp.Compare[time.Duration])
	quantile := func(q float64) float64 { return milliseconds(hits[int(math.Ceil(q*float64(len(hits))))-1]) }
	b.ReportMetric(0, "ns/op")
	for _, m := range []struct {
		name  string
		value float64
	}{
		{"p50-ms", quantile(0.50)},
		{"p99-ms", quantile(0.99)},
		{"debezium+pulsar-ms", fresh - queueing - lookUp - embedding - write},
		{"queueing-ms", queueing},
		{"look-up-ms", lookUp},
		{"tokenizing-ms", tokenizing},
		{"model-ms", embedding - tokenizing},
		{"write-ms", write},
	} {
		b.ReportMetric(m.value, m.name)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
