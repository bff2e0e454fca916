package pulsartest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault says which commands of clients go wrong, and how. The fields from Command to Count choose: a command must match all that
// are set. The others act, in this order: the broker waits for Delay, then fails the command with Error, or ignores it with Drop;
// then it closes the connection with Disconnect. A command that meets Error, Drop or Disconnect is not carried out.
type Fault struct {
	// Command is the command's name in Pulsar's protocol, such as CONNECT, PARTITIONED_METADATA, LOOKUP, PRODUCER, SEND,
	// CLOSE_PRODUCER, SUBSCRIBE, FLOW, ACK, REDELIVER_UNACKNOWLEDGED_MESSAGES, UNSUBSCRIBE, SEEK, CLOSE_CONSUMER,
	// GET_LAST_MESSAGE_ID, GET_SCHEMA, GET_OR_CREATE_SCHEMA, GET_TOPICS_OF_NAMESPACE or PING. Empty: every command.
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
	// Delay holds up the command, and the ones behind it on its connection, before anything else.
	Delay time.Duration
	// Drop ignores the command: it is not carried out, and no answer comes. Where another SEND follows a dropped one, its receipt
	// tells the client of the gap, and it reconnects and sends both: messages come twice.
	Drop bool
	// Disconnect closes the connection.
	Disconnect bool
}

// armedFault is a fault that is in force.
type armedFault struct {
	Fault
	command command // 0: every command
	matched int
}

var commandNames = map[string]command{
	"CONNECT": cmdConnect, "SUBSCRIBE": cmdSubscribe, "PRODUCER": cmdProducer, "SEND": cmdSend, "ACK": cmdAck, "FLOW": cmdFlow,
	"UNSUBSCRIBE": cmdUnsubscribe, "CLOSE_PRODUCER": cmdCloseProducer, "CLOSE_CONSUMER": cmdCloseConsumer, "PING": cmdPing,
	"PONG": cmdPong, "REDELIVER_UNACKNOWLEDGED_MESSAGES": cmdRedeliver, "PARTITIONED_METADATA": cmdPartitionedMetadata,
	"LOOKUP": cmdLookup, "CONSUMER_STATS": cmdConsumerStats, "SEEK": cmdSeek, "GET_LAST_MESSAGE_ID": cmdGetLastMessageID,
	"GET_TOPICS_OF_NAMESPACE": cmdGetTopics, "GET_SCHEMA": cmdGetSchema, "AUTH_RESPONSE": cmdAuthResponse,
	"GET_OR_CREATE_SCHEMA": cmdGetOrCreateSchema, "TC_CLIENT_CONNECT_REQUEST": cmdTcClientConnect, "NEW_TXN": cmdNewTxn,
	"ADD_PARTITION_TO_TXN": cmdAddPartitionToTxn, "ADD_SUBSCRIPTION_TO_TXN": cmdAddSubscriptionToTxn, "END_TXN": cmdEndTxn,
	"WATCH_TOPIC_LIST": cmdWatchTopicList, "WATCH_TOPIC_LIST_CLOSE": cmdWatchTopicListClose,
}

// Inject puts a fault in force until remove is called or its Count is reached. Faults are tried in the order in which they came,
// and a command meets at most one. It panics for a Command or Topic that does not exist, so that a test does not
// pass because of a slip of the pen. It may be called at any time, also while clients are connected.
func (b *Broker) Inject(f Fault) (remove func()) {
	a := &armedFault{Fault: f, command: commandNames[f.Command]}
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

// match finds the fault that a command meets, and counts it.
func (b *Broker) match(kind command, topic string, keys func() []string) (Fault, bool) {
	for _, a := range b.faults {
		if a.command != 0 && a.command != kind || !a.onTopic(topic) || a.Key != "" && !slices.Contains(keys(), a.Key) {
			continue
		}
		a.matched++
		if a.matched <= a.After {
			continue
		}
		if a.Count > 0 && a.matched == a.After+a.Count {
			b.disarm(a)
		}
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

// fault lets a command meet what is injected for it. serve says whether to carry it out, and goOn whether the connection lasts.
func (c *conn) fault(kind command, r request) (serve, goOn bool) {
	topic := r.topic(c)
	b := c.broker
	b.mu.Lock()
	f, ok := b.match(kind, topic, func() []string { return c.keys(r) })
	b.mu.Unlock()
	if !ok {
		return true, true
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
			return false, false
		}
	}
	switch {
	case f.Drop:
	case f.Error != "":
		why := parseRefusal(f.Error)
		r.fail(c, why)
		if send, ok := r.(*sendRequest); ok && why.code != notAllowedError && why.code != topicTerminated {
			c.forgetProducer(send.producerID)
		}
	case !f.Disconnect:
		return true, true
	}
	return false, !f.Disconnect
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
