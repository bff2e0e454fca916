package pulsartest_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// These tests are about what only an in-process broker has.

func brokerAndClient(t *testing.T, o pulsartest.Options) (target, pulsar.Client) {
	t.Helper()
	b := newBroker(t, o)
	on := target{url: b.URL(), adminURL: b.AdminURL(), broker: b}
	return on, on.client(t)
}

func TestOptions(t *testing.T) {
	for _, bad := range []map[string]int{{"": 1}, {"a/b": 1}, {"x://public/default/t": 1}, {"t": -1}, {"t": 1 << 20}, {"other/ns/t": 1}} {
		if b, err := pulsartest.NewBroker(pulsartest.Options{Partitions: bad}); err == nil {
			t.Errorf("%v: no error", bad)
			_ = b.Close()
		}
	}
	b := newBroker(t, pulsartest.Options{Partitions: map[string]int{"orders": 3, "plain": 0}})
	on := target{url: b.URL(), adminURL: b.AdminURL(), broker: b}
	if names, err := on.client(t).TopicPartitions("orders"); err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	if status, _ := on.admin("GET", "/persistent/public/default/plain/stats", ""); status != http.StatusOK {
		t.Fatal(status)
	}
	if b.Messages("nowhere") != nil || b.Messages("a/b") != nil || b.Backlog("nowhere", "s") != 0 || b.Backlog("orders", "s") != 0 {
		t.Fatal("what does not exist has something")
	}
}

func TestClose(t *testing.T) {
	b, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	on := target{url: b.URL(), broker: b}
	produce(t, on.client(t), pulsar.ProducerOptions{Topic: "t"}, numbered(3, nil)...)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Restart(); err == nil {
		t.Fatal("restarted after Close")
	}
	if n := len(b.Messages("t")); n != 3 {
		t.Fatal(n)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "pulsar://")); err == nil {
		_ = c.Close()
		t.Fatal("still listening")
	}
}

// TestRestart produces and consumes through three restarts: nothing is lost, and what was acknowledged stays so.
func TestRestart(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{Partitions: map[string]int{"t": 2}})
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", Type: pulsar.Shared, EnableBatchIndexAcknowledgment: true, AckWithResponse: true})
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", BatchingMaxMessages: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var sent atomic.Int64
	go func() {
		for i := range 400 {
			p.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: fmt.Append(nil, i)}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err == nil {
					sent.Add(1)
				}
			})
			time.Sleep(time.Millisecond)
		}
	}()
	seen, ledgers := map[string]bool{}, map[string]bool{}
	for n := 0; len(seen) < 400; n++ {
		if n == 50 || n == 150 || n == 250 {
			if err := on.broker.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		m := receive(t, c)
		seen[string(m.Payload())] = true
		_ = c.Ack(m) // lost with its connection: the message comes again
	}
	eventually(t, func() bool { return sent.Load() == 400 })
	eventually(t, func() bool {
		select {
		case m := <-c.Chan():
			_ = c.Ack(m)
		default:
		}
		return on.broker.Backlog("t", "s") == 0
	})
	for _, m := range on.broker.Messages("t") {
		ledgers[strings.Split(m.ID, ":")[0]] = true
	}
	if len(ledgers) < 3 {
		t.Fatal("ledgers:", ledgers)
	}
}

func TestRestartKeepsAcks(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	o := pulsar.ConsumerOptions{Topic: "t", Type: pulsar.Shared, EnableBatchIndexAcknowledgment: true, AckWithResponse: true}
	c := subscribe(t, client, o)
	produce(t, client, pulsar.ProducerOptions{Topic: "t", BatchingMaxMessages: 4, BatchingMaxPublishDelay: time.Hour}, numbered(12, nil)...)
	for range 12 {
		if m := receive(t, c); !slices.Contains([]string{"1", "5", "8"}, string(m.Payload())) {
			ack(t, c, m)
		}
	}
	c.Close()
	for range 2 {
		if err := on.broker.Restart(); err != nil {
			t.Fatal(err)
		}
		if n := on.broker.Backlog("t", "s"); n != 3 {
			t.Fatal(n)
		}
	}
	if got := payloads(t, subscribe(t, on.client(t), o), 3); !slices.Equal(got, []string{"1", "5", "8"}) {
		t.Fatal(got)
	}
}

