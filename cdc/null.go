package cdc

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Null is a column that may be NULL, for fields whose type T has no nil of its own. sql.Null and its kin do as well.
type Null[T any] struct {
	V     T
	Valid bool
}

// Get returns the value, and false for NULL.
func (n Null[T]) Get() (v T, ok bool) { return n.V, n.Valid }

// MarshalJSON writes the value, or null.
func (n Null[T]) MarshalJSON() ([]byte, error) {
	if !n.Valid {
		return []byte("null"), nil
	}
	return json.Marshal(n.V)
}

// UnmarshalJSON reads a value, or null.
func (n *Null[T]) UnmarshalJSON(text []byte) error {
	*n = Null[T]{}
	if string(bytes.TrimSpace(text)) == "null" {
		return nil
	}
	err := json.Unmarshal(text, &n.V)
	n.Valid = err == nil
	return err
}

// isNull recognizes Null[T], sql.Null[T], sql.NullString and their kin.
func isNull(t reflect.Type) bool {
	own := t.PkgPath() == reflect.TypeFor[Column]().PkgPath()
	return t.Kind() == reflect.Struct && (own || t.PkgPath() == "database/sql") && t.NumField() == 2 &&
		t.Field(1).Name == "Valid" && t.Field(1).Type.Kind() == reflect.Bool
}
