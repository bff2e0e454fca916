package vectorstore

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReads: whatever type a column has, a function that reads it is found, by the column's name in the table, and one that does not
// read it is not.
func TestReads(t *testing.T) {
	t.Parallel()
	type item struct{ Name string }
	type shelf struct {
		ID         int64
		Tags       []string
		Items      []item
		Sizes      [2]int
		Attributes map[string]string `json:"attrs"`
		Raw        []byte
		Document   json.RawMessage
		Any        any
		Price      *big.Int
		At         *time.Time
		Sub        *item
		Active     bool
		UnitCount  uint8 `cdc:"units"`
		Weight     float32
	}
	reads := map[string]func(shelf) any{
		"tags":  func(s shelf) any { return strings.Join(s.Tags, " ") },
		"items": func(s shelf) any { return fmt.Sprint(s.Items) },
		"sizes": func(s shelf) any { return s.Sizes[0] + s.Sizes[1] },
		"attrs": func(s shelf) any {
			text := ""
			for _, v := range s.Attributes {
				text += v
			}
			return text
		},
		"raw":      func(s shelf) any { return string(s.Raw) },
		"document": func(s shelf) any { return string(s.Document) },
		"any":      func(s shelf) any { return s.Any },
		"price":    func(s shelf) any { return s.Price.Int64() },
		"at":       func(s shelf) any { return s.At == nil || s.At.IsZero() },
		"sub":      func(s shelf) any { return s.Sub == nil || s.Sub.Name == "" },
		"active":   func(s shelf) any { return s.Active },
		"units":    func(s shelf) any { return s.UnitCount },
		"weight":   func(s shelf) any { return s.Weight },
	}
	known := columnsOf(reflect.TypeFor[shelf]())
	p := partial[shelf]{columns: known, row: shelf{ID: 1, Price: big.NewInt(0)}}
	for column, f := range reads {
		for other := range reads {
			names, unknown := known.resolve([]string{other})
			if unknown != "" {
				t.Fatalf("column %s is unknown", unknown)
			}
			if got := p.differs(names, f); got != (column == other) {
				t.Errorf("what reads %s reads %s: %v", column, other, got)
			}
		}
	}
	p.row.Price = nil
	if !p.differs([]string{"sub"}, reads["price"]) {
		t.Error("a function that panics is not one that may read anything")
	}
	names, unknown := known.resolve([]string{"Attributes", "unit_count", "un_known"}) // Go's names fold; the last has none
	if names != nil || unknown != "un_known" {
		t.Errorf("columns %v, unknown %q", names, unknown)
	}
	if names, _ = known.resolve([]string{"Attributes", "unit_count"}); !slices.Equal(names, []string{"attrs", "units"}) {
		t.Errorf("columns %v", names)
	}
}
