package pulsartest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection: a reader that carries out commands one after the other, and a writer that sends what the
// broker has to say, so that nothing is ever written under Broker.mu.
type conn struct {
	broker    *Broker
	node      *node
	number    int64
	socket    net.Conn
	out       *outbox
	done      chan struct{} // closed with the connection
	closeOnce sync.Once
	since     time.Time
	connected bool // for the reader only, as is refused: the connection has to end
	refused   bool
	muted     atomic.Bool // answers are lost

	// Guarded by Broker.mu.
	producers map[uint64]*producer
	consumers map[uint64]*consumer
	watchers  map[uint64]*watcher
	known     bool                 // authenticated
	refreshes bool                 // answers an AUTH_CHALLENGE
	challenge *time.Timer          // since one was sent, until it is answered
	closed    map[uint64]time.Time // when the broker has closed a producer, for which the client may still be sending
}

func newConn(b *Broker, n *node, number int64, socket net.Conn) *conn {
	return &conn{
		broker: b, node: n, number: number, socket: socket, out: newOutbox(), done: make(chan struct{}), since: time.Now(),
		producers: map[uint64]*producer{}, consumers: map[uint64]*consumer{}, watchers: map[uint64]*watcher{}, closed: map[uint64]time.Time{},
	}
}

// close ends the connection at once; its reader tidies up.
func (c *conn) close() {
	c.closeOnce.Do(func() {
		close(c.done)
		c.out.close()
		_ = c.socket.Close() // nothing to do about a socket that will not close
	})
}

// read carries out the client's commands until the connection ends, or a command says that it must.
func (c *conn) read() {
	in := bufio.NewReaderSize(c.socket, 64<<10)
	var buf []byte
	for {
		var f frame
		var err error
		if f, buf, err = readFrame(in, buf); err != nil || c.ended() || !c.handle(f) {
			return
		}
		c.out.awaitRoom()
	}
}

func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// handle carries out one command, and tells whether the connection goes on.
func (c *conn) handle(f frame) bool {
	if !c.connected && f.kind != cmdConnect && f.kind != cmdPing && f.kind != cmdPong {
		return false
	}
	r := newRequest(f.kind)
	d := decoder{rest: f.body}
	if r.decode(&d); d.err != nil {
		return false
	}
	if send, ok := r.(*sendRequest); ok {
		send.entry, send.err = newEntry(f.entry)
	}
	return c.carryOut(f.kind, r)
}

// write sends what the outbox collects until the connection ends. After finish it sends the rest first.
func (c *conn) write() {
	defer c.close()
	for {
		batch, pause, last := c.out.take()
		if len(batch) > 0 {
			if _, err := batch.WriteTo(c.socket); err != nil {
				return
			}
			c.out.written()
		}
		if last || pause > 0 && !c.wait(pause) {
			return
		}
	}
}

// finish ends the connection when what it has to say is said; a client that does not listen is not waited for.
func (c *conn) finish() {
	_ = c.socket.SetWriteDeadline(time.Now().Add(time.Second)) // a closed socket has no deadline
	c.out.finish()
}

// leave removes a connection with its producers and consumers. Broker.mu is held.
func (c *conn) leave() {
	delete(c.broker.conns, c)
	if c.challenge != nil {
		c.challenge.Stop()
	}
	for _, p := range c.producers {
		p.topic.removeProducer(p)
	}
	clear(c.producers)
	for _, consumer := range c.consumers {
		consumer.sub.remove(consumer)
		consumer.sub.left()
	}
	clear(c.consumers)
}

func (c *conn) producerTopic(id uint64) string {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if p := c.producers[id]; p != nil {
		return p.topic.name.full
	}
	return ""
}

func (c *conn) consumerTopic(id uint64) string {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if consumer := c.consumers[id]; consumer != nil {
		return consumer.sub.topic.name.full
	}
	return ""
}

// outbox collects frames for a connection's writer. Small things are copied together; large entries are passed on as they are.
type outbox struct {
	mu       sync.Mutex
	change   sync.Cond // what the writer and a reader that awaits room wait for
	sealed   net.Buffers
	tail     []byte
	copied   int // bytes queued or being written that are our own copies
	taken    int // of them, being written
	pauses   []pause
	finished bool
	closed   bool
}

