package tokenizer

import (
	"math"
	"strconv"
	"strings"
	"sync"
)

// parseScore reads a number of a tokenizer.json as the original does, whose JSON reader (serde_json, without its feature
// float_roundtrip) is fast and not exact: the digits become a whole number of up to 64 bits, which is rounded to a float64 and
// then divided by a power of ten and rounded again. The last bit of a score decides between segmentations of nearly the same sum,
// such as those of one character many times.
func parseScore(number string) float64 {
	digits, negative := strings.CutPrefix(number, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(digits), "e")
	exponent := 0
	if power != "" {
		exponent, _ = strconv.Atoi(power) // what is too large stays so: the ends of int
	}
	exponent = max(min(exponent, math.MaxInt32), math.MinInt32)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	significand, n := digitsOf(0, whole)
	exponent += len(whole) - n
	significand, n = digitsOf(significand, fraction)
	exponent -= n
	score := float64(significand)
	for exponent < -maxPower && score != 0 {
		score /= powersOfTen()[maxPower]
		exponent += maxPower
	}
	if exponent < 0 {
		score /= powersOfTen()[min(-exponent, maxPower)]
	} else {
		score *= powersOfTen()[min(exponent, maxPower)]
	}
	if negative {
		return -score
	}
	return score
}

// digitsOf appends digits to a number, as many as 64 bits hold, and returns how many these are.
func digitsOf(number uint64, digits string) (uint64, int) {
	for i, c := range []byte(digits) {
		d := uint64(c - '0')
		if number > (math.MaxUint64-d)/10 {
			return number, i
		}
		number = number*10 + d
	}
	return number, len(digits)
}

const maxPower = 308

// powersOfTen are the powers of ten from 0 to maxPower, each as exact as a float64 is.
var powersOfTen = sync.OnceValue(func() (powers [maxPower + 1]float64) {
	for i := range powers {
		powers[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i), 64)
	}
	return powers
})
