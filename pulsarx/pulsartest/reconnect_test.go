//go:build !race

package pulsartest_test

import (
	"slices"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestFaultSend is apart since the client's producer races with itself when it reconnects: it changes the metadata of a batch that it is
// sending.
func TestFaultSend(t *testing.T) {
	on, client := brokerAndClient(t, pulsartest.Options{})
	remove := on.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "t", Key: "bad", After: 1, Count: 1, Error: "PersistenceError: no disk"})
	defer remove()
	ids := produce(t, client, pulsar.ProducerOptions{Topic: "t", DisableBatching: true}, numbered(4, func(i int) string { return []string{"good", "bad", "bad", "good"}[i] })...)
	if got := on.broker.Messages("t"); len(got) != 4 || slices.Contains(ids, nil) {
		t.Fatal(got) // the client reconnects and sends again
	}
}
