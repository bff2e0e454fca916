package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pulsarx/internal/murmur3"
)

// ProducerOptions configure a producer. Only Topic is required.
type ProducerOptions[T any] struct {
	// Topic to send to; a short name is persistent://public/default/name.
	Topic string
	// Name of the producer, unique for the topic; the broker makes one by default. Messages that are sent alone, such as delayed ones,
	// go through a second producer, Name + "-alone", which is made with the first of them.
	Name string
	// Key returns the key that routes and orders the message: all messages of a key go to one partition. Without Key, or where it
	// returns "", partitions take turns, batch by batch.
	Key func(T) string
	// Partition chooses the partition of a key, from 0 to partitions-1; any other number, or a panic, is an error of the message. By
	// default it is Murmur3_32Hash, as with that HashingScheme in Java and with a message_router in Python; both have other defaults of
	// their own.
	Partition func(key string, partitions int) int
	// EventTime returns when the value happened; a zero time is none.
	EventTime func(T) time.Time
	Batching  Batching
	// MaxPending bounds the messages of a partition that wait for the broker's receipt; 1000 by default. Send and SendAsync wait
	// for a place, unless FailWhenFull: the producer holds no more. With Chunking it bounds the chunks of all partitions.
	MaxPending int
	// FailWhenFull makes a message fail with ErrQueueFull, at once, where MaxPending messages are on their way, or where the client's
	// memory limit (ClientOptions.Pulsar.MemoryLimitBytes, 64 MiB by default) is reached.
	FailWhenFull bool
	// SendTimeout is when a message without a receipt fails with ErrSendTimeout; 30 s by default. It is looked at eight times in it,
	// and every 2 s at least, so that a message may fail so much later. It keeps its place among MaxPending, and may still reach the
	// topic when the broker is back.
	SendTimeout time.Duration
	// Deduplicate sends every message with a number of the caller's, SequenceID, and in a batch of its own, so that a namespace with
	// deduplication drops what its partition already has from this Name: after a crash, a source is sent again with the same numbers
	// and every message is stored once. The numbers of a partition have to grow. Without a key, the number chooses the partition. Name
	// is required. What was dropped counts as sent; its id has the ledger -1.
	Deduplicate bool
	// Chunking cuts what is larger than the broker takes into chunks, which consumers put together again. No message is batched then.
	// Shared subscriptions may hold such messages back when a consumer leaves: the package comment says how.
	Chunking bool
	// MaxMessageBytes is the broker's maxMessageSize; 5 MiB by default, there as here. A message that may be larger, with its key and
	// properties, fails with ErrMessageTooLarge before it is sent.
	MaxMessageBytes int
	// EncryptionKeys are the names of the public keys that messages are encrypted for, each of which suffices to read them;
	// ClientOptions.Encryption has the keys.
	EncryptionKeys []string
	// lost is called when a connection is lost, and the client does not reconnect then: RunStateful begins again. A producer of the
	// client that is closed while it reconnects may stay at the broker and keep its name.
	lost func()
	// exclusive lets no other producer to the topic, and is refused while there is one.
	exclusive bool
}

func (o ProducerOptions[T]) withDefaults() ProducerOptions[T] {
	if o.Deduplicate {
		o.Batching.MaxMessages = -1
	}
	o.Batching = o.Batching.withDefaults()
	o.MaxPending = cmp.Or(o.MaxPending, 1000)
	o.SendTimeout = cmp.Or(o.SendTimeout, 30*time.Second)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, 5<<20)
	return o
}

