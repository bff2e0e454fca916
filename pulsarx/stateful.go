package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// StatefulOptions configure RunStateful. Topic and Subscription are required.
type StatefulOptions struct {
	// Topic to read, all partitions of it.
	Topic string
	// Subscription is the name, also of the checkpoints and the output's producers: one for each job, the same in all its processes. A
	// new one begins with the oldest message that the topic still has.
	Subscription string
	// Interval is the time between two checkpoints of a partition; 10 s by default. A crash costs working on so much again.
	Interval time.Duration
	// ReceiverQueue is the number of messages prefetched for a partition; 1000 by default.
	ReceiverQueue int
	// DeadLetterTopic gets what cannot be decoded, and what Process calls permanent; <topic>-<subscription>-DLQ by default. A crash may
	// write a dead letter twice.
	DeadLetterTopic string
	// DrainTimeout is how long the last checkpoints may take after RunStateful's context has ended; 30 s by default.
	DrainTimeout time.Duration
	// Discovery is the time between two looks for new partitions; 1 min by default.
	Discovery time.Duration
}

func (o StatefulOptions) withDefaults() StatefulOptions {
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	o.ReceiverQueue = cmp.Or(o.ReceiverQueue, 1000)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 30*time.Second)
	o.Discovery = cmp.Or(o.Discovery, time.Minute)
	return o
}

