package tokenizer

import (
	"fmt"
	"slices"
)

// bpe is byte-pair encoding: the characters of a word are joined, pair by pair, the pair that was learned first before others
// and the left one before the right, until there is no pair that was learned.
type bpe struct {
	vocabulary *trie
	tokens     int
	merges     pairs
	unknown    string // "": a character that is not in the vocabulary vanishes
	unknownID  int32  // none where the vocabulary lacks it
	fused      bool   // unknown characters side by side are one token
	inside     uint32 // of the trie, behind the prefix that all characters but the first of a word have
	continues  bool   // whether any token has that prefix
	suffix     []rune // what the last character of a word has behind it
	whole      bool   // a word that is a token is that token, whatever was learned
	bytes      *[256]int32
}

// symbol is a part of a word that has been joined so far.
type symbol struct {
	id       int32
	from, to int32 // the characters of the word
	previous int32 // the places of the neighbours; none at the ends
	next     int32
}

// merge is a pair of neighbours that may be joined.
type merge struct {
	rank, at int32
	id       int32 // of what they become
}

func (m merge) before(o merge) bool { return m.rank < o.rank || m.rank == o.rank && m.at < o.at }

func (m *bpe) id(token []rune) int32 { return m.vocabulary.value(token) }

func (m *bpe) size() int { return m.tokens }

func (m *bpe) encode(s *scratch, word []char) error {
	if m.whole {
		if id, n := m.vocabulary.longest(0, word); n == len(word) {
			s.out.token(id, word)
			return nil
		}
	}
	if err := m.spell(s, word); err != nil {
		return err
	}
	m.join(s)
	for at := range s.symbols {
		if sym := s.symbols[at]; sym.to > sym.from {
			m.add(s, sym, word)
		}
	}
	return nil
}

func (m *bpe) add(s *scratch, sym symbol, word []char) {
	if chars := word[sym.from:sym.to]; sym.id == m.unknownID {
		s.out.unknown(sym.id, chars)
	} else {
		s.out.token(sym.id, chars)
	}
}

// spell makes symbols of the characters of a word.
func (m *bpe) spell(s *scratch, word []char) error {
	s.symbols = s.symbols[:0]
	lastUnknown := false
	for i, c := range word {
		sym := symbol{id: m.character(word, i), from: int32(i), to: int32(i + 1)}
		if sym.id != none {
			s.symbols, lastUnknown = append(s.symbols, sym), false
			continue
		}
		if m.bytes != nil {
			s.symbols, lastUnknown = m.appendBytes(s.symbols, sym, c.r), false
			continue
		}
		switch {
		case m.unknown == "":
		case m.unknownID == none:
			return fmt.Errorf("%w: %q", ErrNoUnknownToken, m.unknown)
		case m.fused && lastUnknown:
			s.symbols[len(s.symbols)-1].to = sym.to
		default:
			sym.id, lastUnknown = m.unknownID, true
			s.symbols = append(s.symbols, sym)
		}
	}
	return nil
}

// character returns the id of a character of a word, with the prefix or suffix of its place.
func (m *bpe) character(word []char, i int) int32 {
	node := uint32(0)
	if i > 0 {
		if !m.continues {
			return none
		}
		node = m.inside
	}
	e, ok := m.vocabulary.next(node, word[i].r)
	if ok && i == len(word)-1 && len(m.suffix) > 0 {
		e, ok = m.vocabulary.walk(e.node, m.suffix)
	}
	if !ok {
		return none
	}
	return e.value
}

// appendBytes appends the tokens of the bytes of a character.
func (m *bpe) appendBytes(dst []symbol, sym symbol, r rune) []symbol {
	for _, b := range []byte(string(r)) {
		sym.id = m.bytes[b]
		dst = append(dst, sym)
	}
	return dst
}

// maxScanned is the longest word, in symbols, whose next pair is looked for among all its pairs: for short words that is faster
// than keeping the pairs in a heap, and for long ones it takes quadratic time.
const maxScanned = 40

// join joins the symbols of a word. Those that are gone are left without characters.
func (m *bpe) join(s *scratch) {
	switch n := len(s.symbols); {
	case n < 2:
	case n <= maxScanned:
		m.joinShort(s)
	default:
		m.joinLong(s)
	}
}

