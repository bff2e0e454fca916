package pulsartest

import (
	"slices"
)

// subscription is a cursor in a topic and the consumers that share it. Broker.mu guards it.
type subscription struct {
	topic      *topic
	name       string
	durable    bool
	replicated bool
	properties map[string]string
	cursor     cursor

	kind       subscriptionType
	dispatcher dispatcher // nil without consumers
	last       lastKind
	consumers  []*consumer
	ended      bool // its consumers were told that nothing more will come, since the topic was terminated

	delivered, bytes int64 // messages given out, and the bytes of their entries
}

// lastKind is how a subscription's consumers shared it last, which statistics tell while there are none.
type lastKind struct {
	kind       string // "" before the first
	mode       string // of Key_Shared
	outOfOrder bool
}

// consumer is one consumer of a connection.
type consumer struct {
	conn       *conn
	id         uint64
	name       string
	sub        *subscription
	priority   int
	metadata   map[string]string
	permits    int   // messages that it has asked for and not got
	delivered  int64 // messages
	unacked    int   // messages that it has got and not acknowledged; Shared and Key_Shared only
	maxUnacked int   // of them, beyond which it gets none
	epoch      uint64
	hasEpoch   bool
	sticky     bool
	outOfOrder bool
	ranges     []hashRange
	namesake   int  // the lowest number that no other of its name has; Key_Shared only
	compacted  bool // sees what compaction has left
}

// add connects a consumer. Nothing is sent before dispatch.
func (s *subscription) add(c *consumer, kind subscriptionType) *refusal {
	if s.dispatcher != nil && s.kind != kind {
		return refuse(consumerBusy, "Subscription is of different type")
	}
	d := s.dispatcher
	if d == nil {
		d = newDispatcher(s, kind, c)
		s.last = lastKind{kind: kind.String()}
		if k, ok := d.(*byKey); ok {
			s.last.mode, s.last.outOfOrder = map[bool]string{true: "STICKY", false: "AUTO_SPLIT"}[k.sticky], k.outOfOrder
		}
	}
	if why := d.add(c); why != nil {
		return why
	}
	s.dispatcher, s.kind = d, kind
	s.consumers = append(s.consumers, c)
	return nil
}

// remove disconnects a consumer: what it has not acknowledged goes to the others, or to the next one to come.
func (s *subscription) remove(c *consumer) {
	i := slices.Index(s.consumers, c)
	if i < 0 {
		return
	}
	s.consumers = slices.Delete(s.consumers, i, i+1)
	if len(s.consumers) == 0 {
		s.dispatcher.stop()
		s.dispatcher = nil
		return
	}
	s.dispatcher.remove(c)
	s.dispatch()
}

// gone tells whether a reader was closed by its own seek: what is left is the position, should it come back.
func (s *subscription) gone() bool {
	return !s.durable && len(s.consumers) == 0 && !s.topic.name.transient()
}

// left is what consumers leave behind: a reader's subscription ends with it.
func (s *subscription) left() {
	if !s.durable && len(s.consumers) == 0 {
		delete(s.topic.subs, s.name)
	}
}

// disconnect closes all consumers from the broker's side, and lets none of them have what others leave.
func (s *subscription) disconnect(to *node) {
	s.close(s.consumers, to)
}

func (s *subscription) close(some []*consumer, to *node) {
	some = slices.Clone(some)
	s.consumers = slices.DeleteFunc(s.consumers, func(c *consumer) bool { return slices.Contains(some, c) })
	if len(s.consumers) == 0 && s.dispatcher != nil {
		s.dispatcher.stop()
		s.dispatcher = nil
	}
	for _, c := range some {
		c.conn.sendClose(cmdCloseConsumer, c.id, to)
		if c.conn.consumers[c.id] == c {
			delete(c.conn.consumers, c.id)
		}
	}
}

// mayEnd tells whether a consumer may end the subscription: it has no others, and is not one that waits to become active.
func (s *subscription) mayEnd(c *consumer) bool {
	d, ok := s.dispatcher.(*single)
	return len(s.consumers) == 1 && (!ok || d.active == c)
}

// tellEnd tells the consumers that nothing more will come, if that is so and everything is acknowledged.
func (s *subscription) tellEnd() {
	if !s.topic.terminated || s.cursor.markDelete < len(s.topic.entries) {
		return
	}
	for _, c := range s.consumers {
		c.conn.sendReachedEnd(c.id)
	}
	s.ended = len(s.consumers) > 0
}

func (s *subscription) dispatch() {
	if s.dispatcher != nil {
		s.dispatcher.dispatch()
	}
}

// seek moves the cursor to index i, of whose batch set says what is left (nil: all), and closes the consumers; of a Failover
// subscription the active one.
func (s *subscription) seek(i int, set []uint64) {
	if d, ok := s.dispatcher.(*single); ok {
		s.close([]*consumer{d.active}, nil) // once more, if it is closed already
	} else {
		s.disconnect(nil)
	}
	s.cursor = newCursor(i)
	if i < len(s.topic.entries) && len(set) > 0 {
		s.cursor.ackBatch(i, s.topic.entries[i].messages, set)
	}
}

// ack acknowledges one entry, or those of its messages that its ack set leaves out. An unknown id is ignored, as Pulsar does.
func (s *subscription) ack(id messageID) {
	i, ok := s.topic.find(id)
	if !ok {
		return
	}
	left := 0
	if len(id.ackSet) > 0 {
		left = s.cursor.ackBatch(i, s.topic.entries[i].messages, id.ackSet)
	} else {
		s.cursor.ack(i)
	}
	if s.dispatcher != nil {
		s.dispatcher.acked(i, left)
	}
}

// ackUpTo acknowledges every entry up to this one, and of this one what its ack set leaves out.
func (s *subscription) ackUpTo(id messageID) {
	i, ok := s.topic.find(id)
	if !ok {
		return
	}
	s.cursor.ackBefore(i)
	s.ack(id)
}

// send gives a consumer entry i: what is left of it.
func (s *subscription) send(c *consumer, i int, redeliveries uint32) (messages int) {
	e := s.topic.entryFor(c, i)
	if messages = s.cursor.left(i, e.messages); messages == 0 {
		messages = e.messages // acknowledged, and sent all the same
	}
	c.permits -= messages
	s.delivered += int64(messages)
	s.bytes += int64(len(e.data))
	c.delivered += int64(messages)
	id := s.topic.id(i)
	id.ackSet = s.cursor.partial[i]
	c.conn.sendMessage(c, id, redeliveries, e.data)
	return messages
}
