package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// closeTimeout is how long outputs that are in no checkpoint may take to arrive.
const closeTimeout = 5 * time.Second

var (
	errCheckpoint = errors.New("a checkpoint is due")
	errStopped    = errors.New("the context has ended, and the message is not begun")
)

// turn is one time that the partition is ours: from the first message that the broker sends, to the loss of the partition, which is
// errHandover or ErrFenced, or the end of ctx, which is nil.
func (j *job[In, Out]) turn(ctx context.Context, name string, connected *bool) error {
	in, err := again(ctx, j.client, func() (*input, error) { return j.subscribe(ctx, name) })
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

// Temporary is what RunStateful asks of a store's errors.
func (connectionError) Temporary() bool { return true }

func isConnection(err error) bool {
	return errors.As(err, new(connectionError)) && !errors.Is(err, ErrIncompatibleSchema) && !errors.Is(err, ErrClosed)
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
	written    written

	mu     sync.Mutex
	failed error // the first of an output
}

// begin claims the checkpoint, restores the processor and opens the output.
func (w *worker[In, Out]) begin(ctx, working context.Context, outputs *Client) error {
	var processor Processor[In, Out]
	err := recovering(func() (err error) {
		processor, err = w.factory(Partition{w.partition.topic, w.partition.index})
		return err
	})
	if err == nil && processor == nil {
		err = errors.New("it is nil")
	}
	if err != nil {
		return fmt.Errorf("pulsarx: processor of %s: %w", w.partition.name, err)
	}
	w.processor = processor
	if _, ok := processor.(changing); w.options.Incremental && !ok {
		return fmt.Errorf("pulsarx: processor of %s: StatefulOptions.Incremental: it has no method SnapshotChanges", w.partition.name)
	}
	r, generation, err := claim(ctx, w.store, w.checkpointName())
	if err != nil {
		return storeError(err)
	}
	w.generation = generation
	if r != nil {
		w.progress, err = readCheckpoint(r, func(in io.Reader) error {
			return recovering(func() error { return processor.Restore(in) })
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return storeError(fmt.Errorf("pulsarx: checkpoint %s: %w", w.checkpointName(), err))
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
	if why := w.client.undecrypted(m); why != nil && lastOfEncrypted(m) > w.progress.Offset {
		return fmt.Errorf("%w: %w", errHandover, why) // with it, what follows it would count as worked on
	}
	at := offset(m.ID())
	if at <= w.progress.Offset {
		w.last = m.ID()
		return nil
	}
	schema, err := w.client.writerSchema(ctx, w.partition.topic, m.SchemaVersion())
	switch {
	case ctx.Err() != nil:
		return errStopped
	case errors.Is(err, ErrClosed):
		return err
	}
	raw := rawMessage(m, w.partition, schema)
	message := newMessage[In](raw, m.ID())
	reason := reasonUndecodable
	if err == nil {
		message.Value, err = decodeRaw(w.decoder, w.codec, raw)
	}
	if err == nil {
		reason = reasonPermanent
		var failed error
		if failed, err = w.call(ours, message); failed != nil {
			return failed
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

// call runs the processor. What it emits is sent at once. The first error ends the turn, the second one is of the message alone.
func (w *worker[In, Out]) call(ctx context.Context, m Message[In]) (err, permanent error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("pulsarx: processing %s: message %v: %w", w.partition.name, m.ID, err)
		}
	}()
	return process(w.processor, m, func(v Out) error { return w.emit(ctx, v) })
}

// process gives a processor a message. Errors of emit, after which nothing more is emitted, of the processor, and panics are err, but for
// what the processor calls permanent.
func process[In, Out any](p Processor[In, Out], m Message[In], emit func(Out) error) (err, permanent error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
		}
	}()
	var failed error
	own := p.Process(m, func(v Out) {
		if failed == nil {
			failed = emit(v)
		}
	})
	if failed == nil && itemerror.IsPermanent(own) {
		return nil, own
	}
	return cmpError(failed, own), nil
}

// emit sends a value under its number.
func (w *worker[In, Out]) emit(ctx context.Context, v Out) error {
	number := []SendOption{SequenceID(w.outputs)}
	w.outputs++
	d := w.producer.newDelivery()
	err := w.producer.fill(d, v, number)
	switch {
	case err != nil: // another attempt would not mend it
		return err
	case !w.checked:
		return w.emitTwice(ctx, v, number)
	}
	w.producer.sendAsync(ctx, d, func(_ MessageID, err error) {
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = cmpError(w.failed, err)
		}
	})
	return nil
}

// emitTwice sends a value, and again, to see that the second one is dropped.
func (w *worker[In, Out]) emitTwice(ctx context.Context, v Out, number []SendOption) error {
	if _, err := w.producer.Send(ctx, v, number...); err != nil {
		return outputError(err)
	}
	id, err := w.producer.Send(ctx, v, number...)
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

// storeError is an error of the store, or of a snapshot: where another attempt may succeed, the partition begins again.
func storeError(err error) error {
	var passing interface{ Temporary() bool }
	if errors.As(err, &passing) && passing.Temporary() {
		return fmt.Errorf("%w: %w", errHandover, err)
	}
	return err
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

// written is what this owner has saved.
type written struct {
	whole, changes int64 // bytes, of the last whole checkpoint and what was appended to it; 0 before the first
	appended       int
}

// maxAppended is how often a checkpoint is appended to.
const maxAppended = 100

// save saves the state, or what has changed of it.
func (w *worker[In, Out]) save(ctx context.Context) error {
	did := &w.written
	save, snapshot := w.store.Save, w.processor.Snapshot
	changes := w.options.Incremental && did.whole > 0 && did.changes < did.whole && did.appended < maxAppended
	if changes {
		save, snapshot = w.store.(appender).Append, w.processor.(changing).SnapshotChanges // both were asked at the beginning
	}
	size := int64(0)
	err := save(ctx, w.checkpointName(), w.generation, func(out io.Writer) error {
		counted := &countingWriter{out: out}
		err := writeCheckpoint(counted, w.progress, func(out io.Writer) error {
			return recovering(func() error { return snapshot(out) })
		})
		size = counted.n
		return err
	})
	if changes {
		did.changes, did.appended = did.changes+size, did.appended+1
	} else {
		*did = written{whole: size}
	}
	return err
}

type countingWriter struct {
	out io.Writer
	n   int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
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
		if err := w.save(ctx); err != nil {
			return storeError(err)
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
