package window

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A snapshot is a magic with a version, and frames: a length, a payload that begins with its kind, and the payload's CRC-32C. The frames
// are one header, one for each partition and for each key in order, those of the ids, and an end with the number of frames.
const (
	snapshotMagic   = "tidewin\x01"
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
	partitionIdle   = 1
	partitionJoined = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot writes the whole state, key by key: windows, watermarks, what is fired and what is not, ids and counts. It is versioned, has
// checksums, and later versions of this package read it. Restoring it and going on is the same as having gone on.
func (o *Operator[K, V, A, R]) Snapshot(w io.Writer) error {
	s := &snapshotWriter{w: bufio.NewWriterSize(w, 1<<16)}
	s.write([]byte(snapshotMagic))
	o.snapshotHead(s)
	var acc []byte
	for _, id := range o.keys.sorted() {
		acc = o.snapshotKey(s, o.keys.at(id), acc)
	}
	s.ids(0, o.ids.young)
	s.ids(1, o.ids.old)
	s.begin(frameEnd)
	s.uint(s.frames)
	s.end()
	if s.err == nil {
		s.err = s.w.Flush()
	}
	if s.err != nil {
		return fmt.Errorf("window: snapshot: %w", s.err)
	}
	return nil
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

func (o *Operator[K, V, A, R]) snapshotKey(w *snapshotWriter, s *slot[K, A], acc []byte) []byte {
	w.begin(frameKey)
	w.buf = appendKey(w.buf, s.key, o.keys.order.number)
	w.int(int64(s.last))
	w.int(int64(s.expiry))
	w.uint(uint64(len(s.entries)))
	for i := range s.entries {
		e := &s.entries[i]
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
	if o.assigner.kind == perEvent {
		acc = o.snapshotTrail(w, s.trail, acc)
	}
	w.end()
	return acc
}

type snapshotWriter struct {
	w      *bufio.Writer
	buf    []byte
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
	s.write(binary.AppendUvarint(nil, uint64(len(s.buf))))
	s.write(s.buf)
	s.write(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(s.buf, castagnoli)))
}

func (s *snapshotWriter) ids(generation uint64, ids map[idHash]Timestamp) {
	hashes := make([]idHash, 0, len(ids))
	for h := range ids {
		hashes = append(hashes, h)
	}
	slices.SortFunc(hashes, func(a, b idHash) int { return bytes.Compare(a[:], b[:]) })
	for part := range slices.Chunk(hashes, idsInFrame) {
		s.begin(frameIDs)
		s.uint(generation)
		for _, h := range part {
			s.buf = append(s.buf, h[:]...)
			s.int(int64(ids[h]))
		}
		s.end()
	}
}

// Restore reads what Snapshot wrote into an operator that is new. Where Options.Partitions says how many there are, partitions of the
// snapshot beyond these are removed and others are as new. An error leaves the operator empty; it matches ErrSnapshot for what is no
// snapshot or damaged, ErrSnapshotMismatch for one of another assigner or other options, and ErrNotEmpty. Memory is bounded
// by what r really has.
func (o *Operator[K, V, A, R]) Restore(r io.Reader) error {
	return o.RestoreKeys(func(K) bool { return true }, r)
}

// RestoreKeys is Restore from the snapshots of several operators, of the keys for which keep is true: from three operators that shared
// the keys to two, for example. The watermark is the least of the snapshots'; a partition that several have stands at its greatest. Counts are added.
func (o *Operator[K, V, A, R]) RestoreKeys(keep func(K) bool, rs ...io.Reader) error {
	if o.keys.used > 0 || o.counts != [outcomes]uint64{} || o.marks.combined > MinTimestamp {
		return ErrNotEmpty
	}
	combined := MaxTimestamp
	for _, r := range rs {
		s := &restoring[K, V, A, R]{operator: o, keep: keep, r: bufio.NewReaderSize(r, 1<<16)}
		if err := s.run(); err != nil {
			o.reset()
			return err
		}
		combined = min(combined, s.watermark)
	}
	if n := o.options.Partitions; n > 0 {
		for _, p := range o.marks.numbers() {
			if p < 0 || p >= n {
				o.marks.Remove(p)
			}
		}
	}
	o.part = nil
	if len(rs) > 0 {
		o.marks.combined = max(o.marks.combined, combined)
	}
	return nil
}

// restoring is one snapshot being read.
type restoring[K Key, V, A, R any] struct {
	operator  *Operator[K, V, A, R]
	keep      func(K) bool
	r         *bufio.Reader
	buf       bytes.Buffer
	f         frame
	frames    uint64
	watermark Timestamp
	headed    bool
}

func (s *restoring[K, V, A, R]) run() error {
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return readError(err)
	}
	if string(magic) != snapshotMagic {
		if strings.HasPrefix(string(magic), snapshotMagic[:len(snapshotMagic)-1]) {
			return fmt.Errorf("%w: version %d", ErrSnapshot, magic[len(magic)-1])
		}
		return fmt.Errorf("%w: it does not begin as one", ErrSnapshot)
	}
	for {
		kind, err := s.next()
		if err != nil {
			return err
		}
		if s.headed == (kind == frameHeader) {
			return fmt.Errorf("%w: a header is missing or in the middle", ErrSnapshot)
		}
		switch kind {
		case frameHeader:
			err = s.header()
		case framePartition:
			err = s.partition()
		case frameKey:
			err = s.key()
		case frameIDs:
			err = s.ids()
		case frameEnd:
			if s.f.uint() != s.frames-1 || s.f.bad || len(s.f.b) > 0 {
				return fmt.Errorf("%w: frames are missing", ErrSnapshot)
			}
			return nil
		default:
			err = fmt.Errorf("%w: unknown frame %q", ErrSnapshot, kind)
		}
		if err != nil {
			return err
		}
		if s.f.bad || len(s.f.b) > 0 {
			return fmt.Errorf("%w: frame %d (%q) is malformed", ErrSnapshot, s.frames, kind)
		}
	}
}

func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut off", ErrSnapshot)
	}
	return fmt.Errorf("window: restore: %w", err)
}