func (o ProducerOptions[T]) validate() error {
	var errs []error
	if o.Topic == "" {
		errs = append(errs, errors.New("ProducerOptions.Topic is missing"))
	}
	if err := o.Batching.withDefaults().validate(); err != nil {
		errs = append(errs, err)
	}
	if o.MaxPending < 0 {
		errs = append(errs, fmt.Errorf("ProducerOptions.MaxPending is %d", o.MaxPending))
	}
	if o.SendTimeout < 0 {
		errs = append(errs, fmt.Errorf("ProducerOptions.SendTimeout is %v", o.SendTimeout))
	}
	if o.MaxMessageBytes < 0 {
		errs = append(errs, fmt.Errorf("ProducerOptions.MaxMessageBytes is %d", o.MaxMessageBytes))
	}
	if o.Deduplicate && o.Name == "" {
		errs = append(errs, errors.New("ProducerOptions.Deduplicate needs a Name: the broker remembers the numbers of each name"))
	}
	if o.Deduplicate && nonPersistent(o.Topic) {
		errs = append(errs, fmt.Errorf("ProducerOptions.Deduplicate: %w: %s", ErrNonPersistent, o.Topic))
	}
	for _, name := range o.EncryptionKeys {
		if name == "" {
			errs = append(errs, errors.New("ProducerOptions.EncryptionKeys holds an empty name"))
		}
	}
	return errors.Join(errs...)
}

// client are the options as the client has them. It must not block: a producer of it that is given up would block for ever.
func (o ProducerOptions[T]) client(c *Client, schema pulsar.Schema) (pulsar.ProducerOptions, error) {
	options := pulsar.ProducerOptions{
		Topic:                   o.Topic,
		Name:                    o.Name,
		Schema:                  schema,
		SendTimeout:             -1, // deliver watches; the client's own watch outlives Close by the timeout
		MaxPendingMessages:      o.MaxPending,
		DisableBlockIfQueueFull: true,
		DisableBatching:         o.Chunking,
		EnableChunking:          o.Chunking,
		BackOffPolicyFunc:       func() backoff.Policy { return &reconnects{} },
	}
	if o.exclusive {
		options.ProducerAccessMode = pulsar.ProducerAccessModeExclusive
	}
	if o.lost != nil {
		options.MaxReconnectToBroker = new(uint)
		options.BackOffPolicyFunc = func() backoff.Policy {
			o.lost()
			return &reconnects{}
		}
	}
	o.Batching.apply(&options)
	options.MessageRouter = o.router(options)
	if len(o.EncryptionKeys) > 0 {
		encryption, err := c.options.Encryption.producer(o.EncryptionKeys)
		if err != nil {
			return options, err
		}
		options.Encryption = encryption
	}
	return options, nil
}

// router chooses partitions by the key and, where there is none, by the ordering key (the client's own does it the other way round), or
// the number.
func (o ProducerOptions[T]) router(c pulsar.ProducerOptions) func(*pulsar.ProducerMessage, pulsar.TopicMetadata) int {
	turns := pulsar.NewDefaultRouter(murmur3.Sum31, c.BatchingMaxMessages, c.BatchingMaxSize, c.BatchingMaxPublishDelay, c.DisableBatching)
	choose := o.Partition
	if choose == nil {
		choose = func(key string, partitions int) int { return int(murmur3.Sum31(key)) % partitions }
	}
	return func(m *pulsar.ProducerMessage, topic pulsar.TopicMetadata) int {
		partitions := topic.NumPartitions()
		switch {
		case partitions == 1:
			return 0
		case m.Key != "":
			return chosen(choose, m.Key, int(partitions))
		case m.OrderingKey != "":
			return chosen(choose, m.OrderingKey, int(partitions))
		case o.Deduplicate && m.SequenceID != nil: // so that it goes to the same partition again
			return chosen(choose, strconv.FormatInt(*m.SequenceID, 10), int(partitions))
		}
		return turns(m, partitions)
	}
}

// routingError is what chosen panics with, since a router of the client's has no other way to refuse a message.
type routingError struct{ error }

func (e routingError) Unwrap() error { return e.error }

// chosen is the partition that choose gives a key.
func chosen(choose func(string, int) int, key string, partitions int) (partition int) {
	defer func() {
		if p := recover(); p != nil {
			panic(routingError{fmt.Errorf("ProducerOptions.Partition: %w", panicError{p})})
		}
		if partition < 0 || partition >= partitions {
			panic(routingError{fmt.Errorf("ProducerOptions.Partition chose %d of %d partitions", partition, partitions)})
		}
	}()
	return choose(key, partitions)
}

