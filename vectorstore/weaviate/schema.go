package weaviate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// schema is what the Store knows of the collection's properties and vectors. It is not changed once made.
type schema struct {
	properties map[string]*property
	vectors    map[string]namedVector
	nulls      bool // the collection knows which objects lack a property
	// explicit asks for every property by its name; nil where asking for all leaves none out.
	explicit *pb.PropertiesRequest
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

func newSchema(c class) *schema {
	s := &schema{properties: newProperties(c.Properties), vectors: make(map[string]namedVector, len(c.VectorConfig))}
	s.nulls = c.InvertedIndex != nil && c.InvertedIndex.NullState
	for name, v := range c.VectorConfig {
		s.vectors[name] = namedVector{v.VectorIndexConfig.Distance, v.VectorIndexConfig.multi()}
	}
	for _, p := range s.properties {
		if p.dataType == Blob { // asked for all, the server leaves blobs out
			names, nested := request(s.properties)
			s.explicit = &pb.PropertiesRequest{NonRefProperties: names, ObjectProperties: nested}
			break
		}
	}
	return s
}

// request names properties and those in them.
func request(properties map[string]*property) (names []string, nested []*pb.ObjectPropertiesRequest) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if p := properties[name]; p.dataType != Object && p.dataType != ObjectArray {
			names = append(names, name)
		} else {
			inner, innermost := request(p.nested)
			nested = append(nested, &pb.ObjectPropertiesRequest{PropName: name, PrimitiveProperties: inner, ObjectProperties: innermost})
		}
	}
	return names, nested
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
	if !strings.EqualFold(have.Class, want.Class) { // an alias
		if !openOnly {
			return class{}, c.differ(want, []Difference{{
				"collection " + want.Class, "an alias of " + have.Class, "a collection; an alias is opened with OpenOnly",
			}})
		}
		want.Class = have.Class
	}
	return c.fit(ctx, have, want, openOnly)
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

// reload reads the collection's properties and vectors again.
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
