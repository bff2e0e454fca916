//go:build !race

package pulsarx_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// Not under the race detector: the reader of pulsar-client-go v0.21.0 reads the place of its last message while it reconnects,
// without a lock against its own Next. A stale place makes it send messages again, which readOrder passes over.

// TestReplayRestart: the broker goes away in the middle. The replay is complete and in order, or an error.
func TestReplayRestart(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	sendAll(t, keyed(t, c, topic), numbers(0, 3000))
	var got []string
	restarted := false
	err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}, MaxBatch: 10},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			for _, m := range batch {
				got = append(got, m.Value)
			}
			if len(got) > 500 && !restarted {
				restarted = true
				return s.broker.Restart()
			}
			return nil
		})
	if err == nil && !slices.Equal(got, numbers(0, 3000)) {
		t.Errorf("%d messages, sorted: %v", len(got), slices.IsSorted(got))
	}
	if err != nil && !slices.Equal(got, numbers(0, len(got))) {
		t.Errorf("out of order before %v", err)
	}
}
