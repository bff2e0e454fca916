package pulsarx_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// roundTrip sends an Avro value and replays it, which looks its schema up: all three kinds of connections.
func roundTrip(t *testing.T, o pulsarx.ClientOptions, topic string) error {
	t.Helper()
	c, err := pulsarx.NewClient(o)
	if err != nil {
		return err
	}
	defer c.Close(timeout(t, 60*time.Second))
	p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.Avro[productV1](), pulsarx.ProducerOptions[productV1]{Topic: topic})
	if err != nil {
		return err
	}
	defer p.Close(timeout(t, 60*time.Second))
	if _, err := p.Send(t.Context(), productV1{"a", "b"}); err != nil {
		return err
	}
	return pulsarx.Replay(t.Context(), c, pulsarx.Avro[productNext](), pulsarx.ReplayOptions{Topics: []string{topic}},
		pulsarx.Values(func(context.Context, []productNext) error { return nil }))
}

// refused is the error of a roundTrip that cannot succeed. It tells the reason, unless a machine that stands still tells its own: that has
// more patience the next time.
func refused(t *testing.T, o pulsarx.ClientOptions, topic, reason string) error {
	t.Helper()
	var err error
	for o.Pulsar.OperationTimeout = 2 * time.Second; o.Pulsar.OperationTimeout < time.Minute; o.Pulsar.OperationTimeout *= 3 {
		if err = roundTrip(t, o, topic); err == nil || strings.Contains(err.Error(), reason) {
			return err
		}
	}
	t.Errorf("refused for another reason than %q: %v", reason, err)
	return err
}

// TestTLS: trust, names, and certificates of clients that change while the client runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	s, dir, topic := inProcess(t), t.TempDir(), topic(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	a, other := newAuthority(t), newAuthority(t)
	a.write(t, in("ca.pem"))
	other.write(t, in("other.pem"))
	a.issue(t, "broker", in("broker.pem"), in("broker.key"))
	pair, err := tls.LoadX509KeyPair(in("broker.pem"), in("broker.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusting := func(ca string) pulsar.ClientOptions {
		return pulsar.ClientOptions{TLSTrustCertsFilePath: in(ca), TLSValidateHostname: true}
	}
	plain := newGate(t, s.url, &tls.Config{Certificates: []tls.Certificate{pair}}, nil)
	if err := roundTrip(t, pulsarx.ClientOptions{URL: plain.url(), Pulsar: trusting("ca.pem")}, topic); err != nil {
		t.Errorf("TLS: %v", err)
	}
	if err := refused(t, pulsarx.ClientOptions{URL: plain.url(), Pulsar: trusting("other.pem")}, topic, "certificate"); err == nil {
		t.Errorf("a broker that is not trusted: %v", err)
	}
	var seen sync.Map
	mutual := newGate(t, s.url, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			seen.Store(state.PeerCertificates[0].Subject.CommonName, true)
			return nil
		},
	}, nil)
	if err := refused(t, pulsarx.ClientOptions{URL: mutual.url(), Pulsar: trusting("ca.pem")}, topic, ""); err == nil {
		t.Error("a client without a certificate is let in")
	}
	a.issue(t, "one", in("client.pem"), in("client.key"))
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{
		URL: mutual.url(), Pulsar: trusting("ca.pem"), Auth: pulsarx.CertificateFiles(in("client.pem"), in("client.key")),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	p := keyed(t, c, topic+"-mutual")
	send(t, p, "a:1")
	a.issue(t, "two", in("client.pem"), in("client.key"))
	mutual.disconnect()
	send(t, p, "a:2")
	for _, name := range []string{"one", "two"} {
		if _, ok := seen.Load(name); !ok {
			t.Errorf("no connection with the certificate of %s", name)
		}
	}
}

// TestTokenRotation: a token changes in its file; the next connection and the broker's next challenge get the new one.
func TestTokenRotation(t *testing.T) {
	t.Parallel()
	s, topic := inProcess(t), topic(t)
	file := filepath.Join(t.TempDir(), "token")
	rotate := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var valid atomic.Value
	valid.Store("first-secret")
	rotate("first-secret")
	g := newGate(t, s.url, nil, func(method, token string) bool { return method == "token" && token == valid.Load() })
	o := pulsarx.ClientOptions{URL: g.url(), Auth: pulsarx.TokenFile(file)}
	c, err := pulsarx.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	p := keyed(t, c, topic)
	send(t, p, "a:1")
	rotate("second-secret")
	valid.Store("second-secret")
	g.challenge()
	eventually(t, "an answer to the challenge", func() bool { return len(g.answers()) > 0 })
	for _, token := range g.answers() {
		if token != "second-secret" {
			t.Errorf("the answer is %q", token)
		}
	}
	g.disconnect()
	send(t, p, "a:2")
	if err := roundTrip(t, o, topic+"-avro"); err != nil {
		t.Error(err)
	}
	rotate("wrong-secret")
	if err := refused(t, o, topic+"-avro", ""); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong token: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, o, topic+"-avro", "no such file"); err == nil {
		t.Errorf("without the file: %v", err)
	}
	rotate("second-secret")
}

