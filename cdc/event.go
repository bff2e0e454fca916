package cdc

import "time"

// Record is a message as it came from the topic. It has the fields of pulsarx.Raw, so that one converts to the other and neither
// package imports the other.
type Record struct {
	Topic     string
	Partition int
	// Offset orders the records of one partition bytewise.
	Offset string
	Key    string
	// Value is empty for a tombstone.
	Value      []byte
	Properties map[string]string
	// SchemaType and Schema are the writer's, where the topic has one.
	SchemaType             string
	Schema                 []byte
	PublishTime, EventTime time.Time
}

// Op says what happened to a row. The letters are Debezium's.
type Op byte

// The operations of Debezium's envelope, and the tombstone, which has no envelope.
const (
	OpTombstone Op = 0   // no value: the key is gone, for log compaction
	OpCreate    Op = 'c' // an inserted row
	OpUpdate    Op = 'u' // a changed row
	OpDelete    Op = 'd' // a deleted row
	OpRead      Op = 'r' // a row of a snapshot
	OpTruncate  Op = 't' // the whole table was emptied; no key, no rows
	OpMessage   Op = 'm' // pg_logical_emit_message; no row
)

// Event is one change of one row of T.
type Event[T any] struct {
	Op Op
	// Key has the key columns in the order in which the source writes them. It is there on deletes and tombstones too, where T
	// cannot be read, and empty on truncates and for tables without a key.
	Key Key
	// OldKey is set on the create, and NewKey on the delete, that a primary-key change comes as, where the message says so: then the
	// row is the same under another key. See Linker where messages do not say.
	OldKey, NewKey Key
	// Before and After are the row before and after the change, nil where the source does not say. Unless the table has REPLICA
	// IDENTITY FULL, Before is nil on updates and has the key's columns alone on deletes; the others are zero then.
	Before, After *T
	Source        Source
	// ProcessedTime is when the connector handled the change, in UTC.
	ProcessedTime time.Time
	// Transaction is nil unless the connector provides transaction metadata.
	Transaction *Transaction
	// Message is set for OpMessage alone.
	Message *LogicalMessage
	// Record is the message that the event was decoded from.
	Record Record

	columns columns
}

// Column is one column of a key, or of a Row, where more types occur. In a key Value is nil, bool, int64, *big.Int (integers beyond
// int64), float64 or string: the value as it is on the wire, so that times are the numbers or texts that the connector's time mode
// makes of them. A decimal is plain decimal text where the message says its scale, else base64 text. Columns of other types, such as
// arrays, are their JSON text.
type Column struct {
	Name  string
	Value any
}

// Key is a row's primary key, in column order. It is read from the message's key; where that is empty, or no text that Debezium
// writes, from the fields of T whose tag says key.
type Key []Column

// Source says where a change comes from.
type Source struct {
	Connector, Database, Schema, Table string
	// LSN is the position of the change in the write-ahead log, 0 where the event has none.
	LSN uint64
	// TxID is the transaction's number, 0 where the event has none.
	TxID uint64
	// CommitTime is when the change was committed, to the microsecond where the event says so, in UTC; for rows read by a snapshot
	// when they were read.
	CommitTime time.Time
	// Snapshot is true for rows read by a snapshot, incremental ones included.
	Snapshot bool
}

// Transaction is the place of an event in its transaction.
type Transaction struct {
	ID string
	// TotalOrder counts the transaction's events from 1, CollectionOrder those of this table.
	TotalOrder, CollectionOrder int64
}

// LogicalMessage is what pg_logical_emit_message wrote.
type LogicalMessage struct {
	Prefix  string
	Content []byte
}
