package pinned

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/filelock"
	"github.com/tidemark-go/tidemark/internal/leaktest"
)

// fakePip stands in for the package client alone: it "downloads" from a folder of this machine, slowly where told, and keeps a log.
const fakePip = `#!/bin/sh
[ "$1" = --version ] && exit 0
for arg; do
	case "$arg" in
	--dest=*) dest=${arg#--dest=} ;;
	--requirement=*) read -r project hash < "${arg#--requirement=}" ;;
	esac
done
echo half > "$TMPDIR/unfinished.whl"
if [ -e "$FAKE_PIP/hang" ]; then echo "$project" >> "$FAKE_PIP/log"; exec sleep 60; fi
echo "$project" >> "$FAKE_PIP/log"
if [ -e "$FAKE_PIP/slow" ]; then sleep 1; fi
if [ -e "$FAKE_PIP/break" ]; then rm "$FAKE_PIP/break"; echo half > "$dest/half.whl"; exit 1; fi
if [ -e "$FAKE_PIP/fail" ]; then echo "ERROR: no route to https://user:secret@index.example/simple" >&2; exit 1; fi
cp "$FAKE_PIP/${project%%==*}.whl" "$dest/"
if [ -e "$FAKE_PIP/stay" ]; then rm "$FAKE_PIP/stay"; sleep 4 & fi
`

// world is a fake package index with a cache folder that has yet to be made.
type world struct {
	dir   string
	cache Cache
}

func newWorld(t *testing.T) world {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake pip is a shell script")
	}
	w := world{dir: t.TempDir()}
	w.cache.Dir = filepath.Join(w.dir, "some", "cache")
	write(t, filepath.Join(w.dir, "bin", "pip"), fakePip)
	if err := os.Chmod(filepath.Join(w.dir, "bin", "pip"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_PIP", w.dir)
	t.Setenv("PATH", filepath.Join(w.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return w
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// zipped makes an archive of names and contents, in order.
func zipped(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// publish puts a wheel into the index and answers it, pinned.
func (w world) publish(t *testing.T, project, content string, members ...member) wheel {
	t.Helper()
	write(t, filepath.Join(w.dir, project+".whl"), content)
	hash := sha256.Sum256([]byte(content))
	return wheel{
		project: project, version: "1.0", size: int64(len(content)), sha256: hex.EncodeToString(hash[:]), members: members,
	}
}

// tool is a bundle of two packages, one of which has its files in an inner archive.
func (w world) tool(t *testing.T) bundle {
	t.Helper()
	inner := zipped(t, "conf/a.json", "{}", "weights", strings.Repeat("w", 1000), "../../evil", "boo")
	outer := w.publish(t, "outer", zipped(t, "outer/data.zip", inner),
		member{from: "conf/a.json", to: "tool/conf/a.json", size: 2})
	outer.inner = member{from: "outer/data.zip", to: "data.zip", size: int64(len(inner))}
	plain := w.publish(t, "plain", zipped(t, "plain/lib.so", "library", "../evil", "boo", "/etc/evil", "boo"),
		member{from: "plain/lib.so", to: "tool/lib.so", size: 7})
	return bundle{name: "tool-1.0", wheels: []wheel{outer, plain}}
}

func (w world) downloads(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// files lists everything in the world but its index, locks left out.
func (w world) files(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(w.dir, "some"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") {
			rel, _ := filepath.Rel(w.cache.Dir, path)
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

func TestFolder(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	var progress bytes.Buffer
	w.cache.Progress = &progress
	dir, err := w.cache.folder(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{b.key() + "/tool/conf/a.json", b.key() + "/tool/lib.so"}
	if got := w.files(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the cache holds %v, want %v", got, want)
	}
	for _, s := range []string{"downloading outer 1.0", "downloading plain 1.0", dir} {
		if !strings.Contains(progress.String(), s) {
			t.Errorf("progress %q lacks %q", progress.String(), s)
		}
	}
	progress.Reset()
	t.Setenv("PATH", "")
	again, err := w.cache.folder(t.Context(), b)
	if err != nil || again != dir || progress.Len() > 0 || w.downloads(t) != 2 {
		t.Errorf("second call: %q, %v, progress %q, %d downloads", again, err, progress.String(), w.downloads(t))
	}
}

// Who asks for no Progress learns from the log why the first call takes long.
func TestProgressByDefault(t *testing.T) {
	w := newWorld(t)
	var said bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(os.Stderr) // SetDefault had turned it to the buffer
	}()
	dir, err := w.cache.folder(t.Context(), w.tool(t))
	for _, s := range []string{"level=INFO", "downloading plain 1.0", dir} {
		if err != nil || !strings.Contains(said.String(), s) {
			t.Errorf("error %v, log %q lacks %q", err, said.String(), s)
		}
	}
}

func TestFolderMadeAgain(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"file removed": func(dir string) error { return os.Remove(filepath.Join(dir, "tool", "lib.so")) },
		"file cut":     func(dir string) error { return os.Truncate(filepath.Join(dir, "tool", "lib.so"), 3) },
		"empty folder": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.tool(t)
			dir, err := w.cache.folder(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := w.cache.folder(t.Context(), b); err != nil || !b.whole(dir) || len(w.files(t)) != 2 {
				t.Errorf("made again: %v, files %v", err, w.files(t))
			}
		})
	}
}

func TestFolderErrors(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, w world, b *bundle)
		want  string
	}{
		"wrong hash": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			write(t, filepath.Join(w.dir, "plain.whl"), zipped(t, "plain/lib.so", "LIBRARY"))
		}, "pinned is"},
		"member missing": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			b.wheels[1] = w.publish(t, "plain", zipped(t, "other", "x"), b.wheels[1].members...)
		}, "plain/lib.so: file does not exist"},
		"member of another size": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			b.wheels[1] = w.publish(t, "plain", zipped(t, "plain/lib.so", "a longer library"), b.wheels[1].members...)
		}, "16 bytes, pinned are 7"},
		"not an archive": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			b.wheels[1] = w.publish(t, "plain", "no zip at all", b.wheels[1].members...)
		}, "not a valid zip file"},
		"inner archive missing": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			b.wheels[0].inner.from = "elsewhere.zip"
		}, "elsewhere.zip: file does not exist"},
		"pip fails": {func(t *testing.T, w world, b *bundle) {
			t.Helper()
			write(t, filepath.Join(w.dir, "fail"), "")
		}, "no route to https://***@index.example/simple"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.tool(t)
			test.spoil(t, w, &b)
			_, err := w.cache.folder(t.Context(), b)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
			if files := w.files(t); len(files) > 0 {
				t.Errorf("left in the cache: %v", files)
			}
		})
	}
}

