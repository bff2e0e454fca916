package weaviate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
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
	Replication       *replication            `json:"replicationConfig,omitempty"`
	MultiTenancy      multiTenancy            `json:"multiTenancyConfig"`
}

type vectorConfig struct {
	Vectorizer        map[string]any `json:"vectorizer"`
	VectorIndexType   Index          `json:"vectorIndexType"`
	VectorIndexConfig indexConfig    `json:"vectorIndexConfig"`
}

type indexConfig struct {
	Distance       Distance     `json:"distance,omitempty"`
	Skip           bool         `json:"skip,omitempty"`
	Multivector    *enabled     `json:"multivector,omitempty"`
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
	out := classProperty{Name: p.Name, DataType: []string{string(p.DataType)}, Tokenization: p.Tokenization}
	yes, no := true, false
	if p.NoFilter {
		out.IndexFilterable = &no
	}
	if p.NoSearch {
		out.IndexSearchable = &no
	}
	if p.RangeFilter {
		out.IndexRangeFilters = &yes
	}
	for _, nested := range p.Nested {
		out.Nested = append(out.Nested, nested.class())
	}
	return out
}

// schema is what the Store knows of the collection's properties. It is not changed once made.
type schema struct {
	properties map[string]*property
	explicit   []string // the names to ask for, where asking for all would leave out blobs; else nil
}

// property is a property of the schema.
type property struct {
	dataType DataType
	nested   map[string]*property
	indexes  indexes
}

// indexes are what a property is found by, nil and empty where nothing is said.
type indexes struct {
	tokenization           Tokenization
	filter, search, ranges *bool
}

