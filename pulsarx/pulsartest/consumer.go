package pulsartest

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

func (r *subscribeRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if why := r.connect(c); why != nil {
		r.fail(c, why)
	}
}

func (r *subscribeRequest) connect(c *conn) *refusal {
	if old := c.consumers[r.consumerID]; old != nil {
		if old.sub.name != r.subscription {
			return refuse(unknownError, "Consumer that the consumer id %d belongs to is already connected", r.consumerID)
		}
		c.sendSuccess(r.requestID)
		return nil
	}
	if why := r.possible(); why != nil {
		return why
	}
	if why := c.served(r.name); why != nil {
		return why
	}
	t, why := c.broker.topic(r.name, r.create)
	if why != nil {
		return why
	}
	if why := c.broker.checkConsumerSchema(t, r.schema); why != nil {
		return why
	}
	if r.compacted && t.name.transient() {
		return refuse(notAllowedError, "readCompacted only valid on persistent topics")
	}
	if why := r.allowed(t); why != nil {
		return why
	}
	known := t.subs[r.subscription] != nil
	durable := r.durable && !t.name.transient() // there everything ends with the last consumer
	s := t.subscribed(r.subscription, durable, r.startIndex(t))
	if s.durable != durable {
		return refuse(notAllowedError, "Subscription %s exists and is not of the same durability", r.subscription)
	}
	if (!known || s.gone()) && !t.name.transient() {
		s.properties = r.properties
	}
	consumer := &consumer{
		conn: c, id: r.consumerID, name: r.consumer, sub: s, priority: r.priority, metadata: r.metadata,
		maxUnacked: defaultMaxUnacked, epoch: r.epoch, hasEpoch: r.hasEpoch, sticky: r.sticky, outOfOrder: r.outOfOrder, ranges: r.ranges,
		compacted: r.compacted,
	}
	if value := c.broker.setting(t.name, "maxUnackedMessagesOnConsumer", "maxUnackedMessagesPerConsumer"); value != nil {
		consumer.maxUnacked, _ = strconv.Atoi(string(value)) // a number, or 0 for no limit
	}
	if consumer.name == "" {
		consumer.name = fmt.Sprintf("consumer-%d-%d", c.number, r.consumerID)
	}
	if why := s.add(consumer, r.kind); why != nil {
		return why // the subscription stays
	}
	c.consumers[r.consumerID] = consumer
	c.sendSuccess(r.requestID)
	s.dispatch()
	return nil
}

// possible refuses what no topic has.
func (r *subscribeRequest) possible() *refusal {
	switch {
	case r.kind > keyShared:
		return refuse(notAllowedError, "Subscription type %d is not known", r.kind)
	case r.compacted && r.kind != exclusive && r.kind != failover:
		return refuse(notAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
	case r.subscription == "":
		return refuse(producerBusy, "Empty subscription name") // Pulsar's choice of code
	}
	return nil
}

// allowed refuses what the policies of a topic do not let in.
func (r *subscribeRequest) allowed(t *topic) *refusal {
	b, s := t.broker, t.subs[r.subscription]
	if most, ok := b.limit(t.name, "maxConsumers", "maxConsumersPerTopic"); ok && t.consumers() >= most {
		return refuse(consumerBusy, "Topic reached max consumers limit")
	}
	if s == nil {
		if r.durable && !t.name.transient() && !b.autoSubscribes(t.name) {
			return refuse(subscriptionMissing, "Subscription does not exist")
		}
		if most, ok := b.limit(t.name, "maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic"); ok && len(t.subs) >= most {
			return refuse(notAllowedError, "Exceed the maximum number of subscriptions of the topic: %s", t.name.full)
		}
		return nil
	}
	if most, ok := b.limit(t.name, "maxConsumersPerSubscription", "maxConsumersPerSubscription"); ok && len(s.consumers) >= most {
		return refuse(consumerBusy, "Subscription reached max consumers limit")
	}
	return nil
}

// startIndex is where a new subscription begins. A start message is delivered itself, and its batch whole: the client drops what
// it does not want. One that is further than the next to come counts for nothing.
func (r *subscribeRequest) startIndex(t *topic) int {
	switch {
	case r.rollback > 0:
		return t.indexAt(time.Now().Add(-time.Duration(min(r.rollback, 1<<32)) * time.Second).UnixMilli())
	case !r.durable && r.start != nil && t.reached(*r.start):
		return t.index(*r.start)
	case r.earliest:
		return 0
	default:
		return len(t.entries)
	}
}

func (r *flowRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if consumer := c.consumers[r.consumerID]; consumer != nil {
		consumer.permits = int(min(int64(consumer.permits)+int64(r.permits), math.MaxInt32))
		consumer.sub.dispatch()
		if !consumer.sub.ended { // as with Pulsar, who comes later hears nothing: clients that do not know it would connect without end
			consumer.sub.tellEnd()
		}
	}
}

func (r *ackRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	consumer := c.consumers[r.consumerID]
	switch {
	case consumer == nil:
		return // closed a moment ago
	case r.inTxn:
		r.fail(c, refuse(notAllowedError, "pulsartest has no transactions"))
		return
	}
	s := consumer.sub
	if !r.cumulative {
		for _, id := range r.ids {
			s.ack(id)
		}
	} else if s.kind == exclusive || s.kind == failover { // others have no "up to": Pulsar ignores it too
		for _, id := range r.ids {
			s.ackUpTo(id)
		}
	}
	s.tellEnd()
	if r.numbered {
		c.sendAckResponse(r.consumerID, r.requestID, nil)
	}
	s.dispatch()
}

func (r *redeliverRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	consumer := c.consumers[r.consumerID]
	if consumer == nil {
		return
	}
	if r.hasEpoch {
		consumer.epoch, consumer.hasEpoch = max(consumer.epoch, r.epoch), true
	}
	var entries []int
	if len(r.ids) > 0 {
		entries = []int{}
	}
	for _, id := range r.ids {
		if i, ok := consumer.sub.topic.find(id); ok {
			entries = append(entries, i)
		}
	}
	consumer.sub.dispatcher.redeliver(consumer, entries)
	consumer.sub.dispatch()
}

// known calls f with the consumer, under Broker.mu, or refuses.
func (r *ofConsumer) known(c *conn, f func(*consumer) *refusal) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	consumer := c.consumers[r.consumerID]
	if consumer == nil {
		r.fail(c, refuse(metadataError, "Consumer not found"))
		return
	}
	if why := f(consumer); why != nil {
		r.fail(c, why)
	}
}

