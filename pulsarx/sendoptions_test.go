package pulsarx_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// receiveAll receives n messages with the bare client.
func receiveAll(tb testing.TB, s server, topic string, n int) []pulsar.Message {
	tb.Helper()
	reader, err := bareClient(tb, s).CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: pulsar.EarliestMessageID()})
	if err != nil {
		tb.Fatal(err)
	}
	defer reader.Close()
	messages := make([]pulsar.Message, n)
	for i := range messages {
		if messages[i], err = reader.Next(timeout(tb, 60*time.Second)); err != nil {
			tb.Fatal(err)
		}
	}
	return messages
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			type arrival struct {
				value string
				at    time.Time
			}
			arrivals := make(chan arrival, 10)
			r := run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s"},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						arrivals <- arrival{m.Value, time.Now()}
					}
					return nil
				})
			defer r.stop()
			p := keyed(t, c, topic)
			start := time.Now()
			const delay = 2 * time.Second
			for value, o := range map[string]pulsarx.SendOption{
				"after:": pulsarx.DeliverAfter(delay), "at:": pulsarx.DeliverAt(start.Add(delay)), "past:": pulsarx.DeliverAt(start.Add(-time.Hour)),
			} {
				p.SendAsync(t.Context(), value, func(_ pulsarx.MessageID, err error) {
					if err != nil {
						t.Errorf("%s: %v", value, err)
					}
				}, o)
			}
			send(t, p, "now:")
			for range 4 {
				a := <-arrivals
				// A broker may deliver up to a tick, one second by default, early or late.
				if delayed := strings.HasPrefix(a.value, "a"); delayed && a.at.Sub(start) < delay/4 {
					t.Errorf("%s came after %v", a.value, a.at.Sub(start))
				}
			}
		})
	}
}

// TestDeduplicate: a source that begins anew with the same numbers is stored once.
func TestDeduplicate(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c := s.client(t)
			topic := deduplicated(t, c)
			for begin := range 2 {
				p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{
					Topic: topic, Key: keyOf, Name: "source", Deduplicate: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				var duplicates int
				for n := 50 * begin; n < 50*begin+100; n++ {
					p.SendAsync(t.Context(), fmt.Sprintf("%d:%d", n%7, n), func(id pulsarx.MessageID, err error) {
						if err != nil {
							t.Error(err)
						} else if id.LedgerID() < 0 {
							duplicates++
						}
					}, pulsarx.SequenceID(int64(n)))
				}
				if err := p.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if want := 50 * begin; duplicates != want {
					t.Errorf("%d duplicates, want %d", duplicates, want)
				}
				if _, err := p.Send(t.Context(), "a:1"); err == nil {
					t.Error("a message without a number is sent")
				}
				if err := p.Close(timeout(t, 60*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			for n, m := range receiveAll(t, s, topic, 150) {
				if want := fmt.Sprintf("%d:%d", n%7, n); string(m.Payload()) != want {
					t.Fatalf("message %d is %s, want %s", n, m.Payload(), want)
				}
			}
		})
	}
	p := keyed(t, inProcess(t).client(t), topic(t))
	if _, err := p.Send(t.Context(), "a:1", pulsarx.SequenceID(1)); err == nil {
		t.Error("a number without Deduplicate is sent")
	}
}

// deduplicated is a topic in a namespace that deduplicates.
func deduplicated(t *testing.T, c *pulsarx.Client) string {
	t.Helper()
	name := topic(t)
	namespace := fmt.Sprintf("public/p%d", time.Now().UnixNano())
	if err := c.Admin(t.Context(), http.MethodPut, "/namespaces/"+namespace, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin(t.Context(), http.MethodPost, "/namespaces/"+namespace+"/deduplication", true, nil); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(name, "public/default", namespace, 1)
}

func TestChunking(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			large := make([]byte, 12<<20)
			_, _ = rand.Read(large)
			p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic, Chunking: true, MaxPending: 4})
			var mu sync.Mutex
			var ids []pulsarx.MessageID
			values := [][]byte{[]byte("small"), large, []byte("between"), large[:9<<20], []byte("last")}
			var sending sync.WaitGroup
			for _, v := range values { // at once: the large ones must not keep each other from their places
				sending.Go(func() {
					id, err := p.Send(timeout(t, 60*time.Second), v)
					if err != nil {
						t.Errorf("%d bytes: %v", len(v), err)
					}
					mu.Lock()
					defer mu.Unlock()
					ids = append(ids, id)
				})
			}
			sending.Wait()
			if _, err := p.Send(t.Context(), make([]byte, 40<<20)); !errors.Is(err, pulsarx.ErrMessageTooLarge) {
				t.Errorf("more chunks than MaxPending: %v", err)
			}
			if _, err := p.Send(t.Context(), nil); err == nil {
				t.Error("an empty value is sent, which consumers would not get")
			}
			got := receiveAll(t, s, topic, len(values))
			for _, v := range values {
				if !slices.ContainsFunc(got, func(m pulsar.Message) bool { return bytes.Equal(m.Payload(), v) }) {
					t.Errorf("%d bytes are not there", len(v))
				}
			}
		})
	}
}

