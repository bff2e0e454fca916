package cdc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"time"
)

// setter stores a value, which is not null, in a Go variable. w is nil where the message brings no schema.
type setter func(dst reflect.Value, v value, w *wireType) *mismatch

// codec is what a Go type does with the wire's values.
type codec struct {
	// set stores a value that is not null.
	set setter
	// fits says whether values of a schema's type can be stored at all; the type is never nil.
	fits func(w *wireType) bool
	// isText is set where a string's content is the value as it is, if the schema is that of a text.
	isText bool
}

// assign stores any value. Null is the zero value: nil for pointers, slices, maps and interfaces, invalid for sql.Null.
func (c *codec) assign(dst reflect.Value, v value, w *wireType) *mismatch {
	if v.kind == kindNull {
		dst.SetZero()
		return nil
	}
	return c.set(dst, v, w)
}

// classes returns a fits function for a list of classes. Unknown types and those inside documents always fit: their values decide.
func classes(list ...class) func(*wireType) bool {
	var set [classDocument + 1]bool
	set[classUnknown], set[classDocument] = true, true
	for _, c := range list {
		set[c] = true
	}
	return func(w *wireType) bool { return set[w.class] }
}

func fitsAll(*wireType) bool { return true }

var (
	fitsBool     = classes(classBool)
	fitsInt      = classes(classInt, classDecimal, classVariableDecimal, classInstant, classClock, classDuration, classString)
	fitsNumber   = classes(classInt, classFloat, classDecimal, classVariableDecimal, classString)
	fitsString   = classes(classString, classJSON, classBytes, classBits, classDecimal, classVariableDecimal, classISOInstant, classISOClock, classISODuration)
	fitsBytes    = classes(classBytes, classBits, classString, classJSON)
	fitsText     = classes(classString, classJSON, classBytes, classDecimal, classVariableDecimal, classISOInstant, classISOClock, classISODuration, classInt, classFloat, classBool)
	fitsInstant  = classes(classInstant, classISOInstant, classStructuredInstant, classString)
	fitsDuration = classes(classClock, classDuration, classISOClock, classISODuration, classStructuredClock, classStructuredDuration, classString)
	fitsInterval = classes(classDuration, classISODuration, classStructuredDuration, classString)
)

// compiler builds codecs from Go types, once per decoder.
type compiler struct {
	codecs map[codecKey]*codec
	plans  map[reflect.Type]*plan
	// binary is the encoding of []byte fields whose tag has none.
	binary encoding
	// nested is set while the fields of a column's struct are compiled.
	nested bool
}

type codecKey struct {
	t reflect.Type
	f format
}

var (
	textUnmarshaler = reflect.TypeFor[interface{ UnmarshalText(text []byte) error }]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// special are the types that are not what their kind says.
func special(t reflect.Type, f format) (codec, bool) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return timeCodec(f), true
	case reflect.TypeFor[time.Duration]():
		return durationCodec(f), true
	case reflect.TypeFor[Interval]():
		return intervalCodec(f), true
	case reflect.TypeFor[Geometry]():
		return geometryCodec(), true
	case reflect.TypeFor[SparseVector]():
		return sparseCodec(), true
	case reflect.TypeFor[netip.Addr]():
		return addressCodec(f), true
	case reflect.TypeFor[netip.Prefix]():
		return prefixCodec(f), true
	case reflect.TypeFor[net.HardwareAddr]():
		return hardwareCodec(f), true
	case reflect.TypeFor[big.Int]():
		return bigIntCodec(f), true
	case reflect.TypeFor[big.Rat]():
		return ratCodec(f), true
	case reflect.TypeFor[Decimal]():
		return decimalCodec(f), true
	case reflect.TypeFor[json.Number]():
		return jsonNumberCodec(f), true
	case reflect.TypeFor[json.RawMessage]():
		return rawCodec(f), true
	case reflect.TypeFor[[]byte]():
		return bytesCodec(f), true
	case reflect.TypeFor[Row]():
		return codec{set: setRow, fits: classes(classStruct, classMap, classJSON)}, true
	}
	switch {
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return textCodec(f, reflect.PointerTo(t).Implements(jsonUnmarshaler)), true
	case reflect.PointerTo(t).Implements(jsonUnmarshaler):
		return jsonCodec(f), true
	}
	return codec{}, false
}

