package pulsarx

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/oauth2"
	"github.com/apache/pulsar-client-go/pulsar/auth"
)

// Auth says who a client is; see ClientOptions.Auth. Formatting one shows its kind and never a secret.
type Auth struct {
	kind string
	make func() (auth.Provider, error)
}

// Format writes the kind, whatever the verb.
func (a Auth) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("pulsarx.Auth(" + a.kind + ")")) }

// TokenFunc authenticates with the token that f returns, such as a JSON Web Token. f is called for each connection, for each call of
// the admin interface, and when the broker asks again because a token expires; from several goroutines.
func TokenFunc(f func() (string, error)) Auth {
	return Auth{"token", func() (auth.Provider, error) {
		return auth.NewAuthenticationTokenFromSupplier(func() (string, error) {
			token, err := returning(f)
			if err == nil && token == "" {
				err = errors.New("pulsarx: the token is empty")
			}
			return token, err
		}), nil
	}}
}

// TokenFile authenticates with the token in a file, which is read whenever TokenFunc would call its function; white space around it
// does not count.
func TokenFile(path string) Auth {
	return TokenFunc(func() (string, error) {
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}).reading("TokenFile", path)
}

// reading refuses what is no path but the secret that should be in the file, JSON, PEM or a JSON Web Token, since paths stand in errors.
func (a Auth) reading(what string, paths ...string) Auth {
	for _, path := range paths {
		if strings.Contains(path, "{") || strings.Contains(path, "-----BEGIN") || strings.HasPrefix(path, "eyJ") {
			a.make = func() (auth.Provider, error) {
				return nil, fmt.Errorf("%s wants a path, and has what belongs in a file", what)
			}
		}
	}
	return a
}

// CertificateFunc authenticates with the TLS certificate that f returns for each connection: mutual TLS. The URL is pulsar+ssl://.
func CertificateFunc(f func() (*tls.Certificate, error)) Auth {
	return Auth{"tls", func() (auth.Provider, error) {
		return auth.NewAuthenticationFromTLSCertSupplier(func() (*tls.Certificate, error) { return returning(f) }), nil
	}}
}

// CertificateFiles authenticates with the TLS certificate and key in two PEM files, which are read for each connection.
func CertificateFiles(certificate, key string) Auth {
	return CertificateFunc(func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}).reading("CertificateFiles", certificate, key)
}

// OAuth2Options say where tokens come from by OAuth 2.0's client credentials flow.
type OAuth2Options struct {
	// Issuer is the URL below which .well-known/openid-configuration stands. KeyFile may hold it.
	Issuer string
	// KeyFile is the path of a JSON file with client_id, client_secret and, where Issuer is empty, issuer_url. It is read for each token.
	KeyFile string
	// TLSCertificateFile and TLSKeyFile, in PEM, are shown to the issuer. Without KeyFile they are who the client is (tls_client_auth, RFC
	// 8705), by the name ClientID, pulsar-client by default. They are read for each connection.
	TLSCertificateFile, TLSKeyFile, ClientID string
	// TLSTrustCertsFile has the authorities, in PEM, of which one signs the issuer's certificate; by default those of the system.
	TLSTrustCertsFile string
	// Audience of the tokens, often the broker's.
	Audience string
	// Scopes to ask for.
	Scopes []string
}

func (o OAuth2Options) validate() error {
	switch {
	case o.KeyFile == "" && o.TLSCertificateFile == "":
		return errors.New("OAuth2Options.KeyFile is missing, and so is TLSCertificateFile")
	case strings.Contains(o.Issuer, "@"): // a password would stand in errors
		return errors.New("OAuth2Options.Issuer: want https://host")
	}
	return nil
}

// OAuth2 authenticates with tokens from an issuer. NewClient asks for the first; each is kept until shortly before it expires. An issuer
// that has not answered for 15 s is an error.
func OAuth2(o OAuth2Options) Auth {
	return Auth{"oauth2", func() (auth.Provider, error) {
		if err := o.validate(); err != nil {
			return nil, err
		}
		method := oauth2.TokenEndpointAuthMethodClientSecretPost
		if o.KeyFile == "" {
			method = oauth2.TokenEndpointAuthMethodTLSClientAuth
		}
		return &renewed{open: func() (auth.Provider, error) {
			return auth.NewAuthenticationOAuth2WithParams(map[string]string{
				auth.ConfigParamType:                    auth.ConfigParamTypeClientCredentials,
				auth.ConfigParamTokenEndpointAuthMethod: method,
				auth.ConfigParamIssuerURL:               o.Issuer,
				auth.ConfigParamClientID:                o.ClientID,
				auth.ConfigParamAudience:                o.Audience,
				auth.ConfigParamKeyFile:                 o.KeyFile,
				auth.ConfigParamScope:                   strings.Join(o.Scopes, " "),
				auth.ConfigParamTLSCertFile:             o.TLSCertificateFile,
				auth.ConfigParamTLSKeyFile:              o.TLSKeyFile,
				auth.ConfigParamTrustCertsFilePath:      o.TLSTrustCertsFile,
			})
		}}, nil
	}}.reading("OAuth2", o.KeyFile, o.TLSCertificateFile, o.TLSKeyFile)
}

