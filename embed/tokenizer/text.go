package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// char is a character and the bytes of the original text, from start to end, that it comes from.
type char struct {
	r          rune
	start, end int32
}

// decodeText appends the characters of s. Bytes that are not UTF-8 become U+FFFD, one for each maximal subpart of an
// ill-formed sequence (The Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts").
func decodeText(dst []char, s string) []char {
	dst = slices.Grow(dst, len(s))
	for i := 0; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				size = subpart(s[i:])
			}
		}
		dst = append(dst, char{r, int32(i), int32(i + size)})
		i += size
	}
	return dst
}

// subpart returns the length of the maximal subpart of an ill-formed sequence at the beginning of s: the longest prefix that
// begins some well-formed one (table 3-7 of The Unicode Standard), or 1.
func subpart(s string) int {
	var length int
	low, high := byte(0x80), byte(0xbf)
	switch b := s[0]; {
	case b >= 0xc2 && b <= 0xdf:
		length = 2
	case b >= 0xe0 && b <= 0xef:
		length = 3
	case b >= 0xf0 && b <= 0xf4:
		length = 4
	}
	switch s[0] {
	case 0xe0:
		low = 0xa0
	case 0xed:
		high = 0x9f
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n < length && n < len(s) && s[n] >= low && s[n] <= high {
		n++
		low, high = 0x80, 0xbf
	}
	return n
}

// maxGrowth bounds how many times as long normalizers may make a text, besides the first 64 Ki characters. Nothing that is in
// use comes near: compatibility decompositions have up to 18 characters.
const maxGrowth = 64

// text is a piece of text while it is normalized.
type text struct {
	chars   []char
	spare   []char
	forms   forms
	columns columns
	bytes   []byte
	limit   int  // of characters; a normalizer that may make a text as long as it likes stops behind it
	grown   bool // the text was longer than limit, and is not whole
}

// normalize makes a copy of chars the text and normalizes it. It reports whether the text stayed within maxGrowth.
func (t *text) normalize(n normalizer, chars []char) bool {
	t.chars = append(t.chars[:0], chars...)
	t.limit, t.grown = maxGrowth*len(chars)+1<<16, false
	if n != nil {
		n.normalize(t)
	}
	return !t.grown
}

// swap makes the spare buffer the text.
func (t *text) swap() {
	t.chars, t.spare = t.spare, t.chars
	t.grown = t.grown || len(t.chars) > t.limit
}

// filter keeps the characters that keep says.
func (t *text) filter(keep func(r rune) bool) {
	out := t.chars[:0]
	for _, c := range t.chars {
		if keep(c.r) {
			out = append(out, c)
		}
	}
	t.chars = out
}

// forms has the buffers of the Unicode normalization forms.
type forms struct {
	changes  []change
	composed []change
	runes    []rune
}

// append appends the characters of s, which take the place of the next old ones of the text. Where they are fewer, the last has
// the place of the rest; nothing at the beginning of a text leaves the places of all that follows one off, as in the original.
func (f *forms) append(s []byte, old int) {
	added := 0
	for ; len(s) > 0; added++ {
		r, size := utf8.DecodeRune(s)
		ch := change{r: r}
		if added >= old {
			ch.count = 1
		}
		f.changes = append(f.changes, ch)
		s = s[size:]
	}
	if last := len(f.changes) - 1; added < old && last >= 0 {
		f.changes[last].count -= int32(old - added)
	}
}

// change is a character of a normalized text. count says what it takes the place of: 1 of nothing, it was inserted behind the
// one before; 0 of the next character of the old text; -n of the next one and the n after it. A character has the range of
// bytes of the first that it takes the place of, an inserted one that of the character before.
type change struct {
	r     rune
	count int32
	class uint8
}

// normalForm brings t into a Unicode normalization form (UAX 15): NFD or NFKD, and with compose NFC or NFKC.
func (t *text) normalForm(compatibility, composed bool) {
	if !slices.ContainsFunc(t.chars, func(c char) bool { return c.r >= 0xa0 }) {
		return // no form changes ASCII or the C1 controls
	}
	f := &t.forms
	f.decompose(t.chars, compatibility)
	changes := f.changes
	if composed {
		f.compose()
		changes = f.composed
	}
	t.transform(changes)
}

// transform makes the characters of changes the text.
func (t *text) transform(changes []change) {
	t.spare = t.spare[:0]
	next := 0
	for _, ch := range changes {
		c := char{r: ch.r}
		switch {
		case ch.count <= 0:
			c.start, c.end = t.chars[next].start, t.chars[next].end
			next += 1 - int(ch.count)
		case next > 0:
			c.start, c.end = t.chars[next-1].start, t.chars[next-1].end
		default:
			c.start, c.end = t.chars[0].start, t.chars[0].start
		}
		t.spare = append(t.spare, c)
	}
	t.swap()
}

// decompose fills changes with the decomposition of chars in canonical order.
func (f *forms) decompose(chars []char, compatibility bool) {
	f.changes = f.changes[:0]
	run, sorted := 0, true // where the last run of combining characters begins, and whether it is in order
	endRun := func() {
		if !sorted {
			slices.SortStableFunc(f.changes[run:], func(a, b change) int { return int(a.class) - int(b.class) })
		}
		sorted = true
	}
	for _, c := range chars {
		f.runes = f.runes[:0]
		if c.r < utf8.RuneSelf {
			f.runes = append(f.runes, c.r)
		} else {
			f.runes = decompose(f.runes, c.r, compatibility)
		}
		for i, r := range f.runes {
			ch := change{r: r, count: int32(min(i, 1))}
			if properties[r]&combines != 0 {
				ch.class = classes[r]
			}
			if ch.class == 0 {
				endRun()
				run = len(f.changes) + 1
			} else if len(f.changes) > run && f.changes[len(f.changes)-1].class > ch.class {
				sorted = false
			}
			f.changes = append(f.changes, ch)
		}
	}
	endRun()
}

// compose fills composed with the canonical composition of changes.
func (f *forms) compose() {
	f.composed = f.composed[:0]
	starter := -1    // where the last starter stands in composed
	last := uint8(0) // the class of the last character behind the starter that did not compose with it
	for _, ch := range f.changes {
		if starter >= 0 && (last == 0 || last < ch.class) {
			s := &f.composed[starter]
			if r, ok := compose(s.r, ch.r); ok {
				s.r, s.count = r, s.count+ch.count-1
				continue
			}
		}
		if ch.class == 0 {
			starter, last = len(f.composed), 0
		} else {
			last = ch.class
		}
		f.composed = append(f.composed, ch)
	}
}