func (o StatefulOptions) validate() error {
	var errs []error
	switch {
	case o.Topic == "":
		errs = append(errs, errors.New("StatefulOptions.Topic is missing"))
	case nonPersistent(o.Topic):
		errs = append(errs, fmt.Errorf("StatefulOptions.Topic: %w: %s keeps nothing to resume from", ErrNonPersistent, o.Topic))
	}
	if o.Subscription == "" {
		errs = append(errs, errors.New("StatefulOptions.Subscription is missing"))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Interval", int64(o.Interval)},
		{"ReceiverQueue", int64(o.ReceiverQueue)},
		{"DrainTimeout", int64(o.DrainTimeout)},
		{"Discovery", int64(o.Discovery)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("StatefulOptions.%s is %d", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

// Output is where RunStateful publishes what processors emit.
type Output[T any] struct {
	Codec Codec[T]
	// Producer says how. Topic is required; its namespace must have deduplication enabled. RunStateful chooses the Name and sets
	// Deduplicate, so that each message travels alone.
	Producer ProducerOptions[T]
}

// ErrNoDeduplication is what RunStateful returns when the output's namespace does not drop messages that it already has.
var ErrNoDeduplication = errors.New("pulsarx: deduplication is not enabled for the output topic")

// errHandover ends the time that a partition is ours; it is taken over again when it comes back.
var errHandover = errors.New("pulsarx: the partition was lost")

// RunStateful gives the messages of each partition of a topic, in order, to a Processor of its own, publishes what that emits, and
// keeps its state in checkpoints, until ctx ends. Then it saves a last checkpoint and returns nil. Run it in as many processes as you
// like: the broker spreads the partitions over them (a Failover subscription), and a partition takes its state along when it moves.
//
// A checkpoint is a snapshot with the place of its last message and the number of outputs so far. It is saved every
// StatefulOptions.Interval, after all outputs up to there are stored, and before the messages up to there are acknowledged. After a
// crash at any instant, the next owner restores it and works on what came later once more. The processor then emits the same values
// under the same numbers (see Processor), and the broker drops those that it already has: messages and outputs have the effect of one
// clean run. An owner that was replaced without knowing it can neither save, since the store refuses its generation, nor publish
// anything else than its successor.
//
// The output's namespace must have deduplication enabled: RunStateful sends its first output twice to find out, and returns
// ErrNoDeduplication. The broker forgets the numbers of a name that has not been connected for
// brokerDeduplicationProducerInactivityTimeoutMinutes, 6 hours by default: after a longer pause, outputs since the last checkpoint
// may come twice. Outputs go to the partition that their key chooses; without one their number does. Growing the output's partitions
// moves both, so stop the job for that. Do not reset the subscription either: start a new one, with a new name.
//
// A lost connection, a partition that moves, and an output that could not be stored make a partition begin again from its checkpoint.
// RunStateful returns the first other error of any partition: of the processor, of the store, of a schema, or of connecting for the
// first time.
func RunStateful[In, Out any](
	ctx context.Context, c *Client, d Decoder[In], o StatefulOptions,
	p func(Partition) (Processor[In, Out], error), out Output[Out], s CheckpointStore,
) error {
	err := o.validate()
	if out.Codec == nil || out.Producer.Topic == "" {
		err = errors.Join(err, errors.New("Output needs a Codec and a Producer.Topic"))
	}
	if err != nil {
		return fmt.Errorf("pulsarx: %w", err)
	}
	codec, err := checkDecoder(d)
	if err != nil {
		return fmt.Errorf("pulsarx: %s as %s: %w", o.Topic, o.Subscription, err)
	}
	o = o.withDefaults()
	letters := ConsumerOptions{Subscription: o.Subscription, DeadLetter: DeadLetterPolicy{Topic: o.DeadLetterTopic}}.withDefaults()
	j := &job[In, Out]{
		client: c, decoder: d, codec: codec, options: o, factory: p, output: out, store: s,
		name: fmt.Sprintf("pulsarx-%08x", rand.Uint32()), letters: newDeadLetters(c, letters), running: map[string]bool{},
	}
	return j.run(ctx)
}

// job is one RunStateful.
type job[In, Out any] struct {
	client  *Client
	decoder Decoder[In]
	codec   bool
	options StatefulOptions
	factory func(Partition) (Processor[In, Out], error)
	output  Output[Out]
	store   CheckpointStore
	name    string // of the consumers: a broker spreads partitions over names
	letters *deadLetters
	running map[string]bool // by the partition's name
}

// run owns the partitions, and looks for new ones.
func (j *job[In, Out]) run(ctx context.Context) error {
	owning, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wait sync.WaitGroup
	for first := true; ; first = false {
		names, err := open(owning, j.client, "partitions of "+j.options.Topic,
			func() ([]string, error) { return j.client.pulsar.TopicPartitions(j.options.Topic) }, func([]string) {})
		if err != nil && first {
			fail(err)
		}
		for _, name := range names {
			if name = fullTopic(name); !j.running[name] {
				j.running[name] = true
				wait.Go(func() {
					if err := j.own(owning, name); err != nil {
						fail(err)
					}
				})
			}
		}
		if sleep(owning, j.options.Discovery) != nil {
			break
		}
	}
	wait.Wait()
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), j.options.DrainTimeout)
	defer done()
	err := j.letters.close(closing)
	if cause := context.Cause(owning); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// own has a partition again and again, whenever the broker gives it to this process.
func (j *job[In, Out]) own(ctx context.Context, name string) error {
	const most = 5 * time.Second
	connected := false // once at least
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, most) {
		began := time.Now()
		err := j.turn(ctx, name, &connected)
		if err == nil || !errors.Is(err, errHandover) && !errors.Is(err, ErrFenced) {
			return err
		}
		if time.Since(began) > most {
			pause = 50 * time.Millisecond
		}
		if l := j.client.options.Logger; l != nil {
			l.Warn("pulsarx: a partition begins again from its checkpoint", "topic", name, "subscription", j.options.Subscription, "error", err)
		}
		_ = sleep(ctx, pause)
	}
	return nil
}

// sibling is a client with connections of its own.
func (c *Client) sibling() (*Client, error) {
	own, err := pulsar.NewClient(c.options.Pulsar)
	if err != nil {
		return nil, clientError("client", c.options.URL, err)
	}
	return &Client{options: c.options, pulsar: own, schemas: c.schemas, tel: c.tel}, nil
}

// input is a subscription to one partition up to the first loss of its connection or of the partition. As with a steadyReader, what
// the client gives out before is without gaps.
type input struct {
	pulsar.Consumer
	over     chan struct{} // closed then
	once     sync.Once
	lost     atomic.Bool
	received atomic.Bool
	inactive atomic.Bool
}

func (i *input) end() {
	i.lost.Store(true)
	i.once.Do(func() { close(i.over) })
}

// BecameActive is of pulsar.ConsumerEventListener.
func (i *input) BecameActive(pulsar.Consumer, string, int32) { i.inactive.Store(false) }

// BecameInactive is of pulsar.ConsumerEventListener. Who stands by is told so too.
func (i *input) BecameInactive(pulsar.Consumer, string, int32) {
	i.inactive.Store(true)
	if i.received.Load() {
		i.end()
	}
}

func (j *job[In, Out]) subscribe(ctx context.Context, name string) (*input, error) {
	in := &input{over: make(chan struct{})}
	options := pulsar.ConsumerOptions{
		Topic:                          name,
		SubscriptionName:               j.options.Subscription,
		Name:                           j.name,
		Type:                           pulsar.Failover,
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		ReceiverQueueSize:              j.options.ReceiverQueue,
		EventListener:                  in,
		AckWithResponse:                true,
		EnableBatchIndexAcknowledgment: true,
		Decryption:                     j.client.decryption(),
		MaxReconnectToBroker:           new(uint),
		BackOffPolicyFunc: func() backoff.Policy {
			in.end()
			return backoff.NewDefaultBackoff()
		},
	}
	consumer, err := open(ctx, j.client, fmt.Sprintf("consumer of %s as %s", name, j.options.Subscription),
		func() (pulsar.Consumer, error) { return j.client.pulsar.Subscribe(options) }, pulsar.Consumer.Close)
	if err != nil {
		return nil, err
	}
	in.Consumer = consumer
	return in, nil
}

// next waits for the next message, the time of a checkpoint, which is errCheckpoint, or the end, which is errHandover or errStopped.
func (i *input) next(ctx context.Context, due <-chan time.Time) (pulsar.Message, error) {
	select {
	case m, ok := <-i.Chan():
		i.received.Store(true)
		if !ok || i.lost.Load() || i.inactive.Load() {
			return nil, errHandover
		}
		return m.Message, nil
	case <-i.over:
		return nil, errHandover
	case <-due:
		return nil, errCheckpoint
	case <-ctx.Done():
		return nil, errStopped
	}
}

// closeTimeout is how long outputs that are in no checkpoint may take to arrive.
const closeTimeout = 5 * time.Second

var (
	errCheckpoint = errors.New("a checkpoint is due")
	errStopped    = errors.New("the context has ended, and the message is not begun")
)

// turn is one time that the partition is ours: from the first message that the broker sends, to the loss of the partition, which is
// errHandover or ErrFenced, or the end of ctx, which is nil.
func (j *job[In, Out]) turn(ctx context.Context, name string, connected *bool) error {
	in, err := j.subscribe(ctx, name)
	if err != nil {
		return j.unconnected(ctx, err, *connected)
	}
	*connected = true
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(j.options.DrainTimeout, cancel) })()
	defer func() { _ = closeConsumer(working, name, in.Consumer) }() // what is not acknowledged comes again
	m, err := in.next(ctx, nil)
	if err != nil {
		return j.unconnected(ctx, err, true)
	}
	outputs, err := j.client.sibling()
	if err != nil {
		return err
	}
	w := &worker[In, Out]{job: j, partition: parsePartition(name), input: in}
	defer func() { _ = w.close(working, outputs) }() // what is in no checkpoint is made again
	if err := w.begin(ctx, working, outputs); err != nil {
		return j.unconnected(ctx, err, true)
	}
	ours, lose := context.WithCancelCause(working)
	defer lose(nil)
	go func() {
		select {
		case <-in.over:
			lose(errHandover)
		case <-ours.Done():
		}
	}()
	err = w.work(ctx, ours, m)
	if err != nil && in.lost.Load() {
		return fmt.Errorf("%w: %w", errHandover, err)
	}
	return err
}

// work works on messages, the first of which is m, and saves checkpoints. ours ends with the partition.
func (w *worker[In, Out]) work(ctx, ours context.Context, m pulsar.Message) (err error) {
	due := time.NewTicker(w.options.Interval)
	defer due.Stop()
	for {
		switch {
		case err == nil:
			err = w.process(ctx, ours, m)
		case errors.Is(err, errCheckpoint):
			err = w.checkpoint(ours)
		}
		switch {
		case errors.Is(err, errStopped), err == nil && ctx.Err() != nil:
			return w.checkpoint(ours)
		case err != nil: // the state may have moved without the progress
			return err
		}
		m, err = w.input.next(ctx, due.C)
	}
}

// unconnected judges an error of connecting: after the first success it is one that passes, unless a schema does not fit.
func (j *job[In, Out]) unconnected(ctx context.Context, err error, before bool) error {
	if ctx.Err() != nil {
		err = nil // it is because of that
	} else if before && isConnection(err) {
		err = fmt.Errorf("%w: %w", errHandover, err)
	}
	return err
}

// connectionError is of opening a producer or consumer.
type connectionError struct{ error }

func (e connectionError) Unwrap() error { return e.error }

func isConnection(err error) bool {
	return errors.As(err, new(connectionError)) && !errors.Is(err, ErrIncompatibleSchema)
}

// worker is a partition's processor and its output, while the partition is ours.
type worker[In, Out any] struct {
	*job[In, Out]
	partition  *partition
	input      *input
	generation uint64
	processor  Processor[In, Out]
	producer   *Producer[Out]
	progress   progress
	outputs    int64     // emitted, those of a message that is being worked on included
	saved      string    // offset
	last       MessageID // worked on
	checked    bool      // that the output deduplicates

	mu     sync.Mutex
	failed error // the first of an output
}

// begin claims the checkpoint, restores the processor and opens the output.
func (w *worker[In, Out]) begin(ctx, working context.Context, outputs *Client) error {
	processor, err := w.factory(Partition{w.partition.topic, w.partition.index})
	if err != nil {
		return fmt.Errorf("pulsarx: processor of %s: %w", w.partition.name, err)
	}
	w.processor = processor
	r, generation, err := claim(ctx, w.store, w.checkpointName())
	if err != nil {
		return err
	}
	w.generation = generation
	if r != nil {
		w.progress, err = readCheckpoint(r, processor.Restore)
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("pulsarx: checkpoint %s: %w", w.checkpointName(), err)
		}
	}
	w.saved, w.outputs = w.progress.Offset, w.progress.Outputs
	options := w.output.Producer
	options.Name = "pulsarx-" + w.checkpointName()
	options.Deduplicate = true
	options.lost = w.input.end
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// Not to be left half made, so it does not end with ctx.
		w.producer, err = NewProducer(working, outputs, w.output.Codec, options)
		// The owner before may not have left yet, or not be known to have died.
		if err == nil || w.input.lost.Load() || !strings.Contains(err.Error(), "ProducerBusy") {
			break
		}
		if failed := sleep(ctx, pause); failed != nil {
			return failed
		}
	}
	if err != nil {
		return connectionError{err}
	}
	return nil
}

// close leaves the output. Its name, which the next owner needs, is free when its connections end, whatever has become of it: so a turn
// has connections of its own.
func (w *worker[In, Out]) close(ctx context.Context, outputs *Client) error {
	var err error
	if w.producer != nil {
		closing, done := context.WithTimeout(ctx, closeTimeout)
		defer done()
		if w.input.lost.Load() { // what is on its way does not arrive any more
			done()
		}
		err = w.producer.Close(closing)
	}
	return errors.Join(err, bounded(ctx, "closing the connections of "+w.partition.name, outputs.pulsar.Close))
}

func (w *worker[In, Out]) checkpointName() string {
	return w.options.Subscription + "/" + w.partition.name
}

// process works on a message, unless the checkpoint contains it.
func (w *worker[In, Out]) process(ctx, ours context.Context, m pulsar.Message) error {
	at := offset(m.ID())
	if at <= w.progress.Offset {
		w.last = m.ID()
		return nil
	}
	schema, err := w.client.writerSchema(ctx, w.partition, m)
	if ctx.Err() != nil {
		return errStopped
	}
	raw := rawMessage(m, w.partition, schema)
	message := newMessage[In](raw, m.ID())
	reason := reasonUndecodable
	if err == nil {
		message.Value, err = decodeRaw(w.decoder, w.codec, raw)
	}
	if err == nil {
		reason = reasonPermanent
		err = w.call(ours, message)
		if err != nil && !itemerror.IsPermanent(err) {
			return err
		}
	}
	if err != nil {
		if err = w.bury(ctx, m, &fate{reason, err}); err != nil {
			return err
		}
	}
	w.progress.Offset, w.progress.Outputs, w.last = at, w.outputs, m.ID()
	w.progress.Messages++
	return w.failure()
}

// call runs the processor. What it emits is sent at once.
func (w *worker[In, Out]) call(ctx context.Context, m Message[In]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
		}
		if err != nil {
			err = fmt.Errorf("pulsarx: processing %s: message %v: %w", w.partition.name, m.ID, err)
		}
	}()
	var failed error
	err = w.processor.Process(m, func(v Out) {
		if failed == nil {
			failed = w.emit(ctx, v)
		}
	})
	return cmpError(failed, err)
}

