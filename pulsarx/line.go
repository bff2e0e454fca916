package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	lineCloseTimeout = 5 * time.Second // for a producer of the client that is given up
	roomPoll         = 5 * time.Millisecond
)

// line is a producer of pulsar-client-go's, and what becomes of it. The client gives one up, for good and without a word, when the
// broker refuses a message (the topic's own limit of size, a terminated topic): it forgets whom receipts belong to. A line notices
// that no receipts come, finds out why, and makes the producer anew where the topic still takes messages.
type line struct {
	client  *Client
	options pulsar.ProducerOptions
	alone   bool                                            // messages are sent one by one, not in batches
	fail    func(error)                                     // gives what is on its way this outcome
	answer  func(MessageID, *pulsar.ProducerMessage, error) // takes the client's answers
	closing chan struct{}
	running sync.WaitGroup
	calls   sync.RWMutex                    // read-locked by who uses producer
	heard   atomic.Int64                    // when the last receipt came, on the clock
	open    atomic.Pointer[pulsar.Producer] // producer, for who enters; nil while it is made anew, and when the topic has ended

	// turn is held while a message is given to the client without a batch: the client numbers those before it queues them, and with
	// deduplication the broker drops a number that comes behind a higher one.
	turn chan struct{}
	// places are MaxPending for the chunks of all partitions: the client can neither give up a wait for several places at once, nor
	// share them among messages that each have some.
	places chan struct{}

	mu        sync.Mutex
	producer  *pulsar.Producer
	since     time.Duration // when the oldest message was sent that no receipt came for, on the clock; 0 without suspicion
	overdue   bool          // it has been given up
	checking  bool          // a check runs
	replacing chan struct{} // while the producer is made anew, closed afterwards
	failed    error         // why that failed the last time
	ended     error         // the topic takes no messages any more
	closed    bool
}

// openLine makes the client's producer.
func openLine(ctx context.Context, c *Client, o pulsar.ProducerOptions) (*line, error) {
	l := &line{
		client: c, options: o, alone: o.DisableBatching, closing: make(chan struct{}), turn: make(chan struct{}, 1),
		places: make(chan struct{}, o.MaxPendingMessages),
	}
	producer, err := l.create(ctx, o)
	if err != nil {
		return nil, err
	}
	l.producer = &producer
	l.open.Store(l.producer)
	return l, nil
}

func (l *line) create(ctx context.Context, o pulsar.ProducerOptions) (pulsar.Producer, error) {
	p, err := open(ctx, l.client, "producer for "+o.Topic,
		func() (pulsar.Producer, error) { return l.client.pulsar.CreateProducer(o) }, pulsar.Producer.Close)
	if err != nil && strings.Contains(err.Error(), "TopicTerminated") {
		err = fmt.Errorf("%w: %w", ErrTopicTerminated, err)
	}
	return p, err
}

// enter returns the client's producer, which stays until leave. While it is made anew, enter waits, as long as ctx.
func (l *line) enter(ctx context.Context) (*pulsar.Producer, error) {
	for {
		if p := l.tryEnter(); p != nil {
			return p, nil
		}
		if err := l.awaitProducer(ctx); err != nil {
			return nil, err
		}
	}
}

// tryEnter is enter without waiting: it returns nil while the producer is made anew.
func (l *line) tryEnter() *pulsar.Producer {
	l.calls.RLock()
	p := l.open.Load()
	if p == nil {
		l.calls.RUnlock()
	}
	return p
}

// awaitProducer waits while the producer is made anew.
func (l *line) awaitProducer(ctx context.Context) error {
	l.mu.Lock()
	replacing, ended := l.replacing, l.ended
	l.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case replacing == nil: // by now
		return nil
	}
	select {
	case <-replacing:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closing:
		return ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *line) leave() { l.calls.RUnlock() }

// barrier waits for those who have entered: the client closes channels under whoever still sends on them.
func (l *line) barrier() {
	l.calls.Lock()
	l.calls.Unlock() //nolint:staticcheck // nothing is done in between
}

// suspect notes that a message, sent at start, has got no receipt for long, and whether it has been given up.
func (l *line) suspect(start time.Duration, overdue bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 || start < l.since {
		l.since = start
	}
	l.overdue = l.overdue || overdue
}

// check finds out, in the background, why a line that is suspected has got no receipts since: whether the topic is terminated, and if
// not, and messages are overdue, makes the producer anew. A broker that cannot be reached is left to the client, which reconnects.
func (l *line) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 || l.checking || l.closed || l.ended != nil || l.replacing != nil {
		return
	}
	if l.heard.Load() >= int64(l.since) {
		l.since, l.overdue = 0, false
		return
	}
	l.checking = true
	old, replace := l.producer, l.overdue
	l.running.Go(func() {
		ctx, cancel := l.untilClosed()
		defer cancel()
		err := l.probe(ctx)
		l.mu.Lock()
		l.checking = false
		l.mu.Unlock()
		if err == nil && replace || errors.Is(err, ErrTopicTerminated) {
			l.replace(old)
		}
	})
}

