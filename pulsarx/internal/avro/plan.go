package avro

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// OneOf is embedded in a struct that stands for a union: each of its other fields is a pointer to the Go type of one branch, and at
// most one of them is set; none is null.
type OneOf struct{}

var (
	oneOfType           = reflect.TypeFor[OneOf]()
	anyType             = reflect.TypeFor[any]()
	anyMapType          = reflect.TypeFor[map[string]any]()
	timeType            = reflect.TypeFor[time.Time]()
	durationType        = reflect.TypeFor[time.Duration]()
	ratType             = reflect.TypeFor[big.Rat]()
	numberType          = reflect.TypeFor[json.Number]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// IsText says whether values of t are written as text, by MarshalText and UnmarshalText.
func IsText(t reflect.Type) bool {
	return t != ratType && reflect.PointerTo(t).Implements(textMarshalerType) && reflect.PointerTo(t).Implements(textUnmarshalerType)
}

// GoField is a field of a struct, or of one that is embedded in it.
type GoField struct {
	Name string // by its tag, or its own
	reflect.StructField
	At    uintptr // offset from the outermost struct
	depth int     // of the struct that has it in the outermost one
}

func (f GoField) hiddenBy(other GoField) bool { return other.Name == f.Name && other.depth < f.depth }

// GoFields returns the fields that count: exported ones without the tag "-", those of embedded structs in place of them unless a tag
// names the struct. A field hides those of its name that are embedded deeper.
func GoFields(t reflect.Type) (fields []GoField) {
	all := goFields(nil, t, 0, 0)
	for _, f := range all {
		if !slices.ContainsFunc(all, f.hiddenBy) {
			fields = append(fields, f)
		}
	}
	return fields
}

func goFields(to []GoField, t reflect.Type, at uintptr, depth int) []GoField {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("avro"), ",")
		switch {
		case name == "-" && f.Tag.Get("avro") == "-", f.Type == oneOfType:
		case f.Anonymous && f.Type.Kind() == reflect.Struct && name == "":
			to = goFields(to, f.Type, at+f.Offset, depth+1)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			to = append(to, GoField{name, f, at + f.Offset, depth})
		}
	}
	return to
}

// IsOneOf says whether t embeds OneOf.
func IsOneOf(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	f, ok := t.FieldByName("OneOf")
	return ok && f.Anonymous && f.Type == oneOfType
}

// Decoder reads values of one Go type that one writer's schema wrote. It is safe for concurrent use.
type Decoder struct{ value decodeFunc }

// NewDecoder compiles how what was written with the schema w is read into t as r has it. An error says why it cannot be.
func NewDecoder(w, r *Schema, t reflect.Type) (*Decoder, error) {
	value, err := newPlanner().value(w, r, t)
	if err != nil {
		return nil, err
	}
	return &Decoder{value}, nil
}

// Decode reads the whole of data into v, a pointer to a zero value of the decoder's type.
func Decode[T any](x *Decoder, data []byte, v *T) error {
	d := decoders.Get().(*decoder)
	d.data, d.depth, d.budget = data, 0, freeBudget+budgetBytes*len(data)
	err := x.value(d, unsafe.Pointer(v))
	left := len(d.data)
	d.data = nil
	decoders.Put(d)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d bytes after the value", left)
	}
	return err
}

// planner compiles the parts of a decoder.
type planner struct {
	records map[planKey]*recordPlan
	skips   map[*Schema]*skipFunc
	sizes   map[*Schema]int // least's
}

type planKey struct {
	w, r *Schema
	t    reflect.Type
}

// recordPlan is a record's, which may refer to itself before it is there.
type recordPlan struct {
	decode decodeFunc
	err    error
}

func newPlanner() *planner {
	return &planner{map[planKey]*recordPlan{}, map[*Schema]*skipFunc{}, map[*Schema]int{}}
}

var errNull = errors.New("null, which the reader's schema does not allow")

// value compiles the resolution of w against r, into t.
func (p *planner) value(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	switch {
	case w.Kind == Union:
		return p.fromUnion(w, r, t)
	case r.Kind == Union:
		return p.intoUnion(w, r, t, nil)
	case w.Kind == Null && r.Kind != Null:
		return nil, errNull
	}
	return p.single(w, r, t)
}

// fromUnion reads a writer's union. A branch that does not resolve is an error of the values that have it, unless none does.
func (p *planner) fromUnion(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	branches := make([]decodeFunc, len(w.Branches))
	var first error
	resolved := len(branches) == 0
	taken := namesakes(w, r)
	for i, branch := range w.Branches {
		decode, err := p.fromBranch(w, r, i, t, taken)
		if err != nil {
			err = fmt.Errorf("%s: %w", branch.TypeName(), err)
			decode = func(*decoder, unsafe.Pointer) error { return err }
			if first == nil || errors.Is(first, errNull) {
				first = err
			}
		}
		resolved = resolved || err == nil
		branches[i] = decode
	}
	if !resolved {
		return nil, first
	}
	return func(d *decoder, to unsafe.Pointer) error {
		i, err := d.index("branch", len(branches))
		if err != nil {
			return err
		}
		return branches[i](d, to)
	}, nil
}

