package avrocdc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// kind is how a value is encoded.
type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindFixed
	kindDuration // a fixed of twelve bytes: months, days, milliseconds
	kindEnum
	kindArray
	kindMap
	kindUnion
	kindRecord
)

var primitives = map[string]kind{
	"null": kindNull, "boolean": kindBoolean, "int": kindInt, "long": kindLong, "float": kindFloat, "double": kindDouble,
	"bytes": kindBytes, "string": kindString,
}

// connectTypes are the names that Kafka Connect has for them.
var connectTypes = map[kind]string{
	kindBoolean: "boolean", kindInt: "int32", kindLong: "int64", kindFloat: "float", kindDouble: "double", kindBytes: "bytes",
	kindString: "string", kindFixed: "bytes", kindDuration: "string", kindEnum: "string", kindArray: "array", kindMap: "map", kindRecord: "struct",
}

// logicalTypes are what Avro's logical types are in Debezium's terms. Kafka's Date, Time and Timestamp come with the names of Kafka.
var logicalTypes = map[string]string{
	"date": "io.debezium.time.Date", "time-millis": "io.debezium.time.Time", "time-micros": "io.debezium.time.MicroTime",
	"timestamp-millis": "io.debezium.time.Timestamp", "timestamp-micros": "io.debezium.time.MicroTimestamp",
	"timestamp-nanos": "io.debezium.time.NanoTimestamp", "local-timestamp-millis": "io.debezium.time.Timestamp",
	"local-timestamp-micros": "io.debezium.time.MicroTimestamp", "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
	"uuid": "io.debezium.data.Uuid",
}

const (
	decimalName  = "org.apache.kafka.connect.data.Decimal"
	intervalName = "io.debezium.time.Interval"
)

// schema is a parsed Avro schema.
type schema struct {
	kind kind
	// name is the semantic name in Debezium's terms, or a named type's own.
	name       string
	parameters map[string]string
	size       int // of a fixed
	symbols    []string
	branches   []*schema
	elem       *schema
	fields     []field
}

type field struct {
	name string
	// quoted is the name as a JSON member begins.
	quoted string
	schema *schema
}

const (
	// maxSchemaBytes bounds a schema, and what it becomes.
	maxSchemaBytes = 4 << 20
	maxDepth       = 512
)

var errSchema = errors.New("the Avro schema is not valid")

// definition is a JSON object of a schema, as far as it counts.
type definition struct {
	Type        json.RawMessage `json:"type"`
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"`
	Fields      []definition    `json:"fields"`
	Symbols     []string        `json:"symbols"`
	Items       json.RawMessage `json:"items"`
	Values      json.RawMessage `json:"values"`
	Size        int             `json:"size"`
	LogicalType string          `json:"logicalType"`
	Scale       int             `json:"scale"`
	ConnectName string          `json:"connect.name"`
	Parameters  map[string]any  `json:"connect.parameters"`
}

// parser reads schemas. It is lenient: names and defaults are not its business.
type parser struct {
	named map[string]*schema
	depth int
}

func parseSchema(text []byte) (*schema, error) {
	if len(text) > maxSchemaBytes {
		return nil, errors.New("the Avro schema is larger than 4 MiB")
	}
	if !json.Valid(text) {
		if _, primitive := primitives[string(text)]; !primitive {
			return nil, errSchema
		}
		text = fmt.Appendf(nil, "%q", text)
	}
	p := parser{named: make(map[string]*schema)}
	return p.parse(text, "")
}

func (p *parser) parse(text json.RawMessage, namespace string) (*schema, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New("the Avro schema is nested too deeply")
	}
	defer func() { p.depth-- }()
	switch first := strings.TrimSpace(string(text)); {
	case first == "":
		return nil, errSchema
	case first[0] == '"':
		var name string
		if json.Unmarshal(text, &name) != nil {
			return nil, errSchema
		}
		return p.reference(name, namespace)
	case first[0] == '[':
		return p.union(text, namespace)
	}
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, errSchema
	}
	return p.define(&d, namespace)
}

func (p *parser) reference(name, namespace string) (*schema, error) {
	if k, ok := primitives[name]; ok {
		return &schema{kind: k}, nil
	}
	if s := p.named[fullName(name, namespace)]; s != nil {
		return s, nil
	}
	if s := p.named[name]; s != nil {
		return s, nil
	}
	return nil, errors.New("the Avro schema refers to a type that it does not define")
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func (p *parser) union(text json.RawMessage, namespace string) (*schema, error) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil || len(list) == 0 {
		return nil, errSchema
	}
	s := &schema{kind: kindUnion}
	for _, branch := range list {
		b, err := p.parse(branch, namespace)
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, b)
	}
	return s, nil
}

