package pulsarx

import (
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// The client hands a message over one by one; a broker delivers, counts and forgets by the entry: a producer's batch, or a message
// by itself. So does this package: what is known of a message stands in the entry that brought it, which costs the map of entries,
// the acknowledgement and the allocation once a batch.

// maxSlab bounds what is allocated for an entry before its messages are seen.
const maxSlab = 1 << 10

// entry is one delivery of an entry of the topic. The client's goroutines fill items; from the first message that it receives on, it
// belongs to Run's loop.
type entry struct {
	ledger, number int64
	items          []item // that were not acknowledged when it was delivered, in order
	received       int    // of items, from the front: the client drops the end of an entry, never its middle
	undone         int    // received, and not done
	older          *entry // an earlier delivery, until all items are received
	superseded     bool   // a later delivery has begun
	dirty          bool   // is in its partition's list of what is to be acknowledged
	acking         bool   // is in a request that is not answered
	partial        bool   // the rest of its messages is in other entries
	single         [1]item
}

// item is a message of a delivery. A worker, or a burial, reads those fields of an item it has that do not change meanwhile: msg,
// partition, queue, arrived, attempts, failures and grave.
type item struct {
	entry *entry // the newest delivery that has the message
	ackID MessageID
	batch int32
	done  bool  // waits for its acknowledgement alone
	acked bool  // through this delivery
	alone bool  // is to run alone
	known *item // not nil: an earlier delivery's item is the one that counts

	partition *partition
	msg       pulsar.Message
	queue     *queue
	arrived   time.Time
	attempts  int // that failed
	failures  *failures
	grave     *fate // not nil: is to be buried
}

// failures are when the first and the last attempt failed.
type failures struct{ first, last time.Time }

func (it *item) failed(now time.Time) {
	if it.failures == nil {
		it.failures = &failures{first: now}
	}
	it.failures.last = now
}

func newEntry(ledger, number int64, size int32) *entry {
	e := &entry{ledger: ledger, number: number}
	if size <= 1 {
		e.items = e.single[:0]
	} else {
		e.items = make([]item, 0, min(size+size/8, maxSlab)) // room for another batch of about the size
	}
	return e
}

// reuse empties an entry.
func (e *entry) reuse(ledger, number int64) *entry {
	items := e.items[:0]
	*e = entry{ledger: ledger, number: number, items: items}
	return e
}

// whole reports whether all that the broker has not acknowledged of the entry is done, so that one acknowledgement is for all of it.
func (e *entry) whole() bool {
	return !e.superseded && !e.partial && e.received == len(e.items) && e.undone == 0
}

// settledEntry stands for all entries of which everything is acknowledged, and settledItem for their items.
var (
	settledEntry = &entry{}
	settledItem  = &item{done: true, acked: true}
)

// find returns the item that counts for a message, nil where it was not received.
func (e *entry) find(batch int32) *item {
	for ; e != nil; e = e.older {
		if e == settledEntry {
			return settledItem
		}
		for i := range e.items[:e.received] {
			if it := &e.items[i]; it.batch == batch {
				return it.counts()
			}
		}
	}
	return nil
}

func (it *item) counts() *item {
	if it.known != nil {
		return it.known
	}
	return it
}

func (it *item) key() messageKey {
	return messageKey{it.partition, it.entry.ledger, it.entry.number, it.batch}
}

func (it *item) tried() bool { return it.attempts > 0 || it.grave != nil }

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

// arrivals are the entries of a partition that the client has read and Run has not begun to receive, in order. When its connection
// breaks, the client drops what it has queued; arrivals show what that was.
type arrivals struct {
	mu      sync.Mutex
	list    []*entry
	filling *entry   // the last of list
	free    []*entry // to be used again
	room    int      // of the items of free
}

// push takes down a message as the client reads it from the connection, before any of its entry is handed over. An entry is
// delivered with all of its messages that are not acknowledged, so that another delivery begins where an id does not follow on the
// one before. More than limit entries are not remembered.
func (a *arrivals) push(id MessageID, limit int) {
	ledger, number, batch := id.LedgerID(), id.EntryID(), id.BatchIdx()
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.filling
	if e == nil || e.number != number || e.ledger != ledger || e.items[len(e.items)-1].batch >= batch {
		e = a.entry(ledger, number, id.BatchSize())
		a.filling, a.list = e, append(a.list, e)
		if len(a.list) > limit { // the first is of a connection that broke: the client holds fewer
			a.list = a.list[1:]
		}
	}
	e.items = append(e.items, item{ackID: id, batch: batch})
}

// entry returns one without items: the mutex is held.
func (a *arrivals) entry(ledger, number int64, size int32) *entry {
	last := len(a.free) - 1
	if last < 0 {
		return newEntry(ledger, number, size)
	}
	e := a.free[last]
	a.free[last] = nil
	a.free, a.room = a.free[:last], a.room-cap(e.items)
	if cap(e.items) < int(size) { // batches have become larger
		return newEntry(ledger, number, size)
	}
	return e.reuse(ledger, number)
}

// recycle takes entries that nothing refers to any more, to be used again, as far as they hold no more than limit items.
func (a *arrivals) recycle(entries []*entry, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		if a.room+cap(e.items) <= limit {
			a.free, a.room = append(a.free, e), a.room+cap(e.items)
		}
	}
}

// take takes off the entry that begins with the message, and what stands in front of it.
func (a *arrivals) take(id MessageID) (e *entry, dropped []*entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, e := range a.list {
		if e.items[0].ackID != id { // the same value, not an equal one
			continue
		}
		dropped = a.list[:i:i]
		a.list = a.list[i+1:]
		a.taken(e)
		for _, d := range dropped {
			a.taken(d)
		}
		return e, dropped
	}
	return nil, nil
}

// rest takes all off.
func (a *arrivals) rest() []*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := a.list
	a.list, a.filling = nil, nil
	return rest
}

// taken forgets an entry: the mutex is held.
func (a *arrivals) taken(e *entry) {
	if a.filling == e {
		a.filling = nil
	}
}