// fromBranch reads the i-th branch of the union w. Where both sides are the same union, it is mostly its own counterpart: a search for
// each of a hostile writer's many branches among as many would take too long.
func (p *planner) fromBranch(w, r *Schema, i int, t reflect.Type, taken map[*Schema]bool) (decodeFunc, error) {
	if w == r {
		if decode, err := p.branch(w.Branches[i], r, i, t); err == nil {
			return decode, nil
		}
	}
	branch := w.Branches[i]
	switch {
	case r.Kind == Union:
		return p.intoUnion(branch, r, t, taken)
	case isOthers(branch, r, taken):
		return nil, fmt.Errorf("%s is not read as %s", branch.TypeName(), r.TypeName())
	}
	return p.value(branch, r, t)
}

// namesakes are the reader's branches, or the schema that is none of a union, whose names the writer's union has too. Only they read what
// has their names, and nothing else: what the reader does not have must not be taken for what it has.
func namesakes(w, r *Schema) map[*Schema]bool {
	branches := r.Branches
	if r.Kind != Union {
		branches = []*Schema{r}
	}
	taken := make(map[*Schema]bool, len(branches))
	for _, branch := range branches {
		taken[branch] = w == r || slices.ContainsFunc(w.Branches, func(b *Schema) bool { return likeness(b, branch) <= sameLastName })
	}
	return taken
}

func isOthers(w, r *Schema, taken map[*Schema]bool) bool {
	return taken[r] && likeness(w, r) == sameKind
}

// intoUnion reads what is no union as the first of the reader's branches that takes it: one of the same name before one of the
// same type, and that before one that it is promoted to. The reader's branches that are taken are read from their namesakes alone.
func (p *planner) intoUnion(w, r *Schema, t reflect.Type, taken map[*Schema]bool) (decodeFunc, error) {
	var candidates []int
	for rank := sameName; rank <= promoted; rank++ {
		for i, branch := range r.Branches {
			if likeness(w, branch) == rank && !isOthers(w, branch, taken) {
				candidates = append(candidates, i)
			}
		}
	}
	err := fmt.Errorf("no branch of the reader's union takes %s", w.TypeName())
	for _, i := range candidates {
		decode, failed := p.branch(w, r, i, t)
		if failed == nil {
			return decode, nil
		}
		if len(candidates) == 1 {
			err = failed
		}
	}
	return nil, err
}

// How alike two schemas are, the most first.
const (
	sameName = iota
	sameLastName
	sameKind
	promoted
	unlike
)

func likeness(w, r *Schema) int {
	switch {
	case !w.Kind.ReadAs(r.Kind):
		return unlike
	case w.Kind != r.Kind:
		return promoted
	case w.Name == r.Name, slices.Contains(r.Aliases, w.Name):
		return sameName
	case w.LastName() == r.LastName():
		return sameLastName
	}
	return sameKind
}

// branch reads w as the i-th branch of the union r, which t stands for.
func (p *planner) branch(w, r *Schema, i int, t reflect.Type) (decodeFunc, error) {
	branch := r.Branches[i]
	if branch.Kind == Null {
		if !nullable(t) {
			return nil, fmt.Errorf("%v cannot be null; use a pointer", t)
		}
		return func(*decoder, unsafe.Pointer) error { return nil }, nil // what is not set is nil
	}
	if err := fits(r, t); err != nil {
		return nil, err
	}
	if IsOneOf(t) {
		fields, err := p.oneOfFields(r, t)
		if err != nil {
			return nil, err
		}
		f := fields[i]
		decode, err := p.pointer(w, branch, f.Type)
		return at(decode, f.At), err
	}
	if t.Kind() == reflect.Pointer {
		return p.pointer(w, branch, t)
	}
	return p.single(w, branch, t)
}

// fits says whether t has a place for null, where the union has one.
func fits(r *Schema, t reflect.Type) error {
	if r.null >= 0 && !nullable(t) {
		return fmt.Errorf("%v cannot be null; use a pointer", t)
	}
	return nil
}

func nullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return IsOneOf(t)
}

// oneOfFields pairs a union's branches with t's fields: by their tags' names, else the first whose type takes the branch.
func (p *planner) oneOfFields(r *Schema, t reflect.Type) ([]GoField, error) {
	fields, used := GoFields(t), map[string]bool{}
	pairs := make([]GoField, len(r.Branches))
	for i, branch := range r.Branches {
		if branch.Kind == Null {
			continue
		}
		at := slices.IndexFunc(fields, func(f GoField) bool { return f.Tag.Get("avro") != "" && f.Name == branch.TypeName() })
		if at < 0 {
			at = slices.IndexFunc(fields, func(f GoField) bool {
				if f.Type.Kind() != reflect.Pointer || used[f.Name] {
					return false
				}
				_, err := p.value(branch, branch, f.Type.Elem())
				return err == nil
			})
		}
		if at < 0 || fields[at].Type.Kind() != reflect.Pointer || used[fields[at].Name] {
			return nil, fmt.Errorf("%v has no pointer for the branch %s", t, branch.TypeName())
		}
		used[fields[at].Name] = true
		pairs[i] = fields[at]
	}
	return pairs, nil
}

