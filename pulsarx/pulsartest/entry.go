package pulsartest

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strconv"
)

// entry is what one SEND stores: a message, or a batch of them, or a chunk of one. Its bytes are kept as they were sent.
type entry struct {
	data      []byte // checksum, metadata and payload, as a MESSAGE carries them on
	offset    int64  // messages before this one in its topic
	messages  int    // in the batch, 1 without one
	batched   bool
	published int64  // milliseconds since 1970, by the producer's clock
	deliverAt int64  // the same; 0: at once
	hash      uint32 // of the key, for Key_Shared
	uuid      string // of the message that this is a chunk of
	chunks    int    // that it has
	chunk     int
}

// metadata is MessageMetadata, as far as a broker needs it.
type metadata struct {
	producer         string
	sequenceID       uint64
	published, event int64
	properties       map[string]string
	key              string
	keyB64, hasKey   bool
	orderingKey      []byte
	compression      uint64
	uncompressedSize uint32
	hasSize          bool
	messages         int
	batched          bool
	schemaVersion    []byte
	deliverAt        int64
	marker           bool
	nullValue        bool
	encrypted        bool
	uuid             string
	chunks, chunk    int
}

func (m *metadata) decode(b []byte) error {
	m.messages = 1
	d := decoder{rest: b}
	for d.next() {
		switch d.num {
		case 1:
			m.producer = d.string()
		case 2:
			m.sequenceID = d.value
		case 3:
			m.published = int64(d.value)
		case 4:
			m.properties = addPair(m.properties, &d)
		case 6:
			m.key, m.hasKey = d.string(), true
		case 8:
			m.compression = d.value
		case 9:
			m.uncompressedSize, m.hasSize = uint32(d.value), true
		case 11:
			m.messages, m.batched = int(int32(d.value)), true
		case 12:
			m.event = int64(d.value)
		case 13:
			m.encrypted = true
		case 16:
			m.schemaVersion = append([]byte{}, d.bytes...)
		case 17:
			m.keyB64 = d.bool()
		case 18:
			m.orderingKey = append([]byte{}, d.bytes...)
		case 19:
			m.deliverAt = int64(d.value)
		case 20:
			m.marker = true
		case 25:
			m.nullValue = d.bool()
		default:
			m.decodeChunk(&d)
		}
	}
	return d.err
}

// decodeChunk reads what is said of a chunk.
func (m *metadata) decodeChunk(d *decoder) {
	switch d.num {
	case 26:
		m.uuid = d.string()
	case 27:
		m.chunks = int(int32(d.value))
	case 29:
		m.chunk = int(int32(d.value))
	}
}

// stickyKey is what Key_Shared distributes by: the ordering key, else the key, else something that differs for each entry.
func (m *metadata) stickyKey() []byte {
	switch {
	case len(m.orderingKey) > 0:
		return m.orderingKey
	case m.hasKey && m.keyB64:
		if key, err := base64.StdEncoding.DecodeString(m.key); err == nil {
			return key
		}
		return []byte(m.key)
	case m.hasKey:
		return []byte(m.key)
	default:
		return strconv.AppendUint([]byte(m.producer+"-"), m.sequenceID, 10)
	}
}

// maxBatch bounds what one entry may claim to hold: the smallest message of a batch takes 6 bytes, and compresses well, but a
// broker's ack sets grow with the claim.
const maxBatch = 1 << 20

// newEntry checks what a SEND carries and copies it.
func newEntry(b []byte) (entry, error) {
	meta, _, err := splitEntry(b)
	if err != nil {
		return entry{}, err
	}
	return entry{
		data:      append(make([]byte, 0, len(b)), b...),
		messages:  meta.messages,
		batched:   meta.batched,
		published: meta.published,
		deliverAt: meta.deliverAt,
		uuid:      meta.uuid,
		chunks:    meta.chunks,
		chunk:     meta.chunk,
		hash:      keyHash(meta.stickyKey()),
	}, nil
}

// splitEntry verifies an entry's checksum and takes metadata and payload apart.
func splitEntry(b []byte) (metadata, []byte, error) {
	var meta metadata
	if len(b) >= 6 && binary.BigEndian.Uint16(b) == magicChecksum {
		want := binary.BigEndian.Uint32(b[2:])
		b = b[6:]
		if crc32.Checksum(b, castagnoli) != want {
			return meta, nil, errChecksum
		}
	}
	if len(b) < 4 {
		return meta, nil, fmt.Errorf("%w: no metadata", errFrame)
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return meta, nil, fmt.Errorf("%w: metadata of %d bytes in an entry of %d", errFrame, n, len(b))
	}
	if err := meta.decode(b[4 : 4+n]); err != nil {
		return meta, nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if meta.messages < 1 || meta.messages > maxBatch {
		return meta, nil, fmt.Errorf("%w: a batch of %d messages", errFrame, meta.messages)
	}
	return meta, b[4+n:], nil
}

// keyHash is the hash that Pulsar's brokers and clients distribute keys by.
func keyHash(key []byte) uint32 { return murmur3(key) & 0x7fffffff }

// murmur3 is MurmurHash3_x86_32 with seed 0, the hash that Pulsar's clients and brokers share.
func murmur3(key []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	var h uint32
	n := uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * c1
		h ^= bits.RotateLeft32(k, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	if len(key) > 0 {
		var last [4]byte
		copy(last[:], key)
		k := binary.LittleEndian.Uint32(last[:]) * c1
		h ^= bits.RotateLeft32(k, 15) * c2
	}
	h ^= n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
