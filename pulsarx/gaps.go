package pulsarx

import (
	"slices"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// When its connection breaks, pulsar-client-go drops what it has queued, since the broker will send it again. It does so while the
// old connection's last messages still come in: then a message reaches Run whose predecessor has been dropped. After two breaks
// in a row it may even drop what the broker has sent again, and will not a third time. Both would break the order of a key, or
// leave a message unhandled. So arrivals takes down every message when the client reads it from the connection, and gaps, when a
// message comes to Run, which ones in front of it do not: those are missing. What stands behind a missing message in its partition
// is parked until that has come, which the broker is asked for after a while.
const (
	missingAsk    = time.Second
	missingForget = 30 * time.Second // it has gone to another consumer
)

// gaps are the missing messages of a partition and what is parked behind them.
type gaps struct {
	missing map[messageKey]*missingMessage
	parked  []*item
}

type missingMessage struct {
	id           pulsar.MessageID
	since, asked time.Time
}

// lostMessage is one that the client has dropped.
type lostMessage struct {
	key messageKey
	id  pulsar.MessageID
}

func (g *gaps) miss(lost []lostMessage, now time.Time) {
	for _, l := range lost {
		if g.missing == nil {
			g.missing = map[messageKey]*missingMessage{}
		}
		if g.missing[l.key] == nil {
			g.missing[l.key] = &missingMessage{id: l.id, since: now}
		}
	}
}

// pass takes a message that has come, and returns what may be handled now: it, if it is new, and what was parked, as far as nothing
// in front of them is missing.
func (g *gaps) pass(it *item, fresh bool) []*item {
	delete(g.missing, it.key())
	if fresh {
		g.parked = append(g.parked, it)
	}
	return g.release()
}

// giveUp forgets the missing messages, and returns their entries: the broker is to send them, whenever it does.
func (g *gaps) giveUp() []pulsar.MessageID {
	var ids entryIDs
	for key, m := range g.missing {
		ids.add(key, m.id)
	}
	clear(g.missing)
	return ids.list
}

func (g *gaps) release() (free []*item) {
	var first *messageKey // that is missing
	for key := range g.missing {
		if first == nil || key.before(*first) {
			first = &key
		}
	}
	kept := g.parked[:0]
	for _, it := range g.parked {
		if first != nil && first.before(it.key()) {
			kept = append(kept, it)
		} else {
			free = append(free, it)
		}
	}
	clear(g.parked[len(kept):])
	g.parked = kept
	slices.SortStableFunc(free, func(a, b *item) int {
		switch {
		case a.key().before(b.key()):
			return -1
		case b.key().before(a.key()):
			return 1
		}
		return 0
	})
	return free
}

// overdue returns the entries that the broker is to be asked for, and forgets those that it does not have for us.
func (g *gaps) overdue(now time.Time) []pulsar.MessageID {
	var ask entryIDs
	for key, m := range g.missing {
		switch {
		case now.Sub(m.since) >= missingForget:
			delete(g.missing, key)
		case now.Sub(m.since) >= missingAsk && now.Sub(m.asked) >= 2*missingAsk:
			m.asked = now
			ask.add(key, m.id)
		}
	}
	return ask.list
}

// entryIDs are ids of entries, each once: the broker sends all of an entry that is not acknowledged.
type entryIDs struct {
	seen map[entryKey]bool
	list []pulsar.MessageID
}

func (ids *entryIDs) add(key messageKey, id pulsar.MessageID) {
	e := entryKey{key.ledger, key.entry}
	if ids.seen == nil {
		ids.seen = map[entryKey]bool{}
	}
	if !ids.seen[e] {
		ids.seen[e] = true
		ids.list = append(ids.list, id)
	}
}
