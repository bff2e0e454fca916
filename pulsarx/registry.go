package pulsarx

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// registry asks a broker for a schema over Pulsar's own protocol, so that no admin interface is needed: pulsar-client-go has the
// request too, but gives its answer to nobody. A look-up is rare, and has a connection of its own: CONNECT, GET_SCHEMA, close.
//
// The numbers are those of PulsarApi.proto.
type registry struct{ options ClientOptions }

const (
	cmdConnect           = 2
	cmdConnected         = 3
	cmdError             = 14
	cmdGetSchema         = 34
	cmdGetSchemaResponse = 35
	cmdAuthChallenge     = 36

	protocolVersion   = 19 // of Pulsar 2.10 and newer
	codeTopicNotFound = 11 // is how a broker says that it has no such schema
	maxFrame          = 10 << 20
)

// schema returns one version of the topic's schema. That there is none is a permanent error.
func (r registry) schema(ctx context.Context, topic string, version []byte) (s Schema, err error) {
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	body = appendBytes(appendBytes(body, 2, []byte(topic)), 3, version)
	err = r.ask(ctx, cmdGetSchema, body, cmdGetSchemaResponse, func(answer []byte) (err error) {
		s, err = parseSchema(topic, version, answer)
		return err
	})
	if err != nil && !itemerror.IsPermanent(err) {
		err = fmt.Errorf("pulsarx: schema %x of %s: %w", version, topic, err)
	}
	return s, err
}

// ask gives a command to the hosts of the URL in turn, until read takes the answer of one or has a permanent error.
func (r registry) ask(ctx context.Context, kind protowire.Number, body []byte, want protowire.Number, read func([]byte) error) error {
	scheme, hosts, _ := strings.Cut(r.options.URL, "://")
	var errs []error
	for host := range strings.SplitSeq(hosts, ",") {
		answer, err := r.exchange(ctx, scheme, host, kind, body, want)
		if err == nil {
			err = read(answer)
		}
		if err == nil || itemerror.IsPermanent(err) {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
	}
	return joined(errs)
}

// exchange gives a host one command, and returns the body of its answer, which comes within the client's OperationTimeout.
func (r registry) exchange(
	ctx context.Context, scheme, host string, kind protowire.Number, body []byte, want protowire.Number,
) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Pulsar.OperationTimeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil { // which closes the connection
			err = joined([]error{err, context.Cause(ctx)})
		}
	}()
	conn, err := r.dial(ctx, scheme, host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	login, err := r.login()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	if _, err := request(conn, in, cmdConnect, login, cmdConnected); err != nil {
		return nil, err
	}
	return request(conn, in, kind, body, want)
}

func (r registry) dial(ctx context.Context, scheme, host string) (net.Conn, error) {
	o := r.options.Pulsar
	dialer := &net.Dialer{Timeout: o.ConnectionTimeout}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil {
		return nil, fmt.Errorf("bad host %q", host)
	}
	secure, port := scheme == "pulsar+ssl", u.Port()
	switch {
	case port != "":
	case secure:
		port = "6651"
	default:
		port = "6650"
	}
	address := net.JoinHostPort(u.Hostname(), port)
	if !secure {
		return dialer.DialContext(ctx, "tcp", address)
	}
	config, err := r.tls(u.Hostname())
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
}

// tls is the configuration that pulsar-client-go makes of the same options.
func (r registry) tls(host string) (*tls.Config, error) {
	o := r.options.Pulsar
	if o.TLSConfig != nil {
		config := o.TLSConfig.Clone()
		if config.ServerName == "" {
			config.ServerName = host
		}
		return config, nil
	}
	config := &tls.Config{
		ServerName:         host,
		InsecureSkipVerify: o.TLSAllowInsecureConnection, //nolint:gosec // the user's own option
		MinVersion:         o.TLSMinVersion,
		MaxVersion:         o.TLSMaxVersion,
		CipherSuites:       o.TLSCipherSuites,
	}
	if o.TLSTrustCertsFilePath != "" {
		pem, err := os.ReadFile(o.TLSTrustCertsFilePath)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificates in %s", o.TLSTrustCertsFilePath)
		}
	}
	if !o.TLSAllowInsecureConnection && !o.TLSValidateHostname {
		verifyChainOnly(config)
	}
	if o.TLSCertificateFile != "" && o.TLSKeyFilePath != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSCertificateFile, o.TLSKeyFilePath)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if provider, ok := o.Authentication.(auth.Provider); ok {
		pair, err := provider.GetTLSCertificate()
		if err != nil {
			return nil, err
		}
		if pair != nil {
			config.Certificates = []tls.Certificate{*pair}
		}
	}
	return config, nil
}

