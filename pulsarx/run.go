package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	maxBurials  = 64 // at once
	quietAfter  = time.Second
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
	topic      string // for spans
	attrs      metric.MeasurementOption
	recorded   []metric.RecordOption // attrs, for what is recorded message by message
	partitions map[string]*partition
	unordered  uint64
	ackers     map[*partition]*acker

	work    chan []*item
	results chan result
	burials chan burial
	acks    chan ackResult
	ended   chan struct{} // the loop has returned: nobody reads results

	running, burying, acking int
}

type result struct {
	batch    []*item
	verdicts []verdict
}

type burial struct {
	it  *item
	err error
}

func newRun[T any](c *Consumer[T], h Handler[T]) *run[T] {
	topic := strings.Join(c.options.Topics, ",")
	attrs := metric.WithAttributeSet(where(topic, c.options.Subscription))
	return &run[T]{
		c: c, handler: h, s: newScheduler(c.options, rand.Float64), tel: c.client.tel, topic: topic,
		attrs:      attrs,
		recorded:   []metric.RecordOption{attrs},
		partitions: map[string]*partition{},
		ackers:     map[*partition]*acker{},
		work:       make(chan []*item, c.options.Workers),
		results:    make(chan result, c.options.Workers),
		burials:    make(chan burial),
		acks:       make(chan ackResult),
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
	r.tel.inFlight.Add(handling, -int64(len(r.s.held)), r.attrs)
	leaving, done := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer done()
	return errors.Join(lost, drained, r.c.leave(leaving))
}

// flow receives and hands out until ctx ends, which is nil, or the client gives the consumer up.
func (r *run[T]) flow(ctx, handling context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	quiet := time.NewTicker(quietAfter)
	defer quiet.Stop()
	heard := true
	for {
		wake := r.dispatch(handling)
		var messages <-chan pulsar.ConsumerMessage
		if len(r.s.held) < r.c.options.MaxInFlight {
			messages = r.c.messages
		} else {
			heard = true
		}
		timer.Reset(wake)
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.c.lost:
			return fmt.Errorf("pulsarx: the consumer of %s as %s was closed: %w", r.topic, r.c.options.Subscription, err)
		case m := <-messages:
			heard = true
			r.receive(m.Message)
		case <-timer.C:
		case <-quiet.C:
			r.watchGaps(heard)
			heard = false
		case res := <-r.results:
			r.finish(res)
		case b := <-r.burials:
			r.finishBurial(b)
		case a := <-r.acks:
			r.finishAck(a)
		}
	}
}

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
			r.work <- w.batch // has a place for each worker
		}
	}
}

// receive takes a message and those that are there behind it.
func (r *run[T]) receive(m pulsar.Message) {
	now, received := time.Now(), int64(0)
	before := len(r.s.held)
	for more := true; more; {
		received++
		r.take(m, now)
		if received == drainBurst || len(r.s.held) >= r.c.options.MaxInFlight {
			break
		}
		select {
		case next := <-r.c.messages:
			m = next.Message
		default:
			more = false
		}
	}
	ctx := context.Background()
	r.tel.consumed.Add(ctx, received, r.attrs)
	r.tel.inFlight.Add(ctx, int64(len(r.s.held)-before), r.attrs)
}

func (r *run[T]) take(m pulsar.Message, now time.Time) {
	p, id := r.partition(m.Topic()), m.ID()
	copied, dropped := r.c.arrivals.pop(p.name, id)
	r.miss(p, dropped, now)
	it := &item{msg: m, ackID: id, copy: copied, arrived: now, queue: r.queueOf(p, m.Key()), id: keyOf(p, id)}
	if len(p.gaps.missing) == 0 {
		r.add(it)
		return
	}
	free := p.gaps.pass(it)
	if len(p.gaps.parked) > r.c.options.MaxInFlight { // no more room to wait in: the missing ones lose their place
		for _, id := range p.gaps.giveUp() {
			r.c.consumer.NackID(id)
		}
		free = append(free, p.gaps.release()...)
	}
	for _, it := range free {
		r.add(it)
	}
}

