package pulsarx

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // what Pulsar's clients have agreed on, within OAEP
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Encryption gives the keys of end-to-end encryption, by name, as PEM: RSA keys, public ones as PKIX or in a certificate, private ones
// as PKCS #1 or #8. Payloads are encrypted with AES-256-GCM under a data key, which is encrypted for each name of
// ProducerOptions.EncryptionKeys with RSA-OAEP: what Pulsar's Java, C++ and Python clients read and write too. Keys, properties and
// times of messages are not encrypted.
//
// The functions are called from several goroutines, and again from time to time, so that keys change without a restart: a private key
// when a data key comes that is not known yet, a public key when RenewAfter has passed. KeyFiles reads them from files.
//
// What cannot be decrypted waits for its key. Consumer.Run does not acknowledge it, and asks the broker for it again, after 1 s at first
// and up to 30 s later, while others go on: also later messages of its key. It counts in ConsumerOptions.MaxInFlight, a batch as one
// message. RunStateful stops at it, and begins again from its checkpoint until the key is there. Replay, ReplayStateful and Redrive end with
// ErrDecryption. pulsarx.decryption.failures counts, and ClientOptions.Logger or the error tells the reason. Dead letters of messages
// that were decrypted are written unencrypted.
type Encryption struct {
	// PublicKey is needed by producers.
	PublicKey func(name string) ([]byte, error)
	// PrivateKey is needed by consumers and replays.
	PrivateKey func(name string) ([]byte, error)
	// RenewAfter is how long a producer uses a data key, and how long a data key's decryption is remembered; 1 h by default.
	RenewAfter time.Duration
}

// KeyFiles reads keys from a folder: NAME.public.pem and NAME.private.pem.
func KeyFiles(dir string) Encryption {
	read := func(kind string) func(string) ([]byte, error) {
		return func(name string) ([]byte, error) {
			if name == "" || name != filepath.Base(name) { // a private key's name comes with the message
				return nil, fmt.Errorf("pulsarx: %q is no name of a key", name)
			}
			return os.ReadFile(filepath.Join(dir, name+"."+kind+".pem"))
		}
	}
	return Encryption{PublicKey: read("public"), PrivateKey: read("private")}
}

const maxDataKeys = 1000 // decrypted ones that are remembered

func (e Encryption) renewAfter() time.Duration {
	if e.RenewAfter == 0 {
		return time.Hour
	}
	return e.RenewAfter
}

// producer checks that every key can be had, since the client would find out message by message.
func (e Encryption) producer(names []string) (*pulsar.ProducerEncryptionInfo, error) {
	if e.PublicKey == nil {
		return nil, errors.New("ProducerOptions.EncryptionKeys need ClientOptions.Encryption.PublicKey")
	}
	c := &messageCrypto{encryption: e}
	if _, err := c.newDataKey(names); err != nil {
		return nil, err
	}
	return &pulsar.ProducerEncryptionInfo{
		Keys: names, KeyReader: unusedKeyReader{}, MessageCrypto: c, ProducerCryptoFailureAction: crypto.ProducerCryptoFailureActionFail,
	}, nil
}

// decryption is what a consumer or reader of the client decrypts with. What cannot be is handed over as it is: see Client.undecrypted.
// Otherwise a reader of the client panics on it, and a consumer asks for it every moment without giving the broker its permits back, until
// none is left, and goes on with the next message.
func (c *Client) decryption() *pulsar.MessageDecryptionInfo {
	return &pulsar.MessageDecryptionInfo{
		KeyReader:                   unusedKeyReader{},
		MessageCrypto:               &messageCrypto{encryption: c.options.Encryption},
		ConsumerCryptoFailureAction: crypto.ConsumerCryptoFailureActionConsume,
	}
}

// unusedKeyReader stands where the client wants one.
type unusedKeyReader struct{}

var errUnusedKeyReader = errors.New("pulsarx: keys are read by messageCrypto")

func (unusedKeyReader) PublicKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errUnusedKeyReader
}

func (unusedKeyReader) PrivateKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errUnusedKeyReader
}

// messageCrypto encrypts and decrypts in place of the client's own, which partitions of a topic race on, which uses one data key for
// ever, and which reads private keys as PKCS #1 alone.
type messageCrypto struct {
	encryption Encryption

	mu      sync.Mutex
	sending *dataKey            // a producer's
	known   map[string]*dataKey // by its encrypted form, of a consumer
}

// dataKey encrypts payloads.
type dataKey struct {
	seal      cipher.AEAD
	encrypted []crypto.EncryptionKeyInfo
	until     time.Time
}

// AddPublicKeyCipher and RemoveKeyCipher are for those who manage the client's own.
func (*messageCrypto) AddPublicKeyCipher([]string, crypto.KeyReader) error { return nil }

func (*messageCrypto) RemoveKeyCipher(string) bool { return false }

