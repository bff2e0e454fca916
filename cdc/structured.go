package cdc

import (
	"strings"
	"time"
)

// structured are the members of io.debezium.time.Structured*: what the time mode structured makes of dates, times and intervals.
type structured struct {
	numbers map[string]int64
	special string
}

// The members of each type that must be there.
var (
	dateMembers  = []string{"year", "month", "day"}
	clockMembers = []string{"hour", "minute", "second"}
)

// readStructured reads an object of numbers, nulls and the two texts that such objects have.
func readStructured(v value) (structured, bool) {
	s := structured{numbers: make(map[string]int64, 8)}
	ok := v.kind == kindObject
	if !ok {
		return s, false
	}
	_ = members(v, func(name, member value) error {
		switch text := string(name.bytes()); {
		case member.kind == kindNull:
		case text == "specialValue" && member.kind == kindString:
			s.special = member.text()
		case text == "zoneId" && member.kind == kindString: // the offset says the same
		default:
			n, whole := member.int64()
			ok = ok && whole
			s.numbers[text] = n
		}
		return nil
	})
	return s, ok
}

func (s structured) has(names []string) bool {
	for _, name := range names {
		if _, ok := s.numbers[name]; !ok {
			return false
		}
	}
	return true
}

// fraction returns the part below a second; what is below a nanosecond is cut, as Postgres has none.
func (s structured) fraction() time.Duration {
	if n, ok := s.numbers["picoseconds"]; ok {
		return time.Duration(n / 1000)
	}
	return time.Duration(s.numbers["nanos"])
}

// time returns a date or timestamp in UTC.
func (s structured) time() (time.Time, bool) {
	switch s.special {
	case "POSITIVE_INFINITY":
		return Infinity, true
	case "NEGATIVE_INFINITY":
		return NegativeInfinity, true
	case "":
	default:
		return time.Time{}, false
	}
	year, month, day := s.numbers["year"], s.numbers["month"], s.numbers["day"]
	if !s.has(dateMembers) || max(year, -year) > 999_999_999 {
		return time.Time{}, false
	}
	date := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if int64(date.Month()) != month || int64(date.Day()) != day {
		return time.Time{}, false
	}
	clock, ok := s.clock()
	return date.Add(clock), ok
}

// clock returns the time since midnight UTC.
func (s structured) clock() (time.Duration, bool) {
	hour, minute, second, offset := s.numbers["hour"], s.numbers["minute"], s.numbers["second"], s.numbers["offsetSeconds"]
	fraction := s.fraction()
	if uint64(hour) > 24 || uint64(minute) > 59 || uint64(second) > 59 || max(offset, -offset) > 24*3600 || fraction < 0 || fraction >= time.Second {
		return 0, false
	}
	return time.Duration((hour*60+minute)*60+second-offset)*time.Second + fraction, true
}

// interval returns a duration.
func (s structured) interval() (Interval, bool) {
	i := Interval{Days: int32(s.numbers["days"])}
	months := s.numbers["years"]*12 + s.numbers["months"]
	i.Months = int32(months)
	hours, minutes, seconds := s.numbers["hours"], s.numbers["minutes"], s.numbers["seconds"]
	const most = 1 << 42 // seconds, so that microseconds fit
	if s.special != "" || int64(i.Months) != months || int64(i.Days) != s.numbers["days"] || max(hours, -hours) > most/3600 ||
		max(minutes, -minutes) > most || max(seconds, -seconds) > most {
		return i, false
	}
	i.Microseconds = ((hours*60+minutes)*60+seconds)*1_000_000 + int64(s.fraction()/time.Microsecond)
	return i, true
}

// structuredClass tells the types by their names, behind which the connector may write a precision and a column.
func structuredClass(name string) class {
	rest, ok := strings.CutPrefix(name, "io.debezium.time.Structured")
	switch {
	case !ok:
	case strings.HasPrefix(rest, "Date"), strings.HasPrefix(rest, "Timestamp"), strings.HasPrefix(rest, "ZonedTimestamp"):
		return classStructuredInstant
	case strings.HasPrefix(rest, "Time"), strings.HasPrefix(rest, "ZonedTime"):
		return classStructuredClock
	case strings.HasPrefix(rest, "Duration"):
		return classStructuredDuration
	}
	return classUnknown
}
