package pgvector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// statements returns the INSERTs that make a mutation: put makes any, on what is stored at that moment; replace, which costs the server
// less, one that keeps nothing and has no condition. Their parameters are those of put.args, of which replace takes the first. What an
// object keeps is decided in the statement, so that nothing comes between reading and writing.
func (s *Store) statements() (put, replace string) {
	columns := []string{"tenant", "id", "version", "deleted", "properties", "kinds", "inputs"}
	given := []string{"$1::text", "$2::text::uuid", "$3::text", "$4::boolean", "$5::jsonb", "$6::jsonb", "$7::jsonb"}
	for _, v := range s.vectors {
		columns, given = append(columns, quoted(v.Name)), append(given, v.cast(fmt.Sprintf("$%d", len(given)+1)))
	}
	for _, t := range s.texts {
		columns, given = append(columns, quoted(t.words())), append(given, fmt.Sprintf("$%d::bigint[]", len(given)+1))
	}
	more := len(columns)
	mentioned, merge, blank := fmt.Sprintf("$%d", more+1), fmt.Sprintf("$%d", more+2), fmt.Sprintf("$%d", more+3)
	version := fmt.Sprintf("$%d", more+4)
	merges := "(" + merge + " AND NOT t.deleted)" // and there is something to keep
	kept := map[string]string{
		"version":    "EXCLUDED.version = '' THEN t.version",
		"properties": "true THEN (t.properties - " + mentioned + "::text[]) || EXCLUDED.properties",
		"kinds":      "true THEN (t.kinds - " + mentioned + "::text[]) || EXCLUDED.kinds",
		"inputs":     "true THEN (t.inputs - " + blank + "::text[]) || EXCLUDED.inputs",
	}
	for i, c := range columns[fixedArgs:] {
		kept[c] = fmt.Sprintf("NOT $%d::boolean THEN t.%s", more+5+i, c)
	}
	var merged, replaced []string
	for _, c := range columns[2:] {
		replaced = append(replaced, c+" = EXCLUDED."+c)
		if then := kept[c]; then == "" {
			merged = append(merged, c+" = EXCLUDED."+c)
		} else {
			merged = append(merged, fmt.Sprintf("%s = CASE WHEN %s AND %s ELSE EXCLUDED.%s END", c, merges, then, c))
		}
	}
	insert := "INSERT INTO " + s.table + " AS t (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(given, ", ")
	const conflict = " ON CONFLICT (tenant, id) DO UPDATE SET "
	put = insert + " WHERE (" + version + "::text IS NULL OR coalesce((SELECT version FROM " + s.table +
		" WHERE tenant = $1 AND id = $2::text::uuid), '') = " + version + ")" + conflict + strings.Join(merged, ", ") +
		" WHERE " + version + "::text IS NULL OR t.version = " + version
	return put, insert + conflict + strings.Join(replaced, ", ")
}

// fixedArgs is how many arguments stand before the vectors, and after these the texts.
const fixedArgs = 7

// put is a mutation as it is sent, with its place among those of the call.
type put struct {
	place int
	ref   vectorstore.Ref
	args  []any
	whole bool // it keeps nothing and has no condition
}

// Apply makes the mutations take effect in order, at most MaxBatch in a transaction. Refused with a permanent error, each by itself,
// are mutations with an id that is no UUID in lower case ([vectorstore.ErrID]), with a vector that the table lacks or that is not
// finite, all zero or of another length ([vectorstore.ErrVector]), and with a value that [vectorstore.Value] or Postgres refuses
// ([vectorstore.ErrValue]): texts with a zero byte, and dates beyond the years 0 to 9999.
func (s *Store) Apply(ctx context.Context, m []vectorstore.Mutation) error {
	return s.applyIf(ctx, m, func(int) *string { return nil })
}

// ApplyIf is Apply for mutations that take effect only where the version is still the given one: it is compared in the statement that
// writes.
func (s *Store) ApplyIf(ctx context.Context, m []vectorstore.Mutation, versions []string) error {
	if len(versions) != len(m) {
		return vectorstore.Permanent(fmt.Errorf("pgvector: apply: %d versions for %d mutations", len(versions), len(m)))
	}
	return s.applyIf(ctx, m, func(i int) *string { return &versions[i] })
}

func (s *Store) applyIf(ctx context.Context, m []vectorstore.Mutation, expected func(i int) *string) error {
	if err := ctx.Err(); err != nil {
		return failed("apply", err)
	}
	errs := make([]error, len(m))
	var puts []*put
	for i := range m {
		p, err := s.parse(&m[i], expected(i))
		if err != nil {
			errs[i] = objectError(m[i].Object.ID, err)
			continue
		}
		p.place = i
		puts = append(puts, p)
	}
	// Every transaction locks its rows in the same order, so that none waits for another in a circle; those of one object keep theirs.
	slices.SortStableFunc(puts, func(a, b *put) int {
		if a.ref.Tenant != b.ref.Tenant {
			return strings.Compare(a.ref.Tenant, b.ref.Tenant)
		}
		return strings.Compare(string(a.ref.ID), string(b.ref.ID))
	})
	for chunk := range slices.Chunk(puts, s.maxBatch) {
		s.send(ctx, chunk, errs)
	}
	return vectorstore.NewBatchError(errs)
}

