package embed_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tidemark-go/tidemark/embed"
)

// measured has the sums and the totals of histograms by name.
func measured(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	totals := map[string]float64{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					totals[m.Name] += float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					totals[m.Name] += p.Sum
				}
			}
		}
	}
	return totals
}

// TestBatcherTelemetry: a batch runs for a second while two inputs of one caller and one of another wait, and a fourth finds no room.
func TestBatcherTelemetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
		tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		b := embed.NewBatcher(newSlow(), embed.BatcherOptions{
			MaxQueue: 3, Reject: true, MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), TracerProvider: tracers,
		})
		running := embedAll(t.Context(), t, b, "running")
		traced, caller := tracers.Tracer("test").Start(t.Context(), "caller")
		running.Go(func() {
			if _, err := b.Embed(traced, []string{"two words", "three more words"}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		waiting := embedAll(t.Context(), t, b, "last")
		if _, err := b.Embed(t.Context(), []string{"too many"}); err == nil {
			t.Error("no error")
		}
		want := map[string]float64{
			"embed.batcher.rejected": 1, "embed.batcher.queue.inputs": 3, "embed.batcher.queue.duration": 0, "embed.batcher.batch.tokens": 1,
		}
		if got := measured(t, reader); !maps.Equal(got, want) {
			t.Errorf("meanwhile: %v, want %v", got, want)
		}
		running.Wait()
		waiting.Wait()
		caller.End()
		maps.Copy(want, map[string]float64{
			"embed.batcher.queue.inputs": 0, "embed.batcher.queue.duration": 3, // three inputs, a second each
			"embed.batcher.batch.tokens": 7, "embed.batcher.batch.inputs": 4, "embed.batcher.run.duration": 2,
		})
		if got := measured(t, reader); !maps.Equal(got, want) {
			t.Errorf("at the end: %v, want %v", got, want)
		}
		time.Sleep(time.Second) // the last span ends behind the answer
		links := 0
		for _, s := range spans.Ended() {
			for _, l := range s.Links() {
				links++
				if s.Name() != "embed batch" || l.SpanContext.SpanID() != caller.SpanContext().SpanID() {
					t.Errorf("span %s is linked to %v", s.Name(), l.SpanContext)
				}
			}
		}
		if links != 1 {
			t.Errorf("%d links, want one for a caller", links)
		}
	})
}

// TestMetricsAreListed compares the package's documentation with the metrics that the code names.
func TestMetricsAreListed(t *testing.T) {
	names := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return found
	}
	listed, made := names("doc.go", `(?m)^//\t(embed\.[a-z.]+)  `), names("telemetry.go", `(?:histogram|gauge|counter|Counter)\("(embed\.[a-z.]+)"`)
	if !slices.Equal(listed, made) || len(made) == 0 {
		t.Errorf("listed are\n%s\nand made\n%s", strings.Join(listed, "\n"), strings.Join(made, "\n"))
	}
}
