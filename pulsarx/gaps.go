package pulsarx

import (
	"slices"
	"sync"
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
	maxArrivals   = 1 << 14          // a partition, remembered
)

// arrivals are the messages that the client has read and Run has not received, by partition, in order.
type arrivals struct {
	mu    sync.Mutex
	lists map[string]*arrivalList
}

type arrivalList struct {
	list []arrival
	last pulsar.MessageID
	copy int64
}

// arrival is a message as the client has read it. The copy tells two deliveries of an entry apart: an entry is delivered with all
// of its messages that are not acknowledged, so that another delivery begins where an id does not follow on the one before.
type arrival struct {
	id   pulsar.MessageID
	copy int64
}

func (a *arrivals) push(partition string, id pulsar.MessageID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lists[partition]
	if l == nil {
		l = &arrivalList{}
		a.lists[partition] = l
	}
	if l.last != nil && !keyOf(nil, l.last).before(keyOf(nil, id)) {
		l.copy++
	}
	l.last = id
	if len(l.list) == maxArrivals {
		l.list = l.list[1:]
	}
	l.list = append(l.list, arrival{id, l.copy})
}

// pop takes a message off, and returns which copy of its entry it belongs to, and the messages in front of it.
func (a *arrivals) pop(partition string, id pulsar.MessageID) (copied int64, dropped []arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lists[partition]
	if l == nil {
		return -1, nil
	}
	at := slices.IndexFunc(l.list, func(v arrival) bool { return v.id == id }) // the same value, not an equal one
	if at < 0 {
		return -1, nil
	}
	copied = l.list[at].copy
	if at > 0 {
		dropped = slices.Clone(l.list[:at])
	}
	if l.list = l.list[at+1:]; len(l.list) == 0 {
		l.list = nil
	}
	return copied, dropped
}

// rest takes all off.
func (a *arrivals) rest() map[string][]arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := map[string][]arrival{}
	for partition, l := range a.lists {
		if len(l.list) > 0 {
			rest[partition], l.list = l.list, nil
		}
	}
	return rest
}

// gaps are the missing messages of a partition and what is parked behind them.
type gaps struct {
	missing map[messageKey]*missingMessage
	parked  []*item
}

type missingMessage struct {
	id           pulsar.MessageID
	since, asked time.Time
}

func (g *gaps) miss(key messageKey, id pulsar.MessageID, now time.Time) {
	if g.missing == nil {
		g.missing = map[messageKey]*missingMessage{}
	}
	if g.missing[key] == nil {
		g.missing[key] = &missingMessage{id: id, since: now}
	}
}

// pass takes a message that has come, and returns what may be handled now: it and what was parked, as far as nothing in front of
// them is missing.
func (g *gaps) pass(it *item) []*item {
	if len(g.missing) == 0 {
		return []*item{it}
	}
	delete(g.missing, it.id)
	g.parked = slices.DeleteFunc(g.parked, func(old *item) bool { return old.id == it.id })
	g.parked = append(g.parked, it)
	return g.release()
}

// giveUp forgets the missing messages, and returns them: the broker is to send them, whenever it does.
func (g *gaps) giveUp() (ids []pulsar.MessageID) {
	for _, m := range g.missing {
		ids = append(ids, m.id)
	}
	clear(g.missing)
	return ids
}

func (g *gaps) release() (free []*item) {
	kept := g.parked[:0]
	for _, it := range g.parked {
		blocked := false
		for key := range g.missing {
			blocked = blocked || key.before(it.id)
		}
		if blocked {
			kept = append(kept, it)
		} else {
			free = append(free, it)
		}
	}
	g.parked = kept
	slices.SortStableFunc(free, func(a, b *item) int {
		switch {
		case a.id.before(b.id):
			return -1
		case b.id.before(a.id):
			return 1
		}
		return 0
	})
	return free
}

// overdue returns the missing messages that the broker is to be asked for, and forgets those that it does not have for us.
func (g *gaps) overdue(now time.Time) (ask []pulsar.MessageID) {
	for key, m := range g.missing {
		switch {
		case now.Sub(m.since) >= missingForget:
			delete(g.missing, key)
		case now.Sub(m.since) >= missingAsk && now.Sub(m.asked) >= 2*missingAsk:
			m.asked = now
			ask = append(ask, m.id)
		}
	}
	return ask
}
