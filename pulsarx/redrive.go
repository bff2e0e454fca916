package pulsarx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// RedriveOrder says why it is safe that a dead letter comes behind later messages of its key.
type RedriveOrder int

const (
	// RedriveGuarded says that the handlers of the topics compare versions: what is older than what they have applied has no effect,
	// as with the sink of vectorstore.
	RedriveGuarded RedriveOrder = iota + 1
	// RedriveForced moves the letters whatever follows from the order.
	RedriveForced
)

// ErrRedriveOrder is what Redrive returns where RedriveOptions.Order is not set.
var ErrRedriveOrder = errors.New("pulsarx: a dead letter that is moved back comes behind later messages of its key: " +
	"RedriveOptions.Order has to say that the handlers compare versions, or to force it")

// RedriveOptions configure Redrive. Topic and Order are required.
type RedriveOptions struct {
	// Topic is the dead-letter topic.
	Topic string
	// Subscription is the one whose letters are moved: what it has acknowledged is gone. "dead-letters" by default, which consumers
	// make (DeadLetterPolicy.Subscription). Nobody else may read it meanwhile.
	Subscription string
	// Order says why the order does not matter.
	Order RedriveOrder
	// Filter returns whether a letter is moved; the others stay. By default all are. Its Raw has the letter's place, and the message's
	// own key, bytes, properties, times and schema.
	Filter func(DeadLetter, Raw) bool
	// Target is the topic to move to; by default each letter goes back to where it came from.
	Target string
	// Partition chooses the partition of a key as ProducerOptions.Partition does; give the function that the producers of the topics have.
	// By default it is Murmur3_32Hash, and a letter of a topic whose producers choose otherwise goes to another partition than it came
	// from. A letter without a key goes to any partition.
	Partition func(key string, partitions int) int
	// Limit bounds how many letters are moved; no limit by default.
	Limit int
	// MaxInFlight bounds the letters on their way, 500 by default, and 16 MiB of them; so much is moved again after a crash.
	MaxInFlight int
	// Quiet ends Redrive when the broker has sent nothing for so long, though there seemed to be more: those letters have been
	// acknowledged before. 3 s by default.
	Quiet time.Duration
	// EncryptionKeys encrypt what is moved, as ProducerOptions.EncryptionKeys do.
	EncryptionKeys []string
}

func (o RedriveOptions) withDefaults() RedriveOptions {
	o.Subscription = cmp.Or(o.Subscription, "dead-letters")
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 500)
	o.Quiet = cmp.Or(o.Quiet, 3*time.Second)
	return o
}

func (o RedriveOptions) validate() error {
	var errs []error
	switch {
	case o.Topic == "":
		errs = append(errs, errors.New("RedriveOptions.Topic is missing"))
	case nonPersistent(o.Topic):
		errs = append(errs, fmt.Errorf("RedriveOptions.Topic: %w: %s keeps no dead letters", ErrNonPersistent, o.Topic))
	}
	if o.Target != "" && fullTopic(o.Target) == fullTopic(o.Topic) {
		errs = append(errs, errors.New("RedriveOptions.Target is the dead-letter topic itself"))
	}
	switch {
	case o.Order == 0:
		errs = append(errs, ErrRedriveOrder)
	case o.Order != RedriveGuarded && o.Order != RedriveForced:
		errs = append(errs, fmt.Errorf("unknown RedriveOptions.Order %d", o.Order))
	}
	if o.Limit < 0 {
		errs = append(errs, fmt.Errorf("RedriveOptions.Limit is %d", o.Limit))
	}
	if o.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("RedriveOptions.MaxInFlight is %d", o.MaxInFlight))
	}
	if o.Quiet < 0 {
		errs = append(errs, fmt.Errorf("RedriveOptions.Quiet is %v", o.Quiet))
	}
	return errors.Join(errs...)
}

// RedriveResult counts letters.
type RedriveResult struct {
	// Moved are safe in their topics and gone from the dead letters. Filtered have stayed because of the filter, Unknown because they
	// do not say where they came from and there is no Target.
	Moved, Filtered, Unknown int
}

const (
	redriveBytes = 16 << 20
	// redriveLooks are the parts of RedriveOptions.Quiet, each after an answer of the broker's: that nothing comes is not its absence, and a
	// machine that stands still loses one of them.
	redriveLooks = 10
)

var errNotConfirmed = errors.New("the broker has not confirmed letters that were sent: it is gone, or refuses them")