func TestToken(t *testing.T) {
	b := newBroker(t, pulsartest.Options{Token: "secret"})
	send := func(token string, wait time.Duration) error {
		c, err := pulsar.NewClient(pulsar.ClientOptions{
			URL: b.URL(), Logger: quietLogger(), Authentication: pulsar.NewAuthenticationToken(token),
			OperationTimeout: wait,
		})
		if err != nil {
			return err
		}
		defer c.Close()
		p, err := c.CreateProducer(pulsar.ProducerOptions{Topic: "t"})
		if err != nil {
			return err
		}
		defer p.Close()
		_, err = p.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x")})
		return err
	}
	if err := send("secret", patience); err != nil {
		t.Fatal(err)
	}
	if err := send("wrong", time.Second); err == nil {
		t.Fatal("let in")
	}
	for token, want := range map[string]int{"secret": http.StatusOK, "wrong": http.StatusUnauthorized} {
		r, err := http.NewRequest(http.MethodGet, b.AdminURL()+"/admin/v2/tenants", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Close = true
		w, err := http.DefaultClient.Do(r)
		if err != nil || w.StatusCode != want {
			t.Fatal(w, err)
		}
		_ = w.Body.Close()
	}
}

func TestDeduplication(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{Deduplication: true})
	seq := func(n int64) *pulsar.ProducerMessage {
		return &pulsar.ProducerMessage{Payload: fmt.Append(nil, n), SequenceID: &n}
	}
	o := pulsar.ProducerOptions{Topic: "t", Name: "p", DisableBatching: true}
	produce(t, client, o, seq(0), seq(1), seq(1), seq(0), seq(5))
	produce(t, client, o, seq(4), seq(5), seq(6))
	o.Name = "q"
	produce(t, client, o, seq(1))
	var got []string
	for _, m := range on.broker.Messages("t") {
		got = append(got, string(m.Value))
	}
	if !slices.Equal(got, []string{"0", "1", "5", "6", "1"}) {
		t.Fatal(got)
	}
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{}); err != nil || on.broker.Messages("t")[5].SequenceID != 7 {
		t.Fatal(err, on.broker.Messages("t"))
	}
}

func TestFaults(t *testing.T) {
	t.Run("chunk", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{})
		remove := on.broker.Inject(pulsartest.Fault{Command: "SEND", Key: "k", Error: "NotAllowedError"})
		p, err := client.CreateProducer(pulsar.ProducerOptions{
			Topic: "t", DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 1000, CompressionType: pulsar.LZ4, SendTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		random := make([]byte, 5000)
		_, _ = rand.Read(random)
		if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{Key: "k", Payload: random}); err == nil {
			t.Fatal("sent")
		}
		remove()
	})
	t.Run("lookup", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{})
		remove := on.broker.Inject(pulsartest.Fault{Command: "PRODUCER", Topic: "t", Error: "TopicNotFound"})
		if _, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t"}); err == nil || !strings.Contains(err.Error(), "TopicNotFound") {
			t.Fatal(err)
		}
		produce(t, client, pulsar.ProducerOptions{Topic: "other"}, numbered(1, nil)...)
		remove()
		remove()
		produce(t, client, pulsar.ProducerOptions{Topic: "t"}, numbered(1, nil)...)
	})
	t.Run("disconnect", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{Partitions: map[string]int{"t": 2}})
		c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", AckWithResponse: true})
		defer on.broker.Inject(pulsartest.Fault{Command: "ACK", Topic: "t", Count: 1, Disconnect: true})()
		produce(t, client, pulsar.ProducerOptions{Topic: "t"}, numbered(1, nil)...)
		if err := c.Ack(receive(t, c)); err == nil {
			t.Fatal("acknowledged")
		}
		if on.broker.Backlog("t", "s") != 1 {
			t.Fatal("carried out")
		}
		ack(t, c, receive(t, c))
		if on.broker.Backlog("t", "s") != 0 {
			t.Fatal("not carried out")
		}
	})
	t.Run("ack error", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{})
		c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t", AckWithResponse: true})
		produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(2, func(i int) string { return fmt.Sprint(i) })...)
		defer on.broker.Inject(pulsartest.Fault{Command: "ACK", Key: "1", Error: "something of our own"})()
		ack(t, c, receive(t, c))
		if err := c.Ack(receive(t, c)); err == nil || !strings.Contains(err.Error(), "something of our own") {
			t.Fatal(err)
		}
	})
	t.Run("drop and delay", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{})
		p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", SendTimeout: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		on.broker.Inject(pulsartest.Fault{Command: "SEND", Count: 1, Drop: true})
		if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{}); !errors.Is(err, pulsar.ErrSendTimeout) {
			t.Fatal(err)
		}
		on.broker.Inject(pulsartest.Fault{Command: "SEND", Count: 1, Delay: 50 * time.Millisecond})
		if p, err = client.CreateProducer(pulsar.ProducerOptions{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		start := time.Now()
		if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{}); err != nil || time.Since(start) < 50*time.Millisecond {
			t.Fatal(err, time.Since(start))
		}
		if n := len(on.broker.Messages("t")); n != 1 {
			t.Fatal(n)
		}
		on.broker.Inject(pulsartest.Fault{Delay: time.Hour}) // Close does not wait for it
		p.SendAsync(context.Background(), &pulsar.ProducerMessage{}, func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
		if err := on.broker.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("schema", func(t *testing.T) {
		on, client := brokerAndClient(t, pulsartest.Options{})
		defer on.broker.Inject(pulsartest.Fault{Command: "GET_SCHEMA", Error: "TopicNotFound", Count: 1})()
		const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
		c := subscribe(t, client, pulsar.ConsumerOptions{Topic: "t"})
		produce(t, client, pulsar.ProducerOptions{Topic: "t", Schema: pulsar.NewAvroSchema(text, nil)}, &pulsar.ProducerMessage{Value: map[string]any{"a": 1}})
		m := receive(t, c)
		var v map[string]any
		if err := m.GetSchemaValue(&v); err == nil {
			t.Fatal("no error")
		}
		if err := m.GetSchemaValue(&v); err != nil || v["a"] != 1 {
			t.Fatal(v, err)
		}
	})
	t.Run("slips", func(t *testing.T) {
		on, _ := brokerAndClient(t, pulsartest.Options{})
		for _, f := range []pulsartest.Fault{{Command: "SENT"}, {Command: "SEND", Topic: "a/b"}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%+v was taken", f)
					}
				}()
				on.broker.Inject(f)
			}()
		}
	})
}

