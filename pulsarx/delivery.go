package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// delivery is one message on its way, in a ring until it has its outcome. It is used again where nobody has it any more.
type delivery struct {
	message    pulsar.ProducerMessage // comes first, so that its address is the delivery's
	room       []byte                 // empty, for the payload
	prev, next *delivery              // in the ring
	number     uint64
	line       *line
	start      time.Duration // on the clock
	callback   func(MessageID, error)
	call       atomic.Int32 // of the client
	owner      atomic.Int32 // who gives it its one outcome

	// The outcome, written by the owner.
	id   MessageID
	err  error
	took time.Duration

	producer pulsar.Producer // of the line, that has the message
	span     trace.Span
	places   int           // of the line, that its chunks take
	fail     func(error)   // of Send, which waits by itself
	answered chan struct{} // of Send, closed with its outcome, unless fail is called
}

// The owners of an outcome.
const (
	nobody     int32 = iota
	theAnswer        // of the client
	theSweep         // or another end of what was on its way
	theContext       // of Send
)

// settle gives d its outcome, unless it has one.
func (d *delivery) settle(owner int32, id MessageID, err error, now time.Duration) bool {
	if !d.owner.CompareAndSwap(nobody, owner) {
		return false
	}
	d.id, d.err, d.took = id, err, now-d.start
	return true
}

// deliveryOf is the delivery of a message that the client has.
func deliveryOf(m *pulsar.ProducerMessage) *delivery { return (*delivery)(unsafe.Pointer(m)) }

// maxRoom bounds the room that a delivery has for a payload.
const maxRoom = 1 << 10

// newDelivery returns one that is free, with room for a payload as they have been.
func (p *Producer[T]) newDelivery() *delivery {
	p.lending.Lock()
	d := p.unused
	if d != nil {
		p.unused = d.next
		p.kept--
	}
	p.lending.Unlock()
	if d == nil {
		d = &delivery{room: []byte{}}
	}
	d.next = nil
	if n := p.largest.Load(); int64(cap(d.room)) < n {
		d.room = make([]byte, 0, n)
	}
	return d
}

// reuse gives back what has had its outcome. Nobody else has a delivery whose receipt has come and whose sender has seen the client take
// it; of what is sent alone, the client has chunks.
func (p *Producer[T]) reuse(settled []*delivery) {
	var first, last *delivery
	n := 0
	for _, d := range settled {
		if d.err == nil && d.line != nil && !d.line.alone && d.owner.Load() == theAnswer && d.call.Load() == taken {
			*d = delivery{room: d.room, next: first}
			if first = d; last == nil {
				last = d
			}
			n++
		}
	}
	p.lending.Lock()
	defer p.lending.Unlock()
	if n > 0 && p.kept+n <= maxSpare {
		last.next = p.unused
		p.unused = first
		p.kept += n
	}
}

// forget lets go of what could be used again.
func (p *Producer[T]) forget() {
	p.lending.Lock()
	defer p.lending.Unlock()
	p.unused, p.kept = nil, 0
}

// clock is the time since the process began, which is cheaper to ask for than the time of day and never goes back.
func clock() time.Duration { return time.Since(began) }

var began = time.Now()

// The states of a call.
const (
	waiting int32 = iota // for the next
	calling
	foundFull   // the client had no place, and has not taken the message
	foundClosed // the client has closed its producer
	taken       // the client has the message
)

// answer is what the client says of a message. It waits for deliver, since whoever reads the connection would spend more time on
// fetching the delivery from the sender's cache than on everything else.
type answer struct {
	*delivery
	id  MessageID
	err error
	at  time.Duration
}

// flushing is a Flush that waits for the deliveries up to a number.
type flushing struct {
	upTo uint64
	err  error
	done chan struct{}
}

// begin opens the message's span, puts it into the properties and the delivery into the ring.
func (p *Producer[T]) begin(ctx context.Context, l *line, d *delivery) (context.Context, error) {
	d.line, d.start = l, clock()
	if p.traced(ctx, d.start) {
		ctx, d.span = p.client.tel.startSend(ctx, p.spanName, &d.message, p.span)
		if !d.span.SpanContext().IsValid() {
			p.untraced.Store(int64(d.start + tracerPoll))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		err := p.sendError(ErrClosed)
		if d.span != nil {
			endSpan(d.span, err)
		}
		return ctx, err
	}
	p.last++
	d.number = p.last
	d.prev, d.next = p.pending.prev, &p.pending
	d.prev.next, d.next.prev = d, d
	return ctx, nil
}

// tracerPoll is how often a producer looks whether there is a tracer by now: asking costs as much as the rest of Send.
const tracerPoll = time.Second

func (p *Producer[T]) traced(ctx context.Context, now time.Duration) bool {
	return int64(now) >= p.untraced.Load() || trace.SpanContextFromContext(ctx).IsValid()
}

// queue gives a message to the client, and waits for a place with it where there is none. The outcome comes once, from here or from the
// goroutine that reads the connection.
func (p *Producer[T]) queue(ctx context.Context, d *delivery) {
	if err := p.enqueue(ctx, d); err != nil {
		d.line.answer(nil, &d.message, err)
	}
}

// answerer takes the client's answers to the messages of a line. Whoever reads the connection must not wait for a user.
func (p *Producer[T]) answerer(l *line) func(MessageID, *pulsar.ProducerMessage, error) {
	return func(id MessageID, m *pulsar.ProducerMessage, err error) {
		d := deliveryOf(m)
		switch {
		case err == nil:
		case isFull(err) && d.call.CompareAndSwap(calling, foundFull):
			return
		case errors.Is(err, pulsar.ErrProducerClosed) && d.call.CompareAndSwap(calling, foundClosed):
			return
		}
		if p.options.Chunking {
			l.release(d.places)
		}
		if l.alone && d.answered != nil {
			now := clock()
			p.arrived(l, d, err, now)
			p.settleSend(answer{d, id, err, now})
		} else {
			p.arrived(l, d, err, p.leave(d, id, err))
		}
	}
}

// enqueue returns an error where the client has not taken the message.
func (p *Producer[T]) enqueue(ctx context.Context, d *delivery) (err error) {
	if d.line.alone {
		if err := d.line.takeTurn(ctx); err != nil {
			return err
		}
		defer d.line.endTurn()
		if n := p.options.chunks(&d.message); p.options.Chunking {
			if err := d.line.takePlaces(ctx, n, p.options.FailWhenFull); err != nil {
				return err
			}
			d.places = n
		}
	}
	for waited := false; ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if d.producer, err = d.line.enter(ctx); err != nil {
			return err
		}
		d.call.Store(calling)
		err = d.line.send(d.producer, &d.message)
		d.line.leave()
		if err == nil && d.call.CompareAndSwap(calling, taken) {
			if waited { // and others may, while there are more places
				p.offerRoom()
			}
			return nil
		}
		if refused := (routingError{}); errors.As(err, &refused) {
			return err
		}
		if found := d.call.Swap(waiting); found == foundFull {
			waited, err = true, p.awaitRoom(ctx, d)
		} else {
			d.line.replace(d.producer)
			err = d.stillPending()
		}
		if err != nil {
			return err
		}
	}
}

