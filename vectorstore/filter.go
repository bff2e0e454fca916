package vectorstore

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// Operator says how a [Filter] compares.
type Operator int

// The operators. Each has a function of its name that makes the filter, with what it means: [OperatorEqual] has [Equal].
const (
	OperatorNone Operator = iota // the zero Filter, which is true of everything
	OperatorEqual
	OperatorLess
	OperatorLessOrEqual
	OperatorGreater
	OperatorGreaterOrEqual
	OperatorLike
	OperatorContainsAny
	OperatorContainsAll
	OperatorWithin
	OperatorIDs
	OperatorAnd
	OperatorOr
	OperatorNot
	OperatorIsNull
)

// Filter says which objects count. The zero Filter is all of them. The functions [Equal], [Less], [And] and so on make one; its
// fields are there for those who write a [Store].
//
// A filter is true of an object or it is not; there is no third answer as SQL has for NULL. An object that lacks a property fits no
// comparison with it, so that [Not] of one, and [NotEqual], are true of it; And(Not(...), Not(IsNull(...))) leaves it out.
//
// A property that is a list fits when one of its items does. Numbers compare by value, whether int64 or float64; times by
// instant; texts byte by byte, but for a Store that cuts them into words and says so. A value of another type than the
// property's fits nothing, or is refused with [ErrValue] by a Store with a schema, which also refuses properties that it does
// not have. Values are what [Value] accepts.
type Filter struct {
	Operator Operator
	// Property is the name of the one that is compared with Value.
	Property string
	Value    any
	// Metres is the distance of OperatorWithin, whose Value is a Geo.
	Metres float64
	// IDs are those of OperatorIDs.
	IDs []ID
	// Filters are those that OperatorAnd and OperatorOr join, and the one of OperatorNot.
	Filters []Filter
}

// Equal is true of objects whose property is the value.
func Equal(property string, value any) Filter {
	return Filter{Operator: OperatorEqual, Property: property, Value: value}
}

// NotEqual is [Not] of [Equal]: true of objects without the property too.
func NotEqual(property string, value any) Filter { return Not(Equal(property, value)) }

// Less is true of objects whose property is less than the value.
func Less(property string, value any) Filter {
	return Filter{Operator: OperatorLess, Property: property, Value: value}
}

// LessOrEqual is true of objects whose property is the value or less.
func LessOrEqual(property string, value any) Filter {
	return Filter{Operator: OperatorLessOrEqual, Property: property, Value: value}
}

// Greater is true of objects whose property is greater than the value.
func Greater(property string, value any) Filter {
	return Filter{Operator: OperatorGreater, Property: property, Value: value}
}

// GreaterOrEqual is true of objects whose property is the value or greater.
func GreaterOrEqual(property string, value any) Filter {
	return Filter{Operator: OperatorGreaterOrEqual, Property: property, Value: value}
}

// Like is true of objects whose text fits the pattern, in which * stands for any text and ? for one letter.
func Like(property, pattern string) Filter {
	return Filter{Operator: OperatorLike, Property: property, Value: pattern}
}

// ContainsAny is true of objects whose property is, or has, one of the values, a list that is not empty.
func ContainsAny(property string, values any) Filter {
	return Filter{Operator: OperatorContainsAny, Property: property, Value: values}
}

// ContainsAll is true of objects whose property has all of the values, a list that is not empty.
func ContainsAll(property string, values any) Filter {
	return Filter{Operator: OperatorContainsAll, Property: property, Value: values}
}

// Within is true of objects whose place is at most so many metres from another, more than 0.
func Within(property string, from Geo, metres float64) Filter {
	return Filter{Operator: OperatorWithin, Property: property, Value: from, Metres: metres}
}

// IDs is true of the objects with these ids, of which there must be one.
func IDs(ids ...ID) Filter { return Filter{Operator: OperatorIDs, IDs: slices.Clone(ids)} }

// And is true of objects of which all of the filters are true, at least one. None may be the zero Filter.
func And(filters ...Filter) Filter {
	return Filter{Operator: OperatorAnd, Filters: slices.Clone(filters)}
}

