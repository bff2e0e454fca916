package pulsarx

import (
	"strings"
	"testing"
)

func TestConsumerOptions(t *testing.T) {
	good := ConsumerOptions{Topics: []string{"orders"}, Subscription: "s", DeadLetter: DeadLetterPolicy{Topic: "orders-dead"}}
	if err := good.validate(); err != nil {
		t.Errorf("good options: %v", err)
	}
	err := ConsumerOptions{
		Topics: []string{"", "orders"}, Type: 7, Workers: -1, MaxDelay: -2,
		DeadLetter: DeadLetterPolicy{Topic: "persistent://public/default/orders", MaxAttempts: -2},
	}.validate()
	for _, want := range []string{
		"an empty name", "DeadLetter.Topic orders is consumed too", "Subscription is missing", "unknown ConsumerOptions.Type 7",
		"Workers is -1", "MaxDelay is -2", "MaxAttempts is -2",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
