package pulsarx

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// SendOption sets something of one message, which it does not keep.
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

// OrderingKey is what Key_Shared subscriptions spread messages by, in place of the key. The key still chooses the partition, as in
// Java; a message without a key goes by its ordering key. Such a message is sent alone, since pulsar-client-go loses the ordering key
// of a batch: give one to all messages of a producer or to none, so that they stay in order.
func OrderingKey(key string) SendOption {
	return func(m *pulsar.ProducerMessage) { m.OrderingKey = key }
}

// DeliverAfter delivers the message to the consumers of Shared and Key_Shared subscriptions when d has passed; others, and those of a
// non-persistent topic, get it at once. It is sent alone, not in a batch, and keeps no order with other messages.
func DeliverAfter(d time.Duration) SendOption {
	return func(m *pulsar.ProducerMessage) { m.DeliverAfter = d }
}

// DeliverAt is DeliverAfter with a time. The zero time delivers at once.
func DeliverAt(t time.Time) SendOption {
	return func(m *pulsar.ProducerMessage) { m.DeliverAt = t }
}

// Clusters limits the replication of the message to these clusters, in a namespace that is replicated; without any it stays in its
// own. It is sent alone, and keeps no order with messages that are sent without this option.
func Clusters(names ...string) SendOption {
	return func(m *pulsar.ProducerMessage) {
		m.ReplicationClusters, m.DisableReplication = names, len(names) == 0
	}
}

// SequenceID numbers the message, for a producer with ProducerOptions.Deduplicate.
func SequenceID(n int64) SendOption {
	return func(m *pulsar.ProducerMessage) { m.SequenceID = &n }
}

// alone tells whether the client sends a message by itself, and not in a batch.
func alone(m *pulsar.ProducerMessage) bool {
	return m.OrderingKey != "" || m.DeliverAfter > 0 || !m.DeliverAt.IsZero() || m.ReplicationClusters != nil || m.DisableReplication
}

// checkMessage refuses what the client or the wire would turn into something else.
func checkMessage(m *pulsar.ProducerMessage) error {
	switch {
	case !m.EventTime.IsZero() && m.EventTime.UnixMilli() <= 0: // the wire's unsigned milliseconds
		return fmt.Errorf("pulsarx: event time %v is before 1970", m.EventTime)
	case !m.DeliverAt.IsZero() && m.DeliverAt.UnixMilli() <= 0:
		return fmt.Errorf("pulsarx: delivery time %v is before 1970", m.DeliverAt)
	case m.DeliverAfter < 0:
		return fmt.Errorf("pulsarx: delivery after %v", m.DeliverAfter)
	case m.DeliverAfter > 0 && !m.DeliverAt.IsZero():
		return errors.New("pulsarx: DeliverAfter and DeliverAt exclude each other")
	case m.SequenceID != nil && *m.SequenceID < 0:
		return fmt.Errorf("pulsarx: sequence id %d", *m.SequenceID)
	}
	return nil
}

// checkMessage refuses what cannot be sent with the producer's options.
func (o *ProducerOptions[T]) checkMessage(m *pulsar.ProducerMessage) error {
	if err := checkMessage(m); err != nil {
		return err
	}
	switch unbatched := o.Chunking || alone(m); {
	case o.Deduplicate != (m.SequenceID != nil):
		return fmt.Errorf("pulsarx: for %s: ProducerOptions.Deduplicate and SequenceID go together", o.Topic)
	case unbatched && m.Payload != nil && len(m.Payload) == 0:
		return fmt.Errorf("pulsarx: for %s: an empty value cannot be sent alone, since pulsar-client-go's consumers discard it", o.Topic)
	case o.Chunking && o.chunks(m) > o.MaxPending:
		return fmt.Errorf("pulsarx: for %s: %w: %d bytes are more than MaxPending, %d, chunks", o.Topic, ErrMessageTooLarge, len(m.Payload), o.MaxPending)
	case !o.Chunking && o.size(m) > o.MaxMessageBytes:
		return fmt.Errorf("pulsarx: for %s: %w: up to %d bytes, of %d", o.Topic, ErrMessageTooLarge, o.size(m), o.MaxMessageBytes)
	}
	return nil
}

// metadataBytes bounds what stands beside key and properties: names, times, numbers, the schema's version.
const metadataBytes = 512

// metadata bounds the bytes of a message's metadata.
func (o *ProducerOptions[T]) metadata(m *pulsar.ProducerMessage) int {
	n := metadataBytes + len(o.Name) + 2*len(m.Key) + len(m.OrderingKey)
	for name, value := range m.Properties {
		n += 2 * (len(name) + len(value) + 12) // of the first message of a batch the client writes them twice
	}
	for _, cluster := range m.ReplicationClusters {
		n += len(cluster) + 8
	}
	for _, name := range o.EncryptionKeys {
		n += len(name) + 1100 // a data key under RSA-8192
	}
	return n
}

// payload bounds the bytes of a value after compression, which makes some larger.
func (o *ProducerOptions[T]) payload(n int) int {
	if o.Batching.Compression != NoCompression {
		n += n/250 + 64
	}
	return n
}

// size bounds the bytes that count against the broker's maxMessageSize. Where the client finds out by itself that a batch is larger,
// it forgets what it was about to send along with it.
func (o *ProducerOptions[T]) size(m *pulsar.ProducerMessage) int {
	return o.payload(len(m.Payload)) + o.metadata(m)
}

// chunks bounds the number of chunks.
func (o *ProducerOptions[T]) chunks(m *pulsar.ProducerMessage) int {
	room := max(o.MaxMessageBytes-o.metadata(m), 1)
	return max((o.payload(len(m.Payload))+room-1)/room, 1)
}
