package weaviate

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// parseObject returns an object that the server sent.
func parseObject(result *pb.SearchResult) (*vectorstore.Object, error) {
	o := &vectorstore.Object{
		Ref:     vectorstore.Ref{ID: vectorstore.ID(result.GetMetadata().GetId())},
		Vectors: map[string][]float32{},
	}
	var err error
	if o.Properties, err = decodeObject(result.GetProperties().GetNonRefProps()); err != nil {
		return nil, err
	}
	if unnamed := result.GetMetadata().GetVectorBytes(); len(unnamed) > 0 {
		o.Vectors[""] = decodeVector(unnamed)
	}
	if err := takeVectors(o, result.GetMetadata().GetVectors()); err != nil {
		return nil, err
	}
	return o, takeBookkeeping(o)
}

// takeBookkeeping puts what is the Store's own of the properties in its place.
func takeBookkeeping(o *vectorstore.Object) error {
	o.Version, _ = o.Properties[versionProperty].(string)
	if text, ok := o.Properties[inputsProperty].(string); ok {
		if err := json.Unmarshal([]byte(text), &o.Inputs); err != nil {
			return fmt.Errorf("property %s: %w", inputsProperty, err)
		}
	}
	delete(o.Properties, versionProperty)
	delete(o.Properties, inputsProperty)
	return nil
}

// decode returns the Go value of a property: nil, or the type that canonical gives for its type; a UUID is a text.
func decode(v *pb.Value) (any, error) {
	switch kind := v.GetKind().(type) {
	case nil, *pb.Value_NullValue:
		return nil, nil
	case *pb.Value_TextValue:
		return kind.TextValue, nil
	case *pb.Value_UuidValue:
		return kind.UuidValue, nil
	case *pb.Value_NumberValue:
		return kind.NumberValue, nil
	case *pb.Value_IntValue:
		return kind.IntValue, nil
	case *pb.Value_BoolValue:
		return kind.BoolValue, nil
	case *pb.Value_DateValue:
		return decodeDate(kind.DateValue)
	case *pb.Value_BlobValue:
		return base64.StdEncoding.DecodeString(kind.BlobValue)
	case *pb.Value_GeoValue:
		return vectorstore.Geo{Latitude: kind.GeoValue.GetLatitude(), Longitude: kind.GeoValue.GetLongitude()}, nil
	case *pb.Value_PhoneValue:
		return vectorstore.Phone{Input: kind.PhoneValue.GetInput(), Country: kind.PhoneValue.GetDefaultCountry()}, nil
	case *pb.Value_ObjectValue:
		return decodeObject(kind.ObjectValue)
	case *pb.Value_ListValue:
		return decodeList(kind.ListValue)
	}
	return nil, fmt.Errorf("the server sent a %T", v.GetKind())
}

func decodeDate(text string) (any, error) {
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil { // which quotes the text
		return nil, errors.New("the server sent a date that is not in RFC 3339")
	}
	return when.UTC(), nil
}

func decodeObject(p *pb.Properties) (map[string]any, error) {
	out := make(map[string]any, len(p.GetFields()))
	for name, v := range p.GetFields() {
		value, err := decode(v)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		if value != nil {
			out[name] = value
		}
	}
	return out, nil
}

func decodeList(l *pb.ListValue) (any, error) {
	switch kind := l.GetKind().(type) {
	case *pb.ListValue_TextValues:
		return nonNil(kind.TextValues.GetValues()), nil
	case *pb.ListValue_UuidValues:
		return nonNil(kind.UuidValues.GetValues()), nil
	case *pb.ListValue_BoolValues:
		return nonNil(kind.BoolValues.GetValues()), nil
	case *pb.ListValue_IntValues:
		return words(kind.IntValues.GetValues(), func(u uint64) int64 { return int64(u) }), nil
	case *pb.ListValue_NumberValues:
		return words(kind.NumberValues.GetValues(), math.Float64frombits), nil
	case *pb.ListValue_DateValues:
		out := make([]time.Time, len(kind.DateValues.GetValues()))
		for i, text := range kind.DateValues.GetValues() {
			when, err := decodeDate(text)
			if err != nil {
				return nil, err
			}
			out[i] = when.(time.Time)
		}
		return out, nil
	case *pb.ListValue_ObjectValues:
		out := make([]map[string]any, len(kind.ObjectValues.GetValues()))
		for i, p := range kind.ObjectValues.GetValues() {
			var err error
			if out[i], err = decodeObject(p); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the server sent a list of %T", l.GetKind())
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// words reads little-endian words of 8 bytes.
func words[T any](b []byte, convert func(uint64) T) []T {
	out := make([]T, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		out = append(out, convert(binary.LittleEndian.Uint64(b)))
	}
	return out
}

func decodeVector(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
