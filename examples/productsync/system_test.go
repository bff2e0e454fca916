package main

import (
	"context"
	_ "embed" // for products.sql
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/onnx"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// asProgram makes the test binary run the program, so that tests can start it and kill it.
const asProgram = "PRODUCTSYNC_AS_PROGRAM"

const (
	statements = 500
	patience   = 2 * time.Minute // for the store to become equal to the table
)

// createTable is what README.md has a newcomer run.
//
//go:embed products.sql
var createTable string

// system is the reference system with names of its own: the table, its changes, and the collection that follows it.
type system struct {
	config
	database string
	model    *onnx.Text
	http     string // Weaviate's REST address
}

func newSystem(tb testing.TB) *system {
	tb.Helper()
	s := &system{http: servicetest.Env(tb, "WEAVIATE_HTTP"), database: servicetest.Postgres(tb)}
	name := servicetest.Name(tb)
	arguments := []string{
		"-weaviate", "http://" + s.http, "-weaviate-grpc", servicetest.Env(tb, "WEAVIATE_GRPC"),
		"-pulsar", servicetest.Env(tb, "PULSAR_URL"), "-topic", name, "-dead-letters", name + "_dlq", "-collection", name,
	}
	var err error
	if s.config, err = configure(arguments); err != nil {
		tb.Fatal(err)
	}
	if s.model, err = onnx.NewText(tb.Context(), onnx.TextOptions{Progress: os.Stderr}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.model.Close() })
	s.execute(tb, createTable)
	servicetest.Debezium{
		Database: s.database, Tables: []string{"public.products"}, Publication: "products_pub", Topic: name,
	}.Start(tb)
	return s
}

func (s *system) execute(tb testing.TB, sql string, arguments ...any) {
	tb.Helper()
	conn := s.connect(tb)
	defer conn.Close(context.WithoutCancel(tb.Context()))
	if _, err := conn.Exec(tb.Context(), sql, arguments...); err != nil {
		tb.Fatal(err)
	}
}

func (s *system) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.database)
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// openStore connects to the collection, and drops it after the test. It waits longer than the program does, so that a busy machine makes no
// request fail, which would be tried again with its texts.
func (s *system) openStore(tb testing.TB) *weaviate.Store {
	tb.Helper()
	o := s.store()
	o.ConnectTimeout, o.ReadTimeout = time.Minute, time.Minute
	store, err := weaviate.New(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
		for _, class := range s.classes(tb) {
			s.rest(tb, http.MethodDelete, "/v1/schema/"+class)
		}
	})
	return store
}

// classes are the collections of this system: the objects' and the remembered deletions'.
func (s *system) classes(tb testing.TB) []string {
	tb.Helper()
	var schema struct{ Classes []struct{ Class string } }
	if err := json.Unmarshal(s.rest(tb, http.MethodGet, "/v1/schema"), &schema); err != nil {
		tb.Error(err)
	}
	var names []string
	for _, c := range schema.Classes {
		if strings.HasPrefix(strings.ToLower(c.Class), s.collection) {
			names = append(names, c.Class)
		}
	}
	return names
}

func (s *system) rest(tb testing.TB, method, path string) []byte {
	tb.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(tb.Context()), method, "http://"+s.http+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	request.Close = true // leaves no connection behind
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		tb.Fatalf("%s %s: %s: %v", method, path, answer.Status, err)
	}
	return body
}

// run starts the pipeline in this process and stops it after the test.
func (s *system) run(tb testing.TB, model embed.Embedder[string], store vectorstore.Store, o vectorstore.SinkOptions) {
	tb.Helper()
	ctx, stop := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- index(ctx, s.config, model, store, o) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Errorf("the pipeline ended with %v", err)
		}
	})
}

// start starts the program.
func (s *system) start(t *testing.T) *exec.Cmd {
	t.Helper()
	program := exec.Command(os.Args[0],
		"-weaviate", s.weaviateURL, "-weaviate-grpc", s.weaviateGRPC, "-pulsar", s.pulsarURL,
		"-topic", s.topic, "-dead-letters", s.deadLetters, "-collection", s.collection)
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() }) // fails where it has ended
	return program
}

// changer makes random changes by SQL. Every description that it writes is a new one, so that a text names its writing.
type changer struct {
	random *rand.Rand
	conn   *pgx.Conn
	rows   map[int64]string // descriptions; "" where there is none
	// mayEmbed counts by text how often it may be embedded: when written, and when its row gets a new key.
	mayEmbed map[string]int
	id       int64
}

func newChanger(conn *pgx.Conn, seed uint64) *changer {
	return &changer{random: rand.New(rand.NewPCG(seed, 1)), conn: conn, rows: map[int64]string{}, mayEmbed: map[string]int{}}
}

