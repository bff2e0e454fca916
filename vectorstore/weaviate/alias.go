package weaviate

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// alias is a name that stands for a collection, in the JSON of /v1/aliases.
type alias struct {
	Alias string `json:"alias,omitempty"`
	Class string `json:"class"`
}

// PointAlias makes a name stand for the Store's collection: it is created, or taken from the collection that it stood for, in one step,
// so that every search by that name finds the old or the new collection, and none fails. It needs a server from v1.32; the name is
// spelled as [Options].Collection is, and must not be a collection's.
//
// A Store that is opened by an alias, which needs [Options].OpenOnly, reads what the alias stands for at that moment, and writes
// nothing. So a new collection takes the place of an old one without downtime: a second Store writes it whole, say by a Sink that
// replays the topic, and then takes the alias of the first.
func (s *Store) PointAlias(ctx context.Context, name string) error {
	if err := s.writable(); err != nil {
		return err
	}
	name = canonicalName(name)
	if !classPattern.MatchString(name) {
		return vectorstore.Permanent(fmt.Errorf("weaviate: %.64q is not the name of an alias: a letter A to Z, then letters, digits and _", name))
	}
	err := s.conn.rest(ctx, http.MethodPut, "/v1/aliases/"+name, alias{Class: s.collection}, nil)
	if restCode(err) == http.StatusNotFound {
		err = s.conn.rest(ctx, http.MethodPost, "/v1/aliases", alias{name, s.collection}, nil)
	}
	if restCode(err) != 0 { // v1.35 says 422, v1.39 says 500 where the name is a collection's
		if have, errThere := s.conn.class(ctx, name); errThere == nil && have.Class == name {
			err = vectorstore.Permanent(fmt.Errorf("%w: %s is a collection: %w", ErrCollection, name, err))
		}
	}
	if err != nil {
		return fmt.Errorf("weaviate: pointing alias %s at collection %s at %s: %w", name, s.collection, s.conn.httpAddr, err)
	}
	return nil
}

// Aliases returns the names that stand for the Store's collection, sorted; of a Store that was opened by an alias, none.
func (s *Store) Aliases(ctx context.Context) ([]string, error) {
	var have struct {
		Aliases []alias `json:"aliases"`
	}
	path := "/v1/aliases?" + url.Values{"class": {s.collection}}.Encode()
	if err := s.conn.rest(ctx, http.MethodGet, path, nil, &have); err != nil {
		return nil, fmt.Errorf("weaviate: aliases of collection %s at %s: %w", s.collection, s.conn.httpAddr, err)
	}
	var names []string
	for _, a := range have.Aliases {
		if a.Class == s.collection { // a server may answer with all
			names = append(names, a.Alias)
		}
	}
	slices.Sort(names)
	return names, nil
}

// writable returns a permanent error for a Store that was opened by an alias. The collection may change between two requests of a
// write, and what it remembers of deletions has no alias.
func (s *Store) writable() error {
	if !s.aliased {
		return nil
	}
	return vectorstore.Permanent(fmt.Errorf("weaviate: %s is an alias: write to the collection by its own name", s.collection))
}

// searchAliased searches once more where the collection that the Store knows may not be the one any more that the alias stands for.
func (s *Store) searchAliased(ctx context.Context, q vectorstore.Query) ([]vectorstore.Match, error) {
	found, err := s.searchOnce(ctx, q)
	if !itemerror.IsPermanent(err) {
		return found, err
	}
	s.mu.Lock()
	clear(s.dims)
	s.mu.Unlock()
	if _, err := s.reload(ctx); err != nil {
		return nil, err
	}
	return s.searchOnce(ctx, q)
}
