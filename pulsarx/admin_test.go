package pulsarx_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestAdmin: the admin interface is reached with the client's own credentials, and says what it refuses.
func TestAdmin(t *testing.T) {
	broker, err := pulsartest.NewBroker(pulsartest.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	connect := func(o pulsarx.ClientOptions) *pulsarx.Client {
		t.Helper()
		o.URL = broker.URL()
		c, err := pulsarx.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	var tenants []string
	for _, o := range []pulsarx.ClientOptions{
		{Token: "secret"}, {Auth: pulsarx.TokenFunc(func() (string, error) { return "secret", nil })},
	} {
		o.AdminURL = broker.AdminURL()
		c := connect(o)
		if err := c.Admin(t.Context(), http.MethodGet, "/tenants", nil, &tenants); err != nil || len(tenants) == 0 {
			t.Errorf("%v %v", tenants, err)
		}
		var refused *pulsarx.AdminError
		err := c.Admin(t.Context(), http.MethodGet, "/tenants/nobody", nil, nil)
		if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || refused.Reason == "" {
			t.Errorf("a tenant that is not there: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Admin(t.Context(), http.MethodGet, "/tenants", nil, nil); !errors.Is(err, pulsarx.ErrClosed) {
			t.Errorf("a closed client: %v", err)
		}
	}
	var refused *pulsarx.AdminError
	err = connect(pulsarx.ClientOptions{AdminURL: broker.AdminURL(), Token: "wrong"}).Admin(t.Context(), http.MethodGet, "/tenants", nil, nil)
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || strings.Contains(err.Error(), "wrong") {
		t.Errorf("another token: %v", err)
	}
	if _, err := connect(pulsarx.ClientOptions{Token: "secret"}).Schemas().List(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "AdminURL") {
		t.Errorf("no address: %v", err)
	}
}
