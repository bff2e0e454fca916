package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/metric"
)

// answer is what the client says of a message. It waits for deliver, since whoever reads the connection would spend more time on
// fetching the delivery from the sender's cache than on everything else.
type answer struct {
	*delivery
	id      MessageID
	err     error
	at      time.Duration
	outcome bool // the delivery had none before
	again   bool // nobody has the delivery any more
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
func (p *Producer[T]) settleSend(a answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settle(a.delivery) {
		return false
	}
	p.over(a.delivery, nil)
	a.outcome = true
	a.sync.outcome = a
	close(a.sync.answered)
	return true
}

// settle takes a delivery out of what is pending, where it is: that is the one time that it gets an outcome. p.mu is held.
func (p *Producer[T]) settle(d *delivery) bool {
	if !d.open {
		return false
	}
	d.open = false
	p.pending[d.slot] = nil
	p.slots = append(p.slots, d.slot)
	return true
}

// leave leaves an answer to deliver, and returns when it came.
func (p *Producer[T]) leave(d *delivery, id MessageID, err error) time.Duration {
	p.answering.Lock()
	if id == nil || id.BatchIdx() <= 0 { // with the first message of a batch come the others
		p.receipt = clock()
	}
	at := p.receipt
	p.answers = append(p.answers, answer{delivery: d, id: id, err: err, at: at})
	first := len(p.answers) == 1
	p.answering.Unlock()
	if first { // or deliver has been told
		p.notify()
	}
	return at
}

// answered takes the answers that have come, and leaves room for others.
func (p *Producer[T]) answered(room []answer) []answer {
	p.answering.Lock()
	answers := p.answers
	p.answers = room
	p.answering.Unlock()
	for i := range answers { // asks the other processor for all of them before the first is waited for
		answers[i].again = answers[i].reusable()
	}
	return answers
}

// settleAll makes outcomes of the answers to what is pending. p.mu is held.
func (p *Producer[T]) settleAll(answers []answer) {
	for i := range answers {
		a := &answers[i]
		if a.outcome = p.settle(a.delivery); a.err != nil {
			a.err = p.sendError(a.err)
		}
	}
}

// refuse gives a message that is not sent its outcome.
func (p *Producer[T]) refuse(callback func(MessageID, error), err error) {
	p.mu.Lock()
	ended := p.ended
	if !ended {
		p.last++
		p.left++
		p.settled = append(p.settled, answer{delivery: &delivery{
			callback: callback, number: p.last, measured: p.client.tel.sendTime.Enabled(context.Background()),
		}, err: err, outcome: true})
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
	p.settling.Lock()
	defer p.settling.Unlock()
	answers := p.answered(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleAll(answers)
	p.settled = append(p.settled, answers...)
	var failed []*delivery
	for _, d := range p.pending {
		if d != nil && due(d) {
			failed = append(failed, d)
		}
	}
	slices.SortFunc(failed, func(a, b *delivery) int { return cmp.Compare(a.number, b.number) })
	now := clock()
	for _, d := range failed {
		p.settle(d)
		if d.sync != nil {
			d.sync.fail(err)
		}
		p.settled = append(p.settled, answer{delivery: d, err: err, at: now, outcome: true})
	}
	p.notify()
}

// deliver calls callbacks until Close is done, and fails what has been on its way for too long, which includes what the client
// has forgotten: some of its paths drop a message without calling back.
func (p *Producer[T]) deliver() {
	defer close(p.done)
	sweep := time.NewTicker(min(max(p.options.SendTimeout/8, time.Millisecond), maxSweep))
	defer sweep.Stop()
	var spare []answer
	for {
		select {
		case <-p.wake:
		case <-sweep.C:
			p.sweep()
		}
		p.settling.Lock()
		answers := p.answered(spare)
		p.mu.Lock()
		settled, ended := p.settled, p.ended
		p.settled = nil
		p.settleAll(answers)
		p.mu.Unlock()
		p.settling.Unlock()
		p.report(settled)
		p.report(answers)
		if ended && len(settled)+len(answers) == 0 {
			return
		}
		if ended {
			p.notify()
		}
		clear(answers)
		if spare = answers[:0]; cap(spare) > maxSpare {
			spare = nil
		}
	}
}

// report records outcomes, calls their callbacks, and lets Flush go on.
func (p *Producer[T]) report(outcomes []answer) {
	if len(outcomes) == 0 {
		return
	}
	p.recordSent(outcomes)
	for i := range outcomes {
		if a := &outcomes[i]; a.outcome {
			p.record(context.Background(), a)
			if a.callback != nil {
				a.callback(a.id, a.err)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range outcomes {
		if a := &outcomes[i]; a.outcome {
			p.over(a.delivery, a.err)
			if a.again {
				p.reuse(a.delivery)
			}
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
	p.untraced.Store(false)
	p.mu.Lock()
	for _, d := range p.pending {
		switch {
		case d == nil:
		case d.start == 0:
			d.start = now
		case d.waited(now) >= suspicious:
			d.line.suspect(d.start, d.waited(now) >= p.options.SendTimeout)
		}
	}
	if p.idle == p.last {
		p.unused = nil
	}
	p.idle = p.last
	lines := []*line{p.main}
	if p.single != nil && p.single != p.main {
		lines = append(lines, p.single)
	}
	p.mu.Unlock()
	if p.client.isClosed() { // which makes the client forget what it has taken
		p.failPending(func(*delivery) bool { return true }, ErrClosed)
	}
	p.failPending(func(d *delivery) bool { return d.waited(now) >= p.options.SendTimeout }, ErrSendTimeout)
	for _, l := range lines {
		l.check()
	}
}

// recordSent counts the messages that have a receipt.
func (p *Producer[T]) recordSent(outcomes []answer) {
	n := int64(0)
	for i := range outcomes {
		if outcomes[i].outcome && outcomes[i].err == nil {
			n++
		}
	}
	if n > 0 {
		p.client.tel.sent.Add(context.Background(), n, p.added...)
	}
}

// record records what became of a message; recordSent counts it where it was sent.
func (p *Producer[T]) record(ctx context.Context, a *answer) {
	if a.span != nil {
		endSend(a.span, a.id, a.err)
	}
	recorded := p.recorded
	if a.err != nil {
		failed := failure(a.err)
		recorded = []metric.RecordOption{p.attrs, failed}
		p.client.tel.sent.Add(ctx, 1, p.attrs, failed)
	}
	if a.measured {
		p.client.tel.sendTime.Record(ctx, (a.at - a.start).Seconds(), recorded...)
	}
	if p.lossy && a.dropped() {
		p.client.tel.dropped.Add(ctx, 1, p.added...)
	}
}

// dropped tells whether the broker has confirmed a message that it did not keep.
func (a *answer) dropped() bool { return a.err == nil && a.id != nil && a.id.LedgerID() < 0 }

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
