package pulsarx

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
)

// input is a subscription to one partition up to the first loss of its connection or of the partition. As with a steadyReader, what
// the client gives out before is without gaps.
type input struct {
	pulsar.Consumer
	over     chan struct{} // closed then
	once     sync.Once
	lost     atomic.Bool
	received atomic.Bool
	inactive atomic.Bool
}

func (i *input) end() {
	i.lost.Store(true)
	i.once.Do(func() { close(i.over) })
}

// BecameActive is of pulsar.ConsumerEventListener.
func (i *input) BecameActive(pulsar.Consumer, string, int32) { i.inactive.Store(false) }

// BecameInactive is of pulsar.ConsumerEventListener. Who stands by is told so too.
func (i *input) BecameInactive(pulsar.Consumer, string, int32) {
	i.inactive.Store(true)
	if i.received.Load() {
		i.end()
	}
}

// The methods of pulsar.ConsumerInterceptor.

func (i *input) BeforeConsume(pulsar.ConsumerMessage)                   {}
func (i *input) OnAcknowledge(pulsar.Consumer, pulsar.MessageID)        {}
func (i *input) OnNegativeAcksSend(pulsar.Consumer, []pulsar.MessageID) {}

// OnConsumerClose comes also where the client is closed.
func (i *input) OnConsumerClose(pulsar.Consumer, error) { i.end() }

func (j *job[In, Out]) subscribe(ctx context.Context, name string) (*input, error) {
	in := &input{over: make(chan struct{})}
	options := pulsar.ConsumerOptions{
		Topic:                          name,
		SubscriptionName:               j.options.Subscription,
		Name:                           j.name,
		Type:                           pulsar.Failover,
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		ReceiverQueueSize:              j.options.ReceiverQueue,
		EventListener:                  in,
		Interceptors:                   pulsar.ConsumerInterceptors{in},
		AckWithResponse:                true,
		EnableBatchIndexAcknowledgment: true,
		Decryption:                     j.client.decryption(),
		MaxReconnectToBroker:           new(uint),
		BackOffPolicyFunc: func() backoff.Policy {
			in.end()
			return backoff.NewDefaultBackoff()
		},
	}
	consumer, err := open(ctx, j.client, fmt.Sprintf("consumer of %s as %s", name, j.options.Subscription),
		func() (pulsar.Consumer, error) { return j.client.pulsar.Subscribe(options) }, pulsar.Consumer.Close)
	if err != nil {
		return nil, connectionError{err}
	}
	in.Consumer = consumer
	return in, nil
}

// next waits for the next message, the time of a checkpoint, which is errCheckpoint, or the end, which is errHandover or errStopped.
func (i *input) next(ctx context.Context, due <-chan time.Time) (pulsar.Message, error) {
	select {
	case m, ok := <-i.Chan():
		i.received.Store(true)
		if !ok || i.lost.Load() || i.inactive.Load() {
			return nil, errHandover
		}
		return m.Message, nil
	case <-i.over:
		return nil, errHandover
	case <-due:
		return nil, errCheckpoint
	case <-ctx.Done():
		return nil, errStopped
	}
}