// TestOAuth2: an issuer's tokens, one after the other as they expire, and its secret changed in the file.
func TestOAuth2(t *testing.T) {
	s, topic := inProcess(t), topic(t)
	var secret atomic.Value
	secret.Store("one")
	var issued atomic.Int64
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			_ = json.NewEncoder(w).Encode(map[string]string{"token_endpoint": issuer.URL + "/token"})
			return
		}
		if r.FormValue("client_id") != "me" || r.FormValue("client_secret") != secret.Load() || r.FormValue("audience") != "broker" {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client"})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": fmt.Sprint("token-", issued.Add(1)), "expires_in": 1, "token_type": "Bearer",
		})
	}))
	defer issuer.Close()
	file := filepath.Join(t.TempDir(), "key.json")
	write := func(secret string) {
		text := fmt.Sprintf(`{"type":"client_credentials","client_id":"me","client_secret":%q,"issuer_url":%q}`, secret, issuer.URL)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	g := newGate(t, s.url, nil, func(method, token string) bool {
		return method == "token" && token == fmt.Sprint("token-", issued.Load())
	})
	auth := pulsarx.OAuth2(pulsarx.OAuth2Options{KeyFile: file, Audience: "broker"})
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: g.url(), Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	p := keyed(t, c, topic)
	send(t, p, "a:1")
	write("two")
	secret.Store("two")
	before := issued.Load()
	time.Sleep(1100 * time.Millisecond) // the token expires
	g.disconnect()
	send(t, p, "a:2")
	if issued.Load() == before {
		t.Error("no new token was asked for")
	}
	for _, o := range []pulsarx.OAuth2Options{{}, {KeyFile: file + "x"}} {
		if c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: g.url(), Auth: pulsarx.OAuth2(o)}); err == nil {
			_ = c.Close(t.Context())
			t.Errorf("%+v makes a client", o)
		}
	}
}

// TestOAuth2Certificate: an issuer that knows its clients by their certificates, which change in their files.
func TestOAuth2Certificate(t *testing.T) {
	s, dir := inProcess(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	a := newAuthority(t)
	a.write(t, in("ca.pem"))
	a.issue(t, "issuer", in("issuer.pem"), in("issuer.key"))
	pair, err := tls.LoadX509KeyPair(in("issuer.pem"), in("issuer.key"))
	if err != nil {
		t.Fatal(err)
	}
	var issuer *httptest.Server
	issuer = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close") // the next token shows the certificate anew
		answer := map[string]any{"token_endpoint": issuer.URL + "/token"}
		if r.URL.Path == "/token" {
			answer = map[string]any{"access_token": r.FormValue("client_id") + "-" + r.TLS.PeerCertificates[0].Subject.CommonName, "expires_in": 1}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	issuer.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	issuer.StartTLS()
	defer issuer.Close()
	var want atomic.Value
	g := newGate(t, s.url, nil, func(method, token string) bool { return method == "token" && token == want.Load() })
	change := func(name string) {
		a.issue(t, name, in("client.pem"), in("client.key"))
		want.Store("me-" + name)
	}
	change("one")
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: g.url(), Auth: pulsarx.OAuth2(pulsarx.OAuth2Options{
		Issuer: issuer.URL, TLSCertificateFile: in("client.pem"), TLSKeyFile: in("client.key"), TLSTrustCertsFile: in("ca.pem"), ClientID: "me",
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	p := keyed(t, c, topic(t))
	send(t, p, "a:1")
	change("two")
	g.disconnect()
	send(t, p, "a:2")
}

// zts is a token service of Athenz's that knows the public key of a tenant's service.
type zts struct {
	key    atomic.Pointer[ecdsa.PublicKey]
	issued atomic.Int64
}

// ServeHTTP issues role tokens of a second to who signs with the key.
func (z *zts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	signed, signature, _ := strings.Cut(r.Header.Get("Athenz-Principal-Auth"), ";s=")
	raw, _ := base64.StdEncoding.DecodeString(strings.NewReplacer(".", "+", "_", "/", "-", "=").Replace(signature))
	sum := sha256.Sum256([]byte(signed))
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/zts/v1/domain/provider/token" || !strings.Contains(signed, ";d=tenant;n=service;") || !ecdsa.VerifyASN1(z.key.Load(), sum[:], raw) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code":401,"message":"no"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": fmt.Sprint("role-", z.issued.Add(1)), "expiryTime": time.Now().Unix()})
}

// TestAthenz: role tokens from the token service, for brokers and the admin interface, and a private key that changes in its file.
func TestAthenz(t *testing.T) {
	for _, parameters := range []map[string]string{{"privateKey": "secret"}, {"providerDomain": "p", "ztsUrl": "http://x", "privateKey": "secret"}} {
		if c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: "pulsar://localhost", Auth: pulsarx.Athenz(parameters)}); err == nil {
			_ = c.Close(t.Context())
			t.Error("a client without a domain is made")
		} else if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	z, s, topic := &zts{}, inProcess(t), topic(t)
	service := httptest.NewServer(z)
	defer service.Close()
	file := filepath.Join(t.TempDir(), "key.pem")
	change := func() {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		z.key.Store(&key.PublicKey)
	}
	change()
	g := newGate(t, s.url, nil, func(method, token string) bool { return method == "athenz" && strings.HasPrefix(token, "role-") })
	var header atomic.Value
	admin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header.Store(r.Header.Get("Athenz-Role-Auth")) }))
	defer admin.Close()
	o := pulsarx.ClientOptions{URL: g.url(), AdminURL: admin.URL, Auth: pulsarx.Athenz(map[string]string{
		"providerDomain": "provider", "tenantDomain": "tenant", "tenantService": "service", "privateKey": "file://" + file, "ztsUrl": service.URL,
	})}
	if err := roundTrip(t, o, topic+"-avro"); err != nil {
		t.Error(err)
	}
	c, err := pulsarx.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	p := keyed(t, c, topic)
	send(t, p, "a:1")
	change()
	g.disconnect()
	send(t, p, "a:2")
	if err := c.Admin(t.Context(), http.MethodGet, "/clusters", nil, nil); err != nil || !strings.HasPrefix(header.Load().(string), "role-") {
		t.Errorf("the admin interface gets %q: %v", header.Load(), err)
	}
}

