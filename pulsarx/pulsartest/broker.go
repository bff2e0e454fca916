package pulsartest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

const (
	serverVersion   = "Pulsar Server 4.0.8 (pulsartest)"
	protocolVersion = 20
	maxPartitions   = 1 << 14
)

// Options configure a [Broker]. The zero value is a broker without topics and without authentication.
type Options struct {
	// Partitions names topics that exist from the start and their numbers of partitions, 0 for a topic without. Any other topic
	// is created, without partitions, when a client first produces to it or subscribes to it.
	Partitions map[string]int
	// Token, if set, is what every client must present by token authentication, and as bearer token on the admin routes.
	Token string
	// Authenticate decides about credentials in the place of Token: an error refuses them. Clients are told only that they are. It is
	// called for every connection, for every answer to [Broker.Reauthenticate] and for every call of an admin route, from several
	// goroutines.
	Authenticate func(Credentials) error
	// TLS, if set, makes the broker speak TLS, on both of its ports: its URLs then begin with pulsar+ssl:// and https://. It needs a
	// certificate for 127.0.0.1; with ClientAuth it asks for those of clients.
	TLS *tls.Config
	// Brokers is how many brokers serve the topics, 1 to 16, by default 1. Each topic, and each partition, is served by one of them;
	// the others redirect who looks it up there. [Broker.Move], [Broker.Stop] and [Broker.Start] change who does.
	Brokers int
	// Deduplication drops a message whose sequence id its producer name has already stored, in every topic, as Pulsar does with
	// brokerDeduplicationEnabled. Off by default, there as here.
	Deduplication bool
}

func (o Options) validate() error {
	var errs []error
	for name, n := range o.Partitions {
		if t, err := parseTopic(name); err != nil {
			errs = append(errs, fmt.Errorf("pulsartest: partitions: %w", err))
		} else if t.namespace != defaultNamespace {
			errs = append(errs, fmt.Errorf("pulsartest: partitions: %s: only namespace %s exists at the start", name, defaultNamespace))
		}
		if n < 0 || n > maxPartitions {
			errs = append(errs, fmt.Errorf("pulsartest: partitions: %s: %d is not between 0 and %d", name, n, maxPartitions))
		}
	}
	if o.Brokers < 0 || o.Brokers > maxBrokers {
		errs = append(errs, fmt.Errorf("pulsartest: %d brokers are not between 1 and %d", o.Brokers, maxBrokers))
	}
	if o.Token != "" && o.Authenticate != nil {
		errs = append(errs, errors.New("pulsartest: Token and Authenticate are both set"))
	}
	return errors.Join(errs...)
}

// Broker is a Pulsar broker in this process, or a cluster of them, listening on ports of 127.0.0.1. All methods may be called at any time from any
// goroutine. Close it when the test ends.
type Broker struct {
	options   Options
	admin     *http.Server
	adminAddr string
	running   sync.WaitGroup
	armed     atomic.Int64 // len(faults)

	// mu guards everything below, and the state of topics, subscriptions, producers and consumers. Nothing waits under it:
	// what clients are told goes to their connections' outboxes.
	mu           sync.Mutex
	closed       bool
	nodes        []*node          // the list itself stays as it is after NewBroker
	owners       map[string]*node // by the full name of a topic
	lastOwner    int
	conns        map[*conn]struct{}
	lastConn     int64
	lastLedger   int64
	lastProducer int64
	tenants      map[string]*tenant
	namespaces   map[string]*namespace
	partitions   map[string]int    // by the full name of a partitioned topic
	topics       map[string]*topic // by full name; each partition is one
	schemas      map[string][]storedSchema
	isolation    map[string]json.RawMessage
	faults       []*armedFault
	hits         []Hit
}

// tenant and namespace are what the admin routes know of them.
type (
	tenant struct {
		Admins   []string `json:"adminRoles,omitzero"`
		Clusters []string `json:"allowedClusters"`
	}
	namespace struct {
		policies policies
		topics   map[string]policies // by the full name of a topic, without a partition's suffix
	}
)

func newNamespace() *namespace {
	return &namespace{policies: policies{}, topics: map[string]policies{}}
}

func newTenant() *tenant { return &tenant{Admins: []string{}, Clusters: []string{clusterName}} }

const defaultNamespace = "public/default"