// verifyChainOnly checks the server's certificate without its host name, which is pulsar-client-go's default.
func verifyChainOnly(config *tls.Config) {
	config.InsecureSkipVerify = true
	roots := config.RootCAs
	config.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}

// login is the body of CONNECT.
func (r registry) login() ([]byte, error) {
	var b []byte
	b = appendBytes(b, 1, []byte("Tidemark"))
	b = protowire.AppendTag(b, 4, protowire.VarintType)
	b = protowire.AppendVarint(b, protocolVersion)
	if provider, ok := r.options.Pulsar.Authentication.(auth.Provider); ok {
		data, err := provider.GetData()
		if err != nil {
			return nil, fmt.Errorf("authentication: %w", err)
		}
		b = appendBytes(b, 3, data)
		b = appendBytes(b, 5, []byte(provider.Name()))
	}
	return b, nil
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// request sends a command and returns the body of the answer, which must be of the wanted kind; the body of a command stands in
// the field that its kind numbers. Commands that the broker sends of its own accord are passed over.
func request(w io.Writer, in *bufio.Reader, kind protowire.Number, body []byte, want protowire.Number) ([]byte, error) {
	command := protowire.AppendTag(nil, 1, protowire.VarintType)
	command = protowire.AppendVarint(command, uint64(kind))
	command = appendBytes(command, kind, body)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(command)+4))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(command)))
	if _, err := w.Write(append(frame, command...)); err != nil {
		return nil, err
	}
	for {
		answer, err := readCommand(in)
		if err != nil {
			return nil, err
		}
		got, err := fields(answer)
		if err != nil {
			return nil, err
		}
		switch protowire.Number(got[1].number) {
		case want:
			return got[want].bytes, nil
		case cmdError:
			reason, err := fields(got[cmdError].bytes)
			if err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("the broker says: %q", reason[3].bytes)
		case cmdAuthChallenge:
			return nil, errors.New("the broker's authentication takes more than one step")
		}
	}
}

func readCommand(in *bufio.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	size, command := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size > maxFrame || size < 4 || command > size-4 {
		return nil, errors.New("not an answer of a Pulsar broker")
	}
	frame := make([]byte, size-4)
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, err
	}
	return frame[:command], nil
}

// field is the last value of a message's field.
type field struct {
	number uint64
	bytes  []byte
}

// fields reads the fields that matter here, numbers and bytes, and passes over the rest.
func fields(b []byte) (map[protowire.Number]field, error) {
	all := map[protowire.Number]field{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		all[number] = f
		b = b[n:]
	}
	return all, nil
}

// parseSchema reads the body of GET_SCHEMA_RESPONSE.
func parseSchema(topic string, version, body []byte) (Schema, error) {
	answer, err := fields(body)
	if err != nil {
		return Schema{}, err
	}
	if code, failed := answer[2]; failed {
		err := fmt.Errorf("the broker says: %q", answer[3].bytes)
		if code.number == codeTopicNotFound {
			return Schema{}, Permanent(fmt.Errorf("pulsarx: schema %x of %s: %w", version, topic, err))
		}
		return Schema{}, err
	}
	schema, err := fields(answer[4].bytes)
	if err != nil {
		return Schema{}, err
	}
	found := Schema{Type: schemaTypeName(schema[4].number), Definition: schema[3].bytes}
	if found.Type == "KEY_VALUE" {
		if definition, err := keyValueFromWire(found.Definition, schemaProperties(answer[4].bytes)); err == nil {
			found.Definition = definition
		} // else the decoder says that it is none
	}
	return found, nil
}
