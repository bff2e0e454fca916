// Package servicetest gives tests the real systems that they run against: their addresses, and a Debezium of their own.
package servicetest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Env returns the environment variable name, which says where a real system is. Where it is unset the test is skipped, by that
// name; with REQUIRE_SERVICES=1 that is a failure.
func Env(tb testing.TB, name string) string {
	tb.Helper()
	value := os.Getenv(name)
	if value == "" {
		lacks(tb, name+" is not set")
	}
	return value
}

// Installed returns the path of a program that .ci/services installs, by a pattern in its folder, such as "weaviate-*/weaviate-server";
// of several versions the last. Where there is none the test is skipped, or fails, as with [Env].
func Installed(tb testing.TB, pattern string) string {
	tb.Helper()
	folder := filepath.Join(cacheFolder(tb), "services")
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		tb.Fatal(err)
	}
	if len(found) == 0 {
		lacks(tb, "there is no "+pattern+" in "+folder)
	}
	return slices.Max(found)
}

// lacks skips the test for what is missing; with REQUIRE_SERVICES=1 that is a failure.
func lacks(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("REQUIRE_SERVICES") == "1" {
		tb.Fatalf("REQUIRE_SERVICES=1, but %s", what)
	}
	tb.Skip(what)
}
