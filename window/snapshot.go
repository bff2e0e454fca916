package window

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"unsafe"
)

// A snapshot is a magic with a version, and frames: a length, a payload that begins with its kind, and the payload's CRC-32C. The frames
// are one header, one for each partition and for each key, those of the ids, and an end with the number of frames. What changed is
// written in the same form: it begins with a frame that names the snapshot before it by its digest, has only keys that changed, and those
// that are gone.
const (
	snapshotMagic   = "tidewin"
	snapshotVersion = 2 // 1 had no times of cleaning
	maxFrame        = 1 << 30
	idsInFrame      = 1024
	flagPending     = 1
	flagDone        = 2
	flagLate        = 4
	flagUpdated     = 8
	flagEmitted     = 16
	frameHeader     = 'h'
	framePartition  = 'p'
	frameKey        = 'k'
	frameIDs        = 'i'
	frameEnd        = 'e'
	frameFollows    = 'f'
	frameGone       = 'g'
	partitionIdle   = 1
	partitionJoined = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot writes the whole state, key by key: windows, watermarks, what is fired and what is not, ids and counts. It is versioned, has
// checksums, and later versions of this package read it. Restoring it and going on is the same as having gone on.
func (o *Operator[K, V, A, R]) Snapshot(w io.Writer) error { return o.snapshot(w, false) }

// SnapshotChanges writes what has changed since the last Snapshot, SnapshotChanges or Restore: the keys that an event or the watermark has
// touched, and those that are gone. A whole snapshot and what follows it, one after the other, are what Restore reads. Without a last one it
// writes a whole one, and so it does after an error. Who loses a snapshot that was written, or keeps several, begins anew with Snapshot.
func (o *Operator[K, V, A, R]) SnapshotChanges(w io.Writer) error {
	return o.snapshot(w, o.saved != digest{})
}

// digest identifies a snapshot among those that one operator writes; zero is none.
type digest [8]byte

func (o *Operator[K, V, A, R]) snapshot(w io.Writer, changes bool) error {
	s := &snapshotWriter{w: bufio.NewWriterSize(w, 1<<16), digest: sha256.New()}
	s.write(append([]byte(snapshotMagic), snapshotVersion))
	if changes {
		s.begin(frameFollows)
		s.buf = append(s.buf, o.saved[:]...)
		s.end()
	}
	o.snapshotHead(s)
	var acc []byte
	for _, id := range o.keys.sorted(changes) {
		acc = o.snapshotKey(s, id, acc)
	}
	if changes {
		for _, k := range o.keys.lost() {
			s.begin(frameGone)
			s.buf = appendKey(s.buf, k, o.keys.order.number)
			s.end()
		}
	}
	o.snapshotIDs(s, changes)
	s.begin(frameEnd)
	s.uint(s.frames)
	s.end()
	if s.err == nil {
		s.err = s.w.Flush()
	}
	if o.err != nil {
		return o.err
	}
	if s.err != nil {
		o.saved = digest{}
		return fmt.Errorf("window: snapshot: %w", s.err)
	}
	o.save(digest(s.digest.Sum(nil)))
	return nil
}

// save notes that all is in the snapshot of that digest.
func (o *Operator[K, V, A, R]) save(d digest) {
	o.saved = d
	o.keys.save()
	o.ids.save()
}

func (o *Operator[K, V, A, R]) snapshotHead(s *snapshotWriter) {
	s.begin(frameHeader)
	s.bytes([]byte(o.assigner.key()))
	s.bytes([]byte(o.options.key()))
	for _, t := range []Timestamp{o.marks.combined, o.greatest, o.ids.youngest, o.ids.newest} {
		s.int(int64(t))
	}
	for _, n := range o.counts {
		s.uint(n)
	}
	for _, n := range []uint64{o.totals.Results, o.totals.Expired, o.totals.ForgottenIDs} {
		s.uint(n)
	}
	s.end()
	for _, p := range o.marks.numbers() {
		m := o.marks.parts[p]
		s.begin(framePartition)
		s.int(int64(p))
		s.int(int64(m.watermark))
		s.int(int64(m.greatest))
		s.uint(uint64(m.jumps))
		s.uint(flag(m.idle, partitionIdle) | flag(m.aligned, partitionJoined))
		s.end()
	}
}

func flag(set bool, bit uint64) uint64 {
	if set {
		return bit
	}
	return 0
}

func (o *Operator[K, V, A, R]) snapshotKey(w *snapshotWriter, id int32, acc []byte) []byte {
	s := o.keys.at(id)
	w.begin(frameKey)
	w.buf = appendKey(w.buf, s.key, o.keys.order.number)
	w.int(int64(s.last))
	w.int(int64(s.expiry))
	if s.spilled {
		acc = o.snapshotSpilled(w, id, s, acc)
	} else {
		acc = o.snapshotWindows(w, s, s.entries, acc)
	}
	w.end()
	return acc
}

// snapshotWindows appends what a key has, of its own windows these.
func (o *Operator[K, V, A, R]) snapshotWindows(w *snapshotWriter, s *slot[K, A], entries []entry[A], acc []byte) []byte {
	w.uint(uint64(len(entries)))
	for i := range entries {
		e := &entries[i]
		w.int(int64(e.window.Start))
		w.int(int64(e.window.End))
		w.uint(flag(e.pending, flagPending) | flag(e.done, flagDone) | flag(e.late, flagLate) | flag(e.updated, flagUpdated) |
			flag(e.emitted != nil, flagEmitted))
		w.int(e.events)
		w.int(e.fresh)
		w.int(int64(e.early))
		acc = o.aggregate.Append(acc[:0], &e.acc)
		w.bytes(acc)
		if e.emitted != nil {
			acc = o.aggregate.Append(acc[:0], e.emitted)
			w.bytes(acc)
		}
	}
	var live []cell[A]
	if s.cells != nil {
		live = s.cells.live()
	}
	w.uint(uint64(len(live)))
	for i := range live {
		w.int(live[i].slice)
		acc = o.aggregate.Append(acc[:0], &live[i].acc)
		w.bytes(acc)
	}
	switch { // when what is over is dropped, and with it what there is room for, depends on how it came
	case s.cells != nil:
		w.int(int64(s.cells.cleaning))
	case o.assigner.kind == perEvent:
		acc = o.snapshotTrail(w, s.trail, acc)
		w.int(int64(s.trail.cleaning))
	}
	return acc
}

type snapshotWriter struct {
	w      *bufio.Writer
	digest hash.Hash // of the checksums
	buf    []byte
	sum    []byte
	frames uint64
	err    error
}

func (s *snapshotWriter) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

func (s *snapshotWriter) begin(kind byte) { s.buf = append(s.buf[:0], kind) }

func (s *snapshotWriter) uint(n uint64) { s.buf = binary.AppendUvarint(s.buf, n) }

func (s *snapshotWriter) int(n int64) { s.buf = binary.AppendVarint(s.buf, n) }

func (s *snapshotWriter) bytes(b []byte) {
	s.uint(uint64(len(b)))
	s.buf = append(s.buf, b...)
}

func (s *snapshotWriter) end() {
	if len(s.buf) > maxFrame && s.err == nil {
		s.err = fmt.Errorf("a key has %d bytes of state, more than %d", len(s.buf), maxFrame)
	}
	s.frames++
	s.sum = binary.AppendUvarint(s.sum[:0], uint64(len(s.buf)))
	s.write(s.sum)
	s.write(s.buf)
	s.sum = binary.LittleEndian.AppendUint32(s.sum[:0], crc32.Checksum(s.buf, castagnoli))
	s.digest.Write(s.sum)
	s.write(s.sum)
}

// snapshotIDs writes the ids, or those that were added where no others are gone.
func (o *Operator[K, V, A, R]) snapshotIDs(s *snapshotWriter, changes bool) {
	if changes && !o.ids.turned {
		s.ids(idsYoung, o.ids.young, slices.Clone(o.ids.added))
		return
	}
	if changes {
		s.begin(frameIDs)
		s.uint(idsAnew)
		s.end()
	}
	s.ids(idsYoung, o.ids.young, slices.Collect(maps.Keys(o.ids.young)))
	s.ids(idsOld, o.ids.old, slices.Collect(maps.Keys(o.ids.old)))
}

// What the ids of a frame are.
const (
	idsYoung = iota // in changes, added to those before
	idsOld
	idsAnew // those before are gone
)

func (s *snapshotWriter) ids(kind uint64, times map[idHash]Timestamp, hashes []idHash) {
	slices.SortFunc(hashes, func(a, b idHash) int { return bytes.Compare(a[:], b[:]) })
	for part := range slices.Chunk(hashes, idsInFrame) {
		s.begin(frameIDs)
		s.uint(kind)
		for _, h := range part {
			s.buf = append(s.buf, h[:]...)
			s.int(int64(times[h]))
		}
		s.end()
	}
}

func appendKey[K Key](dst []byte, k K, number func(K) uint64) []byte {
	if number == nil {
		s := *(*string)(unsafe.Pointer(&k))
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return binary.AppendUvarint(dst, number(k))
}
