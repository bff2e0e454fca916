package pulsartest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault says which commands go wrong, and how. The fields from Command to Count choose: a command must match all that are set. The
// others act: the broker waits for Delay; then it fails the command with Error or ignores it with Drop, or else carries it out, twice
// with Duplicate, and without a word with DropAnswer; then it closes the connection with Disconnect. Disconnect without DropAnswer or
// Duplicate closes it before the command is carried out. A Fault that does nothing of this is a witness: its command is carried out, and [Broker.Hits]
// tells of it.
type Fault struct {
	// Command is the command's name in Pulsar's protocol, such as CONNECT, PARTITIONED_METADATA, LOOKUP, PRODUCER, SEND,
	// CLOSE_PRODUCER, SUBSCRIBE, FLOW, ACK, REDELIVER_UNACKNOWLEDGED_MESSAGES, UNSUBSCRIBE, SEEK, CLOSE_CONSUMER,
	// GET_LAST_MESSAGE_ID, GET_SCHEMA, GET_OR_CREATE_SCHEMA, GET_TOPICS_OF_NAMESPACE or PING. Empty: every command of a client.
	// MESSAGE is what the broker itself sends to a consumer: Drop counts it as delivered and does not send it, so that it comes again
	// when the consumer reconnects, Duplicate sends it twice (clients drop the second while an acknowledgement of the first waits in
	// them to be sent), Disconnect closes the connection in its place, and Delay holds it up with all that is sent behind it; Error
	// and DropAnswer do not apply.
	Command string
	// Topic matches the commands about a topic and all its partitions, or about one partition where it names one.
	Topic string
	// Key matches a SEND of a message with this key, alone or in a batch, and an ACK or REDELIVER_UNACKNOWLEDGED_MESSAGES that
	// names an entry with such a message.
	Key string
	// After skips the first so many matches; Count is how many then fail, 0 for all.
	After, Count int
	// Error is the name of a ServerError, such as ServiceNotReady, PersistenceError or TopicNotFound, with an optional text behind
	// a colon; any other text comes as UnknownError. It is sent as the command's own failure: SEND_ERROR for SEND, ACK_RESPONSE
	// for an ACK that wants one, and so on. FLOW, REDELIVER and an ACK that wants no answer are just not carried out. What a
	// producer has sent behind a failed SEND is ignored until it reconnects, so that its order is kept, as when Pulsar fences a
	// topic; but for NotAllowedError and TopicTerminatedError, after which clients do not reconnect.
	Error string
	// Delay holds up the command, and the ones behind it on its connection, before anything else happens.
	Delay time.Duration
	// Drop ignores the command: it is not carried out, and no answer comes. Where another SEND follows a dropped one, its receipt
	// tells the client of the gap, and it reconnects and sends both: messages come twice.
	Drop bool
	// DropAnswer carries the command out, and its answer is lost: a client that asks again finds it done. With Disconnect it is the
	// connection that breaks between the two.
	DropAnswer bool
	// Duplicate carries the command out twice, as if it had come again: a SEND stores its message twice, unless it is deduplicated.
	Duplicate bool
	// Disconnect closes the connection.
	Disconnect bool
}

// Hit is a command that met a [Fault].
type Hit struct {
	Fault   Fault  // as it was injected
	Command string // by its name in the protocol
	Topic   string // the full name, a partition's with its number; empty where the command is about no topic
	Client  string // the address of the client's end of the connection
	Time    time.Time
}

// maxHits bounds what a broker remembers.
const maxHits = 10_000

// Hits are the commands that have met faults, in order: the newest 10,000. It may be called at any time; the caller keeps the slice.
func (b *Broker) Hits() []Hit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.hits)
}

func (b *Broker) hit(f Fault, kind command, topic string, c *conn) {
	if len(b.hits) == maxHits {
		b.hits = slices.Delete(b.hits, 0, maxHits/10)
	}
	b.hits = append(b.hits, Hit{Fault: f, Command: kind.String(), Topic: topic, Client: c.socket.RemoteAddr().String(), Time: time.Now()})
}

