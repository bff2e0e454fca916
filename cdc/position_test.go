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
