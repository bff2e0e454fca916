// Package pulsarx is typed Apache Pulsar: producers, an ordered consume loop, replay and stateful processing, on top of pulsar-client-go.
//
//	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: "pulsar://localhost:6650"})
//	orders, err := pulsarx.NewProducer(ctx, client, pulsarx.Avro[Order](), pulsarx.ProducerOptions[Order]{
//		Topic: "orders", Key: func(o Order) string { return o.Customer },
//	})
//	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.Avro[Order](), pulsarx.ConsumerOptions{
//		Topics: []string{"orders"}, Subscription: "billing",
//	})
//	err = consumer.Run(ctx, func(ctx context.Context, batch []pulsarx.Message[Order]) error { ... })
//
// Package topology declares tenants, topics and policies; package pulsartest is a broker in the test's process.
//
// # Values and schemas
//
// A [Codec] encodes and decodes, in each of Pulsar's schemas:
//
//	AVRO               Avro of a Go type, AvroSchema of a definition
//	JSON               JSON
//	PROTOBUF_NATIVE    ProtobufNative; PROTOBUF, the older one: Protobuf
//	KEY_VALUE          KeyValueInline and KeyValueSeparated, over two other codecs
//	BOOLEAN, INT8 ...  Bool, Int8, Int16, Int32, Int64, Float, Double
//	STRING, BYTES      String; Bytes, which registers nothing
//
// [Any] decodes all of them without knowing the type beforehand. A [Decoder] that is no codec, such as cdc's through [DecodeFunc], gets
// the message as [Raw], with its writer's schema.
//
// A producer registers its codec's schema with the topic; an incompatible one is [ErrIncompatibleSchema] before anything is sent. A
// consumer looks up the schema of each message's writer, once a version, and resolves it to its own type: fields that came, went, moved
// or have another name or width. A schema that cannot be parsed or resolved is an error of the messages that have it; no more.
// [Client.Schemas] lists, uploads, tests and rolls back schemas.
//
// # Producing
//
// A [Producer] gives every message exactly one outcome, also when it is closed, the broker is lost, the topic is terminated or a message
// is too large ([ErrClosed], [ErrSendTimeout], [ErrTopicTerminated], [ErrMessageTooLarge]). All messages of a key go to one partition,
// the one that Java and Python choose. [Batching] has four presets, and keeps keys apart so that Key_Shared subscriptions keep their
// order. A full queue makes senders wait, or is [ErrQueueFull] with FailWhenFull. [DeliverAfter], [OrderingKey], [SequenceID] and others
// are options of a message.
//
// Transactions are not offered: with pulsar-client-go v0.21.0 and Pulsar 4.0.8 a message of an aborted transaction is delivered. What
// works is ProducerOptions.Deduplicate: messages that their source numbers are stored once, however often they are sent.
//
// # Consuming
//
// [Consumer.Run] hands batches to a handler from several goroutines. A message is acknowledged after its handler has succeeded. One key
// is worked on in the topic's order by one goroutine at a time; a failed message is tried again in its place, while other keys go on.
// What cannot be handled goes to the dead-letter topic with its original bytes and the reason ([ParseDeadLetter] reads it, [Redrive]
// moves it back). An error says what it is by its methods: Permanent() bool (see [Permanent]) and ItemErrors() []error (see
// [BatchError]). Delivery is at least once: handlers are idempotent. [Consumer] says when a message comes twice, how long one waits, and
// how much memory is held.
//
// The order is per key and partition: growing a topic's partitions moves keys, and for the messages of that moment there is none.
//
// # Replay and state
//
// [Replay] hands a handler what topics hold, from a time, a message or the beginning, to the end that they had when it began: for a
// model's training data, a new index, or a second look at yesterday. What it could not read is an error.
//
// [RunStateful] gives each partition to a [Processor] of its own, in order and one message at a time, keeps what that remembers in
// checkpoints, and publishes what it emits once, however often processes die. [ReplayStateful] gives the same processors what a topic
// holds. A [TopicStore] keeps checkpoints in compacted topics, where every machine finds them; a [DirStore] in a folder of one machine.
//
// # Security
//
// ClientOptions.Auth says who the client is: [TokenFile], [TokenFunc], [CertificateFiles], [OAuth2], [Athenz] and [Basic]; secrets come
// from files or functions and change without a restart. TLS and listener names are in ClientOptions.Pulsar; the URL may be a
// proxy's. [Encryption] encrypts payloads end to end. Secrets and payloads reach no log.
//
// # Coming from another client
//
// What pulsar-client-go, Spring for Pulsar and franz-go have, and where it is here:
//
//	Receive and Ack, a listener, PollFetches     Consumer.Run: returning nil acknowledges
//	batch receive                                ConsumerOptions.MaxBatch and MaxDelay
//	Nack, ReconsumeLater, an error handler       an error of the handler: tried again in place, or Permanent
//	an ack timeout                               none: a message is in a handler, waits for one, or comes again after a crash
//	concurrency                                  ConsumerOptions.Workers, and as many processes as you like
//	Reader, seek, reset of offsets               Replay, from a time or a Position
//	a table view, a group table                  NewConsumer FromLatest, Replay with Compacted, then Run; or RunStateful
//	PulsarTemplate, ProduceSync, Produce         Producer.Send and SendAsync, with a callback
//	transactions, exactly once                   ProducerOptions.Deduplicate, RunStateful
//	stopping, a rebalance                        the end of Run's context, or Close: handlers finish, what is done is acknowledged
//	lists of topics, other admin calls           package topology, and Client.Admin
//	readiness, health                            NewProducer and NewConsumer fail where the broker does not answer; then the metrics
//	MockConsumer, EmbeddedKafka, kfake           package pulsartest
//
// # Non-persistent topics
//
// A topic non-persistent://... is for data that may be lost, such as sampled evaluation and training feeds under overload. What is given
// up: the broker keeps nothing, so that a message is there for the consumers that are connected when it comes, is dropped where one has no
// room for it, and does not come again after a crash; a replay, deduplication and state are [ErrNonPersistent]. Retries in place and dead
// letters, which are kept, work as everywhere. What is gained: nothing is written. BenchmarkNonPersistent, one message after the other on a
// standalone Pulsar 4.0.8 and two cores: a receipt in 0.12 ms in place of 1.3 ms (median; of a hundred the slowest 1.4 and 2.3 ms).
//
// pulsarx.producer.dropped counts what the broker confirmed and dropped, [Client.DropRates] and [Client.ObserveDrops] ask for the rates of
// a topic, and a [Sampler] sends a share of the values and gives one up rather than wait.
//
// # What pulsar-client-go does that this package cannot mend
//
// A consumer of pulsar-client-go discards, and acknowledges, messages whose checksum or compression is broken, and messages with an
// empty payload that a producer without batching sent (pulsarx producers always batch); with compression, their value is what it makes
// of nothing, a few bytes.
//
// Of a message in chunks that a C++, Python or Node.js producer has neither compressed nor encrypted it has the last chunk alone, and does
// not say so (tested with Python 3.13.0): such producers set a compression.
//
// For a message in chunks it keeps a goroutine for a minute, even when all chunks have come.
//
// Pulsar 4.0.8 itself goes on sending a message in chunks to the consumer of a [Shared] subscription that had its first chunk, even when
// that one has left (apache/pulsar#26395): no other gets the message, and at times what comes behind it, until all have left. In a
// [KeyShared] subscription another consumer gets it.
//
// An acknowledgement that is on its way while the broker gives a topic away (an unload, a move to another broker) is never answered. The
// client waits for it, ClientOptions.Pulsar.OperationTimeout long, before it connects the consumer again: so long nothing of that
// partition comes. A Run that ends then may return an error, since it does not know what was acknowledged.
//
// A broker with transactions (transactionCoordinatorEnabled, off by default) may keep a topic that it opens waiting for 30 seconds, whether or
// not anybody uses transactions there (seen with Pulsar 4.0.8): reading its snapshots of them gets no answer at times.
//
// # Metrics and traces
//
// The global providers of OpenTelemetry are used. A producer opens a span "send" for each message and writes its W3C traceparent into the
// properties (or what the global propagator writes). A consumer opens two for each batch that a handler processes, linked to those:
// "receive", from the first message's arrival until the handler begins, and in it "process", which the handler gets in its context.
// Names and attributes are those of the messaging conventions. All metrics have messaging.system and messaging.destination.name, which is
// the full name (of a consumer of several topics those with commas between, or its pattern), for consumers
// messaging.destination.subscription.name too, and server.address and server.port where ClientOptions.URL names one host; the first four
// have messaging.operation.name, and error.type for what failed:
//
//	messaging.client.sent.messages        messages sent, or failed
//	messaging.client.operation.duration   seconds from Send to the broker's receipt
//	messaging.client.consumed.messages    messages received, redelivered ones included
//	messaging.process.duration            seconds of the handler, a batch
//	pulsarx.consumer.queue.duration       seconds from receiving a message to the start of its handler
//	pulsarx.consumer.delay                seconds from publishing a message to the success of its handler
//	pulsarx.consumer.in_flight            messages received and not yet acknowledged
//	pulsarx.consumer.retries              messages that run again because they or an earlier one of their key failed
//	pulsarx.consumer.redelivered          redeliveries of messages that were still held
//	pulsarx.consumer.dead_letters         messages written to the dead-letter topic, by pulsarx.dead_letter.reason
//	pulsarx.consumer.dead_letter.failures dead letters that could not be written; their keys wait
//	pulsarx.consumer.ack.failures         acknowledgements that failed and are sent again
//	pulsarx.consumer.discovery.failures   searches for new partitions and topics that failed; they are tried again
//	pulsarx.producer.dropped              messages that the broker of a non-persistent topic confirmed and dropped
//	pulsarx.sampler.values                values offered to a Sampler, by pulsarx.sampler.outcome: sent, skipped, full, failed
//	pulsarx.topic.drop_rate               messages a second that a non-persistent topic drops; see ObserveDrops
//	pulsarx.decryption.failures           batches that wait because they cannot be decrypted
//	pulsarx.schema.lookup.failures        messages that wait because the schema registry has not answered
package pulsarx