// NewBroker starts a broker. It fails on impossible options, or where 127.0.0.1 cannot be listened on.
func NewBroker(o Options) (*Broker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		options: o, conns: map[*conn]struct{}{}, topics: map[string]*topic{}, partitions: map[string]int{},
		tenants:    map[string]*tenant{"public": newTenant(), "pulsar": newTenant()},
		namespaces: map[string]*namespace{defaultNamespace: newNamespace(), "public/functions": newNamespace(), "pulsar/system": newNamespace()},
		schemas:    map[string][]storedSchema{}, isolation: map[string]json.RawMessage{},
		owners: map[string]*node{}, lastOwner: -1,
	}
	for name, n := range o.Partitions {
		t, err := parseTopic(name)
		if err != nil {
			return nil, err
		}
		b.createTopic(t, n)
	}
	if err := b.listen(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Broker) listen() error {
	b.mu.Lock()
	var err error
	for range max(b.options.Brokers, 1) {
		err = errors.Join(err, b.addNode())
	}
	b.mu.Unlock()
	b.admin = &http.Server{Handler: b.adminHandler(), ReadHeaderTimeout: 10 * time.Second}
	var local net.ListenConfig
	admin, failed := local.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err = errors.Join(err, failed); err != nil {
		return errors.Join(fmt.Errorf("pulsartest: listen: %w", err), b.Close())
	}
	b.adminAddr = admin.Addr().String()
	if b.options.TLS != nil {
		admin = tls.NewListener(admin, b.options.TLS)
	}
	b.running.Go(func() { _ = b.admin.Serve(admin) }) // ends with Close
	return nil
}

func (b *Broker) scheme(plain, secure string) string {
	if b.options.TLS != nil {
		return secure + "://"
	}
	return plain + "://"
}

// AdminURL is the base URL of the admin routes, such as http://127.0.0.1:40124. It also serves as service URL for clients that look
// topics up by HTTP.
func (b *Broker) AdminURL() string { return b.scheme("http", "https") + b.adminAddr }

// Close disconnects everybody and ends all of the broker's goroutines. What was stored can still be asked for.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		c.close()
	}
	listeners := b.listeners()
	for _, n := range b.nodes {
		n.listener = nil
	}
	b.mu.Unlock()
	err := b.admin.Close()
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	b.running.Wait()
	return err
}

func (b *Broker) accept(n *node, listener net.Listener) {
	for {
		socket, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: they come back
			continue
		}
		b.serve(n, socket)
	}
}

func (b *Broker) serve(n *node, socket net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || n.listener == nil {
		_ = socket.Close() // nobody has seen it
		return
	}
	b.lastConn++
	c := newConn(b, n, b.lastConn, socket)
	b.conns[c] = struct{}{}
	b.running.Go(c.write)
	b.running.Go(func() {
		c.read()
		b.mu.Lock()
		c.leave()
		b.mu.Unlock()
		c.finish()
	})
}

// topic finds the topic of a name, made if create says so. Broker.mu is held, here and below.
func (b *Broker) topic(s string, create bool) (*topic, *refusal) {
	name, err := parseTopic(s)
	if err != nil {
		return nil, asRefusal(err)
	}
	if t := b.topics[name.full]; t != nil {
		return t, nil
	}
	if b.namespaces[name.namespace] == nil {
		return nil, refuse(serviceNotReady, "Namespace %s of topic %s is not served here: it does not exist", name.namespace, name.full)
	}
	if n, ok := b.partitions[name.full]; ok {
		return nil, refuse(notAllowedError, "Topic %s has %d partitions: use one of them", name.full, n)
	}
	n, ok := b.partitions[name.base]
	if allowed, _ := b.autoCreation(name); ok && name.partition >= n || !create || !allowed && !ok {
		return nil, refuse(topicNotFound, "Topic %s does not exist", name.full)
	}
	return b.addTopic(name), nil
}

func (b *Broker) addTopic(name topicName) *topic {
	t := b.newTopic(name)
	b.topics[name.full] = t
	b.tellWatchers(name, true)
	return t
}

