package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// OrderV1 is where it begins.
type OrderV1 struct {
	ID       string `avro:"id"`
	Customer string `avro:"customer"`
	Cents    int64  `avro:"cents"`
	Coupon   string `avro:"coupon,default=none"`
}

// OrderV2 is compatible in both directions: what comes and what goes has a default.
type OrderV2 struct {
	ID       string  `avro:"id"`
	Customer string  `avro:"customer"`
	Cents    int64   `avro:"cents"`
	Currency string  `avro:"currency,default=EUR"`
	Note     *string `avro:"note"`
}

// OrderV3 makes a number a text, which nobody can read as the other.
type OrderV3 struct {
	ID       string `avro:"id"`
	Customer string `avro:"customer"`
	Cents    string `avro:"cents"`
}

// OrderV4 drops a field without a default: it reads the older orders, and is not read as one.
type OrderV4 struct {
	ID       string `avro:"id"`
	Cents    int64  `avro:"cents"`
	Currency string `avro:"currency,default=EUR"`
}

func (o OrderV1) key() string { return o.ID }
func (o OrderV2) key() string { return o.ID }
func (o OrderV4) key() string { return o.ID }

func (o OrderV1) String() string {
	return fmt.Sprintf("%s of %s, %d cents, coupon %s", o.ID, o.Customer, o.Cents, o.Coupon)
}

func (o OrderV2) String() string {
	note := "no note"
	if o.Note != nil {
		note = "note " + *o.Note
	}
	return fmt.Sprintf("%s of %s, %d cents, in %s, %s", o.ID, o.Customer, o.Cents, o.Currency, note)
}

func (o OrderV4) String() string {
	return fmt.Sprintf("%s, %d cents, in %s", o.ID, o.Cents, o.Currency)
}

// order is any version of one.
type order interface {
	key() string
	String() string
}

// send sends an order with a producer of its own, as a new release would, and tells what the two consumers made of it.
func send[T order](ctx context.Context, s *story, o T) error {
	p, err := pulsarx.NewProducer(ctx, s.client, pulsarx.Avro[T](), pulsarx.ProducerOptions[T]{Topic: s.topic, Key: T.key})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	if _, err := p.Send(ctx, o); err != nil {
		return err
	}
	for _, reader := range []*log{s.billing, s.analytics} {
		if err := reader.wait(ctx, o.key()); err != nil {
			return err
		}
	}
	s.say("   billing   (OrderV1)  %s", s.billing.last())
	s.say("   analytics (OrderV2)  %s", s.analytics.last())
	return nil
}

// follower is a consumer at work.
type follower struct {
	log    *log
	cancel context.CancelFunc
	done   chan error
}

// follow reads the topic as T from now on.
func follow[T order](ctx context.Context, s *story, subscription string) (*follower, error) {
	consumer, err := pulsarx.NewConsumer(ctx, s.client, pulsarx.Avro[T](), pulsarx.ConsumerOptions{
		Topics: []string{s.topic}, Subscription: subscription,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	f := &follower{&log{}, cancel, make(chan error, 1)}
	go func() {
		f.done <- consumer.Run(running, func(_ context.Context, batch []pulsarx.Message[T]) error {
			for _, m := range batch {
				f.log.add(m.Value)
			}
			return nil
		})
	}()
	return f, nil
}

func (f *follower) stop() error {
	f.cancel()
	return <-f.done
}

// log is what a consumer has read.
type log struct {
	mu     sync.Mutex
	orders []order
}

func (l *log) add(o order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, o)
}

func (l *log) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.orders[len(l.orders)-1].String()
}

func (l *log) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.orders {
		if o.key() == key {
			return true
		}
	}
	return false
}

// wait returns when the order has been read.
func (l *log) wait(ctx context.Context, key string) error {
	for !l.has(key) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// deadLetter waits for a dead letter, and returns its reason.
func deadLetter(ctx context.Context, client *pulsarx.Client, topic string) (reason string, err error) {
	reasons := make(chan string, 1)
	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.Any(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "curious",
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- consumer.Run(ctx, func(_ context.Context, batch []pulsarx.Message[any]) error {
			select {
			case reasons <- batch[0].Properties[pulsarx.DeadLetterError]:
			default:
			}
			return nil
		})
	}()
	defer func() {
		cancel()
		err = errors.Join(err, <-done)
	}()
	select {
	case reason = <-reasons:
		return reason, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
