package pulsarx

import (
	"context"
	"slices"
)

// flushing is a Flush that waits for the deliveries up to a number.
type flushing struct {
	upTo uint64
	left int // of them
	err  error
	done chan struct{}
}

// flush closes the open batches, and waits for the outcomes of what was sent before, callbacks included.
func (p *Producer[T]) flush(ctx context.Context) error {
	p.mu.Lock()
	f := &flushing{upTo: p.last, left: p.left, done: make(chan struct{})}
	if f.left == 0 {
		p.mu.Unlock()
		return nil
	}
	p.flushes = append(p.flushes, f)
	p.mu.Unlock()
	closing, cancel := context.WithCancel(ctx)
	closed := make(chan struct{})
	defer func() {
		cancel()
		<-closed
	}()
	go func() { // the client may wait for a broker that is gone, when the messages have long had their outcomes
		defer close(closed)
		if producer, err := p.main.enter(closing); err == nil {
			defer p.main.leave()
			_, _ = transmit(func() (MessageID, error) { return nil, (*producer).FlushWithCtx(closing) })
		}
	}()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		p.mu.Lock()
		p.flushes = slices.DeleteFunc(p.flushes, func(other *flushing) bool { return other == f })
		p.mu.Unlock()
		return context.Cause(ctx)
	}
}

// over takes note that nothing is left to do for a delivery, and lets a Flush go on that has waited for it. p.mu is held.
func (p *Producer[T]) over(d *delivery, err error) {
	p.left--
	for i := 0; i < len(p.flushes); i++ {
		f := p.flushes[i]
		if d.number > f.upTo {
			continue
		}
		if err != nil {
			f.err = err
		}
		if f.left--; f.left == 0 {
			close(f.done)
			p.flushes = slices.Delete(p.flushes, i, i+1)
			i--
		}
	}
}
