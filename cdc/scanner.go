package cdc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is what a JSON value is, by its first byte.
type kind byte

const (
	kindNone   kind = 0 // no value: an absent member
	kindNull   kind = 'n'
	kindTrue   kind = 't'
	kindFalse  kind = 'f'
	kindNumber kind = '0'
	kindString kind = '"'
	kindArray  kind = '['
	kindObject kind = '{'
)

func (k kind) String() string {
	switch k {
	case kindNull:
		return "null"
	case kindTrue, kindFalse:
		return "boolean"
	case kindNumber:
		return "number"
	case kindString:
		return "string"
	case kindArray:
		return "array"
	case kindObject:
		return "object"
	}
	return "nothing"
}

// value is one JSON value, already checked: a stretch of the message.
type value struct {
	kind kind
	// plain is true for a string without escapes and with ASCII alone: its text is its bytes.
	plain bool
	// integer is true for a number without fraction and exponent.
	integer bool
	raw     []byte
}

// int64 returns an integer, and whether it is one that fits.
func (v *value) int64() (int64, bool) {
	if !v.integer {
		return 0, false
	}
	digits, negative := v.raw, v.raw[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) > 19 {
		return 0, false
	}
	var n uint64 // nineteen digits fit
	for len(digits) >= 8 {
		n, digits = n*100_000_000+eightDigits(binary.LittleEndian.Uint64(digits)), digits[8:]
	}
	for _, c := range digits {
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= -math.MinInt64
	}
	return int64(n), n <= math.MaxInt64
}

// eightDigits returns the number that eight digits are, the first in the lowest byte: neighbours are added up to pairs, pairs to fours,
// and those to eight, each in one multiplication.
func eightDigits(word uint64) uint64 {
	const pairs = 0x000000ff000000ff
	word -= lowBits * '0'
	word = word*10 + word>>8
	return (word&pairs*(100+1_000_000<<32) + word>>16&pairs*(1+10_000<<32)) >> 32
}

// text returns a string's content as a new string.
func (v value) text() string {
	body := v.raw[1 : len(v.raw)-1]
	if v.plain {
		return string(body)
	}
	return string(unquote(body))
}

// bytes returns a string's content; it aliases the message where it can.
func (v value) bytes() []byte {
	body := v.raw[1 : len(v.raw)-1]
	if v.plain {
		return body
	}
	return unquote(body)
}

// syntaxError is a violation of JSON's grammar or of the scanner's bounds. It says where, never what.
type syntaxError struct {
	offset int
	reason string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.reason, e.offset) }

// scanner reads JSON from front to back, once. It accepts what encoding/json accepts (RFC 8259; invalid UTF-8 inside strings is
// replaced when a string is read), up to a depth of maxDepth.
type scanner struct {
	data     []byte
	pos      int
	depth    int
	maxDepth int
}

