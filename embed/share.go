package embed

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Share returns a function that selects a fraction, from 0 to 1, of all keys, always the same ones: for a canary of a new model, which
// a key then meets always or never. Shares of one salt are nested, so that a canary that grows keeps its keys; shares of different
// salts are independent. The answers are the same on every machine and in every version of this package. A fraction that is not a
// number selects nothing. The function is safe for concurrent use.
func Share(salt string, fraction float64) func(key string) bool {
	const all = 1 << 53 // as many different keys as a float64 tells apart
	limit := uint64(0)
	if fraction > 0 { // NaN is not
		limit = uint64(math.Round(min(fraction, 1) * all))
	}
	prefix := append(binary.AppendUvarint(nil, uint64(len(salt))), salt...)
	return func(key string) bool {
		sum := sha256.Sum256(append(prefix[:len(prefix):len(prefix)], key...))
		return binary.BigEndian.Uint64(sum[:])>>11 < limit
	}
}
