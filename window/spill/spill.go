package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFolder says that the folder has something else than what a Disk has left there.
var ErrFolder = errors.New("spill: folder is not empty")

// Disk is a window.Spill. It is for one operator, and for the goroutine that calls it.
type Disk struct {
	db     *pebble.DB
	held   *pebble.Lock
	key    [8]byte
	recent map[uint64]span // what is in the buffer
	buffer []byte
	used   int // bytes of buffer that recent has
	size   int
}

// span is where something is in the buffer.
type span struct{ from, to uint32 }

// Options of a Disk.
type Options struct {
	// Cache is the memory for blocks that were read, in bytes. Default 64 MiB.
	Cache int64
	// Buffer is the memory for what was written and is not on disk yet, in bytes; up to twice as much is used while that is written. Default
	// 64 MiB, at most 1 GiB.
	Buffer uint64
}

func (o Options) withDefaults() Options {
	if o.Cache == 0 {
		o.Cache = 64 << 20
	}
	if o.Buffer == 0 {
		o.Buffer = 64 << 20
	}
	return o
}

func (o Options) validate() error {
	if o.Cache < 0 {
		return fmt.Errorf("spill: Cache %d is negative", o.Cache)
	}
	if o.Buffer > 1<<30 {
		return fmt.Errorf("spill: Buffer %d is more than 1 GiB", o.Buffer)
	}
	return nil
}

// marker is the file that says that a folder may be emptied, and lock the one by which Pebble takes it.
const (
	marker = "TIDEMARK_SPILL"
	lock   = "LOCK"
)

// Open makes the folder, or empties one that a Disk has left, and takes a lock on it. One that has anything else is left alone: ErrFolder.
func Open(folder string, o Options) (*Disk, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	held, err := take(folder)
	if err != nil {
		return nil, err
	}
	cache := pebble.NewCache(o.Cache)
	defer cache.Unref()
	db, err := pebble.Open(folder, &pebble.Options{
		Cache: cache, MemTableSize: memTable, MemTableStopWritesThreshold: 2, DisableWAL: true, Logger: silent{},
		FormatMajorVersion: pebble.FormatNewest, Lock: held,
	})
	if err != nil {
		return nil, fmt.Errorf("spill: %w", errors.Join(err, held.Close()))
	}
	return &Disk{db: db, held: held, recent: make(map[uint64]span), size: int(o.Buffer)}, nil
}

// memTable is Pebble's buffer. What comes is more at once, and passes it by.
const memTable = 256 << 10

// take makes an empty folder with a marker, and locks it.
func take(folder string) (*pebble.Lock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	if len(files) > 0 {
		if _, err := os.Stat(filepath.Join(folder, marker)); err != nil {
			return nil, fmt.Errorf("%w: %s", ErrFolder, folder)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, marker), nil, 0o600); err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	held, err := pebble.LockDirectory(folder, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	for _, f := range files {
		if f.Name() != lock && f.Name() != marker {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, f.Name())))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spill: %w", errors.Join(err, held.Close()))
	}
	return held, nil
}

func (d *Disk) keyOf(id uint64) []byte {
	binary.BigEndian.PutUint64(d.key[:], id)
	return d.key[:]
}

// Put keeps state under id, in place of what was there.
func (d *Disk) Put(id uint64, state []byte) error {
	if len(d.buffer)+len(state) > d.size {
		if err := d.makeRoom(len(state)); err != nil {
			return err
		}
	}
	if at, ok := d.recent[id]; ok {
		d.used -= int(at.to - at.from)
	}
	from := len(d.buffer)
	d.buffer = append(d.buffer, state...)
	d.recent[id] = span{uint32(from), uint32(len(d.buffer))}
	d.used += len(state)
	return nil
}

// makeRoom moves the buffer to Pebble, or moves it up when more than half of it has been replaced.
func (d *Disk) makeRoom(bytes int) error {
	ids := slices.Sorted(maps.Keys(d.recent))
	if 2*d.used < d.size && d.used+bytes <= d.size {
		moved := make([]byte, 0, len(d.buffer))
		for _, id := range ids {
			at := d.recent[id]
			from := len(moved)
			moved = append(moved, d.buffer[at.from:at.to]...)
			d.recent[id] = span{uint32(from), uint32(len(moved))}
		}
		d.buffer = moved
		return nil
	}
	b := d.db.NewBatchWithSize(d.used + 32*len(ids))
	for _, id := range ids {
		at := d.recent[id]
		if err := b.Set(d.keyOf(id), d.buffer[at.from:at.to], nil); err != nil {
			return fmt.Errorf("spill: %w", errors.Join(err, b.Close()))
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("spill: %w", errors.Join(err, b.Close()))
	}
	clear(d.recent)
	d.buffer, d.used = d.buffer[:0], 0
	if err := b.Close(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}

// Get appends to dst what is under id. It is an error when nothing is.
func (d *Disk) Get(id uint64, dst []byte) ([]byte, error) {
	if at, ok := d.recent[id]; ok {
		return append(dst, d.buffer[at.from:at.to]...), nil
	}
	state, release, err := d.db.Get(d.keyOf(id))
	if err != nil {
		return dst, fmt.Errorf("spill: %w", err)
	}
	dst = append(dst, state...)
	return dst, release.Close()
}

// Bytes is how much is on disk.
func (d *Disk) Bytes() uint64 { return d.db.Metrics().DiskSpaceUsage() }

// Close ends it. The folder stays, for the next Open to empty.
func (d *Disk) Close() error {
	if err := errors.Join(d.db.Close(), d.held.Close()); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}

// silent logs nothing: what goes wrong is an error of a call.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("spill: "+format, args...))
}
