package embed

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// ErrQueueFull says that a [Batcher] has MaxQueue inputs of a priority waiting and was told to reject more. A retry later may succeed.
var ErrQueueFull = errors.New("embed: the queue of the batcher is full")

// BatcherOptions are the options of a [Batcher]. The zero value is a good choice for a service on a CPU.
type BatcherOptions struct {
	// MaxTokens bounds the tokens of a batch. An input that alone has more makes a batch by itself. Zero: 2048; -1: no bound.
	MaxTokens int
	// MaxItems bounds the inputs of a batch. Zero: 64; -1: no bound.
	MaxItems int
	// MaxDelay is how long a batch that is not full waits for more inputs while the model is idle. Zero: not at all, since the next
	// batch forms by itself while the model is busy.
	MaxDelay time.Duration
	// MaxQueue bounds the inputs of each priority that wait, over all callers, so that what is live finds room whatever a backfill has
	// queued. Zero: 4096; -1: no bound. Callers who find no room for all of their inputs stand in line, and each in turn queues what fits.
	MaxQueue int
	// Reject fails a call that finds no room in the queue with [ErrQueueFull], instead of letting it wait.
	Reject bool
	// Concurrency is how many batches the embedder works on at a time; without MaxDelay, what waits is shared evenly among them. Zero: 1,
	// which is right where one batch keeps all cores or the whole device busy.
	Concurrency int
	// MeterProvider and TracerProvider are where metrics and spans go; nil: the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

func (o BatcherOptions) withDefaults() BatcherOptions {
	def := func(n *int, value int) {
		switch {
		case *n == 0:
			*n = value
		case *n < 0:
			*n = maxInt
		}
	}
	def(&o.MaxTokens, 2048)
	def(&o.MaxItems, 64)
	def(&o.MaxQueue, 4096)
	def(&o.Concurrency, 1)
	return o
}

const maxInt = int(^uint(0) >> 1)

// Batcher is an [Embedder] that puts the inputs of concurrent callers together into batches for another one: dynamic batching. While
// the embedder works on a batch, the next one forms from what arrives. Live inputs (see [WithPriority]) go before those of a
// backfill, and no batch has both; among equals, first come, first served.
//
// Each caller gets its own inputs' vectors and errors, as if it had called the embedder itself: an input that fails costs its
// neighbours nothing, also where the embedder panics, ends its goroutine, or refuses a batch for good and does not say for which
// input, since then each input is tried alone. A caller whose context is done leaves at once; its inputs that wait are taken out, and
// a batch that nobody waits for any more is cancelled.
//
// A Batcher has no goroutine while it has no work, and nothing to close. It is safe for concurrent use.
type Batcher[In any] struct {
	embedder  Embedder[In]
	options   BatcherOptions
	tokens    func(In) int
	telemetry batcherTelemetry

	mu      sync.Mutex
	queues  [priorities]queue
	queued  int           // inputs in the queues
	running int           // goroutines that run batches
	busy    int           // inputs in their batches
	moved   chan struct{} // closed, and made anew, when the queues have changed; for a batch that waits to be full
}

// queue is what waits with one priority. Inputs go first come, first served; who could not queue all goes to the end of the line.
type queue struct {
	inputs list.List // of waiting
	line   list.List // of the *request that found no room for all of their inputs
}

// NewBatcher returns a Batcher for e. Where e has a method Tokens(In) int, it counts the tokens of inputs for MaxTokens; else a text
// counts as a token for each four bytes, and any other input as one.
func NewBatcher[In any](e Embedder[In], o BatcherOptions) *Batcher[In] {
	return &Batcher[In]{
		embedder: e, options: o.withDefaults(), tokens: counterOf(e), telemetry: newBatcherTelemetry(o),
		moved: make(chan struct{}),
	}
}

// counterOf returns what counts the tokens of an embedder's inputs.
func counterOf[In any](e Embedder[In]) func(In) int {
	if counter, ok := e.(interface{ Tokens(input In) int }); ok {
		return counter.Tokens
	}
	return guessTokens[In]
}

func guessTokens[In any](in In) int {
	if text, ok := any(in).(string); ok {
		return 2 + len(text)/4 // two are the special ones at the ends
	}
	return 1
}

// request is one call of Embed.
type request[In any] struct {
	span    trace.SpanContext // of the caller
	inputs  []In
	tokens  []int // of each
	queued  int   // inputs that are not in line any more
	queue   *queue
	places  []*list.Element // in the queue, also those that it has left
	inLine  *list.Element   // in the line, also when it has left it
	gone    bool            // the caller has left
	vectors [][]float32
	errs    []error
	left    int           // inputs that are not done yet
	done    chan struct{} // closed with the last
	batches []*batch      // that run with inputs of it
}

// waiting is an input in the queue.
type waiting[In any] struct {
	input   In
	tokens  int
	request *request[In]
	at      int // its place in the call
	since   time.Time
}

// batch is what runs: how many callers wait for it, and what ends it when none does.
type batch struct {
	callers int
	cancel  context.CancelFunc
}

// Model returns the embedder's model.
func (b *Batcher[In]) Model() Model { return b.embedder.Model() }

// Embed queues inputs and waits for their vectors; see [Embedder]. Its own errors are [ErrQueueFull], where the options say so, and that
// of a context that is done.
func (b *Batcher[In]) Embed(ctx context.Context, inputs []In) ([][]float32, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &request[In]{
		span: trace.SpanContextFromContext(ctx), inputs: inputs, tokens: make([]int, len(inputs)), queue: &b.queues[PriorityOf(ctx)],
		vectors: make([][]float32, len(inputs)), errs: make([]error, len(inputs)), left: len(inputs), done: make(chan struct{}),
	}
	for i, in := range inputs { // without the lock, since it may take as long as tokenizing
		c.tokens[i] = b.tokens(in)
	}
	if waiting := b.enqueue(c); waiting > 0 {
		b.telemetry.rejected(ctx, len(inputs))
		return nil, fmt.Errorf("%w: %d inputs wait", ErrQueueFull, waiting)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		b.leave(c)
		return nil, ctx.Err()
	}
	return c.vectors, NewBatchError(c.errs)
}

// enqueue puts a call in line and into its queue, or answers how many inputs wait where it is to be rejected.
func (b *Batcher[In]) enqueue(c *request[In]) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := c.queue.inputs.Len()
	if b.options.Reject && waiting > 0 && len(c.inputs) > b.options.MaxQueue-waiting {
		return waiting
	}
	c.inLine = c.queue.line.PushBack(c)
	b.changed(c.queue)
	return 0
}

