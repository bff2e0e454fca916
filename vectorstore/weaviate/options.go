package weaviate

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
)

// Options say where Weaviate is and what the collection must be. HTTP and Collection are required.
type Options struct {
	// HTTP is the REST endpoint, used for the schema, for tenants and for reading from replicas: "host:port" (plaintext, or TLS
	// when the field TLS is set) or a URL, http:// or https://. A host alone means port 8080.
	HTTP string
	// GRPC is the endpoint of everything else: "host:port" or a URL, http:// or grpc:// (plaintext), https:// or
	// grpcs:// (TLS). Default: the host of HTTP, port 50051, with TLS if HTTP has it.
	GRPC string
	// TLS configures both connections. Nil: the system's certificate authorities. Certificates are always verified,
	// unless the configuration itself says otherwise.
	TLS *tls.Config
	// APIKey is sent to both endpoints as a bearer token; white space around it is dropped. Empty: none.
	APIKey string
	// Token returns the bearer token of a request, instead of APIKey: such as one of OIDC, from a source that renews it
	// (with golang.org/x/oauth2, the AccessToken of a TokenSource). It is called for every request, concurrently, so that
	// it must keep what is still valid; its error fails the request. It goes where APIKey goes.
	Token func(ctx context.Context) (string, error)
	// PlaintextKey allows sending APIKey or Token over a plaintext connection to another machine, which New refuses otherwise.
	PlaintextKey bool

	// Collection is the collection's name. Its first letter is made upper case, as Weaviate does ("product" is
	// "Product"). Letters A to Z, digits and _, at most 245.
	Collection string
	// Vectors are the named vectors that the collection must have. Default: text_vector and image_vector.
	Vectors []Vector
	// Properties are the properties that the collection must have. Those that an object brings beside them are added
	// to the collection with the type of their first value (see the package documentation), unless FixedProperties.
	Properties []Property
	// FixedProperties makes a property that the collection lacks an error of the object that brings it.
	FixedProperties bool
	// NullIndex makes a collection with the index that [vectorstore.IsNull] needs, which costs a write about a tenth more in a flat index.
	// Weaviate cannot add it to a collection that was made without.
	NullIndex bool
	// Tenants makes a collection whose objects are in tenants: every Ref and Query names one, which is created when it is
	// first written, and woken when it is cold. Tenants cannot be added to a collection that was made without.
	Tenants bool
	// Replication is how many copies the collection has, and how they settle conflicts.
	Replication Replication
	// OpenOnly makes New create and change nothing: what is missing is a difference, and so an error ([ErrCollection]).
	// It suits programs that only search, where a name with a typo would otherwise become a collection. Collection may then be an
	// alias; see [Store.PointAlias].
	OpenOnly bool

	// ConnectTimeout bounds the wait for both endpoints in New, and every attempt to connect later. Default 5 s.
	ConnectTimeout time.Duration
	// ReadTimeout bounds every single request, within the bounds of the context given to a call. Default 15 s; -1: the
	// context alone.
	ReadTimeout time.Duration
	// Retries is how often a request is repeated within a call when the server is unavailable (gRPC code
	// UNAVAILABLE), after 50 ms, 100 ms, 200 ms ..., each up to half more or less. Default 3; -1: none. Every request
	// may be repeated harmlessly.
	Retries int
	// MaxBatch is the largest number of objects in one write request. Default 200: with 500, imports were 7 % faster in
	// flat indexes, and single writes beside them may wait longer. A server that takes over a second for so many gets
	// smaller requests, of 10 objects at least, and none gets more than 100 before it is known how long one takes. A
	// backfill's requests are cut to 40 milliseconds of the server's time.
	MaxBatch int
	// MaxInFlight is the largest number of write requests that are under way, of all calls together. Default 4. A server
	// that is unavailable, out of a resource, or out of time gets half as many each time, and one more after each round
	// of successes.
	MaxInFlight int
	// Compress sends gRPC messages with gzip: worth it on slow networks alone, since vectors hardly get smaller.
	Compress bool
	// WriteConsistency and ReadConsistency say how many replicas must have answered. Default: the server's (QUORUM). Reading at
	// ONE costs less, and may miss what a quorum has written.
	WriteConsistency, ReadConsistency Consistency
	// MaxBatchBytes is the size of a write request above which it is split. An object that is larger by itself is
	// sent alone, if the server takes it. Default 4 MiB.
	MaxBatchBytes int
}