func (r *unsubscribeRequest) serve(c *conn) {
	r.known(c, func(consumer *consumer) *refusal {
		s := consumer.sub
		if !s.mayEnd(consumer) {
			return refuse(metadataError, "Unconnected or shared consumer attempting to unsubscribe")
		}
		delete(c.consumers, consumer.id)
		s.remove(consumer)
		delete(s.topic.subs, s.name)
		c.sendSuccess(r.requestID)
		return nil
	})
}

func (r *closeConsumerRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if consumer := c.consumers[r.consumerID]; consumer != nil {
		delete(c.consumers, consumer.id)
		consumer.sub.remove(consumer)
		consumer.sub.left()
	}
	c.sendSuccess(r.requestID)
}

func (r *seekRequest) serve(c *conn) {
	r.known(c, func(consumer *consumer) *refusal {
		s, t := consumer.sub, consumer.sub.topic
		if t.name.transient() {
			c.sendSuccess(r.requestID)
			return nil
		}
		if r.id == nil {
			s.seek(t.indexAt(int64(r.millis)), nil)
		} else {
			i, set := t.index(*r.id), r.id.ackSet
			if _, exact := t.find(*r.id); !exact {
				set = nil
			}
			s.seek(i, set)
		}
		c.sendSuccess(r.requestID)
		return nil
	})
}

func (r *lastMessageIDRequest) serve(c *conn) {
	r.known(c, func(consumer *consumer) *refusal {
		t := consumer.sub.topic
		if t.name.transient() {
			return refuse(unknownError, "GetLastMessageId is not supported for non-persistent topics")
		}
		last := messageID{ledger: -1, entry: -1, partition: t.name.partition, batchIndex: -1}
		if at := t.last(consumer); at.entry >= 0 {
			if last = t.id(at.entry); t.entries[at.entry].batched {
				last.batchIndex = at.message
			}
		}
		c.sendLastMessageID(r.requestID, last, t.id(consumer.sub.cursor.markDelete-1))
		return nil
	})
}

func (r *consumerStatsRequest) serve(c *conn) {
	r.known(c, func(consumer *consumer) *refusal {
		body := appendUint(nil, 1, r.requestID)
		body = appendString(body, 7, consumer.name)
		body = appendUint(body, 8, uint64(max(consumer.permits, 0)))
		body = appendUint(body, 9, uint64(consumer.unacked))
		body = appendBool(body, 10, consumer.blocked())
		body = appendString(body, 11, c.socket.RemoteAddr().String())
		body = appendString(body, 12, c.since.Format(time.RFC3339))
		body = appendString(body, 13, consumer.sub.kind.String())
		c.reply(cmdConsumerStatsResponse, appendUint(body, 15, uint64(consumer.sub.cursor.backlog(consumer.sub.topic))))
		return nil
	})
}
