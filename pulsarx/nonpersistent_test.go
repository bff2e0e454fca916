package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tidemark-go/tidemark/pulsarx"
)

func volatile(tb testing.TB) string {
	tb.Helper()
	return "non-" + topic(tb)
}

// TestNonPersistent: producing, consuming and dead letters work; what needs kept messages is refused by name.
func TestNonPersistent(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), volatile(t)
			var seen record
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					errs := make(pulsarx.BatchError, len(batch))
					for i, m := range batch {
						if strings.HasPrefix(m.Value, "bad") {
							errs[i] = pulsarx.Permanent(errors.New("bad"))
							continue
						}
						seen.add(m.Value)
					}
					return errs.Err()
				})
			p := keyed(t, c, topic)
			eventually(t, "a good one", func() bool { // what the broker gets before the consumer has asked for it is dropped
				send(t, p, "good:1")
				return seen.len() > 0
			})
			send(t, p, "bad:1")
			persistent := strings.TrimPrefix(topic, "non-")
			if dead := letters(t, s, persistent+"-s-DLQ", 1)[0]; string(dead.Payload()) != "bad:1" {
				t.Errorf("dead letter %q", dead.Payload())
			}
			r.stop()
			fails := map[string]error{}
			fails["Replay"] = pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}}, nil)
			_, fails["Deduplicate"] = pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{
				Topic: topic, Name: "n", Deduplicate: true,
			})
			_, fails["DeadLetter.Topic"] = pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{persistent}, Subscription: "s", DeadLetter: pulsarx.DeadLetterPolicy{Topic: topic},
			})
			for what, topics := range map[string][3]string{
				"the input": {topic, "out", ""}, "the output": {persistent, topic, ""}, "its dead letters": {persistent, "out", topic},
			} {
				fails["RunStateful of "+what] = pulsarx.RunStateful(t.Context(), c, pulsarx.String(),
					pulsarx.StatefulOptions{Topic: topics[0], Subscription: "s", DeadLetterTopic: topics[2]}, nil,
					pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: topics[1]}}, nil)
			}
			_, fails["Redrive"] = pulsarx.Redrive(t.Context(), c, pulsarx.RedriveOptions{Topic: topic, Order: pulsarx.RedriveForced})
			for what, err := range fails {
				if !errors.Is(err, pulsarx.ErrNonPersistent) || !strings.Contains(err.Error(), topic) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := c.DropRates(t.Context(), persistent); !errors.Is(err, pulsarx.ErrPersistent) {
				t.Errorf("DropRates: %v", err)
			}
		})
	}
}

