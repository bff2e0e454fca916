package pulsarx

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// DirStore keeps checkpoints as files of a folder. It survives the death of processes, and not that of the machine or its disk; a
// partition that moves to a process on another machine does not find its checkpoint there, unless both see the same folder. Use it
// where all processes of a subscription run on one machine, and TopicStore elsewhere.
//
// Several processes may use the folder at once where the operating system has flock, as Unix systems do. One that is frozen (SIGSTOP)
// while it saves holds its partition up until it is killed or goes on.
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

// A checkpoint's file begins with these bytes, and its generation and a random number that names it, in 8 bytes each; a file of version 1
// has no number, which is 0 then. Beside it stand files of what was appended, numbered from 1, in the same form with the number of the
// checkpoint that they belong to; a file that holds the newest generation that was claimed; and one that is locked by whoever writes any.
const (
	dirMagic  = "tidemark checkpoint 2\n"
	dirMagic1 = "tidemark checkpoint 1\n"
)

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
		err = s.write(name, "generation", dirHead{generation: generation + 1}, func(io.Writer) error { return nil })
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
	err := s.change(ctx, name, generation, func([]*dirFile) error {
		err := s.write(name, "checkpoint", dirHead{generation, rand.Uint64()}, write)
		for i := s.appended(name); err == nil && i > 0; i-- { // what was appended to the old one, the last first, so that none is left alone
			err = os.Remove(s.path(name, appendedKind(i)))
		}
		return err
	})
	return checkpointError("save", name, err)
}

// Append adds to the checkpoint, in a file of its own.
func (s *DirStore) Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error {
	err := s.change(ctx, name, generation, func(parts []*dirFile) error {
		if len(parts) == 0 {
			return errors.New("there is none to append to")
		}
		return s.write(name, appendedKind(len(parts)), dirHead{generation, parts[0].head.number}, write)
	})
	return checkpointError("append to", name, err)
}

// change calls f with the files of the checkpoint, which nobody else changes meanwhile, if the generation is not fenced.
func (s *DirStore) change(ctx context.Context, name string, generation uint64, f func(parts []*dirFile) error) error {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	parts, stored, err := s.files(name)
	if err != nil {
		return err
	}
	_ = closeAll(parts) // nothing was written to them
	if generation < stored {
		return fmt.Errorf("%w: generation %d, not %d", ErrFenced, stored, generation)
	}
	return f(parts)
}

func appendedKind(number int) string { return fmt.Sprintf("appended%d", number) }

// appended is how many files there are of what was appended, to this checkpoint or one before.
func (s *DirStore) appended(name string) int {
	n := 0
	for ; ; n++ {
		if _, err := os.Stat(s.path(name, appendedKind(n+1))); err != nil {
			return n
		}
	}
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
	parts, generation, err := s.files(name)
	if err != nil || len(parts) == 0 {
		return nil, generation, err
	}
	return &dirReader{io.MultiReader(readers(parts)...), parts}, generation, nil
}

// files opens a checkpoint and what was appended to it, and returns the highest of their generations and the claimed one.
func (s *DirStore) files(name string) (parts []*dirFile, generation uint64, err error) {
	claim, err := s.open(name, "generation")
	if err != nil {
		return nil, 0, err
	}
	if claim != nil {
		generation = claim.head.generation
		if err := claim.Close(); err != nil {
			return nil, 0, err
		}
	}
	for kind := "checkpoint"; ; kind = appendedKind(len(parts)) {
		part, err := s.open(name, kind)
		if err != nil {
			return nil, 0, errors.Join(err, closeAll(parts))
		}
		if part == nil {
			return parts, generation, nil
		}
		if len(parts) > 0 && part.head.number != parts[0].head.number { // of a checkpoint before
			return parts, generation, part.Close()
		}
		parts, generation = append(parts, part), max(generation, part.head.generation)
	}
}

// dirReader reads files one after the other.
type dirReader struct {
	io.Reader
	parts []*dirFile
}

func (r *dirReader) Close() error { return closeAll(r.parts) }

func closeAll(parts []*dirFile) (err error) {
	for _, p := range parts {
		err = errors.Join(err, p.Close())
	}
	return err
}

func readers(parts []*dirFile) []io.Reader {
	rs := make([]io.Reader, len(parts))
	for i, p := range parts {
		rs[i] = p
	}
	return rs
}

type dirHead struct{ generation, number uint64 }

type dirFile struct {
	*bufio.Reader
	file *os.File
	head dirHead
}

func (f *dirFile) Close() error { return f.file.Close() }

// open opens a file behind its head; nil where there is none.
func (s *DirStore) open(name, kind string) (*dirFile, error) {
	file, err := os.Open(s.path(name, kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &dirFile{Reader: bufio.NewReaderSize(file, 64<<10), file: file}
	magic, numbers := make([]byte, len(dirMagic)), make([]byte, 16)
	_, err = io.ReadFull(f, magic)
	if string(magic) == dirMagic1 {
		numbers = numbers[:8]
	} else if string(magic) != dirMagic {
		err = fs.ErrInvalid
	}
	if err == nil {
		_, err = io.ReadFull(f, numbers)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s is not a checkpoint's file", file.Name()), file.Close())
	}
	f.head.generation = binary.BigEndian.Uint64(numbers)
	if len(numbers) > 8 {
		f.head.number = binary.BigEndian.Uint64(numbers[8:])
	}
	return f, nil
}

// write replaces a file as a whole.
func (s *DirStore) write(name, kind string, head dirHead, write func(io.Writer) error) error {
	path := s.path(name, kind)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	text := binary.BigEndian.AppendUint64([]byte(dirMagic), head.generation)
	_, err = out.Write(binary.BigEndian.AppendUint64(text, head.number))
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
