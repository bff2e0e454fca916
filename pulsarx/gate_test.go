package pulsarx_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// gate stands before a broker, passes frames on, and asks clients who they are.
type gate struct {
	listener net.Listener
	scheme   string
	broker   string
	allow    func(method, credentials string) bool // nil: everybody
	proxy    bool                                  // clients reach brokers through the gate, as through Pulsar's proxy
	drops    bool                                  // receipts say that messages were dropped
	upstream atomic.Int64                          // bytes from clients
	running  sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]*sync.Mutex // clients, and what a frame to each is written under
	listeners []string                 // names that look-ups asked for
	behind    []string                 // brokers that a proxy was asked for
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
			switch kind, _ := command(frame); {
			case kind == 24: // LOOKUP_RESPONSE
				frame = g.readdress(frame)
			case kind == 7 && g.drops: // SEND_RECEIPT
				frame = newFrame(7, protowire.AppendBytes(protowire.AppendTag(bodyOf(frame), 3, protowire.BytesType), nowhere))
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
			if broker := string(body[6]); broker != "" {
				g.mu.Lock()
				g.behind = append(g.behind, broker)
				g.mu.Unlock()
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

// readdress puts the gate's address in the place of the broker's, or, of a proxy, says that the broker is reached through it.
func (g *gate) readdress(frame []byte) []byte {
	body := bodyOf(frame)
	if g.proxy {
		return newFrame(24, protowire.AppendVarint(protowire.AppendTag(body, 8, protowire.VarintType), 1))
	}
	field := protowire.Number(1)
	if g.scheme == "pulsar+ssl" {
		field = 2
	}
	body = protowire.AppendString(protowire.AppendTag(body, field, protowire.BytesType), g.url())
	return newFrame(24, body)
}

// nowhere is the id of a message that a broker of a non-persistent topic has dropped: ledger and entry are -1.
var nowhere = protowire.AppendVarint(append(protowire.AppendVarint([]byte{8}, math.MaxUint64), 16), math.MaxUint64)

// bodyOf is a copy of a command's body.
func bodyOf(frame []byte) []byte {
	_, _, n := protowire.ConsumeTag(frame[8:])
	_, m := protowire.ConsumeVarint(frame[8+n:])
	_, _, k := protowire.ConsumeTag(frame[8+n+m:])
	body, _ := protowire.ConsumeBytes(frame[8+n+m+k:])
	return append([]byte(nil), body...)
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
