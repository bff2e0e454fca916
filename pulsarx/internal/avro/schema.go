package avro

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Kind is a schema's type.
type Kind uint8

// The types of the specification.
const (
	Null Kind = iota
	Boolean
	Int
	Long
	Float
	Double
	Bytes
	String
	Record
	Enum
	Array
	Map
	Union
	Fixed
)

var kindNames = [...]string{
	"null", "boolean", "int", "long", "float", "double", "bytes", "string", "record", "enum", "array", "map", "union", "fixed",
}

func (k Kind) String() string { return kindNames[k] }

// ReadAs says whether what has been written as k may be read as r: as the same type, or as one that it is promoted to.
func (k Kind) ReadAs(r Kind) bool { return k == r || slices.Contains(promotions[k], r) }

// promotions are the types that read each type besides itself.
var promotions = map[Kind][]Kind{
	Int:    {Long, Float, Double},
	Long:   {Float, Double},
	Float:  {Double},
	String: {Bytes},
	Bytes:  {String},
}

// Logical is a schema's logical type.
type Logical uint8

// The logical types that have a meaning here; all others are read as what they annotate.
const (
	None Logical = iota
	Decimal
	UUID
	Date
	TimeMillis
	TimeMicros
	TimestampMillis
	TimestampMicros
	TimestampNanos
	LocalTimestampMillis
	LocalTimestampMicros
	LocalTimestampNanos
)

// logicals says what each logical type may annotate, and its unit in nanoseconds where it is one of time.
var logicals = map[string]struct {
	logical Logical
	on      []Kind
}{
	"decimal":                {Decimal, []Kind{Bytes, Fixed}},
	"uuid":                   {UUID, []Kind{String, Fixed}},
	"date":                   {Date, []Kind{Int}},
	"time-millis":            {TimeMillis, []Kind{Int}},
	"time-micros":            {TimeMicros, []Kind{Long}},
	"timestamp-millis":       {TimestampMillis, []Kind{Long}},
	"timestamp-micros":       {TimestampMicros, []Kind{Long}},
	"timestamp-nanos":        {TimestampNanos, []Kind{Long}},
	"local-timestamp-millis": {LocalTimestampMillis, []Kind{Long}},
	"local-timestamp-micros": {LocalTimestampMicros, []Kind{Long}},
	"local-timestamp-nanos":  {LocalTimestampNanos, []Kind{Long}},
}

// maxScale bounds a decimal's scale: the text of a number is as long.
const maxScale = 1000

// Schema is a parsed schema. A name that is used again is the same *Schema. It must not be changed.
type Schema struct {
	Kind     Kind
	Logical  Logical
	Name     string   // the full name of a record, enum or fixed
	Aliases  []string // full names that it had
	Scale    int      // of a decimal
	Digits   int      // a decimal's precision
	Size     int      // of a fixed
	Fields   []Field
	Symbols  []string
	Default  string    // an enum's, "" for none
	Elem     *Schema   // an array's items, a map's values
	Branches []*Schema // of a union
	null     int       // the place of null among them, -1 where it has none
}

// Field is a record's.
type Field struct {
	Name    string
	Aliases []string
	Type    *Schema
	Default []byte // in Avro's binary form, of Type
	Has     bool   // a default
	Unread  bool   // a default, passed over
}

// Parse parses a schema. With strict, as for one's own, names must be as the specification has them, and defaults of their types;
// without, as for a writer's, any name is one, and defaults, which only a reader needs, are passed over.
func Parse(text []byte, strict bool) (*Schema, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the schema")
	}
	p := parser{strict: strict, named: map[string]*Schema{}}
	s, err := p.schema(tree, "")
	if err != nil {
		return nil, err
	}
	return s, p.setDefaults()
}

type parser struct {
	strict   bool
	named    map[string]*Schema
	defaults []pendingDefault // set when all names are known
}

type pendingDefault struct {
	record *Schema
	field  int
	value  any
}

func (p *parser) setDefaults() error {
	for _, d := range p.defaults {
		f := &d.record.Fields[d.field]
		encoded, err := appendDefault(nil, f.Type, d.value, 0)
		if err != nil {
			return fmt.Errorf("%s.%s: default: %w", d.record.Name, f.Name, err)
		}
		f.Default, f.Has = encoded, true
	}
	return nil
}

func primitive(name string) (Kind, bool) {
	i := slices.Index(kindNames[:Record], name)
	return Kind(max(i, 0)), i >= 0
}

func (p *parser) schema(node any, space string) (*Schema, error) {
	switch node := node.(type) {
	case string:
		return p.byName(node, space)
	case []any:
		return p.union(node, space)
	case map[string]any:
		switch kind := node["type"].(type) {
		case string:
			return p.object(kind, node, space)
		case map[string]any, []any:
			return p.schema(kind, space)
		}
	}
	return nil, fmt.Errorf("%s is not a schema", excerpt(node))
}

// excerpt is the beginning of a node's JSON.
func excerpt(node any) string {
	text, _ := json.Marshal(node)
	if len(text) > 80 {
		text = append(text[:80], "..."...)
	}
	return string(text)
}

