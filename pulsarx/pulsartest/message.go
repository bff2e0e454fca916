package pulsartest

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Message is a stored message as [Broker.Messages] tells of it: taken out of its batch, decompressed, and put together where it
// was sent in chunks.
type Message struct {
	Key         string
	OrderingKey string
	Value       []byte            // nil for a tombstone
	Properties  map[string]string // nil without any
	// PublishTime is the producer's clock when it sent the message (or the first of its batch), EventTime the application's, zero where unset.
	PublishTime, EventTime time.Time
	// SchemaVersion is 8 bytes, big-endian, as the registry numbers a topic's schemas from 0; nil without a schema.
	SchemaVersion []byte
	Producer      string
	SequenceID    uint64
	Partition     int    // 0 and up, -1 in a topic without partitions
	ID            string // ledger:entry:partition:batch index, as clients print it; unique in a broker
}

// unpack appends the messages of an entry.
func unpack(to []Message, meta *metadata, payload []byte, id messageID) ([]Message, error) {
	if !meta.encrypted {
		var err error
		if payload, err = decompress(meta, payload); err != nil {
			return to, err
		}
	}
	m := newMessage(meta, payload, id)
	if !meta.batched || meta.encrypted {
		return append(to, m), nil
	}
	for i := range meta.messages {
		var single metadata
		var err error
		if single, m.Value, payload, err = nextInBatch(payload); err != nil {
			return to, err
		}
		m.Key, m.OrderingKey, m.Properties = single.key, string(single.orderingKey), single.properties
		m.EventTime, m.SequenceID = eventTime(single.event), single.sequenceID
		m.ID = fmt.Sprintf("%d:%d:%d:%d", id.ledger, id.entry, id.partition, i)
		to = append(to, m)
	}
	return to, nil
}

// newMessage is a message that is an entry of its own.
func newMessage(meta *metadata, value []byte, id messageID) Message {
	switch {
	case meta.nullValue:
		value = nil
	case value == nil:
		value = []byte{}
	}
	return Message{
		Key: meta.key, OrderingKey: string(meta.orderingKey), Value: value, Properties: meta.properties,
		PublishTime: time.UnixMilli(meta.published), EventTime: eventTime(meta.event), SchemaVersion: meta.schemaVersion,
		Producer: meta.producer, SequenceID: meta.sequenceID, Partition: id.partition,
		ID: fmt.Sprintf("%d:%d:%d:-1", id.ledger, id.entry, id.partition),
	}
}

func eventTime(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// nextInBatch takes the next message off a batch: SingleMessageMetadata and as many bytes as it says.
func nextInBatch(b []byte) (meta metadata, value, rest []byte, err error) {
	if len(b) < 4 {
		return meta, nil, nil, fmt.Errorf("%w: a batch ends early", errFrame)
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return meta, nil, nil, fmt.Errorf("%w: metadata of %d bytes in a batch with %d left", errFrame, n, len(b))
	}
	size := -1
	d := decoder{rest: b[:n]}
	for d.next() {
		switch d.num {
		case 1:
			meta.properties = addPair(meta.properties, &d)
		case 2:
			meta.key, meta.hasKey = d.string(), true
		case 3:
			size = int(int32(d.value))
		case 5:
			meta.event = int64(d.value)
		case 6:
			meta.keyB64 = d.bool()
		case 7:
			meta.orderingKey = append([]byte{}, d.bytes...)
		case 8:
			meta.sequenceID = d.value
		case 9:
			meta.nullValue = d.bool()
		}
	}
	b = b[n:]
	switch {
	case d.err != nil:
		return meta, nil, nil, fmt.Errorf("%w: %w", errFrame, d.err)
	case size < 0 && !meta.nullValue || size > len(b):
		return meta, nil, nil, fmt.Errorf("%w: a message of %d bytes in a batch with %d left", errFrame, size, len(b))
	case meta.nullValue:
		return meta, nil, b[max(size, 0):], nil
	default:
		return meta, b[:size:size], b[size:], nil
	}
}

// The numbers of CompressionType.
const (
	uncompressed = iota
	compressedLZ4
	compressedZlib
	compressedZstd
	compressedSnappy
)

// maxUncompressed bounds what a payload may unpack to: a client's batches stay below the largest message.
const maxUncompressed = 64 << 20

// decompress unpacks a payload to exactly the size that its metadata says.
func decompress(meta *metadata, payload []byte) ([]byte, error) {
	if meta.compression == uncompressed || meta.uncompressedSize == 0 {
		return payload, nil
	}
	size := int(meta.uncompressedSize)
	if size > maxUncompressed {
		return nil, fmt.Errorf("%w: %d bytes uncompressed", errFrame, size)
	}
	var out []byte
	var err error
	switch meta.compression {
	case compressedLZ4:
		out, err = unlz4(payload, size)
	case compressedZlib:
		out, err = inflate(payload, size)
	case compressedZstd:
		out, err = unzstd(payload, size)
	case compressedSnappy:
		out, err = unsnappy(payload, size)
	default:
		err = fmt.Errorf("compression %d", meta.compression)
	}
	if err == nil && len(out) != size {
		err = fmt.Errorf("%d bytes where the metadata says %d", len(out), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", errFrame, err)
	}
	return out, nil
}

func unlz4(payload []byte, size int) ([]byte, error) {
	if size > 255*len(payload) { // as far as LZ4 can go
		return nil, fmt.Errorf("%d bytes from %d", size, len(payload))
	}
	out := make([]byte, size)
	n, err := lz4.UncompressBlock(payload, out)
	return out[:max(n, 0)], err
}

func inflate(payload []byte, size int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // reads only
	return io.ReadAll(io.LimitReader(r, int64(size)+1))
}

func unzstd(payload []byte, size int) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxUncompressed))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(payload, make([]byte, 0, min(size, 1<<20)))
}

func unsnappy(payload []byte, size int) ([]byte, error) {
	if n, err := snappy.DecodedLen(payload); err != nil || n > size {
		return nil, fmt.Errorf("snappy block of %d bytes: %w", n, err)
	}
	return snappy.Decode(nil, payload)
}

// assembler puts chunks together, by the id that the chunks of one message share.
type assembler map[string]*chunked

type chunked struct {
	meta metadata
	data []byte
	next int
}

// add takes a chunk and returns the payload of its message once it is whole. A chunk out of order is dropped with what came
// before it, as consumers do.
func (a assembler) add(meta metadata, payload []byte) ([]byte, bool) {
	c := a[meta.uuid]
	if meta.chunk == 0 {
		c = &chunked{meta: meta}
		a[meta.uuid] = c
	}
	if c == nil || meta.chunk != c.next {
		delete(a, meta.uuid)
		return nil, false
	}
	c.data, c.next = append(c.data, payload...), c.next+1
	if c.next < meta.chunks {
		return nil, false
	}
	delete(a, meta.uuid)
	return c.data, true
}
