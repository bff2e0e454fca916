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
	cache := filepath.Join(cacheFolder(tb), "python")
	folder := filepath.Join(cache, strings.Join(slices.Sorted(slices.Values(packages)), "+"))
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	if os.Getenv("REQUIRE_SERVICES") != "1" {
		tb.Skipf("needs %s of PyPI: runs with REQUIRE_SERVICES=1", strings.Join(packages, ", "))
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		tb.Fatal(err)
	}
	work, err := os.MkdirTemp(cache, ".installing-*") // beside the folder, so that it is there whole or not at all
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	pip := exec.CommandContext(tb.Context(), "python3", append([]string{"-m", "pip", "install", "--quiet", "--target", work}, packages...)...)
	pip.Env = append(os.Environ(), "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_REQUIRE_VIRTUALENV=0")
	if out, err := pip.CombinedOutput(); err != nil {
		tb.Fatalf("pip install %s: %v\n%s", strings.Join(packages, " "), err, out)
	}
	if err := os.Rename(work, folder); err != nil {
		if _, err2 := os.Stat(folder); err2 != nil { // else another test was faster
			tb.Fatal(err)
		}
	}
	return folder
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
