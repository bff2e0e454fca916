package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	leaktest.Main(m)
}

// bench is the pipeline on the in-process broker and the in-memory store.
type bench struct {
	broker *pulsartest.Broker
	client *pulsarx.Client
	store  *memory.Store
	config config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	c, err := configure([]string{"-pulsar", broker.URL(), "-pulsar-admin", broker.AdminURL()})
	if err != nil {
		t.Fatal(err)
	}
	client, err := pulsarx.NewClient(c.client())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.WithoutCancel(t.Context())) })
	return &bench{broker: broker, client: client, store: memory.New(), config: c}
}

// index runs the pipeline until everything is acknowledged.
func (b *bench) index(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- index(ctx, b.config, embedtest.New(16), b.store, vectorstore.SinkOptions{}) }()
	deadline := time.Now().Add(time.Minute)
	for b.broker.Backlog(b.config.topic, b.config.subscription) > 0 {
		if time.Now().After(deadline) {
			t.Error("not everything is acknowledged")
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the pipeline ended with %v", err)
	}
}

// subscribe makes the subscription, so that Backlog counts from the first message on.
func (b *bench) subscribe(t *testing.T) {
	t.Helper()
	c, err := pulsarx.NewConsumer(t.Context(), b.client, pulsarx.Bytes(), pulsarx.ConsumerOptions{
		Topics: []string{b.config.topic}, Subscription: b.config.subscription, Type: pulsarx.KeyShared,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) product(t *testing.T, id int64) *vectorstore.Object {
	t.Helper()
	uuid, err := vectorstore.UUID5(cdc.Key{{Name: "product_id", Value: id}})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := b.store.Get(t.Context(), []vectorstore.Ref{{ID: uuid}})
	if err != nil {
		t.Fatal(err)
	}
	return objects[0]
}

func text(s string) *string { return &s }

// TestAvro: changes as ProductChangeEvent, without a log position, have the effects of Debezium's.
func TestAvro(t *testing.T) {
	const long = `{"name": "last_updated_at", "type": "long", "doc": "microseconds since 1970-01-01 UTC"}`
	if !strings.Contains(changeSchema, long) {
		t.Fatal("last_updated_at is written otherwise")
	}
	for name, field := range map[string]string{
		"long":             long,
		"timestamp-micros": `{"name": "last_updated_at", "type": {"type": "long", "logicalType": "timestamp-micros"}}`,
	} {
		t.Run(name, func(t *testing.T) { testAvro(t, strings.Replace(changeSchema, long, field, 1)) })
	}
}

// testAvro has a producer write with a schema of its own.
func testAvro(t *testing.T, schema string) {
	t.Helper()
	b := newBench(t)
	b.subscribe(t)
	producer, err := pulsarx.NewProducer(t.Context(), b.client, pulsarx.AvroSchema[ProductChangeEvent](schema),
		pulsarx.ProducerOptions[ProductChangeEvent]{Topic: b.config.topic})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(context.WithoutCancel(t.Context()))
	source := ChangeSource{CommitMillis: 1_700_000_000_000, Database: "shop", Schema: "public", Table: "products"}
	mug, cup := &AvroProduct{ID: 7, Description: text("red ceramic mug")}, &AvroProduct{ID: 7, Description: text("blue tin cup")}
	bare := &AvroProduct{ID: 8, ImagePath: text("8.png"), LastUpdatedAt: 1_700_000_000_000_000}
	gone := &AvroProduct{ID: 9, Description: text("soon gone")}
	for _, m := range []struct {
		key string
		ProductChangeEvent
	}{
		{"7", ProductChangeEvent{After: mug, Source: source, Op: "c"}},
		{"8", ProductChangeEvent{After: &AvroProduct{ID: 8, Description: text("with a text")}, Source: source, Op: "r"}},
		{"9", ProductChangeEvent{After: gone, Source: source, Op: "c"}},
		{"7", ProductChangeEvent{Before: mug, After: cup, Source: source, Op: "u"}},
		{"8", ProductChangeEvent{After: bare, Source: source, Op: "u"}},
		{"9", ProductChangeEvent{Before: gone, Source: source, Op: "d"}},
		{"7", ProductChangeEvent{Before: mug, Source: source, Op: "u"}}, // no row after
		{"9", ProductChangeEvent{After: gone, Source: source, Op: "d"}}, // no row before
		{"7", ProductChangeEvent{After: mug, Source: source, Op: "x"}},
	} {
		if _, err := producer.Send(t.Context(), m.ProductChangeEvent, pulsarx.Key(m.key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"9", "no number"} {
		if _, err := producer.SendTombstone(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	b.index(t)

	if o := b.product(t, 7); o == nil || o.Deleted || o.Properties["description"] != "blue tin cup" || o.Vectors["text_vector"] == nil {
		t.Errorf("product 7 is %+v", o)
	}
	if o := b.product(t, 8); o == nil || o.Deleted || o.Properties["description"] != nil || o.Vectors["text_vector"] != nil {
		t.Errorf("product 8 is %+v", o)
	}
	if o := b.product(t, 9); o == nil || !o.Deleted {
		t.Errorf("product 9 is %+v", o)
	}
	b.wantDeadLetters(t,
		`op "u" with an empty after`, `op "d" with an empty before`, `unknown operation "x"`, "the key of a tombstone is not a product_id")
}

// wantDeadLetters checks that each reason is that of one dead letter, and that there are no others.
func (b *bench) wantDeadLetters(t *testing.T, reasons ...string) {
	t.Helper()
	letters := b.broker.Messages(b.config.deadLetters)
	if len(letters) != len(reasons) {
		t.Errorf("%d dead letters, want %d", len(letters), len(reasons))
	}
	for _, reason := range reasons {
		if !slices.ContainsFunc(letters, func(m pulsartest.Message) bool {
			for _, value := range m.Properties {
				if strings.Contains(value, reason) {
					return true
				}
			}
			return false
		}) {
			t.Errorf("no dead letter says %q", reason)
		}
	}
}

// TestDebezium: Debezium's JSON, with what nobody can read between it.
func TestDebezium(t *testing.T) {
	b := newBench(t)
	b.subscribe(t)
	producer, err := pulsarx.NewProducer(t.Context(), b.client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: b.config.topic})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(context.WithoutCancel(t.Context()))
	const source = `"source":{"schema":"public","table":"products","lsn":%LSN,"ts_ms":1700000000000}`
	for _, m := range []struct{ key, lsn, value string }{
		{`{"product_id":7}`, "10", `{"op":"c","before":null,"after":{"product_id":7,"description":"red ceramic mug"},` + source + `}`},
		{`{"product_id":7}`, "", `{"op":"u","before":`},
		{`{"product_id":7}`, "", `[1,2,3]`},
		{`{"product_id":7}`, "15", `{"op":"u","before":null,"after":null,` + source + `}`},
		{`{"product_id":7}`, "20", `{"op":"u","before":null,"after":{"product_id":7,"description":"   "},` + source + `}`},
		{`{"product_id":8}`, "30", `{"op":"c","before":null,"after":{"product_id":8,"description":9007199254740993},` + source + `}`},
	} {
		if _, err := producer.Send(t.Context(), strings.ReplaceAll(m.value, "%LSN", m.lsn), pulsarx.Key(m.key)); err != nil {
			t.Fatal(err)
		}
	}
	b.index(t)
	if o := b.product(t, 7); o == nil || o.Deleted || o.Properties["description"] != "   " || o.Vectors["text_vector"] != nil {
		t.Errorf("product 7 is %+v", o)
	}
	if o := b.product(t, 8); o != nil {
		t.Errorf("product 8 is %+v", o)
	}
	if letters := b.broker.Messages(b.config.deadLetters); len(letters) != 4 {
		t.Errorf("%d dead letters, want 4: %v", len(letters), letters)
	}
}

func TestConfigure(t *testing.T) {
	t.Setenv("WEAVIATE_URL", "https://weaviate.example")
	t.Setenv("WEAVIATE_API_KEY", "secret")
	t.Setenv("PULSAR_URL", "pulsar+ssl://pulsar.example:6651")
	t.Setenv("PULSAR_JWT_TOKEN", "token")
	c, err := configure([]string{"-topic", "other"})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.store(); got.HTTP != "https://weaviate.example" || got.APIKey != "secret" || got.Collection != "Product" {
		t.Errorf("store is %+v", got)
	}
	if got := c.client(); got.URL != "pulsar+ssl://pulsar.example:6651" || got.Token != "token" {
		t.Errorf("client is %+v", got)
	}
	if c.topic != "other" || c.deadLetters != "vectorization_dlq" {
		t.Errorf("topics are %q and %q", c.topic, c.deadLetters)
	}
}

// TestDefaults: without flags and variables, the names are those of the reference system.
func TestDefaults(t *testing.T) {
	for _, name := range []string{"PULSAR_URL", "PULSAR_ADMIN_URL", "PULSAR_JWT_TOKEN", "WEAVIATE_URL", "WEAVIATE_GRPC", "WEAVIATE_API_KEY"} {
		t.Setenv(name, "")
	}
	c, err := configure(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		pulsarURL: "pulsar://localhost:6650", topic: "pg.products.changes", subscription: "productsync", deadLetters: "vectorization_dlq",
		weaviateURL: "http://localhost:8080", collection: "Product",
	}
	if c != want {
		t.Errorf("config is %+v, want %+v", c, want)
	}
	store := weaviate.Options{
		HTTP: "http://localhost:8080", Collection: "Product",
		Properties:     []weaviate.Property{{Name: "product_id", DataType: "int"}, {Name: "description", DataType: "text"}},
		Vectors:        []weaviate.Vector{{Name: "text_vector"}, {Name: "image_vector"}},
		ConnectTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
	}
	if got := c.store(); !reflect.DeepEqual(got, store) {
		t.Errorf("store is %+v, want %+v", got, store)
	}
	if got := c.consumer(); got.Type != pulsarx.KeyShared || got.Subscription != "productsync" || got.DeadLetter.Topic != "vectorization_dlq" ||
		got.DeadLetter.MaxAttempts != 100 || !slices.Equal(got.Topics, []string{"pg.products.changes"}) {
		t.Errorf("consumer is %+v", got)
	}
	if id, err := vectorstore.UUID5(productKey(7)); err != nil || id != "f14461fd-128c-5c6c-aede-8e5e06ef19ff" {
		t.Errorf("product 7 is %s, %v", id, err)
	}
}

// TestDebeziumProperties: Debezium, as README.md has a newcomer run it, sends to where the program reads, in its order.
func TestDebeziumProperties(t *testing.T) {
	file, err := os.ReadFile("debezium.properties")
	if err != nil {
		t.Fatal(err)
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(file)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && name[0] != '#' {
			properties[strings.TrimPrefix(name, "debezium.")] = value
		}
	}
	c, err := configure(nil)
	if err != nil {
		t.Fatal(err)
	}
	topic := regexp.MustCompile("^(?:"+properties["transforms.topic.regex"]+")$").
		ReplaceAllString(properties["source.topic.prefix"]+"."+properties["source.table.include.list"], properties["transforms.topic.replacement"])
	if topic != c.topic {
		t.Errorf("changes go to %s, the program reads %s", topic, c.topic)
	}
	for name, want := range map[string]string{
		"sink.pulsar.producer.batcherBuilder": "KEY_BASED", "sink.pulsar.producer.hashingScheme": "Murmur3_32Hash",
		"source.poll.interval.ms": "5", "source.publication.name": "products_pub",
	} {
		if properties[name] != want {
			t.Errorf("%s is %q, want %q", name, properties[name], want)
		}
	}
}

// TestReporting: what goes wrong is logged, by its error's text alone, and returned as it is.
func TestReporting(t *testing.T) {
	var lines strings.Builder
	usual, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil))) // which leads package log there too
	t.Cleanup(func() {
		slog.SetDefault(usual)
		log.SetOutput(out)
		log.SetFlags(flags)
	})
	decode, err := decoder()
	if err != nil {
		t.Fatal(err)
	}
	raw := pulsarx.Raw{Topic: "persistent://public/default/t", Offset: "00aa", Value: []byte(`{"op":"c","after":{"description":"confidential`)}
	if _, err := reportingDecode(decode)(raw); err == nil {
		t.Error("half a message is read")
	}
	unavailable := errors.New("unavailable")
	for _, want := range []error{nil, unavailable} {
		handle := reporting(func(context.Context, []cdc.Event[Product]) error { return want })
		if err := handle(t.Context(), make([]cdc.Event[Product], 3)); !errors.Is(err, want) {
			t.Errorf("returns %v, want %v", err, want)
		}
	}
	got := lines.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, "offset=00aa") || !strings.Contains(got, "batch=3 error=unavailable") ||
		strings.Contains(got, "confidential") {
		t.Errorf("logs %s", got)
	}
}

// TestSearch: the nearest products, and a word where there are none.
func TestSearch(t *testing.T) {
	store, model := memory.New(), embedtest.New(16)
	show := func() string {
		var out strings.Builder
		if err := search(t.Context(), &out, model, store, config{collection: "Product", search: "red mug"}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(); got != "no product with a description is in collection Product\n" {
		t.Errorf("nothing is shown as %q", got)
	}
	vectors, err := model.Embed(t.Context(), []string{"red mug"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := vectorstore.UUID5(productKey(7))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Apply(t.Context(), []vectorstore.Mutation{{Action: vectorstore.Upsert, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: id}, Vectors: map[string][]float32{"text_vector": vectors[0]},
		Properties: map[string]any{"product_id": int64(7), "description": "red mug"},
	}}}); err != nil {
		t.Fatal(err)
	}
	if want := "DISTANCE  PRODUCT_ID  DESCRIPTION\n0.000     7           red mug\n"; show() != want {
		t.Errorf("shows\n%s, want\n%s", show(), want)
	}
}

// TestUnreachable: a server that is not there is an error that names it, and soon.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const nobody = "pulsar://127.0.0.1:1"
	c, err := configure([]string{"-pulsar", nobody})
	if err != nil {
		t.Fatal(err)
	}
	err = index(ctx, c, embedtest.New(4), memory.New(), vectorstore.SinkOptions{})
	if err == nil || !strings.Contains(err.Error(), nobody) || ctx.Err() != nil {
		t.Errorf("Pulsar's error is %v", err)
	}
}
