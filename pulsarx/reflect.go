package pulsarx

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// The JSON of an Avro schema. Structs, so that the same type always gives the same text.
type (
	avroRecord struct {
		Type      string      `json:"type"`
		Name      string      `json:"name"`
		Namespace string      `json:"namespace,omitempty"`
		Doc       string      `json:"doc,omitempty"`
		Fields    []avroField `json:"fields"`
	}
	avroField struct {
		Name    string          `json:"name"`
		Aliases []string        `json:"aliases,omitempty"`
		Doc     string          `json:"doc,omitempty"`
		Type    any             `json:"type"`
		Default json.RawMessage `json:"default,omitempty"`
	}
	avroArray struct {
		Type  string `json:"type"`
		Items any    `json:"items"`
	}
	avroMap struct {
		Type   string `json:"type"`
		Values any    `json:"values"`
	}
	avroFixed struct {
		Type string `json:"type"`
		Name string `json:"name"`
		Size int    `json:"size"`
	}
	avroEnum struct {
		Type    string   `json:"type"`
		Name    string   `json:"name"`
		Symbols []string `json:"symbols"`
	}
	avroLogical struct {
		Type        string `json:"type"`
		LogicalType string `json:"logicalType"`
		Precision   int    `json:"precision,omitempty"`
		Scale       int    `json:"scale,omitempty"`
	}
)

// fieldTag is what a struct tag says of a field.
type fieldTag struct {
	name       string
	aliases    []string
	doc        string
	def        *string
	named      bool // by the tag
	skip, null bool
	quoted     bool   // a number or boolean in JSON that is written as text
	logical    string // a logical type's name, or "enum"
	digits     int    // of a decimal
	scale      int
	symbols    []string // of an enum
}

// tagReader reads the tags of one encoding.
type tagReader struct {
	json bool
	read func(reflect.StructField) (fieldTag, error)
}

var (
	avroTags = tagReader{read: readAvroTag}
	jsonTags = tagReader{json: true, read: readJSONTag}
)

func readAvroTag(f reflect.StructField) (fieldTag, error) {
	t := fieldTag{name: f.Name, doc: f.Tag.Get("doc")}
	text, ok := f.Tag.Lookup("avro")
	if !ok {
		return t, nil
	}
	if text == "-" {
		return fieldTag{skip: true}, nil
	}
	name, rest, more := strings.Cut(text, ",")
	for t.name = name; more; {
		if def, ok := strings.CutPrefix(rest, "default="); ok {
			if strings.Contains(def, ",alias=") {
				return t, fmt.Errorf("tag %q: default comes last", text)
			}
			t.def = &def
			break
		}
		var option string
		option, rest, more = strings.Cut(rest, ",")
		if err := t.option(option); err != nil {
			return t, fmt.Errorf("tag %q: %w", text, err)
		}
	}
	if t.name == "" {
		return t, fmt.Errorf("tag %q names nothing", text)
	}
	t.named = true
	return t, nil
}

func (t *fieldTag) option(option string) (err error) {
	name, value, _ := strings.Cut(option, "=")
	if name == "alias" && value != "" {
		t.aliases = append(t.aliases, value)
		return nil
	}
	if t.logical != "" {
		return fmt.Errorf("%q beside %q", option, t.logical)
	}
	t.logical = name
	switch {
	case name == "decimal":
		digits, scale, _ := strings.Cut(value, ".")
		t.digits, err = strconv.Atoi(digits)
		if scale != "" && err == nil {
			t.scale, err = strconv.Atoi(scale)
		}
		if err != nil || t.digits <= 0 || t.scale < 0 || t.scale > t.digits {
			return fmt.Errorf("%q is not decimal=precision.scale", option)
		}
	case name == "enum":
		t.symbols = strings.Split(value, "|")
	case value != "" || logicalBase[name] == "":
		return fmt.Errorf("unknown option %q", option)
	}
	return nil
}

// logicalBase are the types under the logical types that an option names.
var logicalBase = map[string]string{
	"date": "int", "time-millis": "int", "time-micros": "long", "timestamp-millis": "long", "timestamp-micros": "long",
	"timestamp-nanos": "long", "local-timestamp-millis": "long", "local-timestamp-micros": "long", "local-timestamp-nanos": "long",
	"uuid": "string",
}

