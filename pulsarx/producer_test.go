package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

type productV1 struct {
	ID   string `avro:"id"`
	Name string `avro:"name"`
}

type productV2 struct {
	ID       string `avro:"id"`
	FullName string `avro:"full_name,alias=name"`
	Age      int64  `avro:"age,default=7"`
}

// productNext is what Pulsar's default strategy, FULL, lets a producer of productV1 become: each reads the other's messages.
type productNext struct {
	ID      string    `avro:"id"`
	Name    string    `avro:"name"`
	Age     int64     `avro:"age,default=7"`
	Changed time.Time `avro:"-"`
}

// TestEvolution: a producer is upgraded, and a reader of the new schema reads what both wrote.
func TestEvolution(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p1 := producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{
				Topic: topic, Key: func(p productV1) string { return p.ID },
			})
			if _, err := p1.Send(t.Context(), productV1{"k1", "bob"}); err != nil {
				t.Fatal(err)
			}
			changed := time.UnixMilli(1700000000000)
			p2 := producer(t, c, pulsarx.Avro[productNext](), pulsarx.ProducerOptions[productNext]{
				Topic: topic, Key: func(p productNext) string { return p.ID }, EventTime: func(p productNext) time.Time { return p.Changed },
			})
			if _, err := p2.Send(t.Context(), productNext{"k1", "eve", 9, changed}); err != nil {
				t.Fatal(err)
			}
			var seen record
			r := run(t, c, pulsarx.Avro[productV2](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[productV2]) error {
					for _, m := range batch {
						seen.add(fmt.Sprintf("%s %s %d %v", m.Key, m.Value.FullName, m.Value.Age, m.EventTime.Equal(changed)))
					}
					return nil
				})
			eventually(t, "both", func() bool { return seen.len() >= 2 })
			r.stop()
			if got := seen.all(); !slices.Equal(got, []string{"k1 bob 7 false", "k1 eve 9 true"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestIncompatibleSchema(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
			_, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
			if !errors.Is(err, pulsarx.ErrIncompatibleSchema) || !strings.Contains(err.Error(), topic) {
				t.Errorf("NewProducer: %v", err)
			}
		})
	}
}

// TestRegistrySilent: while the registry does not answer, the messages wait, and others go on.
func TestRegistrySilent(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	remove := s.broker.Inject(pulsartest.Fault{Command: "GET_SCHEMA", Error: "ServiceNotReady"})
	p := producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
	if _, err := p.Send(t.Context(), productV1{"k1", "bob"}, pulsarx.Key("k1")); err != nil {
		t.Fatal(err)
	}
	plain := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic})
	if _, err := plain.Send(t.Context(), []byte("\x04k2\x06eve"), pulsarx.Key("k2")); err != nil {
		t.Fatal(err)
	}
	var seen record
	r := run(t, c, pulsarx.Avro[productV1](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(_ context.Context, batch []pulsarx.Message[productV1]) error {
			for _, m := range batch {
				seen.add(fmt.Sprint(m.Value.Name, m.Attempt))
			}
			return nil
		})
	eventually(t, "the other message", func() bool { return seen.len() == 1 })
	time.Sleep(50 * time.Millisecond)
	remove()
	eventually(t, "the message", func() bool { return seen.len() == 2 })
	r.stop()
	if got := seen.all(); !slices.Equal(got, []string{"eve1", "bob1"}) {
		t.Errorf("%v", got)
	}
}

