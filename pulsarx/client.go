package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/auth"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

// ClientOptions say where Pulsar is. Only URL is required.
type ClientOptions struct {
	// URL is the broker's or proxy's: pulsar://host:6650, or pulsar+ssl://; several hosts are separated by commas.
	URL string
	// AdminURL is where the admin HTTP interface answers: http://host:8080. Producers, consumers and replays do without.
	AdminURL string
	// Auth says who the client is: TokenFile, TokenFunc, CertificateFiles, OAuth2, Athenz and so on. It excludes Token and
	// Pulsar.Authentication.
	Auth Auth
	// Token is a JSON Web Token to authenticate with, for one that never changes. Formatting the options does not show it; where they are
	// an unexported field of another value, which fmt then reads by itself, use Auth, which cannot be shown at all.
	Token string `json:"-" yaml:"-"`
	// Encryption has the keys that producers with EncryptionKeys encrypt with, and that consumers and replays decrypt with.
	Encryption Encryption
	// Logger gets what happens in the background: dead letters, and the warnings of pulsar-client-go, never payloads, properties or
	// credentials. By default they are dropped, since whatever concerns a caller is returned as an error too.
	Logger *slog.Logger
	// Pulsar are the options of pulsar-client-go, for TLS, other authentication, time limits and memory. Its URL and Logger are
	// set from the fields above. Two limits have other defaults than there: ConnectionTimeout is 5 s, and OperationTimeout, after
	// which an unreachable server is an error, 15 s.
	Pulsar pulsar.ClientOptions
}

func (o ClientOptions) withDefaults() ClientOptions {
	o.Pulsar.URL = o.URL
	if o.Pulsar.ConnectionTimeout == 0 {
		o.Pulsar.ConnectionTimeout = 5 * time.Second
	}
	if o.Pulsar.OperationTimeout == 0 {
		o.Pulsar.OperationTimeout = 15 * time.Second
	}
	if o.Token != "" && o.Pulsar.Authentication == nil {
		o.Pulsar.Authentication = pulsar.NewAuthenticationToken(o.Token)
	}
	o.Pulsar.Logger = log.DefaultNopLogger()
	if o.Logger != nil {
		o.Pulsar.Logger = quietLogger{o.Logger}
	}
	return o
}

func (o ClientOptions) validate() error {
	var errs []error
	if err := checkURL(o.URL, "pulsar", "pulsar+ssl"); err != nil {
		errs = append(errs, fmt.Errorf("ClientOptions.URL: %w", err))
	}
	if o.AdminURL != "" {
		if err := checkURL(o.AdminURL, "http", "https"); err != nil {
			errs = append(errs, fmt.Errorf("ClientOptions.AdminURL: %w", err))
		}
	}
	if ways := truths(o.Token != "", o.Auth.make != nil, o.Pulsar.Authentication != nil); ways > 1 {
		errs = append(errs, errors.New("ClientOptions.Auth, Token and Pulsar.Authentication exclude each other"))
	}
	if o.Pulsar.URL != "" && o.Pulsar.URL != o.URL {
		errs = append(errs, errors.New("ClientOptions.Pulsar.URL: set ClientOptions.URL instead"))
	}
	return errors.Join(errs...)
}

func truths(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

// Format writes where the client connects to and how it authenticates, and never a secret, whatever the verb.
func (o ClientOptions) Format(f fmt.State, _ rune) {
	how := "none"
	switch {
	case o.Auth.make != nil:
		how = o.Auth.kind
	case o.Token != "":
		how = "token"
	case o.Pulsar.Authentication != nil:
		how = "Pulsar.Authentication"
	}
	_, _ = fmt.Fprintf(f, "pulsarx.ClientOptions(URL %s, AdminURL %s, authentication %s)", shown(o.URL), shown(o.AdminURL), how)
}

// LogValue is Format's text, for slog.
func (o ClientOptions) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(o)) }

// shown is a URL as it may be shown: what stands before an @ may be a password, and what stands in a query or fragment a token.
func shown(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		scheme, _, ok := strings.Cut(text[:at], "://")
		if text = "***" + text[at:]; ok {
			text = scheme + "://" + text
		}
	}
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		text = text[:i+1] + "***"
	}
	return text
}

