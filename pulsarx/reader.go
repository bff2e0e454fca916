package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// readerPatience is how long a reader waits for a message before it asks whether there still is one.
const readerPatience = 10 * time.Second

// partitionReader reads one partition up to the end that it had.
type partitionReader struct {
	partition *partition
	url       string
	reader    pulsar.Reader // nil where there is nothing to read
	first     string        // offsets before it are passed over
	to        Position
	last      MessageID // the end
	order     readOrder

	mu      sync.Mutex // guards what follows, which read and remaining use
	at      MessageID  // the last message handled
	count   int64
	entries int64 // that those messages were in
}

// openReader places a reader and takes down where the partition ends. The end is asked for before anything is read, and is a
// message, not the client's HasNext, which answers an error with "no".
func (c *Client) openReader(ctx context.Context, name string, o ReplayOptions) (*partitionReader, error) {
	r := &partitionReader{partition: parsePartition(name), url: c.options.URL, to: o.To}
	options := pulsar.ReaderOptions{Topic: name, StartMessageID: pulsar.EarliestMessageID(), StartMessageIDInclusive: true}
	after := o.From.offsetOf(name)
	if after != "" {
		ledger, entry, _, err := parseOffset(after)
		if err != nil {
			return nil, err
		}
		// The whole entry, of which read passes over the beginning: this way it does not matter how the broker counts in a batch.
		options.StartMessageID = pulsar.NewMessageID(ledger, entry, -1, int32(max(r.partition.index, 0)))
		r.first = nextOffset(after)
	}
	reader, err := open(ctx, c, "reader of "+name,
		func() (pulsar.Reader, error) { return c.pulsar.CreateReader(options) }, pulsar.Reader.Close)
	if err != nil {
		return nil, err
	}
	r.last, err = open(ctx, c, "end of "+name,
		func() (MessageID, error) { return reader.GetLastMessageID() }, func(MessageID) {})
	if err != nil {
		reader.Close()
		return nil, err
	}
	empty := r.last.EntryID() < 0 || after != "" && !r.beyond(after)
	if !empty && !o.From.time.IsZero() {
		empty, err = c.seek(ctx, r, reader, o.From.time)
	}
	if empty || err != nil {
		reader.Close()
		return r, err
	}
	r.reader = reader
	return r, nil
}

// beyond reports whether there is anything behind the offset.
func (r *partitionReader) beyond(after string) bool {
	ledger, entry, batch, err := parseOffset(after)
	if err != nil || r.last.LedgerID() != ledger {
		return r.last.LedgerID() > ledger
	}
	return r.last.EntryID() > entry || r.last.EntryID() == entry && r.last.BatchIdx() > batch
}

// seek places the reader at the first message published at t or later, and reports whether there is none: then the last message
// is older. Asking that message is the one way to know that does not depend on a message that never comes.
func (c *Client) seek(ctx context.Context, r *partitionReader, reader pulsar.Reader, t time.Time) (none bool, err error) {
	last, err := c.lastMessage(ctx, r)
	if err != nil || last.PublishTime().UnixMilli() < t.UnixMilli() {
		return err == nil, err
	}
	if t.UnixMilli() <= 0 {
		return false, nil
	}
	what := "seeking " + r.partition.name
	_, err = open(ctx, c, what, func() (struct{}, error) { return struct{}{}, reader.SeekByTime(t) }, func(struct{}) {})
	return false, err
}

// lastMessage reads the message at the end.
func (c *Client) lastMessage(ctx context.Context, r *partitionReader) (pulsar.Message, error) {
	what := "reader of " + r.partition.name
	start := pulsar.NewMessageID(r.last.LedgerID(), r.last.EntryID(), -1, int32(max(r.partition.index, 0)))
	reader, err := open(ctx, c, what, func() (pulsar.Reader, error) {
		return c.pulsar.CreateReader(pulsar.ReaderOptions{
			Topic: r.partition.name, StartMessageID: start, StartMessageIDInclusive: true,
			Decryption: c.decryption(),
		})
	}, pulsar.Reader.Close)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, c.options.Pulsar.OperationTimeout)
	defer cancel()
	for {
		m, err := reader.Next(ctx)
		if err != nil {
			return nil, clientError(what, c.options.URL, err)
		}
		if r.ends(m.ID()) {
			return m, nil
		}
	}
}

// ends reports whether a message is the end, or behind it. The end may name no place in its batch: then it is the batch's last.
func (r *partitionReader) ends(id MessageID) bool {
	switch {
	case id.LedgerID() != r.last.LedgerID():
		return id.LedgerID() > r.last.LedgerID()
	case id.EntryID() != r.last.EntryID():
		return id.EntryID() > r.last.EntryID()
	case r.last.BatchIdx() < 0:
		return id.BatchIdx() < 0 || id.BatchIdx() >= id.BatchSize()-1
	}
	return id.BatchIdx() < 0 || id.BatchIdx() >= r.last.BatchIdx()
}

