package pulsarx

import (
	"context"
	"errors"
	"time"

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
	for batch := range r.work {
		r.process(ctx, batch)
	}
	clean = true
}

// process decodes a batch, calls the handler with what can be handled, and sends the verdicts.
func (r *run[T]) process(ctx context.Context, batch []*item) {
	res := result{batch, make([]verdict, len(batch))}
	defer func() {
		select {
		case r.results <- res:
		case <-r.ended:
		}
	}()
	messages, places := r.decode(batch, res.verdicts)
	if len(messages) == 0 {
		return
	}
	errs, named := make([]error, len(messages)), false
	for i := range errs {
		errs[i] = errGoexit // until the handler has returned
	}
	defer func() {
		for i, err := range errs {
			if v := &res.verdicts[places[i]]; err != nil {
				*v = verdict{failed, err, named, len(messages) == 1}
			}
		}
	}()
	err := r.handle(ctx, batch, messages)
	errs, named = itemerror.Align(err, len(messages))
}

var errGoexit error = panicError{"the handler ended its goroutine"}

// decode returns the messages for the handler and their places in the batch. What is not for the handler has its verdict.
func (r *run[T]) decode(batch []*item, verdicts []verdict) (messages []Message[T], places []int) {
	messages, places = make([]Message[T], 0, len(batch)), make([]int, 0, len(batch))
	for i, it := range batch {
		if i > 0 && verdicts[i-1].kind != succeeded && batch[i-1].queue == it.queue {
			verdicts[i].kind = passedOver
			continue
		}
		schema, err := r.c.client.schemas.get(it.id.partition.topic, it.msg.SchemaVersion(), schemaWait)
		if errors.Is(err, errSchemaPending) {
			r.tel.schemaErrors.Add(context.Background(), 1, r.attrs)
			verdicts[i] = verdict{kind: unready, err: err}
			continue
		}
		it.schema = schema
		var m Message[T]
		if err == nil {
			m, err = r.c.decode(it)
		}
		if err != nil {
			verdicts[i] = verdict{kind: condemned, err: err}
			continue
		}
		messages, places = append(messages, m), append(places, i)
	}
	return messages, places
}

// handle calls the handler in the batch's span, and makes an error of its panic.
func (r *run[T]) handle(ctx context.Context, batch []*item, messages []Message[T]) (err error) {
	ctx, span := r.tel.startBatch(ctx, r.topic, r.c.options.Subscription, batch)
	start := time.Now()
	for _, it := range batch {
		r.tel.queued.Record(ctx, start.Sub(it.arrived).Seconds(), r.recorded...)
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
			span.RecordError(err, trace.WithStackTrace(true))
		}
		r.tel.processTime.Record(ctx, since(start), r.attrs)
		endSpan(span, err)
	}()
	err = r.handler(ctx, messages)
	inspect(err)
	return err
}
