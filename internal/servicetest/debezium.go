package servicetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/jackc/pgx/v5"
)

const (
	debeziumStartTimeout = 2 * time.Minute
	debeziumStopTimeout  = time.Minute
	logTail              = 8 << 10 // bytes of Debezium's log that a failed test shows
)

// Debezium says how a Debezium Server reads a database and where in Pulsar it writes. Two that run at the same time need
// different slots, publications and prefixes; the defaults are different for each Start.
type Debezium struct {
	// Database is the URL of the database to read, as Postgres returns it. Required.
	Database string
	// Tables are read, each written as schema.table. Default: every table.
	Tables []string
	// Publication is used as it is where it exists, and otherwise made, for Tables. Default: a name of its own.
	Publication string
	// Slot is the replication slot, made where it does not exist. Default: a name of its own.
	Slot string
	// Prefix is the first part of the topics <Prefix>.<schema>.<table>, and source.name in every event. Default: a name of its own.
	Prefix string
	// Topic takes the events of all tables in place of those topics, by Debezium's RegexRouter. Default: a topic a table.
	Topic string
	// Namespace of the topics, as tenant/namespace. Default: public/default.
	Namespace string
	// Schemas sends with every key and value the schema of each, as Debezium does unless told otherwise.
	Schemas bool
	// Snapshot is Debezium's snapshot.mode. Default: no_data, which is to send only what changes from now on.
	Snapshot string
	// Dir holds configuration, offsets and log. A second Start with the same Dir, Slot, Publication and Prefix goes on where
	// the first ended. Default: a folder of the test.
	Dir string
	// Properties are set last, under their whole names, as debezium.source.decimal.handling.mode; an empty value takes one away.
	Properties map[string]string
}

// DebeziumServer is a Debezium Server that runs.
type DebeziumServer struct {
	options Debezium
	process *exec.Cmd
	log     string
	exited  chan struct{} // closed when the process has ended
}

// Start starts a Debezium Server of the installation at DEBEZIUM_HOME, with the Java at DEBEZIUM_JAVA_HOME or else JAVA_HOME
// or else on PATH (21 or newer), and returns when it streams: a change committed from then on comes to PULSAR_URL. It polls
// every 5 ms and batches by key, so that Key_Shared subscriptions keep the order of each key. It is stopped after the test;
// if the test failed, the end of its log is shown. Where one of the variables is unset the test is skipped, as Env says.
func (d Debezium) Start(tb testing.TB) *DebeziumServer {
	tb.Helper()
	home, pulsar := Env(tb, "DEBEZIUM_HOME"), Env(tb, "PULSAR_URL")
	d = d.withDefaults(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), debeziumStartTimeout)
	defer cancel()
	if err := d.prepare(ctx, pulsar); err != nil {
		tb.Fatalf("configure Debezium: %v", err)
	}
	server := &DebeziumServer{options: d, log: filepath.Join(d.Dir, "debezium.log"), exited: make(chan struct{})}
	if err := server.launch(home); err != nil {
		tb.Fatalf("start Debezium: %v", err)
	}
	tb.Cleanup(func() {
		server.Stop()
		if tb.Failed() {
			tb.Logf("the end of Debezium's log:\n%s", server.tail())
		}
	})
	if err := server.awaitStreaming(ctx); err != nil {
		tb.Fatalf("start Debezium: %v", err)
	}
	return server
}

// Topic returns the whole name of the topic that the events of a table go to, which is written as schema.table.
func (s *DebeziumServer) Topic(table string) string {
	topic := s.options.Topic
	if topic == "" {
		topic = s.options.Prefix + "." + table
	}
	return "persistent://" + s.options.Namespace + "/" + topic
}

// Options returns the options with the defaults filled in: with them, after Stop, Start goes on where this server ended.
func (s *DebeziumServer) Options() Debezium { return s.options }

// Stop ends the server: it is asked to, so that it notes its offsets, and killed if that takes longer than a minute. It may be
// called again, and after the server has ended by itself.
func (s *DebeziumServer) Stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM) // fails only where it has ended
	select {
	case <-s.exited:
	case <-time.After(debeziumStopTimeout):
		s.Kill()
	}
}

// Kill ends the server at once, as a crash does: what it had not noted as sent, the next one sends again.
func (s *DebeziumServer) Kill() {
	_ = s.process.Process.Kill() // fails only where it has ended
	<-s.exited
}

func (d Debezium) withDefaults(tb testing.TB) Debezium {
	tb.Helper()
	name := Name(tb)
	d.Publication = cmp.Or(d.Publication, name)
	d.Slot = cmp.Or(d.Slot, name)
	d.Prefix = cmp.Or(d.Prefix, name)
	d.Namespace = cmp.Or(d.Namespace, "public/default")
	d.Snapshot = cmp.Or(d.Snapshot, "no_data")
	if d.Dir == "" {
		d.Dir = tb.TempDir()
	}
	return d
}

// prepare makes what Debezium finds when it starts: the publication, and its configuration in Dir.
func (d Debezium) prepare(ctx context.Context, pulsar string) error {
	properties, err := d.properties(pulsar)
	if err != nil {
		return err
	}
	if err := d.publish(ctx); err != nil {
		return fmt.Errorf("publication %s: %w", d.Publication, err)
	}
	var file strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&file, "%s=%s\n", escape(name), escape(properties[name]))
	}
	config := filepath.Join(d.Dir, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return err
	}
	// Only for this user, since the database's password may be in it.
	return os.WriteFile(filepath.Join(config, "application.properties"), []byte(file.String()), 0o600)
}

