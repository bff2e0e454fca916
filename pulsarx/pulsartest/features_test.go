package pulsartest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func TestSchemas(t *testing.T) {
	const v1 = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	const v2 = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","string"],"default":null}]}`
	type r struct {
		A int32   `avro:"a"`
		B *string `avro:"b"`
	}
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "schemas")
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
			for _, text := range []string{v1, v2, v1} {
				produce(t, client, pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(text, nil)}, &pulsar.ProducerMessage{Value: r{A: 7}})
			}
			for _, version := range []byte{0, 1, 0} {
				m := receive(t, c)
				if !bytes.Equal(m.SchemaVersion(), []byte{0, 0, 0, 0, 0, 0, 0, version}) {
					t.Fatal(m.SchemaVersion())
				}
			}
			for _, s := range []pulsar.Schema{pulsar.NewStringSchema(nil), pulsar.NewJSONSchema(v1, nil)} {
				_, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: s})
				if err == nil || !strings.Contains(err.Error(), "IncompatibleSchema") {
					t.Fatal(err)
				}
				_, err = client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "other", Schema: s})
				if err == nil || !strings.Contains(err.Error(), "IncompatibleSchema") {
					t.Fatal(err)
				}
			}
			path := "/schemas/" + strings.TrimPrefix(topic, "persistent://")
			if status, body := on.admin("GET", path+"/schema/1", ""); status != http.StatusOK || !strings.Contains(body, `"version":1,"type":"AVRO"`) {
				t.Fatal(status, body)
			}
			produce(t, client, pulsar.ProducerOptions{Topic: topic}, &pulsar.ProducerMessage{Payload: []byte("no schema")})
		})
	}
}

func TestPartitions(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.partitioned(t, "partitions", 2)
			if names, err := client.TopicPartitions(topic); err != nil || !slices.Equal(names, []string{topic + "-partition-0", topic + "-partition-1"}) {
				t.Fatal(names, err)
			}
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, HashingScheme: pulsar.Murmur3_32Hash}, numbered(40, func(i int) string { return fmt.Sprint(i) })...)
			payloads(t, c, 40)
			// A consumer that discovers partitions while a real broker makes them may be refused one, upon which the client closes all
			// of its partitions for good (apache/pulsar-client-go#1426). TestDiscovery has a consumer that is there.
			c.Close()
			if status, body := on.admin("POST", topicPath(topic)+"/partitions", "4"); status != http.StatusNoContent {
				t.Fatal(status, body)
			}
			c = subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, HashingScheme: pulsar.Murmur3_32Hash}, numbered(40, func(i int) string { return fmt.Sprint(i) })...)
			used := map[int32]bool{}
			for range 40 {
				m := receive(t, c)
				used[m.ID().PartitionIdx()] = true
				ack(t, c, m)
			}
			if len(used) != 4 {
				t.Fatal(used)
			}
			on.drained(t, topic, "s")
			if n := on.stats(t, topic).MsgInCounter; n != 80 {
				t.Fatal(n)
			}
		})
	}
}

// TestDiscovery grows a topic under a consumer.
func TestDiscovery(t *testing.T) {
	on := inProcess(t)
	client, topic := on.client(t), on.partitioned(t, "discovery", 2)
	c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.KeyShared, AutoDiscoveryPeriod: 20 * time.Millisecond})
	if status, body := on.admin("POST", topicPath(topic)+"/partitions", "4"); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	produce(t, client, pulsar.ProducerOptions{Topic: topic, HashingScheme: pulsar.Murmur3_32Hash}, numbered(40, func(i int) string { return fmt.Sprint(i) })...)
	payloads(t, c, 40)
	on.drained(t, topic, "s")
}

func TestPattern(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "pattern")
			for _, suffix := range []string{"-a", "-b", "x"} {
				produce(t, client, pulsar.ProducerOptions{Topic: topic + suffix}, &pulsar.ProducerMessage{Payload: []byte(suffix)})
			}
			c := subscribe(t, client, pulsar.ConsumerOptions{TopicsPattern: regexp.QuoteMeta(topic) + "-.*"})
			got := payloads(t, c, 2)
			slices.Sort(got)
			if !slices.Equal(got, []string{"-a", "-b"}) {
				t.Fatal(got)
			}
			nothing(t, c)
		})
	}
}

func TestDeadLetterPolicy(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "dlq")
			dlq := on.topic(t, "dead")
			dead := subscribe(t, client, pulsar.ConsumerOptions{Topic: dlq})
			c := subscribe(t, client, pulsar.ConsumerOptions{
				Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 20 * time.Millisecond,
				DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: dlq},
			})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, numbered(3, nil)...)
			for acked := 0; acked < 2; {
				m := receive(t, c)
				if string(m.Payload()) == "1" {
					c.Nack(m)
					continue
				}
				ack(t, c, m)
				acked++
			}
			eventually(t, func() bool { // the client takes a message to the dead letters when it is to be received once more
				select {
				case m := <-c.Chan():
					c.Nack(m)
				default:
				}
				return on.stats(t, dlq).MsgInCounter == 1
			})
			if got := payloads(t, dead, 1); got[0] != "1" {
				t.Fatal(got)
			}
			on.drained(t, topic, "s")
		})
	}
}

