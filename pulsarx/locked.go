package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

// undecrypted says why a message has come as it is encrypted, its whole entry as one, nil where it has not.
func (c *Client) undecrypted(m pulsar.Message) error {
	e := m.GetEncryptionContext()
	if e == nil {
		return nil
	}
	c.tel.decryptErrors.Add(context.Background(), 1)
	var reasons []error
	for _, name := range slices.Sorted(maps.Keys(e.Keys)) {
		box := &messageCrypto{encryption: c.options.Encryption}
		_, err := box.dataKey(*crypto.NewEncryptionKeyInfo(name, e.Keys[name].KeyValue, nil))
		if err == nil {
			err = errors.New("it has just come, or the payload is another one's")
		}
		reasons = append(reasons, fmt.Errorf("key %q: %w", name, err))
	}
	return fmt.Errorf("%w %d:%d of %s: %w", ErrDecryption, m.ID().LedgerID(), m.ID().EntryID(), m.Topic(), joined(reasons))
}

// lastOfEncrypted is the offset of the last message of an entry that has come as it is encrypted.
func lastOfEncrypted(m pulsar.Message) string {
	last := max(m.GetEncryptionContext().BatchSize-1, 0)
	return offset(pulsar.NewMessageID(m.ID().LedgerID(), m.ID().EntryID(), int32(last), 0))
}

// The waits until entries that could not be decrypted are asked for again.
const (
	lockedWait = time.Second
	lockedMost = 30 * time.Second
	lockedOver = 5 * time.Second // after this, what was asked for has come, and could be decrypted
)

// locked are the entries of a partition that could not be decrypted, and wait for their keys: they stay with the broker, which is asked
// for them again and again, while others go on. Each has a place in MaxInFlight until it is asked for.
type locked struct {
	entries entryIDs
	due     time.Time // to ask for them
	asked   int       // times in a row
	// The client counts an entry as one message: more of its permits than it knows are used, by entries, and by all since it subscribed.
	permits, used int
}

func (l *locked) add(m pulsar.Message, now time.Time) (fresh int) {
	before := len(l.entries.list)
	if before == 0 {
		l.due = now.Add(min(lockedWait<<min(l.asked, 10), lockedMost))
	}
	id := m.ID()
	l.entries.add(messageKey{ledger: id.LedgerID(), entry: id.EntryID()}, id)
	more := max(m.GetEncryptionContext().BatchSize-1, 0)
	l.permits, l.used = l.permits+more, l.used+more
	return len(l.entries.list) - before
}

// take returns the entries that are due.
func (l *locked) take(now time.Time) (ids []MessageID) {
	switch {
	case len(l.entries.list) > 0 && !now.Before(l.due):
		ids, l.entries = l.entries.list, entryIDs{}
		l.asked++
	case len(l.entries.list) == 0 && now.Sub(l.due) > lockedOver:
		l.asked = 0
	}
	return ids
}

// lock puts a message aside that could not be decrypted.
func (r *run[T]) lock(p *partition, m pulsar.Message, why error, now time.Time) {
	r.held += p.locked.add(m, now)
	if log := r.c.client.options.Logger; log != nil {
		log.Warn("pulsarx: a message waits for its key", "subscription", r.c.options.Subscription, "error", why)
	}
}

// unlock asks for entries once more. They come before anything newer does, if they come at all.
func (r *run[T]) unlock(now time.Time) {
	before := r.held
	for _, p := range r.partitions {
		ids := p.locked.take(now)
		r.held -= len(ids)
		switch {
		case len(ids) == 0:
		case 2*p.locked.used > p.source.queue: // the flow dries up: the broker counts anew, with room for these beside others
			r.c.feed.renew(p.source, 2*p.locked.permits) // it asks for more when it has counted half of its queue
			p.locked.permits, p.locked.used = 0, 0
		default:
			p.source.ask(ids)
			p.locked.permits = 0
		}
	}
	r.tel.inFlight.Add(context.Background(), int64(r.held-before), r.attrs)
}