// Consistency is how many replicas of a shard must answer.
type Consistency string

// The levels: one replica, more than half of them, and all.
const (
	One    Consistency = "ONE"
	Quorum Consistency = "QUORUM"
	All    Consistency = "ALL"
)

// message returns the level as it is sent, nil for the server's default.
func (c Consistency) message() *pb.ConsistencyLevel {
	switch c {
	case One:
		return pb.ConsistencyLevel_CONSISTENCY_LEVEL_ONE.Enum()
	case Quorum:
		return pb.ConsistencyLevel_CONSISTENCY_LEVEL_QUORUM.Enum()
	case All:
		return pb.ConsistencyLevel_CONSISTENCY_LEVEL_ALL.Enum()
	}
	return nil
}

func (c Consistency) validate() error {
	if c != "" && c.message() == nil {
		return fmt.Errorf("%.64q is none of ONE, QUORUM and ALL", string(c))
	}
	return nil
}

const (
	defaultHTTPPort = "8080"
	defaultGRPCPort = "50051"

	// maxMessageBytes is the largest message of Weaviate's default configuration (GRPC_MAX_MESSAGE_SIZE).
	maxMessageBytes = 104858000
)

// canonicalName is a collection's name as Weaviate spells it.
func canonicalName(name string) string {
	if name != "" && name[0] >= 'a' && name[0] <= 'z' {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

func (o Options) withDefaults() Options {
	o.APIKey = strings.TrimSpace(o.APIKey)
	o.Collection = canonicalName(o.Collection)
	if len(o.Vectors) == 0 {
		o.Vectors = []Vector{{Name: "text_vector"}, {Name: "image_vector"}}
	}
	o.Vectors = slices.Clone(o.Vectors)
	for i := range o.Vectors {
		o.Vectors[i].Index = cmp.Or(o.Vectors[i].Index, HNSW)
		o.Vectors[i].Distance = cmp.Or(o.Vectors[i].Distance, Cosine)
	}
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 15*time.Second)
	o.Retries = cmp.Or(o.Retries, 3)
	o.MaxBatch = cmp.Or(o.MaxBatch, 200)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 4<<20)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 4)
	return o
}

var (
	// classPattern leaves room for the suffix of the collection of deletions in Weaviate's 255 letters.
	classPattern    = regexp.MustCompile(`^[A-Z][_0-9A-Za-z]{0,244}$`)
	namePattern     = regexp.MustCompile(`^[_A-Za-z][_0-9A-Za-z]{0,229}$`)
	reservedNames   = []string{"id", "_id", "_additional", versionProperty, inputsProperty}
	reservedSuffix  = []string{"_searchable", "_rangeable", "_temp", "_propertyLength", "_nullState", "__meta_count"}
	scalarDataTypes = []DataType{Text, Int, Number, Boolean, Date, UUID, Blob, Object, Geo, Phone}
)

// endpoint is where a server listens.
type endpoint struct {
	host, port, path string
	secure           bool
}

func (e endpoint) address() string { return net.JoinHostPort(e.host, e.port) }

func (e endpoint) loopback() bool {
	addr, err := netip.ParseAddr(e.host)
	return err == nil && addr.IsLoopback() || e.host == "localhost"
}

