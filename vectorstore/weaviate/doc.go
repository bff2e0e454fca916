// Package weaviate stores objects in Weaviate: it is a [vectorstore.Store] and a [vectorstore.VersionedClearer] in one
// collection, with tenants or without.
//
//	store, err := weaviate.New(ctx, weaviate.Options{
//		HTTP: "localhost:8080", GRPC: "localhost:50051", Collection: "Product",
//		Properties: []weaviate.Property{
//			{Name: "product_id", DataType: weaviate.Int}, {Name: "description", DataType: weaviate.Text},
//		},
//	})
//	if err != nil { ... }
//	defer store.Close()
//
// New creates the collection or checks it, field by field ([CollectionError] lists what differs). Where the server can change a
// collection that is there, New does: it adds named vectors and properties, turns on quantizers of HNSW and the automatic tenants,
// sets EF and the deletion strategy. Where one difference is of another kind, it changes nothing; [Options].OpenOnly forbids all of
// it. What others have added to the collection stays as it is, but for a collection with range filters in objects, which the server
// cannot change: it gets properties alone. [PropertiesOf] makes the properties of a Go struct. From then
// on everything goes over one gRPC connection, and REST is used when a property is added or replicas are read. It is tested with
// servers v1.35 and v1.39.
//
// # What is stored how
//
// An object of the collection is one [vectorstore.Object] under the same id. The collection has no vectorizer: its
// named vectors (text_vector and image_vector, unless [Options].Vectors says otherwise) are given with the object, and
// indexed by HNSW and compared by cosine unless a [Vector] says otherwise. In a collection that was made with one vector
// without a name, that one is "" among an object's Vectors, and in a query, which looks near it alone. A put replaces
// the whole object, vectors included, which is what Upsert means; a Merge therefore reads the object first.
//
// Two properties of text are the Store's own, in no index and never among an object's Properties: tidemark_version
// holds the Version, tidemark_inputs the Inputs as JSON. They are added to a collection that lacks them.
//
// Deletions are remembered in a second collection without vectors, "ProductTombstones" for "Product": the id of each
// deleted object with its version. It grows with the number of different objects that were ever deleted, until
// [Store.Clear]. A Delete writes there first and removes the object after it; an Upsert writes the object alone. So an
// object that is there is what counts, and a deletion counts where there is none: whatever the moment of a crash, an
// object is seen as it was before or after, and applying the mutations again completes them. [Store.Apply] has the
// argument.
//
// # Properties
//
// Values are what [vectorstore.Value] accepts and, beside them, []byte, [16]byte, json.RawMessage and lists of
// objects. They must fit the type of their property; what does not fit, or would not come back as it went, is a
// permanent error of that object. Nothing is rounded or left out silently.
//
//	type of property      takes                                             comes back as
//	text                  string; time.Time as RFC 3339; [16]byte           string
//	int                   integers within ±2^53, floats that are such       int64
//	number                finite floats; integers within ±2^53              float64
//	boolean               bool                                              bool
//	date                  time.Time; text as RFC 3339 or 2006-01-02         time.Time in UTC
//	                      15:04:05 or 2006-01-02; years 0 to 9999
//	uuid                  [16]byte; text                                    string, in lower case
//	blob                  []byte but empty; text in base64                  []byte
//	T[] (but blob)        lists of what T takes                             []T of the above, empty ones too
//	geoCoordinates        vectorstore.Geo, not in objects                   vectorstore.Geo
//	phoneNumber           vectorstore.Phone that the server can parse, not  vectorstore.Phone
//	                      in objects
//	object, object[]      maps with text keys; lists of them                map[string]any, []map[string]any
//
// Integers are held to 2^53 because Weaviate keeps them as doubles: larger ones belong in a text. Nil is a null;
// Weaviate keeps none, so that it is not there when the object is read. Pointers, named types, json.Number and
// MarshalText are understood as Value does.
//
// A property that the collection lacks is added with the type of its first value: string gives text, integers int,
// floats number, bool boolean, time.Time date, [16]byte uuid, []byte blob, lists and maps accordingly. An empty map or
// []any has no type to give and is an error; so is any new property with [Options].FixedProperties. New fields inside
// a nested object are the server's to add (its auto-schema, on by default, which knows numbers as number only).
// References and blobHash are not supported: New refuses a collection that has them,
// since an upsert would drop their values.
//
// # Errors
//
// Apply answers with a [vectorstore.BatchError], one place a mutation, or with the error of the request when one was
// all there was and it failed. Errors of an object are permanent when the object is at fault, and are
// [vectorstore.ErrID], [vectorstore.ErrVector] or [vectorstore.ErrValue]. Anything else (unavailable, read-only, timed
// out, rate limits, answers that are not known) passes and may be tried again: errors.Is finds
// context.DeadlineExceeded, and google.golang.org/grpc/status the code. Weaviate tells some failures of a whole shard,
// such as being read-only, for the first object of a request alone and calls the others done. So when an object fails
// for such a reason, all of that request count as failed. A server whose disk was full is one that may have stored parts of such
// objects: when it takes them again, for which it may have to be started again, the Store removes what is there and writes them once
// more, so that every index has them.
//
// # Vectors
//
// Vectors are checked before they are sent: finite, with cosine not all zero, and as long as the others of their name, which the
// server itself does not check for the first batch of an empty collection. The length comes from [Options].Vectors,
// from what is stored, or from the first vector of a call. An index keeps the length of its vectors, even after Clear.
// What is written is found by the next search, unless the server runs with ASYNC_INDEXING.
//
// A server that is killed keeps the objects that it has acknowledged, but may lose what its vector indexes held of the last ones in
// memory (seen with v1.35 and v1.39, also of flat indexes): they are read and filtered as before, and found near no vector, and writing
// them again as they are does not change that. Objects that are deleted and written again are found, or all in a new collection that
// takes over the alias of the old one. A server that is asked to stop loses nothing.
//
// A [Vector] that is Multi has the lists of vectors of [vectorstore.Object].MultiVectors, with Muvera in a smaller, less exact index. Their
// vectors are brought to length 1, since the server compares them by their products, and the distances of a search are turned into
// those that [vectorstore.Query].NearMulti has on every Store. Server v1.35 counts lists that were deleted to the Limit until it has
// cleaned up (within minutes), so that it may find fewer; v1.39 does not.
//
// # Tenants
//
// With [Options].Tenants, the collection keeps tenants apart: each Ref and Query names one. It is created by the first write, and
// woken where it is cold by whatever concerns it; reading from one that is not there finds nothing. [Store.Tenants] lists them,
// [Store.DropTenants] drops them. The vectors of a name have one length in all of them.
//
// # Search
//
// [Store.Search] answers the [vectorstore.Query] that every Store answers, whole: near several vectors or an object, by keywords,
// hybrid, grouped, page by page, with a filter whose values are checked against the type of their property.
//
// [vectorstore.IsNull] needs a collection that was made with [Options].NullIndex, and is [vectorstore.ErrUnsupported] in another.
//
// Scores of keywords are those of the other Stores where nothing was overwritten or deleted: the server counts the words of what is gone
// until it has cleaned up. With several properties it adds up what it finds by each, up to Limit; v1.35 misses some of the best where many
// more objects than Limit have the words.
//
// # Aliases
//
// [Store.PointAlias] makes a name stand for the collection. A Store that is opened by such a name with [Options].OpenOnly searches what
// it stands for at that moment, also when it comes to stand for another collection with other properties and lengths of vectors.
//
// # Replicas
//
// In a collection with several copies ([Replication]) what a quorum has acknowledged is what Get returns, through whichever node, also
// when a node was down meanwhile and has come back without it: deletions stay deleted, and the Sink's guard sees the newest version.
// For that, Get and the reads of a Merge ask for each object by its id over REST, one request an object, where ReadConsistency is not
// [One]. Searches and scans are answered by one replica alone, whatever the level, so that they may miss or still show what it has missed,
// until it is repaired; reading an object by its id repairs it. Weaviate counts the nodes that it takes for alive: without a dead one,
// even [All] succeeds. A node that was just killed delays requests to ReadTimeout, until the others know.
//
// # What it sends
//
// Writes are cut into batches by count and by bytes of the message, of which MaxInFlight are under way at once; a server that
// is slow or refuses gets smaller ones, and fewer. Requests are repeated where the server was unavailable, with jitter, which
// is harmless even when only the reply was lost: ids are the caller's. Consistency levels and gzip are options. Writes whose context
// has the priority of a backfill (package embed) go after the others, leave a place for them, send what the server does in 40 ms at a
// time, since a live write of another process waits for all that is under way, and shrink to a few objects, with rests, as long as
// others of the same Store come.
//
// An API key, or what [Options].Token returns, goes as a bearer token with both transports, over TLS or to this machine only,
// unless PlaintextKey. The W3C trace context of a call's context travels in the request's metadata, next to metadata that the
// caller has set.
package weaviate
