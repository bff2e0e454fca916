// Package cdc reads change events: what Debezium says about the rows of a Postgres table, as typed Go values.
//
// A Decoder turns a message into an Event of T, where T is a struct with a field for each column that the program wants:
//
//	type Product struct {
//		ID          int64      `cdc:"id,key"`
//		Description *string    // nil for NULL
//		Price       cdc.Decimal
//		UpdatedAt   *time.Time
//	}
//
//	decoder, err := cdc.NewDecoder[Product](cdc.Options{})
//	event, err := decoder.Decode(cdc.Record{Topic: topic, Key: key, Value: value})
//
// For tables unknown at compile time T is Row.
//
// # Messages
//
// What a message is, is seen and not configured:
//
//   - Debezium's envelope in JSON, with its schema ({"schema":...,"payload":...}) or without. Members may come in any order, and unknown
//     ones are ignored, so that the envelopes of Debezium 1 to 3 are read; the tests have recorded messages of Debezium Server 3.6.1.
//   - Rows flattened by ExtractNewRecordState. What its settings add.fields and add.headers have added under names with two underscores
//     (__op, __deleted, __table, __source_ts_ms, __lsn ...) goes to Op, Source and the rest of the event and is no column. A row that is
//     __deleted is a delete, with the row in Before; one that says no operation is a read.
//   - Pulsar's KeyValue, separated and inline, with keys in base64, as Pulsar IO's Debezium sources send it.
//   - Avro: in package avrocdc, which adds it to this one.
//
// A message's key is the text of a JSON object, with its schema or without; an empty text, null and "default" (what Debezium Server
// sends) mean that there is none.
//
// # Events
//
// Event.Op is create, update, delete, read (a row of a snapshot), truncate, message (pg_logical_emit_message) or tombstone (no value;
// follows a delete, for log compaction). Event.Key has the primary key for all but truncates and tables without one; Before and After
// have the rows. A primary-key change comes as a delete of the old key, a tombstone, and a create of the new key: NewKey and OldKey link
// the two where the message's properties do, and a Linker where they do not.
//
// Heartbeats, the begin and end of transactions, signals, notifications, schema changes and other records that are no changes are
// errors that match ErrNotChangeEvent: a *NotChangeEventError says what the record is. All errors are permanent; none has a value of the
// payload in its text.
//
// # Columns and fields
//
// A column goes to the field whose cdc tag has its name, else whose json tag has its name, else whose Go name is equal without
// regard to case and underscores: product_id to ProductID. Two such columns for one field are an error. The fields of embedded
// structs count as the struct's own. Columns without a field are ignored; a field without a column in the row is unavailable (see
// below), so give fields that are no columns the tag "-". Options follow the name in the tag, separated by commas:
//
//   - "-" alone as the tag: not a column
//   - key: part of the primary key; used where the message has no key
//   - unit=ns, us, ms, s or days: what a number counts, for time.Time, time.Duration and Interval
//   - scale=2: the column is a base64 decimal of that scale
//   - encoding=base64, base64url or hex: how a string carries bytes, for []byte; encoding=text: as itself, and for numbers: as decimal
//     text
//   - json: a string holds JSON text
//
// They speak for messages without a schema; a schema knows better and wins.
//
// # Types
//
// Numbers are exact: a value that a field cannot hold is an error, never rounded (but decimals go to the nearest float, as the field
// asks). NULL is nil in pointers, slices, maps and any, an invalid Null or sql.Null, and the zero value elsewhere.
//
//	smallint ... bigint, oid        int*, uint*, float64, big.Int, Decimal, json.Number
//	real, double precision          float32, float64 (NaN and infinities too), Decimal, json.Number
//	numeric, money                  Decimal (NaN and infinities too), big.Rat, big.Int, float64, string, json.Number, int* if whole
//	boolean, bit(1)                 bool
//	text, varchar, enum, ranges ... string, anything with UnmarshalText
//	uuid                            string, [16]byte, anything with UnmarshalText
//	inet, cidr, macaddr             string, netip.Prefix, netip.Addr (for whole addresses), net.HardwareAddr
//	bytea                           []byte, [N]byte
//	bit(n)                          []byte, the least significant first and leading zeros left out; string with a schema: 00101
//	date, timestamp, timestamptz    time.Time in UTC (see Infinity), string for timestamptz
//	time, timetz                    time.Duration since midnight UTC, string for timetz
//	interval                        Interval; time.Duration if it has no months; string where the connector writes text
//	json, jsonb, hstore             json.RawMessage, a struct, a map, any, anything with UnmarshalJSON, string
//	arrays, vector, halfvec         slices and Go arrays of the above
//	sparsevec                       SparseVector
//	point, geometry, geography      Geometry, a struct with x, y, wkb, srid; a map; any
//
// A pointer to each, Null and sql.Null of each and a type with one of them as its underlying type will do as well.
//
// Without a schema some values say too little: a number may be milliseconds or days, a string text or a base64 decimal. There the
// decoder does not guess but returns an error that names the tag option to declare. With a schema, a field that can never take its
// column is an error at the first event, even if the value is NULL.
//
// # Unavailable values
//
// Postgres does not log a long value (TOAST) that an update left as it was, unless the table has REPLICA IDENTITY FULL; Debezium then
// writes a placeholder, which has a different form for each type, or leaves the column out. A column is therefore a value, NULL, or
// unavailable. The field of an unavailable column is zero and means nothing: ask Event.Unavailable or UnavailableColumns before writing
// After over what is stored, or let Event.Merge write it. Where the message has the whole row before, After takes the value from there.
//
// # What nothing can tell
//
// Some losses are the connector's, and leave no trace in the message:
//
//   - Its converter writes a column's default in place of NULL, unless replace.null.with.default is false: set that.
//   - Debezium 3.6 writes plain NULL for the unavailable values of some types: bit varying; numeric, unless decimals are strings; bytea
//     in the base64 modes; arrays but those of text, json, uuid, integer, bigint and (in the time modes adaptive, microseconds and
//     nanoseconds) date. Give tables with such long values REPLICA IDENTITY FULL.
//   - It writes NULL for NaN and infinite numerics, unless decimals are strings; snapshots lose the BC of dates; an interval
//     in numbers has months of 30.4375 days.
//
// # Order
//
// Event.Position compares the changes of one key: see Position.
//
// # Speed and bounds
//
// A message is scanned once (a flattened row twice), and what the last one of the table lets expect is compared rather than scanned; a
// schema is parsed once and recognized by its text thereafter. A decoder keeps at most 64 schemas of up to 4 MiB, and the column lists of
// 64 shapes for each. Nesting beyond 512 and values beyond Options.MaxBytes are errors. The benchmark in testdata/peers compares with
// other decoders of JSON.
package cdc
