package cdc

import (
	"bytes"
	"reflect"
	"time"
	"unsafe"
)

// image is one row of a message with its shape.
type image struct {
	*shape
	cells []cell
}

// absent is the value of a column that a row lacks.
var absent value

// value returns the value of a column, of kindNone where the row lacks it.
func (m *image) value(column string) *value {
	if m.shape == nil {
		return &absent
	}
	i, ok := m.byName[column]
	if !ok {
		return &absent
	}
	return &m.cells[i].value
}

// counterpart returns the value that m has for the i-th column of n.
func (m *image) counterpart(n *image, i int) *value {
	if m.shape == n.shape && !n.dead[i] {
		return &m.cells[i].value
	}
	return m.value(n.names[i])
}

// decodeRows fills Before, After, what is known about the columns, and the key where the message has none.
func (d *Decoder[T]) decodeRows(event *Event[T], env *envelope) error {
	before, after := d.image(env, &env.before), d.image(env, &env.after)
	subject, other := after, before // the row that the event is about, and the one to compare it with
	if event.Op == OpDelete {
		subject, other = before, image{}
		after = image{}
	}
	if err := d.readKey(event, env, subject); err != nil {
		return err
	}
	if len(event.Record.Properties) > 0 {
		if err := d.readLink(event); err != nil {
			return err
		}
	}
	if subject.shape != nil {
		d.compare(event, subject, other)
	}
	env.collect(after, image{})
	env.collect(before, after)
	texts := string(env.texts)
	switch {
	case after.shape != nil && before.shape != nil:
		both := new([2]T)
		event.After, event.Before = &both[0], &both[1]
	case after.shape != nil:
		event.After = new(T)
	case before.shape != nil:
		event.Before = new(T)
	}
	if event.After != nil {
		if err := d.row(event.After, after, other, &event.columns, texts, nil); err != nil {
			return err
		}
	}
	if event.Before != nil {
		return d.row(event.Before, before, after, nil, texts, event.After)
	}
	return nil
}

// maxSharedText is the longest text, in bytes, that shares its memory with the event's other texts: one that is kept keeps the others.
const maxSharedText = 256

// collect puts the short texts that fields take as they are into one buffer, so that all of them are one allocation. Those that the
// other row has as well are taken from there.
func (e *envelope) collect(m, twin image) {
	for i := range m.cells {
		f, c := m.fields[i], &m.cells[i]
		isText := m.dynamic && m.types[i].isText() || f != nil && f.isText && !m.types[i].rewritten()
		if !isText || !c.value.plain || len(c.value.raw) > maxSharedText || twin.shape != nil && sameBytes(&c.value, twin.counterpart(&m, i)) {
			continue
		}
		c.from = len(e.texts)
		e.texts = append(e.texts, c.value.bytes()...)
		c.to = len(e.texts)
	}
}

func (d *Decoder[T]) image(env *envelope, row *rowCells) image {
	if row.kind != kindObject {
		return image{}
	}
	shapes := env.cache(&d.shapes)
	if row.shape != nil && row.shape.cache == shapes {
		return image{row.shape, row.cells}
	}
	return image{shapes.of(d.plan, env.rowType(), row.named()), row.cells}
}

// compare records for each column of the subject whether it is unavailable and whether it changed.
func (d *Decoder[T]) compare(event *Event[T], subject, other image) {
	c := &event.columns
	c.shape, c.names, c.states = subject.shape, subject.names, make([]columnState, len(subject.names))
	for i := range subject.names {
		if i >= subject.wire || !subject.dead[i] && d.placeholder.is(&subject.cells[i].value) {
			c.states[i] = stateUnavailable
		}
		if d.plan != nil && i < subject.wire && subject.fields[i] == nil {
			c.states[i] |= stateUnread
		}
	}
	whole := other.shape != nil && d.isWhole(event, subject, other)
	switch event.Op {
	case OpCreate, OpRead:
		c.changedKnown = true
	case OpUpdate:
		c.changedKnown = whole
	}
	for i := range subject.wire {
		if subject.dead[i] {
			continue
		}
		if c.states[i]&stateUnavailable != 0 {
			if whole && !d.placeholder.is(other.counterpart(&subject, i)) {
				c.states[i] &^= stateUnavailable // After takes the value of Before
			}
			continue
		}
		if c.changedKnown && (event.Op != OpUpdate || !sameValue(&subject.cells[i].value, other.counterpart(&subject, i))) {
			c.states[i] |= stateChanged
		}
	}
}

// isWhole says whether the row before is all there, as with REPLICA IDENTITY FULL. With other identities Debezium sends null, the
// key's columns alone, or the key's columns with null in all others. So a row before is whole if it has every column of the row after,
// a value in every key column, a value in every column that is unavailable after (only long values are left out of the log, never
// null), and a value in some column outside the key.
func (d *Decoder[T]) isWhole(event *Event[T], after, before image) bool {
	outside, values := 0, 0
	for i, name := range after.names[:after.wire] {
		v := before.counterpart(&after, i)
		if v.kind == kindNone {
			return false
		}
		if v.kind != kindNull && values > 0 {
			continue
		}
		_, isKey := event.Key.Get(name)
		switch {
		case v.kind == kindNull && (isKey || event.columns.states[i]&stateUnavailable != 0):
			return false
		case isKey:
			continue
		}
		outside++
		if v.kind != kindNull {
			values++
		}
	}
	return outside == 0 || values > 0
}

