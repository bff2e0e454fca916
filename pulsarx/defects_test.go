package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// defects are those of pulsar-client-go v0.21.0 and what was reported of other clients, and the tests that show that a user of this
// package does not meet them. Tests of the number's own name are in this file.
var defects = map[string]struct {
	defect, avoided string
	tests           []string
}{
	"1": {
		"GetSchemaValue decodes with the writer's schema alone (#420)", "values are resolved from the writer's schema to the reader's",
		[]string{"TestEvolution", "TestAvroResolution"},
	},
	"2": {
		"a schema that the Avro library refuses ends the process (#793)", "it is an error of the message, which goes to the dead letters",
		[]string{"TestAvroResolution", "TestAny", "TestUnresolvableWriterSchema", "TestUndecodable"},
	},
	"3": {"a message without a schema version panics (#482)", "it is decoded with the codec's own schema", []string{"TestDefect3"}},
	"4": {
		"no KeyValue, no AutoConsume", "KeyValue in both encodings, and Any",
		[]string{"TestKeyValue", "TestSeparatedKeys", "TestAny", "TestCodecsOnABroker"},
	},
	"5": {"schemas are parsed into one cache, so that a reference finds what another schema defined", "each schema stands alone", []string{"TestDefect5"}},
	"6": {"dead letters have the consumer's schema and the writer's bytes", "they keep the writer's schema", []string{"TestDeadLetterKeepsSchema"}},
	"7": {"a dead-letter topic with another schema stops the consumer for ever", "the letter goes without a schema", []string{"TestDefect7"}},
	"8": {"a receiver queue of 0 and dead letters panic", "a queue holds 1 at least", []string{"TestDefect8", "TestConsumerOptions"}},
	"9": {
		"ReconsumeLater panics, blocks for ever, or stalls the connection (#664)", "it is not used: messages are tried again in place",
		[]string{"TestOrderUnderRetry", "TestAttemptsThenDeadLetter"},
	},
	"10": {"redeliveries are counted for Shared and Key_Shared alone", "attempts are counted here", []string{"TestDefect10"}},
	"11": {"a negative acknowledgement brings the whole entry back", "there is none", []string{"TestOneOfABatchEntryFails"}},
	"12": {
		"acknowledgements are dropped after a redelivery of a part of an entry (#1521)", "acknowledgement within batches is on, and each is confirmed",
		[]string{"TestOneOfABatchEntryFails", "TestRestart", "TestAckLost", "TestLastAttemptSucceeds"},
	},
	"13": {"the backoff of negative acknowledgements turns negative", "the backoff is this package's own", []string{"TestSchedulerForEver"}},
	"14": {
		"acknowledgements on a closed consumer succeed, or hang (#389)", "they are confirmed, sent again, or an error of Run",
		[]string{"TestAckLost", "TestDrain", "TestStopWithoutBroker"},
	},
	"15": {
		"an id that was text acknowledges its whole entry", "ids as text are positions of replays, exact within an entry; Run keeps ids as they came",
		[]string{"TestReplayProperty", "TestOneOfABatchEntryFails"},
	},
	"16": {
		"there is no acknowledgement timeout (#403)", "by design: a message is in a handler, waits for one, or comes again after DrainTimeout",
		[]string{"TestDrainTimeout", "TestOtherKeysGoOn"},
	},
	"17": {"one new partition that fails closes all (#1426)", "each partition has a consumer of its own", []string{"TestPartitionGrowth"}},
	"18": {
		"a failed seek leaves the reader paused; seeks to the ends and across partitions are refused", "a place is found by a reader of its own, again where that fails",
		[]string{"TestDefect18", "TestReplayProperty"},
	},
	"19": {
		"HasNext takes an error for the end, and an empty topic for a full one (#438)", "the end is a message id, asked for before reading",
		[]string{"TestReplay", "TestReplayErrors", "TestReplayRestarts"},
	},
	"20": {
		"ServiceNotReady and most errors of a send break the connection that all share (#698)", "what was held is recognised, and what was sent is sent again",
		[]string{"TestDefect20", "TestOutcomes"},
	},
	"21": {"the default hash of keys is not Java's", "Murmur3_32Hash, as in Java and Python", []string{"TestRouting", "TestRoutingWithPython"}},
	"22": {"the ordering key routes before the key", "the key does, as in Java", []string{"TestPartitionChoice", "TestOrderingKey"}},
	"23": {
		"messages of an aborted transaction are delivered (#1498)", "transactions are not offered; numbered messages and deduplication are",
		[]string{"TestTransactionsAreBroken", "TestDeduplicate", "TestStatefulCrashes"},
	},
	"24": {"Close forgets what is queued, or panics", "every message has one outcome", []string{"TestOutcomes", "TestSendAsyncOutcomes"}},
	"25": {"a terminated topic makes sends wait for their timeout", "they fail with that name", []string{"TestTerminated"}},
	"26": {"one message that is too large takes the rest of a batch along", "it fails before it is sent", []string{"TestTooLarge", "TestRefusedMessage"}},
	"27": {
		"callbacks block the connection; more chunks than MaxPendingMessages hang (#1448)", "callbacks have a goroutine of their own; too many chunks are an error",
		[]string{"TestSlowCallback", "TestChunking"},
	},

	"spring-pulsar#1344":             {"backlog after a batch across partitions", "", []string{"TestFourPartitions"}},
	"spring-pulsar#998":              {"a message that always fails", "", []string{"TestAttemptsThenDeadLetter"}},
	"apache/pulsar#15317":            {"order under retries", "", []string{"TestOrderUnderRetry"}},
	"apache/pulsar#5969":             {"one of an entry fails", "", []string{"TestOneOfABatchEntryFails"}},
	"apache/pulsar#26125":            {"success at the last attempt", "", []string{"TestLastAttemptSucceeds"}},
	"#420/#1188":                     {"reading with another schema", "", []string{"TestEvolution"}},
	"#793":                           {"Outer$Inner", "", []string{"TestAvroResolution", "TestAny"}},
	"apache/pulsar#24663":            {"the schema of a dead letter", "", []string{"TestDeadLetterKeepsSchema"}},
	"#1426":                          {"growth", "", []string{"TestPartitionGrowth"}},
	"#593":                           {"a hundred seeks", "", []string{"TestDefect18"}},
	"#1498":                          {"transactions", "", []string{"TestTransactionsAreBroken"}},
	"#515":                           {"the broker is down", "", []string{"TestBrokerDown"}},
	"apache/pulsar#5832, #1482":      {"tombstones, also at the end", "", []string{"TestTombstones", "TestReplayTombstoneLast"}},
	"#438":                           {"an empty topic from a time", "", []string{"TestReplay"}},
	"debezium-server#149":            {"keys in batches for two consumers", "", []string{"TestTwoConsumers"}},
	"dapr/components-contrib#1813":   {"poison in the middle", "", []string{"TestUndecodable", "TestPoisonAlone"}},
	"a reconnecting reader, unfiled": {"the reader passes over what it held", "each connection is read to its first loss", []string{"TestReplayRestarts"}},
	"an encrypted message, unfiled": {
		"a reader panics on what it cannot decrypt; a consumer gives its permits away on it, and goes on", "it is handed over, waits or is an error",
		[]string{"TestLocked", "TestLockedStateful", "TestLockedErrors"},
	},
	"a payload without a length, unfiled": {
		"C++ and Python give none to what they do not compress: what was encrypted stays so, batches of it are lost, and of chunks the last is all",
		"what is encrypted gets its length; of other chunks doc.go warns",
		[]string{"TestMessagesOfPython"},
	},
	"a producer's name, unfiled": {
		"a producer that is closed while it reconnects stays at the broker", "RunStateful lets none reconnect",
		[]string{"TestStatefulCrashes"},
	},
}

