package avro

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
	"unsafe"
)

var errUTF8 = errors.New("the text is not UTF-8")

// text reads a string.
func (d *decoder) text() (string, error) {
	b, err := d.bytes()
	if err == nil && !utf8.Valid(b) {
		err = errUTF8
	}
	return d.string(b), err
}

func decodeBool(d *decoder, to unsafe.Pointer) (err error) {
	*(*bool)(to), err = d.bool()
	return err
}

// decodeInteger reads int and long. What a number means, its logical type says: the writer's, or the reader's where it has none.
func decodeInteger(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if w.Kind == Long && r.Kind == Int {
		return nil, errors.New("long is not read as int")
	}
	read := (*decoder).long
	if w.Kind == Int {
		read = (*decoder).int
	}
	logical := w.Logical
	if logical == None || r.Logical == None {
		logical = r.Logical
	}
	switch {
	case t == timeType:
		return decodeTime(read, orLogical(logical, w.Logical)), nil
	case t == durationType && orLogical(logical, w.Logical).isTime():
		return decodeDuration(read, orLogical(logical, w.Logical).unit()), nil
	case t.Kind() == reflect.Int64 && w.Kind == Long && logical == r.Logical:
		return func(d *decoder, to unsafe.Pointer) (err error) {
			*(*int64)(to), err = d.long()
			return err
		}, nil
	}
	store := storeInteger(t)
	if store == nil {
		return nil, nil
	}
	from, into := logical.unit(), r.Logical.unit()
	return func(d *decoder, to unsafe.Pointer) error {
		n, err := read(d)
		if err != nil {
			return err
		}
		if from != into { // units of time, both sides
			if n, err = rescale(n, from, into); err != nil {
				return err
			}
		}
		return store(to, n)
	}, nil
}

// orLogical is l, or the writer's logical type where only the writer says that a number is a time.
func orLogical(l, w Logical) Logical {
	if l == None {
		return w
	}
	return l
}

func (l Logical) isTime() bool { return l == TimeMillis || l == TimeMicros }

// unit is a logical type's unit of time in nanoseconds, 0 for none.
func (l Logical) unit() int64 {
	switch l {
	case Date:
		return int64(24 * time.Hour)
	case TimeMillis, TimestampMillis, LocalTimestampMillis:
		return int64(time.Millisecond)
	case TimeMicros, TimestampMicros, LocalTimestampMicros:
		return int64(time.Microsecond)
	case TimestampNanos, LocalTimestampNanos:
		return 1
	}
	return 0
}

// rescale turns a number of one unit into one of another, where that loses nothing but parts of the reader's unit.
func rescale(n, from, into int64) (int64, error) {
	if from == 0 || into == 0 {
		return n, nil
	}
	if from > into {
		factor := from / into
		if n > math.MaxInt64/factor || n < math.MinInt64/factor {
			return 0, fmt.Errorf("the time %d is out of range", n)
		}
		return n * factor, nil
	}
	return floorDiv(n, into/from), nil
}

func floorDiv(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

func decodeTime(read func(*decoder) (int64, error), l Logical) decodeFunc {
	var from func(int64) time.Time
	switch l {
	case Date:
		from = func(n int64) time.Time { return time.Unix(n*86400, 0).UTC() }
	case TimestampMillis, LocalTimestampMillis:
		from = func(n int64) time.Time { return time.UnixMilli(n).UTC() }
	case TimestampMicros, LocalTimestampMicros:
		from = func(n int64) time.Time { return time.UnixMicro(n).UTC() }
	case TimestampNanos, LocalTimestampNanos:
		from = func(n int64) time.Time { return time.Unix(0, n).UTC() }
	default:
		return nil
	}
	return func(d *decoder, to unsafe.Pointer) error {
		n, err := read(d)
		if err != nil {
			return err
		}
		*(*time.Time)(to) = from(n)
		return nil
	}
}

func decodeDuration(read func(*decoder) (int64, error), unit int64) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		n, err := read(d)
		if err != nil {
			return err
		}
		if n > math.MaxInt64/unit || n < math.MinInt64/unit {
			return fmt.Errorf("the time %d is out of range", n)
		}
		*(*int64)(to) = n * unit
		return nil
	}
}

// storeInteger stores a number in a t, if it fits; nil if t is no integer.
func storeInteger(t reflect.Type) func(unsafe.Pointer, int64) error {
	switch t.Kind() {
	case reflect.Int64:
		return func(to unsafe.Pointer, n int64) error { *(*int64)(to) = n; return nil }
	case reflect.Int:
		return narrow[int](t)
	case reflect.Int32:
		return narrow[int32](t)
	case reflect.Int16:
		return narrow[int16](t)
	case reflect.Int8:
		return narrow[int8](t)
	case reflect.Uint64:
		return narrow[uint64](t)
	case reflect.Uint:
		return narrow[uint](t)
	case reflect.Uint32:
		return narrow[uint32](t)
	case reflect.Uint16:
		return narrow[uint16](t)
	case reflect.Uint8:
		return narrow[uint8](t)
	}
	return nil
}

type integerType interface {
	int8 | int16 | int32 | int | int64 | uint8 | uint16 | uint32 | uint | uint64
}

