package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// SendOption sets something of one message.
type SendOption func(*pulsar.ProducerMessage)

// EventTime says when the message's value happened, for this message in place of ProducerOptions.EventTime. Pulsar keeps
// milliseconds since 1970; earlier times are refused when the message is sent.
func EventTime(t time.Time) SendOption {
	return func(m *pulsar.ProducerMessage) { m.EventTime = t }
}

// Key sets the message's key in place of ProducerOptions.Key.
func Key(key string) SendOption {
	return func(m *pulsar.ProducerMessage) { m.Key = key }
}

// Property adds a property.
func Property(name, value string) SendOption {
	return func(m *pulsar.ProducerMessage) { propertyCarrier{&m.Properties}.Set(name, value) }
}

// Producer sends values of T to a topic. It is safe for concurrent use, and keeps the order of one goroutine's messages of one
// key.
type Producer[T any] struct {
	client   *Client
	codec    Codec[T]
	options  ProducerOptions[T]
	producer pulsar.Producer
	attrs    metric.MeasurementOption
	recorded []metric.RecordOption // attrs alone, as most messages have them
	added    []metric.AddOption
	span     []trace.SpanStartOption

	wake chan struct{} // of the goroutine that calls callbacks, 1 place
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	closed  bool      // no new messages
	ended   bool      // nothing is pending and nothing can come
	pending delivery  // head of the ring of messages without an outcome, oldest first
	settled []outcome // with one, whose callbacks have not been called
}

// delivery is one message on its way, in a ring. Whoever takes it out of the ring owns its one outcome.
type delivery struct {
	prev, next *delivery
	start      time.Time
	span       trace.Span
	callback   func(MessageID, error)
}

type outcome struct {
	*delivery
	id  MessageID
	err error
}

// NewProducer registers the codec's schema with the topic and returns a producer. Where the broker refuses the schema, the error
// is ErrIncompatibleSchema with its reason, and nothing has been sent. The error of an unreachable server names its URL; it comes
// after ClientOptions.Pulsar.OperationTimeout, or when ctx ends.
func NewProducer[T any](ctx context.Context, c *Client, codec Codec[T], o ProducerOptions[T]) (*Producer[T], error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	o = o.withDefaults()
	schema, err := codec.Schema()
	if err != nil {
		return nil, fmt.Errorf("pulsarx: producer for %s: %w", o.Topic, err)
	}
	registered, err := schema.register()
	if err != nil {
		return nil, fmt.Errorf("pulsarx: producer for %s: %w", o.Topic, err)
	}
	options := pulsar.ProducerOptions{
		Topic:              o.Topic,
		Name:               o.Name,
		Schema:             registered,
		SendTimeout:        -1, // deliver watches; the client's own watch outlives Close by the timeout
		MaxPendingMessages: o.MaxPending,
		HashingScheme:      pulsar.Murmur3_32Hash,
	}
	o.Batching.apply(&options)
	producer, err := open(ctx, c, "producer for "+o.Topic,
		func() (pulsar.Producer, error) { return c.pulsar.CreateProducer(options) }, pulsar.Producer.Close)
	if err != nil {
		return nil, err
	}
	set := where(o.Topic, "")
	attrs := metric.WithAttributeSet(set)
	p := &Producer[T]{
		client: c, codec: codec, options: o, producer: producer,
		attrs: attrs, recorded: []metric.RecordOption{attrs}, added: []metric.AddOption{attrs},
		span: []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(set.ToSlice()...)},
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	p.pending.prev, p.pending.next = &p.pending, &p.pending
	go p.deliver()
	return p, nil
}

// Send sends v and waits for the broker's receipt. When ctx ends first, the message may or may not be in the topic. It closes the
// batch, so that a single message does not wait for Batching.MaxDelay.
func (p *Producer[T]) Send(ctx context.Context, v T, o ...SendOption) (MessageID, error) {
	message, err := p.message(v, o)
	if err != nil {
		return nil, err
	}
	return p.sendNow(ctx, message)
}

// SendTombstone sends a message without a value, which says that the key is gone: consumers get it as such, and compaction drops
// the key. It waits as Send does.
func (p *Producer[T]) SendTombstone(ctx context.Context, key string, o ...SendOption) (MessageID, error) {
	message := &pulsar.ProducerMessage{Key: key}
	for _, option := range o {
		option(message)
	}
	if message.Key == "" {
		return nil, fmt.Errorf("pulsarx: a tombstone for %s has no key", p.options.Topic)
	}
	if err := checkEventTime(message); err != nil {
		return nil, err
	}
	return p.sendNow(ctx, message)
}

