package pulsartest

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Credentials are what a client says to be: with CONNECT, in answer to an AUTH_CHALLENGE, or with a call of an admin route.
type Credentials struct {
	// Method is the name of the method, such as "token" or "basic", empty for a client without; a call of an admin route has it from
	// its header Authorization.
	Method string
	// Data is the method's own: the token, or "user:password".
	Data []byte
	// TLS is the connection's state, with the client's certificates; nil without TLS.
	TLS *tls.ConnectionState
}

// challengeTime is how long a client may take to answer an AUTH_CHALLENGE.
const challengeTime = 30 * time.Second

// authenticate asks the options.
func (b *Broker) authenticate(c Credentials) error {
	switch {
	case b.options.Authenticate != nil:
		return b.options.Authenticate(c)
	case b.options.Token != "" && (c.Method != "token" || string(c.Data) != b.options.Token):
		return errors.New("unable to authenticate")
	}
	return nil
}

func (c *conn) credentials(method string, data []byte) Credentials {
	all := Credentials{Method: method, Data: data}
	if secure, ok := c.socket.(*tls.Conn); ok {
		state := secure.ConnectionState()
		all.TLS = &state
	}
	return all
}

func (r *connectRequest) serve(c *conn) {
	if c.broker.authenticate(c.credentials(r.method, r.data)) != nil { // the reason stays here: it may say more than a client should know
		r.fail(c, refuse(authenticationError, "Failed to authenticate"))
		c.refused = true
		return
	}
	if c.refused = c.connected; c.refused {
		return
	}
	c.connected = true
	c.sendConnected(max(0, min(r.version, protocolVersion)))
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.refreshes = r.refreshes
	c.known = true
}

// Reauthenticate asks every client for its credentials again, as a broker does with those that have expired, by an AUTH_CHALLENGE.
// A client that cannot answer, that is refused, or that has not answered for 30 s, loses its connection.
func (b *Broker) Reauthenticate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		switch {
		case !c.known || c.challenge != nil:
		case !c.refreshes:
			c.close()
		default:
			c.challenge = time.AfterFunc(challengeTime, c.close)
			body := appendString(nil, 1, serverVersion)
			body = appendBytes(body, 2, appendBytes(nil, 2, []byte("PulsarAuthRefresh")))
			c.reply(cmdAuthChallenge, appendUint(body, 3, protocolVersion))
		}
	}
}

func (r *authRequest) serve(c *conn) {
	c.broker.mu.Lock()
	asked := c.challenge != nil && c.challenge.Stop()
	c.challenge = nil
	c.broker.mu.Unlock()
	if asked && c.broker.authenticate(c.credentials(r.method, r.data)) != nil {
		r.fail(c, refuse(authenticationError, "Failed to authenticate"))
		c.refused = true
	}
}

// requestCredentials are those of a call of an admin route.
func requestCredentials(r *http.Request) Credentials {
	c := Credentials{TLS: r.TLS}
	method, data, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch method {
	case "Bearer":
		c.Method, c.Data = "token", []byte(data)
	case "Basic":
		c.Method = "basic"
		c.Data, _ = base64.StdEncoding.DecodeString(data) // what is no base64 is no password either
	}
	return c
}
