package pulsarx

import (
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// TestRemaining: the estimates of what is left, of a partition and of all.
func TestRemaining(t *testing.T) {
	began := time.UnixMilli(1_000_000)
	at := func(ledger, entry int64, batch int32) MessageID { return pulsar.NewMessageID(ledger, entry, batch, 0) }
	read := func(id MessageID, count, entries int64) *partitionReader {
		return &partitionReader{
			last: at(7, 10, 3), at: id, count: count, entries: entries, firstTime: began.Add(-100 * time.Second), published: began.Add(-75 * time.Second),
		}
	}
	to := read(at(6, 4, 0), 50, 50)
	to.to = At(began.Add(-25 * time.Second))
	late := read(at(6, 4, 0), 50, 50)
	late.published = began.Add(time.Second)
	once := read(at(6, 4, 0), 1, 1)
	once.firstTime = once.published
	for name, test := range map[string]struct {
		reader *partitionReader
		want   int64
	}{
		"nothing to read":                  {&partitionReader{empty: true}, 0},
		"not begun":                        {&partitionReader{}, -1},
		"entries of three":                 {read(at(7, 4, 2), 15, 5), 18},
		"an entry a message":               {read(at(7, 4, -1), 5, 5), 6},
		"within the last entry":            {read(at(7, 10, 1), 15, 5), 2},
		"at the end":                       {read(at(7, 10, 3), 15, 5), 0},
		"in another ledger, by time":       {read(at(6, 4, 0), 50, 50), 150},
		"to a time":                        {to, 100},
		"published after the beginning":    {late, 0},
		"another ledger, and no time yet":  {once, -1},
		"behind the end, which was passed": {read(at(7, 11, 0), 15, 5), 0},
	} {
		if got := test.reader.remaining(began); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	unknown, half := &partitionReader{}, read(at(7, 4, 2), 15, 5)
	for _, test := range []struct {
		readers []*partitionReader
		want    int64
	}{
		{[]*partitionReader{unknown}, -1},
		{[]*partitionReader{half, half}, 36},
		{[]*partitionReader{half, unknown, unknown}, 18 + 2*(18+15)}, // those that have not begun are as long as this one
	} {
		r := &replay[string]{began: began, readers: test.readers, count: 15}
		if got := r.remaining(); got != test.want {
			t.Errorf("%d partitions: %d, want %d", len(test.readers), got, test.want)
		}
	}
}