func (s *scanner) fail(reason string) error {
	if s.pos >= len(s.data) {
		return &syntaxError{len(s.data), "unexpected end of JSON"}
	}
	return &syntaxError{s.pos, reason}
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// end checks that nothing but white space is left.
func (s *scanner) end() error {
	if s.space(); s.pos < len(s.data) {
		return s.fail("unexpected data after the JSON value")
	}
	return nil
}

// open enters an object or array and says whether it has members.
func (s *scanner) open(first, last byte) (bool, error) {
	if s.peek() != first {
		return false, s.fail("unexpected character")
	}
	if s.depth++; s.depth > s.maxDepth {
		return false, s.fail("JSON nested too deeply")
	}
	s.pos++
	if s.peek() == last {
		s.pos++
		s.depth--
		return false, nil
	}
	return true, nil
}

// more reads the comma before another member, or leaves the object or array.
func (s *scanner) more(last byte) (bool, error) {
	switch s.peek() {
	case ',':
		s.pos++
		return true, nil
	case last:
		s.pos++
		s.depth--
		return false, nil
	}
	return false, s.fail("unexpected character, want a comma or the end of the object or array")
}

// name reads a member's name and the colon after it.
func (s *scanner) name() (value, error) {
	if s.peek() != '"' {
		return value{}, s.fail("unexpected character, want a member's name")
	}
	name, err := s.string()
	if err != nil {
		return value{}, err
	}
	if s.peek() != ':' {
		return value{}, s.fail("unexpected character, want a colon")
	}
	s.pos++
	return name, nil
}

// expect reads a name and its colon if they are the next bytes; quoted has the quotes and the colon.
func (s *scanner) expect(quoted string) bool {
	end := s.pos + len(quoted)
	if end > len(s.data) || quoted == "" || string(s.data[s.pos:end]) != quoted {
		return false
	}
	s.pos = end
	return true
}

// repeat reads a value if it is the same as an earlier one, byte by byte, and nothing but a comma or a brace follows.
func (s *scanner) repeat(v *value) bool {
	end := s.pos + len(v.raw)
	if end >= len(s.data) || s.data[end] != ',' && s.data[end] != '}' || !bytes.Equal(s.data[s.pos:end], v.raw) {
		return false
	}
	s.pos = end
	return true
}

// value reads any value.
func (s *scanner) value() (value, error) {
	switch c := s.peek(); c {
	case '"':
		return s.string()
	case '{', '[':
		start := s.pos
		if err := s.skipNested(c); err != nil {
			return value{}, err
		}
		return value{kind: kind(c), raw: s.data[start:s.pos]}, nil
	case 'n':
		return s.literal("null")
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return value{}, s.fail("unexpected character, want a value")
}

func (s *scanner) skipNested(c byte) error {
	last := c + 2 // ']' follows '[' and '}' follows '{' at this distance
	more, err := s.open(c, last)
	for more && err == nil {
		if c == '{' {
			if _, err = s.name(); err != nil {
				break
			}
		}
		if _, err = s.value(); err != nil {
			break
		}
		more, err = s.more(last)
	}
	return err
}

func (s *scanner) literal(word string) (value, error) {
	start := s.pos
	if len(s.data)-start < len(word) || string(s.data[start:start+len(word)]) != word {
		return value{}, s.fail("unexpected character in a literal")
	}
	s.pos += len(word)
	return value{kind: kind(word[0]), raw: s.data[start:s.pos]}, nil
}

// digits returns the place behind the digits that begin at pos.
func digits(data []byte, pos int) int {
	for len(data)-pos >= 8 {
		// What is above 9 sets its high bit in the sum, what is below 0, or too large for the sum, in the difference. Carries and borrows
		// come from such bytes alone and reach those above.
		word := binary.LittleEndian.Uint64(data[pos:])
		if others := ((word + lowBits*(0x7f-'9')) | (word - lowBits*'0')) & highBits; others != 0 {
			return pos + bits.TrailingZeros64(others)>>3
		}
		pos += 8
	}
	for pos < len(data) && data[pos]-'0' <= 9 {
		pos++
	}
	return pos
}

func (s *scanner) number() (value, error) {
	data, start, pos, integer := s.data, s.pos, s.pos, true
	if data[pos] == '-' {
		pos++
	}
	first := pos
	if pos < len(data) && data[pos] == '0' {
		pos++
	} else {
		pos = digits(data, pos)
	}
	bad := pos == first
	if !bad && pos < len(data) && data[pos] == '.' {
		integer, first = false, pos+1
		pos = digits(data, first)
		bad = pos == first
	}
	if !bad && pos < len(data) && data[pos]|0x20 == 'e' {
		integer, first = false, pos+1
		if first < len(data) && (data[first] == '+' || data[first] == '-') {
			first++
		}
		pos = digits(data, first)
		bad = pos == first
	}
	s.pos = pos
	if bad {
		return value{}, s.fail("unexpected character in a number")
	}
	return value{kind: kindNumber, integer: integer, raw: data[start:pos]}, nil
}

// Eight bytes at a time: the high bit of every byte of one, and the byte one in every byte.
const (
	highBits = 0x8080808080808080
	lowBits  = 0x0101010101010101
)

// string reads a string; s.pos is at its quote.
func (s *scanner) string() (value, error) {
	data, start := s.data, s.pos
	pos, plain := start+1, true
	for {
		for len(data)-pos >= 8 {
			// A byte below 0x20, a quote or a backslash sets its high bit in special, as a byte from 0x80 does in word. A borrow
			// may set more bits above the first special byte, never below it.
			word := binary.LittleEndian.Uint64(data[pos:])
			quote, slash := word^(lowBits*'"'), word^(lowBits*'\\')
			special := ((word - lowBits*0x20) | (quote - lowBits) | (slash - lowBits) | word) & highBits
			if special != 0 {
				pos += bits.TrailingZeros64(special) >> 3
				break
			}
			pos += 8
		}
		if pos >= len(data) {
			break
		}
		switch c := data[pos]; {
		case c == '"':
			s.pos = pos + 1
			return value{kind: kindString, plain: plain, raw: data[start:s.pos]}, nil
		case c == '\\':
			plain = false
			n := escapeLen(data[pos:])
			if n == 0 {
				s.pos = pos
				return value{}, s.fail("invalid escape in a string")
			}
			pos += n
		case c < 0x20:
			s.pos = pos
			return value{}, s.fail("control character in a string")
		case c >= utf8.RuneSelf:
			plain = false
			for pos < len(data) && data[pos] >= utf8.RuneSelf {
				pos++
			}
		default:
			pos++
		}
	}
	s.pos = len(data)
	return value{}, s.fail("")
}

// escapeLen returns the length of the escape at the start of b, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads four hex digits, -1 if there are none.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// unquote resolves the escapes of a checked string and replaces what is not UTF-8, byte by byte, as encoding/json does.
func unquote(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '\\':
			var n int
			out, n = appendEscape(out, body[i:])
			i += n
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRune(body[i:])
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return out
}

// appendEscape appends the character that the escape at the start of b stands for and returns the escape's length.
func appendEscape(out, b []byte) ([]byte, int) {
	switch b[1] {
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hex4(b[2:])
		if !utf16.IsSurrogate(r) {
			return utf8.AppendRune(out, r), 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(b[8:])); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 12
			}
		}
		return utf8.AppendRune(out, utf8.RuneError), 6
	}
	return append(out, b[1]), 2
}

// members calls f for every member of a checked object, in order.
func members(v value, f func(name, member value) error) error {
	s := scanner{data: v.raw, maxDepth: len(v.raw)}
	more, err := s.open('{', '}')
	for more && err == nil {
		var name, member value
		if name, err = s.name(); err != nil {
			return err
		}
		if member, err = s.value(); err != nil {
			return err
		}
		if err = f(name, member); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	return err
}

// elements calls f for every element of a checked array, in order.
func elements(v value, f func(i int, element value) error) error {
	s := scanner{data: v.raw, maxDepth: len(v.raw)}
	more, err := s.open('[', ']')
	for i := 0; more && err == nil; i++ {
		var element value
		if element, err = s.value(); err != nil {
			return err
		}
		if err = f(i, element); err != nil {
			return err
		}
		more, err = s.more(']')
	}
	return err
}
