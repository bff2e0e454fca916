package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	maxBurials  = 64 // at once
	quietLook   = 500 * time.Millisecond
	quietLooks  = 3           // in a row, at none of which anything was heard: of a process that stands still, one is in vain
	handlerTime = time.Second // for a handler to return after its context has ended
	drainBurst  = 256         // messages received before work is handed out
)

// run is one Run. Its loop owns everything but what it sends over channels: a batch belongs to the worker that has it, a message
// to its burial.
type run[T any] struct {
	c          *Consumer[T]
	handler    Handler[T]
	s          *scheduler
	tel        *telemetry
	topic      string
	spans      batchSpans
	attrs      metric.MeasurementOption
	received   metric.MeasurementOption // attrs, and the operation
	processed  metric.MeasurementOption
	recorded   []metric.RecordOption // attrs, for what is recorded message by message
	partitions map[string]*partition
	latest     *partition                   // that a message came from
	keys       map[string]map[string]*queue // of the topics

	work    chan work
	results chan work // with their verdicts
	burials chan burial
	acks    chan ackRequest
	ended   chan struct{} // the loop has returned: nobody reads results

	held                     int // messages received and not acknowledged, but those that are parked
	running, burying, acking int
	acksDue                  time.Time // when what is done is acknowledged, zero where nothing is
	draining                 bool
}

type burial struct {
	it  *item
	err error
}

func newRun[T any](c *Consumer[T], h Handler[T]) *run[T] {
	names := make([]string, len(c.options.Topics))
	for i, topic := range c.options.Topics {
		names[i] = fullTopic(topic)
	}
	topic := cmp.Or(strings.Join(names, ","), fullTopic(c.options.TopicPattern))
	tel := c.client.tel
	attrs := metric.WithAttributeSet(tel.where(topic, c.options.Subscription))
	return &run[T]{
		c: c, handler: h, s: newScheduler(c.options, rand.Float64), tel: tel, topic: topic,
		spans:      newBatchSpans(tel, topic, c.options.Subscription),
		attrs:      attrs,
		received:   metric.WithAttributeSet(tel.where(topic, c.options.Subscription, operation("receive")...)),
		processed:  metric.WithAttributeSet(tel.where(topic, c.options.Subscription, operation("process")...)),
		recorded:   []metric.RecordOption{attrs},
		partitions: map[string]*partition{},
		keys:       map[string]map[string]*queue{},
		work:       make(chan work, c.options.Workers),
		results:    make(chan work, c.options.Workers),
		burials:    make(chan burial),
		acks:       make(chan ackRequest),
		ended:      make(chan struct{}),
	}
}

// loop is Run.
func (r *run[T]) loop(ctx context.Context) error {
	defer close(r.ended)
	handling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for range r.c.options.Workers {
		go r.worker(handling)
	}
	defer close(r.work)
	lost := r.flow(ctx, handling)
	drained := r.drain(cancel)
	leaving, done := steady(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	settled := r.settle(leaving)
	r.tel.inFlight.Add(handling, -int64(r.held), r.attrs)
	return errors.Join(lost, drained, settled, r.c.leave(leaving))
}

// flow receives and hands out until ctx ends, which is nil, or the client gives the consumer up.
func (r *run[T]) flow(ctx, handling context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	look := time.NewTimer(quietLook)
	defer look.Stop()
	silent := 0
	for ctx.Err() == nil { // or a result that comes with its end might be followed by more work
		messages, wake := r.next(handling)
		if messages == nil {
			silent = 0
		}
		timer.Reset(wake)
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.c.feed.lost:
			return fmt.Errorf("pulsarx: the consumer of %s as %s was closed: %w", r.topic, r.c.options.Subscription, err)
		case m := <-messages:
			silent = 0
			r.receive(m.Message)
		case <-timer.C:
			if !r.acksDue.IsZero() && !time.Now().Before(r.acksDue) {
				r.sendAllAcks()
			}
		case <-look.C:
			if r.c.client.isClosed() { // a pattern may have no topic that says so, and who is paused holds up the Close
				r.c.feed.lose(ErrClosed)
			}
			silent++
			r.watchGaps(silent < quietLooks)
			r.unlock(time.Now())
			look.Reset(quietLook)
		case w := <-r.results:
			r.finish(w)
		case b := <-r.burials:
			r.finishBurial(b)
		case a := <-r.acks:
			r.finishAck(a)
		case <-r.c.pauses.changed:
		}
	}
	return nil
}

