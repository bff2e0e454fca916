package pulsarx

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// DirStore keeps checkpoints as files of a folder. It survives the death of processes, and not that of the machine or its disk; a
// partition that moves to a process on another machine does not find its checkpoint there, unless both see the same folder. Use it
// where all processes of a subscription run on one machine, and TopicStore elsewhere.
//
// Several processes may use the folder at once where the operating system has flock, as Unix systems do.
type DirStore struct{ dir string }

// NewDirStore makes the folder where it does not exist.
func NewDirStore(dir string) (*DirStore, error) {
	if dir == "" {
		return nil, errors.New("pulsarx: DirStore: no folder")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("pulsarx: DirStore: %w", err)
	}
	return &DirStore{dir}, nil
}

// A checkpoint's file begins with these bytes and its generation, in 8 bytes. Beside it stand a file that holds the newest generation
// that was claimed, in the same form, and one that is locked by whoever writes either.
const dirMagic = "tidemark checkpoint 1\n"

func (s *DirStore) path(name, kind string) string {
	return filepath.Join(s.dir, url.PathEscape(name)+"."+kind)
}

// Load opens the newest checkpoint.
func (s *DirStore) Load(ctx context.Context, name string) (io.ReadCloser, uint64, error) {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return nil, 0, checkpointError("load", name, err)
	}
	defer unlock()
	r, generation, err := s.load(name)
	return r, generation, checkpointError("load", name, err)
}

// Claim opens the newest checkpoint under a generation above all before, which Save refuses from now on.
func (s *DirStore) Claim(ctx context.Context, name string) (io.ReadCloser, uint64, error) {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return nil, 0, checkpointError("claim", name, err)
	}
	defer unlock()
	r, generation, err := s.load(name)
	if err == nil {
		err = s.write(name, "generation", generation+1, func(io.Writer) error { return nil })
	}
	if err != nil {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
		return nil, 0, checkpointError("claim", name, err)
	}
	return r, generation + 1, nil
}

// Save writes the checkpoint beside the old one, and puts it in its place when it is on the disk.
func (s *DirStore) Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return checkpointError("save", name, err)
	}
	defer unlock()
	old, stored, err := s.load(name)
	if err != nil {
		return checkpointError("save", name, err)
	}
	if old != nil {
		_ = old.Close() // nothing was written to it
	}
	if generation < stored {
		return checkpointError("save", name, fmt.Errorf("%w: generation %d, not %d", ErrFenced, stored, generation))
	}
	return checkpointError("save", name, s.write(name, "checkpoint", generation, write))
}

// checkpointError says which checkpoint an error is about.
func checkpointError(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pulsarx: %s checkpoint %s: %w", what, name, err)
}

// load opens the checkpoint, and returns the higher of its generation and the claimed one.
func (s *DirStore) load(name string) (io.ReadCloser, uint64, error) {
	file, saved, err := s.open(name, "checkpoint")
	if err != nil {
		return nil, 0, err
	}
	claim, claimed, err := s.open(name, "generation")
	if claim != nil {
		err = errors.Join(err, claim.Close())
	}
	if file == nil { // a nil *dirFile is no nil io.ReadCloser
		return nil, max(saved, claimed), err
	}
	return file, max(saved, claimed), err
}

type dirFile struct {
	*bufio.Reader
	file *os.File
}

func (f *dirFile) Close() error { return f.file.Close() }

func (s *DirStore) open(name, kind string) (*dirFile, uint64, error) {
	file, err := os.Open(s.path(name, kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	in := bufio.NewReaderSize(file, 256<<10)
	head := make([]byte, len(dirMagic)+8)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:len(dirMagic)]) != dirMagic {
		return nil, 0, errors.Join(fmt.Errorf("%s is not a checkpoint's file", file.Name()), file.Close())
	}
	return &dirFile{in, file}, binary.BigEndian.Uint64(head[len(dirMagic):]), nil
}

// write replaces a file as a whole.
func (s *DirStore) write(name, kind string, generation uint64, write func(io.Writer) error) error {
	path := s.path(name, kind)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	_, err = out.Write(binary.BigEndian.AppendUint64([]byte(dirMagic), generation))
	if err == nil {
		err = write(out)
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	folder, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	_ = folder.Sync() // not every file system can; the rename is whole in any case
	return folder.Close()
}

// lock waits for the name's lock, which ends with the process at the latest.
func (s *DirStore) lock(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(s.path(name, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := tryLock(file)
		if locked {
			return func() { _ = file.Close() }, nil // nothing was written to it; the lock ends with it
		}
		if err == nil {
			err = sleep(ctx, 10*time.Millisecond)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
}
