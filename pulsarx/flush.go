package pulsarx

import (
	"context"
)

// flushing is a Flush that waits for the deliveries up to a number.
type flushing struct {
	upTo uint64
	err  error
	done chan struct{}
}

// flush closes the open batches, and waits for the outcomes of what was sent before, callbacks included.
func (p *Producer[T]) flush(ctx context.Context) error {
	p.mu.Lock()
	f := &flushing{upTo: p.last, done: make(chan struct{})}
	p.flushes = append(p.flushes, f)
	p.mu.Unlock()
	p.notify()
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
			_, _ = transmit(func() (MessageID, error) { return nil, producer.FlushWithCtx(closing) })
		}
	}()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finishFlushes lets those go on that nothing is left for.
func (p *Producer[T]) finishFlushes(called []*delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.flushes[:0]
	for _, f := range p.flushes {
		for _, d := range called {
			if d.err != nil && d.number <= f.upTo {
				f.err = d.err
			}
		}
		if first := p.pending.next; first != &p.pending && first.number <= f.upTo || uncalled(p.settled, f.upTo) {
			waiting = append(waiting, f)
			continue
		}
		close(f.done)
	}
	clear(p.flushes[len(waiting):])
	p.flushes = waiting
}

func uncalled(settled []*delivery, upTo uint64) bool {
	for _, d := range settled {
		if d.number <= upTo {
			return true
		}
	}
	return false
}