// isLeaf says whether a struct type is one value rather than a row of columns.
func isLeaf(t reflect.Type) bool {
	_, ok := special(t, format{})
	return ok || isNull(t)
}

// compile returns the codec of a type. It keeps what it has compiled, and knows a type before it is done with it, so that types may
// contain themselves.
func (c *compiler) compile(t reflect.Type, f format) (codec, error) {
	key := codecKey{t, f}
	if known := c.codecs[key]; known != nil {
		if known.set != nil {
			return *known, nil
		}
		return codec{
			set:  func(dst reflect.Value, v value, w *wireType) *mismatch { return known.set(dst, v, w) },
			fits: func(w *wireType) bool { return known.fits == nil || known.fits(w) },
		}, nil
	}
	known := new(codec)
	c.codecs[key] = known
	compiled, err := c.build(t, f)
	if err != nil {
		delete(c.codecs, key)
		return codec{}, err
	}
	*known = compiled
	return compiled, nil
}

func (c *compiler) build(t reflect.Type, f format) (codec, error) {
	if f.encoding == "" && t.Kind() == reflect.Slice {
		f.encoding = c.binary
	}
	if isNull(t) {
		return c.null(t, f)
	}
	if built, ok := special(t, f); ok {
		return built, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return codec{set: setBool, fits: fitsBool}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intCodec(f), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintCodec(f), nil
	case reflect.Float32, reflect.Float64:
		return floatCodec(f), nil
	case reflect.String:
		return stringCodec(f), nil
	case reflect.Pointer:
		return c.pointer(t, f)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec(f), nil
		}
		return c.slice(t, f)
	case reflect.Array:
		return c.array(t, f)
	case reflect.Map:
		return c.mapping(t, f)
	case reflect.Struct:
		return c.structure(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return codec{set: anySetter(f), fits: fitsAll}, nil
		}
	}
	return codec{}, fmt.Errorf("cannot decode into %v", t)
}

func (c *compiler) pointer(t reflect.Type, f format) (codec, error) {
	elem, err := c.compile(t.Elem(), f)
	return codec{
		set: func(dst reflect.Value, v value, w *wireType) *mismatch {
			p := reflect.New(t.Elem())
			if bad := elem.set(p.Elem(), v, w); bad != nil {
				return bad
			}
			dst.Set(p)
			return nil
		},
		fits: elem.fits,
	}, err
}

func (c *compiler) null(t reflect.Type, f format) (codec, error) {
	elem, err := c.compile(t.Field(0).Type, f)
	return codec{
		set: func(dst reflect.Value, v value, w *wireType) *mismatch {
			dst.Field(1).SetBool(true)
			return elem.set(dst.Field(0), v, w)
		},
		fits: elem.fits,
	}, err
}

// fitsContainer is for Go types that take the elements of arrays or the members of objects, or of JSON text that has them.
func fitsContainer(elem *codec, f format, list ...class) func(*wireType) bool {
	ok := classes(append(list, classJSON)...)
	return func(w *wireType) bool {
		if f.json && w.class == classString {
			return true
		}
		return ok(w) && (w.elem == nil || elem == nil || elem.fits(w.elem))
	}
}

func (c *compiler) slice(t reflect.Type, f format) (codec, error) {
	f.element = true
	elem, err := c.compile(t.Elem(), f)
	set := func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindArray {
			return mismatchf("%v is no array", v.kind)
		}
		dst.Set(reflect.MakeSlice(t, 0, 0))
		return eachElement(v, func(i int, element value) *mismatch {
			if i == dst.Cap() {
				dst.Grow(max(4, i))
			}
			dst.SetLen(i + 1)
			return elem.assign(dst.Index(i), element, w.element())
		})
	}
	return codec{set: jsonText(f, set), fits: fitsContainer(&elem, f, classArray)}, err
}

