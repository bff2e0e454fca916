package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"
)

// The limits on a payload that its own length does not set: nesting, and memory for what takes few bytes or none (nulls, empty
// records, the digits of decimals, defaults).
const (
	maxDepth    = 10_000
	freeBudget  = 16 << 20
	budgetBytes = 8  // for each byte of the payload
	freeItem    = 64 // what an item that takes no bytes costs
)

var (
	errShort  = errors.New("the payload ends early")
	errDepth  = fmt.Errorf("nested more than %d deep", maxDepth)
	errLong   = errors.New("a number is too long")
	errBudget = errors.New("the payload asks for more memory than its length allows")
)

// pathError says where in a value an error is.
type pathError struct {
	path  string
	depth int
	err   error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// inside puts a field's name before the path of an error, unless that is long enough: a hostile payload may nest at will.
func inside(name string, err error) error {
	e, ok := err.(*pathError) //nolint:errorlint // what has been wrapped otherwise has its own text
	if !ok {
		return &pathError{name, 1, err}
	}
	if e.depth < 16 {
		e.path = name + "." + e.path
		e.depth++
	}
	return e
}

// decoder reads a payload.
type decoder struct {
	data   []byte // what is left
	depth  int
	budget int
	slab   []byte // room for short strings, shared with those that were read before
}

// The room for short strings is taken slabSize bytes at a time: one that is kept keeps at most that.
const (
	slabSize    = 1 << 10
	shortString = 1 << 7
)

// string is b as a string of its own.
func (d *decoder) string(b []byte) string {
	if len(b) == 0 || len(b) > shortString {
		return string(b)
	}
	if len(b) > len(d.slab) {
		d.slab = make([]byte, slabSize)
	}
	n := copy(d.slab, b)
	s := unsafe.String(&d.slab[0], n)
	d.slab = d.slab[n:]
	return s
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// decodeFunc reads a value into what p points to, which is zero.
type decodeFunc func(d *decoder, p unsafe.Pointer) error

// skipFunc passes over a value.
type skipFunc func(d *decoder) error

func (d *decoder) enter() error {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	return nil
}

func (d *decoder) spend(bytes int) error {
	if d.budget -= bytes; d.budget < 0 {
		return errBudget
	}
	return nil
}

func (d *decoder) long() (int64, error) {
	data := d.data
	if len(data) > 0 && data[0] < 0x80 {
		d.data = data[1:]
		v := uint64(data[0])
		return int64(v>>1) ^ -int64(v&1), nil
	}
	v, n := binary.Uvarint(data)
	if n <= 0 {
		if n < 0 {
			return 0, errLong
		}
		return 0, errShort
	}
	d.data = data[n:]
	return int64(v>>1) ^ -int64(v&1), nil
}

func (d *decoder) int() (int64, error) {
	v, err := d.long()
	if v != int64(int32(v)) {
		return 0, errLong
	}
	return v, err
}

func (d *decoder) take(n int) ([]byte, error) {
	if n < 0 || n > len(d.data) {
		return nil, errShort
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken, nil
}

func (d *decoder) bytes() ([]byte, error) {
	n, err := d.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(d.data)) {
		return nil, errShort
	}
	return d.take(int(n))
}

func (d *decoder) bool() (bool, error) {
	b, err := d.take(1)
	if err != nil {
		return false, err
	}
	if b[0] > 1 {
		return false, fmt.Errorf("boolean %d", b[0])
	}
	return b[0] == 1, nil
}

func (d *decoder) float() (float32, error) {
	b, err := d.take(4)
	if err != nil {
		return 0, err
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
}

func (d *decoder) double() (float64, error) {
	b, err := d.take(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// index reads the number of a branch or symbol, of which there are n.
func (d *decoder) index(what string, n int) (int, error) {
	i, err := d.long()
	if err != nil {
		return 0, err
	}
	if i < 0 || i >= int64(n) {
		return 0, fmt.Errorf("%s %d of %d", what, i, n)
	}
	return int(i), nil
}

// block reads the head of a block of an array or map: the number of its items, 0 at the end. An item takes at least the given bytes.
func (d *decoder) block(least int) (int, error) {
	count, err := d.long()
	if err != nil {
		return 0, err
	}
	if count < 0 { // its size in bytes follows
		if size, err := d.long(); err != nil || size < 0 || size > int64(len(d.data)) {
			return 0, errors.Join(err, errShort)
		}
		count = -count
	}
	room := len(d.data)
	if least == 0 {
		room = d.budget / freeItem
	} else {
		room /= least
	}
	if count < 0 || count > int64(room) {
		return 0, fmt.Errorf("%d items announced in %d bytes", count, len(d.data))
	}
	return int(count), nil
}

// least is how many bytes a value takes at least, up to a limit that is enough to bound allocations.
func (p *planner) least(s *Schema) int {
	switch s.Kind {
	case Null:
		return 0
	case Float:
		return 4
	case Double:
		return 8
	case Fixed:
		return min(s.Size, 1<<20)
	case Record:
	default:
		return 1
	}
	n, ok := p.sizes[s]
	if ok {
		return n
	}
	p.sizes[s] = 0 // where it contains itself
	for _, f := range s.Fields {
		n = min(n+p.least(f.Type), 1<<20)
	}
	p.sizes[s] = n
	return n
}

// free is what a record costs for what may take no bytes: itself, since such ones could nest in each other to any number, and its
// fields, of which a hostile schema may give many to a record that takes one byte.
func (p *planner) free(s *Schema) int {
	n := 0
	if p.least(s) == 0 {
		n = 1
	}
	for _, f := range s.Fields {
		if p.least(f.Type) == 0 {
			n++
		}
	}
	return freeItem * n
}

// skip compiles how to pass over a value that was written with s.
func (p *planner) skip(s *Schema) skipFunc {
	switch s.Kind {
	case Null:
		return func(*decoder) error { return nil }
	case Boolean:
		return func(d *decoder) error { _, err := d.bool(); return err }
	case Int:
		return func(d *decoder) error { _, err := d.int(); return err }
	case Long:
		return func(d *decoder) error { _, err := d.long(); return err }
	case Float:
		return skipBytes(4)
	case Double:
		return skipBytes(8)
	case Fixed:
		return skipBytes(s.Size)
	case Bytes, String:
		return func(d *decoder) error { _, err := d.bytes(); return err }
	case Enum:
		return func(d *decoder) error { _, err := d.index("symbol", len(s.Symbols)); return err }
	case Union:
		branches := make([]skipFunc, len(s.Branches))
		for i, branch := range s.Branches {
			branches[i] = p.skip(branch)
		}
		return func(d *decoder) error {
			i, err := d.index("branch", len(branches))
			if err != nil {
				return err
			}
			return branches[i](d)
		}
	case Array, Map:
		return p.skipBlocks(s)
	}
	return p.skipRecord(s)
}

func skipBytes(n int) skipFunc { return func(d *decoder) error { _, err := d.take(n); return err } }

func (p *planner) skipBlocks(s *Schema) skipFunc {
	item, size := p.skip(s.Elem), p.least(s.Elem)
	keyed := s.Kind == Map
	if keyed {
		size++
	}
	return func(d *decoder) error {
		if err := d.enter(); err != nil {
			return err
		}
		for {
			n, err := d.block(size)
			if err != nil {
				return err
			}
			if n == 0 {
				d.depth--
				return nil
			}
			if size == 0 {
				if err := d.spend(n * freeItem); err != nil {
					return err
				}
			}
			for range n {
				if keyed {
					if _, err := d.bytes(); err != nil {
						return err
					}
				}
				if err := item(d); err != nil {
					return err
				}
			}
		}
	}
}

func (p *planner) skipRecord(s *Schema) skipFunc {
	if known := p.skips[s]; known != nil {
		return func(d *decoder) error { return (*known)(d) }
	}
	known := new(skipFunc)
	p.skips[s] = known
	fields, free := make([]skipFunc, len(s.Fields)), p.free(s)
	for i, f := range s.Fields {
		fields[i] = p.skip(f.Type)
	}
	*known = func(d *decoder) error {
		if err := d.enter(); err != nil {
			return err
		}
		if err := d.spend(free); err != nil {
			return err
		}
		for _, field := range fields {
			if err := field(d); err != nil {
				return err
			}
		}
		d.depth--
		return nil
	}
	return *known
}