// A download that breaks off is tried again, and what came of it is not used.
func TestBrokenOff(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	var progress bytes.Buffer
	w.cache.Progress = &progress
	write(t, filepath.Join(w.dir, "break"), "")
	dir, err := w.cache.folder(t.Context(), b)
	if err != nil || !b.whole(dir) || w.downloads(t) != 3 || !strings.Contains(progress.String(), "downloading outer 1.0 failed, trying again") {
		t.Errorf("%v after %d downloads, progress %q", err, w.downloads(t), progress.String())
	}
}

// A child of pip that stays, and holds pip's output, does not make what came a failure.
func TestChildStays(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	write(t, filepath.Join(w.dir, "stay"), "")
	if _, err := w.cache.folder(t.Context(), b); err != nil || w.downloads(t) != 2 {
		t.Errorf("%v after %d downloads", err, w.downloads(t))
	}
}

func TestNoPip(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	t.Setenv("PATH", t.TempDir())
	_, err := w.cache.folder(t.Context(), b)
	if !errors.Is(err, ErrNoPip) || !strings.Contains(err.Error(), "ONNXRUNTIME_LIB") || !strings.Contains(err.Error(), "TextOptions.Dir") {
		t.Errorf("error %v", err)
	}
}

// A pip that does not work, as where python3 lacks the module, is passed over for the next name.
func TestBrokenPip(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	bin := filepath.Join(w.dir, "bin")
	if err := os.Rename(filepath.Join(bin, "pip"), filepath.Join(bin, "pip3")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(bin, "pip"), "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(filepath.Join(bin, "pip"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cache.folder(t.Context(), b); err != nil || w.downloads(t) != 2 {
		t.Errorf("%v after %d downloads", err, w.downloads(t))
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	write(t, filepath.Join(w.dir, "hang"), "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for w.downloads(t) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := w.cache.folder(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if files := w.files(t); len(files) > 0 {
		t.Errorf("left in the cache: %v", files)
	}
	// Who waits for another's download can leave, too.
	unlock, err := filelock.Lock(t.Context(), filepath.Join(w.cache.Dir, b.key()+".lock"), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	waiting, leave := context.WithCancel(t.Context())
	w.cache.Progress = writer(func(line string) {
		if strings.Contains(line, "waiting for another process") {
			leave()
		}
	})
	if _, err := w.cache.folder(waiting, b); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "TIDEMARK_CACHE") {
		t.Errorf("waiting: error %v", err)
	}
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func TestCacheFolder(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	t.Run("below a file", func(t *testing.T) {
		write(t, filepath.Join(w.dir, "file"), "")
		_, err := Cache{Dir: filepath.Join(w.dir, "file", "cache")}.folder(t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "TIDEMARK_CACHE") {
			t.Errorf("error %v", err)
		}
	})
	if os.Getuid() != 0 { // root may write everywhere
		t.Run("read-only", func(t *testing.T) {
			dir := filepath.Join(w.dir, "readonly")
			if err := os.Mkdir(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			_, err := Cache{Dir: dir}.folder(t.Context(), b)
			if err == nil || !strings.Contains(err.Error(), "TIDEMARK_CACHE") {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("no home", func(t *testing.T) {
		t.Setenv("HOME", "")
		t.Setenv("XDG_CACHE_HOME", "")
		t.Setenv("TIDEMARK_CACHE", "")
		if _, err := (Cache{}).folder(t.Context(), b); err == nil || !strings.Contains(err.Error(), "TIDEMARK_CACHE") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("by variable", func(t *testing.T) {
		t.Setenv("TIDEMARK_CACHE", filepath.Join(w.dir, "by variable [*]"))
		dir, err := Cache{}.folder(t.Context(), b)
		if err != nil || !strings.HasPrefix(dir, filepath.Join(w.dir, "by variable [*]")) {
			t.Errorf("%q, %v", dir, err)
		}
	})
}

// TestProcesses starts two processes with four goroutines each at once: one of them all downloads.
func TestProcesses(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	write(t, filepath.Join(w.dir, "slow"), "")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if out, err := child(t, w).CombinedOutput(); err != nil {
				t.Errorf("child: %v: %s", err, out)
			}
		})
	}
	all.Wait()
	if n := w.downloads(t); n != 2 || len(w.files(t)) != 2 {
		t.Errorf("%d downloads of 2 packages, files %v", n, w.files(t))
	}
	_ = b
}

// TestKilled kills a process in the middle of its download: the next one is neither blocked nor misled by what it left.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	b := w.tool(t)
	write(t, filepath.Join(w.dir, "hang"), "")
	cmd := child(t, w)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for w.downloads(t) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child was not killed")
	}
	if len(w.files(t)) == 0 {
		t.Fatal("the killed child left nothing: the test shows nothing")
	}
	if err := os.Remove(filepath.Join(w.dir, "hang")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cache.folder(t.Context(), b); err != nil || len(w.files(t)) != 2 {
		t.Errorf("%v, files %v", err, w.files(t))
	}
}

// child is this test binary as another process that asks for the same bundle.
func child(t *testing.T, w world) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), "PINNED_CHILD="+w.dir)
	return cmd
}

func TestChild(t *testing.T) {
	dir := os.Getenv("PINNED_CHILD")
	if dir == "" {
		return // it is the other process of TestProcesses and TestKilled
	}
	w := world{dir: dir, cache: Cache{Dir: filepath.Join(dir, "some", "cache")}}
	b := w.tool(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := w.cache.folder(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestTables(t *testing.T) {
	wheels := append([]wheel{}, model.wheels...)
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/arm64"} {
		b, err := library(platform)
		if err != nil {
			t.Fatal(err)
		}
		wheels = append(wheels, b.wheels...)
	}
	for _, platform := range []string{"darwin/amd64", "windows/amd64", "plan9/386"} {
		if _, err := library(platform); !errors.Is(err, ErrPlatform) || !strings.Contains(err.Error(), "ONNXRUNTIME_LIB") {
			t.Errorf("%s: %v", platform, err)
		}
	}
	for _, w := range wheels {
		if hash, err := hex.DecodeString(w.sha256); err != nil || len(hash) != 32 || w.size == 0 || len(w.members) == 0 {
			t.Errorf("%s: %+v", w.project, w)
		}
		for _, m := range w.members {
			if !filepath.IsLocal(filepath.FromSlash(m.to)) || m.size <= 0 {
				t.Errorf("%s: %+v", w.project, m)
			}
		}
	}
}

// TestRealDownload downloads what is pinned for this platform with the real pip, and then finds it without.
func TestRealDownload(t *testing.T) {
	if os.Getenv("REQUIRE_SERVICES") != "1" {
		t.Skip("downloads 107 MB: runs with REQUIRE_SERVICES=1")
	}
	defer func(before time.Duration) { pause = before }(pause)
	pause = 10 * time.Second // for a registry that breaks off
	cache := Cache{Dir: t.TempDir()}
	for range 2 {
		library, err := cache.Library(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dir, err := cache.TextModel(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{library, filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "1_Pooling", "config.json")} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
		if leftovers, err := filepath.Glob(filepath.Join(cache.Dir, "*.tmp-*")); err != nil || len(leftovers) > 0 {
			t.Errorf("left: %v, %v", leftovers, err)
		}
		t.Setenv("PATH", "")
	}
}

func TestMain(m *testing.M) {
	pause = time.Millisecond
	leaktest.Main(m)
}
