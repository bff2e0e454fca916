package weaviate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// of moves mutations to a tenant.
func of(tenant string, m []vectorstore.Mutation) []vectorstore.Mutation {
	for i := range m {
		m[i].Object.Tenant = tenant
	}
	return m
}

func tenantStore(t *testing.T) *Store {
	t.Helper()
	o := serverOptions(t)
	o.Tenants = true
	return open(t, o)
}

// TestServerTenants: the same ids in two tenants are different objects, whatever is done to them, in one call or in several.
func TestServerTenants(t *testing.T) {
	s := tenantStore(t)
	first := slices.Concat(of("a", upserts(1, 2)), of("b", upserts(1, 3)))
	first[2].Object.Properties["title"] = "b's"
	apply(t, s, first...)
	merge := vectorstore.Mutation{Action: vectorstore.Merge, Object: vectorstore.Object{
		Ref: vectorstore.Ref{ID: idOf(1), Tenant: "b"}, Properties: map[string]any{"price": 5},
	}}
	apply(t, s, slices.Concat([]vectorstore.Mutation{merge}, of("a", deletes(1)), of("c", deletes(9)))...)
	got, err := s.Get(t.Context(), []vectorstore.Ref{
		{ID: idOf(1), Tenant: "a"}, {ID: idOf(1), Tenant: "b"}, {ID: idOf(3), Tenant: "a"}, {ID: idOf(9), Tenant: "c"}, {ID: idOf(1), Tenant: "new"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[0] == nil || !got[0].Deleted || got[1] == nil || got[2] != nil || got[3] == nil || !got[3].Deleted || got[4] != nil {
		t.Fatalf("got %+v", got)
	}
	if b := got[1]; b.Tenant != "b" || b.Properties["title"] != "b's" || b.Properties["price"] != int64(5) || len(b.Vectors["text_vector"]) != 2 {
		t.Errorf("b has %+v", b)
	}
	if names, err := s.Tenants(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("tenants are %v, error %v", names, err)
	}
	for tenant, want := range map[string]int{"a": 1, "b": 2, "c": 0, "new": 0} {
		found, err := s.Search(t.Context(), vectorstore.Query{Tenant: tenant, Vector: "text_vector", Near: []float32{1, 0}})
		if err != nil || len(found) != want {
			t.Errorf("in %s, found %+v, error %v", tenant, found, err)
		}
		n := 0
		for o, err := range vectorstore.All(t.Context(), s, tenant) {
			if n++; err != nil || o.Tenant != tenant {
				t.Errorf("all of %s: %+v, error %v", tenant, o, err)
			}
		}
		if n != want {
			t.Errorf("%d in %s, want %d", n, tenant, want)
		}
	}
	for _, clearing := range []error{
		s.Clear(t.Context(), "a"), s.Clear(t.Context(), "new"), s.ClearBefore(t.Context(), "new", "v"), s.ClearBefore(t.Context(), "b", "v2"),
		s.DropTenants(t.Context(), "c", "new"),
	} {
		if clearing != nil {
			t.Error(clearing)
		}
	}
	got, err = s.Get(t.Context(), []vectorstore.Ref{{ID: idOf(1), Tenant: "a"}, {ID: idOf(1), Tenant: "b"}, {ID: idOf(3), Tenant: "b"}, {ID: idOf(9), Tenant: "c"}})
	if err != nil || got[0] != nil || got[1] != nil || got[2] == nil || got[3] != nil {
		t.Errorf("got %+v, error %v", got, err)
	}
	if names, err := s.Tenants(t.Context()); err != nil || slices.Contains(names, "c") {
		t.Errorf("tenants are %v, error %v", names, err)
	}
}

// TestServerColdTenants: a tenant that is cold is woken by whatever concerns it.
func TestServerColdTenants(t *testing.T) {
	s := tenantStore(t)
	ref := vectorstore.Ref{ID: idOf(1), Tenant: "a"}
	apply(t, s, of("a", upserts(1, 2, 3, 4))...)
	apply(t, s, of("a", deletes(4))...)
	for name, do := range map[string]func() error{
		"write":  func() error { return s.Apply(t.Context(), of("a", upserts(1))) },
		"delete": func() error { return s.Apply(t.Context(), of("a", deletes(2))) },
		"get": func() error {
			got, err := s.Get(t.Context(), []vectorstore.Ref{ref})
			if err == nil && got[0] == nil {
				err = errors.New("it is not there")
			}
			return err
		},
		"search": func() error {
			found, err := s.Search(t.Context(), vectorstore.Query{Tenant: "a", After: vectorstore.First})
			if err == nil && len(found) == 0 {
				err = errors.New("nothing is found")
			}
			return err
		},
		"delete by filter": func() error {
			_, err := s.DeleteWhere(t.Context(), "a", vectorstore.IDs(idOf(3)))
			return err
		},
	} {
		for _, collection := range []string{s.collection, s.tombstones} {
			path := "/v1/schema/" + collection + "/tenants"
			if err := s.conn.rest(t.Context(), http.MethodPut, path, []tenant{{"a", "COLD"}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	n := 0
	for o, err := range vectorstore.All(t.Context(), s, "a") {
		if n++; o == nil || err != nil {
			t.Errorf("object %+v, error %v", o, err)
		}
	}
	if n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

func TestTenantsRefused(t *testing.T) {
	plain, tenants := faultyStore(t, &faultyServer{}, Options{}), faultyStore(t, &faultyServer{}, Options{})
	tenants.tenants = true
	for _, tt := range []struct {
		s      *Store
		tenant string
		want   string
	}{
		{plain, "a", "has no tenants"},
		{tenants, "", "is not a tenant"},
		{tenants, "a b", "is not a tenant"},
		{tenants, strings.Repeat("a", 65), "is not a tenant"},
	} {
		_, get := tt.s.Get(t.Context(), []vectorstore.Ref{{ID: idOf(1), Tenant: tt.tenant}})
		_, find := tt.s.Search(t.Context(), vectorstore.Query{Tenant: tt.tenant, After: vectorstore.First})
		_, where := tt.s.DeleteWhere(t.Context(), tt.tenant, vectorstore.IDs(idOf(1)))
		errs := []error{
			get, find, where, tt.s.Apply(t.Context(), of(tt.tenant, upserts(1))), tt.s.Clear(t.Context(), tt.tenant),
			tt.s.ClearBefore(t.Context(), tt.tenant, "v"), tt.s.DropTenants(t.Context(), tt.tenant),
		}
		for o, err := range vectorstore.All(t.Context(), tt.s, tt.tenant) {
			if o != nil {
				t.Errorf("object %+v", o)
			}
			errs = append(errs, err)
		}
		for i, err := range errs {
			if err == nil || !itemerror.IsPermanent(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("call %d with tenant %q: %v", i, tt.tenant, err)
			}
		}
	}
}

func TestServerTenantsDiffer(t *testing.T) {
	o := serverOptions(t)
	open(t, o)
	o.Tenants = true
	_, err := New(t.Context(), o)
	if !errors.Is(err, ErrCollection) || !strings.Contains(err.Error(), "multi-tenancy: enabled is false; want true") {
		t.Errorf("error is %v", err)
	}
}
