package pulsarx

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// MessageID is the client's id of a message.
type MessageID = pulsar.MessageID

// Raw is a message as it came from the topic, with its writer's schema. It has the fields of cdc.Record, so that one converts to
// the other and neither package imports the other.
type Raw struct {
	// Topic is the full name, persistent://tenant/namespace/topic, without the partition.
	Topic string
	// Partition is the number of the partition, 0 for a topic that has none.
	Partition int
	// Offset is the message's id as text of fixed width, so that the messages of one partition are ordered bytewise.
	Offset string
	Key    string
	// Value is nil for a tombstone. It must not be changed.
	Value      []byte
	Properties map[string]string
	// SchemaType and Schema are the writer's, empty where the message has no schema version. Types are Pulsar's names (AVRO, JSON,
	// STRING ...).
	SchemaType             string
	Schema                 []byte
	PublishTime, EventTime time.Time
}

// Message is a decoded message, as a Handler gets it.
type Message[T any] struct {
	Value T
	// Tombstone is true where the topic says that the key is gone. With a Codec, Value is zero then; a Decoder that is not a Codec
	// is asked all the same.
	Tombstone bool
	// Topic is the full name without the partition, Partition the number, 0 for a topic that has none.
	Topic     string
	Partition int
	ID        MessageID
	Key       string
	// Properties must not be changed: a retry and a dead letter have the same map.
	Properties map[string]string
	// EventTime is zero where the producer gave none.
	PublishTime, EventTime time.Time
	// Attempt counts from 1. A message that runs again only because an earlier one of its key failed keeps its number.
	Attempt int
}

// Handler works on a batch. In it the messages of one key stand in order; the calls are concurrent, but never two at once with the
// same key. A nil error acknowledges all. A BatchError, or another error with ItemErrors() []error of the batch's length, says
// which messages failed; any other error means that all did. See Consumer.Run for what follows.
type Handler[T any] func(ctx context.Context, batch []Message[T]) error

// Values makes a Handler of a function that wants the values alone.
func Values[T any](h func(ctx context.Context, values []T) error) Handler[T] {
	return func(ctx context.Context, batch []Message[T]) error {
		values := make([]T, len(batch))
		for i := range batch {
			values[i] = batch[i].Value
		}
		return h(ctx, values)
	}
}

// offset writes a message id as 40 hexadecimal digits: ledger, entry, and the place in the batch, where a message that is not in a
// batch has place 0.
func offset(id MessageID) string {
	const digits = "0123456789abcdef"
	var text [40]byte
	put := func(from, to int, v uint64) {
		for i := to - 1; i >= from; i-- {
			text[i] = digits[v&0xf]
			v >>= 4
		}
	}
	put(0, 16, uint64(id.LedgerID()))
	put(16, 32, uint64(id.EntryID()))
	put(32, 40, uint64(max(id.BatchIdx(), 0)))
	return string(text[:])
}

// parseOffset is offset's inverse.
func parseOffset(text string) (ledger, entry int64, batch int32, err error) {
	if len(text) != 40 {
		return 0, 0, 0, fmt.Errorf("pulsarx: %q is not an offset", text)
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, 0, 0, fmt.Errorf("pulsarx: %q is not an offset", text)
		}
	}
	if _, err := fmt.Sscanf(text, "%016x%016x%08x", &ledger, &entry, &batch); err != nil {
		return 0, 0, 0, fmt.Errorf("pulsarx: %q is not an offset", text)
	}
	return ledger, entry, batch, nil
}
