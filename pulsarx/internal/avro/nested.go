package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unsafe"
)

// growth is how many items a slice or map is made for at once: a payload could announce many and end.
const growth = 1 << 10

// array reads the blocks of an array into a slice.
func (p *planner) array(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if t.Kind() != reflect.Slice {
		return nil, noPlace(r, t)
	}
	item, err := p.value(w.Elem, r.Elem, t.Elem())
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	if run := floats(w.Elem, r.Elem, t.Elem()); run != nil {
		return run, nil
	}
	least, width := p.least(w.Elem), t.Elem().Size()
	free := 0
	if least == 0 {
		free = freeItem + int(width)
	}
	return func(d *decoder, to unsafe.Pointer) error {
		if err := d.enter(); err != nil {
			return err
		}
		slice := reflect.NewAt(t, to).Elem()
		for {
			n, err := d.block(least)
			if err != nil {
				return err
			}
			if n == 0 {
				if slice.IsNil() {
					slice.Set(reflect.MakeSlice(t, 0, 0))
				}
				d.depth--
				return nil
			}
			if err := d.spend(n * free); err != nil {
				return err
			}
			if err := d.items(slice, n, width, item); err != nil {
				return err
			}
		}
	}, nil
}

// floats reads an array of floating-point numbers, which vectors are, in one go; nil where it is none.
func floats(w, r *Schema, t reflect.Type) decodeFunc {
	switch {
	case w.Kind == Float && r.Kind == Float && t.Kind() == reflect.Float32:
		return numbers(4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	case w.Kind == Double && r.Kind == Double && t.Kind() == reflect.Float64:
		return numbers(8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
	}
	return nil
}

func numbers[N float32 | float64](size int, number func([]byte) N) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		all := []N{}
		for {
			n, err := d.block(size)
			if err != nil || n == 0 {
				*(*[]N)(to) = all
				return err
			}
			block, err := d.take(n * size)
			if err != nil {
				return err
			}
			all = slices.Grow(all, n)
			for i := range n {
				all = append(all, number(block[i*size:i*size+size]))
			}
		}
	}
}

// items appends n items to a slice.
func (d *decoder) items(slice reflect.Value, n int, width uintptr, item decodeFunc) error {
	for n > 0 {
		have := slice.Len()
		more := min(n, max(growth, have))
		slice.Grow(more)
		slice.SetLen(have + more)
		first := slice.UnsafePointer() // Grow has zeroed what is new
		for i := range more {
			if err := item(d, unsafe.Add(first, uintptr(have+i)*width)); err != nil {
				return err
			}
		}
		n -= more
	}
	return nil
}

// mapping reads the blocks of a map.
func (p *planner) mapping(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if t.Kind() != reflect.Map || t.Key().Kind() != reflect.String {
		return nil, noPlace(r, t)
	}
	value, err := p.value(w.Elem, r.Elem, t.Elem())
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	least := p.least(w.Elem) + 1
	return func(d *decoder, to unsafe.Pointer) error {
		if err := d.enter(); err != nil {
			return err
		}
		m := reflect.NewAt(t, to).Elem()
		m.Set(reflect.MakeMap(t))
		for {
			n, err := d.block(least)
			if err != nil {
				return err
			}
			if n == 0 {
				d.depth--
				return nil
			}
			for range n {
				key, err := d.text()
				if err != nil {
					return err
				}
				v := reflect.New(t.Elem())
				if err := value(d, v.UnsafePointer()); err != nil {
					return inside(strconv.Quote(key), err)
				}
				m.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), v.Elem())
			}
		}
	}, nil
}

// fieldPlan is what becomes of a field: it is read into the struct at an offset, or as the map's value of its name, or skipped.
type fieldPlan struct {
	name   string
	at     uintptr
	decode decodeFunc // nil to skip
	skip   skipFunc
}

// record compiles a record, once for each three of schemas and Go type.
func (p *planner) record(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if t.Kind() != reflect.Struct && t != anyMapType || t == timeType || t == ratType || IsOneOf(t) {
		return nil, noPlace(r, t)
	}
	key := planKey{w, r, t}
	if known := p.records[key]; known != nil {
		if known.decode != nil || known.err != nil {
			return known.decode, known.err
		}
		return func(d *decoder, to unsafe.Pointer) error {
			if known.decode == nil { // was tried as a branch of a union, and failed
				return known.err
			}
			return known.decode(d, to)
		}, nil
	}
	known := &recordPlan{}
	p.records[key] = known
	fields, err := p.fields(w, r, t)
	if err != nil {
		known.err = err
		return nil, err
	}
	if t == anyMapType {
		known.decode = mapRecord(fields, p.free(w))
	} else {
		known.decode = structRecord(fields, p.free(w))
	}
	return known.decode, nil
}

