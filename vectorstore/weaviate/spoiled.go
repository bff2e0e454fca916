package weaviate

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// maxSpoiled bounds how many objects are remembered as spoiled; an entry takes some 200 bytes.
const maxSpoiled = 100_000

// spoiled are the objects that the server has failed to store, for its own reasons, such as a full disk. It may have stored some parts of
// one: then a filter or a vector does not find it, and writing it again changes nothing, since the server takes what is there for
// whole (seen with v1.39). So once the server takes such an object again, it is removed by its id, everywhere, and written anew. Where
// another process writes it again, it stays as it is.
type spoiled struct {
	mu     sync.Mutex
	places map[place]struct{} // guarded by mu
}

// place is where an object is.
type place struct{ collection, tenant, id string }

func (s *spoiled) note(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil {
		s.places = map[place]struct{}{}
	}
	if len(s.places) < maxSpoiled {
		s.places[p] = struct{}{}
	}
}

func (s *spoiled) has(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.places[p]
	return there
}

func (s *spoiled) forget(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, p)
}

// clean removes a spoiled object from every index. What is written next is whole.
func (s *Store) clean(ctx context.Context, p place) error {
	path := "/v1/objects/" + p.collection + "/" + p.id
	if s.tenants {
		path += "?" + url.Values{"tenant": {p.tenant}}.Encode()
	}
	err := s.conn.rest(ctx, http.MethodDelete, path, nil, nil)
	if err != nil && restCode(err) != http.StatusNotFound {
		return objectError(vectorstore.ID(p.id), fmt.Errorf("removing what a failed write has left: %w", err))
	}
	s.spoiled.forget(p)
	return nil
}
