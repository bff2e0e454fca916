package vectorstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// item is a row of a table whose key has two columns, and whose rows belong to somebody.
type item struct {
	Region string  `cdc:"region,key" json:"region"`
	ID     int64   `cdc:"id,key" json:"id"`
	Owner  string  `cdc:"owner" json:"owner"`
	Title  string  `cdc:"title" json:"title"`
	Long   string  `cdc:"long" json:"long"`
	Price  float64 `cdc:"price" json:"price"`
	Active bool    `cdc:"active" json:"active"`
}

// itemKey is the primary key.
type itemKey struct {
	Region string `json:"region"`
	ID     int64  `json:"id"`
}

func (i item) key() itemKey { return itemKey{i.Region, i.ID} }

// itemTable is a random table with the topic of its changes, and the rules by which its rows are shown.
type itemTable struct {
	*rand.Rand
	*testing.T
	decoder *cdc.Decoder[item]
	rows    map[itemKey]item
	topic   [][]cdc.Event[item] // changes, whose events are not parted
	lsn     uint64
	offset  int

	tenants string // the column that is the tenant; empty: none
	whole   bool   // the log has whole rows, of before too
	bare    bool   // and no positions, as of a source that is no Postgres
	reads   bool   // incremental snapshots read rows, instead of truncates
	blank   vectorstore.Blank
}

// event decodes what a connector writes for one event.
func (h *itemTable) event(op cdc.Op, lsn uint64, before, after *item, links map[string]itemKey, lost ...string) cdc.Event[item] {
	h.Helper()
	h.offset++
	of := func(row *item) any {
		if row == nil {
			return nil
		}
		text, err := json.Marshal(row)
		var columns map[string]any
		if err == nil {
			err = json.Unmarshal(text, &columns)
		}
		if err != nil {
			h.Fatal(err)
		}
		return columns
	}
	if h.bare {
		lsn = 0
	}
	record := cdc.Record{Topic: "items", Offset: fmt.Sprintf("%08x", h.offset), Properties: map[string]string{}}
	marshal := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			h.Fatal(err)
		}
		return text
	}
	for name, key := range links {
		record.Properties[name] = string(marshal(key))
	}
	row := after
	if row == nil {
		row = before
	}
	if row != nil {
		record.Key = string(marshal(row.key()))
	}
	envelope := map[string]any{"op": string(rune(op)), "source": map[string]any{"schema": "public", "table": "items", "lsn": lsn}}
	now, was := of(after), of(before)
	for _, column := range lost {
		now.(map[string]any)[column] = cdc.DefaultPlaceholder
	}
	if !h.whole && op == cdc.OpUpdate {
		was = nil
	}
	envelope["before"], envelope["after"] = was, now
	if record.Value = marshal(envelope); op == cdc.OpTombstone {
		record.Value = nil
	}
	e, err := h.decoder.Decode(record)
	if err != nil {
		h.Fatalf("%s: %v", record.Value, err)
	}
	return e
}

func (h *itemTable) publish(events ...cdc.Event[item]) { h.topic = append(h.topic, events) }

// shown says whether a row has an object.
func (h *itemTable) shown(i item) bool {
	return i.Active && (h.blank != vectorstore.BlankDeletes || strings.TrimSpace(i.Title) != "")
}

func (h *itemTable) random(key itemKey) item {
	return h.changed(h.changed(item{Region: key.Region, ID: key.ID, Owner: pickOf(h.Rand, "ann", "bob"), Active: true}))
}

func pickOf[E any](r *rand.Rand, of ...E) E { return of[r.IntN(len(of))] }

// changed returns the row with other values, in some columns.
func (h *itemTable) changed(i item) item {
	switch h.IntN(5) {
	case 0:
		i.Title = pickOf(h.Rand, "", "  ", "red shoes", "blue shoes", "tea")
	case 1:
		i.Long = pickOf(h.Rand, "", "a long text", "another", "\n")
	case 2:
		i.Active = !i.Active
	case 3:
		i.Owner = pickOf(h.Rand, "ann", "bob", "cid")
	}
	if h.tenants == "owner" && !h.whole {
		i.Owner = "ann" // the log would not say where the row was
	}
	i.Price = float64(h.IntN(1000))
	return i
}

// lost are the columns that the log leaves out of a change.
func (h *itemTable) lost(from, to item) []string {
	if h.whole || from.Long != to.Long || h.shown(to) && !h.shown(from) || h.IntN(2) == 0 {
		return nil
	}
	return []string{"long"}
}

