package pulsarx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func TestAttemptsThenDeadLetter(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			at, began := time.UnixMilli(1700000000123), time.Now()
			if _, err := keyed(t, c, topic).Send(t.Context(), "k:bad", pulsarx.EventTime(at), pulsarx.Property("p", "v")); err != nil {
				t.Fatal(err)
			}
			var attempts record
			var sent pulsarx.Message[string]
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", Backoff: quick(), DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: 3},
			}, func(_ context.Context, batch []pulsarx.Message[string]) error {
				sent = batch[0]
				attempts.add(fmt.Sprint(batch[0].Attempt))
				return errors.New("always")
			})
			letter := letters(t, s, topic+"-s-DLQ", 1)[0]
			r.stop()
			if got := attempts.all(); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("attempts %v", got)
			}
			props := letter.Properties()
			if string(letter.Payload()) != "k:bad" || letter.Key() != "k" || !letter.EventTime().Equal(at) || props["p"] != "v" {
				t.Errorf("the letter is %q %q %v %v", letter.Payload(), letter.Key(), letter.EventTime(), props)
			}
			for name, want := range map[string]string{
				pulsarx.DeadLetterReason: "attempts", pulsarx.DeadLetterError: "always", pulsarx.DeadLetterTopic: topic,
				pulsarx.DeadLetterSubscription: "s", pulsarx.DeadLetterAttempts: "3",
			} {
				if props[name] != want {
					t.Errorf("%s is %q, want %q", name, props[name], want)
				}
			}
			l, ok := pulsarx.ParseDeadLetter(props)
			if id := fmt.Sprintf("%d:%d:%d", sent.ID.LedgerID(), sent.ID.EntryID(), sent.ID.BatchIdx()); !ok || l.MessageID != id ||
				!l.PublishTime.Equal(sent.PublishTime) || !l.FirstTime.After(began) || !l.LastTime.After(l.FirstTime) {
				t.Errorf("%+v of %s", l, id)
			}
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}

// TestLastAttemptSucceeds: what the last attempt does is no dead letter.
func TestLastAttemptSucceeds(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			send(t, keyed(t, c, topic), "a:1", "a:2")
			var done record
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", Backoff: quick(), DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: 2},
			}, func(_ context.Context, batch []pulsarx.Message[string]) error {
				if batch[0].Attempt == 1 {
					return errors.New("once")
				}
				for _, m := range batch {
					done.add(fmt.Sprint(m.Value, " ", m.Attempt))
				}
				return nil
			})
			eventually(t, "both", func() bool { return done.len() >= 2 })
			r.stop()
			if got := done.all(); !slices.Equal(got, []string{"a:1 2", "a:2 2"}) {
				t.Errorf("done %v", got)
			}
			letters(t, s, topic+"-s-DLQ", 0)
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}

// poisonError cannot be asked when it is nil.
type poisonError struct{ text string }

func (e *poisonError) Error() string { return e.text }

