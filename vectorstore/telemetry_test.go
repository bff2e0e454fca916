package vectorstore_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

func TestTelemetry(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	spans := tracetest.NewSpanRecorder()
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	f := newFixture(t, func(f *fixture) {
		f.options.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		f.options.TracerProvider = tracers
	})
	ctx, parent := tracers.Tracer("test").Start(t.Context(), "batch")
	noKey := remove(5, 5)
	noKey.Key = nil
	events := []cdc.Event[product]{
		insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"}), update(3, product{ID: 1, Title: "uno"}), noKey,
	}
	if err := f.sink.Handle(ctx, events); !permanent(err) {
		t.Fatalf("error %v", err)
	}
	f.store.fail = func([]vectorstore.Mutation) error { return errors.New("secret") }
	if err := f.sink.Handle(ctx, []cdc.Event[product]{update(9, product{ID: 2, Title: "two", Price: 1})}); err == nil {
		t.Fatal("no error")
	}
	f.store.fail = nil
	f.texts.Inject(embedtest.Fault{Match: "bad", Err: errors.New("secret")})
	if err := f.sink.Handle(ctx, []cdc.Event[product]{insert(10, product{ID: 3, Title: "bad"})}); err == nil {
		t.Fatal("no error")
	}
	parent.End()

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, collected)
	checkSpans(t, spans.Ended())
}

func checkMetrics(t *testing.T, collected metricdata.ResourceMetrics) {
	t.Helper()
	outcomes, counts := map[string]int64{}, map[string]uint64{}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				outcome, _ := p.Attributes.Value("tidemark.outcome")
				outcomes[m.Name+" "+outcome.AsString()] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				counts[m.Name] += p.Count
			}
			if m.Unit != "s" {
				t.Errorf("%s is in %q", m.Name, m.Unit)
			}
		}
	}
	wantOutcomes := map[string]int64{
		"tidemark.sink.events created": 2, "tidemark.sink.events collapsed": 1, "tidemark.sink.events rejected": 1, "tidemark.sink.events failed": 2,
	}
	wantCounts := map[string]uint64{"tidemark.sink.freshness": 2, "tidemark.sink.embed.duration": 2, "tidemark.sink.read.duration": 3, "tidemark.sink.write.duration": 2}
	if !maps.Equal(outcomes, wantOutcomes) || !maps.Equal(counts, wantCounts) {
		t.Errorf("metrics are %v and %v, want %v and %v", outcomes, counts, wantOutcomes, wantCounts)
	}
}

func checkSpans(t *testing.T, ended []trace.ReadOnlySpan) {
	t.Helper()
	var names []string
	parent := ended[len(ended)-1].SpanContext().SpanID()
	for _, s := range ended[:len(ended)-1] {
		name := s.Name()
		if s.Status().Code == codes.Error {
			name += " failed"
		}
		names = append(names, name)
		if s.Parent().SpanID() != parent {
			t.Errorf("span %s is no child of the batch's", s.Name())
		}
		if len(s.Events()) > 0 || slices.Contains([]string{s.Status().Description}, "secret") {
			t.Errorf("span %s repeats the error", s.Name())
		}
		if s.Name() == "embed" && !slices.Contains(s.Attributes(), attribute.String("tidemark.vector", textVector)) {
			t.Errorf("attributes of embed are %v", s.Attributes())
		}
		if s.Name() == "write" && !slices.ContainsFunc(s.Attributes(), func(a attribute.KeyValue) bool { return a.Key == "tidemark.batch.size" }) {
			t.Errorf("attributes of write are %v", s.Attributes())
		}
	}
	if want := []string{"read", "embed", "write", "read", "write failed", "read", "embed failed"}; !slices.Equal(names, want) {
		t.Errorf("spans are %q, want %q", names, want)
	}
}