// publish makes the publication unless there is one.
func (d Debezium) publish(ctx context.Context) error {
	return session(ctx, d.Database, func(conn *pgx.Conn) error {
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)", d.Publication).Scan(&exists)
		if err != nil || exists {
			return err
		}
		tables := "ALL TABLES"
		if len(d.Tables) > 0 {
			names := make([]string, len(d.Tables))
			for i, table := range d.Tables {
				names[i] = pgx.Identifier(strings.SplitN(table, ".", 2)).Sanitize()
			}
			tables = "TABLE " + strings.Join(names, ", ")
		}
		_, err = conn.Exec(ctx, "CREATE PUBLICATION "+pgx.Identifier{d.Publication}.Sanitize()+" FOR "+tables)
		return err
	})
}

func (d Debezium) properties(pulsar string) (map[string]string, error) {
	database, err := pgx.ParseConfig(d.Database)
	if err != nil {
		return nil, err
	}
	tenant, namespace, ok := strings.Cut(d.Namespace, "/")
	if !ok {
		return nil, fmt.Errorf("namespace %q is not written as tenant/namespace", d.Namespace)
	}
	tables := make([]string, len(d.Tables))
	for i, table := range d.Tables {
		tables[i] = regexp.QuoteMeta(table)
	}
	properties := map[string]string{
		"debezium.sink.type":                           "pulsar",
		"debezium.sink.pulsar.client.serviceUrl":       pulsar,
		"debezium.sink.pulsar.tenant":                  tenant,
		"debezium.sink.pulsar.namespace":               namespace,
		"debezium.sink.pulsar.producer.batcherBuilder": "KEY_BASED",      // else a batch mixes keys, and Key_Shared sends it to one consumer
		"debezium.sink.pulsar.producer.hashingScheme":  "Murmur3_32Hash", // as pulsarx chooses partitions
		"debezium.format.schemas.enable":               strconv.FormatBool(d.Schemas),
		"debezium.source.connector.class":              "io.debezium.connector.postgresql.PostgresConnector",
		"debezium.source.plugin.name":                  "pgoutput",
		"debezium.source.database.hostname":            database.Host,
		"debezium.source.database.port":                strconv.Itoa(int(database.Port)),
		"debezium.source.database.user":                database.User,
		"debezium.source.database.password":            database.Password,
		"debezium.source.database.dbname":              database.Database,
		"debezium.source.slot.name":                    d.Slot,
		"debezium.source.publication.name":             d.Publication,
		"debezium.source.publication.autocreate.mode":  "disabled",
		"debezium.source.topic.prefix":                 d.Prefix,
		"debezium.source.table.include.list":           strings.Join(tables, ","),
		"debezium.source.snapshot.mode":                d.Snapshot,
		"debezium.source.poll.interval.ms":             "5",
		"debezium.source.offset.storage.file.filename": filepath.Join(d.Dir, "offsets.dat"),
		"debezium.source.offset.flush.interval.ms":     "0",
		"quarkus.http.host":                            "127.0.0.1",
		"quarkus.http.port":                            "0",
		"quarkus.log.console.json":                     "false",
	}
	if d.Topic != "" {
		properties["debezium.transforms"] = "topic"
		properties["debezium.transforms.topic.type"] = "org.apache.kafka.connect.transforms.RegexRouter"
		properties["debezium.transforms.topic.regex"] = regexp.QuoteMeta(d.Prefix) + `\.[^.]+\.[^.]+` // not heartbeats or transactions
		properties["debezium.transforms.topic.replacement"] = d.Topic
	}
	maps.Copy(properties, d.Properties)
	maps.DeleteFunc(properties, func(_, value string) bool { return value == "" })
	return properties, nil
}

// escape writes a name or value for a Java properties file.
func escape(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		switch {
		case strings.ContainsRune(`\=:#! `, rune(unit)):
			b.WriteByte('\\')
			b.WriteByte(byte(unit))
		case unit < 0x20 || unit > 0x7e:
			fmt.Fprintf(&b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}

func (s *DebeziumServer) launch(home string) error {
	runner, err := filepath.Glob(filepath.Join(home, "*-runner.jar"))
	if err != nil || len(runner) != 1 {
		return fmt.Errorf("DEBEZIUM_HOME=%s holds no installation of Debezium Server", home)
	}
	java := "java"
	if jdk := cmp.Or(os.Getenv("DEBEZIUM_JAVA_HOME"), os.Getenv("JAVA_HOME")); jdk != "" {
		java = filepath.Join(jdk, "bin", "java")
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	//nolint:noctx // Stop and Kill end it, after the test's context
	s.process = exec.Command(java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"--add-opens=java.base/java.lang=ALL-UNNAMED", // its threads ask for that on Java 24 and newer
		"-cp", runner[0]+":"+filepath.Join(home, "lib", "*"), "io.debezium.server.Main")
	s.process.Dir = s.options.Dir
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = withParent()
	if err := errors.Join(s.process.Start(), log.Close()); err != nil {
		return err
	}
	go func() {
		_ = s.process.Wait() // how it ended stands in ProcessState
		close(s.exited)
	}()
	return nil
}

// awaitStreaming returns when the server's walsender sends what is committed, and no longer a snapshot.
func (s *DebeziumServer) awaitStreaming(ctx context.Context) error {
	return session(ctx, s.options.Database, func(conn *pgx.Conn) error {
		for {
			var streaming bool
			err := conn.QueryRow(ctx, `
				SELECT EXISTS (SELECT FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
				WHERE s.slot_name = $1 AND r.state = 'streaming')`, s.options.Slot).Scan(&streaming)
			if err != nil || streaming {
				return err
			}
			select {
			case <-s.exited:
				return fmt.Errorf("it ended by itself: %s", s.process.ProcessState)
			case <-ctx.Done():
				return fmt.Errorf("it does not stream: %w", ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// tail returns the end of the log.
func (s *DebeziumServer) tail() []byte {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-logTail):]
}