// pause holds the writer up behind the first so many of the sealed.
type pause struct {
	behind int
	time   time.Duration
}

const (
	outboxChunk = 32 << 10
	outboxLimit = 8 << 20 // of copied bytes, beyond which no further command is read
	copyBelow   = 2 << 10 // entries smaller than this are copied
)

func newOutbox() *outbox {
	o := &outbox{}
	o.change.L = &o.mu
	return o
}

// add queues a frame: a command and, for a MESSAGE, its entry.
func (o *outbox) add(kind command, body, entry []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.finished {
		return
	}
	if need := len(body) + 32; cap(o.tail)-len(o.tail) < need {
		o.seal()
		o.tail = make([]byte, 0, max(outboxChunk, need))
	}
	before := len(o.tail)
	o.tail = appendFrame(o.tail, kind, body, len(entry))
	switch n := len(entry); {
	case n >= copyBelow:
		o.copied += len(o.tail) - before
		o.seal()
		o.sealed = append(o.sealed, entry)
	default:
		o.tail = append(o.tail, entry...)
		o.copied += len(o.tail) - before
	}
	o.change.Broadcast()
}

// seal moves the tail to what is ready to be written; later frames go behind it in the same chunk.
func (o *outbox) seal() {
	if n := len(o.tail); n > 0 {
		o.sealed = append(o.sealed, o.tail[:n:n])
		o.tail = o.tail[n:]
	}
}

// pause holds up what is added from now on.
func (o *outbox) pause(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seal()
	o.pauses = append(o.pauses, pause{len(o.sealed), d})
	o.change.Broadcast()
}

// take waits for something to write, and says how long to wait after it. last says that nothing comes after it.
func (o *outbox) take() (batch net.Buffers, wait time.Duration, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.sealed) == 0 && len(o.tail) == 0 && len(o.pauses) == 0 && !o.finished && !o.closed {
		o.change.Wait()
	}
	if o.closed {
		return nil, 0, true
	}
	o.seal()
	if len(o.pauses) > 0 {
		next := o.pauses[0]
		batch, o.sealed = o.sealed[:next.behind:next.behind], o.sealed[next.behind:]
		o.pauses = o.pauses[1:]
		for i := range o.pauses {
			o.pauses[i].behind -= next.behind
		}
		return batch, next.time, false // what it was counts until all is written
	}
	batch, o.sealed = o.sealed, nil
	o.taken = o.copied
	return batch, 0, o.finished
}

// written follows when what was taken is on its way.
func (o *outbox) written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copied -= o.taken
	o.taken = 0
	o.change.Broadcast()
}

// awaitRoom holds a reader up while its client does not take its answers.
func (o *outbox) awaitRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.copied > outboxLimit && !o.closed {
		o.change.Wait()
	}
}

func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	o.change.Broadcast()
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.sealed, o.tail, o.pauses = nil, nil, nil
	o.change.Broadcast()
}

// The answers.

func (c *conn) reply(kind command, body []byte) {
	if c.muted.Load() && !unasked[kind] {
		return
	}
	c.out.add(kind, body, nil)
}

// unasked are the commands that a broker sends by itself.
var unasked = map[command]bool{
	cmdActiveConsumerChange: true, cmdCloseProducer: true, cmdCloseConsumer: true, cmdReachedEndOfTopic: true,
	cmdWatchTopicUpdate: true, cmdAuthChallenge: true,
}

func (c *conn) sendSuccess(requestID uint64) {
	c.reply(cmdSuccess, appendUint(make([]byte, 0, 16), 1, requestID))
}

func (c *conn) sendError(requestID uint64, why *refusal) {
	body := appendUint(nil, 1, requestID)
	body = appendUint(body, 2, uint64(why.code))
	c.reply(cmdError, appendString(body, 3, why.text))
}

func (c *conn) sendConnected(version int32) {
	body := appendString(nil, 1, serverVersion)
	body = appendUint(body, 2, uint64(version))
	c.reply(cmdConnected, appendUint(body, 3, maxMessageSize))
}

func (c *conn) sendProducerSuccess(requestID uint64, p *producer, lastSequence int64, schemaVersion []byte, ready bool) {
	body := appendUint(nil, 1, requestID)
	body = appendString(body, 2, p.name)
	body = appendUint(body, 3, uint64(lastSequence))
	body = appendBytes(body, 4, schemaVersion)
	if ready && p.topic.epoch >= 0 {
		body = appendUint(body, 5, uint64(p.topic.epoch))
	}
	c.reply(cmdProducerSuccess, appendBool(body, 6, ready))
}