// TestPoisonAlone: whatever a handler does about a poison message, it alone goes to the dead letters.
func TestPoisonAlone(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t)
			for name, poison := range map[string]func(int, pulsarx.BatchError) error{
				"item": func(i int, e pulsarx.BatchError) error {
					e[i] = pulsarx.Permanent(errors.New("poison"))
					return e
				},
				"wrapped item": func(i int, e pulsarx.BatchError) error {
					e[i] = fmt.Errorf("x: %w", pulsarx.Permanent(errors.New("poison")))
					return fmt.Errorf("y: %w", e)
				},
				"permanent": func(int, pulsarx.BatchError) error { return pulsarx.Permanent(errors.New("poison")) },
				"error":     func(int, pulsarx.BatchError) error { return errors.New("poison") },
				"panic":     func(int, pulsarx.BatchError) error { panic("poison") },
				"nil error": func(int, pulsarx.BatchError) error { return (*poisonError)(nil) },
				"nil item": func(i int, e pulsarx.BatchError) error {
					e[i] = (*poisonError)(nil)
					return e
				},
				"wrong length": func(int, pulsarx.BatchError) error {
					return pulsarx.BatchError{errors.New("poison"), nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
				},
			} {
				t.Run(name, func(t *testing.T) {
					c, topic := s.client(t), topic(t)
					p := keyed(t, c, topic)
					var values []string
					for i := range 12 {
						values = append(values, fmt.Sprintf("k%d:%d", i%3, i))
					}
					sendAll(t, p, values)
					var mu sync.Mutex
					done := map[string][]string{}
					count := 0
					r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
						Topics: []string{topic}, Subscription: "s", Backoff: quick(), DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: 3},
					}, func(_ context.Context, batch []pulsarx.Message[string]) error {
						var err error
						for i, m := range batch {
							if m.Value == "k1:4" {
								err = poison(i, make(pulsarx.BatchError, len(batch)))
							}
						}
						if err != nil && !strings.HasSuffix(name, "item") {
							return err
						}
						mu.Lock()
						defer mu.Unlock()
						for _, m := range batch {
							if err != nil && m.Key == "k1" && m.Value != "k1:1" {
								continue // the poison, and what runs again behind it
							}
							done[m.Key] = append(done[m.Key], m.Value)
							count++
						}
						return err
					})
					says := "poison"
					if strings.HasPrefix(name, "nil") {
						says = "nil pointer"
					}
					letter := letters(t, s, topic+"-s-DLQ", 1)[0]
					eventually(t, "the others", func() bool { mu.Lock(); defer mu.Unlock(); return count >= 11 })
					time.Sleep(50 * time.Millisecond)
					r.stop()
					if string(letter.Payload()) != "k1:4" || !strings.Contains(letter.Properties()[pulsarx.DeadLetterError], says) {
						t.Errorf("the letter is %q %v", letter.Payload(), letter.Properties())
					}
					mu.Lock()
					defer mu.Unlock()
					if !inOrder(done["k1"], []string{"k1:1", "k1:7", "k1:10"}) || !inOrder(done["k0"], []string{"k0:0", "k0:3", "k0:6", "k0:9"}) {
						t.Errorf("done %v", done)
					}
				})
			}
		})
	}
}

// TestUndecodable: what cannot be decoded goes to the dead letters with its bytes, and the rest flows.
func TestUndecodable(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic})
			for _, v := range []string{"1", "\xff\xfe", "2", "", "3"} {
				if _, err := p.Send(t.Context(), []byte(v), pulsarx.Key("k")); err != nil {
					t.Fatal(err)
				}
			}
			var done record
			decode := func(r pulsarx.Raw) (string, error) {
				if len(r.Value) == 0 {
					panic("empty")
				}
				return pulsarx.String().Decode(r)
			}
			r := run(t, c, pulsarx.DecodeFunc(decode), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", DeadLetter: pulsarx.DeadLetterPolicy{Topic: topic + "-dead"},
			}, pulsarx.Values(func(_ context.Context, values []string) error {
				for _, v := range values {
					done.add(v)
				}
				return nil
			}))
			dead := letters(t, s, topic+"-dead", 2)
			eventually(t, "three messages", func() bool { return done.len() == 3 })
			r.stop()
			if string(dead[0].Payload()) != "\xff\xfe" || len(dead[1].Payload()) != 0 || dead[1].IsNullValue() {
				t.Errorf("letters %q %q", dead[0].Payload(), dead[1].Payload())
			}
			for _, letter := range dead {
				if letter.Properties()[pulsarx.DeadLetterReason] != "undecodable" || letter.Key() != "k" {
					t.Errorf("%v", letter.Properties())
				}
			}
			if !slices.Equal(done.all(), []string{"1", "2", "3"}) {
				t.Errorf("done %v", done.all())
			}
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}

