package cdc

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unsafe"
)

// encoding is how a string carries bytes, or that it carries a number as text.
type encoding string

const (
	encodingBase64    encoding = "base64"
	encodingBase64URL encoding = "base64url"
	encodingHex       encoding = "hex"
	encodingText      encoding = "text"
)

// format is what the options of a field's tag declare about its column.
type format struct {
	unit     unit
	scale    int
	scaled   bool
	encoding encoding
	json     bool
	// element is set inside arrays and objects.
	element bool
}

// field is a field of T.
type field struct {
	name   string // of the column
	folded bool   // name is the Go name: matches a column without regard to case and underscores
	key    bool
	index  []int
	goType reflect.Type
	codec
	// offset is the field's place in the struct, for kinds that setPlain knows: those without a nil and without options.
	offset uintptr
	plain  reflect.Kind
}

// setPlain stores a number or a boolean without the detour of reflection, and is false for everything else: the codec knows
// what to do then, or why it cannot be done. The row is a struct of the plan's type.
func (f *field) setPlain(row unsafe.Pointer, v *value) bool {
	at := unsafe.Add(row, f.offset)
	if f.plain == reflect.Bool {
		*(*bool)(at) = v.kind == kindTrue
		return v.kind == kindTrue || v.kind == kindFalse
	}
	if f.plain == reflect.Float64 && v.kind == kindNumber && (!v.integer || len(v.raw) < 8) { // fewer digits are exact
		n, err := strconv.ParseFloat(string(v.raw), 64)
		*(*float64)(at) = n
		return err == nil
	}
	if f.plain == reflect.Invalid || !v.integer {
		return false
	}
	n, ok := v.int64()
	switch f.plain {
	case reflect.Int64:
		*(*int64)(at) = n
	case reflect.Int:
		*(*int)(at) = int(n)
		ok = ok && int64(int(n)) == n
	case reflect.Int32:
		*(*int32)(at) = int32(n)
		ok = ok && int64(int32(n)) == n
	case reflect.Int16:
		*(*int16)(at) = int16(n)
		ok = ok && int64(int16(n)) == n
	default:
		return false
	}
	return ok
}

// copyPlain copies a field that has a plain kind from another row.
func (f *field) copyPlain(row, from unsafe.Pointer) {
	to, from := unsafe.Add(row, f.offset), unsafe.Add(from, f.offset)
	switch f.plain {
	case reflect.Bool:
		*(*bool)(to) = *(*bool)(from)
	case reflect.String:
		*(*string)(to) = *(*string)(from)
	case reflect.Int16:
		*(*int16)(to) = *(*int16)(from)
	case reflect.Int32:
		*(*int32)(to) = *(*int32)(from)
	case reflect.Int:
		*(*int)(to) = *(*int)(from)
	case reflect.Int64:
		*(*int64)(to) = *(*int64)(from)
	case reflect.Float64:
		*(*float64)(to) = *(*float64)(from)
	}
}

// place finds the field's offset, and whether it is of a kind that setPlain knows.
func (f *field) place(t reflect.Type) {
	for _, i := range f.index {
		sf := t.Field(i)
		f.offset, t = f.offset+sf.Offset, sf.Type
	}
	switch kind := f.goType.Kind(); kind {
	case reflect.Bool, reflect.Int64, reflect.Int, reflect.Int32, reflect.Int16, reflect.Float64, reflect.String:
		if _, own := special(f.goType, format{}); !own {
			f.plain = kind
		}
	}
}

// at returns the field in a struct.
func (f *field) at(row reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return row.Field(f.index[0])
	}
	return row.FieldByIndex(f.index)
}

// column returns the name that the column of an absent field most likely has.
func (f *field) column() string {
	if !f.folded {
		return f.name
	}
	var b strings.Builder
	for i, r := range f.name {
		lower := unicode.ToLower(r)
		if i > 0 && r != lower && (f.name[i-1] >= 'a' || i+1 < len(f.name) && f.name[i+1] >= 'a') {
			b.WriteByte('_')
		}
		b.WriteRune(lower)
	}
	return b.String()
}

// misfit says why the field can never take a column of the type.
func (f *field) misfit(w *wireType) string {
	const reason = "no value of the column can be decoded into the field"
	if base := strings.TrimLeft(f.goType.String(), "*"); w.class == classInt && (base == "time.Time" || base == "time.Duration") {
		return reason + " unless the tag declares what the number counts: unit=ns, us, ms, s or days"
	}
	return reason
}

