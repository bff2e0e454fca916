package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestQuickstart runs the whole story, with the real model.
func TestQuickstart(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, true); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out.Bytes())
	}
	if r.Snapshot.Rows != snapshotRows || r.Snapshot.Embedded != snapshotRows {
		t.Errorf("snapshot: %+v", r.Snapshot)
	}
	// 5 inserts, one of them a row whose key changed, and 2 new texts; 6 new prices and a text taken away.
	if r.Embedded != 7 || r.NotEmbedded != 7 {
		t.Errorf("%d embedded, %d not; want 7 and 7", r.Embedded, r.NotEmbedded)
	}
	vectors := map[string]int{}
	for _, c := range r.Changes {
		if strings.HasPrefix(c.What, "price") && (c.Embedded || c.Vector != "kept") {
			t.Errorf("a new price was embedded: %+v", c)
		}
		vectors[c.Vector]++
	}
	// Removed: one with its text, three with their rows. None: the tombstones of those rows.
	if want := map[string]int{"made": 7, "kept": 6, "removed": 4, "none": 3}; !maps.Equal(vectors, want) {
		t.Errorf("vectors: %v, want %v", vectors, want)
	}
	if f := r.Freshness; f.P50 <= 0 || f.P99 < f.P50 || f.Changes != 17 {
		t.Errorf("freshness: %+v", f)
	}
	wantSearches(t, r.Searches)
	if text := r.text(); !strings.Contains(text, "vector removed") || !strings.Contains(text, "was 29.90") {
		t.Errorf("the text lacks something:\n%s", text)
	}
}

func wantSearches(t *testing.T, searches []answer) {
	t.Helper()
	first := map[string][2]int64{ // the nearest product before and after
		"keep my coffee hot on a hike":              {1, 21},
		"a light for reading in bed":                {10, 10},
		"a present for a child who loves the stars": {11, 18},
	}
	for _, a := range searches {
		if want := first[a.Query]; len(a.Before) != 3 || len(a.After) != 3 || a.Before[0].ProductID != want[0] || a.After[0].ProductID != want[1] {
			t.Errorf("%q: %+v, want %v first", a.Query, a, want)
		}
		deleted := func(h hit) bool { return slices.Contains([]int64{4, 12, 13}, h.ProductID) }
		if slices.ContainsFunc(a.After, deleted) {
			t.Errorf("%q finds what was deleted: %+v", a.Query, a.After)
		}
		rises := func(a, b hit) int { return int(1000 * (a.Distance - b.Distance)) }
		if !slices.IsSortedFunc(a.Before, rises) || !slices.IsSortedFunc(a.After, rises) {
			t.Errorf("%q: not the nearest first: %+v", a.Query, a)
		}
	}
	if len(searches) != len(first) {
		t.Errorf("%d searches", len(searches))
	}
}
