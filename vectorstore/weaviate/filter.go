package weaviate

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// operatorNot is OPERATOR_NOT, which the stubs of v1.27 do not know yet.
const operatorNot pb.Filters_Operator = 15

var operators = map[vectorstore.Operator]pb.Filters_Operator{
	vectorstore.OperatorEqual:          pb.Filters_OPERATOR_EQUAL,
	vectorstore.OperatorLess:           pb.Filters_OPERATOR_LESS_THAN,
	vectorstore.OperatorLessOrEqual:    pb.Filters_OPERATOR_LESS_THAN_EQUAL,
	vectorstore.OperatorGreater:        pb.Filters_OPERATOR_GREATER_THAN,
	vectorstore.OperatorGreaterOrEqual: pb.Filters_OPERATOR_GREATER_THAN_EQUAL,
	vectorstore.OperatorLike:           pb.Filters_OPERATOR_LIKE,
	vectorstore.OperatorWithin:         pb.Filters_OPERATOR_WITHIN_GEO_RANGE,
	vectorstore.OperatorContainsAny:    pb.Filters_OPERATOR_CONTAINS_ANY,
	vectorstore.OperatorContainsAll:    pb.Filters_OPERATOR_CONTAINS_ALL,
	vectorstore.OperatorAnd:            pb.Filters_OPERATOR_AND,
	vectorstore.OperatorOr:             pb.Filters_OPERATOR_OR,
	vectorstore.OperatorNot:            operatorNot,
	vectorstore.OperatorIsNull:         pb.Filters_OPERATOR_IS_NULL,
}

// filterMessage returns a checked filter as it is sent, nil for the zero Filter. Values are converted to the type of their
// property, as those of objects are, and refused where they do not fit: nothing is compared as something else. The property must be
// in the index for filters (not NoFilter).
func filterMessage(f vectorstore.Filter, known *schema) (*pb.Filters, error) {
	switch f.Operator {
	case vectorstore.OperatorNone:
		return nil, nil
	case vectorstore.OperatorAnd, vectorstore.OperatorOr, vectorstore.OperatorNot:
		out := &pb.Filters{Operator: operators[f.Operator]}
		for _, part := range f.Filters {
			m, err := filterMessage(part, known)
			if err != nil {
				return nil, err
			}
			out.Filters = append(out.Filters, m)
		}
		return out, nil
	case vectorstore.OperatorIDs:
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = string(id)
		}
		return withIDs(ids), nil
	}
	p := known.properties[f.Property]
	if p == nil {
		return nil, fmt.Errorf("filter: %w", valueError("the collection has no property %.64q", f.Property))
	}
	out := &pb.Filters{
		Operator: operators[f.Operator], Target: &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: f.Property}},
	}
	element := p.dataType
	if e, array := p.dataType.element(); array {
		element = e
	}
	if f.Operator == vectorstore.OperatorIsNull {
		return nullMessage(out, f.Property, p, known)
	}
	if err := setValue(out, f, element); err != nil {
		return nil, fmt.Errorf("filter: property %q: %w", f.Property, err)
	}
	return out, nil
}

// nullMessage asks for what is not among the objects that have the property: those that were stored before the collection got it are
// not among those that lack it.
func nullMessage(null *pb.Filters, name string, p *property, known *schema) (*pb.Filters, error) {
	switch {
	case !known.nulls:
		return nil, vectorstore.Unsupported("IsNull: the collection was made without indexNullState (NullIndex), which Weaviate cannot add")
	case !p.indexes.filter, slices.Contains([]DataType{Geo, Object, ObjectArray, Blob, Phone}, p.dataType):
		return nil, fmt.Errorf("filter: %w", valueError("property %q, of type %s, is in no index of nulls", name, p.dataType))
	}
	null.TestValue = &pb.Filters_ValueBoolean{ValueBoolean: false}
	return &pb.Filters{Operator: operatorNot, Filters: []*pb.Filters{null}}, nil
}

// setValue puts the value where its type belongs.
func setValue(to *pb.Filters, f vectorstore.Filter, element DataType) error {
	if (f.Operator == vectorstore.OperatorWithin) != (element == Geo) {
		return valueError("the type %s is not compared so", element)
	}
	if element == Geo {
		operand, err := f.Operand()
		if err != nil {
			return err
		}
		from := operand.(vectorstore.Geo)
		to.TestValue = &pb.Filters_ValueGeo{ValueGeo: &pb.GeoCoordinatesFilter{
			Latitude: from.Latitude, Longitude: from.Longitude, Distance: float32(f.Metres),
		}}
		return nil
	}
	if element == Object || element == Blob || element == Phone {
		return valueError("type %s is in no index", element)
	}
	v, err := canonical(f.Value)
	if err != nil {
		return err
	}
	if f.Operator == vectorstore.OperatorContainsAny || f.Operator == vectorstore.OperatorContainsAll {
		return setValues(to, element, reflect.ValueOf(v))
	}
	if f.Operator == vectorstore.OperatorLike {
		pattern, ok := v.(string)
		if element != Text || !ok {
			return valueError("Like compares texts, not the type %s", element)
		}
		to.TestValue = &pb.Filters_ValueText{ValueText: pattern}
		return nil
	}
	scalar, err := operand(element, v)
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

// The times that have a number of nanoseconds, by which the server compares dates.
var earliest, latest = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// operand is what a property is compared with, as it is sent.
func operand(element DataType, v any) (any, error) {
	scalar, err := encodeScalar(element, v)
	if err != nil || element != Date {
		return scalar, err
	}
	if when, err := time.Parse(time.RFC3339Nano, scalar.(string)); err != nil || when.Before(earliest) || when.After(latest) {
		return nil, valueError("a date beyond the years 1678 to 2261, which Weaviate does not compare with others")
	}
	return scalar, nil
}

func setValues(to *pb.Filters, element DataType, list reflect.Value) error {
	if !list.IsValid() || list.Kind() != reflect.Slice || list.Len() == 0 {
		return valueError("ContainsAny and ContainsAll need a list that is not empty")
	}
	items := make([]any, list.Len())
	for i := range items {
		var err error
		if items[i], err = operand(element, list.Index(i).Interface()); err != nil {
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
