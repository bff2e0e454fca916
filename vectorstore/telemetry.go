package vectorstore

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

const scope = "github.com/tidemark-go/tidemark/vectorstore"

// telemetry has the instruments that the package's doc lists.
type telemetry struct {
	tracer        trace.Tracer
	freshness     metric.Float64Histogram
	latency       metric.Float64Histogram
	events        metric.Int64Counter
	refused       metric.Int64Counter
	batchSize     metric.Int64Histogram
	readDuration  metric.Float64Histogram
	embedDuration metric.Float64Histogram
	writeDuration metric.Float64Histogram
	kinds         [len(kindNames)]metric.MeasurementOption // by Kind, made once
	failed        metric.MeasurementOption
	rejected      metric.MeasurementOption
}

func newTelemetry(o SinkOptions) (t telemetry, err error) {
	meters, tracers := o.MeterProvider, o.TracerProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	t.tracer = tracers.Tracer(scope)
	meter := meters.Meter(scope)
	seconds := func(name, what string, bounds ...float64) metric.Float64Histogram {
		h, e := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(bounds...))
		err = errors.Join(err, e)
		return h
	}
	t.freshness = seconds("tidemark.sink.freshness", "Time from the commit at the source to the acknowledged write.",
		0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	t.latency = seconds("tidemark.sink.latency", "Time from the publishing of the event to the acknowledged write.",
		0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	t.embedDuration = seconds("tidemark.sink.embed.duration", "Time of one Embed call.",
		0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
	storeBounds := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	t.readDuration = seconds("tidemark.sink.read.duration", "Time of one read of what the store has.", storeBounds...)
	t.writeDuration = seconds("tidemark.sink.write.duration", "Time of one write of a batch to the store.", storeBounds...)
	var e error
	t.events, e = meter.Int64Counter("tidemark.sink.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events by what became of them."))
	err = errors.Join(err, e)
	t.refused, e = meter.Int64Counter("tidemark.sink.refused", metric.WithUnit("{vector}"),
		metric.WithDescription("Optional vectors that objects lack since the model refused their input."))
	err = errors.Join(err, e)
	t.batchSize, e = meter.Int64Histogram("tidemark.sink.batch.size", metric.WithUnit("{event}"),
		metric.WithDescription("Events of one call of Handle."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024))
	outcome := func(name string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("tidemark.outcome", name)))
	}
	for k := range t.kinds {
		t.kinds[k] = outcome(Kind(k).String())
	}
	t.failed, t.rejected = outcome("failed"), outcome("rejected")
	return t, errors.Join(err, e)
}

func (t *telemetry) fresh(ctx context.Context, d time.Duration) { t.freshness.Record(ctx, d.Seconds()) }

func (t *telemetry) done(ctx context.Context, k Kind) { t.events.Add(ctx, 1, t.kinds[k]) }

// failures counts events that will be tried again as failed, and those that are wrong for good as rejected.
func (t *telemetry) failures(ctx context.Context, errs []error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case itemerror.IsPermanent(err):
			t.events.Add(ctx, 1, t.rejected)
		default:
			t.events.Add(ctx, 1, t.failed)
		}
	}
}

// maxLinks is the usual bound of a span's links.
const maxLinks = 128

// handle starts the span of one Handle call, linked to the traces that its events' messages carry.
func (t *telemetry) handle(ctx context.Context, size int, properties func(i int) map[string]string) (context.Context, trace.Span) {
	t.batchSize.Record(ctx, int64(size))
	var links []trace.Link
	for i := 0; i < size && len(links) < maxLinks; i++ {
		carrier := propagation.MapCarrier(properties(i))
		if carrier["traceparent"] == "" {
			continue
		}
		event := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if event.IsValid() {
			links = append(links, trace.Link{SpanContext: event})
		}
	}
	return t.tracer.Start(ctx, "sink", trace.WithLinks(links...), trace.WithAttributes(attribute.Int("tidemark.batch.size", size)))
}

// span runs f in a child span. The error's text stays out of the span: it may come from a server, with data in it.
func (t *telemetry) span(
	ctx context.Context, name string, size int, f func(context.Context) error, more ...attribute.KeyValue,
) error {
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(append(more, attribute.Int("tidemark.batch.size", size))...))
	defer span.End()
	err := f(ctx)
	if err != nil {
		span.SetStatus(codes.Error, name+" failed")
	}
	return err
}

func (t *telemetry) read(ctx context.Context, size int, f func(context.Context) error) error {
	start := time.Now()
	err := t.span(ctx, "read", size, f)
	t.readDuration.Record(ctx, time.Since(start).Seconds())
	return err
}

func (t *telemetry) write(ctx context.Context, size int, f func(context.Context) error) error {
	start := time.Now()
	err := t.span(ctx, "write", size, f)
	t.writeDuration.Record(ctx, time.Since(start).Seconds())
	return err
}

func (t *telemetry) embed(ctx context.Context, vector string, size int, f func(context.Context) error) {
	start := time.Now()
	name := attribute.String("tidemark.vector", vector)
	_ = t.span(ctx, "embed", size, f, name) // f keeps its errors by item
	t.embedDuration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(name))
}
