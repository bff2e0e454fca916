package pulsartest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRandomCommands makes sequences of commands by chance, notes what the in-process broker answers, and plays them to a real one, which
// has to answer the same. PULSARTEST_SEED names the first of four seeds.
func TestRandomCommands(t *testing.T) {
	first, err := strconv.ParseUint(os.Getenv("PULSARTEST_SEED"), 10, 64)
	if err != nil {
		first = 1
	}
	for seed := first; seed < first+4; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			lines := randomScript(t, seed)
			t.Run("pulsar", func(t *testing.T) {
				play(t, realBroker(t), fmt.Sprint("seed ", seed), lines)
			})
		})
	}
}

// chance makes commands about one topic: of a producer on connection a, and of two consumers on b and c, 1 of an exclusive subscription and 2
// of a shared one.
type chance struct {
	*rand.Rand
	script  *script
	lines   []string
	request int
	sent    int
	batches bool // in sequences with them both consumers are exclusive: how many entries a shared one gets for its permits is an average
	dedup   bool // drops what has a sequence id that is not above all before
	open    [3]bool
	got     [3][]int // entries that a consumer was sent and that it can nack
}

func randomScript(t *testing.T, seed uint64) []string {
	t.Helper()
	c := &chance{Rand: rand.New(rand.NewPCG(seed, 0)), script: newScript(t, inProcess(t))}
	defer c.script.hangUp()
	c.request, c.batches, c.dedup = 1, seed%2 == 0, seed%4 >= 2
	if c.dedup {
		for _, line := range []string{ // policies come one after the other, through a topic of the system
			"@ PUT $A", "@ POST $A/deduplicationEnabled true", "@ POST $A/maxProducers 5", "= $A/maxProducers 5", "= $A/deduplicationEnabled true",
		} {
			c.script.step(line)
			c.lines = append(c.lines, line)
		}
	}
	c.do("a", `type: PRODUCER producer { topic: "$T" producer_id: 1 request_id: 1 producer_name: "p" }`)
	c.send()
	for range 120 {
		c.step()
	}
	for id := range c.open {
		if c.open[id] { // whatever is left
			c.do(c.conn(id), fmt.Sprintf("type: FLOW flow { consumer_id: %d messagePermits: 1000 }", id))
		}
	}
	return c.lines
}

var sentEntry = regexp.MustCompile(`^MESSAGE message\{consumer_id=(\d) message_id\{ledgerId=\$L0 entryId=(\d+)`)

// do sends a command, and notes it with the answers of all connections.
func (c *chance) do(conn, command string) {
	c.lines = append(c.lines, "> "+conn+" "+command)
	c.script.command(conn + " " + command)
	names := c.script.names()
	slices.SortFunc(names, func(x, y string) int { // the one that was spoken to first: what it does has happened when it answers
		if (x == conn) == (y == conn) {
			return strings.Compare(x, y)
		}
		return map[bool]int{true: -1, false: 1}[x == conn]
	})
	for _, name := range names {
		c.script.command(name + " type: PING ping {}")
		for {
			answer := c.script.answer(name, patience)
			if answer == "PONG pong{}" {
				break
			}
			if answer == "" || answer == "closed" {
				c.script.t.Fatal("no answer to ", command)
			}
			c.lines = append(c.lines, "< "+name+" "+answer)
			if m := sentEntry.FindStringSubmatch(answer); m != nil {
				id, _ := strconv.Atoi(m[1])
				entry, _ := strconv.Atoi(m[2])
				c.got[id] = append(c.got[id], entry)
			}
		}
	}
}

func (c *chance) conn(id int) string { return []string{1: "b", 2: "c"}[id] }

func (c *chance) next() int {
	c.request++
	return c.request
}

