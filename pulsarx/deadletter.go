package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// The properties that a dead letter has beside the message's own.
const (
	// DeadLetterReason is "undecodable", "permanent" (the handler's error said so) or "attempts" (DeadLetterPolicy.MaxAttempts).
	DeadLetterReason = "deadletter.reason"
	// DeadLetterError is the error's text, cut at 1 KiB.
	DeadLetterError = "deadletter.error"
	// DeadLetterTopic and DeadLetterMessageID say where the message stands: the topic with its partition, and ledger:entry:batch
	// index.
	DeadLetterTopic     = "deadletter.topic"
	DeadLetterMessageID = "deadletter.message_id"
	// DeadLetterSubscription is the subscription whose consumer gave the message up.
	DeadLetterSubscription = "deadletter.subscription"
	// DeadLetterAttempts is how often it was handled.
	DeadLetterAttempts = "deadletter.attempts"
	// DeadLetterSchemaVersion is the version of the writer's schema in DeadLetterTopic, in hexadecimal; absent where there is none.
	DeadLetterSchemaVersion = "deadletter.schema_version"
)

const (
	reasonUndecodable = "undecodable"
	reasonPermanent   = "permanent"
	reasonAttempts    = "attempts"

	maxErrorText = 1 << 10
	largeLetter  = 1 << 20
	buryTimeout  = time.Minute
)

// deadLetters writes to the dead-letter topics. A message keeps its bytes and its writer's schema: there is a producer for each
// schema, which registers it with the dead-letter topic, so that the version on the letter is that schema's there.
type deadLetters struct {
	client       *Client
	policy       DeadLetterPolicy
	subscription string

	mu        sync.Mutex
	closed    bool
	producers map[letterKey]*letterProducer
}

type letterKey struct {
	topic, schemaType, definition string
	large                         bool
}

// letterProducer is made by the first that needs it, while others wait.
type letterProducer struct {
	mu       sync.Mutex
	producer pulsar.Producer
}

func newDeadLetters(c *Client, o ConsumerOptions) *deadLetters {
	return &deadLetters{client: c, policy: o.DeadLetter, subscription: o.Subscription, producers: map[letterKey]*letterProducer{}}
}

func (d *deadLetters) topic(p *partition) string {
	if d.policy.Topic != "" {
		return d.policy.Topic
	}
	return p.topic + deadLetterSuffix(d.subscription)
}

func deadLetterSuffix(subscription string) string { return "-" + subscription + "-DLQ" }

// bury writes a message to its dead-letter topic, and returns when it is safe there.
func (d *deadLetters) bury(ctx context.Context, it *item) error {
	ctx, cancel := context.WithTimeout(ctx, buryTimeout)
	defer cancel()
	schema, err := d.client.schemas.get(it.partition.topic, it.msg.SchemaVersion(), schemaWait)
	if err != nil && !itemerror.IsPermanent(err) {
		return fmt.Errorf("pulsarx: dead letter of %s: %w", it.partition.name, err)
	}
	key := letterKey{d.topic(it.partition), schema.Type, string(schema.Definition), len(it.msg.Payload()) >= largeLetter}
	err = d.send(ctx, key, it)
	if errors.Is(err, ErrIncompatibleSchema) {
		// The letter still says which schema of which topic it has.
		err = d.send(ctx, letterKey{topic: key.topic, large: key.large}, it)
	}
	if err != nil {
		return fmt.Errorf("pulsarx: dead letter of %s: %w", it.partition.name, err)
	}
	return nil
}

func (d *deadLetters) send(ctx context.Context, key letterKey, it *item) error {
	p, err := d.open(ctx, key)
	if err != nil {
		return err
	}
	if _, err = p.Send(ctx, d.letter(it)); err != nil {
		d.drop(key, p)
	}
	return err
}

