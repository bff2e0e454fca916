package pulsarx

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hamba/avro/v2"
)

// The limits on a payload that its own length does not set: nesting, and the array items that take no bytes (nulls).
const (
	maxAvroDepth      = 10_000
	maxAvroEmptyItems = 1 << 16
)

var (
	errAvroShort = errors.New("the payload ends early")
	mapKey       = avro.NewPrimitiveSchema(avro.String, nil)
)

// checkAvro walks data by the schema that wrote it, before anything is allocated for it: the Avro library takes lengths and counts
// on trust, reads past the end as zeros, and ignores what is left over. It returns the data as the leveled schema has it.
func checkAvro(s, leveled avro.Schema, data []byte) ([]byte, error) {
	w := avroWalk{data: data, items: len(data) + maxAvroEmptyItems, rewrite: s != leveled}
	if w.rewrite {
		w.out = make([]byte, 0, len(data)+len(data)/8+16)
	}
	if err := w.value(s, leveled, 0); err != nil {
		return nil, err
	}
	if len(w.data) > 0 {
		return nil, fmt.Errorf("%d bytes after the value", len(w.data))
	}
	if w.rewrite {
		return w.out, nil
	}
	return data, nil
}

type avroWalk struct {
	data    []byte
	items   int // that may still come
	rewrite bool
	out     []byte // data so far, rewritten
}

// put writes a zigzag number.
func (w *avroWalk) put(n int64) {
	if w.rewrite {
		w.out = binary.AppendVarint(w.out, n)
	}
}

func (w *avroWalk) skip(n int64) error {
	if n < 0 || n > int64(len(w.data)) {
		return errAvroShort
	}
	w.data = w.data[n:]
	return nil
}

// varint reads a zigzag number of at most the given bits.
func (w *avroWalk) varint(bits int) (int64, error) {
	var v uint64
	for i, b := range w.data {
		shift := 7 * i
		if shift >= bits || shift+7 > bits && b>>(bits-shift) != 0 {
			return 0, errors.New("a number is too long")
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			w.data = w.data[i+1:]
			return int64(v>>1) ^ -int64(v&1), nil
		}
	}
	return 0, errAvroShort
}

// value walks a value of the schema s, and writes it as one of to.
func (w *avroWalk) value(s, to avro.Schema, depth int) error {
	if depth > maxAvroDepth {
		return fmt.Errorf("nested more than %d deep", maxAvroDepth)
	}
	s, to = target(s), target(to)
	if union, ok := s.(*avro.UnionSchema); ok {
		return w.union(union, to, depth)
	}
	if union, ok := to.(*avro.UnionSchema); ok {
		_, at := union.Indices()
		w.put(int64(at))
		to = target(union.Types()[at])
	}
	switch s := s.(type) {
	case *avro.RecordSchema:
		fields := to.(*avro.RecordSchema).Fields()
		for i, f := range s.Fields() {
			if err := w.value(f.Type(), fields[i].Type(), depth+1); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		return nil
	case *avro.ArraySchema:
		return w.blocks(depth, false, s.Items(), to.(*avro.ArraySchema).Items())
	case *avro.MapSchema:
		return w.blocks(depth, true, s.Values(), to.(*avro.MapSchema).Values())
	}
	return w.scalar(s)
}

// union walks a value of a union, and writes it as one of the same union or of the type that it has beside null.
func (w *avroWalk) union(s *avro.UnionSchema, to avro.Schema, depth int) error {
	i, err := w.varint(64)
	if err != nil {
		return err
	}
	if i < 0 || i >= int64(len(s.Types())) {
		return fmt.Errorf("branch %d of a union of %d", i, len(s.Types()))
	}
	branch := s.Types()[i]
	if union, ok := to.(*avro.UnionSchema); ok {
		w.put(i)
		to = union.Types()[i]
	} else if branch.Type() == avro.Null {
		return errors.New("null, which the reader's schema does not allow")
	}
	return w.value(branch, to, depth+1)
}

// scalar walks a value that holds no others, which is written as it is.
func (w *avroWalk) scalar(s avro.Schema) (err error) {
	before := w.data
	switch s := s.(type) {
	case *avro.EnumSchema:
		var i int64
		if i, err = w.varint(32); err == nil && (i < 0 || i >= int64(len(s.Symbols()))) {
			err = fmt.Errorf("symbol %d of an enum of %d", i, len(s.Symbols()))
		}
	case *avro.FixedSchema:
		err = w.skip(int64(s.Size()))
	default:
		err = w.primitive(s.Type())
	}
	if w.rewrite && err == nil {
		w.out = append(w.out, before[:len(before)-len(w.data)]...)
	}
	return err
}

func (w *avroWalk) primitive(t avro.Type) error {
	switch t {
	case avro.Null:
		return nil
	case avro.Boolean:
		if len(w.data) > 0 && w.data[0] > 1 {
			return fmt.Errorf("boolean %d", w.data[0])
		}
		return w.skip(1)
	case avro.Int:
		_, err := w.varint(32)
		return err
	case avro.Long:
		_, err := w.varint(64)
		return err
	case avro.Float:
		return w.skip(4)
	case avro.Double:
		return w.skip(8)
	case avro.Bytes, avro.String:
		n, err := w.varint(64)
		if err != nil {
			return err
		}
		return w.skip(n)
	}
	return fmt.Errorf("schema of type %q", t)
}

// blocks walks an array or a map.
func (w *avroWalk) blocks(depth int, keyed bool, item, to avro.Schema) error {
	for {
		n, err := w.varint(64)
		if err != nil {
			return err
		}
		if n == 0 {
			w.put(0)
			return nil
		}
		if n < 0 { // the size of the block in bytes follows
			if _, err := w.varint(64); err != nil {
				return err
			}
			n = -n
		}
		if n < 0 || n > int64(w.items) {
			return fmt.Errorf("%d items announced in %d bytes", n, len(w.data))
		}
		w.items -= int(n)
		w.put(n)
		for range n {
			if keyed {
				if err := w.scalar(mapKey); err != nil {
					return err
				}
			}
			if err := w.value(item, to, depth+1); err != nil {
				return err
			}
		}
	}
}
