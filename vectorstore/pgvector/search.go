package pgvector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Search answers every part of a query but Autocut: exactly, or by the index where the vector has one and is the only one that is
// compared. A Text needs properties that are [Options].Searchable.
func (s *Store) Search(ctx context.Context, q vectorstore.Query) ([]vectorstore.Match, error) {
	if err := q.Check(); err != nil {
		return nil, failed("search", err)
	}
	if q.Autocut > 0 {
		return nil, failed("search", vectorstore.Unsupported("Autocut"))
	}
	targets, err := s.targets(ctx, q)
	if err != nil {
		return nil, failed("search", err)
	}
	list := func(tx pgx.Tx, q vectorstore.Query) ([]vectorstore.Match, error) { return s.list(ctx, tx, q, targets) }
	if q.Text != "" {
		list = func(tx pgx.Tx, q vectorstore.Query) ([]vectorstore.Match, error) { return s.withKeywords(ctx, tx, q) }
	}
	if q.Text != "" && len(targets) > 0 {
		list = func(tx pgx.Tx, q vectorstore.Query) ([]vectorstore.Match, error) {
			return s.hybrid(ctx, tx, q, targets)
		}
	}
	var out []vectorstore.Match
	// What several statements see is of one moment.
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		out, err = list(tx, q)
		return err
	})
	if err != nil {
		return nil, failed("search", err)
	}
	return vectorstore.Grouped(out, q.GroupBy), nil
}

// list returns what is near, or what is listed.
func (s *Store) list(ctx context.Context, tx pgx.Tx, q vectorstore.Query, targets []vectorstore.Target) ([]vectorstore.Match, error) {
	b := &selection{store: s}
	statement, err := b.statement(q, targets)
	if err != nil {
		return nil, err
	}
	if len(targets) == 1 && s.vectors[s.vector(targets[0].Vector)].HNSW {
		if err := tune(ctx, tx, limit(q)+q.Offset); err != nil {
			return nil, err
		}
	}
	return s.ask(ctx, tx, statement, b.args)
}

func (s *Store) withKeywords(ctx context.Context, tx pgx.Tx, q vectorstore.Query) ([]vectorstore.Match, error) {
	b := &selection{store: s}
	statement, err := b.keywords(q)
	if err != nil {
		return nil, err
	}
	return s.ask(ctx, tx, statement, b.args)
}

func (s *Store) hybrid(ctx context.Context, tx pgx.Tx, q vectorstore.Query, targets []vectorstore.Target) ([]vectorstore.Match, error) {
	all := q
	all.Limit, all.Offset = q.HybridDepth(), 0
	near, err := s.list(ctx, tx, all, targets)
	if err != nil {
		return nil, err
	}
	keywords, err := s.withKeywords(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	fused := vectorstore.Fuse(q, near, keywords)
	return fused[min(q.Offset, len(fused)):min(q.Offset+limit(q), len(fused))], nil
}

// ask returns what a SELECT of the columns of an object, and of its distance and score, finds.
func (s *Store) ask(ctx context.Context, tx pgx.Tx, statement string, args []any) ([]vectorstore.Match, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (vectorstore.Match, error) {
		var distance float64
		var score float32
		o, err := s.scan(row, &distance, &score)
		if err != nil {
			return vectorstore.Match{}, err
		}
		return vectorstore.Match{Object: *o, Distance: float32(distance), Score: score}, nil
	})
}

// tune makes an index look at enough for n matches, and go on where a filter leaves too few.
func tune(ctx context.Context, tx pgx.Tx, n int) error {
	const least, most = 40, 1000 // pgvector's default, and the most that it takes
	_, err := tx.Exec(ctx, "SELECT set_config('hnsw.ef_search', $1::text, true), set_config('hnsw.iterative_scan', 'strict_order', true)",
		fmt.Sprint(max(least, min(n, most))))
	return err
}

func limit(q vectorstore.Query) int { return cmp.Or(q.Limit, vectorstore.DefaultLimit) }

