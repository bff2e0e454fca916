package pulsarx

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/pulsar-client-go/pulsar/auth"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
)

// stuck is a provider whose issuer says nothing.
type stuck struct {
	auth.Provider
	issuer chan struct{}
}

func (stuck) Init() error { return nil }

func (s stuck) GetData() ([]byte, error) {
	<-s.issuer
	return nil, errors.New("closed")
}

func (stuck) Close() error { return nil }

// TestStuckIssuer: an issuer that does not answer is an error in time, and the next question is not behind the first.
func TestStuckIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := stuck{issuer: make(chan struct{})}
		defer close(first.issuer)
		all := []auth.Provider{first, auth.NewAuthenticationToken("second")}
		r := &renewed{open: func() (p auth.Provider, _ error) {
			p, all = all[0], all[1:]
			return p, nil
		}}
		if err := r.Init(); !errors.Is(err, errNoAnswer) {
			t.Errorf("an issuer that says nothing: %v", err)
		}
		if data, err := r.GetData(); err != nil || string(data) != "second" {
			t.Errorf("the next question: %q %v", data, err)
		}
	})
}

// TestKeyPanics: a panic of a function that should return a key is an error, and not the end of the process.
func TestKeyPanics(t *testing.T) {
	absent := func(string) ([]byte, error) { panic("no key today") }
	c := &messageCrypto{encryption: Encryption{PublicKey: absent, PrivateKey: absent}}
	_, public := c.newDataKey([]string{"k"})
	_, private := c.dataKey(*crypto.NewEncryptionKeyInfo("k", []byte("data key"), nil))
	for _, err := range []error{public, private} {
		if err == nil || !strings.Contains(err.Error(), "panic: no key today") {
			t.Error(err)
		}
	}
}
