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

// TestServer: where the URL names one host, metrics and spans say which; where it names several, they do not.
func TestServer(t *testing.T) {
	for url, want := range map[string]string{
		"pulsar://broker":               "broker:6650",
		"pulsar+ssl://broker":           "broker:6651",
		"pulsar://[::1]:7000":           "::1:7000",
		"pulsar://a:6650,b:6650":        "",
		"pulsar+ssl://a.example,b:6651": "",
	} {
		var got string
		for _, attr := range serverOf(url) {
			got += ":" + attr.Value.String()
		}
		if strings.TrimPrefix(got, ":") != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
