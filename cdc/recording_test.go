package cdc_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/servicetest"
)

var record = flag.Bool("record", false, "write testdata/types anew from what the real Debezium sends and the real Postgres says now")

// folder has the SQL, what Debezium sent for it under every setting, and what Postgres says that the rows are.
const folder = "testdata/types/"

// message is a line of a recording.
type message struct {
	Topic      string            `json:"topic"`
	Key        string            `json:"key"`
	Value      string            `json:"value"` // empty for a tombstone
	Properties map[string]string `json:"properties"`
}

// setting is a way to configure Debezium. What is empty is the default.
type setting struct {
	name    string
	schemas bool
	// The modes decimal.handling.mode, time.precision.mode, binary.handling.mode, interval.handling.mode and hstore.handling.mode.
	decimal, time, binary, interval, hstore string
	placeholder                             string // unavailable.value.placeholder
	unknown                                 bool   // include.unknown.datatypes
	flat                                    bool   // through ExtractNewRecordState
}

// settings have every mode once with schemas and once without.
var settings = []setting{
	{name: "precise", schemas: true},
	{name: "precise-plain"},
	{name: "string", schemas: true, decimal: "string", time: "adaptive_time_microseconds", binary: "base64", interval: "string", hstore: "map"},
	{name: "string-plain", decimal: "string", time: "adaptive_time_microseconds", binary: "base64", interval: "string", hstore: "map"},
	{name: "double", schemas: true, decimal: "double", time: "connect", binary: "base64-url-safe"},
	{name: "double-plain", decimal: "double", time: "connect", binary: "base64-url-safe"},
	{name: "iso", schemas: true, decimal: "string", time: "isostring", binary: "hex", interval: "string", placeholder: "not here"},
	{name: "iso-plain", decimal: "string", time: "isostring", binary: "hex", interval: "string", placeholder: "not here"},
	{name: "micro", schemas: true, time: "microseconds", hstore: "map", placeholder: "hex:c2ab676f6e65c2bb"},
	{name: "micro-plain", time: "microseconds", hstore: "map", placeholder: "hex:c2ab676f6e65c2bb"},
	{name: "nano", schemas: true, decimal: "string", time: "nanoseconds", binary: "hex"},
	{name: "nano-plain", decimal: "string", time: "nanoseconds", binary: "hex"},
	{name: "unknown", schemas: true, unknown: true},
	{name: "flat", schemas: true, flat: true},
	{name: "flat-plain", flat: true},
}

// prefix is the first part of the setting's topics.
func (s setting) prefix() string { return strings.ReplaceAll(s.name, "-", "_") }

func (s setting) properties() map[string]string {
	source := func(name string) string { return "debezium.source." + name }
	properties := map[string]string{
		source("decimal.handling.mode"):                  s.decimal,
		source("time.precision.mode"):                    s.time,
		source("binary.handling.mode"):                   s.binary,
		source("interval.handling.mode"):                 s.interval,
		source("hstore.handling.mode"):                   s.hstore,
		source("unavailable.value.placeholder"):          s.placeholder,
		source("skipped.operations"):                     "none", // truncates too
		source("provide.transaction.metadata"):           "true",
		source("heartbeat.interval.ms"):                  "2000",
		source("include.unknown.datatypes"):              fmt.Sprint(s.unknown),
		"debezium.sink.pulsar.producer.blockIfQueueFull": "true",
	}
	if s.flat {
		properties["debezium.transforms"] = "flat"
		properties["debezium.transforms.flat.type"] = "io.debezium.transforms.ExtractNewRecordState"
		properties["debezium.transforms.flat.delete.tombstone.handling.mode"] = "rewrite-with-tombstone"
		properties["debezium.transforms.flat.add.fields"] = "op,table,lsn,source.ts_ms,source.txId,source.snapshot"
	}
	return properties
}

// run has a real Debezium send the snapshot of the tables that the files make, and then what the story does to them. It returns the
// messages in the order in which they were published, and the tables as Postgres says they are when the snapshot is taken.
func (s setting) run(t *testing.T, story string, schema ...string) ([]message, []table) {
	t.Helper()
	admin := servicetest.Env(t, "PULSAR_ADMIN_URL")
	database := servicetest.Postgres(t)
	conn := connect(t, database)
	for _, sql := range schema {
		execute(t, conn, sql)
	}
	truth := selectTables(t, conn)
	rows, err := conn.Query(t.Context(), `SELECT 'public.' || relname FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname NOT LIKE 'spatial%'`)
	if err != nil {
		t.Fatal(err)
	}
	included, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	namespace := "public/" + servicetest.Name(t)
	request(t, http.MethodPut, admin+"/admin/v2/namespaces/"+namespace)
	server := servicetest.Debezium{
		Database: database, Tables: included, Prefix: s.prefix(), Namespace: namespace, Schemas: s.schemas, Snapshot: "initial",
		Properties: s.properties(),
	}.Start(t)
	execute(t, conn, story)
	client := newClient(t)
	awaitEnd(t, client, server.Topic("message"))
	server.Stop()
	var topics []string
	if err := json.Unmarshal(request(t, http.MethodGet, admin+"/admin/v2/persistent/"+namespace), &topics); err != nil {
		t.Fatal(err)
	}
	return readTopics(t, client, topics), truth
}

