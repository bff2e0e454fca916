package cdc

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Interval is a Postgres interval. Months, days and the time stay apart, since a month and a day have no fixed length. Where the
// connector's interval.handling.mode is numeric, months and days are lost: Debezium counts 30.4375 days a month.
type Interval struct {
	Months, Days int32
	Microseconds int64
}

var errInterval = errors.New("cdc: not an ISO 8601 duration within the bounds of Postgres's interval")

// Duration returns the interval as one duration with days of 24 hours, and whether it is one: it has no months, and fits.
func (i Interval) Duration() (time.Duration, bool) {
	days, okDays := durationOf(int64(i.Days), unitDays)
	micros, okMicros := durationOf(i.Microseconds, unitMicros)
	sum := days + micros
	return sum, okDays && okMicros && i.Months == 0 && (micros == 0 || (sum > days) == (micros > 0))
}

// String returns ISO 8601 text as Postgres writes it in the interval style iso_8601: P1Y2M3DT4H5M6.78S, PT0S.
func (i Interval) String() string {
	if i == (Interval{}) {
		return "PT0S"
	}
	b := []byte{'P'}
	part := func(n int64, letter byte) {
		if n != 0 {
			b = append(strconv.AppendInt(b, n, 10), letter)
		}
	}
	part(int64(i.Months/12), 'Y')
	part(int64(i.Months%12), 'M')
	part(int64(i.Days), 'D')
	if i.Microseconds == 0 {
		return string(b)
	}
	b = append(b, 'T')
	part(i.Microseconds/3_600_000_000, 'H')
	part(i.Microseconds/60_000_000%60, 'M')
	if rest := i.Microseconds % 60_000_000; rest != 0 {
		if rest < 0 {
			b, rest = append(b, '-'), -rest
		}
		b = strconv.AppendInt(b, rest/1_000_000, 10)
		if fraction := rest % 1_000_000; fraction != 0 {
			digits := strconv.FormatInt(1_000_000+fraction, 10)[1:]
			b = append(append(b, '.'), strings.TrimRight(digits, "0")...)
		}
		b = append(b, 'S')
	}
	return string(b)
}

// MarshalText returns String.
func (i Interval) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads ISO 8601 text, whose parts may be negative each by itself. Only seconds may have a fraction, of up to nine digits,
// which is rounded to microseconds.
func (i *Interval) UnmarshalText(text []byte) error {
	parsed, ok := parseInterval(string(text))
	if !ok {
		return errInterval
	}
	*i = parsed
	return nil
}

// intervalUnit says what a letter counts: months, days or microseconds, and how many of them.
type intervalUnit struct {
	part int
	each int64
}

const (
	partMonths = iota
	partDays
	partMicros
)

var (
	dateUnits  = map[byte]intervalUnit{'Y': {partMonths, 12}, 'M': {partMonths, 1}, 'W': {partDays, 7}, 'D': {partDays, 1}}
	clockUnits = map[byte]intervalUnit{'H': {partMicros, 3_600_000_000}, 'M': {partMicros, 60_000_000}, 'S': {partMicros, 1_000_000}}
)

// parseInterval reads P1Y2M1W3DT4H5M6.78S.
func parseInterval(s string) (Interval, bool) {
	date, clock, timed := strings.Cut(s, "T")
	if !strings.HasPrefix(date, "P") || timed == (clock == "") || s == "P" {
		return Interval{}, false
	}
	var parts [3]int64
	if !addParts(&parts, date[1:], dateUnits) || !addParts(&parts, clock, clockUnits) {
		return Interval{}, false
	}
	i := Interval{int32(parts[partMonths]), int32(parts[partDays]), parts[partMicros]}
	return i, int64(i.Months) == parts[partMonths] && int64(i.Days) == parts[partDays]
}

func addParts(parts *[3]int64, text string, units map[byte]intervalUnit) bool {
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return r >= 'A' })
		if end <= 0 {
			return false
		}
		unit, known := units[text[end]]
		whole, fraction, point := strings.Cut(text[:end], ".")
		n, err := strconv.ParseInt(whole, 10, 64)
		amount := n * unit.each
		if !known || err != nil || amount/unit.each != n {
			return false
		}
		if point {
			nanos, ok := atoi((fraction + "00000000")[:min(9, len(fraction)+8)])
			if !ok || text[end] != 'S' || len(fraction) == 0 || len(fraction) > 9 {
				return false
			}
			micros := (nanos + 500) / 1000 // Debezium computes in floating point: 5.828541 seconds may come as 5.828540999
			if whole[0] == '-' {
				micros = -micros
			}
			amount += int64(micros)
		}
		sum := parts[unit.part] + amount
		if amount != 0 && (sum > parts[unit.part]) != (amount > 0) {
			return false
		}
		parts[unit.part], text = sum, text[end+1:]
	}
	return true
}

func intervalCodec(f format) codec {
	return codec{fits: fitsUnit(f, fitsInterval), set: func(dst reflect.Value, v value, w *wireType) *mismatch {
		var i Interval
		ok := false
		switch v.kind {
		case kindNumber:
			n, u, bad := numberUnit(v, w, f)
			if bad != nil {
				return bad
			}
			i, ok = intervalOf(n, u)
		case kindString:
			i, ok = parseInterval(v.text())
		case kindObject:
			var s structured
			if s, ok = readStructured(v); ok {
				i, ok = s.interval()
			}
		}
		if !ok {
			return mismatchf("%v is no interval", v.kind)
		}
		*dst.Addr().Interface().(*Interval) = i
		return nil
	}}
}

// intervalOf returns n units as an interval without months, and whether they are whole microseconds that fit.
func intervalOf(n int64, u unit) (Interval, bool) {
	switch u {
	case unitDays:
		return Interval{Days: int32(n)}, int64(int32(n)) == n
	case unitNanos:
		return Interval{Microseconds: n / 1000}, n%1000 == 0
	}
	each := int64(u) / int64(unitMicros)
	micros := n * each
	return Interval{Microseconds: micros}, micros/each == n
}
