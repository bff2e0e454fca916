package murmur3_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx/internal/murmur3"
)

// TestSum31: the first two are vectors of Pulsar's Java and C++ tests; the others were computed with pulsar-client-go.
func TestSum31(t *testing.T) {
	for key, want := range map[string]uint32{
		"k1": 2110152746, "k2": 1479966664, "key1": 462881061, "key2": 1936800180, "": 0,
	} {
		if got := murmur3.Sum31(key); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
	key := string(make([]byte, 100))
	if n := testing.AllocsPerRun(100, func() { murmur3.Sum31(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
