// Package admin calls the admin HTTP interface of a Pulsar cluster, for pulsarx and its subpackages. They reach it through
// pulsarx.Client.Admin, which has the client's addresses, TLS and authentication.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/auth"
)

const (
	requestTimeout = 60 * time.Second // of one request, unless its context ends earlier
	maxAnswer      = 64 << 20
	maxReason      = 2000
)

// Options say where the interface is. URL is required: http:// or https://, several hosts separated by commas, of which the first
// that answers is taken.
type Options struct {
	URL string
	// TLS is the configuration for a host, asked for each connection, so that certificates may change. Nil is the default one.
	TLS func(host string) (*tls.Config, error)
	// Auth adds the credentials to each request; nil adds none.
	Auth auth.Provider
	// DialTimeout bounds the making of a connection; 5 s by default.
	DialTimeout time.Duration
}

// Client calls the admin interface. It is safe for concurrent use.
type Client struct {
	hosts []string
	auth  auth.Provider
	base  *http.Transport
	http  http.Client
}

// Error is an answer of the admin interface that is no success.
type Error struct {
	// Method and Path are the request's; Path is below /admin/v2.
	Method, Path string
	// Status is the HTTP status: 404 for what does not exist, 409 for what exists or conflicts, 412 for what is not valid here.
	Status int
	// Reason is the broker's own text.
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("pulsarx: admin %s %s: %d %s", e.Method, e.Path, e.Status, e.Reason)
}

// Status is the HTTP status of an Error in err's chain, 0 where there is none.
func Status(err error) int {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

// Path joins the parts to a path, each escaped. Pulsar takes a plus for a space.
func Path(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(url.PathEscape(part), "+", "%2B"))
	}
	return b.String()
}

// New returns a client. It connects with the first call.
func New(o Options) (*Client, error) {
	scheme, hosts, ok := strings.Cut(o.URL, "://")
	if !ok || scheme != "http" && scheme != "https" || hosts == "" {
		return nil, errors.New("pulsarx: the admin URL is not http://host:port")
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	dialer := &net.Dialer{Timeout: o.DialTimeout}
	c := &Client{auth: o.Auth}
	for host := range strings.SplitSeq(hosts, ",") {
		c.hosts = append(c.hosts, scheme+"://"+strings.TrimSuffix(host, "/"))
	}
	c.base = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: o.DialTimeout,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     15 * time.Second, // Pulsar closes them after 30
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if o.TLS != nil {
		c.base.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			config, err := o.TLS(host)
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		}
	}
	c.http = http.Client{Transport: c.base, Timeout: requestTimeout}
	if o.Auth != nil && o.Auth.Name() != "" && o.Auth.Name() != "tls" { // certificates come from TLS
		if err := o.Auth.WithTransport(c.base); err != nil {
			return nil, fmt.Errorf("pulsarx: authentication: %w", err)
		}
		c.http.Transport = o.Auth
	}
	return c, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.base.CloseIdleConnections() }

// Do sends in as JSON, or nothing where it is nil, to the path below /admin/v2, which may have a query, and reads the answer's JSON
// into out unless that is nil; an out of type *[]byte gets the answer as it is. Any status but 2xx is an *Error. A host that cannot
// be reached is passed over for the next.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("pulsarx: admin %s %s: %w", method, path, err)
		}
	}
	if c.auth != nil { // a transport of pulsar-client-go would send an empty token in its place
		if _, err := c.auth.GetData(); err != nil {
			return fmt.Errorf("pulsarx: admin %s %s: authentication: %w", method, path, err)
		}
	}
	var errs []error
	for _, host := range c.hosts {
		err := c.do(ctx, host, method, path, body, out)
		var unreachable *net.OpError
		if err == nil || ctx.Err() != nil || !errors.As(err, &unreachable) || unreachable.Op != "dial" {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Client) do(ctx context.Context, host, method, path string, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, host+"/admin/v2"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("pulsarx: admin %s %s: %w", method, path, err)
	}
	request.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.8")
	if method != http.MethodGet && method != http.MethodHead {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("pulsarx: admin at %s: %w", host, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("pulsarx: admin %s %s: %w", method, path, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("pulsarx: admin %s %s: the answer has more than %d bytes", method, path, maxAnswer)
	case response.StatusCode/100 != 2:
		return &Error{method, path, response.StatusCode, reason(response, answer)}
	}
	return read(answer, method, path, out)
}

func read(answer []byte, method, path string, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = answer
		return nil
	}
	if len(answer) == 0 { // 204: there is nothing to say
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("pulsarx: admin %s %s: the answer: %w", method, path, err)
	}
	return nil
}

// reason is the broker's text: {"reason": ...} from its own code, and whatever its web server says. A stack trace is left out.
func reason(r *http.Response, answer []byte) string {
	var said struct{ Reason, Message string }
	text := ""
	if json.Unmarshal(answer, &said) == nil {
		text = cmp.Or(said.Reason, said.Message)
	} else if !strings.Contains(r.Header.Get("Content-Type"), "html") {
		text = string(answer)
	}
	text, _, _ = strings.Cut(text, "\n\nStacktrace:")
	if _, message, ok := strings.Cut(text, "An unexpected error occurred in the server ---\n\nMessage: "); ok {
		text = message
	}
	text = cmp.Or(strings.TrimSpace(html.UnescapeString(text)), http.StatusText(r.StatusCode))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