// Producer sends values of T to a topic. It is safe for concurrent use, and keeps the order of one goroutine's messages of one
// key.
type Producer[T any] struct {
	client   *Client
	codec    Codec[T]
	options  ProducerOptions[T]
	main     *line
	attrs    metric.MeasurementOption
	recorded []metric.RecordOption // attrs alone, as most messages have them
	added    []metric.AddOption
	lossy    bool // the topic is non-persistent
	spanName string
	span     []trace.SpanStartOption

	wake    chan struct{} // of the goroutine that calls callbacks, 1 place
	done    chan struct{} // closed when it has ended
	room    chan struct{} // for who waits for a place, 1 place
	waiters atomic.Int32

	untraced atomic.Bool  // there was no tracer at the last look
	largest  atomic.Int64 // bytes of a payload so far, up to maxRoom

	settling sync.Mutex // so that outcomes come in the order of their answers; locked before mu

	mu      sync.Mutex
	single  *line       // for messages that are sent alone, made by the first; main where all are
	closed  bool        // no new messages
	ended   bool        // nothing is pending and nothing can come
	last    uint64      // number of the newest delivery
	idle    uint64      // last, at the last sweep
	left    int         // deliveries that have begun and are not over, with their callbacks
	pending []*delivery // by their slots: those without an outcome, in no order
	slots   []int32     // that are free
	unused  []*delivery // that can be used again
	settled []answer    // the outcomes whose callbacks have not been called
	flushes []*flushing

	_         [64]byte      // who reads the connection shares no cache line with who sends
	answering sync.Mutex    // may be locked after mu
	answers   []answer      // that are not settled
	receipt   time.Duration // when the newest one came
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
	options, err := o.client(c, registered)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: producer for %s: %w", o.Topic, err)
	}
	main, err := openLine(ctx, c, options)
	if err != nil {
		return nil, err
	}
	set := c.tel.where(o.Topic, "", operation("send")...)
	attrs := metric.WithAttributeSet(set)
	p := &Producer[T]{
		client: c, codec: codec, options: o, main: main,
		attrs: attrs, recorded: []metric.RecordOption{attrs}, added: []metric.AddOption{attrs},
		lossy:    nonPersistent(o.Topic),
		spanName: "send " + fullTopic(o.Topic),
		span: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(set.ToSlice()...),
		},
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		room: make(chan struct{}, 1),
	}
	main.fail, main.answer = p.failLine(main), p.answerer(main)
	if main.alone {
		p.single = main
	}
	go p.deliver()
	return p, nil
}

// Send sends v and waits for the broker's receipt. When ctx ends first, the message may or may not be in the topic. It closes the
// batch, so that a single message does not wait for Batching.MaxDelay.
func (p *Producer[T]) Send(ctx context.Context, v T, o ...SendOption) (MessageID, error) {
	d := loneDelivery()
	if err := p.fill(d, v, o); err != nil {
		return nil, err
	}
	return p.sendNow(ctx, d)
}

// SendTombstone sends a message without a value, which says that the key is gone: consumers get it as such, and compaction drops
// the key. It waits as Send does.
func (p *Producer[T]) SendTombstone(ctx context.Context, key string, o ...SendOption) (MessageID, error) {
	d := new(delivery)
	d.special, d.message.Key = true, key
	for _, option := range o {
		option(&d.message)
	}
	if d.message.Key == "" {
		return nil, fmt.Errorf("pulsarx: a tombstone for %s has no key", p.options.Topic)
	}
	if err := p.options.checkMessage(&d.message); err != nil {
		return nil, err
	}
	return p.sendNow(ctx, d)
}

