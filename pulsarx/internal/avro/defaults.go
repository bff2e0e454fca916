package avro

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// maxDefault bounds a default in binary form: a record's takes in those of its fields, which could double at each level.
const maxDefault = 1 << 20

var errLargeDefault = fmt.Errorf("more than %d bytes", maxDefault)

// appendDefault appends a default, which is JSON, in the binary form of its schema, so that it is read as everything else is.
func appendDefault(dst []byte, s *Schema, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if len(dst) > maxDefault {
		return nil, errLargeDefault
	}
	mismatch := fmt.Errorf("%s is not of type %s", excerpt(v), s.TypeName())
	switch s.Kind {
	case Null:
		if v != nil {
			return nil, mismatch
		}
		return dst, nil
	case Boolean:
		if v, ok := v.(bool); ok {
			return append(dst, boolByte(v)), nil
		}
	case Int, Long, Float, Double:
		if v, ok := v.(json.Number); ok {
			return appendNumber(dst, s.Kind, v)
		}
	case Bytes, String, Fixed:
		if v, ok := v.(string); ok {
			return appendTextDefault(dst, s, v)
		}
	case Enum:
		if v, ok := v.(string); ok && slices.Contains(s.Symbols, v) {
			return binary.AppendVarint(dst, int64(slices.Index(s.Symbols, v))), nil
		}
	case Union: // the specification wanted the first branch once, and any that fits today
		for i, branch := range s.Branches {
			if out, err := appendDefault(binary.AppendVarint(dst, int64(i)), branch, v, depth+1); err == nil {
				return out, nil
			}
		}
	case Array, Map, Record:
		return appendNested(dst, s, v, depth, mismatch)
	}
	return nil, mismatch
}

func appendNumber(dst []byte, k Kind, v json.Number) ([]byte, error) {
	if k == Float || k == Double {
		f, err := v.Float64()
		if err != nil {
			return nil, err
		}
		if k == Float {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
	}
	bits := 64
	if k == Int {
		bits = 32
	}
	n, err := strconv.ParseInt(v.String(), 10, bits)
	if err != nil {
		return nil, fmt.Errorf("%s is no whole number of type %v", v, k)
	}
	return binary.AppendVarint(dst, n), nil
}

// appendTextDefault: in the default of bytes and fixed, a character is a byte.
func appendTextDefault(dst []byte, s *Schema, v string) ([]byte, error) {
	data := []byte(v)
	if s.Kind != String {
		data = data[:0]
		for _, r := range v {
			if r > 0xff {
				return nil, errors.New("a character beyond a byte")
			}
			data = append(data, byte(r))
		}
	}
	if s.Kind == Fixed {
		if len(data) != s.Size {
			return nil, fmt.Errorf("%d bytes in place of %d", len(data), s.Size)
		}
		return append(dst, data...), nil
	}
	return append(binary.AppendVarint(dst, int64(len(data))), data...), nil
}

func appendNested(dst []byte, s *Schema, v any, depth int, mismatch error) (_ []byte, err error) {
	items, isArray := v.([]any)
	fields, isObject := v.(map[string]any)
	switch {
	case s.Kind == Array && isArray:
		if len(items) > 0 {
			dst = binary.AppendVarint(dst, int64(len(items)))
		}
		for _, item := range items {
			if dst, err = appendDefault(dst, s.Elem, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, 0), nil
	case s.Kind == Map && isObject:
		if len(fields) > 0 {
			dst = binary.AppendVarint(dst, int64(len(fields)))
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			dst = append(binary.AppendVarint(dst, int64(len(key))), key...)
			if dst, err = appendDefault(dst, s.Elem, fields[key], depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, 0), nil
	case s.Kind == Record && isObject:
		return appendRecordDefault(dst, s, fields, depth)
	}
	return nil, mismatch
}

// appendRecordDefault takes a missing field's own default, which must be set already: a record is defined before it is used.
func appendRecordDefault(dst []byte, s *Schema, fields map[string]any, depth int) (_ []byte, err error) {
	for _, f := range s.Fields {
		value, ok := fields[f.Name]
		switch {
		case ok:
			if dst, err = appendDefault(dst, f.Type, value, depth+1); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		case f.Has && len(dst)+len(f.Default) > maxDefault:
			return nil, errLargeDefault
		case f.Has:
			dst = append(dst, f.Default...)
		default:
			return nil, fmt.Errorf("%s is missing", f.Name)
		}
	}
	return dst, nil
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}
