package servicetest

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed of what a test makes at random: TIDEMARK_SEED, or 1, so that each run without it is the same.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("TIDEMARK_SEED"), "1"), 10, 64)
	if err != nil {
		tb.Fatalf("TIDEMARK_SEED: %v", err)
	}
	return seed
}
