package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// Progress is how far a replay has come.
type Progress struct {
	// Messages were handled, or passed over by OnDecodeError.
	Messages int64
	// Remaining is an estimate of those to come, and 0 at the end. In a partition it counts the entries between here and the end, and
	// takes them for as full as the ones before; where the end is in another of the broker's ledgers, it takes the messages to be as
	// dense in time as the ones before. A partition that has not begun counts as the others do on average. It is -1 while nothing
	// can be said.
	Remaining int64
	// Position resumes behind the messages that were handled: ReplayOptions.From takes it, and it can be kept as text.
	Position Position
}

// ReplayOptions say what to replay. Topics is required.
type ReplayOptions struct {
	// Topics to read, all partitions of each. They must exist and be persistent: others keep nothing.
	Topics []string
	// From is where to begin, the beginning by default. A position in other topics alone is an error, of To as well.
	From Position
	// To ends the replay earlier than the end that the topics have when it begins: At leaves out messages published at that time or
	// later; a position from After or Progress is the last message, and partitions that it does not name are read to their end.
	To Position
	// MergeByEventTime hands messages out across partitions by event time, instead of reading the partitions side by side: the next
	// message is the one with the earliest event time, in milliseconds, among those that are next in their partitions; where the
	// producer gave no event time, the publish time counts. Ties go to the topic that is named first, then to the lower partition.
	// Messages of one partition keep its order even where their event times do not: a late one is late in the replay as it was
	// online. The order depends on the messages alone, also after resuming from a Position.
	MergeByEventTime bool
	// Compacted reads what compaction has left of a topic, the newest message of each key, and behind that place every message.
	Compacted bool
	// MaxBatch is the largest batch of the handler; 500 by default.
	MaxBatch int
	// OnDecodeError decides about a message that cannot be decoded: nil goes on without it, an error ends the replay. Without it, the
	// replay ends.
	OnDecodeError func(Raw, error) error
	// Progress is called after each batch, by the goroutine that calls the handler.
	Progress func(Progress)
}

func (o ReplayOptions) validate() error {
	var errs []error
	if len(o.Topics) == 0 || slices.Contains(o.Topics, "") {
		errs = append(errs, errors.New("ReplayOptions.Topics is empty or holds an empty name"))
	}
	known := map[string]bool{}
	for _, topic := range o.Topics {
		full := fullTopic(topic)
		if known[full] {
			errs = append(errs, fmt.Errorf("ReplayOptions.Topics names %s twice", topic))
		}
		known[full] = true
		if nonPersistent(full) {
			errs = append(errs, fmt.Errorf("ReplayOptions.Topics: %w: %s keeps no messages to replay", ErrNonPersistent, topic))
		}
	}
	if o.MaxBatch < 0 {
		errs = append(errs, fmt.Errorf("ReplayOptions.MaxBatch is %d", o.MaxBatch))
	}
	return errors.Join(errs...)
}

// replayQueue is how many messages the readers of a replay may prefetch together; each has 10 at least, and 1000 at most.
const replayQueue = 20_000

// Replay reads the topics from o.From to the end that they had when it began, calls h with batches from one goroutine, and returns
// nil at that end. The messages of a partition come in its order; partitions are read side by side, or merged with
// MergeByEventTime. It has no subscription, and acknowledges nothing. It holds at most 20,000 messages, or ten a partition where
// there are more than 2,000, and a batch.
//
// It ends with the first error: of h, where Message.ID and the position of the last Progress tell where; of a message that cannot
// be decoded; or of reading. A topic that moves to another broker is asked for again, and a connection that breaks is made anew behind
// the last message, for as long as the client's OperationTimeout; with another reader, since pulsar-client-go's passes over messages
// when it reconnects. A replay that returns nil has been complete: all messages from the first that it got to the last that each
// partition had when it began. ErrGap says that messages vanished on the way, or may have: the broker trimmed what was being read. What
// was trimmed before, also behind a Position that is resumed, is not noticed, so keep what you replay (retention, or a subscription).
//
// A message in chunks stands where its last chunk does. Resuming looks for its first chunk up to 100 entries ahead of the position.
func Replay[T any](ctx context.Context, c *Client, d Decoder[T], o ReplayOptions, h Handler[T]) error {
	err := o.validate()
	if h == nil {
		err = errors.Join(err, errors.New("the Handler of a replay is nil"))
	}
	if err != nil {
		return fmt.Errorf("pulsarx: %w", err)
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 500
	}
	codec, err := checkDecoder(d)
	if err != nil {
		return fmt.Errorf("pulsarx: replay of %v: %w", o.Topics, err)
	}
	r := &replay[T]{
		client: c, decoder: d, codec: codec, options: o, handler: h,
		began: time.Now(), messages: make(chan replayed, o.MaxBatch), place: map[string]string{},
	}
	maps.Copy(r.place, o.From.after)
	return r.run(ctx)
}