// targets returns what the query looks near, with the vectors of its object where it has one.
func (s *Store) targets(ctx context.Context, q vectorstore.Query) ([]vectorstore.Target, error) {
	targets := q.NearTargets()
	if q.Object != "" {
		got, err := s.Get(ctx, []vectorstore.Ref{{ID: q.Object, Tenant: q.Tenant}})
		if err != nil {
			return nil, err
		}
		if targets, err = vectorstore.ObjectTargets(q, got[0]); err != nil {
			return nil, err
		}
	}
	for _, t := range targets {
		if err := s.check(t); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// selection makes a SELECT with its arguments.
type selection struct {
	store *Store
	args  []any
}

// arg returns the place of an argument.
func (b *selection) arg(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}

func (b *selection) statement(q vectorstore.Query, targets []vectorstore.Target) (string, error) {
	where := []string{"tenant = " + b.arg(q.Tenant) + "::text", "NOT deleted"}
	if q.Filter.Operator != vectorstore.OperatorNone {
		filter, err := b.filter(q.Filter)
		if err != nil {
			return "", err
		}
		where = append(where, filter)
	}
	if q.After != "" {
		where = append(where, "id > "+b.arg(string(q.After))+"::text::uuid")
	}
	page := fmt.Sprintf(" LIMIT %d OFFSET %d", limit(q), q.Offset)
	if len(targets) == 0 {
		return "SELECT " + b.store.read + ", 0::float8 AS distance, 0::real AS score FROM " + b.store.table + " AS t WHERE " + strings.Join(where, " AND ") +
			" ORDER BY t.id" + page, nil
	}
	each := make([]string, len(targets))
	there := make([]string, len(targets))
	for i, t := range targets {
		there[i] = quoted(t.Vector) + " IS NOT NULL"
		each[i] = b.distance(t)
	}
	joined := " AND "
	if q.Combine == vectorstore.Minimum {
		joined = " OR "
	}
	where = append(where, "("+strings.Join(there, joined)+")")
	if len(targets) == 1 { // in the form that an index serves
		if q.MaxDistance > 0 {
			where = append(where, "("+each[0]+")::real <= "+b.arg(q.MaxDistance)+"::float8")
		}
		return "SELECT " + b.store.read + ", " + each[0] + " AS distance, 0::real AS score FROM " + b.store.table + " AS t WHERE " +
			strings.Join(where, " AND ") + " ORDER BY " + each[0] + ", t.id" + page, nil
	}
	inner := "SELECT *, " + b.combined(q.Combine, targets, each) + ` AS "q:distance" FROM ` + b.store.table + " WHERE " +
		strings.Join(where, " AND ")
	outer := "SELECT " + b.store.read + `, "q:distance", 0::real AS score FROM (` + inner + ") AS t"
	if q.MaxDistance > 0 {
		outer += ` WHERE "q:distance"::real <= ` + b.arg(q.MaxDistance) + "::float8"
	}
	return outer + ` ORDER BY "q:distance", t.id` + page, nil
}

// distance is that of one target: of a multi-vector the sum of the distances to the nearest of its vectors.
func (b *selection) distance(t vectorstore.Target) string {
	v := b.store.vectors[b.store.vector(t.Vector)]
	if !v.Multi {
		return quoted(v.Name) + " <=> " + v.cast(b.arg(t.Near))
	}
	return `(SELECT sum((SELECT min("q:own" <=> "q:near") FROM unnest(` + quoted(v.Name) + `) AS "q:own")) FROM unnest(` +
		v.cast(b.arg(slices.Concat(t.NearMulti...))) + `) AS "q:near")`
}

// combined makes one distance of several.
func (b *selection) combined(how vectorstore.Combination, targets []vectorstore.Target, each []string) string {
	parts := slices.Clone(each)
	for i := range parts {
		parts[i] = "(" + parts[i] + ")"
		if how == vectorstore.RelativeScore {
			d := parts[i]
			parts[i] = fmt.Sprintf("coalesce((%s - min(%s) OVER ()) / nullif(max(%s) OVER () - min(%s) OVER (), 0), 1)", d, d, d, d)
		}
		if how == vectorstore.WeightedSum || how == vectorstore.RelativeScore {
			parts[i] += " * " + b.arg(float64(targets[i].Weight)) + "::float8"
		}
	}
	switch how {
	case vectorstore.Minimum:
		return "least(" + strings.Join(parts, ", ") + ")"
	case vectorstore.Average:
		return fmt.Sprintf("(%s) / %d", strings.Join(parts, " + "), len(parts))
	}
	return strings.Join(parts, " + ")
}

// filter returns a condition.
func (b *selection) filter(f vectorstore.Filter) (string, error) {
	switch f.Operator {
	case vectorstore.OperatorIDs:
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = string(id)
		}
		return "id = ANY (" + b.arg(ids) + "::text[]::uuid[])", nil
	case vectorstore.OperatorAnd, vectorstore.OperatorOr:
		parts := make([]string, len(f.Filters))
		for i, part := range f.Filters {
			var err error
			if parts[i], err = b.filter(part); err != nil {
				return "", err
			}
		}
		joined := " AND "
		if f.Operator == vectorstore.OperatorOr {
			joined = " OR "
		}
		return "(" + strings.Join(parts, joined) + ")", nil
	case vectorstore.OperatorNot:
		part, err := b.filter(f.Filters[0])
		return "NOT coalesce(" + part + ", false)", err
	}
	if err := checkText(f.Property); err != nil {
		return "", fmt.Errorf("filter: %w", err)
	}
	if f.Operator == vectorstore.OperatorIsNull {
		return "coalesce(properties->" + b.arg(f.Property) + `::text, 'null') IN ('null', '""', '[]')`, nil
	}
	v, err := f.Operand()
	if err != nil {
		return "", err
	}
	condition, err := b.comparison(f, v)
	if err != nil {
		return "", fmt.Errorf("filter: property %q: %w", f.Property, err)
	}
	return condition, nil
}

// comparators are those of JSON paths.
var comparators = map[vectorstore.Operator]string{
	vectorstore.OperatorEqual: "==", vectorstore.OperatorLess: "<",
	vectorstore.OperatorLessOrEqual: "<=", vectorstore.OperatorGreater: ">", vectorstore.OperatorGreaterOrEqual: ">=",
	vectorstore.OperatorContainsAny: "==", vectorstore.OperatorContainsAll: "==",
}

// comparison returns a condition on a property: a JSON path, in which [*] are the items of a list or the value itself, and in which
// values of different types are not equal, less or greater.
func (b *selection) comparison(f vectorstore.Filter, v any) (string, error) {
	if place, ok := v.(vectorstore.Geo); ok {
		return b.within(f, place), nil
	}
	if f.Operator == vectorstore.OperatorLike {
		return b.path(f.Property, "@ like_regex "+literal(pattern(v.(string)))+` flag "s"`), nil
	}
	items, list := v.([]any)
	if !list {
		items = []any{v}
	}
	conditions := make([]string, len(items))
	for i, item := range items {
		value, err := operand(item)
		if err != nil {
			return "", err
		}
		conditions[i] = "@ " + comparators[f.Operator] + " " + value
	}
	switch f.Operator {
	case vectorstore.OperatorContainsAll:
		for i := range conditions {
			conditions[i] = b.path(f.Property, conditions[i])
		}
		return "(" + strings.Join(conditions, " AND ") + ")", nil
	}
	return b.path(f.Property, strings.Join(conditions, " || ")), nil
}

// within is the condition that a place is near another, by the haversine formula of [vectorstore.Geo.Metres].
func (b *selection) within(f vectorstore.Filter, from vectorstore.Geo) string {
	property := b.arg(f.Property) + "::text"
	degrees := func(name string) string { return "(properties #>> ARRAY[" + property + ", '" + name + "'])::float8" }
	lat, long := b.arg(float64(from.Latitude))+"::float8", b.arg(float64(from.Longitude))+"::float8"
	a := fmt.Sprintf("sind((%s - %s) / 2) ^ 2 + cosd(%s) * cosd(%s) * sind((%s - %s) / 2) ^ 2",
		degrees("latitude"), lat, lat, degrees("latitude"), degrees("longitude"), long)
	return "CASE WHEN kinds->>" + property + " = 'geo' THEN 2 * 6371000 * asin(sqrt(least(1, " + a + "))) <= " +
		b.arg(f.Metres) + "::float8 ELSE false END"
}

// path is a condition on some item of a property. An index of the properties serves it where it compares with ==.
func (b *selection) path(property, condition string) string {
	return "properties @? " + b.arg("$."+literal(property)+"[*] ? ("+condition+")") + "::text::jsonpath"
}

// literal quotes a text for a JSON path.
func literal(text string) string {
	quoted, _ := json.Marshal(text) // a text always has one
	return string(quoted)
}

// pattern turns a pattern of * and ? into a regular expression.
func pattern(like string) string {
	var b strings.Builder
	b.WriteString("^")
	for _, r := range like {
		switch {
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteString(".")
		case strings.ContainsRune(`\^$.|+()[]{}`, r):
			b.WriteString(`\`)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteString("$")
	return b.String()
}
