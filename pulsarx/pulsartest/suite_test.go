package pulsartest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// The tests of this package that take a target run on an in-process broker and, where PULSAR_URL names one, on a real Pulsar: what
// passes on one and fails on the other is a fault of this package.

// target is a broker that a test runs on.
type target struct {
	url, adminURL string
	broker        *pulsartest.Broker // nil for a real one
}

var brokers = map[string]func(testing.TB) target{"pulsartest": inProcess, "pulsar": realBroker}

func inProcess(tb testing.TB) target {
	tb.Helper()
	b := newBroker(tb, pulsartest.Options{})
	return target{url: b.URL(), adminURL: b.AdminURL(), broker: b}
}

func realBroker(tb testing.TB) target {
	tb.Helper()
	return target{url: servicetest.Env(tb, "PULSAR_URL"), adminURL: servicetest.Env(tb, "PULSAR_ADMIN_URL")}
}

func newBroker(tb testing.TB, o pulsartest.Options) *pulsartest.Broker {
	tb.Helper()
	b, err := pulsartest.NewBroker(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

var topics atomic.Int64

// topic is the full name of a topic that no other test uses. It stays: while topics are deleted by force, Pulsar 4.0.8 at times does not
// dispatch what is published to others, until more comes.
func (on target) topic(tb testing.TB, name string) string {
	tb.Helper()
	return fmt.Sprintf("persistent://public/default/%s-%d-%d", name, time.Now().UnixNano(), topics.Add(1))
}

func (on target) partitioned(t *testing.T, name string, n int) string {
	t.Helper()
	name = on.topic(t, name)
	if status, body := on.admin("PUT", topicPath(name)+"/partitions", fmt.Sprint(n)); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	return name
}

func topicPath(name string) string { return "/" + strings.Replace(name, "://", "/", 1) }

// admin calls a route below /admin/v2.
func (on target) admin(method, path, body string) (status int, answer string) {
	r, err := http.NewRequest(method, on.adminURL+"/admin/v2"+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	b, err := io.ReadAll(w.Body)
	_ = w.Body.Close()
	if err != nil {
		return 0, err.Error()
	}
	return w.StatusCode, string(b)
}

// stats are a topic's statistics as the admin routes answer them.
func (on target) stats(t *testing.T, topic string) (stats struct {
	MsgInCounter  int64
	Publishers    []struct{ ProducerName string }
	Subscriptions map[string]struct {
		MsgBacklog, UnackedMessages int64
		Type                        string
		Consumers                   []struct{ ConsumerName string }
	}
},
) {
	t.Helper()
	status, body := on.admin("GET", topicPath(topic)+"/stats", "")
	if status == http.StatusNotFound {
		status, body = on.admin("GET", topicPath(topic)+"/partitioned-stats", "")
	}
	if err := json.Unmarshal([]byte(body), &stats); err != nil || status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	return stats
}

// drained waits until a subscription has acknowledged everything.
func (on target) drained(t *testing.T, topic, sub string) {
	t.Helper()
	eventually(t, func() bool { return on.stats(t, topic).Subscriptions[sub].MsgBacklog == 0 })
	if on.broker != nil && on.broker.Backlog(topic, sub) != 0 {
		t.Fatalf("backlog %d", on.broker.Backlog(topic, sub))
	}
}

// batchIndexAck tells whether the broker keeps track of the messages that are acknowledged within a batch, which Pulsar does not by
// default.
func (on target) batchIndexAck() bool {
	_, config := on.admin("GET", "/brokers/configuration/runtime", "")
	return on.broker != nil || strings.Contains(config, `"acknowledgmentAtBatchIndexLevelEnabled":"true"`)
}

const patience = time.Minute // of a machine that is busy with other tests

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatal("it did not happen")
		}
	}
}

func (on target) client(tb testing.TB) pulsar.Client {
	tb.Helper()
	c, err := pulsar.NewClient(pulsar.ClientOptions{URL: on.url, Logger: quietLogger(), OperationTimeout: patience})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func quietLogger() log.Logger {
	return log.NewLoggerWithSlog(slog.New(slog.DiscardHandler))
}

// produce sends messages: in one batch, unless the options say otherwise or it is full, however slow the machine is.
func produce(tb testing.TB, c pulsar.Client, o pulsar.ProducerOptions, messages ...*pulsar.ProducerMessage) []pulsar.MessageID {
	tb.Helper()
	if o.BatchingMaxPublishDelay == 0 {
		o.BatchingMaxPublishDelay = time.Minute
	}
	p, err := c.CreateProducer(o)
	if err != nil {
		tb.Fatal(err)
	}
	defer p.Close()
	ids := make([]pulsar.MessageID, len(messages))
	for i, m := range messages {
		p.SendAsync(context.Background(), m, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				tb.Error(err)
			}
			ids[i] = id
		})
	}
	if err := p.FlushWithCtx(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return ids
}

// numbered makes n messages with the payloads 0, 1, ... and the keys that key gives.
func numbered(n int, key func(i int) string) []*pulsar.ProducerMessage {
	messages := make([]*pulsar.ProducerMessage, n)
	for i := range messages {
		messages[i] = &pulsar.ProducerMessage{Payload: fmt.Append(nil, i)}
		if key != nil {
			messages[i].Key = key(i)
		}
	}
	return messages
}

func subscribe(tb testing.TB, c pulsar.Client, o pulsar.ConsumerOptions) pulsar.Consumer {
	tb.Helper()
	if o.SubscriptionName == "" {
		o.SubscriptionName = "s"
	}
	o.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	consumer, err := c.Subscribe(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(consumer.Close)
	return consumer
}

func receive(tb testing.TB, c pulsar.Consumer) pulsar.Message {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := c.Receive(ctx)
	if err != nil {
		tb.Fatal("receive:", err)
	}
	return m
}

// nothing checks that no message comes for a while.
func nothing(tb testing.TB, c pulsar.Consumer) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if m, err := c.Receive(ctx); err == nil {
		tb.Fatalf("received %s %v", m.Payload(), m.ID())
	}
}

func ack(tb testing.TB, c pulsar.Consumer, m pulsar.Message) {
	tb.Helper()
	if err := c.Ack(m); err != nil {
		tb.Fatal(err)
	}
}

// payloads receives and acknowledges n messages.
func payloads(tb testing.TB, c pulsar.Consumer, n int) []string {
	tb.Helper()
	var got []string
	for range n {
		m := receive(tb, c)
		got = append(got, string(m.Payload()))
		ack(tb, c, m)
	}
	return got
}
