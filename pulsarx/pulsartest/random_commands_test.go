package pulsartest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The commands of TestRandomCommands.

const quotaLimit = 600 // bytes

// step makes one command, or a few that belong together.
func (c *chance) step() {
	consumer := oneOf(c.Rand, c.consumers...)
	switch n := c.IntN(100); {
	case n < 30:
		c.send()
	case n < 38:
		c.producer(oneOf(c.Rand, c.producers...))
	case n < 42:
		c.beside()
	case n < 46:
		c.wrongCall()
	case n < 48:
		c.stats()
	case n < 50:
		c.onTopic()
	case !consumer.open:
		c.subscribe(consumer)
	default:
		c.consume(consumer)
	}
}

// produce connects a producer.
func (c *chance) produce(p *randomProducer, access, name string) {
	if c.quota { // its size is an estimate: only what is far from it is certain
		if size := c.backlogSize(); size > quotaLimit/2 && size < quotaLimit*2 {
			return
		}
	}
	more := ""
	if c.IntN(4) == 0 {
		more = ` metadata { key: "k" value: "v" }`
	}
	if c.IntN(8) == 0 && access != "Shared" {
		more += fmt.Sprint(" topic_epoch: ", c.IntN(3))
	}
	if c.IntN(10) == 0 && !c.transient {
		more += fmt.Sprintf(` initial_subscription_name: "i%d"`, c.IntN(2))
	}
	if access != "Shared" {
		more += " producer_access_mode: " + access
	}
	c.do(p.conn, fmt.Sprintf(`type: PRODUCER producer { topic: "%s" producer_id: 1 request_id: %d producer_name: "%s"%s }`, c.topic, c.next(), name, more))
	if strings.Contains(c.lines[len(c.lines)-1], "< "+p.conn+" ERROR") {
		c.pause()
	}
}

// producer does one of the things that producers do beside sending.
func (c *chance) producer(p *randomProducer) {
	switch n := c.IntN(5); {
	case p.waits: // Pulsar takes its time over one that leaves the queue
	case n < 2 || !p.open:
		access := "Shared"
		if c.IntN(3) == 0 {
			access = oneOf(c.Rand, "Exclusive", "WaitForExclusive", "ExclusiveWithFencing")
		}
		c.produce(p, access, oneOf(c.Rand, "p", "q", "r"))
	case n == 2:
		c.hangUp(p.conn)
		c.answers("")
	default:
		p.open = false
		c.do(p.conn, fmt.Sprintf("type: CLOSE_PRODUCER close_producer { producer_id: 1 request_id: %d }", c.next()))
	}
}