func (h *itemTable) remove(i item, newKey map[string]itemKey, lsn uint64) []cdc.Event[item] {
	delete(h.rows, i.key())
	was := i
	if !h.whole { // nothing but the key
		was = item{Region: i.Region, ID: i.ID, Owner: "ann"}
	}
	events := []cdc.Event[item]{h.event(cdc.OpDelete, lsn, &was, nil, newKey)}
	if h.IntN(3) > 0 && h.tenants != "owner" { // of which a tombstone says nothing
		events = append(events, h.event(cdc.OpTombstone, 0, &was, nil, nil))
	}
	return events
}

// rekey changes a row's key, and with it sometimes other columns.
func (h *itemTable) rekey(from item, to itemKey, links bool) {
	next := from
	if next.Region, next.ID = to.Region, to.ID; h.IntN(3) == 0 {
		next = h.changed(next)
	}
	h.lsn++
	properties := func(name string, key itemKey) map[string]itemKey {
		if !links {
			return nil
		}
		return map[string]itemKey{name: key}
	}
	events := h.remove(from, properties("__debezium.newkey", to), h.lsn)
	events = append(events, h.event(cdc.OpCreate, h.lsn, nil, &next, properties("__debezium.oldkey", from.key()), h.lost(from, next)...))
	h.rows[to] = next
	h.publish(events...)
}

// step does something to the table.
func (h *itemTable) step() {
	key := itemKey{pickOf(h.Rand, "eu", "us"), h.Int64N(4)}
	other := itemKey{pickOf(h.Rand, "eu", "us"), h.Int64N(4)}
	row, there := h.rows[key]
	target, taken := h.rows[other]
	h.lsn++
	switch n := h.IntN(20); {
	case !there:
		h.rows[key] = h.random(key)
		row = h.rows[key]
		h.publish(h.event(cdc.OpCreate, h.lsn, nil, &row, nil))
	case n < 2:
		h.publish(h.remove(row, nil, h.lsn)...)
	case n < 5 && other != key:
		if taken {
			h.publish(h.remove(target, nil, h.lsn)...)
		}
		h.rekey(row, other, h.bare || h.IntN(2) == 0)
	case n < 6 && taken && other != key: // the two swap their keys
		spare := itemKey{"spare", 99}
		h.rekey(row, spare, true)
		h.rekey(target, key, true)
		h.rekey(h.rows[spare], other, true)
	case n < 7 && h.reads:
		h.publish(h.event(cdc.OpRead, 0, nil, &row, nil))
	case n < 7 && !h.reads && h.IntN(3) == 0:
		clear(h.rows)
		h.publish(h.event(cdc.OpTruncate, h.lsn, nil, nil, nil))
	case n < 8: // the source starts again from an older position, and repeats what it has sent
		for _, events := range slices.Clone(h.topic[max(0, len(h.topic)-1-h.IntN(6)):]) {
			if events[0].Source.LSN == 0 && !h.bare {
				continue
			}
			again := slices.Clone(events)
			for i := range again {
				h.offset++
				again[i].Record.Offset = fmt.Sprintf("%08x", h.offset)
			}
			h.publish(again...)
		}
	default:
		next := h.changed(row)
		h.rows[key] = next
		h.publish(h.event(cdc.OpUpdate, h.lsn, &row, &next, nil, h.lost(row, next)...))
	}
}