func (c *changer) step(ctx context.Context) error {
	id, some := c.pick()
	switch dice := c.random.IntN(100); {
	case !some || dice < 30:
		return c.insert(ctx)
	case dice < 50:
		return c.describe(ctx, id)
	case dice < 55:
		return c.undescribe(ctx, id)
	case dice < 75:
		_, err := c.conn.Exec(ctx, "UPDATE products SET image_path = $2, last_updated_at = now() WHERE product_id = $1", id, fmt.Sprint(dice))
		return err
	case dice < 85:
		return c.rekey(ctx, id)
	default:
		delete(c.rows, id)
		_, err := c.conn.Exec(ctx, "DELETE FROM products WHERE product_id = $1", id)
		return err
	}
}

func (c *changer) pick() (int64, bool) {
	if len(c.rows) == 0 {
		return 0, false
	}
	n := c.random.IntN(len(c.rows))
	for id := range maps.Keys(c.rows) {
		if n--; n < 0 {
			return id, true
		}
	}
	return 0, false
}

func (c *changer) text() string {
	words := []string{"steel", "mug", "tent", "lamp", "for hiking", "for children", "blue", "wool", "grinder", "chair", "with a lid", "日本", "é"}
	c.id++
	text := fmt.Sprintf("item %d:", c.id)
	for range 2 + c.random.IntN(8) {
		text += " " + words[c.random.IntN(len(words))]
	}
	c.mayEmbed[text]++
	return text
}

func (c *changer) insert(ctx context.Context) error {
	text := c.text()
	id := c.id
	c.rows[id] = text
	_, err := c.conn.Exec(ctx, "INSERT INTO products (product_id, description) VALUES ($1, $2)", id, text)
	return err
}

func (c *changer) describe(ctx context.Context, id int64) error {
	c.rows[id] = c.text()
	_, err := c.conn.Exec(ctx, "UPDATE products SET description = $2 WHERE product_id = $1", id, c.rows[id])
	return err
}

// undescribe takes the description away, or leaves an empty one.
func (c *changer) undescribe(ctx context.Context, id int64) error {
	c.rows[id] = ""
	none := []any{nil, "", "  "}[c.random.IntN(3)]
	_, err := c.conn.Exec(ctx, "UPDATE products SET description = $2 WHERE product_id = $1", id, none)
	return err
}

func (c *changer) rekey(ctx context.Context, id int64) error {
	c.id++
	text := c.rows[id]
	delete(c.rows, id)
	c.rows[c.id] = text
	c.mayEmbed[text]++
	_, err := c.conn.Exec(ctx, "UPDATE products SET product_id = $2 WHERE product_id = $1", id, c.id)
	return err
}

// object is an object as Weaviate's REST interface shows it.
type object struct {
	ID         string
	Properties struct {
		ProductID   int64   `json:"product_id"`
		Description *string `json:"description"`
	}
	Vectors map[string][]float32
}

// objects returns all objects of the collection by id.
func (s *system) objects(tb testing.TB) map[string]object {
	tb.Helper()
	class := strings.ToUpper(s.collection[:1]) + s.collection[1:]
	var list struct{ Objects []object }
	if err := json.Unmarshal(s.rest(tb, http.MethodGet, "/v1/objects?limit=10000&include=vector&class="+class), &list); err != nil {
		tb.Fatal(err)
	}
	all := map[string]object{}
	for _, o := range list.Objects {
		all[o.ID] = o
	}
	return all
}

// difference says how the collection differs from the table, "" if it does not: ids, properties, and vectors against a new embedding.
func (s *system) difference(tb testing.TB, conn *pgx.Conn) string {
	tb.Helper()
	rows, err := conn.Query(tb.Context(), "SELECT product_id, description FROM products")
	if err != nil {
		tb.Fatal(err)
	}
	type row struct {
		ID          int64
		Description *string
	}
	table, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		tb.Fatal(err)
	}
	objects := s.objects(tb)
	if len(objects) != len(table) {
		return fmt.Sprintf("%d objects, %d rows", len(objects), len(table))
	}
	for _, r := range table {
		id, err := vectorstore.UUID5(cdc.Key{{Name: "product_id", Value: r.ID}})
		if err != nil {
			tb.Fatal(err)
		}
		o, ok := objects[string(id)]
		switch {
		case !ok:
			return fmt.Sprintf("no object for row %d", r.ID)
		case o.Properties.ProductID != r.ID, !equal(o.Properties.Description, r.Description):
			return fmt.Sprintf("row %d is %v, its object %v", r.ID, r, o.Properties)
		case o.Vectors["image_vector"] != nil:
			return fmt.Sprintf("row %d has an image_vector", r.ID)
		}
		if problem := s.vectorDifference(tb, r.Description, o.Vectors["text_vector"]); problem != "" {
			return fmt.Sprintf("row %d: %s", r.ID, problem)
		}
	}
	return ""
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func (s *system) vectorDifference(tb testing.TB, text *string, vector []float32) string {
	tb.Helper()
	if text == nil || strings.TrimSpace(*text) == "" {
		if vector != nil {
			return "a text_vector without a description"
		}
		return ""
	}
	want, err := s.model.Embed(tb.Context(), []string{*text})
	if err != nil {
		tb.Fatal(err)
	}
	if len(vector) != len(want[0]) {
		return fmt.Sprintf("a text_vector of %d dimensions", len(vector))
	}
	for i := range vector {
		if math.Abs(float64(vector[i]-want[0][i])) > 1e-5 {
			return fmt.Sprintf("component %d of text_vector is %v, embedding anew gives %v", i, vector[i], want[0][i])
		}
	}
	return ""
}

