package pulsarx

import (
	"context"
	"errors"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/trace"
)

// begin opens the message's span, puts it into the properties, and puts the delivery among those that are pending.
func (p *Producer[T]) begin(ctx context.Context, d *delivery) (context.Context, error) {
	l, err := p.lineOf(ctx, d)
	if err != nil {
		return ctx, err
	}
	d.line = l
	if d.start, d.measured = 0, p.client.tel.sendTime.Enabled(ctx); d.measured {
		d.start = clock()
	}
	if p.traced(ctx) {
		ctx, d.span = p.client.tel.startSend(ctx, p.spanName, &d.message, p.span)
		d.special = true
		p.untraced.Store(!d.span.SpanContext().IsValid())
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		err := p.sendError(ErrClosed)
		if d.span != nil {
			endSpan(d.span, err)
		}
		return ctx, err
	}
	p.last++
	p.left++
	d.number, d.open = p.last, true
	if n := len(p.slots); n > 0 {
		d.slot = p.slots[n-1]
		p.slots = p.slots[:n-1]
		p.pending[d.slot] = d
	} else {
		d.slot = int32(len(p.pending))
		p.pending = append(p.pending, d)
	}
	p.mu.Unlock()
	return ctx, nil
}

// traced tells whether a message may get a span. Whether there is a tracer by now is looked for after each sweep alone: asking costs as
// much as the rest of Send.
func (p *Producer[T]) traced(ctx context.Context) bool {
	if !p.untraced.Load() {
		return true
	}
	span := trace.SpanFromContext(ctx)
	return span != noSpan && span.SpanContext().IsValid()
}

var noSpan = trace.SpanFromContext(context.Background())

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
			l.release(int(d.places))
		}
		if l.alone && d.sync != nil {
			now := clock()
			p.arrived(l, d, err, now)
			p.settleSend(answer{delivery: d, id: id, err: p.sendError(err), at: now})
		} else {
			p.arrived(l, d, err, p.leave(d, id, err))
		}
	}
}

// enqueue returns an error where the client has not taken the message.
func (p *Producer[T]) enqueue(ctx context.Context, d *delivery) error {
	if d.line.alone {
		if err := d.line.takeTurn(ctx); err != nil {
			return err
		}
		defer d.line.endTurn()
		if n := p.options.chunks(&d.message); p.options.Chunking {
			if err := d.line.takePlaces(ctx, n, p.options.FailWhenFull); err != nil {
				return err
			}
			d.places = int32(n)
		}
		if err := p.stillPending(d); err != nil { // after the wait
			return err
		}
	}
	for waited := false; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		producer, err := p.enter(ctx, d)
		if err != nil {
			return err
		}
		if d.producer != producer {
			d.producer = producer
		}
		d.call.Store(calling)
		err = d.line.send(*producer, &d.message)
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
			err = p.stillPending(d)
		}
		if err != nil {
			return err
		}
	}
}

// enter returns the client's producer, which stays until the line's leave. While it is made anew, enter waits, as long as the message has
// no outcome: with one, it is not sent any more.
func (p *Producer[T]) enter(ctx context.Context, d *delivery) (*pulsar.Producer, error) {
	producer := d.line.tryEnter()
	if producer != nil {
		return producer, nil
	}
	for ; producer == nil; producer = d.line.tryEnter() {
		if err := p.stillPending(d); err != nil {
			return nil, err
		}
		waiting, cancel := context.WithTimeout(ctx, roomPoll)
		err := d.line.awaitProducer(waiting)
		over := waiting.Err() != nil && ctx.Err() == nil // to look at the message again
		cancel()
		if err != nil && !over {
			return nil, err
		}
	}
	if err := p.stillPending(d); err != nil {
		d.line.leave()
		return nil, err
	}
	return producer, nil
}

func isFull(err error) bool {
	return errors.Is(err, pulsar.ErrSendQueueIsFull) || errors.Is(err, pulsar.ErrMemoryBufferIsFull)
}

func (p *Producer[T]) sendNow(ctx context.Context, d *delivery) (MessageID, error) {
	// The client's own Send never returns where it drops the message; cancelling it is how the message gets its outcome then.
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &syncSend{fail: cancel, answered: make(chan struct{})}
	d.sync = s // before the sweep can see d
	traced, err := p.begin(sending, d)
	if err != nil {
		return nil, err
	}
	if d.line.alone {
		p.queue(traced, d)
	} else {
		p.sendBatched(traced, d)
	}
	select {
	case <-s.answered:
	case <-sending.Done():
		if !p.settleSend(answer{delivery: d, err: p.sendError(context.Cause(sending)), at: clock()}) {
			select {
			case <-s.answered:
			default: // the sweep was first, and records it
				return nil, context.Cause(sending)
			}
		}
	}
	p.record(traced, &s.outcome)
	p.recordSent([]answer{s.outcome})
	return s.outcome.id, s.outcome.err
}

// sendBatched gives a message to the client and lets it close the batch.
func (p *Producer[T]) sendBatched(ctx context.Context, d *delivery) {
	for {
		var id MessageID
		producer, err := p.enter(ctx, d)
		if err == nil {
			d.producer = producer
			d.call.Store(taken)
			id, err = transmit(func() (MessageID, error) { return (*producer).Send(ctx, &d.message) })
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
		p.settleSend(answer{delivery: d, id: id, err: p.sendError(err), at: clock()})
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
	return p.stillPending(d)
}

// stillPending returns an error where the message has its outcome.
func (p *Producer[T]) stillPending(d *delivery) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !d.open { // by the sweep
		return ErrSendTimeout
	}
	return nil
}