func readJSONTag(f reflect.StructField) (fieldTag, error) {
	text := f.Tag.Get("json")
	name, options, _ := strings.Cut(text, ",")
	t := fieldTag{name: cmp.Or(name, f.Name), named: name != "", skip: text == "-"}
	for option := range strings.SplitSeq(options, ",") {
		t.null = t.null || option == "omitempty" || option == "omitzero"
		t.quoted = t.quoted || option == "string" && mayBeQuoted(f.Type)
	}
	return t, nil
}

// mayBeQuoted says whether encoding/json heeds the option "string" for a field of type t.
func mayBeQuoted(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		t = t.Elem()
	}
	return basicTypes[t.Kind()] != "" || t.Kind() == reflect.Uint || t.Kind() == reflect.Uint64
}

// schemaText returns a function that reflects T's schema once.
func schemaText[T any](tags tagReader) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		typ := reflect.TypeFor[T]()
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		b := schemaBuilder{tags: tags, named: map[string]reflect.Type{}, symbols: map[string][]string{}}
		schema, err := b.of(typ, &fieldTag{})
		if err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		text, err := json.Marshal(schema)
		if err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		if _, err := avro.Parse(text, true); err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		return text, nil
	})
}

type schemaBuilder struct {
	tags    tagReader
	named   map[string]reflect.Type // the types that have been defined, by full name: a second use is a reference
	symbols map[string][]string     // of the enums
	depth   int                     // of the type in those around it
	space   string                  // the namespace around it, in which types without their own are defined: in each once
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	ratType      = reflect.TypeFor[big.Rat]()
	rawJSONType  = reflect.TypeFor[json.RawMessage]()
	numberType   = reflect.TypeFor[json.Number]()
)

var basicTypes = map[reflect.Kind]string{
	reflect.Bool: "boolean", reflect.Int8: "int", reflect.Int16: "int", reflect.Int32: "int", reflect.Uint8: "int",
	reflect.Uint16: "int", reflect.Int: "long", reflect.Int64: "long", reflect.Uint32: "long", reflect.Float32: "float",
	reflect.Float64: "double", reflect.String: "string",
}

const maxTypeDepth = 500

