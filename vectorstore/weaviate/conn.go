package weaviate

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// conn holds the two ways to the server: gRPC for objects, plain REST for the schema. Weaviate's Go client is used
// for neither. Its batch drops property types without an error; a connection of it that is collected blocks Go's
// finalizer goroutine, and so every finalizer of the process, for ever; its start-up timeout can panic; its gRPC does
// not verify certificates; and it has no Close (https://github.com/weaviate/weaviate-go-client/issues/209). The
// schema needs four requests, which net/http does.
type conn struct {
	grpc     *grpc.ClientConn
	client   pb.WeaviateClient
	grpcAddr string

	http     *http.Client
	httpURL  string
	httpAddr string
	token    bearer // nil: none

	readTimeout time.Duration
	retries     int
	sendLimit   int // bytes of a message that the server takes
	closed      atomic.Bool
}

// maxIdle is how many REST connections are kept.
const maxIdle = 8

func newConn(o Options, rest, rpc endpoint) (*conn, error) {
	c := &conn{
		grpcAddr: rpc.address(), httpAddr: rest.address(), token: o.bearer(),
		readTimeout: o.ReadTimeout, retries: o.Retries, sendLimit: maxMessageBytes,
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS.Clone(), IdleConnTimeout: time.Minute,
			MaxIdleConnsPerHost: maxIdle,
			DialContext:         (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext, TLSHandshakeTimeout: o.ConnectTimeout,
		},
		// A redirect is an answer like any other that is not 2xx. Followed, it would turn a POST into a GET, and might
		// take the API key to a place that the options were not checked for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.httpURL = "http://" + rest.address() + rest.path
	if rest.secure {
		c.httpURL = "https://" + rest.address() + rest.path
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second,
			},
			MinConnectTimeout: o.ConnectTimeout,
		}),
		// Servers close connections that ping more often than every 5 minutes. The value of a keepalive is its second
		// effect: on Linux, TCP gives up a peer that has not acknowledged anything for Timeout.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5*time.Minute + 10*time.Second, Timeout: 15 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(1<<31-1)),
		grpc.WithUnaryInterceptor(traceContext),
	}
	if rpc.secure {
		config := o.TLS.Clone()
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		options[0] = grpc.WithTransportCredentials(credentials.NewTLS(config))
	}
	if c.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(c.token))
	}
	if o.Compress {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	}
	var err error
	if c.grpc, err = grpc.NewClient("dns:///"+rpc.address(), options...); err != nil {
		return nil, fmt.Errorf("weaviate: gRPC address %s: %w", rpc.address(), err)
	}
	c.client = pb.NewWeaviateClient(c.grpc)
	return c, nil
}

func (c *conn) close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.http.CloseIdleConnections()
	return c.grpc.Close()
}

// bearer adds a token to every request. The endpoints were checked for plaintext when the options were.
type bearer func(context.Context) (string, error)

func (o Options) bearer() bearer {
	switch {
	case o.Token != nil:
		return o.Token
	case o.APIKey != "":
		return func(context.Context) (string, error) { return o.APIKey, nil }
	}
	return nil
}

// header returns the value of the header authorization.
func (b bearer) header(ctx context.Context) (string, error) {
	token, err := b(ctx)
	if err == nil {
		err = validateToken(token)
	}
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return "Bearer " + token, nil
}

// GetRequestMetadata fails as unavailable where there is no token for now, so that it is asked for again.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	header, err := b.header(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{"authorization": header}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// traceContext sends the W3C trace context of ctx, unless the caller's own metadata has one.
func traceContext(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get("traceparent")) == 0 {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		for key, value := range carrier {
			ctx = metadata.AppendToOutgoingContext(ctx, key, value)
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *conn) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.readTimeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.readTimeout)
}

// unary is a method of the generated client.
type unary[Req, Reply any] func(context.Context, Req, ...grpc.CallOption) (Reply, error)

// call sends one request, and again while the server is unavailable. All requests are idempotent: what a lost reply
// left behind is written again with the same ids.
func call[Req, Reply any](ctx context.Context, c *conn, op string, rpc unary[Req, Reply], req Req) (Reply, error) {
	for attempt := 0; ; attempt++ {
		if c.closed.Load() {
			var none Reply
			return none, ErrClosed
		}
		once, cancel := c.withTimeout(ctx)
		reply, err := rpc(once, req)
		cancel()
		if err == nil {
			return reply, nil
		}
		again := status.Code(err) == codes.Unavailable && attempt < c.retries
		if !again || !sleep(ctx, jitter(50*time.Millisecond<<min(attempt, 6))) {
			if c.closed.Load() {
				return reply, ErrClosed
			}
			return reply, newCallError(ctx, op, c.grpcAddr, err)
		}
	}
}

// jitter returns d, up to half more or less.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// sleep reports whether d has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ready waits until both endpoints answer, at most for timeout.
func (c *conn) ready(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := await(ctx, func() error { return c.rest(ctx, http.MethodGet, "/v1/.well-known/ready", nil, nil) })
	if err != nil {
		return fmt.Errorf("weaviate: the REST endpoint %s is not ready within %v: %w", c.httpAddr, timeout, err)
	}
	health := grpc_health_v1.NewHealthClient(c.grpc)
	err = await(ctx, func() error {
		_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("weaviate: the gRPC endpoint %s is not ready within %v: %w", c.grpcAddr, timeout, err)
	}
	return nil
}

// await repeats f every 100 ms until it succeeds. When ctx ends first, it returns the last error that f had for its
// own reasons.
func await(ctx context.Context, f func() error) error {
	var last error
	for {
		err := f()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%w (%w)", last, ctx.Err())
		}
	}
}

// restError is an answer of the REST API other than 2xx.
type restError struct {
	method, path string
	code         int
	text         string
}

func (e *restError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.method, e.path, e.code, http.StatusText(e.code), e.text)
}

func restCode(err error) int {
	var answer *restError
	if errors.As(err, &answer) {
		return answer.code
	}
	return 0
}

// rest sends one REST request with the JSON of in, and decodes the answer into out. Either may be nil.
func (c *conn) rest(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.httpURL+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != nil {
		header, err := c.token.header(ctx)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		req.Header.Set("Authorization", header)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: the body was read, or the request has failed
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &restError{method: method, path: path, code: resp.StatusCode, text: restText(answer)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s: the answer is not Weaviate's: %w", method, path, err)
	}
	return nil
}

// restText returns the messages of an answer that says why a request failed.
func restText(answer []byte) string {
	var body struct {
		Error []struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &body); err != nil || len(body.Error) == 0 {
		text := string(answer[:min(len(answer), 1000)]) // often a page of a proxy
		return shorten(strings.Join(strings.Fields(text), " "))
	}
	text := body.Error[0].Message
	for _, e := range body.Error[1:] {
		text += "; " + e.Message
	}
	return shorten(text)
}
