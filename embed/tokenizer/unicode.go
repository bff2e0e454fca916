package tokenizer

import (
	"sort"
	"sync"
	"unicode/utf8"
)

// runeSet is a set of code points: ranges in order, both ends included.
type runeSet []runeRange

type runeRange struct{ first, last rune }

func (s runeSet) has(r rune) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].last >= r })
	return i < len(s) && s[i].first <= r
}

// classRun gives a range of code points their canonical combining class.
type classRun struct {
	first, last rune
	class       uint8
}

// lowerRun gives every step-th code point of a range its lowercase, delta away.
type lowerRun struct{ first, last, delta, step rune }

// property is a set of things that hold for a code point.
type property uint8

const (
	control property = 1 << iota
	space
	nonspacing
	punctuation
	word
	lowers     // it has another lowercase
	decomposes // it has a canonical decomposition
	combines   // its canonical combining class is not 0
)

// The tables as they are looked up. Parse fills them before the first Tokenizer exists; nothing changes them afterwards.
var (
	properties  [utf8.MaxRune + 1]property
	lowerOf     = map[rune][]rune{}
	canonicals  = map[rune][]rune{}
	compatibles = map[rune][]rune{}
	classes     = map[rune]uint8{}
	composites  = map[[2]rune]rune{}
)

var fillTables = sync.OnceFunc(func() {
	sets := map[property]runeSet{
		control: controlSet, space: spaceSet, nonspacing: nonspacingSet, punctuation: punctuationSet, word: wordSet,
	}
	for p, set := range sets {
		for _, s := range set {
			mark(s.first, s.last, 1, p)
		}
	}
	for _, run := range combiningClasses {
		mark(run.first, run.last, 1, combines)
		for r := run.first; r <= run.last; r++ {
			classes[r] = run.class
		}
	}
	for _, run := range lowerRuns {
		mark(run.first, run.last, run.step, lowers)
		for r := run.first; r <= run.last; r += run.step {
			lowerOf[r] = []rune{r + run.delta}
		}
	}
	fillMapping(lowerOf, lowerLong[:], lowers)
	fillMapping(canonicals, canonical[:], decomposes)
	fillMapping(compatibles, compatible[:], 0)
	for _, s := range compositions {
		r := []rune(s)
		composites[[2]rune{r[0], r[1]}] = r[2]
	}
	mark(hangulFirst, hangulLast, 1, decomposes)
})

func mark(first, last, step rune, p property) {
	for r := first; r <= last; r += step {
		properties[r] |= p
	}
}

// fillMapping reads strings of a code point and what becomes of it.
func fillMapping(m map[rune][]rune, table []string, p property) {
	for _, s := range table {
		r := []rune(s)
		m[r[0]] = r[1:]
		properties[r[0]] |= p
	}
}

// ideograph reports whether BERT takes r as a Chinese character: the blocks of CJK ideographs up to Unicode 8, with a gap
// (U+2B820 to U+2B91F) that the original has.
func ideograph(r rune) bool {
	return r >= 0x3400 && (r >= 0x4e00 && r <= 0x9fff || r <= 0x4dbf ||
		r >= 0x20000 && r <= 0x2a6df || r >= 0x2a700 && r <= 0x2b73f || r >= 0x2b740 && r <= 0x2b81f ||
		r >= 0x2b920 && r <= 0x2ceaf || r >= 0xf900 && r <= 0xfaff || r >= 0x2f800 && r <= 0x2fa1f)
}

// Hangul syllables are composed by arithmetic: The Unicode Standard, section 3.12.
const (
	hangulFirst, hangulLast      = 0xac00, 0xd7a3
	jamoL, jamoV, jamoT          = 0x1100, 0x1161, 0x11a7
	countL, countV, countT       = 19, 21, 28
	syllablesPerLead        rune = countV * countT
)

// decompose appends the full decomposition of r, canonical or for compatibility.
func decompose(dst []rune, r rune, compatibility bool) []rune {
	switch {
	case r >= hangulFirst && r <= hangulLast:
		i := r - hangulFirst
		dst = append(dst, jamoL+i/syllablesPerLead, jamoV+i%syllablesPerLead/countT)
		if t := i % countT; t > 0 {
			dst = append(dst, jamoT+t)
		}
		return dst
	case compatibility && len(compatibles[r]) > 0:
		return append(dst, compatibles[r]...)
	case properties[r]&decomposes != 0:
		return append(dst, canonicals[r]...)
	}
	return append(dst, r)
}

// compose returns the primary composite of a pair.
func compose(a, b rune) (rune, bool) {
	if a >= jamoL && a < jamoL+countL && b >= jamoV && b < jamoV+countV {
		return hangulFirst + (a-jamoL)*syllablesPerLead + (b-jamoV)*countT, true
	}
	if a >= hangulFirst && a <= hangulLast && (a-hangulFirst)%countT == 0 && b > jamoT && b < jamoT+countT {
		return a + b - jamoT, true
	}
	c, ok := composites[[2]rune{a, b}]
	return c, ok
}
