package cdc

import (
	"strconv"
	"strings"
	"time"
)

// cell is one column of a row: its quoted name and its value.
type cell struct {
	name, value value
	// from and to are the place of a short text in the event's texts.
	from, to int
}

// rowCells is before or after. Its kind is kindNone where the member is absent.
type rowCells struct {
	kind  kind
	cells []cell
}

// sourceFields are the members of source that count.
type sourceFields struct {
	kind                                              kind
	connector, db, schema, table, lsn, txID, snapshot value
	ms, us, ns                                        value
}

// envelope is a message's members, found in one pass and not yet converted. It is reused.
type envelope struct {
	before, after                 rowCells
	source                        sourceFields
	op, transaction, message      value
	ms, us, ns                    value
	schema                        *schema
	schemaText                    value
	payload                       kind
	texts, key                    []byte // scratch
	foreign                       int    // members that are none of an envelope's
	status, ddl, metadata, isNull bool   // signs of other kinds of records
}

func (e *envelope) reset() {
	*e = envelope{
		before: rowCells{cells: e.before.cells[:0]}, after: rowCells{cells: e.after.cells[:0]}, texts: e.texts[:0], key: e.key[:0],
	}
}

// rowType returns the rows' type, nil without a schema.
func (e *envelope) rowType() *wireType {
	if e.schema == nil {
		return nil
	}
	return e.schema.row()
}

// isEnvelope says whether the members are those of a change event.
func (e *envelope) isEnvelope() bool {
	return e.op.kind == kindString &&
		(e.before.kind != kindNone || e.after.kind != kindNone || e.source.kind != kindNone || e.message.kind != kindNone)
}

// otherKind names what is no change event.
func (e *envelope) otherKind(topic string) string {
	name := topic[strings.LastIndexByte(topic, '/')+1:]
	switch {
	case strings.HasPrefix(name, "__debezium-heartbeat"), e.foreign == 0 && e.ms.kind == kindNumber && e.op.kind == kindNone && e.source.kind == kindNone:
		return KindHeartbeat
	case e.status:
		return KindTransaction
	case e.ddl:
		return KindSchema
	case e.metadata:
		return KindFlattened
	}
	return KindUnknown
}

// read reads a message's JSON.
func (e *envelope) read(s *scanner, schemas *schemaCache) error {
	if s.peek() != '{' {
		v, err := s.value()
		if err != nil {
			return err
		}
		e.isNull = v.kind == kindNull
		return s.end()
	}
	if err := e.readMembers(s, schemas, true); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if e.payload == kindNone {
		e.schema, e.schemaText = nil, value{}
	}
	if e.payload == kindNull && e.foreign == 0 && !e.isEnvelope() {
		e.isNull = true
	}
	if e.schemaText.kind == kindObject {
		if len(e.schemaText.raw) > maxSchemaBytes {
			return &syntaxError{s.pos, "schema larger than 4 MiB, in the value that ends"}
		}
		e.schema = schemas.get(e.schemaText)
	}
	return nil
}

// readMembers reads an object's members: the envelope's, or those of {"schema","payload"} around it.
func (e *envelope) readMembers(s *scanner, schemas *schemaCache, outer bool) error {
	more, err := s.open('{', '}')
	for more && err == nil {
		var name value
		if name, err = s.name(); err != nil {
			return err
		}
		if err = e.readMember(s, name, schemas, outer); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	return err
}

func (e *envelope) readMember(s *scanner, name value, schemas *schemaCache, outer bool) (err error) {
	switch string(name.bytes()) {
	case "before":
		return e.before.read(s)
	case "after":
		return e.after.read(s)
	case "source":
		return e.source.read(s)
	case "op":
		e.op, err = s.value()
	case "transaction":
		e.transaction, err = s.value()
	case "message":
		e.message, err = s.value()
	case "ts_ms":
		e.ms, err = s.value()
	case "ts_us":
		e.us, err = s.value()
	case "ts_ns":
		e.ns, err = s.value()
	case "schema":
		if !outer {
			return e.readForeign(s, name)
		}
		s.peek()
		if known := schemas.prefixOf(s.data[s.pos:]); known != nil {
			e.schema, e.schemaText = known, value{}
			s.pos += len(known.text)
			return nil
		}
		e.schema = nil
		e.schemaText, err = s.value()
	case "payload":
		if !outer {
			return e.readForeign(s, name)
		}
		known, text := e.schema, e.schemaText
		e.reset() // a payload replaces what came before it
		e.schema, e.schemaText = known, text
		if e.payload = kind(s.peek()); e.payload == kindObject {
			return e.readMembers(s, schemas, false)
		}
		_, err = s.value()
	default:
		return e.readForeign(s, name)
	}
	return err
}

// readForeign skips a member that is none of ours and remembers what it is a sign of.
func (e *envelope) readForeign(s *scanner, name value) error {
	e.foreign++
	switch text := name.bytes(); string(text) {
	case "status":
		e.status = true
	case "ddl", "tableChanges":
		e.ddl = true
	default:
		e.metadata = e.metadata || len(text) > 2 && text[0] == '_' && text[1] == '_'
	}
	_, err := s.value()
	return err
}

func (r *rowCells) read(s *scanner) error {
	r.cells = r.cells[:0]
	if r.kind = kind(s.peek()); r.kind != kindObject {
		_, err := s.value()
		return err
	}
	more, err := s.open('{', '}')
	for more && err == nil {
		var c cell
		if c.name, err = s.name(); err != nil {
			return err
		}
		if c.value, err = s.value(); err != nil {
			return err
		}
		r.cells = append(r.cells, c)
		more, err = s.more('}')
	}
	return err
}

func (f *sourceFields) read(s *scanner) error {
	*f = sourceFields{}
	if f.kind = kind(s.peek()); f.kind != kindObject {
		_, err := s.value()
		return err
	}
	more, err := s.open('{', '}')
	for more && err == nil {
		var name, v value
		if name, err = s.name(); err != nil {
			return err
		}
		if v, err = s.value(); err != nil {
			return err
		}
		switch string(name.bytes()) {
		case "connector":
			f.connector = v
		case "db":
			f.db = v
		case "schema":
			f.schema = v
		case "table":
			f.table = v
		case "lsn":
			f.lsn = v
		case "txId":
			f.txID = v
		case "snapshot":
			f.snapshot = v
		case "ts_ms":
			f.ms = v
		case "ts_us":
			f.us = v
		case "ts_ns":
			f.ns = v
		}
		more, err = s.more('}')
	}
	return err
}

// isSnapshot reads the enumeration true, first, first_in_data_collection, last_in_data_collection, last, false, incremental; older
// versions write booleans, and null means streaming.
func (f *sourceFields) isSnapshot() bool {
	return f.snapshot.kind == kindTrue || f.snapshot.kind == kindString && string(f.snapshot.raw) != `"false"` && string(f.snapshot.raw) != `""`
}

// bestTime takes the finest of the three clocks that is there.
func bestTime(ms, us, ns value) time.Time {
	for _, clock := range [...]struct {
		v value
		u unit
	}{{ns, unitNanos}, {us, unitMicros}, {ms, unitMillis}} {
		if n, err := strconv.ParseInt(string(clock.v.raw), 10, 64); clock.v.integer && err == nil && n != 0 {
			return timeOf(n, clock.u)
		}
	}
	return time.Time{}
}

// wholeNumber reads an unsigned integer; everything else is 0.
func wholeNumber(v value) uint64 {
	n, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