// plan is a compiled struct type: how its fields are found and set.
type plan struct {
	fields []*field
	exact  map[string]*field
	fold   map[string]*field
}

// find returns the field for a column, nil if there is none.
func (p *plan) find(column string) *field {
	if f := p.exact[column]; f != nil {
		return f
	}
	return p.fold[fold(column)]
}

// fold makes ProductID, product_id and PRODUCTID equal.
func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// fill reads the struct's fields. The receiver exists before, so that recursive types can refer to it.
func (p *plan) fill(c *compiler, t reflect.Type) error {
	p.exact, p.fold = make(map[string]*field), make(map[string]*field)
	var errs []error
	for _, sf := range reflect.VisibleFields(t) {
		if _, tagged := sf.Tag.Lookup("cdc"); sf.Anonymous && sf.Type.Kind() == reflect.Pointer && !tagged && len(sf.Index) == 1 {
			errs = append(errs, fmt.Errorf("cdc: %v: field %s: an embedded pointer: embed the struct itself, or give it a cdc tag", t, sf.Name))
			continue
		}
		if !sf.IsExported() || sf.Anonymous && isEmbedded(sf) || throughPointer(t, sf.Index) {
			continue
		}
		f, err := c.field(sf)
		if err == nil && f != nil {
			f.place(t)
			err = p.add(f)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cdc: %v: field %s: %w", t, sf.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *plan) add(f *field) error {
	if f.folded {
		if p.fold[fold(f.name)] == nil { // the first one wins, as it does for methods of embedded structs
			p.fold[fold(f.name)] = f
			p.fields = append(p.fields, f)
		}
		return nil
	}
	if p.exact[f.name] != nil {
		return fmt.Errorf("column %q is the target of two fields", f.name)
	}
	p.exact[f.name] = f
	p.fields = append(p.fields, f)
	return nil
}

// isEmbedded says whether an anonymous field lends its fields to the struct instead of being a column itself.
func isEmbedded(sf reflect.StructField) bool {
	return sf.Type.Kind() == reflect.Struct && sf.Tag.Get("cdc") == "" && sf.Tag.Get("json") == "" && !isLeaf(sf.Type)
}

// throughPointer says whether a promoted field is reached through a tagged or pointer embedded struct, whose fields are not ours.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		sf := t.Field(i)
		if !isEmbedded(sf) {
			return true
		}
		t = sf.Type
	}
	return false
}

