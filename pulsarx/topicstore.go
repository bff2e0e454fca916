package pulsarx

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// TopicStoreOptions configure a TopicStore. Topic is required.
type TopicStoreOptions struct {
	// Topic is what the names of the store's topics begin with; a short name is persistent://public/default/name. Their namespace needs
	// no retention.
	Topic string
	// ChunkBytes is the size of the messages that a checkpoint is cut into; 1 MiB by default. With 1 KiB more, the broker's
	// maxMessageSize must allow it.
	ChunkBytes int
	// CompactAfter is how many bytes of checkpoints a topic gets until it is compacted, 64 MiB by default, and at least four times the
	// size of the last one. -1 leaves that to the compactionThreshold of the namespace.
	CompactAfter int64
}

func (o TopicStoreOptions) withDefaults() TopicStoreOptions {
	o.Topic = fullTopic(o.Topic)
	o.ChunkBytes = cmp.Or(o.ChunkBytes, 1<<20)
	o.CompactAfter = cmp.Or(o.CompactAfter, 64<<20)
	return o
}

func (o TopicStoreOptions) validate(c *Client) error {
	var errs []error
	if o.Topic == "" {
		errs = append(errs, errors.New("TopicStoreOptions.Topic is missing"))
	}
	if nonPersistent(o.Topic) {
		errs = append(errs, fmt.Errorf("TopicStoreOptions.Topic: %w: %s keeps nothing", ErrNonPersistent, o.Topic))
	}
	if o.ChunkBytes < 0 {
		errs = append(errs, fmt.Errorf("TopicStoreOptions.ChunkBytes is %d", o.ChunkBytes))
	}
	if o.CompactAfter < -1 {
		errs = append(errs, fmt.Errorf("TopicStoreOptions.CompactAfter is %d", o.CompactAfter))
	}
	if c.options.AdminURL == "" {
		errs = append(errs, errors.New("ClientOptions.AdminURL is missing: TopicStore has its topics compacted"))
	}
	return errors.Join(errs...)
}

// TopicStore keeps checkpoints in compacted topics, so that they survive the machine: whichever process a partition moves to finds its
// state. It is safe for concurrent use, by several processes too.
//
// Each name has a topic of its own, made when it is first used, with Pulsar's own subscription for compaction, which keeps it from being
// trimmed. A checkpoint, of any size, is streamed to it in chunks, with a few of them in memory. Save and Claim hold the topic
// meanwhile, as its exclusive producer, and wait up to two minutes for another holder; the broker lets nothing in that such a producer
// sends when its connection is lost. A checkpoint counts when all of it is there: a crash between two chunks leaves the one before.
//
// What checkpoints were replaced is garbage until the topic is compacted (CompactAfter), and takes disk until the broker closes the
// ledgers that it is in, some ten minutes to hours after: a checkpoint of 100 MB every 10 s writes 36 GB an hour, so choose
// StatefulOptions.Interval by the size of the state, or StatefulOptions.Incremental.
//
// Errors of connections and of the broker have a method Temporary() bool that is true: RunStateful then begins again from the last
// checkpoint, and ends with others, as of a missing permission.
type TopicStore struct {
	client  *Client
	options TopicStoreOptions

	mu       sync.Mutex
	prepared map[string]bool // topics that are there
}

// NewTopicStore checks the options. The client, which the store goes on using, needs ClientOptions.AdminURL.
func NewTopicStore(c *Client, o TopicStoreOptions) (*TopicStore, error) {
	if err := o.validate(c); err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	return &TopicStore{client: c, options: o.withDefaults(), prepared: map[string]bool{}}, nil
}

// Load opens the newest checkpoint. Reading it ends with ctx at the latest, with an error where it is replaced meanwhile and gone.
func (s *TopicStore) Load(ctx context.Context, name string) (io.ReadCloser, uint64, error) {
	topic := s.topic(name)
	err := s.prepare(ctx, topic)
	if err != nil {
		return nil, 0, checkpointError("load", name, err)
	}
	h, err := s.head(ctx, topic)
	if err != nil {
		return nil, 0, checkpointError("load", name, err)
	}
	return s.open(ctx, topic, h), h.Generation, nil
}

// Claim opens the newest checkpoint under a generation above all before, which Save refuses from now on. Reading it ends with ctx at
// the latest.
func (s *TopicStore) Claim(ctx context.Context, name string) (io.ReadCloser, uint64, error) {
	var h topicHead
	err := s.hold(ctx, name, func(ctx context.Context, w *topicWriter) error {
		h = w.head
		h.Generation++
		return w.setHead(ctx, h)
	})
	if err != nil {
		return nil, 0, checkpointError("claim", name, err)
	}
	return s.open(ctx, s.topic(name), h), h.Generation, nil
}

