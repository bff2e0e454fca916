package vectorstore_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	oteltrace "go.opentelemetry.io/otel/trace"

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
	const producer = "0af7651916cd43dd8448eb211c80319c"
	ctx, parent := tracers.Tracer("test").Start(t.Context(), "batch")
	noKey := remove(5, 5)
	noKey.Key = nil
	events := []cdc.Event[product]{
		insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"}), update(3, product{ID: 1, Title: "uno"}), noKey,
	}
	events[0].Record.Properties = map[string]string{"traceparent": "00-" + producer + "-b7ad6b7169203331-01"}
	events[1].Record.Properties = map[string]string{"traceparent": "no trace"}
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
	if links := spans.Ended()[3].Links(); len(links) != 1 || links[0].SpanContext.TraceID().String() != producer {
		t.Errorf("links are %v", links)
	}
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
		case metricdata.Histogram[int64]:
			counts[m.Name] = data.DataPoints[0].Count
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
	wantCounts := map[string]uint64{"tidemark.sink.latency": 2, "tidemark.sink.batch.size": 3, "tidemark.sink.freshness": 2, "tidemark.sink.embed.duration": 2, "tidemark.sink.read.duration": 3, "tidemark.sink.write.duration": 2}
	if !maps.Equal(outcomes, wantOutcomes) || !maps.Equal(counts, wantCounts) {
		t.Errorf("metrics are %v and %v, want %v and %v", outcomes, counts, wantOutcomes, wantCounts)
	}
}

func checkSpans(t *testing.T, ended []trace.ReadOnlySpan) {
	t.Helper()
	var names []string
	root := ended[len(ended)-1].SpanContext().SpanID()
	parents := map[oteltrace.SpanID]bool{}
	for _, s := range ended {
		parents[s.SpanContext().SpanID()] = s.Name() == "sink"
	}
	for _, s := range ended[:len(ended)-1] {
		name := s.Name()
		if s.Status().Code == codes.Error {
			name += " failed"
		}
		names = append(names, name)
		if s.Name() == "sink" && s.Parent().SpanID() != root || s.Name() != "sink" && !parents[s.Parent().SpanID()] {
			t.Errorf("span %s has another parent", s.Name())
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
	if want := []string{"read", "embed", "write", "sink", "read", "write failed", "sink", "read", "embed failed", "sink"}; !slices.Equal(names, want) {
		t.Errorf("spans are %q, want %q", names, want)
	}
}
