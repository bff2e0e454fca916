package cdc_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/cdc"
)

// told returns the events of one topic of a recording, and the records that are no events.
func (s setting) told(t *testing.T, topic string) (events []cdc.Event[cdc.Row], others []*cdc.NotChangeEventError) {
	t.Helper()
	d := newDecoder[cdc.Row](t, cdc.Options{Placeholder: s.placeholder, BinaryMode: s.binary})
	for _, m := range s.recording(t) {
		if m.Topic != topic {
			continue
		}
		e, err := d.Decode(m.record())
		var other *cdc.NotChangeEventError
		switch {
		case errors.As(err, &other):
			others = append(others, other)
		case err != nil:
			t.Errorf("%s: %v", topic, err)
		default:
			events = append(events, e)
		}
	}
	return events, others
}

func (s setting) topic(table string) string { return s.prefix() + ".public." + table }

// nullInToast are the columns of toast for which Debezium sends null in place of an unchanged long value: it finds that its placeholder
// is no value of their type. Nothing tells such a null from a true one.
func (s setting) nullInToast() []string {
	null := []string{"vb", "i2a", "f8a", "na", "ba", "ts6a", "tstza"}
	if s.decimal != "string" {
		null = append(null, "n")
	}
	if strings.HasPrefix(s.binary, "base64") {
		null = append(null, "by")
	}
	if s.time == "connect" || s.time == "isostring" {
		null = append(null, "da")
	}
	return null
}

// TestUnchangedLongValues has an update that logs one short column and nothing of the long ones.
func TestUnchangedLongValues(t *testing.T) {
	table := truth(t)["toast"]
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			events, _ := s.told(t, s.topic("toast"))
			if len(events) != 4 {
				t.Fatalf("%d events", len(events))
			}
			read, update, insert, null := events[0], events[1], events[2], events[3]
			for i, c := range table.Columns {
				got, ok := read.After.Get(c.Name)
				v := sample{s, table.Name, c, cdc.OpRead}
				if !ok {
					t.Errorf("the snapshot lacks %s", c.Name)
				} else if err := v.check(table.Rows[0][i], v.fromText(got)); s.schemas && err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
			var unavailable []string
			for _, c := range table.Columns[2:] {
				got, ok := update.After.Get(c.Name)
				isNull := slices.Contains(s.nullInToast(), c.Name)
				switch {
				case isNull && (!ok || got != nil || update.Unavailable(c.Name)):
					t.Errorf("%s: %v, unavailable: %t", c.Name, got, update.Unavailable(c.Name))
				case !isNull && ok:
					t.Errorf("%s is in the row: %.80v", c.Name, got)
				}
				if !isNull {
					unavailable = append(unavailable, c.Name)
				}
			}
			slices.Sort(unavailable)
			if got := update.UnavailableColumns(); !slices.Equal(got, unavailable) {
				t.Errorf("unavailable: %v, want %v", got, unavailable)
			}
			if title, _ := update.After.Get("title"); title != "b" {
				t.Errorf("title: %v", title)
			}
			if changed, known := update.Changed(); known {
				t.Errorf("changed: %v", changed)
			}
			// What is stored keeps what the event does not have.
			stored := slices.Clone(*read.After)
			update.Merge(&stored)
			for _, name := range unavailable {
				before, _ := read.After.Get(name)
				if after, ok := stored.Get(name); !ok || !reflect.DeepEqual(after, before) {
					t.Errorf("%s is lost by Merge", name)
				}
			}
			if title, _ := stored.Get("title"); title != "b" {
				t.Errorf("title after Merge: %v", title)
			}
			for _, e := range []cdc.Event[cdc.Row]{insert, null} {
				if e.UnavailableColumns() != nil {
					t.Errorf("of a row with true nulls are unavailable: %v", e.UnavailableColumns())
				}
			}
		})
	}
}

// line is what the tests below look at.
type line struct {
	op                 cdc.Op
	key, old, becoming string
	changed            string
}

func lineOf(e cdc.Event[cdc.Row]) line {
	changed, known := e.Changed()
	text := strings.Join(changed, " ")
	if !known {
		text = "?"
	}
	return line{e.Op, keyText(e.Key), keyText(e.OldKey), keyText(e.NewKey), text}
}

func keyText(key cdc.Key) string {
	var parts []string
	for _, c := range key {
		parts = append(parts, fmt.Sprint(c.Value))
	}
	return strings.Join(parts, " ")
}

