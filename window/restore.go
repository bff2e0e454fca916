package window

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"reflect"
)

// Restore reads a whole snapshot, and the changes that follow it, into an operator that is new: up to the end of r. Where
// Options.Partitions says how many there are, partitions of the snapshot beyond these are removed and others are as new. An error
// leaves the operator empty; it matches ErrSnapshot for what is no snapshot, damaged, cut off, or changes that do not follow what is before
// them, ErrSnapshotMismatch for one of another assigner or other options, and ErrNotEmpty. Memory is bounded by what r really has.
func (o *Operator[K, V, A, R]) Restore(r io.Reader) error {
	return o.RestoreKeys(nil, r)
}

// RestoreKeys is Restore from the snapshots of several operators, each with its changes, of the keys for which keep is true: from three
// operators that shared the keys to two, for example. The watermark is the least of the snapshots'; a partition that several have stands
// at its greatest. Counts are added. Nil keeps all.
func (o *Operator[K, V, A, R]) RestoreKeys(keep func(K) bool, rs ...io.Reader) error {
	if o.keys.used > 0 || o.counts != [outcomes]uint64{} || o.marks.combined > MinTimestamp {
		return ErrNotEmpty
	}
	combined := MaxTimestamp
	var last digest
	for _, r := range rs {
		s := &restoring[K, V, A, R]{operator: o, keep: keep, r: bufio.NewReaderSize(r, 1<<16)}
		if err := s.run(); err != nil {
			o.reset()
			return err
		}
		if s.apply(); o.err != nil {
			return o.err
		}
		combined, last = min(combined, s.watermark), s.last
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
		o.marks.combined, o.marks.behind = max(o.marks.combined, combined), true
	}
	if len(rs) == 1 && keep == nil {
		o.save(last)
	}
	return nil
}

// restoring is one snapshot being read, with its changes. What later ones replace is kept here until the end.
type restoring[K Key, V, A, R any] struct {
	operator   *Operator[K, V, A, R]
	keep       func(K) bool
	r          *bufio.Reader
	buf        bytes.Buffer
	f          frame
	frames     uint64
	digest     hash.Hash
	last       digest // of the snapshot before
	headed     bool
	version    byte
	loads      bool // a key from a Spill, which is due as it was
	follows    bool // these are changes
	watermark  Timestamp
	greatest   Timestamp
	youngest   Timestamp
	newest     Timestamp
	counts     [outcomes]uint64
	totals     Counts
	parts      map[int]progress
	young, old map[idHash]Timestamp
}

// run reads a snapshot and what follows, to the end.
func (s *restoring[K, V, A, R]) run() error {
	s.young, s.old = map[idHash]Timestamp{}, map[idHash]Timestamp{}
	for {
		if err := s.snapshot(); err != nil {
			return err
		}
		if _, err := s.r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		s.follows = true
	}
}

// apply gives the operator what was read.
func (s *restoring[K, V, A, R]) apply() {
	o := s.operator
	o.greatest = max(o.greatest, s.greatest)
	o.ids.youngest, o.ids.newest = max(o.ids.youngest, s.youngest), max(o.ids.newest, s.newest)
	maps.Copy(o.ids.young, s.young)
	maps.Copy(o.ids.old, s.old)
	for i := range o.counts {
		o.counts[i] += s.counts[i]
	}
	o.totals.Results += s.totals.Results
	o.totals.Expired += s.totals.Expired
	o.totals.ForgottenIDs += s.totals.ForgottenIDs
	for number, from := range s.parts {
		p := o.marks.part(number)
		o.marks.activate(p)
		p.watermark, p.greatest, p.jumps, p.aligned = max(p.watermark, from.watermark), max(p.greatest, from.greatest), from.jumps, from.aligned
		if from.idle {
			p.idle = true
			o.marks.idle++
		}
	}
	for id := range o.keys.made {
		if k := o.keys.at(id); k.used && k.changed && o.load(id) {
			k.changed = false
			s.arm(id, k)
			o.spill()
		}
	}
}

// arm sees to it that a key is looked at when its windows are due.
func (s *restoring[K, V, A, R]) arm(id int32, k *slot[K, A]) {
	o := s.operator
	if k.expiry != noTimer && o.options.KeyExpiry > 0 {
		o.timers.add(k.expiry, id)
	}
	for i := range k.entries {
		if o.assigner.kind != counting {
			o.schedule(id, &k.entries[i])
		}
	}
	if o.sliding == nil {
		return
	}
	if k.cells.cleaning != noTimer {
		o.timers.add(k.cells.cleaning, id)
	}
	if next, ok := o.nextDue(k, o.sliding.firstOpen(s.watermark)); ok {
		o.require(k.cells, next, id)
	} else {
		o.cleanCells(id, k.cells)
	}
}