// send publishes by one of the producers that are there.
func (c *chance) send() {
	var open []*randomProducer
	for _, p := range c.producers {
		if p.open {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		c.produce(oneOf(c.Rand, c.producers...), "Shared", oneOf(c.Rand, "p", "q"))
		return
	}
	p := oneOf(c.Rand, open...)
	c.sendBy(p.conn, p.name)
}

func (c *chance) sendBy(conn, name string) {
	n := c.sent
	if c.sent++; c.dedup && c.IntN(3) == 0 {
		n = c.IntN(c.sent)
	}
	head := fmt.Sprintf(`producer_name: "%s" sequence_id: %d publish_time: %d`, name, n, 1000+c.sent)
	if c.compaction && c.IntN(2) == 0 { // by which Pulsar tells what deletes a key
		head += fmt.Sprint(" uncompressed_size: ", c.IntN(2))
	}
	key := fmt.Sprintf(` partition_key: "k%d"`, c.IntN(12))
	switch kind := c.IntN(12); {
	case c.batches && kind < 4:
		size := 2 + c.IntN(3)
		if c.IntN(2) == 0 { // a batch of one key
			head += key
		}
		c.do(conn, fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d num_messages: %d highest_sequence_id: %d } | %s num_messages_in_batch: %d | b%d`,
			n, size, n, head, size, n))
	case kind == 4 && c.has("Shared") && !c.transient:
		head += fmt.Sprint(" deliver_at_time: ", oneOf(c.Rand, 1000, 9000000000000)) // long ago, and not in this test
		fallthrough
	case kind == 5:
		if c.IntN(3) == 0 {
			head += ` ordering_key: "o1"`
		}
		c.do(conn, fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d } | %s | m%d`, n, head, n))
	case kind == 6 && !c.dedup && !c.has("Shared"): // there Pulsar keeps them for consumers that are gone
		for i := range 2 {
			c.do(conn, fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d is_chunk: true } | %s%s uuid: "u%d" num_chunks_from_msg: 2 total_chunk_msg_size: 10 chunk_id: %d | c%d`,
				n, head, key, n, i, n))
		}
		c.sent++
	case kind == 7:
		c.do(conn, fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d } | %s%s null_value: true | `, n, head, key))
	default:
		c.do(conn, fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d } | %s%s | m%d`, n, head, key, n))
	}
}

func (c *chance) has(kind string) bool { return slices.Contains(c.kinds, kind) }

// pause gives a real broker time for what it does after an answer.
func (c *chance) pause() { c.lines = append(c.lines, c.call("GET", c.path()+"/subscriptions", "")) }

// of are the open consumers of a kind.
func (c *chance) of(kind string) (open []*randomConsumer) {
	for _, consumer := range c.consumers {
		if consumer.kind == kind && consumer.open {
			open = append(open, consumer)
		}
	}
	return open
}

func (c *chance) subscribe(consumer *randomConsumer) {
	kind, more := consumer.kind, ""
	switch kind {
	case "Failover":
		c.settle()
		if c.IntN(4) == 0 {
			more = fmt.Sprint(" priority_level: ", c.IntN(3))
		}
	case "Key_Shared":
		more = " " + c.sharing
		if strings.Contains(more, "%s") {
			third := 65536 / 3
			i := consumer.id % 3
			more = fmt.Sprintf(more, fmt.Sprintf("hashRanges { start: %d end: %d }", i*third, min((i+1)*third-1+c.IntN(2), 65535))) // some overlap
		}
		if c.IntN(15) == 0 && !c.transient {
			more = " " + oneOf(c.Rand, "keySharedMeta { keySharedMode: STICKY }", "keySharedMeta { keySharedMode: STICKY hashRanges { start: 9 end: 5 } }", sharings[1], sharings[2])
		}
	case "Reader":
		kind = "Exclusive"
		start := c.IntN(c.sent + 1)
		if c.reloads { // behind the end of a ledger, Pulsar has entries in the backlog that were never there
			start = min(start, c.first)
		}
		more = fmt.Sprintf(" durable: false start_message_id { ledgerId: %s entryId: %d }", c.ledger(), uint64(start-1))
	}
	if c.compaction && (kind == "Exclusive" || kind == "Failover") && c.IntN(3) > 0 || c.IntN(30) == 0 {
		more += " read_compacted: true"
	}
	if c.IntN(5) == 0 {
		more += fmt.Sprintf(` subscription_properties { key: "k" value: "%d" }`, c.IntN(3))
	}
	if c.IntN(30) == 0 && !c.batches {
		kind = oneOf(c.Rand, "Exclusive", "Shared", "Failover")
	}
	name := c.IntN(5)
	if consumer.kind == "Failover" { // names of their own: which of several with one name is active cannot be seen
		name = 10*c.IntN(3) + consumer.id
	}
	consumer.open, consumer.got, consumer.flowed = true, nil, false
	position := oneOf(c.Rand, "Earliest", "Earliest", "Latest")
	c.do(consumer.conn, fmt.Sprintf(`type: SUBSCRIBE subscribe { topic: "%s" subscription: "%s" subType: %s consumer_id: %d request_id: %d consumer_name: "c%d" initialPosition: %s%s }`,
		c.topic, consumer.sub, kind, consumer.id, c.next(), name, position, more))
	if strings.Contains(c.lines[len(c.lines)-1], "< "+consumer.conn+" ERROR") {
		consumer.open = false
		c.pause()
	}
	c.settled(consumer)
	if consumer.open && strings.Contains(more, "allowOutOfOrderDelivery") { // what waited would come in any order
		c.flow(consumer, 1000)
	}
}

// ledger is the topic's first, which is known when something was sent.
func (c *chance) ledger() string {
	if len(c.script.ledgers) == 0 {
		return "0"
	}
	return "$L0"
}

// mayFlow keeps two consumers of a Shared subscription from getting messages at once: who gets what is for the broker to say.
func (c *chance) mayFlow(consumer *randomConsumer) bool {
	if consumer.kind != "Shared" {
		return true
	}
	return !slices.ContainsFunc(c.of("Shared"), func(other *randomConsumer) bool { return other != consumer && other.flowed })
}

func (c *chance) flow(consumer *randomConsumer, permits int) {
	consumer.flowed = true
	c.say(consumer.conn, fmt.Sprintf("type: FLOW flow { consumer_id: %d messagePermits: %d }", consumer.id, permits))
	if consumer.kind == "Key_Shared" { // of what waits for keys, a real broker at times thinks with the next command only
		c.pause()
		c.say(consumer.conn, fmt.Sprintf("type: FLOW flow { consumer_id: %d messagePermits: 1 }", consumer.id))
	}
	c.answers(consumer.conn)
	if c.transient { // what comes before the permits is lost
		c.stats()
	}
}

// consume does one of the things that consumers do.
func (c *chance) consume(consumer *randomConsumer) {
	entry := c.IntN(c.sent + 2) // also some that do not exist
	if len(consumer.got) > 0 && c.IntN(3) > 0 {
		entry = oneOf(c.Rand, consumer.got...)
	} else if c.reloads { // in a ledger that is closed, Pulsar acknowledges what was never there
		return
	}
	id := consumer.id
	switch n := c.IntN(19); {
	case n < 6:
		permits := 1 + c.IntN(5)
		if consumer.kind == "Key_Shared" || consumer.kind == "Shared" && c.batches || c.transient {
			permits = 1000
		}
		if c.mayFlow(consumer) {
			c.flow(consumer, permits)
		}
	case n < 11:
		c.do(consumer.conn, fmt.Sprintf("type: ACK ack { consumer_id: %d ack_type: Individual request_id: %d message_id { ledgerId: %s entryId: %d } }", id, c.next(), c.ledger(), entry))
	case n < 13:
		c.do(consumer.conn, fmt.Sprintf("type: ACK ack { consumer_id: %d ack_type: Cumulative request_id: %d message_id { ledgerId: %s entryId: %d } }", id, c.next(), c.ledger(), entry))
	case n == 13:
		c.do(consumer.conn, fmt.Sprintf("type: GET_LAST_MESSAGE_ID getLastMessageId { consumer_id: %d request_id: %d }", id, c.next()))
	case n < 16:
		c.nack(consumer)
	default:
		c.leave(consumer)
	}
}

// nack gives one entry back, or all. The order of a single consumer is restored later than the next command comes.
func (c *chance) nack(consumer *randomConsumer) {
	if consumer.kind != "Shared" && consumer.kind != "Key_Shared" || len(consumer.got) == 0 || c.transient || c.batches {
		return
	}
	which := ""
	if c.IntN(3) > 0 {
		which = fmt.Sprintf(" message_ids { ledgerId: $L0 entryId: %d }", oneOf(c.Rand, consumer.got...))
	}
	c.say(consumer.conn, fmt.Sprintf("type: REDELIVER_UNACKNOWLEDGED_MESSAGES redeliverUnacknowledgedMessages { consumer_id: %d%s }", consumer.id, which))
	if consumer.kind == "Key_Shared" {
		c.flow(consumer, 1000)
	}
	c.answers(consumer.conn)
}

// leave ends a consumer in one of five ways, or tries to.
func (c *chance) leave(consumer *randomConsumer) {
	c.settle()
	id := consumer.id
	last := len(c.of(consumer.kind)) == 1
	switch n := c.IntN(5); {
	case n == 1:
		consumer.open = !last
		c.say(consumer.conn, fmt.Sprintf("type: UNSUBSCRIBE unsubscribe { consumer_id: %d request_id: %d }", id, c.next()))
	case n == 2 && !c.transient:
		c.say(consumer.conn, fmt.Sprintf("type: SEEK seek { consumer_id: %d request_id: %d message_id { ledgerId: %s entryId: %d } }", id, c.next(), c.ledger(), c.IntN(c.sent)))
	case n == 3 && !c.transient:
		c.say(consumer.conn, fmt.Sprintf("type: SEEK seek { consumer_id: %d request_id: %d message_publish_time: %d }", id, c.next(), 995+c.IntN(c.sent+10)))
	case n == 4:
		c.hangUp(consumer.conn)
	default:
		consumer.open = false
		c.say(consumer.conn, fmt.Sprintf("type: CLOSE_CONSUMER close_consumer { consumer_id: %d request_id: %d }", id, c.next()))
	}
	if consumer.kind == "Key_Shared" {
		c.nudge(consumer.conn)
	}
	c.answers(consumer.conn)
	c.settled(consumer)
}

// nudge makes a real broker hand out what waited for a Key_Shared consumer that has left, for which it takes a further command.
func (c *chance) nudge(left string) {
	if c.script.conns[left] != nil {
		c.listen(left)
	}
	there := len(c.script.target.stats(c.script.t, c.script.fill(c.topic)).Subscriptions["sKey_Shared"].Consumers)
	c.line(fmt.Sprint("+ ", c.topic, " sKey_Shared ", there))
	for _, other := range c.of("Key_Shared") {
		c.flow(other, 1000)
	}
}

// settle lets a real broker come to rest where a Failover subscription's active consumer waits for messages.
func (c *chance) settle() {
	if c.has("Failover") && !c.transient && !c.ended && c.activePermits() > 0 {
		c.line("~ " + c.topic + " sFailover waitingReadOp true")
	}
}

// activePermits are those that the active consumer of the Failover subscription has left.
func (c *chance) activePermits() int {
	for _, consumer := range c.ofSubscription("sFailover").Consumers {
		if consumer.ConsumerName == c.ofSubscription("sFailover").ActiveConsumerName {
			return consumer.AvailablePermits
		}
	}
	return 0
}

type subscriptionNow struct {
	ActiveConsumerName string
	BacklogSize        int
	Consumers          []struct {
		ConsumerName     string
		AvailablePermits int
	}
}

func (c *chance) now() (stats struct{ Subscriptions map[string]subscriptionNow }) {
	_, body := c.script.target.admin("GET", topicPath(c.script.fill(c.topic))+"/stats", "")
	if err := json.Unmarshal([]byte(body), &stats); err != nil {
		c.script.t.Fatal(err)
	}
	return stats
}

func (c *chance) ofSubscription(name string) subscriptionNow { return c.now().Subscriptions[name] }

func (c *chance) backlogSize() int {
	size := 0
	for _, s := range c.now().Subscriptions {
		size = max(size, s.BacklogSize)
	}
	return size
}

// settled lets a real broker go on after a change of the active consumer, of which it tells first.
func (c *chance) settled(consumer *randomConsumer) {
	if consumer.kind == "Failover" {
		c.stats()
	}
}

// onTopic does something rare to the topic itself.
func (c *chance) onTopic() {
	switch n := c.IntN(8); {
	case n == 0 && !c.transient && c.sent > 60:
		c.ended = true
		c.line("@ POST " + c.path() + "/terminate")
		c.answers("")
	case n == 1 && c.reloads:
		c.line("@ PUT " + c.path() + "/unload")
		c.answers("")
	case n < 4 && c.compaction:
		c.line("@ PUT " + c.path() + "/compaction")
		c.line("= " + c.path() + `/compaction "SUCCESS"`)
	case n < 6 && c.plan.parts:
		c.grow()
	case n == 6 && !c.transient:
		c.oversize()
	}
}

// path is where the topic's admin routes are.
func (c *chance) path() string {
	return "/" + strings.Replace(strings.Replace(c.topic, "$T", "persistent/$P", 1), "://", "/", 1)
}

// oversize sends what is as large as messages may be, or larger, on a connection of its own.
func (c *chance) oversize() {
	c.do("x", fmt.Sprintf(`type: PRODUCER producer { topic: "$T-x" producer_id: 1 request_id: %d producer_name: "x" }`, c.next()))
	c.do("x", fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: 0 } | producer_name: "x" sequence_id: 0 publish_time: 1 | $X%d`,
		5<<20+oneOf(c.Rand, -1000, 0, 1, 5<<10, 10<<10, 11<<10)))
}

