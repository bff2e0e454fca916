package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// precompiled is SentencePiece's normalizer: a double-array trie (as Darts-clone writes it) from characters, or several of them,
// to what they become.
type precompiled struct {
	units []uint32
	texts []byte // what characters become, each ended by NUL; the trie's values are places in it
}

// newPrecompiled reads a charsmap: the size of the trie in bytes, 32 bits little-endian, the trie, the texts.
func newPrecompiled(data []byte) (*precompiled, error) {
	if len(data) < 4 {
		return nil, errors.New("it is too short for a charsmap")
	}
	size := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if size%4 != 0 || uint64(size) > uint64(len(data)) {
		return nil, fmt.Errorf("a trie of %d bytes in a charsmap of %d", size, len(data))
	}
	p := &precompiled{units: make([]uint32, size/4), texts: data[size:]}
	for i := range p.units {
		p.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.Valid(p.texts) {
		return nil, errors.New("texts that are not UTF-8")
	}
	return p, nil
}

// lookup returns what the shortest beginning of s that the trie has becomes. That it is the shortest, and stands for all of s,
// is the original's way.
func (p *precompiled) lookup(s []byte) (text []byte, ok bool) {
	at := uint32(0)
	unit, ok := p.unit(at)
	if !ok {
		return nil, false
	}
	at ^= offsetOf(unit)
	for _, b := range s {
		if b == 0 {
			return nil, false
		}
		at ^= uint32(b)
		if unit, ok = p.unit(at); !ok || unit&(1<<31|0xff) != uint32(b) {
			return nil, false
		}
		at ^= offsetOf(unit)
		if unit&(1<<8) == 0 {
			continue // no key ends here
		}
		value, ok := p.unit(at)
		from := int(value & (1<<31 - 1))
		if !ok || from > len(p.texts) {
			return nil, false
		}
		text = p.texts[from:]
		if end := slices.Index(text, 0); end >= 0 {
			text = text[:end]
		}
		return text, utf8.Valid(text)
	}
	return nil, false
}

func (p *precompiled) unit(at uint32) (uint32, bool) {
	if uint64(at) >= uint64(len(p.units)) {
		return 0, false
	}
	return p.units[at], true
}

// offsetOf is how far the children of a unit of a double array are from it.
func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// maxGrapheme bounds the bytes of a grapheme cluster that is looked up as a whole; the characters of a larger one are looked up
// by themselves.
const maxGrapheme = 5

func (p *precompiled) normalize(t *text) {
	t.bytes = t.bytes[:0]
	for _, c := range t.chars {
		t.bytes = utf8.AppendRune(t.bytes, c.r)
	}
	f := &t.forms
	f.changes = f.changes[:0]
	for clusters := graphemes.FromBytes(t.bytes); clusters.Next() && len(f.changes) <= t.limit; {
		cluster := clusters.Value()
		if text, ok := p.lookup(cluster); ok && len(cluster) <= maxGrapheme {
			f.append(text, utf8.RuneCount(cluster))
			continue
		}
		for len(cluster) > 0 {
			_, size := utf8.DecodeRune(cluster)
			text, ok := p.lookup(cluster[:size])
			if !ok {
				text = cluster[:size]
			}
			f.append(text, 1)
			cluster = cluster[size:]
		}
	}
	t.transform(f.changes)
}
