package aggregate

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// ErrEncoding is in every error of Decode: bytes that Append did not make, or that a later version made.
var ErrEncoding = errors.New("aggregate: invalid accumulator")

// version is the first byte of every encoding.
const version = 1

func appendInt(dst []byte, n int64) []byte { return binary.AppendVarint(dst, n) }

func appendFloat(dst []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decoder reads an encoding from its front; the first error stays.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(src []byte) *decoder {
	d := &decoder{b: src}
	if v := d.byte(); d.err == nil && v != version {
		d.err = fmt.Errorf("%w: version %d", ErrEncoding, v)
	}
	return d
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrEncoding, what)
	}
	d.b = nil
}

// end is the error, or that something is left.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail("it goes on")
	}
	return d.err
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("cut off")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("cut off")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count is a number that is not negative.
func (d *decoder) count() int64 {
	n := d.int()
	if n < 0 {
		d.fail("negative count")
	}
	return n
}

func (d *decoder) float() float64 {
	if len(d.b) < 8 {
		d.fail("cut off")
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(d.b))
	d.b = d.b[8:]
	return x
}

func (d *decoder) bytes() []byte {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.fail("cut off")
		return nil
	}
	b := d.b[size : size+int(n)]
	d.b = d.b[size+int(n):]
	return b
}

// Codec is how values that an accumulator keeps are written into a snapshot.
type Codec[T any] interface {
	Append(dst []byte, v T) []byte
	Decode(src []byte) (T, error)
}

// Scalar is the Codec of numbers and strings.
func Scalar[T cmp.Ordered]() Codec[T] { return scalar[T]{} }

type scalar[T cmp.Ordered] struct{}

func (scalar[T]) Append(dst []byte, v T) []byte {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return append(dst, r.String()...)
	case reflect.Float32, reflect.Float64:
		return appendFloat(dst, r.Float())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt(dst, r.Int())
	default:
		return binary.AppendUvarint(dst, r.Uint())
	}
}

func (scalar[T]) Decode(src []byte) (v T, err error) {
	d := decoder{b: src}
	switch r := reflect.ValueOf(&v).Elem(); r.Kind() {
	case reflect.String:
		r.SetString(string(src))
		return v, nil
	case reflect.Float32, reflect.Float64:
		r.SetFloat(d.float())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := d.int()
		if r.OverflowInt(n) {
			d.fail("number out of range")
		}
		r.SetInt(n)
	default:
		n, size := binary.Uvarint(src)
		if size != len(src) || r.OverflowUint(n) {
			d.fail("number out of range")
		}
		r.SetUint(n)
		d.b = nil
	}
	return v, d.end()
}

// JSON is the Codec of values that encoding/json keeps whole. A value that it cannot write becomes null.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Append(dst []byte, v T) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte("null")
	}
	return append(dst, b...)
}

func (jsonCodec[T]) Decode(src []byte) (v T, err error) {
	if err := json.Unmarshal(src, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	return v, nil
}
