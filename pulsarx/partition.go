package pulsarx

import (
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

// partition is a partition of a topic, or a topic that has none, as Run's loop sees it: what it holds of it and what it is to
// acknowledge. There is one value for each, so that pointers compare.
type partition struct {
	name  string // as the client writes it
	topic string // without the number
	index int

	source *subscribed
	keys   map[string]*queue // of the topic, not of the partition alone
	own    map[string]*queue // of the partition's messages without a key, under ""

	current  *entry // the last one that was received from
	received uint64 // messages
	serial   int64  // of the newest entry of a non-persistent topic
	gaps     gaps
	locked   locked
	acker    acker

	// entries are those with messages that are held, by their newest delivery, and those that were settled so recently that a copy
	// of them may still be on its way: redelivered after a lost connection, before the broker saw the acknowledgement.
	entries map[entryKey]*entry
	settled []settledMessages // oldest first
	window  uint64            // the copies that the client may hold
}

type entryKey struct{ ledger, number int64 }

func (e *entry) key() entryKey { return entryKey{e.ledger, e.number} }

// settledMessages are forgotten when until messages of the partition have been received.
type settledMessages struct {
	key   entryKey
	until uint64
}

func parsePartition(name string) *partition {
	topic, n := topicname.SplitPartition(name)
	return &partition{name: name, topic: topic, index: max(n, 0)}
}

// receive takes a message that the client has handed over. It returns its item, whether that is new, and the messages in front of
// it that were dropped.
func (p *partition) receive(m pulsar.Message, now time.Time) (it *item, fresh bool, dropped []lostMessage) {
	id := m.ID()
	e := p.current
	if e == nil || e.received == len(e.items) || e.items[e.received].ackID != id {
		e, dropped = p.begin(id)
	}
	p.received++
	it = &e.items[e.received]
	e.received++
	it.entry, it.partition, it.msg, it.arrived = e, p, m, now
	known := e.older.find(it.batch)
	switch {
	case known == nil:
		e.undone++
	case known.done:
		it.known, it.msg = known, nil
		p.soil(e) // acknowledged again
	default:
		it.known, it.msg = known, nil
		known.entry.undone--
		known.entry = e
		e.undone++
	}
	if e.received == len(e.items) {
		e.older = nil
	}
	return it, known == nil, dropped
}

// begin makes the entry that begins with the message the current one.
func (p *partition) begin(id MessageID) (*entry, []lostMessage) {
	p.forget()
	e, lost := p.source.arrivals.take(id)
	if e == nil { // it was forgotten
		e = newEntry(id.LedgerID(), id.EntryID(), 1)
		e.partial = id.BatchSize() > 1
		e.items = append(e.items, item{ackID: id, batch: id.BatchIdx()})
	}
	dropped := p.dropped(lost)
	if nonPersistent(p.name) { // all messages have one id there, and none comes twice
		p.serial++
		e.number, dropped = p.serial, nil
	}
	if e.older = p.entries[e.key()]; e.older != nil && e.older != settledEntry {
		e.older.superseded = true
	}
	p.entries[e.key()], p.current = e, e
	return e, dropped
}

// dropped returns the messages of entries that the client has dropped, and of the current one's end, that are not held.
func (p *partition) dropped(lost []*entry) (all []lostMessage) {
	miss := func(e *entry) {
		for _, it := range e.items[e.received:] {
			if p.entries[e.key()].find(it.batch) == nil {
				all = append(all, lostMessage{messageKey{p, e.ledger, e.number, it.batch}, it.ackID})
			}
		}
	}
	if p.current != nil && p.current.received < len(p.current.items) {
		miss(p.current)
	}
	for _, e := range lost {
		miss(e)
	}
	return all
}

// idle says that nothing has come for a while, and returns what the client has read and does not hand over. No copies are on their
// way.
func (p *partition) idle() []lostMessage {
	dropped := p.dropped(p.source.arrivals.rest())
	if nonPersistent(p.name) {
		dropped = nil
	}
	p.current = nil
	p.settled = nil
	for key, e := range p.entries {
		if e.idle() {
			delete(p.entries, key)
		}
	}
	return dropped
}

// idle reports whether an entry is kept for its copies alone: of no delivery of it, which a later one may not have received all of, is
// anything to be acknowledged.
func (e *entry) idle() bool {
	for ; e != nil && e != settledEntry; e = e.older {
		if e.undone > 0 || e.dirty || e.acking {
			return false
		}
	}
	return true
}

// forget drops what was settled long enough ago.
func (p *partition) forget() {
	for len(p.settled) > 0 && p.settled[0].until < p.received {
		key := p.settled[0].key
		if e := p.entries[key]; e != nil && e.idle() && e != p.current {
			delete(p.entries, key)
		}
		p.settled = p.settled[1:]
	}
}

// finished says that an item is done: its acknowledgement is due.
func (p *partition) finished(it *item) {
	it.done = true
	it.entry.undone--
	p.soil(it.entry)
}

func (p *partition) soil(e *entry) {
	if !e.dirty {
		e.dirty = true
		p.acker.dirty = append(p.acker.dirty, e)
	}
}

// settle says that the acknowledgement of an item of a delivery is confirmed, and returns how many messages are let go of.
func (it *item) settle() int {
	counts := it.counts()
	if counts == settledItem || counts.acked {
		it.acked = true
		return 0
	}
	it.acked, counts.acked = true, true
	counts.msg = nil
	return 1
}

// settle says so of all of an entry. Nothing refers to it then, unless a later delivery has begun.
func (p *partition) settle(e *entry) (held int, free bool) {
	for i := range e.items {
		held += e.items[i].settle()
	}
	if p.entries[e.key()] == e {
		p.entries[e.key()] = settledEntry
		free = !e.superseded
	}
	if p.current == e {
		p.current = nil
	}
	p.retire(e)
	return held, free
}

// retire lets an entry of which nothing is held be forgotten in time.
func (p *partition) retire(e *entry) {
	p.settled = append(p.settled, settledMessages{e.key(), p.received + p.window})
}
