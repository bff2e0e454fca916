package vectorstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/weaviate"
)

// history is a random table with the topic of its changes.
type history struct {
	*rand.Rand
	rows  map[int64]product
	topic []cdc.Event[product]
	lsn   uint64
}

const (
	historyKeys = 6
	historyOps  = 120
)

func newHistory(rng *rand.Rand) *history {
	h := &history{Rand: rng, rows: map[int64]product{}}
	for range historyOps {
		h.step()
	}
	return h
}

// publish appends a message to the topic: its offset is its place there.
func (h *history) publish(op cdc.Op, lsn uint64, id int64, after *product) {
	h.topic = append(h.topic, at(op, lsn, len(h.topic)+1, id, after))
}

func (h *history) write(op cdc.Op, p product) {
	h.lsn++
	h.rows[p.ID] = p
	h.publish(op, h.lsn, p.ID, &p)
}

// delete publishes a delete, mostly with its tombstone.
func (h *history) delete(id int64) {
	h.lsn++
	delete(h.rows, id)
	h.publish(cdc.OpDelete, h.lsn, id, nil)
	if h.IntN(4) > 0 {
		h.publish(cdc.OpTombstone, 0, id, nil)
	}
}

// change returns the row with a new price, and sometimes another text or picture.
func (h *history) change(p product) product {
	p.Price = float64(h.IntN(1000))
	if h.IntN(2) == 0 {
		p.Title = []string{"", "  ", "red shoes", "blue shoes", "green tea", "a book"}[h.IntN(6)]
	}
	if h.IntN(4) == 0 {
		p.Picture = [][]byte{nil, []byte("png"), []byte("jpg")}[h.IntN(3)]
	}
	return p
}

// step does something to the table.
func (h *history) step() {
	id := 1 + h.Int64N(historyKeys)
	p, there := h.rows[id]
	if !there {
		h.write(cdc.OpCreate, h.change(product{ID: id}))
		return
	}
	switch h.IntN(10) {
	case 0, 1:
		h.delete(id)
	case 2: // the primary key changes
		to := 1 + h.Int64N(historyKeys)
		if _, taken := h.rows[to]; !taken {
			h.delete(id)
			p.ID = to
			h.write(cdc.OpCreate, p)
		}
	case 3: // an incremental snapshot reads the row; its event has no LSN
		h.publish(cdc.OpRead, 0, id, &p)
	case 4: // the source starts again from an older position, and repeats what it has sent
		for _, e := range h.topic[max(0, len(h.topic)-1-h.IntN(12)):] {
			if e.Source.LSN != 0 {
				h.publish(e.Op, e.Source.LSN, e.Key[0].Value.(int64), e.After)
			}
		}
	default:
		h.write(cdc.OpUpdate, h.change(p))
	}
}

var errCrash = errors.New("crash")

// faults makes calls fail at random: before, amid and after the write, at reading, at embedding.
func (h *history) faults(t *testing.T, f *fixture) {
	t.Helper()
	f.store.fail = func(m []vectorstore.Mutation) error {
		h.wantNews(t, f, m)
		switch h.IntN(8) {
		case 0:
			return errCrash
		case 1: // some of it was written, and nobody knows what
			if err := f.store.clearable.Apply(t.Context(), m[:h.IntN(len(m)+1)]); err != nil {
				t.Error(err)
			}
			return errCrash
		case 2:
			errs := make([]error, len(m))
			bad := h.IntN(len(m))
			errs[bad] = errCrash
			good := slices.Delete(slices.Clone(m), bad, bad+1)
			if err := f.store.clearable.Apply(t.Context(), good); err != nil {
				t.Error(err)
			}
			return &vectorstore.BatchError{Errs: errs}
		}
		return nil
	}
	f.store.lose = func([]vectorstore.Mutation) error {
		if h.IntN(10) == 0 {
			return errCrash
		}
		return nil
	}
}

// wantNews fails the test when a write has a vector that was made of the same input as the stored one.
func (h *history) wantNews(t *testing.T, f *fixture, m []vectorstore.Mutation) {
	t.Helper()
	for _, m := range m {
		stored, err := f.store.clearable.Get(context.Background(), []vectorstore.Ref{m.Object.Ref})
		if err != nil {
			t.Error(err)
			return
		}
		for name, v := range m.Object.Vectors {
			if v != nil && stored[0] != nil && stored[0].Inputs[name] == m.Object.Inputs[name] {
				t.Errorf("%s of %s was embedded again though its input had not changed", name, m.Object.ID)
			}
		}
	}
}