// behind reports whether a message is behind the end.
func (r *partitionReader) behind(id MessageID) bool {
	end := r.last.BatchIdx()
	if end < 0 {
		end = math.MaxInt32
	}
	return offset(id) > offset(pulsar.NewMessageID(r.last.LedgerID(), r.last.EntryID(), end, 0))
}

// read sends the messages to out, up to the end.
func (r *partitionReader) read(ctx context.Context, out chan<- replayed) error {
	if r.reader == nil {
		return nil
	}
	end := r.to.offsetOf(r.partition.name)
	for {
		m, err := r.next(ctx)
		if err != nil || m == nil {
			return err
		}
		id := m.ID()
		if r.behind(id) {
			return nil
		}
		at := offset(id)
		if again, err := r.order.check(at); err != nil {
			return fmt.Errorf("reading %s: %w", r.partition.name, err)
		} else if again {
			continue
		}
		wanted := at >= r.first && (end == "" || at <= end) &&
			(r.to.time.IsZero() || m.PublishTime().UnixMilli() < r.to.time.UnixMilli())
		if wanted {
			select {
			case out <- replayed{r, m}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if r.ends(id) || end != "" && at >= end {
			return nil
		}
	}
}

// next waits for the next message. Where none comes for long it asks the broker whether the end is still there: an error of the
// connection is returned by that, and what was trimmed meanwhile is ErrGap.
func (r *partitionReader) next(ctx context.Context) (pulsar.Message, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, readerPatience)
		m, err := r.reader.Next(waiting)
		cancel()
		switch {
		case err == nil:
			return m, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return nil, clientError("reading "+r.partition.name, r.url, err)
		}
		more := r.reader.HasNext()
		if _, err := r.reader.GetLastMessageID(); err != nil {
			return nil, clientError("reading "+r.partition.name, r.url, err)
		}
		if !more && !r.reader.HasNext() {
			return nil, fmt.Errorf("%w: %s ends before %d:%d", ErrGap, r.partition.name, r.last.LedgerID(), r.last.EntryID())
		}
	}
}

func (r *partitionReader) close() {
	if r.reader != nil {
		r.reader.Close()
	}
}

// handled takes down how far the handler is.
func (r *partitionReader) handled(id MessageID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || r.at.EntryID() != id.EntryID() || r.at.LedgerID() != id.LedgerID() {
		r.entries++
	}
	r.at = id
	r.count++
}

// remaining estimates the messages to the end, -1 where that cannot be said.
func (r *partitionReader) remaining() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reader == nil:
		return 0
	case r.at == nil || r.at.LedgerID() != r.last.LedgerID():
		return -1
	}
	perEntry := float64(r.count) / float64(r.entries)
	n := float64(max(r.last.EntryID()-r.at.EntryID(), 0)) * perEntry
	if r.at.EntryID() == r.last.EntryID() {
		n = float64(max(r.last.BatchIdx()-max(r.at.BatchIdx(), 0), 0))
	}
	return int64(math.Round(n))
}

// offsetOf is where the position is in a partition, empty for its beginning. A topic without partitions may be named as its
// partition 0: message ids do not tell the two apart.
func (p Position) offsetOf(name string) string {
	if at := p.after[name]; at != "" {
		return at
	}
	return p.after[name+"-partition-0"]
}

// nextOffset is the least text above an offset.
func nextOffset(at string) string { return at + "0" }

// readOrder watches the order of what a reader gives. After a lost connection the client places itself anew, and in rare cases
// has given out messages that stand behind one it dropped: then it goes back.
type readOrder struct {
	last   string
	recent map[string]bool
	ring   []string
	next   int
}

var errWentBack = errors.New("pulsarx: the connection was lost and messages came out of order; resume from the last progress")

// check takes the next offset, and reports whether it was given before. Going back to one that was not is an error.
func (o *readOrder) check(at string) (again bool, err error) {
	const kept = 4096 // more than a reader prefetches
	if at <= o.last {
		if o.recent[at] {
			return true, nil
		}
		return false, errWentBack
	}
	if o.recent == nil {
		o.recent, o.ring = make(map[string]bool, kept), make([]string, kept)
	}
	delete(o.recent, o.ring[o.next])
	o.ring[o.next], o.recent[at] = at, true
	o.next = (o.next + 1) % kept
	o.last = at
	return false, nil
}
