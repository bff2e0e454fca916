package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/metric"
)

// answer is what the client says of a message. It waits for deliver, since whoever reads the connection would spend more time on
// fetching the delivery from the sender's cache than on everything else.
type answer struct {
	*delivery
	id  MessageID
	err error
	at  time.Duration
}

// arrived notes what an answer of the client says of its producer.
func (p *Producer[T]) arrived(l *line, d *delivery, err error, now time.Duration) {
	switch {
	case err == nil:
		l.heard.Store(int64(now))
	case errors.Is(err, pulsar.ErrProducerClosed):
		l.replace(d.producer)
	}
	p.offerRoom()
}

// offerRoom wakes one of those who wait for a place.
func (p *Producer[T]) offerRoom() {
	if p.waiters.Load() > 0 {
		select {
		case p.room <- struct{}{}:
		default:
		}
	}
}

// settleSend gives the message of a Send its outcome, unless it has one.
func (p *Producer[T]) settleSend(a answer) {
	if a.settle(theAnswer, a.id, p.sendError(a.err), a.at) {
		p.unlink(a.delivery)
		close(a.answered)
	}
}

// leave leaves an answer to deliver, and returns when it came.
func (p *Producer[T]) leave(d *delivery, id MessageID, err error) time.Duration {
	p.answering.Lock()
	if id == nil || id.BatchIdx() <= 0 { // with the first message of a batch come the others
		p.receipt = clock()
	}
	at := p.receipt
	p.answers = append(p.answers, answer{d, id, err, at})
	first := len(p.answers) == 1
	p.answering.Unlock()
	if first { // or deliver has been told
		p.notify()
	}
	return at
}

// settleAnswers makes outcomes of the answers that have come. p.mu is held.
func (p *Producer[T]) settleAnswers() {
	p.answering.Lock()
	answers := p.answers
	p.answers, p.spare = p.spare, nil
	p.answering.Unlock()
	for _, a := range answers {
		if a.settle(theAnswer, a.id, p.sendError(a.err), a.at) {
			a.unlink()
			p.settled = append(p.settled, a.delivery)
		}
	}
	clear(answers)
	if cap(answers) <= maxSpare {
		p.spare = answers[:0]
	}
}

// unlink takes the delivery of a Send out of the ring.
func (p *Producer[T]) unlink(d *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.unlink()
	if len(p.flushes) > 0 {
		p.notify()
	}
}

// refuse gives a message that is not sent its outcome.
func (p *Producer[T]) refuse(callback func(MessageID, error), err error) {
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.settled = append(p.settled, &delivery{callback: callback, err: err})
	}
	p.mu.Unlock()
	switch {
	case !ended:
		p.notify()
	case callback != nil:
		callback(nil, err)
	}
}

func (p *Producer[T]) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// failPending gives the deliveries that are due the outcome err.
func (p *Producer[T]) failPending(due func(*delivery) bool, err error) {
	err = p.sendError(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleAnswers()
	now := clock()
	for d := p.pending.next; d != &p.pending; {
		next := d.next
		if due(d) && d.settle(theSweep, nil, err, now) {
			d.unlink()
			if d.fail != nil {
				d.fail(err)
			}
			p.settled = append(p.settled, d)
		}
		d = next
	}
	p.notify()
}

// deliver calls callbacks until Close is done, and fails what has been on its way for too long, which includes what the client
// has forgotten: some of its paths drop a message without calling back.
func (p *Producer[T]) deliver() {
	defer close(p.done)
	sweep := time.NewTicker(min(max(p.options.SendTimeout/8, time.Millisecond), maxSweep))
	defer sweep.Stop()
	var spare []*delivery
	for {
		select {
		case <-p.wake:
		case <-sweep.C:
			p.sweep()
		}
		p.mu.Lock()
		p.settleAnswers()
		settled, ended := p.settled, p.ended
		p.settled = spare
		p.mu.Unlock()
		for _, d := range settled {
			p.record(context.Background(), d)
			if d.callback != nil {
				d.callback(d.id, d.err)
			}
		}
		p.finishFlushes(settled)
		p.reuse(settled)
		if ended && len(settled) == 0 {
			return
		}
		if ended {
			p.notify()
		}
		clear(settled)
		if spare = settled[:0]; cap(spare) > maxSpare {
			spare = nil
		}
	}
}

// maxSpare bounds the answers and outcomes that a producer keeps room for.
const maxSpare = 4096

// maxSweep is how long a silent line goes unnoticed at most, however long SendTimeout is.
const maxSweep = 2 * time.Second

// sweep fails what is overdue, and looks into lines that are silent.
func (p *Producer[T]) sweep() {
	now := clock()
	suspicious := min(p.options.SendTimeout/4, 5*time.Second)
	p.mu.Lock()
	p.settleAnswers()
	if d := p.pending.next; d != &p.pending && now-d.start >= suspicious {
		d.line.suspect(d.start, now-d.start >= p.options.SendTimeout)
	}
	idle := p.last == p.swept
	p.swept = p.last
	lines := []*line{p.main}
	if p.single != nil && p.single != p.main {
		lines = append(lines, p.single)
	}
	p.mu.Unlock()
	p.failPending(func(d *delivery) bool { return now-d.start >= p.options.SendTimeout }, ErrSendTimeout)
	for _, l := range lines {
		l.check()
	}
	if idle {
		p.forget()
	}
}

func (p *Producer[T]) record(ctx context.Context, d *delivery) {
	if d.span != nil {
		endSend(d.span, d.id, d.err)
	}
	recorded, added := p.recorded, p.added
	if d.err != nil {
		failed := failure(d.err)
		recorded, added = []metric.RecordOption{p.attrs, failed}, []metric.AddOption{p.attrs, failed}
	}
	p.client.tel.sendTime.Record(ctx, d.took.Seconds(), recorded...)
	p.client.tel.sent.Add(ctx, 1, added...)
	if d.dropped() && nonPersistent(p.options.Topic) {
		p.client.tel.dropped.Add(ctx, 1, p.added...)
	}
}

// dropped tells whether the broker has confirmed a message that it did not keep.
func (d *delivery) dropped() bool { return d.err == nil && d.id != nil && d.id.LedgerID() < 0 }

// sendError gives the client's errors this package's names.
func (p *Producer[T]) sendError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pulsar.ErrTopicTerminated):
		err = fmt.Errorf("%w: %w", ErrTopicTerminated, err)
	case errors.Is(err, pulsar.ErrMessageTooLarge), errors.Is(err, pulsar.ErrMetaTooLarge):
		err = fmt.Errorf("%w: %w", ErrMessageTooLarge, err)
	}
	return fmt.Errorf("pulsarx: send to %s: %w", p.options.Topic, err)
}

// errorType is the low-cardinality name of an error for error.type.
func errorType(err error) string {
	for _, e := range []struct {
		err  error
		name string
	}{
		{ErrSendTimeout, "timeout"},
		{context.DeadlineExceeded, "timeout"},
		{ErrClosed, "closed"},
		{context.Canceled, "canceled"},
		{ErrQueueFull, "queue_full"},
		{ErrMessageTooLarge, "message_too_large"},
		{ErrTopicTerminated, "topic_terminated"},
	} {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return "_OTHER"
}