// of is the schema of t. The tag is that of the field; a logical type in it is taken by the first type that may have it.
func (b schemaBuilder) of(t reflect.Type, tag *fieldTag) (any, error) {
	if b.depth++; b.depth > maxTypeDepth {
		return nil, fmt.Errorf("%v: types nested more than %d deep; a recursion goes through a struct", t, maxTypeDepth)
	}
	if schema, err := b.logical(t, tag); schema != nil || err != nil {
		return schema, err
	}
	if schema, err := b.library(t); schema != nil || err != nil {
		return schema, err
	}
	if avro.IsText(t) || tag.quoted && t.Kind() != reflect.Pointer {
		return "string", nil
	}
	if name := basicTypes[t.Kind()]; name != "" {
		return name, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.nullable(t.Elem(), tag)
	case reflect.Array:
		if b.tags.json {
			items, err := b.of(t.Elem(), tag)
			return avroArray{"array", items}, err
		}
		return b.fixed(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		items, err := b.of(t.Elem(), tag)
		return avroArray{"array", items}, err
	case reflect.Map:
		if !b.isKey(t.Key()) {
			return nil, fmt.Errorf("%v: the keys of a map are strings", t)
		}
		values, err := b.of(t.Elem(), tag)
		return avroMap{"map", values}, err
	case reflect.Struct:
		if avro.IsOneOf(t) && !b.tags.json {
			return b.oneOf(t)
		}
		return b.record(t)
	}
	return nil, fmt.Errorf("%v has no Avro type", t)
}

// isKey says whether a t may be a map's key: a string or, in JSON, what encoding/json makes one of.
func (b schemaBuilder) isKey(t reflect.Type) bool {
	if !b.tags.json {
		return t.Kind() == reflect.String
	}
	return t.Kind() == reflect.String || reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr || avro.IsText(t)
}

// library is the schema of t where that is one of the standard library's with a meaning, nil for all others.
func (b schemaBuilder) library(t reflect.Type) (any, error) {
	switch {
	case t == timeType && !b.tags.json:
		return avroLogical{Type: "long", LogicalType: "timestamp-micros"}, nil
	case t == ratType && b.tags.json:
		return "string", nil
	case t == ratType:
		return nil, errors.New("a big.Rat has the option decimal=precision.scale")
	case t == rawJSONType && b.tags.json:
		return nil, fmt.Errorf("%v has no schema", t)
	case t == numberType && b.tags.json:
		return "double", nil
	}
	return nil, nil
}

// logical is the schema of t with the tag's logical type, nil where the tag has none or t is none that has it.
func (b schemaBuilder) logical(t reflect.Type, tag *fieldTag) (any, error) {
	name := tag.logical
	isText := t.Kind() == reflect.String || t != timeType && avro.IsText(t)
	switch {
	case name == "":
		return nil, nil
	case name == "decimal" && (t == ratType || isText):
		tag.logical = ""
		return avroLogical{"bytes", "decimal", tag.digits, tag.scale}, nil
	case name == "enum" && isText:
		tag.logical = ""
		return b.enum(t, tag)
	case mayBe(t, name, isText):
		tag.logical = ""
		return avroLogical{Type: logicalBase[name], LogicalType: name}, nil
	}
	return nil, nil
}

// mayBe says whether a t may have the logical type, which is one of logicalBase.
func mayBe(t reflect.Type, name string, isText bool) bool {
	switch base := logicalBase[name]; {
	case name == "uuid":
		return isText || t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == 16
	case t == durationType:
		return strings.HasPrefix(name, "time-")
	case t == timeType:
		return base != "" && !strings.HasPrefix(name, "time-")
	case base == "long":
		return t.Kind() == reflect.Int64
	default:
		return base == "int" && t.Kind() == reflect.Int32
	}
}

func (b schemaBuilder) enum(t reflect.Type, tag *fieldTag) (any, error) {
	name := avroName(t)
	if t.PkgPath() == "" { // string itself
		name, t = tag.name, reflect.StructOf(nil)
	}
	if seen, err := b.seen(name, t); seen || err != nil {
		if known := b.symbols[b.full(name)]; err == nil && !slices.Equal(known, tag.symbols) {
			err = fmt.Errorf("the enum %s has the symbols %v, and %v elsewhere", name, tag.symbols, known)
		}
		return name, err
	}
	b.symbols[b.full(name)] = tag.symbols
	return avroEnum{"enum", name, tag.symbols}, nil
}

func (b schemaBuilder) oneOf(t reflect.Type) (any, error) {
	branches := []any{"null"}
	for _, f := range avro.GoFields(t) {
		if f.Type.Kind() != reflect.Pointer {
			return nil, fmt.Errorf("%v: %s is no pointer to the type of a branch", t, f.StructField.Name)
		}
		tag, err := b.tags.read(f.StructField)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		branch, err := b.of(f.Type.Elem(), &tag)
		if err == nil && tag.logical != "" {
			err = fmt.Errorf("the option %s does not fit %v", tag.logical, f.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %s: %w", t, f.StructField.Name, err)
		}
		branches = append(branches, branch)
	}
	return branches, nil
}

func (b schemaBuilder) nullable(elem reflect.Type, tag *fieldTag) (any, error) {
	inner, err := b.of(elem, tag)
	if _, union := inner.([]any); union && err == nil {
		err = fmt.Errorf("%v has no Avro type", reflect.PointerTo(elem))
	}
	return []any{"null", inner}, err
}

func (b schemaBuilder) fixed(t reflect.Type) (any, error) {
	if t.Elem().Kind() != reflect.Uint8 {
		return nil, fmt.Errorf("%v has no Avro type; use a slice", t)
	}
	name := fmt.Sprintf("Fixed%d", t.Len())
	if t.Name() != "" {
		name = avroName(t)
	}
	if seen, err := b.seen(name, t); seen || err != nil {
		return name, err
	}
	return avroFixed{"fixed", name, t.Len()}, nil
}

// seen says whether the name is t's already, and takes it for t otherwise.
func (b schemaBuilder) seen(name string, t reflect.Type) (bool, error) {
	name = b.full(name)
	if other, ok := b.named[name]; ok && other != t {
		return false, fmt.Errorf("%v and %v have the same name", other, t)
	} else if ok {
		return true, nil
	}
	b.named[name] = t
	return false, nil
}

// full is the name with the namespace that the place gives to one without.
func (b schemaBuilder) full(name string) string {
	if b.space == "" || strings.Contains(name, ".") {
		return name
	}
	return b.space + "." + name
}

func (b schemaBuilder) record(t reflect.Type) (any, error) {
	record := avroRecord{Type: "record", Name: avroName(t)}
	if f, ok := t.FieldByName("_"); ok && !b.tags.json {
		record.Doc = f.Tag.Get("doc")
		if full := f.Tag.Get("avro"); full != "" {
			at := strings.LastIndexByte(full, '.')
			record.Namespace, record.Name = full[:max(at, 0)], full[at+1:]
		}
	}
	if record.Name == "" {
		return nil, errors.New("a struct type without a name")
	}
	name := record.Name
	if record.Namespace != "" {
		name, b.space = record.Namespace+"."+name, record.Namespace
	}
	if seen, err := b.seen(name, t); seen || err != nil {
		return name, err
	}
	var err error
	record.Fields, err = b.fields(t)
	return record, err
}

// fields are those of t, and in their place those of the structs that it embeds. A field hides those of its name that are embedded deeper.
func (b schemaBuilder) fields(t reflect.Type) ([]avroField, error) {
	all, err := b.tags.fields(nil, t, 0)
	if err != nil {
		return nil, err
	}
	fields := []avroField{}
	for _, f := range all {
		if slices.ContainsFunc(all, func(other placedField) bool { return other.tag.name == f.tag.name && other.depth < f.depth }) {
			continue
		}
		field, err := b.field(f.Type, f.tag)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// placedField is a field of a struct that is embedded so deep.
type placedField struct {
	reflect.StructField
	tag   fieldTag
	depth int
}

func (r tagReader) fields(to []placedField, t reflect.Type, depth int) ([]placedField, error) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, err := r.read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if tag.skip {
			continue
		}
		switch embedded := f.Anonymous && !tag.named; {
		case embedded && f.Type.Kind() == reflect.Struct:
			if to, err = r.fields(to, f.Type, depth+1); err != nil {
				return nil, err
			}
		case embedded && f.Type.Kind() == reflect.Pointer:
			return nil, fmt.Errorf("%s: an embedded pointer without a name", f.Name)
		case !f.IsExported():
			if f.Anonymous && tag.named && f.Type.Kind() == reflect.Struct {
				return nil, fmt.Errorf("%s: an embedded type with a name is exported", f.Name)
			}
		default:
			to = append(to, placedField{f, tag, depth})
		}
	}
	return to, nil
}

func (b schemaBuilder) field(t reflect.Type, tag fieldTag) (avroField, error) {
	schema, err := b.of(t, &tag)
	if err == nil && tag.logical != "" {
		err = fmt.Errorf("the option %s does not fit %v", tag.logical, t)
	}
	if err != nil {
		return avroField{}, err
	}
	field := avroField{Name: tag.name, Aliases: tag.aliases, Doc: tag.doc, Type: schema}
	union, null := schema.([]any)
	mayBeNil := t.Kind() == reflect.Slice || t.Kind() == reflect.Map
	if !null && b.tags.json && (tag.null || mayBeNil) {
		union, null = []any{"null", schema}, true
	}
	switch {
	case tag.def == nil && !null:
		return field, nil
	case tag.def == nil || null && *tag.def == "null":
		field.Type, field.Default = union, json.RawMessage("null")
	default:
		if null { // the default is of a union's first branch
			field.Type, schema = append([]any{union[1], union[0]}, union[2:]...), union[1]
		}
		field.Default, err = b.defaultJSON(schema, *tag.def)
	}
	return field, err
}

// defaultJSON writes a tag's default as the JSON of its schema's type: text for strings, bytes and fixed, JSON for all others.
func (b schemaBuilder) defaultJSON(schema any, text string) (json.RawMessage, error) {
	_, isFixed := schema.(avroFixed)
	_, isEnum := schema.(avroEnum)
	if name, ok := schema.(string); ok { // perhaps that of a type that another field has defined
		known := b.named[b.full(name)]
		isFixed, isEnum = known != nil && known.Kind() == reflect.Array, b.symbols[b.full(name)] != nil
	}
	logical, _ := schema.(avroLogical)
	if logical.LogicalType == "decimal" {
		characters, err := avro.DecimalDefault(text, logical.Precision, logical.Scale)
		if err != nil {
			return nil, fmt.Errorf("default %q: %w", text, err)
		}
		return json.Marshal(characters)
	}
	if isFixed || isEnum || schema == "string" || schema == "bytes" || logical.Type == "string" {
		return json.Marshal(text)
	}
	if schema == "int" || schema == "long" || logical.Type == "long" || logical.Type == "int" {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("default %q is not a whole number", text)
		}
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("default %q is not of the field's type", text)
	}
	return json.RawMessage(text), nil
}

// avroName is the type's name, with underscores for what an Avro name cannot hold (the brackets of a generic type).
func avroName(t reflect.Type) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, t.Name()), "_")
}