func at(decode decodeFunc, offset uintptr) decodeFunc {
	if offset == 0 || decode == nil {
		return decode
	}
	return func(d *decoder, to unsafe.Pointer) error { return decode(d, unsafe.Add(to, offset)) }
}

// pointer reads into a new value that the pointer t gets.
func (p *planner) pointer(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	elem := t.Elem()
	decode, err := p.value(w, r, elem)
	if err != nil {
		return nil, err
	}
	return func(d *decoder, to unsafe.Pointer) error {
		v := reflect.New(elem).UnsafePointer()
		*(*unsafe.Pointer)(to) = v
		return decode(d, v)
	}, nil
}

// single resolves two schemas neither of which is a union.
func (p *planner) single(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	switch {
	case !w.Kind.ReadAs(r.Kind):
		return nil, fmt.Errorf("%s is not read as %s", w.TypeName(), r.TypeName())
	case t.Kind() == reflect.Pointer:
		return p.pointer(w, r, t)
	case t.Kind() == reflect.Interface:
		return p.dynamic(w, r, t)
	}
	var decode decodeFunc
	var err error
	switch r.Kind {
	case Null:
		decode = func(*decoder, unsafe.Pointer) error { return nil }
	case Boolean:
		if t.Kind() == reflect.Bool {
			decode = decodeBool
		}
	case Int, Long:
		decode, err = decodeInteger(w, r, t)
	case Float, Double:
		decode, err = decodeFloat(w, r, t)
	case Bytes, String:
		decode = decodeBytes(w, r, t)
	case Enum:
		decode = decodeEnum(w, r, t)
	case Fixed:
		decode, err = decodeFixed(w, r, t)
	case Array:
		decode, err = p.array(w, r, t)
	case Map:
		decode, err = p.mapping(w, r, t)
	case Record:
		decode, err = p.record(w, r, t)
	}
	if err == nil && decode == nil {
		err = noPlace(r, t)
	}
	return decode, err
}

func noPlace(r *Schema, t reflect.Type) error {
	return fmt.Errorf("%v has no place for %s", t, r.TypeName())
}

// dynamic reads into an interface what the schema's natural Go type is.
func (p *planner) dynamic(w, r *Schema, t reflect.Type) (decodeFunc, error) {
	if t != anyType {
		return nil, fmt.Errorf("%v is no place for %s; any is", t, r.TypeName())
	}
	natural := natural(r)
	if natural == nil { // null
		return func(*decoder, unsafe.Pointer) error { return nil }, nil
	}
	decode, err := p.single(w, r, natural)
	if err != nil {
		return nil, err
	}
	switch natural.Kind() {
	case reflect.Int64:
		if natural != durationType {
			return boxed[int64](decode), nil
		}
	case reflect.String:
		if natural != numberType {
			return boxed[string](decode), nil
		}
	case reflect.Map:
		return boxed[map[string]any](decode), nil
	}
	return func(d *decoder, to unsafe.Pointer) error {
		v := reflect.New(natural)
		if err := decode(d, v.UnsafePointer()); err != nil {
			return err
		}
		*(*any)(to) = v.Elem().Interface()
		return nil
	}, nil
}

func boxed[T any](decode decodeFunc) decodeFunc {
	return func(d *decoder, to unsafe.Pointer) error {
		var v T
		if err := decode(d, unsafe.Pointer(&v)); err != nil {
			return err
		}
		*(*any)(to) = v
		return nil
	}
}

// natural is the Go type of what a schema reads into an interface: int64, float64, string, bool, []byte, []any, map[string]any,
// json.Number for decimals, time.Time and time.Duration; nil for null.
func natural(s *Schema) reflect.Type {
	switch s.Logical {
	case Decimal:
		return numberType
	case UUID:
		return reflect.TypeFor[string]()
	case TimeMillis, TimeMicros:
		return durationType
	case None:
	default:
		return timeType
	}
	switch s.Kind {
	case Null:
		return nil
	case Boolean:
		return reflect.TypeFor[bool]()
	case Int, Long:
		return reflect.TypeFor[int64]()
	case Float, Double:
		return reflect.TypeFor[float64]()
	case Bytes, Fixed:
		return reflect.TypeFor[[]byte]()
	case Array:
		return reflect.TypeFor[[]any]()
	case Record, Map:
		return anyMapType
	}
	return reflect.TypeFor[string]()
}