// TestDefects: every defect of the list has its tests.
func TestDefects(t *testing.T) {
	known := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				known[f.Name.Name] = true
			}
		}
	}
	for i := 1; i <= 27; i++ {
		if _, ok := defects[fmt.Sprint(i)]; !ok {
			t.Errorf("defect %d is not in the list", i)
		}
	}
	for number, d := range defects {
		if len(d.tests) == 0 {
			t.Errorf("nothing shows defect %s", number)
		}
		for _, name := range d.tests {
			if !known[name] {
				t.Errorf("defect %s: there is no %s", number, name)
			}
		}
	}
}

// TestDefect3: messages of a producer without a schema reach a typed consumer.
func TestDefect3(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			bare, err := bareClient(t, s).CreateProducer(pulsar.ProducerOptions{Topic: topic, SendTimeout: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer bare.Close()
			for _, payload := range []string{"\x04k1\x06bob", "\x04k1"} {
				if _, err := bare.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte(payload)}); err != nil {
					t.Fatal(err)
				}
			}
			var seen record
			r := run(t, c, pulsarx.Avro[productV1](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[productV1]) error {
					for _, m := range batch {
						seen.add(m.Value.Name)
					}
					return nil
				})
			dead := letters(t, s, topic+"-s-DLQ", 1)
			eventually(t, "the one that can be read", func() bool { return seen.len() > 0 })
			r.stop()
			if got := seen.all(); !slices.Equal(got, []string{"bob"}) {
				t.Errorf("%v", got)
			}
			for _, m := range dead {
				if m.Properties()[pulsarx.DeadLetterReason] != "undecodable" {
					t.Errorf("%v", m.Properties())
				}
			}
		})
	}
}

