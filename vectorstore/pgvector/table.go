package pgvector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// column is a column that the table must have.
type column struct {
	name, kind string
	rest       string // of its declaration
}

// The columns beside the vectors.
var (
	columns = []column{
		{"tenant", "text", `COLLATE "C" NOT NULL`},
		{"id", "uuid", "NOT NULL"},
		{"version", "text", `COLLATE "C" NOT NULL`},
		{"deleted", "boolean", "NOT NULL"},
		{"properties", "jsonb", "NOT NULL"},
		{"kinds", "jsonb", "NOT NULL"},
		{"inputs", "jsonb", "NOT NULL"},
	}
	ownColumns = names(columns)
)

func names(columns []column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name
	}
	return out
}

func (v Vector) column() column {
	kind := fmt.Sprintf("vector(%d)", v.Dimensions)
	if v.Multi {
		kind += "[]"
	}
	return column{v.Name, kind, ""}
}

func (o Options) columns() []column {
	out := slices.Clone(columns)
	for _, v := range o.Vectors {
		out = append(out, v.column())
	}
	for _, t := range o.Searchable {
		out = append(out, t.columns()...)
	}
	return out
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// declaration is the column as CREATE TABLE has it.
func (c column) declaration() string {
	return strings.TrimSpace(quoted(c.name) + " " + c.kind + " " + c.rest)
}

// ensure creates the table, or checks the one that is there and adds the vectors and indexes that it lacks. Of several processes
// that do so at once, one goes first.
func (s *Store) ensure(ctx context.Context, o Options) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if !o.OpenOnly {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "tidemark pgvector "+s.table); err != nil {
				return err
			}
			if err := ensureExtension(ctx, tx); err != nil {
				return err
			}
		}
		have, err := s.columns(ctx, tx)
		if err != nil {
			return err
		}
		s.texts = slices.Clone(o.Searchable)
		for _, t := range textsOf(have) {
			if !slices.Contains(s.texts, t) {
				s.texts = append(s.texts, t)
			}
		}
		if len(have) == 0 && !o.OpenOnly {
			return s.create(ctx, tx, o)
		}
		return s.fit(ctx, tx, o, have)
	})
}

func ensureExtension(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')").Scan(&there)
	if err == nil && !there {
		_, err = tx.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS vector")
	}
	return err
}

// columns returns the types of the table's columns, as Postgres writes them; none where there is no table.
func (s *Store) columns(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, s.table)
	if err != nil {
		return nil, err
	}
	have := map[string]string{}
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error { have[name] = kind; return nil })
	return have, err
}

func (s *Store) create(ctx context.Context, tx pgx.Tx, o Options) error {
	var parts []string
	for _, c := range o.columns() {
		parts = append(parts, c.declaration())
	}
	parts = append(parts, "PRIMARY KEY (tenant, id)")
	if _, err := tx.Exec(ctx, "CREATE TABLE "+s.table+" ("+strings.Join(parts, ", ")+")"); err != nil {
		return err
	}
	return s.index(ctx, tx, o)
}

// fit adds what the table lacks; with OpenOnly that is an error, and so is what has another type.
func (s *Store) fit(ctx context.Context, tx pgx.Tx, o Options, have map[string]string) error {
	var errs []error
	for _, c := range o.columns() {
		kind := have[c.name]
		switch {
		case kind == c.kind:
		case kind == "" && !o.OpenOnly && !slices.Contains(ownColumns, c.name):
			if _, err := tx.Exec(ctx, "ALTER TABLE "+s.table+" ADD COLUMN "+c.declaration()); err != nil {
				return err
			}
		case kind == "":
			errs = append(errs, fmt.Errorf("%w: %s lacks the column %q of type %s", ErrTable, s.table, c.name, c.kind))
		default:
			errs = append(errs, fmt.Errorf("%w: column %q of %s is %s, not %s", ErrTable, c.name, s.table, kind, c.kind))
		}
	}
	if err := errors.Join(errs...); err != nil || o.OpenOnly {
		return err
	}
	for _, t := range o.Searchable {
		if have[t.words()] == "" {
			if err := s.fillWords(ctx, tx, t); err != nil {
				return fmt.Errorf("filling %q: %w", t.words(), err)
			}
		}
	}
	return s.index(ctx, tx, o)
}

// index makes the indexes that are wanted and not there.
func (s *Store) index(ctx context.Context, tx pgx.Tx, o Options) error {
	table := o.identifier()
	name := func(what string) string { return quoted(table[len(table)-1] + what) }
	for i, v := range o.Vectors {
		if !v.HNSW {
			continue
		}
		var with []string
		if v.MaxConnections > 0 {
			with = append(with, fmt.Sprintf("m = %d", v.MaxConnections))
		}
		if v.EFConstruction > 0 {
			with = append(with, fmt.Sprintf("ef_construction = %d", v.EFConstruction))
		}
		statement := "CREATE INDEX IF NOT EXISTS " + name(fmt.Sprintf("_%08x_hnsw", hash(v.Name))) + " ON " + s.table +
			" USING hnsw (" + quoted(v.Name) + " vector_cosine_ops)"
		if len(with) > 0 {
			statement += " WITH (" + strings.Join(with, ", ") + ")"
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("vector %d: %w", i, err)
		}
	}
	for _, t := range o.Searchable {
		for what, on := range map[string]string{
			"words":  " USING gin (" + quoted(t.words()) + ")",
			"length": " (tenant, " + quoted(t.length()) + ") WHERE NOT deleted", // by which the mean length is read without the rows
		} {
			index := name(fmt.Sprintf("_%08x_%s", hash(t.words()), what))
			if _, err := tx.Exec(ctx, "CREATE INDEX IF NOT EXISTS "+index+" ON "+s.table+on); err != nil {
				return fmt.Errorf("property %q: %w", t.Name, err)
			}
		}
	}
	if !o.FilterIndex {
		return nil
	}
	_, err := tx.Exec(ctx, "CREATE INDEX IF NOT EXISTS "+name("_properties")+" ON "+s.table+" USING gin (properties jsonb_path_ops)")
	return err
}
