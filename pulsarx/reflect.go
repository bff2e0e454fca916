package pulsarx

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The JSON of an Avro schema. Structs, so that the same type always gives the same text.
type (
	avroRecord struct {
		Type   string      `json:"type"`
		Name   string      `json:"name"`
		Fields []avroField `json:"fields"`
	}
	avroField struct {
		Name    string          `json:"name"`
		Aliases []string        `json:"aliases,omitempty"`
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
	avroLogical struct {
		Type        string `json:"type"`
		LogicalType string `json:"logicalType"`
	}
)

// fieldTag is what a struct tag says of a field.
type fieldTag struct {
	name       string
	aliases    []string
	def        *string
	skip, null bool
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
	text, ok := f.Tag.Lookup("avro")
	if !ok {
		return fieldTag{name: f.Name}, nil
	}
	if text == "-" {
		return fieldTag{skip: true}, nil
	}
	var t fieldTag
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
		alias, ok := strings.CutPrefix(option, "alias=")
		if !ok {
			return t, fmt.Errorf("tag %q: unknown option %q", text, option)
		}
		t.aliases = append(t.aliases, alias)
	}
	if t.name == "" {
		return t, fmt.Errorf("tag %q names nothing", text)
	}
	return t, nil
}

func readJSONTag(f reflect.StructField) (fieldTag, error) {
	text := f.Tag.Get("json")
	name, options, _ := strings.Cut(text, ",")
	t := fieldTag{name: cmp.Or(name, f.Name), skip: text == "-"}
	for option := range strings.SplitSeq(options, ",") {
		t.null = t.null || option == "omitempty" || option == "omitzero"
	}
	return t, nil
}

// schemaText returns a function that reflects T's schema once.
func schemaText[T any](tags tagReader) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		typ := reflect.TypeFor[T]()
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		b := schemaBuilder{tags: tags, named: map[string]reflect.Type{}}
		schema, err := b.of(typ)
		if err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		text, err := json.Marshal(schema)
		if err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		if _, err := parseAvro(text); err != nil {
			return nil, fmt.Errorf("pulsarx: schema of %v: %w", typ, err)
		}
		return text, nil
	})
}

type schemaBuilder struct {
	tags  tagReader
	named map[string]reflect.Type // the types that have been defined: a second use is a reference
}

var (
	timeType            = reflect.TypeFor[time.Time]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (b schemaBuilder) of(t reflect.Type) (any, error) {
	if t == timeType && !b.tags.json {
		return avroLogical{"long", "timestamp-micros"}, nil
	}
	if t.Implements(textMarshalerType) && reflect.PointerTo(t).Implements(textUnmarshalerType) {
		return "string", nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return "int", nil
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "long", nil
	case reflect.Float32:
		return "float", nil
	case reflect.Float64:
		return "double", nil
	case reflect.String:
		return "string", nil
	case reflect.Pointer:
		return b.nullable(t.Elem())
	case reflect.Array:
		return b.fixed(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		items, err := b.of(t.Elem())
		return avroArray{"array", items}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%v: the keys of a map are strings", t)
		}
		values, err := b.of(t.Elem())
		return avroMap{"map", values}, err
	case reflect.Struct:
		return b.record(t)
	}
	return nil, fmt.Errorf("%v has no Avro type", t)
}

func (b schemaBuilder) nullable(elem reflect.Type) (any, error) {
	if elem.Kind() == reflect.Pointer {
		return nil, fmt.Errorf("%v has no Avro type", reflect.PointerTo(elem))
	}
	inner, err := b.of(elem)
	return []any{"null", inner}, err
}

func (b schemaBuilder) fixed(t reflect.Type) (any, error) {
	if t.Elem().Kind() != reflect.Uint8 || b.tags.json {
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
	if other, ok := b.named[name]; ok && other != t {
		return false, fmt.Errorf("%v and %v have the same name", other, t)
	} else if ok {
		return true, nil
	}
	b.named[name] = t
	return false, nil
}

func (b schemaBuilder) record(t reflect.Type) (any, error) {
	name := avroName(t)
	if name == "" {
		return nil, errors.New("a struct type without a name")
	}
	if seen, err := b.seen(name, t); seen || err != nil {
		return name, err
	}
	fields, err := b.fields(t, []avroField{})
	return avroRecord{"record", name, fields}, err
}

func (b schemaBuilder) fields(t reflect.Type, to []avroField) ([]avroField, error) {
	for f := range fieldsOf(t) {
		tag, err := b.tags.read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if tag.skip {
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct && (!b.tags.json || f.Tag.Get("json") == "") {
			if to, err = b.fields(f.Type, to); err != nil {
				return nil, err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Pointer {
			return nil, fmt.Errorf("%s: an embedded pointer", f.Name)
		}
		field, err := b.field(f.Type, tag)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		to = append(to, field)
	}
	return to, nil
}

func (b schemaBuilder) field(t reflect.Type, tag fieldTag) (avroField, error) {
	schema, err := b.of(t)
	if err != nil {
		return avroField{}, err
	}
	field := avroField{Name: tag.name, Aliases: tag.aliases, Type: schema}
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
			field.Type, schema = []any{union[1], union[0]}, union[1]
		}
		field.Default, err = defaultJSON(schema, *tag.def)
	}
	return field, err
}

// defaultJSON writes a tag's default as the JSON of its schema's type: text for strings, bytes and fixed, JSON for all others.
func defaultJSON(schema any, text string) (json.RawMessage, error) {
	if _, fixed := schema.(avroFixed); fixed || schema == "string" || schema == "bytes" {
		return json.Marshal(text)
	}
	logical, _ := schema.(avroLogical)
	if schema == "int" || schema == "long" || logical.Type == "long" {
		const exact = 1 << 53 // the Avro library keeps defaults as float64
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < -exact || n > exact {
			return nil, fmt.Errorf("default %q is not a whole number up to 2^53", text)
		}
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("default %q is not of the field's type", text)
	}
	return json.RawMessage(text), nil
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
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