func (c *chance) send() {
	n := c.sent
	if c.sent++; c.dedup && c.IntN(3) == 0 {
		n = c.IntN(c.sent)
	}
	if !c.batches || c.IntN(3) > 0 {
		more := ""
		if !c.batches && c.IntN(6) == 0 {
			more = []string{" deliver_at_time: 1000", " deliver_at_time: 9000000000000"}[c.IntN(2)] // long ago, and not in this test
		}
		c.do("a", fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d } | producer_name: "p" sequence_id: %d publish_time: %d partition_key: "k%d"%s | m%d`,
			n, n, 1000+n, c.IntN(3), more, n))
		return
	}
	size := 2 + c.IntN(3)
	c.do("a", fmt.Sprintf(`type: SEND send { producer_id: 1 sequence_id: %d num_messages: %d highest_sequence_id: %d } | `+
		`producer_name: "p" sequence_id: %d publish_time: %d num_messages_in_batch: %d | b%d`, n, size, n, n, 1000+n, size, n))
}

func (c *chance) step() {
	id := 1 + c.IntN(2)
	if c.IntN(3) == 0 {
		c.send()
		return
	}
	if !c.open[id] {
		c.subscribe(id)
		return
	}
	entry := c.IntN(c.sent + 2) // also some that do not exist
	switch c.IntN(9) {
	case 0, 1, 2:
		c.do(c.conn(id), fmt.Sprintf("type: FLOW flow { consumer_id: %d messagePermits: %d }", id, 1+c.IntN(5)))
	case 3, 4:
		c.do(c.conn(id), fmt.Sprintf("type: ACK ack { consumer_id: %d ack_type: Individual request_id: %d message_id { ledgerId: $L0 entryId: %d } }", id, c.next(), entry))
	case 5:
		c.do(c.conn(id), fmt.Sprintf("type: ACK ack { consumer_id: %d ack_type: Cumulative request_id: %d message_id { ledgerId: $L0 entryId: %d } }", id, c.next(), entry))
	case 6:
		c.do(c.conn(id), fmt.Sprintf("type: GET_LAST_MESSAGE_ID getLastMessageId { consumer_id: %d request_id: %d }", id, c.next()))
	case 7:
		c.nack()
	case 8:
		c.leave(id)
	}
}

func (c *chance) subscribe(id int) {
	kind := "Exclusive"
	if id == 2 && !c.batches {
		kind = "Shared"
	}
	c.do(c.conn(id), fmt.Sprintf(`type: SUBSCRIBE subscribe { topic: "$T" subscription: "s%d" subType: %s consumer_id: %d request_id: %d consumer_name: "c" initialPosition: Earliest }`,
		id, kind, id, c.next()))
	c.open[id], c.got[id] = true, nil
}

// nack gives one entry back that the shared consumer was sent; the exclusive one's order is restored later than the next command comes.
func (c *chance) nack() {
	if c.open[2] && !c.batches && len(c.got[2]) > 0 {
		entry := c.got[2][c.IntN(len(c.got[2]))]
		c.do(c.conn(2), fmt.Sprintf("type: REDELIVER_UNACKNOWLEDGED_MESSAGES redeliverUnacknowledgedMessages { consumer_id: 2 message_ids { ledgerId: $L0 entryId: %d } }", entry))
	}
}

// leave ends a consumer in one of four ways.
func (c *chance) leave(id int) {
	c.open[id] = false
	switch c.IntN(4) {
	case 0:
		c.do(c.conn(id), fmt.Sprintf("type: CLOSE_CONSUMER close_consumer { consumer_id: %d request_id: %d }", id, c.next()))
	case 1:
		c.do(c.conn(id), fmt.Sprintf("type: UNSUBSCRIBE unsubscribe { consumer_id: %d request_id: %d }", id, c.next()))
	case 2:
		c.do(c.conn(id), fmt.Sprintf("type: SEEK seek { consumer_id: %d request_id: %d message_id { ledgerId: $L0 entryId: %d } }", id, c.next(), c.IntN(c.sent)))
	case 3:
		c.do(c.conn(id), fmt.Sprintf("type: SEEK seek { consumer_id: %d request_id: %d message_publish_time: %d }", id, c.next(), 995+c.IntN(c.sent+10)))
	}
}