// TestKeyChanges follows two rows through a change of their keys: one with the whole row before in the log, one without.
func TestKeyChanges(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			update := "title"
			if s.flat {
				update = "?" // there is no row before
			}
			for table, want := range map[string][]line{
				"toast_full": {
					{cdc.OpCreate, "1", "", "", "id title body"},
					{cdc.OpUpdate, "1", "", "", update},
					{cdc.OpDelete, "1", "", "2", "?"},
					{cdc.OpTombstone, "1", "", "", "?"},
					{cdc.OpCreate, "2", "1", "", "id title body"},
					{cdc.OpDelete, "2", "", "", "?"},
					{cdc.OpTombstone, "2", "", "", "?"},
				},
				"composite_key": {
					{cdc.OpCreate, "acme 1", "", "", "tenant sku qty"},
					{cdc.OpCreate, "acme 2", "", "", "tenant sku qty"},
					{cdc.OpUpdate, "acme 1", "", "", "?"},
					{cdc.OpDelete, "acme 2", "", "acme 3", "?"},
					{cdc.OpTombstone, "acme 2", "", "", "?"},
					{cdc.OpCreate, "acme 3", "acme 2", "", "tenant sku qty"},
					{cdc.OpDelete, "acme 3", "", "", "?"},
					{cdc.OpTombstone, "acme 3", "", "", "?"},
					{cdc.OpTruncate, "", "", "", "?"},
				},
				"no_key": {
					{cdc.OpCreate, "", "", "", "a b"},
					{cdc.OpCreate, "", "", "", "a b"},
					{cdc.OpTruncate, "", "", "", "?"},
				},
			} {
				events, _ := s.told(t, s.topic(table))
				var got []line
				for _, e := range events {
					got = append(got, lineOf(e))
				}
				if s.flat {
					want = slices.DeleteFunc(want, func(l line) bool { return l.op == cdc.OpTruncate }) // the transformation drops it
				}
				// The topic is ordered by key alone: batches are a key's.
				order := func(a, b line) int { return strings.Compare(a.key, b.key) }
				slices.SortStableFunc(got, order)
				slices.SortStableFunc(want, order)
				if !slices.Equal(got, want) {
					t.Errorf("%s: got\n%v\nwant\n%v", table, got, want)
				}
			}
		})
	}
}

// TestKeysOfManyTypes has one key of seven columns in four messages: whatever the mode, it is the same key in all of them.
func TestKeysOfManyTypes(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			events, _ := s.told(t, s.topic("keys"))
			if len(events) != 4 {
				t.Fatalf("%d events", len(events))
			}
			for i, op := range []cdc.Op{cdc.OpRead, cdc.OpUpdate, cdc.OpDelete, cdc.OpTombstone} {
				e := events[i]
				if e.Op != op || len(e.Key) != 7 || !reflect.DeepEqual(e.Key, events[0].Key) {
					t.Errorf("event %d: %c, key %v", i, e.Op, e.Key)
				}
			}
			id, _ := events[0].Key.Get("i8")
			text, _ := events[0].Key.Get("t")
			if id != int64(9007199254740993) || text != `k "1"` {
				t.Errorf("key %v", events[0].Key)
			}
			if price, _ := events[0].Key.Get("n"); s.schemas && price != "12.50" && s.decimal != "double" {
				t.Errorf("the key's decimal is %v", price)
			}
		})
	}
}

func TestLogicalMessages(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			events, _ := s.told(t, s.prefix()+".message")
			if len(events) != 3 {
				t.Fatalf("%d messages", len(events))
			}
			for i, want := range []string{"in a transaction", "\x00\xff", ""} {
				e := events[i]
				if e.Op != cdc.OpMessage || e.Message == nil || string(e.Message.Content) != want || e.Source.LSN == 0 || (e.Source.TxID == 0) != (i == 1) {
					t.Errorf("message %d: %c %+v, %+v", i, e.Op, e.Message, e.Source)
				}
			}
			if events[0].Message.Prefix != "app" || events[2].Message.Prefix != "end" {
				t.Errorf("prefixes %q, %q", events[0].Message.Prefix, events[2].Message.Prefix)
			}
		})
	}
}

// TestOtherRecords counts the events of every transaction, and compares with what its end says.
func TestOtherRecords(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			_, boundaries := s.told(t, s.prefix()+".transaction")
			begun := map[string]bool{}
			for _, b := range boundaries {
				if b.Kind != cdc.KindTransaction || b.Transaction == nil || b.Time.IsZero() {
					t.Fatalf("%+v", b)
				}
				switch x := b.Transaction; {
				case !x.End:
					begun[x.ID] = true
				default:
					sum := int64(0)
					for _, n := range x.Collections {
						sum += n
					}
					if sum > x.Events || x.Events == 0 {
						t.Errorf("%+v", x)
					}
				}
			}
			if len(begun) < 10 {
				t.Errorf("%d transactions", len(begun))
			}
			_, beats := s.told(t, "__debezium-heartbeat."+s.prefix())
			for _, b := range beats {
				if b.Kind != cdc.KindHeartbeat || b.Time.IsZero() {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}
