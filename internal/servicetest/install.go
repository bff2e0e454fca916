package servicetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/filelock"
)

// attempts is how often an installation is tried, with pauses of a second, two, four ... between: registries break off at times.
const attempts = 6

const unfinished = ".installing-*" // folders that are being made, beside those that are there

// install returns the folder name of the cache. Where it is not there the command of fill makes it, or the test is skipped by what it
// needs, as Env says. Tests that want folders of one kind at once, also of different packages, make them one after the other, each once; a
// folder is there whole or not at all.
func install(tb testing.TB, name, what string, fill func(work string) *exec.Cmd) string {
	tb.Helper()
	folder := filepath.Join(cacheFolder(tb), name)
	if there(folder) {
		return folder
	}
	if os.Getenv("REQUIRE_SERVICES") != "1" {
		tb.Skipf("needs %s: runs with REQUIRE_SERVICES=1", what)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		tb.Fatal(err)
	}
	unlock, err := filelock.Lock(tb.Context(), filepath.Dir(folder)+".lock", func() { tb.Log("waiting for another test that installs " + what) })
	if err != nil {
		tb.Fatal(err)
	}
	defer unlock()
	for attempt := 1; !there(folder); attempt++ {
		out, err := makeFolder(folder, fill)
		if err == nil {
			break
		}
		if attempt == attempts {
			tb.Fatalf("install %s: %v\n%s", what, err, out)
		}
		tb.Logf("install %s, to be tried again: %v\n%s", what, err, out)
		time.Sleep(time.Second << (attempt - 1))
	}
	return folder
}

// makeFolder has the command of fill make a folder beside the one that is wanted, and renames it. Nobody else does so now: what there is of
// such folders a killed process has left.
func makeFolder(folder string, fill func(work string) *exec.Cmd) (out []byte, err error) {
	left, err := filepath.Glob(filepath.Join(filepath.Dir(folder), unfinished))
	for _, work := range left {
		err = errors.Join(err, os.RemoveAll(work))
	}
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), unfinished)
	if err != nil {
		return nil, err
	}
	if out, err = fill(work).CombinedOutput(); err == nil {
		err = os.Rename(work, folder)
	}
	return out, errors.Join(err, os.RemoveAll(work))
}

func there(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

// cacheFolder is where what is downloaded stays: TIDEMARK_CACHE, else tidemark in the user's cache folder.
func cacheFolder(tb testing.TB) string {
	tb.Helper()
	folder := os.Getenv("TIDEMARK_CACHE")
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			tb.Fatal(err)
		}
		folder = filepath.Join(user, "tidemark")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		tb.Fatal(err)
	}
	return folder
}