// grow adds partitions, and uses the newest.
func (c *chance) grow() {
	c.parts += 1 + c.IntN(2)
	c.line(fmt.Sprint("@ POST $A/partitions ", c.parts))
	c.do("t", fmt.Sprintf(`type: PARTITIONED_METADATA partitionMetadata { topic: "$T" request_id: %d }`, c.next()))
	topic := fmt.Sprint("$T-partition-", c.parts-c.IntN(2))
	c.do("t", fmt.Sprintf(`type: PRODUCER producer { topic: "%s" producer_id: %d request_id: %d producer_name: "t" }`, topic, c.next(), c.next()))
	c.lines = append(c.lines, c.call("GET", "/persistent/"+strings.ReplaceAll(topic, "$T", "$P")+"/subscriptions", ""))
}

// beside makes, finds and deletes other topics.
func (c *chance) beside() {
	name := "$T-w" + strconv.Itoa(c.IntN(4))
	path := strings.ReplaceAll(name, "$T", "$A")
	switch c.IntN(5) {
	case 0:
		c.listed()
		c.do("w", fmt.Sprintf(`type: WATCH_TOPIC_LIST watchTopicList { request_id: %d watcher_id: %d namespace: "public/default" topics_pattern: "persistent://$P-w[0-%d]" }`,
			c.next(), 1, c.IntN(4)))
	case 1:
		c.listed()
		c.do("w", fmt.Sprintf(`type: GET_TOPICS_OF_NAMESPACE getTopicsOfNamespace { request_id: %d namespace: "public/default" topics_pattern: "$P-w[0-%d]" }`,
			c.next(), c.IntN(4)))
	case 2:
		c.lines = append(c.lines, c.call("PUT", path, ""))
		c.topics[name] = true
		c.answers("")
	case 3:
		id := c.next()
		c.do("t", fmt.Sprintf(`type: PRODUCER producer { topic: "%s" producer_id: %d request_id: %d producer_name: "t" }`, name, id, c.next()))
		c.topics[name] = true
		if c.IntN(2) == 0 {
			c.do("t", fmt.Sprintf("type: CLOSE_PRODUCER close_producer { producer_id: %d request_id: %d }", id, c.next()))
		}
	case 4:
		call := c.call("DELETE", path, "")
		c.lines = append(c.lines, call)
		if strings.HasPrefix(call, "% 204") {
			c.topics[name] = false
		}
		c.answers("")
	}
}