// next hands out what is due. It returns where messages come from, nil while none are received, and in how long there is more to do
// without another event.
func (r *run[T]) next(handling context.Context) (messages <-chan pulsar.ConsumerMessage, wake time.Duration) {
	wake = time.Hour
	paused := r.c.pauses.paused(r.running == 0 && r.burying == 0 && r.acking == 0 && r.acksDue.IsZero())
	if !paused {
		wake = r.dispatch(handling)
	}
	if paused || r.full() {
		if !r.acksDue.IsZero() {
			r.sendAllAcks()
		}
	} else {
		messages = r.c.feed.messages
	}
	if !r.acksDue.IsZero() {
		wake = min(wake, max(time.Until(r.acksDue), 0))
	}
	return messages, wake
}

// full reports whether the flow stops.
func (r *run[T]) full() bool { return r.held >= r.c.options.MaxInFlight }

// dispatch hands out all work that is due, and returns in how long there is more without another event.
func (r *run[T]) dispatch(handling context.Context) time.Duration {
	for {
		now := time.Now()
		w, wake, ok := r.s.next(now, r.running < r.c.options.Workers, r.burying < maxBurials)
		switch {
		case !ok && wake.IsZero():
			return time.Hour
		case !ok:
			return max(wake.Sub(now), 0)
		case w.bury != nil:
			r.burying++
			go r.bury(handling, w.bury)
		default:
			r.running++
			r.work <- w // has a place for each worker
		}
	}
}

// receive takes a message and those that are there behind it.
func (r *run[T]) receive(m pulsar.Message) {
	now, received := time.Now(), int64(0)
	before := r.held
	for more := true; more; {
		received++
		r.take(m, now)
		if received == drainBurst || r.full() {
			break
		}
		select {
		case next := <-r.c.feed.messages:
			m = next.Message
		default:
			more = false
		}
	}
	ctx := context.Background()
	r.tel.consumed.Add(ctx, received, r.received)
	r.tel.inFlight.Add(ctx, int64(r.held-before), r.attrs)
}

func (r *run[T]) take(m pulsar.Message, now time.Time) {
	p := r.partition(m.Topic())
	if why := r.c.client.undecrypted(m); why != nil {
		r.lock(p, m, why, now)
		return
	}
	it, fresh, lost := p.receive(m, now)
	p.gaps.miss(lost, now)
	if !fresh {
		r.tel.redelivered.Add(context.Background(), 1, r.attrs)
		r.sendAcks(p, false)
	}
	if len(p.gaps.missing) == 0 && len(p.gaps.parked) == 0 {
		if fresh {
			r.add(it)
		}
		return
	}
	free := p.gaps.pass(it, fresh)
	if len(p.gaps.parked) > r.c.options.MaxInFlight { // no more room to wait in: the missing ones lose their place
		p.source.ask(p.gaps.giveUp())
		free = append(free, p.gaps.release()...)
	}
	for _, it := range free {
		r.add(it)
	}
}

// add gives a message to the scheduler.
func (r *run[T]) add(it *item) {
	r.held++
	if r.c.options.ReadCompacted && emptied(it.msg) { // there is nothing to handle
		r.acknowledge(it)
		return
	}
	p := it.partition
	switch key := it.msg.Key(); {
	case key != "":
		it.queue = r.s.queue(p.keys, key)
	case r.c.options.Type == Shared:
		it.queue = r.s.queue(nil, "")
	default:
		it.queue = r.s.queue(p.own, "")
	}
	r.s.add(it)
}