// SendAsync sends v and returns when it is queued, which it waits for as long as ProducerOptions.MaxPending messages are on their
// way or ctx lasts. callback, which may be nil, is called once, by one goroutine of the producer in the order of the outcomes: with
// the message's id, or with the error, which is also where a failure to encode or queue goes. A slow callback holds up other
// callbacks and no messages.
func (p *Producer[T]) SendAsync(ctx context.Context, v T, callback func(MessageID, error), o ...SendOption) {
	message, err := p.message(v, o)
	if err != nil {
		if callback != nil {
			callback(nil, err)
		}
		return
	}
	p.send(ctx, message, callback)
}

// Flush closes the open batches and waits for the receipts of what was sent before. It returns the error of the last of them.
func (p *Producer[T]) Flush(ctx context.Context) error {
	if p.isClosed() {
		return fmt.Errorf("pulsarx: flush %s: %w", p.options.Topic, ErrClosed)
	}
	if err := p.flush(ctx); err != nil {
		return fmt.Errorf("pulsarx: flush %s: %w", p.options.Topic, err)
	}
	return nil
}

// Close sends what is queued and closes the producer. It returns when every message has had its outcome and every callback has
// returned, or ctx ends: then what is still on its way fails with ErrClosed, though it may be in the topic.
func (p *Producer[T]) Close(ctx context.Context) error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if first {
		flushed := p.flush(ctx)
		closed := bounded(ctx, "closing the producer for "+p.options.Topic, p.producer.Close)
		p.failPending(func(*delivery) bool { return true }, ErrClosed)
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.notify()
		if err := errors.Join(flushed, closed); err != nil && ctx.Err() != nil {
			return fmt.Errorf("pulsarx: closing the producer for %s: %w", p.options.Topic, err)
		}
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pulsarx: callbacks of the producer for %s: %w", p.options.Topic, context.Cause(ctx))
	}
}

func (p *Producer[T]) flush(ctx context.Context) error {
	_, err := p.transmit(func() (MessageID, error) { return nil, p.producer.FlushWithCtx(ctx) })
	return err
}

func (p *Producer[T]) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// message encodes v.
func (p *Producer[T]) message(v T, options []SendOption) (*pulsar.ProducerMessage, error) {
	payload, err := p.codec.Encode(nil, v)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: encode for %s: %w", p.options.Topic, err)
	}
	if payload == nil {
		payload = []byte{} // nil would be a tombstone
	}
	message := &pulsar.ProducerMessage{Payload: payload}
	if p.options.Key != nil {
		message.Key = p.options.Key(v)
	}
	if p.options.EventTime != nil {
		message.EventTime = p.options.EventTime(v)
	}
	for _, option := range options {
		option(message)
	}
	return message, checkEventTime(message)
}

// checkEventTime refuses what the wire's unsigned milliseconds would turn into the far future.
func checkEventTime(m *pulsar.ProducerMessage) error {
	if !m.EventTime.IsZero() && m.EventTime.UnixMilli() <= 0 {
		return fmt.Errorf("pulsarx: event time %v is before 1970", m.EventTime)
	}
	return nil
}

func (p *Producer[T]) sendNow(ctx context.Context, message *pulsar.ProducerMessage) (MessageID, error) {
	// The client's own Send never returns where Close drops the message; cancelling it is how Close gives it its outcome.
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, d, err := p.begin(ctx, message, func(_ MessageID, err error) { cancel(err) })
	if err != nil {
		return nil, err
	}
	id, err := p.transmit(func() (MessageID, error) { return p.producer.Send(sending, message) })
	if !p.take(d) { // Close or the sweep has, and tells through the cancellation
		<-sending.Done()
		return nil, context.Cause(sending)
	}
	err = p.sendError(err)
	p.record(ctx, d, err)
	if err != nil {
		return nil, err
	}
	return id, nil
}

// transmit calls into the client, which panics when it queues a message while its own close, by Close or by a terminated topic,
// closes the queue.
func (p *Producer[T]) transmit(f func() (MessageID, error)) (id MessageID, err error) {
	defer func() {
		if recover() != nil {
			id, err = nil, ErrClosed
		}
	}()
	return f()
}