// TestAuthPanics: a panic of a function that should return a secret is an error.
func TestAuthPanics(t *testing.T) {
	for _, auth := range []pulsarx.Auth{
		pulsarx.TokenFunc(func() (string, error) { panic("no token today") }),
		pulsarx.CertificateFunc(func() (*tls.Certificate, error) { panic("no token today") }),
		pulsarx.Basic(func() (string, string, error) { panic("no token today") }),
	} {
		err := refused(t, pulsarx.ClientOptions{URL: "pulsar+ssl://127.0.0.1:1", Auth: auth}, "t", "panic: no token today")
		if err == nil {
			t.Errorf("%v: %v", auth, err)
		}
	}
}

func TestBasic(t *testing.T) {
	s, topic := inProcess(t), topic(t)
	g := newGate(t, s.url, nil, func(method, both string) bool { return method == "basic" && both == "me:secret" })
	o := pulsarx.ClientOptions{URL: g.url(), Auth: pulsarx.Basic(func() (string, string, error) { return "me", "secret", nil })}
	if err := roundTrip(t, o, topic); err != nil {
		t.Error(err)
	}
}

// TestNeverPrinted: no way of formatting shows a secret.
func TestNeverPrinted(t *testing.T) {
	type application struct {
		Pulsar  pulsarx.ClientOptions
		Pointer *pulsarx.ClientOptions
	}
	for _, o := range []pulsarx.ClientOptions{
		{URL: "pulsar://localhost", Token: "hidden"},
		{URL: "pulsar://me:hidden@localhost", AdminURL: "http://me:hidden@localhost"},
		{URL: "me:hidden@localhost:6650", AdminURL: "me:hidden@localhost/admin://"},
		{URL: "pulsar://localhost?token=hidden", AdminURL: "http://localhost#hidden"},
		{URL: "pulsar://localhost", AdminURL: "http://localhost?token=hidden"},
		{URL: "pulsar://localhost", Auth: pulsarx.TokenFile("eyJhidden")}, // what belongs in the file, in place of its path
		{URL: "pulsar://localhost", Auth: pulsarx.CertificateFiles("cert.pem", "-----BEGIN PRIVATE KEY-----\nhidden")},
		{URL: "pulsar://localhost", Auth: pulsarx.OAuth2(pulsarx.OAuth2Options{KeyFile: `{"client_secret":"hidden"}`})},
		{URL: "pulsar://localhost", Auth: pulsarx.OAuth2(pulsarx.OAuth2Options{KeyFile: "key.json", Issuer: "https://me:hidden@localhost"})},
		{URL: "pulsar://localhost", Auth: pulsarx.Athenz(map[string]string{"privateKey": "hidden"})},
		{URL: "pulsar://localhost", Pulsar: pulsar.ClientOptions{Authentication: pulsar.NewAuthenticationToken("hidden")}},
	} {
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&out, verb+verb+verb+verb+"\n", o, &o, application{o, &o}, o.Auth)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "options", o, "auth", o.Auth)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "options", o, "auth", o.Auth)
		c, err := pulsarx.NewClient(o)
		if o.Token == "" && o.Pulsar.Authentication == nil && err == nil {
			t.Errorf("%v makes a client", o)
		}
		if err == nil {
			_ = c.Close(t.Context())
		}
		fmt.Fprintln(&out, err)
		if strings.Contains(out.String(), "hidden") || strings.Contains(out.String(), fmt.Sprintf("%x", "hidden")) {
			t.Error(out.String())
		}
	}
}

