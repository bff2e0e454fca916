package embed

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/tidemark-go/tidemark/embed"

// instruments makes the instruments of this package, and tells OpenTelemetry's error handler what went wrong.
type instruments struct {
	meter metric.Meter
	err   error
}

func newInstruments(p metric.MeterProvider) *instruments {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return &instruments{meter: p.Meter(scope)}
}

func (m *instruments) histogram(name, unit, what string, bounds ...float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	m.err = errors.Join(m.err, err)
	return h
}

func (m *instruments) counter(name, unit, what string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *instruments) gauge(name, unit, what string) metric.Int64UpDownCounter {
	c, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.err = errors.Join(m.err, err)
	return c
}

// report hands over what went wrong: a constructor without an error has no other place for it.
func (m *instruments) report() {
	if m.err != nil {
		otel.Handle(m.err)
	}
}

// times are the bounds of histograms of seconds, from a queue that is empty to a model that is slow.
var times = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// batcherTelemetry has the instruments of a Batcher; the package's doc lists them.
type batcherTelemetry struct {
	tracer                    trace.Tracer
	queue, run, items, tokens metric.Float64Histogram
	length                    metric.Int64UpDownCounter
	rejections                metric.Int64Counter
}

func newBatcherTelemetry(o BatcherOptions) batcherTelemetry {
	tracers := o.TracerProvider
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	in := newInstruments(o.MeterProvider)
	defer in.report()
	return batcherTelemetry{
		tracer: tracers.Tracer(scope),
		queue:  in.histogram("embed.batcher.queue.duration", "s", "Time that an input waits for its batch.", times...),
		run:    in.histogram("embed.batcher.run.duration", "s", "Time that a batch takes in the embedder.", times...),
		items:  in.histogram("embed.batcher.batch.inputs", "{input}", "Inputs of a batch.", 1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
		tokens: in.histogram("embed.batcher.batch.tokens", "{token}", "Tokens of a batch, as counted for MaxTokens.",
			16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
		length:     in.gauge("embed.batcher.queue.inputs", "{input}", "Inputs that wait."),
		rejections: in.counter("embed.batcher.rejected", "{input}", "Inputs that found the queue full."),
	}
}

// start opens the span of a batch.
func (t *batcherTelemetry) start(ctx context.Context, callers []trace.Link, inputs int) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "embed batch", trace.WithLinks(callers...), trace.WithAttributes(attribute.Int("tidemark.batch.size", inputs)))
}

func (t *batcherTelemetry) waited(ctx context.Context, d time.Duration) {
	t.queue.Record(ctx, d.Seconds())
}

func (t *batcherTelemetry) began(ctx context.Context, tokens int) {
	t.tokens.Record(ctx, float64(tokens))
}

func (t *batcherTelemetry) ran(ctx context.Context, d time.Duration, inputs int) {
	t.run.Record(ctx, d.Seconds())
	t.items.Record(ctx, float64(inputs))
}

func (t *batcherTelemetry) queued(n int) { t.length.Add(context.Background(), int64(n)) }

func (t *batcherTelemetry) rejected(ctx context.Context, n int) { t.rejections.Add(ctx, int64(n)) }

// cacheTelemetry has the instruments of a Cache.
type cacheTelemetry struct{ inputs, failures metric.Int64Counter }

func newCacheTelemetry(p metric.MeterProvider) cacheTelemetry {
	in := newInstruments(p)
	defer in.report()
	return cacheTelemetry{
		inputs:   in.counter("embed.cache.inputs", "{input}", "Different inputs by where their vectors came from."),
		failures: in.counter("embed.cache.remote.failures", "{failure}", "Requests to Remote that failed, and values of it that are no vectors."),
	}
}

func (t cacheTelemetry) found(ctx context.Context, n int, where string) {
	if n > 0 {
		t.inputs.Add(ctx, int64(n), metric.WithAttributes(attribute.String("embed.cache.source", where)))
	}
}

func (t cacheTelemetry) failed(ctx context.Context, n int, why string) {
	if n > 0 {
		t.failures.Add(ctx, int64(n), metric.WithAttributes(attribute.String("error.type", why)))
	}
}

// newSpendingCounter returns what counts the tokens and the money of a Limited embedder.
func newSpendingCounter(p metric.MeterProvider) func(ctx context.Context, tokens int, money float64) {
	in := newInstruments(p)
	defer in.report()
	tokens := in.counter("embed.limit.tokens", "{token}", "Tokens that were sent to the embedder.")
	spent, err := in.meter.Float64Counter("embed.limit.spent", metric.WithDescription("What they cost, in the currency of the price."))
	in.err = errors.Join(in.err, err)
	return func(ctx context.Context, n int, money float64) {
		tokens.Add(ctx, int64(n))
		spent.Add(ctx, money)
	}
}