// next reads a frame; its buffer grows with what comes and not with what its length says.
func (s *restoring[K, V, A, R]) next() (byte, error) {
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return 0, readError(err)
	}
	if n == 0 || n > maxFrame {
		return 0, fmt.Errorf("%w: a frame of %d bytes", ErrSnapshot, n)
	}
	s.buf.Reset()
	if _, err := io.CopyN(&s.buf, s.r, int64(n)+4); err != nil {
		return 0, readError(err)
	}
	b := s.buf.Bytes()
	payload := b[:n]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return 0, fmt.Errorf("%w: checksum of frame %d", ErrSnapshot, s.frames)
	}
	s.frames++
	s.f = frame{b: payload[1:]}
	return payload[0], nil
}

func (s *restoring[K, V, A, R]) header() error {
	s.headed = true
	o := s.operator
	assigner, options := string(s.f.bytes()), string(s.f.bytes())
	if s.f.bad {
		return nil
	}
	if assigner != o.assigner.key() || options != o.options.key() {
		return fmt.Errorf("%w: it has %q with %q, the operator %q with %q", ErrSnapshotMismatch, assigner, options, o.assigner.key(), o.options.key())
	}
	s.watermark = Timestamp(s.f.int())
	o.greatest = max(o.greatest, Timestamp(s.f.int()))
	o.ids.youngest = max(o.ids.youngest, Timestamp(s.f.int()))
	o.ids.newest = max(o.ids.newest, Timestamp(s.f.int()))
	for i := range o.counts {
		o.counts[i] += s.f.uint()
	}
	for _, n := range []*uint64{&o.totals.Results, &o.totals.Expired, &o.totals.ForgottenIDs} {
		*n += s.f.uint()
	}
	return nil
}

func (s *restoring[K, V, A, R]) partition() error {
	c := s.operator.marks
	p := c.part(int(s.f.int()))
	c.activate(p)
	watermark, greatest := Timestamp(s.f.int()), Timestamp(s.f.int())
	jumps, flags := s.f.uint(), s.f.uint()
	if jumps >= confirmingJumps || flags > partitionIdle|partitionJoined {
		s.f.bad = true
		return nil
	}
	p.watermark, p.greatest, p.jumps = max(p.watermark, watermark), max(p.greatest, greatest), int(jumps)
	p.aligned = flags&partitionJoined != 0
	if flags&partitionIdle != 0 {
		p.idle = true
		c.idle++
	}
	return nil
}