// lines are what a logger has written, a line each.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestLog: the log says where a dead letter came from and why, and has no payload, key, property or error text, which may hold them.
func TestLog(t *testing.T) {
	s, topic, out := inProcess(t), topic(t), make(lines, 1000)
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Token: "hidden", Logger: slog.New(slog.NewJSONHandler(out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	if _, err := keyed(t, c, topic).Send(t.Context(), "hidden:1", pulsarx.Property("hidden", "hidden")); err != nil {
		t.Fatal(err)
	}
	r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "billing", DeadLetter: pulsarx.DeadLetterPolicy{MaxAttempts: 1},
	}, func(_ context.Context, batch []pulsarx.Message[string]) error { panic(batch[0].Value) })
	defer r.stop()
	for ended := timeout(t, 60*time.Second); ; {
		select {
		case line := <-out:
			if strings.Contains(line, "hidden") {
				t.Error(line)
			}
			if strings.Contains(line, "pulsarx: dead letter") {
				for _, part := range []string{topic, "billing", "attempts"} {
					if !strings.Contains(line, part) {
						t.Errorf("%s is not in %s", part, line)
					}
				}
				return
			}
		case <-ended.Done():
			t.Fatal("no dead letter is logged")
		}
	}
}

// TestClientNeverPrinted: nor does what holds a client print what the client authenticates with.
func TestClientNeverPrinted(t *testing.T) {
	s := inProcess(t)
	for name, o := range map[string]pulsarx.ClientOptions{
		"Token": {Token: "hidden"},
		"Auth":  {Auth: pulsarx.TokenFunc(func() (string, error) { return "hidden", nil })},
		"Basic": {Auth: pulsarx.Basic(func() (string, string, error) { return "me", "hidden", nil })},
	} {
		o.URL, o.AdminURL = s.url, s.admin
		c, err := pulsarx.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(timeout(t, 60*time.Second))
		p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic(t)})
		store, err := pulsarx.NewTopicStore(c, pulsarx.TopicStoreOptions{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		type application struct {
			client *pulsarx.Client
			Client *pulsarx.Client
		}
		for _, v := range []any{c, p, store, c.Schemas(), application{c, c}, &application{c, c}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
				if text := fmt.Sprintf(verb, v); strings.Contains(text, "hidden") || strings.Contains(text, fmt.Sprintf("%x", "hidden")) {
					t.Errorf("%s: %T as %s: %s", name, v, verb, text)
				}
			}
		}
	}
}

// TestProxy: where a proxy's look-ups say so, brokers are reached through it alone.
func TestProxy(t *testing.T) {
	s, topic := inProcess(t), topic(t)
	g := newGate(t, s.url, nil, nil)
	g.proxy = true
	if err := roundTrip(t, pulsarx.ClientOptions{URL: g.url()}, topic); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.behind) == 0 {
		t.Error("the proxy was asked for no broker")
	}
	for _, broker := range g.behind {
		if "pulsar://"+broker != s.url {
			t.Errorf("the proxy was asked for %s", broker)
		}
	}
}

// TestListenerName: a named listener reaches the broker with each look-up.
func TestListenerName(t *testing.T) {
	s, topic := inProcess(t), topic(t)
	g := newGate(t, s.url, nil, nil)
	if err := roundTrip(t, pulsarx.ClientOptions{URL: g.url(), Pulsar: pulsar.ClientOptions{ListenerName: "outside"}}, topic); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.listeners) == 0 {
		t.Error("no look-up")
	}
	for _, name := range g.listeners {
		if name != "outside" {
			t.Errorf("a look-up asks for the listener %q", name)
		}
	}
}
