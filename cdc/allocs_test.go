//go:build !race

package cdc

import "testing"

// TestAllocations: an event costs six allocations: the two rows, their texts, the key with its value, and what is known of the columns.
// (Not with the race detector, under which pools forget.)
func TestAllocations(t *testing.T) {
	plain, withSchema := productEvents(t)
	for name, r := range map[string]Record{"plain": plain, "schema": withSchema} {
		d := newDecoder[product](t, Options{})
		n := testing.AllocsPerRun(200, func() {
			if _, err := d.Decode(r); err != nil {
				t.Fatal(err)
			}
		})
		if n > 6 {
			t.Errorf("%s: %v allocations", name, n)
		}
		rows := newDecoder[Row](t, Options{})
		if n := testing.AllocsPerRun(200, func() { _, _ = rows.Decode(r) }); n > 16 {
			t.Errorf("%s into a Row: %v allocations", name, n)
		}
	}
}
