package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"
)

// encodeFunc appends the value that p points to.
type encodeFunc func(e *encoder, p unsafe.Pointer) error

type encoder struct {
	out   []byte
	depth int
}

func (e *encoder) enter() error {
	if e.depth++; e.depth > maxDepth {
		return errDepth
	}
	return nil
}

func (e *encoder) long(n int64) { e.out = binary.AppendVarint(e.out, n) }

func (e *encoder) bytes(b []byte) {
	e.long(int64(len(b)))
	e.out = append(e.out, b...)
}

func (e *encoder) text(s string) error {
	if !utf8.ValidString(s) {
		return errUTF8
	}
	e.long(int64(len(s)))
	e.out = append(e.out, s...)
	return nil
}

// maxRoom bounds the room that is made for a value before it is written.
const maxRoom = 1 << 10

// Encoder writes values of one Go type in one schema. It is safe for concurrent use.
type Encoder struct {
	value   encodeFunc
	size    atomic.Int64 // of the largest value, up to a limit: room for the next
	scratch sync.Pool
}

// NewEncoder compiles how a t is written in the schema s. An error says why it cannot be.
func NewEncoder(s *Schema, t reflect.Type) (*Encoder, error) {
	w := writer{map[planKey]*writePlan{}}
	value, err := w.value(s, t)
	if err != nil {
		return nil, err
	}
	return &Encoder{value: value}, nil
}

// scratch is where a value is while it is written, so that it does not go to the heap each time.
type scratch[T any] struct {
	encoder
	value T
}

