package pulsartest

import "math/bits"

// cursor says which entries of a topic a subscription has acknowledged.
type cursor struct {
	markDelete int              // all entries before this index are acknowledged
	acked      map[int]struct{} // entries after it that are
	partial    map[int]batch    // batches of which some messages are
}

// batch has a bit for each message of a batch, set while it is not acknowledged: an ack_set as it travels.
type batch []uint64

func newBatch(messages int) batch {
	b := make(batch, (messages+63)/64)
	for i := range b {
		b[i] = ^uint64(0)
	}
	if rest := messages % 64; rest > 0 {
		b[len(b)-1] = 1<<rest - 1
	}
	return b
}

func (b batch) count() int {
	n := 0
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// and keeps the bits that are also in set. What set does not reach is acknowledged.
func (b batch) and(set []uint64) {
	for i := range b {
		if i < len(set) {
			b[i] &= set[i]
		} else {
			b[i] = 0
		}
	}
}

func newCursor(start int) cursor {
	return cursor{markDelete: start, acked: map[int]struct{}{}, partial: map[int]batch{}}
}

func (c *cursor) isAcked(i int) bool {
	if i < c.markDelete {
		return true
	}
	_, ok := c.acked[i]
	return ok
}

// ack acknowledges entry i.
func (c *cursor) ack(i int) {
	if c.isAcked(i) {
		return
	}
	delete(c.partial, i)
	c.acked[i] = struct{}{}
	c.advance()
}

func (c *cursor) advance() {
	for {
		if _, ok := c.acked[c.markDelete]; !ok {
			return
		}
		delete(c.acked, c.markDelete)
		c.markDelete++
	}
}

// ackBatch acknowledges the messages of entry i that are not in set, and tells how many are left.
func (c *cursor) ackBatch(i, messages int, set []uint64) (left int) {
	if c.isAcked(i) {
		return 0
	}
	b, ok := c.partial[i]
	if !ok {
		b = newBatch(messages)
		c.partial[i] = b
	}
	b.and(set)
	if left = b.count(); left == 0 {
		c.ack(i)
	}
	return left
}

// ackBefore acknowledges every entry before index i.
func (c *cursor) ackBefore(i int) {
	if i <= c.markDelete {
		return
	}
	for k := range c.acked {
		if k < i {
			delete(c.acked, k)
		}
	}
	for k := range c.partial {
		if k < i {
			delete(c.partial, k)
		}
	}
	c.markDelete = i
	c.advance()
}

// left is how many messages of entry i, which has so many, are not acknowledged.
func (c *cursor) left(i, messages int) int {
	if c.isAcked(i) {
		return 0
	}
	if b, ok := c.partial[i]; ok {
		return b.count()
	}
	return messages
}

// backlog counts the messages of a topic that are not acknowledged.
func (c *cursor) backlog(t *topic) int64 {
	n := t.messagesFrom(c.markDelete)
	for i := range c.acked {
		n -= int64(t.entries[i].messages)
	}
	for i, b := range c.partial {
		n -= int64(t.entries[i].messages - b.count())
	}
	return n
}
