package weaviate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// Vector is a named vector of a collection, made by the application (vectorizer none). One that a collection lacks is added
// to it, by servers from v1.31, also beside a vector without a name: objects that are there are without it until they are written again. So a second name is how
// to change a model without downtime: fill it while the first is searched, then search the second.
type Vector struct {
	// Name is letters, digits and _, beginning with a letter or _.
	Name string
	// Dimensions is the length of every vector of this name. Default: the length of the first that is seen.
	Dimensions int
	// Distance compares two vectors. Default: [Cosine].
	Distance Distance
	// Index finds the nearest ones. Default: [HNSW].
	Index Index
	// Quantizer is how the index holds them. Default: the server's, whatever it is; [Unquantized] asks for none. An index [HNSW] that has
	// none gets it for what it holds too; what is compressed is not changed any more.
	Quantizer Quantizer
	// EFConstruction, MaxConnections and EF are parameters of [HNSW]: candidates while building, edges of a node, and
	// candidates of a search (-1: as many as the server thinks right), which can be changed later. Default: the server's, whatever they
	// are.
	EFConstruction, MaxConnections, EF int
	// Multi makes it a list of vectors for each object, of [vectorstore.Object].MultiVectors, in an index [HNSW] by [Cosine]. It needs a
	// server from v1.29. A search looks, for each of its vectors, at no more stored ones than its Limit, so that a larger Limit finds
	// the first ones more exactly.
	Multi bool
	// Muvera makes the index hold one vector of fixed length for each list (MUVERA), with the server's parameters: it is smaller, and
	// a little less exact; what it finds is put in order by the lists themselves. It needs Multi, and a server from v1.31.
	Muvera bool
}

// Distance is a measure between two vectors, as Weaviate spells it.
type Distance string

// The measures. [Dot] is the negative product, so that less is nearer with every one.
const (
	Cosine    Distance = "cosine"
	Dot       Distance = "dot"
	L2Squared Distance = "l2-squared"
	Manhattan Distance = "manhattan"
	Hamming   Distance = "hamming"
)

// Index is a kind of vector index, as Weaviate spells it.
type Index string

// The kinds: a graph in memory, exact search on disk (for small collections or tenants), and one that begins flat and
// becomes a graph when it is large, which needs a server with ASYNC_INDEXING.
const (
	HNSW    Index = "hnsw"
	Flat    Index = "flat"
	Dynamic Index = "dynamic"
)

// Quantizer is how vectors are compressed, as Weaviate spells it.
type Quantizer string

// The quantizers: by product, bit, scalar and rotation, and none. An index that is [Dynamic] uses them for its graph.
const (
	PQ          Quantizer = "pq"
	BQ          Quantizer = "bq"
	SQ          Quantizer = "sq"
	RQ          Quantizer = "rq"
	Unquantized Quantizer = "none"
)

var quantizers = []Quantizer{PQ, BQ, SQ, RQ}

// Replication is how many copies of a collection there are on different nodes, and how they settle conflicts.
type Replication struct {
	// Factor is the number of copies. Default: the server's, whatever it is.
	Factor int
	// DeletionStrategy settles a delete that one copy has and another lacks. Default: [TimeBasedResolution], for a
	// collection that is created; one that is there keeps its own, unless this field says what it becomes. The server's
	// default was another one in almost every version, so that it is always set.
	DeletionStrategy DeletionStrategy
}

// DeletionStrategy is a way to settle conflicts of deletes, as Weaviate spells it.
type DeletionStrategy string

// The strategies: the later one of delete and write wins, the delete wins, and neither.
const (
	TimeBasedResolution   DeletionStrategy = "TimeBasedResolution"
	DeleteOnConflict      DeletionStrategy = "DeleteOnConflict"
	NoAutomatedResolution DeletionStrategy = "NoAutomatedResolution"
)

// Property is a property of a collection. [PropertiesOf] makes a list of a Go struct.
type Property struct {
	// Name is letters, digits and _, beginning with a lower-case letter or _.
	Name string
	// DataType is one of Weaviate's types.
	DataType DataType
	// Nested are the properties of [Object] and [ObjectArray], which need at least one.
	Nested []Property
	// Tokenization is how a text is cut for filters and keyword search. Default: the server's, whatever it is.
	Tokenization Tokenization
	// NoFilter keeps the property out of the index for filters, NoSearch a text out of that for keyword search (BM25).
	NoFilter, NoSearch bool
	// RangeFilter adds an index for comparisons with < and > to an int, number or date.
	RangeFilter bool
}

// Tokenization is a way to cut texts, as Weaviate spells it. Servers have others for some languages, which work too.
type Tokenization = vectorstore.Tokenization

// The ways to cut a text; see [vectorstore.Tokenization].
const (
	Word       = vectorstore.WordTokenization
	Lowercase  = vectorstore.LowercaseTokenization
	Whitespace = vectorstore.WhitespaceTokenization
	Field      = vectorstore.FieldTokenization
	Trigram    = vectorstore.TrigramTokenization
)

