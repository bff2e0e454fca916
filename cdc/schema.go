package cdc

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// class is what a Connect schema says about a value, as far as Go types care.
type class uint8

const (
	classUnknown class = iota // no schema
	classBool
	classInt
	classFloat
	classString
	classBytes
	classArray
	classStruct
	classMap
	classJSON
	classDecimal         // base64 of the unscaled number, the scale in the schema
	classVariableDecimal // {"scale","value"}
	classInstant         // a number of units since 1970: dates and timestamps
	classClock           // a number of units since midnight
	classDuration        // a number of units
	classISOInstant      // ISO 8601 text: dates and timestamps
	classISOClock        // ISO 8601 text: times of day
	classISODuration     // ISO 8601 text: intervals
	classBits            // octets, the least significant first; the number of bits in the schema
	classStructuredInstant
	classStructuredClock
	classStructuredDuration
	classDocument // a value inside a JSON column
)

// wireType is a Connect schema. A nil *wireType is an unknown one.
type wireType struct {
	class class
	// name is the semantic name, or the plain type where it has none: for errors.
	name  string
	unit  unit
	scale int // of a decimal; of bits their number
	// elem is the type of elements of arrays and of values of maps.
	elem *wireType
	// fields are a struct's.
	fields map[string]*wireType
}

// of returns the class of a type that may be unknown.
func (w *wireType) of() class {
	if w == nil {
		return classUnknown
	}
	return w.class
}

// isText says whether a Row takes a string as it is.
func (w *wireType) isText() bool {
	return w.of() == classUnknown || w.class == classString || w.class == classISODuration
}

// rewritten says whether a string's content is not what a string field takes.
func (w *wireType) rewritten() bool { return w.of() == classDecimal || w.of() == classBits }

// isObjectValue says whether a JSON object of this type is one value rather than a struct.
func (w *wireType) isObjectValue() bool {
	switch w.of() {
	case classVariableDecimal, classStructuredInstant, classStructuredClock, classStructuredDuration:
		return true
	}
	return false
}

// document is the type of everything inside a JSON column.
var document = &wireType{class: classDocument, name: "JSON"}

func (w *wireType) element() *wireType {
	if w == nil || w == document {
		return w
	}
	return w.elem
}

func (w *wireType) field(name string) *wireType {
	if w == nil || w == document {
		return w
	}
	return w.fields[name]
}

// named are the semantic types that are not what their plain type says. Other names (Enum, Uuid, Xml ...) are read as their
// plain type.
var named = map[string]wireType{
	"org.apache.kafka.connect.data.Decimal":   {class: classDecimal},
	"io.debezium.data.VariableScaleDecimal":   {class: classVariableDecimal},
	"io.debezium.data.Json":                   {class: classJSON},
	"io.debezium.data.Bits":                   {class: classBits},
	"io.debezium.time.Date":                   {class: classInstant, unit: unitDays},
	"org.apache.kafka.connect.data.Date":      {class: classInstant, unit: unitDays},
	"io.debezium.time.Timestamp":              {class: classInstant, unit: unitMillis},
	"org.apache.kafka.connect.data.Timestamp": {class: classInstant, unit: unitMillis},
	"io.debezium.time.MicroTimestamp":         {class: classInstant, unit: unitMicros},
	"io.debezium.time.NanoTimestamp":          {class: classInstant, unit: unitNanos},
	"io.debezium.time.Time":                   {class: classClock, unit: unitMillis},
	"org.apache.kafka.connect.data.Time":      {class: classClock, unit: unitMillis},
	"io.debezium.time.MicroTime":              {class: classClock, unit: unitMicros},
	"io.debezium.time.NanoTime":               {class: classClock, unit: unitNanos},
	"io.debezium.time.MicroDuration":          {class: classDuration, unit: unitMicros},
	"io.debezium.time.NanoDuration":           {class: classDuration, unit: unitNanos},
	"io.debezium.time.ZonedTimestamp":         {class: classISOInstant},
	"io.debezium.time.IsoTimestamp":           {class: classISOInstant},
	"io.debezium.time.IsoDate":                {class: classISOInstant},
	"io.debezium.time.ZonedTime":              {class: classISOClock},
	"io.debezium.time.IsoTime":                {class: classISOClock},
	"io.debezium.time.Interval":               {class: classISODuration},
}

