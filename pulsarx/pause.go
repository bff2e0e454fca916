package pulsarx

import (
	"context"
	"fmt"
	"sync"
)

// Pause stops handing messages to the handler, and waits until the handlers at work have returned and their acknowledgements are
// confirmed, or ctx ends: then the consumer is paused all the same. The flow from the broker stops when what is prefetched,
// ReceiverQueue messages a partition, has come. What is held and what is prefetched stays in its order for Resume, and is not given
// to another consumer of the subscription meanwhile; close the consumer for that. Before Run, Pause lets it begin paused. After
// Close it is ErrClosed.
func (c *Consumer[T]) Pause(ctx context.Context) error {
	c.mu.Lock()
	ran := c.ran
	c.mu.Unlock()
	idle, err := c.pauses.pause()
	if err != nil || !ran {
		return err
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pulsarx: pausing the consumer %s: %w", c.options.Subscription, context.Cause(ctx))
	}
}

// Resume ends a pause. Without one it does nothing.
func (c *Consumer[T]) Resume() { c.pauses.resume() }

// pauses is whether a consumer is paused, and who waits for its handlers to have returned.
type pauses struct {
	changed chan struct{} // wakes Run's loop; 1 place

	mu     sync.Mutex
	closed bool
	on     bool
	idle   chan struct{} // of this pause, closed when nothing is at work
}

func newPauses() *pauses { return &pauses{changed: make(chan struct{}, 1)} }

func (p *pauses) pause() (idle <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("pulsarx: pause: %w", ErrClosed)
	}
	if !p.on {
		p.on, p.idle = true, make(chan struct{})
		p.wake()
	}
	return p.idle, nil
}

func (p *pauses) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on {
		p.end()
		p.wake()
	}
}

// close lets those go who wait.
func (p *pauses) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.on {
		p.end()
	}
}

// end ends a pause: the mutex is held.
func (p *pauses) end() {
	p.on = false
	p.settle()
}

func (p *pauses) settle() {
	select {
	case <-p.idle:
	default:
		close(p.idle)
	}
}

func (p *pauses) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// paused is asked by Run's loop, which says whether anything is at work.
func (p *pauses) paused(quiet bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on && quiet {
		p.settle()
	}
	return p.on
}
