package weaviate

import (
	"cmp"
	"strings"
)

const (
	versionProperty = "tidemark_version"
	inputsProperty  = "tidemark_inputs"

	// tombstones is what the name of the collection of remembered deletions ends in.
	tombstones = "Tombstones"
)

// class is a collection in the JSON of /v1/schema; only what is written or checked here.
type class struct {
	Class             string                  `json:"class"`
	Description       string                  `json:"description,omitempty"`
	Vectorizer        string                  `json:"vectorizer,omitempty"`
	VectorIndexType   string                  `json:"vectorIndexType,omitempty"`
	VectorIndexConfig *indexConfig            `json:"vectorIndexConfig,omitempty"`
	VectorConfig      map[string]vectorConfig `json:"vectorConfig,omitempty"`
	Properties        []classProperty         `json:"properties"`
	InvertedIndex     *invertedIndex          `json:"invertedIndexConfig,omitempty"`
	Replication       *replication            `json:"replicationConfig,omitempty"`
	MultiTenancy      multiTenancy            `json:"multiTenancyConfig"`
}

// invertedIndex is what properties are found by.
type invertedIndex struct {
	NullState bool `json:"indexNullState"`
}

func (i *invertedIndex) nulls() bool { return i != nil && i.NullState }

type vectorConfig struct {
	Vectorizer        map[string]any `json:"vectorizer"`
	VectorIndexType   Index          `json:"vectorIndexType"`
	VectorIndexConfig indexConfig    `json:"vectorIndexConfig"`
}

type indexConfig struct {
	Distance       Distance     `json:"distance,omitempty"`
	Skip           bool         `json:"skip,omitempty"`
	Multivector    *multivector `json:"multivector,omitempty"`
	EFConstruction int          `json:"efConstruction,omitempty"`
	MaxConnections int          `json:"maxConnections,omitempty"`
	EF             int          `json:"ef,omitempty"`
	PQ             *enabled     `json:"pq,omitempty"`
	BQ             *enabled     `json:"bq,omitempty"`
	SQ             *enabled     `json:"sq,omitempty"`
	RQ             *enabled     `json:"rq,omitempty"`
	Unquantized    bool         `json:"skipDefaultQuantization,omitempty"`
	HNSW           *indexConfig `json:"hnsw,omitempty"` // of a dynamic index
}

type multiTenancy struct {
	Enabled        bool `json:"enabled"`
	AutoCreation   bool `json:"autoTenantCreation"`
	AutoActivation bool `json:"autoTenantActivation"`
}

type enabled struct {
	Enabled bool `json:"enabled"`
}

type multivector struct {
	Enabled bool     `json:"enabled"`
	Muvera  *enabled `json:"muvera,omitempty"`
}

type replication struct {
	Factor           int              `json:"factor,omitempty"`
	DeletionStrategy DeletionStrategy `json:"deletionStrategy,omitempty"`
}

type classProperty struct {
	Name              string          `json:"name"`
	Description       string          `json:"description,omitempty"`
	DataType          []string        `json:"dataType"`
	Tokenization      Tokenization    `json:"tokenization,omitempty"`
	IndexFilterable   *bool           `json:"indexFilterable,omitempty"`
	IndexSearchable   *bool           `json:"indexSearchable,omitempty"`
	IndexRangeFilters *bool           `json:"indexRangeFilters,omitempty"`
	Nested            []classProperty `json:"nestedProperties,omitempty"`
}

// bookkeeping is a property of the Store's own. It is in no index: it is read with its object and never searched.
func bookkeeping(name, description string) classProperty {
	no := false
	return classProperty{
		Name: name, Description: description, DataType: []string{string(Text)}, IndexFilterable: &no, IndexSearchable: &no,
	}
}

var (
	versionColumn = bookkeeping(versionProperty, "Source position of the change that the object shows")
	inputsColumn  = bookkeeping(inputsProperty, "JSON: what each vector was made from, as digests")
)