func newProperties(in []classProperty) map[string]*property {
	out := make(map[string]*property, len(in))
	for _, p := range in {
		out[p.Name] = &property{
			dataType: p.dataType(), nested: newProperties(p.Nested),
			indexes: indexes{p.Tokenization, p.IndexFilterable, p.IndexSearchable, p.IndexRangeFilters},
		}
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

func newSchema(c class) *schema {
	s := &schema{properties: newProperties(c.Properties)}
	for _, p := range s.properties {
		if p.dataType == Blob {
			s.explicit = slices.Sorted(maps.Keys(s.properties))
			break
		}
	}
	return s
}

// wanted is the collection that the options describe.
func (o Options) wanted() class {
	c := class{
		Class: o.Collection, VectorConfig: map[string]vectorConfig{}, Properties: []classProperty{versionColumn, inputsColumn},
		Replication:  &replication{o.Replication.Factor, o.Replication.DeletionStrategy},
		MultiTenancy: multiTenancy{o.Tenants, o.Tenants, o.Tenants},
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

// wantedTombstones is the collection of remembered deletions: the ids of deleted objects with their versions, without
// a vector.
func (o Options) wantedTombstones() class {
	return class{
		Class: o.Collection + tombstones, Description: "Deletions remembered for the collection " + o.Collection,
		Vectorizer: "none", VectorIndexType: "hnsw", VectorIndexConfig: &indexConfig{Skip: true},
		Replication:  &replication{o.Replication.Factor, o.Replication.DeletionStrategy},
		MultiTenancy: multiTenancy{o.Tenants, o.Tenants, o.Tenants}, Properties: []classProperty{versionColumn},
	}
}

// ensure creates the collection, or checks that the one that is there fits and adds the vectors and properties that it
// lacks; with openOnly, what is missing is an error. It returns what is there now.
func (c *conn) ensure(ctx context.Context, want class, openOnly bool) (class, error) {
	have, err := c.class(ctx, want.Class)
	missing := restCode(err) == http.StatusNotFound
	if missing && openOnly {
		return class{}, c.differ(want, []Difference{{Field: "collection " + want.Class, Want: "one that is there, since OpenOnly is set"}})
	}
	if missing {
		err = c.rest(ctx, http.MethodPost, "/v1/schema", want.created(), nil)
		if restCode(err) == http.StatusUnprocessableEntity {
			// Another process may have created it in between; if it is still not there, the answer says why.
			if again, errAgain := c.class(ctx, want.Class); errAgain == nil {
				return c.fit(ctx, again, want, false)
			}
			return class{}, fmt.Errorf("%w: creating %s: %w", ErrCollection, want.Class, err)
		}
		if err == nil {
			have, err = c.class(ctx, want.Class)
		}
	}
	if err != nil {
		return class{}, fmt.Errorf("weaviate: collection %s at %s: %w", want.Class, c.httpAddr, err)
	}
	return c.fit(ctx, have, want, openOnly)
}

// created is the collection to create: the deletion strategy is always set, since the server's default differs between
// versions.
func (want class) created() class {
	r := *want.Replication
	r.DeletionStrategy = cmp.Or(r.DeletionStrategy, TimeBasedResolution)
	want.Replication = &r
	return want
}

func (c *conn) class(ctx context.Context, name string) (class, error) {
	var have class
	err := c.rest(ctx, http.MethodGet, "/v1/schema/"+name, nil, &have)
	return have, err
}

func (c *conn) differ(want class, differences []Difference) error {
	return &CollectionError{Collection: want.Class, Address: c.httpAddr, Differences: differences}
}

// fit checks have, then adds to it what it lacks.
func (c *conn) fit(ctx context.Context, have, want class, openOnly bool) (class, error) {
	differences := want.differences(have)
	vectors, properties := want.missing(have)
	if openOnly {
		for _, name := range vectors {
			differences = append(differences, Difference{Field: "vector " + name, Want: string(want.VectorConfig[name].VectorIndexType)})
		}
		for _, p := range properties {
			differences = append(differences, Difference{Field: "property " + p.Name, Want: string(p.dataType())})
		}
	}
	if len(differences) > 0 {
		return class{}, c.differ(want, differences)
	}
	if len(vectors)+len(properties) == 0 {
		return have, nil
	}
	if len(vectors) > 0 {
		if err := c.addVectors(ctx, want); err != nil {
			return class{}, fmt.Errorf("weaviate: collection %s at %s: adding the vectors %s: %w",
				want.Class, c.httpAddr, strings.Join(vectors, ", "), err)
		}
	}
	for _, p := range properties {
		err := c.addProperty(ctx, want.Class, p)
		if restCode(err) == http.StatusUnprocessableEntity {
			// Another process may have added it in between.
			if again, errAgain := c.class(ctx, want.Class); errAgain == nil && newProperties(again.Properties)[p.Name] != nil {
				return c.fit(ctx, again, want, false)
			}
		}
		if err != nil {
			return class{}, fmt.Errorf("weaviate: collection %s at %s: adding property %s: %w", want.Class, c.httpAddr, p.Name, err)
		}
	}
	return c.class(ctx, want.Class)
}

// missing returns what fit can add.
func (want class) missing(have class) (vectors []string, properties []classProperty) {
	for _, name := range slices.Sorted(maps.Keys(want.VectorConfig)) {
		if _, ok := have.VectorConfig[name]; !ok {
			vectors = append(vectors, name)
		}
	}
	there := newProperties(have.Properties)
	for _, p := range want.Properties {
		if there[p.Name] == nil {
			properties = append(properties, p)
		}
	}
	return vectors, properties
}

// addVectors adds the vectors of want that the collection lacks. The server takes whole collections alone, so that what
// another process adds between the reading and the writing makes it refuse ours, which is then done again.
func (c *conn) addVectors(ctx context.Context, want class) error {
	path := "/v1/schema/" + want.Class
	for attempt := 0; ; attempt++ {
		var whole map[string]any // with every field that the server has, known here or not
		if err := c.rest(ctx, http.MethodGet, path, nil, &whole); err != nil {
			return err
		}
		config, _ := whole["vectorConfig"].(map[string]any)
		if config == nil {
			return fmt.Errorf("%w: it has one vector without a name, to which the server adds none", ErrCollection)
		}
		added := false
		for name, v := range want.VectorConfig {
			if config[name] == nil {
				config[name], added = v, true
			}
		}
		if !added {
			return nil
		}
		err := c.rest(ctx, http.MethodPut, path, whole, nil)
		if err == nil || restCode(err) != http.StatusUnprocessableEntity {
			return err
		}
		if attempt == 3 {
			return fmt.Errorf("%w: %w", ErrCollection, err)
		}
	}
}

func (c *conn) addProperty(ctx context.Context, name string, p classProperty) error {
	return c.rest(ctx, http.MethodPost, "/v1/schema/"+name+"/properties", p, nil)
}

// differences says where have does not do what want needs and cannot be made to.
func (want class) differences(have class) []Difference {
	var out []Difference
	differ := func(field, have, want string) { out = append(out, Difference{field, have, want}) }
	if have.Class != want.Class {
		differ("the name that the server answers with", have.Class, want.Class)
	}
	for _, d := range []struct {
		name       string
		have, want bool
	}{
		{"multi-tenancy: enabled", have.MultiTenancy.Enabled, want.MultiTenancy.Enabled},
		{"multi-tenancy: autoTenantCreation", have.MultiTenancy.AutoCreation, want.MultiTenancy.AutoCreation},
		{"multi-tenancy: autoTenantActivation", have.MultiTenancy.AutoActivation, want.MultiTenancy.AutoActivation},
	} {
		if d.have != d.want && (want.MultiTenancy.Enabled || d.name == "multi-tenancy: enabled") {
			differ(d.name, fmt.Sprint(d.have), fmt.Sprint(d.want))
		}
	}
	if have.Vectorizer != "" && have.Vectorizer != "none" {
		differ("vectorizer", have.Vectorizer, "none")
	}
	if r := have.Replication; r != nil && want.Replication.Factor > 0 && r.Factor != want.Replication.Factor {
		differ("replication: factor", fmt.Sprint(r.Factor), fmt.Sprint(want.Replication.Factor))
	}
	if w := want.Replication.DeletionStrategy; w != "" && (have.Replication == nil || have.Replication.DeletionStrategy != w) {
		strategy := DeletionStrategy("")
		if have.Replication != nil {
			strategy = have.Replication.DeletionStrategy
		}
		differ("replication: deletion strategy", string(strategy), string(w))
	}
	for _, name := range slices.Sorted(maps.Keys(want.VectorConfig)) {
		if v, ok := have.VectorConfig[name]; ok {
			out = append(out, want.VectorConfig[name].differences("vector "+name+": ", v)...)
		} else if len(have.VectorConfig) == 0 {
			differ("vector "+name, "", "named vectors; a collection that was made without any cannot get them")
		}
	}
	return append(out, propertyDifferences("", newProperties(have.Properties), newProperties(want.Properties))...)
}

func (want vectorConfig) differences(field string, have vectorConfig) []Difference {
	var out []Difference
	differ := func(name string, have, want any) {
		out = append(out, Difference{field + name, fmt.Sprint(have), fmt.Sprint(want)})
	}
	if _, none := have.Vectorizer["none"]; !none {
		differ("vectorizer", strings.Join(slices.Sorted(maps.Keys(have.Vectorizer)), ", "), "none")
	}
	h, w := have.VectorIndexConfig, want.VectorIndexConfig
	if have.VectorIndexType != want.VectorIndexType {
		differ("index", have.VectorIndexType, want.VectorIndexType)
	} else if asked := w.asked(); asked != "" && asked != h.quantizer() {
		differ("quantizer", h.quantizer(), asked)
	}
	if h.Distance != w.Distance {
		differ("distance", h.Distance, w.Distance)
	}
	if h.Skip {
		differ("indexing", "skipped", "an index")
	}
	if h.Multivector != nil && h.Multivector.Enabled {
		differ("number of vectors of an object", "any", "one")
	}
	for _, n := range []struct {
		name       string
		have, want int
	}{
		{"efConstruction", h.EFConstruction, w.EFConstruction},
		{"maxConnections", h.MaxConnections, w.MaxConnections},
		{"ef", h.EF, w.EF},
	} {
		if n.want != 0 && n.have != n.want {
			differ(n.name, n.have, n.want)
		}
	}
	return out
}

// propertyDifferences says what differs, and which types cannot be carried at all: an upsert replaces the whole object,
// so that their values would be lost.
func propertyDifferences(prefix string, have, want map[string]*property) []Difference {
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(have)) {
		h, w := have[name], want[name]
		field := "property " + prefix + name
		switch {
		case w != nil && h.dataType != w.dataType:
			out = append(out, Difference{field + ": type", string(h.dataType), string(w.dataType)})
			continue
		case !h.dataType.known(), prefix != "" && h.dataType == Blob:
			out = append(out, Difference{field + ": type", string(h.dataType), "a type that is supported"})
			continue
		}
		var nested map[string]*property
		if w != nil {
			nested = w.nested
			if name != versionProperty && name != inputsProperty { // whoever made them, their indexes do no harm
				out = append(out, indexDifferences(field, h.indexes, w.indexes)...)
			}
		}
		out = append(out, propertyDifferences(prefix+name+".", h.nested, nested)...)
	}
	if prefix == "" {
		return out // what is missing at the top is added
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] == nil {
			field := "property " + prefix + name
			out = append(out, Difference{Field: field, Want: string(want[name].dataType) + "; Weaviate adds no nested properties"})
		}
	}
	return out
}

// indexDifferences compares where want says something.
func indexDifferences(field string, have, want indexes) []Difference {
	var out []Difference
	if want.tokenization != "" && have.tokenization != want.tokenization {
		out = append(out, Difference{field + ": tokenization", string(have.tokenization), string(want.tokenization)})
	}
	for _, index := range []struct {
		name       string
		have, want *bool
	}{
		{"filterable", have.filter, want.filter}, {"searchable", have.search, want.search}, {"range filters", have.ranges, want.ranges},
	} {
		if index.want != nil && (index.have == nil || *index.have != *index.want) {
			is := index.have != nil && *index.have
			out = append(out, Difference{field + ": " + index.name, fmt.Sprint(is), fmt.Sprint(*index.want)})
		}
	}
	return out
}

// reload reads the collection's properties again.
func (s *Store) reload(ctx context.Context) (*schema, error) {
	c, err := s.conn.class(ctx, s.collection)
	if err != nil {
		return nil, fmt.Errorf("weaviate: collection %s at %s: %w", s.collection, s.conn.httpAddr, err)
	}
	fresh := newSchema(c)
	s.schema.Store(fresh)
	return fresh, nil
}

// extend makes the collection have every property that the values need, by name in values, and returns the schema then
// known. The properties that cannot be added have an error in the map.
func (s *Store) extend(ctx context.Context, values map[string]any) (*schema, map[string]error) {
	known := s.schema.Load()
	missing := missingProperties(known, values)
	if len(missing) == 0 {
		return known, nil
	}
	errs := map[string]error{}
	fail := func(names []string, err error) {
		for _, name := range names {
			errs[name] = err
		}
	}
	select {
	case s.extending <- struct{}{}:
		defer func() { <-s.extending }()
	case <-ctx.Done():
		fail(missing, fmt.Errorf("waiting to add it to collection %s: %w", s.collection, ctx.Err()))
		return known, errs
	}
	fresh, err := s.reload(ctx) // another process may have added them
	if err != nil {
		fail(missing, err)
		return known, errs
	}
	missing = missingProperties(fresh, values)
	for i, name := range missing {
		err := s.addProperty(ctx, name, values[name])
		if err != nil {
			errs[name] = err
		}
		if err != nil && !itemerror.IsPermanent(err) && restCode(err) == 0 { // nobody answers: waiting for each would take too long
			fail(missing[i:], err)
			break
		}
	}
	if len(missing) == len(errs) {
		return fresh, errs
	}
	extended, err := s.reload(ctx)
	if err != nil {
		fail(missing, err)
		return fresh, errs
	}
	return extended, errs
}

func missingProperties(known *schema, values map[string]any) []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if known.properties[name] == nil {
			missing = append(missing, name)
		}
	}
	return missing
}

func (s *Store) addProperty(ctx context.Context, name string, value any) error {
	if s.fixed {
		return valueError("collection %s does not have it", s.collection)
	}
	p, err := infer(name, value)
	if err != nil {
		return err
	}
	err = s.conn.addProperty(ctx, s.collection, p.class())
	if restCode(err) == http.StatusUnprocessableEntity {
		if known, errAgain := s.reload(ctx); errAgain == nil && known.properties[name] != nil {
			return nil // another process was faster
		}
		return vectorstore.Permanent(fmt.Errorf("%w: adding it to collection %s: %w", vectorstore.ErrValue, s.collection, err))
	}
	if err != nil {
		return fmt.Errorf("adding it to collection %s: %w", s.collection, err)
	}
	return nil
}
