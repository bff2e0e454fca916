package pulsartest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

const maxBrokers = 16

// node is one of the brokers of a cluster. They share everything but their clients: each topic is served by one of them. Broker.mu
// guards it.
type node struct {
	number   int
	address  string
	listener net.Listener // nil while it is stopped
}

// addNode starts another broker.
func (b *Broker) addNode() error {
	n := &node{number: len(b.nodes), address: "127.0.0.1:0"}
	err := b.startNode(n)
	if err == nil {
		n.address = n.listener.Addr().String()
		b.nodes = append(b.nodes, n)
	}
	return err
}

func (b *Broker) startNode(n *node) error {
	var local net.ListenConfig
	listener, err := local.Listen(context.Background(), "tcp", n.address)
	if err != nil {
		return err
	}
	if b.options.TLS != nil {
		listener = tls.NewListener(listener, b.options.TLS)
	}
	n.listener = listener
	b.running.Go(func() { b.accept(n, listener) })
	return nil
}

func (b *Broker) nodeURL(n *node) string { return b.scheme("pulsar", "pulsar+ssl") + n.address }

// URL is the service URL for clients, such as pulsar://127.0.0.1:40123. Of several brokers it names all.
func (b *Broker) URL() string {
	var addresses []string
	for _, n := range b.nodes {
		addresses = append(addresses, n.address)
	}
	return b.scheme("pulsar", "pulsar+ssl") + strings.Join(addresses, ",")
}

// Owner is the number of the broker that serves a topic, from 0; of a partitioned topic, name one partition. It fails where the topic
// has no name that could be one.
func (b *Broker) Owner(topic string) (int, error) {
	name, err := parseTopic(topic)
	if err != nil {
		return 0, fmt.Errorf("pulsartest: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owner(name).number, nil
}

// owner is the broker that serves a topic: the one that it was given to, or, if there is none that runs, the next in turn.
func (b *Broker) owner(name topicName) *node {
	if n := b.owners[name.full]; n != nil && n.listener != nil {
		return n
	}
	n := b.nextNode(b.lastOwner)
	b.lastOwner = n.number
	b.owners[name.full] = n
	return n
}

// nextNode is the broker after a number that runs; where none does, the next one.
func (b *Broker) nextNode(after int) *node {
	for i := range b.nodes {
		if n := b.nodes[(after+1+i)%len(b.nodes)]; n.listener != nil {
			return n
		}
	}
	return b.nodes[(after+1)%len(b.nodes)]
}

// served refuses a topic that another broker serves.
func (c *conn) served(s string) *refusal {
	name, err := parseTopic(s)
	if err != nil {
		return asRefusal(err)
	}
	if c.broker.owner(name) != c.node {
		return refuse(serviceNotReady, "Namespace bundle for topic (%s) not served by this instance. Please redo the lookup.", name.full)
	}
	return nil
}

// Move gives a topic, with all its partitions, to the broker with this number: its clients' producers and consumers are closed, and
// told where to go. It fails for a topic or a broker that does not exist, and for one that is stopped.
func (b *Broker) Move(topic string, to int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := b.parts(topic)
	if len(parts) == 0 {
		return fmt.Errorf("pulsartest: no topic %s", topic)
	}
	n, err := b.numbered(to)
	if err != nil {
		return err
	}
	if n.listener == nil {
		return fmt.Errorf("pulsartest: broker %d is stopped", to)
	}
	for _, t := range parts {
		b.owners[t.name.full] = n
		t.disconnect(n)
		t.restart()
	}
	return nil
}

func (b *Broker) numbered(i int) (*node, error) {
	if i < 0 || i >= len(b.nodes) {
		return nil, fmt.Errorf("pulsartest: no broker %d", i)
	}
	return b.nodes[i], nil
}

// Stop lets the broker with this number die: its connections break, and connecting to it is refused until [Broker.Start]. Its topics
// pass to the others, with all that is kept at a [Broker.Restart]; where no other runs, they are not served meanwhile. It fails for
// a number that no broker has, and does nothing for one that is stopped.
func (b *Broker) Stop(i int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.numbered(i)
	if err != nil || n.listener == nil {
		return err
	}
	err = n.listener.Close()
	b.drop(n)
	n.listener = nil
	return err
}

// drop breaks the connections of a broker, and leaves of its topics what a restart does.
func (b *Broker) drop(n *node) {
	for c := range b.conns {
		if c.node == n {
			c.close()
			c.leave() // now rather than when its reader notices: a client may be back at once
		}
	}
	for name, t := range b.topics {
		if b.owners[name] == n {
			t.restart()
		}
	}
}

// Start lets a broker that was stopped listen at its address again. Topics come to it when they are moved or unloaded, or when no
// other runs. It fails after Close, and where the port was taken meanwhile.
func (b *Broker) Start(i int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.numbered(i)
	switch {
	case err != nil:
		return err
	case b.closed:
		return errors.New("pulsartest: closed")
	case n.listener != nil:
		return nil
	}
	if err := b.startNode(n); err != nil {
		return fmt.Errorf("pulsartest: listen: %w", err)
	}
	return nil
}

// Restart is the death and return of all brokers: every connection breaks, and they answer on the same ports. Topics, messages,
// schemas and durable subscriptions with all that they have acknowledged are kept; readers' positions and redelivery counts are
// not. Faults stay in force. It fails after Close.
func (b *Broker) Restart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errors.New("pulsartest: closed")
	}
	for _, n := range b.nodes {
		b.drop(n)
	}
	return nil
}

func (r *lookupRequest) serve(c *conn) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	name, why := b.lookUp(r.name)
	if why != nil {
		r.fail(c, why)
		return
	}
	const redirect, connect = 0, 1
	owner, answer := b.owner(name), uint64(connect)
	if owner != c.node {
		answer = redirect
	}
	body := b.appendURLs(nil, 1, owner)
	body = appendUint(body, 3, answer)
	body = appendUint(body, 4, r.requestID)
	body = appendBool(body, 5, true) // the broker that is named decides
	if len(b.nodes) == 1 {
		body = appendBool(body, 8, true) // it is at the address that the client knows
	}
	c.reply(cmdLookupResponse, body)
}

// appendURLs appends a broker's URL in the field for what it speaks: the first, or the one behind it for TLS.
func (b *Broker) appendURLs(body []byte, first int, n *node) []byte {
	if b.options.TLS != nil {
		return appendString(body, protowire.Number(first+1), b.nodeURL(n))
	}
	return appendString(body, protowire.Number(first), b.nodeURL(n))
}

// unload lets a topic go: its clients look it up again, and find it at the next broker.
func (t *topic) unload() {
	b := t.broker
	b.owners[t.name.full] = b.nextNode(b.owner(t.name).number)
	t.disconnect(nil)
	t.restart()
}

// listeners are those of all brokers that run.
func (b *Broker) listeners() []net.Listener {
	var all []net.Listener
	for _, n := range b.nodes {
		if n.listener != nil {
			all = append(all, n.listener)
		}
	}
	return all
}
