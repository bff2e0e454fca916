package pulsartest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// TestReauthenticate rotates a token under a connected producer, and then lets it expire.
func TestReauthenticate(t *testing.T) {
	var good, have atomic.Value
	good.Store("one")
	have.Store("one")
	var answered atomic.Int32
	b := newBroker(t, pulsartest.Options{Authenticate: func(c pulsartest.Credentials) error {
		answered.Add(1)
		if c.Method != "token" || string(c.Data) != good.Load() || c.TLS != nil {
			return errors.New("not the token")
		}
		return nil
	}})
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: b.URL(), Logger: quietLogger(), OperationTimeout: patience,
		Authentication: pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) { return have.Load().(string), nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	connects := func() int {
		n := 0
		for _, h := range b.Hits() {
			if h.Command == "CONNECT" {
				n++
			}
		}
		return n
	}
	defer b.Inject(pulsartest.Fault{})()
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t", SendTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	send := func() {
		t.Helper()
		if _, err := p.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	send()
	before := connects()
	good.Store("two")
	have.Store("two")
	asked := answered.Load()
	b.Reauthenticate()
	eventually(t, func() bool { return answered.Load() > asked })
	send()
	if n := connects(); n != before {
		t.Errorf("%d connections, %d before", n, before)
	}
	good.Store("three") // the client's expires
	b.Reauthenticate()
	eventually(t, func() bool { return connects() > before })
	have.Store("three")
	produce(t, client, pulsar.ProducerOptions{Topic: "t"}, numbered(1, nil)...)
}

// certificate makes a certificate and its key, signed by the parent or by itself, in files of a folder.
func certificate(t *testing.T, folder, name string, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for file, text := range map[string][]byte{name + ".pem": certPEM, name + ".key": keyPEM} {
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err == nil {
		pair.Leaf, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// TestTLS connects with the authority's certificate, with and without one of the client's own.
func TestTLS(t *testing.T) {
	folder := t.TempDir()
	authority := certificate(t, folder, "authority", nil)
	server := certificate(t, folder, "server", authority)
	certificate(t, folder, "client", authority)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	var name atomic.Value
	for _, mutual := range []bool{false, true} {
		config := &tls.Config{Certificates: []tls.Certificate{*server}, MinVersion: tls.VersionTLS12}
		if mutual {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, pool
		}
		b := newBroker(t, pulsartest.Options{TLS: config, Authenticate: func(c pulsartest.Credentials) error {
			if len(c.TLS.PeerCertificates) > 0 {
				name.Store(c.Method + " " + c.TLS.PeerCertificates[0].Subject.CommonName)
			}
			return nil
		}})
		o := pulsar.ClientOptions{
			URL: b.URL(), Logger: quietLogger(), OperationTimeout: patience, TLSTrustCertsFilePath: filepath.Join(folder, "authority.pem"), TLSValidateHostname: true,
		}
		try := func(o pulsar.ClientOptions) error {
			client, err := pulsar.NewClient(o)
			if err != nil {
				return err
			}
			defer client.Close()
			p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "t"})
			if err != nil {
				return err
			}
			defer p.Close()
			_, err = p.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x")})
			return err
		}
		if mutual {
			short := o
			short.OperationTimeout = time.Second
			if try(short) == nil {
				t.Error("let in without a certificate")
			}
			o.Authentication = pulsar.NewAuthenticationTLS(filepath.Join(folder, "client.pem"), filepath.Join(folder, "client.key"))
		}
		if err := try(o); err != nil {
			t.Fatal(mutual, err)
		}
		if mutual && name.Load() != "tls client" {
			t.Error(name.Load())
		}
		if mutual {
			continue
		}
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
		r, err := http.NewRequest(http.MethodGet, b.AdminURL()+"/admin/v2/tenants", nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := web.Do(r)
		if err != nil || w.StatusCode != http.StatusOK {
			t.Fatal(w, err)
		}
		_ = w.Body.Close()
	}
}