// awaitEqual waits until the collection is equal to the table.
func (s *system) awaitEqual(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		problem := s.difference(tb, conn)
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the collection is not equal to the table: %s", problem)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// deadLettersNow returns the values of the dead letters.
func (s *system) deadLettersNow(tb testing.TB) [][]byte {
	tb.Helper()
	client, err := pulsarx.NewClient(s.client())
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(tb.Context()))
	var all [][]byte
	err = pulsarx.Replay(tb.Context(), client, pulsarx.Bytes(), pulsarx.ReplayOptions{Topics: []string{s.deadLetters}},
		pulsarx.Values(func(_ context.Context, values [][]byte) error {
			all = append(all, values...)
			return nil
		}))
	if err != nil && !errors.Is(err, pulsarx.ErrNoTopic) { // which comes with the first dead letter
		tb.Fatal(err)
	}
	return all
}

// counting counts how often each text is embedded.
type counting struct {
	embed.Embedder[string]
	mu    sync.Mutex
	times map[string]int
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	for _, text := range texts {
		c.times[text]++
	}
	c.mu.Unlock()
	return c.Embedder.Embed(ctx, texts)
}

// TestRealSystem: random changes by SQL end with the collection equal to the table, and no text is embedded without need.
func TestRealSystem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	store := s.openStore(t)
	model := &counting{Embedder: s.model, times: map[string]int{}}
	s.run(t, model, store, vectorstore.SinkOptions{})

	conn := s.connect(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	c := newChanger(conn, 1)
	for i := range statements {
		if err := c.step(t.Context()); err != nil {
			t.Fatalf("statement %d: %v", i, err)
		}
		if i > statements/2 { // first a burst, whose changes come together in batches, then one by one
			time.Sleep(10 * time.Millisecond)
		}
	}
	s.awaitEqual(t, conn)

	model.mu.Lock()
	defer model.mu.Unlock()
	total, written := 0, 0
	for text, n := range model.times {
		total += n
		if n > c.mayEmbed[text] {
			t.Errorf("embedded %d times, but written %d times: %s", n, c.mayEmbed[text], text)
		}
	}
	for _, n := range c.mayEmbed {
		written += n
	}
	if dead := s.deadLettersNow(t); len(dead) > 0 {
		t.Errorf("%d dead letters; the first: %.300s", len(dead), dead[0])
	}
	t.Logf("%d statements, %d texts written, %d texts embedded, %d rows left", statements, written, total, len(c.rows))
}

// TestKilled: the same, while the program is killed and started again, with a message that nobody can read in the middle.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.openStore(t)
	conn := s.connect(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	c := newChanger(conn, 2)
	const poison = `{"op":"c","after":{"product_id":"not a number"}`

	program := s.start(t)
	for i := range statements {
		if err := c.step(t.Context()); err != nil {
			t.Fatalf("statement %d: %v", i, err)
		}
		switch {
		case i%(statements/4) == statements/8 && i < 3*statements/4:
			s.awaitWork(t)
			_ = program.Process.Kill()
			_ = program.Wait() // it was killed, says the error
			program = s.start(t)
		case i == statements/2:
			s.send(t, poison)
		}
		if burst := i % (statements / 4); burst < statements/10 || burst > statements/8 { // it is killed in the middle of a burst
			time.Sleep(20 * time.Millisecond)
		}
	}
	s.awaitEqual(t, conn)
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("asked to stop, the program ended with %v", err)
	}
	// It comes again where the program was killed before it had acknowledged it.
	dead := s.deadLettersNow(t)
	if slices.ContainsFunc(dead, func(value []byte) bool { return string(value) != poison }) || len(dead) == 0 {
		t.Errorf("%d dead letters, want the poison alone: %.300q", len(dead), dead)
	}
}

// awaitWork waits until the program has written something.
func (s *system) awaitWork(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(s.objects(t)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program writes nothing")
		}
	}
}

// send puts a message into the topic of the changes, with the key of a row.
func (s *system) send(t *testing.T, value string) {
	t.Helper()
	client, err := pulsarx.NewClient(s.client())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.WithoutCancel(t.Context()))
	producer, err := pulsarx.NewProducer(t.Context(), client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: s.topic})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(context.WithoutCancel(t.Context()))
	if _, err := producer.Send(t.Context(), value, pulsarx.Key(`{"product_id":1}`)); err != nil {
		t.Fatal(err)
	}
}