// TestOrderingKey: two consumers of a Key_Shared subscription get each ordering key whole, whatever the keys of its messages.
func TestOrderingKey(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			var mu sync.Mutex
			owner := map[string]int{}
			moved, count := 0, 0
			for i := range 2 {
				consumer, err := bareClient(t, s).Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: pulsar.KeyShared})
				if err != nil {
					t.Fatal(err)
				}
				defer consumer.Close()
				go func() {
					for {
						m, err := consumer.Receive(t.Context())
						if err != nil {
							return
						}
						mu.Lock()
						if at, ok := owner[m.OrderingKey()]; ok && at != i {
							moved++
						}
						owner[m.OrderingKey()] = i
						count++
						mu.Unlock()
						_ = consumer.Ack(m)
					}
				}()
			}
			p := keyed(t, c, topic)
			for i := range 300 {
				p.SendAsync(t.Context(), fmt.Sprintf("key%d:%d", i, i), func(_ pulsarx.MessageID, err error) {
					if err != nil {
						t.Error(err)
					}
				}, pulsarx.OrderingKey(fmt.Sprintf("account%d", i%10)))
			}
			eventually(t, "all messages", func() bool { mu.Lock(); defer mu.Unlock(); return count == 300 })
			mu.Lock()
			defer mu.Unlock()
			if moved != 0 || len(owner) != 10 {
				t.Errorf("%d of %d ordering keys moved: %v", moved, len(owner), owner)
			}
		})
	}
}

func TestClusters(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			for value, o := range map[string]pulsarx.SendOption{"a:here": pulsarx.Clusters(), "a:there": pulsarx.Clusters("standalone", "other")} {
				if _, err := p.Send(t.Context(), value, o, pulsarx.Property("to", value)); err != nil {
					t.Errorf("%s: %v", value, err)
				}
			}
			for _, m := range receiveAll(t, s, topic, 2) {
				if m.Properties()["to"] != string(m.Payload()) || m.Key() != "a" {
					t.Errorf("%s: %v %q", m.Payload(), m.Properties(), m.Key())
				}
			}
		})
	}
}

