package weaviate

import (
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
// A property's name is that of the tag weaviate, else json, else cdc, else the field's with its first letter in lower case.
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
	outer = append(slices.Clone(outer), t)
	var out []Property
	var errs []error
	for f := range fields(t) {
		tag := f.Tag.Get("weaviate")
		if tag == "-" {
			continue
		}
		if inner := indirect(f.Type); f.Anonymous && tag == "" && inner.Kind() == reflect.Struct && !isText(f.Type) {
			nested, err := structProperties(inner, outer)
			out, errs = append(out, nested...), append(errs, err)
			continue
		}
		if !f.IsExported() {
			continue
		}
		p, err := fieldProperty(f, outer)
		if err != nil {
			errs = append(errs, fmt.Errorf("field %s: %w", f.Name, err))
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func fieldProperty(f reflect.StructField, outer []reflect.Type) (Property, error) {
	tag := strings.Split(f.Tag.Get("weaviate"), ",")
	p := Property{Name: fieldName(f, tag[0])}
	for _, option := range tag[1:] {
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
			return p, fmt.Errorf("the tag's option %q is unknown", option)
		}
	}
	dataType, of, err := typeOf(f.Type)
	if p.DataType == "" {
		p.DataType = dataType
		if err != nil {
			return p, err
		}
	}
	if p.DataType == Object || p.DataType == ObjectArray {
		if of == nil {
			return p, fmt.Errorf("%v is no struct", f.Type)
		}
		p.Nested, err = structProperties(of, outer)
		return p, err
	}
	return p, nil
}

func fieldName(f reflect.StructField, tagged string) string {
	for _, tag := range []string{"json", "cdc"} {
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if tagged == "" && name != "-" {
			tagged = name
		}
	}
	if tagged == "" {
		return strings.ToLower(f.Name[:1]) + f.Name[1:]
	}
	return tagged
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
