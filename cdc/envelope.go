package cdc

import (
	"bytes"
	"strconv"
	"time"
)

// names is a list of members in the order in which Debezium writes them. A name is compared with the one that is expected next before
// it is scanned and looked up.
type names struct {
	texts  []string
	quoted []string
	places map[string]int
}

func newNames(texts ...string) *names {
	n := &names{texts: texts, places: make(map[string]int, len(texts))}
	for i, text := range texts {
		n.quoted = append(n.quoted, `"`+text+`":`)
		n.places[text] = i
	}
	return n
}

// next reads a member's name and returns its place in the list, -1 for other names.
func (n *names) next(s *scanner, guess int) (place int, err error) {
	s.peek()
	// Members that an older connector or a setting leaves out are skipped.
	for i := guess; i < min(guess+2, len(n.quoted)); i++ {
		if s.expect(n.quoted[i]) {
			return i, nil
		}
	}
	name, err := s.name()
	if err != nil {
		return -1, err
	}
	if place, ok := n.places[string(name.bytes())]; ok {
		return place, nil
	}
	return -1, nil
}

// The members of an envelope, and those around it.
const (
	memberSchema = iota
	memberPayload
	memberBefore
	memberAfter
	memberSource
	memberTransaction
	memberOp
	memberMillis
	memberMicros
	memberNanos
	memberMessage
)

var envelopeNames = newNames("schema", "payload", "before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns", "message")

// The members of source that count; the others come after them in the list of places, not of names.
const (
	sourceVersion = iota
	sourceConnector
	sourceName
	sourceMillis
	sourceSnapshot
	sourceDatabase
	sourceSequence
	sourceMicros
	sourceNanos
	sourceSchema
	sourceTable
	sourceTxID
	sourceLSN
	sourceXmin
	sourceOrigin
	sourceOriginLSN
	sourceCount
)

var sourceNames = newNames("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema", "table",
	"txId", "lsn", "xmin", "origin", "origin_lsn")

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
	// shape is set if the columns are exactly those of a known shape; then the cells have no names: see named.
	shape *shape
}

// sourceFields are the members of source.
type sourceFields struct {
	kind   kind
	values [sourceCount]value
}

// envelope is a message's members, found in one pass and not yet converted.
type envelope struct {
	before, after            rowCells
	source                   sourceFields
	op, transaction, message value
	ms, us, ns               value
	schema                   *schema
	schemaText               value
	payload                  kind
	body                     value  // the object with the members, the payload where there is one
	texts, key               []byte // scratch
	inlineKey                []byte // of a KeyValue message
	memo                     *sourceMemo
	foreign                  int // members that are none of an envelope's
	isNull                   bool
	flat                     bool // the body is the row
}

// buffers are what an envelope needs of the heap, to be used again.
type buffers struct {
	before, after []cell
	texts, key    []byte
}

func (e *envelope) take(b *buffers) {
	e.before.cells, e.after.cells, e.texts, e.key = b.before[:0], b.after[:0], b.texts[:0], b.key[:0]
}

// give returns the buffers. It is false if they are too large to be kept.
func (e *envelope) give(b *buffers) bool {
	*b = buffers{e.before.cells, e.after.cells, e.texts, e.key}
	return cap(b.before)+cap(b.after)+cap(b.texts)+cap(b.key) < 1<<16
}

// reset forgets the members but not where they are found.
func (e *envelope) reset() {
	*e = envelope{
		before: rowCells{cells: e.before.cells[:0]}, after: rowCells{cells: e.after.cells[:0]}, texts: e.texts[:0], key: e.key[:0],
		inlineKey: e.inlineKey, memo: e.memo,
	}
}

// rowType returns the rows' type, nil without a schema.
func (e *envelope) rowType() *wireType {
	switch {
	case e.schema == nil:
		return nil
	case e.flat:
		return e.schema.root
	}
	return e.schema.row()
}

