package vectorstore

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 defines version 5 by SHA-1
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/cdc"
)

// namespaceDNS is the name space that Weaviate's Python client uses: 6ba7b810-9dad-11d1-80b4-00c04fd430c8 of RFC 9562.
const namespaceDNS = "\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8"

// maxIntDigits is where Python's str refuses an integer (sys.int_info.default_max_str_digits).
const maxIntDigits = 4300

// UUID5 returns the id of the row with the key: the same as generate_uuid5({'column': value, ...}) of Weaviate's Python
// client, with the columns in the order of the key. So an index that was filled from Python is kept up by Tidemark
// without new ids.
//
//	UUID5(cdc.Key{{Name: "product_id", Value: int64(7)}}) // f14461fd-128c-5c6c-aede-8e5e06ef19ff
//
// It is the version 5 UUID, in the name space of DNS, of the text that Python's str gives for that dict; the text
// follows Python 3.11 with Unicode 14 to the letter. The order of the columns and the types of the values matter: 1,
// "1", 1.0 and true are four different keys. Values may be nil, bool, any integer type, *big.Int up to 4300 digits,
// float64 and string.
//
// Everything else has no agreed text and is a permanent error that is [ErrKey]: other types (convert them in
// Mapping.Key), text that is not valid UTF-8, an empty key, and a column name that comes twice.
func UUID5(k cdc.Key) (ID, error) {
	name, err := appendDict(append(make([]byte, 0, 96), namespaceDNS...), k)
	if err != nil {
		return "", Permanent(err)
	}
	sum := sha1.Sum(name) //nolint:gosec // see the import
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:], sum[:4])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	hex.Encode(text[9:], sum[4:6])
	hex.Encode(text[14:], sum[6:8])
	hex.Encode(text[19:], sum[8:10])
	hex.Encode(text[24:], sum[10:16])
	return ID(text[:]), nil
}

// appendDict appends Python's str of a dict.
func appendDict(b []byte, k cdc.Key) ([]byte, error) {
	if len(k) == 0 {
		return nil, fmt.Errorf("%w: no columns", ErrKey)
	}
	b = append(b, '{')
	for i, c := range k {
		for _, before := range k[:i] {
			if before.Name == c.Name {
				return nil, fmt.Errorf("%w: column %q twice", ErrKey, c.Name)
			}
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		if !utf8.ValidString(c.Name) {
			return nil, fmt.Errorf("%w: the name of column %d is not valid UTF-8", ErrKey, i)
		}
		b = append(appendString(b, c.Name), ": "...)
		var reason string
		if b, reason = appendValue(b, c.Value); reason != "" {
			return nil, fmt.Errorf("%w: column %q: %s", ErrKey, c.Name, reason)
		}
	}
	return append(b, '}'), nil
}

// appendValue appends Python's repr of a value, or returns the reason why there is none.
func appendValue(b []byte, v any) (out []byte, reason string) {
	switch v := v.(type) {
	case nil:
		return append(b, "None"...), ""
	case bool:
		if v {
			return append(b, "True"...), ""
		}
		return append(b, "False"...), ""
	case string:
		if !utf8.ValidString(v) {
			return nil, "text is not valid UTF-8"
		}
		return appendString(b, v), ""
	case float64:
		return appendFloat(b, v), ""
	case *big.Int:
		return appendBig(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10), ""
	case int, int8, int16, int32, uint, uint8, uint16, uint32, uint64:
		return fmt.Append(b, v), ""
	}
	return nil, fmt.Sprintf("a value of type %T has no defined text; use nil, bool, an integer, float64 or string", v)
}

func appendBig(b []byte, v *big.Int) (out []byte, reason string) {
	if v == nil {
		return nil, "a *big.Int is nil; use nil"
	}
	const bitsPerDigit = 3.33 // a little more than log2(10), so that a huge number is refused without computing its text
	before := len(b)
	if v.BitLen() <= maxIntDigits*bitsPerDigit {
		b = v.Append(b, 10)
	}
	if digits := len(strings.TrimPrefix(string(b[before:]), "-")); digits == 0 || digits > maxIntDigits {
		return nil, fmt.Sprintf("an integer of more than %d digits", maxIntDigits)
	}
	return b, ""
}

// appendFloat follows float_repr_style 'short': the fewest digits that read back as f, with an exponent from 1e16 on
// and below 1e-4.
func appendFloat(b []byte, f float64) []byte {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	before := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	if !strings.Contains(string(b[before:]), ".") {
		b = append(b, ".0"...)
	}
	return b
}

// appendString appends Python's repr of a string.
func appendString(b []byte, s string) []byte {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	b = utf8.AppendRune(b, quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case printable(r):
			b = utf8.AppendRune(b, r)
		case r <= 0xff:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return utf8.AppendRune(b, quote)
}
