package avrocdc

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/cdc"
)

// transcoder reads Avro's binary encoding and appends JSON as Kafka Connect's JsonConverter writes it.
type transcoder struct {
	data  []byte
	pos   int
	out   []byte
	depth int
	// empty counts the elements that take no bytes.
	empty int
}

// maxEmpty is how many elements without bytes a message may have: nothing but their number says how many there are.
const maxEmpty = 1 << 16

var (
	errShort    = errors.New("the message ends too early")
	errNumber   = errors.New("a number is longer than its type")
	errLength   = errors.New("a length is out of bounds")
	errBranch   = errors.New("a union has no such branch")
	errNesting  = errors.New("the message is nested too deeply")
	errBoolean  = errors.New("a boolean is neither 0 nor 1")
	errTrailing = errors.New("the message goes on behind its end")
)

func (t *transcoder) fail(err error) error { return fmt.Errorf("%w at byte %d", err, t.pos) }

// all transcodes the whole message.
func (t *transcoder) all(s *schema) error {
	if err := t.value(s); err != nil {
		return err
	}
	if t.pos != len(t.data) {
		return t.fail(errTrailing)
	}
	return nil
}

func (t *transcoder) value(s *schema) error {
	switch s.kind {
	case kindNull:
		t.out = append(t.out, "null"...)
	case kindBoolean:
		return t.boolean()
	case kindInt, kindLong:
		n, err := t.number(s.kind)
		t.out = strconv.AppendInt(t.out, n, 10)
		return err
	case kindFloat, kindDouble:
		return t.float(s.kind)
	case kindBytes, kindFixed, kindString, kindDuration:
		return t.octets(s)
	case kindEnum:
		return t.enum(s)
	case kindUnion:
		n, err := t.number(kindLong)
		if err == nil && (n < 0 || n >= int64(len(s.branches))) {
			err = t.fail(errBranch)
		}
		if err != nil {
			return err
		}
		return t.nested(s.branches[n])
	case kindArray, kindMap:
		return t.blocks(s)
	case kindRecord:
		return t.record(s)
	}
	return nil
}

// nested is value one level deeper.
func (t *transcoder) nested(s *schema) error {
	if t.depth++; t.depth > maxDepth {
		return t.fail(errNesting)
	}
	err := t.value(s)
	t.depth--
	return err
}

func (t *transcoder) boolean() error {
	b, err := t.take(1)
	switch {
	case err != nil:
		return err
	case b[0] == 0:
		t.out = append(t.out, "false"...)
	case b[0] == 1:
		t.out = append(t.out, "true"...)
	default:
		return t.fail(errBoolean)
	}
	return nil
}

func (t *transcoder) number(k kind) (int64, error) {
	n, size := binary.Varint(t.data[t.pos:])
	switch {
	case size == 0:
		return 0, t.fail(errShort)
	case size < 0 || k == kindInt && int64(int32(n)) != n:
		return 0, t.fail(errNumber)
	}
	t.pos += size
	return n, nil
}

func (t *transcoder) take(n int64) ([]byte, error) {
	if n < 0 {
		return nil, t.fail(errLength)
	}
	if n > int64(len(t.data)-t.pos) {
		return nil, t.fail(errShort)
	}
	t.pos += int(n)
	return t.data[t.pos-int(n) : t.pos], nil
}

// float writes the shortest digits that read back as the number; what JSON cannot say goes into quotes, as Jackson does it.
func (t *transcoder) float(k kind) error {
	size, bits := int64(8), 64
	if k == kindFloat {
		size, bits = 4, 32
	}
	b, err := t.take(size)
	if err != nil {
		return err
	}
	var f float64
	if k == kindFloat {
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	} else {
		f = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	switch {
	case math.IsNaN(f):
		t.out = append(t.out, `"NaN"`...)
	case math.IsInf(f, 1):
		t.out = append(t.out, `"Infinity"`...)
	case math.IsInf(f, -1):
		t.out = append(t.out, `"-Infinity"`...)
	default:
		start := len(t.out)
		t.out = strconv.AppendFloat(t.out, f, 'g', -1, bits)
		if isWhole(t.out[start:]) {
			t.out = append(t.out, ".0"...)
		}
	}
	return nil
}

func isWhole(digits []byte) bool {
	for _, c := range digits {
		if c == '.' || c == 'e' {
			return false
		}
	}
	return true
}

func (t *transcoder) octets(s *schema) error {
	n := int64(s.size)
	var err error
	if s.kind == kindBytes || s.kind == kindString {
		if n, err = t.number(kindLong); err != nil {
			return err
		}
	}
	b, err := t.take(n)
	if err != nil {
		return err
	}
	switch s.kind {
	case kindString:
		t.out = appendQuoted(t.out, b)
	case kindDuration:
		months, days := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		millis := int64(binary.LittleEndian.Uint32(b[8:]))
		if months > math.MaxInt32 || days > math.MaxInt32 {
			return t.fail(errNumber)
		}
		i := cdc.Interval{Months: int32(months), Days: int32(days), Microseconds: millis * 1000}
		t.out = append(append(append(t.out, '"'), i.String()...), '"')
	default:
		t.out = append(base64.StdEncoding.AppendEncode(append(t.out, '"'), b), '"')
	}
	return nil
}

// appendQuoted appends a JSON string; octets that are no UTF-8 are replaced.
func appendQuoted(out, text []byte) []byte {
	out = append(out, '"')
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] >= 0x20 && text[n] != '"' && text[n] != '\\' && text[n] < utf8.RuneSelf {
			n++
		}
		out, text = append(out, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < 0x20:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
		text = text[size:]
	}
	return append(out, '"')
}

func (t *transcoder) enum(s *schema) error {
	n, err := t.number(kindInt)
	if err == nil && (n < 0 || n >= int64(len(s.symbols))) {
		err = t.fail(errBranch)
	}
	if err != nil {
		return err
	}
	symbol, err := json.Marshal(s.symbols[n])
	t.out = append(t.out, symbol...)
	return err
}

// blocks reads an array or a map: counts of elements, each followed by as many of them, to a count of 0. Before a negative count stands
// the block's size in bytes.
func (t *transcoder) blocks(s *schema) error {
	first, last := byte('['), byte(']')
	if s.kind == kindMap {
		first, last = '{', '}'
	}
	t.out = append(t.out, first)
	for count := 0; ; {
		n, err := t.number(kindLong)
		if err == nil && n < 0 {
			n = -n
			_, err = t.number(kindLong)
		}
		if err == nil && n < 0 {
			err = t.fail(errLength)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		for ; n > 0; n-- {
			if count++; count > 1 {
				t.out = append(t.out, ',')
			}
			if err := t.element(s); err != nil {
				return err
			}
		}
	}
	t.out = append(t.out, last)
	return nil
}

func (t *transcoder) element(s *schema) error {
	before := t.pos
	if s.kind == kindMap {
		if err := t.octets(&schema{kind: kindString}); err != nil {
			return err
		}
		t.out = append(t.out, ':')
	}
	if err := t.nested(s.elem); err != nil {
		return err
	}
	if t.pos == before {
		if t.empty++; t.empty > maxEmpty {
			return t.fail(errLength)
		}
	}
	return nil
}

func (t *transcoder) record(s *schema) error {
	t.out = append(t.out, '{')
	for i := range s.fields {
		f := &s.fields[i]
		if i > 0 {
			t.out = append(t.out, ',')
		}
		t.out = append(t.out, f.quoted...)
		if err := t.nested(f.schema); err != nil {
			return err
		}
	}
	t.out = append(t.out, '}')
	return nil
}
