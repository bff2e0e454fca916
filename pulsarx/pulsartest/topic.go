package pulsartest

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// topic is the log of one topic, or of one partition of a topic, with everybody who is connected to it. Broker.mu guards it.
//
// Within the broker an entry is named by its index in entries; ledgers says which message ids the indexes have.
type topic struct {
	broker     *Broker
	name       topicName
	entries    []entry
	ledgers    []ledger
	messages   int64 // in all entries
	bytes      int64
	messagesIn int64 // that producers have sent since it was loaded, also those that were stored before
	bytesIn    int64
	terminated bool  // takes no further entries
	dropped    int64 // messages of a topic that stores none which a subscription's consumers had no permits for

	producers map[string]*producer // by name
	epoch     int64                // grows with each exclusive producer, from -1
	exclusive *producer
	waiting   []*producer // for exclusive access, in order

	compacted *compaction // nil before the first

	sequences map[string]uint64 // highest sequence id by producer name, where messages are deduplicated
	subs      map[string]*subscription
}

// ledger is a run of entries with consecutive ids. A topic opens a new one when the broker starts, as Pulsar does.
type ledger struct {
	id    int64
	first int
}

func (b *Broker) newTopic(name topicName) *topic {
	t := &topic{
		broker: b, name: name, producers: map[string]*producer{}, epoch: -1,
		sequences: map[string]uint64{}, subs: map[string]*subscription{},
	}
	t.openLedger()
	return t
}

func (t *topic) openLedger() {
	if n := len(t.ledgers); n > 0 && t.ledgers[n-1].first == len(t.entries) {
		t.ledgers = t.ledgers[:n-1] // nothing was written to it
	}
	t.broker.lastLedger++
	t.ledgers = append(t.ledgers, ledger{id: t.broker.lastLedger, first: len(t.entries)})
}

// id is the message id of the entry at index i. The one before the first has entry id -1.
func (t *topic) id(i int) messageID {
	n := sort.Search(len(t.ledgers), func(n int) bool { return t.ledgers[n].first > i }) - 1
	l := t.ledgers[max(n, 0)]
	return messageID{ledger: l.id, entry: int64(i - l.first), partition: t.name.partition, batchIndex: -1}
}

// index is where the entry with this id is or, if there is none, where the next one after it would be.
func (t *topic) index(id messageID) int {
	n, found := slices.BinarySearchFunc(t.ledgers, id.ledger, func(l ledger, id int64) int { return cmp.Compare(l.id, id) })
	switch {
	case n == len(t.ledgers):
		return len(t.entries)
	case !found || id.entry < 0:
		return t.ledgers[n].first
	}
	end := len(t.entries)
	if n+1 < len(t.ledgers) {
		end = t.ledgers[n+1].first
	}
	return t.ledgers[n].first + int(min(id.entry, int64(end-t.ledgers[n].first)))
}

// find is the index of the entry with exactly this id.
func (t *topic) find(id messageID) (int, bool) {
	i := t.index(id)
	return i, i < len(t.entries) && t.id(i).ledger == id.ledger && t.id(i).entry == id.entry
}

// reached tells whether there is an entry with this id or a later one, or it is that of the next to come.
func (t *topic) reached(id messageID) bool {
	if t.index(id) < len(t.entries) {
		return true
	}
	id.entry--
	_, found := t.find(id)
	return found
}

// indexAt is the index of the first entry published at or after a time, in milliseconds.
func (t *topic) indexAt(millis int64) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].published >= millis })
}

// messagesFrom counts the messages of the entries from index i on.
func (t *topic) messagesFrom(i int) int64 {
	if i >= len(t.entries) {
		return 0
	}
	return t.messages - t.entries[i].offset
}

// append stores an entry and offers it to every subscription.
func (t *topic) append(e entry) messageID {
	if t.name.transient() {
		return t.pass(e)
	}
	e.offset = t.messages
	t.entries = append(t.entries, e)
	t.messages += int64(e.messages)
	t.bytes += int64(len(e.data))
	for _, s := range t.subs {
		s.dispatch()
	}
	return t.id(len(t.entries) - 1)
}

// pass gives an entry to who is there to take it, and stores nothing. All entries of such a topic have one id.
func (t *topic) pass(e entry) messageID {
	for _, s := range t.subs {
		if s.dispatcher == nil {
			continue
		}
		c := s.dispatcher.takes(&e)
		if c == nil || c.permits <= 0 {
			t.dropped += int64(e.messages)
			continue
		}
		c.permits -= e.messages
		c.delivered += int64(e.messages)
		s.delivered += int64(e.messages)
		s.bytes += int64(len(e.data))
		c.conn.sendMessage(c, messageID{partition: t.name.partition}, 0, e.data)
	}
	return messageID{partition: t.name.partition}
}

// terminate lets a topic take no more: its producers are closed, and its consumers told once they have acknowledged everything.
func (t *topic) terminate() {
	t.terminated = true
	t.failWaiting(refuse(topicTerminated, "Topic was already terminated"))
	for _, p := range slices.Collect(maps.Values(t.producers)) {
		p.conn.closeProducer(p, nil)
	}
	for _, s := range t.subs {
		s.tellEnd()
	}
}

// subscribed returns a subscription, made at index start if there is none.
func (t *topic) subscribed(name string, durable bool, start int) *subscription {
	s := t.subs[name]
	if s == nil {
		s = &subscription{topic: t, name: name, durable: durable, cursor: newCursor(start)}
		t.subs[name] = s
	}
	return s
}

func (t *topic) consumers() int {
	n := 0
	for _, s := range t.subs {
		n += len(s.consumers)
	}
	return n
}

// busy says whether a client is connected.
func (t *topic) busy() bool {
	return len(t.producers) > 0 || t.consumers() > 0
}

// disconnect tells every producer and consumer that the broker closed it; clients look the topic up again, or go to the broker named.
func (t *topic) disconnect(to *node) {
	t.failWaiting(refuse(serviceNotReady, "Topic is temporarily unavailable"))
	for _, p := range slices.Collect(maps.Values(t.producers)) {
		p.conn.closeProducer(p, to)
	}
	for _, s := range t.subs {
		s.disconnect(to)
	}
}

// restart is what a broker's restart leaves: the log and the durable cursors.
func (t *topic) restart() {
	t.openLedger()
	t.messagesIn, t.bytesIn, t.waiting = 0, 0, nil
	for _, s := range t.subs {
		s.last, s.ended = lastKind{}, false
	}
	maps.DeleteFunc(t.subs, func(_ string, s *subscription) bool { return !s.durable })
}
