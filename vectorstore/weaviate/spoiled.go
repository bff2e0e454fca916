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
	mu    sync.Mutex
	paths map[string]struct{} // guarded by mu: those of /v1/objects
}

func (s *spoiled) note(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paths == nil {
		s.paths = map[string]struct{}{}
	}
	if len(s.paths) < maxSpoiled {
		s.paths[path] = struct{}{}
	}
}

func (s *spoiled) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paths) > 0
}

func (s *spoiled) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.paths[path]
	return there
}

func (s *spoiled) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.paths, path)
}

// objectPath is the object's in REST, with its tenant.
func (s *Store) objectPath(collection, tenant, id string) string {
	path := "/v1/objects/" + collection + "/" + id
	if s.tenants {
		path += "?" + url.Values{"tenant": {tenant}}.Encode()
	}
	return path
}

// clean removes a spoiled object from every index. What is written next is whole.
func (s *Store) clean(ctx context.Context, path string, id vectorstore.ID) error {
	err := s.conn.rest(ctx, http.MethodDelete, path, nil, nil)
	if err != nil && restCode(err) != http.StatusNotFound {
		return objectError(id, fmt.Errorf("removing what a failed write has left: %w", err))
	}
	s.spoiled.forget(path)
	return nil
}