// armedFault is a fault that is in force.
type armedFault struct {
	Fault
	injected Fault   // as the caller wrote it
	command  command // 0: every command
	matched  int
}

var commandNames = map[string]command{
	"CONNECT": cmdConnect, "SUBSCRIBE": cmdSubscribe, "PRODUCER": cmdProducer, "SEND": cmdSend, "ACK": cmdAck, "FLOW": cmdFlow,
	"UNSUBSCRIBE": cmdUnsubscribe, "CLOSE_PRODUCER": cmdCloseProducer, "CLOSE_CONSUMER": cmdCloseConsumer, "PING": cmdPing,
	"PONG": cmdPong, "REDELIVER_UNACKNOWLEDGED_MESSAGES": cmdRedeliver, "PARTITIONED_METADATA": cmdPartitionedMetadata,
	"LOOKUP": cmdLookup, "CONSUMER_STATS": cmdConsumerStats, "SEEK": cmdSeek, "GET_LAST_MESSAGE_ID": cmdGetLastMessageID,
	"GET_TOPICS_OF_NAMESPACE": cmdGetTopics, "GET_SCHEMA": cmdGetSchema, "AUTH_RESPONSE": cmdAuthResponse,
	"GET_OR_CREATE_SCHEMA": cmdGetOrCreateSchema, "TC_CLIENT_CONNECT_REQUEST": cmdTcClientConnect, "NEW_TXN": cmdNewTxn,
	"ADD_PARTITION_TO_TXN": cmdAddPartitionToTxn, "ADD_SUBSCRIPTION_TO_TXN": cmdAddSubscriptionToTxn, "END_TXN": cmdEndTxn,
	"MESSAGE": cmdMessage, "WATCH_TOPIC_LIST": cmdWatchTopicList, "WATCH_TOPIC_LIST_CLOSE": cmdWatchTopicListClose,
}

func (c command) String() string {
	for name, kind := range commandNames {
		if kind == c {
			return name
		}
	}
	return fmt.Sprintf("command %d", uint64(c))
}

// Inject puts a fault in force until remove is called or its Count is reached. Faults are tried in the order in which they came,
// and a command meets at most one. It panics for a Command or Topic that does not exist, so that a test does not
// pass because of a slip of the pen, and for a MESSAGE that is to meet what it cannot. It may be called at any time, also while clients are connected.
func (b *Broker) Inject(f Fault) (remove func()) {
	a := &armedFault{Fault: f, injected: f, command: commandNames[f.Command]}
	if f.Command != "" && a.command == 0 {
		panic(fmt.Sprintf("pulsartest: no command %q", f.Command))
	}
	if f.Topic != "" {
		name, err := parseTopic(f.Topic)
		if err != nil {
			panic(fmt.Sprintf("pulsartest: fault: %v", err))
		}
		a.Topic = name.full
	}
	if a.command == cmdMessage && (f.Error != "" || f.DropAnswer) {
		panic("pulsartest: a MESSAGE can only be held up, dropped, duplicated or met with a disconnect")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, a)
	b.armed.Store(int64(len(b.faults)))
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.disarm(a)
	}
}

func (b *Broker) disarm(a *armedFault) {
	b.faults = slices.DeleteFunc(b.faults, func(x *armedFault) bool { return x == a })
	b.armed.Store(int64(len(b.faults)))
}

// match finds the fault that a command meets, counts it and writes it down.
func (b *Broker) match(c *conn, kind command, topic string, keys func() []string) (Fault, bool) {
	for _, a := range b.faults {
		if a.command != kind && (a.command != 0 || kind == cmdMessage) || !a.onTopic(topic) || a.Key != "" && !slices.Contains(keys(), a.Key) {
			continue
		}
		a.matched++
		if a.matched <= a.After {
			continue
		}
		if a.Count > 0 && a.matched == a.After+a.Count {
			b.disarm(a)
		}
		if name, err := parseTopic(topic); err == nil {
			topic = name.full
		}
		b.hit(a.injected, kind, topic, c)
		return a.Fault, true
	}
	return Fault{}, false
}

