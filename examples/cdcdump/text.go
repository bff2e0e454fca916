package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/cdc"
)

// verbs name the operations for people.
var verbs = map[cdc.Op]string{cdc.OpCreate: "INSERT", cdc.OpUpdate: "UPDATE", cdc.OpDelete: "DELETE", cdc.OpRead: "READ"}

// appendText appends the report for people: what happened to which key, a line for each column that matters, and where and when it
// was. Nothing in it can control a terminal.
func appendText(b []byte, r *report) []byte {
	e := &r.event
	verb := verbs[e.Op]
	if r.kind != kindChange {
		verb = strings.ToUpper(r.kind)
	}
	place := e.Record.Topic[strings.LastIndexByte(e.Record.Topic, '/')+1:]
	if e.Source.Table != "" {
		place = strings.TrimPrefix(e.Source.Schema+"."+e.Source.Table, ".")
	}
	line := []string{verb, strings.Trim(strconv.Quote(place), `"`), keyText(r.key)}
	if r.oldKey != nil {
		line = append(line, "(the key was "+keyText(r.oldKey)+")")
	}
	if r.newKey != nil {
		line = append(line, "(the key becomes "+keyText(r.newKey)+")")
	}
	b = append(b, strings.TrimRight(strings.Join(line, " "), " ")...)
	b = append(b, '\n')
	for _, detail := range details(r) {
		b = append(append(append(b, "    "...), detail...), '\n')
	}
	return b
}

func details(r *report) []string {
	var lines []string
	e := &r.event
	changed, known := e.Changed()
	switch {
	case r.boundary != nil:
		lines = boundaryText(r.boundary)
	case e.Message != nil:
		lines = []string{contentText(e.Message.Content)}
	case e.Op == cdc.OpUpdate && e.Before != nil && known:
		for _, name := range changed {
			before, _ := e.Before.Get(name)
			after, _ := e.After.Get(name)
			lines = append(lines, fmt.Sprintf("%s: %s → %s", shownName(name), shown(before), shown(after)))
		}
		if len(changed) == 0 {
			lines = append(lines, "nothing changed")
		}
	case e.After != nil:
		lines = rowText(*e.After, r.key)
		if e.Op == cdc.OpUpdate {
			lines = append(lines, "(which of these changed is not known: the row before is not in the message)")
		}
	case e.Before != nil:
		lines = rowText(*e.Before, r.key)
	}
	if names := e.UnavailableColumns(); names != nil {
		for i := range names {
			names[i] = shownName(names[i])
		}
		lines = append(lines, "unavailable, and as before: "+strings.Join(names, ", "))
	}
	if where := whereText(r); where != "" {
		lines = append(lines, where)
	}
	return lines
}

// rowText writes the columns that are not in the key, those that are NULL on one line.
func rowText(row, key cdc.Row) []string {
	var lines, nulls []string
	for _, column := range row {
		switch _, isKey := key.Get(column.Name); {
		case isKey:
		case column.Value == nil:
			nulls = append(nulls, shownName(column.Name))
		default:
			lines = append(lines, shownName(column.Name)+": "+shown(column.Value))
		}
	}
	if nulls != nil {
		lines = append(lines, "NULL: "+strings.Join(nulls, ", "))
	}
	return lines
}

func contentText(content []byte) string {
	if utf8.Valid(content) {
		return shown(string(content))
	}
	return shown(content)
}

func keyText(key cdc.Row) string {
	var parts []string
	for _, column := range key {
		parts = append(parts, shownName(column.Name)+"="+shown(column.Value))
	}
	return strings.Join(parts, " ")
}

func boundaryText(t *cdc.TransactionBoundary) []string {
	if !t.End {
		return []string{"BEGIN " + shownName(t.ID)}
	}
	lines := []string{fmt.Sprintf("END %s: %d events", shownName(t.ID), t.Events)}
	for _, name := range slices.Sorted(maps.Keys(t.Collections)) {
		lines = append(lines, fmt.Sprintf("%s: %d", shownName(name), t.Collections[name]))
	}
	return lines
}

// whereText writes position, transaction, time and lag: the time from the commit until the message was published, or else until the
// connector had it.
func whereText(r *report) string {
	e := &r.event
	var parts []string
	if lsn := e.Source.LSN; lsn != 0 {
		parts = append(parts, fmt.Sprintf("at %X/%X", lsn>>32, lsn&0xffffffff))
	}
	if e.Record.Offset != "" {
		parts = append(parts, "message "+shownName(e.Record.Offset))
	}
	if t := e.Transaction; t != nil {
		parts = append(parts, fmt.Sprintf("transaction %s, its event %d", shownName(t.ID), t.TotalOrder))
	}
	if !r.time.IsZero() {
		parts = append(parts, timeText(r.time))
	}
	seen := e.Record.PublishTime
	if seen.IsZero() {
		seen = e.ProcessedTime
	}
	if committed := e.Source.CommitTime; !seen.IsZero() && !committed.IsZero() {
		parts = append(parts, "lag "+seen.Sub(committed).Round(time.Millisecond).String())
	}
	return strings.Join(parts, ", ")
}

// maxShown is how many characters of a value are shown.
const maxShown = 72

// shown writes a value on one line, cut where it is long.
func shown(value any) string {
	var text string
	var size int
	switch v := value.(type) {
	case nil:
		return "NULL"
	case string:
		size = len(v)
		text = strconv.Quote(v)
	case []byte:
		size = len(v)
		text = fmt.Sprintf(`\x%x`, v[:min(len(v), maxShown)])
	default:
		text = string(appendValue(nil, v))
		if text[0] == '"' {
			text = text[1 : len(text)-1] // of decimals, times and the like
		}
		size = len(text)
	}
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", string([]rune(text)[:maxShown]), size)
}

// shownName writes a name, in quotes where it has anything unusual.
func shownName(name string) string {
	quoted := strconv.Quote(name)
	if name != "" && quoted[1:len(quoted)-1] == name && !strings.ContainsAny(name, " =,") {
		return name
	}
	return quoted
}
