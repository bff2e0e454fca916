package pulsartest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

// No goroutine of the broker's may be left. The client leaves some of its own: those that wait for a timeout of a closed producer
// or of a chunk, those of a producer that connects again while it is closed, and those of a consumer whose SUBSCRIBE was refused.
func TestMain(m *testing.M) {
	var ignore []goleak.Option
	for _, f := range []string{
		"(*partitionProducer).failTimeoutMessages", "(*partitionProducer).reconnectToBroker", "(*chunkedMsgCtxMap).discardChunkIfExpire",
		"(*partitionConsumer).runEventsLoop", "(*partitionConsumer).dispatcher", "newAckGroupingTracker.func1",
	} {
		ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar."+f))
	}
	leaktest.Main(m, ignore...)
}
