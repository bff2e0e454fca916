package onnx

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// telemetry has the instruments; the package's doc lists them.
type telemetry struct {
	tokenize, run, tokens metric.Float64Histogram
	truncated             metric.Int64Counter
}

func newTelemetry(p metric.MeterProvider) (telemetry, error) {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	meter := p.Meter("github.com/tidemark-go/tidemark/embed/onnx")
	var errs error
	histogram := func(name, unit, what string, bounds ...float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = errors.Join(errs, err)
		return h
	}
	t := telemetry{
		tokenize: histogram("embed.onnx.tokenize.duration", "s", "Time that a text takes in the tokenizer.",
			0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1),
		run: histogram("embed.onnx.run.duration", "s", "Time that a run of the graph takes, and pooling.",
			0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
		tokens: histogram("embed.onnx.run.tokens", "{token}", "Tokens of a run, padding included.", 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
	}
	var err error
	t.truncated, err = meter.Int64Counter("embed.onnx.truncated", metric.WithUnit("{text}"), metric.WithDescription("Texts that were cut at the limit."))
	return t, errors.Join(errs, err)
}

func (t telemetry) tokenized(ctx context.Context, took time.Duration, cut bool) {
	t.tokenize.Record(ctx, took.Seconds())
	if cut {
		t.truncated.Add(ctx, 1)
	}
}

func (t telemetry) ran(ctx context.Context, took time.Duration, tokens int) {
	t.run.Record(ctx, took.Seconds())
	t.tokens.Record(ctx, float64(tokens))
}