// TestSendAsyncOutcomes: Close sends what is queued, every message has one outcome, and what comes later fails as closed.
func TestSendAsyncOutcomes(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, Key: keyOf})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			outcomes := map[int]int{}
			for i := range 500 {
				p.SendAsync(t.Context(), fmt.Sprintf("%d:x", i%7), func(id pulsarx.MessageID, err error) {
					mu.Lock()
					defer mu.Unlock()
					outcomes[i]++
					if id == nil || err != nil { // Close sends what is queued
						t.Errorf("message %d: %v %v", i, id, err)
					}
				})
			}
			if err := p.Close(timeout(t, 60*time.Second)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range 500 {
				if outcomes[i] != 1 {
					t.Fatalf("message %d has %d outcomes", i, outcomes[i])
				}
			}
			if _, err := p.Send(t.Context(), "a:1"); !errors.Is(err, pulsarx.ErrClosed) {
				t.Errorf("Send after Close: %v", err)
			}
			if err := p.Flush(t.Context()); !errors.Is(err, pulsarx.ErrClosed) {
				t.Errorf("Flush after Close: %v", err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

// TestBrokerDown: with the broker gone, every message has one outcome, by its timeout or by Close.
func TestBrokerDown(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{
		Topic: topic, SendTimeout: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Drop: true})
	var timedOut, closed, other atomic.Int64
	callback := func(_ pulsarx.MessageID, err error) {
		switch {
		case errors.Is(err, pulsarx.ErrSendTimeout):
			timedOut.Add(1)
		case errors.Is(err, pulsarx.ErrClosed):
			closed.Add(1)
		default:
			other.Add(1)
		}
	}
	for range 50 {
		p.SendAsync(t.Context(), "x", callback)
	}
	if _, err := p.Send(t.Context(), "y"); !errors.Is(err, pulsarx.ErrSendTimeout) {
		t.Errorf("Send: %v", err)
	}
	eventually(t, "the timeouts", func() bool { return timedOut.Load() == 50 })
	for range 20 {
		p.SendAsync(t.Context(), "x", callback)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = p.Close(ctx)
	eventually(t, "the outcomes", func() bool { return timedOut.Load()+closed.Load() == 70 })
	if err == nil && closed.Load() > 0 {
		t.Error("Close has lost messages and says nothing")
	}
	time.Sleep(20 * time.Millisecond)
	if n := timedOut.Load() + closed.Load() + other.Load(); n != 70 {
		t.Errorf("%d outcomes of 70", n)
	}
	q, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic + "-2"})
	if err != nil {
		t.Fatal(err)
	}
	s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic + "-2", Drop: true})
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := q.Send(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send with a short context: %v", err)
	}
	_ = q.Close(ctx) // which has ended
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{
		URL: "pulsar://127.0.0.1:1", Pulsar: pulsar.ClientOptions{OperationTimeout: 300 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	fails := map[string]func(context.Context) error{
		"producer": func(ctx context.Context) error {
			_, err := pulsarx.NewProducer(ctx, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: "t"})
			return err
		},
		"consumer": func(ctx context.Context) error {
			_, err := pulsarx.NewConsumer(ctx, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{Topics: []string{"t"}, Subscription: "s"})
			return err
		},
		"consumer of a pattern": func(ctx context.Context) error {
			_, err := pulsarx.NewConsumer(ctx, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{TopicPattern: "t.*", Subscription: "s"})
			return err
		},
		"replay": func(ctx context.Context) error {
			return pulsarx.Replay(ctx, c, pulsarx.Bytes(), pulsarx.ReplayOptions{Topics: []string{"t"}},
				func(context.Context, []pulsarx.Message[[]byte]) error { return nil })
		},
	}
	for name, fail := range fails {
		err := fail(t.Context())
		for _, want := range []string{"pulsar://127.0.0.1:1", "connection refused"} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v does not say %q, on one line", name, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := fail(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a short context: %v", name, err)
		}
		cancel()
	}
	time.Sleep(400 * time.Millisecond) // what was abandoned ends by its own timeout
}

// TestSilent: a server that takes connections and says nothing is an error in time, also of a pattern.
func TestSilent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{
		URL: "pulsar://" + listener.Addr().String(), Pulsar: pulsar.ClientOptions{OperationTimeout: 300 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	ctx := timeout(t, 60*time.Second)
	_, err = pulsarx.NewConsumer(ctx, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{TopicPattern: "t.*", Subscription: "s"})
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Error(err)
	}
}

func TestClientOptions(t *testing.T) {
	for _, o := range []pulsarx.ClientOptions{
		{},
		{URL: "localhost:6650"},
		{URL: "http://localhost:6650"},
		{URL: "pulsar://"},
		{URL: "pulsar://user:secret@localhost"},
		{URL: "pulsar://localhost:6650", AdminURL: "localhost"},
		{URL: "pulsar://localhost:6650", Token: "secret", Pulsar: pulsar.ClientOptions{Authentication: pulsar.NewAuthenticationToken("secret")}},
	} {
		_, err := pulsarx.NewClient(o)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o.URL, err)
		}
	}
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: "pulsar://a:6650,b:6650"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := pulsarx.NewProducer(t.Context(), c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: "t"}); !errors.Is(err, pulsarx.ErrClosed) {
		t.Errorf("a closed client makes producers: %v", err)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	broker, err := pulsartest.NewBroker(pulsartest.Options{Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	try := func(token string, wait time.Duration) error {
		c, err := pulsarx.NewClient(pulsarx.ClientOptions{
			URL: broker.URL(), Token: token, Pulsar: pulsar.ClientOptions{OperationTimeout: wait},
		})
		if err != nil {
			return err
		}
		defer c.Close(t.Context())
		p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: "t"})
		if err != nil {
			return err
		}
		defer p.Close(t.Context())
		if _, err := p.Send(t.Context(), productV1{"a", "b"}); err != nil {
			return err
		}
		// The look-up of the writer's schema authenticates too.
		return pulsarx.Replay(t.Context(), c, pulsarx.Avro[productV2](), pulsarx.ReplayOptions{Topics: []string{"t"}},
			func(context.Context, []pulsarx.Message[productV2]) error { return nil })
	}
	if err := try("right", time.Minute); err != nil {
		t.Error(err)
	}
	if err := try("wrong-token", time.Second); err == nil || strings.Contains(err.Error(), "wrong-token") {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestProducerErrors(t *testing.T) {
	s := inProcess(t)
	c := s.client(t)
	_, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{
		Batching: pulsarx.Batching{Preset: 9, MaxMessages: -2, MaxDelay: -1, MaxBytes: -1, Compression: 77},
	})
	for _, want := range []string{"Topic", "Preset", "MaxMessages", "MaxDelay", "MaxBytes", "Compression"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic(t)})
	if _, err := p.Send(t.Context(), "\xff"); err == nil {
		t.Error("what cannot be encoded is sent")
	}
	if _, err := p.Send(t.Context(), "x", pulsarx.EventTime(time.Unix(-1, 0))); err == nil {
		t.Error("an event time before 1970 is sent")
	}
	if _, err := p.Send(t.Context(), strings.Repeat("x", 6<<20)); err == nil {
		t.Error("six mebibytes are sent")
	}
}

