package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// appendCanonical appends the report as one JSON object and a line feed. Every line has the same members in the same order; columns
// are in the order of the table, the members of other objects sorted.
func appendCanonical(b []byte, r *report) []byte {
	e := &r.event
	changed, known := e.Changed()
	b = append(b, `{"op":`...)
	b = appendString(b, r.op())
	b = append(b, `,"kind":`...)
	b = appendString(b, r.kind)
	b = appendRow(append(b, `,"key":`...), r.key, len(r.key) > 0)
	b = appendImage(append(b, `,"before":`...), e.Before)
	b = appendImage(append(b, `,"after":`...), e.After)
	b = append(b, `,"changed":`...)
	if known {
		b = appendStrings(b, changed)
	} else {
		b = append(b, "null"...)
	}
	b = appendStrings(append(b, `,"unavailable":`...), e.UnavailableColumns())
	b = appendSource(append(b, `,"source":`...), e)
	b = appendTime(append(b, `,"time":`...), r.time)
	b = appendTime(append(b, `,"processed":`...), e.ProcessedTime)
	b = appendTransaction(append(b, `,"transaction":`...), r)
	b = appendMessage(append(b, `,"message":`...), e.Message)
	b = appendRow(append(b, `,"old_key":`...), r.oldKey, len(r.oldKey) > 0)
	b = appendRow(append(b, `,"new_key":`...), r.newKey, len(r.newKey) > 0)
	b = appendString(append(b, `,"topic":`...), e.Record.Topic)
	return append(b, "}\n"...)
}

func appendImage(b []byte, row *cdc.Row) []byte {
	if row == nil {
		return append(b, "null"...)
	}
	return appendRow(b, *row, true)
}

func appendRow(b []byte, row cdc.Row, exists bool) []byte {
	if !exists {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, column := range row {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, column.Name), ':')
		b = appendValue(b, column.Value)
	}
	return append(b, '}')
}

func appendSource(b []byte, e *cdc.Event[cdc.Row]) []byte {
	s := e.Source
	if s == (cdc.Source{}) {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"connector":`...), s.Connector)
	b = appendString(append(b, `,"database":`...), s.Database)
	b = appendString(append(b, `,"schema":`...), s.Schema)
	b = appendString(append(b, `,"table":`...), s.Table)
	b = appendUint(append(b, `,"lsn":`...), s.LSN)
	b = appendUint(append(b, `,"tx_id":`...), s.TxID)
	b = strconv.AppendBool(append(b, `,"snapshot":`...), s.Snapshot)
	b = appendString(append(b, `,"position":`...), e.Position().String())
	return append(b, '}')
}

// appendUint appends null for 0, which is how an event says that it has none.
func appendUint(b []byte, n uint64) []byte {
	if n == 0 {
		return append(b, "null"...)
	}
	return appendInteger(b, strconv.FormatUint(n, 10), n <= maxSafe)
}

func appendTransaction(b []byte, r *report) []byte {
	switch t := r.event.Transaction; {
	case r.boundary != nil:
		return appendBoundary(b, r.boundary)
	case t != nil:
		b = appendString(append(b, `{"id":`...), t.ID)
		b = appendValue(append(b, `,"total_order":`...), t.TotalOrder)
		b = appendValue(append(b, `,"collection_order":`...), t.CollectionOrder)
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendBoundary(b []byte, t *cdc.TransactionBoundary) []byte {
	status, events, collections := "BEGIN", any(nil), any(nil)
	if t.End {
		counts := make(map[string]any, len(t.Collections))
		for name, count := range t.Collections {
			counts[name] = count
		}
		status, events, collections = "END", t.Events, counts
	}
	b = appendString(append(b, `{"id":`...), t.ID)
	b = appendString(append(b, `,"status":`...), status)
	b = appendValue(append(b, `,"events":`...), events)
	b = appendValue(append(b, `,"collections":`...), collections)
	return append(b, '}')
}

func appendMessage(b []byte, m *cdc.LogicalMessage) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"prefix":`...), m.Prefix)
	b = appendValue(append(b, `,"content":`...), m.Content)
	return append(b, '}')
}

// maxSafe is the largest number up to which a double has every whole number.
const maxSafe = 1<<53 - 1

// appendValue appends a value of a Row. Numbers that a double would change, and decimals, are strings.
func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return appendInteger(b, strconv.FormatInt(v, 10), -maxSafe <= v && v <= maxSafe)
	case *big.Int:
		return appendInteger(b, v.String(), false)
	case float64:
		return appendFloat(b, v)
	case json.Number: // a double would lose digits
		return appendString(b, v.String())
	case string:
		return appendString(b, v)
	case []byte:
		return appendString(b, base64.StdEncoding.EncodeToString(v))
	case json.RawMessage: // the document null
		return append(b, v...)
	case time.Time:
		return appendString(b, timeText(v))
	case time.Duration:
		return appendString(b, durationText(v))
	case []any:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, element)
		}
		return append(b, ']')
	case map[string]any:
		row := make(cdc.Row, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			row = append(row, cdc.Column{Name: name, Value: v[name]})
		}
		return appendRow(b, row, true)
	case interface{ String() string }: // Decimal, Interval
		return appendString(b, v.String())
	}
	return appendString(b, fmt.Sprint(value)) // no other is in a Row now
}

func appendInteger(b []byte, digits string, safe bool) []byte {
	if safe {
		return append(b, digits...)
	}
	return append(append(append(b, '"'), digits...), '"')
}

// appendFloat appends the shortest number that is the same double. JSON has no NaN and no infinities: they are strings.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // it is finite
	}
	return append(b, text...)
}

// appendString appends a JSON string, with nothing escaped that need not be.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ' || r == '\u007f' || r == '\u2028' || r == '\u2029':
			b = append(b, `\u`...)
			b = append(b, strconv.FormatInt(0x10000+int64(r), 16)[1:]...)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

func appendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, text)
	}
	return append(b, ']')
}

// appendTime appends null for the zero time, which is how an event says that it has none.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return appendString(b, timeText(t))
}
