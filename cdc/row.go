package cdc

// Row is a row of a table that is unknown at compile time: use NewDecoder[Row]. Its columns are in the order of the table, and their
// values exact:
//
//   - nil for null, bool, string
//   - int64, or *big.Int beyond it, for whole numbers
//   - float64 for other numbers; json.Number where a float64 would lose digits, and for whole numbers of more than 4096 digits
//   - Decimal for numeric without a fixed scale, whose message says it: {"scale":4,"value":"AYr3"}
//   - []any for arrays, map[string]any for maps, JSON objects and structs such as points
//
// and, where the message brings its schema:
//
//   - Decimal for every numeric and money
//   - time.Time in UTC for dates and timestamps (see Infinity), time.Duration for times of day and intervals in numbers
//   - []byte for bytea and bit strings
//   - what the JSON says, as above, for json and jsonb columns, and json.RawMessage("null") where it says null
//   - Interval where the time mode is structured, and for intervals beyond a time.Duration; the ISO 8601 text where the connector
//     writes intervals as strings
//
// An unavailable column is left out.
type Row []Column

// Get returns the value of a column, and whether the row has it.
func (r Row) Get(name string) (value any, ok bool) {
	if i := r.index(name); i >= 0 {
		return r[i].Value, true
	}
	return nil, false
}

func (r Row) index(name string) int {
	for i := range r {
		if r[i].Name == name {
			return i
		}
	}
	return -1
}

// Get returns the value of a column of the key, and whether the key has it.
func (k Key) Get(name string) (value any, ok bool) { return Row(k).Get(name) }