func (s *restoring[K, V, A, R]) key() error {
	o := s.operator
	k := decodeKey[K](&s.f)
	if s.f.bad {
		return nil
	}
	if !s.keep(k) {
		s.f.b = nil
		return nil
	}
	if o.keys.find(k) >= 0 {
		return fmt.Errorf("%w: a key comes twice", ErrSnapshot)
	}
	id := o.keys.get(k, 0)
	slot := o.keys.at(id)
	slot.last, slot.expiry = Timestamp(s.f.int()), Timestamp(s.f.int())
	if slot.expiry != noTimer && o.options.KeyExpiry > 0 {
		o.timers.add(slot.expiry, id)
	}
	for n := s.f.uint(); n > 0 && !s.f.bad; n-- {
		if err := s.entry(id, slot); err != nil {
			return err
		}
	}
	if err := s.cells(id, slot); err != nil || o.assigner.kind != perEvent || s.f.bad {
		return err
	}
	return s.trail(id, slot)
}

func (s *restoring[K, V, A, R]) entry(id int32, slot *slot[K, A]) error {
	o := s.operator
	e := entry[A]{window: Window{Timestamp(s.f.int()), Timestamp(s.f.int())}, timer: noTimer}
	flags := s.f.uint()
	e.pending, e.done, e.late, e.updated = flags&flagPending != 0, flags&flagDone != 0, flags&flagLate != 0, flags&flagUpdated != 0
	e.events, e.fresh, e.early = s.f.int(), s.f.int(), Timestamp(s.f.int())
	acc := s.f.bytes()
	var emitted []byte
	if flags&flagEmitted != 0 {
		emitted = s.f.bytes()
	}
	if s.f.bad || e.window.Start >= e.window.End || flags > 31 || e.events < 0 || e.fresh < 0 || !o.assigner.has(e.window) {
		s.f.bad = true
		return nil
	}
	if err := o.aggregate.Decode(acc, &e.acc); err != nil {
		return fmt.Errorf("%w: accumulator: %w", ErrSnapshot, err)
	}
	if flags&flagEmitted != 0 {
		e.emitted = new(A)
		if err := o.aggregate.Decode(emitted, e.emitted); err != nil {
			return fmt.Errorf("%w: accumulator: %w", ErrSnapshot, err)
		}
	}
	slot.entries = append(slot.entries, e)
	if o.assigner.kind != counting {
		o.schedule(id, &slot.entries[len(slot.entries)-1])
	}
	return nil
}

func (s *restoring[K, V, A, R]) cells(id int32, slot *slot[K, A]) error {
	o := s.operator
	n := s.f.uint()
	if n > 0 && o.sliding == nil {
		s.f.bad = true
	}
	if o.sliding == nil || s.f.bad {
		return nil
	}
	c := slot.cells
	for ; n > 0 && !s.f.bad; n-- {
		slice := s.f.int()
		if i := len(c.list); i > 0 && slice <= c.list[i-1].slice || !o.sliding.real(slice) {
			s.f.bad = true
			return nil
		}
		c.list = append(c.list, cell[A]{slice: slice})
		if err := o.aggregate.Decode(s.f.bytes(), &c.list[len(c.list)-1].acc); err != nil {
			return fmt.Errorf("%w: accumulator: %w", ErrSnapshot, err)
		}
	}
	if next, ok := o.nextDue(slot, o.sliding.firstOpen(s.watermark)); ok {
		o.require(c, next, id)
	} else {
		o.cleanCells(id, c)
	}
	return nil
}

func (s *restoring[K, V, A, R]) ids() error {
	m := s.operator.ids
	into := m.young
	switch s.f.uint() {
	case 0:
	case 1:
		into = m.old
	default:
		s.f.bad = true
	}
	for !s.f.bad && len(s.f.b) > 0 {
		if len(s.f.b) < len(idHash{}) {
			s.f.bad = true
			return nil
		}
		h := idHash(s.f.b[:len(idHash{})])
		s.f.b = s.f.b[len(idHash{}):]
		into[h] = Timestamp(s.f.int())
	}
	return nil
}

// frame is the payload of a frame, read from its front. bad says that it was not as expected.
type frame struct {
	b   []byte
	bad bool
}

func (f *frame) uint() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *frame) int() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *frame) bytes() []byte {
	n := f.uint()
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	return b
}

func appendKey[K Key](dst []byte, k K, number func(K) uint64) []byte {
	if number == nil {
		s := *(*string)(unsafe.Pointer(&k))
		return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return binary.AppendUvarint(dst, number(k))
}

func decodeKey[K Key](f *frame) (k K) {
	v := reflect.ValueOf(&k).Elem()
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(f.bytes()))
	case reflect.Uint32, reflect.Uint64:
		u := f.uint()
		f.bad = f.bad || v.OverflowUint(u)
		v.SetUint(u)
	default:
		i := int64(f.uint() ^ 1<<63)
		f.bad = f.bad || v.OverflowInt(i)
		v.SetInt(i)
	}
	return k
}
