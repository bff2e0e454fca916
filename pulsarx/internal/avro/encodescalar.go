package avro

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"time"
	"unsafe"
)

func encodeInteger(s *Schema, t reflect.Type) encodeFunc {
	load := loadInteger(s, t)
	if load == nil {
		return nil
	}
	isInt := s.Kind == Int
	return func(e *encoder, p unsafe.Pointer) error {
		n, err := load(p)
		if err != nil {
			return err
		}
		if isInt && n != int64(int32(n)) {
			return fmt.Errorf("%d does not fit an int", n)
		}
		e.long(n)
		return nil
	}
}

// loadInteger reads the number that a t stands for.
func loadInteger(s *Schema, t reflect.Type) func(unsafe.Pointer) (int64, error) {
	switch {
	case t == timeType:
		return loadTime(s.Logical)
	case t == durationType && s.Logical.isTime():
		unit := s.Logical.unit()
		return func(p unsafe.Pointer) (int64, error) { return floorDiv(*(*int64)(p), unit), nil }
	}
	switch t.Kind() {
	case reflect.Int64:
		return func(p unsafe.Pointer) (int64, error) { return *(*int64)(p), nil }
	case reflect.Int, reflect.Int32, reflect.Int16, reflect.Int8:
		return func(p unsafe.Pointer) (int64, error) { return reflect.NewAt(t, p).Elem().Int(), nil }
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return func(p unsafe.Pointer) (int64, error) {
			n := reflect.NewAt(t, p).Elem().Uint()
			if n > math.MaxInt64 {
				return 0, fmt.Errorf("%d does not fit a long", n)
			}
			return int64(n), nil
		}
	}
	return nil
}

func loadTime(l Logical) func(unsafe.Pointer) (int64, error) {
	var load func(time.Time) int64
	switch l {
	case Date:
		load = func(t time.Time) int64 {
			y, m, d := t.Date()
			return floorDiv(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), 86400)
		}
	case TimestampMillis:
		load = time.Time.UnixMilli
	case TimestampMicros:
		load = time.Time.UnixMicro
	case TimestampNanos:
		load = time.Time.UnixNano
	case LocalTimestampMillis, LocalTimestampMicros, LocalTimestampNanos: // what the clock on the wall says
		unit := loadTime(l - LocalTimestampMillis + TimestampMillis)
		return func(p unsafe.Pointer) (int64, error) {
			t := *(*time.Time)(p)
			_, offset := t.Zone()
			wall := t.Add(time.Duration(offset) * time.Second)
			return unit(unsafe.Pointer(&wall))
		}
	default:
		return nil
	}
	return func(p unsafe.Pointer) (int64, error) {
		t := *(*time.Time)(p)
		n := load(t)
		// The library leaves open what a time that does not fit becomes.
		if l == TimestampNanos && time.Unix(0, n).Unix() != t.Unix() || l == TimestampMicros && time.UnixMicro(n).Unix() != t.Unix() {
			return 0, fmt.Errorf("the time %v is out of range", t)
		}
		return n, nil
	}
}

func encodeFloat(s *Schema, t reflect.Type) encodeFunc {
	switch {
	case s.Kind == Float && t.Kind() == reflect.Float32:
		return func(e *encoder, p unsafe.Pointer) error {
			e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(*(*float32)(p)))
			return nil
		}
	case s.Kind == Float && t.Kind() == reflect.Float64:
		return func(e *encoder, p unsafe.Pointer) error {
			v := *(*float64)(p)
			if f := float32(v); float64(f) == v || v != v {
				e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(f))
				return nil
			}
			return fmt.Errorf("%v does not fit a float", v)
		}
	case s.Kind == Double && t.Kind() == reflect.Float64:
		return func(e *encoder, p unsafe.Pointer) error {
			e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(*(*float64)(p)))
			return nil
		}
	case s.Kind == Double && t.Kind() == reflect.Float32:
		return func(e *encoder, p unsafe.Pointer) error {
			e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(float64(*(*float32)(p))))
			return nil
		}
	}
	return nil
}

// encodeBytes writes bytes, string and fixed.
func encodeBytes(s *Schema, t reflect.Type) encodeFunc {
	if s.Logical == Decimal {
		if encode := encodeDecimal(s, t); encode != nil {
			return encode
		}
	}
	isBytes := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	switch {
	case s.Kind == String:
		return encodeString(s, t, isBytes)
	case s.Kind == Fixed:
		return encodeFixed(s, t, isBytes)
	case isBytes:
		return func(e *encoder, p unsafe.Pointer) error { e.bytes(*(*[]byte)(p)); return nil }
	case t.Kind() == reflect.String && s.Logical != Decimal:
		return func(e *encoder, p unsafe.Pointer) error { e.bytes([]byte(*(*string)(p))); return nil }
	}
	return nil
}

