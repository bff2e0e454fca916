package cdc

import (
	"slices"
	"strings"
)

// TransactionBoundary is a record of the topic <topic.prefix>.transaction: where a transaction begins or ends.
type TransactionBoundary struct {
	// ID is the transaction's number, since Debezium 2.6 with the log position behind a colon: Transaction.ID of its events.
	ID string
	// End is false for the beginning.
	End bool
	// Events is how many events the transaction has, known at its end.
	Events int64
	// Collections says, at the end, how many of them each table has: names as the connector writes them, schema.table.
	Collections map[string]int64
}

// signalTypes are the types of signals that Debezium knows, and of the watermarks that it writes into the signal table itself. "log" is
// left out: a table of a user's own may well have it, and a row is better taken for a row.
var signalTypes = []string{
	"execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "snapshot-window-open", "snapshot-window-close",
	"schema-changes", "set-binlog-position",
}

// isSignal says whether a row is one of the signal table, whose columns Debezium's documentation lays down: id, type, data.
func isSignal(r *rowCells) bool {
	if len(r.cells) != 3 {
		return false
	}
	cells := r.named()
	for i, name := range [...]string{"id", "type", "data"} {
		if string(cells[i].name.bytes()) != name {
			return false
		}
	}
	return isSignalType(cells[1].value)
}

func isSignalType(v value) bool {
	return v.kind == kindString && slices.Contains(signalTypes, string(v.bytes()))
}

// members of other records that are looked for by name.
func find(cells []cell, name string) (found value) {
	for i := range cells {
		if string(cells[i].name.bytes()) == name {
			found = cells[i].value
		}
	}
	return found
}

// only says whether an object has no other members than these.
func only(cells []cell, names ...string) bool {
	for i := range cells {
		if !slices.Contains(names, string(cells[i].name.bytes())) {
			return false
		}
	}
	return true
}

// readOther tells records that are no change events from flattened rows.
func (d *Decoder[T]) readOther(event *Event[T], env *envelope) error {
	other := &NotChangeEventError{Topic: event.Record.Topic, Kind: KindUnknown}
	cells := &env.after
	if env.body.kind != kindObject || env.payload != kindNone && env.payload != kindObject {
		return other
	}
	s := scanner{data: env.body.raw, maxDepth: maxDepth}
	if err := cells.read(&s, env.cache(&d.shapes), new(rowCells)); err != nil {
		return &DecodeError{Reason: "message value: not JSON: " + err.Error()} // it was checked
	}
	if other.identify(cells.named()) {
		return other
	}
	isRow := d.flatten(event, env)
	switch {
	case isSignal(&env.after) || isSignal(&env.before):
		other.Kind = KindSignal
	case isRow:
		return nil
	}
	return other
}

// identify says which kind of record this is, if it is none with a row.
func (e *NotChangeEventError) identify(cells []cell) bool {
	status, id, ms := find(cells, "status"), find(cells, "id"), find(cells, "ts_ms")
	name := e.Topic[strings.LastIndexByte(e.Topic, '/')+1:]
	switch {
	case len(cells) == 0:
	case strings.HasPrefix(name, "__debezium-heartbeat"), len(cells) == 1 && ms.kind == kindNumber:
		e.Kind = KindHeartbeat
	case isBoundary(status) && id.kind == kindString && only(cells, "status", "id", "event_count", "data_collections", "ts_ms") &&
		(find(cells, "event_count").kind != kindNone || strings.HasSuffix(name, ".transaction")): // else the row of a table of a user's own
		e.Kind, e.Transaction = KindTransaction, readBoundary(cells)
	case find(cells, "tableChanges").kind == kindArray, find(cells, "ddl").kind != kindNone && find(cells, "source").kind == kindObject:
		e.Kind = KindSchema
	case isSignalType(find(cells, "type")) && find(cells, "data").kind == kindObject && only(cells, "id", "type", "data"):
		e.Kind = KindSignal
	case find(cells, "aggregate_type").kind == kindString && find(cells, "type").kind == kindString &&
		only(cells, "id", "aggregate_type", "type", "additional_data", "timestamp"):
		e.Kind = KindNotification
	}
	us, ns := find(cells, "ts_us"), find(cells, "ts_ns")
	e.Time = bestTime(&ms, &us, &ns)
	return e.Kind != KindUnknown || len(cells) == 0
}

func isBoundary(status value) bool {
	return status.kind == kindString && (string(status.bytes()) == "BEGIN" || string(status.bytes()) == "END")
}

