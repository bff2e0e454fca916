// Package murmur3 is the hash that Pulsar's clients and brokers share.
package murmur3

import (
	"encoding/binary"
	"math/bits"
)

// Sum31 is MurmurHash3_x86_32 with seed 0, without its highest bit: the clients' Murmur3_32Hash.
func Sum31(key string) uint32 {
	h, rest := uint32(0), key
	for ; len(rest) >= 4; rest = rest[4:] {
		h = bits.RotateLeft32(h^mix(binary.LittleEndian.Uint32([]byte(rest[:4]))), 13)*5 + 0xe6546b64
	}
	var tail uint32
	for i := range len(rest) {
		tail |= uint32(rest[i]) << (8 * i)
	}
	h ^= mix(tail) ^ uint32(len(key))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return (h ^ h>>16) & 0x7fffffff
}

func mix(block uint32) uint32 { return bits.RotateLeft32(block*0xcc9e2d51, 15) * 0x1b873593 }
