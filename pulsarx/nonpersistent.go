package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// nonPersistent tells whether a topic keeps nothing.
func nonPersistent(topic string) bool { return strings.HasPrefix(topic, "non-persistent://") }

// SamplerOptions configure a Sampler.
type SamplerOptions[T any] struct {
	// Producer says where to and how; FailWhenFull is always set.
	Producer ProducerOptions[T]
	// Share of the values to send, more than 0 and at most 1. Where Producer.Key returns a key, all values of a key are sent or none,
	// always the same; otherwise each value is decided at random.
	Share float64
	// Salt makes samplers with different salts choose different keys.
	Salt string
}

// Sampler sends a share of what it is offered, and gives up a value rather than wait: for feeds of evaluation and training that may
// have gaps, mostly on non-persistent topics. It is safe for concurrent use. pulsarx.sampler.values counts what became of the values.
type Sampler[T any] struct {
	producer *Producer[T]
	options  SamplerOptions[T]
	counts   map[string]metric.MeasurementOption
}

// The fates of a value; see pulsarx.sampler.outcome.
const (
	sampledSent    = "sent"
	sampledSkipped = "skipped"
	sampledFull    = "full"
	sampledFailed  = "failed"
)

// NewSampler makes the producer as NewProducer does.
func NewSampler[T any](ctx context.Context, c *Client, codec Codec[T], o SamplerOptions[T]) (*Sampler[T], error) {
	if !(o.Share > 0 && o.Share <= 1) {
		return nil, fmt.Errorf("pulsarx: SamplerOptions.Share is %v", o.Share)
	}
	o.Producer.FailWhenFull = true
	p, err := NewProducer(ctx, c, codec, o.Producer)
	if err != nil {
		return nil, err
	}
	s := &Sampler[T]{producer: p, options: o, counts: map[string]metric.MeasurementOption{}}
	for _, outcome := range []string{sampledSent, sampledSkipped, sampledFull, sampledFailed} {
		set := c.tel.where(o.Producer.Topic, "")
		attrs := append(set.ToSlice(), attribute.String("pulsarx.sampler.outcome", outcome))
		s.counts[outcome] = metric.WithAttributeSet(attribute.NewSet(attrs...))
	}
	return s, nil
}

// Offer sends v if it belongs to the share, and does not wait for its receipt or for a place. It returns whether v was chosen.
func (s *Sampler[T]) Offer(ctx context.Context, v T, o ...SendOption) bool {
	if !s.chosen(v) {
		s.count(ctx, sampledSkipped)
		return false
	}
	s.producer.SendAsync(ctx, v, func(id MessageID, err error) {
		switch {
		case err == nil:
			s.count(context.Background(), sampledSent)
		case errors.Is(err, ErrQueueFull):
			s.count(context.Background(), sampledFull)
		default:
			s.count(context.Background(), sampledFailed)
		}
	}, o...)
	return true
}

func (s *Sampler[T]) chosen(v T) bool {
	key := ""
	if s.options.Producer.Key != nil {
		key = s.options.Producer.Key(v)
	}
	if key == "" {
		return rand.Float64() < s.options.Share //nolint:gosec // no secret
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.options.Salt + "\x00" + key))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // FNV alone leaves the high bits of short keys alike
	return float64((x^x>>33)>>11)/(1<<53) < s.options.Share
}

func (s *Sampler[T]) count(ctx context.Context, outcome string) {
	s.producer.client.tel.sampled.Add(ctx, 1, s.counts[outcome])
}

// Flush is Producer.Flush.
func (s *Sampler[T]) Flush(ctx context.Context) error { return s.producer.Flush(ctx) }

// Close is Producer.Close.
func (s *Sampler[T]) Close(ctx context.Context) error { return s.producer.Close(ctx) }

// DropRates are how many messages a second the broker drops on a non-persistent topic, averages of its last minute.
type DropRates struct {
	// Published are dropped because a connection sent more at once than the broker takes.
	Published float64
	// Subscriptions are dropped, by the name of the subscription, because its consumers had no room for them.
	Subscriptions map[string]float64
}

// DropRates asks the admin interface, at ClientOptions.AdminURL, what a non-persistent topic drops, all partitions together.
// A persistent topic drops nothing: for it the error is ErrPersistent.
func (c *Client) DropRates(ctx context.Context, topic string) (DropRates, error) {
	if !nonPersistent(topic) {
		return DropRates{}, fmt.Errorf("pulsarx: drop rates of %s: %w", topic, ErrPersistent)
	}
	type stats struct {
		Publishers    []struct{ MsgDropRate float64 }
		Subscriptions map[string]struct{ MsgDropRate float64 }
	}
	parts := strings.Split(strings.TrimPrefix(topic, "non-persistent://"), "/")
	path := "/non-persistent" + admin.Path(parts...)
	var s stats
	err := c.Admin(ctx, http.MethodGet, path+"/stats", nil, &s)
	if admin.Status(err) == http.StatusNotFound { // a partitioned one has no statistics of its own name
		err = c.Admin(ctx, http.MethodGet, path+"/partitioned-stats?perPartition=false", nil, &s)
	}
	if err != nil {
		return DropRates{}, err
	}
	rates := DropRates{Subscriptions: map[string]float64{}}
	for _, p := range s.Publishers {
		rates.Published += p.MsgDropRate
	}
	for name, sub := range s.Subscriptions {
		rates.Subscriptions[name] = sub.MsgDropRate
	}
	return rates, nil
}

// ObserveDrops reports DropRates of the topics whenever metrics are collected, as pulsarx.topic.drop_rate, until stop is called: for
// publishers without messaging.destination.subscription.name, and for each subscription.
func (c *Client) ObserveDrops(topics ...string) (stop func() error, err error) {
	for _, topic := range topics {
		if !nonPersistent(topic) {
			return nil, fmt.Errorf("pulsarx: drop rates of %s: %w", topic, ErrPersistent)
		}
	}
	meter := otel.Meter(scope)
	gauge, err := meter.Float64ObservableGauge("pulsarx.topic.drop_rate", metric.WithUnit("{message}/s"),
		metric.WithDescription("Messages that the broker of a non-persistent topic drops a second."))
	if err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		var errs []error
		for _, topic := range topics {
			rates, err := c.DropRates(ctx, topic)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			o.ObserveFloat64(gauge, rates.Published, metric.WithAttributeSet(c.tel.where(topic, "")))
			for name, rate := range rates.Subscriptions {
				o.ObserveFloat64(gauge, rate, metric.WithAttributeSet(c.tel.where(topic, name)))
			}
		}
		return errors.Join(errs...)
	}, gauge)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	return registration.Unregister, nil
}
