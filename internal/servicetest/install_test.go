package servicetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestInstall: four that want the same folder get one, whole, though the first attempt breaks off half way, and nothing else is left, also
// of a process that was killed.
func TestInstall(t *testing.T) {
	t.Setenv("TIDEMARK_CACHE", t.TempDir())
	t.Setenv("REQUIRE_SERVICES", "1")
	kind := filepath.Join(os.Getenv("TIDEMARK_CACHE"), "kind")
	if err := os.MkdirAll(filepath.Join(kind, ".installing-1", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "attempts")
	fill := func(work string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", "-c", `echo half > "$1/file"; echo >> "$2"
			[ "$(wc -l < "$2")" -gt 1 ] || { echo "no route" >&2; exit 1; }
			echo whole > "$1/file"`, "sh", work, log)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			file := filepath.Join(install(t, "kind/thing", "a thing", fill), "file")
			if content, err := os.ReadFile(file); err != nil || string(content) != "whole\n" {
				t.Errorf("%q, %v", content, err)
			}
		})
	}
	all.Wait()
	if attempts, err := os.ReadFile(log); err != nil || len(attempts) != 2 {
		t.Errorf("%d attempts, %v", len(attempts), err)
	}
	if left, err := filepath.Glob(filepath.Join(kind, unfinished)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
