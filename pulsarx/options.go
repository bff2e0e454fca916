package pulsarx

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// SubscriptionType is how the consumers of a subscription share its messages.
type SubscriptionType int

// The subscription types. Which order a consumer keeps beyond the order per key, and among messages without a key:
//
//	KeyShared  the keys are spread over the consumers; messages without a key are ordered per partition
//	Failover   one consumer has a partition at a time; messages without a key are ordered per partition
//	Exclusive  one consumer has all; messages without a key are ordered per partition
//	Shared     messages are spread without regard to keys: order per key within a consumer only, and none without a key
const (
	KeyShared SubscriptionType = iota
	Failover
	Exclusive
	Shared
)

var subscriptionTypes = map[SubscriptionType]pulsar.SubscriptionType{
	KeyShared: pulsar.KeyShared,
	Failover:  pulsar.Failover,
	Exclusive: pulsar.Exclusive,
	Shared:    pulsar.Shared,
}

// DeadLetterPolicy says when a message is given up, and where it goes.
type DeadLetterPolicy struct {
	// Topic of the dead letters, <topic>-<subscription>-DLQ by default. It is persistent, also where <topic> is not.
	Topic string
	// MaxAttempts is how often a failing message is handled before it goes there; 10 by default, which with the default Backoff
	// takes about 40 s. -1 tries for ever: then only permanent errors give a message up. Where the handler does not say which
	// message of a batch failed, 1 means once in company and once alone.
	MaxAttempts int
	// Subscription is created on the dead-letter topic before its first message, since Pulsar deletes what a topic without a
	// subscription or retention gets; "dead-letters" by default.
	Subscription string
	// EncryptionKeys encrypt the letters, as ProducerOptions.EncryptionKeys do: what comes encrypted is buried in the clear otherwise.
	EncryptionKeys []string
}

// Backoff is how long a key waits before a failed message is tried again: exponential with jitter. The n-th wait is between half
// and the whole of Initial * 2^(n-1), at most Max.
type Backoff struct {
	// Initial is 100 ms by default, Max 30 s.
	Initial, Max time.Duration
}

// InitialPosition is where a new subscription begins.
type InitialPosition int

// FromEarliest begins with the oldest message that the topic still has, FromLatest with the next one that is sent.
const (
	FromEarliest InitialPosition = iota
	FromLatest
)

var initialPositions = map[InitialPosition]pulsar.SubscriptionInitialPosition{
	FromEarliest: pulsar.SubscriptionPositionEarliest,
	FromLatest:   pulsar.SubscriptionPositionLatest,
}

// ConsumerOptions configure a consumer. Topics or TopicPattern, and Subscription, are required.
type ConsumerOptions struct {
	// Topics to subscribe to; short names are persistent://public/default/name. Of a partitioned topic these are all partitions,
	// also those that are added while the consumer runs; a partition's own name is that one alone.
	Topics []string
	// TopicPattern subscribes to all topics of a namespace whose names match, also those that come while the consumer runs:
	// persistent://tenant/namespace/ and a regular expression (RE2) for the whole rest of the name. A pattern without a slash is
	// in public/default. Left out are system topics, whose names begin with two underscores, and the dead-letter topics of this
	// subscription. It excludes Topics.
	TopicPattern string
	// Discovery is how often new partitions and topics are looked for; 30 s by default.
	Discovery time.Duration
	// Subscription is the name.
	Subscription string
	// Type is KeyShared by default.
	Type SubscriptionType
	// InitialPosition is where a new subscription begins, FromEarliest by default. One to a partition or topic that came later
	// begins with its first message all the same, so that none is passed over.
	InitialPosition InitialPosition
	// SubscriptionProperties are kept with the subscription by the consumer that creates it.
	SubscriptionProperties map[string]string
	// Name of the consumer, as the topic's statistics show it, and Properties beside it. With Failover, the brokers spread
	// partitions over the consumers by their names; a random one by default.
	Name       string
	Properties map[string]string
	// PriorityLevel is 0 for the consumers that get messages first, and greater for those that get what the first do not take
	// (Shared), or that stand in for them (Failover).
	PriorityLevel int
	// ReadCompacted reads the last message of each key alone, as far as the topic is compacted; Failover and Exclusive only. A message of
	// a batch that is empty and has no key is taken for the place of one that compaction took, and is not handled.
	ReadCompacted bool
	// Replicated keeps the subscription's position in step in all clusters that the namespace is replicated to.
	Replicated bool
	// DeadLetter is when a message is given up, and where it goes; Backoff how long a key waits before its message is tried again.
	DeadLetter DeadLetterPolicy
	Backoff    Backoff
	// Workers is the number of goroutines that call the handler; 8 by default.
	Workers int
	// MaxBatch is the largest batch of the handler; 64 by default.
	MaxBatch int
	// MaxDelay is how long a message waits for a batch to fill while a worker is free; 5 ms by default, -1 does not wait.
	MaxDelay time.Duration
	// MaxInFlight bounds the messages that are received and not yet acknowledged: waiting, running, or retried. The flow from the
	// broker stops there. 4 * Workers * MaxBatch by default, at least 1000.
	MaxInFlight int
	// ReceiverQueue is the number of messages prefetched for a partition; 1000 by default, at most MaxInFlight, and at most 50,000
	// of all partitions together. Consumer says what memory that takes.
	ReceiverQueue int
	// DrainTimeout is how long handlers may go on after Run's context has ended, before their own context ends; 30 s by default,
	// -1 ends it at once.
	DrainTimeout time.Duration
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	o.DeadLetter.MaxAttempts = cmp.Or(o.DeadLetter.MaxAttempts, 10)
	o.DeadLetter.Subscription = cmp.Or(o.DeadLetter.Subscription, "dead-letters")
	o.Backoff.Initial = cmp.Or(o.Backoff.Initial, 100*time.Millisecond)
	o.Backoff.Max = max(cmp.Or(o.Backoff.Max, 30*time.Second), o.Backoff.Initial)
	o.Discovery = cmp.Or(o.Discovery, 30*time.Second)
	o.Workers = cmp.Or(o.Workers, 8)
	o.MaxBatch = cmp.Or(o.MaxBatch, 64)
	o.MaxDelay = cmp.Or(o.MaxDelay, 5*time.Millisecond)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, max(1000, 4*o.Workers*o.MaxBatch))
	o.ReceiverQueue = min(cmp.Or(o.ReceiverQueue, 1000), o.MaxInFlight)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 30*time.Second)
	o.MaxDelay = max(o.MaxDelay, 0)
	o.DrainTimeout = max(o.DrainTimeout, 0)
	return o
}

