package window

import (
	"math/bits"
	"reflect"
	"slices"
	"unsafe"
)

// ranked is a key by a number in the order of the keys, equal ones aside, so that sorting looks at few keys.
type ranked struct {
	prefix uint64
	id     int32
}

// ordering makes these numbers: the integers themselves, and of strings the eight bytes behind what all that were seen have in common.
type ordering[K Key] struct {
	number func(K) uint64 // nil for strings
	common string
	known  bool // common is set
}

func newOrdering[K Key]() ordering[K] { return ordering[K]{number: numberOf[K]()} }

// numberOf maps integers to numbers in the same order; nil for strings.
func numberOf[K Key]() func(K) uint64 {
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		return nil
	case reflect.Uint32:
		return func(k K) uint64 { return uint64(*(*uint32)(unsafe.Pointer(&k))) }
	case reflect.Uint64:
		return func(k K) uint64 { return *(*uint64)(unsafe.Pointer(&k)) }
	case reflect.Int32:
		return func(k K) uint64 { return uint64(*(*int32)(unsafe.Pointer(&k))) ^ 1<<63 }
	case reflect.Int64:
		return func(k K) uint64 { return uint64(*(*int64)(unsafe.Pointer(&k))) ^ 1<<63 }
	}
	return func(k K) uint64 { return uint64(*(*int)(unsafe.Pointer(&k))) ^ 1<<63 }
}

// see notes a new key.
func (o *ordering[K]) see(k K) {
	if o.number != nil {
		return
	}
	s := *(*string)(unsafe.Pointer(&k)) // K's kind is string
	if !o.known {
		o.common, o.known = s, true
	}
	n := 0
	for n < len(o.common) && n < len(s) && s[n] == o.common[n] {
		n++
	}
	o.common = o.common[:n]
}

// prefix is the key's number. For strings it holds until another key has less in common with the others.
func (o *ordering[K]) prefix(k K) uint64 {
	if o.number != nil {
		return o.number(k)
	}
	s := (*(*string)(unsafe.Pointer(&k)))[len(o.common):]
	if len(s) >= 8 {
		b := s[:8]
		return uint64(b[0])<<56 | uint64(b[1])<<48 | uint64(b[2])<<40 | uint64(b[3])<<32 |
			uint64(b[4])<<24 | uint64(b[5])<<16 | uint64(b[6])<<8 | uint64(b[7])
	}
	var p uint64
	for i := range len(s) {
		p |= uint64(s[i]) << (56 - 8*i)
	}
	return p
}

// inOrder sorts ids by their keys. The result is valid until the next call.
func (t *keyTable[K, A]) inOrder(ids []int32) []ranked {
	t.ranks = t.ranks[:0]
	for _, id := range ids {
		t.ranks = append(t.ranks, ranked{t.order.prefix(t.at(id).key), id})
	}
	t.sortRanks()
	return t.ranks
}

// radixFrom is how many keys are worth a radix sort.
const radixFrom = 512

func (t *keyTable[K, A]) sortRanks() {
	if len(t.ranks) < radixFrom {
		slices.SortFunc(t.ranks, t.compare)
		return
	}
	t.ranks, t.spare = radix(t.ranks, t.spare)
	if t.order.number != nil {
		return
	}
	for i := 0; i < len(t.ranks); { // strings that are equal so far
		j := i + 1
		for j < len(t.ranks) && t.ranks[j].prefix == t.ranks[i].prefix {
			j++
		}
		if j > i+1 {
			slices.SortFunc(t.ranks[i:j], t.compare)
		}
		i = j
	}
}

func (t *keyTable[K, A]) compare(a, b ranked) int {
	switch {
	case a.prefix < b.prefix:
		return -1
	case a.prefix > b.prefix:
		return 1
	case a.id == b.id:
		return 0
	}
	if t.at(a.id).key < t.at(b.id).key {
		return -1
	}
	return 1
}

// radix sorts by the bytes of the prefix that differ, the least first. It returns the sorted ones and the room for another time.
func radix(from, to []ranked) (sorted, spare []ranked) {
	var differ uint64
	for i := range from {
		differ |= from[i].prefix ^ from[0].prefix
	}
	to = slices.Grow(to[:0], len(from))[:len(from)]
	const digit = 11
	for shift := bits.TrailingZeros64(differ); shift < bits.Len64(differ); shift += digit {
		var starts [1 << digit]int32
		for i := range from {
			starts[from[i].prefix>>shift&(1<<digit-1)]++
		}
		n := int32(0)
		for i := range starts {
			starts[i], n = n, n+starts[i]
		}
		for i := range from {
			at := &starts[from[i].prefix>>shift&(1<<digit-1)]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
	}
	return from, to
}
