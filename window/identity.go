package window

import "crypto/sha256"

// idHash stands for an event's id. It is cut from SHA-256, so that nobody finds two ids with one hash.
type idHash [16]byte

func hashID(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}

// idMemory remembers the ids of events until the watermark is a horizon past them. It has two generations: when the younger is
// half of the bound, the older is forgotten.
type idMemory struct {
	young, old map[idHash]Timestamp
	youngest   Timestamp // of old: when it may be forgotten as a whole
	newest     Timestamp // of young
	horizon    Timestamp
	limit      int
	added      []idHash // to young since the last snapshot, where there is one
	saved      bool
	turned     bool // others are gone since
}

func newIDMemory[D ~int64](horizon D, limit int) *idMemory {
	return &idMemory{
		young: map[idHash]Timestamp{}, old: map[idHash]Timestamp{}, horizon: Timestamp(horizon), limit: max(limit/2, 1),
		youngest: MinTimestamp, newest: MinTimestamp,
	}
}

// has says whether an id is remembered at a watermark. What is past its horizon is not, although it may still be there.
func (m *idMemory) has(h idHash, watermark Timestamp) bool {
	t, ok := m.young[h]
	if !ok {
		t, ok = m.old[h]
	}
	return ok && watermark < sum(t, m.horizon)
}

// add remembers an id, and returns how many were forgotten for it before their time.
func (m *idMemory) add(h idHash, t Timestamp) (forgotten uint64) {
	if len(m.young) >= m.limit {
		forgotten = uint64(len(m.old))
		m.turn()
	}
	m.young[h] = t
	if m.saved && !m.turned {
		m.added = append(m.added, h)
	}
	m.newest = max(m.newest, t)
	return forgotten
}

// save notes that a snapshot has all ids.
func (m *idMemory) save() { m.saved, m.turned, m.added = true, false, m.added[:0] }

func (m *idMemory) turn() {
	m.turned, m.added = true, nil
	m.young, m.old = m.old, m.young
	m.youngest, m.newest = m.newest, MinTimestamp
	clear(m.young)
}

// forget drops the older generation when the watermark is the horizon past all of it; the younger takes its place.
func (m *idMemory) forget(watermark Timestamp) {
	if len(m.old) > 0 && watermark >= sum(m.youngest, m.horizon) {
		clear(m.old)
		m.turned, m.added = true, nil
	}
	if len(m.old) == 0 && len(m.young) > 0 {
		m.turn()
	}
}

func sum(t, d Timestamp) Timestamp {
	if s := t + d; d <= 0 || s > t {
		return s
	}
	return MaxTimestamp
}