// joinShort keeps the symbols side by side, and with each the pair that it is the left one of.
func (m *bpe) joinShort(s *scratch) {
	syms := s.symbols
	s.merges = s.merges[:0]
	for i := range syms[1:] {
		s.merges = append(s.merges, m.merges.find(syms[i].id, syms[i+1].id))
	}
	merges := s.merges
	for {
		best := 0
		for i := range merges {
			if merges[i].rank < merges[best].rank {
				best = i
			}
		}
		if len(merges) == 0 || merges[best].rank == noRank {
			s.symbols = syms
			return
		}
		syms[best].id, syms[best].to = merges[best].id, syms[best+1].to
		syms = slices.Delete(syms, best+1, best+2)
		merges = slices.Delete(merges, best, best+1)
		if best > 0 {
			merges[best-1] = m.merges.find(syms[best-1].id, syms[best].id)
		}
		if best < len(merges) {
			merges[best] = m.merges.find(syms[best].id, syms[best+1].id)
		}
	}
}

// joinLong keeps the pairs in a heap, where those stay that are not neighbours any more.
func (m *bpe) joinLong(s *scratch) {
	s.merges = s.merges[:0]
	for i := range s.symbols {
		s.symbols[i].previous, s.symbols[i].next = int32(i-1), int32(i+1)
	}
	s.symbols[len(s.symbols)-1].next = none
	for i := range s.symbols[1:] {
		m.push(s, int32(i))
	}
	for len(s.merges) > 0 {
		top := pop(&s.merges)
		left := &s.symbols[top.at]
		if left.from == left.to || left.next == none {
			continue
		}
		right := &s.symbols[left.next]
		if m.merges.find(left.id, right.id).id != top.id {
			continue
		}
		left.id, left.to, left.next = top.id, right.to, right.next
		right.from = right.to // gone
		if left.next != none {
			s.symbols[left.next].previous = top.at
			m.push(s, top.at)
		}
		if left.previous != none {
			m.push(s, left.previous)
		}
	}
}

// push puts the pair of a symbol and its right neighbour into the heap, if it was learned.
func (m *bpe) push(s *scratch, at int32) {
	left := s.symbols[at]
	pair := m.merges.find(left.id, s.symbols[left.next].id)
	if pair.rank == noRank {
		return
	}
	pair.at = at
	heap := append(s.merges, pair)
	i := len(heap) - 1
	for i > 0 && heap[i].before(heap[(i-1)/2]) {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		i = (i - 1) / 2
	}
	s.merges = heap
}

// pop takes the first pair out of a heap.
func pop(heap *[]merge) merge {
	h := *heap
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*heap = h
	return top
}

// pairs finds what a pair of tokens becomes, in a hash table with open addressing.
type pairs struct {
	entries []pairEntry // a power of two, at most half full
}

type pairEntry struct {
	key      uint64 // the ids of both, and 1<<63; 0: free
	rank, id int32
}

const noRank = 1<<31 - 1

func pairKey(left, right int32) uint64 { return 1<<63 | uint64(left)<<31 | uint64(right) }

func newPairs(n int) pairs {
	size := 16
	for size < 2*n+2 {
		size *= 2
	}
	return pairs{entries: make([]pairEntry, size)}
}

func (p *pairs) slot(key uint64) *pairEntry {
	mask := uint64(len(p.entries) - 1)
	i := key * 0x9e3779b97f4a7c15 >> 32 & mask // Fibonacci hashing, as in the trie
	for p.entries[i].key != 0 && p.entries[i].key != key {
		i = (i + 1) & mask
	}
	return &p.entries[i]
}

// set makes a pair become id; a later rank takes the place of an earlier one.
func (p *pairs) set(left, right, rank, id int32) {
	key := pairKey(left, right)
	*p.slot(key) = pairEntry{key, rank, id}
}

// find returns what a pair becomes, with noRank and none where it was not learned.
func (p *pairs) find(left, right int32) merge {
	e := p.slot(pairKey(left, right))
	if e.key == 0 {
		return merge{rank: noRank, id: none}
	}
	return merge{rank: e.rank, id: e.id}
}
