package pinned

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ErrNoPip says that none of pip's usual names works on this machine.
var ErrNoPip = errors.New("pip, which fetches the pinned packages once, is not on this machine")

// findPip answers the first of pip's usual names that works.
func findPip(ctx context.Context) ([]string, error) {
	for _, pip := range [][]string{{"pip"}, {"pip3"}, {"python3", "-m", "pip"}, {"python", "-m", "pip"}} {
		path, err := exec.LookPath(pip[0])
		if err != nil {
			continue
		}
		probe := append([]string{path}, pip[1:]...)
		if command(ctx, probe, "--version").Run() == nil {
			return probe, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: install it. %s", ErrNoPip, byHand)
}

func command(ctx context.Context, pip []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, pip[0], append(pip[1:len(pip):len(pip)], args...)...)
	cmd.WaitDelay = 2 * time.Second // a child of pip that outlives it does not hold us up
	cmd.Env = append(os.Environ(), "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_REQUIRE_VIRTUALENV=0")
	return cmd
}

// attempts is how often pip is run for a wheel, with pauses. It asks again by itself where it gets no connection, but not where one
// breaks off.
const attempts = 3

var pause = time.Second // tests have no time

// download lets pip fetch the wheel into tmp, and answers its path when its hash is right.
func (c Cache) download(ctx context.Context, pip []string, w wheel, tmp string) (path string, err error) {
	for attempt := range attempts {
		if attempt > 0 {
			c.say(fmt.Sprintf("downloading %s %s failed, trying again", w.project, w.version))
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Duration(attempt) * pause):
			}
		}
		if path, err = c.attempt(ctx, pip, w, tmp); err == nil || ctx.Err() != nil {
			break
		}
	}
	return path, err
}

func (c Cache) attempt(ctx context.Context, pip []string, w wheel, tmp string) (string, error) {
	work, dest := filepath.Join(tmp, "pip"), filepath.Join(tmp, w.project)
	for _, dir := range []string{work, dest} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			return "", err
		}
	}
	requirements := filepath.Join(tmp, "requirements.txt")
	line := w.project + "==" + w.version + " --hash=sha256:" + w.sha256 + "\n"
	if err := os.WriteFile(requirements, []byte(line), 0o644); err != nil {
		return "", err
	}
	// The platform and Python version are named, so that the same file comes whatever Python runs pip.
	args := []string{
		"download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--progress-bar=off", "--require-hashes", "--dest=" + dest,
		"--python-version=311",
	}
	if w.platform != "" {
		args = append(args, "--platform="+w.platform, "--implementation=cp", "--abi=cp311")
	}
	cmd := command(ctx, pip, append(args, "--requirement="+requirements)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+work) // pip collects the file there: shows progress, and goes away with tmp
	cmd.Dir = tmp
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	c.say(fmt.Sprintf("downloading %s %s (%.0f MB)", w.project, w.version, mega(w.size)))
	stop := c.watch(w, tmp)
	err := cmd.Run()
	stop()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // where pip succeeded, and only what it said did not end
		return "", fmt.Errorf("pip: %w: %s. %s", err, said.String(), byHand)
	}
	return w.find(dest)
}

// watch says how far a download is, every few seconds, until stop is called.
func (c Cache) watch(w wheel, dir string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if n := min(arrived(dir), w.size); n > 0 && n < w.size {
					c.say(fmt.Sprintf("%s %s: %.0f of %.0f MB", w.project, w.version, mega(n), mega(w.size)))
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }

// arrived is the size of the largest wheel under dir.
func arrived(dir string) (size int64) {
	// Files come and go while pip runs: one that is gone counts nothing.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".whl") {
			if info, err := d.Info(); err == nil {
				size = max(size, info.Size())
			}
		}
		return nil
	})
	return size
}

// find answers the one wheel in dir, whose hash is checked here and not left to pip alone.
func (w wheel) find(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(files) != 1 {
		return "", fmt.Errorf("pip left %d files, wanted one wheel", len(files))
	}
	path := filepath.Join(dir, files[0].Name())
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, w.size+1)); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != w.sha256 {
		return "", fmt.Errorf("%s has the hash %s, pinned is %s", files[0].Name(), got, w.sha256)
	}
	return path, nil
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

const maxTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 2*maxTail {
		t.b = append(t.b[:0], t.b[len(t.b)-maxTail:]...)
	}
	return len(p), nil
}

// userinfo is a user name and password in an address, as private registries have them.
var userinfo = regexp.MustCompile(`://[^/\s@]+@`)

// String is the end of the output in one line, without passwords.
func (t *tail) String() string {
	b := t.b[max(0, len(t.b)-maxTail):]
	b = bytes.Join(bytes.Fields(b), []byte(" "))
	return string(userinfo.ReplaceAll(b, []byte("://***@")))
}
