package vectorstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
)

// columnsInput is the name under which an object's Inputs have a digest of each column of its row, so that a later
// change can tell which columns have changed.
const columnsInput = "tidemark.columns"

// columns are those of a row's type: the fields of a struct, by the rules of package cdc, or for [cdc.Row] what the row
// has.
type columns struct {
	fields []column
	open   bool // a cdc.Row, which may have any
}

type column struct {
	index  []int
	name   string // by a tag, else the Go name, folded
	goName string // the Go name, folded
}

func columnsOf(t reflect.Type) *columns {
	if t == reflect.TypeFor[cdc.Row]() {
		return &columns{open: true}
	}
	c := &columns{}
	if t.Kind() != reflect.Struct {
		return c
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("cdc"), ",")
		if other, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == "" && other != "-" {
			tag = other
		}
		if f.IsExported() && tag != "-" && (!f.Anonymous || tag != "") {
			c.fields = append(c.fields, column{f.Index, cmp.Or(tag, folded(f.Name)), folded(f.Name)})
		}
	}
	return c
}

func folded(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// resolve returns the columns as each calls them, and the first that is unknown.
func (c *columns) resolve(names []string) (out []string, unknown string) {
	if c.open {
		return names, ""
	}
	for _, name := range names {
		i := slices.IndexFunc(c.fields, func(f column) bool { return f.name == name })
		if i < 0 {
			i = slices.IndexFunc(c.fields, func(f column) bool { return f.goName == folded(name) })
		}
		if i < 0 {
			return nil, name
		}
		out = append(out, c.fields[i].name)
	}
	return out, ""
}

// each calls f with the columns of a row.
func (c *columns) each(row reflect.Value, f func(name string, v reflect.Value)) {
	if r, ok := row.Interface().(cdc.Row); ok {
		for i := range r {
			f(r[i].Name, row.Index(i).FieldByName("Value"))
		}
		return
	}
	for i := range c.fields {
		if v, err := row.FieldByIndexErr(c.fields[i].index); err == nil {
			f(c.fields[i].name, v)
		}
	}
}

// The lengths of a column's digest: its name's part and the value's, in hex digits.
const (
	columnName   = 8
	columnDigest = columnName + 12
)

// digest returns the digests of all columns that are known; those of the others are as before.
func (c *columns) digest(row reflect.Value, unknown []string, before string) string {
	var out []string
	c.each(row, func(name string, v reflect.Value) {
		if !slices.Contains(unknown, name) {
			out = append(out, digestOf(name, v))
		}
	})
	for _, name := range unknown {
		if old := digestIn(before, name); old != "" {
			out = append(out, old)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// shortHash returns the first digits of the SHA-256 of a text, as hex.
func shortHash(text []byte, digits int) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digits]
}

func digestOf(name string, v reflect.Value) string {
	text, isBytes := v.Interface().([]byte)
	if !isBytes || text == nil {
		var err error
		if text, err = json.Marshal(v.Interface()); err != nil { // NaN, for one
			text = fmt.Append(nil, v.Interface())
		}
	}
	return shortHash([]byte(name), columnName) + shortHash(text, columnDigest-columnName)
}

// digestIn returns a column's digest among those of a row, empty where it has none.
func digestIn(all, name string) string {
	prefix := shortHash([]byte(name), columnName)
	for digest := range strings.FieldsSeq(all) {
		if strings.HasPrefix(digest, prefix) {
			return digest
		}
	}
	return ""
}

// changed returns the known columns of a row that are not known to be as they were.
func (c *columns) changed(row reflect.Value, unknown []string, before string) (names []string) {
	c.each(row, func(name string, v reflect.Value) {
		if !slices.Contains(unknown, name) && digestIn(before, name) != digestOf(name, v) {
			names = append(names, name)
		}
	})
	return names
}

// probe is a value to try in a column.
type probe struct {
	text   string
	number int64
	at     time.Time
}

// probes are of different lengths, and valid as JSON, so that functions that parse or cut see a difference too.
var probes = []probe{
	{`"1"`, 1, time.Unix(1_000_000_000, 0).UTC()},
	{`"` + strings.Repeat("tidemark ", 1000) + `"`, 123_456_789, time.Unix(2_000_000_000, 0).UTC()},
}

// fill puts a probe in the named columns of a row, in memory of its own.
func (c *columns) fill(row reflect.Value, names []string, p probe) {
	if r, ok := row.Addr().Interface().(*cdc.Row); ok {
		*r = slices.Clone(*r)
		for _, name := range names {
			if i := slices.IndexFunc(*r, func(c cdc.Column) bool { return c.Name == name }); i >= 0 {
				(*r)[i].Value = p.text
			} else {
				*r = append(*r, cdc.Column{Name: name, Value: p.text})
			}
		}
		return
	}
	for i := range c.fields {
		field := &c.fields[i]
		if !slices.Contains(names, field.name) {
			continue
		}
		if v, err := row.FieldByIndexErr(field.index); err == nil {
			p.fill(v, 0)
		}
	}
}

// fill sets v to a value other than its zero value. What has none to try is left as it is.
func (p probe) fill(v reflect.Value, depth int) {
	const maxDepth = 8
	if depth > maxDepth || !v.CanSet() {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(p.at))
		return
	case reflect.TypeFor[big.Int]():
		v.Set(reflect.ValueOf(*big.NewInt(p.number)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(p.text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(p.number)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(p.number))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(p.number))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		p.fill(v.Elem(), depth+1)
	case reflect.Slice:
		p.fillSlice(v, depth)
	case reflect.Array:
		for i := range v.Len() {
			p.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		p.fill(key, depth+1)
		p.fill(elem, depth+1)
		if key.Comparable() {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			p.fill(v.Field(i), depth+1)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(p.text))
		}
	default:
	}
}

func (p probe) fillSlice(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.Set(reflect.ValueOf([]byte(p.text)).Convert(v.Type()))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	p.fill(v.Index(0), depth+1)
}
