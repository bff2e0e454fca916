package pulsartest_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The client's own goroutine outlives its producer until the next tick of its send timeout.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/apache/pulsar-client-go/pulsar.(*partitionProducer).failTimeoutMessages"))
}
