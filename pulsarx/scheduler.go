package pulsarx

import (
	"container/heap"
	"errors"
	"slices"
	"time"

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
type scheduler struct {
	maxBatch    int
	maxDelay    time.Duration
	maxAttempts int // -1: no limit
	backoff     Backoff
	jitter      func() float64 // in [0, 1)

	ready   []*queue // whose head may run in company, oldest first
	alone   []*queue // whose head is to run alone
	graves  []*queue // whose head is to be buried
	waiting waitHeap
	runs    int      // messages of the queues in ready
	idle    []*queue // without messages, to be used again
	done    []*item  // that finish returns
	spare   []work   // finished, to be used again: as many as were handed out at once
}

// maxIdle bounds the queues that are kept for new keys.
const maxIdle = 1 << 10

// fate is why a message is buried.
type fate struct {
	reason string
	err    error
}

// queue holds what is kept in order: the messages of a key of a topic, or those of a partition without one, or one message.
type queue struct {
	keys    map[string]*queue // that has it while it holds messages, under key; nil for none
	key     string
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

// work is what next hands out: a batch to handle, with the places of the verdicts on it, or a message to bury.
type work struct {
	batch    []*item
	verdicts []verdict
	bury     *item
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
	}
}

// queue returns the queue of a key, a new one where keys is nil.
func (s *scheduler) queue(keys map[string]*queue, key string) *queue {
	if q := keys[key]; q != nil {
		return q
	}
	var q *queue
	if n := len(s.idle); n > 0 {
		q, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		q = &queue{}
	}
	q.keys, q.key = keys, key
	if keys != nil {
		keys[key] = q
	}
	return q
}

// add takes a new message, whose queue is set.
func (s *scheduler) add(it *item) {
	q := it.queue
	// Appended, unless a redelivery comes behind its successors; but not before one that was tried already.
	at := len(q.items)
	for at > q.running && !q.items[at-1].tried() && q.items[at-1].partition == it.partition && it.key().before(q.items[at-1].key()) {
		at--
	}
	if at == len(q.items) {
		q.items = append(q.items, it)
	} else {
		q.items = slices.Insert(q.items, at, it)
	}
	switch {
	case q.state == queueIdle:
		s.arm(q)
	case q.state == queueReady && q.items[0].grave == nil && !q.items[0].alone:
		s.runs++
	}
}

// arm puts an idle queue where its head belongs.
func (s *scheduler) arm(q *queue) {
	if len(q.items) == 0 {
		s.retire(q)
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

// retire keeps an empty queue for another key.
func (s *scheduler) retire(q *queue) {
	if q.keys != nil {
		delete(q.keys, q.key)
	}
	q.keys, q.key, q.waits = nil, "", 0
	if len(s.idle) < maxIdle && cap(q.items) <= maxIdle {
		s.idle = append(s.idle, q)
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
			w = s.blank(1)
			w.batch, w.verdicts = append(w.batch, q.items[0]), w.verdicts[:1]
			return w, time.Time{}, true
		}
		if s.runs > 0 && s.runs < s.maxBatch {
			wake = s.due()
		}
		if s.runs >= s.maxBatch || s.runs > 0 && !wake.After(now) {
			return s.batch(), time.Time{}, true
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

// blank is work with room for n messages.
func (s *scheduler) blank(n int) (w work) {
	if last := len(s.spare) - 1; last >= 0 {
		w, s.spare = s.spare[last], s.spare[:last]
	}
	w.batch, w.verdicts = slices.Grow(w.batch, n), slices.Grow(w.verdicts, n)
	return w
}

// batch takes messages of the ready queues.
func (s *scheduler) batch() work {
	w := s.blank(min(s.runs, s.maxBatch))
	taken := 0
	for _, q := range s.ready {
		if len(w.batch) == s.maxBatch {
			break
		}
		taken++
		s.runs -= len(q.items)
		q.state = queueRunning
		for _, it := range q.items {
			if len(w.batch) == s.maxBatch || it.grave != nil || it.alone {
				break
			}
			w.batch = append(w.batch, it)
			q.running++
		}
	}
	s.ready = append(s.ready[:0], s.ready[taken:]...)
	w.verdicts = w.verdicts[:len(w.batch)]
	return w
}

// finish takes work with its verdicts, and returns the messages that are to be acknowledged, and how many are to be tried again.
// They are valid until the next call. The work is the scheduler's again.
func (s *scheduler) finish(now time.Time, w work) (done []*item, retried int) {
	batch, verdicts := w.batch, w.verdicts
	done = s.done[:0]
	defer func() {
		s.done = done
		clear(batch)
		clear(verdicts)
		s.spare = append(s.spare, work{batch: batch[:0], verdicts: verdicts[:0]})
	}()
	for first := 0; first < len(batch); {
		q := batch[first].queue
		end := first + q.running
		succeeded, again, until := s.judge(now, batch[first:end], verdicts[first:end])
		done = append(done, batch[first:first+succeeded]...)
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
		it.failed(now)
		it.grave = &fate{reasonUndecodable, v.err}
	case unready:
		q := it.queue
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
	it.failed(now)
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
	q := it.queue
	if err == nil {
		s.release(q, 1, time.Time{})
		return
	}
	q.waits++
	s.release(q, 0, now.Add(s.pause(s.backoff, q.waits-1)))
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
