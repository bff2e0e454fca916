package pulsarx

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// The properties that a dead letter has beside the message's own; ParseDeadLetter reads them. Times are RFC 3339 in UTC.
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
	// DeadLetterAttempts is how often it was handled, 0 where it could not be decoded.
	DeadLetterAttempts = "deadletter.attempts"
	// DeadLetterFirstTime and DeadLetterLastTime are when the first and the last attempt failed.
	DeadLetterFirstTime = "deadletter.first_time"
	DeadLetterLastTime  = "deadletter.last_time"
	// DeadLetterPublishTime is when the message was published to DeadLetterTopic.
	DeadLetterPublishTime = "deadletter.publish_time"
	// DeadLetterSchemaVersion is the version of the writer's schema in DeadLetterTopic, in hexadecimal; absent where there is none.
	// The version on the letter itself is the same schema's in the dead-letter topic.
	DeadLetterSchemaVersion = "deadletter.schema_version"

	deadLetterPrefix = "deadletter."
	// earlierPrefix marks the properties of a letter that became one again; maxEarlier is how often, so that what goes round does not
	// grow for ever.
	earlierPrefix = "earlier."
	maxEarlier    = 8
)

// What the bare clients' dead letters say of their origin.
const (
	clientRealTopic = "REAL_TOPIC"
	clientOriginID  = "ORIGIN_MESSAGE_ID"
)

const (
	reasonUndecodable = "undecodable"
	reasonPermanent   = "permanent"
	reasonAttempts    = "attempts"

	maxErrorText = 1 << 10
	buryTimeout  = time.Minute
)

// DeadLetter is what the properties of a dead letter say.
type DeadLetter struct {
	// Topic is where the message stood, without its partition, Partition the number, and MessageID ledger:entry:batch index.
	Topic     string
	Partition int
	MessageID string
	// Subscription, Reason, Error and Attempts are as the DeadLetter properties of the same names.
	Subscription, Reason, Error string
	Attempts                    int
	// FirstTime and LastTime are when its first and its last attempt failed, PublishTime when it was published.
	FirstTime, LastTime, PublishTime time.Time
	// SchemaVersion is its writer's in Topic, nil where it had none.
	SchemaVersion []byte
	// Properties are the message's own. Where that was a dead letter itself, they are those of that one, for ParseDeadLetter to read.
	Properties map[string]string
}

// ParseDeadLetter reads the properties of a message of a dead-letter topic. It understands the letters of this package, and of those
// of the bare Java and Go clients the topic and the message id. For a message that is no dead letter, ok is false.
func ParseDeadLetter(properties map[string]string) (l DeadLetter, ok bool) {
	topic := properties[DeadLetterTopic]
	if topic == "" {
		return foreignLetter(properties)
	}
	p := parsePartition(topic)
	at := func(name string) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, properties[name])
		return t
	}
	l = DeadLetter{
		Topic: p.topic, Partition: p.index, MessageID: properties[DeadLetterMessageID],
		Subscription: properties[DeadLetterSubscription], Reason: properties[DeadLetterReason], Error: properties[DeadLetterError],
		FirstTime: at(DeadLetterFirstTime), LastTime: at(DeadLetterLastTime), PublishTime: at(DeadLetterPublishTime),
		Properties: ownProperties(properties),
	}
	l.Attempts, _ = strconv.Atoi(properties[DeadLetterAttempts])
	if version, err := hex.DecodeString(properties[DeadLetterSchemaVersion]); err == nil && len(version) > 0 {
		l.SchemaVersion = version
	}
	return l, true
}

// letterProperties are a message's own, as a letter has them beside those of the package.
func letterProperties(own map[string]string) map[string]string {
	properties := make(map[string]string, len(own)+10)
	for name, value := range own {
		if rest, ok := strings.CutPrefix(name, deadLetterPrefix); ok {
			if strings.Count(rest, earlierPrefix) >= maxEarlier {
				continue
			}
			name = deadLetterPrefix + earlierPrefix + rest
		}
		properties[name] = value
	}
	return properties
}

// ownProperties is letterProperties' inverse.
func ownProperties(letter map[string]string) map[string]string {
	own := make(map[string]string, len(letter))
	for name, value := range letter {
		if rest, ok := strings.CutPrefix(name, deadLetterPrefix); ok {
			if rest, ok = strings.CutPrefix(rest, earlierPrefix); !ok {
				continue
			}
			name = deadLetterPrefix + rest
		}
		own[name] = value
	}
	return own
}

