package weaviate

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// maxInteger is the largest integer to which all smaller ones are exact in a float64, which is what Weaviate keeps
// integers in.
const maxInteger = 1 << 53

func valueError(format string, args ...any) error {
	return vectorstore.Permanent(fmt.Errorf("%w: %s", vectorstore.ErrValue, fmt.Sprintf(format, args...)))
}

// maxPointers bounds how many pointers lead to a value.
const maxPointers = 32

// emptyList is an empty []any, which does not say what it is a list of.
type emptyList []struct{}

// canonical returns v as one of the types of [vectorstore.Value], or as one that Weaviate has beside them: []byte (a
// blob), [16]byte (a UUID), []map[string]any (a list of objects), or an emptyList. The result shares no memory with
// v.
func canonical(v any) (any, error) {
	switch v.(type) {
	case string, bool, int, int64, float64, time.Time:
		return vectorstore.Value(v)
	}
	r := reflect.ValueOf(v)
	for depth := 0; depth < maxPointers && r.Kind() == reflect.Pointer && !r.IsNil() && !marshalsText(r); depth++ {
		r = r.Elem()
	}
	if (r.Kind() == reflect.Slice || r.Kind() == reflect.Array) && !marshalsText(r) {
		return canonicalList(r)
	}
	return vectorstore.Value(v)
}

func canonicalList(r reflect.Value) (any, error) {
	elem := r.Type().Elem().Kind()
	slice := r.Kind() == reflect.Slice
	switch {
	case slice && r.IsNil():
		return nil, nil
	case r.Type() == reflect.TypeFor[json.RawMessage]():
		return decodeJSON(r.Bytes())
	case elem == reflect.Uint8 && slice:
		return slices.Clone(r.Bytes()), nil
	case elem == reflect.Uint8 && r.Len() == 16:
		var id [16]byte
		reflect.Copy(reflect.ValueOf(&id).Elem(), r)
		return id, nil
	case elem == reflect.Interface && r.Len() == 0:
		return emptyList{}, nil
	case elem == reflect.Map, elem == reflect.Interface && isMap(r.Index(0)):
		return objects(r)
	}
	return vectorstore.Value(r.Interface())
}

func marshalsText(r reflect.Value) bool {
	_, ok := r.Interface().(interface{ MarshalText() ([]byte, error) })
	return ok
}

func isMap(r reflect.Value) bool { return reflect.ValueOf(r.Interface()).Kind() == reflect.Map }

func decodeJSON(text []byte) (any, error) {
	var v any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil || decoder.More() {
		return nil, valueError("json.RawMessage is not one JSON value")
	}
	return canonical(v)
}

