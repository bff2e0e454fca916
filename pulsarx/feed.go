package pulsarx

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	receiveBuffer  = 256    // messages in the channel from the client, all partitions together
	maxPrefetch    = 50_000 // messages that the client holds, all partitions together
	maxSubscribing = 16     // partitions at once
	busyPatience   = time.Minute
	discoverRetry  = time.Second
)

// feed is what a consumer is subscribed to: a consumer of the client for every partition, which hand over in one channel. It looks
// for new partitions, and new topics of a pattern, by itself: where the first subscription to a new partition fails, the client
// would close all others for good, and its pattern consumer deletes subscriptions of topics that a listing leaves out.
type feed struct {
	client   *Client
	options  ConsumerOptions
	pattern  *topicPattern // nil: of the topics that the options name
	messages chan pulsar.ConsumerMessage
	lost     chan error       // the client has closed a consumer by itself; 1 place
	busy     chan *subscribed // to be subscribed to again
	stop     context.CancelFunc
	watching chan struct{} // closed when nothing is looked for any more
	renewing sync.WaitGroup

	mu      sync.Mutex
	sources map[string]*subscribed // by the partition's name
}

// subscribed is a partition that is subscribed to.
type subscribed struct {
	name     string
	queue    int  // messages that the client prefetches
	gone     bool // not subscribed to any more, or not yet; under feed.mu
	arrivals arrivals
	more     atomic.Int32 // beside queue

	mu       sync.Mutex
	consumer pulsar.Consumer
}

// client returns the client's consumer, nil while there is none yet; after a loss it is another one.
func (s *subscribed) client() pulsar.Consumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer
}

// ask asks the broker for entries that the client has dropped.
func (s *subscribed) ask(ids []pulsar.MessageID) {
	if consumer := s.client(); consumer != nil {
		for _, id := range ids {
			consumer.NackID(id)
		}
	}
}

func newFeed(ctx context.Context, c *Client, o ConsumerOptions) (*feed, error) {
	running, stop := context.WithCancel(context.Background())
	f := &feed{
		client: c, options: o, messages: make(chan pulsar.ConsumerMessage, receiveBuffer), lost: make(chan error, 1),
		busy: make(chan *subscribed), stop: stop, watching: make(chan struct{}), sources: map[string]*subscribed{},
	}
	if o.Name == "" { // the broker of a Failover subscription spreads partitions by it: all have the same
		f.options.Name = fmt.Sprintf("pulsarx-%08x", rand.Uint32())
	}
	var err error
	if o.TopicPattern != "" {
		f.pattern, err = parsePattern(o.TopicPattern, o)
	}
	if err == nil {
		_, err = again(ctx, c, func() (struct{}, error) { return struct{}{}, f.discover(ctx, o.InitialPosition) })
	}
	if err != nil {
		stop()
		close(f.watching)
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		_ = f.close(closing)
		return nil, err
	}
	go f.watch(running)
	return f, nil
}

// watch looks for new partitions and topics until ctx ends. They are read from their beginning: what is in them is newer than the
// subscription.
func (f *feed) watch(ctx context.Context) {
	defer close(f.watching)
	wait, failures := f.options.Discovery, 0
	for {
		select {
		case <-time.After(wait):
		case s := <-f.busy:
			go f.again(ctx, s)
			continue
		case <-ctx.Done():
			return
		}
		if wait = f.options.Discovery; ctx.Err() != nil {
			return
		}
		if err := f.discover(ctx, FromEarliest); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			wait = min(discoverRetry<<min(failures, 10), wait)
			failures++
			f.client.tel.discoveryFailures.Add(ctx, 1)
			if log := f.client.options.Logger; log != nil {
				log.WarnContext(ctx, "pulsarx: looking for new partitions and topics failed; it is tried again",
					"subscription", f.options.Subscription, "error", err)
			}
		}
	}
}

// discover subscribes to partitions that are not subscribed to yet. All that can be are, whatever happens to others.
func (f *feed) discover(ctx context.Context, from InitialPosition) error {
	topics, err := f.topics(ctx)
	if err != nil {
		return err
	}
	var names []string
	var errs []error
	found := map[string]bool{} // Topics may name a partition beside its topic
	for _, topic := range topics {
		partitions, err := f.client.partitions(ctx, topic)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range partitions {
			if !found[name] && f.missing(name) {
				found[name] = true
				names = append(names, name)
			}
		}
	}
	queue := max(min(f.options.ReceiverQueue, maxPrefetch/max(len(names)+len(f.all()), 1)), 1)
	results, places := make(chan error, len(names)), make(chan struct{}, maxSubscribing)
	for _, name := range names {
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			s := f.add(name, queue) // a message may come before the client says that it has subscribed
			err := f.subscribe(ctx, s, from)
			if err != nil {
				f.leave(s)
			}
			results <- err
		}()
	}
	for range names {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return joined(errs)
	}
	return nil
}

func (f *feed) topics(ctx context.Context) ([]string, error) {
	if f.pattern != nil {
		return f.pattern.list(ctx, f.client)
	}
	topics := make([]string, 0, len(f.options.Topics))
	seen := map[string]bool{}
	for _, topic := range f.options.Topics {
		if topic = fullTopic(topic); !seen[topic] {
			seen[topic] = true
			topics = append(topics, topic)
		}
	}
	return topics, nil
}