// SendAsync sends v and returns when it is queued, which it waits for as long as ProducerOptions.MaxPending messages are on their
// way, until ctx ends or SendTimeout has passed. callback, which may be nil, is called once, by one goroutine of the producer in the
// order of the outcomes: with the message's id, or with the error, which is also where a failure to encode or queue goes. A slow
// callback holds up other callbacks, Flush and Close, and no messages. After Close, SendAsync calls it itself.
func (p *Producer[T]) SendAsync(ctx context.Context, v T, callback func(MessageID, error), o ...SendOption) {
	d := p.newDelivery()
	if err := p.fill(d, v, o); err != nil {
		p.refuse(callback, err)
		return
	}
	p.sendAsync(ctx, d, callback)
}

// sendAsync is SendAsync of a value that is encoded.
func (p *Producer[T]) sendAsync(ctx context.Context, d *delivery, callback func(MessageID, error)) {
	d.callback = callback
	ctx, err := p.begin(ctx, d)
	if err != nil {
		p.refuse(callback, err)
		return
	}
	p.queue(ctx, d)
}

// Flush closes the open batches and waits until everything that was sent before has its outcome and its callback has returned; so it
// is not called from a callback. Its error is that of the last message that failed meanwhile.
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
// returned, or ctx ends: then what is still on its way fails with ErrClosed, though it may be in the topic. Its error says that, or
// is that of the last message that failed meanwhile.
func (p *Producer[T]) Close(ctx context.Context) error {
	p.mu.Lock()
	first, single := !p.closed, p.single
	p.closed = true
	p.mu.Unlock()
	if first {
		errs := []error{p.flush(ctx)}
		p.failPending(func(*delivery) bool { return true }, ErrClosed)
		errs = append(errs, p.main.close(ctx))
		if single != nil && single != p.main {
			errs = append(errs, single.close(ctx))
		}
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.notify()
		if err := errors.Join(errs...); err != nil {
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

func (p *Producer[T]) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// fill makes a delivery that of v.
func (p *Producer[T]) fill(d *delivery, v T, options []SendOption) error {
	payload, key, keyed, err := encodeValue(p.codec, d.room, v)
	if err != nil {
		return fmt.Errorf("pulsarx: encode for %s: %w", p.options.Topic, err)
	}
	if n := len(payload); n > cap(d.room) && n <= maxRoom {
		p.largest.Store(int64(n))
	}
	d.message.Payload, d.message.Key = payload, key
	if p.options.Key != nil && !keyed {
		d.message.Key = p.options.Key(v)
	}
	if p.options.EventTime != nil {
		d.message.EventTime = p.options.EventTime(v)
	}
	if len(options) > 0 {
		d.special = true
		for _, option := range options {
			option(&d.message)
		}
	}
	return p.options.checkMessage(&d.message)
}

// lineOf returns the line that a message goes on. The second one is made by the first message that needs it.
func (p *Producer[T]) lineOf(ctx context.Context, d *delivery) (*line, error) {
	if !d.special || !alone(&d.message) {
		return p.main, nil
	}
	p.mu.Lock()
	single := p.single
	p.mu.Unlock()
	if single != nil {
		return single, nil
	}
	return p.openSingle(ctx)
}

// failLine gives what the client has taken on a line an outcome.
func (p *Producer[T]) failLine(l *line) func(error) {
	return func(err error) {
		p.failPending(func(d *delivery) bool { return d.line == l && d.call.Load() == taken }, err)
	}
}

func (p *Producer[T]) openSingle(ctx context.Context) (*line, error) {
	if err := p.main.takeTurn(ctx); err != nil { // which has no other use on a line with batches
		return nil, p.sendError(err)
	}
	defer p.main.endTurn()
	p.mu.Lock()
	single, closed := p.single, p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return nil, p.sendError(ErrClosed)
	case single != nil:
		return single, nil
	}
	options := p.main.options
	options.DisableBatching = true
	if options.Name != "" {
		options.Name += "-alone"
	}
	single, err := openLine(ctx, p.client, options)
	if err != nil {
		return nil, err
	}
	single.fail, single.answer = p.failLine(single), p.answerer(single)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go func() { _ = single.close(context.Background()) }() // Close has not seen it
		return nil, p.sendError(ErrClosed)
	}
	p.single = single
	return single, nil
}