type replay[T any] struct {
	client   *Client
	decoder  Decoder[T]
	codec    bool
	options  ReplayOptions
	handler  Handler[T]
	began    time.Time
	messages chan replayed // closed when all has been read, or reading has failed

	readers []*partitionReader
	count   int64
	place   map[string]string // what Position says
}

// replayed is a message and the reader it comes from.
type replayed struct {
	reader  *partitionReader
	message pulsar.Message
}

func (r *replay[T]) run(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	reading, fail := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer fail(nil)
	wait.Go(func() {
		defer close(r.messages)
		r.readAll(reading, fail)
	})
	return r.handleAll(ctx, reading)
}

// open takes down where the partitions of the topics begin and end, several at a time, since each takes a few requests.
func (r *replay[T]) open(ctx context.Context) error {
	var names []string
	known := map[string]bool{}
	for _, topic := range r.options.Topics {
		partitions, err := r.client.existing(ctx, topic)
		if err != nil {
			return err
		}
		for _, name := range partitions {
			name = fullTopic(name)
			if known[name] {
				return fmt.Errorf("pulsarx: ReplayOptions.Topics names %s twice", name)
			}
			known[name], names = true, append(names, name)
		}
	}
	if err := errors.Join(r.options.From.concerns("From", names), r.options.To.concerns("To", names)); err != nil {
		return fmt.Errorf("pulsarx: %w", err)
	}
	const atOnce = 16
	queue := min(max(replayQueue/len(names), 10), 1000)
	r.readers = make([]*partitionReader, len(names))
	opening, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	places := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, name := range names {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			reader, err := r.client.openPartition(opening, name, r.options, queue)
			if err != nil {
				fail(err)
			}
			r.readers[i] = reader
		})
	}
	wait.Wait()
	return context.Cause(opening)
}