func (f *feed) subscribe(ctx context.Context, s *subscribed, from InitialPosition) error {
	o := f.options
	options := pulsar.ConsumerOptions{
		Topic:                          s.name,
		SubscriptionName:               o.Subscription,
		Name:                           o.Name,
		Type:                           subscriptionTypes[o.Type],
		SubscriptionInitialPosition:    initialPositions[from],
		SubscriptionProperties:         o.SubscriptionProperties,
		Properties:                     o.Properties,
		PriorityLevel:                  o.PriorityLevel,
		ReadCompacted:                  o.ReadCompacted,
		ReplicateSubscriptionState:     o.Replicated,
		Decryption:                     f.client.decryption(),
		ReceiverQueueSize:              s.queue + int(s.more.Load()),
		MessageChannel:                 f.messages,
		Interceptors:                   pulsar.ConsumerInterceptors{watch{f, s}},
		AutoDiscoveryPeriod:            100 * 365 * 24 * time.Hour, // a partition has none
		NackRedeliveryDelay:            10 * time.Millisecond,      // for missing messages alone
		NackPrecisionBit:               new(int64),
		AckWithResponse:                true, // so that a lost acknowledgement is noticed
		EnableBatchIndexAcknowledgment: true, // without it the client drops some acknowledgements after a redelivery
	}
	what := fmt.Sprintf("consumer of %s as %s", s.name, o.Subscription)
	consumer, err := open(ctx, f.client, what,
		func() (pulsar.Consumer, error) { return f.client.pulsar.Subscribe(options) }, pulsar.Consumer.Close)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.consumer = consumer
	s.mu.Unlock()
	return nil
}

// source returns what is subscribed to of a name, or was, nil where nothing is.
func (f *feed) source(name string) *subscribed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sources[name]
}

// missing reports whether a partition is to be subscribed to.
func (f *feed) missing(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sources[name]
	return s == nil || s.gone
}

func (f *feed) all() []*subscribed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.sources))
}

func (f *feed) add(name string, queue int) *subscribed {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sources[name]
	if s == nil {
		s = &subscribed{name: name, queue: queue}
		f.sources[name] = s
	}
	s.gone = false
	return s
}

func (f *feed) leave(s *subscribed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.gone = true
}

// watch learns what the client reads from its connections, and that it has given a consumer up.
type watch struct {
	feed *feed
	s    *subscribed
}

func (w watch) BeforeConsume(m pulsar.ConsumerMessage) {
	w.s.arrivals.push(m.ID(), 3*(w.s.queue+int(w.s.more.Load()))+receiveBuffer)
}
func (watch) OnAcknowledge(pulsar.Consumer, pulsar.MessageID)        {}
func (watch) OnNegativeAcksSend(pulsar.Consumer, []pulsar.MessageID) {}

func (w watch) OnConsumerClose(_ pulsar.Consumer, err error) {
	if err != nil {
		w.feed.gone(w.s, err)
	}
}

// gone says that the client has given a partition up. One that is only busy is waited for: the broker may not have noticed yet that
// the connection broke which this very consumer had. A topic of a pattern may be deleted. Else it is the end of Run.
func (f *feed) gone(s *subscribed, err error) {
	switch text := err.Error(); {
	case strings.Contains(text, "ConsumerBusy"):
		select {
		case f.busy <- s:
		case <-f.watching:
		}
	case f.pattern != nil && strings.Contains(text, "TopicNotFound"):
		f.leave(s)
	default:
		f.lose(err)
	}
}

func (f *feed) lose(err error) {
	select {
	case f.lost <- err:
	default:
	}
}

// renew leaves a partition and subscribes to it anew, with a larger prefetch: what is held of it comes again, and is recognised.
func (f *feed) renew(s *subscribed, more int) {
	s.more.Store(int32(min(more, maxPrefetch)))
	s.mu.Lock()
	old := s.consumer
	s.consumer = nil
	s.mu.Unlock()
	if old == nil {
		return
	}
	f.renewing.Go(func() {
		old.Close()
		select {
		case f.busy <- s:
		case <-f.watching:
		}
	})
}

// again subscribes anew to a partition that was busy or is renewed.
func (f *feed) again(ctx context.Context, s *subscribed) {
	patience, cancel := context.WithTimeout(ctx, busyPatience)
	defer cancel()
	for wait := discoverRetry / 10; ; wait = min(2*wait, busyPatience/10) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		err := f.subscribe(patience, s, FromEarliest)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case patience.Err() != nil, !strings.Contains(err.Error(), "ConsumerBusy"):
			f.lose(err)
			return
		}
	}
}

// close leaves the subscription.
func (f *feed) close(ctx context.Context) error {
	f.stop()
	done := make(chan struct{})
	go func() { // the client's close waits for a dispatcher that waits for this channel
		for {
			select {
			case <-f.messages:
			case <-done:
				return
			}
		}
	}()
	return bounded(ctx, "closing the consumer "+f.options.Subscription, func() {
		<-f.watching
		var closing sync.WaitGroup
		for _, s := range f.all() {
			if consumer := s.client(); consumer != nil {
				closing.Go(consumer.Close)
			}
		}
		closing.Wait()
		f.renewing.Wait()
		close(done)
	})
}