// awaitEnd returns when the message with which the stories end has come: Debezium sends all that was before it first.
func awaitEnd(t *testing.T, client pulsar.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	reader := newReader(t, client, topic)
	defer reader.Close()
	for {
		m, err := reader.Next(ctx)
		if err != nil {
			t.Fatalf("the end of the story: %v", err)
		}
		if strings.Contains(m.Key(), `"prefix":"end"`) {
			return
		}
	}
}

func readTopics(t *testing.T, client pulsar.Client, topics []string) []message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	type published struct {
		message
		at time.Time
	}
	var all []published
	for _, topic := range topics {
		reader := newReader(t, client, topic)
		for reader.HasNext() {
			m, err := reader.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			short := topic[strings.LastIndex(topic, "/")+1:]
			all = append(all, published{message{short, m.Key(), string(m.Payload()), m.Properties()}, m.PublishTime()})
		}
		reader.Close()
	}
	slices.SortStableFunc(all, func(a, b published) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.Topic, b.Topic)) })
	messages := make([]message, len(all))
	for i, p := range all {
		messages[i] = p.message
	}
	return messages
}

func newClient(t *testing.T) pulsar.Client {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: servicetest.Env(t, "PULSAR_URL"), Logger: log.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func newReader(t *testing.T, client pulsar.Client, topic string) pulsar.Reader {
	t.Helper()
	reader, err := client.CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

func request(t *testing.T, method, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true // or it might meet a server that closes an idle connection
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s, %v", method, r.URL.Path, answer.Status, err)
	}
	return body
}

// connect opens a session that writes values in one way, whatever the server's settings.
func connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"timezone": "UTC", "datestyle": "ISO", "intervalstyle": "iso_8601", "extra_float_digits": "3", "bytea_output": "hex",
	})
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// execute runs statements one by one, so that each is a transaction of its own outside of BEGIN and COMMIT.
func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	statement := ""
	for _, part := range strings.SplitAfter(sql, ";\n") {
		statement += part
		if strings.Count(statement, "$$")%2 != 0 {
			continue // inside of a DO
		}
		if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
			t.Fatalf("%v in %s", err, statement)
		}
		statement = ""
	}
	if statement != "" {
		t.Fatalf("SQL without its end: %s", statement)
	}
}

// table is a table as SELECT returns it: values are texts, nil for NULL.
type table struct {
	Name    string      `json:"table"`
	Columns []column    `json:"columns"`
	Rows    [][]*string `json:"rows"`
}

type column struct {
	Name string `json:"name"`
	Type string `json:"type"` // as format_type writes it
	Base string `json:"base"` // without domains and modifiers
}

// selectTables returns all tables whose first column is id.
func selectTables(t *testing.T, conn *pgx.Conn) []table {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		WITH RECURSIVE base (oid, typ) AS (
			SELECT oid, oid FROM pg_type WHERE typbasetype = 0
			UNION ALL SELECT p.oid, b.typ FROM pg_type p JOIN base b ON p.typbasetype = b.oid)
		SELECT relname, attname, format_type(atttypid, atttypmod), format_type(base.typ, NULL)
		FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 JOIN base ON base.oid = atttypid
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname NOT LIKE 'spatial%'
			AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'id')
		ORDER BY relname, attnum`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []table
	var name string
	var c column
	if _, err = pgx.ForEachRow(rows, []any{&name, &c.Name, &c.Type, &c.Base}, func() error {
		if len(tables) == 0 || tables[len(tables)-1].Name != name {
			tables = append(tables, table{Name: name})
		}
		last := &tables[len(tables)-1]
		last.Columns = append(last.Columns, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range tables {
		results, err := conn.PgConn().Exec(t.Context(), "SELECT * FROM "+tables[i].Name+" ORDER BY id").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range results[0].Rows {
			texts := make([]*string, len(row))
			for j, value := range row {
				if value != nil {
					text := string(value)
					texts[j] = &text
				}
			}
			tables[i].Rows = append(tables[i].Rows, texts)
		}
	}
	return tables
}

// TestRecord writes the recordings anew.
func TestRecord(t *testing.T) {
	if !*record { // no test: it writes testdata/types, with -args -record
		return
	}
	schema := []string{read(t, "tables.sql"), read(t, "extensions.sql")}
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			messages, truth := s.run(t, read(t, "story.sql"), schema...)
			writeLines(t, s.name+".jsonl.gz", messages)
			writeLines(t, "tables.jsonl.gz", truth)
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeLines[T any](t *testing.T, name string, values []T) {
	t.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewEncoder(zipped)
	lines.SetEscapeHTML(false)
	for _, v := range values {
		if err := lines.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder+name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordings are those that a test has read, so that the next need not: the name and a []message.
var recordings sync.Map

// recording returns the messages of the setting's recording.
func (s setting) recording(t *testing.T) []message {
	t.Helper()
	if known, ok := recordings.Load(s.name); ok {
		return known.([]message)
	}
	messages := readLines[message](t, s.name+".jsonl.gz")
	recordings.Store(s.name, messages)
	return messages
}

func readLines[T any](t *testing.T, name string) []T {
	t.Helper()
	unzipped, err := gzip.NewReader(bufio.NewReader(strings.NewReader(read(t, name))))
	if err != nil {
		t.Fatal(err)
	}
	var values []T
	for lines := json.NewDecoder(unzipped); lines.More(); {
		var v T
		if err := lines.Decode(&v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}