func narrow[N integerType](t reflect.Type) func(unsafe.Pointer, int64) error {
	return func(to unsafe.Pointer, n int64) error {
		v := N(n)
		if int64(v) != n || (v < 0) != (n < 0) {
			return fmt.Errorf("%d does not fit %v", n, t)
		}
		*(*N)(to) = v
		return nil
	}
}

// decodeFloat reads float and double, and the integers that are promoted to them.
func decodeFloat(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if w.Kind > r.Kind {
		return nil, errors.New("double is not read as float")
	}
	wide := t.Kind() == reflect.Float64
	if !wide && (t.Kind() != reflect.Float32 || r.Kind == Double) {
		return nil, nil
	}
	switch {
	case w.Kind == Double:
		return func(d *decoder, to unsafe.Pointer) (err error) {
			*(*float64)(to), err = d.double()
			return err
		}, nil
	case w.Kind == Float && !wide:
		return func(d *decoder, to unsafe.Pointer) (err error) {
			*(*float32)(to), err = d.float()
			return err
		}, nil
	case w.Kind == Float:
		return func(d *decoder, to unsafe.Pointer) error {
			f, err := d.float()
			*(*float64)(to) = float64(f)
			return err
		}, nil
	}
	read, single := (*decoder).long, r.Kind == Float
	if w.Kind == Int {
		read = (*decoder).int
	}
	return func(d *decoder, to unsafe.Pointer) error {
		n, err := read(d)
		switch {
		case !wide:
			*(*float32)(to) = float32(n)
		case single:
			*(*float64)(to) = float64(float32(n))
		default:
			*(*float64)(to) = float64(n)
		}
		return err
	}, nil
}

// decodeBytes reads bytes and string, each of which reads the other.
func decodeBytes(w, r *Schema, t reflect.Type) decodeFunc {
	if w.Logical == Decimal || r.Logical == Decimal {
		if decode := decodeDecimal(w, r, t, (*decoder).bytes); decode != nil {
			return decode
		}
	}
	isText := IsText(t) && r.Kind == String
	switch {
	case isText:
		return decodeText(t, (*decoder).bytes)
	case t.Kind() == reflect.String && r.Kind == String:
		return func(d *decoder, to unsafe.Pointer) (err error) {
			*(*string)(to), err = d.text()
			return err
		}
	case t.Kind() == reflect.String && r.Logical != Decimal:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.bytes()
			*(*string)(to) = string(b)
			return err
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.bytes()
			*(*[]byte)(to) = append(make([]byte, 0, len(b)), b...)
			return err
		}
	case isUUID(t) && r.Kind == String && r.Logical == UUID:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.bytes()
			if err != nil {
				return err
			}
			return parseUUID((*[16]byte)(to), b)
		}
	}
	return nil
}

func decodeText(t reflect.Type, read func(*decoder) ([]byte, error)) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		b, err := read(d)
		if err != nil {
			return err
		}
		return reflect.NewAt(t, to).Interface().(encoding.TextUnmarshaler).UnmarshalText(b)
	}
}

func decodeEnum(w, r *Schema, t reflect.Type) decodeFunc {
	if t.Kind() != reflect.String && !IsText(t) {
		return nil
	}
	symbols := readSymbols(w, r)
	symbol := func(d *decoder) (string, error) {
		i, err := d.index("symbol", len(symbols))
		if err != nil {
			return "", err
		}
		if symbols[i] == "" {
			return "", fmt.Errorf("the reader's enum has no %q", w.Symbols[i])
		}
		return symbols[i], nil
	}
	if IsText(t) {
		return decodeText(t, func(d *decoder) ([]byte, error) {
			s, err := symbol(d)
			return []byte(s), err
		})
	}
	return func(d *decoder, to unsafe.Pointer) (err error) {
		*(*string)(to), err = symbol(d)
		return err
	}
}

// readSymbols are the writer's symbols as the reader has them, "" for those that it has not.
func readSymbols(w, r *Schema) []string {
	if w == r { // a schema may refer to an enum of many symbols many times
		return w.Symbols
	}
	known := make(map[string]bool, len(r.Symbols))
	for _, symbol := range r.Symbols {
		known[symbol] = true
	}
	symbols := make([]string, len(w.Symbols))
	for i, symbol := range w.Symbols {
		symbols[i] = r.Default
		if known[symbol] {
			symbols[i] = symbol
		}
	}
	return symbols
}

func decodeFixed(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if w.Size != r.Size {
		return nil, fmt.Errorf("%d bytes are not read as %d", w.Size, r.Size)
	}
	size := w.Size
	read := func(d *decoder) ([]byte, error) { return d.take(size) }
	if w.Logical == Decimal || r.Logical == Decimal {
		if decode := decodeDecimal(w, r, t, read); decode != nil {
			return decode, nil
		}
	}
	isUUID := r.Logical == UUID || w.Logical == UUID
	switch {
	case t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == size:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.take(size)
			copy(unsafe.Slice((*byte)(to), size), b)
			return err
		}, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.take(size)
			*(*[]byte)(to) = append(make([]byte, 0, len(b)), b...)
			return err
		}, nil
	case t.Kind() == reflect.String && isUUID:
		return func(d *decoder, to unsafe.Pointer) error {
			b, err := d.take(size)
			if err == nil {
				*(*string)(to) = string(appendUUID(nil, b))
			}
			return err
		}, nil
	}
	return nil, nil
}

func isUUID(t reflect.Type) bool {
	return t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == 16
}
