package cdc

import (
	"encoding/base64"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is an exact decimal number, Unscaled / 10^Scale. It is what a numeric column becomes in a Row, and a field may have this
// type. The zero value is 0.
type Decimal struct {
	// Unscaled holds all digits; nil means 0.
	Unscaled *big.Int
	// Scale is how many of the digits stand behind the decimal point; negative for multiples of powers of ten.
	Scale int
	// Form is Finite for numbers, and one of the others for what a numeric of Postgres may hold besides; then there are no digits.
	Form Form
}

// Form says whether a Decimal is a number.
type Form uint8

// The forms. The last two come after and before all numbers, NaN after all else, as Postgres sorts them.
const (
	Finite Form = iota
	NaN
	PlusInfinity
	MinusInfinity
)

// The bounds of decimals: those of Postgres's numeric (131072 digits before the decimal point, 16383 after it) with some room. They
// keep a few bytes of input from becoming gigabytes of digits.
const (
	maxScale  = 20_000
	minScale  = -140_000
	maxDigits = 160_000
	// maxElementScale and maxElementDigits are the bounds for what a message may have millions of, such as the elements of arrays. The
	// largest precision and scale that a column can be declared with is 1000.
	maxElementScale  = 1100
	maxElementDigits = 4096
)

var errDecimal = errors.New("cdc: not a decimal number within the bounds of Postgres's numeric")

// String returns plain decimal text, with Scale digits behind the point: 12.50; or NaN, Infinity or -Infinity.
func (d Decimal) String() string {
	switch d.Form {
	case NaN:
		return "NaN"
	case PlusInfinity:
		return "Infinity"
	case MinusInfinity:
		return "-Infinity"
	}
	if d.Unscaled == nil {
		d.Unscaled = new(big.Int)
	}
	digits := d.Unscaled.String()
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	switch {
	case d.Scale > 0:
		if missing := d.Scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		point := len(digits) - d.Scale
		digits = digits[:point] + "." + digits[point:]
	case d.Scale < 0 && digits != "0":
		digits += strings.Repeat("0", -d.Scale)
	}
	return sign + digits
}

// Rat returns the number as a fraction. It is 0 for what is not Finite.
func (d Decimal) Rat() *big.Rat {
	if d.Unscaled == nil {
		return new(big.Rat)
	}
	if d.Scale <= 0 {
		return new(big.Rat).SetInt(new(big.Int).Mul(d.Unscaled, tenTo(-d.Scale)))
	}
	return new(big.Rat).SetFrac(d.Unscaled, tenTo(d.Scale))
}

// Float64 returns the nearest float64, an infinity beyond its range.
func (d Decimal) Float64() float64 {
	switch d.Form {
	case NaN:
		return math.NaN()
	case PlusInfinity:
		return math.Inf(1)
	case MinusInfinity:
		return math.Inf(-1)
	}
	f, _ := strconv.ParseFloat(d.scientific(), 64)
	return f
}

// scientific returns the number as digits and an exponent, which is short whatever the scale.
func (d Decimal) scientific() string {
	if d.Unscaled == nil {
		return "0"
	}
	return d.Unscaled.String() + "e" + strconv.Itoa(-d.Scale)
}

// equal compares two numbers, and takes those for different whose scales are too far apart to be worth the work.
func (d Decimal) equal(e Decimal) bool {
	if d.Unscaled.Sign() == 0 || e.Unscaled.Sign() == 0 {
		return d.Unscaled.Sign() == e.Unscaled.Sign()
	}
	more := d.Scale - e.Scale
	switch {
	case more < 0:
		return e.equal(d)
	case more > maxElementScale:
		return false
	}
	return d.Unscaled.Cmp(new(big.Int).Mul(e.Unscaled, tenTo(more))) == 0
}

// Int returns the number if it is whole, and whether it is.
func (d Decimal) Int() (*big.Int, bool) {
	if d.Unscaled == nil || d.Form != Finite {
		return new(big.Int), d.Form == Finite
	}
	if d.Scale <= 0 {
		return new(big.Int).Mul(d.Unscaled, tenTo(-d.Scale)), true
	}
	whole, rest := new(big.Int).QuoRem(d.Unscaled, tenTo(d.Scale), new(big.Int))
	return whole, rest.Sign() == 0
}

// MarshalText returns String.
func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads decimal text, with or without an exponent; the scale is the number of digits behind the point. It reads what
// String writes.
func (d *Decimal) UnmarshalText(text []byte) error {
	if form, ok := specialForm(text); ok {
		*d = Decimal{Form: form}
		return nil
	}
	parsed, ok := parseDecimal(text)
	if !ok {
		return errDecimal
	}
	*d = parsed
	return nil
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// parseDecimal reads [+-]digits[.digits][e[+-]digits].
func parseDecimal(text []byte) (Decimal, bool) {
	s := string(text)
	scale := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(s[i+1:])
		if err != nil || exponent > -minScale || exponent < -maxScale {
			return Decimal{}, false
		}
		s, scale = s[:i], -exponent
	}
	if len(s) > maxDigits {
		return Decimal{}, false
	}
	whole, fraction, point := strings.Cut(s, ".")
	scale += len(fraction)
	sign := strings.TrimLeft(whole, "+-")
	if len(whole)-len(sign) > 1 || point && fraction == "" || sign == "" || strings.Trim(sign+fraction, "0123456789") != "" {
		return Decimal{}, false
	}
	if scale > maxScale || scale < minScale {
		return Decimal{}, false
	}
	unscaled, ok := new(big.Int).SetString(whole+fraction, 10)
	return Decimal{Unscaled: unscaled, Scale: scale}, ok
}

// decimalOf reads an unscaled number, base64 of its big-endian two's complement, as Connect's Decimal writes it.
func decimalOf(encoded []byte, scale int) (Decimal, *mismatch) {
	if scale > maxScale || scale < minScale {
		return Decimal{}, mismatchf("a decimal's scale of %d is out of bounds", scale)
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil || len(raw) == 0 || len(raw) > maxDigits/2 {
		return Decimal{}, mismatchf("not a base64 decimal within bounds")
	}
	n := new(big.Int).SetBytes(raw)
	if raw[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(raw))*8))
	}
	return Decimal{Unscaled: n, Scale: scale}, nil
}

// variableDecimal reads io.debezium.data.VariableScaleDecimal: {"scale":4,"value":"AYr3"}. ok is false if v is of another shape.
func variableDecimal(v value) (d Decimal, ok bool, bad *mismatch) {
	var scale, unscaled value
	count := 0
	if v.kind != kindObject {
		return d, false, nil
	}
	_ = members(v, func(name, member value) error {
		count++
		switch string(name.bytes()) {
		case "scale":
			scale = member
		case "value":
			unscaled = member
		}
		return nil
	})
	if count != 2 || scale.kind != kindNumber || !scale.integer || unscaled.kind != kindString {
		return d, false, nil
	}
	n, err := strconv.Atoi(string(scale.raw))
	if err != nil {
		return d, true, mismatchf("a decimal's scale is out of bounds")
	}
	d, bad = decimalOf(unscaled.bytes(), n)
	return d, true, bad
}
