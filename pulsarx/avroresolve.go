package pulsarx

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hamba/avro/v2"
)

// resolveAvro says how the reader takes what was written with another schema. The Avro library does the resolution, except for
// what it does not do as the specification, or its readers, want it: where null is allowed on one side alone (leveling), names and
// the units of timestamps (aligning).
func resolveAvro(reader *avroResolved, writer []byte) (_ *avroResolved, err error) {
	defer recovered(&err)
	w, err := parseAvro(writer)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's Avro schema: %w", err)
	}
	l := leveling{done: map[string]bool{}}
	text, err := edited(writer, func(tree any) any { return l.level(tree, w, reader.schema) })
	if err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's Avro schema: %w", err)
	}
	leveled := w
	if l.changed {
		if leveled, err = parseAvro(text); err != nil {
			return nil, fmt.Errorf("pulsarx: the writer's Avro schema: %w", err)
		}
	}
	text, err = edited(reader.text, func(tree any) any {
		aligning{map[string]map[string]any{}, map[[2]string]bool{}}.align(tree, leveled)
		return tree
	})
	if err != nil {
		return nil, fmt.Errorf("pulsarx: Avro schema: %w", err)
	}
	r, err := parseAvro(text)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: Avro schema: %w", err)
	}
	s, err := avro.NewSchemaCompatibility().Resolve(r, leveled)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: the writer's Avro schema does not resolve: %w", err)
	}
	return newAvroResolved(reader.text, w, leveled, s), nil
}

// edited is the JSON text with its tree edited.
func edited(text []byte, edit func(tree any) any) ([]byte, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(edit(tree))
}

// leveling edits the tree of a writer's schema: a type that the reader takes with null becomes its union with null, and a union
// with null that the reader takes without it becomes its other type. checkAvro rewrites the payload to match, and refuses the null
// that the reader has no place for.
type leveling struct {
	done    map[string]bool // records
	changed bool
}

func (l *leveling) level(node any, w, r avro.Schema) any {
	w, r = target(w), target(r)
	wu, wUnion := w.(*avro.UnionSchema)
	ru, rUnion := r.(*avro.UnionSchema)
	branches, _ := node.([]any)
	switch {
	case wUnion && rUnion && len(branches) == len(wu.Types()):
		for i, branch := range wu.Types() {
			for _, to := range ru.Types() {
				if target(to).Type() == target(branch).Type() {
					branches[i] = l.level(branches[i], branch, to)
				}
			}
		}
	case wUnion && wu.Nullable() && len(branches) == 2 && r.Type() != avro.Null:
		l.changed = true
		_, at := wu.Indices()
		return l.level(branches[at], wu.Types()[at], r)
	case rUnion && ru.Nullable() && w.Type() != avro.Null && !wUnion:
		l.changed = true
		_, at := ru.Indices()
		return []any{"null", l.level(node, w, ru.Types()[at])}
	case !wUnion && !rUnion:
		l.inside(node, w, r)
	}
	return node
}

// inside levels what a record, an array or a map holds.
func (l *leveling) inside(node any, w, r avro.Schema) {
	tree, ok := node.(map[string]any)
	if !ok || w.Type() != r.Type() {
		return
	}
	if inner, ok := tree["type"].(map[string]any); ok {
		l.inside(inner, w, r)
		return
	}
	switch w := w.(type) {
	case *avro.ArraySchema:
		tree["items"] = l.level(tree["items"], w.Items(), r.(*avro.ArraySchema).Items())
	case *avro.MapSchema:
		tree["values"] = l.level(tree["values"], w.Values(), r.(*avro.MapSchema).Values())
	case *avro.RecordSchema:
		fields, _ := tree["fields"].([]any)
		if l.done[w.FullName()] || len(fields) != len(w.Fields()) {
			return
		}
		l.done[w.FullName()] = true
		for i, wf := range w.Fields() {
			field, _ := fields[i].(map[string]any)
			delete(field, "default") // may not be one of the leveled type, and only a reader's counts
			for _, rf := range r.(*avro.RecordSchema).Fields() {
				if rf.Name() == wf.Name() || slices.Contains(rf.Aliases(), wf.Name()) {
					field["type"] = l.level(field["type"], wf.Type(), rf.Type())
					break
				}
			}
		}
	}
}

// target is the schema that a reference by name is of.
func target(s avro.Schema) avro.Schema {
	if ref, ok := s.(*avro.RefSchema); ok {
		return ref.Schema()
	}
	return s
}

// aligning edits the tree of the reader's schema. Its records, enums and fixed get the writer's names as aliases: what stands at
// the same place is meant to be the same. Its timestamps get the writer's unit, by which the library makes a time.Time; the
// specification would take milliseconds for microseconds.
type aligning struct {
	defined map[string]map[string]any // the reader's named types, by their names without namespaces
	done    map[[2]string]bool        // reader's and writer's names
}

func (a aligning) align(reader any, w avro.Schema) {
	w = target(w)
	switch r := reader.(type) {
	case string:
		if definition := a.defined[lastName(r)]; definition != nil {
			a.align(definition, w)
		}
	case []any:
		for _, branch := range r {
			a.align(branch, w)
		}
	case map[string]any:
		if union, ok := w.(*avro.UnionSchema); ok {
			for _, branch := range union.Types() {
				a.align(r, branch)
			}
			return
		}
		if _, primitive := r["type"].(string); !primitive {
			a.align(r["type"], w)
			return
		}
		a.alignTree(r, w)
	}
}

func (a aligning) alignTree(r map[string]any, w avro.Schema) {
	name, _ := r["name"].(string)
	if name != "" {
		a.defined[lastName(name)] = r
	}
	if r["type"] != string(w.Type()) {
		return
	}
	switch w := w.(type) {
	case *avro.PrimitiveSchema:
		if l := w.Logical(); l != nil && isTimestamp(r["logicalType"]) && isTimestamp(string(l.Type())) {
			r["logicalType"] = string(l.Type())
		}
	case *avro.ArraySchema:
		a.align(r["items"], w.Items())
	case *avro.MapSchema:
		a.align(r["values"], w.Values())
	case avro.NamedSchema:
		pair := [2]string{name, w.FullName()}
		if a.done[pair] {
			return
		}
		a.done[pair] = true
		if name != w.Name() && name != w.FullName() {
			aliases, _ := r["aliases"].([]any)
			r["aliases"] = append(aliases, w.FullName())
		}
		if w, ok := w.(*avro.RecordSchema); ok {
			a.alignFields(r, w)
		}
	}
}

func (a aligning) alignFields(r map[string]any, w *avro.RecordSchema) {
	fields, _ := r["fields"].([]any)
	for _, f := range fields {
		field, _ := f.(map[string]any)
		for _, wf := range w.Fields() {
			if named(field, wf.Name()) {
				a.align(field["type"], wf.Type())
			}
		}
	}
}

func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func isTimestamp(logical any) bool {
	name, _ := logical.(string)
	return strings.HasPrefix(name, "timestamp-") || strings.HasPrefix(name, "local-timestamp-")
}

// named says whether a field of a schema's JSON has the name, or had it.
func named(field map[string]any, name string) bool {
	if field["name"] == name {
		return true
	}
	aliases, _ := field["aliases"].([]any)
	for _, alias := range aliases {
		if alias == name {
			return true
		}
	}
	return false
}
