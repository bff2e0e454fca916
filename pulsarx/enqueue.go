package pulsarx

import (
	"context"
	"errors"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/trace"
)

// begin opens the message's span, puts it into the properties and the delivery into the ring.
func (p *Producer[T]) begin(ctx context.Context, l *line, d *delivery) (context.Context, error) {
	d.line, d.start = l, clock()
	if p.traced(ctx, d.start) {
		ctx, d.span = p.client.tel.startSend(ctx, p.spanName, &d.message, p.span)
		if !d.span.SpanContext().IsValid() {
			p.untraced.Store(int64(d.start + tracerPoll))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		err := p.sendError(ErrClosed)
		if d.span != nil {
			endSpan(d.span, err)
		}
		return ctx, err
	}
	p.last++
	d.number = p.last
	d.prev, d.next = p.pending.prev, &p.pending
	d.prev.next, d.next.prev = d, d
	return ctx, nil
}

// tracerPoll is how often a producer looks whether there is a tracer by now: asking costs as much as the rest of Send.
const tracerPoll = time.Second

func (p *Producer[T]) traced(ctx context.Context, now time.Duration) bool {
	return int64(now) >= p.untraced.Load() || trace.SpanContextFromContext(ctx).IsValid()
}

// queue gives a message to the client, and waits for a place with it where there is none. The outcome comes once, from here or from the
// goroutine that reads the connection.
func (p *Producer[T]) queue(ctx context.Context, d *delivery) {
	if err := p.enqueue(ctx, d); err != nil {
		d.line.answer(nil, &d.message, err)
	}
}

// answerer takes the client's answers to the messages of a line. Whoever reads the connection must not wait for a user.
func (p *Producer[T]) answerer(l *line) func(MessageID, *pulsar.ProducerMessage, error) {
	return func(id MessageID, m *pulsar.ProducerMessage, err error) {
		d := deliveryOf(m)
		switch {
		case err == nil:
		case isFull(err) && d.call.CompareAndSwap(calling, foundFull):
			return
		case errors.Is(err, pulsar.ErrProducerClosed) && d.call.CompareAndSwap(calling, foundClosed):
			return
		}
		if p.options.Chunking {
			l.release(d.places)
		}
		if l.alone && d.answered != nil {
			now := clock()
			p.arrived(l, d, err, now)
			p.settleSend(answer{d, id, err, now})
		} else {
			p.arrived(l, d, err, p.leave(d, id, err))
		}
	}
}

// enqueue returns an error where the client has not taken the message.
func (p *Producer[T]) enqueue(ctx context.Context, d *delivery) (err error) {
	if d.line.alone {
		if err := d.line.takeTurn(ctx); err != nil {
			return err
		}
		defer d.line.endTurn()
		if n := p.options.chunks(&d.message); p.options.Chunking {
			if err := d.line.takePlaces(ctx, n, p.options.FailWhenFull); err != nil {
				return err
			}
			d.places = n
		}
	}
	for waited := false; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if d.producer, err = d.line.enter(ctx); err != nil {
			return err
		}
		d.call.Store(calling)
		err = d.line.send(d.producer, &d.message)
		d.line.leave()
		if err == nil && d.call.CompareAndSwap(calling, taken) {
			if waited { // and others may, while there are more places
				p.offerRoom()
			}
			return nil
		}
		if refused := (routingError{}); errors.As(err, &refused) {
			return err
		}
		if found := d.call.Swap(waiting); found == foundFull {
			waited, err = true, p.awaitRoom(ctx, d)
		} else {
			d.line.replace(d.producer)
			err = d.stillPending()
		}
		if err != nil {
			return err
		}
	}
}

func isFull(err error) bool {
	return errors.Is(err, pulsar.ErrSendQueueIsFull) || errors.Is(err, pulsar.ErrMemoryBufferIsFull)
}

func (p *Producer[T]) sendNow(ctx context.Context, d *delivery) (MessageID, error) {
	l, err := p.lineOf(ctx, &d.message)
	if err != nil {
		return nil, err
	}
	// The client's own Send never returns where it drops the message; cancelling it is how the message gets its outcome then.
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.fail, d.answered = cancel, make(chan struct{}) // before the sweep can see d
	traced, err := p.begin(sending, l, d)
	if err != nil {
		return nil, err
	}
	if l.alone {
		p.queue(traced, d)
	} else {
		p.sendBatched(traced, d)
	}
	select {
	case <-d.answered:
	case <-sending.Done():
		if !d.settle(theContext, nil, p.sendError(context.Cause(sending)), clock()) {
			if d.owner.Load() == theSweep { // which records it
				return nil, context.Cause(sending)
			}
			<-d.answered
			break
		}
		p.unlink(d)
	}
	p.record(traced, d)
	if d.err != nil {
		return nil, d.err
	}
	return d.id, nil
}

// sendBatched gives a message to the client and lets it close the batch.
func (p *Producer[T]) sendBatched(ctx context.Context, d *delivery) {
	for {
		var id MessageID
		var err error
		if d.producer, err = d.line.enter(ctx); err == nil {
			d.call.Store(taken)
			id, err = transmit(func() (MessageID, error) { return d.producer.Send(ctx, &d.message) })
			d.line.leave()
		}
		if isFull(err) {
			if err = p.awaitRoom(ctx, d); err == nil {
				continue
			}
		}
		p.arrived(d.line, d, err, clock())
		if errors.Is(err, pulsar.ErrProducerClosed) { // why?
			if _, ended := d.line.enter(ctx); ended != nil {
				err = ended
			} else {
				d.line.leave()
			}
		}
		p.settleSend(answer{d, id, err, clock()})
		return
	}
}

// awaitRoom waits until the client may have a place.
func (p *Producer[T]) awaitRoom(ctx context.Context, d *delivery) error {
	if p.options.FailWhenFull {
		return ErrQueueFull
	}
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	timer := time.NewTimer(roomPoll) // another producer has freed the client's memory, or the place came just before
	defer timer.Stop()
	select {
	case <-p.room:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.line.closing:
		return ErrClosed
	}
	return d.stillPending()
}

// stillPending returns an error where the message has its outcome.
func (d *delivery) stillPending() error {
	if d.owner.Load() != nobody { // by the sweep
		return ErrSendTimeout
	}
	return nil
}
