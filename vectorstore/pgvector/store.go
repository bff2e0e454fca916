package pgvector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Store is a [vectorstore.Store], [vectorstore.VersionedClearer] and [vectorstore.Tenanted] in one table. It is safe for concurrent
// use. Use [New]; there is nothing to close but the pool, which stays the caller's.
type Store struct {
	pool     *pgxpool.Pool
	table    string   // quoted
	vectors  []Vector // in the order of the options
	texts    []Text   // those of the options first, and all that the table has
	maxBatch int
	put      string // the statement that makes any mutation
	replace  string // the one that makes a mutation that keeps nothing
	read     string // the columns of an object, as they are selected
}

var (
	_ vectorstore.Store            = (*Store)(nil)
	_ vectorstore.VersionedClearer = (*Store)(nil)
	_ vectorstore.Conditional      = (*Store)(nil)
	_ vectorstore.Tenanted         = (*Store)(nil)
)

// New creates the table, with the extension vector if the database lacks it, or checks the one that is there ([ErrTable]) and adds the
// vectors and indexes that it lacks; with OpenOnly, it changes nothing. An index that is added to a large table takes its time, in
// which the table is not written. The context bounds New alone.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	o = o.withDefaults()
	err := o.validate()
	if pool == nil {
		err = errors.Join(errors.New("pgvector: New needs a pool"), err)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, table: pgx.Identifier(o.identifier()).Sanitize(), vectors: o.Vectors, maxBatch: o.MaxBatch}
	if err := s.ensure(ctx, o); err != nil {
		return nil, fmt.Errorf("pgvector: table %s: %w", s.table, err)
	}
	s.put, s.replace = s.statements()
	s.read = s.readColumns()
	return s, nil
}

// vector returns the place of a named vector, -1 where the table has none of the name.
func (s *Store) vector(name string) int {
	return slices.IndexFunc(s.vectors, func(v Vector) bool { return v.Name == name })
}

// check checks a vector to store or to look around.
func (s *Store) check(t vectorstore.Target) error {
	i := s.vector(t.Vector)
	if i < 0 {
		return vectorstore.Permanent(fmt.Errorf("%w: the table has no vector %.64q", vectorstore.ErrVector, t.Vector))
	}
	return vectorstore.Shape{Dimensions: s.vectors[i].Dimensions, Multi: s.vectors[i].Multi}.Check(t)
}

// Vectors travel as arrays of reals, those of a multi-vector one after the other.

// cast makes an argument the type of the column.
func (v Vector) cast(arg string) string {
	if !v.Multi {
		return arg + "::real[]::vector"
	}
	return fmt.Sprintf("CASE WHEN %[1]s::real[] IS NOT NULL THEN ARRAY(SELECT (%[1]s::real[])[i : i + %[2]d]::vector(%[3]d) "+
		"FROM generate_series(1, array_length(%[1]s::real[], 1), %[3]d) AS i ORDER BY i) END", arg, v.Dimensions-1, v.Dimensions)
}

// reals is the inverse of cast; an empty array is no multi-vector.
func (v Vector) reals() string {
	if !v.Multi {
		return quoted(v.Name) + "::real[]"
	}
	return "ARRAY(SELECT x FROM unnest(" + quoted(v.Name) + ") WITH ORDINALITY AS v (v, i), unnest(v::real[]) WITH ORDINALITY AS x (x, j) ORDER BY i, j)"
}

func (s *Store) readColumns() string {
	out := []string{"tenant", "id::text", "version", "deleted", "properties", "kinds", "inputs"}
	for _, v := range s.vectors {
		out = append(out, v.reals())
	}
	return strings.Join(out, ", ")
}

// scan reads an object from a row of [Store.read] columns, and what follows them.
func (s *Store) scan(row pgx.CollectableRow, more ...any) (*vectorstore.Object, error) {
	var o vectorstore.Object
	var id string
	var properties, kinds, inputs []byte
	vectors := make([][]float32, len(s.vectors))
	to := []any{&o.Tenant, &id, &o.Version, &o.Deleted, &properties, &kinds, &inputs}
	for i := range vectors {
		to = append(to, &vectors[i])
	}
	if err := row.Scan(append(to, more...)...); err != nil {
		return nil, err
	}
	if o.ID = vectorstore.ID(id); o.Deleted {
		return &o, nil
	}
	if err := decodeInto(&o, properties, kinds, inputs); err != nil {
		return nil, objectError(o.ID, err)
	}
	o.Vectors = map[string][]float32{}
	for i, v := range vectors {
		known := s.vectors[i]
		switch {
		case len(v) == 0:
		case known.Multi:
			if o.MultiVectors == nil {
				o.MultiVectors = map[string][][]float32{}
			}
			o.MultiVectors[known.Name] = slices.Collect(slices.Chunk(v, known.Dimensions))
		default:
			o.Vectors[known.Name] = v
		}
	}
	return &o, nil
}

func decodeInto(o *vectorstore.Object, properties, kinds, inputs []byte) error {
	values, err := decode(properties)
	if err != nil {
		return err
	}
	known, err := decode(kinds)
	if err != nil {
		return err
	}
	if o.Properties, err = valueOfMap(values, known); err != nil {
		return err
	}
	return json.Unmarshal(inputs, &o.Inputs)
}

// Get returns objects aligned with r. An id that is no UUID in lower case names nothing.
func (s *Store) Get(ctx context.Context, r []vectorstore.Ref) ([]*vectorstore.Object, error) {
	out := make([]*vectorstore.Object, len(r))
	var tenants, ids []string
	var places []int64
	for i, ref := range r {
		if ref.ID.Check() == nil && checkText(ref.Tenant) == nil {
			tenants, ids, places = append(tenants, ref.Tenant), append(ids, string(ref.ID)), append(places, int64(i))
		}
	}
	rows, err := s.pool.Query(ctx, "SELECT "+s.read+`, "q:place"
		FROM unnest($1::text[], $2::text[]::uuid[], $3::bigint[]) AS "q:wanted" ("q:tenant", "q:id", "q:place")
		JOIN `+s.table+` ON tenant = "q:tenant" AND id = "q:id"`, tenants, ids, places)
	if err != nil {
		return nil, fmt.Errorf("pgvector: get: %w", err)
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var place int64
		o, err := s.scan(row, &place)
		if err == nil {
			out[place] = o
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("pgvector: get: %w", err)
	}
	return out, nil
}

// Clear forgets every object and deletion of a tenant.
func (s *Store) Clear(ctx context.Context, tenant string) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM "+s.table+" WHERE tenant = $1", tenant)
	return failed("clear", err)
}

// ClearBefore forgets the objects and deletions of a tenant whose version is less.
func (s *Store) ClearBefore(ctx context.Context, tenant, version string) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM "+s.table+" WHERE tenant = $1 AND version < $2", tenant, version)
	return failed("clear", err)
}

// Tenants returns the tenants that have objects or remembered deletions, sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, "SELECT DISTINCT tenant FROM "+s.table+" ORDER BY tenant")
	if err != nil {
		return nil, failed("tenants", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return out, failed("tenants", err)
}

func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgvector: %s: %w", what, err)
}
