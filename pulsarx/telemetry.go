package pulsarx

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/tidemark-go/tidemark/pulsarx"

// telemetry are the instruments of the global providers; doc.go lists them.
type telemetry struct {
	tracer trace.Tracer
	server []attribute.KeyValue

	sent         metric.Int64Counter
	dropped      metric.Int64Counter
	sampled      metric.Int64Counter
	sendTime     metric.Float64Histogram
	consumed     metric.Int64Counter
	processTime  metric.Float64Histogram
	queued       metric.Float64Histogram
	delay        metric.Float64Histogram
	inFlight     metric.Int64UpDownCounter
	retries      metric.Int64Counter
	deadLetters  metric.Int64Counter
	buryFailures metric.Int64Counter
	ackFailures  metric.Int64Counter
	redelivered  metric.Int64Counter
	schemaErrors metric.Int64Counter

	decryptErrors     metric.Int64Counter
	discoveryFailures metric.Int64Counter
}

func newTelemetry(url string) (*telemetry, error) {
	m := otel.Meter(scope)
	var errs [17]error
	t := &telemetry{tracer: otel.Tracer(scope), server: serverOf(url)}
	counter := func(i int, name, unit, what string) (c metric.Int64Counter) {
		c, errs[i] = m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		return c
	}
	histogram := func(i int, name, what string) (h metric.Float64Histogram) {
		h, errs[i] = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
		return h
	}
	t.sent = counter(0, "messaging.client.sent.messages", "{message}", "Messages sent, by error.type where they failed.")
	t.dropped = counter(13, "pulsarx.producer.dropped", "{message}", "Messages that the broker of a non-persistent topic confirmed and dropped.")
	t.sampled = counter(16, "pulsarx.sampler.values", "{value}", "Values offered to a Sampler, by what became of them.")
	t.sendTime = histogram(1, "messaging.client.operation.duration", "From Send to the broker's receipt.")
	t.consumed = counter(2, "messaging.client.consumed.messages", "{message}", "Messages received, redelivered ones included.")
	t.processTime = histogram(3, "messaging.process.duration", "Duration of the handler, a batch.")
	t.queued = histogram(12, "pulsarx.consumer.queue.duration", "From receiving a message to the start of its handler.")
	t.delay = histogram(4, "pulsarx.consumer.delay", "From publishing a message to the success of its handler.")
	t.inFlight, errs[5] = m.Int64UpDownCounter("pulsarx.consumer.in_flight", metric.WithUnit("{message}"),
		metric.WithDescription("Messages received and not yet acknowledged."))
	t.retries = counter(6, "pulsarx.consumer.retries", "{message}", "Failed attempts that are tried again.")
	t.deadLetters = counter(7, "pulsarx.consumer.dead_letters", "{message}", "Messages written to the dead-letter topic, by reason.")
	t.buryFailures = counter(8, "pulsarx.consumer.dead_letter.failures", "{attempt}", "Dead letters that could not be written; their keys wait.")
	t.ackFailures = counter(9, "pulsarx.consumer.ack.failures", "{attempt}", "Acknowledgements that failed and are sent again.")
	t.redelivered = counter(10, "pulsarx.consumer.redelivered", "{message}", "Redeliveries of messages that were still held.")
	t.schemaErrors = counter(11, "pulsarx.schema.lookup.failures", "{attempt}", "Failed look-ups of a writer's schema; they are tried again.")
	t.decryptErrors = counter(14, "pulsarx.decryption.failures", "{batch}", "Batches that wait because they cannot be decrypted.")
	t.discoveryFailures = counter(15, "pulsarx.consumer.discovery.failures", "{attempt}",
		"Failed searches for new partitions and topics; they are tried again.")
	return t, errors.Join(errs[:]...)
}

// serverOf are the attributes that name the server of a client's URL, none where it names several.
func serverOf(text string) []attribute.KeyValue {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.Host, ",") {
		return nil
	}
	port := 6650
	if u.Scheme == "pulsar+ssl" {
		port = 6651
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return nil
		}
	}
	return []attribute.KeyValue{attribute.String("server.address", u.Hostname()), attribute.Int("server.port", port)}
}

// where are the attributes that name a topic, by its full name whatever the user calls it, so that what its producers and consumers
// report can be joined; and the subscription of a consumer, with more.
func (t *telemetry) where(topic, subscription string, more ...attribute.KeyValue) attribute.Set {
	attrs := append(slices.Concat(more, t.server),
		attribute.String("messaging.system", "pulsar"),
		attribute.String("messaging.destination.name", fullTopic(topic)),
	)
	if subscription != "" {
		attrs = append(attrs, attribute.String("messaging.destination.subscription.name", subscription))
	}
	return attribute.NewSet(attrs...)
}

// propagator is the global one, or W3C's trace context where none is set.
func propagator() propagation.TextMapPropagator {
	if p := otel.GetTextMapPropagator(); len(p.Fields()) > 0 {
		return p
	}
	return propagation.TraceContext{}
}

// propertyCarrier reads and writes message properties; the map is made when something is to be written.
type propertyCarrier struct{ properties *map[string]string }

func (c propertyCarrier) Get(key string) string { return (*c.properties)[key] }

func (c propertyCarrier) Set(key, value string) {
	if *c.properties == nil {
		*c.properties = map[string]string{}
	}
	(*c.properties)[key] = value
}

func (c propertyCarrier) Keys() []string {
	keys := make([]string, 0, len(*c.properties))
	for key := range *c.properties {
		keys = append(keys, key)
	}
	return keys
}

// endSpan records how an operation ended.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetAttributes(attribute.String("error.type", errorType(err)))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// operation are the attributes that say what a span or a metric is of.
func operation(name string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.operation.type", name),
		attribute.String("messaging.operation.name", name),
	}
}

// startSend opens the span of a message, and writes it into the properties.
func (t *telemetry) startSend(
	ctx context.Context, name string, m *pulsar.ProducerMessage, options []trace.SpanStartOption,
) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, name, options...)
	if span.SpanContext().IsValid() {
		propagator().Inject(ctx, propertyCarrier{&m.Properties})
	}
	return ctx, span
}

func endSend(span trace.Span, id MessageID, err error) {
	if id != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.message.id", id.String()))
		if id.PartitionIdx() >= 0 {
			span.SetAttributes(attribute.String("messaging.destination.partition.id", strconv.Itoa(int(id.PartitionIdx()))))
		}
	}
	endSpan(span, err)
}

// failure is the attribute of what failed.
func failure(err error) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("error.type", errorType(err)))
}

func since(start time.Time) float64 { return time.Since(start).Seconds() }