func newItemTable(t *testing.T, rng *rand.Rand) *itemTable {
	t.Helper()
	decoder, err := cdc.NewDecoder[item](cdc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &itemTable{
		Rand: rng, T: t, decoder: decoder, rows: map[itemKey]item{}, tenants: pickOf(rng, "", "region", "owner"),
		whole: rng.IntN(2) == 0, reads: rng.IntN(2) == 0, blank: pickOf(rng, vectorstore.BlankClears, vectorstore.BlankDeletes),
	}
	h.bare = h.whole && h.reads && rng.IntN(2) == 0
	for range 100 {
		h.step()
	}
	return h
}

// itemSinks are two sinks on one store, of which one believes that it still has the topic.
type itemSinks struct {
	*itemTable
	store       *watched
	texts       *embedtest.Embedder[string]
	version     string
	main, stale *vectorstore.Sink[item]
	seen        []vectorstore.Outcome
}

// fenced is a store that compares and writes in one step.
type fenced struct{ *watched }

func (s fenced) ApplyIf(ctx context.Context, m []vectorstore.Mutation, versions []string) error {
	if s.fail != nil {
		if err := s.fail(m); err != nil {
			return err
		}
	}
	return s.clearable.(vectorstore.Conditional).ApplyIf(ctx, m, versions)
}

func (h *itemSinks) restart() {
	h.Helper()
	vector := vectorstore.Embed("title_vector", func(i item) string { return i.Title }, h.texts)
	vector.Blank = h.blank
	mapping := vectorstore.Mapping[item]{
		Version: h.version,
		Key:     func(k cdc.Key) (cdc.Key, error) { return k, nil },
		Vectors: []vectorstore.Vector[item]{vector, vectorstore.Embed("long_vector", func(i item) string { return i.Long }, h.texts)},
		Filter:  func(i item) bool { return i.Active },
		Properties: func(i item) map[string]any {
			return map[string]any{"title": i.Title, "long": i.Long, "price" + h.version: i.Price}
		},
	}
	switch h.tenants {
	case "region": // one id in several tenants
		mapping.Key = func(k cdc.Key) (cdc.Key, error) { return k[1:], nil }
		mapping.Tenant = func(e *cdc.Event[item]) (string, error) { return fmt.Sprint(e.Key[0].Value), nil }
	case "owner":
		mapping.Tenant = func(e *cdc.Event[item]) (string, error) {
			switch {
			case e.After != nil:
				return e.After.Owner, nil
			case e.Before != nil:
				return e.Before.Owner, nil
			case !h.whole: // where rows stay where they are
				return "ann", nil
			}
			return "", errors.New("no row")
		}
	}
	var store vectorstore.Store = h.store
	if _, ok := h.store.clearable.(vectorstore.Conditional); ok {
		store = fenced{h.store}
	}
	for _, sink := range []**vectorstore.Sink[item]{&h.main, &h.stale} {
		options := vectorstore.SinkOptions{}
		if sink == &h.main {
			options.Observe = func(o vectorstore.Outcome) { h.seen = append(h.seen, o) }
		}
		var err error
		if *sink, err = vectorstore.NewSink(store, mapping, options); err != nil {
			h.Fatal(err)
		}
	}
}

// handle passes a batch until all is done, and wants each event to have one error or one outcome.
func (h *itemSinks) handle(batch []cdc.Event[item]) {
	h.Helper()
	for tries := 0; ; tries++ {
		if tries == 100 {
			h.Fatal("no progress")
		}
		h.seen = nil
		errs := make([]error, len(batch))
		err := h.main.Handle(h.Context(), batch)
		var items interface{ ItemErrors() []error }
		if errors.As(err, &items) {
			errs = items.ItemErrors()
		} else if err != nil {
			h.Fatal(err)
		}
		seen := h.seen
		for i, err := range errs {
			switch {
			case permanent(err):
				h.Fatalf("event %d, %c of %v: %v", i, batch[i].Op, batch[i].Key, err)
			case err != nil:
			case len(seen) == 0 || !reflect.DeepEqual(seen[0].Key, batch[i].Key) || seen[0].Op != batch[i].Op || seen[0].Position != batch[i].Position():
				h.Fatalf("event %d, %c of %v, has the outcomes %+v", i, batch[i].Op, batch[i].Key, seen)
			default:
				seen = seen[1:]
			}
		}
		if len(seen) > 0 {
			h.Fatalf("outcomes of events that failed: %+v", seen)
		}
		if err == nil {
			return
		}
	}
}

// faults makes calls fail at random, before, amid and after the write, and lets the stale sink read before, and write after, the other.
func (h *itemSinks) faults() {
	h.store.fail = func(m []vectorstore.Mutation) error {
		switch h.IntN(10) {
		case 0:
			return errCrash
		case 1: // some of it was written, and nobody knows what
			if err := h.store.clearable.Apply(h.Context(), m[:h.IntN(len(m)+1)]); err != nil {
				h.Error(err)
			}
			return errCrash
		case 2:
			errs := make([]error, len(m))
			errs[h.IntN(len(m))] = errCrash
			for i := range m {
				if errs[i] == nil {
					if err := h.store.clearable.Apply(h.Context(), m[i:i+1]); err != nil {
						h.Error(err)
					}
				}
			}
			return vectorstore.NewBatchError(errs)
		}
		return nil
	}
}

// run passes the topic: in batches, again from some place before, old batches alone, with crashes; in the end all of it once more, for
// another version of the mapping.
func (h *itemSinks) run() {
	h.faults()
	at := func(from, n int) []cdc.Event[item] { return slices.Concat(h.topic[from:min(len(h.topic), from+n)]...) }
	for next := 0; next < len(h.topic); {
		switch h.IntN(12) {
		case 0: // the consumer starts again
			next = max(0, next-h.IntN(30))
			h.restart()
		case 1: // somebody else passes what is old
			_ = h.stale.Handle(h.Context(), at(h.IntN(next+1), 1+h.IntN(3)))
		case 2:
			h.texts.Inject(embedtest.Fault{Match: "shoes", Times: 1 + h.IntN(2)})
		case 3:
			h.texts.Inject(embedtest.Fault{Kind: embedtest.FailCall, Times: 1})
		}
		n := 1 + h.IntN(5)
		h.handle(at(next, n))
		next += n
	}
	h.wantTable()
	h.store.fail, h.version = nil, "2"
	h.restart()
	for next := 0; next < len(h.topic); next += 7 {
		h.handle(at(next, 7))
	}
	h.wantTable()
}

// wantTable wants an object of each row, and no other.
func (h *itemSinks) wantTable() {
	h.Helper()
	tenants, err := h.store.Tenants(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	got := map[vectorstore.Ref]*vectorstore.Object{}
	for _, tenant := range tenants {
		for o, err := range vectorstore.All(h.Context(), h.store.clearable, tenant) {
			if err != nil {
				h.Fatal(err)
			}
			got[o.Ref] = o
		}
	}
	for _, row := range h.rows {
		if !h.shown(row) {
			continue
		}
		key := cdc.Key{{Name: "region", Value: row.Region}, {Name: "id", Value: row.ID}}
		tenant := map[string]string{"region": row.Region, "owner": row.Owner}[h.tenants]
		if h.tenants == "region" {
			key = key[1:]
		}
		id, err := vectorstore.UUID5(key)
		if err != nil {
			h.Fatal(err)
		}
		ref := vectorstore.Ref{ID: id, Tenant: tenant}
		o := got[ref]
		delete(got, ref)
		vectors := map[string][]float32{}
		for name, text := range map[string]string{"title_vector": row.Title, "long_vector": row.Long} {
			if strings.TrimSpace(text) != "" {
				vectors[name] = fresh(h.T, 8, text)
			}
		}
		properties := map[string]any{"title": row.Title, "long": row.Long, "price" + h.version: row.Price}
		if o == nil || !reflect.DeepEqual(o.Properties, properties) || !maps.EqualFunc(o.Vectors, vectors, near) {
			h.Errorf("row %+v: object is %+v", row, o)
		}
	}
	for ref, o := range got {
		h.Errorf("%+v shows no row: %+v", ref, o)
	}
	if h.Failed() {
		h.explain()
	}
}

func (h *itemSinks) explain() {
	h.Helper()
	for _, events := range h.topic {
		for _, e := range events {
			h.Logf("%s %c key %v LSN %d before %+v after %+v", e.Record.Offset, e.Op, e.Key, e.Source.LSN, e.Before, e.After)
		}
	}
	h.FailNow()
}

func runItems(t *testing.T, rng *rand.Rand, store func(h *itemTable) clearable) {
	t.Helper()
	h := &itemSinks{itemTable: newItemTable(t, rng), texts: embedtest.New(8), version: "1"}
	h.store = &watched{clearable: store(h.itemTable)}
	h.restart()
	h.run()
}

// TestSinkRandomItems drives a table through everything that can happen to it and to its topic, and wants the store equal to the table,
// object by object: changes of keys onto others and in a circle, of tenants, of both at once; truncates; filters; columns that the log
// leaves out; repetitions, replays, crashes; a second sink that passes what is old; another version of the mapping.
func TestSinkRandomItems(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runItems(t, rand.New(rand.NewPCG(seed, 6)), func(*itemTable) clearable { return memory.New() })
		})
	}
}

// TestSinkRandomItemsOnWeaviate does the same against a real server, with tables of a seed.
func TestSinkRandomItemsOnWeaviate(t *testing.T) {
	t.Parallel()
	seed := servicetest.Seed(t)
	for i := range uint64(3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			runItems(t, rand.New(rand.NewPCG(seed, i)), func(h *itemTable) clearable {
				return newWeaviate(t, func(o *weaviate.Options) {
					o.Vectors, o.Tenants = []weaviate.Vector{{Name: "title_vector"}, {Name: "long_vector"}}, h.tenants != ""
				})
			})
		})
	}
}
