package pulsarx

import (
	"container/heap"
	"errors"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// scheduler decides which messages are worked on when. It is a pure state machine: no clock, no goroutine, no network; its one
// caller is Run's loop. Its rules:
//
//   - A key has a queue in the order of the topic, and at most one batch at a time.
//   - A batch takes from the queues that are ready, in the order in which they became so, when it is full or the oldest message
//     has waited for maxDelay.
//   - A failed message stays at the head of its queue, which waits. So its successors do, and no other key does.
//   - A message that is to run alone makes a batch by itself; one that is to be buried (sent to the dead letters) is handed out as
//     such when it is at the head of its queue.
//   - A message is held until its acknowledgement is confirmed, and a redelivery of a held one is no new message.
type scheduler struct {
	maxBatch    int
	maxDelay    time.Duration
	maxAttempts int // -1: no limit
	backoff     Backoff
	jitter      func() float64 // in [0, 1)

	held    map[messageKey]*item
	queues  map[queueKey]*queue
	ready   []*queue // whose head may run in company, oldest first
	alone   []*queue // whose head is to run alone
	graves  []*queue // whose head is to be buried
	waiting waitHeap
	runs    int // messages of the queues in ready

	// settled are messages whose acknowledgement was confirmed so recently that a copy of them may still be on its way: redelivered
	// after a lost connection, before the broker saw the acknowledgement.
	settled map[messageKey]struct{}
	window  uint64 // the copies that the client may hold of a partition
}

// partition is a partition of a topic, or a topic that has none. There is one value for each, so that pointers compare.
type partition struct {
	name  string // as the client writes it
	topic string // without the number
	index int

	received uint64           // messages
	settled  []settledMessage // oldest first
	gaps     gaps
}

// settledMessage is forgotten when until messages of the partition have been received.
type settledMessage struct {
	id    messageKey
	until uint64
}

// messageKey identifies a message.
type messageKey struct {
	partition     *partition
	ledger, entry int64
	batch         int32
}

func (k messageKey) before(other messageKey) bool {
	switch {
	case k.ledger != other.ledger:
		return k.ledger < other.ledger
	case k.entry != other.entry:
		return k.entry < other.entry
	}
	return k.batch < other.batch
}

// queueKey identifies what is kept in order: a key of a topic, or the messages of a partition without one.
type queueKey struct {
	topic, key string
	keyless    bool
	unordered  uint64 // not zero: a message for itself
}

// item is a held message.
type item struct {
	msg      pulsar.Message
	ackID    MessageID // of the newest copy; Run's loop alone uses it, and copy
	copy     int64
	schema   Schema // the writer's, once it is known
	id       messageKey
	queue    queueKey
	arrived  time.Time
	attempts int   // that failed
	alone    bool  // is to run alone
	done     bool  // waits for its acknowledgement alone
	grave    *fate // not nil: is to be buried
}

func (it *item) tried() bool { return it.attempts > 0 || it.grave != nil }

// fate is why a message is buried.
type fate struct {
	reason string
	err    error
}

type queue struct {
	key     queueKey
	items   []*item
	running int // at the head of items
	waits   int // in a row, of an item that could not be buried or decoded yet
	until   time.Time
	state   queueState
}

type queueState int

const (
	queueIdle queueState = iota // in none of the scheduler's lists; only while an event is handled
	queueReady
	queueRunning
	queueWaiting
)

// work is what next hands out: a batch to handle, or a message to bury.
type work struct {
	batch []*item
	bury  *item
}

// outcomeKind is what became of a message of a batch.
type outcomeKind int

const (
	succeeded  outcomeKind = iota
	failed                 // the handler says so
	condemned              // it cannot be decoded
	unready                // its schema is not known yet
	passedOver             // it did not run, since an earlier message of its key could not
)

// verdict is the outcome of a message of a batch.
type verdict struct {
	kind  outcomeKind
	err   error
	named bool // the handler said which messages failed, so that this one's failure is its own
	alone bool // it was the only one that the handler got
}

func newScheduler(o ConsumerOptions, jitter func() float64) *scheduler {
	return &scheduler{
		maxBatch: o.MaxBatch, maxDelay: o.MaxDelay, maxAttempts: o.DeadLetter.MaxAttempts, backoff: o.Backoff, jitter: jitter,
		held: map[messageKey]*item{}, queues: map[queueKey]*queue{}, settled: map[messageKey]struct{}{},
		window: uint64(o.ReceiverQueue + receiveBuffer),
	}
}

// add takes a message that was received. A redelivery of a held one is not added, and the held one returned: its acknowledgement
// goes through the newer copy. A copy of a settled one is returned itself: it is to be acknowledged again.
func (s *scheduler) add(it *item) (known *item) {
	p := it.id.partition
	p.received++
	for len(p.settled) > 0 && p.settled[0].until < p.received {
		delete(s.settled, p.settled[0].id)
		p.settled = p.settled[1:]
	}
	if held := s.held[it.id]; held != nil {
		return held
	}
	if _, ok := s.settled[it.id]; ok {
		it.done = true
		return it
	}
	s.held[it.id] = it
	q := s.queues[it.queue]
	if q == nil {
		q = &queue{key: it.queue}
		s.queues[it.queue] = q
	}
	// Appended, unless a redelivery comes behind its successors; but not before one that was tried already.
	at := len(q.items)
	for at > q.running && !q.items[at-1].tried() && q.items[at-1].id.partition == p && it.id.before(q.items[at-1].id) {
		at--
	}
	q.items = append(q.items, nil)
	copy(q.items[at+1:], q.items[at:])
	q.items[at] = it
	switch {
	case q.state == queueIdle:
		s.arm(q)
	case q.state == queueReady && q.items[0].grave == nil && !q.items[0].alone:
		s.runs++
	}
	return nil
}

// arm puts an idle queue where its head belongs.
func (s *scheduler) arm(q *queue) {
	if len(q.items) == 0 {
		delete(s.queues, q.key)
		return
	}
	q.state = queueReady
	switch head := q.items[0]; {
	case head.grave != nil:
		s.graves = append(s.graves, q)
	case head.alone:
		s.alone = append(s.alone, q)
	default:
		s.ready = append(s.ready, q)
		s.runs += len(q.items)
	}
}

// wait puts an idle queue aside.
func (s *scheduler) wait(q *queue, until time.Time) {
	q.state, q.until = queueWaiting, until
	heap.Push(&s.waiting, q)
}

// next hands out work that is due, burials first if they may be. Where nothing is, ok is false, and wake is when something will be
// without a further event, zero for never.
func (s *scheduler) next(now time.Time, mayRun, mayBury bool) (w work, wake time.Time, ok bool) {
	for len(s.waiting) > 0 && !s.waiting[0].until.After(now) {
		q := heap.Pop(&s.waiting).(*queue)
		s.arm(q)
	}
	if mayBury && len(s.graves) > 0 {
		q := s.graves[0]
		s.graves = s.graves[1:]
		q.state, q.running = queueRunning, 1
		return work{bury: q.items[0]}, time.Time{}, true
	}
	if mayRun {
		if len(s.alone) > 0 {
			q := s.alone[0]
			s.alone = s.alone[1:]
			q.state, q.running = queueRunning, 1
			return work{batch: []*item{q.items[0]}}, time.Time{}, true
		}
		if s.runs > 0 && s.runs < s.maxBatch {
			wake = s.due()
		}
		if s.runs >= s.maxBatch || s.runs > 0 && !wake.After(now) {
			return work{batch: s.batch()}, time.Time{}, true
		}
	}
	if len(s.waiting) > 0 && (wake.IsZero() || s.waiting[0].until.Before(wake)) {
		wake = s.waiting[0].until
	}
	return work{}, wake, false
}

// due is when the oldest message that is ready has waited long enough.
func (s *scheduler) due() time.Time {
	var oldest time.Time
	for i, q := range s.ready {
		if at := q.items[0].arrived; i == 0 || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest.Add(s.maxDelay)
}

// batch takes messages of the ready queues.
func (s *scheduler) batch() []*item {
	batch := make([]*item, 0, min(s.runs, s.maxBatch))
	taken := 0
	for _, q := range s.ready {
		if len(batch) == s.maxBatch {
			break
		}
		taken++
		s.runs -= len(q.items)
		q.state = queueRunning
		for _, it := range q.items {
			if len(batch) == s.maxBatch || it.grave != nil || it.alone {
				break
			}
			batch = append(batch, it)
			q.running++
		}
	}
	s.ready = append(s.ready[:0], s.ready[taken:]...)
	return batch
}

// finish takes the verdicts on a batch, aligned with it, and returns the messages that are to be acknowledged, and how many are to
// be tried again.
func (s *scheduler) finish(now time.Time, batch []*item, verdicts []verdict) (done []*item, retried int) {
	for first := 0; first < len(batch); {
		q := s.queues[batch[first].queue]
		end := first + q.running
		succeeded, again, until := s.judge(now, batch[first:end], verdicts[first:end])
		for _, it := range batch[first : first+succeeded] {
			it.done = true
			done = append(done, it)
		}
		retried += again
		s.release(q, succeeded, until)
		first = end
	}
	return done, retried
}

// judge looks at the messages of one key of a batch, in order: how many succeeded before one did not, how many are tried again, and
// until when the queue waits.
func (s *scheduler) judge(now time.Time, items []*item, verdicts []verdict) (done, retried int, until time.Time) {
	for done < len(items) && verdicts[done].kind == succeeded {
		done++
	}
	if done == len(items) {
		return done, 0, until
	}
	it, v := items[done], verdicts[done]
	switch v.kind {
	case condemned:
		it.grave = &fate{reasonUndecodable, v.err}
	case unready:
		q := s.queues[it.queue]
		until = now.Add(s.pause(Backoff{Initial: 10 * time.Millisecond, Max: time.Second}, q.waits))
		q.waits++
	case failed:
		until = s.fail(now, it, v)
		// Where the handler does not say which failed, all did. Otherwise the later ones run again without a word.
		for i := done + 1; i < len(items) && !v.named && verdicts[i].kind == failed; i++ {
			s.fail(now, items[i], verdicts[i])
		}
		for _, it := range items[done:] {
			if it.grave == nil {
				retried++
			}
		}
	}
	return done, retried, until
}

// fail counts a failed attempt, decides how the message goes on, and returns when.
//
// Only what a message did by itself sends it to the dead letters: a failure that the handler named, or one in a batch of one. So
// the last of several attempts is made alone, and so is the one after a panic or a permanent error of a whole batch.
func (s *scheduler) fail(now time.Time, it *item, v verdict) time.Time {
	it.attempts++
	own := v.named || v.alone
	permanent := itemerror.IsPermanent(v.err)
	last := s.maxAttempts > 0 && it.attempts >= s.maxAttempts
	panicked := errors.As(v.err, new(panicError))
	switch {
	case permanent && own:
		it.grave = &fate{reasonPermanent, v.err}
		return time.Time{}
	case last && own:
		it.grave = &fate{reasonAttempts, v.err}
		return time.Time{}
	case permanent:
		it.alone = true
		return time.Time{}
	case panicked || last || s.maxAttempts > 0 && it.attempts == s.maxAttempts-1:
		it.alone = true
	}
	return now.Add(s.pause(s.backoff, it.attempts-1))
}

// pause is the n-th wait, counted from 0.
func (s *scheduler) pause(b Backoff, n int) time.Duration {
	d := b.Max
	if n < 62 && b.Initial<<n>>n == b.Initial {
		d = min(b.Initial<<n, b.Max)
	}
	return d/2 + time.Duration(s.jitter()*float64(d-d/2))
}

// release takes the first n messages off a queue that ran, and puts it back.
func (s *scheduler) release(q *queue, n int, until time.Time) {
	rest := copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	q.running, q.state = 0, queueIdle
	if n > 0 {
		q.waits = 0
	}
	if until.IsZero() {
		s.arm(q)
	} else {
		s.wait(q, until)
	}
}

// buried says how a burial went. The message is to be acknowledged if err is nil; otherwise its key waits.
func (s *scheduler) buried(now time.Time, it *item, err error) {
	q := s.queues[it.queue]
	if err == nil {
		it.done = true
		s.release(q, 1, time.Time{})
		return
	}
	q.waits++
	s.release(q, 0, now.Add(s.pause(s.backoff, q.waits-1)))
}

// acknowledged lets go of a message whose acknowledgement the broker has confirmed.
func (s *scheduler) acknowledged(it *item) {
	delete(s.held, it.id)
	if _, ok := s.settled[it.id]; !ok {
		s.settled[it.id] = struct{}{}
		p := it.id.partition
		p.settled = append(p.settled, settledMessage{it.id, p.received + s.window})
	}
}

// knows reports whether a message is held or settled.
func (s *scheduler) knows(id messageKey) bool {
	_, settled := s.settled[id]
	return settled || s.held[id] != nil
}

// quiet says that nothing has come for a while: no copies are on their way.
func (s *scheduler) quiet() {
	for id := range s.settled {
		id.partition.settled = nil
	}
	clear(s.settled)
}

// waitHeap is ordered by until.
type waitHeap []*queue

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitHeap) Push(x any)        { *h = append(*h, x.(*queue)) }

func (h *waitHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return q
}
