package pulsartest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRandomCommands makes sequences of commands by chance, notes what the in-process broker answers, and plays them to a real one, which
// has to answer the same. PULSARTEST_SEED names the first seed and PULSARTEST_SEEDS how many there are: those of every run are fixed, since of
// a hundred others one ends in something that Pulsar 4.0.8 answers differently from one time to the next.
func TestRandomCommands(t *testing.T) {
	first, err := strconv.ParseUint(os.Getenv("PULSARTEST_SEED"), 10, 64)
	if err != nil {
		first = 1010
	}
	n, err := strconv.ParseUint(os.Getenv("PULSARTEST_SEEDS"), 10, 64)
	if err != nil {
		n = 6
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			lines := randomScript(t, seed)
			t.Run("pulsar", func(t *testing.T) {
				play(t, realBroker(t), fmt.Sprint("seed ", seed), lines)
			})
		})
	}
}

// chance makes commands about one topic: of three producers and of the consumers of a subscription of each type.
type chance struct {
	*rand.Rand
	script  *script
	lines   []string
	request int
	sent    int
	first   int // entries in the first ledger
	topic   string
	plan
	producers []*randomProducer
	consumers []*randomConsumer
	topics    map[string]bool // made beside, and whether they are still there
	parts     int             // of the topic's partitions
	ended     bool            // terminated
}

// plan is what a sequence is about. Where Pulsar's answers are a matter of chance, a plan or a command leaves them out.
type plan struct {
	kinds      []string // of subscriptions
	sharing    string   // of Key_Shared: how the keys are shared out
	transient  bool     // a non-persistent topic
	parts      bool     // the topic is a partition
	batches    bool     // Shared and Key_Shared are given permits for all of them: how many entries they get for fewer is an average
	dedup      bool     // drops what has a sequence id that is not above all before
	quota      bool
	compaction bool
	reloads    bool // the topic is unloaded at times
}

type randomProducer struct {
	conn, name  string
	open, waits bool
}

type randomConsumer struct {
	conn      string
	id        int
	sub, kind string
	open      bool
	flowed    bool
	got       []int // entries that it was sent and can nack
}

var sharings = []string{
	"", "keySharedMeta { keySharedMode: AUTO_SPLIT }", "keySharedMeta { keySharedMode: AUTO_SPLIT allowOutOfOrderDelivery: true }",
	"keySharedMeta { keySharedMode: STICKY %s }",
}

func newPlan(r *rand.Rand) plan {
	sometimes := func(n int) bool { return r.IntN(n) == 0 }
	p := plan{sharing: sharings[r.IntN(len(sharings))], transient: sometimes(8), batches: sometimes(3)}
	if !p.transient {
		p.parts, p.dedup, p.quota, p.compaction, p.reloads = sometimes(3), sometimes(4), sometimes(6), sometimes(4), sometimes(4)
	}
	p.batches = p.batches && !p.compaction // which reads them; these cannot be
	all := []string{"Exclusive", "Shared", "Failover", "Key_Shared", "Reader"}
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if p.transient { // who is active of a topic that is no partition depends on its name
		all = slices.DeleteFunc(all, func(kind string) bool { return kind == "Failover" })
	}
	p.kinds = all[:2+r.IntN(2)]
	p.parts = p.parts || slices.Contains(p.kinds, "Failover")
	return p
}

func randomScript(t *testing.T, seed uint64) []string {
	t.Helper()
	c := &chance{Rand: rand.New(rand.NewPCG(seed, 0)), script: newScript(t, inProcess(t)), request: 1, topic: "$T", parts: 2}
	defer c.script.hangUp()
	c.plan, c.topics = newPlan(c.Rand), map[string]bool{}
	t.Logf("seed %d: %+v", seed, c.plan)
	switch {
	case c.transient:
		c.topic = "non-$T"
	case c.plan.parts:
		c.topic = "$T-partition-" + strconv.Itoa(c.IntN(2))
		c.line("@ PUT $A/partitions 2")
	case c.dedup || c.quota:
		c.line("@ PUT $A")
	}
	if c.dedup || c.quota { // policies come one after the other, through a topic of the system
		if c.dedup {
			c.line("@ POST $A/deduplicationEnabled true")
		}
		if c.quota {
			c.line(fmt.Sprintf(`@ POST $A/backlogQuota?backlogQuotaType=destination_storage {"limitSize":%d,"limitTime":-1,"policy":%q}`,
				quotaLimit, []string{"producer_exception", "producer_request_hold"}[c.IntN(2)]))
		}
		c.line("@ POST $A/maxProducers 5")
		c.line("= $A/maxProducers 5")
	}
	for _, conn := range []string{"a", "m", "n"} {
		c.producers = append(c.producers, &randomProducer{conn: conn})
	}
	conns := "bcdefghijk"
	for _, kind := range c.kinds {
		n := map[string]int{"Exclusive": 2, "Shared": 2, "Failover": 3, "Key_Shared": 3, "Reader": 1}[kind]
		for range n {
			id := len(c.consumers) + 1
			c.consumers = append(c.consumers, &randomConsumer{conn: conns[id-1 : id], id: id, sub: "s" + kind, kind: kind})
		}
	}
	c.produce(c.producers[0], "Shared", "p")
	c.send()
	for range 110 {
		c.step()
	}
	for _, consumer := range c.consumers {
		if consumer.open && c.mayFlow(consumer) { // whatever is left
			c.flow(consumer, 1000)
		}
	}
	c.stats()
	return c.lines
}