func (a *armedFault) onTopic(topic string) bool {
	if a.Topic == "" || a.Topic == topic {
		return true
	}
	name, err := parseTopic(topic)
	return err == nil && (name.base == a.Topic || name.full == a.Topic)
}

// carryOut serves a command, unless a fault is in its way, and tells whether the connection goes on.
func (c *conn) carryOut(kind command, r request) bool {
	f, met := c.meets(kind, r)
	if met && f.Delay > 0 && !c.wait(f.Delay) {
		return false
	}
	switch {
	case f.Drop:
	case f.Error != "":
		c.failBy(r, parseRefusal(f.Error))
	case f.Disconnect && !f.DropAnswer && !f.Duplicate:
	default:
		c.muted.Store(f.DropAnswer)
		r.serve(c)
		if f.Duplicate {
			r.serve(c)
		}
		c.muted.Store(false)
	}
	return !f.Disconnect && !c.refused
}

func (c *conn) meets(kind command, r request) (Fault, bool) {
	b := c.broker
	if b.armed.Load() == 0 {
		return Fault{}, false
	}
	topic := r.topic(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.match(c, kind, topic, func() []string { return c.keys(r) })
}

// wait holds the connection up, and tells whether it is still there.
func (c *conn) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

func (c *conn) failBy(r request, why *refusal) {
	r.fail(c, why)
	if send, ok := r.(*sendRequest); ok && why.code != notAllowedError && why.code != topicTerminated {
		c.forgetProducer(send.producerID)
	}
}

// copies is how often a MESSAGE goes out: once, unless a fault is in its way. Broker.mu is held.
func (c *conn) copies(to *consumer, entry []byte) int {
	b := c.broker
	if b.armed.Load() == 0 {
		return 1
	}
	f, _ := b.match(c, cmdMessage, to.sub.topic.name.full, func() []string { return entryKeys(entry) })
	if f.Delay > 0 {
		c.out.pause(f.Delay)
	}
	if f.Disconnect {
		c.finish() // what was sent before still arrives
	}
	switch {
	case f.Drop || f.Disconnect:
		return 0
	case f.Duplicate:
		return 2
	default:
		return 1
	}
}

// keys are those of the messages that a command carries or names. Broker.mu is held.
func (c *conn) keys(r request) []string {
	switch r := r.(type) {
	case *sendRequest:
		return entryKeys(r.entry.data)
	case *ackRequest:
		return c.keysOf(r.consumerID, r.ids)
	case *redeliverRequest:
		return c.keysOf(r.consumerID, r.ids)
	default:
		return nil
	}
}

func (c *conn) keysOf(consumerID uint64, ids []messageID) []string {
	consumer := c.consumers[consumerID]
	if consumer == nil {
		return nil
	}
	var keys []string
	for _, id := range ids {
		if i, ok := consumer.sub.topic.find(id); ok {
			keys = append(keys, entryKeys(consumer.sub.topic.entries[i].data)...)
		}
	}
	return keys
}

func entryKeys(data []byte) []string {
	meta, payload, err := splitEntry(data)
	if err == nil && !meta.batched { // a chunk could not be decompressed alone
		return []string{meta.key}
	}
	messages, _ := unpack(nil, &meta, payload, messageID{}) // what cannot be unpacked has no keys to match
	keys := make([]string, len(messages))
	for i, m := range messages {
		keys[i] = m.Key
	}
	return keys
}

// parseRefusal reads "ServiceNotReady" or "ServiceNotReady: why".
func parseRefusal(s string) *refusal {
	name, text, _ := strings.Cut(s, ":")
	if code := slices.Index(serverErrorNames, strings.TrimSpace(name)); code >= 0 {
		if text = strings.TrimSpace(text); text == "" {
			text = "injected"
		}
		return refuse(serverError(code), "%s", text)
	}
	return refuse(unknownError, "%s", s)
}
