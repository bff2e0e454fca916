package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
)

// Consumer hands the messages of a subscription to a handler; see Run.
//
// It subscribes to all partitions of its topics, or of those that match a pattern, and looks for new ones every
// ConsumerOptions.Discovery; one that cannot be subscribed to yet stops no other. Pause stops the handler and, when the prefetch is full,
// the flow from the broker.
//
// # When a message comes again
//
// A message is delivered again after a crash of the consumer, after a handler outlived DrainTimeout, and after a crash of the broker
// that lost an acknowledgement it had confirmed. When the connection breaks, the broker sends again what is not acknowledged yet;
// messages that are still held here are recognised and not handled twice. So are those acknowledged a moment ago, which has a side
// effect: when a subscription is reset to an earlier position under a running consumer, the last messages that it acknowledged
// (at most ReceiverQueue and 256 a partition, and none after two seconds without traffic) are passed over. Stop consumers first.
//
// With Failover, a consumer that joins may be made the active one of a partition at once: what the one before it still holds, both
// handle. A broker waits for that before it sends (activeConsumerFailoverDelayTimeMillis, 1 s by default). While two consumers of a
// Key_Shared subscription change places after a lost connection, a message may be handled by the old one and delivered to the new one.
//
// # Attempts and dead letters
//
// Attempts are counted by the consumer that makes them, with every type of subscription: a message begins anew after its consumer
// was restarted or has lost it to another one. The broker's own count of deliveries is no help: only Shared and KeyShared have one, and
// it counts messages that were prefetched and never handled. Each dead letter is a warning in ClientOptions.Logger, with its topic,
// message id, reason and attempts; the error's text, which may quote the message, is on the letter ([DeadLetterReason] and the constants
// beside it), and in the span of its handler.
//
// # Delay
//
// A message waits for its handler up to MaxDelay, and for nothing else of this package's while a worker is free: neither for the
// acknowledgement of its key's last message nor for other keys. A broker that has sent all it has looks for new messages every
// managedLedgerNewEntriesCheckDelayInMillis, 10 ms by default; where that counts, set it lower in the broker's configuration.
//
// # Memory
//
// A consumer holds at most
//
//	MaxInFlight + 256 + partitions * (ReceiverQueue + a batch of the producer)
//
// messages, however slow its handler is: the flow at the broker stops there. To each come about 400 bytes beside its own, and 40 bytes
// for each entry among as many that were acknowledged last. Until a broker has seen how large the batches of a topic are it takes an
// entry for a message: its first read, of 100 entries and 5 MiB by default (dispatcherMaxReadBatchSize, dispatcherMaxReadSizeBytes),
// comes on top once. A key that is tried again for ever keeps its messages in flight; DeadLetterPolicy.MaxAttempts bounds that.
type Consumer[T any] struct {
	client   *Client
	decoder  Decoder[T]
	codec    bool // the decoder is a Codec: tombstones do not reach it
	anywhere bool // the decoder does not look at where a message stands
	options  ConsumerOptions
	feed     *feed
	letters  *deadLetters
	pauses   *pauses

	stop     chan struct{} // closed by Close
	finished chan struct{} // closed when Run has returned

	mu      sync.Mutex
	ran     bool
	stopped bool
}

// NewConsumer subscribes. The decoder may be a Codec: then its Schema is asked, so that a bad one is an error here. The schema is
// not sent to the broker; messages are decoded with their writer's schema, whatever the broker thinks of the reader's. A topic
// that the broker refuses for a while, as when it moves, is asked for again; the error of that, as of an unreachable server, comes after
// ClientOptions.Pulsar.OperationTimeout, or when ctx ends.
//
// The broker sends messages from now on, up to ConsumerOptions.ReceiverQueue a partition; Run works on them.
func NewConsumer[T any](ctx context.Context, c *Client, d Decoder[T], o ConsumerOptions) (*Consumer[T], error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	o = o.withDefaults()
	codec, err := checkDecoder(d)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: consumer of %v: %w", o.Topics, err)
	}
	_, anywhere := d.(interface{ payloadOnly() })
	consumer := &Consumer[T]{
		client: c, decoder: d, codec: codec, anywhere: anywhere, options: o,
		letters:  newDeadLetters(c, o),
		pauses:   newPauses(),
		stop:     make(chan struct{}),
		finished: make(chan struct{}),
	}
	if consumer.feed, err = newFeed(ctx, c, o); err != nil {
		return nil, err
	}
	return consumer, nil
}

// checkDecoder asks a codec's schema.
func checkDecoder(d any) (codec bool, err error) {
	if v := reflect.ValueOf(d); !v.IsValid() || v.Kind() == reflect.Func && v.IsNil() { // its panics would bury every message
		return false, errors.New("the Decoder is nil")
	}
	c, ok := d.(interface{ Schema() (Schema, error) })
	if !ok {
		return false, nil
	}
	s, err := c.Schema()
	if err == nil {
		_, err = s.register()
	}
	return true, err
}

