package pgvector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Text is a property that a [vectorstore.Query].Text finds by keywords: a text or a list of texts.
type Text struct {
	Name string
	// Tokenization is how the text is cut into words. Default: [vectorstore.WordTokenization].
	Tokenization vectorstore.Tokenization
}

var tokenizations = []vectorstore.Tokenization{
	vectorstore.WordTokenization, vectorstore.LowercaseTokenization, vectorstore.WhitespaceTokenization,
	vectorstore.FieldTokenization, vectorstore.TrigramTokenization,
}

// words is the name of the column of words, length that of how many there are. The tokenization is a part of it, so that words that
// were cut in another way are never taken for these.
func (t Text) words() string  { return string(t.Tokenization) + ":" + t.Name }
func (t Text) length() string { return t.words() + lengthSuffix }

const (
	lengthSuffix = ":length"
	wordsType    = "bigint[]"
)

func (t Text) columns() []column {
	return []column{
		{t.words(), wordsType, ""},
		{t.length(), "integer", "GENERATED ALWAYS AS (cardinality(" + quoted(t.words()) + ")) STORED"},
	}
}

// textsOf returns the texts that columns are for.
func textsOf(columns map[string]string) (out []Text) {
	for name, kind := range columns {
		tokenization, property, _ := strings.Cut(name, ":")
		t := Text{property, vectorstore.Tokenization(tokenization)}
		if kind == wordsType && slices.Contains(tokenizations, t.Tokenization) && columns[t.length()] != "" {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Text) int { return strings.Compare(a.words(), b.words()) })
	return out
}

func (t Text) validate() error {
	switch {
	case t.Name == "" || len(t.length()) > maxNameBytes || checkText(t.Name) != nil:
		return fmt.Errorf("is not a name of at most %d bytes", maxNameBytes-len(Text{Tokenization: t.Tokenization}.length()))
	case !slices.Contains(tokenizations, t.Tokenization):
		return fmt.Errorf("has the unknown tokenization %.64q", t.Tokenization)
	}
	return nil
}

// hashes returns words as they are stored, by which they are found: the first 8 bytes of each SHA-256. The result is no nil.
func hashes(words []string) []int64 {
	out := make([]int64, len(words))
	for i, word := range words {
		sum := sha256.Sum256([]byte(word))
		out[i] = int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any 64 bits
	}
	return out
}

// of returns what is stored of a property, nil for a NULL where it is no text.
func (t Text) of(property any) any {
	v, err := vectorstore.Value(property)
	if words := t.Tokenization.Words(v); err == nil && words != nil {
		return hashes(words)
	}
	return nil
}

// fillWords gives the rows that are there their words in a new column.
func (s *Store) fillWords(ctx context.Context, tx pgx.Tx, t Text) error {
	const page = 1000
	after := vectorstore.Ref{ID: vectorstore.First}
	for {
		rows, err := tx.Query(ctx, "SELECT tenant, id::text, properties -> $1, kinds -> $1 FROM "+s.table+" WHERE NOT deleted AND properties ? $1 AND "+
			"(tenant, id) > ($2, $3::text::uuid) ORDER BY tenant, id LIMIT $4", t.Name, after.Tenant, string(after.ID), page)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		var property, kind any
		_, err = pgx.ForEachRow(rows, []any{&after.Tenant, (*string)(&after.ID), &property, &kind}, func() error {
			v, _ := valueOf(property, kind) // what cannot be read is no text
			batch.Queue("UPDATE "+s.table+" SET "+quoted(t.words())+" = $3::bigint[] WHERE tenant = $1 AND id = $2::text::uuid",
				after.Tenant, string(after.ID), t.of(v))
			return nil
		})
		if err == nil && batch.Len() > 0 {
			err = tx.SendBatch(ctx, &batch).Close()
		}
		if err != nil || batch.Len() < page {
			return err
		}
	}
}