func isFull(err error) bool {
	return errors.Is(err, pulsar.ErrSendQueueIsFull) || errors.Is(err, pulsar.ErrMemoryBufferIsFull)
}

func (p *Producer[T]) sendNow(ctx context.Context, d *delivery) (MessageID, error) {
	l, err := p.lineOf(ctx, &d.message)
	if err != nil {
		return nil, err
	}
	// The client's own Send never returns where it drops the message; cancelling it is how the message gets its outcome then.
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.fail, d.answered = cancel, make(chan struct{}) // before the sweep can see d
	traced, err := p.begin(sending, l, d)
	if err != nil {
		return nil, err
	}
	if l.alone {
		p.queue(traced, d)
	} else {
		p.sendBatched(traced, d)
	}
	select {
	case <-d.answered:
	case <-sending.Done():
		if !d.settle(theContext, nil, p.sendError(context.Cause(sending)), clock()) {
			if d.owner.Load() == theSweep { // which records it
				return nil, context.Cause(sending)
			}
			<-d.answered
			break
		}
		p.unlink(d)
	}
	p.record(traced, d)
	if d.err != nil {
		return nil, d.err
	}
	return d.id, nil
}

// sendBatched gives a message to the client and lets it close the batch.
func (p *Producer[T]) sendBatched(ctx context.Context, d *delivery) {
	for {
		var id MessageID
		var err error
		if d.producer, err = d.line.enter(ctx); err == nil {
			d.call.Store(taken)
			id, err = transmit(func() (MessageID, error) { return d.producer.Send(ctx, &d.message) })
			d.line.leave()
		}
		if isFull(err) {
			if err = p.awaitRoom(ctx, d); err == nil {
				continue
			}
		}
		p.arrived(d.line, d, err, clock())
		if errors.Is(err, pulsar.ErrProducerClosed) { // why?
			if _, ended := d.line.enter(ctx); ended != nil {
				err = ended
			} else {
				d.line.leave()
			}
		}
		p.settleSend(answer{d, id, err, clock()})
		return
	}
}

// awaitRoom waits until the client may have a place.
func (p *Producer[T]) awaitRoom(ctx context.Context, d *delivery) error {
	if p.options.FailWhenFull {
		return ErrQueueFull
	}
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	timer := time.NewTimer(roomPoll) // another producer has freed the client's memory, or the place came just before
	defer timer.Stop()
	select {
	case <-p.room:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.line.closing:
		return ErrClosed
	}
	return d.stillPending()
}

// stillPending returns an error where the message has its outcome.
func (d *delivery) stillPending() error {
	if d.owner.Load() != nobody { // by the sweep
		return ErrSendTimeout
	}
	return nil
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

func (d *delivery) unlink() {
	d.prev.next, d.next.prev = d.next, d.prev
	d.prev, d.next = nil, nil
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

// flush closes the open batches, and waits for the outcomes of what was sent before, callbacks included.
func (p *Producer[T]) flush(ctx context.Context) error {
	p.mu.Lock()
	f := &flushing{upTo: p.last, done: make(chan struct{})}
	p.flushes = append(p.flushes, f)
	p.mu.Unlock()
	p.notify()
	closing, cancel := context.WithCancel(ctx)
	closed := make(chan struct{})
	defer func() {
		cancel()
		<-closed
	}()
	go func() { // the client may wait for a broker that is gone, when the messages have long had their outcomes
		defer close(closed)
		if producer, err := p.main.enter(closing); err == nil {
			defer p.main.leave()
			_, _ = transmit(func() (MessageID, error) { return nil, producer.FlushWithCtx(closing) })
		}
	}()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finishFlushes lets those go on that nothing is left for.
func (p *Producer[T]) finishFlushes(called []*delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.flushes[:0]
	for _, f := range p.flushes {
		for _, d := range called {
			if d.err != nil && d.number <= f.upTo {
				f.err = d.err
			}
		}
		if first := p.pending.next; first != &p.pending && first.number <= f.upTo || uncalled(p.settled, f.upTo) {
			waiting = append(waiting, f)
			continue
		}
		close(f.done)
	}
	clear(p.flushes[len(waiting):])
	p.flushes = waiting
}

func uncalled(settled []*delivery, upTo uint64) bool {
	for _, d := range settled {
		if d.number <= upTo {
			return true
		}
	}
	return false
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
