package servicetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns a seed that is another one in each run, or the one in TIDEMARK_SEED. A test that fails says with which it does so again.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("run it again with TIDEMARK_SEED=%d", seed)
		}
	})
	return seed
}
