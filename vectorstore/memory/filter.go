package memory

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// compile returns a function that says whether a filter is true of an object.
func compile(f vectorstore.Filter) (func(*entry) bool, error) {
	switch f.Operator {
	case vectorstore.OperatorNone:
		return func(*entry) bool { return true }, nil
	case vectorstore.OperatorIDs:
		return func(e *entry) bool { return slices.Contains(f.IDs, e.ID) }, nil
	case vectorstore.OperatorAnd, vectorstore.OperatorOr:
		return compileAll(f)
	case vectorstore.OperatorNot:
		part, err := compile(f.Filters[0])
		return func(e *entry) bool { return !part(e) }, err
	case vectorstore.OperatorIsNull:
		return func(e *entry) bool { return isNull(e.Properties[f.Property]) }, nil
	}
	operand, err := f.Operand()
	if err != nil {
		return nil, err
	}
	if from, ok := operand.(vectorstore.Geo); ok {
		return func(e *entry) bool {
			place, there := e.Properties[f.Property].(vectorstore.Geo)
			return there && place.Metres(from) <= f.Metres
		}, nil
	}
	test := tests(f.Operator, operand)
	return func(e *entry) bool {
		return test(e.Properties[f.Property])
	}, nil
}

func compileAll(f vectorstore.Filter) (func(*entry) bool, error) {
	parts := make([]func(*entry) bool, len(f.Filters))
	for i, part := range f.Filters {
		var err error
		if parts[i], err = compile(part); err != nil {
			return nil, err
		}
	}
	decides := f.Operator == vectorstore.OperatorOr // the answer of a part that ends it
	return func(e *entry) bool {
		for _, part := range parts {
			if part(e) == decides {
				return decides
			}
		}
		return !decides
	}, nil
}

// tests returns the test of an operator for a property, nil where there is none.
func tests(operator vectorstore.Operator, operand any) func(v any) bool {
	equal := func(to any) func(any) bool {
		return func(v any) bool { order, known := compare(v, to); return known && order == 0 }
	}
	ordered := func(fits func(order int) bool) func(any) bool {
		return func(v any) bool {
			return some(v, func(v any) bool { order, known := compare(v, operand); return known && fits(order) })
		}
	}
	switch operator {
	case vectorstore.OperatorEqual:
		return func(v any) bool { return some(v, equal(operand)) }
	case vectorstore.OperatorLess:
		return ordered(func(order int) bool { return order < 0 })
	case vectorstore.OperatorLessOrEqual:
		return ordered(func(order int) bool { return order <= 0 })
	case vectorstore.OperatorGreater:
		return ordered(func(order int) bool { return order > 0 })
	case vectorstore.OperatorGreaterOrEqual:
		return ordered(func(order int) bool { return order >= 0 })
	case vectorstore.OperatorLike:
		pattern := []rune(operand.(string))
		return func(v any) bool {
			return some(v, func(v any) bool { text, ok := v.(string); return ok && like([]rune(text), pattern) })
		}
	}
	all := operator == vectorstore.OperatorContainsAll
	return func(v any) bool {
		for _, item := range operand.([]any) {
			if some(v, equal(item)) != all {
				return !all
			}
		}
		return all
	}
}

// isNull says whether a property is none: an empty text or list is one that nothing is in.
func isNull(v any) bool {
	list := reflect.ValueOf(v)
	return v == nil || v == "" || list.Kind() == reflect.Slice && list.Len() == 0
}

// some says whether a test is true of a value, or of an item of a list.
func some(v any, test func(any) bool) bool {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return test(v)
	}
	for i := range list.Len() {
		if test(list.Index(i).Interface()) {
			return true
		}
	}
	return false
}

// compare orders two values of one kind; others have no order.
func compare(a, b any) (order int, known bool) {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case bool:
		b, ok := b.(bool)
		if !ok || a == b {
			return 0, ok
		}
		if b {
			return -1, true
		}
		return 1, true
	case time.Time:
		b, ok := b.(time.Time)
		return a.Compare(b), ok
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), true
		case float64:
			return compareNumbers(a, b), true
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return -compareNumbers(b, a), true
		case float64:
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

// compareNumbers compares exactly: a float64 of a may be another number.
func compareNumbers(a int64, b float64) int {
	switch {
	case b >= 1<<63:
		return -1
	case b < -1<<63:
		return 1
	}
	return cmp.Or(cmp.Compare(a, int64(b)), cmp.Compare(math.Trunc(b), b))
}

// like matches a text with a pattern of * and ?. It goes back to the last * alone, so that its time is at most the product of the
// lengths.
func like(text, pattern []rune) bool {
	t, p, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			t, p = t+1, p+1
		case star >= 0:
			mark++
			t, p = mark, star+1
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
