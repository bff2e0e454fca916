package pulsarx

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// fakeID is a message's id in one delivery, with the client's set of what the delivery's messages have acknowledged.
type fakeID struct {
	ledger, number int64
	batch, size    int32
	acked          map[int32]bool
	left           int // that are not
}

func (id *fakeID) Serialize() []byte   { return nil }
func (id *fakeID) LedgerID() int64     { return id.ledger }
func (id *fakeID) EntryID() int64      { return id.number }
func (id *fakeID) BatchIdx() int32     { return id.batch }
func (id *fakeID) PartitionIdx() int32 { return 0 }
func (id *fakeID) BatchSize() int32    { return id.size }
func (id *fakeID) String() string      { return fmt.Sprintf("%d:%d:%d", id.ledger, id.number, id.batch) }

func (id *fakeID) Ack() error {
	id.acked[id.batch] = true
	return nil
}

// fakeMessage has an id and nothing else.
type fakeMessage struct {
	pulsar.Message
	id *fakeID
}

func (m fakeMessage) ID() pulsar.MessageID { return m.id }

// fakeSource is a broker and a client of one partition: it delivers entries, drops what is queued when the connection breaks, delivers
// again what is not acknowledged, and takes acknowledgements.
type fakeSource struct {
	t       *testing.T
	sizes   []int
	acked   []map[int32]bool
	handled []map[int32]bool
	sent    int // entries that were delivered on this connection
	queue   []fakeMessage
	p       *partition
	limit   int // entries that arrivals remember
}

func newFakeSource(t *testing.T, rng *rand.Rand, entries int) *fakeSource {
	t.Helper()
	s := &fakeSource{t: t, p: parsePartition("t"), limit: 1000}
	s.p.source = &subscribed{name: "t", queue: 1000}
	s.p.entries, s.p.window = map[entryKey]*entry{}, 20
	for range entries {
		s.sizes = append(s.sizes, 1+rng.IntN(5))
		s.acked, s.handled = append(s.acked, map[int32]bool{}), append(s.handled, map[int32]bool{})
	}
	return s
}

// deliver sends the next entry.
func (s *fakeSource) deliver() {
	if s.sent == len(s.sizes) {
		return
	}
	n := s.sent
	s.sent++
	tracker := map[int32]bool{}
	for i := range int32(s.sizes[n]) {
		if !s.acked[n][i] {
			id := &fakeID{7, int64(n), i, int32(s.sizes[n]), tracker, 0}
			s.p.source.arrivals.push(id, s.limit)
			s.queue = append(s.queue, fakeMessage{id: id})
		}
	}
}

// lose breaks the connection: what is queued is dropped, but the end of what still comes in.
func (s *fakeSource) lose(rng *rand.Rand) {
	keep := 0
	if len(s.queue) > 0 && rng.IntN(3) == 0 { // whole entries that come in behind the drop
		keep = rng.IntN(len(s.queue))
		for keep > 0 && s.queue[len(s.queue)-keep].id.number == s.queue[len(s.queue)-keep-1].id.number {
			keep--
		}
	}
	s.queue = s.queue[len(s.queue)-keep:]
	s.sent = 0
}

// ack is what the broker does with a request.
func (s *fakeSource) ack(ids []MessageID) {
	s.t.Helper()
	seen := map[int64]bool{}
	for _, id := range ids {
		n := id.EntryID()
		if seen[n] {
			s.t.Fatalf("entry %d stands twice in a request: the client keeps one", n)
		}
		seen[n] = true
		set := map[int32]bool{}
		if f, ok := id.(*fakeID); ok && f.size > 1 {
			f.acked[f.batch] = true
			set = f.acked
		} else {
			for i := range int32(s.sizes[n]) {
				set[i] = true
			}
		}
		for i := range set {
			if !s.handled[n][i] {
				s.t.Fatalf("message %d:%d is acknowledged and was not handled", n, i)
			}
			s.acked[n][i] = true
		}
	}
}

func (s *fakeSource) allAcked() bool {
	for n, size := range s.sizes {
		if len(s.acked[n]) != size {
			return false
		}
	}
	return true
}