// checkURL accepts scheme://host:port[,host:port...], of HTTP with a path too. The error does not repeat the URL, which may hold a
// password or token.
func checkURL(text string, schemes ...string) error {
	if text == "" {
		return errors.New("missing")
	}
	scheme, rest, ok := strings.Cut(text, "://")
	known := false
	for _, s := range schemes {
		known = known || s == scheme
	}
	if !ok || !known {
		return fmt.Errorf("want %s://host:port", schemes[0])
	}
	for host := range strings.SplitSeq(rest, ",") {
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || u.Hostname() == "" || strings.ContainsAny(host, "@?#") || schemes[0] == "pulsar" && strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("want %s://host:port", schemes[0])
		}
	}
	return nil
}

// Client holds the connections that producers, consumers and replays share. It is safe for concurrent use.
type Client struct {
	options ClientOptions
	pulsar  pulsar.Client
	schemas *schemaLookup
	tel     *telemetry
	admin   adminInterface

	mu     sync.Mutex
	closed bool // no new producers or consumers
	// asking are requests for the ends of topics. The client's own never return when it is closed under them.
	asking sync.WaitGroup
}

// NewClient checks the options and returns a client. It connects when the first producer, consumer or replay needs it: an
// unreachable server is their error, which names the URL, when their context ends or after Pulsar.OperationTimeout (twice that
// where the server accepts connections and says nothing).
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	if o.Auth.make != nil {
		provider, err := o.Auth.make()
		if err != nil {
			return nil, fmt.Errorf("pulsarx: ClientOptions.Auth: %w", err)
		}
		o.Pulsar.Authentication = provider
	}
	o = o.withDefaults()
	tel, err := newTelemetry(o.URL)
	if err != nil {
		return nil, fmt.Errorf("pulsarx: %w", err)
	}
	client, err := pulsar.NewClient(o.Pulsar)
	if err != nil {
		o.closeAuth()
		return nil, clientError("client", o.URL, err)
	}
	o.Token = "" // the provider has it, behind a function: whatever holds a client may be printed
	return &Client{options: o, pulsar: client, schemas: newSchemaLookup(o), tel: tel}, nil
}

// Format writes where the client connects to and never a secret, whatever the verb.
func (c *Client) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "pulsarx.Client(URL %s, AdminURL %s)", shown(c.options.URL), shown(c.options.AdminURL))
}

// Close closes the connections, after the producers, consumers and replays that still use them; close those first, so that
// nothing is cut off. It returns when that is done or ctx ends.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.schemas.close()
	c.admin.close()
	return bounded(ctx, "closing the client", func() {
		c.asking.Wait()
		c.pulsar.Close()
		c.options.closeAuth()
	})
}

// closeAuth ends what Auth does in the background, which pulsar-client-go does not.
func (o ClientOptions) closeAuth() {
	if provider, ok := o.Pulsar.Authentication.(auth.Provider); ok && o.Auth.make != nil {
		_ = provider.Close()
	}
}

