package weaviate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// schema is what the Store knows of the collection's properties and vectors. It is not changed once made.
type schema struct {
	properties map[string]*property
	vectors    map[string]namedVector // "" where the objects may have a vector without a name, as old collections let them
	nulls      bool                   // the collection knows which objects lack a property
	// explicit asks for every property by its name; nil where asking for all leaves none out.
	explicit *pb.PropertiesRequest
}

// property is a property of the schema.
type property struct {
	dataType DataType
	nested   map[string]*property
	indexes  indexes
}

// indexes are what a property is found by.
type indexes struct {
	tokenization           Tokenization // empty where nothing is said
	filter, search, ranges bool
}

func newProperties(in []classProperty) map[string]*property {
	out := make(map[string]*property, len(in))
	for _, p := range in {
		out[p.Name] = &property{
			dataType: p.dataType(), nested: newProperties(p.Nested),
			indexes: indexes{p.Tokenization, p.IndexFilterable == nil || *p.IndexFilterable, on(p.IndexSearchable), on(p.IndexRangeFilters)},
		}
	}
	return out
}

func on(flag *bool) bool { return flag != nil && *flag }

func newSchema(c class) *schema {
	s := &schema{
		properties: newProperties(c.Properties), vectors: make(map[string]namedVector, len(c.VectorConfig)),
		nulls: c.InvertedIndex.nulls(),
	}
	if c.VectorIndexType != "" && c.VectorIndexConfig != nil {
		s.vectors[""] = namedVector{c.VectorIndexConfig.Distance, c.VectorIndexConfig.multi()}
	}
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

// plan is what makes a collection as it is wanted.
type plan struct {
	want class
	have class // without a name where nothing is there
	*comparison
}

// plan reads what is there. What cannot be mended is an error, a [CollectionError]; with openOnly, that is everything.
func (c *conn) plan(ctx context.Context, want class, openOnly bool) (*plan, error) {
	have, err := c.class(ctx, want.Class)
	missing := restCode(err) == http.StatusNotFound
	switch {
	case missing && openOnly:
		return nil, c.differ(want, []Difference{{Field: "collection " + want.Class, Want: "one that is there, since OpenOnly is set"}})
	case missing:
		return &plan{want: want}, nil
	case err != nil:
		return nil, fmt.Errorf("weaviate: collection %s at %s: %w", want.Class, c.httpAddr, err)
	}
	if !strings.EqualFold(have.Class, want.Class) { // an alias
		if !openOnly {
			return nil, c.differ(want, []Difference{{
				"collection " + want.Class, "an alias of " + have.Class, "a collection; an alias is opened with OpenOnly",
			}})
		}
		want.Class = have.Class
	}
	p := &plan{want, have, want.compare(have)}
	differences := p.fixed
	if openOnly {
		differences = append(differences, p.mutable...)
	}
	if len(differences) > 0 {
		return nil, c.differ(want, differences)
	}
	return p, nil
}

// carryOut returns what is there then, which it has read and checked again.
func (c *conn) carryOut(ctx context.Context, p *plan) (class, error) {
	var err error
	switch {
	case p.have.Class == "":
		err = c.rest(ctx, http.MethodPost, "/v1/schema", p.want.created(), nil)
	case len(p.mutable) == 0:
		return p.have, nil
	default:
		err = c.mend(ctx, p)
	}
	if restCode(err) == http.StatusUnprocessableEntity {
		// Another process may have been faster; if all is still as it was, the answer says why.
		again, errAgain := c.plan(ctx, p.want, false)
		if errAgain == nil && !reflect.DeepEqual(again.have, p.have) {
			return c.carryOut(ctx, again)
		}
		err = cmp.Or(errAgain, fmt.Errorf("%w: %s at %s: %w", ErrCollection, p.want.Class, c.httpAddr, err))
	}
	if err != nil {
		return class{}, err
	}
	done, err := c.plan(ctx, p.want, true)
	if err != nil {
		return class{}, err
	}
	return done.have, nil
}

// mend changes a collection, then adds properties to it.
func (c *conn) mend(ctx context.Context, p *plan) error {
	if err := c.change(ctx, p.want.Class, p.changes); err != nil {
		return err
	}
	for _, property := range p.properties {
		if err := c.addProperty(ctx, p.want.Class, property); err != nil {
			return fmt.Errorf("adding property %s: %w", property.Name, err)
		}
	}
	return nil
}

// change sets fields of a collection. The server takes whole collections alone, so that what another process changes between the
// reading and the writing makes it refuse ours, which is then done again.
func (c *conn) change(ctx context.Context, name string, changes map[string]any) error {
	path := "/v1/schema/" + name
	for before := []byte(nil); ; {
		var text json.RawMessage
		if err := c.rest(ctx, http.MethodGet, path, nil, &text); err != nil {
			return err
		}
		var whole map[string]any // with every field that the server has, known here or not
		if err := json.Unmarshal(text, &whole); err != nil {
			return err
		}
		if !setFields(whole, changes) {
			return nil
		}
		err := c.rest(ctx, http.MethodPut, path, whole, nil)
		if restCode(err) != http.StatusUnprocessableEntity || bytes.Equal(text, before) {
			return err
		}
		before = text
	}
}

// setFields sets fields of JSON, and those in them, and reports whether one had another value. A vector is set where there is none.
func setFields(to, fields map[string]any) (changed bool) {
	for name, value := range fields {
		inner, nested := value.(map[string]any)
		there, _ := to[name].(map[string]any)
		_, vector := value.(vectorConfig)
		switch {
		case nested && there != nil:
			changed = setFields(there, inner) || changed
		case vector && there != nil, fmt.Sprint(to[name]) == fmt.Sprint(value):
		default:
			to[name], changed = value, true
		}
	}
	return changed
}

func (c *conn) class(ctx context.Context, name string) (class, error) {
	var have class
	err := c.rest(ctx, http.MethodGet, "/v1/schema/"+name, nil, &have)
	return have, err
}

func (c *conn) differ(want class, differences []Difference) error {
	return &CollectionError{Collection: want.Class, Address: c.httpAddr, Differences: differences}
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
