package servicetest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Python runs a script of the caller's testdata with Python 3 and the packages of PyPI that it needs, each as name==version, and
// returns what it prints. The packages are installed once, into the user's cache folder. Where that has not happened yet, and
// REQUIRE_SERVICES=1 is not set, the test is skipped, by their names.
func Python(tb testing.TB, packages []string, script string, args ...string) []byte {
	tb.Helper()
	folder := pythonPackages(tb, packages)
	cmd := exec.CommandContext(tb.Context(), "python3", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		tb.Fatalf("python3 %s: %v\n%s", script, err, problems.String())
	}
	return out.Bytes()
}

// pythonPackages returns the folder that packages are in, and installs them into it when it is not there.
func pythonPackages(tb testing.TB, packages []string) string {
	tb.Helper()
	name := filepath.Join("python", strings.Join(slices.Sorted(slices.Values(packages)), "+"))
	return install(tb, name, strings.Join(packages, ", ")+" of PyPI", func(work string) *exec.Cmd {
		pip := exec.CommandContext(tb.Context(), "python3", append([]string{"-m", "pip", "install", "--quiet", "--target", work}, packages...)...)
		pip.Env = append(os.Environ(), "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_REQUIRE_VIRTUALENV=0")
		return pip
	})
}
