package cdc

import (
	"math/big"
	"strconv"
)

// noKey is what Debezium Server sends as the message key of rows without a key: its setting debezium.sink.pulsar.null.key.
const noKey = "default"

// parseKey reads the text of a message key: a JSON object of the key columns, or {"schema","payload"} around one. An empty text,
// "default" and null mean that there is no key.
// last is an earlier key, whose names are shared where they are equal.
func parseKey(text []byte, schemas *schemaCache, last Key) (Key, error) {
	if len(text) == 0 || string(text) == noKey {
		return nil, nil
	}
	s := scanner{data: text, maxDepth: maxDepth}
	if key, ok := usualKey(&s, schemas, last); ok {
		return key, nil
	}
	s = scanner{data: text, maxDepth: maxDepth}
	root, err := s.value()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, &DecodeError{Reason: "message key: " + err.Error()}
	}
	payload, schemaText := unwrap(root)
	var typ *wireType
	if schemaText.kind == kindObject && len(schemaText.raw) <= maxSchemaBytes {
		typ = schemas.get(schemaText).root
	}
	switch payload.kind {
	case kindNull:
		return nil, nil
	case kindObject:
	default:
		return nil, &DecodeError{Wire: payload.kind.String(), Go: "cdc.Key", Reason: "the message key is no JSON object of columns"}
	}
	return keyColumns(payload, typ, last)
}

// usualKey reads a key as Debezium writes it in one pass. Everything unusual, errors included, is left to parseKey.
func usualKey(s *scanner, schemas *schemaCache, last Key) (Key, bool) {
	var typ *wireType
	wrapped := s.expect(`{"schema":`)
	if wrapped {
		known := schemas.prefixOf(s.data[s.pos:])
		if known == nil {
			return nil, false
		}
		typ, s.pos = known.root, s.pos+len(known.text)
		if !s.expect(`,"payload":`) {
			return nil, false
		}
	}
	more, err := s.open('{', '}')
	key := make(Key, 0, max(1, len(last)))
	for more && err == nil && len(key) < maxKeyColumns {
		var c Column
		if c, err = s.keyColumn(typ, last, len(key)); err != nil {
			return nil, false
		}
		if _, again := key.Get(c.Name); again || !wrapped && (c.Name == "schema" || c.Name == "payload") {
			return nil, false
		}
		key = append(key, c)
		more, err = s.more('}')
	}
	ok := err == nil && !more && (!wrapped || s.expect("}"))
	return key, ok && s.end() == nil
}

// keyColumn reads the i-th member.
func (s *scanner) keyColumn(typ *wireType, last Key, i int) (Column, error) {
	name, err := s.name()
	if err != nil {
		return Column{}, err
	}
	v, err := s.value()
	if err != nil {
		return Column{}, err
	}
	at := ""
	if i < len(last) {
		at = last[i].Name
	}
	c := Column{Name: shared(at, &name)}
	var bad *mismatch
	if c.Value, bad = keyValue(v, typ.field(c.Name)); bad != nil {
		return c, bad
	}
	return c, nil
}

// unwrap takes the payload out of {"schema","payload"}.
func unwrap(root value) (payload, schema value) {
	if root.kind != kindObject {
		return root, value{}
	}
	count := 0
	_ = members(root, func(name, member value) error {
		count++
		switch string(name.bytes()) {
		case "payload":
			payload = member
		case "schema":
			schema = member
		}
		return nil
	})
	isSchema := schema.kind == kindNull || schema.kind == kindObject && member(schema, "type").kind == kindString
	if count == 2 && payload.kind != kindNone && isSchema {
		return payload, schema
	}
	return root, value{}
}

func keyColumns(object value, typ *wireType, last Key) (Key, error) {
	key := make(Key, 0, max(1, len(last)))
	err := members(object, func(name, member value) error {
		at := ""
		if len(key) < len(last) {
			at = last[len(key)].Name
		}
		column := shared(at, &name)
		v, bad := keyValue(member, typ.field(column))
		if bad != nil {
			return &DecodeError{Column: column, Wire: wireName(member, typ.field(column)), Go: "cdc.Key", Reason: bad.reason}
		}
		for i := range key {
			if key[i].Name == column {
				key[i].Value = v
				return nil
			}
		}
		if len(key) >= maxKeyColumns {
			return &DecodeError{Go: "cdc.Key", Reason: "the message key has more columns than a Postgres index can have"}
		}
		key = append(key, Column{column, v})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}

// maxKeyColumns is above INDEX_MAX_KEYS, which is 32 in Postgres.
const maxKeyColumns = 256

// keyValue returns a key column's value: see Column.
func keyValue(v value, w *wireType) (any, *mismatch) {
	switch v.kind {
	case kindNull:
		return nil, nil
	case kindTrue, kindFalse:
		return v.kind == kindTrue, nil
	case kindNumber:
		return keyNumber(v)
	case kindString:
		if w.of() != classDecimal {
			return v.text(), nil
		}
		d, bad := decimalOf(v.bytes(), w.scale)
		if bad != nil {
			return nil, bad
		}
		return d.String(), nil
	}
	if d, ok, bad := variableDecimal(v); ok {
		if bad != nil {
			return nil, bad
		}
		return d.String(), nil
	}
	return string(v.raw), nil
}

func keyNumber(v value) (any, *mismatch) {
	if v.integer {
		if n, ok := v.int64(); ok {
			return n, nil
		}
		if len(v.raw) > maxElementDigits {
			return nil, mismatchf("the number is out of bounds")
		}
		n, _ := new(big.Int).SetString(string(v.raw), 10)
		return n, nil
	}
	f, err := strconv.ParseFloat(string(v.raw), 64)
	if err != nil {
		return nil, mismatchf("the number is out of range")
	}
	return f, nil
}

func wireName(v value, w *wireType) string {
	if w != nil && w.name != "" {
		return w.name
	}
	return v.kind.String()
}