func readBoundary(cells []cell) *TransactionBoundary {
	t := &TransactionBoundary{ID: find(cells, "id").text(), End: string(find(cells, "status").bytes()) == "END"}
	count := find(cells, "event_count")
	t.Events, _ = count.int64()
	if collections := find(cells, "data_collections"); collections.kind == kindArray {
		t.Collections = make(map[string]int64)
		_ = elements(collections, func(_ int, element value) error {
			if name := member(element, "data_collection"); name.kind == kindString {
				count := member(element, "event_count")
				t.Collections[name.text()], _ = count.int64()
			}
			return nil
		})
	}
	return t
}

// flatten takes the row's columns apart from what the transformation ExtractNewRecordState has added to them under names with two
// underscores (its settings add.fields and add.headers), and gives the envelope the members that it would have had. It is false where
// nothing says that the object is a row: no such addition, and no column that T knows.
func (d *Decoder[T]) flatten(event *Event[T], env *envelope) bool {
	env.flat, env.before, env.source = true, rowCells{cells: env.before.cells[:0]}, sourceFields{}
	env.op, env.transaction, env.message, env.ms, env.us, env.ns = value{}, value{}, value{}, value{}, value{}, value{}
	deleted, known := false, d.plan == nil && len(env.after.cells) > 0
	columns := env.after.cells[:0]
	for _, c := range env.after.cells {
		name := c.name.bytes()
		if len(name) > 2 && name[0] == '_' && name[1] == '_' && env.added(string(name[2:]), c.value, &deleted) {
			known = true
			continue
		}
		known = known || d.plan != nil && d.plan.find(string(name)) != nil
		columns = append(columns, c)
	}
	if len(columns) != len(env.after.cells) {
		env.after.cells, env.after.shape = columns, nil
	}
	for name, text := range event.Record.Properties {
		if rest, ok := strings.CutPrefix(name, "__"); ok && !strings.HasPrefix(rest, "debezium") {
			v := headerValue(text)
			known = env.added(rest, v, &deleted) || known
		}
	}
	env.flatOp(deleted)
	return known
}

// flatOp completes the operation of a flattened row: that of one which names none is a read, and a named read is of a snapshot.
func (e *envelope) flatOp(deleted bool) {
	switch op, ok := opOf(e.op); {
	case deleted || ok && op == OpDelete:
		e.before, e.after = e.after, e.before
		e.after.kind, e.op = kindNull, value{kind: kindString, plain: true, raw: []byte(`"d"`)}
	case !ok:
		e.op = value{kind: kindString, plain: true, raw: []byte(`"r"`)}
	case op == OpRead && e.source.values[sourceSnapshot].kind == kindNone:
		e.source.values[sourceSnapshot] = value{kind: kindTrue}
	}
}

// headerValue reads what a header's converter has made of a value: JSON, perhaps with its schema.
func headerValue(text string) value {
	s := scanner{data: []byte(text), maxDepth: maxDepth}
	v, err := s.value()
	if err != nil || s.end() != nil {
		return value{}
	}
	v, _ = unwrap(v)
	return v
}

// added files one addition: Debezium names it after the member of the envelope, or after source_ and the member of source, or after the
// member of source alone.
func (e *envelope) added(name string, v value, deleted *bool) bool {
	inSource, ok := strings.CutPrefix(name, "source_")
	switch {
	case ok:
	case name == "op":
		e.op = v
		return true
	case name == "deleted":
		*deleted = v.kind == kindTrue || v.kind == kindString && string(v.bytes()) == "true"
		return true
	case name == "ts_ms":
		e.ms = v
		return true
	case name == "ts_us":
		e.us = v
		return true
	case name == "ts_ns":
		e.ns = v
		return true
	case strings.HasPrefix(name, "transaction_"):
		return e.addedTransaction(name, v)
	}
	place, ok := sourceNames.places[inSource]
	if ok {
		e.source.kind, e.source.values[place] = kindObject, v
	}
	return ok
}

func (e *envelope) addedTransaction(name string, v value) bool {
	switch name {
	case "transaction_id":
		if e.transaction.kind == kindNone && v.kind == kindString {
			e.transaction = value{kind: kindObject, raw: []byte(`{"id":` + string(v.raw) + `}`)}
		}
	case "transaction_total_order", "transaction_data_collection_order":
	default:
		return false
	}
	return true
}

// opOf reads an operation's letter.
func opOf(v value) (Op, bool) {
	if v.kind == kindString && len(v.raw) == 3 {
		switch op := Op(v.raw[1]); op {
		case OpCreate, OpUpdate, OpDelete, OpRead, OpTruncate, OpMessage:
			return op, true
		}
	}
	return 0, false
}
