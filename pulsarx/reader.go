package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"google.golang.org/protobuf/encoding/protowire"
)

// chunkReach is how many entries ahead of a place reading begins, so that a message in chunks is whole that is mixed with others: its
// first chunk stands before messages that were complete earlier.
const chunkReach = 100

// patience is how long a reader waits for a message before it is placed anew, and asked whether there still is one.
func (r *partitionReader) patience() time.Duration {
	return r.client.options.Pulsar.OperationTimeout / 2
}

// steadyReader is a reader of pulsar-client-go up to the first loss of its connection. When the client reconnects, it begins behind
// messages that it still held and never gave out, without a word; what it gave out before is without gaps. So a steadyReader ends
// where the client asks for its backoff policy, which it does before it reconnects, and its user opens another one.
type steadyReader struct {
	pulsar.Reader
	mu   sync.Mutex // held by next while it is in the client, whose reconnection races with it
	lost atomic.Bool
	stop context.CancelFunc // of next's context
}

var errReaderLost = errors.New("the connection was lost")

// openSteady opens a reader whose first message is the one at start, or the one behind it. The context that it returns is next's.
func (c *Client) openSteady(ctx context.Context, o pulsar.ReaderOptions, start MessageID) (*steadyReader, context.Context, error) {
	s := &steadyReader{}
	reading, stop := context.WithCancel(ctx)
	s.stop = stop
	o.StartMessageID, o.StartMessageIDInclusive = start, true
	o.BackoffPolicyFunc = func() backoff.Policy {
		s.lost.Store(true)
		stop()
		for range 100 { // not for ever: next may wait for the very goroutine that calls this
			if s.mu.TryLock() {
				s.mu.Unlock()
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return backoff.NewDefaultBackoff()
	}
	reader, err := open(ctx, c, "reader of "+o.Topic,
		func() (pulsar.Reader, error) { return c.pulsar.CreateReader(o) }, pulsar.Reader.Close)
	if err != nil {
		stop()
		return nil, nil, err
	}
	s.Reader = reader
	return s, reading, nil
}

// next returns the next message, errReaderLost, or the error of the client or the context.
func (s *steadyReader) next(ctx context.Context) (pulsar.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.Load() {
		return nil, errReaderLost
	}
	m, err := s.Next(ctx)
	if s.lost.Load() {
		return nil, errReaderLost
	}
	return m, err
}

func (s *steadyReader) close() {
	s.stop()
	s.Close()
}

// lastID asks the broker for the last message of a partition. Its entry is negative where there is none.
func (c *Client) lastID(ctx context.Context, o pulsar.ReaderOptions) (MessageID, error) {
	o.StartMessageID = pulsar.LatestMessageID()
	what := "end of " + o.Topic
	return thrice(func() (MessageID, error) {
		return open(ctx, c, what, func() (MessageID, error) {
			reader, err := c.pulsar.CreateReader(o)
			if err != nil {
				return nil, err
			}
			defer reader.Close()
			return c.ask(reader.GetLastMessageID)
		}, func(MessageID) {})
	})
}

const (
	cmdPartitions         = 21
	cmdPartitionsResponse = 22
)

// missing is ErrNoTopic where the broker says that there is no such topic. pulsar-client-go's own request would create it. A server
// that does not answer this one, as older ones do not, leaves it to the requests that follow.
func (r registry) missing(ctx context.Context, topic string) error {
	body := appendBytes(nil, 1, []byte(topic))
	body = protowire.AppendVarint(protowire.AppendTag(body, 2, protowire.VarintType), 1)
	body = protowire.AppendVarint(protowire.AppendTag(body, 6, protowire.VarintType), 0) // metadata_auto_creation_enabled
	unknown := false
	_ = r.ask(ctx, cmdPartitions, body, cmdPartitionsResponse, func(answer []byte) error {
		fields, err := fields(answer)
		unknown = err == nil && fields[4].number == codeTopicNotFound
		return err
	})
	if unknown {
		return fmt.Errorf("%w: %s at %s", ErrNoTopic, topic, r.options.URL)
	}
	return nil
}

// partitionReader reads one partition up to the end that it had.
type partitionReader struct {
	client    *Client
	partition *partition
	options   pulsar.ReaderOptions
	empty     bool
	start     MessageID // where reading begins
	first     string    // offsets before it are passed over
	since     time.Time // and so is what was published before
	to        Position
	last      MessageID // the end

	mu        sync.Mutex // guards what follows, which read and remaining use
	at        MessageID  // the last message handled
	published time.Time  // its publish time, and the first one's
	firstTime time.Time
	count     int64
	entries   int64 // that those messages were in
}

// openPartition takes down where a partition ends, and where reading begins. The end is asked for before anything is read, and is a
// message, not the client's HasNext, which answers an error with "no".
func (c *Client) openPartition(ctx context.Context, name string, o ReplayOptions, queue int) (*partitionReader, error) {
	r := &partitionReader{
		client: c, partition: parsePartition(name), to: o.To, start: pulsar.EarliestMessageID(),
		options: pulsar.ReaderOptions{
			Topic: name, ReadCompacted: o.Compacted, ReceiverQueueSize: queue, Decryption: c.decryption(),
		},
	}
	var err error
	if r.last, err = again(ctx, c, func() (MessageID, error) { return c.lastID(ctx, r.options) }); err != nil {
		return nil, err
	}
	after := o.From.offsetOf(name)
	switch {
	case r.last.EntryID() < 0 || after != "" && !r.beyond(after):
		r.empty = true
	case after != "":
		r.start, err = r.ahead(after)
		r.first = nextOffset(after)
	case !o.From.time.IsZero() && o.From.time.UnixMilli() > 0:
		err = r.seek(ctx, o.From.time)
	}
	return r, err
}

// ahead is where reading begins to get what stands behind an offset: at its entry or before, since this way it does not matter how
// the broker counts in a batch, and messages in chunks are whole.
func (r *partitionReader) ahead(after string) (MessageID, error) {
	ledger, entry, _, err := parseOffset(after)
	if err != nil {
		return nil, err
	}
	return r.id(ledger, max(entry-chunkReach, 0)), nil
}

func (r *partitionReader) id(ledger, entry int64) MessageID {
	return pulsar.NewMessageID(ledger, entry, -1, int32(max(r.partition.index, 0)))
}

// beyond reports whether there is anything behind the offset.
func (r *partitionReader) beyond(after string) bool {
	ledger, entry, batch, err := parseOffset(after)
	if err != nil || r.last.LedgerID() != ledger {
		return r.last.LedgerID() > ledger
	}
	return r.last.EntryID() > entry || r.last.EntryID() == entry && r.last.BatchIdx() > batch
}

// seek finds the first message published at t or later. That there is none is known from the message at the end, which is the one
// way that does not depend on a message that never comes.
func (r *partitionReader) seek(ctx context.Context, t time.Time) error {
	last, err := r.lastMessage(ctx)
	if err != nil {
		return err
	}
	r.since = t.Truncate(time.Millisecond)
	if last.PublishTime().UnixMilli() < t.UnixMilli() {
		r.empty = true
		return nil
	}
	id, err := again(ctx, r.client, func() (MessageID, error) { return r.seekOnce(ctx, t) })
	switch {
	case err != nil:
		return err
	case id == nil: // read from the beginning, past what is older
	case r.behind(id):
		r.empty = true
	default:
		r.start, r.first = r.id(id.LedgerID(), max(id.EntryID()-chunkReach, 0)), offset(id)
		r.since = time.Time{}
	}
	return nil
}

// seekOnce asks the broker for the place. It is no place to read on from: a seek makes the client reconnect, and a seek that fails
// leaves the client's consumer paused. A reader of the client's would do too, but for a data race between that and Next. Where nothing
// comes although something is there, it returns nil: the place is within a message in chunks.
func (r *partitionReader) seekOnce(ctx context.Context, t time.Time) (MessageID, error) {
	what := "seeking " + r.partition.name
	options := pulsar.ConsumerOptions{
		Topic: r.partition.name, SubscriptionName: fmt.Sprintf("pulsarx-%016x", rand.Uint64()), SubscriptionMode: pulsar.NonDurable,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, ReadCompacted: r.options.ReadCompacted, ReceiverQueueSize: 1,
		Decryption: r.options.Decryption,
	}
	consumer, err := open(ctx, r.client, what,
		func() (pulsar.Consumer, error) { return r.client.pulsar.Subscribe(options) }, pulsar.Consumer.Close)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	if _, err = open(ctx, r.client, what,
		func() (struct{}, error) { return struct{}{}, consumer.SeekByTime(t) }, func(struct{}) {}); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, r.patience())
	defer cancel()
	m, err := consumer.Receive(waiting)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case waiting.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, clientError(what, r.client.options.URL, err)
	case m.PublishTime().UnixMilli() < t.UnixMilli(): // from before the seek, or it has reconnected once more
		return nil, fmt.Errorf("pulsarx: %s: %w", what, errReaderLost)
	}
	return m.ID(), nil
}

