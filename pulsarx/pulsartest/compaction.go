package pulsartest

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// compaction is what a topic's last compaction has left: of the entries before horizon those in left, which are the newest of their
// keys. Consumers that ask for it are given these, and all entries from horizon on; for all others nothing changes.
type compaction struct {
	horizon int
	left    map[int]entry
	last    place // of what is left, with the entry -1 for nothing
}

// place is a message of a topic: its entry, and its number in it.
type place struct{ entry, message int }

// compactionSubscription is the name of Pulsar's own subscription, which keeps what is not compacted yet.
const compactionSubscription = "__compaction"

// keyed is a message of an entry, as compaction sees it.
type keyed struct {
	key   string
	ok    bool // has a key
	empty bool // and deletes it
}

// compact does what Pulsar does by default: messages without a key go, and so do those whose key has a newer message, or a newest one
// that is empty. As there, one that finds nothing new ends at the last message that is left: what was taken away behind it is back, until
// the next.
func (t *topic) compact() {
	s := t.subscribed(compactionSubscription, true, 0)
	s.last.kind = exclusive.String()
	end := t.last(&consumer{compacted: true}).entry + 1
	if end == 0 {
		return // nothing is left
	}
	newest := map[string]place{}
	contents := make([][]keyed, end)
	for i := range end {
		contents[i] = t.entries[i].keyed()
		for k, m := range contents[i] {
			switch {
			case m.ok && m.empty:
				delete(newest, m.key)
			case m.ok:
				newest[m.key] = place{i, k}
			}
		}
	}
	c := &compaction{horizon: end, left: map[int]entry{}, last: place{entry: -1}}
	left := map[int][]int{} // messages by entry
	for _, p := range newest {
		left[p.entry] = append(left[p.entry], p.message)
		if p.entry > c.last.entry || p.entry == c.last.entry && p.message > c.last.message {
			c.last = p
		}
	}
	for i, messages := range left {
		c.left[i] = t.entries[i].keep(messages, len(contents[i]))
	}
	t.compacted = c
	s.cursor = newCursor(c.horizon)
}

// keyed lists the messages of an entry. An entry that cannot be read, as an encrypted batch, is one message.
func (e *entry) keyed() []keyed {
	meta, payload, err := splitEntry(e.data)
	if err != nil {
		return nil // it was read when it came
	}
	if meta.batched && !meta.encrypted {
		all, err := batchKeys(&meta, payload)
		if err == nil {
			return all
		}
	}
	return []keyed{{meta.key, meta.hasKey, meta.hasSize && meta.uncompressedSize == 0}} // Pulsar goes by what clients say
}

func batchKeys(meta *metadata, payload []byte) ([]keyed, error) {
	payload, err := decompress(meta, payload)
	if err != nil {
		return nil, err
	}
	all := make([]keyed, meta.messages)
	for i := range all {
		single, value, rest, err := nextInBatch(payload)
		if err != nil {
			return nil, err
		}
		all[i], payload = keyed{single.key, single.hasKey, len(value) == 0}, rest
	}
	return all, nil
}

// keep is the entry with these of its messages; the others of a batch are marked as compacted out.
func (e *entry) keep(messages []int, of int) entry {
	if len(messages) == of {
		return *e
	}
	meta, payload, err := splitEntry(e.data)
	if err == nil {
		payload, err = decompress(&meta, payload)
	}
	var batch []byte
	for i := 0; i < of && err == nil; i++ {
		var rest []byte
		if _, _, rest, err = nextInBatch(payload); err != nil {
			break
		}
		if slices.Contains(messages, i) {
			batch = append(batch, payload[:len(payload)-len(rest)]...)
		} else {
			batch = appendCompactedOut(batch)
		}
		payload = rest
	}
	if err != nil {
		return *e // it was read a moment ago
	}
	kept := *e
	kept.data = withPayload(e.data, batch)
	return kept
}

// appendCompactedOut appends a message of a batch that is there to be counted.
func appendCompactedOut(batch []byte) []byte {
	single := appendBool(appendUint(nil, 3, 0), 4, true) // payload_size, compacted_out
	return append(binary.BigEndian.AppendUint32(batch, uint32(len(single))), single...)
}

// withPayload is an entry with another payload, which is not compressed.
func withPayload(data, payload []byte) []byte {
	if binary.BigEndian.Uint16(data) == magicChecksum {
		data = data[6:]
	}
	n := binary.BigEndian.Uint32(data)
	var meta []byte
	for rest := data[4 : 4+n]; len(rest) > 0; {
		number, kind, tag := protowire.ConsumeTag(rest)
		size := tag + protowire.ConsumeFieldValue(number, kind, rest[tag:])
		if number != 8 && number != 9 { // compression, uncompressed_size
			meta = append(meta, rest[:size]...)
		}
		rest = rest[size:]
	}
	meta = appendUint(meta, 9, uint64(len(payload)))
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(meta))), meta...)
	body = append(body, payload...)
	out := binary.BigEndian.AppendUint16(nil, magicChecksum)
	return append(binary.BigEndian.AppendUint32(out, crc32.Checksum(body, castagnoli)), body...)
}

// byCompaction tells whether a consumer is given entry i by what compaction has left. As with Pulsar it then also gets what is
// acknowledged, beyond the first that is not.
func (t *topic) byCompaction(c *consumer, i int) bool {
	return c.compacted && t.compacted != nil && i < t.compacted.horizon
}

// entryFor is entry i as a consumer sees it, nil where compaction has taken it away.
func (t *topic) entryFor(c *consumer, i int) *entry {
	if !t.byCompaction(c, i) {
		return &t.entries[i]
	}
	if e, ok := t.compacted.left[i]; ok {
		return &e
	}
	return nil
}

// last is the place of the last message as a consumer sees it, with the entry -1 where there is none.
func (t *topic) last(c *consumer) place {
	n := len(t.entries) - 1
	switch {
	case n < 0:
		return place{entry: -1}
	case c.compacted && t.compacted != nil && n < t.compacted.horizon:
		return t.compacted.last
	}
	return place{n, t.entries[n].messages - 1}
}

// adminCompact compacts a topic, or all partitions of one, before it answers. Pulsar does so in the background.
func adminCompact(b *Broker, r *adminRequest) (any, error) {
	parts := b.parts(r.topic.full)
	if len(parts) == 0 {
		return nil, topicMissing(r.topic)
	}
	for _, t := range parts {
		t.compact()
	}
	return nil, nil
}

func adminCompaction(b *Broker, r *adminRequest) (any, error) {
	t, err := b.single(r)
	if err != nil {
		return nil, err
	}
	status := "NOT_RUN"
	if t.subs[compactionSubscription] != nil {
		status = "SUCCESS"
	}
	return map[string]string{"status": status, "lastError": ""}, nil
}