// TestTraces: the batch's span is linked to the message's, and in the handler's context.
func TestTraces(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(before)
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	p := keyed(t, c, topic)
	ctx, root := provider.Tracer("test").Start(t.Context(), "root")
	if _, err := p.Send(ctx, "a:1"); err != nil {
		t.Fatal(err)
	}
	root.End()
	inHandler := make(chan trace.SpanContext, 1)
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(ctx context.Context, _ []pulsarx.Message[string]) error {
			inHandler <- trace.SpanContextFromContext(ctx)
			return nil
		})
	got := <-inHandler
	r.stop()
	byName := map[string]tracetest.SpanStub{}
	for _, span := range spans.GetSpans() {
		byName[strings.Fields(span.Name)[0]] = span
	}
	sent, processed := byName["send"], byName["process"]
	if sent.Parent.SpanID() != root.SpanContext().SpanID() {
		t.Errorf("spans %v", slices.Collect(maps.Keys(byName)))
	}
	if len(processed.Links) != 1 || processed.Links[0].SpanContext.SpanID() != sent.SpanContext.SpanID() {
		t.Errorf("links %+v", processed.Links)
	}
	received := byName["receive"]
	if len(received.Links) != 1 || processed.Parent.SpanID() != received.SpanContext.SpanID() || received.StartTime.After(processed.StartTime) {
		t.Errorf("receive %+v, process's parent %v", received, processed.Parent.SpanID())
	}
	for name, kind := range map[string]trace.SpanKind{
		"send": trace.SpanKindProducer, "receive": trace.SpanKindClient, "process": trace.SpanKindConsumer,
	} {
		span := byName[name]
		if span.SpanKind != kind {
			t.Errorf("%s is of the kind %v", name, span.SpanKind)
		}
		for _, want := range []attribute.KeyValue{
			attribute.String("messaging.operation.type", name), attribute.String("messaging.operation.name", name),
			attribute.String("messaging.system", "pulsar"), attribute.String("messaging.destination.name", topic),
		} {
			if !slices.Contains(span.Attributes, want) {
				t.Errorf("%s lacks %v: %v", name, want, span.Attributes)
			}
		}
	}
	if got.SpanID() != processed.SpanContext.SpanID() {
		t.Error("the handler's context has another span")
	}
}

// TestFailedSpans: a span says what kind of error it ended with.
func TestFailedSpans(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	defer otel.SetTracerProvider(before)
	c, topic := inProcess(t).client(t), topic(t)
	p := keyed(t, c, topic)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Send(canceled, "a:0"); err == nil {
		t.Fatal("sent with a context that has ended")
	}
	send(t, p, "a:1")
	var attempts atomic.Int64
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
		func(context.Context, []pulsarx.Message[string]) error {
			if attempts.Add(1) == 1 {
				return errors.New("the first attempt")
			}
			return nil
		})
	eventually(t, "the second attempt", func() bool { return attempts.Load() >= 2 })
	r.stop()
	kinds := map[string]string{}
	for _, span := range spans.GetSpans() {
		for _, attr := range span.Attributes {
			if attr.Key == "error.type" && span.Status.Code == codes.Error {
				kinds[strings.Fields(span.Name)[0]] = attr.Value.AsString()
			}
		}
	}
	if want := map[string]string{"send": "canceled", "process": "_OTHER"}; !maps.Equal(kinds, want) {
		t.Errorf("error types %v, want %v", kinds, want)
	}
}