func (p Property) class() classProperty {
	filter, search, ranges := !p.NoFilter, !p.NoSearch, p.RangeFilter
	out := classProperty{Name: p.Name, DataType: []string{string(p.DataType)}, Tokenization: p.Tokenization, IndexFilterable: &filter}
	if p.DataType == Text || p.DataType == TextArray {
		out.IndexSearchable = &search
	}
	if p.ranged() {
		out.IndexRangeFilters = &ranges
	}
	for _, nested := range p.Nested {
		out.Nested = append(out.Nested, nested.class())
	}
	return out
}

// dataType is the one type of a property. Types with the deprecated names string and string[] are texts. A reference
// has the names of collections, perhaps several.
func (p classProperty) dataType() DataType {
	name := strings.Join(p.DataType, ", ")
	if e, ok := strings.CutPrefix(name, "string"); ok && (e == "" || e == "[]") {
		name = string(Text) + e
	}
	return DataType(name)
}

// wanted is the collection that the options describe.
func (o Options) wanted() class {
	c := class{
		Class: o.Collection, VectorConfig: map[string]vectorConfig{}, Properties: []classProperty{versionColumn, inputsColumn},
		InvertedIndex: &invertedIndex{NullState: o.NullIndex},
		Replication:   &replication{o.Replication.Factor, o.Replication.DeletionStrategy},
		MultiTenancy:  multiTenancy{o.Tenants, o.Tenants, o.Tenants},
	}
	for _, v := range o.Vectors {
		c.VectorConfig[v.Name] = v.config()
	}
	for _, p := range o.Properties {
		c.Properties = append(c.Properties, p.class())
	}
	return c
}

func (v Vector) config() vectorConfig {
	out := vectorConfig{
		Vectorizer: map[string]any{"none": map[string]any{}}, VectorIndexType: v.Index,
		VectorIndexConfig: indexConfig{
			Distance: v.Distance, EFConstruction: v.EFConstruction, MaxConnections: v.MaxConnections, EF: v.EF,
		},
	}
	if v.Multi {
		out.VectorIndexConfig.Multivector = &multivector{true, &enabled{v.Muvera}}
	}
	holder := &out.VectorIndexConfig
	if v.Index == Dynamic {
		holder.HNSW = &indexConfig{}
		holder = holder.HNSW
	}
	on := &enabled{true}
	switch v.Quantizer {
	case PQ:
		holder.PQ = on
	case BQ:
		holder.BQ = on
	case SQ:
		holder.SQ = on
	case RQ:
		holder.RQ = on
	case Unquantized:
		holder.Unquantized = true
	}
	return out
}

func (c indexConfig) multi() bool { return c.Multivector != nil && c.Multivector.Enabled }

func (c indexConfig) muvera() bool {
	return c.multi() && c.Multivector.Muvera != nil && c.Multivector.Muvera.Enabled
}

// quantizer returns the one that is in use.
func (c indexConfig) quantizer() Quantizer {
	if c.HNSW != nil {
		return c.HNSW.quantizer()
	}
	for i, q := range []*enabled{c.PQ, c.BQ, c.SQ, c.RQ} {
		if q != nil && q.Enabled {
			return quantizers[i]
		}
	}
	return Unquantized
}

// asked is the quantizer that a wanted configuration needs, empty where any will do.
func (c indexConfig) asked() Quantizer {
	if q := c.quantizer(); q != Unquantized || c.Unquantized || c.HNSW != nil && c.HNSW.Unquantized {
		return q
	}
	return ""
}

// remembering is how the description of a collection of remembered deletions begins.
const remembering = "Deletions remembered for the collection "

// wantedTombstones is the collection of remembered deletions: the ids of deleted objects with their versions, without
// a vector.
func (o Options) wantedTombstones() class {
	return class{
		Class: o.Collection + tombstones, Description: remembering + o.Collection,
		Vectorizer: "none", VectorIndexType: "hnsw", VectorIndexConfig: &indexConfig{Skip: true},
		Replication:  &replication{o.Replication.Factor, o.Replication.DeletionStrategy},
		MultiTenancy: multiTenancy{o.Tenants, o.Tenants, o.Tenants}, Properties: []classProperty{versionColumn},
	}
}

// created is the collection to create: the deletion strategy is always set, since the server's default differs between
// versions.
func (want class) created() class {
	r := *want.Replication
	r.DeletionStrategy = cmp.Or(r.DeletionStrategy, TimeBasedResolution)
	want.Replication = &r
	return want
}
