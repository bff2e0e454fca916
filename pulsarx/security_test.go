package pulsarx_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
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
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// gate stands before a broker, passes frames on, and asks clients who they are.
type gate struct {
	listener net.Listener
	scheme   string
	broker   string
	allow    func(method, credentials string) bool // nil: everybody
	upstream atomic.Int64                          // bytes from clients
	running  sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]*sync.Mutex // clients, and what a frame to each is written under
	listeners []string                 // names that look-ups asked for
	responses []string                 // to challenges
}

func newGate(tb testing.TB, brokerURL string, config *tls.Config, allow func(method, credentials string) bool) *gate {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := &gate{
		listener: listener, scheme: "pulsar", broker: strings.TrimPrefix(brokerURL, "pulsar://"), allow: allow,
		conns: map[net.Conn]*sync.Mutex{},
	}
	if config != nil {
		g.listener, g.scheme = tls.NewListener(listener, config), "pulsar+ssl"
	}
	g.running.Go(func() {
		for {
			client, err := g.listener.Accept()
			if err != nil {
				return
			}
			g.running.Go(func() { g.serve(client) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		g.disconnect()
		g.running.Wait()
	})
	return g
}

func (g *gate) url() string { return g.scheme + "://" + g.listener.Addr().String() }

func (g *gate) disconnect() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
	}
}

func (g *gate) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", g.broker)
	if err != nil {
		return
	}
	defer broker.Close()
	writing := &sync.Mutex{}
	g.mu.Lock()
	g.conns[client] = writing
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, client)
	}()
	g.running.Go(func() {
		defer client.Close()
		in := bufio.NewReader(broker)
		for {
			frame, err := readFrame(in)
			if err != nil {
				return
			}
			if kind, _ := command(frame); kind == 24 { // LOOKUP_RESPONSE
				frame = g.readdress(frame)
			}
			writing.Lock()
			_, err = client.Write(frame)
			writing.Unlock()
			if err != nil {
				return
			}
		}
	})
	in := bufio.NewReader(client)
	for {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		g.upstream.Add(int64(len(frame)))
		switch kind, body := command(frame); kind {
		case 2: // CONNECT
			if g.allow != nil && !g.allow(string(body[5]), string(body[3])) {
				return
			}
		case 23: // LOOKUP
			g.mu.Lock()
			g.listeners = append(g.listeners, string(body[7]))
			g.mu.Unlock()
		case 37: // AUTH_RESPONSE
			data := parse(body[2])
			g.mu.Lock()
			g.responses = append(g.responses, string(data[2]))
			g.mu.Unlock()
			continue
		}
		if _, err := broker.Write(frame); err != nil {
			return
		}
	}
}

// challenge asks every client who it is, as a broker does when a token expires.
func (g *gate) challenge() {
	var body []byte
	body = protowire.AppendTag(body, 2, protowire.BytesType)
	body = protowire.AppendBytes(body, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "token"))
	frame := newFrame(36, body)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c, writing := range g.conns {
		writing.Lock()
		_, _ = c.Write(frame)
		writing.Unlock()
	}
}

func (g *gate) answers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.responses...)
}

// readdress puts the gate's address in the place of the broker's.
func (g *gate) readdress(frame []byte) []byte {
	_, _, n := protowire.ConsumeTag(frame[8:])
	_, m := protowire.ConsumeVarint(frame[8+n:])
	_, _, k := protowire.ConsumeTag(frame[8+n+m:])
	body, _ := protowire.ConsumeBytes(frame[8+n+m+k:])
	body = append([]byte(nil), body...)
	field := protowire.Number(1)
	if g.scheme == "pulsar+ssl" {
		field = 2
	}
	body = protowire.AppendString(protowire.AppendTag(body, field, protowire.BytesType), g.url())
	return newFrame(24, body)
}

func newFrame(kind protowire.Number, body []byte) []byte {
	cmd := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(kind))
	cmd = protowire.AppendBytes(protowire.AppendTag(cmd, kind, protowire.BytesType), body)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(cmd)+4))
	return append(binary.BigEndian.AppendUint32(frame, uint32(len(cmd))), cmd...)
}

func readFrame(in *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
	copy(frame, head[:])
	_, err := io.ReadFull(in, frame[4:])
	return frame, err
}

// command is a frame's kind, and the fields of its body that are bytes.
func command(frame []byte) (uint64, map[protowire.Number][]byte) {
	cmd := frame[8 : 8+binary.BigEndian.Uint32(frame[4:8])]
	_, _, n := protowire.ConsumeTag(cmd)
	kind, m := protowire.ConsumeVarint(cmd[n:])
	_, _, k := protowire.ConsumeTag(cmd[n+m:])
	body, _ := protowire.ConsumeBytes(cmd[n+m+k:])
	return kind, parse(body)
}

func parse(b []byte) map[protowire.Number][]byte {
	fields := map[protowire.Number][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if kind == protowire.BytesType {
			fields[number], _ = protowire.ConsumeBytes(b)
		}
		b = b[size:]
	}
	return fields
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(tb testing.TB) authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return authority{cert, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// write writes the authority's own certificate.
func (a authority) write(tb testing.TB, path string) {
	tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// issue writes a certificate for a name, and its key.
func (a authority) issue(tb testing.TB, name, certFile, keyFile string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

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

// refused is the error of a roundTrip that cannot succeed.
func refused(t *testing.T, o pulsarx.ClientOptions, topic string) error {
	t.Helper()
	o.Pulsar.OperationTimeout = 2 * time.Second
	return roundTrip(t, o, topic)
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
	if err := refused(t, pulsarx.ClientOptions{URL: plain.url(), Pulsar: trusting("other.pem")}, topic); err == nil || !strings.Contains(err.Error(), "certificate") {
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
	if err := refused(t, pulsarx.ClientOptions{URL: mutual.url(), Pulsar: trusting("ca.pem")}, topic); err == nil {
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
	if err := refused(t, o, topic+"-avro"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong token: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, o, topic+"-avro"); err == nil || !strings.Contains(err.Error(), "no such file") {
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
		{URL: "pulsar://localhost", Auth: pulsarx.Athenz(map[string]string{"privateKey": "hidden"})},
		{URL: "pulsar://localhost", Pulsar: pulsar.ClientOptions{Authentication: pulsar.NewAuthenticationToken("hidden")}},
	} {
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&out, verb+verb+verb+verb+"\n", o, &o, application{o, &o}, o.Auth)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "options", o, "auth", o.Auth)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "options", o, "auth", o.Auth)
		if strings.Contains(out.String(), "hidden") || strings.Contains(out.String(), fmt.Sprintf("%x", "hidden")) {
			t.Error(out.String())
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

// TestListenerName: a named listener reaches the broker with each look-up, and a proxy's address stands for the broker's.
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