func (c *compiler) array(t reflect.Type, f format) (codec, error) {
	f.element = true
	elem, err := c.compile(t.Elem(), f)
	set := func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind == kindString && t.Elem().Kind() == reflect.Uint8 {
			return setOctets(dst, v, w, f)
		}
		if v.kind != kindArray {
			return mismatchf("%v is no array", v.kind)
		}
		count := 0
		bad := eachElement(v, func(i int, element value) *mismatch {
			if count++; i >= t.Len() {
				return nil
			}
			return elem.assign(dst.Index(i), element, w.element())
		})
		if bad == nil && count != t.Len() {
			return mismatchf("the array has %d elements", count)
		}
		return bad
	}
	fits := fitsContainer(&elem, f, classArray)
	if t.Elem().Kind() == reflect.Uint8 {
		return codec{set: set, fits: func(w *wireType) bool { return fits(w) || fitsBytes(w) }}, err
	}
	return codec{set: jsonText(f, set), fits: fits}, err
}

func (c *compiler) mapping(t reflect.Type, f format) (codec, error) {
	if t.Key().Kind() != reflect.String {
		return codec{}, errors.New("cannot decode into a map whose keys are no strings")
	}
	f.element = true
	elem, err := c.compile(t.Elem(), f)
	set := func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindObject {
			return mismatchf("%v is no object", v.kind)
		}
		m := reflect.MakeMap(t)
		bad := eachMember(v, func(name string, member value) *mismatch {
			typ := w.element()
			if w.of() == classStruct {
				typ = w.field(name)
			}
			item := reflect.New(t.Elem()).Elem()
			bad := elem.assign(item, member, typ)
			m.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), item)
			return bad
		})
		if bad == nil {
			dst.Set(m)
		}
		return bad
	}
	return codec{set: jsonText(f, set), fits: fitsContainer(&elem, f, classMap, classStruct)}, err
}

// structure compiles a struct that is the value of a column: a JSON document, a point.
func (c *compiler) structure(t reflect.Type) (codec, error) {
	p := c.plans[t]
	if p == nil {
		p = new(plan)
		c.plans[t] = p
		outer := c.nested
		c.nested = true
		err := p.fill(c, t)
		if c.nested = outer; err != nil {
			return codec{}, err
		}
	}
	set := func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindObject {
			return mismatchf("%v is no object", v.kind)
		}
		dst.SetZero()
		return eachMember(v, func(name string, member value) *mismatch {
			f := p.find(name)
			if f == nil {
				return nil
			}
			typ := w.field(name)
			if w.of() == classMap {
				typ = w.elem
			}
			return f.assign(f.at(dst), member, typ)
		})
	}
	return codec{set: jsonText(format{}, set), fits: fitsContainer(nil, format{}, classStruct, classMap)}, nil
}

// eachElement and eachMember put the place before a mismatch inside a value.
func eachElement(v value, f func(i int, element value) *mismatch) *mismatch {
	var bad *mismatch
	_ = elements(v, func(i int, element value) error {
		if bad = f(i, element); bad != nil {
			bad = &mismatch{fmt.Sprintf("element %d: %s", i, bad.reason), bad.err}
			return bad
		}
		return nil
	})
	return bad
}

func eachMember(v value, f func(name string, member value) *mismatch) *mismatch {
	var bad *mismatch
	_ = members(v, func(name, member value) error {
		if bad = f(name.text(), member); bad != nil {
			return bad
		}
		return nil
	})
	return bad
}

// jsonText lets a setter for arrays and objects read strings that hold JSON text as well, as Debezium writes json, jsonb and hstore.
func jsonText(f format, set setter) setter {
	return func(dst reflect.Value, v value, w *wireType) *mismatch {
		if v.kind != kindString || w == document && !f.json {
			return set(dst, v, w)
		}
		inner, ok := parseText(v)
		if !ok {
			return mismatchf("the text is not JSON")
		}
		if inner.kind == kindNull {
			dst.SetZero()
			return nil
		}
		return set(dst, inner, document)
	}
}

// parseText reads the JSON that a string holds.
func parseText(v value) (value, bool) {
	s := scanner{data: v.bytes(), maxDepth: maxDepth}
	inner, err := s.value()
	return inner, err == nil && s.end() == nil
}
