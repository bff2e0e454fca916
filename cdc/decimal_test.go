package cdc

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestDecimal(t *testing.T) {
	for _, tc := range []struct {
		text, plain string
		float       float64
		whole       string // empty for fractions
	}{
		{"12.50", "12.50", 12.5, ""},
		{"-0.05", "-0.05", -0.05, ""},
		{"0", "0", 0, "0"},
		{"-7", "-7", -7, "-7"},
		{"7.000", "7.000", 7, "7"},
		{"1e3", "1000", 1000, "1000"},
		{"0e3", "0", 0, "0"},
		{"1.5E-3", "0.0015", 0.0015, ""},
		{"1e400", "1" + strings.Repeat("0", 400), math.Inf(1), "1" + strings.Repeat("0", 400)},
		{"123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789", 1.2345678901234568e29, ""},
	} {
		d := *decimal(tc.text)
		text, err := json.Marshal(d)
		if d.String() != tc.plain || err != nil || string(text) != `"`+tc.plain+`"` || d.Float64() != tc.float {
			t.Errorf("%s: %v, %s, %v, %v", tc.text, d, text, err, d.Float64())
		}
		whole, ok := d.Int()
		if ok != (tc.whole != "") || ok && whole.String() != tc.whole {
			t.Errorf("%s: whole %v, %v", tc.text, whole, ok)
		}
		want, _ := new(big.Rat).SetString(tc.text)
		if d.Rat().Cmp(want) != 0 {
			t.Errorf("%s: fraction %v", tc.text, d.Rat())
		}
	}
	var zero Decimal
	if n, ok := zero.Int(); zero.String() != "0" || zero.Rat().Sign() != 0 || zero.Float64() != 0 || n.Sign() != 0 || !ok {
		t.Errorf("the zero value is %v", zero)
	}
	for _, bad := range []string{"", "-", ".5", "5.", "1e", "1e1.5", "+-1", "1_000", "0x1", "nan", "1e140001", "1e-20001", strings.Repeat("1", maxDigits+1)} {
		if err := new(Decimal).UnmarshalText([]byte(bad)); err == nil || len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestDecimalEqual(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"1.50", "1.5", true},
		{"1500", "1.5e3", true},
		{"-1.5", "1.5", false},
		{"0", "0.000e9", true},
		{"0", "1e-9", false},
		{"1e100000", "1e-10000", false},
	} {
		if a, b := *decimal(tc.a), *decimal(tc.b); a.equal(b) != tc.want || b.equal(a) != tc.want {
			t.Errorf("%s and %s: not %v", tc.a, tc.b, tc.want)
		}
	}
}
