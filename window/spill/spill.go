// Package spill keeps the windows of keys on disk that have no room in memory, for window.Options.Spill, in Pebble.
//
//	disk, err := spill.Open(folder)
//	defer disk.Close()
//	op, err := window.New(key, assigner, aggregate, window.Options{Spill: disk, MaxResident: 1_000_000})
//
// What it keeps is scratch: the operator's snapshots have all of it, and a folder is emptied when it is opened. So nothing is logged or
// synced, and what is written and read soon again may never reach the disk.
package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFolder says that the folder has something else than what a Disk has left there.
var ErrFolder = errors.New("spill: folder is not empty")

// Disk is a window.Spill. It is for one operator, and for the goroutine that calls it.
type Disk struct {
	db   *pebble.DB
	held *pebble.Lock
	key  [8]byte
}

// Options of a Disk.
type Options struct {
	// Cache is the memory for blocks that were read, in bytes. Default 64 MiB.
	Cache int64
	// Buffer is the memory for what was written and is not on disk yet, in bytes; up to twice as much is used. Default 64 MiB.
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
		Cache: cache, MemTableSize: o.Buffer, MemTableStopWritesThreshold: 2, DisableWAL: true, Logger: silent{},
		FormatMajorVersion: pebble.FormatNewest, Lock: held,
	})
	if err != nil {
		return nil, fmt.Errorf("spill: %w", errors.Join(err, held.Close()))
	}
	return &Disk{db: db, held: held}, nil
}

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
	if err := d.db.Set(d.keyOf(id), state, pebble.NoSync); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}

// Get appends to dst what is under id. It is an error when nothing is.
func (d *Disk) Get(id uint64, dst []byte) ([]byte, error) {
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
