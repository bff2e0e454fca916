package pulsarx

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// AdminError is an answer of the admin interface that is no success: the request's Method and Path, the HTTP Status, and the
// broker's Reason. Find it with errors.As.
type AdminError = admin.Error

// adminInterface is made with the first call, since most clients need none.
type adminInterface struct {
	once   sync.Once
	client *admin.Client
	err    error
}

// Admin calls the admin interface at ClientOptions.AdminURL, with the client's TLS and authentication, for what this package and
// topology have no function for. The path stands below /admin/v2 and may have a query. in is sent as JSON, or nothing where it is
// nil; the answer's JSON is read into out unless that is nil, and as it is where out is a *[]byte. An answer that is no success is
// an *AdminError. A call without a deadline of its own ends after 60 s.
func (c *Client) Admin(ctx context.Context, method, path string, in, out any) error {
	if c.isClosed() {
		return fmt.Errorf("pulsarx: admin %s %s: %w", method, path, ErrClosed)
	}
	c.admin.once.Do(func() { c.admin.client, c.admin.err = newAdmin(c.options) })
	if c.admin.err != nil {
		return c.admin.err
	}
	return c.admin.client.Do(ctx, method, path, in, out)
}

func newAdmin(o ClientOptions) (*admin.Client, error) {
	if o.AdminURL == "" {
		return nil, fmt.Errorf("pulsarx: ClientOptions.AdminURL is missing")
	}
	provider, _ := o.Pulsar.Authentication.(auth.Provider)
	return admin.New(admin.Options{
		URL: o.AdminURL, TLS: registry{o}.tls, Auth: provider, DialTimeout: o.Pulsar.ConnectionTimeout,
	})
}

// close closes the idle connections.
func (a *adminInterface) close() {
	a.once.Do(func() { a.err = ErrClosed })
	if a.client != nil {
		a.client.Close()
	}
}