// sendProducerAgain answers a second PRODUCER with an id that the connection has.
func (c *conn) sendProducerAgain(requestID uint64, p *producer) {
	body := appendUint(nil, 1, requestID)
	body = appendString(body, 2, p.name)
	body = appendUint(body, 3, ^uint64(0))
	body = appendBytes(body, 4, p.version)
	c.reply(cmdProducerSuccess, appendBool(body, 6, true))
}

func (c *conn) sendReceipt(r *sendRequest, id messageID) {
	body := appendUint(make([]byte, 0, 96), 1, r.producerID)
	body = appendUint(body, 2, r.sequenceID)
	body = appendMessageID(body, 3, id, justEntry)
	c.reply(cmdSendReceipt, appendUint(body, 4, r.highestSequenceID))
}

func (c *conn) sendSendError(producerID, sequenceID uint64, why *refusal) {
	body := appendUint(nil, 1, producerID)
	body = appendUint(body, 2, sequenceID)
	body = appendUint(body, 3, uint64(why.code))
	c.reply(cmdSendError, appendString(body, 4, why.text))
}

func (c *conn) sendMessage(to *consumer, id messageID, redeliveries uint32, entry []byte) {
	body := appendUint(make([]byte, 0, 128), 1, to.id)
	body = appendMessageID(body, 2, id, withPartition)
	if redeliveries > 0 {
		body = appendUint(body, 3, uint64(redeliveries))
	}
	for _, word := range id.ackSet {
		body = appendUint(body, 4, word)
	}
	if to.hasEpoch {
		body = appendUint(body, 5, to.epoch)
	}
	for range c.copies(to, entry) {
		c.out.add(cmdMessage, body, entry)
	}
}

func (c *conn) sendAckResponse(consumerID, requestID uint64, why *refusal) {
	body := appendUint(make([]byte, 0, 32), 1, consumerID)
	if why != nil {
		body = appendUint(body, 4, uint64(why.code))
		body = appendString(body, 5, why.text)
	}
	c.reply(cmdAckResponse, appendUint(body, 6, requestID))
}

func (c *conn) sendActiveChange(consumerID uint64, active bool) {
	c.reply(cmdActiveConsumerChange, appendBool(appendUint(nil, 1, consumerID), 2, active))
}

func (c *conn) sendReachedEnd(consumerID uint64) {
	c.reply(cmdReachedEndOfTopic, appendUint(nil, 1, consumerID))
}

// sendClose tells a client that the broker has closed its producer or consumer: CLOSE_PRODUCER or CLOSE_CONSUMER. to is the broker
// that serves the topic now, nil where the client has to look it up.
func (c *conn) sendClose(kind command, id uint64, to *node) {
	body := appendUint(appendUint(nil, 1, id), 2, ^uint64(0))
	if to != nil {
		body = c.broker.appendURLs(body, 3, to)
	}
	c.reply(kind, body)
}

func (c *conn) sendSchemaError(kind command, requestID uint64, why *refusal) {
	body := appendUint(nil, 1, requestID)
	body = appendUint(body, 2, uint64(why.code))
	c.reply(kind, appendString(body, 3, why.text))
}

func (c *conn) sendLastMessageID(requestID uint64, last, markDelete messageID) {
	body := appendMessageID(nil, 1, last, withBatchIndex)
	body = appendUint(body, 2, requestID)
	c.reply(cmdGetLastMessageIDResp, appendMessageID(body, 3, markDelete, justEntry))
}

// forgetProducer drops a producer without a word: its client is about to reconnect.
func (c *conn) forgetProducer(id uint64) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if p := c.producers[id]; p != nil {
		c.closed[id] = time.Now()
		c.removeProducer(p)
	}
}

func (c *conn) removeProducer(p *producer) {
	delete(c.producers, p.id)
	p.topic.removeProducer(p)
}

// closeProducer closes a producer from the broker's side; the client looks its topic up again.
func (c *conn) closeProducer(p *producer, to *node) {
	c.sendClose(cmdCloseProducer, p.id, to)
	c.closed[p.id] = time.Now()
	c.removeProducer(p)
}