// TestOtherKeysGoOn: a key that fails does not hold up others, nor do the dead letters of one that cannot be written.
func TestOtherKeysGoOn(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	remove := s.broker.Inject(pulsartest.Fault{Command: "PRODUCER", Topic: topic + "-s-DLQ", Error: "ServiceNotReady"})
	p := keyed(t, c, topic)
	send(t, p, "bad:1", "good:1", "bad:2", "good:2")
	var done record
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Backoff: quick(), Workers: 1},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			errs := make(pulsarx.BatchError, len(batch))
			for i, m := range batch {
				if m.Value == "bad:1" {
					errs[i] = pulsarx.Permanent(errors.New("bad"))
				}
				if errs[0] == nil || m.Key == "good" {
					done.add(m.Value)
				}
			}
			return errs.Err()
		})
	eventually(t, "the good ones", func() bool { return slices.Contains(done.all(), "good:2") })
	time.Sleep(200 * time.Millisecond)
	if slices.Contains(done.all(), "bad:2") {
		t.Error("bad:2 was handled before bad:1 was safe")
	}
	remove()
	eventually(t, "bad:2", func() bool { return slices.Contains(done.all(), "bad:2") })
	r.stop()
	if dead := s.broker.Messages(topic + "-s-DLQ"); len(dead) != 1 || string(dead[0].Value) != "bad:1" {
		t.Errorf("letters %v", dead)
	}
}

// TestDeadLetterKeepsSchema: the letter's schema version is the writer's, not the reader's, and its bytes are the original.
func TestDeadLetterKeepsSchema(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
			if _, err := p.Send(t.Context(), productV1{"k1", "bob"}, pulsarx.Key("k1")); err != nil {
				t.Fatal(err)
			}
			r := run(t, c, pulsarx.Avro[productV2](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(context.Context, []pulsarx.Message[productV2]) error { return pulsarx.Permanent(errors.New("no")) })
			dead := letters(t, s, topic+"-s-DLQ", 1)[0]
			r.stop()
			if want, _ := pulsarx.Avro[productV1]().Encode(nil, productV1{"k1", "bob"}); string(dead.Payload()) != string(want) {
				t.Errorf("the letter is %q", dead.Payload())
			}
			var raws []pulsarx.Raw
			var mu sync.Mutex
			r = run(t, c, pulsarx.DecodeFunc(func(r pulsarx.Raw) (pulsarx.Raw, error) { return r, nil }),
				pulsarx.ConsumerOptions{Topics: []string{topic + "-s-DLQ"}, Subscription: "dead-letters"},
				pulsarx.Values(func(_ context.Context, values []pulsarx.Raw) error {
					mu.Lock()
					defer mu.Unlock()
					raws = append(raws, values...)
					return nil
				}))
			eventually(t, "the letter", func() bool { mu.Lock(); defer mu.Unlock(); return len(raws) == 1 })
			r.stop()
			own, _ := pulsarx.Avro[productV1]().Schema()
			if raws[0].SchemaType != "AVRO" || string(raws[0].Schema) != string(own.Definition) {
				t.Errorf("the letter's schema is %s %s", raws[0].SchemaType, raws[0].Schema)
			}
		})
	}
}

// TestLargeDeadLetter: a message that came compressed or in chunks is larger than a message may be.
func TestLargeDeadLetter(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			value := bytes.Repeat([]byte("0123456789abcdef"), 6<<16)
			for _, o := range []pulsar.ProducerOptions{{CompressionType: pulsar.LZ4}, {EnableChunking: true}} {
				o.Topic, o.DisableBatching, o.SendTimeout = topic, true, -1 // its watch would outlive the test
				p, err := bareClient(t, s).CreateProducer(o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: value, Key: "k"}); err != nil {
					t.Fatal(err)
				}
			}
			r := run(t, c, pulsarx.Bytes(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(context.Context, []pulsarx.Message[[]byte]) error { return pulsarx.Permanent(errors.New("large")) })
			for _, letter := range letters(t, s, topic+"-s-DLQ", 2) {
				if !bytes.Equal(letter.Payload(), value) || letter.Key() != "k" {
					t.Errorf("a letter of %d bytes with key %q", len(letter.Payload()), letter.Key())
				}
			}
			r.stop()
			if n := leftovers(t, c, topic, "s"); n != 0 {
				t.Errorf("%d messages come again", n)
			}
		})
	}
}