// TestPartitionProperty: whatever connections and acknowledgements do, no message is acknowledged before it was handled, each is
// handled once while it is held, in order, all are acknowledged in the end, and nothing is kept.
func TestPartitionProperty(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newFakeSource(t, rng, 1+rng.IntN(30))
		s.p.window = 10_000 // the copies that this client may hold
		p, now := s.p, time.Unix(1000, 0)
		held, last := 0, messageKey{entry: -1}
		var open []*item
		var flying *ackRequest
		add := func(it *item) {
			if key := it.key(); !last.before(key) {
				t.Fatalf("seed %d: %d:%d after %d:%d", seed, key.entry, key.batch, last.entry, last.batch)
			}
			last = it.key()
			held++
			open = append(open, it)
		}
		take := func() {
			if len(s.queue) == 0 {
				return
			}
			m := s.queue[0]
			s.queue = s.queue[1:]
			it, fresh, lost := p.receive(m, now)
			p.gaps.miss(lost, now)
			if it.ackID != m.ID() {
				t.Fatalf("seed %d: %v is taken for %v", seed, m.ID(), it.ackID)
			}
			if len(p.gaps.missing) == 0 && len(p.gaps.parked) == 0 {
				if fresh {
					add(it)
				}
				return
			}
			for _, it := range p.gaps.pass(it, fresh) {
				add(it)
			}
		}
		finishAck := func() {
			applied, confirmed := rng.IntN(8) > 0, rng.IntN(8) > 0
			if applied {
				s.ack(flying.ids)
			}
			held -= p.confirm(flying, applied && confirmed)
			flying = nil
		}
		for step := 0; !s.allAcked() || held > 0; step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: stuck with %d held, %d parked, %d missing", seed, held, len(p.gaps.parked), len(p.gaps.missing))
			}
			switch rng.IntN(12) {
			case 0, 1, 2:
				s.deliver()
			case 3, 4, 5, 6:
				take()
			case 7, 8, 9:
				if len(open) > 0 {
					i := rng.IntN(len(open))
					it := open[i]
					open = append(open[:i], open[i+1:]...)
					n := it.key().entry
					if s.handled[n][it.batch] {
						t.Fatalf("seed %d: %d:%d is handled twice", seed, n, it.batch)
					}
					s.handled[n][it.batch] = true
					p.finished(it)
				}
			case 10:
				if flying != nil {
					finishAck()
				} else if r := p.request(); len(r.ids) > 0 {
					flying = &r
				}
			case 11:
				if step < 300 && rng.IntN(10) == 0 || s.sent == len(s.sizes) && len(s.queue) == 0 && rng.IntN(20) == 0 {
					s.lose(rng)
				} else if len(s.queue) == 0 && rng.IntN(4) == 0 { // silence, while an acknowledgement is not answered perhaps
					p.gaps.miss(p.idle(), now)
				}
			}
		}
		if flying != nil {
			finishAck()
		}
		s.queue = nil
		p.idle()
		for i := 0; i < 200 && len(p.acker.dirty) > 0; i++ {
			r := p.request()
			if len(r.ids) > 0 {
				s.ack(r.ids)
			}
			p.confirm(&r, true)
		}
		p.idle()
		if len(p.entries) > 0 || len(p.gaps.parked) > 0 || len(p.acker.dirty) > 0 || held != 0 {
			t.Fatalf("seed %d: %d entries, %d parked, %d dirty, %d held are left", seed, len(p.entries), len(p.gaps.parked), len(p.acker.dirty), held)
		}
	}
}

// TestPartitionForgotten: where arrivals have forgotten entries, their messages are handled and acknowledged all the same, one by one.
func TestPartitionForgotten(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s := newFakeSource(t, rng, 30)
		s.limit = 1 + rng.IntN(3)
		for s.sent < len(s.sizes) || len(s.queue) > 0 || len(s.p.acker.dirty) > 0 {
			if rng.IntN(2) == 0 {
				s.deliver()
			}
			if len(s.queue) > 0 && rng.IntN(2) == 0 {
				it, fresh, lost := s.p.receive(s.queue[0], time.Time{})
				if !fresh || len(lost) > 0 {
					t.Fatalf("seed %d: %v is known, or %d are missing", seed, s.queue[0].id, len(lost))
				}
				s.queue = s.queue[1:]
				s.handled[it.entry.number][it.batch] = true
				s.p.finished(it)
			}
			if rng.IntN(3) == 0 {
				r := s.p.request()
				s.ack(r.ids)
				s.p.confirm(&r, true)
			}
		}
		if !s.allAcked() {
			t.Fatalf("seed %d: not all is acknowledged", seed)
		}
	}
}

// TestPartitionForgets: what is settled is forgotten when so many messages have come that no copy is on its way.
func TestPartitionForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := newFakeSource(t, rng, 500)
	most := 0
	for range s.sizes {
		s.deliver()
		for len(s.queue) > 0 {
			it, fresh, _ := s.p.receive(s.queue[0], time.Time{})
			if !fresh {
				t.Fatal("a new message is known")
			}
			s.queue = s.queue[1:]
			s.handled[it.entry.number][it.batch] = true
			s.p.finished(it)
		}
		r := s.p.request()
		s.ack(r.ids)
		s.p.confirm(&r, true)
		most = max(most, len(s.p.entries))
	}
	if most > int(s.p.window)+2 {
		t.Errorf("%d entries are kept", most)
	}
}