// isEnvelope says whether the members are those of a change event. Columns of a flattened row may have the same names, but seldom hold
// objects.
func (e *envelope) isEnvelope() bool {
	if e.op.kind != kindString {
		return false
	}
	for _, k := range [...]kind{e.before.kind, e.after.kind, e.source.kind, e.message.kind} {
		if k == kindObject {
			return true
		}
	}
	return e.foreign == 0 && (e.before.kind != kindNone || e.after.kind != kindNone || e.source.kind != kindNone || e.message.kind != kindNone)
}

// cache returns the shapes that the message's rows have most likely.
func (e *envelope) cache(shapes *shapeCache) *shapeCache {
	if e.schema != nil {
		return &e.schema.shapes
	}
	return shapes
}

// read reads a message's JSON. shapes are those of rows without a schema.
func (e *envelope) read(s *scanner, schemas *schemaCache, shapes *shapeCache) error {
	if s.peek() != '{' {
		v, err := s.value()
		if err != nil {
			return err
		}
		e.isNull = v.kind == kindNull
		return s.end()
	}
	if err := e.readMembers(s, schemas, shapes, true); err != nil {
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
func (e *envelope) readMembers(s *scanner, schemas *schemaCache, shapes *shapeCache, outer bool) error {
	start := s.pos
	more, err := s.open('{', '}')
	place := -1
	if !outer {
		place = memberPayload
	}
	for more && err == nil {
		if place, err = envelopeNames.next(s, place+1); err != nil {
			return err
		}
		if err = e.readMember(s, place, schemas, shapes, outer); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	if e.payload != kindObject || !outer {
		e.body = value{kind: kindObject, raw: s.data[start:s.pos]}
	}
	return err
}

func (e *envelope) readMember(s *scanner, place int, schemas *schemaCache, shapes *shapeCache, outer bool) (err error) {
	switch place {
	case memberBefore:
		return e.before.read(s, e.cache(shapes), &e.after)
	case memberAfter:
		return e.after.read(s, e.cache(shapes), &e.before)
	case memberSource:
		return e.source.read(s, e.memo)
	case memberOp:
		e.op, err = s.value()
	case memberTransaction:
		e.transaction, err = s.value()
	case memberMessage:
		e.message, err = s.value()
	case memberMillis:
		e.ms, err = s.value()
	case memberMicros:
		e.us, err = s.value()
	case memberNanos:
		e.ns, err = s.value()
	default:
		if outer && place == memberSchema {
			return e.readSchema(s, schemas)
		}
		if outer && place == memberPayload {
			return e.readPayload(s, schemas, shapes)
		}
		e.foreign++
		_, err = s.value()
	}
	return err
}

func (e *envelope) readSchema(s *scanner, schemas *schemaCache) (err error) {
	s.peek()
	if known := schemas.prefixOf(s.data[s.pos:]); known != nil {
		e.schema, e.schemaText = known, value{}
		s.pos += len(known.text)
		return nil
	}
	e.schema = nil
	e.schemaText, err = s.value()
	return err
}

// readPayload replaces what came before it.
func (e *envelope) readPayload(s *scanner, schemas *schemaCache, shapes *shapeCache) error {
	known, text := e.schema, e.schemaText
	e.reset()
	e.schema, e.schemaText = known, text
	if e.payload = kind(s.peek()); e.payload == kindObject {
		return e.readMembers(s, schemas, shapes, false)
	}
	_, err := s.value()
	return err
}

// read reads a row. Rows of one table have one shape, so that each name is compared with that of the last row before it is scanned; and
// each value with that of the event's other row, where that was read before.
func (r *rowCells) read(s *scanner, shapes *shapeCache, other *rowCells) error {
	r.cells, r.shape = r.cells[:0], nil
	if r.kind = kind(s.peek()); r.kind != kindObject {
		_, err := s.value()
		return err
	}
	guess := shapes.last.Load()
	more, err := s.open('{', '}')
	for more && err == nil {
		i := len(r.cells)
		c := r.next()
		s.peek()
		if guess == nil || i >= guess.wire || !s.expect(guess.quoted[i]) {
			r.fillNames(guess, i)
			guess = nil
			if c.name, err = s.name(); err != nil {
				return err
			}
		}
		if guess != nil && i < len(other.cells) && s.repeat(&other.cells[i].value) {
			c.value = other.cells[i].value
		} else if c.value, err = s.value(); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	if guess != nil && len(r.cells) == guess.wire {
		r.shape = guess
	} else {
		r.fillNames(guess, len(r.cells))
	}
	return err
}

// next adds a cell without a name and with some value.
func (r *rowCells) next() *cell {
	if n := len(r.cells); n < cap(r.cells) {
		r.cells = r.cells[:n+1]
	} else {
		r.cells = append(r.cells, cell{})
	}
	c := &r.cells[len(r.cells)-1]
	c.from, c.to = 0, 0
	return c
}

// fillNames gives the first n cells the names of a shape, which they do not have while they are expected to be all of it.
func (r *rowCells) fillNames(s *shape, n int) {
	for i := range n {
		if s == nil {
			return
		}
		r.cells[i].name = s.plain[i]
	}
}

// named returns the cells with their names.
func (r *rowCells) named() []cell {
	if r.shape != nil {
		r.fillNames(r.shape, len(r.cells))
	}
	return r.cells
}

// sourceMemo has the members of a source that all events of a stream have in common, as they were written last, up to the end of the
// value. The others are empty.
type sourceMemo struct {
	texts  [sourceCount]string
	values [sourceCount]value
}

// constants are the members that a memo has.
var constants = [...]int{sourceVersion, sourceConnector, sourceName, sourceSnapshot, sourceDatabase, sourceSchema, sourceTable}

// remember makes a memo of plain texts that are not too long.
func (f *sourceFields) remember() *sourceMemo {
	m := new(sourceMemo)
	for _, place := range constants {
		if v := f.values[place]; v.plain && len(v.raw) < 128 {
			v.raw = bytes.Clone(v.raw)
			m.values[place], m.texts[place] = v, sourceNames.quoted[place]+string(v.raw)
		}
	}
	return m
}

// read reads a source.
func (f *sourceFields) read(s *scanner, memo *sourceMemo) error {
	if f.kind != kindNone {
		*f = sourceFields{}
	}
	if f.kind = kind(s.peek()); f.kind != kindObject {
		_, err := s.value()
		return err
	}
	more, err := s.open('{', '}')
	for place := -1; more && err == nil; more, err = s.more('}') {
		if next := place + 1; next < sourceCount && s.expect(memo.texts[next]) {
			place, f.values[next] = next, memo.values[next]
			continue
		}
		if place, err = sourceNames.next(s, place+1); err != nil {
			return err
		}
		var v value
		if v, err = s.value(); err != nil {
			return err
		}
		if place >= 0 {
			f.values[place] = v
		}
	}
	return err
}

// isSnapshot reads the enumeration true, first, first_in_data_collection, last_in_data_collection, last, false, incremental; older
// versions write booleans, and null means streaming.
func isSnapshot(v value) bool {
	return v.kind == kindTrue || v.kind == kindString && string(v.raw) != `"false"` && string(v.raw) != `""`
}

// bestTime takes the finest of the three clocks that is there.
func bestTime(ms, us, ns *value) time.Time {
	if n, ok := ns.int64(); ok && n != 0 {
		return timeOf(n, unitNanos)
	}
	if n, ok := us.int64(); ok && n != 0 {
		return timeOf(n, unitMicros)
	}
	if n, ok := ms.int64(); ok && n != 0 {
		return timeOf(n, unitMillis)
	}
	return time.Time{}
}

// wholeNumber reads an unsigned integer; everything else is 0.
func wholeNumber(v *value) uint64 {
	if n, ok := v.int64(); ok {
		return uint64(max(n, 0))
	}
	n, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
