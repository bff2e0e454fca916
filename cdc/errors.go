package cdc

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotChangeEvent is what errors.Is finds in the error of Decode when the message is well-formed but no change event: a heartbeat,
// a transaction's begin or end, or a JSON value of another kind. The error is a *NotChangeEventError.
var ErrNotChangeEvent = errors.New("cdc: not a change event")

// The kinds of messages that are no change events.
const (
	KindHeartbeat    = "heartbeat"      // from the topic <heartbeat.topics.prefix>.<topic.prefix>
	KindTransaction  = "transaction"    // BEGIN or END, from the topic <topic.prefix>.transaction
	KindSchema       = "schema change"  // DDL, from connectors that report it
	KindSignal       = "signal"         // a row of the signal table, or a record of the signal topic
	KindNotification = "notification"   // the connector's report of a snapshot's progress
	KindUnknown      = "unknown record" // JSON of no known shape
)

// NotChangeEventError says which topic brought which kind of message in place of a change event.
type NotChangeEventError struct {
	// Topic is Record.Topic.
	Topic string
	// Kind is one of the Kind constants.
	Kind string
	// Time is when the connector wrote the record, in UTC; zero where it does not say.
	Time time.Time
	// Transaction is set for KindTransaction alone.
	Transaction *TransactionBoundary
}

// Error implements error.
func (e *NotChangeEventError) Error() string {
	return fmt.Sprintf("%v: topic %q: %s", ErrNotChangeEvent, e.Topic, e.Kind)
}

// Is reports whether target is ErrNotChangeEvent.
func (e *NotChangeEventError) Is(target error) bool { return target == ErrNotChangeEvent }

// Permanent is true: another try reads the same bytes.
func (e *NotChangeEventError) Permanent() bool { return true }

// DecodeError says why a message could not be decoded, and where in it. Its text has names, types and offsets but never a value of
// the payload, so that it can be logged.
type DecodeError struct {
	// Topic is Record.Topic.
	Topic string
	// Table is "schema.table" as the message names it, empty where it was not read.
	Table string
	// Column is the column of the row or key that did not fit, empty when the message as a whole is bad.
	Column string
	// Wire is the type of the value in the message: a Kafka Connect schema name or type where the message brings its schema, else
	// the JSON kind ("number", "string" ...).
	Wire string
	// Go is the type of the field that should have taken the value.
	Go string
	// Reason is a sentence.
	Reason string
	// Err is the error of a field's own UnmarshalText or UnmarshalJSON, nil otherwise. Its text may contain the value, so it is not
	// part of Error's; errors.Is and errors.As reach it.
	Err error
}

// Error implements error.
func (e *DecodeError) Error() string {
	var b strings.Builder
	b.WriteString("cdc: decode")
	if e.Topic != "" {
		fmt.Fprintf(&b, " topic %q", e.Topic)
	}
	if e.Table != "" {
		fmt.Fprintf(&b, " table %q", clip(e.Table))
	}
	if e.Column != "" {
		fmt.Fprintf(&b, " column %q", clip(e.Column))
	}
	if e.Wire != "" && e.Go != "" {
		fmt.Fprintf(&b, " (%s into %s)", clip(e.Wire), e.Go)
	}
	b.WriteString(": " + e.Reason)
	return b.String()
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Permanent is true: another try reads the same bytes.
func (e *DecodeError) Permanent() bool { return true }

// clip keeps names from hostile messages short.
func clip(name string) string {
	const most = 128
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}

// mismatch is why one value does not fit one Go type. It becomes a DecodeError where topic, table and column are known.
type mismatch struct {
	reason string
	err    error
}

func (m *mismatch) Error() string { return m.reason }

func mismatchf(format string, args ...any) *mismatch {
	return &mismatch{reason: fmt.Sprintf(format, args...)}
}
