package pulsartest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzFrame decodes arbitrary frames as the broker does on a connection: none may panic, or yield more than it holds.
func FuzzFrame(f *testing.F) {
	for kind := range command(70) {
		body := appendUint(appendString(appendUint(nil, 1, 7), 2, "name"), 3, 9)
		f.Add(appendFrame(nil, kind, body, 0)[4:])
	}
	f.Add(append(appendFrame(nil, cmdSend, appendUint(nil, 1, 1), 0)[4:], testEntry(nil, "payload")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parseFrame(b)
		if err != nil {
			return
		}
		if len(in.body)+len(in.entry) > len(b) {
			t.Fatal("more than there is")
		}
		d := decoder{rest: in.body}
		newRequest(in.kind).decode(&d)
		if e, err := newEntry(in.entry); err == nil && (e.messages < 1 || e.messages > maxBatch) {
			t.Fatal(e.messages)
		}
	})
}

// FuzzSession lets a client that has introduced itself send arbitrary commands: the first byte of each says which, the second how long its
// body is; a SEND carries the rest. The broker must outlive it, serve the next client, and close.
func FuzzSession(f *testing.F) {
	topic := appendString(nil, 1, "t")
	session := func(commands ...[]byte) []byte { return slices.Concat(commands...) }
	one := appendUint(nil, 1, 1)
	say := func(kind command, body []byte) []byte { return append([]byte{byte(kind), byte(len(body))}, body...) }
	produce := say(cmdProducer, appendUint(appendUint(topic, 2, 1), 3, 1))
	subscribe := func(kind uint64) []byte {
		body := appendUint(appendString(topic, 2, "s"), 3, kind)
		return say(cmdSubscribe, appendUint(appendUint(appendUint(body, 4, 1), 5, 2), 13, 1))
	}
	id := func(field protowire.Number) []byte {
		return appendMessageID(one, field, messageID{ledger: 1}, justEntry)
	}
	send := say(cmdSend, appendUint(one, 2, 1))
	for kind := range uint64(4) {
		f.Add(session(produce, subscribe(kind), say(cmdFlow, appendUint(one, 2, 9)), send, say(cmdAck, id(3)), say(cmdRedeliver, id(2)),
			say(cmdSeek, appendUint(id(3), 2, 4)), subscribe(kind), say(cmdGetLastMessageID, appendUint(one, 2, 5)), say(cmdUnsubscribe, appendUint(one, 2, 6))))
	}
	f.Add(session(say(cmdWatchTopicList, appendString(appendString(appendUint(one, 2, 1), 3, "public/default"), 4, ".*")), produce, say(cmdCloseProducer, appendUint(one, 2, 1))))
	f.Fuzz(func(t *testing.T, session []byte) {
		b, err := NewBroker(Options{})
		if err != nil {
			t.Fatal(err)
		}
		client, server := net.Pipe()
		b.serve(b.nodes[0], server)
		var drained sync.WaitGroup
		drained.Go(func() { _, _ = io.Copy(io.Discard, client) })
		frames := appendFrame(nil, cmdConnect, appendString(nil, 1, "fuzz"), 0)
		for len(session) >= 2 {
			kind, n := max(session[0], 1), min(int(session[1]), len(session)-2)
			body := session[2 : 2+n]
			session = session[2+n:]
			var entry []byte
			if kind == byte(cmdSend) {
				entry = testEntry(appendUint(appendString(nil, 1, "p"), 3, 1), string(body))
			}
			frames = append(appendFrame(frames, command(kind), body, len(entry)), entry...)
		}
		_, _ = client.Write(frames) // until the broker has had enough
		_ = client.Close()
		drained.Wait()
		b.Messages("t")
		b.Backlog("t", "s")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzEntry unpacks arbitrary payloads under arbitrary metadata.
func FuzzEntry(f *testing.F) {
	single := appendString(appendUint(nil, 3, 5), 2, "key")
	batch := append(binary.BigEndian.AppendUint32(nil, uint32(len(single))), append(single, "hello"...)...)
	f.Add(appendUint(nil, 11, 1), batch)
	f.Add(appendUint(nil, 11, 3), slices.Concat(batch, batch, batch))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(batch)
	_ = w.Close()
	f.Add(appendUint(appendUint(appendUint(nil, 11, 1), 8, compressedZlib), 9, uint64(len(batch))), z.Bytes())
	for _, compression := range []uint64{compressedLZ4, compressedZstd, compressedSnappy, 99} {
		f.Add(appendUint(appendUint(nil, 8, compression), 9, 10), []byte("not compressed"))
	}
	f.Add(appendUint(appendUint(nil, 8, compressedZlib), 9, 1<<31), []byte{})
	f.Fuzz(func(t *testing.T, meta, payload []byte) {
		if len(meta) > 1<<16 || len(payload) > 1<<16 {
			return
		}
		m, payload, err := splitEntry(testEntry(meta, string(payload)))
		if err != nil {
			return
		}
		if messages, err := unpack(nil, &m, payload, messageID{}); err == nil && len(messages) == 0 {
			t.Fatal("no message and no error")
		}
	})
}

// FuzzSchemas compares arbitrary definitions: it must end, and one that can be read reads itself.
func FuzzSchemas(f *testing.F) {
	for _, text := range []string{
		`{"type":"record","name":"R","fields":[{"name":"a","type":["null","R",{"type":"array","items":"R"}],"default":null}]}`,
		`{"type":"enum","name":"E","symbols":["A"]}`, `{"type":"fixed","name":"F","size":3}`, `{"type":"map","values":["int","string"]}`, `"int"`, `{}`,
	} {
		f.Add([]byte(text), []byte(`"long"`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, kind := range []schemaType{schemaAvro, schemaJSON, schemaProtobuf, schemaKeyValue, schemaProtobufNative} {
			one, two := &schema{kind: kind, data: a}, &schema{kind: kind, data: b}
			one.equal(two)
			for _, by := range strategies {
				_ = one.compatible([]storedSchema{{schema: *two}, {schema: *one}}, by) // either answer is right
			}
			if why := one.compatible([]storedSchema{{schema: *one}}, full); why != nil {
				t.Fatal(why)
			}
		}
	})
}

// testEntry makes an entry as a client sends it.
func testEntry(meta []byte, payload string) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	body = append(append(body, meta...), payload...)
	head := binary.BigEndian.AppendUint16(nil, magicChecksum)
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, castagnoli))
	return append(head, body...)
}

// The hashes are those of the Java and C++ clients.
func TestMurmur3(t *testing.T) {
	for key, want := range map[string]uint32{"k1": 2110152746, "k2": 1479966664, "key1": 462881061, "key2": 1936800180} {
		if got := murmur3([]byte(key)) & 0x7fffffff; got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
}

func TestParseTopic(t *testing.T) {
	for in, want := range map[string]string{
		"orders":                    "persistent://public/default/orders -1 persistent://public/default/orders",
		"a/b/c":                     "persistent://a/b/c -1 persistent://a/b/c",
		"persistent://a/b/c/d":      "persistent://a/b/c/d -1 persistent://a/b/c/d",
		"orders-partition-12":       "persistent://public/default/orders-partition-12 12 persistent://public/default/orders",
		"orders-partition-012":      "persistent://public/default/orders-partition-012 -1 persistent://public/default/orders-partition-012",
		"orders-partition--1":       "persistent://public/default/orders-partition--1 -1 persistent://public/default/orders-partition--1",
		"x-partition-1-partition-2": "persistent://public/default/x-partition-1-partition-2 2 persistent://public/default/x-partition-1",
		"":                          "", "a/b": "", "x://a/b/c": "", "persistent://a/b": "", "persistent://a//c": "", "persistent://a/b c/d": "",
		"non-persistent://public/default/orders": "non-persistent://public/default/orders -1 non-persistent://public/default/orders",
		"persistent://a/b/":                      "", "a/b/": "",
	} {
		got := ""
		if name, err := parseTopic(in); err == nil {
			got = fmt.Sprint(name.full, " ", name.partition, " ", name.base)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestCursor(t *testing.T) {
	top := (&Broker{}).newTopic(topicName{partition: -1})
	for range 10 {
		top.append(entry{messages: 3})
	}
	c := newCursor(0)
	check := func(markDelete int, backlog int64) {
		t.Helper()
		if c.markDelete != markDelete || c.backlog(top) != backlog {
			t.Errorf("mark-delete %d, backlog %d; want %d, %d", c.markDelete, c.backlog(top), markDelete, backlog)
		}
	}
	check(0, 30)
	c.ack(2)
	c.ack(2)
	check(0, 27)
	if left := c.ackBatch(0, 3, []uint64{0b101}); left != 2 {
		t.Error(left)
	}
	check(0, 26)
	if left := c.ackBatch(0, 3, []uint64{0b010}); left != 0 {
		t.Error(left)
	}
	check(1, 24)
	c.ack(1)
	check(3, 21)
	c.ackBatch(5, 3, []uint64{0b001})
	c.ack(7)
	check(3, 16)
	c.ackBefore(7)
	check(8, 6)
	c.ackBefore(2)
	c.ackBatch(9, 3, nil)
	check(8, 3)
	c.ack(8)
	check(10, 0)
	if len(c.acked) != 0 || len(c.partial) != 0 {
		t.Error("something is left", c)
	}
}

func TestBatch(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} {
		if got := newBatch(n).count(); got != n {
			t.Errorf("%d: %d", n, got)
		}
	}
	b := newBatch(130)
	b.and([]uint64{^uint64(0), 1}) // what a set does not reach is acknowledged
	if b.count() != 65 {
		t.Error(b.count())
	}
}

// Ids and indexes are each other's inverse, over ledgers too.
func TestPositions(t *testing.T) {
	b := &Broker{}
	top := b.newTopic(topicName{partition: 3})
	top.openLedger() // of which nothing was used
	for i := range 6 {
		if i == 2 || i == 5 {
			top.openLedger()
		}
		top.append(entry{messages: 1, published: int64(i * 10)})
	}
	for i := range 6 {
		if got, ok := top.find(top.id(i)); got != i || !ok {
			t.Errorf("%d: %d %t", i, got, ok)
		}
	}
	first := top.id(0).ledger
	for _, c := range []struct {
		id    messageID
		index int
	}{
		{messageID{ledger: -1, entry: -1}, 0},
		{messageID{ledger: first, entry: 77}, 2},
		{messageID{ledger: top.id(2).ledger, entry: -1}, 2},
		{messageID{ledger: top.id(5).ledger, entry: 1}, 6},
		{messageID{ledger: 1 << 62, entry: 0}, 6},
	} {
		if got := top.index(c.id); got != c.index {
			t.Errorf("%+v: %d, want %d", c.id, got, c.index)
		}
		if _, ok := top.find(c.id); ok {
			t.Errorf("%+v exists", c.id)
		}
	}
	for millis, want := range map[int64]int{-5: 0, 0: 0, 1: 1, 10: 1, 50: 5, 51: 6} {
		if got := top.indexAt(millis); got != want {
			t.Errorf("%d ms: %d, want %d", millis, got, want)
		}
	}
}