// searched returns the texts that a query names, or all, with their weights.
func (s *Store) searched(q vectorstore.Query) (texts []Text, weights []float64, err error) {
	properties, err := q.TextProperties()
	if err != nil {
		return nil, nil, err
	}
	if len(properties) == 0 {
		for _, t := range s.texts {
			if !slices.ContainsFunc(texts, func(other Text) bool { return other.Name == t.Name }) {
				texts, weights = append(texts, t), append(weights, 1)
			}
		}
	}
	for _, p := range properties {
		i := slices.IndexFunc(s.texts, func(t Text) bool { return t.Name == p.Name })
		if i < 0 {
			return nil, nil, vectorstore.Permanent(fmt.Errorf("%w: property %.64q is not Searchable", vectorstore.ErrQuery, p.Name))
		}
		texts, weights = append(texts, s.texts[i]), append(weights, p.Weight)
	}
	if len(texts) == 0 {
		return nil, nil, vectorstore.Unsupported("Text: the table has no text that is Searchable")
	}
	return texts, weights, nil
}

// keywords returns the SELECT of a search by keywords. Its parts: a posting is a word in a text of an object; it is joined word by word,
// so that the index of the words serves it. A word is as rare as the objects are few that have it, whether or not they pass the filter,
// in the mean of the texts that it is in. What a posting adds is BM25 as [memory] has it.
//
// [memory]: https://pkg.go.dev/github.com/tidemark-go/tidemark/vectorstore/memory
func (b *selection) keywords(q vectorstore.Query) (string, error) {
	texts, weights, err := b.store.searched(q)
	if err != nil {
		return "", err
	}
	live := "tenant = " + b.arg(q.Tenant) + "::text AND NOT deleted"
	fits := "true"
	if q.Filter.Operator != vectorstore.OperatorNone {
		if fits, err = b.filter(q.Filter); err != nil {
			return "", err
		}
	}
	var postings, fields []string
	wanted := map[vectorstore.Tokenization]string{}
	for i, t := range texts {
		if wanted[t.Tokenization] == "" {
			words, counts := t.Tokenization.Wanted(q.Text)
			wanted[t.Tokenization] = "unnest(" + b.arg(hashes(words)) + "::bigint[], " + b.arg(counts) + `::int[]) AS "q:wanted" ("q:word", "q:times")`
		}
		words, length := quoted(t.words()), quoted(t.length())
		postings = append(postings, fmt.Sprintf(`SELECT %d AS field, '%s' AS cut, "q:word" AS word, "q:times" AS times, id AS "q:id", %s AS fits, `+
			`cardinality(array_positions(%s, "q:word")) AS n, %s AS length FROM %s JOIN %s ON %s @> ARRAY["q:word"] WHERE %s`,
			i, t.Tokenization, fits, words, length, wanted[t.Tokenization], b.store.table, words, live))
		fields = append(fields, fmt.Sprintf("SELECT %d AS field, %s::float8 AS weight, count(*) AS objects, avg(%s) FILTER (WHERE %s > 0)::float8 "+
			"AS mean FROM %s WHERE %s", i, b.arg(weights[i]), length, length, b.store.table, live))
	}
	return fmt.Sprintf(`
		WITH "q:postings" AS (%s), "q:fields" AS (%s),
		"q:rarities" AS (
			SELECT cut, word, times * ln(1 + ((SELECT max(objects) FROM "q:fields") - mean + 0.5) / (mean + 0.5)) AS rarity FROM (
				SELECT cut, word, times, floor(sum(objects) / count(*))::float8 AS mean FROM (
					SELECT field, cut, word, times, count(*) AS objects FROM "q:postings" GROUP BY field, cut, word, times
				) AS each GROUP BY cut, word, times
			) AS means
		),
		"q:scores" AS (
			SELECT "q:id", sum(weight * rarity * n / (n + %g * (1 - %g + %g * length / mean)))::real AS "q:score"
			FROM "q:postings" JOIN "q:rarities" USING (cut, word) JOIN "q:fields" USING (field)
			WHERE fits GROUP BY "q:id" ORDER BY "q:score" DESC, "q:id" LIMIT %d OFFSET %d
		)
		SELECT %s, 0::float8 AS distance, "q:score" FROM "q:scores" JOIN %s ON tenant = $1::text AND id = "q:id" ORDER BY "q:score" DESC, id`,
		strings.Join(postings, " UNION ALL "), strings.Join(fields, " UNION ALL "),
		vectorstore.BM25K1, vectorstore.BM25B, vectorstore.BM25B, limit(q), q.Offset, b.store.read, b.store.table), nil
}

func (t Text) withDefaults() Text {
	t.Tokenization = cmp.Or(t.Tokenization, vectorstore.WordTokenization)
	return t
}