// watchGaps asks the broker for messages that are missing. Where nothing has been heard for a while, what the client has read and
// not handed over is missing too.
func (r *run[T]) watchGaps(heard bool) {
	now := time.Now()
	before := r.held
	if !heard {
		for _, source := range r.c.feed.all() {
			p := r.partition(source.name)
			p.gaps.miss(p.idle(), now)
		}
	}
	for _, p := range r.partitions {
		if len(p.gaps.missing) == 0 {
			continue
		}
		p.source.ask(p.gaps.overdue(now))
		for _, it := range p.gaps.release() {
			r.add(it)
		}
	}
	r.tel.inFlight.Add(context.Background(), int64(r.held-before), r.attrs)
}

// partition returns the one value for a name.
func (r *run[T]) partition(name string) *partition {
	if r.latest != nil && r.latest.name == name {
		return r.latest
	}
	p := r.partitions[name]
	if p == nil {
		p = parsePartition(name)
		p.source = r.c.feed.source(name)
		p.window = uint64(r.c.options.ReceiverQueue + receiveBuffer)
		p.entries, p.own = map[entryKey]*entry{}, map[string]*queue{}
		if p.keys = r.keys[p.topic]; p.keys == nil {
			p.keys = map[string]*queue{}
			r.keys[p.topic] = p.keys
		}
		r.partitions[name] = p
	}
	r.latest = p
	return p
}

func (r *run[T]) finish(w work) {
	r.running--
	done, retried := r.s.finish(time.Now(), w)
	ctx := context.Background()
	if retried > 0 {
		r.tel.retries.Add(ctx, int64(retried), r.attrs)
	}
	if r.tel.delay.Enabled(ctx) {
		for _, it := range done {
			r.tel.delay.Record(ctx, since(it.msg.PublishTime()), r.recorded...)
		}
	}
	r.acknowledge(done...)
}

func (r *run[T]) finishBurial(b burial) {
	r.burying--
	r.s.buried(time.Now(), b.it, b.err)
	if b.err != nil {
		r.tel.buryFailures.Add(context.Background(), 1, r.attrs)
		return
	}
	if log := r.c.client.options.Logger; log != nil {
		id := b.it.msg.ID()
		log.Warn("pulsarx: dead letter", "topic", b.it.partition.name, "subscription", r.c.options.Subscription,
			"message_id", fmt.Sprintf("%d:%d:%d", id.LedgerID(), id.EntryID(), id.BatchIdx()),
			"reason", b.it.grave.reason, "attempts", b.it.attempts)
	}
	r.tel.deadLetters.Add(context.Background(), 1, r.attrs,
		metric.WithAttributes(attribute.String("pulsarx.dead_letter.reason", b.it.grave.reason)))
	r.acknowledge(b.it)
}

// bury writes a dead letter. It takes the time it needs and no worker.
func (r *run[T]) bury(ctx context.Context, it *item) {
	err := r.c.letters.bury(ctx, it)
	select {
	case r.burials <- burial{it, err}:
	case <-r.ended:
	}
}

// drain waits for what runs.
func (r *run[T]) drain(cancel context.CancelFunc) error {
	timer := time.NewTimer(r.c.options.DrainTimeout)
	defer timer.Stop()
	const parts = 10 // of handlerTime, as of steady
	passed := 0
	for r.running > 0 || r.burying > 0 {
		select {
		case w := <-r.results:
			r.finish(w)
		case b := <-r.burials:
			r.finishBurial(b)
		case a := <-r.acks:
			r.finishAck(a)
		case <-timer.C:
			if passed == parts {
				return ErrDrainTimeout
			}
			passed++
			cancel()
			timer.Reset(handlerTime / parts)
		}
	}
	return nil
}

// settle waits for the acknowledgements of what has run.
func (r *run[T]) settle(ctx context.Context) error {
	r.draining = true
	r.sendAllAcks()
	for r.acking > 0 {
		select {
		case a := <-r.acks:
			r.finishAck(a)
		case <-ctx.Done():
			return fmt.Errorf("pulsarx: %s: the last acknowledgements were not answered; their messages come again", r.topic)
		}
	}
	return nil
}
