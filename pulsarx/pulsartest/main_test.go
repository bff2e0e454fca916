package pulsartest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of the broker's may be left. The client leaves some of its own: those that wait for a timeout of a closed producer
// or of a chunk, and those of a consumer whose SUBSCRIBE was refused.
func TestMain(m *testing.M) {
	var ignore []goleak.Option
	for _, f := range []string{
		"(*partitionProducer).failTimeoutMessages", "(*chunkedMsgCtxMap).discardChunkIfExpire",
		"(*partitionConsumer).runEventsLoop", "(*partitionConsumer).dispatcher", "newAckGroupingTracker.func1",
	} {
		ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar."+f))
	}
	goleak.VerifyTestMain(m, ignore...)
}
