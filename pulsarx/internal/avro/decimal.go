package avro

import (
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"unsafe"
)

// decodeDecimal reads a decimal as a big.Rat, or as text, in the writer's scale; nil where t is neither.
func decodeDecimal(w, r *Schema, t reflect.Type, read func(*decoder) ([]byte, error)) decodeFunc {
	scale := w.Scale
	if w.Logical != Decimal {
		scale = r.Scale
	}
	unscaled := func(d *decoder) (*big.Int, error) {
		b, err := read(d)
		if err != nil {
			return nil, err
		}
		if len(b) > maxDecimal {
			return nil, fmt.Errorf("a decimal of %d bytes", len(b))
		}
		return signed(b), d.spend(scale + 3*len(b))
	}
	switch {
	case t == ratType:
		unit := pow10(scale)
		return func(d *decoder, to unsafe.Pointer) error {
			n, err := unscaled(d)
			if err == nil {
				(*big.Rat)(to).SetFrac(n, unit)
			}
			return err
		}
	case IsText(t):
		return func(d *decoder, to unsafe.Pointer) error {
			n, err := unscaled(d)
			if err != nil {
				return err
			}
			return reflect.NewAt(t, to).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(decimalText(n, scale)))
		}
	case t.Kind() == reflect.String:
		return func(d *decoder, to unsafe.Pointer) error {
			n, err := unscaled(d)
			if err == nil {
				*(*string)(to) = decimalText(n, scale)
			}
			return err
		}
	}
	return nil
}

// maxDecimal bounds the bytes of a decimal, since writing a number as text takes more than linear time.
const maxDecimal = 8 << 10

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// signed is a big-endian number in two's complement.
func signed(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// appendSigned is signed's inverse, with as few bytes as it takes.
func appendSigned(dst []byte, n *big.Int) []byte {
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		size = new(big.Int).Not(n).BitLen()/8 + 1
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	at := len(dst)
	dst = append(dst, make([]byte, size)...)
	n.FillBytes(dst[at:])
	return dst
}

// decimalText writes a number with as many digits behind the point as the scale says.
func decimalText(n *big.Int, scale int) string {
	text := n.String()
	if scale == 0 {
		return text
	}
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if len(text) <= scale {
		text = strings.Repeat("0", scale-len(text)+1) + text
	}
	return sign + text[:len(text)-scale] + "." + text[len(text)-scale:]
}

// unscaledOf is a number in units of the decimal's scale, which must hold it exactly.
func unscaledOf(v *big.Rat, s *Schema) (*big.Int, error) {
	scaled := new(big.Rat).Mul(v, new(big.Rat).SetInt(pow10(s.Scale)))
	if !scaled.IsInt() {
		return nil, fmt.Errorf("a number has more than %d digits behind the point", s.Scale)
	}
	if n := scaled.Num(); new(big.Int).Abs(n).Cmp(pow10(s.Digits)) < 0 {
		return n, nil
	}
	return nil, fmt.Errorf("a number has more than %d digits", s.Digits)
}

// parseDecimal reads plain decimal text, and the exponents of JSON.
func parseDecimal(text string) (*big.Rat, error) {
	if len(text) > maxDecimal || strings.Trim(text, "0123456789+-.eE") != "" {
		return nil, errors.New("not a decimal number")
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exponent, "+-0")) > 4 {
		return nil, errors.New("a decimal's exponent is too large")
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, errors.New("not a decimal number")
	}
	return v, nil
}

var errUUID = errors.New("not a UUID")

// parseUUID reads the 36 characters of a UUID.
func parseUUID(to *[16]byte, text []byte) error {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return errUUID
	}
	digits := make([]byte, 0, 32)
	for _, part := range [][]byte{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		digits = append(digits, part...)
	}
	if _, err := hex.Decode(to[:], digits); err != nil {
		return errUUID
	}
	return nil
}

func appendUUID(dst, b []byte) []byte {
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:16]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}
