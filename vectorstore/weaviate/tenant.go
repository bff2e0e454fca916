package weaviate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/vectorstore"
)

var tenantPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkTenant returns a permanent error unless a tenant is named exactly where the collection has some.
func (s *Store) checkTenant(tenant string) error {
	var err error
	switch {
	case !s.tenants && tenant == "":
		return nil
	case !s.tenants:
		err = fmt.Errorf("weaviate: tenant %.64q: collection %s has no tenants", tenant, s.collection)
	case !tenantPattern.MatchString(tenant):
		err = fmt.Errorf("weaviate: collection %s: %.64q is not a tenant: letters, digits, _ and -, at most 64", s.collection, tenant)
	}
	return vectorstore.Permanent(err)
}

// noTenant reports whether the server says that a tenant is not there.
func noTenant(err error) bool {
	s, ok := status.FromError(err)
	return err != nil && ok && strings.Contains(s.Message(), "tenant not found")
}

type tenant struct {
	Name   string `json:"name"`
	Status string `json:"activityStatus,omitempty"`
}

// Tenants returns the tenants that objects or remembered deletions were written to and that were not dropped, sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	if !s.tenants {
		return []string{""}, nil
	}
	var names []string
	for _, collection := range s.collections() {
		var have []tenant
		if err := s.conn.rest(ctx, http.MethodGet, "/v1/schema/"+collection+"/tenants", nil, &have); err != nil {
			return nil, fmt.Errorf("weaviate: tenants of collection %s at %s: %w", collection, s.conn.httpAddr, err)
		}
		for _, t := range have {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// DropTenants drops tenants with all their objects and remembered deletions, at once and even where they are cold. One that is not
// there is no error.
func (s *Store) DropTenants(ctx context.Context, tenants ...string) error {
	errs := []error{s.writable()}
	for _, name := range tenants {
		errs = append(errs, s.checkTenant(name))
	}
	if err := errors.Join(errs...); err != nil || len(tenants) == 0 || !s.tenants {
		return err
	}
	for _, collection := range []string{s.collection, s.tombstones} {
		if err := s.conn.rest(ctx, http.MethodDelete, "/v1/schema/"+collection+"/tenants", tenants, nil); err != nil {
			return fmt.Errorf("weaviate: dropping tenants of collection %s at %s: %w", collection, s.conn.httpAddr, err)
		}
	}
	return nil
}

// wake makes a tenant active if it is there. Searches and writes do so by themselves, as the collection says; a batch delete
// of the server does not (https://github.com/weaviate/weaviate/issues/12953).
func (s *Store) wake(ctx context.Context, collection, name string) error {
	err := s.conn.rest(ctx, http.MethodPut, "/v1/schema/"+collection+"/tenants", []tenant{{name, "HOT"}}, nil)
	if err != nil {
		return fmt.Errorf("weaviate: waking tenant %s of collection %s at %s: %w", name, collection, s.conn.httpAddr, err)
	}
	return nil
}

// asleep reports whether the server says that a tenant is not active.
func asleep(err error) bool {
	s, ok := status.FromError(err)
	return err != nil && ok && strings.Contains(s.Message(), "tenant not active")
}
