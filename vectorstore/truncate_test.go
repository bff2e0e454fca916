package vectorstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
)

func TestSinkTruncate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two"}))
	f.kinds()
	f.handle(update(10, product{ID: 1, Title: "uno"}), truncate(11), insert(12, product{ID: 3, Title: "three"}), truncate(13), truncate(14),
		insert(15, product{ID: 4, Title: "four"}))
	f.wantKinds("updated+text cleared created+text cleared cleared created+text")
	if f.store.Len() != 1 {
		t.Errorf("%d objects", f.store.Len())
	}
	f.wantRow(product{ID: 4, Title: "four"})

	down := errors.New("store is down")
	f.store.clears = []error{down}
	errs := f.errs(update(20, product{ID: 4, Title: "quatre"}), truncate(21), insert(22, product{ID: 5, Title: "five"}))
	if errs[0] != nil || !errors.Is(errs[1], down) || !errors.Is(errs[2], down) || permanent(errs[1]) || permanent(errs[2]) {
		t.Errorf("errors are %v; what follows the truncate has to wait", errs)
	}
	f.texts.Inject(embedtest.Fault{Match: "flaky", Times: 1})
	errs = f.errs(insert(30, product{ID: 6, Title: "flaky"}), truncate(31), insert(32, product{ID: 5, Title: "five"}))
	if slices.Contains(errs, nil) || f.store.Len() != 1 {
		t.Errorf("errors are %v; the truncate has to wait for what precedes it", errs)
	}
}

// bare is a Store and nothing else.
type bare struct{ vectorstore.Store }

func TestSinkTruncateWithoutClear(t *testing.T) {
	t.Parallel()
	store := memory.New()
	sink, err := vectorstore.NewSink(bare{store}, newFixture(t).mapping, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = sink.Handle(t.Context(), []cdc.Event[product]{insert(1, product{ID: 1, Title: "one"}), truncate(2), insert(3, product{ID: 2, Title: "two"})})
	var batch *vectorstore.BatchError
	if !errors.As(err, &batch) || batch.Errs[0] != nil || batch.Errs[2] != nil || !errors.Is(batch.Errs[1], vectorstore.ErrTruncate) || !batch.Permanent() {
		t.Errorf("error %v", err)
	}
	if store.Len() != 2 {
		t.Errorf("%d objects", store.Len())
	}
}

// TestSinkTruncateOutOfOrder: no topic orders a truncate against the rows.
func TestSinkTruncateOutOfOrder(t *testing.T) {
	t.Parallel()
	row := func(title string) product { return product{ID: 1, Title: title} }
	read := func(offset int) cdc.Event[product] { // a row of an incremental snapshot
		p := row("read")
		return at(cdc.OpRead, 0, offset, 1, &p)
	}
	withoutLSN := at(cdc.OpTruncate, 0, 1, 0, nil)
	after := func(epoch uint32, e cdc.Event[product]) cdc.Event[product] { return inEpoch(t, epoch, e) }
	type batches [][]cdc.Event[product]
	tests := map[string]struct {
		batches batches
		kinds   string
		want    string // the title; empty: nothing is known of the row
	}{
		"later row first":         {batches{{insert(12, row("new"))}, {truncate(10)}}, "created+text cleared", "new"},
		"delivered again":         {batches{{truncate(10)}, {insert(12, row("new"))}, {truncate(10)}}, "cleared created+text cleared", "new"},
		"older row after it":      {batches{{truncate(10)}, {insert(5, row("old"))}}, "cleared stale", ""},
		"row delivered again":     {batches{{insert(5, row("old"))}, {truncate(10)}, {insert(5, row("old"))}}, "created+text cleared stale", ""},
		"older delete after it":   {batches{{insert(5, row("old"))}, {truncate(10)}, {remove(7, 1)}}, "created+text cleared stale", ""},
		"older truncate after it": {batches{{insert(5, row("old")), insert(12, row("new"))}, {truncate(20)}, {truncate(10)}}, "collapsed created+text cleared stale", ""},
		"between truncates":       {batches{{truncate(20)}, {insert(12, row("between"))}, {truncate(10)}}, "cleared stale stale", ""},
		"in one batch":            {batches{{insert(12, row("new")), truncate(10), insert(11, row("older")), insert(13, row("newest"))}}, "created+text cleared stale updated+text", "newest"},
		"snapshot after it":       {batches{{truncate(10)}, {read(11)}, {truncate(10)}}, "cleared created+text cleared", "read"},
		"snapshot before it":      {batches{{read(1)}, {truncate(10)}}, "created+text cleared", ""},
		"no LSN":                  {batches{{insert(12, row("new"))}, {withoutLSN}}, "created+text cleared", ""},
		"another epoch":           {batches{{after(1, insert(5, row("promoted")))}, {truncate(10)}}, "created+text cleared", "promoted"},
		"row of the old epoch":    {batches{{after(1, truncate(5))}, {insert(10, row("old"))}}, "cleared stale", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for _, batch := range tt.batches {
				f.handle(batch...)
				f.restart()
			}
			f.wantKinds(tt.kinds)
			if tt.want != "" {
				f.wantRow(row(tt.want))
			} else if o := f.get(1); o != nil {
				t.Errorf("row 1: object is %+v", o)
			}
		})
	}
}

