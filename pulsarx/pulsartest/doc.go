// Package pulsartest is a Pulsar broker for tests. It runs in the test's own process, speaks Pulsar's binary protocol on a port of
// 127.0.0.1, and the clients that an application has connect to it unchanged: pulsar-client-go, the Python client, pulsarx.
//
//	broker, err := pulsartest.NewBroker(pulsartest.Options{Partitions: map[string]int{"orders": 4}})
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer broker.Close()
//	app := startMyApplication(broker.URL())
//
// Starting one takes less than a millisecond, so that every test can have its own. Nothing is written to disk.
//
// # Testing an application
//
// Give the application [Broker.URL] where it wants its Pulsar, and [Broker.AdminURL] where it calls the admin routes. Let it do its
// work through its own client, then look at what came of it: [Broker.Messages] are all messages of a topic, taken out of their
// batches and decompressed; [Broker.Backlog] is how many of them a subscription has not acknowledged. A test waits for its
// application by asking for the backlog until it is 0, rather than by sleeping; before, the application has to have subscribed. What an
// application writes itself is waited for in Messages.
//
// Topics come into being when they are first used, without partitions; name those that have some in [Options.Partitions], or create
// them by the admin routes. "orders" is short for "persistent://public/default/orders" everywhere.
//
// # Making things go wrong
//
// [Broker.Inject] puts a [Fault] in force: data that says which commands, by kind, topic, key and count, and what befalls them, an
// error, a delay, silence, a lost answer, a duplicate or a broken connection. [Broker.Hits] tells what has met one. The third SEND to
// a topic that fails, an ACK that breaks the connection, a broker that does not answer PRODUCER for a second:
//
//	broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "orders", After: 2, Count: 1, Error: "PersistenceError"})
//	broker.Inject(pulsartest.Fault{Command: "ACK", Topic: "orders", Count: 1, Disconnect: true})
//	broker.Inject(pulsartest.Fault{Command: "PRODUCER", Delay: time.Second})
//
// A message that is stored, of which the client does not hear before the connection breaks, and one that is delivered twice:
//
//	broker.Inject(pulsartest.Fault{Command: "SEND", Topic: "orders", Count: 1, DropAnswer: true, Disconnect: true})
//	broker.Inject(pulsartest.Fault{Command: "MESSAGE", Key: "k", Count: 1, Duplicate: true})
//
// [Broker.Restart] breaks every connection, as a broker does that dies and returns; [Broker.Stop] and [Broker.Start] are its two
// halves. With [Options.Brokers] there are several, each serving some of the topics and redirecting who asks for others, and
// [Broker.Move] gives a topic to another one under its clients. An application that survives these in a test has a good chance with
// a real one.
//
// # Security
//
// [Options.Token] or [Options.Authenticate] refuse clients without the right credentials, and [Broker.Reauthenticate] asks those that
// are connected again, as when a token expires. [Options.TLS] makes the broker speak TLS, and ask for clients' certificates where it
// says so. Who has come in may do everything.
//
// # What it does
//
// Producers: single messages, batches, key-based batches and chunks, with any compression (entries are kept byte for byte),
// sequence ids and deduplication, access modes, delayed delivery, termination. Subscriptions: Exclusive, Failover, Shared and Key_Shared
// (Pulsar's own consistent hashing of the consumers' names, or ranges; a key's messages wait until the consumer that had the key before
// has acknowledged), durable ones and readers, permits, individual and cumulative acknowledgement, also within batches, redelivery with its count, seek by id and
// by time, compaction and readers of what it leaves. Non-persistent topics, whose messages go to the consumers that are there and have permits, and to nobody else. Lists of
// topics by pattern, and watchers of them. A schema registry that keeps versions, with all of Pulsar's compatibility strategies, set
// for a namespace or a topic. Admin routes below /admin/v2 for tenants, namespaces, topics, statistics, subscriptions, schemas,
// permissions and policies.
//
// # Policies
//
// All policies are kept and read back. These are enforced, for a topic or its namespace, as far as Pulsar has both:
//
//   - schema compatibility, validation and automatic update; deduplication; encryption that is required;
//   - the automatic creation of topics and of subscriptions;
//   - the most producers, consumers and subscriptions of a topic, consumers of a subscription, and messages that a consumer has not
//     acknowledged;
//   - a backlog quota of size with producer_exception or producer_request_hold, where a producer connects. Pulsar also disconnects those
//     that are connected, once a minute.
//
// All others change nothing, though Pulsar acts on them: retention, time to live, quotas of age and those that evict, rates of
// publishing, dispatch and subscription, permissions, delayed delivery that is switched off, subscription types, entry filters, the
// most unacknowledged messages of a subscription, topics of a namespace and bytes of a message, offload, compaction thresholds, replication,
// persistence and bookies, inactive topics, isolation. To test what an application does when such a limit is met, inject the error that
// it brings.
//
// # How close it is
//
// What it answers was compared with Pulsar 4.0.8: the same commands were sent to both, written by hand and made by chance, and this
// package's tests run against a real broker too. Where Pulsar has settings, this is a standalone broker with the defaults, but for the following:
//
//   - What is acknowledged within a batch is kept, as Pulsar does with acknowledgmentAtBatchIndexLevelEnabled=true; a client then
//     has to send it, as pulsar-client-go does with EnableBatchIndexAcknowledgment. By default Pulsar forgets it.
//   - A Failover subscription changes its active consumer at once, where Pulsar waits a second.
//   - A topic's first Avro or JSON schema may be any JSON, and what follows one that is no schema is not compared with it. Names
//     that Avro does not allow, as some of Java's classes have, are taken.
//   - How many entries a Shared or Key_Shared consumer is sent for its permits differs where batches exceed them: Pulsar goes by an
//     average. What waits in a Key_Shared subscription for a consumer that leaves goes to the others at once, where Pulsar may wait for
//     the next command, and a message whose key may go out of order comes in any order there.
//   - A delayed message comes when its time has. Pulsar's comes up to a second before.
//   - What is left of a chunked message when its consumer leaves a Shared subscription goes to another consumer. Pulsar 4.0.8 keeps it
//     for the one that is gone, and at times all that comes behind it (apache/pulsar#26395).
//   - All brokers of a cluster have one admin address, and who looks a topic up at the wrong one is always redirected.
//   - Messages are kept for ever, in memory, and idle topics are not deleted. Compaction is what the admin route asks for, done before
//     it answers.
//   - There are no transactions and no geo-replication; a client that asks for one is told so. Rates in statistics are
//     0; the counters count.
//
// # Limits
//
// A frame may have 5 MiB and 10 KiB, as in Pulsar; anything malformed ends the connection it came on, and only that. Memory is what
// the messages take, and a client that does not read its answers is no longer listened to when 8 MiB of them wait for it.
package pulsartest