func foreignLetter(properties map[string]string) (l DeadLetter, ok bool) {
	topic := properties[clientRealTopic]
	if topic == "" {
		return l, false
	}
	p := parsePartition(fullTopic(topic))
	l = DeadLetter{Topic: p.topic, Partition: p.index, MessageID: properties[clientOriginID], Properties: maps.Clone(properties)}
	for _, name := range []string{clientRealTopic, clientOriginID, "ORIGIN_MESSAGE_IDY_TIME", "RECONSUMETIMES", "DELAY_TIME"} {
		delete(l.Properties, name)
	}
	return l, true
}

// deadLetters writes to the dead-letter topics.
type deadLetters struct {
	client       *Client
	policy       DeadLetterPolicy
	subscription string
	producers    *rawProducers
}

func newDeadLetters(c *Client, o ConsumerOptions) *deadLetters {
	d := &deadLetters{client: c, policy: o.DeadLetter, subscription: o.Subscription}
	d.producers = newRawProducers(c, o.DeadLetter.EncryptionKeys, d.keepLetters)
	return d
}

func (d *deadLetters) topic(p *partition) string {
	if d.policy.Topic != "" {
		return d.policy.Topic
	}
	return strings.TrimPrefix(p.topic, "non-") + deadLetterSuffix(d.subscription)
}

func deadLetterSuffix(subscription string) string { return "-" + subscription + "-DLQ" }

// bury writes a message to its dead-letter topic, and returns when it is safe there.
func (d *deadLetters) bury(ctx context.Context, it *item) error {
	ctx, cancel := context.WithTimeout(ctx, buryTimeout)
	defer cancel()
	topic := d.topic(it.partition)
	schema, err := d.client.schemas.get(it.partition.topic, it.msg.SchemaVersion())
	if err == nil || itemerror.IsPermanent(err) { // the registry has no such schema: the letter has none either
		err = d.send(ctx, d.producers.key(topic, schema, it.msg), it)
	}
	if errors.Is(err, ErrIncompatibleSchema) {
		// The letter still says which schema of which topic it has.
		err = d.send(ctx, d.producers.key(topic, Schema{}, it.msg), it)
	}
	if err != nil {
		return fmt.Errorf("pulsarx: dead letter of %s: %w", it.partition.name, err)
	}
	return nil
}

func (d *deadLetters) send(ctx context.Context, key producerKey, it *item) error {
	p, err := d.producers.open(ctx, key)
	if err != nil {
		return err
	}
	if _, err = p.Send(ctx, d.letter(it)); err != nil {
		d.producers.drop(key, p)
	}
	return err
}

func (d *deadLetters) letter(it *item) *pulsar.ProducerMessage {
	m := it.msg
	properties := letterProperties(m.Properties())
	properties[DeadLetterReason] = it.grave.reason
	properties[DeadLetterError] = cutText(it.grave.err.Error(), maxErrorText)
	properties[DeadLetterTopic] = it.partition.name
	properties[DeadLetterMessageID] = fmt.Sprintf("%d:%d:%d", m.ID().LedgerID(), m.ID().EntryID(), m.ID().BatchIdx())
	properties[DeadLetterSubscription] = d.subscription
	properties[DeadLetterAttempts] = strconv.Itoa(it.attempts)
	properties[DeadLetterFirstTime] = letterTime(it.failures.first)
	properties[DeadLetterLastTime] = letterTime(it.failures.last)
	properties[DeadLetterPublishTime] = letterTime(m.PublishTime())
	if version := m.SchemaVersion(); len(version) > 0 {
		properties[DeadLetterSchemaVersion] = hex.EncodeToString(version)
	}
	return rawMessageOf(m, properties)
}

func letterTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// rawMessageOf is a message as it came, with other properties.
func rawMessageOf(m pulsar.Message, properties map[string]string) *pulsar.ProducerMessage {
	return &pulsar.ProducerMessage{
		Payload: payload(m), Key: m.Key(), OrderingKey: m.OrderingKey(), Properties: properties, EventTime: eventTime(m),
	}
}

// cutText keeps at most n bytes, whole and valid characters.
func cutText(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
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

func (d *deadLetters) close(ctx context.Context) error {
	return d.producers.close(ctx, "the dead-letter producers")
}

// eventTime is the message's, zero where it has none: the client says 1970 then.
func eventTime(m pulsar.Message) time.Time {
	if t := m.EventTime(); t.UnixMilli() > 0 {
		return t
	}
	return time.Time{}
}
