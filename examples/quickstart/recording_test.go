package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

var record = flag.Bool("record", false, "write recording/products.jsonl from what the real Debezium sends now")

// quiet is how long nothing has come when the recording is taken for whole, once as much has come as there was before.
const quiet = 3 * time.Second

// TestRecording has the real Debezium send the changes again: but for positions and times, and the order of different keys, they are
// what the quickstart plays.
func TestRecording(t *testing.T) {
	stored, err := readRecording()
	if err != nil {
		t.Fatal(err)
	}
	if *record {
		stored = recordProducts(t, 1)
		writeRecording(t, stored)
	}
	fresh := recordProducts(t, len(stored))
	if f, s := byKey(t, fresh), byKey(t, stored); !reflect.DeepEqual(f, s) {
		t.Errorf("Debezium sends\n%v\nthe recording has\n%v", f, s)
	}
}

// byKey returns what the messages of each key say, in order.
func byKey(t *testing.T, all []message) map[string][]map[string]any {
	t.Helper()
	keys := map[string][]map[string]any{}
	for _, m := range all {
		keys[m.Key] = append(keys[m.Key], content(t, m))
	}
	return keys
}

// recordProducts makes the table, takes its snapshot, changes it, and returns all that Debezium sent.
func recordProducts(t *testing.T, least int) []message {
	t.Helper()
	database := servicetest.Postgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	execute(ctx, t, database, "recording/snapshot.sql")
	name := servicetest.Name(t)
	messages := subscribe(t, name)
	servicetest.Debezium{
		Database: database, Tables: []string{"public.products"}, Publication: "products_pub", Prefix: "pg", Topic: name,
		Schemas: true, Snapshot: "initial",
	}.Start(t)
	execute(ctx, t, database, "recording/changes.sql")
	var all []message
	for {
		waiting, stop := ctx, context.CancelFunc(func() {})
		if len(all) >= least {
			waiting, stop = context.WithTimeout(ctx, quiet)
		}
		m, err := messages.Receive(waiting)
		stop()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return all
		} else if err != nil {
			t.Fatalf("after %d messages: %v", len(all), err)
		}
		all = append(all, message{Key: m.Key(), Value: m.Payload()})
	}
}

// execute runs the statements of a file one by one, each a transaction, at a pace at which Debezium sends them one by one.
func execute(ctx context.Context, t *testing.T, database, file string) {
	t.Helper()
	sql, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range bytes.SplitAfter(sql, []byte(";\n")) {
		if _, err := conn.Exec(ctx, string(statement)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func subscribe(t *testing.T, topic string) pulsar.Consumer {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: servicetest.Env(t, "PULSAR_URL")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "record", SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consumer.Close)
	return consumer
}

func writeRecording(t *testing.T, all []message) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, m := range all {
		if err := encoder.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("recording/products.jsonl", out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// content is what a message says apart from positions and times.
func content(t *testing.T, m message) map[string]any {
	t.Helper()
	c := map[string]any{"tombstone": len(m.Value) == 0}
	if len(m.Value) == 0 {
		return c
	}
	var envelope struct {
		Payload struct {
			Op            string
			Before, After map[string]any
		}
	}
	if err := json.Unmarshal(m.Value, &envelope); err != nil {
		t.Fatal(err)
	}
	c["op"], c["before"], c["after"] = envelope.Payload.Op, envelope.Payload.Before, envelope.Payload.After
	return c
}
