// Package vectorstore keeps a vector store equal to a table: change events come in, objects with vectors are written.
//
// A [Sink] is the handler of a consume loop. It takes batches of [cdc.Event], embeds what has changed, and writes to a
// [Store]; a [Mapping] says what an object is made of:
//
//	sink, err := vectorstore.NewSink(store, vectorstore.Mapping[Product]{
//		Vectors: []vectorstore.Vector[Product]{
//			vectorstore.Embed("text_vector", func(p Product) string { return p.Title }, model),
//		},
//		Properties: func(p Product) map[string]any { return map[string]any{"title": p.Title, "price": p.Price} },
//	}, vectorstore.SinkOptions{})
//	...
//	err = consumer.Run(ctx, pulsarx.Values(sink.Handle))
//
// In the plain case, where properties and inputs are fields, [MappingOf] makes the mapping of struct tags.
//
// Package weaviate has a Store on Weaviate, package pgvector one on Postgres, package memory one for tests, examples and small
// collections; package storetest has the suite that all pass, and that yours can. One [Query] asks any of them: near vectors or an
// object, for keywords (BM25), by filters, in groups, page by page, with the same distances and scores. What a Store cannot answer is
// [ErrUnsupported].
//
// # What a batch does
//
// Events of one key are collapsed to the last state: a create, update or snapshot row puts the object, a delete or
// tombstone removes it. One Get brings what is stored; one Embed call a vector makes the vectors that are needed; one
// Apply writes. So a row that changed five times within a batch costs one embedding and one write.
//
//   - A row is embedded only when its input differs from what the stored vector was made from: digests of input and
//     model are stored with the object. A change of other columns keeps the vector. Another model has another
//     fingerprint, so that reading the topic again embeds with it.
//   - Empty input (blank text, no bytes, nil) gives no vector; an older one is cleared. It is never a vector of zeros. By
//     [Vector].Blank it may be an error, or leave the object out, instead.
//   - Where one vector of an object cannot be made, nothing of the event is written, unless [Vector].Optional says so.
//   - What an input names but does not hold, such as the path of a picture, is not looked at: a picture that changes under
//     the same path is embedded again only when the row says so, say by a column with the picture's hash or time in the
//     input. So put that in.
//   - A vector that is not finite, all zero or of a wrong length is never written. It is the event's error.
//   - Rows that a snapshot or backfill has read are embedded with [embed.Backfill], where a batch has nothing else, so that they wait
//     behind live changes for a model that they share (see [embed.Batcher]).
//     A store is told so only by the context: where a consumer has nothing but rows of a backfill, give its Run one of
//     [embed.WithPriority], and package weaviate writes little at a time, beside live writes least. A topic with both is better off
//     without, since its live changes wait for the rows before them.
//   - The object's id is [UUID5] of the key, so that a delete finds what an insert wrote, and a redelivery overwrites
//     itself.
//   - A change of the primary key comes as a delete of the old key and a create of the new one. Where both are in one
//     batch, or the old object is still there when the create comes, the object moves: it brings its vectors along, and is
//     deleted under the old key only when it is there under the new one. The two are known by [cdc.Event].OldKey and
//     NewKey, or by being next to each other in the batch (see [cdc.Linker]). Otherwise the create embeds again. Where rows of a batch
//     change their keys in a circle, it is written in parts, none of which has one, so that a crash loses nothing; what fails for now
//     in one part makes all events of the next ones wait.
//
// # Unavailable columns
//
// Postgres does not log long values that an update leaves as they were. The sink takes them from the earlier events of the
// batch; where none has them, it keeps of the stored object what is made of them, and writes the rest: a vector or
// property that reads an unavailable column stays as it is stored. Which columns a function of the mapping reads it finds
// by trying: it calls the function with other values in those columns, and compares what comes out. So the functions must
// depend on the row alone, and one that cuts its text or compares it with a constant may look as if it did not read it; give
// tables for which that matters REPLICA IDENTITY FULL, which ends all of this.
//
// What cannot be made is a permanent [ErrUnavailable], never a guess: when nothing is stored (a row that starts to qualify
// by the filter, a create that was lost), when another column that the same vector or property reads has changed as well
// (known by a digest of every column, which is stored with the object's Inputs), and when the vector is another model's.
// Read such rows again from the table. A stored row stays wanted by a filter that reads an unavailable column, unless the
// other columns exclude it.
//
// # Order
//
// Every object, and every deletion, is stored with the [cdc.Position] of its event. An event that is older than what is
// stored is skipped as stale, the same event again as unchanged; also after a restart, and also against a remembered
// deletion, so that a late update does not resurrect a row. Positions that cannot be compared are taken for newer. One
// consumer at a time may own a key, as it does in a Key_Shared, Failover or Exclusive subscription. A consumer that has lost a key
// without knowing it yet may still be writing: a [Conditional] store refuses that with [ErrConflict], which is tried again and is
// then stale. On another store, such as Weaviate, such a write can undo a newer one that came between its read and its write; a
// fence of the consumers, or [Sink.Reconcile] afterwards, is what helps.
//
// A truncate has no key, so a topic does not order it against the rows; its LSN does, since Postgres locks the table.
// On a [VersionedClearer] the sink removes what is older, keeps what is newer, and remembers the truncate, as the
// deletion of an object that no row has: older events that come after it are stale, and so is an older truncate. Within
// one Sink a truncate waits for the calls of Handle that are at work, and they for it. Three cases are not covered. A
// second process may be writing an older row at that very moment, which then stays until its next change or the next
// truncate. So may a row that an incremental snapshot read before the truncate, which has no LSN. And a truncate without
// an LSN, or on a [Clearer] without versions, removes everything, whenever it comes. A truncate clears the store, not a
// table: a store that shows two tables is no place for it.
//
// Whether store and table are equal, [Sink.Reconcile] tells: it compares every row with its object and every object with the rows,
// embeds nothing for that, and repairs on request.
//
// # Errors
//
// [Sink.Handle] answers by event: nil means done and durable. An event that no retry can cure (no key, no row,
// unavailable columns that nothing has, a text that the model refuses) has an error with a method Permanent() bool that answers true,
// for the dead letters; the other events of its key are handled as if it was not there, so that the object shows the
// last state that can be shown. Any other failure is the error of all events of the key in the batch, and of no other
// key.
//
// # Metrics and spans
//
// By OpenTelemetry's global providers, unless [SinkOptions] has others:
//
//	tidemark.sink.freshness       histogram, s   commit at the source to acknowledged write, of written events; no snapshots
//	tidemark.sink.latency         histogram, s   publishing of the event to acknowledged write: the waits on the way are in it
//	tidemark.sink.batch.size      histogram      events of one call of Handle
//	tidemark.sink.refused         counter        Optional vectors that a model refused, by tidemark.vector
//	tidemark.sink.events          counter        events by tidemark.outcome: a Kind, failed (tried again), rejected (permanent)
//	tidemark.sink.embed.duration  histogram, s   one Embed call, by tidemark.vector
//	tidemark.sink.read.duration   histogram, s   one read of what the store has of a batch
//	tidemark.sink.write.duration  histogram, s   one write of a batch
//
// Handle makes a span sink, a child of the one in its context and linked to the traces that the events' messages carry
// (traceparent, 128 at most), and in it the spans read, embed and write. [SinkOptions].Observe gets the
// [Outcome] of each event.
package vectorstore