// changed fills a queue from its line, and says so. b.mu is held.
func (b *Batcher[In]) changed(q *queue) {
	for q.line.Len() > 0 && q.inputs.Len() < b.options.MaxQueue {
		c, _ := q.line.Front().Value.(*request[In])
		now := time.Now()
		for n := min(len(c.inputs)-c.queued, b.options.MaxQueue-q.inputs.Len()); n > 0; n-- {
			w := waiting[In]{c.inputs[c.queued], c.tokens[c.queued], c, c.queued, now}
			c.places = append(c.places, q.inputs.PushBack(w))
			c.queued++
		}
		if c.queued == len(c.inputs) {
			q.line.Remove(c.inLine)
		} else {
			q.line.MoveToBack(c.inLine)
		}
	}
	before := b.queued
	b.queued = 0
	for i := range b.queues {
		b.queued += b.queues[i].inputs.Len()
	}
	b.telemetry.queued(b.queued - before)
	close(b.moved)
	b.moved = make(chan struct{})
	if b.queued > 0 && b.running < b.options.Concurrency {
		b.running++
		go b.run()
	}
}

// leave takes what a call has waiting out of the queue, and ends the batches that it was the last to wait for.
func (b *Batcher[In]) leave(c *request[In]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.gone = true
	c.queue.line.Remove(c.inLine)
	for _, place := range c.places {
		c.queue.inputs.Remove(place)
	}
	b.changed(c.queue)
	for _, r := range c.batches {
		if r.callers--; r.callers == 0 {
			r.cancel()
		}
	}
	c.batches = nil
}

// run runs batches until the queue is empty.
func (b *Batcher[In]) run() {
	for {
		runtime.Gosched() // callers who come back at once with their next input are in this batch, not one batch late
		items := b.next()
		if items == nil {
			return
		}
		b.embed(items)
	}
}

// next takes the next batch out of the queue; nil: there is none, and the goroutine is not counted any more.
func (b *Batcher[In]) next() []waiting[In] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		q, items, full := b.front()
		if len(items) == 0 {
			b.running--
			return nil
		}
		if left := b.options.MaxDelay - time.Since(items[0].since); left > 0 && !full {
			b.wait(left)
			continue
		}
		items = items[:b.share(q, len(items))]
		for range items {
			q.inputs.Remove(q.inputs.Front())
		}
		b.busy += len(items)
		b.changed(q)
		return items
	}
}