func objects(r reflect.Value) (any, error) {
	out := make([]map[string]any, r.Len())
	for i := range out {
		item, err := vectorstore.Value(r.Index(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		object, ok := item.(map[string]any)
		if !ok {
			return nil, valueError("item %d is a %T among objects", i, item)
		}
		out[i] = object
	}
	return out, nil
}

// infer returns the property that a canonical value describes.
func infer(name string, v any) (Property, error) {
	p := Property{Name: name}
	switch v := v.(type) {
	case string:
		p.DataType = Text
	case int64:
		p.DataType = Int
	case float64:
		p.DataType = Number
	case bool:
		p.DataType = Boolean
	case time.Time:
		p.DataType = Date
	case [16]byte:
		p.DataType = UUID
	case []byte:
		p.DataType = Blob
	case []string:
		p.DataType = TextArray
	case []int64:
		p.DataType = IntArray
	case []float64:
		p.DataType = NumberArray
	case []bool:
		p.DataType = BooleanArray
	case []time.Time:
		p.DataType = DateArray
	case vectorstore.Geo:
		p.DataType = Geo
	case vectorstore.Phone:
		p.DataType = Phone
	case map[string]any:
		p.DataType = Object
		return p, p.inferNested(v)
	case []map[string]any:
		p.DataType = ObjectArray
		return p, p.inferNested(v...)
	default:
		return p, valueError("a %T does not say its type; declare the property", v)
	}
	return p, nil
}

func (p *Property) inferNested(values ...map[string]any) error {
	fields := map[string]any{}
	for _, v := range values {
		sample(fields, v)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		nested, err := infer(name, fields[name])
		if nested.DataType == Geo || nested.DataType == Phone {
			err = valueError("the type %s in an object", nested.DataType)
		}
		if err == nil {
			err = nameError(validateName(name, false))
		}
		if err != nil {
			return fmt.Errorf("%.64q: %w", name, err)
		}
		p.Nested = append(p.Nested, nested)
	}
	if len(p.Nested) == 0 {
		return valueError("an object without a value does not say what it holds; declare the property")
	}
	return nil
}

// sample adds to fields the names of v that it lacks, each with its value, so that infer learns from both. Nulls say
// nothing.
func sample(fields, v map[string]any) {
	for name, value := range v {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			union, ok := fields[name].(map[string]any)
			if _, there := fields[name]; !there || ok {
				union = maps.Clone(union)
				if union == nil {
					union = map[string]any{}
				}
				sample(union, value)
				fields[name] = union
			}
		default:
			if _, there := fields[name]; !there {
				fields[name] = value
			}
		}
	}
}

// field puts a value, under a name, where its type belongs in a request. A nil field is a null: Weaviate keeps none,
// so that it is left out.
type field func(to *pb.ObjectPropertiesValue, name string)

// encode returns the field for a canonical value, in a property of the type p. Where p is nil, the value goes out as
// its own type: so do the fields of nested objects that the schema lacks, of which the server's auto-schema may make
// properties.
func encode(p *property, v any) (field, error) {
	if v == nil {
		return nil, nil
	}
	if p == nil {
		inferred, err := infer("", v)
		if err != nil {
			return nil, err
		}
		p = &property{dataType: inferred.DataType}
	}
	if element, array := p.dataType.element(); array {
		return encodeArray(p, element, v)
	}
	if p.dataType == Object {
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, mismatch(v, p.dataType)
		}
		object, err := encodeObject(p, fields)
		if err != nil {
			return nil, err
		}
		return func(to *pb.ObjectPropertiesValue, name string) {
			to.ObjectProperties = append(to.ObjectProperties, &pb.ObjectProperties{PropName: name, Value: object})
		}, nil
	}
	switch v := v.(type) {
	case vectorstore.Geo:
		return structure(p.dataType, Geo, map[string]any{"latitude": float64(v.Latitude), "longitude": float64(v.Longitude)})
	case vectorstore.Phone:
		return structure(p.dataType, Phone, map[string]any{"input": v.Input, "defaultCountry": v.Country})
	}
	scalar, err := encodeScalar(p.dataType, v)
	if err != nil {
		return nil, err
	}
	var value *structpb.Value
	switch scalar := scalar.(type) {
	case string:
		value = structpb.NewStringValue(scalar)
	case bool:
		value = structpb.NewBoolValue(scalar)
	case int64:
		value = structpb.NewNumberValue(float64(scalar))
	case float64:
		value = structpb.NewNumberValue(scalar)
	}
	return func(to *pb.ObjectPropertiesValue, name string) { setScalar(to, name, value) }, nil
}

// structure returns the field of a place or a phone number, whose JSON the server takes apart.
func structure(t, want DataType, fields map[string]any) (field, error) {
	if t != want {
		return nil, valueError("a value of type %s does not fit the type %s", want, t)
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, valueError("%v", err)
	}
	return func(to *pb.ObjectPropertiesValue, name string) { setScalar(to, name, structpb.NewStructValue(s)) }, nil
}

func setScalar(to *pb.ObjectPropertiesValue, name string, value *structpb.Value) {
	if to.NonRefProperties == nil {
		to.NonRefProperties = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	to.NonRefProperties.Fields[name] = value
}

func setText(to *pb.ObjectPropertiesValue, name, text string) {
	setScalar(to, name, structpb.NewStringValue(text))
}

func mismatch(v any, to DataType) error {
	return valueError("a %T does not fit the type %s", v, to)
}

// encodeScalar converts a canonical value to the Go type that carries the type t: string, bool, int64 or float64.
// What would not come back as it went is refused.
func encodeScalar(t DataType, v any) (any, error) {
	switch t {
	case Boolean:
		if _, ok := v.(bool); ok {
			return v, nil
		}
	case Int:
		return encodeInteger(v)
	case Number:
		if f, ok := v.(float64); ok {
			return f, nil
		}
		i, err := encodeInteger(v)
		if err != nil {
			return nil, err
		}
		return float64(i.(int64)), nil
	case Text:
		switch v := v.(type) {
		case string:
			return v, nil
		case time.Time:
			return v.Format(time.RFC3339Nano), nil
		case [16]byte:
			return encodeUUID(v)
		}
	case Date:
		return encodeDate(v)
	case UUID:
		return encodeUUID(v)
	case Blob:
		return encodeBlob(v)
	}
	return nil, mismatch(v, t)
}

func encodeInteger(v any) (any, error) {
	i, ok := v.(int64)
	if f, isFloat := v.(float64); isFloat {
		if math.Trunc(f) != f || math.Abs(f) > maxInteger {
			return nil, valueError("a number that is no integer within 2^53")
		}
		return int64(f), nil
	}
	if !ok {
		return nil, mismatch(v, Int)
	}
	if i > maxInteger || i < -maxInteger {
		return nil, valueError("an integer beyond 2^53, where Weaviate would round it; store it as text")
	}
	return i, nil
}

// dateLayouts are the texts that count as dates. Without a zone they are in UTC.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", time.DateTime, "2006-01-02T15:04:05", time.DateOnly,
}

