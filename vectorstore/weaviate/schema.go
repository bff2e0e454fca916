package weaviate

import (
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
	MultiTenancy      *multiTenancy           `json:"multiTenancyConfig,omitempty"`
}

type vectorConfig struct {
	Vectorizer        map[string]any `json:"vectorizer"`
	VectorIndexType   string         `json:"vectorIndexType"`
	VectorIndexConfig indexConfig    `json:"vectorIndexConfig"`
}

type indexConfig struct {
	Distance    string       `json:"distance,omitempty"`
	Skip        bool         `json:"skip,omitempty"`
	Multivector *multivector `json:"multivector,omitempty"`
}

type multivector struct {
	Enabled bool `json:"enabled"`
}

// replication fixes how a conflict of a delete with a write is settled, since the default differs between server
// versions. The later one wins. It matters only where a collection has several replicas.
type replication struct {
	DeletionStrategy string `json:"deletionStrategy"`
}

type multiTenancy struct {
	Enabled bool `json:"enabled"`
}

type classProperty struct {
	Name            string          `json:"name"`
	Description     string          `json:"description,omitempty"`
	DataType        []string        `json:"dataType"`
	IndexFilterable *bool           `json:"indexFilterable,omitempty"`
	IndexSearchable *bool           `json:"indexSearchable,omitempty"`
	Nested          []classProperty `json:"nestedProperties,omitempty"`
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
	out := classProperty{Name: p.Name, DataType: []string{string(p.DataType)}}
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
}

func newProperties(in []classProperty) map[string]*property {
	out := make(map[string]*property, len(in))
	for _, p := range in {
		out[p.Name] = &property{dataType: p.dataType(), nested: newProperties(p.Nested)}
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
		Class: o.Collection, VectorConfig: map[string]vectorConfig{}, Replication: &replication{"TimeBasedResolution"},
		Properties: []classProperty{versionColumn, inputsColumn},
	}
	for _, v := range o.Vectors {
		c.VectorConfig[v.Name] = vectorConfig{
			Vectorizer: map[string]any{"none": map[string]any{}}, VectorIndexType: "hnsw",
			VectorIndexConfig: indexConfig{Distance: "cosine"},
		}
	}
	for _, p := range o.Properties {
		c.Properties = append(c.Properties, p.class())
	}
	return c
}

// wantedTombstones is the collection of remembered deletions: the ids of deleted objects with their versions, without
// a vector.
func (o Options) wantedTombstones() class {
	return class{
		Class: o.Collection + tombstones, Description: "Deletions remembered for the collection " + o.Collection,
		Vectorizer: "none", VectorIndexType: "hnsw", VectorIndexConfig: &indexConfig{Skip: true},
		Replication: &replication{"TimeBasedResolution"}, Properties: []classProperty{versionColumn},
	}
}

// ensure creates the collection, or checks that the one that is there fits and adds the properties that it lacks. It
// returns what is there now.
func (c *conn) ensure(ctx context.Context, want class) (class, error) {
	have, err := c.class(ctx, want.Class)
	if restCode(err) == http.StatusNotFound {
		err = c.rest(ctx, http.MethodPost, "/v1/schema", want, nil)
		if restCode(err) == http.StatusUnprocessableEntity {
			// Another process may have created it in between; if it is still not there, the answer says why.
			if again, errAgain := c.class(ctx, want.Class); errAgain == nil {
				return c.fit(ctx, again, want)
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
	return c.fit(ctx, have, want)
}

func (c *conn) class(ctx context.Context, name string) (class, error) {
	var have class
	err := c.rest(ctx, http.MethodGet, "/v1/schema/"+name, nil, &have)
	return have, err
}

func (c *conn) fit(ctx context.Context, have, want class) (class, error) {
	if differences := want.differences(have); len(differences) > 0 {
		lines := strings.Join(differences, "\n\t")
		return class{}, fmt.Errorf("%w: %s at %s:\n\t%s", ErrCollection, want.Class, c.httpAddr, lines)
	}
	there := newProperties(have.Properties)
	added := false
	for _, p := range want.Properties {
		if there[p.Name] != nil {
			continue
		}
		err := c.addProperty(ctx, want.Class, p)
		if restCode(err) == http.StatusUnprocessableEntity {
			// Another process may have added it in between.
			if again, errAgain := c.class(ctx, want.Class); errAgain == nil && newProperties(again.Properties)[p.Name] != nil {
				return c.fit(ctx, again, want)
			}
		}
		if err != nil {
			return class{}, fmt.Errorf("weaviate: collection %s at %s: adding property %s: %w", want.Class, c.httpAddr, p.Name, err)
		}
		added = true
	}
	if added {
		return c.class(ctx, want.Class)
	}
	return have, nil
}

func (c *conn) addProperty(ctx context.Context, name string, p classProperty) error {
	return c.rest(ctx, http.MethodPost, "/v1/schema/"+name+"/properties", p, nil)
}

// differences says where have does not do what want needs, a line each.
func (want class) differences(have class) []string {
	var out []string
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if have.Class != want.Class {
		differ("the server answers with the collection %s", have.Class)
	}
	if have.MultiTenancy != nil && have.MultiTenancy.Enabled {
		differ("multi-tenancy is enabled; want it disabled")
	}
	if have.Vectorizer != "" && have.Vectorizer != "none" {
		differ("vectorizer is %s; want none", have.Vectorizer)
	}
	for _, name := range slices.Sorted(maps.Keys(want.VectorConfig)) {
		v, ok := have.VectorConfig[name]
		if !ok {
			differ("vector %s is missing", name)
			continue
		}
		if _, none := v.Vectorizer["none"]; !none {
			differ("vector %s: vectorizer is %s; want none", name, strings.Join(slices.Sorted(maps.Keys(v.Vectorizer)), ", "))
		}
		if v.VectorIndexType != "hnsw" {
			differ("vector %s: index is %s; want hnsw", name, v.VectorIndexType)
		}
		if v.VectorIndexConfig.Distance != "cosine" {
			differ("vector %s: distance is %s; want cosine", name, v.VectorIndexConfig.Distance)
		}
		if v.VectorIndexConfig.Skip {
			differ("vector %s: indexing is skipped; want an index", name)
		}
		if m := v.VectorIndexConfig.Multivector; m != nil && m.Enabled {
			differ("vector %s: holds several vectors an object; want one", name)
		}
	}
	return append(out, propertyDifferences("", newProperties(have.Properties), newProperties(want.Properties))...)
}

// propertyDifferences says which types differ, and which cannot be carried at all: an upsert replaces the whole
// object, so that their values would be lost.
func propertyDifferences(prefix string, have, want map[string]*property) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		h, w := have[name], want[name]
		switch {
		case w != nil && h.dataType != w.dataType:
			out = append(out, fmt.Sprintf("property %s%s: type is %s; want %s", prefix, name, h.dataType, w.dataType))
		case !h.dataType.known(), prefix != "" && h.dataType == Blob:
			out = append(out, fmt.Sprintf("property %s%s: type %s is not supported", prefix, name, h.dataType))
		default:
			var nested map[string]*property
			if w != nil {
				nested = w.nested
			}
			out = append(out, propertyDifferences(prefix+name+".", h.nested, nested)...)
		}
	}
	if prefix == "" {
		return out // what is missing at the top is added
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] == nil {
			out = append(out, fmt.Sprintf("property %s%s is missing; Weaviate adds no nested properties", prefix, name))
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