func (d *deadLetters) letter(it *item) *pulsar.ProducerMessage {
	m := it.msg
	properties := make(map[string]string, len(m.Properties())+7)
	maps.Copy(properties, m.Properties())
	properties[DeadLetterReason] = it.grave.reason
	properties[DeadLetterError] = cutText(it.grave.err.Error(), maxErrorText)
	properties[DeadLetterTopic] = it.partition.name
	properties[DeadLetterMessageID] = fmt.Sprintf("%d:%d:%d", m.ID().LedgerID(), m.ID().EntryID(), m.ID().BatchIdx())
	properties[DeadLetterSubscription] = d.subscription
	properties[DeadLetterAttempts] = strconv.Itoa(it.attempts)
	if version := m.SchemaVersion(); len(version) > 0 {
		properties[DeadLetterSchemaVersion] = fmt.Sprintf("%x", version)
	}
	return &pulsar.ProducerMessage{
		Payload:     payload(m),
		Key:         m.Key(),
		OrderingKey: m.OrderingKey(),
		Properties:  properties,
		EventTime:   eventTime(m),
	}
}

// cutText keeps at most n bytes, whole and valid characters.
func cutText(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

// open returns the producer for a topic and a schema. Its batches are closed by Send; batching is on because pulsar-client-go's
// consumers discard an empty payload that is not in a batch. Only large letters have chunks in its place: compressed, or in
// chunks, a message reaches the topic that does not fit into the dead letters as one piece.
func (d *deadLetters) open(ctx context.Context, key letterKey) (pulsar.Producer, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, ErrClosed
	}
	p := d.producers[key]
	if p == nil {
		p = &letterProducer{}
		d.producers[key] = p
	}
	d.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.producer != nil {
		return p.producer, nil
	}
	schema, err := Schema{Type: key.schemaType, Definition: []byte(key.definition)}.register()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncompatibleSchema, err)
	}
	if err := d.keepLetters(ctx, key.topic); err != nil {
		return nil, err
	}
	p.producer, err = open(ctx, d.client, "producer for "+key.topic, func() (pulsar.Producer, error) {
		return d.client.pulsar.CreateProducer(pulsar.ProducerOptions{
			Topic: key.topic, Schema: schema, HashingScheme: pulsar.Murmur3_32Hash, SendTimeout: -1,
			DisableBatching: key.large, EnableChunking: key.large,
		})
	}, pulsar.Producer.Close)
	return p.producer, err
}

// keepLetters makes the subscription without which the topic would keep nothing.
func (d *deadLetters) keepLetters(ctx context.Context, topic string) error {
	consumer, err := open(ctx, d.client, "subscription "+d.policy.Subscription+" of "+topic, func() (pulsar.Consumer, error) {
		return d.client.pulsar.Subscribe(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: d.policy.Subscription, Type: pulsar.Shared, ReceiverQueueSize: 1,
			SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		})
	}, pulsar.Consumer.Close)
	if err != nil {
		if strings.Contains(err.Error(), "ConsumerBusy") { // it is there, and somebody reads it in another way
			return nil
		}
		return err
	}
	return bounded(ctx, "closing a consumer of "+topic, consumer.Close)
}

// drop closes a producer that failed to send, so that what it still holds is not written later, beside the next attempt's letter.
func (d *deadLetters) drop(key letterKey, failed pulsar.Producer) {
	d.mu.Lock()
	if p := d.producers[key]; p != nil && p.producer == failed {
		delete(d.producers, key)
	}
	d.mu.Unlock()
	failed.Close()
}

func (d *deadLetters) close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	producers := d.producers
	d.producers = nil
	d.mu.Unlock()
	if len(producers) == 0 {
		return nil
	}
	return bounded(ctx, "closing the dead-letter producers", func() {
		for _, p := range producers {
			p.mu.Lock()
			if p.producer != nil {
				p.producer.Close()
			}
			p.mu.Unlock()
		}
	})
}

// payload is the message's, nil for a tombstone alone.
func payload(m pulsar.Message) []byte {
	switch p := m.Payload(); {
	case m.IsNullValue():
		return nil
	case p == nil:
		return []byte{}
	default:
		return p
	}
}

// eventTime is the message's, zero where it has none: the client says 1970 then.
func eventTime(m pulsar.Message) time.Time {
	if t := m.EventTime(); t.UnixMilli() > 0 {
		return t
	}
	return time.Time{}
}
