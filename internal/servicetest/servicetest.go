// Package servicetest gives tests the real systems that they run against: their addresses, and a Debezium of their own.
package servicetest

import (
	"os"
	"testing"
)

// Env returns the environment variable name, which says where a real system is. Where it is unset the test is skipped, by that
// name; with REQUIRE_SERVICES=1 that is a failure.
func Env(tb testing.TB, name string) string {
	tb.Helper()
	value := os.Getenv(name)
	switch {
	case value != "":
	case os.Getenv("REQUIRE_SERVICES") == "1":
		tb.Fatalf("REQUIRE_SERVICES=1, but %s is not set", name)
	default:
		tb.Skipf("%s is not set", name)
	}
	return value
}