// endpoints validates o, which has its defaults, and returns the two endpoints. The error joins all faults.
func (o Options) endpoints() (http, grpc endpoint, err error) {
	var errs []error
	fault := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("weaviate: option %s: %w", field, err))
		}
	}
	http, err = parseEndpoint(o.HTTP, defaultHTTPPort, o.TLS != nil)
	fault("HTTP", err)
	if o.GRPC == "" {
		grpc = endpoint{host: http.host, port: defaultGRPCPort, secure: http.secure}
	} else {
		grpc, err = parseEndpoint(o.GRPC, defaultGRPCPort, o.TLS != nil)
		fault("GRPC", err)
		if grpc.path != "" {
			fault("GRPC", errors.New("a path has no meaning here"))
		}
	}
	for _, e := range []endpoint{http, grpc} {
		if (o.APIKey != "" || o.Token != nil) && e.host != "" && !e.secure && !e.loopback() && !o.PlaintextKey {
			fault("APIKey", fmt.Errorf("would go to %s in plaintext: use https, or set PlaintextKey", e.address()))
		}
	}
	if o.APIKey != "" && o.Token != nil {
		fault("Token", errors.New("stands instead of APIKey, not beside it"))
	}
	fault("APIKey", validateToken(o.APIKey))
	if !classPattern.MatchString(o.Collection) {
		fault("Collection", fmt.Errorf("%.64q is not a name: a letter A to Z, then letters, digits and _, at most 245 in all", o.Collection))
	}
	fault("Vectors", o.validateVectors())
	fault("Properties", validateProperties(o.Properties, true))
	fault("Replication", o.Replication.validate())
	fault("ConnectTimeout", atLeast(o.ConnectTimeout, 1))
	fault("ReadTimeout", atLeast(o.ReadTimeout, -1))
	fault("Retries", atLeast(o.Retries, -1))
	fault("MaxBatch", atLeast(o.MaxBatch, 1))
	fault("MaxBatchBytes", atLeast(o.MaxBatchBytes, 1))
	fault("MaxInFlight", atLeast(o.MaxInFlight, 1))
	fault("WriteConsistency", o.WriteConsistency.validate())
	fault("ReadConsistency", o.ReadConsistency.validate())
	return http, grpc, errors.Join(errs...)
}

// validateToken must not quote the token.
func validateToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("has characters that a header cannot carry")
	}
	return nil
}

func atLeast[T int | time.Duration](value, least T) error {
	if value < least {
		return fmt.Errorf("is %v, must be at least %v", value, least)
	}
	return nil
}

// validateName checks the name of a property. Weaviate lowers the first letter of top-level names without a word, so
// that a value would come back under another name; such names are refused.
func validateName(name string, top bool) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%.64q is not a name of a property: a letter or _, then letters, digits and _", name)
	}
	if !top {
		return nil
	}
	if first := name[0]; first >= 'A' && first <= 'Z' {
		return fmt.Errorf("%q: Weaviate would store it as %q; give it that name", name, strings.ToLower(name[:1])+name[1:])
	}
	if slices.Contains(reservedNames, name) {
		return fmt.Errorf("%q is a reserved name; give the property another", name)
	}
	for _, suffix := range reservedSuffix {
		if strings.HasSuffix(name, suffix) {
			return fmt.Errorf("%q ends in %q, which Weaviate reserves; give the property another name", name, suffix)
		}
	}
	return nil
}

// parseEndpoint reads "host", "host:port" or a URL.
func parseEndpoint(s, defaultPort string, secure bool) (endpoint, error) {
	if s == "" {
		return endpoint{}, errors.New("is required")
	}
	if !strings.Contains(s, "://") {
		s = "none://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The text is not in the error: it may have a password.
		return endpoint{}, errors.New("is not host:port, nor a URL of scheme, host and port alone")
	}
	e := endpoint{host: u.Hostname(), port: u.Port(), path: strings.TrimRight(u.Path, "/"), secure: secure}
	switch u.Scheme {
	case "none":
		e.port = cmp.Or(e.port, defaultPort)
	case "http":
		e.secure, e.port = false, cmp.Or(e.port, "80")
	case "https":
		e.secure, e.port = true, cmp.Or(e.port, "443")
	case "grpc":
		e.secure, e.port = false, cmp.Or(e.port, defaultPort)
	case "grpcs":
		e.secure, e.port = true, cmp.Or(e.port, defaultPort)
	default:
		return endpoint{}, fmt.Errorf("has the unknown scheme %.16q", u.Scheme)
	}
	return e, nil
}
