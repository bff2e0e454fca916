package vectorstore_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/vectorstore"
)

func TestSinkOrder(t *testing.T) {
	t.Parallel()
	row := func(title string) product { return product{ID: 1, Title: title} }
	read := func(offset int, title string) cdc.Event[product] { // an incremental snapshot's rows have no LSN
		p := row(title)
		return at(cdc.OpRead, 0, offset, 1, &p)
	}
	again := func(lsn uint64, offset int, title string) cdc.Event[product] { // the source repeats itself
		p := row(title)
		return at(cdc.OpUpdate, lsn, offset, 1, &p)
	}
	type batches [][]cdc.Event[product]
	tests := map[string]struct {
		batches batches
		kinds   string
		want    string // the title; empty: deleted
	}{
		"late update":    {batches{{insert(10, row("ten"))}, {update(12, row("twelve"))}, {update(11, row("eleven"))}}, "created+text updated+text stale", "twelve"},
		"late in batch":  {batches{{insert(10, row("ten")), update(12, row("twelve")), update(11, row("eleven"))}}, "collapsed created+text stale", "twelve"},
		"after delete":   {batches{{insert(10, row("ten"))}, {remove(20, 1)}, {update(15, row("late"))}}, "created+text deleted stale", ""},
		"delete unknown": {batches{{remove(20, 1)}, {insert(15, row("late"))}}, "deleted stale", ""},
		"tombstone only": {batches{{tombstone(20, 1)}, {again(15, 15, "late")}}, "deleted stale", ""},
		"late delete":    {batches{{insert(30, row("back"))}, {remove(20, 1), tombstone(21, 1)}}, "created+text stale stale", "back"},
		"snapshot":       {batches{{insert(10, row("ten"))}, {read(11, "read")}, {update(12, row("twelve"))}}, "created+text updated+text updated+text", "twelve"},
		"repeated after snapshot": {
			batches{{update(20, row("twenty"))}, {read(21, "read")}, {again(18, 30, "old")}}, "created+text updated+text stale", "read",
		},
		"repeated after tombstone": {
			batches{{insert(10, row("ten"))}, {remove(20, 1), tombstone(21, 1)}, {again(10, 30, "old")}}, "created+text deleted unchanged stale", "",
		},
		"repeated after lone tombstone": {
			batches{{insert(10, row("ten"))}, {tombstone(11, 1)}, {again(9, 30, "old")}}, "created+text deleted stale", "",
		},
		"equal LSN, later message": {batches{{again(10, 1, "one")}, {again(10, 2, "two")}}, "created+text updated+text", "two"},
		"same message twice":       {batches{{again(10, 1, "one"), again(10, 1, "one")}}, "collapsed created+text", "one"},
		"tombstones":               {batches{{insert(10, row("ten"))}, {tombstone(11, 1), tombstone(12, 1)}}, "created+text deleted unchanged", ""},
		"repeats before news": {
			batches{{insert(10, row("ten"))}, {insert(10, row("ten")), update(11, row("eleven"))}}, "created+text unchanged updated+text", "eleven",
		},
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
			if tt.want == "" {
				f.wantDeleted(1)
			} else {
				f.wantRow(row(tt.want))
			}
		})
	}
}

func TestSinkUnknownVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "v1", "zzzzzzzz-0000000000000001-"} {
		f := newFixture(t)
		o := vectorstore.Object{Ref: refOf(t, 1), Version: version, Properties: map[string]any{"title": "by hand"}}
		if err := f.store.Apply(t.Context(), []vectorstore.Mutation{{Object: o}}); err != nil {
			t.Fatal(err)
		}
		f.handle(update(1, product{ID: 1, Title: "known"}))
		f.wantRow(product{ID: 1, Title: "known"})
	}
	f := newFixture(t)
	bare := insert(0, product{ID: 1, Title: "nowhere"})
	bare.Record.Offset = ""
	f.handle(bare, bare)
	f.wantKinds("collapsed created+text")
	if v := f.get(1).Version; v != "" {
		t.Errorf("Version of an event without a position is %q", v)
	}
}

func TestSinkMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(cdc.Event[product]{Op: cdc.OpMessage, Message: &cdc.LogicalMessage{Prefix: "x"}}, insert(1, product{ID: 1, Title: "one"}))
	f.wantKinds("skipped created+text")
}

func TestSinkFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.mapping.Filter = func(p product) bool { return p.Price >= 0 } })
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two", Price: -1}))
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}), update(4, product{ID: 2, Title: "two"}))
	f.wantKinds("created+text deleted deleted created+text")
	f.wantDeleted(1)
	f.wantRow(product{ID: 2, Title: "two"})
	f.handle(insert(1, product{ID: 1, Title: "one"}), insert(2, product{ID: 2, Title: "two", Price: -1}))
	f.wantKinds("stale stale")
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}))
	f.wantKinds("unchanged")
	f.mapping.Filter = nil // read again with another mapping
	f.restart()
	f.handle(update(3, product{ID: 1, Title: "one", Price: -1}))
	f.wantKinds("created+text")
	f.wantRow(product{ID: 1, Title: "one", Price: -1})
}

func TestSinkPrimaryKeyChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.handle(insert(1, product{ID: 1, Title: "moving"}))
	moved := product{ID: 2, Title: "moving"}
	f.handle(at(cdc.OpDelete, 10, 10, 1, nil), tombstone(11, 1), at(cdc.OpCreate, 10, 12, 2, &moved))
	f.wantKinds("created+text deleted unchanged moved")
	f.wantDeleted(1)
	f.wantRow(moved)
}