// DataType is a type of property, as Weaviate spells it.
type DataType string

// The types of properties that a Store reads and writes. References and blobHash are not
// among them.
const (
	Text         DataType = "text"
	TextArray    DataType = "text[]"
	Int          DataType = "int"
	IntArray     DataType = "int[]"
	Number       DataType = "number"
	NumberArray  DataType = "number[]"
	Boolean      DataType = "boolean"
	BooleanArray DataType = "boolean[]"
	Date         DataType = "date"
	DateArray    DataType = "date[]"
	UUID         DataType = "uuid"
	UUIDArray    DataType = "uuid[]"
	Blob         DataType = "blob"
	Object       DataType = "object"
	ObjectArray  DataType = "object[]"
	Geo          DataType = "geoCoordinates"
	Phone        DataType = "phoneNumber"
)

// element returns the type of the elements of an array type, and whether d is one.
func (d DataType) element() (DataType, bool) {
	e, ok := strings.CutSuffix(string(d), "[]")
	return DataType(e), ok
}

func (d DataType) known() bool {
	e, array := d.element()
	return slices.Contains(scalarDataTypes, e) && (!array || e != Blob && e != Geo && e != Phone)
}

func (o Options) validateVectors() error {
	var errs []error
	seen := map[string]bool{}
	for _, v := range o.Vectors {
		err := v.validate()
		if seen[v.Name] {
			err = errors.Join(err, errors.New("is there twice"))
		}
		if seen[v.Name] = true; err != nil {
			errs = append(errs, fmt.Errorf("%.64q: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (v Vector) validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(v.Name) {
		fault("is not a name of a vector")
	}
	if v.Dimensions < 0 {
		fault("%d dimensions", v.Dimensions)
	}
	if !slices.Contains([]Distance{Cosine, Dot, L2Squared, Manhattan, Hamming}, v.Distance) {
		fault("distance %.64q is unknown", v.Distance)
	}
	if !slices.Contains([]Index{HNSW, Flat, Dynamic}, v.Index) {
		fault("index %.64q is unknown", v.Index)
	}
	if v.Quantizer != "" && v.Quantizer != Unquantized && !slices.Contains(quantizers, v.Quantizer) {
		fault("quantizer %.64q is unknown", v.Quantizer)
	}
	if v.Index != HNSW && (v.EFConstruction != 0 || v.MaxConnections != 0 || v.EF != 0) {
		fault("EFConstruction, MaxConnections and EF are of the index hnsw")
	}
	if v.EFConstruction < 0 || v.MaxConnections < 0 || v.EF < -1 {
		fault("EFConstruction, MaxConnections or EF is negative")
	}
	if v.Multi && (v.Index != HNSW || v.Distance != Cosine) {
		fault("Multi is of the index hnsw with the distance cosine")
	}
	if v.Muvera && !v.Multi {
		fault("Muvera is for Multi")
	}
	return errors.Join(errs...)
}

func (r Replication) validate() error {
	strategies := []DeletionStrategy{"", TimeBasedResolution, DeleteOnConflict, NoAutomatedResolution}
	switch {
	case r.Factor < 0:
		return fmt.Errorf("the factor is %d", r.Factor)
	case !slices.Contains(strategies, r.DeletionStrategy):
		return fmt.Errorf("deletion strategy %.64q is unknown", r.DeletionStrategy)
	}
	return nil
}

func validateProperties(properties []Property, top bool) error {
	var errs []error
	seen := map[string]bool{}
	for _, p := range properties {
		if err := validateName(p.Name, top); err != nil {
			errs = append(errs, err)
		} else if seen[p.Name] {
			errs = append(errs, fmt.Errorf("%q is there twice", p.Name))
		}
		seen[p.Name] = true
		if err := p.validate(top); err != nil {
			errs = append(errs, fmt.Errorf("%.64q: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// ranged reports whether there is an index for comparisons of the type.
func (p Property) ranged() bool {
	return p.DataType == Int || p.DataType == Number || p.DataType == Date
}

func (p Property) validate(top bool) error {
	nested := p.DataType == Object || p.DataType == ObjectArray
	element, _ := p.DataType.element()
	switch {
	case !p.DataType.known(), !top && p.DataType == Blob:
		return fmt.Errorf("type %.64q is not supported here", p.DataType)
	case nested != (len(p.Nested) > 0):
		return fmt.Errorf("type %q with %d nested properties", p.DataType, len(p.Nested))
	case element != Text && (p.Tokenization != "" || p.NoSearch):
		return fmt.Errorf("Tokenization and NoSearch are for text, not for type %s", p.DataType)
	case p.RangeFilter && !p.ranged():
		return fmt.Errorf("RangeFilter is for int, number and date, not for type %s", p.DataType)
	}
	return validateProperties(p.Nested, false)
}