func (p *parser) define(d *definition, namespace string) (*schema, error) {
	var typ string
	if json.Unmarshal(d.Type, &typ) != nil { // {"type":{"type":...}}
		return p.parse(d.Type, namespace)
	}
	s, err := &schema{}, error(nil)
	switch typ {
	case "record", "error":
		s.kind = kindRecord
		err = p.record(s, d, namespace)
	case "enum":
		s.kind, s.symbols = kindEnum, d.Symbols
		p.name(s, d, namespace)
	case "fixed":
		if s.kind, s.size = kindFixed, d.Size; d.Size < 0 || d.Size > maxSchemaBytes {
			return nil, errSchema
		}
		p.name(s, d, namespace)
		s.name = ""
	case "array":
		s.kind = kindArray
		s.elem, err = p.parse(d.Items, namespace)
	case "map":
		s.kind = kindMap
		s.elem, err = p.parse(d.Values, namespace)
	default:
		if k, ok := primitives[typ]; ok {
			s.kind = k
		} else if s, err = p.reference(typ, namespace); err == nil {
			return s, nil
		}
	}
	if err != nil {
		return nil, err
	}
	s.describe(d)
	return s, nil
}

// name keeps a named type, before its fields are read, so that it may contain itself.
func (p *parser) name(s *schema, d *definition, namespace string) string {
	if d.Namespace != "" {
		namespace = d.Namespace
	}
	s.name = fullName(d.Name, namespace)
	p.named[s.name] = s
	if i := strings.LastIndexByte(s.name, '.'); i >= 0 {
		return s.name[:i]
	}
	return ""
}

func (p *parser) record(s *schema, d *definition, namespace string) error {
	namespace = p.name(s, d, namespace)
	for i := range d.Fields {
		f := &d.Fields[i]
		typ, err := p.parse(f.Type, namespace)
		if err != nil {
			return err
		}
		quoted, _ := json.Marshal(f.Name)
		s.fields = append(s.fields, field{f.Name, string(quoted) + ":", typ})
	}
	return nil
}

// describe says what a value means.
func (s *schema) describe(d *definition) {
	switch {
	case d.ConnectName != "":
		s.name, s.parameters = d.ConnectName, make(map[string]string, len(d.Parameters))
		for name, value := range d.Parameters {
			s.parameters[name] = fmt.Sprint(value)
		}
	case d.LogicalType == "decimal" && (s.kind == kindBytes || s.kind == kindFixed):
		s.name, s.parameters = decimalName, map[string]string{"scale": fmt.Sprint(d.Scale)}
	case d.LogicalType == "duration" && s.kind == kindFixed && s.size == 12:
		s.name, s.kind = intervalName, kindDuration
	case s.kind == kindInt || s.kind == kindLong || s.kind == kindString:
		s.name = logicalTypes[d.LogicalType]
	}
	if s.name == decimalName && s.parameters["scale"] == "" {
		s.parameters = map[string]string{"scale": fmt.Sprint(d.Scale)}
	}
}

// optional returns the other type of a union of null and one type, nil for others.
func (s *schema) optional() *schema {
	var other *schema
	for _, b := range s.branches {
		switch {
		case b.kind == kindNull:
		case other != nil:
			return nil
		default:
			other = b
		}
	}
	return other
}

var errConnect = errors.New("the Avro schema is too large when its references are resolved")

// appendConnect appends the schema in the JSON of Kafka Connect. What it cannot say, such as unions and types that contain themselves, is
// an empty object.
func (s *schema) appendConnect(b []byte, fieldName string, within []*schema) ([]byte, error) {
	if s.kind == kindUnion {
		if s = s.optional(); s == nil {
			s = &schema{kind: kindNull}
		}
	}
	for _, outer := range within {
		if outer == s {
			s = &schema{kind: kindNull}
		}
	}
	if len(b) > maxSchemaBytes || len(within) > maxDepth {
		return nil, errConnect
	}
	within = append(within, s)
	b = append(b, '{')
	if fieldName != "" {
		b = append(append(b, `"field":`...), fieldName...)
		b = append(b, ',')
	}
	typ, ok := connectTypes[s.kind]
	if !ok {
		return append(b, `"optional":true}`...), nil
	}
	b = fmt.Appendf(b, `"type":%q`, typ)
	if s.name != "" {
		name, _ := json.Marshal(s.name)
		b = append(append(b, `,"name":`...), name...)
	}
	if len(s.parameters) > 0 {
		parameters, _ := json.Marshal(s.parameters)
		b = append(append(b, `,"parameters":`...), parameters...)
	}
	var err error
	switch s.kind {
	case kindArray:
		b, err = s.elem.appendConnect(append(b, `,"items":`...), "", within)
	case kindMap:
		b, err = s.elem.appendConnect(append(b, `,"values":`...), "", within)
	case kindRecord:
		b = append(b, `,"fields":[`...)
		for i, f := range s.fields {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = f.schema.appendConnect(b, strings.TrimSuffix(f.quoted, ":"), within); err != nil {
				return nil, err
			}
		}
		b = append(b, ']')
	}
	return append(b, '}'), err
}
