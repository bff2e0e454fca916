package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/tidemark-go/tidemark/pulsarx"
)

func nopLogger() log.Logger { return log.DefaultNopLogger() }

// keyed is a producer of strings "key:value", keyed by what stands before the colon.
func keyed(t testing.TB, c *pulsarx.Client, topic string) *pulsarx.Producer[string] {
	t.Helper()
	return producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf})
}

func keyOf(v string) string {
	for i := range v {
		if v[i] == ':' {
			return v[:i]
		}
	}
	return ""
}

func send(t testing.TB, p *pulsarx.Producer[string], values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := p.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOrderUnderRetry(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		c, topic := s.client(t), topic(t)
		p := keyed(t, c, topic)
		for i := range 5 {
			send(t, p, fmt.Sprintf("123:%d", i))
		}
		var done record
		failed := false
		r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
			Topics: []string{topic}, Subscription: "s", Backoff: pulsarx.Backoff{Initial: 20 * time.Millisecond},
		}, func(_ context.Context, batch []pulsarx.Message[string]) error {
			errs := make(pulsarx.BatchError, len(batch))
			for i, m := range batch {
				if m.Value == "123:0" && !failed {
					failed = true
					errs[i] = errors.New("once")
					break // what comes behind has not been done
				}
				done.add(m.Value)
			}
			return errs.Err()
		})
		eventually(t, "five messages", func() bool { return done.len() >= 5 })
		r.stop()
		if want := []string{"123:0", "123:1", "123:2", "123:3", "123:4"}; !slices.Equal(done.all(), want) {
			t.Errorf("handled %v", done.all())
		}
	})
}