func encodeString(s *Schema, t reflect.Type, isBytes bool) encodeFunc {
	switch {
	case IsText(t):
		return func(e *encoder, p unsafe.Pointer) error {
			text, err := marshalText(t, p)
			if err != nil {
				return err
			}
			return e.text(text)
		}
	case t.Kind() == reflect.String:
		return func(e *encoder, p unsafe.Pointer) error { return e.text(*(*string)(p)) }
	case isBytes:
		return func(e *encoder, p unsafe.Pointer) error { return e.text(string(*(*[]byte)(p))) }
	case isUUID(t) && s.Logical == UUID:
		return func(e *encoder, p unsafe.Pointer) error {
			e.bytes(appendUUID(nil, unsafe.Slice((*byte)(p), 16)))
			return nil
		}
	}
	return nil
}

func marshalText(t reflect.Type, p unsafe.Pointer) (string, error) {
	text, err := reflect.NewAt(t, p).Interface().(encoding.TextMarshaler).MarshalText()
	return string(text), err
}

func encodeFixed(s *Schema, t reflect.Type, isBytes bool) encodeFunc {
	switch {
	case t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == s.Size:
		return func(e *encoder, p unsafe.Pointer) error {
			e.out = append(e.out, unsafe.Slice((*byte)(p), s.Size)...)
			return nil
		}
	case isBytes:
		return func(e *encoder, p unsafe.Pointer) error {
			b := *(*[]byte)(p)
			if len(b) != s.Size {
				return fmt.Errorf("%d bytes in place of %d", len(b), s.Size)
			}
			e.out = append(e.out, b...)
			return nil
		}
	case t.Kind() == reflect.String && s.Logical == UUID:
		return func(e *encoder, p unsafe.Pointer) error {
			var id [16]byte
			err := parseUUID(&id, []byte(*(*string)(p)))
			e.out = append(e.out, id[:]...)
			return err
		}
	}
	return nil
}

// encodeDecimal writes a big.Rat or text exactly; nil where t is neither.
func encodeDecimal(s *Schema, t reflect.Type) encodeFunc {
	isRat := t == ratType
	if !isRat && !IsText(t) && t.Kind() != reflect.String {
		return nil
	}
	load := func(p unsafe.Pointer) (*big.Rat, error) {
		switch {
		case isRat:
			return (*big.Rat)(p), nil
		case IsText(t):
			text, err := marshalText(t, p)
			if err != nil {
				return nil, err
			}
			return parseDecimal(text)
		}
		return parseDecimal(*(*string)(p))
	}
	return func(e *encoder, p unsafe.Pointer) error {
		v, err := load(p)
		if err != nil {
			return err
		}
		n, err := unscaledOf(v, s)
		if err != nil {
			return err
		}
		b := appendSigned(nil, n)
		if s.Kind == Bytes {
			e.bytes(b)
			return nil
		}
		if len(b) > s.Size {
			return fmt.Errorf("a number does not fit %d bytes", s.Size)
		}
		sign := byte(0)
		if n.Sign() < 0 {
			sign = 0xff
		}
		for range s.Size - len(b) {
			e.out = append(e.out, sign)
		}
		e.out = append(e.out, b...)
		return nil
	}
}

func encodeEnum(s *Schema, t reflect.Type) encodeFunc {
	index := make(map[string]int64, len(s.Symbols))
	for i, symbol := range s.Symbols {
		index[symbol] = int64(i)
	}
	put := func(e *encoder, symbol string) error {
		i, ok := index[symbol]
		if !ok {
			return fmt.Errorf("%q is no symbol of %s", symbol, s.Name)
		}
		e.long(i)
		return nil
	}
	switch {
	case IsText(t):
		return func(e *encoder, p unsafe.Pointer) error {
			text, err := marshalText(t, p)
			if err != nil {
				return err
			}
			return put(e, text)
		}
	case t.Kind() == reflect.String:
		return func(e *encoder, p unsafe.Pointer) error { return put(e, *(*string)(p)) }
	}
	return nil
}

// DecimalDefault is the default of a decimal as a schema has it: its bytes as characters.
func DecimalDefault(text string, digits, scale int) (string, error) {
	v, err := parseDecimal(text)
	if err != nil {
		return "", err
	}
	n, err := unscaledOf(v, &Schema{Digits: digits, Scale: scale})
	if err != nil {
		return "", err
	}
	var characters []rune
	for _, b := range appendSigned(nil, n) {
		characters = append(characters, rune(b))
	}
	return string(characters), nil
}