// ask calls f unless the client is closed, which waits for it then.
func (c *Client) ask(f func() (MessageID, error)) (MessageID, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.asking.Add(1)
	c.mu.Unlock()
	defer c.asking.Done()
	return f()
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// steady is context.WithTimeout, but for the time in which the whole process stands still: that costs a tenth of d at most.
func steady(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	const parts = 10
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for range parts {
			if sleep(ctx, d/parts) != nil {
				return
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(nil) }
}

// bounded runs f, which takes no context and may hang, until it returns or ctx ends.
func bounded(ctx context.Context, what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pulsarx: %s: %w", what, context.Cause(ctx))
	}
}

// open calls create, which takes no context and may take the client's OperationTimeout. When ctx ends first, what create still
// returns is discarded.
func open[T any](ctx context.Context, c *Client, what string, create func() (T, error), discard func(T)) (opened T, err error) {
	if c.isClosed() {
		return opened, fmt.Errorf("pulsarx: %s: %w", what, ErrClosed)
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result)
	go func() {
		value, err := create()
		select {
		case results <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				discard(value)
			}
		}
	}()
	select {
	case r := <-results:
		if errors.Is(r.err, context.DeadlineExceeded) { // the client's own
			r.err = c.unanswered(ctx, r.err)
		}
		if r.err != nil {
			return opened, clientError(what, c.options.URL, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return opened, clientError(what, c.options.URL, context.Cause(ctx))
	}
}

// again tries f until it succeeds, it fails for good, the client's OperationTimeout has passed, or the context ends: a topic that moves to
// another broker, or a broker that starts, refuses for a while.
func again[T any](ctx context.Context, c *Client, f func() (T, error)) (v T, err error) {
	for deadline := time.Now().Add(c.options.Pulsar.OperationTimeout); ; {
		v, err = f()
		if err == nil || isFinal(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return v, err
		}
		if failed := sleep(ctx, 100*time.Millisecond); failed != nil {
			return v, joined([]error{err, failed})
		}
	}
}

// thrice asks again where no answer has come: what is on its way while a broker closes its topic may get none, and Pulsar 4.0.8 with
// transactions at times gives none for the 30 s in which it waits for what it knows of them, and then opens the topic anew.
func thrice[T any](ask func() (T, error)) (v T, err error) {
	for range 3 {
		if v, err = ask(); err == nil || !strings.Contains(err.Error(), "request timed out") {
			break
		}
	}
	return v, err
}

// isFinal tells whether another attempt would end as this one has.
func isFinal(err error) bool {
	for _, final := range []error{ErrClosed, ErrIncompatibleSchema, strconv.ErrSyntax, strconv.ErrRange} { // of names that are none
		if errors.Is(err, final) {
			return true
		}
	}
	text := err.Error() // where the client says what the broker's answer was
	return slices.ContainsFunc([]string{
		"AuthenticationError", "AuthorizationError", "TopicNotFound", "SubscriptionNotFound", "InvalidTopicName", "Invalid topic",
		"Invalid short topic", "TopicTerminatedError", "NotAllowedError", "UnsupportedVersionError", "ConsumerBusy", "ProducerBusy",
		"ConsumerAssignError",
	}, func(answer string) bool { return strings.Contains(text, answer) })
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// unanswered says why the client got no answer, which it tells its log alone.
func (c *Client) unanswered(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	scheme, hosts, _ := strings.Cut(c.options.URL, "://")
	errs := []error{err}
	for host := range strings.SplitSeq(hosts, ",") {
		conn, failed := (registry{c.options}).dial(ctx, scheme, host)
		if failed != nil {
			errs = append(errs, failed)
			continue
		}
		_ = conn.Close()
		errs = append(errs, fmt.Errorf("%s accepts connections and does not answer", host))
	}
	return joined(errs)
}

// joined is errors.Join on one line.
func joined(errs []error) error {
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return err
}

// quietLogger passes on pulsar-client-go's warnings and errors, with the fields that say where, and nothing that could hold a
// payload or a secret.
type quietLogger struct{ out *slog.Logger }

var quietFields = map[string]bool{
	"topic": true, "subscription": true, "consumerID": true, "producerID": true, "producer_name": true, "name": true, "error": true,
	"remote_addr": true, "local_addr": true, "serviceURL": true, "size": true, "cnx": true,
}

func (l quietLogger) with(name string, value any) quietLogger {
	if !quietFields[name] {
		return l
	}
	return quietLogger{l.out.With(name, fmt.Sprint(value))}
}

func (l quietLogger) withAll(fields log.Fields) quietLogger {
	for name, value := range fields {
		l = l.with(name, value)
	}
	return l
}

// The methods of log.Logger and log.Entry.

func (l quietLogger) SubLogger(fields log.Fields) log.Logger     { return l.withAll(fields) }
func (l quietLogger) WithFields(fields log.Fields) log.Entry     { return l.withAll(fields) }
func (l quietLogger) WithField(name string, value any) log.Entry { return l.with(name, value) }
func (l quietLogger) WithError(err error) log.Entry              { return l.with("error", err) }
func (l quietLogger) Debug(...any)                               {}
func (l quietLogger) Info(...any)                                {}
func (l quietLogger) Debugf(string, ...any)                      {}
func (l quietLogger) Infof(string, ...any)                       {}
func (l quietLogger) Warn(args ...any)                           { l.out.Warn("pulsar: " + fmt.Sprint(args...)) }

func (l quietLogger) Error(args ...any) { l.out.Error("pulsar: " + fmt.Sprint(args...)) }

func (l quietLogger) Warnf(format string, args ...any) {
	if !strings.HasPrefix(format, "consuming encrypted message") { // Client.undecrypted says more
		l.Warn(fmt.Sprintf(format, args...))
	}
}

func (l quietLogger) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }
