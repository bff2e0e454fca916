package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
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
	// Incremental writes only what has changed to most checkpoints, for much state of which little changes. The Processor then has a method
	// SnapshotChanges(w io.Writer) error, which writes what has changed since the last Snapshot, SnapshotChanges or Restore, as a
	// window.Operator does, and Restore reads a Snapshot and what followed it, to the end. Take care with a Processor that embeds an
	// Operator and has a Snapshot of its own: it needs a SnapshotChanges of its own as well. The CheckpointStore has Append.
	//
	// The first checkpoint of each owner is whole, and so is the next when the changes are as large as that, or a hundred in
	// number. So a checkpoint is at most twice as large as the state, nearly, and all that is written at most twice the changes and
	// a hundredth of the state each.
	Incremental bool
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
	if nonPersistent(o.DeadLetterTopic) {
		errs = append(errs, fmt.Errorf("StatefulOptions.DeadLetterTopic: %w: %s would lose dead letters", ErrNonPersistent, o.DeadLetterTopic))
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
// anything else than its successor. The stages of a message, any of which may be the last one of a process:
//
//	worked on ──▶ outputs stored ──▶ checkpoint saved ──▶ acknowledged
//	                    ╰── again from here, under the same numbers, which the broker drops
//
// A turn with a partition ends with the first loss of a connection, and the next one begins at the checkpoint, so that there is one way to
// begin and it is tested by every crash.
//
// The output's namespace must have deduplication enabled: RunStateful sends its first output twice to find out, and returns
// ErrNoDeduplication. The broker forgets the numbers of a name that has not been connected for
// brokerDeduplicationProducerInactivityTimeoutMinutes, 6 hours by default: after a longer pause, outputs since the last checkpoint
// may come twice. Outputs go to the partition that their key chooses; without one their number does. Growing the output's partitions
// moves both, so stop the job for that. Growing the input's moves keys to processors that have not seen them: their state stays with the
// partition that they had. Do not reset the subscription either: start a new one, with a new name.
//
// A lost connection, a partition that moves or cannot be had, an output that could not be stored, and an error of the store that is
// Temporary make a partition begin again from its checkpoint; the client's Logger hears of it. RunStateful returns the first other error
// of any partition: of the processor, of the store, of a schema, of an output that cannot be encoded, or of connecting for the first time,
// which is tried for the client's OperationTimeout.
func RunStateful[In, Out any](
	ctx context.Context, c *Client, d Decoder[In], o StatefulOptions,
	p func(Partition) (Processor[In, Out], error), out Output[Out], s CheckpointStore,
) error {
	err := o.validate()
	if out.Codec == nil {
		err = errors.Join(err, errors.New("Output.Codec is missing"))
	}
	if p == nil || s == nil {
		err = errors.Join(err, errors.New("RunStateful needs a function that makes processors, and a CheckpointStore"))
	}
	numbered := out.Producer // as it will be
	numbered.Name, numbered.Deduplicate = "of a partition", true
	err = errors.Join(err, numbered.validate())
	if _, ok := s.(appender); o.Incremental && !ok {
		err = errors.Join(err, errors.New("StatefulOptions.Incremental: the CheckpointStore has no method Append"))
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
		names, err := again(owning, j.client, func() ([]string, error) { return j.client.partitions(owning, j.options.Topic) })
		if err != nil && first {
			fail(err)
		}
		for _, name := range names {
			if name = fullTopic(name); !j.running[name] {
				j.running[name] = true
				wait.Go(func() {
					if err := j.own(owning, name, !first); err != nil {
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

// own has a partition again and again, whenever the broker gives it to this process. Where the job is connected already, a connection that
// fails is tried again; else it is the job's error.
func (j *job[In, Out]) own(ctx context.Context, name string, connected bool) error {
	const most = 5 * time.Second
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