// fields plans the writer's fields in their order, and after them the defaults of those that the writer does not have.
func (p *planner) fields(w, r *Schema, t reflect.Type) ([]fieldPlan, error) {
	places := map[string]GoField{}
	if t != anyMapType {
		for _, f := range GoFields(t) {
			places[f.Name] = f
		}
	}
	sources := matchFields(w, r)
	targets := make(map[int]Field, len(r.Fields))
	for i, at := range sources {
		targets[at] = r.Fields[i]
	}
	plans := make([]fieldPlan, 0, len(w.Fields))
	for i, wf := range w.Fields {
		plan := fieldPlan{name: wf.Name}
		if rf, ok := targets[i]; ok {
			if err := p.place(&plan, wf.Type, rf, t, places); err != nil {
				return nil, err
			}
		}
		if plan.decode == nil {
			plan.skip = p.skip(wf.Type)
		}
		plans = append(plans, plan)
	}
	for i, rf := range r.Fields {
		if sources[i] >= 0 {
			continue
		}
		if !rf.Has {
			return nil, fmt.Errorf("%s: the writer has no such field, and the reader no default", rf.Name)
		}
		plan := fieldPlan{}
		if err := p.place(&plan, rf.Type, rf, t, places); err != nil {
			return nil, err
		}
		if plan.decode != nil {
			plan.decode = fromDefault(rf.Default, plan.decode)
			plans = append(plans, plan)
		}
	}
	return plans, nil
}

// matchFields returns the place of the writer's field for each of the reader's, by name and then by its aliases; -1 for none.
func matchFields(w, r *Schema) []int {
	byName := make(map[string]int, len(w.Fields))
	for i, wf := range w.Fields {
		byName[wf.Name] = i
	}
	sources, taken := make([]int, len(r.Fields)), map[int]bool{}
	for i, rf := range r.Fields {
		sources[i] = -1
		if at, ok := byName[rf.Name]; ok {
			sources[i], taken[at] = at, true
		}
	}
	for i, rf := range r.Fields {
		for _, alias := range rf.Aliases {
			if at, ok := byName[alias]; ok && sources[i] < 0 && !taken[at] {
				sources[i], taken[at] = at, true
			}
		}
	}
	return sources
}

// place plans where a reader's field goes; it goes nowhere when the struct has no such field.
func (p *planner) place(plan *fieldPlan, w *Schema, rf Field, t reflect.Type, places map[string]GoField) (err error) {
	plan.name = rf.Name
	goType := anyType
	if t != anyMapType {
		f, ok := places[rf.Name]
		if !ok { // it must resolve all the same
			_, err := p.value(w, rf.Type, anyType)
			return err
		}
		goType, plan.at = f.Type, f.At
	}
	if plan.decode, err = p.value(w, rf.Type, goType); err != nil {
		err = fmt.Errorf("%s: %w", rf.Name, err)
	}
	return err
}

// fromDefault reads a default in place of the payload.
func fromDefault(def []byte, decode decodeFunc) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		if err := d.spend(len(def)); err != nil {
			return err
		}
		data := d.data
		d.data = def
		err := decode(d, to)
		d.data = data
		return err
	}
}

func structRecord(fields []fieldPlan, free int) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		if err := d.enter(); err != nil {
			return err
		}
		if err := d.spend(free); err != nil {
			return err
		}
		for i := range fields {
			f := &fields[i]
			var err error
			if f.decode != nil {
				err = f.decode(d, unsafe.Add(to, f.at))
			} else {
				err = f.skip(d)
			}
			if err != nil {
				return inside(f.name, err)
			}
		}
		d.depth--
		return nil
	}
}

func mapRecord(fields []fieldPlan, free int) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		if err := d.enter(); err != nil {
			return err
		}
		if err := d.spend(free); err != nil {
			return err
		}
		m := make(map[string]any, len(fields))
		*(*map[string]any)(to) = m
		for i := range fields {
			f := &fields[i]
			if f.decode == nil {
				if err := f.skip(d); err != nil {
					return inside(f.name, err)
				}
				continue
			}
			var v any
			if err := f.decode(d, unsafe.Pointer(&v)); err != nil {
				return inside(f.name, err)
			}
			m[f.name] = v
		}
		d.depth--
		return nil
	}
}
