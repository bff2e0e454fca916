package pulsarx

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

// TestPresets: the client gets the documented numbers, each of which gives way to a field that is set.
func TestPresets(t *testing.T) {
	for preset, want := range map[Preset]pulsar.ProducerOptions{
		Balanced:     {BatchingMaxPublishDelay: 10 * time.Millisecond, BatchingMaxMessages: 1000, CompressionType: pulsar.LZ4},
		LowLatency:   {BatchingMaxPublishDelay: 5 * time.Millisecond, BatchingMaxMessages: 500, CompressionType: pulsar.NoCompression},
		Throughput:   {BatchingMaxPublishDelay: 20 * time.Millisecond, BatchingMaxMessages: 2000, CompressionType: pulsar.LZ4},
		LowBandwidth: {BatchingMaxPublishDelay: 20 * time.Millisecond, BatchingMaxMessages: 2000, CompressionType: pulsar.ZSTD},
	} {
		want.BatchingMaxSize, want.BatcherBuilderType, want.MaxPendingMessages = 128<<10, pulsar.KeyBasedBatchBuilder, 1000
		check := func(b Batching, want pulsar.ProducerOptions) {
			t.Helper()
			b.Preset = preset
			o := ProducerOptions[string]{Topic: "t", Batching: b}.withDefaults()
			got, err := o.client(&Client{}, nil)
			if err != nil || o.validate() != nil || got.BatchingMaxPublishDelay != want.BatchingMaxPublishDelay ||
				got.BatchingMaxMessages != want.BatchingMaxMessages || got.CompressionType != want.CompressionType ||
				got.BatchingMaxSize != want.BatchingMaxSize || got.BatcherBuilderType != want.BatcherBuilderType ||
				got.MaxPendingMessages != want.MaxPendingMessages || o.SendTimeout != 30*time.Second {
				t.Errorf("%d with %+v: %+v %v, want %+v", preset, b, got, err, want)
			}
		}
		check(Batching{}, want)
		other := want
		other.BatchingMaxPublishDelay = time.Second
		check(Batching{MaxDelay: time.Second}, other)
		other = want
		other.BatchingMaxMessages = 7
		check(Batching{MaxMessages: 7}, other)
		other = want
		other.BatchingMaxMessages, other.BatcherBuilderType = 1, pulsar.DefaultBatchBuilder
		check(Batching{MaxMessages: -1}, other)
		other = want
		other.BatchingMaxSize = 9
		check(Batching{MaxBytes: 9}, other)
		other = want
		other.CompressionType = pulsar.SNAPPY
		check(Batching{Compression: Snappy}, other)
		other.CompressionType = pulsar.NoCompression
		check(Batching{Compression: NoCompression}, other)
		other = want
		other.BatcherBuilderType = pulsar.DefaultBatchBuilder
		check(Batching{AcrossKeys: true}, other)
	}
}

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

// TestQuietLogger: of what the client logs, warnings and errors are passed on, with the fields that are known to hold no payload.
func TestQuietLogger(t *testing.T) {
	var out strings.Builder
	var l log.Logger = quietLogger{slog.New(slog.NewTextHandler(&out, nil))}
	l = l.SubLogger(log.Fields{"topic": "orders", "payload": "hidden"})
	entry := l.WithFields(log.Fields{"producer_name": "p", "properties": "hidden"}).WithField("message", "hidden")
	entry.Warn("slow")
	entry.Errorf("lost %d", 3)
	entry.Debug("hidden")
	entry.Infof("%s", "hidden")
	text := out.String()
	for _, part := range []string{"topic=orders", "producer_name=p", "pulsar: slow", "pulsar: lost 3"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Error(text)
	}
}