// send makes mutations in one transaction. Where one of them is refused, each gets a transaction of its own.
func (s *Store) send(ctx context.Context, puts []*put, errs []error) {
	batch := &pgx.Batch{}
	for _, p := range puts {
		if p.whole {
			batch.Queue(s.replace, p.args[:fixedArgs+len(s.vectors)+len(s.texts)]...)
		} else {
			batch.Queue(s.put, p.args...)
		}
	}
	changed := make([]int64, len(puts))
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		results := tx.SendBatch(ctx, batch)
		for i := range puts {
			tag, err := results.Exec()
			if err != nil {
				return errors.Join(err, results.Close())
			}
			changed[i] = tag.RowsAffected()
		}
		return results.Close()
	})
	if refused(err) && len(puts) > 1 {
		for i := range puts {
			s.send(ctx, puts[i:i+1], errs)
		}
		return
	}
	for i, p := range puts {
		switch {
		case refused(err):
			errs[p.place] = objectError(p.ref.ID, vectorstore.Permanent(fmt.Errorf("%w: %w", vectorstore.ErrValue, err)))
		case err != nil:
			errs[p.place] = objectError(p.ref.ID, err)
		case changed[i] == 0:
			errs[p.place] = objectError(p.ref.ID, vectorstore.ErrConflict)
		}
	}
}

// parse checks a mutation and returns it as it is sent.
func (s *Store) parse(m *vectorstore.Mutation, expected *string) (*put, error) {
	o := &m.Object
	if err := o.ID.Check(); err != nil {
		return nil, err
	}
	for _, text := range []string{o.Tenant, o.Version} {
		if err := checkText(text); err != nil || !utf8.ValidString(text) {
			return nil, valueError("a tenant or version that is no text")
		}
	}
	properties, kinds, inputs := map[string]any{}, map[string]any{}, map[string]string{}
	mentioned, blank := []string{}, []string{} // no nil, which would be a NULL
	vectors, texts := make([]any, len(s.vectors)), make([]any, len(s.texts))
	named := make([]any, len(vectors)+len(texts)) // which of them a Merge does not keep
	for i := range vectors {
		vectors[i] = reals(nil)
	}
	for i := range named {
		named[i] = false
	}
	var err error
	switch m.Action {
	case vectorstore.Upsert, vectorstore.Merge:
		if properties, kinds, mentioned, err = parseProperties(o.Properties); err != nil {
			return nil, err
		}
		if inputs, blank, err = parseInputs(o.Inputs); err != nil {
			return nil, err
		}
		if err := s.parseVectors(o, vectors, named); err != nil {
			return nil, err
		}
		for i, t := range s.texts {
			property, there := o.Properties[t.Name]
			texts[i], named[len(vectors)+i] = t.of(property), there
		}
	case vectorstore.Delete:
	default:
		return nil, vectorstore.Permanent(fmt.Errorf("unknown action %v", m.Action))
	}
	var encoded [3]string
	for i, v := range []any{properties, kinds, inputs} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, vectorstore.Permanent(err)
		}
		encoded[i] = string(text)
	}
	merge := m.Action == vectorstore.Merge
	p := &put{ref: o.Ref, whole: !merge && expected == nil}
	p.args = []any{o.Tenant, string(o.ID), o.Version, m.Action == vectorstore.Delete, encoded[0], encoded[1], encoded[2]}
	p.args = slices.Concat(p.args, vectors, texts, []any{mentioned, merge, blank, expected}, named)
	return p, nil
}

func parseProperties(in map[string]any) (values, kinds map[string]any, mentioned []string, err error) {
	values, kinds, mentioned = map[string]any{}, map[string]any{}, []string{}
	for name, v := range in {
		mentioned = append(mentioned, name)
		var kind any
		if !utf8.ValidString(name) {
			err = valueError("the name is not valid UTF-8")
		} else if err = checkText(name); err == nil {
			v, err = vectorstore.Value(v)
		}
		if err == nil && v != nil {
			if values[name], kind, err = jsonOf(v); kind != nil {
				kinds[name] = kind
			}
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("property %.64q: %w", name, err)
		}
	}
	return values, kinds, mentioned, nil
}

func parseInputs(in map[string]string) (out map[string]string, blank []string, err error) {
	out, blank = map[string]string{}, []string{}
	for name, digest := range in {
		if !utf8.ValidString(name + digest) {
			return nil, nil, valueError("an input is not valid UTF-8")
		}
		if err := checkText(name + digest); err != nil {
			return nil, nil, err
		}
		if digest == "" {
			blank = append(blank, name)
		} else {
			out[name] = digest
		}
	}
	return out, blank, nil
}

// parseVectors puts vectors and whether they are named in their places.
func (s *Store) parseVectors(o *vectorstore.Object, to, named []any) error {
	for name, v := range o.Vectors {
		i := s.vector(name)
		if len(v) > 0 || i < 0 {
			if err := s.check(vectorstore.Target{Vector: name, Near: v}); err != nil {
				return err
			}
			to[i] = reals(v)
		}
		if !s.vectors[i].Multi { // which has none of this kind to clear
			named[i] = true
		}
	}
	for name, v := range o.MultiVectors {
		i := s.vector(name)
		if len(v) > 0 || i < 0 {
			if err := s.check(vectorstore.Target{Vector: name, NearMulti: v}); err != nil {
				return err
			}
			to[i] = reals(slices.Concat(v...))
		}
		if s.vectors[i].Multi {
			named[i] = true
		}
	}
	return nil
}
