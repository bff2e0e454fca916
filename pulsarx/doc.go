// Package pulsarx is typed Apache Pulsar: producers, an ordered consume loop, and replay, on top of pulsar-client-go.
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
// # Values and schemas
//
// A [Codec] encodes and decodes, in each of Pulsar's schemas:
//
//	AVRO               Avro of a Go type, AvroSchema of a definition
//	JSON               JSON
//	PROTOBUF_NATIVE    ProtobufNative; PROTOBUF, the older one: Protobuf
//	KEY_VALUE          KeyValueInline and KeyValueSeparated, over two other codecs
//	BOOLEAN, INT8 ...  Bool, Int8, Int16, Int32, Int64, Float, Double
//	STRING, BYTES      String and Bytes
//
// [Any] decodes all of them, and Java's dates and times, without knowing the type beforehand.
//
// A producer registers its codec's schema with the topic, and an incompatible one is [ErrIncompatibleSchema] before anything is sent. A
// consumer sends no schema: it takes the messages as bytes, looks the schema of each message's writer up, once a version, over the
// broker's own protocol (no admin interface is needed), and decodes with it. While the registry does not answer, the keys concerned
// wait. A schema that cannot be parsed or resolved is an error of the messages that have it, which go to the dead letters; no more.
// A [Decoder] that is no codec, such as cdc's through [DecodeFunc], gets the message as [Raw], with the writer's schema in it.
//
// Avro is compiled, from the writer's schema, the reader's and the Go type, once for each writer: a message of an older schema is
// decoded as fast as one of the same. JSON and Protobuf resolve by their own rules: by names, and by field numbers.
//
// # Producing
//
// A [Producer] gives every message exactly one outcome, also when it is closed, the broker is lost, the topic is terminated or a message
// is too large ([ErrClosed], [ErrSendTimeout], [ErrTopicTerminated], [ErrMessageTooLarge]); where the client forgets a producer, it is
// made anew. All messages of a key go to one partition, the one that Java and Python choose. [Batching] has four presets, and keeps
// keys apart so that Key_Shared subscriptions keep their order. A full queue makes senders wait, or is [ErrQueueFull] with FailWhenFull.
// [DeliverAfter], [OrderingKey], [SequenceID] and others are options of a message.
//
// Transactions are not offered: with pulsar-client-go v0.21.0 and Pulsar 4.0.8 a message of an aborted transaction is delivered. What
// works is ProducerOptions.Deduplicate: messages that their source numbers are stored once, however often they are sent.
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
// # Security
//
// ClientOptions.Auth says who the client is: [TokenFile], [TokenFunc], [CertificateFiles], [OAuth2], [Athenz] and [Basic]; secrets come
// from files or functions and change without a restart. TLS is in ClientOptions.Pulsar. [Encryption] encrypts payloads end to end; keys,
// properties and times of messages stay readable, and dead letters of messages that were decrypted are written unencrypted. What cannot be
// decrypted waits for its key, or is [ErrDecryption]. Secrets and payloads reach no log.
//
// # Order, retries and dead letters
//
// [Consumer.Run] says what a consumer guarantees: messages are acknowledged after their handler has succeeded, one key is worked on
// in the topic's order by one goroutine at a time, a failed message is tried again in its place while other keys go on, and what
// cannot be handled goes to the dead-letter topic with its original bytes, key, properties, event time and schema, and with the
// reason in further properties ([DeadLetterReason] and the constants beside it, which [ParseDeadLetter] reads). An error says what it
// is by its methods: Permanent() bool (see [Permanent]) and ItemErrors() []error (see [BatchError]). [Redrive] moves dead letters back.
//
// Attempts are counted by the consumer that makes them, with every type of subscription: a message begins anew after its consumer
// was restarted or has lost it to another one. The broker's own count of deliveries is no help: only Shared and KeyShared have one, and
// it counts messages that were prefetched and never handled. Each dead letter is a warning in ClientOptions.Logger, with its topic,
// message id, reason and attempts; the error's text, which may quote the message, is on the letter, and in the span of its handler.
//
// A message is delivered again after a crash of the consumer, after a handler outlived DrainTimeout, and after a crash of the broker
// that lost an acknowledgement it had confirmed. When the connection breaks, the broker sends again what is not acknowledged yet;
// messages that are still held here are recognised and not handled twice. So are those acknowledged a moment ago, which has a side
// effect: when a subscription is reset to an earlier position under a running consumer, the last messages that it acknowledged
// (at most ReceiverQueue and 256 a partition, and none after a second without traffic) are passed over. Stop consumers first.
//
// A consumer subscribes to all partitions of its topics, or of those that match a pattern, and looks for new ones every
// ConsumerOptions.Discovery; one that cannot be subscribed to yet stops no other. [Consumer.Pause] stops the handler and, when the
// prefetch is full, the flow from the broker.
//
// The order is per key and partition: growing a topic's partitions moves keys, and for the messages of that moment there is none.
// With Failover, a consumer that joins may be made the active one of a partition at once: what the one before it still holds, both
// handle. A broker waits for that before it sends (activeConsumerFailoverDelayTimeMillis, 1 s by default).
// While two consumers of a Key_Shared subscription change places after a lost connection, a message may be handled by the old one
// and delivered to the new one; handlers are idempotent, as everywhere with at-least-once delivery.
//
// # Replay
//
// [Replay] hands a handler what topics hold, from a time, a message or the beginning, to the end that they had when it began: for a
// model's training data, a new index, or a second look at yesterday. It reads partition by partition, or merged by event time, says
// how far it is, and resumes from the text of a [Position]. What it could not read is an error. Pulsar-client-go's reader passes
// over messages when it reconnects; a replay discards it then and reads on behind the last message with another one.
//
// # State
//
// [RunStateful] gives each partition to a [Processor] of its own, in order and one message at a time, and keeps what that remembers in
// checkpoints: windows, counters, the last value of each key. What it emits is published once, however often processes die: numbered
// under a name per partition, so that a namespace with deduplication drops what comes again. [ReplayStateful] gives the same
// processors what a topic holds, for training data that equal what was served. Several processes share a topic's partitions; each
// takes its state from the [CheckpointStore]. A turn with a partition ends with the first loss of a connection, and the next one
// begins at the checkpoint, so that there is one way to begin and it is tested by every crash.
//
// StatefulOptions.Incremental writes to most checkpoints only what has changed, where the processor can say that.
//
// A [TopicStore] keeps checkpoints in compacted topics, where every machine finds them; a [DirStore] in a folder, for processes on one
// machine. Both stream: a few chunks are in memory, whatever the state's size. Both refuse an owner that was replaced, and at no instant
// is there half a checkpoint. The stages of a message, any of which may be the last one of a process:
//
//	worked on ──▶ outputs stored ──▶ checkpoint saved ──▶ acknowledged
//	                    ╰── again from here, under the same numbers, which the broker drops
//
// # Delay
//
// A message waits for its handler up to MaxDelay, and for nothing else of this package's while a worker is free: neither for the
// acknowledgement of its key's last message nor for other keys. A broker that has sent all it has looks for new messages every
// managedLedgerNewEntriesCheckDelayInMillis, 10 ms by default; where that counts, set it lower in the broker's configuration.
//
// # Memory
//
// A consumer holds at most
//
//	MaxInFlight + 256 + partitions * (ReceiverQueue + a batch of the producer)
//
// messages, however slow its handler is: the flow at the broker stops there. To each come about 400 bytes beside its own, and 40 bytes
// for each entry among as many that were acknowledged last. Until a broker has seen how large the batches of a topic are it takes an
// entry for a message: its first read, of 100 entries and 5 MiB by default (dispatcherMaxReadBatchSize, dispatcherMaxReadSizeBytes),
// comes on top once. A key that is tried again for ever keeps its messages in flight; DeadLetterPolicy.MaxAttempts bounds that. A
// producer holds at most MaxPending messages a partition.
//
// # Evolving a schema
//
// [Client.Schemas] lists, gets, uploads, tests and rolls back schemas, and sets strategies; examples/evolution upgrades a producer under
// running consumers. Which schemas a topic accepts beside each other is its strategy, else its namespace's, FULL by default: each of two
// must read the other's messages, so that fields are added and dropped with defaults and never renamed. Pulsar's check does not look at
// aliases: a field that is renamed, with an alias for its older name, needs a default too, and the strategy BACKWARD unless the old one
// has a default as well; ALWAYS_COMPATIBLE takes the alias alone. Names of records do not matter to the broker or to [Avro]. Pulsar
// 4.0.8 refuses names that Avro forbids, such as Outer$Inner; where an older broker has taken one, it is read. Of PROTOBUF_NATIVE it
// compares the message's name alone, and of PROTOBUF nothing.
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
