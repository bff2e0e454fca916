package weaviate

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// PropertiesOf returns the properties that hold the exported fields of the struct T:
//
//	type Product struct {
//		ID          int64     `weaviate:"product_id,rangefilter"`
//		Title       string    `weaviate:"title,tokenization=field"`
//		Description *string   `json:"description"`
//		Changed     time.Time `cdc:"changed_at"`
//		Internal    string    `weaviate:"-"`
//	}
//
// A property's name is that of the tag weaviate, else json, else cdc, else the field's with its first letter in lower case. Where some
// field has the tag store of [vectorstore.MappingOf], the properties are those that it makes of the struct, by its names. In objects,
// fields have the names that [vectorstore.Value] gives them: by json, else as in Go.
// Its type is the one that the Go type fits: string and what has MarshalText give text, integers int, floats number, bool
// boolean, time.Time date, [16]byte uuid, []byte blob, slices the array of their elements, structs an object; pointers give
// what they point to. Fields of embedded structs count as the struct's own. After the name, the tag weaviate takes type=
// (such as type=date for a string), tokenization=, nofilter, nosearch and rangefilter. What has no type (maps, any, functions)
// is an error that names the field, unless its tag is "-".
func PropertiesOf[T any]() ([]Property, error) {
	t := indirect(reflect.TypeFor[T]())
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("weaviate: PropertiesOf: %v is no struct", t)
	}
	out, err := structProperties(t, nil)
	if err == nil {
		err = validateProperties(out, true)
	}
	if err != nil {
		return nil, fmt.Errorf("weaviate: PropertiesOf %v: %w", t, err)
	}
	return out, nil
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// structProperties returns the properties of a struct inside others.
func structProperties(t reflect.Type, outer []reflect.Type) ([]Property, error) {
	if slices.Contains(outer, t) {
		return nil, fmt.Errorf("%v contains itself", t)
	}
	stored := func(f reflect.StructField) bool { return vectorstore.PropertyName(f) != "" }
	name := topName
	if len(outer) > 0 {
		name = nestedName
	} else if slices.ContainsFunc(reflect.VisibleFields(t), stored) {
		name = func(f reflect.StructField, _ string) (string, error) { return vectorstore.PropertyName(f), nil }
	}
	return fieldProperties(t, name, append(slices.Clone(outer), t))
}

// fieldProperties returns the properties of a struct's fields, which name gives their names by the tag's, none where that is empty.
func fieldProperties(t reflect.Type, name func(f reflect.StructField, tagged string) (string, error), outer []reflect.Type) ([]Property, error) {
	var out []Property
	var errs []error
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("weaviate"), ",")
		switch {
		case tag[0] == "-":
		case tag[0] == "" && vectorstore.Embedded(f):
			inner := indirect(f.Type)
			if slices.Contains(outer, inner) {
				return nil, fmt.Errorf("%v contains itself", inner)
			}
			embedded, err := fieldProperties(inner, name, append(slices.Clone(outer), inner))
			out, errs = append(out, embedded...), append(errs, err)
		case f.IsExported():
			p := Property{}
			var err error
			if p.Name, err = name(f, tag[0]); p.Name == "" && err == nil {
				continue
			}
			if err = errors.Join(err, p.fill(f.Type, tag[1:], outer)); err != nil {
				errs = append(errs, fmt.Errorf("field %s: %w", f.Name, err))
				continue
			}
			out = append(out, p)
		}
	}
	return out, errors.Join(errs...)
}

// fill makes p what a Go type and the options of its tag say.
func (p *Property) fill(t reflect.Type, options []string, outer []reflect.Type) error {
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "type":
			p.DataType = DataType(value)
		case "tokenization":
			p.Tokenization = Tokenization(value)
		case "nofilter":
			p.NoFilter = true
		case "nosearch":
			p.NoSearch = true
		case "rangefilter":
			p.RangeFilter = true
		default:
			return fmt.Errorf("the tag's option %q is unknown", option)
		}
	}
	dataType, of, err := typeOf(t)
	if p.DataType == "" {
		p.DataType = dataType
		if err != nil {
			return err
		}
	}
	if p.DataType != Object && p.DataType != ObjectArray {
		return nil
	}
	if of == nil {
		return fmt.Errorf("%v is no struct", t)
	}
	p.Nested, err = structProperties(of, outer)
	return err
}

// topName is the name of a property by the tags of its field.
func topName(f reflect.StructField, tagged string) (string, error) {
	for _, tag := range []string{"json", "cdc"} {
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if tagged == "" && name != "-" {
			tagged = name
		}
	}
	return cmp.Or(tagged, strings.ToLower(f.Name[:1])+f.Name[1:]), nil
}

// nestedName is the name of a field in an object, none where [vectorstore.Value] leaves it out.
func nestedName(f reflect.StructField, tagged string) (string, error) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Tag.Get("json") == "-" {
		return "", nil
	}
	if name = cmp.Or(name, f.Name); tagged != "" && tagged != name {
		return "", fmt.Errorf("its name in the object is %q, whatever the tag weaviate says: give it a tag json", name)
	}
	return name, nil
}

func isText(t reflect.Type) bool {
	marshaler := reflect.TypeFor[encoding.TextMarshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// isUUID reports whether t is 16 bytes, and where it has a text, one of a UUID.
func isUUID(t reflect.Type) bool {
	if t.Kind() != reflect.Array || t.Len() != 16 || t.Elem().Kind() != reflect.Uint8 {
		return false
	}
	m, ok := reflect.New(t).Interface().(encoding.TextMarshaler)
	if !ok {
		return true
	}
	text, err := m.MarshalText()
	return err == nil && vectorstore.ID(text).Check() == nil
}

// typeOf returns the type for a Go type, and the struct that an object has.
func typeOf(t reflect.Type) (DataType, reflect.Type, error) {
	t = indirect(t)
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Date, nil, nil
	case t == reflect.TypeFor[vectorstore.Geo]():
		return Geo, nil, nil
	case t == reflect.TypeFor[vectorstore.Phone]():
		return Phone, nil, nil
	case isUUID(t):
		return UUID, nil, nil
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[json.Number]():
		return "", nil, fmt.Errorf("%v has no type of its own: give it with type=", t)
	case isText(t):
		return Text, nil, nil
	}
	switch t.Kind() {
	case reflect.String:
		return Text, nil, nil
	case reflect.Bool:
		return Boolean, nil, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Int, nil, nil
	case reflect.Float32, reflect.Float64:
		return Number, nil, nil
	case reflect.Struct:
		return Object, t, nil
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return Blob, nil, nil
		}
		element, of, err := typeOf(t.Elem())
		array := element + "[]"
		if err == nil && !array.known() {
			err = fmt.Errorf("%v has no type in Weaviate", t)
		}
		return array, of, err
	}
	return "", nil, fmt.Errorf("%v has no type in Weaviate", t)
}
