package cdc

import "slices"

// columns says what an event knows about each column of its row. It is built by Decode and never changes, so that events can be
// copied and read concurrently.
type columns struct {
	epoch uint32
	// shape is that of the row that the event is about.
	shape *shape
	// names are the wire's, in the wire's order, then those that T has and the row lacks.
	names []string
	// states is aligned with names.
	states []columnState
	// changedKnown says whether stateChanged can be relied upon.
	changedKnown bool
}

type columnState uint8

const (
	stateChanged columnState = 1 << iota
	stateUnavailable
	stateUnread // T has no field for it
)

// Changed returns the columns in which Before and After differ, in the order of the row, and whether that is known.
//
// The values are compared as they are on the wire, whether or not T has a field for the column. It is known for a created row and for
// a row read by a snapshot (all its columns are reported), and for an update whose message brings the whole row before, as tables with
// REPLICA IDENTITY FULL do. It is not known for an update without the row before, or with its key alone, nor for deletes, truncates,
// tombstones and logical messages: then the result is nil, false. A column whose value is unavailable has not changed.
func (e *Event[T]) Changed() (columns []string, known bool) {
	if !e.columns.changedKnown {
		return nil, false
	}
	for i, s := range e.columns.states {
		if s&stateChanged != 0 {
			columns = append(columns, e.columns.names[i])
		}
	}
	return columns, true
}

// Unavailable says whether the message lacks the value of the column (named as in the database), so that the field in After has a
// zero value which means nothing and must not overwrite what is known. That is so when Postgres did not log the value because an
// update left it unchanged (TOAST: see Options.Placeholder) and the row before does not have it either, and when the row lacks a
// column for which T has a field. On deletes it speaks of Before.
func (e *Event[T]) Unavailable(column string) bool {
	i := slices.Index(e.columns.names, column)
	return i >= 0 && e.columns.states[i]&stateUnavailable != 0
}

// UnavailableColumns returns the names of the columns of T that are Unavailable, sorted; nil where there is none. Those that T has no
// field for are not among them: nothing of T lacks a value.
func (e *Event[T]) UnavailableColumns() []string {
	var names []string
	for i, s := range e.columns.states {
		if s&(stateUnavailable|stateUnread) == stateUnavailable {
			names = append(names, e.columns.names[i])
		}
	}
	slices.Sort(names)
	return names
}

// Position returns the place of the change in the order of its source: the decoder's epoch, Source.LSN and Record.Offset.
func (e *Event[T]) Position() Position {
	return Position{Epoch: e.columns.epoch, LSN: e.Source.LSN, Offset: e.Record.Offset}
}