func TestSendOptionErrors(t *testing.T) {
	p := keyed(t, inProcess(t).client(t), topic(t))
	for name, o := range map[string][]pulsarx.SendOption{
		"event time":       {pulsarx.EventTime(time.Unix(-1, 0))},
		"delivery time":    {pulsarx.DeliverAt(time.Unix(-1, 0))},
		"delivery after":   {pulsarx.DeliverAfter(-time.Second)},
		"exclude":          {pulsarx.DeliverAfter(time.Second), pulsarx.DeliverAt(time.Now())},
		"sequence id":      {pulsarx.SequenceID(-1)},
		"Deduplicate":      {pulsarx.SequenceID(1)},
		"too large":        {pulsarx.Property("p", strings.Repeat("x", 5<<20))},
		"message too lar":  {pulsarx.Key(strings.Repeat("x", 5<<20))},
		"pulsarx: message": {pulsarx.OrderingKey(strings.Repeat("x", 5<<20))},
	} {
		if _, err := p.Send(t.Context(), "a:1", o...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
		if _, err := p.SendTombstone(t.Context(), "a", o...); err == nil {
			t.Errorf("%s: a tombstone is sent", name)
		}
	}
}

// keyPair writes NAME.public.pem and NAME.private.pem.
func keyPair(tb testing.TB, dir, name string, pkcs8 bool) {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		tb.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if pkcs8 {
		text, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			tb.Fatal(err)
		}
		private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
	}
	for file, text := range map[string][]byte{
		name + ".public.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), name + ".private.pem": private,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestEncryption: what the broker has is not readable, each of two keys opens it, keys change without a restart, and the client's own
// encryption reads and writes the same.
func TestEncryption(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			topic := topic(t)
			writing, reading := t.TempDir(), t.TempDir()
			keyPair(t, writing, "first", false)
			keyPair(t, writing, "second", true)
			move := func(file string) {
				text, err := os.ReadFile(filepath.Join(writing, file))
				if err == nil {
					err = os.WriteFile(filepath.Join(reading, file), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			client := func(e pulsarx.Encryption) *pulsarx.Client {
				e.RenewAfter = time.Millisecond
				c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Encryption: e})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close(timeout(t, 60*time.Second)) })
				return c
			}
			c := client(pulsarx.KeyFiles(writing))
			for _, o := range []pulsarx.ProducerOptions[string]{
				{Topic: topic, Key: keyOf, EncryptionKeys: []string{"first", "second"}},
				{Topic: topic, Key: keyOf, EncryptionKeys: []string{"first"}, Chunking: true},
			} {
				p := producer(t, c, pulsarx.String(), o)
				for i := range 20 {
					p.SendAsync(t.Context(), fmt.Sprintf("a:%d", i), nil)
				}
				if err := p.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				keyPair(t, writing, "third", false)
			}
			bare, err := bareClient(t, s).CreateProducer(pulsar.ProducerOptions{Topic: topic, SendTimeout: -1, Encryption: &pulsar.ProducerEncryptionInfo{
				Keys: []string{"first"}, KeyReader: fileKeys{writing},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer bare.Close()
			if _, err := bare.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte("a:20"), Key: "a"}); err != nil {
				t.Fatal(err)
			}
			read := func(c *pulsarx.Client) (values []string) {
				err := pulsarx.Replay(t.Context(), c, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{topic}},
					pulsarx.Values(func(_ context.Context, batch []string) error {
						values = append(values, batch...)
						return nil
					}))
				if err != nil {
					t.Fatal(err)
				}
				return values
			}
			move("first.private.pem")
			if got := read(client(pulsarx.KeyFiles(reading))); len(got) != 41 || got[0] != "a:0" || got[40] != "a:20" {
				t.Errorf("%d messages: %q", len(got), got)
			}
			theirs, err := bareClient(t, s).CreateReader(pulsar.ReaderOptions{
				Topic: topic, StartMessageID: pulsar.EarliestMessageID(), Decryption: &pulsar.MessageDecryptionInfo{KeyReader: fileKeys{writing}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			if m, err := theirs.Next(timeout(t, 60*time.Second)); err != nil || string(m.Payload()) != "a:0" {
				t.Errorf("the client's own decryption: %v", err)
			}
			if s.broker != nil {
				for _, m := range s.broker.Messages(topic) {
					if strings.Contains(string(m.Value), "a:") {
						t.Errorf("the broker has %q", m.Value)
					}
				}
			}
		})
	}
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: inProcess(t).url, Encryption: pulsarx.KeyFiles(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for _, name := range []string{"missing", "../secret", ""} {
		_, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "t", EncryptionKeys: []string{name}})
		if err == nil {
			t.Errorf("a producer without the key %q is made", name)
		}
	}
}

// fileKeys are the keys of KeyFiles for the client's own encryption.
type fileKeys struct{ dir string }

func (k fileKeys) PublicKey(name string, _ map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return k.read(name, "public")
}

func (k fileKeys) PrivateKey(name string, _ map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return k.read(name, "private")
}

func (k fileKeys) read(name, kind string) (*crypto.EncryptionKeyInfo, error) {
	text, err := os.ReadFile(filepath.Join(k.dir, name+"."+kind+".pem"))
	return crypto.NewEncryptionKeyInfo(name, text, nil), err
}