func TestDelayedDelivery(t *testing.T) {
	for name, connect := range brokers {
		for _, kind := range []pulsar.SubscriptionType{pulsar.Shared, pulsar.KeyShared} {
			t.Run(fmt.Sprint(name, "/", kind), func(t *testing.T) {
				t.Parallel()
				on := connect(t)
				client, topic := on.client(t), on.topic(t, "delayed")
				c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: kind})
				start := time.Now()
				produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true},
					&pulsar.ProducerMessage{Payload: []byte("late"), DeliverAfter: 3 * time.Second}, &pulsar.ProducerMessage{Payload: []byte("now")})
				for i, want := range []string{"now", "late"} { // unless the machine has stood still until both were due
					got := payloads(t, c, 1)[0]
					if took := time.Since(start); got == "late" && took < time.Second || got != want && took < 2*time.Second {
						t.Fatalf("message %d is %s, after %v", i, got, took)
					}
				}
			})
		}
	}
}

func TestChunks(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "chunks")
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
			large := bytes.Repeat([]byte("0123456789"), 30_000)
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 64 << 10, CompressionType: pulsar.ZSTD},
				&pulsar.ProducerMessage{Key: "k", Payload: large}, &pulsar.ProducerMessage{Payload: []byte("small")})
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 64 << 10},
				&pulsar.ProducerMessage{Key: "k", Payload: large})
			for _, want := range [][]byte{large, []byte("small"), large} {
				if m := receive(t, c); !bytes.Equal(m.Payload(), want) {
					t.Fatal(len(m.Payload()))
				} else {
					ack(t, c, m)
				}
			}
			if on.broker != nil {
				if m := on.broker.Messages(topic); len(m) != 3 || !bytes.Equal(m[2].Value, large) || m[2].Key != "k" {
					t.Fatal(len(m))
				}
			}
		})
	}
}

// TestSharedChunks: the chunks of a message go to one consumer of a Shared subscription.
func TestSharedChunks(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			client, topic := on.client(t), on.topic(t, "chunks")
			var consumers []pulsar.Consumer
			for range 2 {
				consumers = append(consumers, subscribe(t, client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared}))
			}
			var sent []*pulsar.ProducerMessage
			for i := range 10 {
				sent = append(sent, &pulsar.ProducerMessage{Payload: bytes.Repeat([]byte{byte(i)}, 5000)})
			}
			produce(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: 1000}, sent...)
			seen := map[byte]bool{}
			for range sent {
				var m pulsar.Message
				select {
				case c := <-consumers[0].Chan():
					m = c.Message
					ack(t, consumers[0], m)
				case c := <-consumers[1].Chan():
					m = c.Message
					ack(t, consumers[1], m)
				case <-time.After(patience):
					t.Fatalf("%d of %d messages came", len(seen), len(sent))
				}
				first := m.Payload()[0]
				if seen[first] || !bytes.Equal(m.Payload(), sent[first].Payload) {
					t.Errorf("message %d, %d bytes, again: %v", first, len(m.Payload()), seen[first])
				}
				seen[first] = true
			}
			on.drained(t, topic, "s")
		})
	}
}

func TestAccessModes(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.topic(t, "access")
			p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic}); err == nil || !strings.Contains(err.Error(), "ProducerBusy") {
				t.Fatal(err)
			}
			waited := make(chan error)
			go func() {
				q, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeWaitForExclusive})
				if err == nil {
					q.Close()
				}
				waited <- err
			}()
			select {
			case err := <-waited:
				t.Fatal("did not wait:", err)
			case <-time.After(200 * time.Millisecond):
			}
			p.Close()
			if err := <-waited; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestGetSchemaByVersion(t *testing.T) {
	const text = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	type r struct {
		A int32 `avro:"a"`
	}
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)

			client, topic := on.client(t), on.partitioned(t, "getschema", 2)
			produce(t, client, pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewAvroSchema(text, nil)}, &pulsar.ProducerMessage{Value: r{A: 7}})
			c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic}) // without a schema of its own: the client asks for the writer's
			var v r
			if err := receive(t, c).GetSchemaValue(&v); err != nil || v.A != 7 {
				t.Fatal(v, err)
			}
		})
	}
}

// TestHTTPLookup gives the client the admin URL for its service URL: it looks topics and schemas up there.
func TestHTTPLookup(t *testing.T) {
	for name, connect := range brokers {
		t.Run(name, func(t *testing.T) {
			on := connect(t)
			on.url = on.adminURL

			client := on.client(t)
			for _, topic := range []string{on.topic(t, "http"), on.partitioned(t, "http", 2)} {
				c := subscribe(t, client, pulsar.ConsumerOptions{Topic: topic})
				schema := pulsar.NewAvroSchema(`{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`, nil)
				produce(t, client, pulsar.ProducerOptions{Topic: topic, Schema: schema}, &pulsar.ProducerMessage{Value: map[string]any{"a": 7}})
				var v map[string]any
				if err := receive(t, c).GetSchemaValue(&v); err != nil || v["a"] != 7 {
					t.Fatal(v, err)
				}
			}
		})
	}
}