// Encode appends v, a value of the encoder's type, to dst.
func Encode[T any](x *Encoder, dst []byte, v T) ([]byte, error) {
	s, _ := x.scratch.Get().(*scratch[T])
	if s == nil {
		s = new(scratch[T])
	}
	if dst == nil {
		dst = make([]byte, 0, x.size.Load())
	}
	s.out, s.value = dst, v
	err := x.value(&s.encoder, unsafe.Pointer(&s.value))
	out := s.out
	if n := int64(len(out) - len(dst)); n > x.size.Load() && n <= maxRoom {
		x.size.Store(n)
	}
	*s = scratch[T]{}
	x.scratch.Put(s)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// writer compiles the parts of an encoder.
type writer struct{ records map[planKey]*writePlan }

type writePlan struct {
	encode encodeFunc
	err    error
}

func (w *writer) value(s *Schema, t reflect.Type) (encodeFunc, error) {
	switch {
	case t.Kind() == reflect.Interface:
		return w.dynamic(s, t)
	case s.Kind == Union:
		return w.union(s, t)
	case t.Kind() == reflect.Pointer:
		elem, err := w.value(s, t.Elem())
		return func(e *encoder, p unsafe.Pointer) error {
			to := *(*unsafe.Pointer)(p)
			if to == nil {
				return fmt.Errorf("nil in place of %s", s.TypeName())
			}
			return elem(e, to)
		}, err
	}
	var encode encodeFunc
	var err error
	switch s.Kind {
	case Null:
		encode = func(*encoder, unsafe.Pointer) error { return nil }
	case Boolean:
		if t.Kind() == reflect.Bool {
			encode = func(e *encoder, p unsafe.Pointer) error {
				e.out = append(e.out, boolByte(*(*bool)(p)))
				return nil
			}
		}
	case Int, Long:
		encode = encodeInteger(s, t)
	case Float, Double:
		encode = encodeFloat(s, t)
	case Bytes, String, Fixed:
		encode = encodeBytes(s, t)
	case Enum:
		encode = encodeEnum(s, t)
	case Array:
		encode, err = w.array(s, t)
	case Map:
		encode, err = w.mapping(s, t)
	case Record:
		encode, err = w.record(s, t)
	}
	if err == nil && encode == nil {
		err = noPlace(s, t)
	}
	return encode, err
}

// union writes nil as null, and anything else as the branch that its type and value fit best, the first of several.
func (w *writer) union(s *Schema, t reflect.Type) (encodeFunc, error) {
	if err := fits(s, t); err != nil {
		return nil, err
	}
	return w.branches(s, t)
}

func (w *writer) branches(s *Schema, t reflect.Type) (encodeFunc, error) {
	if IsOneOf(t) {
		return w.oneOf(s, t)
	}
	branches, failed := w.candidates(s, t)
	if len(branches) == 0 && (failed != nil || s.null < 0) {
		return nil, failed
	}
	null, isNil := s.null, nilTest(t)
	return func(e *encoder, p unsafe.Pointer) error {
		if null >= 0 && isNil(p) {
			e.long(int64(null))
			return nil
		}
		start, depth, err := len(e.out), e.depth, errors.New("no branch of the union takes the value")
		for _, whole := range [...]bool{true, false} { // a record without some of a map's entries only where no other branch has them
			for _, b := range branches {
				if b.takesWhole(p) != whole {
					continue
				}
				e.long(int64(b.index))
				if err = b.encode(e, p); err == nil {
					return nil
				}
				e.out, e.depth = e.out[:start], depth
			}
		}
		return err
	}, nil
}

// candidate is a branch of a union that a Go type may be written as.
type candidate struct {
	index  int
	encode encodeFunc
	rank   int
	fields map[string]bool // of a record that is written from the map at
	at     reflect.Type
}

// candidates are the branches that a t may be written as: those that are read as a t by nature first, so that text is no bytes and a time
// no date where the union has both. The error is of one that is none.
func (w *writer) candidates(s *Schema, t reflect.Type) (all []candidate, failed error) {
	for i, branch := range s.Branches {
		if branch.Kind == Null {
			continue
		}
		encode, err := w.value(branch, t)
		if err != nil {
			failed = err
			continue
		}
		c := candidate{index: i, encode: encode, rank: strangeness(branch, t)}
		if branch.Kind == Record && t.Kind() == reflect.Map {
			c.at, c.fields = t, make(map[string]bool, len(branch.Fields))
			for _, f := range branch.Fields {
				c.fields[f.Name] = true
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.rank - b.rank })
	return all, failed
}

// strangeness is 0 where s is read as a t by nature, more where another schema would fit better.
func strangeness(s *Schema, t reflect.Type) int {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	by := natural(s)
	switch ofItsOwn := by == numberType || by == timeType || by == durationType; {
	case s.Logical == Date, s.Logical == TimeMillis, s.Kind == Float && t.Kind() == reflect.Float64: // which keep less than others
		return 1
	case by == t, by.Kind() == t.Kind() && !ofItsOwn && t != numberType && t != durationType:
		return 0
	}
	return 2
}

// takesWhole says whether nothing of the value is left out.
func (c *candidate) takesWhole(p unsafe.Pointer) bool {
	if c.fields == nil {
		return true
	}
	for entries := reflect.NewAt(c.at, p).Elem().MapRange(); entries.Next(); {
		if !c.fields[entries.Key().String()] {
			return false
		}
	}
	return true
}

// nilTest says whether a t is nil.
func nilTest(t reflect.Type) func(unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice: // whose first word is the pointer
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	}
	return func(unsafe.Pointer) bool { return false }
}

func (w *writer) oneOf(s *Schema, t reflect.Type) (encodeFunc, error) {
	fields, err := newPlanner().oneOfFields(s, t)
	if err != nil {
		return nil, err
	}
	branches := make([]encodeFunc, len(fields))
	for i, f := range fields {
		if s.Branches[i].Kind == Null {
			continue
		}
		if branches[i], err = w.value(s.Branches[i], f.Type.Elem()); err != nil {
			return nil, err
		}
	}
	null := s.null
	return func(e *encoder, p unsafe.Pointer) error {
		set := -1
		for i, f := range fields {
			if branches[i] == nil || *(*unsafe.Pointer)(unsafe.Add(p, f.At)) == nil {
				continue
			}
			if set >= 0 {
				return fmt.Errorf("%v has both %s and %s", t, fields[set].Name, f.Name)
			}
			set = i
		}
		switch {
		case set >= 0:
			e.long(int64(set))
			return branches[set](e, *(*unsafe.Pointer)(unsafe.Add(p, fields[set].At)))
		case null >= 0:
			e.long(int64(null))
			return nil
		}
		return fmt.Errorf("%v has no value", t)
	}, nil
}

// dynamic writes what an interface holds, whose type is compiled when it is first met.
func (w *writer) dynamic(s *Schema, t reflect.Type) (encodeFunc, error) {
	if t != anyType {
		return nil, fmt.Errorf("%v is no place for %s; any is", t, s.TypeName())
	}
	var plans sync.Map // reflect.Type -> *writePlan
	return func(e *encoder, p unsafe.Pointer) error {
		if err := e.enter(); err != nil {
			return err
		}
		defer func() { e.depth-- }()
		v := *(*any)(p)
		if v == nil {
			return writeNull(e, s)
		}
		typ := reflect.TypeOf(v)
		known, ok := plans.Load(typ)
		if !ok {
			plan, compile := &writePlan{}, (*writer).value
			if s.Kind == Union { // whose null is the interface's nil
				compile = (*writer).branches
			}
			plan.encode, plan.err = compile(&writer{map[planKey]*writePlan{}}, s, typ)
			known, _ = plans.LoadOrStore(typ, plan)
		}
		plan := known.(*writePlan)
		if plan.err != nil {
			return plan.err
		}
		held := reflect.New(typ)
		held.Elem().Set(reflect.ValueOf(v))
		return plan.encode(e, held.UnsafePointer())
	}, nil
}

func writeNull(e *encoder, s *Schema) error {
	switch i := s.null; {
	case s.Kind == Null:
	case s.Kind == Union && i >= 0:
		e.long(int64(i))
	default:
		return fmt.Errorf("nil in place of %s", s.TypeName())
	}
	return nil
}

func (w *writer) array(s *Schema, t reflect.Type) (encodeFunc, error) {
	if t.Kind() != reflect.Slice {
		return nil, noPlace(s, t)
	}
	item, err := w.value(s.Elem, t.Elem())
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	width := t.Elem().Size()
	return func(e *encoder, p unsafe.Pointer) error {
		if err := e.enter(); err != nil {
			return err
		}
		header := (*[]struct{})(p) // for the pointer and length, which slices of all types have alike
		if n := len(*header); n > 0 {
			e.long(int64(n))
			first := unsafe.Pointer(unsafe.SliceData(*header))
			for i := range n {
				if err := item(e, unsafe.Add(first, uintptr(i)*width)); err != nil {
					return inside(fmt.Sprint(i), err)
				}
			}
		}
		e.out = append(e.out, 0)
		e.depth--
		return nil
	}, nil
}

func (w *writer) mapping(s *Schema, t reflect.Type) (encodeFunc, error) {
	if t.Kind() != reflect.Map || t.Key().Kind() != reflect.String {
		return nil, noPlace(s, t)
	}
	value, err := w.value(s.Elem, t.Elem())
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return func(e *encoder, p unsafe.Pointer) error {
		if err := e.enter(); err != nil {
			return err
		}
		m := reflect.NewAt(t, p).Elem()
		if n := m.Len(); n > 0 {
			e.long(int64(n))
			held := reflect.New(t.Elem())
			for entries := m.MapRange(); entries.Next(); {
				held.Elem().SetIterValue(entries)
				if err := e.text(entries.Key().String()); err != nil {
					return err
				}
				if err := value(e, held.UnsafePointer()); err != nil {
					return inside(fmt.Sprintf("%q", entries.Key()), err)
				}
			}
		}
		e.out = append(e.out, 0)
		e.depth--
		return nil
	}, nil
}

// fieldWriter writes a field at an offset, or a constant.
type fieldWriter struct {
	name   string
	at     uintptr
	encode encodeFunc // nil where the struct has no such field: then its default is written
	def    []byte
	err    error
}

func (w *writer) record(s *Schema, t reflect.Type) (encodeFunc, error) {
	if t.Kind() == reflect.Map && t.Key().Kind() == reflect.String {
		return w.mapRecord(s, t)
	}
	if t.Kind() != reflect.Struct || t == timeType || t == ratType || IsOneOf(t) {
		return nil, noPlace(s, t)
	}
	key := planKey{s, s, t}
	if known := w.records[key]; known != nil {
		if known.encode != nil || known.err != nil {
			return known.encode, known.err
		}
		return func(e *encoder, p unsafe.Pointer) error {
			if known.encode == nil {
				return known.err
			}
			return known.encode(e, p)
		}, nil
	}
	known := &writePlan{}
	w.records[key] = known
	fields, err := w.fields(s, t)
	if err != nil {
		known.err = err
		return nil, err
	}
	known.encode = func(e *encoder, p unsafe.Pointer) error {
		if err := e.enter(); err != nil {
			return err
		}
		for i := range fields {
			f := &fields[i]
			switch {
			case f.encode != nil:
				if err := f.encode(e, unsafe.Add(p, f.at)); err != nil {
					return inside(f.name, err)
				}
			case f.err != nil:
				return f.err
			default:
				e.out = append(e.out, f.def...)
			}
		}
		e.depth--
		return nil
	}
	return known.encode, nil
}

func (w *writer) fields(s *Schema, t reflect.Type) ([]fieldWriter, error) {
	places := map[string]GoField{}
	for _, f := range GoFields(t) {
		places[f.Name] = f
	}
	fields := make([]fieldWriter, len(s.Fields))
	for i, f := range s.Fields {
		fields[i] = fieldWriter{name: f.Name, def: f.Default}
		place, ok := places[f.Name]
		if !ok && !f.Has {
			fields[i].err = fmt.Errorf("%s: %v has no such field, and the schema no default", f.Name, t)
		}
		if !ok {
			continue
		}
		encode, err := w.value(f.Type, place.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		fields[i].at, fields[i].encode = place.At, encode
	}
	return fields, nil
}

// mapRecord writes a map's entries as the fields of their names; what is missing has its default.
func (w *writer) mapRecord(s *Schema, t reflect.Type) (encodeFunc, error) {
	key := planKey{s, s, t}
	if known := w.records[key]; known != nil {
		return func(e *encoder, p unsafe.Pointer) error { return known.encode(e, p) }, known.err
	}
	known := &writePlan{}
	w.records[key] = known
	fields := make([]encodeFunc, len(s.Fields))
	for i, f := range s.Fields {
		if fields[i], known.err = w.value(f.Type, t.Elem()); known.err != nil {
			return nil, known.err
		}
	}
	known.encode = func(e *encoder, p unsafe.Pointer) error {
		if err := e.enter(); err != nil {
			return err
		}
		m := reflect.NewAt(t, p).Elem()
		held := reflect.New(t.Elem())
		for i, f := range s.Fields {
			v := m.MapIndex(reflect.ValueOf(f.Name).Convert(t.Key()))
			switch {
			case v.IsValid():
				held.Elem().Set(v)
				if err := fields[i](e, held.UnsafePointer()); err != nil {
					return inside(f.Name, err)
				}
			case f.Has:
				e.out = append(e.out, f.Default...)
			default:
				return fmt.Errorf("%s: missing", f.Name)
			}
		}
		e.depth--
		return nil
	}
	return known.encode, nil
}
