package pulsarx

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	// holdPatience is how long a topic is waited for that another one holds. A broker notices after a minute that a process has frozen.
	holdPatience = 2 * time.Minute
	// chunksPending are on their way at once.
	chunksPending = 4
)

// topicWriter writes a topic of checkpoints as its exclusive producer.
type topicWriter struct {
	producer *Producer[[]byte]
	size     int       // of a chunk
	head     topicHead // that counts
	about    string    // the same, as it goes with messages

	mu          sync.Mutex // guards what follows, which callbacks set
	first, last MessageID  // of the chunks
	failed      error      // the first of them
}

// hold calls f with the name's topic to itself. The context that f gets ends when the topic is lost.
func (s *TopicStore) hold(ctx context.Context, name string, f func(context.Context, *topicWriter) error) error {
	topic := s.topic(name)
	if err := s.prepare(ctx, topic); err != nil {
		return err
	}
	holding, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	producer, err := s.exclusive(holding, topic, func() { lose(errTopicLost) })
	if err != nil {
		return sendError(ctx, err)
	}
	w := &topicWriter{producer: producer, size: s.options.ChunkBytes}
	defer func() { w.close(ctx, holding) }()
	h, err := s.head(holding, topic)
	if err == nil {
		err = w.know(h)
	}
	if err == nil {
		err = f(holding, w)
	}
	if err != nil && ctx.Err() == nil && holding.Err() != nil {
		return connectionError{errors.Join(errTopicLost, err)}
	}
	return err
}

var errTopicLost = errors.New("pulsarx: the connection to a topic of checkpoints was lost")

// exclusive makes the producer, and waits while there is another one.
func (s *TopicStore) exclusive(ctx context.Context, topic string, lost func()) (*Producer[[]byte], error) {
	options := ProducerOptions[[]byte]{
		Topic: topic, Batching: Batching{MaxMessages: -1}, MaxPending: chunksPending, exclusive: true, lost: lost,
		MaxMessageBytes: 2*s.options.ChunkBytes + 1<<20, // the broker knows its own
	}
	began := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		producer, err := NewProducer(ctx, s.client, Bytes(), options)
		taken := err != nil && (strings.Contains(err.Error(), "ProducerFenced") || strings.Contains(err.Error(), "ProducerBusy"))
		if !taken || time.Since(began) > holdPatience {
			return producer, err
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// close lets the next one in. All that counts has its receipt; what is on its way when the topic was lost does not arrive any more.
func (w *topicWriter) close(ctx, holding context.Context) {
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	if holding.Err() != nil {
		done()
	}
	_ = w.producer.Close(closing)
}

// sendError is an error of a producer: one that passes, but for those that do not.
func sendError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	for _, final := range []error{ErrMessageTooLarge, ErrTopicTerminated, ErrClosed} {
		if errors.Is(err, final) {
			return err
		}
	}
	return connectionError{err}
}

// know takes a head down as the one that counts.
func (w *topicWriter) know(h topicHead) error {
	text, err := json.Marshal(h)
	w.head, w.about = h, string(text)
	return err
}

// setHead makes a head the one that counts.
func (w *topicWriter) setHead(ctx context.Context, h topicHead) error {
	if err := w.know(h); err != nil {
		return err
	}
	_, err := w.producer.Send(ctx, []byte(w.about), Key(headKey), Property(headProperty, w.about))
	if err != nil {
		return sendError(ctx, err)
	}
	return nil
}

// send sends a chunk, of the save or of none.
func (w *topicWriter) send(ctx context.Context, key, save string, chunk []byte) {
	w.producer.SendAsync(ctx, chunk, func(id MessageID, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err != nil:
			w.failed = cmpError(w.failed, err)
		case save == "":
		case w.first == nil:
			w.first, w.last = id, id
		default:
			w.last = id
		}
	}, Key(key), Property(headProperty, w.about), Property(saveProperty, save))
}

// failure is that of a chunk.
func (w *topicWriter) failure(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		return nil
	}
	return sendError(ctx, w.failed)
}

// save sends a checkpoint into the slot that is free, and returns the head that makes it count.
func (w *topicWriter) save(ctx context.Context, write func(io.Writer) error) (topicHead, error) {
	h := w.head
	h.Version, h.Save, h.Slot, h.Chunks, h.Bytes = 1, fmt.Sprintf("%016x", rand.Uint64()), 1-w.head.Slot, 0, 0
	h.First, h.Last = "", ""
	err := w.write(ctx, &h, write)
	if err == nil { // of an older save, which was longer: a byte each is left of them
		for i := h.Chunks; i < w.head.Held[h.Slot]; i++ {
			w.send(ctx, chunkKey(h.Slot, i), "", []byte{0})
		}
		err = w.flush(ctx)
	}
	return w.written(h), err
}

// append sends more of the checkpoint that counts into its slot, and returns the head that makes it count with that.
func (w *topicWriter) append(ctx context.Context, write func(io.Writer) error) (topicHead, error) {
	h := w.head
	if h.Save == "" || h.Held[h.Slot] > h.Chunks { // what was cut off would be read with what comes now
		return h, errors.New("there is no whole checkpoint to append to")
	}
	h.Version = headVersion
	err := w.write(ctx, &h, write)
	if err == nil {
		err = w.flush(ctx)
	}
	return w.written(h), err
}

// write sends chunks behind those that h has.
func (w *topicWriter) write(ctx context.Context, h *topicHead, write func(io.Writer) error) error {
	send := func(chunk []byte) error {
		w.send(ctx, chunkKey(h.Slot, h.Chunks), h.Save, chunk)
		h.Chunks++
		h.Bytes += int64(len(chunk))
		h.Since += int64(len(chunk))
		return w.failure(ctx)
	}
	chunks := &chunkWriter{size: w.size, send: send}
	err := write(chunks)
	if err == nil {
		err = chunks.end()
	}
	return cmpError(w.failure(ctx), err)
}

// flush waits for the receipts.
func (w *topicWriter) flush(ctx context.Context) error {
	if err := w.producer.Flush(ctx); err != nil {
		return sendError(ctx, err)
	}
	return w.failure(ctx)
}

// written is the head with where its chunks are.
func (w *topicWriter) written(h topicHead) topicHead {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Held[h.Slot] = h.Chunks
	if w.last != nil {
		h.First, h.Last = cmp.Or(h.First, offset(w.first)), offset(w.last)
	}
	return h
}

// chunkWriter cuts what is written into chunks, each in a slice of its own.
type chunkWriter struct {
	size  int
	chunk []byte
	send  func([]byte) error
}

func (c *chunkWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if c.chunk == nil {
			c.chunk = make([]byte, 0, c.size)
		}
		k := min(len(p), c.size-len(c.chunk))
		c.chunk = append(c.chunk, p[:k]...)
		p, n = p[k:], n+k
		if len(c.chunk) == c.size {
			err = c.end()
		}
	}
	return n, err
}

// end sends what there is.
func (c *chunkWriter) end() error {
	if len(c.chunk) == 0 {
		return nil
	}
	chunk := c.chunk
	c.chunk = nil
	return c.send(chunk)
}
