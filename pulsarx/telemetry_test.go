package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// TestMetrics: what is sent, received and processed, with success and without, is measured with the attributes that the messaging
// conventions require, and doc.go lists every metric there is.
func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	p := keyed(t, c, strings.TrimPrefix(topic, "persistent://public/default/")) // the other way to name it
	for _, v := range []string{"a:1", "b:2"} {
		if _, err := p.Send(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Send(t.Context(), string(make([]byte, 6<<20))); !errors.Is(err, pulsarx.ErrMessageTooLarge) {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Send(canceled, "c:3"); err == nil {
		t.Fatal("sent with a context that has ended")
	}
	var handled atomic.Int64
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "s", MaxBatch: 1,
	}, func(context.Context, []pulsarx.Message[string]) error {
		if handled.Add(1) == 1 {
			return errors.New("the first attempt")
		}
		return nil
	})
	eventually(t, "the handler", func() bool { return handled.Load() >= 3 })
	r.stop()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range regexp.MustCompile(`(?m)^//\t((?:messaging|pulsarx)\.[a-z._]+) `).FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, match[1])
	}
	operations := map[string]string{
		"messaging.client.sent.messages": "send", "messaging.client.operation.duration": "send",
		"messaging.client.consumed.messages": "receive", "messaging.process.duration": "process",
	}
	failed := map[string]bool{}
	for name, sets := range metricAttributes(t, reader) {
		if !slices.Contains(documented, name) {
			t.Errorf("doc.go does not list %s", name)
		}
		for _, set := range sets {
			value := func(key attribute.Key) string {
				v, _ := set.Value(key)
				return v.AsString()
			}
			port, _ := set.Value("server.port")
			if value("server.address") != "127.0.0.1" || !strings.HasSuffix(s.url, fmt.Sprint(":", port.AsInt64())) {
				t.Errorf("%s of %s has the attributes %v", name, s.url, set.ToSlice())
			}
			if value("messaging.system") != "pulsar" || value("messaging.destination.name") != topic ||
				value("messaging.operation.name") != operations[name] && operations[name] != "" {
				t.Errorf("%s has the attributes %v", name, set.ToSlice())
			}
			failed[name] = failed[name] || value("error.type") != ""
		}
		delete(operations, name)
	}
	if len(operations) > 0 {
		t.Errorf("not measured: %v", operations)
	}
	for _, name := range []string{"messaging.client.sent.messages", "messaging.client.operation.duration", "messaging.process.duration"} {
		if !failed[name] {
			t.Errorf("%s has no failures", name)
		}
	}
}

// metricAttributes are the sets of attributes that each metric was recorded with.
func metricAttributes(t *testing.T, reader *sdkmetric.ManualReader) map[string][]attribute.Set {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	all := map[string][]attribute.Set{}
	for _, scope := range data.ScopeMetrics {
		if scope.Scope.Name != "github.com/tidemark-go/tidemark/pulsarx" {
			continue
		}
		for _, m := range scope.Metrics {
			var sets []attribute.Set
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					sets = append(sets, point.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					sets = append(sets, point.Attributes)
				}
			}
			all[m.Name] = sets
		}
	}
	return all
}
