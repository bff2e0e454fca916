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

// Position is a place in topics. The zero Position is the beginning. It is kept as text, by MarshalText.
type Position struct {
	time  time.Time         // messages published from then on
	after map[string]string // partition name -> offset of the last message before; absent: the beginning
}

// At is the place of the first message published at t or later, to the millisecond, by the clocks of the producers. Where those
// disagree, it is the place that the broker finds by bisection.
func At(t time.Time) Position { return Position{time: t} }

// After is the place behind a message that was received from topic (Message.Topic, Message.ID) or sent to it. The other partitions
// of the topic are at their beginning.
func After(topic string, id MessageID) Position {
	name := fullTopic(topic)
	if p := id.PartitionIdx(); p >= 0 {
		name += fmt.Sprintf("-partition-%d", p)
	}
	return Position{after: map[string]string{name: offset(id)}}
}

// MarshalText writes the position as one line.
func (p Position) MarshalText() ([]byte, error) {
	switch {
	case !p.time.IsZero():
		return p.time.UTC().AppendFormat([]byte("at:"), time.RFC3339Nano), nil
	case len(p.after) == 0:
		return []byte("beginning"), nil
	}
	parts := make([]string, 0, len(p.after))
	for _, name := range slices.Sorted(maps.Keys(p.after)) {
		parts = append(parts, name+"@"+p.after[name])
	}
	return []byte("after:" + strings.Join(parts, ",")), nil
}

// UnmarshalText reads what MarshalText wrote.
func (p *Position) UnmarshalText(text []byte) error {
	kind, rest, _ := strings.Cut(string(text), ":")
	switch kind {
	case "beginning":
		*p = Position{}
		return nil
	case "at":
		t, err := time.Parse(time.RFC3339Nano, rest)
		if err != nil {
			return fmt.Errorf("pulsarx: position %q: %w", text, err)
		}
		*p = At(t)
		return nil
	case "after":
		after := map[string]string{}
		for part := range strings.SplitSeq(rest, ",") {
			at := strings.LastIndexByte(part, '@')
			if at <= 0 {
				return fmt.Errorf("pulsarx: position %q", text)
			}
			if _, _, _, err := parseOffset(part[at+1:]); err != nil {
				return err
			}
			after[part[:at]] = part[at+1:]
		}
		*p = Position{after: after}
		return nil
	}
	return fmt.Errorf("pulsarx: position %q", text)
}

// String is the position's text.
func (p Position) String() string {
	text, _ := p.MarshalText()
	return string(text)
}

// Progress is how far a replay has come.
type Progress struct {
	// Messages were handled, or passed over by OnDecodeError.
	Messages int64
	// Remaining is an estimate of those to come, from the entries between here and the end and the messages an entry has had. It is
	// -1 while the end is in another ledger of the broker's, which does not say how long its ledgers are, and 0 at the end.
	Remaining int64
	// Position resumes behind the messages that were handled.
	Position Position
}

// ReplayOptions say what to replay. Topics is required.
type ReplayOptions struct {
	// Topics to read, all partitions of each.
	Topics []string
	// From is where to begin, the beginning by default.
	From Position
	// To ends the replay earlier than the end that the topics have when it begins: At leaves out messages published at that time or
	// later; a position from After or Progress is the last message, and partitions that it does not name are read to their end.
	To Position
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
	if o.MaxBatch < 0 {
		errs = append(errs, fmt.Errorf("ReplayOptions.MaxBatch is %d", o.MaxBatch))
	}
	return errors.Join(errs...)
}

// Replay reads the topics from o.From to the end that they had when it began, calls h with batches from one goroutine, and returns
// nil at that end. The messages of a partition come in its order; partitions are read side by side. It has no subscription, and
// acknowledges nothing.
//
// It ends with the first error: of h, where Message.ID and the position of the last Progress tell where; of a message that cannot
// be decoded; or of reading. A replay that returns nil has been complete. ErrGap says that messages vanished on the way.
func Replay[T any](ctx context.Context, c *Client, d Decoder[T], o ReplayOptions, h Handler[T]) error {
	if err := o.validate(); err != nil {
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
		messages: make(chan replayed, o.MaxBatch), failed: make(chan error, 1), place: map[string]string{},
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
	messages chan replayed
	failed   chan error // the first reader's

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
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	defer func() {
		for _, reader := range r.readers {
			wait.Go(reader.close)
		}
	}()
	for _, topic := range r.options.Topics {
		if err := r.open(ctx, topic); err != nil {
			return err
		}
	}
	var reading sync.WaitGroup
	for _, reader := range r.readers {
		reading.Go(func() {
			if err := reader.read(ctx, r.messages); err != nil {
				select {
				case r.failed <- err:
				default:
				}
			}
		})
	}
	wait.Go(func() {
		reading.Wait()
		close(r.messages)
	})
	return r.handleAll(ctx)
}

// open makes the readers of a topic and learns where they end.
func (r *replay[T]) open(ctx context.Context, topic string) error {
	names, err := open(ctx, r.client, "partitions of "+topic, func() ([]string, error) {
		return r.client.pulsar.TopicPartitions(topic)
	}, func([]string) {})
	if err != nil {
		return err
	}
	for _, name := range names {
		reader, err := r.client.openReader(ctx, fullTopic(name), r.options)
		if err != nil {
			return err
		}
		r.readers = append(r.readers, reader)
	}
	return nil
}

// handleAll calls the handler until the readers are done.
func (r *replay[T]) handleAll(ctx context.Context) error {
	for {
		var batch []Message[T]
		var last replayed
		var ok bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.failed:
			return err
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
			last.reader.handled(last.message.ID())
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
		if !ok { // the readers are done; one of them may have failed
			select {
			case err := <-r.failed:
				return err
			default:
			}
			if err := ctx.Err(); err != nil {
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
	p := Progress{Messages: r.count, Position: Position{after: maps.Clone(r.place)}}
	for _, reader := range r.readers {
		n := reader.remaining()
		if n < 0 {
			p.Remaining = -1
			break
		}
		p.Remaining += n
	}
	if ended {
		p.Remaining = 0
	}
	r.options.Progress(p)
}

// decode waits for the writer's schema as long as the registry takes.
func (r *replay[T]) decode(ctx context.Context, m replayed) (message Message[T], keep bool, err error) {
	p := m.reader.partition
	schema, err := r.client.schemas.get(p.topic, m.message.SchemaVersion(), schemaWait)
	for errors.Is(err, errSchemaPending) {
		select {
		case <-ctx.Done():
			return message, false, err
		case <-time.After(schemaWait):
		}
		schema, err = r.client.schemas.get(p.topic, m.message.SchemaVersion(), schemaWait)
	}
	raw := rawMessage(m.message, p, schema)
	message = Message[T]{
		Tombstone: raw.Value == nil,
		Topic:     p.topic, Partition: p.index, ID: m.message.ID(), Key: raw.Key, Properties: raw.Properties,
		PublishTime: raw.PublishTime, EventTime: raw.EventTime, Attempt: 1,
	}
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

// fullTopic completes a short name.
func fullTopic(topic string) string {
	if strings.Contains(topic, "://") {
		return topic
	}
	if strings.Count(topic, "/") == 2 {
		return "persistent://" + topic
	}
	return "persistent://public/default/" + topic
}
