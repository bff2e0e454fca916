package pulsarx

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Number are the Go types of Pulsar's primitive schemas.
type Number interface {
	bool | int8 | int16 | int32 | int64 | float32 | float64
}

// NumberCodec is one of Pulsar's primitive schemas of fixed width, big-endian as Java writes them; see Int8 and its neighbours.
type NumberCodec[T Number] struct{}

// Bool is the codec of Pulsar's BOOLEAN, a byte of 0 or 1.
func Bool() NumberCodec[bool] { return NumberCodec[bool]{} }

// Int8 is the codec of Pulsar's INT8.
func Int8() NumberCodec[int8] { return NumberCodec[int8]{} }

// Int16 is the codec of Pulsar's INT16.
func Int16() NumberCodec[int16] { return NumberCodec[int16]{} }

// Int32 is the codec of Pulsar's INT32.
func Int32() NumberCodec[int32] { return NumberCodec[int32]{} }

// Int64 is the codec of Pulsar's INT64.
func Int64() NumberCodec[int64] { return NumberCodec[int64]{} }

// Float is the codec of Pulsar's FLOAT.
func Float() NumberCodec[float32] { return NumberCodec[float32]{} }

// Double is the codec of Pulsar's DOUBLE.
func Double() NumberCodec[float64] { return NumberCodec[float64]{} }

// numberTypes are the schemas, and how many bytes each has.
var numberTypes = map[string]int{"BOOLEAN": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}

func (NumberCodec[T]) name() string {
	var v T
	switch any(v).(type) {
	case bool:
		return "BOOLEAN"
	case int8:
		return "INT8"
	case int16:
		return "INT16"
	case int32:
		return "INT32"
	case int64:
		return "INT64"
	case float32:
		return "FLOAT"
	}
	return "DOUBLE"
}

// Schema returns Pulsar's name of the type.
func (c NumberCodec[T]) Schema() (Schema, error) { return Schema{Type: c.name()}, nil }

// Encode appends v.
func (NumberCodec[T]) Encode(dst []byte, v T) ([]byte, error) {
	switch v := any(v).(type) {
	case bool:
		if v {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case int8:
		return append(dst, byte(v)), nil
	case int16:
		return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
	case int32:
		return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
	case int64:
		return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
	case float32:
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
	}
	return dst, nil
}

// Decode reads the number. A payload of another length, or that was written with another schema, is an error.
func (c NumberCodec[T]) Decode(r Raw) (v T, err error) {
	name := c.name()
	if r.SchemaType != "" && r.SchemaType != name {
		return v, fmt.Errorf("pulsarx: the message was written with a schema of type %s, not %s", r.SchemaType, name)
	}
	decoded, err := decodeNumber(name, r.Value)
	if err != nil {
		return v, err
	}
	return decoded.(T), nil
}

// decodeNumber reads a value of one of numberTypes as its Go type.
func decodeNumber(name string, b []byte) (any, error) {
	if len(b) != numberTypes[name] {
		return nil, fmt.Errorf("pulsarx: %d bytes are no %s", len(b), name)
	}
	switch name {
	case "BOOLEAN":
		if b[0] > 1 {
			return nil, fmt.Errorf("pulsarx: boolean %d", b[0])
		}
		return b[0] == 1, nil
	case "INT8":
		return int8(b[0]), nil
	case "INT16":
		return int16(binary.BigEndian.Uint16(b)), nil
	case "INT32":
		return int32(binary.BigEndian.Uint32(b)), nil
	case "INT64":
		return int64(binary.BigEndian.Uint64(b)), nil
	case "FLOAT":
		return math.Float32frombits(binary.BigEndian.Uint32(b)), nil
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
}
