package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// timeText returns the time as RFC 3339 in UTC with as many digits as it has. Years that RFC 3339 cannot write are those of ISO 8601's
// expanded form: a sign and at least four digits, where 0000 is 1 BC.
func timeText(t time.Time) string {
	switch t = t.UTC(); {
	case t.Equal(cdc.Infinity):
		return "infinity"
	case t.Equal(cdc.NegativeInfinity):
		return "-infinity"
	}
	year := fmt.Sprintf("%04d", t.Year())
	switch {
	case t.Year() > 9999:
		year = "+" + year
	case t.Year() < 0:
		year = fmt.Sprintf("-%04d", -t.Year())
	}
	return year + t.Format("-01-02T15:04:05.999999999Z")
}

// durationText returns an ISO 8601 duration in hours, minutes and seconds, each with its sign as Postgres writes them.
func durationText(d time.Duration) string {
	if d == 0 {
		return "PT0S"
	}
	var b strings.Builder
	b.WriteString("PT")
	if hours := d / time.Hour; hours != 0 {
		fmt.Fprintf(&b, "%dH", hours)
	}
	if minutes := d % time.Hour / time.Minute; minutes != 0 {
		fmt.Fprintf(&b, "%dM", minutes)
	}
	rest := d % time.Minute
	if rest == 0 {
		return b.String()
	}
	if rest < 0 {
		b.WriteByte('-')
		rest = -rest
	}
	seconds := fmt.Sprintf("%d.%09d", rest/time.Second, rest%time.Second)
	b.WriteString(strings.TrimSuffix(strings.TrimRight(seconds, "0"), "."))
	b.WriteByte('S')
	return b.String()
}