// inEpoch decodes an event of another epoch: nothing else can make one.
func inEpoch(t *testing.T, epoch uint32, like cdc.Event[product]) cdc.Event[product] {
	t.Helper()
	decoder, err := cdc.NewDecoder[product](cdc.Options{Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	row := "null"
	if like.After != nil {
		row = fmt.Sprintf(`{"id":%d,"title":%q,"price":0,"picture":null}`, like.After.ID, like.After.Title)
	}
	record := like.Record
	record.Value = fmt.Appendf(nil, `{"op":%q,"after":%s,"source":{"lsn":%d}}`, string(like.Op), row, like.Source.LSN)
	if len(like.Key) > 0 {
		record.Key = fmt.Sprintf(`{"id":%v}`, like.Key[0].Value)
	}
	e, err := decoder.Decode(record)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// onlyClearer is a Clearer without versions.
type onlyClearer struct {
	vectorstore.Store
	vectorstore.Clearer
}

func TestSinkTruncateWithoutVersions(t *testing.T) {
	t.Parallel()
	store := memory.New()
	sink, err := vectorstore.NewSink[product](onlyClearer{store, store}, newFixture(t).mapping, vectorstore.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := []cdc.Event[product]{insert(12, product{ID: 1, Title: "one"}), truncate(10), insert(5, product{ID: 2, Title: "two"})}
	if err := sink.Handle(t.Context(), events); err != nil || store.Len() != 1 {
		t.Errorf("%d objects, error %v", store.Len(), err)
	}
}

// TestSinkTruncateFails: whichever call fails, a later try completes the truncate.
func TestSinkTruncateFails(t *testing.T) {
	t.Parallel()
	down := errors.New("store is down")
	for name, fail := range map[string]func(f *fixture){
		"read":  func(f *fixture) { f.store.failGet = down },
		"note":  func(f *fixture) { f.store.fail = func([]vectorstore.Mutation) error { return down } },
		"clear": func(f *fixture) { f.store.clears = []error{down} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.handle(insert(5, product{ID: 1, Title: "old"}), insert(12, product{ID: 2, Title: "new"}))
			fail(f)
			if errs := f.errs(truncate(10)); !errors.Is(errs[0], down) || permanent(errs[0]) {
				t.Errorf("error %v", errs[0])
			}
			f.store.failGet, f.store.fail = nil, nil
			f.handle(truncate(10))
			if o := f.get(1); o != nil {
				t.Errorf("the older row is %+v", o)
			}
			f.wantRow(product{ID: 2, Title: "new"})
		})
	}
}

// TestSinkTruncateWaits: a row whose handling began before the truncate must not be written after it.
func TestSinkTruncateWaits(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(f *fixture) {
		f.mapping.Properties = func(product) map[string]any {
			close(began)
			<-release
			return nil
		}
	})
	f.options.Observe = nil
	f.restart()
	row, cleared := make(chan error, 1), make(chan error, 1)
	go func() {
		row <- f.sink.Handle(t.Context(), []cdc.Event[product]{insert(5, product{ID: 1, Title: "old"})})
	}()
	<-began
	go func() { cleared <- f.sink.Handle(t.Context(), []cdc.Event[product]{truncate(10)}) }()
	select {
	case err := <-cleared:
		t.Errorf("the truncate did not wait: %v", err)
		cleared <- err
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := errors.Join(<-row, <-cleared); err != nil || f.store.Len() != 0 {
		t.Errorf("%d objects, error %v", f.store.Len(), err)
	}
}

// TestSinkRandomTruncates delivers the changes of each key, and the truncates among themselves, in their order, but in
// any order otherwise, some of them again, as partitions and workers do. The store has to end as the table.
func TestSinkRandomTruncates(t *testing.T) {
	t.Parallel()
	const keys = 4
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		rows := map[int64]product{}
		queues := make([][]cdc.Event[product], keys+1) // the last has the truncates
		for lsn := uint64(1); lsn <= 60; lsn++ {
			id := rng.Int64N(keys)
			_, there := rows[id]
			switch n := rng.IntN(12); {
			case n == 0:
				clear(rows)
				queues[keys] = append(queues[keys], truncate(lsn))
			case n < 4 && there:
				delete(rows, id)
				queues[id] = append(queues[id], remove(lsn, id), tombstone(int(lsn), id))
			default:
				rows[id] = product{ID: id, Title: []string{"red", "green", "blue"}[rng.IntN(3)], Price: float64(lsn)}
				queues[id] = append(queues[id], update(lsn, rows[id]))
			}
		}
		f := newFixture(t)
		next := make([]int, len(queues))
		for left := len(queues); left > 0; {
			q := rng.IntN(len(queues))
			if next[q] == len(queues[q]) {
				left = 0
				for i := range queues {
					left += len(queues[i]) - next[i]
				}
				continue
			}
			if rng.IntN(8) == 0 { // the consumer starts again
				next[q] = rng.IntN(next[q] + 1)
			}
			n := min(len(queues[q]), next[q]+1+rng.IntN(4))
			f.handle(queues[q][next[q]:n]...)
			next[q] = n
		}
		for id := range int64(keys) {
			if p, there := rows[id]; there {
				f.wantRow(p)
			} else if o := f.get(id); o != nil && !o.Deleted {
				t.Errorf("row %d is gone, and its object is %+v", id, o)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
