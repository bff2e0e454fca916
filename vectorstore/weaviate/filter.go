package weaviate

import (
	"fmt"
	"reflect"
	"slices"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Filter says which objects count. The zero Filter is all of them. Values are converted to the type of their property, as
// those of objects are, and refused where they do not fit ([vectorstore.ErrValue]): nothing is compared as something else.
// The property must be in the index for filters (not NoFilter).
type Filter struct {
	operator pb.Filters_Operator
	property string
	value    any
	ids      []vectorstore.ID
	parts    []Filter
}

// Equal is true of objects whose property is the value, or has it, when it is a list. Texts are compared as their
// Tokenization cuts them: exactly with [Field] alone.
func Equal(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_EQUAL, property: property, value: value}
}

// NotEqual is true of objects whose property is there and is not the value.
func NotEqual(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_NOT_EQUAL, property: property, value: value}
}

// Less is true of objects whose property is less than the value.
func Less(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_LESS_THAN, property: property, value: value}
}

// LessOrEqual is true of objects whose property is the value or less.
func LessOrEqual(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_LESS_THAN_EQUAL, property: property, value: value}
}

// Greater is true of objects whose property is greater than the value.
func Greater(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_GREATER_THAN, property: property, value: value}
}

// GreaterOrEqual is true of objects whose property is the value or greater.
func GreaterOrEqual(property string, value any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_GREATER_THAN_EQUAL, property: property, value: value}
}

// Like is true of objects whose text fits the pattern, in which * stands for any text and ? for one letter.
func Like(property, pattern string) Filter {
	return Filter{operator: pb.Filters_OPERATOR_LIKE, property: property, value: pattern}
}

// ContainsAny is true of objects whose property is, or has, one of the values, a list that is not empty.
func ContainsAny(property string, values any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_CONTAINS_ANY, property: property, value: values}
}

// ContainsAll is true of objects whose property has all of the values, a list that is not empty.
func ContainsAll(property string, values any) Filter {
	return Filter{operator: pb.Filters_OPERATOR_CONTAINS_ALL, property: property, value: values}
}

// IDs is true of the objects with these ids, of which there must be one.
func IDs(ids ...vectorstore.ID) Filter {
	return Filter{operator: pb.Filters_OPERATOR_CONTAINS_ANY, ids: slices.Clone(ids)}
}

// And is true of objects of which all of the filters are true, at least one.
func And(filters ...Filter) Filter {
	return Filter{operator: pb.Filters_OPERATOR_AND, parts: slices.Clone(filters)}
}

// Or is true of objects of which one of the filters is true, at least one.
func Or(filters ...Filter) Filter {
	return Filter{operator: pb.Filters_OPERATOR_OR, parts: slices.Clone(filters)}
}

// message returns the filter as it is sent, nil for the zero Filter.
func (f Filter) message(known *schema) (*pb.Filters, error) {
	switch {
	case f.operator == pb.Filters_OPERATOR_UNSPECIFIED:
		return nil, nil
	case f.operator == pb.Filters_OPERATOR_AND, f.operator == pb.Filters_OPERATOR_OR:
		return f.combination(known)
	case f.property == "":
		return f.byID()
	}
	p := known.properties[f.property]
	if p == nil {
		return nil, fmt.Errorf("filter: %w", valueError("the collection has no property %.64q", f.property))
	}
	out := &pb.Filters{
		Operator: f.operator, Target: &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: f.property}},
	}
	element := p.dataType
	if e, array := p.dataType.element(); array {
		element = e
	}
	err := f.setValue(out, element)
	if err != nil {
		return nil, fmt.Errorf("filter: property %q: %w", f.property, err)
	}
	return out, nil
}

func (f Filter) combination(known *schema) (*pb.Filters, error) {
	out := &pb.Filters{Operator: f.operator}
	for _, part := range f.parts {
		m, err := part.message(known)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, valueError("filter: And and Or take no zero Filter")
		}
		out.Filters = append(out.Filters, m)
	}
	if len(out.Filters) == 0 {
		return nil, valueError("filter: And and Or need a filter")
	}
	return out, nil
}

func (f Filter) byID() (*pb.Filters, error) {
	if len(f.ids) == 0 {
		return nil, valueError("filter: no ids, or no property")
	}
	ids := make([]string, len(f.ids))
	for i, id := range f.ids {
		if err := id.Check(); err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
		ids[i] = string(id)
	}
	return withIDs(ids), nil
}

// setValue puts the value where its type belongs.
func (f Filter) setValue(to *pb.Filters, element DataType) error {
	if element == Object || element == Blob {
		return valueError("type %s is in no index", element)
	}
	v, err := canonical(f.value)
	if err != nil {
		return err
	}
	if f.operator == pb.Filters_OPERATOR_CONTAINS_ANY || f.operator == pb.Filters_OPERATOR_CONTAINS_ALL {
		return setValues(to, element, reflect.ValueOf(v))
	}
	if f.operator == pb.Filters_OPERATOR_LIKE {
		if element != Text {
			return valueError("Like compares texts, not the type %s", element)
		}
		to.TestValue = &pb.Filters_ValueText{ValueText: v.(string)}
		return nil
	}
	scalar, err := encodeScalar(element, v)
	if err != nil {
		return err
	}
	switch scalar := scalar.(type) {
	case string:
		to.TestValue = &pb.Filters_ValueText{ValueText: scalar}
	case bool:
		to.TestValue = &pb.Filters_ValueBoolean{ValueBoolean: scalar}
	case int64:
		to.TestValue = &pb.Filters_ValueInt{ValueInt: scalar}
	case float64:
		to.TestValue = &pb.Filters_ValueNumber{ValueNumber: scalar}
	}
	return nil
}

func setValues(to *pb.Filters, element DataType, list reflect.Value) error {
	if !list.IsValid() || list.Kind() != reflect.Slice || list.Len() == 0 {
		return valueError("ContainsAny and ContainsAll need a list that is not empty")
	}
	items := make([]any, list.Len())
	for i := range items {
		var err error
		if items[i], err = encodeScalar(element, list.Index(i).Interface()); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	switch items[0].(type) {
	case string:
		to.TestValue = &pb.Filters_ValueTextArray{ValueTextArray: &pb.TextArray{Values: listOf[string](items)}}
	case bool:
		to.TestValue = &pb.Filters_ValueBooleanArray{ValueBooleanArray: &pb.BooleanArray{Values: listOf[bool](items)}}
	case int64:
		to.TestValue = &pb.Filters_ValueIntArray{ValueIntArray: &pb.IntArray{Values: listOf[int64](items)}}
	case float64:
		to.TestValue = &pb.Filters_ValueNumberArray{ValueNumberArray: &pb.NumberArray{Values: listOf[float64](items)}}
	}
	return nil
}