// field reads one field's tag: cdc first, the name of json second, the Go name last. It returns nil for a field that is left out.
func (c *compiler) field(sf reflect.StructField) (*field, error) {
	tag, tagged := sf.Tag.Lookup("cdc")
	if tag == "-" {
		return nil, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	f := &field{name: name, index: sf.Index, goType: sf.Type}
	if name == "" {
		jsonName, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if jsonName == "-" && !tagged {
			return nil, nil
		}
		if f.name = jsonName; jsonName == "" || jsonName == "-" {
			f.name, f.folded = sf.Name, true
		}
	}
	form, key, err := parseTag(options)
	if err != nil {
		return nil, err
	}
	f.key, form.element = key, c.nested
	f.codec, err = c.compile(sf.Type, form)
	return f, err
}

// parseTag reads the options after the name.
func parseTag(options string) (form format, key bool, err error) {
	for option := range strings.SplitSeq(options, ",") {
		name, argument, _ := strings.Cut(strings.TrimSpace(option), "=")
		switch u, isUnit := unitNames[name]; {
		case option == "":
		case name == "key":
			key = true
		case name == "json":
			form.json = true
		case isUnit && argument == "":
			form.unit = u
		case name == "unit":
			if form.unit = unitNames[argument]; form.unit == unitNone {
				return form, key, fmt.Errorf("unit %q: want ns, us, ms, s or days", argument)
			}
		case name == "scale":
			if form.scale, err = strconv.Atoi(argument); err != nil || form.scale > maxScale || form.scale < minScale {
				return form, key, fmt.Errorf("scale %q: want a number of digits", argument)
			}
			form.scaled = true
		case name == "encoding":
			switch form.encoding = encoding(argument); form.encoding {
			case encodingBase64, encodingBase64URL, encodingHex, encodingText:
			default:
				return form, key, fmt.Errorf("encoding %q: want base64, base64url, hex or text", argument)
			}
		default:
			return form, key, fmt.Errorf("unknown tag option %q", option)
		}
	}
	return form, key, nil
}

// shape is the list of columns of rows as they come, resolved against T and the schema once.
type shape struct {
	// cache is where the shape is kept.
	cache *shapeCache
	// names are those of the wire, then those of T's fields that the wire lacks.
	names []string
	// quoted are the wire's names as they are written, with the colon; empty for names with escapes.
	quoted []string
	// plain are the same names as the values of cells.
	plain []value
	// wire is how many of them are the wire's.
	wire int
	// fields and types are aligned with the wire's names; a field is nil where T has none, a type where there is no schema.
	fields []*field
	types  []*wireType
	// dead marks a name that comes again later in the same row: the last one counts.
	dead []bool
	// byName finds the last column of a name.
	byName map[string]int
	// dynamic is set for T = Row.
	dynamic bool
	// misfit is the first column whose type can never fit its field.
	misfit *DecodeError
}

func (s *shape) matches(cells []cell) bool {
	if s == nil || s.wire != len(cells) {
		return false
	}
	for i := range cells {
		if name := cells[i].name; !name.plain || string(name.raw[1:len(name.raw)-1]) != s.names[i] {
			return false
		}
	}
	return true
}

// newShape resolves the columns of a row. p is nil for T = Row.
func newShape(p *plan, row *wireType, cells []cell) *shape {
	n := len(cells)
	s := &shape{
		names: make([]string, n), wire: n, fields: make([]*field, n), types: make([]*wireType, n),
		dead: make([]bool, n), dynamic: p == nil, byName: make(map[string]int, n), quoted: make([]string, n), plain: make([]value, n),
	}
	found := make(map[*field]string)
	for i := range cells {
		name := cells[i].name.text()
		if before, ok := s.byName[name]; ok {
			s.dead[before] = true
		}
		s.names[i], s.types[i], s.byName[name] = name, row.field(name), i
		if cells[i].name.plain {
			s.plain[i] = cells[i].name
			s.plain[i].raw = []byte(`"` + name + `"`)
			s.quoted[i] = `"` + name + `":`
		}
		if p == nil {
			continue
		}
		if f := p.find(name); f != nil {
			if other := found[f]; other != "" && other != name && s.misfit == nil {
				reason := fmt.Sprintf("the column %q goes to the same field: name one of them in the field's tag", clip(other))
				s.misfit = &DecodeError{Column: name, Go: f.goType.String(), Reason: reason}
			}
			s.fields[i], found[f] = f, name
			if s.misfit == nil && s.types[i] != nil && !f.fits(s.types[i]) {
				s.misfit = &DecodeError{Column: name, Wire: s.types[i].name, Go: f.goType.String(), Reason: f.misfit(s.types[i])}
			}
		}
	}
	if p != nil {
		for _, f := range p.fields {
			if found[f] == "" {
				s.names = append(s.names, f.column())
			}
		}
	}
	return s
}

// shapeCache keeps the shapes of one schema, or of all messages without one.
type shapeCache struct {
	last    atomic.Pointer[shape]
	mu      sync.Mutex
	byNames map[string]*shape
}

const (
	// maxShapes is how many shapes are kept, and maxShapeBytes how long the names of one may be. A table has at most 1600 columns.
	maxShapes     = 64
	maxShapeBytes = 1 << 20
)

// of returns the shape of a row. Rows of one table have one shape, or two: with all columns and with the key's alone.
func (c *shapeCache) of(p *plan, row *wireType, cells []cell) *shape {
	if last := c.last.Load(); last.matches(cells) {
		return last
	}
	var names []byte
	for i := range cells {
		names = append(names, cells[i].name.raw...) // quoted, so that no two lists look alike
	}
	if len(names) > maxShapeBytes {
		return newShape(p, row, cells)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byNames[string(names)]
	if s == nil {
		s = newShape(p, row, cells)
		s.cache = c
		if c.byNames == nil || len(c.byNames) >= maxShapes {
			c.byNames = make(map[string]*shape)
		}
		c.byNames[string(names)] = s
	}
	c.last.Store(s)
	return s
}
