package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// story gathers what happened, and prints it.
type story struct {
	mu     sync.Mutex // Run calls the handler from several goroutines
	events map[string]cdc.Event[Product]
	report report
	times  []time.Duration
}

type report struct {
	Snapshot struct {
		Rows     int `json:"rows"`
		Embedded int `json:"embedded"`
	} `json:"snapshot"`
	Changes     []change `json:"changes"`
	Searches    []answer `json:"searches"`
	Embedded    int      `json:"embedded"`     // changes whose text was embedded
	NotEmbedded int      `json:"not_embedded"` // rows that changed and needed no new embedding
	Freshness   struct {
		Changes int     `json:"changes"`
		P50     float64 `json:"p50_ms"`
		P99     float64 `json:"p99_ms"`
	} `json:"freshness"`
}

// change is one change of the table and what became of it.
type change struct {
	Op        string  `json:"op"`
	ProductID int64   `json:"product_id"`
	What      string  `json:"what"`
	Outcome   string  `json:"outcome"`
	Embedded  bool    `json:"embedded"`
	Vector    string  `json:"vector"` // what became of it: made, kept, removed, or none
	Freshness float64 `json:"freshness_ms"`
}

// answer is a search with its matches, nearest first.
type answer struct {
	Query  string `json:"query"`
	Before []hit  `json:"before"`
	After  []hit  `json:"after"`
}

type hit struct {
	ProductID   int64   `json:"product_id"`
	Description string  `json:"description"`
	Price       float64 `json:"price"`
	Distance    float64 `json:"distance"`
}

func newStory() *story { return &story{events: map[string]cdc.Event[Product]{}} }

// telling notes the events on their way to the handler.
func (s *story) telling(
	handle func(context.Context, []cdc.Event[Product]) error,
) func(context.Context, []cdc.Event[Product]) error {
	return func(ctx context.Context, events []cdc.Event[Product]) error {
		s.mu.Lock()
		for _, e := range events {
			s.events[e.Position().String()] = e
		}
		s.mu.Unlock()
		return handle(ctx, events)
	}
}

// outcome is the sink's observer.
func (s *story) outcome(o vectorstore.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events[o.Position.String()]
	embedded := len(o.Embedded) > 0
	if e.Op == cdc.OpRead {
		s.report.Snapshot.Rows++
		if embedded {
			s.report.Snapshot.Embedded++
		}
		return
	}
	c := change{Outcome: o.Kind.String(), Embedded: embedded, Freshness: milliseconds(o.Freshness)}
	c.Op, c.What = describe(&e)
	c.Vector = fate(&e, o)
	c.ProductID, _ = e.Key[0].Value.(int64)
	s.report.Changes = append(s.report.Changes, c)
	switch {
	case embedded:
		s.report.Embedded++
	case o.Kind == vectorstore.Updated:
		s.report.NotEmbedded++
	}
	if o.Freshness > 0 {
		s.times = append(s.times, o.Freshness)
	}
}

// describe says in words what happened to the row.
func describe(e *cdc.Event[Product]) (op, what string) {
	switch e.Op {
	case cdc.OpCreate:
		return "insert", e.After.Description
	case cdc.OpDelete:
		return "delete", e.Before.Description
	case cdc.OpTombstone:
		return "tombstone", "says again that the row is gone"
	}
	columns, _ := e.Changed()
	for _, column := range columns {
		switch {
		case column == "price":
			what = fmt.Sprintf("price %.2f, was %.2f", e.After.Price, e.Before.Price)
		case e.After.Description == "":
			what = "no description any more"
		default:
			what = "now: " + e.After.Description
		}
	}
	return "update", what
}

func (s *story) before(query string, matches []vectorstore.Match) {
	s.report.Searches = append(s.report.Searches, answer{Query: query, Before: hits(matches)})
}

func (s *story) after(query string, matches []vectorstore.Match) {
	i := slices.IndexFunc(s.report.Searches, func(a answer) bool { return a.Query == query })
	s.report.Searches[i].After = hits(matches)
}

func hits(matches []vectorstore.Match) []hit {
	all := make([]hit, len(matches))
	for i, m := range matches {
		p := m.Object.Properties
		all[i].ProductID, _ = p["product_id"].(int64)
		all[i].Description, _ = p["description"].(string)
		all[i].Price, _ = p["price"].(float64)
		all[i].Distance = math.Round(float64(m.Distance)*1000) / 1000
	}
	return all
}

// print writes the story, as text or as one JSON object.
func (s *story) print(out io.Writer, asJSON bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	slices.Sort(s.times)
	r.Freshness.Changes = len(s.times)
	r.Freshness.P50, r.Freshness.P99 = quantile(s.times, 0.50), quantile(s.times, 0.99)
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	_, err := io.WriteString(out, r.text())
	return err
}

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A table of products: Debezium's messages, a Pulsar broker, all-MiniLM-L6-v2 and a vector store, in one process.\n\n")
	fmt.Fprintf(&b, "SNAPSHOT  %d rows, %d embedded\n\n", r.Snapshot.Rows, r.Snapshot.Embedded)
	fmt.Fprintf(&b, "CHANGES\n")
	for _, c := range r.Changes {
		if c.Op == "tombstone" {
			continue
		}
		fmt.Fprintf(&b, "  %-6s %3d  %-72s  %-16s %5.1f ms\n", c.Op, c.ProductID, short(c.What, 72), c.result(), c.Freshness)
	}
	fmt.Fprintf(&b, "\nSEARCHES\n")
	for _, a := range r.Searches {
		fmt.Fprintf(&b, "  %q\n", a.Query)
		for _, side := range []struct {
			name string
			hits []hit
		}{{"before", a.Before}, {"after", a.After}} {
			for i, h := range side.hits {
				name := ""
				if i == 0 {
					name = side.name
				}
				fmt.Fprintf(&b, "    %-6s  %.3f  %3d  %-72s %8.2f\n", name, h.Distance, h.ProductID, short(h.Description, 72), h.Price)
			}
		}
	}
	fmt.Fprintf(&b, "\nEMBEDDED  %d changed rows; %d changed and needed no new embedding\n", r.Embedded, r.NotEmbedded)
	fmt.Fprintf(&b, "FRESHNESS from publishing a change to its vector being searchable: p50 %.1f ms, p99 %.1f ms, %d changes\n",
		r.Freshness.P50, r.Freshness.P99, r.Freshness.Changes)
	return b.String()
}

// fate says what became of the row's vector.
func fate(e *cdc.Event[Product], o vectorstore.Outcome) string {
	had := e.Before != nil && e.Before.Description != ""
	switch {
	case len(o.Embedded) > 0:
		return "made"
	case o.Kind == vectorstore.Deleted && had:
		return "removed"
	case o.Kind == vectorstore.Updated && had && e.After.Description == "":
		return "removed"
	case o.Kind == vectorstore.Updated && had:
		return "kept"
	}
	return "none"
}

// result says in words what became of the change.
func (c change) result() string {
	switch {
	case c.Embedded:
		return c.Outcome + ", embedded"
	case c.Op == "update" && (c.Vector == "kept" || c.Vector == "removed"):
		return "vector " + c.Vector
	}
	return c.Outcome
}

func short(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:width-1]) + "…"
}

// quantile returns the smallest of the sorted times that a share q of them does not exceed, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return milliseconds(sorted[int(math.Ceil(q*float64(len(sorted))))-1])
}

func milliseconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e5) / 100 }