// Save sends the checkpoint beside the old one, and replaces that when all of it is stored. After an error it may still have done so.
func (s *TopicStore) Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	return checkpointError("save", name, s.change(ctx, name, generation, func(ctx context.Context, w *topicWriter) (topicHead, error) {
		return w.save(ctx, write)
	}))
}

// Append adds to the checkpoint, which counts with it when all of it is stored. After an error it may have done so, or need a Save.
func (s *TopicStore) Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	return checkpointError("append to", name, s.change(ctx, name, generation, func(ctx context.Context, w *topicWriter) (topicHead, error) {
		return w.append(ctx, write)
	}))
}

// change makes the head that f returns the one that counts, if the generation is not fenced.
func (s *TopicStore) change(ctx context.Context, name string, generation uint64,
	f func(context.Context, *topicWriter) (topicHead, error),
) error {
	compact := false
	err := s.hold(ctx, name, func(ctx context.Context, w *topicWriter) error {
		if generation < w.head.Generation {
			return fmt.Errorf("%w: generation %d, not %d", ErrFenced, w.head.Generation, generation)
		}
		h, err := f(ctx, w)
		if err != nil {
			return err
		}
		h.Generation = generation
		if limit := s.options.CompactAfter; limit >= 0 && h.Since >= max(limit, 4*h.Bytes) {
			h.Since, compact = 0, true
		}
		return w.setHead(ctx, h)
	})
	if err == nil && compact {
		s.compact(ctx, s.topic(name))
	}
	return err
}

// compact asks for a compaction. Where that fails, another save asks again, later.
func (s *TopicStore) compact(ctx context.Context, topic string) {
	err := s.client.Admin(ctx, http.MethodPut, topicPath(topic)+"/compaction", nil, nil)
	if l := s.client.options.Logger; l != nil && err != nil && admin.Status(err) != http.StatusConflict { // it runs already
		l.Warn("pulsarx: a topic of checkpoints is not compacted", "topic", topic, "error", err)
	}
}

// topic is that of a name: no two names have the same one, and none looks like a partition of another.
func (s *TopicStore) topic(name string) string {
	var text strings.Builder
	text.WriteString(s.options.Topic + "-")
	for _, b := range []byte(name) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '.' {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, "-%02X", b)
		}
	}
	return text.String()
}