// Or is true of objects of which one of the filters is true, at least one. None may be the zero Filter.
func Or(filters ...Filter) Filter {
	return Filter{Operator: OperatorOr, Filters: slices.Clone(filters)}
}

// Not is true of objects of which the filter, which may not be the zero Filter, is not.
func Not(filter Filter) Filter { return Filter{Operator: OperatorNot, Filters: []Filter{filter}} }

// IsNull is true of objects that lack the property. A null, an empty text and an empty list are the same as none here, since not every
// Store can tell them apart.
func IsNull(property string) Filter { return Filter{Operator: OperatorIsNull, Property: property} }

// maxFilterDepth bounds how deep filters may be nested.
const maxFilterDepth = 32

// Check returns a permanent error that is [ErrQuery] unless the filter is complete: properties have names, And, Or and Not have
// filters, ids are valid, nesting is at most 32 deep. It does not look at the values.
func (f Filter) Check() error { return f.check(0) }

func (f Filter) check(depth int) error {
	switch {
	case f.Operator < OperatorNone || f.Operator > OperatorIsNull:
		return queryError("filter: operator %d is unknown", f.Operator)
	case f.Operator == OperatorNone && depth > 0:
		return queryError("filter: And, Or and Not take no zero Filter")
	case depth > maxFilterDepth:
		return queryError("filter: nested more than %d deep", maxFilterDepth)
	case f.Operator == OperatorAnd || f.Operator == OperatorOr || f.Operator == OperatorNot:
		return f.checkParts(depth + 1)
	case f.Operator == OperatorIDs:
		return f.checkIDs()
	case f.Operator != OperatorNone && f.Property == "":
		return queryError("filter: no property")
	case f.Operator == OperatorWithin && !(f.Metres > 0 && f.Metres <= math.MaxFloat32):
		return queryError("filter: within %v metres", f.Metres)
	}
	return nil
}

func (f Filter) checkParts(depth int) error {
	if len(f.Filters) == 0 || f.Operator == OperatorNot && len(f.Filters) > 1 {
		return queryError("filter: And and Or need a filter, Not one alone")
	}
	for _, part := range f.Filters {
		if err := part.check(depth); err != nil {
			return err
		}
	}
	return nil
}

func (f Filter) checkIDs() error {
	if len(f.IDs) == 0 {
		return queryError("filter: no ids")
	}
	for _, id := range f.IDs {
		if err := id.Check(); err != nil {
			return fmt.Errorf("%w: filter: %w", ErrQuery, err)
		}
	}
	return nil
}

// Operand returns the value that a property is compared with, as [Value] returns it: one value, or for [ContainsAny] and
// [ContainsAll] a list that is not empty, as []any. What is no such operand is a permanent error that is [ErrValue]. It is
// for those who write a Store.
func (f Filter) Operand() (any, error) {
	v, err := Value(f.Value)
	_, text := v.(string)
	_, place := v.(Geo)
	switch {
	case err != nil:
	case f.Operator == OperatorContainsAny || f.Operator == OperatorContainsAll:
		v, err = operands(v)
	case f.Operator == OperatorWithin && place:
	case !scalar(v) || f.Operator == OperatorLike && !text || f.Operator == OperatorWithin:
		err = valueError("a %T is not compared so", v)
	}
	if err != nil {
		return nil, fmt.Errorf("filter: property %q: %w", f.Property, err)
	}
	return v, nil
}

// scalar reports whether a value of [Value] can be compared by itself.
func scalar(v any) bool {
	switch v.(type) {
	case bool, int64, float64, string, time.Time:
		return true
	}
	return false
}

func operands(v any) ([]any, error) {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice || list.Len() == 0 {
		return nil, valueError("ContainsAny and ContainsAll need a list that is not empty")
	}
	out := make([]any, list.Len())
	for i := range out {
		out[i] = list.Index(i).Interface()
		if !scalar(out[i]) {
			return nil, valueError("a %T is not compared so", out[i])
		}
	}
	return out, nil
}