var plainTypes = map[string]class{
	"boolean": classBool, "int8": classInt, "int16": classInt, "int32": classInt, "int64": classInt,
	"float": classFloat, "float32": classFloat, "double": classFloat, "float64": classFloat,
	"string": classString, "bytes": classBytes, "array": classArray, "struct": classStruct, "map": classMap,
}

// parseSchema reads the schema half of {"schema":...,"payload":...}. v is checked JSON. What it does not know stays unknown.
func parseSchema(v value) *wireType {
	var typ, name, items, values, fields, parameters value
	if v.kind != kindObject {
		return nil
	}
	_ = members(v, func(key, member value) error {
		switch string(key.bytes()) {
		case "type":
			typ = member
		case "name":
			name = member
		case "items":
			items = member
		case "values":
			values = member
		case "fields":
			fields = member
		case "parameters":
			parameters = member
		}
		return nil
	})
	if typ.kind != kindString {
		return nil
	}
	w := &wireType{class: plainTypes[typ.text()], name: typ.text()}
	if name.kind == kindString {
		w.name = name.text()
		if semantic, ok := named[w.name]; ok {
			w.class, w.unit = semantic.class, semantic.unit
		} else if c := structuredClass(w.name); c != classUnknown && w.class == classStruct {
			w.class = c
		}
	}
	switch w.class {
	case classDecimal:
		scale, ok := intParameter(parameters, "scale")
		if !ok {
			w.class = classUnknown
		}
		w.scale = scale
	case classBits:
		w.scale, _ = intParameter(parameters, "length")
	case classArray:
		w.elem = parseSchema(items)
	case classMap:
		w.elem = parseSchema(values)
	case classStruct:
		w.fields = parseFields(fields)
	}
	return w
}

func parseFields(list value) map[string]*wireType {
	if list.kind != kindArray {
		return nil
	}
	fields := make(map[string]*wireType)
	_ = elements(list, func(_ int, element value) error {
		if name := member(element, "field"); name.kind == kindString {
			fields[name.text()] = parseSchema(element)
		}
		return nil
	})
	return fields
}

func intParameter(parameters value, name string) (int, bool) {
	parameter := member(parameters, name)
	if parameter.kind != kindString {
		return 0, false
	}
	n, err := strconv.Atoi(parameter.text())
	return n, err == nil
}

// member returns the last member of that name, a value of kindNone if there is none.
func member(object value, name string) (found value) {
	if object.kind == kindObject {
		_ = members(object, func(key, member value) error {
			if string(key.bytes()) == name {
				found = member
			}
			return nil
		})
	}
	return found
}

// schema is a parsed schema with the row shapes that were seen under it.
type schema struct {
	root   *wireType
	text   string
	shapes shapeCache
}

// row returns the type of the rows: those of after, or before.
func (s *schema) row() *wireType {
	if after := s.root.field("after"); after != nil {
		return after
	}
	return s.root.field("before")
}

// schemaCache keeps the schemas by their text, so that each is parsed once. It forgets everything when it is full: a table has one
// schema until it is altered, so that this is rare.
type schemaCache struct {
	last   atomic.Pointer[schema]
	mu     sync.Mutex
	byText map[string]*schema
}

const (
	// maxSchemas is how many schemas a decoder keeps, and maxSchemaBytes how long one may be.
	maxSchemas     = 64
	maxSchemaBytes = 4 << 20
)

// prefixOf returns the schema that was used last if the data starts with its text. A JSON object ends where its text ends, so that
// the schema needs no second look.
func (c *schemaCache) prefixOf(data []byte) *schema {
	last := c.last.Load()
	if last != nil && len(data) > len(last.text) && string(data[:len(last.text)]) == last.text {
		return last
	}
	return nil
}

// get returns the parsed schema.
func (c *schemaCache) get(v value) *schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byText[string(v.raw)]
	if s == nil {
		s = &schema{root: parseSchema(v), text: string(v.raw)}
		if c.byText == nil || len(c.byText) >= maxSchemas {
			c.byText = make(map[string]*schema)
		}
		c.byText[s.text] = s
	}
	c.last.Store(s)
	return s
}
