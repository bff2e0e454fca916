package pulsarx

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// schemaWait is how long a worker waits for a schema that is being looked up.
const schemaWait = 100 * time.Millisecond

// worker handles batches until the loop has returned.
func (r *run[T]) worker(ctx context.Context) {
	clean := false
	defer func() {
		if !clean { // a handler ended the goroutine
			go r.worker(ctx)
		}
	}()
	for w := range r.work {
		r.process(ctx, w)
	}
	clean = true
}

// process decodes a batch, calls the handler with what can be handled, and sends the verdicts.
func (r *run[T]) process(ctx context.Context, w work) {
	defer func() {
		select {
		case r.results <- w:
		case <-r.ended:
		}
	}()
	messages := r.decode(w)
	if len(messages) == 0 {
		return
	}
	err := errGoexit // until the handler has returned
	defer func() { w.blame(err, len(messages)) }()
	err = r.handle(ctx, w.batch, messages)
}

var errGoexit error = panicError{"the handler ended its goroutine"}

// blame gives their verdicts to the n messages that the handler got: those that have no other one.
func (w work) blame(err error, n int) {
	if err == nil {
		return
	}
	errs, named := itemerror.Align(err, n)
	for i := range w.verdicts {
		if w.verdicts[i].kind != succeeded {
			continue
		}
		if errs[0] != nil {
			w.verdicts[i] = verdict{failed, errs[0], named, n == 1}
		}
		errs = errs[1:]
	}
}

// decode returns the messages for the handler, in the batch's order. What is not for the handler has its verdict.
func (r *run[T]) decode(w work) []Message[T] {
	messages := make([]Message[T], 0, len(w.batch))
	var schema writerSchema
	for i, it := range w.batch {
		if i > 0 && w.verdicts[i-1].kind != succeeded && w.batch[i-1].queue == it.queue {
			w.verdicts[i].kind = passedOver
			continue
		}
		err := schema.find(r.c.client, it.partition.topic, it.msg.SchemaVersion())
		if errors.Is(err, errSchemaPending) {
			r.tel.schemaErrors.Add(context.Background(), 1, r.attrs)
			w.verdicts[i] = verdict{kind: unready, err: err}
			continue
		}
		var m Message[T]
		if err == nil {
			m, err = r.c.decode(it, schema.schema)
		}
		if err != nil {
			w.verdicts[i] = verdict{kind: condemned, err: err}
			continue
		}
		messages = append(messages, m)
	}
	return messages
}

// writerSchema is the schema of a message's writer, mostly that of the message before.
type writerSchema struct {
	topic   string
	version []byte
	schema  Schema
}

func (w *writerSchema) find(c *Client, topic string, version []byte) (err error) {
	if w.topic == topic && bytes.Equal(w.version, version) {
		return nil
	}
	w.topic, w.version = topic, version
	if w.schema, err = c.schemas.get(topic, version); err != nil {
		w.topic = ""
	}
	return err
}

// handle calls the handler in the batch's span, and makes an error of its panic.
func (r *run[T]) handle(ctx context.Context, batch []*item, messages []Message[T]) (err error) {
	ctx, span := r.spans.start(ctx, batch)
	start := time.Now()
	if r.tel.queued.Enabled(ctx) {
		for _, it := range batch {
			r.tel.queued.Record(ctx, start.Sub(it.arrived).Seconds(), r.recorded...)
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
			span.RecordError(err, trace.WithStackTrace(true))
		}
		if err == nil {
			r.tel.processTime.Record(ctx, since(start), r.processed)
		} else {
			r.tel.processTime.Record(ctx, since(start), r.processed, failure(err))
		}
		endSpan(span, err)
	}()
	err = r.handler(ctx, messages)
	inspect(err)
	return err
}

// batchSpans opens the spans of batches.
type batchSpans struct {
	tracer           trace.Tracer
	receive, process string
	receiveOptions   []trace.SpanStartOption
	processOptions   []trace.SpanStartOption
}

func newBatchSpans(t *telemetry, topic, subscription string) batchSpans {
	received := t.where(topic, subscription, operation("receive")...)
	processed := t.where(topic, subscription, operation("process")...)
	return batchSpans{
		tracer: t.tracer, receive: "receive " + topic, process: "process " + topic,
		receiveOptions: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(received.ToSlice()...),
		},
		processOptions: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(processed.ToSlice()...),
		},
	}
}

// start opens the spans of a batch, both linked to the spans that its messages were sent in: "receive", from the first message's
// arrival until now, and in it "process", which the handler gets.
func (s *batchSpans) start(ctx context.Context, batch []*item) (context.Context, trace.Span) {
	var links []trace.Link
	arrived := batch[0].arrived
	p, carrier := propagator(), propertyCarrier{new(map[string]string)}
	for _, it := range batch {
		if it.arrived.Before(arrived) {
			arrived = it.arrived
		}
		if *carrier.properties = it.msg.Properties(); len(*carrier.properties) == 0 {
			continue
		}
		sent := trace.SpanContextFromContext(p.Extract(context.Background(), carrier))
		if sent.IsValid() {
			links = append(links, trace.Link{SpanContext: sent})
		}
	}
	of := []trace.SpanStartOption{
		trace.WithLinks(links...), trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(batch))),
	}
	options := append(slices.Clone(s.receiveOptions), of...)
	ctx, received := s.tracer.Start(ctx, s.receive, append(options, trace.WithTimestamp(arrived))...)
	received.End()
	return s.tracer.Start(ctx, s.process, append(slices.Clone(s.processOptions), of...)...)
}
