package tokenizer

import (
	_ "embed"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// tables is what the original says about code points; the file says how to read it.
//
//go:embed tables.txt
var tables string

// property is a set of things that hold for a code point.
type property uint16

const (
	control property = 1 << iota
	space
	nonspacing
	punctuation
	mark
	word
	numeric
	letter     // of general category L
	number     // of general category N
	lowers     // it has another lowercase
	decomposes // it has a canonical decomposition
	combines   // its canonical combining class is not 0
	cased      // another differs from it by case alone
)

// The tables as they are looked up. Parse fills them before the first Tokenizer exists; nothing changes them afterwards.
var (
	properties  [utf8.MaxRune + 1]property
	lowerOf     = map[rune][]rune{}
	canonicals  = map[rune][]rune{}
	compatibles = map[rune][]rune{}
	classes     = map[rune]uint8{}
	kinds       [utf8.MaxRune + 1]uint8 // what regular expressions tell apart
	kindNames   = [][]string{nil}       // by kind: its general category and the first letter of that, its script and classes
	composites  = map[[2]rune]rune{}
	folds       = map[rune][]rune{}   // what becomes of a character, or several, where case is none
	alikes      = map[string][]rune{} // by what becomes of them: all that differ by case alone
	scripts     []scriptRange         // in order
)

// scriptRange are characters of a script, by its number.
type scriptRange struct {
	first, last rune
	script      rune
}

var fillTables = sync.OnceFunc(func() {
	sections := map[string]func(left, right []rune){
		"control": markAll(control), "space": markAll(space), "nonspacing": markAll(nonspacing), "mark": markAll(mark),
		"punctuation": markAll(punctuation), "word": markAll(word), "numeric": markAll(numeric),
		"classes": func(left, right []rune) {
			for r := left[0]; r <= left[len(left)-1]; r++ {
				classes[r] = uint8(right[0])
			}
			markAll(combines)(left, nil)
		},
		"lower":      fill(lowerOf, lowers),
		"canonical":  fill(canonicals, decomposes),
		"compatible": fill(compatibles, 0),
		"fold": func(left, right []rune) {
			folds[left[0]] = right
			if alike := string(right); len(alikes[alike]) == 0 && len(right) == 1 {
				addAlike(right[0], alike)
			}
			addAlike(left[0], string(right))
		},
		"scripts": func(left, right []rune) {
			scripts = append(scripts, scriptRange{left[0], left[len(left)-1], right[0]})
		},
		"compositions": func(left, right []rune) { composites[[2]rune{left[0], left[1]}] = right[0] },
	}
	var read func(left, right []rune)
	for line := range strings.Lines(tables) {
		switch line[0] {
		case '#':
		case '[':
			name, names, _ := strings.Cut(line[1:], "]")
			if read = sections[name]; name == "kind" {
				read = newKind(strings.Fields(names))
			}
		default:
			for entry := range strings.FieldsSeq(line) {
				left, right, _ := strings.Cut(entry, "=")
				read(codePoints(left), codePoints(right))
			}
		}
	}
	markAll(decomposes)([]rune{hangulFirst, hangulLast}, nil)
})

// addAlike adds a character to those of which the same becomes where case is none.
func addAlike(r rune, folded string) {
	alikes[folded] = append(alikes[folded], r)
	properties[r] |= cased
}

// markAll returns what gives a code point, or a range of them, a property.
func markAll(p property) func(left, right []rune) {
	return func(left, _ []rune) {
		for r := left[0]; r <= left[len(left)-1]; r++ {
			properties[r] |= p
		}
	}
}

// newKind returns what gives a code point, or a range of them, a new kind.
func newKind(names []string) func(left, right []rune) {
	kind := uint8(len(kindNames))
	category := names[0][:1]
	kindNames = append(kindNames, append(names, category))
	markCategory := markAll(map[string]property{"l": letter, "n": number}[category])
	return func(left, right []rune) {
		for r := left[0]; r <= left[len(left)-1]; r++ {
			kinds[r] = kind
		}
		markCategory(left, right)
	}
}

// fill returns what puts a code point and what becomes of it into m, and gives it a property.
func fill(m map[rune][]rune, p property) func(left, right []rune) {
	return func(left, right []rune) {
		m[left[0]] = right
		properties[left[0]] |= p
	}
}

// codePoints reads the numbers on one side of an entry of the tables.
func codePoints(s string) []rune {
	var all []rune
	for number := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '.' }) {
		n, err := strconv.ParseUint(number, 16, 32)
		if err != nil {
			panic("tokenizer: tables.txt: " + err.Error()) // the file is part of the program
		}
		all = append(all, rune(n))
	}
	return all
}

// noScript is the script of a character without one.
const noScript rune = -1

// scriptOf returns the number of a character's script.
func scriptOf(r rune) rune {
	i := sort.Search(len(scripts), func(i int) bool { return scripts[i].last >= r })
	if i == len(scripts) || scripts[i].first > r {
		return noScript
	}
	return scripts[i].script
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
