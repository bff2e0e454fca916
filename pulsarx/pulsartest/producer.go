package pulsartest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// producer is one producer of a connection. Broker.mu guards it.
type producer struct {
	conn      *conn
	id        uint64
	name      string
	topic     *topic
	epoch     uint64
	userNamed bool
	access    accessMode
	metadata  map[string]string
	request   *producerRequest // while it waits for exclusive access
	version   []byte           // of its schema
	messages  int64

	hasTopicEpoch bool // it has asked for one
	topicEpoch    uint64
}

func (r *producerRequest) serve(c *conn) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if why := r.connect(c); why != nil {
		r.fail(c, why)
	}
}

func (r *producerRequest) connect(c *conn) *refusal {
	if p := c.producers[r.producerID]; p != nil {
		if p.request != nil {
			return refuse(serviceNotReady, "Producer is already present on the connection")
		}
		c.sendProducerAgain(r.requestID, p) // whatever it asks for now
		return nil
	}
	if why := c.served(r.name); why != nil {
		return why
	}
	t, why := c.broker.topic(r.name, true)
	if why != nil {
		return why
	}
	if why := r.allowed(t); why != nil {
		return why
	}
	version, why := c.broker.schemaFor(t, r.schema)
	if why != nil {
		return why
	}
	if r.initialSub != "" && !t.name.transient() {
		if t.subs[r.initialSub] == nil && !c.broker.autoSubscribes(t.name) {
			return refuse(notAllowedError, "Could not create the initial subscription due to the auto subscription creation is not allowed.")
		}
		t.subscribed(r.initialSub, true, 0)
	}
	p := &producer{
		conn: c, id: r.producerID, name: r.producer, topic: t, epoch: r.epoch, userNamed: r.userNamed, access: r.access,
		metadata: r.metadata, request: r, version: version,
		hasTopicEpoch: r.hasTopicEpoch, topicEpoch: r.topicEpoch,
	}
	if p.name == "" {
		c.broker.lastProducer++
		p.name = fmt.Sprintf("standalone-%d-%d", c.broker.lastLedger, c.broker.lastProducer)
	}
	return t.addProducer(p)
}

// access refuses what the producers that are there do not let in, and the epoch that has passed.
func (t *topic) access(p *producer) *refusal {
	busy := t.exclusive != nil || len(t.waiting) > 0
	r := p.request
	switch {
	case p.access > accessExclusiveWithFencing:
		return refuse(notAllowedError, "Access mode %d is not known", p.access)
	case p.access == accessShared && busy:
		return refuse(producerBusy, "Topic has an existing exclusive producer: %s", t.exclusiveName())
	case p.access == accessExclusive && busy:
		return refuse(producerFenced, "Topic has an existing exclusive producer: %s", t.exclusiveName())
	case p.access == accessExclusive && len(t.producers) > 0:
		return refuse(producerFenced, "Topic has existing shared producers")
	case p.access == accessExclusiveWithFencing && (t.exclusive != nil || len(t.producers) > 0):
		t.fence()
	case p.access == accessWaitForExclusive && (t.exclusive != nil || len(t.producers) > 0):
		return nil
	}
	if r.hasTopicEpoch && p.access != accessShared && int64(r.topicEpoch) < t.epoch {
		return refuse(producerFenced, "Topic epoch has already moved. Current epoch: %d, Producer epoch: %d", t.epoch, r.topicEpoch)
	}
	return nil
}

// allowed refuses what a topic's state or its policies do not let in.
func (r *producerRequest) allowed(t *topic) *refusal {
	if t.broker.on(t.name, "", "encryptionRequired", false) && !r.encrypted {
		return refuse(metadataError, "Encryption is required in %s", t.name.full)
	}
	most, ok := t.broker.limit(t.name, "maxProducers", "maxProducersPerTopic")
	if ok && len(t.producers) >= most && t.producers[r.producer] == nil {
		return refuse(producerBusy, "Topic '%s' reached max producers limit", t.name.full)
	}
	return t.overQuota()
}

// overQuota refuses producers of a topic whose backlog has the size that its quota sets.
func (t *topic) overQuota() *refusal {
	quota := t.broker.sizeQuota(t.name)
	code, known := map[string]serverError{
		"producer_request_hold": producerBlockedQuotaError, "producer_exception": producerBlockedQuotaException,
	}[quota.Policy]
	if known && quota.Limit >= 0 && t.backlogBytes() >= quota.Limit {
		return refuse(code, "Cannot create producer on topic with backlog quota exceeded")
	}
	return nil
}

// backlogBytes is the size of what the slowest subscription has not acknowledged.
func (t *topic) backlogBytes() int64 {
	first := len(t.entries)
	for _, s := range t.subs {
		if s.durable {
			first = min(first, s.cursor.markDelete)
		}
	}
	n := int64(0)
	for _, e := range t.entries[first:] {
		n += int64(len(e.data))
	}
	return n
}

