package tokenizer

import "unicode/utf8"

// byteChars are the characters that stand for bytes on the byte level, as GPT-2 has them: printable ASCII and Latin-1 characters
// stand for themselves, the other bytes, in order, for the characters from U+0100 on.
var byteChars = func() (chars [256]rune) {
	next := rune(0x100)
	for b := range rune(len(chars)) {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			chars[b] = b
		} else {
			chars[b] = next
			next++
		}
	}
	return chars
}()

// appendBytes appends what stands for the bytes of chars.
func appendBytes(dst, chars []char) []char {
	for _, c := range chars {
		if c.r < utf8.RuneSelf {
			dst = append(dst, char{byteChars[c.r], c.start, c.end})
			continue
		}
		var bytes [utf8.UTFMax]byte
		for _, b := range bytes[:utf8.EncodeRune(bytes[:], c.r)] {
			dst = append(dst, char{byteChars[b], c.start, c.end})
		}
	}
	return dst
}

// byteNormalizer brings a text to the byte level.
func byteNormalizer(t *text) {
	t.spare = appendBytes(t.spare[:0], t.chars)
	t.swap()
}

// byteLevel brings words to the byte level, split by GPT-2's pattern before, where that is not nil.
type byteLevel struct {
	prefix  bool // a space goes before a word that begins with none
	pattern preTokenizer
}

func (b byteLevel) split(w *words) {
	if b.prefix {
		w.rewrite(func(dst, chars []char) []char { return append(addPrefix(dst, chars, ' '), chars...) })
	}
	if b.pattern != nil {
		b.pattern.split(w)
	}
	w.rewrite(appendBytes)
}

// addPrefix appends r, unless chars begin with it. It counts as a part of the first of chars.
func addPrefix(dst, chars []char, r rune) []char {
	if chars[0].r == r {
		return dst
	}
	return append(dst, char{r, chars[0].start, chars[0].end})
}

// scheme says which words Metaspace puts its character before.
type scheme int

const (
	always scheme = iota
	first         // those at the beginning of the text
	never
)

var schemes = map[string]scheme{"always": always, "first": first, "never": never}

// metaspace writes a character, U+2581 as a rule, for spaces and before words, and splits before it.
type metaspace struct {
	replacement rune
	prepend     scheme
	splits      preTokenizer // nil: it does not split
}

func (m metaspace) split(w *words) {
	w.rewrite(func(dst, chars []char) []char {
		if r := chars[0].r; r != ' ' && (m.prepend == always || m.prepend == first && chars[0].start == 0) {
			dst = addPrefix(dst, chars, m.replacement)
		}
		for _, c := range chars {
			if c.r == ' ' {
				c.r = m.replacement
			}
			dst = append(dst, c)
		}
		return dst
	})
	if m.splits != nil {
		m.splits.split(w)
	}
}