// listed waits until a real broker's list of topics, which is brought up to date after its answers, is.
func (c *chance) listed() {
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		c.line(fmt.Sprint("^ ", name, " ", c.topics[name]))
	}
}

// wrongCall calls an admin route, often one that refuses.
func (c *chance) wrongCall() {
	topic := oneOf(c.Rand, "$A", "$A", "$A-none", "$A-partition-0", "$A-partition-7")
	sub := oneOf(c.Rand, "none", "sExclusive", "sFailover", "sKey_Shared")
	call := oneOf(c.Rand,
		"GET "+topic+"/partitions", "PUT "+topic+"/partitions 0", "POST "+topic+"/partitions 1", "POST "+topic+"/partitions -1", "PUT "+topic+"/partitions x",
		"GET "+topic+"-none/stats", "GET "+topic+"-none/partitioned-stats", "GET "+topic+"-none/internalStats", "GET "+topic+"-none/lastMessageId",
		"GET "+topic+"-none/subscriptions", "PUT "+topic+"-none/subscription/s", "DELETE "+c.path()+"/subscription/"+sub,
		"POST "+topic+"/subscription/none/skip_all", "POST "+topic+"/subscription/none/resetcursor/x", "POST "+topic+"/subscription/none/resetcursor/5",
		"POST "+topic+"-none/terminate", "PUT "+topic+"-none/unload", "PUT "+topic+"-none/compaction", "DELETE "+topic+"-none", "DELETE "+topic,
		"GET "+topic+"/messageid/x", "GET /persistent/public/none", "GET /persistent/none/none/t/stats", "PUT /persistent/public/none/t",
		"GET /schemas/public/none/t/schema", "GET "+topic+"/subscriptions", "GET "+topic+"/stats", "GET "+topic+"/lastMessageId",
	)
	method, rest, _ := strings.Cut(call, " ")
	path, body, _ := strings.Cut(rest, " ")
	if c.transient {
		return
	}
	c.lines = append(c.lines, c.call(method, path, body))
	c.answers("")
}

// call calls an admin route, and is the line that says what it answers.
func (c *chance) call(method, path, body string) string {
	status, _ := c.script.target.admin(method, c.script.fill(path), c.script.fill(body))
	return strings.TrimRight(fmt.Sprintf("%% %d %s %s %s", status, method, path, body), " ")
}
