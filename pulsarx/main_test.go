package pulsarx_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

// The client waits a minute for the other chunks of a message, even where they have come, and for ever on behalf of a producer that
// it has closed by itself.
func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar.(*chunkedMsgCtxMap).discardChunkIfExpire"),
		goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar.(*partitionProducer).runEventsLoop.func1"))
}