// sameValue compares two values of one column as they are on the wire. One connector writes one value in one way; the rest is caution.
func sameValue(a, b *value) bool {
	switch {
	case bytes.Equal(a.raw, b.raw):
		return true
	case a.kind != b.kind:
		return false
	case a.kind == kindString:
		return (!a.plain || !b.plain) && bytes.Equal(a.bytes(), b.bytes())
	case a.integer && b.integer:
		return false // but -0 and 0, which nobody writes
	case a.kind == kindNumber:
		x, okX := parseDecimal(a.raw)
		y, okY := parseDecimal(b.raw)
		return okX && okY && x.equal(y)
	}
	return false
}

// row decodes one row. Columns that are unavailable are left out; where the other row has a value for them, that is taken. columns is
// nil for the row before, whose unavailable columns are nowhere recorded; twin is the decoded other row then.
func (d *Decoder[T]) row(row *T, m, other image, columns *columns, texts string, twin *T) error {
	if d.plan == nil {
		dynamic, err := d.dynamicRow(m, other, columns, texts, any(twin).(*Row))
		*any(row).(*Row) = dynamic
		return err
	}
	if m.misfit != nil {
		return m.misfit
	}
	dst := reflect.ValueOf(row).Elem()
	for i := range m.cells {
		f := m.fields[i]
		if f == nil || m.dead[i] {
			continue
		}
		c := &m.cells[i]
		if twin != nil && f.plain != reflect.Invalid && sameBytes(&c.value, other.counterpart(&m, i)) {
			f.copyPlain(unsafe.Pointer(row), unsafe.Pointer(twin))
			continue
		}
		if f.setPlain(unsafe.Pointer(row), &c.value) || c.value.kind == kindNull { // the zero value is there
			continue
		}
		v := c.value
		if d.placeholder.is(&v) {
			if columns == nil || columns.states[i]&stateUnavailable != 0 {
				continue
			}
			v = *other.counterpart(&m, i)
		} else if c.to > c.from {
			*(*string)(unsafe.Add(unsafe.Pointer(row), f.offset)) = texts[c.from:c.to]
			continue
		}
		if bad := f.assign(f.at(dst), v, m.types[i]); bad != nil {
			return bad.at(m.names[i], v, m.types[i], f.goType.String())
		}
	}
	return nil
}

func (d *Decoder[T]) dynamicRow(m, other image, columns *columns, texts string, twin *Row) (Row, error) {
	row := make(Row, 0, len(m.cells))
	for i := range m.cells {
		if m.dead[i] {
			continue
		}
		v := m.cells[i].value
		// What did not change need not be boxed again.
		if at := len(row); twin != nil && at < len(*twin) && (*twin)[at].Name == m.names[i] && sameBytes(&v, other.counterpart(&m, i)) && isImmutable((*twin)[at].Value) {
			row = append(row, (*twin)[at])
			continue
		}
		if d.placeholder.is(&v) {
			if columns == nil || columns.states[i]&stateUnavailable != 0 {
				continue
			}
			v = *other.counterpart(&m, i)
		} else if c := &m.cells[i]; c.to > c.from {
			row = append(row, Column{m.names[i], texts[c.from:c.to]})
			continue
		}
		dynamic, bad := dynamicColumn(v, m.types[i])
		if bad != nil {
			return nil, bad.at(m.names[i], v, m.types[i], "cdc.Row")
		}
		row = append(row, Column{m.names[i], dynamic})
	}
	return row, nil
}

// sameBytes says whether two values are the very same bytes of the message, as repeated ones are.
func sameBytes(a, b *value) bool {
	return len(a.raw) > 0 && len(a.raw) == len(b.raw) && &a.raw[0] == &b.raw[0]
}

// isImmutable says whether two rows may share a value.
func isImmutable(v any) bool {
	switch v.(type) {
	case bool, int64, float64, string, time.Time, time.Duration:
		return true
	}
	return false
}

// at says where a value did not fit.
func (m *mismatch) at(column string, v value, w *wireType, goType string) *DecodeError {
	return &DecodeError{Column: column, Wire: wireName(v, w), Go: goType, Reason: m.reason, Err: m.err}
}

// readKey takes the key from the message's key, or, where that is empty or a text that Debezium does not write, from the fields of the
// row that are tagged as key.
func (d *Decoder[T]) readKey(event *Event[T], env *envelope, subject image) error {
	key, err := d.parseKey(event.Record.Key, env)
	if err != nil && isObject(env.key) {
		return err
	}
	if len(key) == 0 {
		var bad error
		if key, bad = d.keyFromRow(subject); bad != nil {
			return bad
		}
	}
	switch event.Key = key; {
	case len(key) > 0:
		return nil
	case err != nil:
		return err
	case event.Op == OpDelete && subject.shape == nil:
		return &DecodeError{Reason: "a delete with neither a key nor the row before"}
	}
	return nil
}

func isObject(text []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) }

func (d *Decoder[T]) keyFromRow(m image) (Key, error) {
	if d.plan == nil || m.shape == nil {
		return nil, nil
	}
	var key Key
	for i := range m.cells {
		if f := m.fields[i]; f == nil || !f.key || m.dead[i] {
			continue
		}
		v, bad := keyValue(m.cells[i].value, m.types[i])
		if bad != nil {
			return nil, bad.at(m.names[i], m.cells[i].value, m.types[i], "cdc.Key")
		}
		key = append(key, Column{m.names[i], v})
	}
	return key, nil
}
