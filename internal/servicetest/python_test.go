package servicetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPython(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script.py")
	if err := os.WriteFile(script, []byte("import sys, six\nprint(six.__version__, sys.argv[1])\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := Python(t, []string{"six==1.16.0"}, script, "é"); strings.TrimSpace(string(out)) != "1.16.0 é" {
		t.Errorf("it printed %q", out)
	}
}