// Athenz authenticates with role tokens of Athenz. The parameters are pulsar-client-go's and Java's: providerDomain, tenantDomain,
// tenantService, privateKey (a path or a data: URI), keyId, ztsUrl, x509CertChain and so on. The files are read at the start, and again
// when ZTS refuses what they held before; tokens are kept until shortly before they expire.
func Athenz(parameters map[string]string) Auth {
	parameters = maps.Clone(parameters)
	return Auth{"athenz", func() (auth.Provider, error) {
		return &renewed{lazy: true, header: cmp.Or(parameters["roleHeader"], "Athenz-Role-Auth"), open: func() (auth.Provider, error) {
			return auth.NewAuthenticationAthenzWithParams(parameters)
		}}, nil
	}}.reading("Athenz", parameters["privateKey"], parameters["x509CertChain"])
}

// Basic authenticates with a name and a password; see TokenFunc for when f is called.
func Basic(f func() (name, password string, err error)) Auth {
	return Auth{"basic", func() (auth.Provider, error) {
		return &renewed{always: true, open: func() (auth.Provider, error) {
			name, password, err := f()
			if err != nil {
				return nil, err
			}
			return auth.NewAuthenticationBasic(name, password)
		}}, nil
	}}
}

// renewed is a provider that is opened anew when it cannot answer any more, or always: those of the client read their secrets once.
type renewed struct {
	open   func() (auth.Provider, error)
	always bool
	lazy   bool   // nothing is asked for before a connection needs it
	header string // of the admin interface that has the credentials, in place of Authorization

	transport http.RoundTripper // of the admin interface

	mu       sync.Mutex
	provider auth.Provider
	closed   bool
}

// current is the provider; fresh opens it anew.
func (r *renewed) current(fresh bool) (auth.Provider, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, ErrClosed
	case r.provider != nil && !fresh && !r.always:
		return r.provider, nil
	}
	p, err := returning(r.open) // of a function of the user's, or where http.DefaultTransport is none of net/http's
	if err == nil {
		err = p.Init()
	}
	if err != nil {
		return nil, err
	}
	if r.provider != nil {
		_ = r.provider.Close() // of one that has no use any more
	}
	r.provider = p
	return p, nil
}

// The methods of auth.Provider.

func (r *renewed) Init() error {
	_, err := r.current(false)
	if err == nil && !r.lazy {
		_, err = r.GetData()
	}
	return err
}

func (r *renewed) Name() string {
	if p, err := r.current(false); err == nil {
		return p.Name()
	}
	return "token"
}

func (r *renewed) GetTLSCertificate() (*tls.Certificate, error) { return nil, nil }

func (r *renewed) GetData() ([]byte, error) {
	p, err := r.current(false)
	if err != nil {
		return nil, err
	}
	data, err := ask(p)
	if err == nil {
		return data, nil
	}
	late := errors.Is(err, errNoAnswer)
	if p, err = r.current(true); err != nil {
		return nil, err
	}
	if late { // the next to ask need not wait for this one
		return nil, errNoAnswer
	}
	return ask(p)
}

const answerTime = 15 * time.Second

var errNoAnswer = fmt.Errorf("pulsarx: no credentials came in %v", answerTime)

// ask asks a provider for credentials. Those of the client wait for their issuer for ever.
func ask(p auth.Provider) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		data, err := p.GetData()
		answers <- answer{data, err}
	}()
	select {
	case a := <-answers:
		return a.data, a.err
	case <-time.After(answerTime):
		return nil, errNoAnswer
	}
}

// Close ends what the provider does in the background.
func (r *renewed) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.provider == nil {
		r.closed = true
		return nil
	}
	r.closed = true
	return r.provider.Close()
}

func (r *renewed) RoundTrip(q *http.Request) (*http.Response, error) {
	data, err := r.GetData()
	if err != nil {
		return nil, err
	}
	q = q.Clone(q.Context())
	switch {
	case r.header != "":
		q.Header.Set(r.header, string(data))
	case r.Name() == "basic":
		q.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(data))
	default:
		q.Header.Set("Authorization", "Bearer "+string(data))
	}
	return r.transport.RoundTrip(q)
}

func (r *renewed) Transport() http.RoundTripper { return r.transport }

func (r *renewed) WithTransport(t http.RoundTripper) error {
	r.transport = t
	return nil
}
