package pgvector

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options say which table the objects are in and what it must be. Table and Vectors are required.
type Options struct {
	// Table is the table's name, alone or as schema.table; the schema must be there. Default schema: the first of the search_path.
	Table string
	// Vectors are the named vectors, each a column of its name.
	Vectors []Vector
	// Searchable are the properties that a Query's Text finds by keywords. Each has a column of its words and two indexes, which New adds
	// to a table that lacks them; see the package documentation. Default: those that the table has; none costs nothing.
	Searchable []Text
	// FilterIndex makes an index (GIN) of the properties, for filters by Equal, ContainsAny and ContainsAll.
	FilterIndex bool
	// OpenOnly makes New create and change nothing: what is missing is an error ([ErrTable]).
	OpenOnly bool
	// MaxBatch is the largest number of mutations in one transaction. Default 500.
	MaxBatch int
}

// Vector is a named vector, which is compared by cosine.
type Vector struct {
	Name string
	// Dimensions is the length that all vectors of the name have: 1 to 16,000, and with an index 2,000 at most, as pgvector allows.
	Dimensions int
	// HNSW makes an index, with which searches are approximate and their time does not grow with the number of objects. Default:
	// none; a search then compares all objects.
	HNSW bool
	// Multi makes it a list of vectors for each object, of [vectorstore.Object].MultiVectors: a column of type vector(n)[]. pgvector has
	// no index for those, so that a search compares all objects.
	Multi bool
	// MaxConnections (m) and EFConstruction are those of an index that is made. Default: pgvector's, 16 and 64.
	MaxConnections, EFConstruction int
}

const (
	maxDimensions        = 16_000
	maxIndexedDimensions = 2_000
	maxNameBytes         = 63 // of an identifier of Postgres
	indexSuffixBytes     = 24 // of the table's name, for what the names of its indexes end in
)

func (o Options) withDefaults() Options {
	o.Vectors = slices.Clone(o.Vectors)
	o.Searchable = slices.Clone(o.Searchable)
	for i := range o.Searchable {
		o.Searchable[i] = o.Searchable[i].withDefaults()
	}
	o.MaxBatch = cmp.Or(o.MaxBatch, 500)
	return o
}

func (o Options) validate() error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pgvector: option "+format, args...))
	}
	for _, part := range o.identifier() {
		if part == "" || len(part) > maxNameBytes-indexSuffixBytes || !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
			fault("Table: %.64q is not a name of at most %d bytes", o.Table, maxNameBytes-indexSuffixBytes)
		}
	}
	if err := o.validateVectors(); err != nil {
		fault("Vectors: %w", err)
	}
	for i, t := range o.Searchable {
		if err := t.validate(); err != nil {
			fault("Searchable: %.64q %w", t.Name, err)
		}
		if slices.ContainsFunc(o.Searchable[:i], func(other Text) bool { return other.Name == t.Name }) {
			fault("Searchable: %.64q is there twice", t.Name)
		}
	}
	if o.MaxBatch < 1 {
		fault("MaxBatch is %d, must be at least 1", o.MaxBatch)
	}
	return errors.Join(errs...)
}

func (o Options) validateVectors() error {
	if len(o.Vectors) == 0 {
		return errors.New("there is none")
	}
	var errs []error
	names := map[string]bool{}
	for _, v := range o.Vectors {
		if err := v.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%.64q %w", v.Name, err))
		}
		if names[v.Name] {
			errs = append(errs, fmt.Errorf("%q is there twice", v.Name))
		}
		names[v.Name] = true
	}
	return errors.Join(errs...)
}

func (v Vector) validate() error {
	switch {
	case v.Name == "" || len(v.Name) > maxNameBytes || !utf8.ValidString(v.Name) || strings.ContainsRune(v.Name, 0):
		return fmt.Errorf("is not a name of at most %d bytes", maxNameBytes)
	case slices.Contains(ownColumns, v.Name) || strings.Contains(v.Name, ":"): // a Text's, or a statement's own, as "q:score"
		return errors.New("is, or may be, a column of the store's own")
	case v.Dimensions < 1 || v.Dimensions > maxDimensions || v.HNSW && v.Dimensions > maxIndexedDimensions:
		return fmt.Errorf("has %d dimensions; pgvector takes 1 to %d, and %d in an index", v.Dimensions, maxDimensions, maxIndexedDimensions)
	case v.Multi && v.HNSW:
		return errors.New("is Multi, for which pgvector has no index")
	case v.MaxConnections < 0 || v.EFConstruction < 0:
		return errors.New("has a negative MaxConnections or EFConstruction")
	}
	return nil
}

// identifier returns the parts of the table's name.
func (o Options) identifier() []string { return strings.SplitN(o.Table, ".", 2) }