func (p *Producer[T]) send(ctx context.Context, message *pulsar.ProducerMessage, callback func(MessageID, error)) {
	ctx, d, err := p.begin(ctx, message, callback)
	if err != nil {
		if callback != nil {
			callback(nil, err)
		}
		return
	}
	// The client calls back on the goroutine that reads the connection, which must not wait for a user.
	settle := func(id MessageID, _ *pulsar.ProducerMessage, err error) {
		if p.take(d) {
			p.settle(outcome{d, id, p.sendError(err)})
		}
	}
	if _, err := p.transmit(func() (MessageID, error) {
		p.producer.SendAsync(ctx, message, settle)
		return nil, nil
	}); err != nil {
		settle(nil, nil, err)
	}
}

// begin opens the message's span, puts it into the properties and the delivery into the ring.
func (p *Producer[T]) begin(
	ctx context.Context, message *pulsar.ProducerMessage, callback func(MessageID, error),
) (context.Context, *delivery, error) {
	d := &delivery{start: time.Now(), callback: callback}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ctx, nil, fmt.Errorf("pulsarx: send to %s: %w", p.options.Topic, ErrClosed)
	}
	d.prev, d.next = p.pending.prev, &p.pending
	d.prev.next, d.next.prev = d, d
	p.mu.Unlock()
	ctx, d.span = p.client.tel.tracer.Start(ctx, "send "+p.options.Topic, p.span...)
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagator().Inject(ctx, propertyCarrier{&message.Properties})
	}
	return ctx, d, nil
}

// take takes d out of the ring, and reports whether it was still there: then the caller gives it its outcome.
func (p *Producer[T]) take(d *delivery) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return d.unlink()
}

func (d *delivery) unlink() bool {
	if d.next == nil {
		return false
	}
	d.prev.next, d.next.prev = d.next, d.prev
	d.prev, d.next = nil, nil
	return true
}

// settle queues an outcome for the callback.
func (p *Producer[T]) settle(o outcome) {
	p.mu.Lock()
	p.settled = append(p.settled, o)
	p.mu.Unlock()
	p.notify()
}

func (p *Producer[T]) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// failPending gives the oldest deliveries, while they are due, the outcome err.
func (p *Producer[T]) failPending(due func(*delivery) bool, err error) {
	p.mu.Lock()
	for d := p.pending.next; d != &p.pending && due(d); d = p.pending.next {
		d.unlink()
		p.settled = append(p.settled, outcome{d, nil, p.sendError(err)})
	}
	p.mu.Unlock()
}

// deliver calls callbacks until Close is done, and fails what has been on its way for too long, which includes what the client
// has forgotten: some of its paths drop a message without calling back.
func (p *Producer[T]) deliver() {
	defer close(p.done)
	overdue := func(d *delivery) bool { return time.Since(d.start) >= p.options.SendTimeout }
	sweep := time.NewTicker(max(p.options.SendTimeout/8, time.Millisecond))
	defer sweep.Stop()
	for {
		select {
		case <-p.wake:
		case <-sweep.C:
			p.failPending(overdue, ErrSendTimeout)
		}
		p.mu.Lock()
		settled, ended := p.settled, p.ended
		p.settled = nil
		p.mu.Unlock()
		for _, o := range settled {
			p.record(context.Background(), o.delivery, o.err)
			if o.callback != nil {
				o.callback(o.id, o.err)
			}
		}
		if ended && len(settled) == 0 {
			return
		}
		if ended {
			p.notify()
		}
	}
}

func (p *Producer[T]) record(ctx context.Context, d *delivery, err error) {
	endSpan(d.span, err)
	recorded, added := p.recorded, p.added
	if err != nil {
		failed := metric.WithAttributes(attribute.String("error.type", errorType(err)))
		recorded, added = []metric.RecordOption{p.attrs, failed}, []metric.AddOption{p.attrs, failed}
	}
	p.client.tel.sendTime.Record(ctx, since(d.start), recorded...)
	p.client.tel.sent.Add(ctx, 1, added...)
}

// sendError gives the client's errors this package's names.
func (p *Producer[T]) sendError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pulsar.ErrProducerClosed):
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return fmt.Errorf("pulsarx: send to %s: %w", p.options.Topic, err)
}

func errorType(err error) string {
	switch {
	case errors.Is(err, ErrSendTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "_OTHER"
}
