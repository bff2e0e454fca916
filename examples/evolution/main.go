// Evolution upgrades a producer under running consumers. Orders go through a topic while their schema changes: an upgrade that both
// the old and the new consumer read, an upgrade that the broker refuses, a rollback, and one that only consumers that were upgraded
// first can read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func main() {
	url := flag.String("url", os.Getenv("PULSAR_URL"), "a real Pulsar, pulsar://host:6650; an in-process one by default")
	admin := flag.String("admin", os.Getenv("PULSAR_ADMIN_URL"), "its admin interface, http://host:8080")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "evolution: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *url, *admin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "evolution:", err)
		os.Exit(1)
	}
}

// run tells the story on the broker at url, or on one of its own.
func run(ctx context.Context, out io.Writer, url, admin string) (err error) {
	if url == "" {
		broker, err := pulsartest.NewBroker(pulsartest.Options{})
		if err != nil {
			return err
		}
		defer broker.Close()
		url, admin = broker.URL(), broker.AdminURL()
	}
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: url, AdminURL: admin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	s := &story{out: out, client: client, topic: fmt.Sprintf("persistent://public/default/evolution-%d", time.Now().UnixNano())}
	billing, err := follow[OrderV1](ctx, s, "billing")
	if err != nil {
		return err
	}
	analytics, err := follow[OrderV2](ctx, s, "analytics")
	if err != nil {
		return errors.Join(err, billing.stop())
	}
	s.billing, s.analytics = billing.log, analytics.log
	err = s.tell(ctx)
	return errors.Join(err, billing.stop(), analytics.stop())
}

// story is what happens to the topic.
type story struct {
	out                io.Writer
	client             *pulsarx.Client
	topic              string
	billing, analytics *log
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func (s *story) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{s.first, s.upgrade, s.refused, s.back, s.backward} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return s.history(ctx)
}

func (s *story) first(ctx context.Context) error {
	s.say("1. A producer of OrderV1; billing reads OrderV1, analytics reads OrderV2 already.")
	return send(ctx, s, OrderV1{ID: "o-1", Customer: "Ann", Cents: 1250, Coupon: "SPRING"})
}

func (s *story) upgrade(ctx context.Context) error {
	s.say("\n2. The producer becomes OrderV2: a currency and a note come, each with a default; the coupon, which had one, goes.")
	if err := s.check(ctx, pulsarx.Avro[OrderV2]()); err != nil {
		return err
	}
	note := "gift"
	return send(ctx, s, OrderV2{ID: "o-2", Customer: "Bob", Cents: 990, Currency: "CHF", Note: &note})
}

func (s *story) refused(ctx context.Context) error {
	s.say("\n3. OrderV3 would make the amount a text. The registry says so beforehand, and a producer is refused before it sends:")
	if err := s.check(ctx, pulsarx.Avro[OrderV3]()); !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
		return fmt.Errorf("OrderV3 passes: %w", err)
	}
	_, err := pulsarx.NewProducer(ctx, s.client, pulsarx.Avro[OrderV3](), pulsarx.ProducerOptions[OrderV3]{Topic: s.topic})
	if !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
		return fmt.Errorf("a producer of OrderV3: %w", err)
	}
	s.say("   NewProducer:  %s", firstLine(err))
	return nil
}

func (s *story) back(ctx context.Context) error {
	s.say("\n4. OrderV2 has an error: the producer goes back to OrderV1.")
	version, err := s.client.Schemas().Rollback(ctx, s.topic, 0)
	if err != nil {
		return err
	}
	s.say("   its messages have version %d again; the newest schema stays what it was", version)
	return send(ctx, s, OrderV1{ID: "o-3", Customer: "Cleo", Cents: 4200, Coupon: "none"})
}

func (s *story) backward(ctx context.Context) error {
	s.say("\n5. OrderV4 drops the customer, which has no default. FULL does not allow that; BACKWARD does, for consumers that go first:")
	if err := s.check(ctx, pulsarx.Avro[OrderV4]()); !errors.Is(err, pulsarx.ErrIncompatibleSchema) {
		return fmt.Errorf("OrderV4 passes: %w", err)
	}
	if err := s.client.Schemas().SetTopicStrategy(ctx, s.topic, pulsarx.Backward); err != nil {
		return err
	}
	for { // the broker applies it within moments
		err := s.client.Schemas().Compatible(ctx, s.topic, schemaOf(pulsarx.Avro[OrderV4]()))
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	privacy, err := follow[OrderV4](ctx, s, "privacy")
	if err != nil {
		return err
	}
	defer func() { _ = privacy.stop() }()
	p, err := pulsarx.NewProducer(ctx, s.client, pulsarx.Avro[OrderV4](), pulsarx.ProducerOptions[OrderV4]{Topic: s.topic, Key: OrderV4.key})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	if _, err := p.Send(ctx, OrderV4{ID: "o-4", Cents: 100, Currency: "EUR"}); err != nil {
		return err
	}
	// A consumer that was not upgraded finds no customer: its messages go to the dead letters, with the reason, and none is lost.
	return s.letters(ctx, privacy.log)
}

// letters waits for what the upgraded consumer has read, and for what billing could not.
func (s *story) letters(ctx context.Context, upgraded *log) error {
	if err := upgraded.wait(ctx, "o-4"); err != nil {
		return err
	}
	s.say("   privacy   (OrderV4)  %s", upgraded.last())
	letter, err := deadLetter(ctx, s.client, s.topic+"-billing-DLQ")
	if err != nil {
		return err
	}
	s.say("   billing   (OrderV1)  to the dead letters: %s", firstLine(errors.New(letter)))
	return nil
}

func (s *story) history(ctx context.Context) error {
	s.say("\nThe topic's schemas, as the registry lists them:")
	all, err := s.client.Schemas().List(ctx, s.topic)
	if err != nil {
		return err
	}
	for _, v := range all {
		s.say("   version %d  %s", v.Version, v.Definition)
	}
	s.say("No consumer was restarted.")
	return nil
}

// check asks whether the topic takes a schema, and says what it answers.
func (s *story) check(ctx context.Context, codec interface {
	Schema() (pulsarx.Schema, error)
},
) error {
	err := s.client.Schemas().Compatible(ctx, s.topic, schemaOf(codec))
	if err == nil {
		s.say("   the registry: compatible")
		return nil
	}
	s.say("   the registry: %s", firstLine(err))
	return err
}

func schemaOf(codec interface {
	Schema() (pulsarx.Schema, error)
},
) pulsarx.Schema {
	schema, err := codec.Schema()
	if err != nil {
		panic(err) // a fault of this program
	}
	return schema
}

// firstLine shortens what a broker says, which may hold whole schemas.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if i := strings.Index(line, "Error during"); i >= 0 {
		line = line[i:]
	}
	return strings.TrimRight(line, ": ")
}