// readAll reads the partitions into r.messages.
func (r *replay[T]) readAll(ctx context.Context, fail context.CancelCauseFunc) {
	var wait sync.WaitGroup
	inputs := make([]chan replayed, len(r.readers))
	for i, reader := range r.readers {
		out := r.messages
		if r.options.MergeByEventTime {
			out = make(chan replayed)
			inputs[i] = out
		}
		wait.Go(func() {
			err := reader.read(ctx, func(m pulsar.Message) error {
				select {
				case out <- replayed{reader, m}:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil {
				fail(err)
			}
			if r.options.MergeByEventTime {
				close(out)
			}
		})
	}
	if r.options.MergeByEventTime {
		merge(ctx, inputs, r.messages)
	}
	wait.Wait()
}

// handleAll calls the handler until all has been read.
func (r *replay[T]) handleAll(ctx, reading context.Context) error {
	for {
		var batch []Message[T]
		var last replayed
		var ok bool
		select {
		case <-reading.Done():
			return context.Cause(reading)
		case last, ok = <-r.messages:
		}
		for more := ok; more; {
			message, keep, err := r.decode(ctx, last)
			if err != nil {
				return err
			}
			if keep {
				batch = append(batch, message)
			}
			r.count++
			r.place[last.reader.partition.name] = offset(last.message.ID())
			last.reader.handled(last.message)
			if len(batch) == r.options.MaxBatch {
				break
			}
			select {
			case last, more = <-r.messages:
				ok = more
			default:
				more = false
			}
		}
		if err := r.handle(ctx, batch); err != nil {
			return err
		}
		if !ok {
			if err := context.Cause(reading); err != nil {
				return err
			}
			r.report(true)
			return nil
		}
		r.report(false)
	}
}

func (r *replay[T]) handle(ctx context.Context, batch []Message[T]) error {
	if len(batch) == 0 {
		return nil
	}
	errs, _ := itemerror.Align(r.handler(ctx, batch), len(batch))
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("pulsarx: replay of %s: message %v: %w", batch[i].Topic, batch[i].ID, err)
		}
	}
	return nil
}

func (r *replay[T]) report(ended bool) {
	if r.options.Progress == nil {
		return
	}
	p := Progress{Messages: r.count, Position: Position{time: r.options.From.time, after: maps.Clone(r.place)}}
	if !ended {
		p.Remaining = r.remaining()
	}
	r.options.Progress(p)
}

// remaining is the readers' estimates together.
func (r *replay[T]) remaining() int64 {
	var known, sum int64
	for _, reader := range r.readers {
		if n := reader.remaining(r.began); n >= 0 {
			known++
			sum += n
		}
	}
	all := int64(len(r.readers))
	switch known {
	case 0:
		return -1
	case all:
		return sum
	}
	return sum + (sum+r.count)/known*(all-known)
}

// decode waits for the writer's schema as long as the registry takes.
func (r *replay[T]) decode(ctx context.Context, m replayed) (message Message[T], keep bool, err error) {
	p := m.reader.partition
	schema, err := r.client.writerSchema(ctx, p.topic, m.message.SchemaVersion())
	switch {
	case ctx.Err() != nil:
		return message, false, context.Cause(ctx)
	case errors.Is(err, ErrClosed):
		return message, false, fmt.Errorf("pulsarx: replay of %s: %w", p.name, err)
	}
	raw := rawMessage(m.message, p, schema)
	message = newMessage[T](raw, m.message.ID())
	if err == nil {
		message.Value, err = decodeRaw(r.decoder, r.codec, raw)
	}
	if err != nil && r.options.OnDecodeError != nil {
		return message, false, r.options.OnDecodeError(raw, err)
	}
	if err != nil {
		return message, false, fmt.Errorf("pulsarx: replay of %s: message %v: %w", p.name, m.message.ID(), err)
	}
	return message, true, nil
}

// writerSchema is the schema that a message was written with. It waits for the registry as long as ctx lasts, and the client.
func (c *Client) writerSchema(ctx context.Context, topic string, version []byte) (Schema, error) {
	for {
		schema, err := c.schemas.get(topic, version)
		if !errors.Is(err, errSchemaPending) || errors.Is(err, ErrClosed) {
			return schema, err
		}
		if failed := sleep(ctx, schemaWait); failed != nil {
			return schema, joined([]error{err, failed})
		}
	}
}

// newMessage is a message at its first attempt, without its value.
func newMessage[T any](raw Raw, id MessageID) Message[T] {
	return Message[T]{
		Tombstone: raw.Value == nil,
		Topic:     raw.Topic, Partition: raw.Partition, ID: id, Key: raw.Key, Properties: raw.Properties,
		PublishTime: raw.PublishTime, EventTime: raw.EventTime, Attempt: 1,
	}
}

// existing are the names of a topic's partitions. Where the broker creates topics by itself, a misspelt one would be created and
// found empty; so it is asked first.
func (c *Client) existing(ctx context.Context, topic string) ([]string, error) {
	if err := (registry{c.options}).missing(ctx, fullTopic(topic)); err != nil {
		return nil, err
	}
	return again(ctx, c, func() ([]string, error) { return c.partitions(ctx, topic) })
}

// partitions are the names of a topic's partitions, or its own where it has none.
func (c *Client) partitions(ctx context.Context, topic string) ([]string, error) {
	return open(ctx, c, "partitions of "+topic, func() ([]string, error) { return c.pulsar.TopicPartitions(topic) }, func([]string) {})
}

// fullTopic completes a short name. What is none stays, and the client refuses it.
func fullTopic(topic string) string {
	switch slashes := strings.Count(topic, "/"); {
	case strings.Contains(topic, "://"):
	case slashes == 0:
		return "persistent://public/default/" + topic
	case slashes == 2:
		return "persistent://" + topic
	}
	return topic
}
