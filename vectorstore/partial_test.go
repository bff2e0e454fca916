package vectorstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// wire decodes events as a connector writes them, with columns that are unavailable.
type wire[T any] struct {
	testing.TB
	decoder *cdc.Decoder[T]
}

func newWire[T any](tb testing.TB) *wire[T] {
	tb.Helper()
	d, err := cdc.NewDecoder[T](cdc.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &wire[T]{tb, d}
}

func (w *wire[T]) event(op cdc.Op, lsn uint64, offset int, row map[string]any, unavailable ...string) cdc.Event[T] {
	w.Helper()
	after := map[string]any{}
	for name, v := range row {
		if after[name] = v; slices.Contains(unavailable, name) {
			after[name] = cdc.DefaultPlaceholder
		}
	}
	envelope := map[string]any{
		"op": string(rune(op)), "before": nil, "after": after,
		"source": map[string]any{"connector": "postgresql", "schema": "public", "table": "products", "lsn": lsn},
	}
	if op == cdc.OpDelete {
		envelope["before"], envelope["after"] = map[string]any{"id": row["id"]}, nil
	}
	value, err := json.Marshal(envelope)
	if err != nil {
		w.Fatal(err)
	}
	e, err := w.decoder.Decode(cdc.Record{
		Topic: "products", Key: fmt.Sprintf(`{"id":%v}`, row["id"]), Value: value, Offset: fmt.Sprintf("%08x", offset),
	})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func rowOf(p product) map[string]any {
	row := map[string]any{"id": p.ID, "title": p.Title, "price": p.Price, "picture": nil}
	if len(p.Picture) > 0 {
		row["picture"] = p.Picture // base64, as encoding/json writes it
	}
	return row
}

type gear struct {
	ID     int64  `cdc:"id,key"`
	Name   string `cdc:"name"`
	Text   string `cdc:"long_text"`
	Active bool   `cdc:"active"`
}

func gearRow(id int64, name, text string, active bool) map[string]any {
	return map[string]any{"id": id, "name": name, "long_text": text, "active": active}
}

// gearFixture is a sink for gear whose one vector is made of both texts.
type gearFixture struct {
	*fixture
	*wire[gear]
	sink *vectorstore.Sink[gear]
}

func newGear(t *testing.T) *gearFixture {
	t.Helper()
	f := newFixture(t)
	sink, err := vectorstore.NewSink(f.store, vectorstore.Mapping[gear]{
		Vectors: []vectorstore.Vector[gear]{
			vectorstore.Embed(textVector, func(g gear) string { return g.Name + ": " + g.Text }, f.texts),
		},
		Properties: func(g gear) map[string]any { return map[string]any{"name": g.Name, "text": g.Text, "active": g.Active} },
		Filter:     func(g gear) bool { return g.Active && g.Text != "draft" },
	}, f.options)
	if err != nil {
		t.Fatal(err)
	}
	return &gearFixture{f, newWire[gear](t), sink}
}

func (f *gearFixture) pass(events ...cdc.Event[gear]) []error {
	f.t.Helper()
	err := f.sink.Handle(f.t.Context(), events)
	var items interface{ ItemErrors() []error }
	if errors.As(err, &items) {
		return items.ItemErrors()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return make([]error, len(events))
}

func TestSinkUnavailableColumns(t *testing.T) {
	t.Parallel()
	f := newGear(t)
	const long = "long_text"
	good := func(errs []error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	refused := func(errs []error) {
		t.Helper()
		if !errors.Is(errs[0], vectorstore.ErrUnavailable) || !permanent(errs[0]) {
			t.Errorf("error is %v", errs[0])
		}
	}
	want := func(name, text string) {
		t.Helper()
		o := f.get(1)
		if o == nil || o.Properties["name"] != name || o.Properties["text"] != text ||
			!near(o.Vectors[textVector], fresh(t, 8, name+": "+text)) {
			t.Errorf("object is %+v, want %s: %s", o, name, text)
		}
	}
	// nothing is stored
	refused(f.pass(f.event(cdc.OpUpdate, 1, 1, gearRow(1, "a", "", true), long)))
	// within a batch
	good(f.pass(f.event(cdc.OpCreate, 2, 2, gearRow(1, "a", "one", true)), f.event(cdc.OpUpdate, 3, 3, gearRow(1, "b", "", true), long)))
	want("b", "one")
	inputs := f.get(1).Inputs
	// nothing else that the vector is made of has changed
	good(f.pass(f.event(cdc.OpUpdate, 4, 4, gearRow(1, "b", "", true), long)))
	good(f.pass(f.event(cdc.OpUpdate, 4, 4, gearRow(1, "b", "", true), long)))
	want("b", "one")
	if got := f.get(1).Inputs; !reflect.DeepEqual(got, inputs) {
		t.Errorf("inputs were %v, and are %v", inputs, got)
	}
	// something else has: a vector of the old text and the new name cannot be made
	refused(f.pass(f.event(cdc.OpUpdate, 5, 5, gearRow(1, "c", "", true), long)))
	want("b", "one")
	good(f.pass(f.event(cdc.OpUpdate, 6, 6, gearRow(1, "c", "two", true))))
	want("c", "two")
	// the filter excludes it whatever the text is, and then wants it again without a text to show
	good(f.pass(f.event(cdc.OpUpdate, 7, 7, gearRow(1, "c", "", false), long)))
	f.wantDeleted(1)
	refused(f.pass(f.event(cdc.OpUpdate, 8, 8, gearRow(1, "c", "", true), long)))
	f.wantDeleted(1)
	f.wantKinds("collapsed created+text updated unchanged updated+text deleted")
}

func TestSinkUnavailableWithAnotherModel(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[product](t)
	row := rowOf(product{ID: 1, Title: "one"})
	f.handle(w.event(cdc.OpCreate, 1, 1, row))
	f.mapping.Vectors[0] = vectorstore.Embed(textVector, func(p product) string { return p.Title }, embedtest.NewNamed("next", 8))
	f.restart()
	if err := f.errs(w.event(cdc.OpUpdate, 2, 2, row, "title"))[0]; !errors.Is(err, vectorstore.ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
	f.wantRow(product{ID: 1, Title: "one"})
}

// TestSinkUnavailableInRows does the same where columns are known by name alone.
func TestSinkUnavailableInRows(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[cdc.Row](t)
	text := func(r cdc.Row) string { v, _ := r.Get("title"); s, _ := v.(string); return s }
	sink, err := vectorstore.NewSink(f.store, vectorstore.Mapping[cdc.Row]{
		Vectors: []vectorstore.Vector[cdc.Row]{vectorstore.Embed(textVector, text, f.texts)},
		Properties: func(r cdc.Row) map[string]any {
			price, _ := r.Get("price")
			return map[string]any{"title": text(r), "price": price}
		},
	}, f.options)
	if err != nil {
		t.Fatal(err)
	}
	p := product{ID: 1, Title: "one"}
	for lsn := range uint64(3) {
		p.Price = float64(lsn) + 0.5
		var unavailable []string
		if lsn > 0 {
			unavailable = []string{"title"}
		}
		row := rowOf(p)
		row["id"] = 1
		if err := sink.Handle(t.Context(), []cdc.Event[cdc.Row]{w.event(cdc.OpUpdate, lsn+1, int(lsn+1), row, unavailable...)}); err != nil {
			t.Fatal(err)
		}
		f.wantRow(p)
	}
	f.wantKinds("created+text updated updated")
}

func TestSinkMoves(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[product](t)
	one := product{ID: 1, Title: "one", Picture: []byte("png")}
	two, three, four := one, one, one
	two.ID, three.ID, four.ID, four.Price = 2, 3, 4, 9
	f.handle(w.event(cdc.OpCreate, 1, 1, rowOf(one)))
	// the properties of the messages link the two
	from, to := w.event(cdc.OpDelete, 2, 2, rowOf(one)), w.event(cdc.OpCreate, 2, 3, rowOf(two), "title", "picture")
	from.NewKey, to.OldKey = keyOf(2), keyOf(1)
	f.handle(from, to)
	f.wantDeleted(1)
	f.wantRow(two)
	// their place does; a tombstone is between
	f.handle(w.event(cdc.OpDelete, 4, 4, rowOf(two)), tombstone(5, 2), w.event(cdc.OpCreate, 4, 6, rowOf(three), "title"))
	f.wantRow(three)
	// several changes in one batch, with another column
	f.handle(w.event(cdc.OpDelete, 7, 7, rowOf(three)), w.event(cdc.OpCreate, 7, 8, rowOf(one), "picture"),
		w.event(cdc.OpDelete, 9, 9, rowOf(one)), w.event(cdc.OpCreate, 9, 10, rowOf(four), "picture", "title"))
	f.wantRow(four)
	f.wantDeleted(1)
	f.wantDeleted(3)
	f.wantKinds("created+text+image deleted moved deleted unchanged moved deleted collapsed deleted moved")
	if n := len(f.texts.Inputs()); n != 1 {
		t.Errorf("%d texts embedded", n)
	}
}

// TestSinkMovesAroundCircle: two rows swap their keys, between the halves of another change of a key, as from another partition. The batch
// is written in parts for the circle; the third row brings its vector along all the same.
func TestSinkMovesAroundCircle(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[product](t)
	row := func(id int64, title string) map[string]any { return rowOf(product{ID: id, Title: title}) }
	f.handle(w.event(cdc.OpCreate, 1, 1, row(1, "one")), w.event(cdc.OpCreate, 2, 2, row(2, "two")), w.event(cdc.OpCreate, 3, 3, row(3, "three")))
	left, arrived := w.event(cdc.OpDelete, 4, 4, row(3, "three")), w.event(cdc.OpCreate, 4, 20, row(30, ""), "title")
	left.NewKey, arrived.OldKey = keyOf(30), keyOf(3)
	events := []cdc.Event[product]{w.event(cdc.OpUpdate, 3, 3, row(3, "three")), left}
	for i, move := range []struct{ from, to int64 }{{1, 99}, {2, 1}, {99, 2}} {
		lsn := uint64(5 + i)
		from, to := w.event(cdc.OpDelete, lsn, 2*int(lsn), row(move.from, "")), w.event(cdc.OpCreate, lsn, 2*int(lsn)+1, row(move.to, ""), "title")
		from.NewKey, to.OldKey = keyOf(move.to), keyOf(move.from)
		events = append(events, from, to)
	}
	f.handle(append(events, arrived)...)
	for id, title := range map[int64]string{1: "two", 2: "one", 30: "three"} {
		f.wantRow(product{ID: id, Title: title})
	}
	for _, id := range []int64{3, 99} {
		f.wantDeleted(id)
	}
	if n := len(f.texts.Inputs()); n != 3 {
		t.Errorf("%d texts embedded, want three", n)
	}
}

// TestSinkMoveIsTriedAgain wants the old object to stay until the new one is there.
func TestSinkMoveIsTriedAgain(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[product](t)
	one, two := product{ID: 1, Title: "one"}, product{ID: 2, Title: "one"}
	f.handle(w.event(cdc.OpCreate, 1, 1, rowOf(one)))
	from, to := w.event(cdc.OpDelete, 2, 2, rowOf(one)), w.event(cdc.OpCreate, 2, 3, rowOf(two), "title")
	f.store.fail = func([]vectorstore.Mutation) error { return errCrash }
	if errs := f.errs(from, to); !errors.Is(errs[0], errCrash) || !errors.Is(errs[1], errCrash) || permanent(errs[0]) {
		t.Errorf("errors are %v", errs)
	}
	f.wantRow(one)
	f.store.fail = nil
	f.handle(from, to)
	f.wantDeleted(1)
	f.wantRow(two)
	f.handle(from, to)
	f.wantKinds("created+text deleted moved unchanged unchanged")
}

// TestSinkMoveWithoutItsLastChange wants the same where a later change of the new object is refused for good.
func TestSinkMoveWithoutItsLastChange(t *testing.T) {
	t.Parallel()
	f, w := newFixture(t), newWire[product](t)
	one, two, poison := product{ID: 1, Title: "one"}, product{ID: 2, Title: "one"}, product{ID: 2, Title: "poison"}
	f.texts.Inject(embedtest.Fault{Match: "poison", Permanent: true})
	f.handle(w.event(cdc.OpCreate, 1, 1, rowOf(one)))
	from, to := w.event(cdc.OpDelete, 2, 2, rowOf(one)), w.event(cdc.OpCreate, 2, 3, rowOf(two), "title")
	f.store.fail = func(m []vectorstore.Mutation) error {
		if slices.ContainsFunc(m, func(m vectorstore.Mutation) bool { return m.Object.Ref == refOf(t, 2) }) {
			return errCrash
		}
		return nil
	}
	errs := f.errs(from, to, w.event(cdc.OpUpdate, 4, 4, rowOf(poison)))
	if !errors.Is(errs[0], errCrash) || permanent(errs[0]) || !errors.Is(errs[1], errCrash) || permanent(errs[1]) || !permanent(errs[2]) {
		t.Errorf("errors are %v", errs)
	}
	f.wantRow(one)
	f.store.fail = nil
	f.handle(from, to)
	f.wantDeleted(1)
	f.wantRow(two)
	f.wantKinds("created+text deleted moved")
}

// lossyHistory is a table whose topic lacks long values that an update leaves as they are, and links its key changes.
type lossyHistory struct {
	*history
	*wire[product]
}

func newLossyHistory(tb testing.TB, rng *rand.Rand) *lossyHistory {
	tb.Helper()
	h := &lossyHistory{&history{Rand: rng, rows: map[int64]product{}}, newWire[product](tb)}
	for range historyOps {
		h.step()
	}
	return h
}

func (h *lossyHistory) send(op cdc.Op, p product, unavailable ...string) {
	h.topic = append(h.topic, h.event(op, h.lsn, len(h.topic)+1, rowOf(p), unavailable...))
}

func (h *lossyHistory) step() {
	id := 1 + h.Int64N(historyKeys)
	p, there := h.rows[id]
	h.lsn++
	var lost []string // what the log leaves out if it is unchanged
	if h.IntN(2) == 0 {
		lost = append(lost, "title")
	}
	if h.IntN(2) == 0 {
		lost = append(lost, "picture")
	}
	switch to := 1 + h.Int64N(historyKeys); {
	case !there:
		h.rows[id] = h.change(product{ID: id})
		h.send(cdc.OpCreate, h.rows[id])
	case h.IntN(6) == 0:
		delete(h.rows, id)
		h.send(cdc.OpDelete, p)
	case h.IntN(5) == 0:
		if _, taken := h.rows[to]; taken {
			return
		}
		delete(h.rows, id)
		h.send(cdc.OpDelete, p)
		p.ID = to
		h.rows[to] = p
		h.send(cdc.OpCreate, p, lost...)
	default:
		next := h.change(p)
		lost = slices.DeleteFunc(lost, func(name string) bool {
			return name == "title" && next.Title != p.Title || name == "picture" && string(next.Picture) != string(p.Picture)
		})
		if !cheap(p) && cheap(next) {
			lost = nil // a row that qualifies again must say all
		}
		h.rows[id] = next
		h.send(cdc.OpUpdate, next, lost...)
	}
}

// cheap is the filter of half of the histories.
func cheap(p product) bool { return p.Price < 600 }

// cuts returns batches of the topic in which no primary-key change is apart, since its halves are one change.
func (h *lossyHistory) cuts() (batches [][]cdc.Event[product]) {
	for start := 0; start < len(h.topic); {
		end := min(len(h.topic), start+1+h.IntN(8))
		for end < len(h.topic) && h.topic[end].Source.LSN == h.topic[end-1].Source.LSN {
			end++
		}
		batches = append(batches, h.topic[start:end])
		start = end
	}
	return batches
}

// TestSinkLossyHistories drives random tables with unavailable columns, moves and a filter through failures and
// redeliveries of earlier batches in any order, and wants the store equal to the table.
func TestSinkLossyHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newLossyHistory(t, rand.New(rand.NewPCG(seed, 4)))
			h.run(t, newFixture(t, func(f *fixture) {
				if seed%2 == 0 {
					f.mapping.Filter = cheap
				}
			}))
		})
	}
}

// TestSinkLossyHistoriesOnWeaviate does the same against a real server.
func TestSinkLossyHistoriesOnWeaviate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newLossyHistory(t, rand.New(rand.NewPCG(seed, 5)))
			h.run(t, newFixture(t, func(f *fixture) {
				f.store.clearable = newWeaviate(t)
				f.mapping.Filter = cheap
			}))
		})
	}
}

// run passes the topic, and checks what is stored in the end.
func (h *lossyHistory) run(t *testing.T, f *fixture) {
	t.Helper()
	batches := h.cuts()
	for i := 0; i < len(batches); i++ {
		crash := h.IntN(6) == 0
		f.store.fail = func([]vectorstore.Mutation) error {
			if crash {
				return errCrash
			}
			return nil
		}
		if h.IntN(4) == 0 {
			f.handleAny(batches[h.IntN(i+1)])
			f.restart()
		}
		for _, err := range f.errs(batches[i]...) {
			if permanent(err) {
				t.Fatal(err)
			}
		}
		if crash {
			i--
		}
	}
	for id := int64(1); id <= historyKeys; id++ {
		p, there := h.rows[id]
		if there = there && (f.mapping.Filter == nil || f.mapping.Filter(p)); there {
			f.wantRow(p)
		} else if o := f.get(id); o != nil && !o.Deleted {
			t.Errorf("row %d should not be there: %+v", id, o)
		}
	}
}
