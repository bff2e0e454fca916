// Package embed turns text and pictures into vectors.
//
// [Embedder] is the one interface: inputs in, one vector each out, in order. What wraps an embedder is an embedder again.
// [Model] says which vectors an embedder makes; two vectors may be compared only when their models' fingerprints are equal.
//
// An Embed call has three outcomes. Every input was embedded: the error is nil. Some were: the error is a [BatchError], or any
// other with a method ItemErrors() []error, and says which were not and why, so that one bad input costs its neighbours
// nothing. None was: any other error. Whoever writes an Embedder collects one error an input and ends with
// [NewBatchError]; whoever calls one asks by errors.As for the methods and never for a type:
//
//	vectors, err := e.Embed(ctx, texts)
//	var items interface{ ItemErrors() []error }
//	switch {
//	case err == nil: // vectors[i] belongs to texts[i]
//	case errors.As(err, &items) && len(items.ItemErrors()) == len(texts): // texts[i] failed where ItemErrors()[i] is not nil
//	default: // all failed
//	}
//
// # Around an embedder
//
// A [Batcher] puts the inputs of concurrent callers together: while the model works on a batch the next one forms, live inputs go
// before those of a backfill ([WithPriority]), and nobody suffers from a neighbour's bad input. A [Cache] keeps vectors by content
// and model, in bounded memory and where told in a second level that processes share ([Remote]: the example is Redis). [Limit]
// keeps a paid embedder within rates and a budget, and tries again what may succeed; [NewOpenAI] is one over HTTP. [Record] and
// [Verify] find out before a program is ready that its model makes other vectors than it did. [Share] selects the keys of a
// canary.
// [Each] is for whoever wraps an embedder: one checked vector or error for each input.
//
//	texts := embed.NewCache(embed.NewBatcher(model, embed.BatcherOptions{MaxTokens: 1024}), embed.CacheOptions{})
//	defer texts.Close()
//	vectors, err := texts.Embed(ctx, []string{"from any goroutine"})
//
// # Metrics and traces
//
// The global providers of OpenTelemetry are used where the options bring none. A batch has a span "embed batch", linked to the
// spans of its callers.
//
//	embed.batcher.queue.duration  seconds that an input waits for its batch
//	embed.batcher.run.duration    seconds that a batch takes in the embedder
//	embed.batcher.batch.inputs    inputs of a batch
//	embed.batcher.batch.tokens    tokens of a batch, as counted for MaxTokens
//	embed.batcher.queue.inputs    inputs that wait
//	embed.batcher.rejected        inputs that found the queue full
//	embed.cache.inputs            different inputs, by embed.cache.source: memory, remote, embedder
//	embed.cache.remote.failures   requests to Remote that failed (error.type timeout or error), and values that are no vectors (value)
//	embed.limit.tokens            tokens that were sent to a limited embedder
//	embed.limit.spent             what they cost, in the currency of the price
//
// Package onnx has the embedders that run models in this process, package tokenizer the tokenizers that they use, and
// package embedtest deterministic embedders with faults on demand, for tests of an application.
package embed
