package cdc

import (
	"strings"
	"testing"
)

func TestPositionCompare(t *testing.T) {
	at := func(epoch uint32, lsn uint64, offset string) Position { return Position{epoch, lsn, offset} }
	for _, tc := range []struct {
		name       string
		p, q       Position
		want       int
		comparable bool
	}{
		{"epoch before lsn", at(1, 900, "a"), at(2, 1, "a"), -1, true},
		{"epoch without lsn", at(3, 0, ""), at(2, 900, "z"), 1, true},
		{"lsn before offset", at(0, 900, "a"), at(0, 800, "z"), 1, true},
		{"lsn without offsets", at(0, 1, ""), at(0, 2, ""), -1, true},
		{"lsn beyond int64", at(0, 1<<63, ""), at(0, 1<<63+1, ""), -1, true},
		{"equal lsn, offset decides", at(0, 500, "01"), at(0, 500, "02"), -1, true},
		{"equal lsn, equal offset", at(0, 500, "01"), at(0, 500, "01"), 0, true},
		{"equal lsn, no offsets", at(0, 500, ""), at(0, 500, ""), 0, true},
		{"equal lsn, one offset", at(0, 500, "01"), at(0, 500, ""), 0, false},
		{"one lsn, offset decides", at(0, 900, "01"), at(0, 0, "02"), -1, true},
		{"one lsn, one offset", at(0, 900, ""), at(0, 0, "02"), 0, false},
		{"no lsn, offset decides", at(0, 0, "02"), at(0, 0, "01"), 1, true},
		{"bytewise", at(0, 0, "0a"), at(0, 0, "0f"), -1, true},
		{"nothing known", Position{}, Position{}, 0, false},
	} {
		if got, ok := tc.p.Compare(tc.q); got != tc.want || ok != tc.comparable {
			t.Errorf("%s: got %d, %v", tc.name, got, ok)
		}
		if got, ok := tc.q.Compare(tc.p); got != -tc.want || ok != tc.comparable {
			t.Errorf("%s, reversed: got %d, %v", tc.name, got, ok)
		}
	}
}

// TestEventPositions: what bug reports of other consumers say about dropped events.
func TestEventPositions(t *testing.T) {
	d := newDecoder[Row](t, Options{Epoch: 2})
	at := func(op, source, offset string) Position {
		t.Helper()
		e, err := d.Decode(Record{Key: `{"id":7}`, Offset: offset, Value: []byte(`{"op":"` + op + `","before":{"id":7},"after":{"id":7},"source":` + source + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		return e.Position()
	}
	for _, tc := range []struct {
		name        string
		first, next Position
	}{
		{"delete and create of a key change share an LSN", at("d", `{"lsn":500}`, "01"), at("c", `{"lsn":500}`, "02")},
		{"equal sequence", at("u", `{"lsn":5,"sequence":"[\"5\",\"5\"]"}`, "01"), at("u", `{"lsn":9,"sequence":"[\"5\",\"5\"]"}`, "02")},
		{"an incremental snapshot is no LSN 0", at("u", `{"lsn":900}`, "01"), at("r", `{"snapshot":"incremental","lsn":null,"txId":null}`, "02")},
		{"a change after an incremental snapshot", at("r", `{"snapshot":"incremental"}`, "01"), at("u", `{"lsn":900}`, "02")},
		{"no LSN at all", at("u", `{"ts_ms":1}`, "01"), at("u", `{"ts_ms":1}`, "02")},
	} {
		if order, known := tc.first.Compare(tc.next); order != -1 || !known || tc.first.Epoch != 2 {
			t.Errorf("%s: %v and %v: %d, %v", tc.name, tc.first, tc.next, order, known)
		}
	}
	// A redelivered, older change has the older LSN, wherever it is in the topic.
	if order, known := at("u", `{"lsn":800}`, "09").Compare(at("u", `{"lsn":900}`, "01")); order != -1 || !known {
		t.Errorf("a repeated change: %d, %v", order, known)
	}
}

func TestPositionText(t *testing.T) {
	positions := []Position{
		{}, {Epoch: 1, LSN: 70398112, Offset: "00000000000000010000000000000002ffff"}, {1<<32 - 1, 1<<64 - 1, "x-y"}, {0, 0, "-"},
	}
	for _, p := range positions {
		text := p.String()
		back, err := ParsePosition(text)
		if err != nil || back != p {
			t.Errorf("%q: %+v, %v", text, back, err)
		}
	}
	if got, want := positions[1].String(), "00000001-00000000043230a0-00000000000000010000000000000002ffff"; got != want {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{
		"", "1-2-3", "00000000-0000000000000000", "0000000g-0000000000000000-", "00000000-00000000000000_0-", "+0000000-0000000000000000-",
		"0000000A-0000000000000000-", "00000000_0000000000000000-", "00000000-0000000000000000_",
	} {
		if p, err := ParsePosition(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %+v, %v", bad, p, err)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("00000001-0000000004323220-0001")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePosition(text); err == nil && p.String() != text {
			t.Errorf("%q became %q", text, p)
		}
	})
}
