package pulsartest

import (
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/pulsarx/internal/avro"
)

// resolution checks readers against writers by Avro's schema resolution, as Java's ResolvingGrammarGenerator has it and with it
// Pulsar: of names only those of enums and of fixed count, and what symbols an enum has does not. It remembers the records that it
// has compared, for those that contain themselves.
type resolution map[[2]*avro.Schema]error

func (r resolution) check(reader, writer *avro.Schema) error {
	switch {
	case writer.Kind == avro.Union:
		for _, branch := range writer.Branches {
			if err := r.check(reader, branch); err != nil {
				return err
			}
		}
		return nil
	case reader.Kind == avro.Union:
		if !slices.ContainsFunc(reader.Branches, func(branch *avro.Schema) bool { return r.check(branch, writer) == nil }) {
			return fmt.Errorf("no branch of a union reads %s", writer.TypeName())
		}
		return nil
	case !writer.Kind.ReadAs(reader.Kind):
		return fmt.Errorf("%s does not read %s", reader.TypeName(), writer.TypeName())
	}
	switch reader.Kind {
	case avro.Array, avro.Map:
		return r.check(reader.Elem, writer.Elem)
	case avro.Enum:
		return sameName(reader, writer)
	case avro.Fixed:
		if reader.Size != writer.Size {
			return fmt.Errorf("%s has %d bytes and %d", reader.Name, reader.Size, writer.Size)
		}
		return sameName(reader, writer)
	case avro.Record:
		return r.record(reader, writer)
	default:
		return nil
	}
}

func sameName(reader, writer *avro.Schema) error {
	if reader.LastName() != writer.LastName() && !slices.Contains(reader.Aliases, writer.Name) {
		return fmt.Errorf("%s does not read %s", reader.Name, writer.Name)
	}
	return nil
}

func (r resolution) record(reader, writer *avro.Schema) error {
	pair := [2]*avro.Schema{reader, writer}
	if err, compared := r[pair]; compared {
		return err
	}
	r[pair] = nil
	r[pair] = r.fields(reader, writer)
	return r[pair]
}

func (r resolution) fields(reader, writer *avro.Schema) error {
	for _, f := range reader.Fields {
		i := slices.IndexFunc(writer.Fields, func(w avro.Field) bool { return w.Name == f.Name || slices.Contains(f.Aliases, w.Name) })
		if i < 0 {
			if !f.Unread {
				return fmt.Errorf("field %s of %s has no default, and %s does not have the field", f.Name, reader.Name, writer.Name)
			}
			continue
		}
		if err := r.check(f.Type, writer.Fields[i].Type); err != nil {
			return fmt.Errorf("field %s of %s: %w", f.Name, reader.Name, err)
		}
	}
	return nil
}