// consume hands the topic to the sink as a consumer does: batches, retries in place, crashes after which messages come
// again.
func (h *history) consume(t *testing.T, f *fixture) {
	t.Helper()
	order := make([]int, len(h.topic))
	for i := range order {
		order[i] = i
	}
	queue := order
	for tries := 0; len(queue) > 0; tries++ {
		if tries == 20*len(h.topic) {
			t.Fatal("no progress")
		}
		f.store.failGet = nil
		switch h.IntN(12) {
		case 0:
			f.store.failGet = errCrash
		case 1:
			f.texts.Inject(embedtest.Fault{Kind: embedtest.FailCall, Times: 1})
		case 2:
			f.texts.Inject(embedtest.Fault{Match: "shoes", Times: 1 + h.IntN(2)})
		case 3: // the consumer starts again; acknowledgements of the last messages were lost
			queue = order[max(0, queue[0]-h.IntN(20)):]
			f.restart()
		case 4: // a message from long ago comes alone
			f.handleAny(h.topic[h.IntN(queue[0]+1):][:1])
		}
		n := min(len(queue), 1+h.IntN(8))
		queue = slices.Concat(h.again(t, f, queue[:n]), queue[n:])
	}
}

// handleAny passes a batch that may fail.
func (f *fixture) handleAny(events []cdc.Event[product]) {
	_ = f.sink.Handle(f.t.Context(), events)
}

// again handles a batch and returns the messages to try again: those that failed, and all that follow in their keys.
func (h *history) again(t *testing.T, f *fixture, batch []int) []int {
	t.Helper()
	events := make([]cdc.Event[product], len(batch))
	for i, n := range batch {
		events[i] = h.topic[n]
	}
	var again []int
	failed := map[any]bool{}
	for i, err := range f.errs(events...) {
		id := events[i].Key[0].Value
		if permanent(err) {
			t.Fatalf("permanent error: %v", err)
		}
		if failed[id] = failed[id] || err != nil; failed[id] {
			again = append(again, batch[i])
		}
	}
	return again
}

// TestSinkRandomHistories drives random tables through failures, crashes and redeliveries, and wants the store equal to
// the table.
func TestSinkRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(rand.New(rand.NewPCG(seed, 1)))
			f := newFixture(t)
			h.faults(t, f)
			h.consume(t, f)
			h.wantTable(t, f)
		})
	}
}

// TestSinkRandomHistoriesOnWeaviate does the same against a real server.
func TestSinkRandomHistoriesOnWeaviate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			store := newWeaviate(t)
			h := newHistory(rand.New(rand.NewPCG(seed, 3)))
			f := newFixture(t, func(f *fixture) { f.store.clearable = store })
			h.faults(t, f)
			h.consume(t, f)
			h.wantTable(t, f)
		})
	}
}

// newWeaviate returns an empty store on the real server, in a collection of the test's own.
func newWeaviate(t *testing.T, changes ...func(*weaviate.Options)) *weaviate.Store {
	t.Helper()
	options := weaviate.Options{
		HTTP: servicetest.Env(t, "WEAVIATE_HTTP"), GRPC: servicetest.Env(t, "WEAVIATE_GRPC"),
		Vectors:    []weaviate.Vector{{Name: textVector}, {Name: imageVector}},
		Collection: fmt.Sprintf("SinkHistory%d_%d", time.Now().UnixNano(), rand.Uint32()), ConnectTimeout: time.Minute, ReadTimeout: time.Minute,
	}
	for _, change := range changes {
		change(&options)
	}
	store, err := weaviate.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(t, options.HTTP, store, options.Collection, options.Collection+"Tombstones") })
	return store
}

// drop closes the store and deletes its collections.
func drop(t *testing.T, host string, store *weaviate.Store, collections ...string) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	for _, name := range collections {
		req, err := http.NewRequest(http.MethodDelete, "http://"+host+"/v1/schema/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("dropping %s: %s", name, resp.Status)
		}
	}
}

// TestSinkEmbedsOnce counts: without failures, each new text and picture of a row is embedded once, however the topic
// is cut into batches.
func TestSinkEmbedsOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		h := newHistory(rand.New(rand.NewPCG(seed, 2)))
		f := newFixture(t)
		shown := map[int64]string{} // the title that the object has a vector of
		want := 0
		for start := 0; start < len(h.topic); {
			end := min(len(h.topic), start+1+h.IntN(6))
			f.handle(h.topic[start:end]...)
			for id := int64(1); id <= historyKeys; id++ {
				title := ""
				if o := f.get(id); o != nil && !o.Deleted {
					title, _ = o.Properties["title"].(string)
				}
				if title = strings.TrimSpace(title); title != "" && title != shown[id] {
					want++
				}
				shown[id] = title
			}
			start = end
		}
		h.wantTable(t, f)
		if got := len(f.texts.Inputs()); got != want {
			t.Errorf("seed %d: %d texts embedded, want %d", seed, got, want)
		}
	}
}

func (h *history) wantTable(t *testing.T, f *fixture) {
	t.Helper()
	for id := int64(1); id <= historyKeys; id++ {
		if p, there := h.rows[id]; there {
			f.wantRow(p)
		} else if o := f.get(id); o != nil && !o.Deleted {
			t.Errorf("row %d was deleted, its object is %+v", id, o)
		}
	}
	if t.Failed() {
		for i, e := range h.topic {
			t.Logf("%d: %q key %v LSN %d after %+v", i+1, e.Op, e.Key[0].Value, e.Source.LSN, e.After)
		}
	}
}