// TestDropRates: answers in the shape of Pulsar 4.0.8's, as metrics.
func TestDropRates(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/admin/v2/non-persistent/public/default/feed/stats":
			_, _ = io.WriteString(w, `{"msgRateIn":3.3,"publishers":[{"producerId":1,"msgRateIn":3.3,"msgDropRate":0.25},{"msgDropRate":0.5}],`+
				`"subscriptions":{"slow":{"msgRateOut":0.016,"msgDropRate":3.31,"consumers":[{"availablePermits":0}]},"quick":{"msgDropRate":0.0}}}`)
		case "/admin/v2/non-persistent/public/default/parts/partitioned-stats":
			_, _ = io.WriteString(w, `{"publishers":[{"msgDropRate":2.0}],"subscriptions":{}}`)
		default:
			http.Error(w, `{"reason":"Topic not found"}`, http.StatusNotFound)
		}
	}))
	defer server.Close()
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: "pulsar://localhost:6650", AdminURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	stop, err := c.ObserveDrops("non-persistent://public/default/feed", "non-persistent://public/default/parts")
	if err != nil {
		t.Fatal(err)
	}
	collect := func() map[string]float64 {
		var data metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &data); err != nil {
			t.Fatal(err)
		}
		rates := map[string]float64{}
		for _, scope := range data.ScopeMetrics {
			for _, m := range scope.Metrics {
				gauge, ok := m.Data.(metricdata.Gauge[float64])
				for _, point := range gauge.DataPoints {
					topic, _ := point.Attributes.Value("messaging.destination.name")
					name, _ := point.Attributes.Value("messaging.destination.subscription.name")
					if ok && m.Name == "pulsarx.topic.drop_rate" {
						rates[topic.AsString()[len("non-persistent://public/default/"):]+" "+name.AsString()] = point.Value
					}
				}
			}
		}
		return rates
	}
	if got, want := collect(), (map[string]float64{"feed ": 0.75, "feed slow": 3.31, "feed quick": 0, "parts ": 2}); !maps.Equal(got, want) {
		t.Errorf("rates %v, want %v", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := collect(); len(got) > 0 {
		t.Errorf("rates after stop: %v", got)
	}
	if _, err := c.DropRates(t.Context(), "non-persistent://public/default/missing"); err == nil {
		t.Error("a topic that does not exist has rates")
	}
	if _, err := c.ObserveDrops("persistent://public/default/feed"); !errors.Is(err, pulsarx.ErrPersistent) {
		t.Errorf("ObserveDrops: %v", err)
	}
}

// TestSampler: about the share of the keys, whole keys, the same ones again; others with another salt; and no waiting.
func TestSampler(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	open := func(o pulsarx.SamplerOptions[string]) *pulsarx.Sampler[string] {
		o.Producer.Topic = topic
		sampler, err := pulsarx.NewSampler(t.Context(), c, pulsarx.String(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sampler.Close(timeout(t, 60*time.Second)) })
		return sampler
	}
	chosen := func(o pulsarx.SamplerOptions[string]) map[string]int {
		sampler, got := open(o), map[string]int{}
		for i := range 6000 {
			if key := fmt.Sprintf("user-%d", i%2000); sampler.Offer(t.Context(), key+":x") {
				got[key]++
			}
		}
		return got
	}
	o := pulsarx.SamplerOptions[string]{Producer: pulsarx.ProducerOptions[string]{Key: keyOf, MaxPending: 10_000}, Share: 0.1}
	first, again := chosen(o), chosen(o)
	if n := len(first); n < 150 || n > 250 {
		t.Errorf("%d of 2000 keys", n)
	}
	for key, n := range first {
		if n != 3 || again[key] != 3 {
			t.Errorf("%s: %d and %d of 3 values", key, n, again[key])
		}
	}
	o.Salt = "other"
	same := 0
	for key := range chosen(o) {
		if first[key] > 0 {
			same++
		}
	}
	if same > 60 {
		t.Errorf("another salt chooses %d of the same keys", same)
	}
	var random atomic.Int64
	sampler := open(pulsarx.SamplerOptions[string]{Share: 0.5})
	for range 2000 {
		if sampler.Offer(t.Context(), "x") {
			random.Add(1)
		}
	}
	if n := random.Load(); n < 850 || n > 1150 {
		t.Errorf("%d of 2000 values without a key", n)
	}
	for _, share := range []float64{0, -1, 1.5} {
		if _, err := pulsarx.NewSampler(t.Context(), c, pulsarx.String(), pulsarx.SamplerOptions[string]{
			Producer: pulsarx.ProducerOptions[string]{Topic: topic}, Share: share,
		}); err == nil {
			t.Errorf("share %v", share)
		}
	}
}

// TestDropped: what becomes of the values of a sampler is counted, and so is what a broker confirms and drops.
func TestDropped(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	g := newGate(t, inProcess(t).url, nil, nil)
	g.drops = true
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: g.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	sampler, err := pulsarx.NewSampler(t.Context(), c, pulsarx.String(), pulsarx.SamplerOptions[string]{
		Producer: pulsarx.ProducerOptions[string]{
			Topic: volatile(t), Key: keyOf, MaxPending: 1, Batching: pulsarx.Batching{MaxDelay: time.Hour}, // until Flush
		},
		Share: 0.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"skipped": 0, "full": -1, "sent": 1, "failed": 1, "dropped": 1}
	var chosen string
	for i := range 100 {
		if key := fmt.Sprint(i, ":x"); sampler.Offer(t.Context(), key) {
			chosen = key
			want["full"]++
		} else {
			want["skipped"]++
		}
	}
	if err := sampler.Flush(t.Context()); err != nil && !errors.Is(err, pulsarx.ErrQueueFull) { // of those that failed meanwhile
		t.Fatal(err)
	}
	if err := sampler.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sampler.Offer(t.Context(), chosen)
	counts := map[string]int64{}
	eventually(t, "all outcomes", func() bool {
		var data metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &data); err != nil {
			t.Fatal(err)
		}
		for _, scope := range data.ScopeMetrics {
			for _, m := range scope.Metrics {
				sum, _ := m.Data.(metricdata.Sum[int64])
				for _, point := range sum.DataPoints {
					switch outcome, _ := point.Attributes.Value("pulsarx.sampler.outcome"); m.Name {
					case "pulsarx.sampler.values":
						counts[outcome.AsString()] = point.Value
					case "pulsarx.producer.dropped":
						counts["dropped"] = point.Value
					}
				}
			}
		}
		return counts["sent"]+counts["failed"] == 2 && counts["dropped"] > 0
	})
	if !maps.Equal(counts, want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
}