// emit sends a value under its number.
func (w *worker[In, Out]) emit(ctx context.Context, v Out) error {
	number := SequenceID(w.outputs)
	w.outputs++
	if !w.checked {
		return w.emitTwice(ctx, v, number)
	}
	w.producer.SendAsync(ctx, v, func(_ MessageID, err error) {
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = cmpError(w.failed, err)
		}
	}, number)
	return nil
}

// emitTwice sends a value, and again, to see that the second one is dropped.
func (w *worker[In, Out]) emitTwice(ctx context.Context, v Out, number SendOption) error {
	if _, err := w.producer.Send(ctx, v, number); err != nil {
		return outputError(err)
	}
	id, err := w.producer.Send(ctx, v, number)
	if err != nil {
		return outputError(err)
	}
	if id.LedgerID() >= 0 {
		return fmt.Errorf("%w %s", ErrNoDeduplication, w.output.Producer.Topic)
	}
	w.checked = true
	return nil
}

// outputError is an error of the output: where another attempt may succeed, the partition begins again.
func outputError(err error) error {
	for _, final := range []error{ErrMessageTooLarge, ErrTopicTerminated} {
		if errors.Is(err, final) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errHandover, err)
}

// failure is that of an output.
func (w *worker[In, Out]) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		return nil
	}
	return outputError(w.failed)
}

// bury writes a dead letter, as long as it takes.
func (w *worker[In, Out]) bury(ctx context.Context, m pulsar.Message, why *fate) error {
	now := time.Now()
	it := &item{partition: w.partition, msg: m, grave: why, failures: &failures{now, now}}
	if why.reason != reasonUndecodable {
		it.attempts = 1
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := w.letters.bury(ctx, it)
		switch {
		case err == nil:
			return nil
		case w.input.lost.Load():
			return fmt.Errorf("%w: %w", errHandover, err)
		}
		_ = sleep(ctx, pause)
		if ctx.Err() != nil {
			return errStopped
		}
	}
}

// checkpoint makes all up to the last message durable: outputs first, then the state, then the acknowledgement.
func (w *worker[In, Out]) checkpoint(ctx context.Context) error {
	if w.progress.Offset != w.saved {
		if err := w.producer.Flush(ctx); err != nil {
			return outputError(err)
		}
		if err := w.failure(); err != nil {
			return err
		}
		err := w.store.Save(ctx, w.checkpointName(), w.generation, func(out io.Writer) error {
			return writeCheckpoint(out, w.progress, w.processor.Snapshot)
		})
		if err != nil {
			return err
		}
		w.saved = w.progress.Offset
	}
	if w.last == nil {
		return nil
	}
	var err error
	if failed := bounded(ctx, "acknowledging "+w.partition.name, func() { err = w.input.AckIDCumulative(w.last) }); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errHandover, err)
	}
	w.last = nil
	return nil
}

// ReplayStateful gives the messages of a replay to processors of the same factory that RunStateful takes, one for each partition, and
// what they emit to emit: for one partition, the values that a RunStateful from the same place publishes, in the same order. It keeps
// no checkpoints, and publishes nothing.
//
// It ends as Replay does; an error of a processor or of emit ends it too, and names the message.
func ReplayStateful[In, Out any](
	ctx context.Context, c *Client, d Decoder[In], o ReplayOptions,
	p func(Partition) (Processor[In, Out], error), emit func(Out) error,
) error {
	processors := map[Partition]Processor[In, Out]{}
	process := func(m Message[In]) error {
		at := Partition{m.Topic, m.Partition}
		processor := processors[at]
		if processor == nil {
			var err error
			if processor, err = p(at); err != nil {
				return err
			}
			processors[at] = processor
		}
		var failed error
		err := processor.Process(m, func(v Out) {
			if failed == nil {
				failed = emit(v)
			}
		})
		return cmpError(failed, err)
	}
	return Replay(ctx, c, d, o, func(_ context.Context, batch []Message[In]) error {
		for i := range batch {
			if err := process(batch[i]); err != nil {
				errs := make(BatchError, len(batch))
				errs[i] = err
				return errs
			}
		}
		return nil
	})
}