// lastMessage reads the message at the end. Where that is the last chunk of a message, reading begins further and further ahead, and
// waits longer: the broker may be slow.
func (r *partitionReader) lastMessage(ctx context.Context) (pulsar.Message, error) {
	deadline := time.Now().Add(2 * r.client.options.Pulsar.OperationTimeout)
	reach, patience := int64(0), r.patience()/8
	for ; ; reach, patience = max(chunkReach, 10*reach), min(2*patience, r.patience()) {
		start := r.id(r.last.LedgerID(), max(r.last.EntryID()-reach, 0))
		if r.last.EntryID() < reach {
			start = pulsar.EarliestMessageID()
		}
		m, err := r.find(ctx, start, patience)
		switch {
		case err == nil:
			return m, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isFinal(err) || time.Now().After(deadline):
			return nil, err
		}
	}
}

// open is Client.openSteady of the partition, again and again.
func (r *partitionReader) open(ctx context.Context, start MessageID) (reader *steadyReader, reading context.Context, err error) {
	reader, err = again(ctx, r.client, func() (reader *steadyReader, err error) {
		reader, reading, err = r.client.openSteady(ctx, r.options, start)
		return reader, err
	})
	return reader, reading, err
}

// find reads from start to the message at the end, as long as one comes after another in time.
func (r *partitionReader) find(ctx context.Context, start MessageID, patience time.Duration) (pulsar.Message, error) {
	what := "end of " + r.partition.name
	reader, reading, err := r.open(ctx, start)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	for {
		timer := time.AfterFunc(patience, reader.stop)
		m, err := reader.next(reading)
		timer.Stop()
		if err != nil {
			return nil, fmt.Errorf("pulsarx: %s at %s: no whole message at %d:%d: %w",
				what, r.client.options.URL, r.last.LedgerID(), r.last.EntryID(), err)
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

// read gives the messages to deliver, up to the end. After a lost connection, or where nothing comes for long, it goes on behind the
// last one with another reader.
func (r *partitionReader) read(ctx context.Context, deliver func(pulsar.Message) error) error {
	if r.empty {
		return nil
	}
	start, at, stalled := r.start, "", 0
	for {
		before := at
		ended, err := r.readFrom(ctx, start, &at, deliver)
		switch {
		case ended || err != nil && !errors.Is(err, errReaderLost) && !errors.Is(err, errStalled):
			return err
		case at != before:
			stalled = 0
		case errors.Is(err, errStalled):
			stalled++
		}
		if err := r.verify(ctx, stalled); err != nil {
			return err
		}
		if at != "" {
			if start, err = r.ahead(at); err != nil {
				return err
			}
		}
	}
}

var errStalled = errors.New("no message came")

// verify asks the broker whether the end is still there, and gives up where that is so and yet nothing comes.
func (r *partitionReader) verify(ctx context.Context, stalled int) error {
	last, err := again(ctx, r.client, func() (MessageID, error) { return r.client.lastID(ctx, r.options) })
	if err != nil && strings.Contains(err.Error(), "TopicNotFound") {
		return fmt.Errorf("%w: %w", r.gap(), err)
	}
	if err != nil {
		return err
	}
	if now := offset(last); last.EntryID() < 0 || now < offset(r.id(r.last.LedgerID(), r.last.EntryID())) {
		return r.gap()
	}
	if stalled >= 2 {
		return fmt.Errorf("%w; or what stands there is no whole message", r.gap())
	}
	return nil
}

func (r *partitionReader) gap() error {
	return fmt.Errorf("%w: %s does not reach %d:%d any more", ErrGap, r.partition.name, r.last.LedgerID(), r.last.EntryID())
}

// readFrom reads with one reader what stands behind at, which it moves along. ended says that there is nothing more to read.
func (r *partitionReader) readFrom(ctx context.Context, start MessageID, at *string, deliver func(pulsar.Message) error) (ended bool, err error) {
	reader, reading, err := r.open(ctx, start)
	if err != nil {
		return false, err
	}
	defer reader.close()
	var stalled atomic.Bool
	patience := time.AfterFunc(r.patience(), func() {
		stalled.Store(true)
		reader.stop()
	})
	defer patience.Stop()
	end := r.to.offsetOf(r.partition.name)
	for {
		patience.Reset(r.patience())
		m, err := reader.next(reading)
		switch {
		case err == nil:
			patience.Stop() // while it is delivered, which takes its time
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, errReaderLost):
			return false, err
		case stalled.Load():
			return false, errStalled
		case r.client.isClosed():
			return false, fmt.Errorf("pulsarx: reading %s: %w", r.partition.name, ErrClosed)
		default:
			return false, clientError("reading "+r.partition.name, r.client.options.URL, err)
		}
		id := m.ID()
		place := offset(id)
		if why := r.locked(m, *at, end); why != nil {
			return false, why
		}
		switch {
		case r.behind(id):
			return false, r.gap() // what was the end has not come
		case place <= *at || place < r.first:
			if place < r.first && r.ends(id) {
				return true, nil
			}
			continue
		}
		if err := r.follows(ctx, place, *at); err != nil {
			return false, err
		}
		if r.wants(m, place, end) {
			if err := deliver(m); err != nil {
				return false, err
			}
		}
		*at = place
		if r.ends(id) || end != "" && place >= end {
			return true, nil
		}
	}
}

// follows says whether nothing was missed between the messages at two offsets. Brokers trim ledgers as wholes, the oldest first: one that is
// still there when the first message of the next one comes was read to its end.
func (r *partitionReader) follows(ctx context.Context, place, at string) error {
	if at == "" || place[:16] == at[:16] || r.options.ReadCompacted {
		return nil
	}
	start, err := r.ahead(at)
	if err != nil {
		return err
	}
	first, err := again(ctx, r.client, func() (MessageID, error) { return r.firstFrom(ctx, start) })
	if err == nil && first.LedgerID() != start.LedgerID() {
		err = fmt.Errorf("%w: %s was trimmed up to %d:%d while it was read", ErrGap, r.partition.name, first.LedgerID(), first.EntryID())
	}
	return err
}

// firstFrom is the first message that the partition has from start on.
func (r *partitionReader) firstFrom(ctx context.Context, start MessageID) (MessageID, error) {
	options := r.options
	options.ReceiverQueueSize = 1
	reader, reading, err := r.client.openSteady(ctx, options, start)
	if err != nil {
		return nil, err
	}
	defer reader.close()
	defer time.AfterFunc(r.patience(), reader.stop).Stop()
	m, err := reader.next(reading)
	if err != nil {
		return nil, clientError("reading "+r.partition.name, r.client.options.URL, err)
	}
	return m.ID(), nil
}

// locked says why a message that is to be delivered, as part of an entry, cannot be decrypted.
func (r *partitionReader) locked(m pulsar.Message, at, end string) error {
	why := r.client.undecrypted(m)
	if why == nil || r.behind(m.ID()) || !r.wants(m, offset(m.ID()), end) {
		return nil
	}
	if last := lastOfEncrypted(m); last <= at || last < r.first {
		return nil
	}
	return why
}

func (r *partitionReader) wants(m pulsar.Message, place, end string) bool {
	published := m.PublishTime().UnixMilli()
	return (!r.options.ReadCompacted || !emptied(m)) && (end == "" || place <= end) &&
		(r.to.time.IsZero() || end != "" || published < r.to.time.UnixMilli()) &&
		(r.since.IsZero() || published >= r.since.UnixMilli())
}

// emptied tells whether compaction has taken a message out of its batch: from the client it comes empty, and without a key.
func emptied(m pulsar.Message) bool {
	return m.Key() == "" && len(m.Payload()) == 0 && m.ID().BatchSize() > 1
}

// handled takes down how far the handler is.
func (r *partitionReader) handled(m pulsar.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := m.ID()
	if r.at == nil || r.at.EntryID() != id.EntryID() || r.at.LedgerID() != id.LedgerID() {
		r.entries++
	}
	if r.at == nil {
		r.firstTime = m.PublishTime()
	}
	r.at, r.published = id, m.PublishTime()
	r.count++
}

// remaining estimates the messages to the end, -1 where that cannot be said: from the entries between and the messages an entry has
// had or, where the end is in another ledger of the broker's, from the messages that the time up to now has had.
func (r *partitionReader) remaining(began time.Time) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.empty:
		return 0
	case r.at == nil:
		return -1
	case r.at.LedgerID() == r.last.LedgerID():
		if r.at.EntryID() == r.last.EntryID() {
			return int64(max(r.last.BatchIdx()-max(r.at.BatchIdx(), 0), 0))
		}
		perEntry := float64(r.count) / float64(r.entries)
		return int64(math.Round(float64(max(r.last.EntryID()-r.at.EntryID(), 0)) * perEntry))
	}
	end := began
	if !r.to.time.IsZero() && r.to.time.Before(end) {
		end = r.to.time
	}
	behind, ahead := r.published.Sub(r.firstTime), end.Sub(r.published)
	if behind <= 0 {
		return -1
	}
	return int64(math.Round(float64(r.count) * max(ahead.Seconds(), 0) / behind.Seconds()))
}

// nextOffset is the least text above an offset.
func nextOffset(at string) string { return at + "0" }