func encodeDate(v any) (any, error) {
	when, ok := v.(time.Time)
	if text, isText := v.(string); isText {
		for _, layout := range dateLayouts {
			var err error
			if when, err = time.Parse(layout, text); err == nil {
				ok = true
				break
			}
		}
		if !ok {
			return nil, valueError("a text that is not a date, such as 2006-01-02T15:04:05Z")
		}
	}
	if !ok {
		return nil, mismatch(v, Date)
	}
	when = when.UTC()
	if when.Year() < 0 || when.Year() > 9999 {
		return nil, valueError("a date whose year is not within 0 to 9999")
	}
	return when.Format(time.RFC3339Nano), nil
}

func encodeUUID(v any) (any, error) {
	switch v := v.(type) {
	case [16]byte:
		return uuidText(v), nil
	case string:
		lower := strings.ToLower(v)
		if vectorstore.ID(lower).Check() != nil {
			return nil, valueError("a text that is not a UUID")
		}
		return lower, nil
	}
	return nil, mismatch(v, UUID)
}

func uuidText(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func encodeBlob(v any) (any, error) {
	var text string
	switch v := v.(type) {
	case []byte:
		text = base64.StdEncoding.EncodeToString(v)
	case string:
		if _, err := base64.StdEncoding.Strict().DecodeString(v); err != nil {
			return nil, valueError("a text for the type blob must be base64")
		}
		text = v
	default:
		return nil, mismatch(v, Blob)
	}
	if text == "" {
		return nil, valueError("Weaviate has no empty blob; give nil")
	}
	return text, nil
}

func encodeArray(p *property, element DataType, v any) (field, error) {
	r := reflect.ValueOf(v)
	if _, blob := v.([]byte); blob || r.Kind() != reflect.Slice {
		return nil, mismatch(v, p.dataType)
	}
	if r.Len() == 0 {
		return func(to *pb.ObjectPropertiesValue, name string) {
			to.EmptyListProps = append(to.EmptyListProps, name)
		}, nil
	}
	if element == Object {
		return encodeObjects(p, v)
	}
	items := make([]any, r.Len())
	for i := range items {
		var err error
		if items[i], err = encodeScalar(element, r.Index(i).Interface()); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return func(to *pb.ObjectPropertiesValue, name string) {
		switch items[0].(type) {
		case string:
			to.TextArrayProperties = append(to.TextArrayProperties,
				&pb.TextArrayProperties{PropName: name, Values: listOf[string](items)})
		case bool:
			to.BooleanArrayProperties = append(to.BooleanArrayProperties,
				&pb.BooleanArrayProperties{PropName: name, Values: listOf[bool](items)})
		case int64:
			to.IntArrayProperties = append(to.IntArrayProperties,
				&pb.IntArrayProperties{PropName: name, Values: listOf[int64](items)})
		case float64:
			values := make([]byte, 0, 8*len(items))
			for _, f := range listOf[float64](items) {
				values = binary.LittleEndian.AppendUint64(values, math.Float64bits(f))
			}
			to.NumberArrayProperties = append(to.NumberArrayProperties,
				&pb.NumberArrayProperties{PropName: name, ValuesBytes: values})
		}
	}, nil
}

func listOf[T any](items []any) []T {
	out := make([]T, len(items))
	for i, item := range items {
		out[i] = item.(T)
	}
	return out
}

func encodeObjects(p *property, v any) (field, error) {
	list, ok := v.([]map[string]any)
	if !ok {
		return nil, mismatch(v, p.dataType)
	}
	values := make([]*pb.ObjectPropertiesValue, len(list))
	for i, fields := range list {
		var err error
		if values[i], err = encodeObject(p, fields); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return func(to *pb.ObjectPropertiesValue, name string) {
		to.ObjectArrayProperties = append(to.ObjectArrayProperties, &pb.ObjectArrayProperties{PropName: name, Values: values})
	}, nil
}

func encodeObject(p *property, fields map[string]any) (*pb.ObjectPropertiesValue, error) {
	object := &pb.ObjectPropertiesValue{}
	for name, v := range fields {
		f, err := encode(p.nested[name], v)
		if err == nil {
			err = nameError(validateName(name, false))
		}
		if err != nil {
			return nil, fmt.Errorf("%.64q: %w", name, err)
		}
		if f != nil {
			f(object, name)
		}
	}
	return object, nil
}

func nameError(err error) error {
	if err == nil {
		return nil
	}
	return valueError("%v", err)
}

// littleEndian tells how this machine keeps numbers.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// encodeVector returns a vector as it is sent, in little-endian order. On machines of that order, which nearly all are, it is the memory
// of v itself, which then must stay as it is until the request was sent: a large Apply would hold all its vectors twice, else.
func encodeVector(v []float32) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	}
	return appendVector(make([]byte, 0, 4*len(v)), v)
}

func appendVector(b []byte, v []float32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