// Run receives messages, decodes them and calls h with batches of up to MaxBatch messages from Workers goroutines, until ctx ends
// or Close is called. Then it hands out nothing more, lets the handlers that run finish within DrainTimeout, sends their
// acknowledgements, leaves the subscription, and returns nil. What was not handled is delivered again to the next consumer; by a
// broker without acknowledgmentAtBatchIndexLevelEnabled, which is Pulsar's default, together with the rest of its producer's batch.
//
// The messages of a key are handled in the order of the topic, a key in one batch at a time; ConsumerOptions.Type says what that
// means for messages without a key. A message is acknowledged when h has succeeded for it, or when it is safe in the dead-letter
// topic; whatever happens in between, it is delivered again.
//
// A failed message is tried again after Backoff, in its place: all later messages of its key wait, and those that were in its
// batch run again after it, even if h succeeded for them. Other keys go on. After DeadLetter.MaxAttempts attempts, the last of
// which it makes in a batch of its own, or at once where the error has Permanent() bool and says so, the message goes to the
// dead-letter topic. Where h does not say which message a permanent error concerns, and where it panics, the messages of the batch
// are first tried one by one. What cannot be decoded goes there when the earlier messages of its key are done. While the
// dead-letter topic cannot be written, the key waits.
//
// The context of h carries the span of the batch, linked to the spans of its messages. It has the values of ctx, and ends
// DrainTimeout after it. A handler that still runs then makes Run return ErrDrainTimeout. When the handlers have returned, the last
// acknowledgements and leaving the subscription take up to 5 s: with the broker gone, Run returns an error then. Run also returns an
// error if the broker closes the consumer for good (the topic was deleted, the permission taken away, or another consumer has held an
// Exclusive subscription for a minute), and ErrClosed if the client is closed meanwhile.
func (c *Consumer[T]) Run(ctx context.Context, h Handler[T]) error {
	c.mu.Lock()
	ran, stopped := c.ran, c.stopped
	c.ran = ran || !stopped && h != nil
	c.mu.Unlock()
	switch {
	case ran:
		return ErrSecondRun
	case stopped:
		return fmt.Errorf("pulsarx: run %s: %w", c.options.Subscription, ErrClosed)
	case h == nil: // its panics would bury every message
		return fmt.Errorf("pulsarx: run %s: the Handler is nil", c.options.Subscription)
	}
	defer close(c.finished)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return newRun(c, h).loop(ctx)
}

// Close stops Run as the end of its context does and waits for it; without Run it leaves the subscription. It may be called
// several times.
func (c *Consumer[T]) Close(ctx context.Context) error {
	c.mu.Lock()
	ran, stopped := c.ran, c.stopped
	c.stopped = true
	if !stopped {
		close(c.stop)
	}
	c.mu.Unlock()
	if ran {
		select {
		case <-c.finished:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("pulsarx: closing the consumer %s: %w", c.options.Subscription, context.Cause(ctx))
		}
	}
	if stopped {
		return nil
	}
	return c.leave(ctx)
}

// leave closes the client's consumers and the dead-letter producers.
func (c *Consumer[T]) leave(ctx context.Context) error {
	c.pauses.close()
	return errors.Join(c.feed.close(ctx), c.letters.close(ctx))
}

// decode makes the message that the handler gets.
func (c *Consumer[T]) decode(it *item, s Schema) (m Message[T], err error) {
	raw := Raw{
		Topic: it.partition.topic, Partition: it.partition.index, Key: it.msg.Key(), Value: payload(it.msg),
		Properties: it.msg.Properties(), SchemaType: s.Type, Schema: s.Definition,
		PublishTime: it.msg.PublishTime(), EventTime: eventTime(it.msg),
	}
	if !c.anywhere {
		raw.Offset = offset(it.msg.ID())
	}
	m = Message[T]{
		Tombstone: raw.Value == nil,
		Topic:     raw.Topic, Partition: raw.Partition, ID: it.msg.ID(), Key: raw.Key, Properties: raw.Properties,
		PublishTime: raw.PublishTime, EventTime: raw.EventTime, Attempt: it.attempts + 1,
	}
	m.Value, err = decodeRaw(c.decoder, c.codec, raw)
	return m, err
}

// Decoders that look at the payload alone are spared the text of the offset.
func (AvroCodec[T]) payloadOnly() {}
func (JSONCodec[T]) payloadOnly() {}
func (StringCodec) payloadOnly()  {}
func (BytesCodec) payloadOnly()   {}

func decodeRaw[T any](d Decoder[T], codec bool, raw Raw) (v T, err error) {
	if codec && raw.Value == nil && !readsTombstones(d) {
		return v, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
		}
	}()
	v, err = d.Decode(raw)
	inspect(err)
	return v, err
}

func rawMessage(m pulsar.Message, p *partition, s Schema) Raw {
	return Raw{
		Topic: p.topic, Partition: p.index, Offset: offset(m.ID()), Key: m.Key(), Value: payload(m), Properties: m.Properties(),
		SchemaType: s.Type, Schema: s.Definition, PublishTime: m.PublishTime(), EventTime: eventTime(m),
	}
}
