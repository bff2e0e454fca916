// Package pgvector stores objects in Postgres with the extension pgvector: it is a [vectorstore.Store],
// [vectorstore.VersionedClearer], [vectorstore.Tenanted] and [vectorstore.Conditional] in one table.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/shop")
//	if err != nil { ... }
//	defer pool.Close()
//	store, err := pgvector.New(ctx, pool, pgvector.Options{
//		Table:   "product_index",
//		Vectors: []pgvector.Vector{{Name: "text_vector", Dimensions: 384, HNSW: true}},
//		Searchable: []pgvector.Text{{Name: "title"}},
//	})
//
// New creates the table or checks it; see [Options]. It needs pgvector 0.8 or newer, and is tested with PostgreSQL 18.
//
// # What is stored how
//
// One row is one object, or what is remembered of a deleted one:
//
//	tenant, id    text and uuid   the primary key; the tenant is empty where there are none
//	version       text            Object.Version, empty where it is unknown
//	deleted       boolean         a remembered deletion, of which the columns below are empty
//	properties    jsonb           the properties, as SQL of your own can read them
//	kinds         jsonb           the types that JSON does not have: "number" (a float), "date", "geo", "phone", lists, by property
//	inputs        jsonb           Object.Inputs
//	<vector>      vector(n)       a column for each named vector, NULL where the object has none
//	              vector(n)[]     one for each multi-vector
//	word:<name>   bigint[]        a column for each text that is Searchable: its words, each as the first 8 bytes of its SHA-256
//	word:<name>:length            and how many they are; "word" is the tokenization
//
// Values are those of [vectorstore.Value] and come back as they were, integers of 64 bits too. Refused, each with
// [vectorstore.ErrValue], are texts with a zero byte, which Postgres does not know, and dates beyond the years 0 to 9999; dates are
// texts in UTC with nine digits of a second. Vectors are stored as they are.
//
// Every mutation is one INSERT ... ON CONFLICT DO UPDATE, in which a Merge is made of what is stored at that moment, so that no
// other writer comes in between. [Store.ApplyIf] adds the version that the writer has read as a condition: so a [vectorstore.Sink]
// whose consumer has lost its partition, but does not know it yet, cannot overwrite what the new owner has written. Remembered
// deletions stay until Clear or ClearBefore.
//
// # Search
//
// Searches near vectors compare every object of the tenant, exactly, or use the index of a vector with HNSW, which is approximate. It
// is asked with ef_search as large as the matches that are wanted (40 at least, 1,000 at most) and goes on where a filter leaves too
// few (iterative scan in strict order). Several vectors and multi-vectors are compared exactly. Filters are
// conditions on the JSON; with [Options].FilterIndex those that compare for equality use an index. Autocut is
// [vectorstore.ErrUnsupported].
//
// # Keywords
//
// A Query with a Text is answered with the scores that Weaviate gives, BM25 with the same words, by the texts that are
// [Options].Searchable: from plain columns and indexes, without another extension. Their words are written with the object, so that what is
// written is found by the next search, by words and by how many objects have each in its tenant. A search reads the texts that have one of
// its words, whatever the Limit, and from an index how long all texts of the tenant are: with 100,000 texts of 30 words, 10 ms for rare
// words, and 230 ms for two that are in half of them (BenchmarkKeywords).
//
// A property that becomes Searchable in a table that is there gets its column in New, which cuts the texts of all rows while it has the
// table locked. A Store keeps whatever columns of words the table had when it was opened, also where its Options do not name them. So open
// those again that write to a table when a text has become searchable; dropping the column ends it.
//
// # Errors
//
// Mutations are sent many at once in one transaction, in the order of their tenants and ids, so that two calls do not wait for each other
// in a circle. Where Postgres refuses one as bad data, each is sent by itself, so that the error names it. Anything else that Postgres
// says, and broken connections, pass: they are the errors, not permanent, of all mutations of the transaction.
package pgvector
