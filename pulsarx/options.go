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
	// Topic of the dead letters, <topic>-<subscription>-DLQ by default.
	Topic string
	// MaxAttempts is how often a failing message is handled before it goes there; 10 by default, which with the default Backoff
	// takes about 40 s. -1 tries for ever: then only permanent errors give a message up. Where the handler does not say which
	// message of a batch failed, 1 means once in company and once alone.
	MaxAttempts int
	// Subscription is created on the dead-letter topic before its first message, since Pulsar deletes what a topic without a
	// subscription or retention gets; "dead-letters" by default.
	Subscription string
}

// Backoff is how long a key waits before a failed message is tried again: exponential with jitter. The n-th wait is between half
// and the whole of Initial * 2^(n-1), at most Max.
type Backoff struct {
	// Initial is 100 ms by default, Max 30 s.
	Initial, Max time.Duration
}

// ConsumerOptions configure a consumer. Topics and Subscription are required.
type ConsumerOptions struct {
	// Topics to subscribe to; short names are persistent://public/default/name.
	Topics []string
	// Subscription is the name. A new one begins with the oldest message that the topic still has.
	Subscription string
	// Type is KeyShared by default.
	Type SubscriptionType
	// Name of the consumer, as the topic's statistics show it.
	Name       string
	DeadLetter DeadLetterPolicy
	Backoff    Backoff
	// Workers is the number of goroutines that call the handler; 8 by default.
	Workers int
	// MaxBatch is the largest batch of the handler; 64 by default.
	MaxBatch int
	// MaxDelay is how long a message waits for a batch to fill while a worker is free; 5 ms by default, -1 does not wait.
	MaxDelay time.Duration
	// MaxInFlight bounds the messages that are received and not yet acknowledged: waiting, running, or retried. The flow from the
	// broker stops there. 4 * Workers * MaxBatch by default, at least 1000. Memory is bounded by this and by what is prefetched,
	// ReceiverQueue messages a partition.
	MaxInFlight int
	// ReceiverQueue is the number of messages prefetched for a partition; 1000 by default, at most MaxInFlight.
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

func (o ConsumerOptions) validate() error {
	var errs []error
	if len(o.Topics) == 0 {
		errs = append(errs, errors.New("ConsumerOptions.Topics is empty"))
	}
	for _, topic := range o.Topics {
		if topic == "" {
			errs = append(errs, errors.New("ConsumerOptions.Topics holds an empty name"))
		} else if o.DeadLetter.Topic != "" && fullTopic(topic) == fullTopic(o.DeadLetter.Topic) {
			errs = append(errs, fmt.Errorf("ConsumerOptions.DeadLetter.Topic %s is consumed too: its messages would go round for ever", topic))
		}
	}
	if o.Subscription == "" {
		errs = append(errs, errors.New("ConsumerOptions.Subscription is missing"))
	}
	if _, ok := subscriptionTypes[o.Type]; !ok {
		errs = append(errs, fmt.Errorf("unknown ConsumerOptions.Type %d", o.Type))
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
