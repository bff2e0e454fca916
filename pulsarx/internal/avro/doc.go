// Package avro reads and writes Avro's binary form: a schema is parsed, and compiled with a Go type into a plan, once; a plan for
// reading is compiled from the writer's schema, the reader's and the Go type, so that resolution costs nothing a message.
//
// It exists because pulsarx reads what any writer of a topic has put there: a plan checks every length before it allocates, bounds
// nesting, refuses what does not fit the Go type, and takes names that the specification forbids (Java's Outer$Inner).
package avro