// line carries a line out that has no answer, and notes it.
func (c *chance) line(line string) {
	c.script.step(line)
	c.lines = append(c.lines, line)
}

var (
	sentEntry   = regexp.MustCompile(`^MESSAGE message\{consumer_id=(\d+) message_id\{ledgerId=\$L(\d+) entryId=(\d+)`)
	closedByIt  = regexp.MustCompile(`^CLOSE_CONSUMER close_consumer\{consumer_id=(\d+) `)
	receipt     = regexp.MustCompile(`^SEND_RECEIPT .* message_id\{ledgerId=\$L0 entryId=(\d+)`)
	newProducer = regexp.MustCompile(`^PRODUCER_SUCCESS .*producer_name=(\w+) .*producer_ready=(true|false)`)
)

// do sends a command, and notes it with the answers of all connections.
func (c *chance) do(conn, command string) {
	c.say(conn, command)
	c.answers(conn)
}

// say sends a command, whose answers are noted later.
func (c *chance) say(conn, command string) { c.line("> " + conn + " " + command) }

// answers notes what has come of a line on all connections, first on the one that was spoken to: what a command does has happened when it
// is answered.
func (c *chance) answers(first string) {
	names := c.script.names()
	slices.SortFunc(names, func(x, y string) int {
		if (x == first) == (y == first) {
			return strings.Compare(x, y)
		}
		return map[bool]int{true: -1, false: 1}[x == first]
	})
	for _, name := range names {
		c.listen(name)
	}
}

// listen notes what has come on a connection.
func (c *chance) listen(conn string) {
	c.script.command(conn + " type: PING ping {}")
	for {
		answer := c.script.answer(conn, patience)
		if answer == "PONG pong{}" {
			return
		}
		if answer == "" {
			c.script.t.Fatal("no answer on ", conn)
		}
		c.lines = append(c.lines, "< "+conn+" "+answer)
		c.learn(conn, answer)
		if answer == "closed" {
			c.hangUp(conn)
			c.answers("")
			return
		}
	}
}

// learn takes from an answer what later commands depend on.
func (c *chance) learn(conn, answer string) {
	if m := sentEntry.FindStringSubmatch(answer); m != nil {
		id, _ := strconv.Atoi(m[1])
		entry, _ := strconv.Atoi(m[3])
		if consumer := c.consumers[id-1]; consumer.conn == conn && m[2] == "0" {
			consumer.got = append(consumer.got, entry)
		}
	}
	if m := receipt.FindStringSubmatch(answer); m != nil {
		entry, _ := strconv.Atoi(m[1])
		c.first = max(c.first, entry+1)
	}
	if m := closedByIt.FindStringSubmatch(answer); m != nil {
		id, _ := strconv.Atoi(m[1])
		c.consumers[id-1].open = false
	}
	for _, p := range c.producers {
		if p.conn == conn && strings.HasPrefix(answer, "CLOSE_PRODUCER") {
			p.open = false
		}
		if m := newProducer.FindStringSubmatch(answer); p.conn == conn && m != nil {
			p.name, p.open, p.waits = m[1], m[2] == "true", m[2] == "false"
		}
		if p.conn == conn && strings.HasPrefix(answer, "ERROR") {
			p.waits = false
		}
	}
}

// hangUp ends a connection, with whoever is on it.
func (c *chance) hangUp(conn string) {
	c.line("! " + conn)
	for _, p := range c.producers {
		p.open, p.waits = p.open && p.conn != conn, p.waits && p.conn != conn
	}
	for _, consumer := range c.consumers {
		consumer.open = consumer.open && consumer.conn != conn
	}
}

func (c *chance) next() int {
	c.request++
	return c.request
}

// oneOf picks something at random.
func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func (c *chance) stats() {
	path := topicPath(c.script.fill(c.topic))
	status, body := c.script.target.admin("GET", path+"/stats?getPreciseBacklog=true", "")
	c.lines = append(c.lines, fmt.Sprintf("? %s %d %s", c.topic, status, reducedStats(body)))
}

var keptStats = map[string]bool{
	"msgInCounter": true, "bytesInCounter": true, "waitingPublishers": true, "deduplicationStatus": true,
	"publishers": true, "producerName": true, "accessMode": true, "producerId": true, "metadata": true,
	"subscriptions": true, "type": true, "msgBacklog": true, "unackedMessages": true, "activeConsumerName": true, "keySharedMode": true,
	"allowOutOfOrderDelivery": true, "isDurable": true, "subscriptionProperties": true, "nonContiguousDeletedMessagesRanges": true,
	"consumers": true, "consumerName": true, "availablePermits": true, "blockedConsumerOnUnackedMsgs": true,
}

// reducedStats are those of a topic's statistics that do not depend on time or addresses.
func reducedStats(body string) string {
	var stats map[string]any
	if err := json.Unmarshal([]byte(body), &stats); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(reduced(stats, false))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func reduced(value any, anyKey bool) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, of any) bool { return !anyKey && !keptStats[key] || of == nil || of == 0.0 || of == "" })
		for key := range v {
			v[key] = reduced(v[key], key == "subscriptions" || key == "metadata" || key == "subscriptionProperties")
		}
	case []any:
		for i := range v {
			v[i] = reduced(v[i], false)
		}
		slices.SortFunc(v, func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	}
	return value
}