// createTopic makes a topic with n partitions, or without.
func (b *Broker) createTopic(name topicName, n int) {
	if n == 0 {
		b.addTopic(name)
		return
	}
	b.partitions[name.full] = n
	for i := range n {
		p, err := parseTopic(topicname.Partition(name.full, i))
		if err == nil && b.topics[p.full] == nil { // err: a partition's name is as good as its topic's
			b.addTopic(p)
		}
	}
}

// parts are the topics of a name: itself, or its partitions in order.
func (b *Broker) parts(s string) []*topic {
	name, err := parseTopic(s)
	if err != nil {
		return nil
	}
	if t := b.topics[name.full]; t != nil {
		return []*topic{t}
	}
	var parts []*topic
	for i := range b.partitions[name.full] {
		if t := b.topics[topicname.Partition(name.full, i)]; t != nil {
			parts = append(parts, t)
		}
	}
	return parts
}

func (b *Broker) deduplicates(t *topic) bool {
	return b.on(t.name, "deduplicationEnabled", "deduplication", b.options.Deduplication)
}

// Messages are all messages that a topic has ever stored, acknowledged or not, in order; those of a partitioned topic one
// partition after the other. What cannot be unpacked, as an encrypted batch, comes as its stored bytes. A topic that does not
// exist has none.
func (b *Broker) Messages(topic string) []Message {
	type stored struct {
		data []byte
		id   messageID
	}
	var all []stored
	b.mu.Lock()
	for _, t := range b.parts(topic) {
		for i := range t.entries {
			all = append(all, stored{data: t.entries[i].data, id: t.id(i)})
		}
	}
	b.mu.Unlock()
	var messages []Message
	chunks := assembler{}
	for _, s := range all {
		meta, payload, err := splitEntry(bytes.Clone(s.data)) // the values are the caller's
		if err == nil && meta.chunks > 1 {
			first := chunks[meta.uuid]
			whole, done := chunks.add(meta, payload)
			if !done {
				continue
			}
			meta, payload = first.meta, whole
		}
		unpacked := messages
		if err == nil {
			unpacked, err = unpack(messages, &meta, payload, s.id)
		}
		if err != nil {
			unpacked = append(messages, newMessage(&meta, payload, s.id))
		}
		messages = unpacked
	}
	return messages
}

// Backlog counts the messages of a topic, over all its partitions, that a subscription has not acknowledged: single messages,
// also within batches. It is 0 where topic or subscription does not exist: a test that waits for 0 has to begin when the application has
// subscribed and the messages are sent.
func (b *Broker) Backlog(topic, subscription string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int64(0)
	for _, t := range b.parts(topic) {
		if s := t.subs[subscription]; s != nil {
			n += s.cursor.backlog(t)
		}
	}
	return int(n)
}

func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return refuse(unknownError, "%v", err)
}

// lookUp is the name of a topic whose namespace exists.
func (b *Broker) lookUp(s string) (topicName, *refusal) {
	name, err := parseTopic(s)
	if err != nil {
		return name, asRefusal(err)
	}
	if b.namespaces[name.namespace] == nil {
		return name, refuse(topicNotFound, "Namespace not found")
	}
	return name, nil
}

func (r *partitionsRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	name, why := c.broker.lookUp(r.name)
	if why != nil {
		r.fail(c, why)
		return
	}
	switch {
	case c.broker.exists(name):
	case r.create:
		if allowed, n := c.broker.autoCreation(name); allowed && n > 0 {
			c.broker.createTopic(name, n)
		}
	case !name.transient():
		r.fail(c, refuse(topicNotFound, "Topic %s does not exist", name.full))
		return
	}
	body := appendUint(nil, 1, uint64(c.broker.partitions[name.full]))
	body = appendUint(body, 2, r.requestID)
	c.reply(cmdPartitionedMetadataResp, appendUint(body, 3, 0))
}

func (r *partitionsRequest) fail(c *conn, why *refusal) {
	body := appendUint(nil, 2, r.requestID)
	body = appendUint(body, 3, 1)
	body = appendUint(body, 4, uint64(why.code))
	c.reply(cmdPartitionedMetadataResp, appendString(body, 5, why.text))
}

func (r *lookupRequest) fail(c *conn, why *refusal) {
	body := appendUint(nil, 3, 2)
	body = appendUint(body, 4, r.requestID)
	body = appendUint(body, 6, uint64(why.code))
	c.reply(cmdLookupResponse, appendString(body, 7, why.text))
}
