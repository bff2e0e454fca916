package pulsartest_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestCluster sends to four partitions of three brokers, one of which is always the wrong one to ask, while partitions move, are unloaded,
// and brokers die and return: nothing is lost.
func TestCluster(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{Brokers: 3, Partitions: map[string]int{"t": 4}})
	b := on.broker
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", Type: pulsar.KeyShared})
	owners := map[int]bool{}
	for i := range 4 {
		n, err := b.Owner(fmt.Sprintf("t-partition-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		owners[n] = true
	}
	if len(owners) != 3 {
		t.Fatal("owners:", owners)
	}
	sent := 0
	exchange := func() {
		t.Helper()
		want := map[string]bool{}
		var messages []*pulsar.ProducerMessage
		for range 20 {
			payload := fmt.Sprint(sent)
			sent++
			want[payload] = true
			messages = append(messages, &pulsar.ProducerMessage{Key: payload, Payload: []byte(payload)})
		}
		// A producer each time: the client races with itself where one reconnects while it sends; see TestFaultSend.
		produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, messages...)
		for len(want) > 0 {
			m := receive(t, c)
			delete(want, string(m.Payload()))
			ack(t, c, m)
		}
	}
	exchange()
	for to := range 3 {
		if err := b.Move("t", to); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if n, err := b.Owner(fmt.Sprintf("t-partition-%d", i)); n != to || err != nil {
				t.Fatal(n, err)
			}
		}
		exchange()
	}
	on.must(t, "PUT", topicPath("persistent://public/default/t")+"/unload", "")
	if n, _ := b.Owner("t-partition-0"); n == 2 {
		t.Error("still there")
	}
	exchange()
	for i := range 3 {
		if err := b.Stop(i); err != nil {
			t.Fatal(err)
		}
		if n, _ := b.Owner("t-partition-0"); n == i {
			t.Error("served by one that is stopped")
		}
		if err := b.Move("t", i); err == nil {
			t.Error("moved to one that is stopped")
		}
		exchange()
		if err := b.Start(i); err != nil {
			t.Fatal(err)
		}
		if err := b.Move("t", i); err != nil {
			t.Fatal(err)
		}
		exchange()
	}
	eventually(t, func() bool { return b.Backlog("t", "s") == 0 })
	for _, err := range []error{b.Move("none", 0), b.Move("t", 3), b.Stop(-1), b.Start(3)} {
		if err == nil {
			t.Error("no error")
		}
	}
	if _, err := b.Owner("a/b"); err == nil {
		t.Error("no error")
	}
}

// TestRedirect looks at what a client is told: where to look, and, when a topic moves, where to go.
func TestRedirect(t *testing.T) {
	b := newBroker(t, pulsartest.Options{Brokers: 2})
	urls := strings.Split(strings.TrimPrefix(b.URL(), "pulsar://"), ",")
	owner, err := b.Owner("t")
	if err != nil || len(urls) != 2 {
		t.Fatal(err, urls)
	}
	conns := map[string]*rawConn{}
	for i, url := range urls {
		name := map[bool]string{true: "owner", false: "other"}[i == owner]
		conns[name] = dialRaw(t, "pulsar://"+url)
		conns[name].send(t, `type: CONNECT connect { client_version: "test" protocol_version: 20 }`, "", "")
		conns[name].receive(t, patience)
		defer conns[name].close()
	}
	for _, step := range []struct{ conn, send, want string }{
		{"other", `type: LOOKUP lookupTopic { topic: "t" request_id: 1 }`, "LOOKUP_RESPONSE lookupTopicResponse{response=Redirect request_id=1 authoritative=true}"},
		{"owner", `type: LOOKUP lookupTopic { topic: "t" request_id: 1 }`, "LOOKUP_RESPONSE lookupTopicResponse{response=Connect request_id=1 authoritative=true}"},
		{"other", `type: PRODUCER producer { topic: "t" producer_id: 1 request_id: 2 }`, "ERROR error{request_id=2 error=ServiceNotReady}"},
		{"other", `type: SUBSCRIBE subscribe { topic: "t" subscription: "s" subType: Shared consumer_id: 1 request_id: 3 }`, "ERROR error{request_id=3 error=ServiceNotReady}"},
		{"owner", `type: PRODUCER producer { topic: "t" producer_id: 1 request_id: 2 producer_name: "p" }`, "PRODUCER_SUCCESS producer_success{request_id=2 producer_name=p last_sequence_id=-1 schema_version= producer_ready=true}"},
	} {
		conns[step.conn].send(t, step.send, "", "")
		if got := conns[step.conn].receive(t, patience); got != step.want {
			t.Errorf("%s\n got %s\nwant %s", step.send, got, step.want)
		}
	}
	if err := b.Move("t", 1-owner); err != nil {
		t.Fatal(err)
	}
	want := "CLOSE_PRODUCER close_producer{producer_id=1 request_id=18446744073709551615 assignedBrokerServiceUrl=pulsar://" + urls[1-owner] + "}"
	if got := conns["owner"].receive(t, patience); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestStop stops a single broker: nobody can connect, and what was stored is there when it returns.
func TestStop(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	produce(t, client, pulsar.ProducerOptions{Topic: "t"}, numbered(3, nil)...)
	address := strings.TrimPrefix(on.url, "pulsar://")
	for range 2 {
		if err := on.broker.Stop(0); err != nil {
			t.Fatal(err)
		}
	}
	if socket, err := net.Dial("tcp", address); err == nil {
		_ = socket.Close()
		t.Fatal("connected")
	}
	for range 2 {
		if err := on.broker.Start(0); err != nil {
			t.Fatal(err)
		}
	}
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t"})
	if got := payloads(t, c, 3); !slices.Equal(got, count(3)) {
		t.Fatal(got)
	}
}
