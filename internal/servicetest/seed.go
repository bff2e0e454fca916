package servicetest

import (
	"cmp"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed of what a test makes at random: TIDEMARK_SEED, or 1, so that each run without it is the same.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	return seed(tb, "1")
}

// FreshSeed returns TIDEMARK_SEED, or a seed that is another one in each run. A test that fails says which it had.
func FreshSeed(tb testing.TB) uint64 {
	tb.Helper()
	n := seed(tb, strconv.FormatUint(rand.Uint64(), 10))
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("run it again with TIDEMARK_SEED=%d", n)
		}
	})
	return n
}

func seed(tb testing.TB, otherwise string) uint64 {
	tb.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("TIDEMARK_SEED"), otherwise), 10, 64)
	if err != nil {
		tb.Fatalf("TIDEMARK_SEED: %v", err)
	}
	return n
}