// prepare makes a topic, and has it compacted once, whatever is in it: with that, Pulsar makes the subscription without which it would
// delete what is stored.
func (s *TopicStore) prepare(ctx context.Context, topic string) error {
	s.mu.Lock()
	prepared := s.prepared[topic]
	s.mu.Unlock()
	if prepared {
		return nil
	}
	path := topicPath(topic)
	for _, rest := range []string{"", "/compaction"} {
		err := s.client.Admin(ctx, http.MethodPut, path+rest, nil, nil)
		if status := admin.Status(err); err != nil && status != http.StatusConflict {
			return adminTemporary(err, status)
		}
	}
	for deadline := time.Now().Add(s.client.options.Pulsar.OperationTimeout); ; {
		var subscriptions []string
		err := s.client.Admin(ctx, http.MethodGet, path+"/subscriptions", nil, &subscriptions)
		if err != nil {
			return adminTemporary(err, admin.Status(err))
		}
		if len(subscriptions) > 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.prepared[topic] = true
			return nil
		}
		if time.Now().After(deadline) {
			return connectionError{fmt.Errorf("%s has no subscription for compaction", topic)}
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func adminTemporary(err error, status int) error {
	if status >= 400 && status < 500 {
		return err
	}
	return connectionError{err}
}

// A topic has chunks of checkpoints, and heads. A checkpoint is written under the keys of one of two slots, 0/0, 0/1 ... or 1/0, 1/1 ...,
// the one that does not have the checkpoint that counts; then a head, of the key head, says that this one counts. So the chunks of the
// one that counts are always the newest of their keys, and compaction leaves them. What is appended goes on in its slot. Every message
// has the head that counts with it in a property, so that the last message tells it, also where a save was cut off. None is a
// tombstone: it would not be left at the end.

const (
	headKey      = "head"
	headProperty = "head"
	saveProperty = "save"
	headVersion  = 2 // of a checkpoint that was appended to, which version 1 did not know
	maxChunks    = 1 << 24
)

// topicHead is the state of a name.
type topicHead struct {
	Version    int    `json:"version"`
	Generation uint64 `json:"generation"`
	// Save names the checkpoint that counts, empty before the first one. It is in Slot, from the message at the offset First to the one
	// at Last, if Chunks is not 0.
	Save   string `json:"save,omitempty"`
	Slot   int    `json:"slot"`
	Chunks int    `json:"chunks"`
	Bytes  int64  `json:"bytes"`
	First  string `json:"first,omitempty"`
	Last   string `json:"last,omitempty"`
	// Held are the chunks that each slot has, of whatever save.
	Held [2]int `json:"held"`
	// Since is how many bytes have been saved since compaction was asked for.
	Since int64 `json:"since"`
}

func (s *TopicStore) readerOptions(topic string, queue int) pulsar.ReaderOptions {
	return pulsar.ReaderOptions{
		Topic: topic, ReadCompacted: true, ReceiverQueueSize: queue, Decryption: s.client.decryption(),
	}
}

// head reads the last message of a topic.
func (s *TopicStore) head(ctx context.Context, topic string) (topicHead, error) {
	h := topicHead{Version: 1}
	r := &partitionReader{client: s.client, partition: parsePartition(topic), options: s.readerOptions(topic, 1)}
	var err error
	r.last, err = again(ctx, s.client, func() (MessageID, error) { return s.client.lastID(ctx, r.options) })
	if err != nil {
		return h, connectionError{err}
	}
	if r.last.EntryID() < 0 {
		return h, nil
	}
	m, err := r.lastMessage(ctx)
	if err != nil {
		return h, connectionError{err}
	}
	if err := json.Unmarshal([]byte(m.Properties()[headProperty]), &h); err != nil {
		return h, fmt.Errorf("%s holds what is no checkpoint's, at %v", topic, m.ID())
	}
	if h.Version < 1 || h.Version > headVersion {
		return h, fmt.Errorf("checkpoint of version %d, which is not known here", h.Version)
	}
	if slot, index, chunk := strings.Cut(m.Key(), "/"); chunk { // of a save that was cut off
		n, err := strconv.Atoi(index)
		if err != nil || slot != "0" && slot != "1" {
			return h, fmt.Errorf("%s holds what is no checkpoint's, at %v", topic, m.ID())
		}
		at := truths(slot == "1")
		h.Held[at] = max(h.Held[at], n+1)
	}
	for _, n := range []int{h.Chunks, h.Held[0], h.Held[1]} {
		if n < 0 || n > maxChunks {
			return h, fmt.Errorf("%s has a checkpoint of %d chunks", topic, n)
		}
	}
	if h.Slot != 0 && h.Slot != 1 {
		return h, fmt.Errorf("%s has a checkpoint in slot %d", topic, h.Slot)
	}
	return h, nil
}

func chunkKey(slot, index int) string { return strconv.Itoa(slot) + "/" + strconv.Itoa(index) }

// open reads the checkpoint that counts, nil where there is none.
func (s *TopicStore) open(ctx context.Context, topic string, h topicHead) io.ReadCloser {
	if h.Save == "" {
		return nil
	}
	reading, stop := context.WithCancel(ctx)
	in, out := io.Pipe()
	c := &chunkReader{in, stop, make(chan struct{})}
	go func() {
		defer close(c.done)
		out.CloseWithError(s.read(reading, topic, h, out)) // nil is the end
	}()
	return c
}

// chunkReader is what another goroutine reads from a topic.
type chunkReader struct {
	*io.PipeReader
	stop context.CancelFunc
	done chan struct{}
}

func (c *chunkReader) Close() error {
	c.stop()
	err := c.PipeReader.Close()
	<-c.done
	return err
}

func (s *TopicStore) read(ctx context.Context, topic string, h topicHead, out io.Writer) error {
	if h.Chunks == 0 {
		return nil
	}
	const queue = 4
	r := &partitionReader{client: s.client, partition: parsePartition(topic), options: s.readerOptions(topic, queue), first: h.First}
	for _, place := range []struct {
		id     *MessageID
		offset string
	}{{&r.start, h.First}, {&r.last, h.Last}} {
		ledger, entry, _, err := parseOffset(place.offset)
		if err != nil {
			return err
		}
		*place.id = r.id(ledger, entry)
	}
	next := 0
	var failed error // of who reads
	err := r.read(ctx, func(m pulsar.Message) error {
		if m.Properties()[saveProperty] != h.Save {
			return nil
		}
		if m.Key() != chunkKey(h.Slot, next) {
			return fmt.Errorf("%w: chunk %s of a checkpoint follows %d others", ErrGap, m.Key(), next)
		}
		next++
		_, failed = out.Write(m.Payload())
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return connectionError{err}
	case next != h.Chunks:
		return connectionError{fmt.Errorf("%w: %d chunks of a checkpoint, of %d", ErrGap, next, h.Chunks)}
	}
	return nil
}