func keyOf(p *partition, id pulsar.MessageID) messageKey {
	return messageKey{p, id.LedgerID(), id.EntryID(), id.BatchIdx()}
}

// add gives a message to the scheduler.
func (r *run[T]) add(it *item) {
	known := r.s.add(it)
	if known == nil {
		return
	}
	r.tel.redelivered.Add(context.Background(), 1, r.attrs)
	known.ackID, known.copy = it.ackID, it.copy
	if known == it {
		r.acknowledge(it)
	}
}

// miss takes down messages that the client has read and dropped.
func (r *run[T]) miss(p *partition, dropped []arrival, now time.Time) {
	for _, d := range dropped {
		if key := keyOf(p, d.id); !r.s.knows(key) {
			p.gaps.miss(key, d.id, now)
		}
	}
}

// watchGaps asks the broker for messages that are missing. Where nothing has been heard for a while, what the client has read and
// not handed over is missing too.
func (r *run[T]) watchGaps(heard bool) {
	now := time.Now()
	if !heard {
		for name, dropped := range r.c.arrivals.rest() {
			r.miss(r.partition(name), dropped, now)
		}
		r.s.quiet()
	}
	before := len(r.s.held)
	for _, p := range r.partitions {
		if len(p.gaps.missing) == 0 {
			continue
		}
		for _, id := range p.gaps.overdue(now) {
			r.c.consumer.NackID(id)
		}
		for _, it := range p.gaps.release() {
			r.add(it)
		}
	}
	r.tel.inFlight.Add(context.Background(), int64(len(r.s.held)-before), r.attrs)
}

// partition returns the one value for a name.
func (r *run[T]) partition(name string) *partition {
	p := r.partitions[name]
	if p == nil {
		p = parsePartition(name)
		r.partitions[name] = p
	}
	return p
}

func parsePartition(name string) *partition {
	p := &partition{name: name, topic: name}
	if at := strings.LastIndex(name, "-partition-"); at >= 0 {
		if n, err := strconv.Atoi(name[at+len("-partition-"):]); err == nil && n >= 0 {
			p.topic, p.index = name[:at], n
		}
	}
	return p
}

func (r *run[T]) queueOf(p *partition, key string) queueKey {
	switch {
	case key != "":
		return queueKey{topic: p.topic, key: key}
	case r.c.options.Type == Shared:
		r.unordered++
		return queueKey{unordered: r.unordered}
	}
	return queueKey{topic: p.name, keyless: true}
}

func (r *run[T]) finish(res result) {
	r.running--
	done, retried := r.s.finish(time.Now(), res.batch, res.verdicts)
	ctx := context.Background()
	if retried > 0 {
		r.tel.retries.Add(ctx, int64(retried), r.attrs)
	}
	for _, it := range done {
		r.tel.delay.Record(ctx, since(it.msg.PublishTime()), r.recorded...)
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

// drain waits for what runs, and for the acknowledgements of what has run.
func (r *run[T]) drain(cancel context.CancelFunc) error {
	timer := time.NewTimer(r.c.options.DrainTimeout)
	defer timer.Stop()
	cancelled := false
	for r.running > 0 || r.burying > 0 {
		select {
		case res := <-r.results:
			r.finish(res)
		case b := <-r.burials:
			r.finishBurial(b)
		case a := <-r.acks:
			r.finishAck(a)
		case <-timer.C:
			if cancelled {
				return ErrDrainTimeout
			}
			cancelled = true
			cancel()
			timer.Reset(handlerTime)
		}
	}
	timer.Reset(ackTimeout)
	for r.acking > 0 {
		select {
		case a := <-r.acks:
			r.finishAck(a)
		case <-timer.C:
			return fmt.Errorf("pulsarx: %s: the last acknowledgements were not answered; their messages come again", r.topic)
		}
	}
	return nil
}
