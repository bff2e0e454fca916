package pulsarx_test

import (
	"testing"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

// The client waits a minute for the other chunks of a message, even where they have come, and for ever on behalf of a producer that
// it has closed by itself.
func TestMain(m *testing.M) {
	// The default providers cannot be put back: they go on as the first ones that are set, and so do all later tests.
	otel.SetTracerProvider(noop.NewTracerProvider())
	otel.SetMeterProvider(metricnoop.NewMeterProvider())
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar.(*chunkedMsgCtxMap).discardChunkIfExpire"),
		goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar.(*partitionProducer).runEventsLoop.func1"))
}
