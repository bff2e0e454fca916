package cdc

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Infinity and NegativeInfinity are what Postgres's dates and timestamps infinity and -infinity become in a time.Time: the years
// 1,000,000,000 and -1,000,000,000 in UTC, beyond everything that Postgres can store, so that Before and After order them.
var (
	Infinity         = time.Date(1_000_000_000, 1, 1, 0, 0, 0, 0, time.UTC)
	NegativeInfinity = time.Date(-1_000_000_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// unit is what a number that stands for a time or a duration counts.
type unit int64

const (
	unitNone    unit = 0
	unitNanos        = unit(time.Nanosecond)
	unitMicros       = unit(time.Microsecond)
	unitMillis       = unit(time.Millisecond)
	unitSeconds      = unit(time.Second)
	unitDays         = unit(24 * time.Hour)
)

// unitNames are the names of the tag's unit option.
var unitNames = map[string]unit{
	"ns": unitNanos, "us": unitMicros, "ms": unitMillis, "s": unitSeconds, "days": unitDays,
	"nano": unitNanos, "micro": unitMicros, "milli": unitMillis, "second": unitSeconds, "day": unitDays,
}

// Debezium's infinities. Timestamps: PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of the Postgres driver, in
// milliseconds, and their thousandfold in microseconds; nanoseconds overflow to the ends of int64. Dates overflow to two small numbers
// of days when they are streamed; snapshots write other days, which are all outside what a Postgres date can be.
const (
	infinityMillis         = 9223372036825200
	negativeInfinityMillis = -9223372036832400
	infinityDays           = -2147472692
	firstDay               = -2440588   // 4714-11-24 BC
	lastDay                = 2145042905 // 5874897-12-31
)

// timeOf returns the time that is n units after 1970-01-01 UTC.
func timeOf(n int64, u unit) time.Time {
	switch {
	case u == unitDays && (n > lastDay || n == infinityDays),
		u == unitMillis && n == infinityMillis,
		u == unitMicros && n == infinityMillis*1000,
		u == unitNanos && n == math.MaxInt64:
		return Infinity
	case u == unitDays && n < firstDay,
		u == unitMillis && n == negativeInfinityMillis,
		u == unitMicros && n == negativeInfinityMillis*1000,
		u == unitNanos && n == math.MinInt64:
		return NegativeInfinity
	}
	switch u {
	case unitDays:
		return time.Unix(n*24*60*60, 0).UTC()
	case unitMillis:
		return time.UnixMilli(n).UTC()
	case unitMicros:
		return time.UnixMicro(n).UTC()
	case unitNanos:
		return time.Unix(0, n).UTC()
	}
	return time.Unix(n, 0).UTC()
}

// durationOf returns n units, and whether they fit a time.Duration.
func durationOf(n int64, u unit) (time.Duration, bool) {
	d := n * int64(u)
	return time.Duration(d), n == 0 || d/n == int64(u)
}

// parseTime reads an ISO 8601 date or timestamp as Debezium writes them: 2026-02-28, 2017-09-15Z, 2026-02-28T07:00:00.123456Z, years
// of more digits with a sign, offsets, and the infinities. Without an offset it is UTC.
func parseTime(s string) (time.Time, bool) {
	switch s {
	case "infinity":
		return Infinity, true
	case "-infinity":
		return NegativeInfinity, true
	}
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	dash := strings.IndexByte(s, '-')
	if dash < 4 || dash > 9 || len(s) < dash+6 {
		return time.Time{}, false
	}
	year, ok := atoi(s[:dash])
	if negative {
		year = -year
	}
	month, ok1 := atoi(s[dash+1 : dash+3])
	day, ok2 := atoi(s[dash+4 : dash+6])
	if !ok || !ok1 || !ok2 || s[dash+3] != '-' {
		return time.Time{}, false
	}
	rest := s[dash+6:]
	var clock, offset time.Duration
	if rest != "" && (rest[0] == 'T' || rest[0] == ' ') {
		if clock, rest, ok = cutClock(rest[1:]); !ok {
			return time.Time{}, false
		}
	}
	if offset, ok = parseOffset(rest); !ok {
		return time.Time{}, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Year() != year || int(date.Month()) != month || date.Day() != day {
		return time.Time{}, false
	}
	return date.Add(clock - offset), true
}

// parseClock reads a time of day, as the duration since midnight UTC: 09:51:30.123789Z.
func parseClock(s string) (time.Duration, bool) {
	clock, rest, ok := cutClock(s)
	if !ok {
		return 0, false
	}
	offset, ok := parseOffset(rest)
	return clock - offset, ok
}

// cutClock reads hh:mm, hh:mm:ss or hh:mm:ss.f with up to nine digits, to 24:00:00.
func cutClock(s string) (clock time.Duration, rest string, ok bool) {
	if len(s) < 5 || s[2] != ':' {
		return 0, "", false
	}
	hours, ok1 := atoi(s[:2])
	minutes, ok2 := atoi(s[3:5])
	clock = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	ok, s = ok1 && ok2 && minutes < 60, s[5:]
	if len(s) >= 3 && s[0] == ':' {
		seconds, ok3 := atoi(s[1:3])
		clock += time.Duration(seconds) * time.Second
		ok, s = ok && ok3 && seconds < 60, s[3:]
		if len(s) > 1 && s[0] == '.' {
			digits := len(s[1:]) - len(strings.TrimLeft(s[1:], "0123456789"))
			if digits == 0 || digits > 9 {
				return 0, "", false
			}
			nanos, _ := atoi((s[1:1+digits] + "00000000")[:9])
			clock += time.Duration(nanos)
			s = s[1+digits:]
		}
	}
	return clock, s, ok && clock <= 24*time.Hour
}

// parseOffset reads "", Z, +hh, +hh:mm or +hh:mm:ss.
func parseOffset(s string) (time.Duration, bool) {
	if s == "" || s == "Z" {
		return 0, true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	parts := strings.Split(s[1:], ":")
	if len(parts) > 3 {
		return 0, false
	}
	var offset time.Duration
	scale := time.Hour
	for _, part := range parts {
		n, ok := atoi(part)
		if !ok || len(part) != 2 || n >= 60 {
			return 0, false
		}
		offset += time.Duration(n) * scale
		scale /= 60
	}
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// parseInterval reads an ISO 8601 duration without years and months, which have no fixed length: P0Y0M3DT4H5M6.78S. A day is 24 hours.
func parseInterval(s string) (time.Duration, bool) {
	date, clock, _ := strings.Cut(s, "T")
	if !strings.HasPrefix(date, "P") {
		return 0, false
	}
	total, count := Decimal{}.Rat(), 0
	add := func(part string, seconds map[byte]int64) bool {
		for part != "" {
			n := strings.IndexFunc(part, func(r rune) bool { return r >= 'A' })
			if n <= 0 {
				return false
			}
			amount, ok := parseDecimal([]byte(part[:n]))
			each, known := seconds[part[n]]
			if !ok || !known || n > 30 || each == 0 && amount.Unscaled.Sign() != 0 {
				return false
			}
			unitLength := Decimal{Unscaled: bigInt(each)}.Rat()
			total.Add(total, unitLength.Mul(unitLength, amount.Rat()))
			part = part[n+1:]
			count++
		}
		return true
	}
	if !add(date[1:], map[byte]int64{'Y': 0, 'M': 0, 'W': 7 * 86400, 'D': 86400}) ||
		!add(clock, map[byte]int64{'H': 3600, 'M': 60, 'S': 1}) || count == 0 {
		return 0, false
	}
	total.Mul(total, Decimal{Unscaled: bigInt(1e9)}.Rat())
	if !total.IsInt() || !total.Num().IsInt64() {
		return 0, false
	}
	return time.Duration(total.Num().Int64()), true
}

// atoi reads digits alone.
func atoi(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil
}