// TestDefect5: a reference to a type that another schema has defined is an error.
func TestDefect5(t *testing.T) {
	type inner struct {
		N int64 `avro:"n"`
	}
	type outer struct {
		Inner inner `avro:"inner"`
	}
	const defined = `{"type":"record","name":"defect5.Inner","fields":[{"name":"n","type":"long"}]}`
	if _, err := pulsarx.AvroSchema[inner](defined).Schema(); err != nil {
		t.Fatal(err)
	}
	const dangling = `{"type":"record","name":"Outer","fields":[{"name":"inner","type":"defect5.Inner"}]}`
	if _, err := pulsarx.AvroSchema[outer](dangling).Schema(); err == nil {
		t.Error("a schema refers to a type that it does not define")
	}
	kept, err := pulsarx.AvroSchema[inner](`{"type":"record","name":"defect5.Inner","fields":[{"name":"n","type":"long","default":7,"aliases":["m"]}]}`).Schema()
	if err != nil || !strings.Contains(string(kept.Definition), "default") || !strings.Contains(string(kept.Definition), "aliases") {
		t.Errorf("%s: %v", kept.Definition, err)
	}
}

// TestDefect7: the dead-letter topic has a schema that does not go with the letter's.
func TestDefect7(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic + "-s-DLQ"})
			p := producer(t, c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{
				Topic: topic, Key: func(p productV1) string { return p.ID },
			})
			for _, v := range []productV1{{"poison", "x"}, {"good", "y"}} {
				if _, err := p.Send(t.Context(), v); err != nil {
					t.Fatal(err)
				}
			}
			var seen record
			r := run(t, c, pulsarx.Avro[productV1](), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[productV1]) error {
					errs := make(pulsarx.BatchError, len(batch))
					for i, m := range batch {
						if m.Key == "poison" {
							errs[i] = pulsarx.Permanent(errors.New("poison"))
						} else {
							seen.add(m.Key)
						}
					}
					return errs.Err()
				})
			got := letters(t, s, topic+"-s-DLQ", 1)
			eventually(t, "the good one", func() bool { return seen.len() > 0 })
			r.stop()
			if len(got) == 1 && string(got[0].Payload()) != "\x0cpoison\x02x" {
				t.Errorf("%q", got[0].Payload())
			}
		})
	}
}

// TestDefect8: the smallest queue, and dead letters.
func TestDefect8(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			send(t, keyed(t, c, topic), "a:1", "b:2", "a:3")
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
				Topics: []string{topic}, Subscription: "s", ReceiverQueue: 1, MaxInFlight: 1, MaxBatch: 1,
			}, func(_ context.Context, batch []pulsarx.Message[string]) error {
				return pulsarx.Permanent(errors.New("no"))
			})
			letters(t, s, topic+"-s-DLQ", 3)
			r.stop()
		})
	}
}

// TestDefect10: attempts are counted on every type of subscription, and end there.
func TestDefect10(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			send(t, keyed(t, c, topic), "a:1")
			for sub, kind := range map[string]pulsarx.SubscriptionType{
				"exclusive": pulsarx.Exclusive, "failover": pulsarx.Failover, "shared": pulsarx.Shared, "keyshared": pulsarx.KeyShared,
			} {
				var attempts record
				r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
					Topics: []string{topic}, Subscription: sub, Type: kind, Backoff: quick(), DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: 3},
				}, func(_ context.Context, batch []pulsarx.Message[string]) error {
					attempts.add(fmt.Sprint(batch[0].Attempt))
					return errors.New("always")
				})
				letters(t, s, topic+"-"+sub+"-DLQ", 1)
				r.stop()
				if got := attempts.all(); !slices.Equal(got, []string{"1", "2", "3"}) {
					t.Errorf("%s: attempts %v", sub, got)
				}
			}
		})
	}
}

// TestDefect18: a hundred replays from a time find their messages, and a seek that fails is made again.
func TestDefect18(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			sendAll(t, keyed(t, c, topic), numbers(0, 10))
			rounds := 100
			if s.broker == nil {
				rounds = 20 // each is several requests
			}
			for i := range rounds {
				if s.broker != nil && i%10 == 0 {
					s.broker.Inject(pulsartest.Fault{Command: "SEEK", Topic: topic, Count: 2, Error: "PersistenceError"})
				}
				o := pulsarx.ReplayOptions{Topics: []string{topic}, From: pulsarx.At(time.Unix(1, 0))}
				if got := replay(t, c, o); !slices.Equal(got, numbers(0, 10)) {
					t.Fatalf("round %d: %v", i, got)
				}
			}
		})
	}
}

// TestDefect20: refusals that make the client give its connection up, while others use it.
func TestDefect20(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	p := keyed(t, c, topic)
	var seen record
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Backoff: quick()},
		func(_ context.Context, batch []pulsarx.Message[string]) error {
			for _, m := range batch {
				seen.add(m.Value)
			}
			return nil
		})
	values := numbers(0, 200)
	for i := 0; i < len(values); i += 50 {
		s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Count: 1, Error: "PersistenceError"})
		s.broker.Inject(pulsartest.Fault{Command: "LOOKUP", Topic: topic, Count: 1, Error: "ServiceNotReady"})
		sendAll(t, p, values[i:i+50])
	}
	eventually(t, "an empty backlog", func() bool { return seen.len() >= 200 && s.broker.Backlog(topic, "s") == 0 })
	r.stop()
	if !inOrder(seen.all(), values) {
		t.Errorf("%v", seen.all())
	}
}
