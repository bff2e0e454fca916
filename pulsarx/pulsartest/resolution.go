package pulsartest

import (
	"fmt"
	"slices"

	"github.com/hamba/avro/v2"
)

// resolution checks readers against writers by Avro's schema resolution, as Java's ResolvingGrammarGenerator has it and with it
// Pulsar: of names only those of enums and of fixed count, and what symbols an enum has does not. It remembers the records that it
// has compared, for those that contain themselves.
type resolution map[[2]avro.Schema]error

func (r resolution) check(reader, writer avro.Schema) error {
	reader, writer = named(reader), named(writer)
	if w, ok := writer.(*avro.UnionSchema); ok {
		for _, branch := range w.Types() {
			if err := r.check(reader, branch); err != nil {
				return err
			}
		}
		return nil
	}
	if u, ok := reader.(*avro.UnionSchema); ok {
		if !slices.ContainsFunc(u.Types(), func(branch avro.Schema) bool { return r.check(branch, writer) == nil }) {
			return fmt.Errorf("no branch of a union reads %s", writer.Type())
		}
		return nil
	}
	if reader.Type() != writer.Type() {
		if !slices.Contains(promotions[writer.Type()], reader.Type()) {
			return fmt.Errorf("%s does not read %s", reader.Type(), writer.Type())
		}
		return nil
	}
	switch reader := reader.(type) {
	case *avro.ArraySchema:
		return r.check(reader.Items(), writer.(*avro.ArraySchema).Items())
	case *avro.MapSchema:
		return r.check(reader.Values(), writer.(*avro.MapSchema).Values())
	case *avro.EnumSchema:
		return sameName(reader, writer.(*avro.EnumSchema))
	case *avro.FixedSchema:
		if w := writer.(*avro.FixedSchema); reader.Size() != w.Size() {
			return fmt.Errorf("%s has %d bytes and %d", reader.FullName(), reader.Size(), w.Size())
		}
		return sameName(reader, writer.(*avro.FixedSchema))
	case *avro.RecordSchema:
		return r.record(reader, writer.(*avro.RecordSchema))
	default:
		return nil
	}
}

// promotions are the types that read each type besides itself.
var promotions = map[avro.Type][]avro.Type{
	avro.Int:    {avro.Long, avro.Float, avro.Double},
	avro.Long:   {avro.Float, avro.Double},
	avro.Float:  {avro.Double},
	avro.String: {avro.Bytes},
	avro.Bytes:  {avro.String},
}

// named follows a reference by name.
func named(s avro.Schema) avro.Schema {
	if ref, ok := s.(*avro.RefSchema); ok {
		return ref.Schema()
	}
	return s
}

func sameName(a, b avro.NamedSchema) error {
	if a.Name() != b.Name() {
		return fmt.Errorf("%s does not read %s", a.FullName(), b.FullName())
	}
	return nil
}

func (r resolution) record(reader, writer *avro.RecordSchema) error {
	pair := [2]avro.Schema{reader, writer}
	if err, compared := r[pair]; compared {
		return err
	}
	r[pair] = nil
	r[pair] = r.fields(reader, writer)
	return r[pair]
}

func (r resolution) fields(reader, writer *avro.RecordSchema) error {
	for _, f := range reader.Fields() {
		i := slices.IndexFunc(writer.Fields(), func(w *avro.Field) bool {
			return w.Name() == f.Name() || slices.Contains(f.Aliases(), w.Name())
		})
		if i < 0 {
			if !f.HasDefault() {
				return fmt.Errorf("field %s of %s has no default, and %s does not have the field", f.Name(), reader.FullName(), writer.FullName())
			}
			continue
		}
		if err := r.check(f.Type(), writer.Fields()[i].Type()); err != nil {
			return fmt.Errorf("field %s of %s: %w", f.Name(), reader.FullName(), err)
		}
	}
	return nil
}