// snapshot reads one, whole or changes.
func (s *restoring[K, V, A, R]) snapshot() error {
	magic := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(s.r, magic); err != nil {
		return readError(err)
	}
	if string(magic[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("%w: it does not begin as one", ErrSnapshot)
	}
	if s.version = magic[len(snapshotMagic)]; s.version < 1 || s.version > snapshotVersion {
		return fmt.Errorf("%w: version %d", ErrSnapshot, s.version)
	}
	s.frames, s.headed, s.digest = 0, false, sha256.New()
	if s.follows {
		if err := s.following(); err != nil {
			return err
		}
	}
	for {
		kind, err := s.next()
		if err != nil {
			return err
		}
		if s.headed == (kind == frameHeader) {
			return fmt.Errorf("%w: a header is missing or in the middle", ErrSnapshot)
		}
		if kind == frameEnd {
			if s.f.uint() != s.frames-1 || s.f.bad || len(s.f.b) > 0 {
				return fmt.Errorf("%w: frames are missing", ErrSnapshot)
			}
			s.last = digest(s.digest.Sum(nil))
			return nil
		}
		if err := s.frame(kind); err != nil {
			return err
		}
		if s.f.bad || len(s.f.b) > 0 {
			return fmt.Errorf("%w: frame %d (%q) is malformed", ErrSnapshot, s.frames, kind)
		}
	}
}

// following reads which snapshot the changes are of.
func (s *restoring[K, V, A, R]) following() error {
	kind, err := s.next()
	switch {
	case err != nil:
		return err
	case kind != frameFollows:
		return fmt.Errorf("%w: a whole snapshot comes after another", ErrSnapshot)
	case string(s.f.b) != string(s.last[:]):
		return fmt.Errorf("%w: changes of another snapshot than the one before them", ErrSnapshot)
	}
	return nil
}

func (s *restoring[K, V, A, R]) frame(kind byte) error {
	switch kind {
	case frameHeader:
		return s.header()
	case framePartition:
		s.partition()
	case frameKey:
		return s.key()
	case frameGone:
		return s.gone()
	case frameIDs:
		s.ids()
	case frameFollows:
		return fmt.Errorf("%w: it is changes, without the snapshot that they are of", ErrSnapshot)
	default:
		return fmt.Errorf("%w: unknown frame %q", ErrSnapshot, kind)
	}
	return nil
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
	s.digest.Write(b[n:])
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
	for _, t := range []*Timestamp{&s.watermark, &s.greatest, &s.youngest, &s.newest} {
		*t = Timestamp(s.f.int())
	}
	for i := range s.counts {
		s.counts[i] = s.f.uint()
	}
	for _, n := range []*uint64{&s.totals.Results, &s.totals.Expired, &s.totals.ForgottenIDs} {
		*n = s.f.uint()
	}
	s.parts = map[int]progress{}
	return nil
}

func (s *restoring[K, V, A, R]) partition() {
	number := int(s.f.int())
	p := progress{watermark: Timestamp(s.f.int()), greatest: Timestamp(s.f.int())}
	jumps, flags := s.f.uint(), s.f.uint()
	if jumps >= confirmingJumps || flags > partitionIdle|partitionJoined {
		s.f.bad = true
		return
	}
	p.jumps, p.idle, p.aligned = int(jumps), flags&partitionIdle != 0, flags&partitionJoined != 0
	s.parts[number] = p
}

func (s *restoring[K, V, A, R]) key() error {
	o := s.operator
	k := decodeKey[K](&s.f)
	if s.f.bad {
		return nil
	}
	if s.keep != nil && !s.keep(k) {
		s.f.b = nil
		return nil
	}
	if id := o.keys.find(k); id >= 0 {
		if !s.follows || !o.keys.at(id).changed { // changed: this snapshot has it
			return fmt.Errorf("%w: a key comes twice", ErrSnapshot)
		}
		o.keys.drop(id)
	}
	o.spill()
	id := o.keys.get(k, 0)
	slot := o.keys.at(id)
	if err := s.state(id, slot); err != nil || s.f.bad {
		return err
	}
	o.keys.recount(id, slot, 0)
	return nil
}

// state reads what a key has.
func (s *restoring[K, V, A, R]) state(id int32, slot *slot[K, A]) error {
	slot.last, slot.expiry = Timestamp(s.f.int()), Timestamp(s.f.int())
	return s.windows(id, slot)
}

// windows reads the windows of a key.
func (s *restoring[K, V, A, R]) windows(id int32, slot *slot[K, A]) error {
	for n := s.f.uint(); n > 0 && !s.f.bad; n-- {
		if err := s.entry(slot); err != nil {
			return err
		}
	}
	if err := s.cells(slot); err != nil || s.operator.assigner.kind != perEvent || s.f.bad {
		return err
	}
	return s.trail(id, slot)
}

// gone reads that a key has nothing any more.
func (s *restoring[K, V, A, R]) gone() error {
	o := s.operator
	k := decodeKey[K](&s.f)
	if s.f.bad || s.keep != nil && !s.keep(k) {
		return nil
	}
	id := o.keys.find(k)
	if id < 0 || !s.follows || !o.keys.at(id).changed {
		return fmt.Errorf("%w: a key is gone that was not there", ErrSnapshot)
	}
	o.keys.drop(id)
	return nil
}

func (s *restoring[K, V, A, R]) entry(slot *slot[K, A]) error {
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
	if e.early != noTimer && (o.options.Trigger.EarlyInterval == 0 || e.early <= s.watermark || e.early >= e.window.last()) {
		s.f.bad = true // it would have fired, or with the window
	}
	if e.late && (!o.options.Deterministic || e.pending || e.early != noTimer) {
		s.f.bad = true // late events fire by themselves, when nothing more can come
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
	return nil
}

func (s *restoring[K, V, A, R]) cells(slot *slot[K, A]) error {
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
	if s.version > 1 && !s.f.bad {
		c.cleaning = Timestamp(s.f.int())
	}
	return nil
}

func (s *restoring[K, V, A, R]) ids() {
	into := s.young
	switch kind := s.f.uint(); {
	case kind == idsYoung:
	case kind == idsOld:
		into = s.old
	case kind == idsAnew && s.follows:
		clear(s.young)
		clear(s.old)
	default:
		s.f.bad = true
	}
	for !s.f.bad && len(s.f.b) > 0 {
		if len(s.f.b) < len(idHash{}) {
			s.f.bad = true
			return
		}
		h := idHash(s.f.b[:len(idHash{})])
		s.f.b = s.f.b[len(idHash{}):]
		into[h] = Timestamp(s.f.int())
	}
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