// share is how many of the n inputs at the front of a queue are the next batch where several run at a time: no more than leave as many
// for each of the others, with what these work on. Else callers who come back one by one would keep small batches small and large ones
// large for ever, and of inputs that come at once one batch would have all. b.mu is held.
func (b *Batcher[In]) share(q *queue, n int) int {
	if b.options.MaxDelay > 0 { // batches are to be full
		return n
	}
	return min(n, (q.inputs.Len()+b.busy+b.options.Concurrency-1)/b.options.Concurrency)
}

// front returns which inputs of which queue are the next batch, and whether it has no room for more. b.mu is held.
func (b *Batcher[In]) front() (q *queue, items []waiting[In], full bool) {
	for i := range b.queues {
		if q = &b.queues[i]; q.inputs.Len() > 0 {
			break
		}
	}
	tokens := 0
	for e := q.inputs.Front(); e != nil; e = e.Next() {
		w, _ := e.Value.(waiting[In])
		if len(items) == b.options.MaxItems || len(items) > 0 && tokens > b.options.MaxTokens-w.tokens {
			return q, items, true
		}
		tokens += w.tokens
		items = append(items, w)
	}
	return q, items, len(items) == b.options.MaxItems || tokens >= b.options.MaxTokens
}

// wait waits until the queues change, at most as long as given. b.mu is held, but not meanwhile.
func (b *Batcher[In]) wait(atMost time.Duration) {
	moved := b.moved
	b.mu.Unlock()
	defer b.mu.Lock()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	}
}

// embed runs a batch and gives the callers what is theirs.
func (b *Batcher[In]) embed(items []waiting[In]) {
	ctx, running := b.begin(items)
	defer running.cancel()
	ctx, span := b.telemetry.start(ctx, links(items), len(items))
	defer span.End()
	inputs := make([]In, len(items))
	for i, w := range items {
		inputs[i] = w.input
	}
	start := time.Now()
	vectors, errs := Each(ctx, recovering[In]{b.embedder}, inputs)
	b.telemetry.ran(ctx, time.Since(start), len(items))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy -= len(items)
	for i, w := range items {
		c := w.request
		c.batches = slices.DeleteFunc(c.batches, func(r *batch) bool { return r == running })
		c.vectors[w.at], c.errs[w.at] = slices.Clip(vectors[i]), errs[i] // clipped: behind it may be another caller's
		if c.left--; c.left == 0 {
			close(c.done)
		}
	}
}

// links returns the spans of the callers that a batch works for.
func links[In any](items []waiting[In]) []trace.Link {
	var all []trace.Link
	for i, w := range items {
		if w.request.span.IsValid() && (i == 0 || items[i-1].request != w.request) {
			all = append(all, trace.Link{SpanContext: w.request.span})
		}
	}
	return all
}

// begin counts the callers of a batch, and returns the context that it runs in, which is done when all of them have left.
func (b *Batcher[In]) begin(items []waiting[In]) (context.Context, *batch) {
	ctx, cancel := context.WithCancel(context.Background())
	running := &batch{cancel: cancel}
	now, tokens := time.Now(), 0
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range items {
		tokens += w.tokens
		b.telemetry.waited(ctx, now.Sub(w.since))
		if !slices.Contains(w.request.batches, running) && !w.request.gone {
			w.request.batches = append(w.request.batches, running)
			running.callers++
		}
	}
	b.telemetry.began(ctx, tokens)
	if running.callers == 0 { // all have left since it was taken out of the queue
		cancel()
	}
	return ctx, running
}

// recovering makes an error of an embedder's panic, which in a goroutine of ours would end the process, and of runtime.Goexit, which would
// end the goroutine and leave the callers waiting. Both are permanent, so that each input is tried alone.
type recovering[In any] struct{ Embedder[In] }

func (r recovering[In]) Embed(ctx context.Context, inputs []In) (vectors [][]float32, err error) {
	err = itemerror.Permanent(errors.New("embed: the embedder ended its goroutine"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = itemerror.Permanent(fmt.Errorf("embed: the embedder panicked: %v", p))
			}
		}()
		vectors, err = r.Embedder.Embed(ctx, inputs)
	}()
	<-done
	return vectors, err
}
