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
// milliseconds, and their thousandfold in microseconds; nanoseconds overflow to the ends of int64. Dates overflow: streamed ones to two
// neighbours far in the past, those of snapshots to others, which the time zone of the connector moves by a day.
const (
	infinityMillis         = 9223372036825200
	negativeInfinityMillis = -9223372036832400
	infinityDays           = -2147472692
	infinitySnapshotDays   = -622191234
	firstDay               = -2440588   // 4714-11-24 BC
	lastDay                = 2145042905 // 5874897-12-31
	// negativeInfinityYear is where snapshots see -infinity in mode isostring, without its era.
	negativeInfinityYear = 292269055
)

// infiniteDay tells a day that no date of Postgres can be, and its sign.
func infiniteDay(n int64) (time.Time, bool) {
	switch {
	case n > lastDay, n == infinityDays, n >= infinitySnapshotDays-1 && n <= infinitySnapshotDays+1:
		return Infinity, true
	case n < firstDay:
		return NegativeInfinity, true
	}
	return time.Time{}, false
}

// timeOf returns the time that is n units after 1970-01-01 UTC.
func timeOf(n int64, u unit) time.Time {
	if u == unitDays {
		if t, ok := infiniteDay(n); ok {
			return t
		}
	}
	switch {
	case u == unitMillis && n == infinityMillis,
		u == unitMicros && n == infinityMillis*1000,
		u == unitNanos && n == math.MaxInt64:
		return Infinity
	case u == unitMillis && n == negativeInfinityMillis,
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
	date, rest, ok := cutDate(s, negative)
	if !ok {
		return time.Time{}, false
	}
	var clock, offset time.Duration
	if rest != "" && (rest[0] == 'T' || rest[0] == ' ') {
		if clock, rest, ok = cutClock(rest[1:]); !ok {
			return time.Time{}, false
		}
	}
	if offset, ok = parseOffset(rest); !ok {
		return time.Time{}, false
	}
	// In mode isostring infinities are written as what they are in numbers.
	if date.Year() == negativeInfinityYear {
		return NegativeInfinity, true
	}
	if t, ok := infiniteDay(floorDiv(date.Unix(), 24*60*60)); ok {
		return t, true
	}
	t := date.Add(clock - offset)
	switch {
	case t.Equal(time.UnixMilli(infinityMillis)):
		return Infinity, true
	case t.Equal(time.UnixMilli(negativeInfinityMillis)):
		return NegativeInfinity, true
	}
	return t, true
}

func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}

// cutDate reads yyyy-mm-dd with up to nine digits of year, whose sign was cut off before.
func cutDate(s string, negative bool) (date time.Time, rest string, ok bool) {
	dash := strings.IndexByte(s, '-')
	if dash < 4 || dash > 9 || len(s) < dash+6 || s[dash+3] != '-' {
		return time.Time{}, "", false
	}
	year, ok1 := atoi(s[:dash])
	month, ok2 := atoi(s[dash+1 : dash+3])
	day, ok3 := atoi(s[dash+4 : dash+6])
	if negative {
		year = -year
	}
	date = time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	ok = ok1 && ok2 && ok3 && int(date.Month()) == month && date.Day() == day
	return date, s[dash+6:], ok
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

// atoi reads digits alone.
func atoi(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil
}