// Encrypt encrypts a batch.
func (c *messageCrypto) Encrypt(names []string, _ crypto.KeyReader, meta crypto.MessageMetadataSupplier, payload []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sending == nil || time.Now().After(c.sending.until) {
		key, err := c.newDataKey(names)
		if err != nil {
			return nil, err
		}
		c.sending = key
	}
	for _, k := range c.sending.encrypted {
		meta.UpsertEncryptionKey(k)
	}
	nonce := make([]byte, c.sending.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails, by its documentation
	meta.SetEncryptionParam(nonce)
	return c.sending.seal.Seal(nil, nonce, payload, nil), nil
}

func (c *messageCrypto) newDataKey(names []string) (*dataKey, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	seal, err := newSeal(secret)
	if err != nil {
		return nil, err
	}
	key := &dataKey{seal: seal, until: time.Now().Add(c.encryption.renewAfter())}
	for _, name := range names {
		text, err := returning(func() ([]byte, error) { return c.encryption.PublicKey(name) })
		if err != nil {
			return nil, fmt.Errorf("pulsarx: public key %q: %w", name, err)
		}
		public, err := parsePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("pulsarx: public key %q: %w", name, err)
		}
		encrypted, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, public, secret, nil) //nolint:gosec // see the import
		if err != nil {
			return nil, fmt.Errorf("pulsarx: public key %q: %w", name, err)
		}
		key.encrypted = append(key.encrypted, *crypto.NewEncryptionKeyInfo(name, encrypted, nil))
	}
	return key, nil
}

// Decrypt decrypts a batch with the first of its data keys that a private key opens.
func (c *messageCrypto) Decrypt(meta crypto.MessageMetadataSupplier, payload []byte, _ crypto.KeyReader) ([]byte, error) {
	var errs []error
	for _, k := range meta.EncryptionKeys() {
		key, err := c.dataKey(k)
		if err == nil {
			var text []byte
			if text, err = key.open(meta.EncryptionParam(), payload); err == nil {
				return measured(meta, text)
			}
		}
		errs = append(errs, fmt.Errorf("key %q: %w", k.Name(), err))
	}
	return nil, errors.Join(errs...)
}

// measured gives a message that does not say how long its payload is a length. C++, and the clients built on it, leave it out where they do
// not compress, and others say 0 of an empty payload: pulsar-client-go then goes on with what it has received, which is still encrypted,
// and loses batches of it. The metadata is reached behind the interface, which has the keys alone.
func measured(meta crypto.MessageMetadataSupplier, text []byte) ([]byte, error) {
	supplier, _ := meta.(*crypto.MessageMetadata)
	if supplier == nil || reflect.TypeOf(*supplier).NumField() != 1 {
		return nil, errUnmeasured
	}
	field := reflect.ValueOf(supplier).Elem().Field(0)
	inner, ok := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(proto.Message)
	if !ok {
		return nil, errUnmeasured
	}
	m := inner.ProtoReflect()
	size, compression := m.Descriptor().Fields().ByName("uncompressed_size"), m.Descriptor().Fields().ByName("compression")
	if size == nil || compression == nil {
		return nil, errUnmeasured
	}
	if m.Get(size).Uint() > 0 {
		return text, nil
	}
	if m.Get(compression).Enum() != 0 { // of nothing at all
		text = []byte{}
		m.Clear(compression)
	}
	m.Set(size, protoreflect.ValueOfUint32(uint32(max(len(text), 1)))) // what is not compressed is taken as it is, whatever its length
	return text, nil
}

var errUnmeasured = errors.New("pulsar-client-go has other metadata than that of v0.21.0")

// open decrypts a payload. The length of the nonce comes with the message.
func (k *dataKey) open(nonce, payload []byte) ([]byte, error) {
	if len(nonce) != k.seal.NonceSize() {
		return nil, fmt.Errorf("a nonce of %d bytes", len(nonce))
	}
	return k.seal.Open(nil, nonce, payload, nil)
}

// dataKey decrypts a data key, or remembers it.
func (c *messageCrypto) dataKey(k crypto.EncryptionKeyInfo) (*dataKey, error) {
	id := k.Name() + "\x00" + string(k.Key())
	now := time.Now()
	c.mu.Lock()
	key := c.known[id]
	c.mu.Unlock()
	if key != nil && now.Before(key.until) {
		return key, nil
	}
	if c.encryption.PrivateKey == nil {
		return nil, errors.New("ClientOptions.Encryption.PrivateKey is not set")
	}
	text, err := returning(func() ([]byte, error) { return c.encryption.PrivateKey(k.Name()) })
	if err != nil {
		return nil, err
	}
	private, err := parsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	secret, err := rsa.DecryptOAEP(sha1.New(), nil, private, k.Key(), nil) //nolint:gosec // see the import
	if err != nil {
		return nil, errors.New("the data key is not encrypted for this private key")
	}
	seal, err := newSeal(secret)
	if err != nil {
		return nil, err
	}
	key = &dataKey{seal: seal, until: now.Add(c.encryption.renewAfter())}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxDataKeys {
		c.known = map[string]*dataKey{}
	}
	c.known[id] = key
	return key, nil
}

func newSeal(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

var errNoRSAKey = errors.New("not a PEM of an RSA key")

func parsePublicKey(text []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errNoRSAKey
	}
	var key any
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	public, ok := key.(*rsa.PublicKey)
	if err != nil || !ok {
		return nil, errNoRSAKey
	}
	return public, nil
}

// parsePrivateKey says nothing of the text in its errors.
func parsePrivateKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errNoRSAKey
	}
	if private, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return private, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errNoRSAKey
	}
	return private, nil
}
