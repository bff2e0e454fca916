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
// For tables unknown at compile time T is Row. Whether messages bring their schema ({"schema":...,"payload":...}) is seen, not
// configured. Members may come in any order, and unknown ones are ignored, so that the envelopes of Debezium 1 to 3 are read; the tests
// have recorded messages of Debezium Server 3.6.1.
//
// # Events
//
// Event.Op is create, update, delete, read (a row of a snapshot), truncate, message (pg_logical_emit_message) or tombstone (no value;
// follows a delete, for log compaction). Event.Key has the primary key for all but truncates and tables without one; Before and After
// have the rows. A primary-key change comes as a delete of the old key, a tombstone, and a create of the new key.
//
// Heartbeats, the begin and end of transactions, and other records that are no changes are errors that match ErrNotChangeEvent and say
// what the record is. All errors are permanent; none has a value of the payload in its text.
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
//   - unit=ns, us, ms, s or days: what a number counts, for time.Time and time.Duration
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
// asks). NULL is nil in pointers, slices, maps and any, an invalid sql.Null, and the zero value elsewhere.
//
//	smallint ... bigint, oid        int*, uint*, float64, big.Int, Decimal, json.Number
//	real, double precision          float32, float64 (NaN and infinities too), Decimal, json.Number
//	numeric, money                  Decimal, big.Rat, big.Int, float64, string, json.Number, int* if whole
//	boolean, bit(1)                 bool
//	text, varchar, uuid, enum ...   string, anything with UnmarshalText
//	bytea, bit(n)                   []byte
//	date, timestamp, timestamptz    time.Time in UTC (see Infinity), string for timestamptz
//	time, timetz, interval          time.Duration (time: since midnight); string for timetz and intervals as text
//	json, jsonb, hstore             json.RawMessage, a struct, a map, any, anything with UnmarshalJSON, string
//	arrays, vector                  slices and Go arrays of the above
//	point, geometry, sparsevec      a struct with x, y, wkb, srid or dimensions, vector; a map; any
//
// A pointer to each, sql.Null of each and a type with one of them as its underlying type will do as well.
//
// Without a schema some values say too little: a number may be milliseconds or days, a string text or a base64 decimal. There the
// decoder does not guess but returns an error that names the tag option to declare. With a schema, a field that can never take its
// column is an error at the first event, even if the value is NULL.
//
// # Unavailable values
//
// Postgres does not log a long value (TOAST) that an update left as it was, unless the table has REPLICA IDENTITY FULL; Debezium then
// writes a placeholder, which has a different form for each type. A column is therefore a value, NULL, or unavailable. The field of an
// unavailable column is zero and means nothing: ask Event.Unavailable or UnavailableColumns before writing After over what is stored.
// Where the message has the whole row before, After takes the value from there. (In binary mode base64 and time mode connect, Debezium
// 3.6 writes NULL for some unavailable columns; nothing tells those from true NULLs. Neither can a default that the connector writes in
// place of NULL be told from a value: set replace.null.with.default to false in its converter.)
//
// # Order
//
// Event.Position compares the changes of one key: see Position.
//
// # Speed and bounds
//
// A message is scanned once; a schema is parsed once and recognized by its text thereafter. A decoder keeps at most 64 schemas of up to
// 4 MiB, and the column lists of 64 shapes for each. Nesting beyond 512 and values beyond Options.MaxBytes are errors.
package cdc