func (o ConsumerOptions) validatePattern() error {
	switch {
	case len(o.Topics) == 0 && o.TopicPattern == "":
		return errors.New("ConsumerOptions.Topics is empty, and so is TopicPattern")
	case len(o.Topics) > 0 && o.TopicPattern != "":
		return errors.New("ConsumerOptions.Topics and TopicPattern exclude each other")
	case o.TopicPattern != "":
		if _, err := parsePattern(o.TopicPattern, o); err != nil {
			return fmt.Errorf("ConsumerOptions.TopicPattern: %w", err)
		}
	}
	return nil
}

func (o ConsumerOptions) validate() error {
	var errs []error
	errs = append(errs, o.validatePattern())
	for _, topic := range o.Topics {
		if topic == "" {
			errs = append(errs, errors.New("ConsumerOptions.Topics holds an empty name"))
		} else if o.DeadLetter.Topic != "" && fullTopic(topic) == fullTopic(o.DeadLetter.Topic) {
			errs = append(errs, fmt.Errorf("ConsumerOptions.DeadLetter.Topic %s is consumed too: its messages would go round for ever", topic))
		}
	}
	if nonPersistent(o.DeadLetter.Topic) {
		errs = append(errs, fmt.Errorf("ConsumerOptions.DeadLetter.Topic: %w: %s would lose dead letters", ErrNonPersistent, o.DeadLetter.Topic))
	}
	if o.Subscription == "" {
		errs = append(errs, errors.New("ConsumerOptions.Subscription is missing"))
	}
	if _, ok := subscriptionTypes[o.Type]; !ok {
		errs = append(errs, fmt.Errorf("unknown ConsumerOptions.Type %d", o.Type))
	}
	if _, ok := initialPositions[o.InitialPosition]; !ok {
		errs = append(errs, fmt.Errorf("unknown ConsumerOptions.InitialPosition %d", o.InitialPosition))
	}
	if o.ReadCompacted && o.Type != Failover && o.Type != Exclusive {
		errs = append(errs, errors.New("ConsumerOptions.ReadCompacted needs the type Failover or Exclusive"))
	}
	if o.DeadLetter.MaxAttempts < -1 {
		errs = append(errs, fmt.Errorf("ConsumerOptions.DeadLetter.MaxAttempts is %d", o.DeadLetter.MaxAttempts))
	}
	for _, n := range []struct {
		name         string
		value, least int64
	}{
		{"Backoff.Initial", int64(o.Backoff.Initial), 0},
		{"Backoff.Max", int64(o.Backoff.Max), 0},
		{"Discovery", int64(o.Discovery), 0},
		{"PriorityLevel", int64(o.PriorityLevel), 0},
		{"Workers", int64(o.Workers), 0},
		{"MaxBatch", int64(o.MaxBatch), 0},
		{"MaxDelay", int64(o.MaxDelay), -1},
		{"MaxInFlight", int64(o.MaxInFlight), 0},
		{"ReceiverQueue", int64(o.ReceiverQueue), 0},
		{"DrainTimeout", int64(o.DrainTimeout), -1},
	} {
		if n.value < n.least {
			errs = append(errs, fmt.Errorf("ConsumerOptions.%s is %d", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}
