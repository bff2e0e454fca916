package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// charset is a class of characters of a regular expression. It is asked with the kind of a character beside it, so that one
// character can stand for all of a kind.
type charset func(r rune, kind uint8) bool

func (s charset) negated() charset { return func(r rune, k uint8) bool { return !s(r, k) } }

func (s charset) or(o charset) charset {
	return func(r rune, k uint8) bool { return s(r, k) || o(r, k) }
}

func (s charset) and(o charset) charset {
	return func(r rune, k uint8) bool { return s(r, k) && o(r, k) }
}

func emptySet(rune, uint8) bool { return false }

// between are the characters from one to another.
func between(low, high rune) charset {
	return func(r rune, _ uint8) bool { return r >= low && r <= high }
}

// shortNames are those of the classes that have long ones besides.
var shortNames = map[string]string{
	"letter": "l", "uppercaseletter": "lu", "lowercaseletter": "ll", "titlecaseletter": "lt", "modifierletter": "lm", "otherletter": "lo",
	"mark": "m", "nonspacingmark": "mn", "spacingmark": "mc", "enclosingmark": "me",
	"number": "n", "decimalnumber": "nd", "letternumber": "nl", "othernumber": "no", "digit": "nd",
	"punctuation": "p", "punct": "p", "symbol": "s", "separator": "z", "other": "c", "control": "cc", "unassigned": "cn",
	"alphabetic": "alpha", "uppercase": "upper", "lowercase": "lower", "whitespace": "space",
}

// namedSet are the characters of a general category, such as L or Nd, of a script, or of a class of POSIX.
func namedSet(name string) (charset, error) {
	name = strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(name))
	if short, ok := shortNames[name]; ok {
		name = short
	}
	switch name {
	case "alnum":
		return kindSet("alpha").or(kindSet("nd")), nil
	case "xdigit":
		return between('0', '9').or(between('a', 'f')).or(between('A', 'F')), nil
	case "ascii":
		return between(0, 0x7f), nil
	case "any":
		return charset(emptySet).negated(), nil
	}
	s := kindSet(name)
	if !slices.ContainsFunc(kindNames, func(names []string) bool { return slices.Contains(names, name) }) {
		return nil, fmt.Errorf("the class %.100q", name)
	}
	return s, nil
}

// kindSet are the characters whose kind has a name.
func kindSet(name string) charset {
	return func(_ rune, k uint8) bool { return slices.Contains(kindNames[k], name) }
}

// masks say for each character which of up to 64 charsets it is in, a bit for each. They differ by the character's kind, and by the
// characters that the sets name, at which a new row begins.
type masks struct {
	ascii [utf8.RuneSelf]uint64
	cased map[rune]uint64 // of characters that differ from others by case alone, where some sets are folded
	rows  []rune          // where each begins; the first at 0
	kinds [][]uint64
}

// newMasks makes the masks of sets, which name the given characters, in order: each is the first of a range or the first behind one. For
// characters that are cased, and for ASCII, there are others where some are folded.
func newMasks(sets, casedSets []charset, folded bool, bounds []rune) masks {
	m := masks{rows: []rune{0}}
	for _, r := range bounds {
		if r >= utf8.RuneSelf {
			m.rows = append(m.rows, r)
		}
	}
	of := func(sets []charset, r rune, k uint8) (mask uint64) {
		for i, s := range sets {
			if s(r, k) {
				mask |= 1 << i
			}
		}
		return mask
	}
	for r := range m.ascii {
		m.ascii[r] = of(casedSets, rune(r), kinds[r])
	}
	if folded {
		m.cased = map[rune]uint64{}
		for _, alike := range alikes {
			for _, r := range alike {
				m.cased[r] = of(casedSets, r, kinds[r])
			}
		}
	}
	for _, first := range m.rows {
		row := make([]uint64, len(kindNames))
		for k := range row {
			row[k] = of(sets, max(first, utf8.RuneSelf), uint8(k))
		}
		m.kinds = append(m.kinds, row)
	}
	return m
}

func (m *masks) of(r rune) uint64 {
	if r < utf8.RuneSelf {
		return m.ascii[r]
	}
	if m.cased != nil && properties[r]&cased != 0 {
		return m.cased[r]
	}
	row := len(m.rows) - 1
	for m.rows[row] > r {
		row--
	}
	return m.kinds[row][kinds[r]]
}