// probe tries whether the topic takes producers.
func (l *line) probe(ctx context.Context) error {
	anonymous := l.options
	anonymous.Name = ""
	p, err := l.create(ctx, anonymous)
	if err == nil {
		l.discard(p)
	}
	return err
}

// replace makes the producer anew in the background, unless that is being done. What the old one has taken fails.
func (l *line) replace(old *pulsar.Producer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.ended != nil || l.replacing != nil || l.producer != old {
		return
	}
	done := make(chan struct{})
	l.replacing = done
	l.open.Store(nil)
	l.running.Go(func() {
		defer close(done)
		ctx, cancel := l.untilClosed()
		defer cancel()
		err := l.probe(ctx)
		terminated := errors.Is(err, ErrTopicTerminated)
		switch {
		case terminated:
			l.fail(err)
		case l.client.isClosed():
			l.fail(ErrClosed)
		default:
			l.fail(ErrSendTimeout)
		}
		l.barrier()
		l.discard(*old) // before another takes its name
		var p pulsar.Producer
		if err == nil {
			p, err = l.create(ctx, l.options)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failed, l.replacing = err, nil
		if terminated {
			l.ended = err
			return
		}
		if err == nil {
			l.producer = &p
			l.since, l.overdue = 0, false
		}
		l.open.Store(l.producer)
	})
}

// discard closes a producer of the client's, which takes no context and waits for the broker.
func (l *line) discard(p pulsar.Producer) {
	ctx, cancel := context.WithTimeout(context.Background(), lineCloseTimeout)
	defer cancel()
	_ = bounded(ctx, "closing a producer", p.Close) // that the client has closed by itself, or that is given up
}

// untilClosed is a context that ends with close.
func (l *line) untilClosed() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.client.options.Pulsar.OperationTimeout)
	go func() {
		select {
		case <-l.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// close closes the client's producer, and waits for what runs in the background, as long as ctx.
func (l *line) close(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.closing)
	return bounded(ctx, "closing the producer for "+l.options.Topic, func() {
		l.running.Wait()
		l.mu.Lock()
		p := l.producer
		l.mu.Unlock()
		l.barrier()
		(*p).Close()
	})
}

func (l *line) takeTurn(ctx context.Context) error { return l.acquire(ctx, l.turn) }

func (l *line) endTurn() { <-l.turn }

// takePlaces takes n places, and waits for them unless now. The turn is held, so that no two messages wait for each other.
func (l *line) takePlaces(ctx context.Context, n int, now bool) error {
	if now && len(l.places)+n > cap(l.places) {
		return ErrQueueFull
	}
	for taken := range n {
		if err := l.acquire(ctx, l.places); err != nil {
			l.release(taken)
			return err
		}
	}
	return nil
}

func (l *line) release(n int) {
	for range n {
		<-l.places
	}
}

// acquire takes a place of a semaphore.
func (l *line) acquire(ctx context.Context, semaphore chan struct{}) error {
	select {
	case semaphore <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closing:
		return ErrClosed
	}
}

// transmit calls into the client, which panics when it queues a message while its own close, by Close or by a terminated topic,
// closes the queue.
func transmit(f func() (MessageID, error)) (id MessageID, err error) {
	defer func() {
		if p := recover(); p != nil {
			id, err = nil, transmitError(p)
		}
	}()
	return f()
}

// send gives a message to the client, which queues it at once and so needs no context: it has options.MaxPendingMessages places, and
// refuses what finds none.
func (l *line) send(p pulsar.Producer, m *pulsar.ProducerMessage) error {
	return sendAsync(context.Background(), p, m, l.answer)
}

// sendAsync is transmit of SendAsync.
func sendAsync(
	ctx context.Context, p pulsar.Producer, m *pulsar.ProducerMessage, answer func(MessageID, *pulsar.ProducerMessage, error),
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = transmitError(p)
		}
	}()
	p.SendAsync(ctx, m, answer)
	return nil
}

// transmitError is the error of a panic in the client: the router's, or that it has closed the producer.
func transmitError(p any) error {
	if refused, ok := p.(routingError); ok {
		return refused
	}
	return pulsar.ErrProducerClosed
}

// reconnects is how long the client waits before it connects a producer again: 100 ms, doubled up to 5 s.
type reconnects struct{ next time.Duration }

func (r *reconnects) Next() time.Duration {
	r.next = min(max(2*r.next, 100*time.Millisecond), 5*time.Second)
	return r.next
}

func (r *reconnects) IsMaxBackoffReached() bool { return false }

func (r *reconnects) Reset() { r.next = 0 }
