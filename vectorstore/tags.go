package vectorstore

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/embed"
)

// Models are the embedders of a [Mapping] that is made of struct tags, by the name of their vector.
type Models struct {
	Texts  map[string]embed.Embedder[string]
	Images map[string]embed.Embedder[embed.Image]
}

// MappingOf returns the mapping that the struct T declares by tags with the key store:
//
//	type Product struct {
//		ID          int64  `cdc:"id,key" store:"product_id"`
//		Title       string `store:"title,vector=text_vector"`
//		Description *string `store:",vector=text_vector"`
//		Picture     []byte `store:"-,vector=image_vector"`
//		Internal    string
//	}
//
// A field with the tag is the property of the name before the comma, or, where that is empty, of the field's Go name in lower
// case with underscores (UnitPrice: unit_price). A name "-" is no property. Fields without the tag are nothing. Package weaviate has
// PropertiesOf, which makes a collection's properties of the same tags.
//
// A field with vector= is input of that vector: text (a string type, or a pointer to one; nil is empty) of one of
// Models.Texts, or bytes (a []byte type) of one of Models.Images. Where several fields are the text of one vector, they stand
// under each other in the order of T, empty ones left out; a picture is one field. A vector is in the order of its first field.
//
// Everything of the Mapping may be set or changed afterwards. The error joins all that is wrong: a tag or type that does not
// fit, two properties of one name, a vector without a model, a model without a field.
func MappingOf[T any](m Models) (Mapping[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return Mapping[T]{}, fmt.Errorf("vectorstore: MappingOf needs a struct, not %v", t)
	}
	tags := &tagged{properties: map[string][]int{}, inputs: map[string][][]int{}}
	for _, f := range reflect.VisibleFields(t) {
		tag, there := f.Tag.Lookup("store")
		if !there {
			continue
		}
		if err := tags.add(f, tag, m); err != nil {
			tags.errs = append(tags.errs, fmt.Errorf("vectorstore: field %s of %v: %w", f.Name, t, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Texts)) {
		tags.wantField(name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Images)) {
		tags.wantField(name)
		if _, both := m.Texts[name]; both {
			tags.errs = append(tags.errs, fmt.Errorf("vectorstore: vector %q has a model of texts and one of images", name))
		}
	}
	if err := errors.Join(tags.errs...); err != nil {
		return Mapping[T]{}, err
	}
	out := Mapping[T]{Properties: func(row T) map[string]any { return tags.values(reflect.ValueOf(&row).Elem()) }}
	for _, name := range tags.names {
		fields := tags.inputs[name]
		if model, text := m.Texts[name]; text {
			out.Vectors = append(out.Vectors, Embed(name, func(row T) string { return textOf(reflect.ValueOf(&row).Elem(), fields) }, model))
			continue
		}
		out.Vectors = append(out.Vectors, Embed(name, func(row T) embed.Image {
			return fieldOf(reflect.ValueOf(&row).Elem(), fields[0]).Bytes()
		}, m.Images[name]))
	}
	return out, nil
}

// tagged is what the tags of a struct say.
type tagged struct {
	properties map[string][]int   // the field's index by the property's name
	inputs     map[string][][]int // the fields' indexes by the vector's name
	names      []string           // of the vectors
	errs       []error
}

func (t *tagged) wantField(vector string) {
	if len(t.inputs[vector]) == 0 {
		t.errs = append(t.errs, fmt.Errorf("vectorstore: no field is the input of vector %q", vector))
	}
}

func (t *tagged) add(f reflect.StructField, tag string, m Models) error {
	if !f.IsExported() {
		return errors.New("is not exported")
	}
	_, options, _ := strings.Cut(tag, ",")
	if name := PropertyName(f); name != "" {
		if _, twice := t.properties[name]; twice {
			return fmt.Errorf("property %q has two fields", name)
		}
		t.properties[name] = f.Index
	}
	if options == "" {
		return nil
	}
	vector, ok := strings.CutPrefix(options, "vector=")
	if !ok || vector == "" || strings.Contains(vector, ",") {
		return fmt.Errorf("store tag %q: want a name, and vector=NAME", tag)
	}
	return t.input(f, vector, m)
}

func (t *tagged) input(f reflect.StructField, vector string, m Models) error {
	_, text := m.Texts[vector]
	_, image := m.Images[vector]
	kind := f.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case !text && !image:
		return fmt.Errorf("vector %q has no model", vector)
	case text && kind.Kind() != reflect.String:
		return fmt.Errorf("vector %q embeds text, the field is %v", vector, f.Type)
	case image && (f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Uint8):
		return fmt.Errorf("vector %q embeds pictures, the field is %v", vector, f.Type)
	case image && len(t.inputs[vector]) > 0:
		return fmt.Errorf("vector %q has two pictures", vector)
	}
	if len(t.inputs[vector]) == 0 {
		t.names = append(t.names, vector)
	}
	t.inputs[vector] = append(t.inputs[vector], f.Index)
	return nil
}

// PropertyName returns the name of the property that [MappingOf] makes of a field, empty where it makes none. It is for those who make a
// schema of the same struct.
func PropertyName(f reflect.StructField) string {
	tag, there := f.Tag.Lookup("store")
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case !there, name == "-":
		return ""
	case name == "":
		return underscored(f.Name)
	}
	return name
}

// underscored turns UnitPrice into unit_price and HTTPCode into http_code.
func underscored(name string) string {
	var b strings.Builder
	upper := func(i int) bool { return i >= 0 && i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	for i := range len(name) {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(name) && !upper(i+1)) && name[i-1] != '_' {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}

// fieldOf returns a field, and the zero value of its type where an embedded pointer on the way is nil.
func fieldOf(row reflect.Value, index []int) reflect.Value {
	v, err := row.FieldByIndexErr(index)
	if err != nil {
		return reflect.Zero(row.Type().FieldByIndex(index).Type)
	}
	return v
}

func (t *tagged) values(row reflect.Value) map[string]any {
	out := make(map[string]any, len(t.properties))
	for name, index := range t.properties {
		out[name] = fieldOf(row, index).Interface()
	}
	return out
}

// textOf joins the texts of fields, one a line.
func textOf(row reflect.Value, fields [][]int) string {
	var texts []string
	for _, index := range fields {
		v := fieldOf(row, index)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		if text := v.String(); strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
