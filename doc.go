// Package tidemark is the root of an embedded library for real-time AI pipelines on Apache Pulsar. It holds no code: an
// application imports the packages that it wants and owns main.
//
// A row changes in Postgres, and its new embedding becomes searchable in Weaviate:
//
//	Postgres ──Debezium──▶ Pulsar ──▶ cdc ──▶ embed (ONNX) ──▶ vectorstore ──▶ Weaviate
//
// # The packages
//
//   - pulsarx: typed producers and consumers. [pulsarx.Consumer.Run] handles the events of a key in order, in small batches,
//     acknowledges after success, retries in place, and moves what cannot be handled to a dead-letter topic.
//   - pulsarx/topology: tenants, namespaces, topics and policies, declared in Go or YAML, planned and applied.
//   - pulsarx/pulsartest: a broker inside the test binary that speaks Pulsar's protocol.
//   - cdc: Debezium's change events as typed Go values; cdc/avrocdc: the same from Avro.
//   - embed, embed/onnx, embed/tokenizer: text to vectors, in this process, with batching, a cache and limits around any embedder.
//   - vectorstore: the Sink that keeps a Store equal to a table; vectorstore/weaviate, vectorstore/pgvector
//     and vectorstore/memory are Stores.
//   - window, window/aggregate, window/features: event-time windows and the last so much time of a key, equal online and in a
//     replay; pulsarx.RunStateful keeps their state. window/spill has more keys than fit in memory.
//
// They meet in values and functions, not in a framework. The whole pipeline:
//
//	decode := func(r pulsarx.Raw) (cdc.Event[Product], error) { return decoder.Decode(cdc.Record(r)) }
//	consumer, err := pulsarx.NewConsumer(ctx, client, pulsarx.DecodeFunc(decode), pulsarx.ConsumerOptions{...})
//	...
//	err = consumer.Run(ctx, pulsarx.Values(sink.Handle))
//
// # Where to begin
//
// Run examples/quickstart: the whole path in one process, without a server. examples/productsync is the same path on
// Postgres, Debezium, Pulsar and Weaviate, and examples/windows turns clicks into features. Then read the documentation of
// pulsarx, vectorstore and window.
//
// [pulsarx.Consumer.Run]: https://pkg.go.dev/github.com/tidemark-go/tidemark/pulsarx#Consumer.Run
package tidemark