func (p *parser) byName(name, space string) (*Schema, error) {
	if kind, ok := primitive(name); ok {
		return &Schema{Kind: kind}, nil
	}
	if space != "" && !strings.Contains(name, ".") {
		if s := p.named[space+"."+name]; s != nil {
			return s, nil
		}
	}
	if s := p.named[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

func (p *parser) union(nodes []any, space string) (*Schema, error) {
	s := &Schema{Kind: Union, null: -1}
	seen := map[string]bool{}
	for i, node := range nodes {
		branch, err := p.schema(node, space)
		if err != nil {
			return nil, err
		}
		name := branch.TypeName()
		if branch.Kind == Union || seen[name] {
			return nil, fmt.Errorf("a union with %s twice or inside", name)
		}
		seen[name] = true
		s.Branches = append(s.Branches, branch)
		if branch.Kind == Null {
			s.null = i
		}
	}
	return s, nil
}

// TypeName is how the specification names a union's branch: the full name, or the type.
func (s *Schema) TypeName() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Kind.String()
}

func (p *parser) object(kind string, node map[string]any, space string) (s *Schema, err error) {
	switch kind {
	case "record", "error":
		return p.record(node, space)
	case "enum":
		s, _, err = p.define(Enum, node, space)
		if err == nil {
			err = p.symbols(s, node)
		}
	case "fixed":
		s, _, err = p.define(Fixed, node, space)
		if size, ok := integer(node["size"]); ok && size >= 0 && err == nil {
			s.Size = size
		} else if err == nil {
			err = fmt.Errorf("%s: size %s", s.Name, excerpt(node["size"]))
		}
	case "array":
		s = &Schema{Kind: Array}
		s.Elem, err = p.schema(node["items"], space)
	case "map":
		s = &Schema{Kind: Map}
		s.Elem, err = p.schema(node["values"], space)
	default:
		if s, err = p.byName(kind, space); err != nil || s.Name != "" {
			return s, err
		}
	}
	if err != nil {
		return nil, err
	}
	return s, s.annotate(node)
}

func integer(node any) (int, bool) {
	number, ok := node.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := number.Int64()
	return int(n), err == nil
}

// annotate sets the logical type; one that does not fit is none, as the specification has it.
func (s *Schema) annotate(node map[string]any) error {
	name, _ := node["logicalType"].(string)
	l, ok := logicals[name]
	if !ok || !slices.Contains(l.on, s.Kind) || l.logical == UUID && s.Kind == Fixed && s.Size != 16 {
		return nil
	}
	if l.logical == Decimal {
		digits, ok := integer(node["precision"])
		scale, scaled := integer(node["scale"])
		if !ok || digits <= 0 || scaled && (scale < 0 || scale > digits) || !scaled && node["scale"] != nil {
			return nil
		}
		if scale > maxScale {
			return fmt.Errorf("a decimal's scale is %d, of at most %d", scale, maxScale)
		}
		s.Digits, s.Scale = digits, scale
	}
	s.Logical = l.logical
	return nil
}

var strictName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// define begins a named type, and returns the namespace inside it.
func (p *parser) define(kind Kind, node map[string]any, space string) (*Schema, string, error) {
	name, _ := node["name"].(string)
	if own, ok := node["namespace"].(string); ok {
		space = own
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		space, name = name[:i], name[i+1:]
	}
	if name == "" {
		return nil, "", fmt.Errorf("a %v without a name", kind)
	}
	full := name
	if space != "" {
		full = space + "." + name
	}
	if p.strict {
		for part := range strings.SplitSeq(full, ".") {
			if !strictName.MatchString(part) {
				return nil, "", fmt.Errorf("%q is not a name", full)
			}
		}
	}
	if p.named[full] != nil && p.strict { // Pulsar's older Python clients define a record wherever they use it
		return nil, "", fmt.Errorf("%s is defined twice", full)
	}
	s := &Schema{Kind: kind, Name: full}
	aliases, _ := node["aliases"].([]any)
	for _, alias := range texts(aliases) {
		if space != "" && !strings.Contains(alias, ".") {
			alias = space + "." + alias
		}
		s.Aliases = append(s.Aliases, alias)
	}
	p.named[full] = s
	return s, space, nil
}

func (p *parser) symbols(s *Schema, node map[string]any) error {
	symbols, ok := node["symbols"].([]any)
	if !ok {
		return fmt.Errorf("%s: an enum without symbols", s.Name)
	}
	seen := map[string]bool{}
	for _, symbol := range symbols {
		text, ok := symbol.(string)
		if !ok || seen[text] || p.strict && !strictName.MatchString(text) {
			return fmt.Errorf("%s: symbol %s", s.Name, excerpt(symbol))
		}
		seen[text] = true
		s.Symbols = append(s.Symbols, text)
	}
	if def, ok := node["default"].(string); ok {
		if !seen[def] {
			return fmt.Errorf("%s: the default %q is no symbol", s.Name, def)
		}
		s.Default = def
	}
	return nil
}

func (p *parser) record(node map[string]any, space string) (*Schema, error) {
	s, space, err := p.define(Record, node, space)
	if err != nil {
		return nil, err
	}
	fields, ok := node["fields"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s: a record without fields", s.Name)
	}
	seen := map[string]bool{}
	for i, field := range fields {
		f, ok := field.(map[string]any)
		name, named := f["name"].(string)
		if !ok || !named || name == "" || p.strict && !strictName.MatchString(name) {
			return nil, fmt.Errorf("%s: field %s has no name", s.Name, excerpt(field))
		}
		if seen[name] {
			return nil, fmt.Errorf("%s: two fields %s", s.Name, name)
		}
		seen[name] = true
		typ, err := p.schema(f["type"], space)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", s.Name, name, err)
		}
		aliases, _ := f["aliases"].([]any)
		def, hasDefault := f["default"]
		s.Fields = append(s.Fields, Field{Name: name, Type: typ, Aliases: texts(aliases), Unread: hasDefault && !p.strict})
		if hasDefault && p.strict {
			p.defaults = append(p.defaults, pendingDefault{s, i, def})
		}
	}
	return s, nil
}

func texts(nodes []any) []string {
	var all []string
	for _, node := range nodes {
		if text, ok := node.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// LastName is the name without its namespace.
func (s *Schema) LastName() string { return s.Name[strings.LastIndexAny(s.Name, ".$")+1:] }
