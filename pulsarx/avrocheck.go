package pulsarx

import (
	"errors"
	"fmt"

	"github.com/hamba/avro/v2"
)

// The limits on a payload that its own length does not set: nesting, and the array items that take no bytes (nulls).
const (
	maxAvroDepth      = 10_000
	maxAvroEmptyItems = 1 << 16
)

var errAvroShort = errors.New("the payload ends early")

// checkAvro walks data by the schema that wrote it, before anything is allocated for it: the Avro library takes lengths and counts
// on trust, reads past the end as zeros, and ignores what is left over.
func checkAvro(s avro.Schema, data []byte) error {
	w := avroWalk{data: data, items: len(data) + maxAvroEmptyItems}
	if err := w.value(s, 0); err != nil {
		return err
	}
	if len(w.data) > 0 {
		return fmt.Errorf("%d bytes after the value", len(w.data))
	}
	return nil
}

type avroWalk struct {
	data  []byte
	items int // that may still come
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

func (w *avroWalk) value(s avro.Schema, depth int) error {
	if depth > maxAvroDepth {
		return fmt.Errorf("nested more than %d deep", maxAvroDepth)
	}
	switch s := s.(type) {
	case *avro.RefSchema:
		return w.value(s.Schema(), depth)
	case *avro.RecordSchema:
		for _, f := range s.Fields() {
			if err := w.value(f.Type(), depth+1); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		return nil
	case *avro.UnionSchema:
		i, err := w.varint(64)
		if err != nil {
			return err
		}
		if i < 0 || i >= int64(len(s.Types())) {
			return fmt.Errorf("branch %d of a union of %d", i, len(s.Types()))
		}
		return w.value(s.Types()[i], depth+1)
	case *avro.EnumSchema:
		i, err := w.varint(32)
		if err == nil && (i < 0 || i >= int64(len(s.Symbols()))) {
			err = fmt.Errorf("symbol %d of an enum of %d", i, len(s.Symbols()))
		}
		return err
	case *avro.ArraySchema:
		return w.blocks(depth, false, s.Items())
	case *avro.MapSchema:
		return w.blocks(depth, true, s.Values())
	case *avro.FixedSchema:
		return w.skip(int64(s.Size()))
	}
	return w.primitive(s.Type())
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
func (w *avroWalk) blocks(depth int, keyed bool, item avro.Schema) error {
	for {
		n, err := w.varint(64)
		if err != nil || n == 0 {
			return err
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
		for range n {
			if keyed {
				if err := w.primitive(avro.String); err != nil {
					return err
				}
			}
			if err := w.value(item, depth+1); err != nil {
				return err
			}
		}
	}
}
