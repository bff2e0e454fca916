package pulsarx_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// The metrics of this package, and of every other that uses OpenTelemetry's global provider, for Prometheus to fetch.
func Example_prometheus() {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		log.Fatal(err)
	}
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)))
	defer otel.SetMeterProvider(before) // an application keeps it
	// An application serves this handler at /metrics.
	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()

	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx := context.Background()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	clicks, err := pulsarx.NewProducer(ctx, client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "clicks"})
	if err != nil {
		log.Fatal(err)
	}
	defer clicks.Close(ctx)
	for range 3 {
		if _, err := clicks.Send(ctx, "/"); err != nil {
			log.Fatal(err)
		}
	}

	answer, err := http.Get(metrics.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, "{"); name == "messaging_client_sent_messages_total" {
			fmt.Println(name, strings.TrimSpace(rest[strings.LastIndexByte(rest, '}')+1:]))
		}
	}
	// Output:
	// messaging_client_sent_messages_total 3
}
