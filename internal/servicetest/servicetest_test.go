package servicetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

const productsTable = `
	CREATE TABLE products (product_id bigint PRIMARY KEY, description text);
	ALTER TABLE products REPLICA IDENTITY FULL;`

func TestName(t *testing.T) {
	t.Parallel()
	t.Run("Groß and, then, a much longer one that must be cut somewhere", func(t *testing.T) {
		first, second := servicetest.Name(t), servicetest.Name(t)
		if first == second {
			t.Errorf("the same name twice: %s", first)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]{10,47}$`).MatchString(first) {
			t.Errorf("Name = %q", first)
		}
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := servicetest.Env(t, "POSTGRES_URL")
	var name string
	t.Run("makes a database", func(t *testing.T) {
		conn := connect(t, servicetest.Postgres(t))
		if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		// A slot and an open connection, both of which keep a server from dropping a database.
		execute(t, conn, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
	})
	var left bool
	err := connect(t, server).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&left)
	if err != nil || left || name == "" {
		t.Errorf("after the test the database %q is left: %t, %v", name, left, err)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	address, kill := servicetest.Redis(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer := make([]byte, 7)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "+PONG\r\n" {
		t.Errorf("answer %q, error %v", answer, err)
	}
	kill()
	kill()
	if n, err := conn.Read(answer); err == nil {
		t.Errorf("it lives, and says %q", answer[:n])
	}
}

// The topic, publication and table are those of examples/productsync, but for the name that keeps runs apart.
func TestDebeziumOneTopic(t *testing.T) {
	t.Parallel()
	database := servicetest.Postgres(t)
	conn := connect(t, database)
	execute(t, conn, productsTable+"CREATE PUBLICATION products_pub FOR TABLE products;")
	server := servicetest.Debezium{
		Database: database, Tables: []string{"public.products"}, Publication: "products_pub",
		Topic: "pg.products.changes." + servicetest.Name(t),
	}.Start(t)
	messages := read(t, server.Topic("public.products"))

	// One transaction with the keys by turns: batches that mixed keys would show here.
	const keys, rounds = 5, 8
	execute(t, conn, `
		INSERT INTO products SELECT key, 'mug' FROM generate_series(1, 5) key;
		DO $$ BEGIN
			FOR round IN 2..8 LOOP
				FOR key IN 1..5 LOOP
					UPDATE products SET description = 'mug ' || round WHERE product_id = key;
				END LOOP;
			END LOOP;
		END $$;`)
	round, entries := map[string]int{}, map[string]string{}
	for range keys * rounds {
		message := messages.next()
		key := message.Key()
		entry := fmt.Sprint(message.ID().LedgerID(), ":", message.ID().EntryID())
		if other, ok := entries[entry]; ok && other != key {
			t.Errorf("entry %s holds the keys %s and %s", entry, other, key)
		}
		entries[entry] = key
		round[key]++
		want := "mug"
		if round[key] > 1 {
			want = fmt.Sprint("mug ", round[key])
		}
		if got := change(t, message.Payload()); got.After.Description != want {
			t.Errorf("change %d of key %s has description %q", round[key], key, got.After.Description)
		}
	}
	for i := range keys {
		if key := fmt.Sprintf(`{"product_id":%d}`, i+1); round[key] != rounds {
			t.Errorf("key %s came %d times, of %d", key, round[key], rounds)
		}
	}
}

func TestDebeziumSchemas(t *testing.T) {
	t.Parallel()
	database := servicetest.Postgres(t)
	conn := connect(t, database)
	execute(t, conn, productsTable+"INSERT INTO products VALUES (1, 'there before')")
	server := servicetest.Debezium{
		Database: database, Tables: []string{"public.products"}, Schemas: true, Snapshot: "initial",
		Properties: map[string]string{"debezium.source.tombstones.on.delete": "false"},
	}.Start(t)
	topic := server.Topic("public.products")
	if want := "persistent://public/default/" + server.Options().Prefix + ".public.products"; topic != want {
		t.Errorf("Topic = %s, want %s", topic, want)
	}
	messages := read(t, topic)
	if got := enveloped(t, messages.next().Payload()); got.Op != "r" || got.After.Description != "there before" {
		t.Errorf("the snapshot sent %+v", got)
	}
	execute(t, conn, "INSERT INTO products VALUES (2, 'new')")
	message := messages.next()
	if got := enveloped(t, message.Payload()); got.Op != "c" || got.After.Description != "new" {
		t.Errorf("the insert sent %+v", got)
	}
	if key := message.Key(); !strings.Contains(key, `"schema":`) || !strings.Contains(key, `"payload":{"product_id":2}`) {
		t.Errorf("key %s", key)
	}

	// What happens while no server runs comes after the next start, from where the last one ended.
	server.Stop()
	execute(t, conn, "DELETE FROM products WHERE product_id = 1")
	server.Options().Start(t)
	if got := enveloped(t, messages.next().Payload()); got.Op != "d" {
		t.Errorf("the delete sent %+v", got)
	}
}

type productChange struct {
	Op    string
	After struct{ Description string }
}

func change(t *testing.T, value []byte) (c productChange) {
	t.Helper()
	if err := json.Unmarshal(value, &c); err != nil {
		t.Fatalf("%v in %s", err, value)
	}
	return c
}

// enveloped decodes a value that has its schema beside it.
func enveloped(t *testing.T, value []byte) productChange {
	t.Helper()
	var parts struct{ Schema, Payload json.RawMessage }
	if err := json.Unmarshal(value, &parts); err != nil || parts.Schema == nil {
		t.Fatalf("no schema in %s, or %v", value, err)
	}
	return change(t, parts.Payload)
}

type topicReader struct {
	t      *testing.T
	reader pulsar.Reader
}

// read reads a topic from its beginning, with nothing but Pulsar's own client.
func read(t *testing.T, topic string) topicReader {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: servicetest.Env(t, "PULSAR_URL"), Logger: log.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	reader, err := client.CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return topicReader{t, reader}
}

func (r topicReader) next() pulsar.Message {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	message, err := r.reader.Next(ctx)
	if err != nil {
		r.t.Fatalf("next message: %v", err)
	}
	return message
}

func connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string, arguments ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, arguments...); err != nil {
		t.Fatal(err)
	}
}
