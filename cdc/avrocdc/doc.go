// Package avrocdc reads change events whose messages are Avro: those of Pulsar IO's Debezium sources with an AvroConverter, and those of
// programs that write Debezium's envelope with an Avro schema of their own.
//
//	decoder, err := avrocdc.NewDecoder[Product](cdc.Options{})
//	event, err := decoder.Decode(cdc.Record(raw)) // raw is a pulsarx.Raw: it brings the writer's schema from Pulsar's registry
//
// A Decoder does all that one of package cdc does, with the same events, types and errors: a message is turned into the JSON with schema
// that Debezium would have written, so that both mean the same. Messages that are no Avro (JSON, strings, tombstones) are decoded as
// package cdc does, so that a topic may change its encoding.
//
// # Types
//
// What a value is comes from its schema's property connect.name with connect.parameters, where there is one (io.debezium.time.*,
// io.debezium.data.*, Kafka's Decimal, Date, Time and Timestamp), else from Avro's logical type: decimal, date, time-millis, time-micros,
// timestamp-millis, -micros and -nanos, local-timestamp-*, uuid, duration. Unions of null and one other type are columns that may be
// NULL; in other unions the branch that was written decides, and its type is not known.
//
// # Where it is in the message
//
// A schema of type AVRO is that of the value. One of type KEY_VALUE has both: in its inline encoding the message holds key and value, in
// the separated one the key is the message's key in base64. A Confluent header (a zero and four bytes) before the Avro is skipped where the
// property __AVRO_READ_OFFSET__ of the message says so or, since Pulsar keeps that property in the schema, where the schema fits the whole
// of the rest and not the whole of the message.
package avrocdc
