package pulsarx

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
)

// largeMessage is from which size on messages are sent in chunks: compressed, or in chunks, a message may have reached its topic that
// does not fit into another one as one piece.
const largeMessage = 1 << 20

// rawProducers send messages as they were to other topics, with their bytes and their writers' schemas: there is a producer for each
// schema, which registers it with the topic, so that the version on the message is that schema's there.
type rawProducers struct {
	client         *Client
	encryptionKeys []string
	prepare        func(ctx context.Context, topic string) error // before the first message to a topic
	partition      func(key string, partitions int) int          // as ProducerOptions have it

	mu        sync.Mutex
	closed    bool
	producers map[producerKey]*rawProducer
}

type producerKey struct {
	topic, schemaType, definition string
	alone                         bool // no batches
}

// rawProducer is made by the first that needs it, while others wait.
type rawProducer struct {
	mu       sync.Mutex
	producer pulsar.Producer
}

func newRawProducers(c *Client, encryptionKeys []string, prepare func(context.Context, string) error) *rawProducers {
	return &rawProducers{client: c, encryptionKeys: encryptionKeys, prepare: prepare, producers: map[producerKey]*rawProducer{}}
}

// key says which producer a message has. Batching is on where it can be, because pulsar-client-go's consumers discard an empty payload
// that is not in a batch; large messages have chunks in its place, and an ordering key is lost to Key_Shared in a batch.
func (r *rawProducers) key(topic string, s Schema, m pulsar.Message) producerKey {
	size := len(m.Payload())
	ordered := m.OrderingKey() != "" && (size > 0 || m.IsNullValue())
	return producerKey{topic, s.Type, string(s.Definition), size >= largeMessage || ordered}
}

// open returns the producer for a topic and a schema.
func (r *rawProducers) open(ctx context.Context, key producerKey) (pulsar.Producer, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	p := r.producers[key]
	if p == nil {
		p = &rawProducer{}
		r.producers[key] = p
	}
	r.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.producer != nil {
		return p.producer, nil
	}
	options, err := r.options(key)
	if err != nil {
		return nil, err
	}
	if r.prepare != nil {
		if err := r.prepare(ctx, key.topic); err != nil {
			return nil, err
		}
	}
	p.producer, err = open(ctx, r.client, "producer for "+key.topic,
		func() (pulsar.Producer, error) { return r.client.pulsar.CreateProducer(options) }, pulsar.Producer.Close)
	return p.producer, err
}

func (r *rawProducers) options(key producerKey) (o pulsar.ProducerOptions, err error) {
	schema, err := Schema{Type: key.schemaType, Definition: []byte(key.definition)}.register()
	if err != nil {
		return o, fmt.Errorf("%w: %w", ErrIncompatibleSchema, err)
	}
	o = pulsar.ProducerOptions{
		Topic: key.topic, Schema: schema, SendTimeout: -1, DisableBatching: key.alone, EnableChunking: key.alone,
	}
	Batching{Compression: NoCompression}.withDefaults().apply(&o)
	o.MessageRouter = ProducerOptions[[]byte]{Partition: r.partition}.router(o) // as producers of this package choose
	if len(r.encryptionKeys) > 0 {
		o.Encryption, err = r.client.options.Encryption.producer(r.encryptionKeys)
	}
	return o, err
}

// drop closes a producer that failed to send, so that what it still holds is not written later, beside the next attempt's message.
func (r *rawProducers) drop(key producerKey, failed pulsar.Producer) {
	r.mu.Lock()
	if p := r.producers[key]; p != nil && p.producer == failed {
		delete(r.producers, key)
	}
	r.mu.Unlock()
	failed.Close()
}

func (r *rawProducers) close(ctx context.Context, what string) error {
	r.mu.Lock()
	r.closed = true
	producers := r.producers
	r.producers = nil
	r.mu.Unlock()
	if len(producers) == 0 {
		return nil
	}
	return bounded(ctx, "closing "+what, func() {
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