// What Messages returns is the caller's own: writing to it changes nothing in the broker.
func TestMessagesAreCopies(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(1, nil)...)
	on.broker.Messages("t")[0].Value[0] = 'x'
	if m := on.broker.Messages("t")[0]; string(m.Value) != "0" || m.ID == "" {
		t.Fatalf("%+v", m)
	}
}

// TestHostile sends what no client sends: it may end that connection, and nothing else.
func TestHostile(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	frame := func(parts ...[]byte) []byte {
		body := slices.Concat(parts...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	connect := frame(sized(textProto(t, "BaseCommand", `type: CONNECT connect { client_version: "x" }`)))
	command := func(text string) []byte { return frame(sized(textProto(t, "BaseCommand", text))) }
	for name, bytes := range map[string][]byte{
		"huge frame":     {0xff, 0xff, 0xff, 0xff},
		"no frame":       {0, 0, 0, 0},
		"short":          {0, 0, 0, 5, 0, 0, 0, 200, 1},
		"no protobuf":    slices.Concat(connect, frame(sized([]byte{0xff, 0xff, 0xff}))),
		"not introduced": command(`type: LOOKUP lookupTopic { topic: "t" request_id: 1 }`),
		"bad body":       slices.Concat(connect, frame(sized([]byte{8, 6, 50, 2, 0xff, 0xff}))),
		"http":           []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		raw := dialRaw(t, on.url)
		if _, err := raw.socket.Write(bytes); err != nil {
			t.Fatal(name, err)
		}
		got := raw.receive(t, patience)
		if strings.HasPrefix(got, "CONNECTED") {
			got = raw.receive(t, patience)
		}
		if got != "closed" {
			t.Errorf("%s: %q", name, got)
		}
		raw.close()
	}
	s := &script{t: t, target: on, topic: on.topic(t, "hostile"), conns: map[string]*rawConn{}, early: map[string][]string{}}
	defer s.hangUp()
	for _, step := range []struct{ send, want string }{
		{`a type: NEW_TXN newTxn { request_id: 7 }`, `ERROR error{request_id=7 error=NotAllowedError}`},
		{`a type: WATCH_TOPIC_LIST watchTopicList { request_id: 8 watcher_id: 1 namespace: "n" topics_pattern: "(" }`, `ERROR error{request_id=8 error=InvalidTopicName}`},
		{`a type: TOPIC_MIGRATED topicMigrated { resource_id: 9 resource_type: Producer }`, `ERROR error{request_id=9 error=UnsupportedVersionError}`},
		{`a type: PRODUCER producer { topic: "$T" producer_id: 1 request_id: 10 producer_name: "p" }`, `PRODUCER_SUCCESS producer_success{request_id=10 producer_name=p last_sequence_id=-1 schema_version= producer_ready=true}`},
		{`a type: SEND send { producer_id: 1 sequence_id: 1 } | producer_name: "p" sequence_id: 1 publish_time: 1 num_messages_in_batch: 2000000000 | x`, `SEND_ERROR send_error{producer_id=1 sequence_id=1 error=UnknownError}`},
		{`a type: SUBSCRIBE subscribe { topic: "$T" subscription: "s" subType: Shared consumer_id: 1 request_id: 11 }`, `SUCCESS success{request_id=11}`},
	} {
		s.command(step.send)
		if got := s.answer("a", patience); got != step.want {
			t.Errorf("%s:\n got %s\nwant %s", step.send, got, step.want)
		}
	}
	c := s.conn("a")
	entry := rawEntry(t, `producer_name: "p" sequence_id: 2 publish_time: 1`, []byte("payload"))
	entry[len(entry)-1] ^= 1
	if _, err := c.socket.Write(frame(sized(textProto(t, "BaseCommand", `type: SEND send { producer_id: 1 sequence_id: 2 }`)), entry)); err != nil {
		t.Fatal(err)
	}
	if got := s.answer("a", patience); got != "SEND_ERROR send_error{producer_id=1 sequence_id=2 error=ChecksumError}" {
		t.Error(got)
	}
	produce(t, client, pulsar.ProducerOptions{Topic: "still"}, numbered(1, nil)...)
}

func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