// Redrive moves the dead letters that are there when it begins back to their topics, with their original bytes, keys, properties, event
// times and schemas. It goes through the dead-letter topic in its order, one partition after the other, so that the letters of a key
// keep theirs. A letter leaves the dead letters when it is safe in its topic: after a crash in between, or an error, it is moved
// again. Letters that the broker does not confirm within twice the client's OperationTimeout are such an error. What Redrive has not
// come to is there for the next one. Letters that come meanwhile are not moved, so that what fails again does not go round.
//
// It returns ErrRedriveOrder unless RedriveOptions.Order is set, ErrNoTopic where there is no such topic, as before a subscription's first
// letter, and the counts beside every other error. The letters of the bare Java and Go clients go back to the topic that they name.
func Redrive(ctx context.Context, c *Client, o RedriveOptions) (RedriveResult, error) {
	if err := o.validate(); err != nil {
		return RedriveResult{}, fmt.Errorf("pulsarx: redrive: %w", err)
	}
	r := &redrive{client: c, options: o.withDefaults()}
	r.producers = newRawProducers(c, o.EncryptionKeys, nil)
	r.producers.partition = o.Partition
	err := r.all(ctx)
	closing, cancel := steady(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = errors.Join(err, r.producers.close(closing, "the producers of a redrive"))
	if err != nil {
		err = fmt.Errorf("pulsarx: redrive of %s: %w", r.options.Topic, err)
	}
	return r.result, err
}

type redrive struct {
	client    *Client
	options   RedriveOptions
	producers *rawProducers
	result    RedriveResult

	consumer pulsar.Consumer // of the partition
	last     pulsar.Producer // that a letter was sent with
	moving   []*moving
	bytes    int
}

// moving is a letter on its way; err is set before done is closed.
type moving struct {
	id   MessageID
	err  error
	done chan struct{}
}

func (r *redrive) all(ctx context.Context) error {
	partitions, err := r.client.existing(ctx, fullTopic(r.options.Topic))
	if err != nil {
		return err
	}
	for _, name := range partitions {
		if err := r.partition(ctx, name); err != nil || r.full() {
			return err
		}
	}
	return nil
}

func (r *redrive) full() bool {
	return r.options.Limit > 0 && r.result.Moved+len(r.moving) >= r.options.Limit
}

// partition moves the letters of one partition.
func (r *redrive) partition(ctx context.Context, name string) (err error) {
	if r.consumer, err = again(ctx, r.client, func() (pulsar.Consumer, error) { return r.subscribe(ctx, name) }); err != nil {
		return err
	}
	defer func() {
		closing, cancel := steady(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, closeConsumer(closing, name, r.consumer))
	}()
	end, err := r.end(ctx)
	if err != nil {
		return err
	}
	if len(end) == 0 || end[0].EntryID() < 0 {
		return nil
	}
	return errors.Join(r.until(ctx, end[0]), r.settle(ctx))
}

func (r *redrive) subscribe(ctx context.Context, name string) (pulsar.Consumer, error) {
	options := pulsar.ConsumerOptions{
		Topic: name, SubscriptionName: r.options.Subscription, Type: pulsar.Exclusive, ReceiverQueueSize: r.options.MaxInFlight,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, Decryption: r.client.decryption(),
		AckWithResponse: true, EnableBatchIndexAcknowledgment: true,
	}
	return open(ctx, r.client, "consumer of "+name+" as "+r.options.Subscription,
		func() (pulsar.Consumer, error) { return r.client.pulsar.Subscribe(options) }, pulsar.Consumer.Close)
}

// end asks the broker for the last message.
func (r *redrive) end(ctx context.Context) ([]pulsar.TopicMessageID, error) {
	return thrice(func() ([]pulsar.TopicMessageID, error) {
		return open(ctx, r.client, "end of "+r.options.Topic, r.consumer.GetLastMessageIDs, func([]pulsar.TopicMessageID) {})
	})
}

// closeConsumer takes what still comes while the consumer closes. Connections that break one after the other let the client ask the
// broker more than once for what its queue holds. When that is full, its connection waits, and with it the answer to the close.
func closeConsumer(ctx context.Context, name string, consumer pulsar.Consumer) error {
	closed := make(chan struct{})
	go func() {
		for {
			select {
			case _, ok := <-consumer.Chan():
				if !ok {
					return
				}
			case <-closed:
				return
			}
		}
	}()
	return bounded(ctx, "closing the consumer of "+name, func() {
		defer close(closed)
		consumer.Close()
	})
}

// until moves letters up to the end.
func (r *redrive) until(ctx context.Context, end MessageID) error {
	last := entryKey{end.LedgerID(), end.EntryID()}
	for !r.full() {
		m, err := r.next(ctx)
		if m == nil {
			return err
		}
		at := entryKey{m.ID().LedgerID(), m.ID().EntryID()}
		if last.before(at) {
			return nil
		}
		if why := r.client.undecrypted(m); why != nil {
			return fmt.Errorf("pulsarx: a dead letter: %w", why)
		}
		if err := r.move(ctx, m); err != nil {
			return err
		}
		if len(r.moving) >= r.options.MaxInFlight || r.bytes >= redriveBytes {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
		if at == last && m.ID().BatchIdx() >= m.ID().BatchSize()-1 {
			return nil
		}
	}
	return nil
}

// next returns the next letter, nil when nothing comes any more.
func (r *redrive) next(ctx context.Context) (pulsar.Message, error) {
	select {
	case m := <-r.consumer.Chan():
		return m.Message, nil
	default:
	}
	if err := r.settle(ctx); err != nil { // while there is time
		return nil, err
	}
	for range redriveLooks {
		if _, err := r.end(ctx); err != nil {
			return nil, err
		}
		m, err := r.receive(ctx, r.options.Quiet/redriveLooks)
		if m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// receive waits for a letter up to a time, and returns nil then.
func (r *redrive) receive(ctx context.Context, d time.Duration) (pulsar.Message, error) {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m, err := r.consumer.Receive(waiting)
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case waiting.Err() != nil:
		return nil, nil
	}
	return nil, err
}

func (k entryKey) before(other entryKey) bool {
	return k.ledger < other.ledger || k.ledger == other.ledger && k.number < other.number
}

// move sends a letter to its topic, unless it stays.
func (r *redrive) move(ctx context.Context, m pulsar.Message) error {
	letter, known := ParseDeadLetter(m.Properties())
	if !known {
		letter.Properties = m.Properties()
	}
	topic := cmp.Or(r.options.Target, letter.Topic)
	if topic == "" {
		r.result.Unknown++
		return nil
	}
	at := parsePartition(m.Topic())
	schema, err := r.schema(ctx, at, m, letter)
	if err != nil {
		return err
	}
	if r.options.Filter != nil {
		raw := rawMessage(m, at, schema)
		raw.Properties = letter.Properties
		if !letter.PublishTime.IsZero() {
			raw.PublishTime = letter.PublishTime
		}
		if !r.options.Filter(letter, raw) {
			r.result.Filtered++
			return nil
		}
	}
	p, err := r.producers.open(ctx, r.producers.key(topic, schema, m))
	if err != nil {
		return err
	}
	if r.last != nil && p != r.last { // letters of a key may have several producers: one after the other
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	r.last = p
	r.send(ctx, p, m, letter.Properties)
	return nil
}

// schema is that of the message's writer: the letter has it, or, where the dead-letter topic did not take it, the topic it came from.
func (r *redrive) schema(ctx context.Context, at *partition, m pulsar.Message, letter DeadLetter) (s Schema, err error) {
	topic, version := at.topic, m.SchemaVersion()
	if len(version) == 0 {
		topic, version = letter.Topic, letter.SchemaVersion
	}
	if s, err = r.client.writerSchema(ctx, topic, version); err != nil {
		err = fmt.Errorf("the schema of the letter %v: %w", m.ID(), err)
	}
	return s, err
}

func (r *redrive) send(ctx context.Context, p pulsar.Producer, m pulsar.Message, properties map[string]string) {
	sent := &moving{id: m.ID(), done: make(chan struct{})}
	r.moving = append(r.moving, sent)
	r.bytes += len(m.Payload())
	answer := func(_ MessageID, _ *pulsar.ProducerMessage, err error) {
		sent.err = err
		close(sent.done)
	}
	// The client may still be about to send what ctx has ended for: the letter stays then, and is moved twice.
	if err := sendAsync(context.WithoutCancel(ctx), p, rawMessageOf(m, properties), answer); err != nil {
		answer(nil, nil, err)
	}
}

// settle waits until what was sent is safe, and takes that off the dead letters.
func (r *redrive) settle(ctx context.Context) error {
	if len(r.moving) == 0 {
		return nil
	}
	moving := r.moving
	r.moving, r.bytes = nil, 0
	// The client says nothing of letters that the broker has refused.
	sending, cancel := context.WithTimeoutCause(ctx, 2*r.client.options.Pulsar.OperationTimeout, errNotConfirmed)
	defer cancel()
	if err := r.last.FlushWithCtx(sending); err != nil {
		return cmpError(context.Cause(sending), err)
	}
	for _, m := range moving {
		select {
		case <-m.done:
		case <-sending.Done():
			return context.Cause(sending)
		}
	}
	var ids []MessageID
	var errs []error
	for _, m := range moving {
		if m.err != nil {
			errs = append(errs, m.err)
		} else {
			ids = append(ids, m.id)
		}
	}
	if len(ids) > 0 {
		_, err := open(ctx, r.client, "acknowledging dead letters",
			func() (struct{}, error) { return struct{}{}, r.consumer.AckIDList(ids) }, func(struct{}) {})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		r.result.Moved += len(ids)
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d letters could not be sent: %w", len(errs), errs[0])
	}
	return nil
}