// addProducer connects a producer, or lets it wait for exclusive access.
func (t *topic) addProducer(p *producer) *refusal {
	if why := t.access(p); why != nil {
		return why
	}
	switch {
	case p.access == accessWaitForExclusive && (t.exclusive != nil || len(t.producers) > 0):
		t.waiting = append(t.waiting, p)
		p.conn.producers[p.id] = p
		p.conn.sendProducerSuccess(p.request.requestID, p, t.lastSequence(p.name), p.version, false)
		return nil
	case t.terminated:
		return refuse(topicTerminated, "Topic was already terminated")
	case t.producers[p.name] != nil:
		return refuse(producerBusy, "Producer with name '%s' is already connected to topic", p.name)
	}
	t.ready(p)
	return nil
}

func (t *topic) exclusiveName() string {
	if t.exclusive != nil {
		return t.exclusive.name
	}
	return t.waiting[0].name
}

// fence drops every producer in favour of a new exclusive one. As with Pulsar those that were ready find out when they send: their
// connection is closed, unless the broker has closed a producer of that number a moment ago, and when they come back they are refused.
func (t *topic) fence() {
	waiting := t.waiting
	t.waiting, t.exclusive = nil, nil
	for _, p := range waiting {
		if p.request != nil {
			p.request.fail(p.conn, refuse(producerFenced, "Fenced out"))
			delete(p.conn.producers, p.id)
		}
	}
	for _, p := range slices.Collect(maps.Values(t.producers)) {
		p.conn.removeProducer(p)
	}
}

// ready lets a producer send.
func (t *topic) ready(p *producer) {
	if p.access != accessShared {
		t.exclusive = p
		t.nextEpoch(p)
	}
	t.producers[p.name] = p
	p.conn.producers[p.id] = p
	requestID := p.request.requestID
	p.request = nil
	p.conn.sendProducerSuccess(requestID, p, t.lastSequence(p.name), p.version, true)
}

func (t *topic) nextEpoch(p *producer) {
	if t.epoch++; p.hasTopicEpoch {
		t.epoch = int64(p.topicEpoch)
	}
}

// removeProducer forgets a producer, and lets the next one in that waits for exclusive access. One that has gone while it waited is
// still in the queue, and its turn counts, as with Pulsar.
func (t *topic) removeProducer(p *producer) {
	if p.request != nil {
		p.request = nil // it waits
		return
	}
	if t.producers[p.name] == p {
		delete(t.producers, p.name)
	}
	if t.exclusive == p {
		t.exclusive = nil
	}
	for len(t.waiting) > 0 && len(t.producers) == 0 {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		if next.request != nil {
			t.ready(next)
		} else {
			t.nextEpoch(next)
		}
	}
}

// failWaiting refuses the producer whose turn would come when those that are there are closed. Others hear nothing, as with Pulsar.
func (t *topic) failWaiting(why *refusal) {
	waiting := t.waiting
	if t.waiting = nil; len(t.producers) == 0 || len(waiting) == 0 {
		return
	}
	t.nextEpoch(waiting[0])
	if p := waiting[0]; p.request != nil {
		p.request.fail(p.conn, why)
		delete(p.conn.producers, p.id)
	}
}

// lastSequence is the highest sequence id that a producer name has stored, -1 without any or without deduplication.
func (t *topic) lastSequence(name string) int64 {
	if n, ok := t.sequences[name]; ok {
		return int64(n)
	}
	return -1
}

// closedFor is how long a broker ignores what is sent for a producer that it has closed, though the client should know; Pulsar's default.
const closedFor = 30 * time.Second

func (r *sendRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	p := c.producers[r.producerID]
	switch {
	case p == nil && time.Since(c.closed[r.producerID]) < closedFor:
		return // sent before the client knew; it sends it again on a new producer
	case p == nil || p.request != nil:
		c.refused = true
		return
	case errors.Is(r.err, errChecksum):
		r.fail(c, refuse(checksumError, "Checksum failed on the broker"))
		return
	case r.err != nil:
		r.fail(c, refuse(unknownError, "%v", r.err))
		return
	case r.inTxn:
		r.fail(c, refuse(notAllowedError, "pulsartest has no transactions"))
		return
	case p.topic.terminated:
		r.fail(c, refuse(topicTerminated, "Topic was already terminated"))
		return
	}
	p.topic.messagesIn += int64(r.entry.messages)
	p.topic.bytesIn += int64(len(r.entry.data))
	if c.broker.deduplicates(p.topic) && !r.chunk && !p.topic.isNew(p.name, r) {
		c.sendReceipt(r, messageID{ledger: -1, entry: -1, partition: -1, batchIndex: -1})
		return
	}
	p.messages += int64(r.entry.messages)
	c.sendReceipt(r, p.topic.append(r.entry))
}

// isNew tells whether a producer name has not stored a sequence id before, and remembers it.
func (t *topic) isNew(name string, r *sendRequest) bool {
	if last, ok := t.sequences[name]; ok && r.sequenceID <= last {
		return false
	}
	t.sequences[name] = r.lastSequenceID()
	return true
}

func (r *closeProducerRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if p := c.producers[r.producerID]; p != nil {
		c.removeProducer(p)
	}
	c.sendSuccess(r.requestID)
}
